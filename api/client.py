"""The command line's side of REST: ask the service, print for people or as JSON, end with the right code.

In:   the service's address, what was asked for.
Out:  text or one JSON document on standard output; an exit code: 0, 1 trouble, 4 refused by a gate or by the table,
5 not done yet.
Elsewhere: names and flags (cli.py), what the fields mean (models.py).
An operation is followed until the loop has settled it, because the cluster may refuse what the last look allowed.
"""

from __future__ import annotations

import json
import sys
import time
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import httpx

from api.change.text import change_lines
from api.change.views import as_html, write_page
from api.pages.words import clock, dash, span
from migrator.findings.finding import words_of
from migrator.findings.road import BACK_REFUSED
from migrator.findings.service import (
    AGREED_TO_ANOTHER,
    GATE_CLOSED,
    NO_SUCH_THING,
    NOT_POSSIBLE_HERE,
    NOT_REMOVABLE,
    OPERATION_PENDING,
    SERVICE_SILENT,
    VERSION_MOVED,
)
from migrator.http.addresses import (
    AGREEMENT,
    AUDIT,
    AUDITS,
    CHANGE_REPORT,
    GATES,
    MIGRATION,
    MIGRATIONS,
    REPORT,
    STEPS,
)
from migrator.model.printable import printable
from state_machine.access import token_for
from state_machine.policy.phase_table import PHASES, phases_where
from state_machine.policy.phases import APPROVED, NO_CHOICE, OPERATIONS, PEOPLE, Phase, Trigger
from state_machine.policy.undo import IRREVERSIBLE

REFUSED: Final = 4
NOT_DONE_YET: Final = 5
MOVING: Final = phases_where(lambda row: row.moving)
ENDS: Final = {row.word: row.ends for row in OPERATIONS.values() if row.ends is not None}
TROUBLE: Final = 1
NO_RETURN_SAYS: Final = PHASES[Phase.FINALIZING].undo.does
TIMEOUT_S: Final = 15.0
DIGITS_LEAST: Final = 12
"""Of a digest that a person types; the service wants all 64."""
SETTLE_POLL_S: Final = 0.2
REFUSALS: Final = frozenset(
    finding.code
    for finding in (
        AGREED_TO_ANOTHER,
        BACK_REFUSED,
        GATE_CLOSED,
        NOT_POSSIBLE_HERE,
        NOT_REMOVABLE,
        VERSION_MOVED,
        OPERATION_PENDING,
    )
)
CONNECT_TRIES: Final = 3
"""A service that is being restarted is back within a second or two."""


class ServiceRefused(Exception):
    """The service answered with a problem."""

    def __init__(self, problem: dict[str, Any]) -> None:
        super().__init__(problem.get("detail", ""))
        self.problem = problem

    @property
    def exit_code(self) -> int:
        return REFUSED if self.problem.get("code") in REFUSALS else TROUBLE


class Client:
    """One command's conversation with the service."""

    def __init__(self, url: str, *, as_json: bool, transport: httpx.BaseTransport | None = None) -> None:
        self._url = url.rstrip("/")
        way = transport or httpx.HTTPTransport(retries=CONNECT_TRIES)
        token = token_for(self._url)
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._http = httpx.Client(timeout=TIMEOUT_S, trust_env=False, transport=way, headers=headers)
        self.as_json = as_json

    # --- commands ------------------------------------------------------------------------------------------

    def migrations(self) -> int:
        found = self._get(MIGRATIONS())
        return self._show(found, lambda: [migration_line(each) for each in found["items"]] or ["no migrations"])

    def status(self, migration: int | None) -> int:
        view = self._view(migration)
        return self._show(view, lambda: status_lines(view))

    def gates(self, migration: int | None) -> int:
        """4 when the step forward is closed."""
        number = self._number(migration)
        found = self._get(GATES(number=number))
        self._show(
            found,
            lambda: [line for edge in found["items"] if edge["trigger"] not in NO_CHOICE for line in gate_lines(edge)],
        )
        forward = [edge for edge in found["items"] if edge["trigger"] == PEOPLE[Trigger.ADVANCE]]
        return 0 if all(edge["holds"] for edge in forward) else REFUSED

    def step(
        self, word: str, migration: int | None, body: dict[str, Any], *, dry_run: bool, wait_s: float | None
    ) -> int:
        """advance, abort, rollback, pause or resume; waits for the outcome. wait_s: None: only until it is recorded.

        0 done, 1 it ended elsewhere, 4 refused, 5 not done yet.
        """
        number = self._number(migration)
        if word == PEOPLE[Trigger.RAISE_VERSION]:
            body = {"to": Phase.COMPLETED, **body}
        path = STEPS[word](number=number, **({"dry_run": "true"} if dry_run else {}))
        answer = self._request("POST", path, json=body, headers={"Idempotency-Key": str(uuid.uuid4())})
        if dry_run:
            return self._show(answer, lambda: gate_lines(answer["edge"]))
        deadline = time.monotonic() + (wait_s or 0.0)
        operation = answer["operation"] if wait_s is None else self._settled(answer, deadline)
        phase = self._at_rest(number, deadline) if word in ENDS and operation["state"] == "succeeded" else ""
        events = self._get(answer["event"])["items"]
        document = {"operation": operation, "events": events, "phase": phase or None}
        self._show(document, lambda: [*operation_lines(operation, events), *phase_lines(word, phase)])
        return 0 if wait_s is None else outcome_code(word, operation, [each["to_phase"] for each in events], phase)

    def approve(
        self, migration: int | None, to: str | None, given: str | None, body: dict[str, Any], *, wait_s: float | None
    ) -> int:
        """Without `given`: show what would be approved, with its digest. 5: nothing was approved. With it, as `step`.

        given: the digest that was read, or 12 and more of its first digits.
        """
        number = self._number(migration)
        to = to or APPROVED
        found = self._get(AGREEMENT(number=number, to=to))
        if given is None:
            self._show(found, lambda: agreement_lines(number, found))
            return NOT_DONE_YET
        short = len(given) >= DIGITS_LEAST and found["digest"].startswith(given)
        digest = found["digest"] if short else given
        return self.step("approve", number, {**body, "to": to, "digest": digest}, dry_run=False, wait_s=wait_s)

    def change(self, migration: int | None, fields: dict[str, Any]) -> int:
        """Another inventory, in part."""
        view = self._request("PATCH", MIGRATION(number=self._number(migration)), json=fields)
        return self._show(view, lambda: status_lines(view))

    def delete(self, migration: int, who: str) -> int:
        self._request("DELETE", MIGRATION(number=migration, who=who))
        return self._show({"removed": migration}, lambda: [f"migration {migration} is removed"])

    def audits(self, migration: int | None, *, ask: bool, engine: str | None, wait_s: float, who: str = "") -> int:
        """Show the audits; with `ask`, request one and wait for its end. 0 passed, 1 diverged or incomplete."""
        number = self._number(migration)
        if not ask:
            found = self._get(AUDITS(number=number))
            return self._show(found, lambda: [line for each in found["items"] for line in audit_lines(each)])
        body = {key: value for key, value in {"engine": engine, "who": who}.items() if value}
        audit = self._request("POST", AUDITS(number=number), json=body)
        deadline = time.monotonic() + wait_s
        while audit["state"] in ("asked", "running") and time.monotonic() < deadline:
            time.sleep(SETTLE_POLL_S)
            audit = self._get(AUDIT(number=audit["id"]))
        self._show(audit, lambda: audit_lines(audit))
        return 0 if audit["passed"] else TROUBLE

    def change_report(self, migration: int | None, page: Path | None) -> int:
        """Text or JSON on standard output; the same as a page in `page`."""
        found = self._get(CHANGE_REPORT(number=self._number(migration)))
        if page is not None:
            write_page(page, as_html(found))
            print(f"{page}: the page, for a browser or a printer", file=sys.stderr)
        return self._show(found, lambda: change_lines(found))

    def report(self, migration: int | None) -> int:
        found = self._get(REPORT(number=self._number(migration)))
        return self._show(found, lambda: report_lines(found))

    # --- the conversation ----------------------------------------------------------------------------------

    def _view(self, migration: int | None) -> dict[str, Any]:
        return self._get(MIGRATION(number=self._number(migration)))

    def _number(self, migration: int | None) -> int:
        """The one that is meant: the number given, or the only one there is."""
        if migration is not None:
            return migration
        items = self._get(MIGRATIONS())["items"]
        if len(items) != 1:
            known = ", ".join(f"{each['id']} ({each['name']})" for each in items)
            several = f"single migration: choose one with --migration, {known}"
            raise NO_SUCH_THING.error(what=several if items else "migration yet")
        return int(items[0]["id"])

    def _at_rest(self, number: int, deadline: float) -> str:
        """The phase in which the step ended, or the one that it is in at the deadline; says what is waited for."""
        said = ""
        while True:
            view = self._get(MIGRATION(number=number))
            if view["phase"] not in MOVING or time.monotonic() >= deadline:
                return str(view["phase"])
            said = _progress(f"{view['phase']}: {view['waiting']}", said)
            time.sleep(SETTLE_POLL_S)

    def _settled(self, accepted: dict[str, Any], deadline: float) -> dict[str, Any]:
        operation: dict[str, Any] = accepted["operation"]
        said = ""
        while operation["state"] in ("recorded", "accepted") and time.monotonic() < deadline:
            said = _progress(f"{operation['operation']} is {operation['state']}", said)
            time.sleep(SETTLE_POLL_S)
            operation = self._get(accepted["link"])
        return operation

    def _get(self, path: str) -> dict[str, Any]:
        return self._request("GET", path)

    def _request(self, method: str, path: str, **arguments: Any) -> dict[str, Any]:
        """Raises Z2K-4018 when nobody answers, `ServiceRefused` when the answer is a problem."""
        try:
            answer = self._http.request(method, self._url + path, **arguments)
            document: dict[str, Any] = answer.json() if answer.content else {}
        except (httpx.HTTPError, ValueError) as error:
            raise SERVICE_SILENT.error(url=self._url, reason=words_of(error)) from error
        if answer.is_error:
            raise ServiceRefused(document)
        return document

    def _show(self, document: Any, lines: Any) -> int:
        print(json.dumps(document) if self.as_json else _text(lines()))
        return 0


def outcome_code(word: str, operation: dict[str, Any], events: list[str], phase: str) -> int:
    """events: the phases to which the operation led. phase: where the migration is now; empty when nobody looked."""
    match operation["state"]:
        case "refused":
            return REFUSED
        case "recorded" | "accepted":
            return NOT_DONE_YET
        case "cancelled":
            return TROUBLE
    if phase in MOVING:
        return NOT_DONE_YET
    if word == PEOPLE[Trigger.ABORT] and Phase.SOAK in events:
        return 0 if phase == Phase.SOAK else TROUBLE  # a finalize was given up
    through = word != PEOPLE[Trigger.ADVANCE] or any(each in MOVING for each in events)
    return TROUBLE if word in ENDS and through and phase != ENDS[word] else 0


def _progress(line: str, said: str) -> str:
    """On standard error, once per line, so that standard output stays what was asked for."""
    if line != said:
        print(printable(line), file=sys.stderr, flush=True)
    return line


def _text(lines: Iterable[str]) -> str:
    """What people and clusters wrote is shown, and moves no cursor."""
    return "\n".join(map(printable, lines))


def phase_lines(word: str, phase: str) -> list[str]:
    if phase in MOVING:
        return [f"not done yet: the migration is in {phase}; `zk2kraft status` shows how it goes on"]
    return [f"the migration is in {phase}"] if phase else []


def refused(error: ServiceRefused, *, as_json: bool) -> int:
    """Print a problem: every condition that does not hold with its code, and what to do."""
    if as_json:
        print(json.dumps(error.problem))
    else:
        print(_text(problem_lines(error.problem)), file=sys.stderr)
    return error.exit_code


# --- for people -------------------------------------------------------------------------------------------


def problem_lines(problem: dict[str, Any]) -> list[str]:
    lines = [f"{problem['code']} {problem['detail']}"]
    lines += [condition_line(each) for each in problem["conditions"]]
    lines += [f"  {each['says']} ({'.'.join(each['where'])})" for each in problem["errors"]]
    return [*lines, problem["remedy"]]


def agreement_lines(number: int, found: dict[str, Any]) -> list[str]:
    digest = found["digest"]
    return [
        *found["says"],
        f"digest {digest}",
        "nothing is approved yet; this approves exactly what is shown here:",
        f"  zk2kraft approve --migration {number} --to {found['to']} --digest {digest[:16]}",
    ]


def condition_line(condition: dict[str, Any]) -> str:
    return f"  {condition['status']:<7} {condition['name']}: {condition['message']}{_codes(condition)}"


def _codes(condition: dict[str, Any]) -> str:
    """The findings behind a condition that is not True: each has a runbook."""
    return f"  [{' '.join(condition['codes'])}]" if condition["codes"] and condition["status"] != "True" else ""


def migration_line(line: dict[str, Any]) -> str:
    return f"{line['id']:>3}  {line['name']}  {line['phase']}  {line['waiting']}"


def broker_line(broker: dict[str, Any]) -> str:
    return f"broker {broker['id']}  {broker['problem'] or ('ready' if broker['registered'] else 'not observed yet')}"


def gate_lines(edge: dict[str, Any]) -> list[str]:
    state = "open" if edge["holds"] else "closed"
    lines = [f"{edge['trigger']} to {edge['to']} ({edge['by']}): {state}"]
    lines += [condition_line(each) for each in edge["conditions"]]
    lines += [f"  {IRREVERSIBLE}: {NO_RETURN_SAYS}"] if edge.get("irreversible") else []
    return [*lines, f"  {edge['command']}"] if edge["command"] else lines


def operation_lines(operation: dict[str, Any], events: list[dict[str, Any]]) -> list[str]:
    lines = [f"{operation['operation']}: {operation['state']} {operation['answer']}".rstrip()]
    if operation["state"] == "refused" and operation["verdict"] is not None:
        lines += [condition_line(each) for each in operation["verdict"]["conditions"] if each["status"] != "True"]
    lines += [event_line(event) for event in events]
    began = any(event["to_phase"] == Phase.FINALIZING for event in events)
    return [*lines, f"{IRREVERSIBLE}: {NO_RETURN_SAYS}"] if began else lines


def event_line(event: dict[str, Any]) -> str:
    when = clock(event["at"], time.time())
    return f"  {when}  {event['from_phase']} to {event['to_phase']}  by {event['who']}: {event['reason']}"


def status_lines(view: dict[str, Any]) -> list[str]:
    now, active_controller, undo = view["now"], view["active_controller"], view["undo"]
    since = "" if active_controller["since"] is None else f", for {span(now - active_controller['since'])}"
    without = view["without_controller_s"]
    gap = "" if not view["last_gap_s"] else f"; last observed: {view['last_gap_s']} s"
    window = "none yet" if view["last_window_ms"] is None else f"{view['last_window_ms']} ms"
    lines = [
        f"{view['name']}  {view['phase']} for {span(now - view['since'])}  (version {view['version']})",
        f"  {view['waiting']}",
        f"controller  {active_controller['says']}{since}",
        f"without controller  {span(without) if without else 'not now'}; last takeover: {window}{gap}",
    ]
    lines += [f"{IRREVERSIBLE}  {undo['does']}"] if undo.get("irreversible") else []
    lines += [f"paused  {view['paused']}"] if view["paused"] else []
    lines += [
        f"BLOCKED  {each['name']}: {each['message']}{_codes(each)}"
        for each in view["standing"]["conditions"]
        if each["status"] != "True"
    ]
    lines += [f"controller {each['node_id']}  {_voter(each)}" for each in view["quorum"]]
    lines += [
        denial_line(each["node_id"], denial, now) for each in view["quorum"] for denial in each.get("denials", ())
    ]
    lines += [broker_line(each) for each in view["brokers"]]
    lines += [divergence_line(view["dual_write"])] if view["dual_write"] else []
    lines += [audit_line(view["audit_schedule"], now)] if view["audit_schedule"] else []
    lines += road_lines(view["road"]) if view["road"] else []
    lines += [f"end of ZooKeeper  {end['says']}"] if (end := view.get("zookeeper_end")) else []
    lines += [line for group in view["finding_groups"] for line in group_lines(group)]
    lines += [f"observed  {span(now - view['observed_at'])} ago"] if view["observed_at"] else ["observed  not yet"]
    return [*lines, f"undo from here  {undo['command'] or dash(None)}: {undo['does']}; lost: {undo['lost']}"]


def _voter(node: dict[str, Any]) -> str:
    """Of ours its driver; stock has none."""
    if node.get("kind") == "stock":
        return "stock: " + (node["problem"] or ("leads" if node["leads"] else f"follows, log end {node['log_end']}"))
    return f"driver={node['driver']}" if node["driver"] else str(node["problem"])


def road_lines(road: dict[str, Any]) -> list[str]:
    """Every node that a rolling restart has begun with, and what people have agreed to."""
    lines = [f"log  {road['log_problem'] or road['migration_state']}; controller {road['leader'] or dash(None)} leads"]
    for each in road["nodes"]:
        said = each["cause"] or each["instruction"] or each["detail"]
        took = f"  {each['took_s']:.0f} s" if each["took_s"] else ""
        lines.append(f"{each['roll']}  {each['role']} {each['node_id']}  {each['step']}{took}  {said}".rstrip())
    lines += [remedy_line(each) for each in road.get("remedies", ())]
    if road["soak_s"] is not None:
        lines.append(f"soak  {span(road['soak_s'])}, {road['elections']} elections, snapshots by {road['snapshots']}")
    approval = road["approval"]
    if approval:
        lines.append(
            f"approved  {approval['to']} by {approval['who']}{'' if approval['counts'] else ' (does not count now)'}"
        )
    lines += back_lines(road.get("back"))
    lines += [f"guard  controller {each['node_id']} {each['state']}: {each['reason']}" for each in _unproven(road)]
    lines += [waiver_line(each) for each in road.get("waivers", ())]
    return [*lines, *([f"finalize was begun  {road['intent']}"] if road["intent"] else [])]


def remedy_line(remedy: dict[str, Any]) -> str:
    """Of a failed node."""
    may = "" if remedy["possible"] else f" (not possible now: {remedy['why_not']})"
    return f"failed node  {remedy['command']}{may}: {remedy['does']}"


def back_lines(back: dict[str, Any] | None) -> list[str]:
    """Readiness of the rollback, its cost and its loss."""
    if back is None:
        return []
    may = "possible" if back["possible"] else f"not possible now: {back['why_not']}"
    took = "" if back["seconds"] is None else f", about {back['seconds']:.0f} s"
    if back.get("at_least_s"):
        took = f", at least {back['at_least_s']:.0f} s by assumption, because none was measured"
    if not (back["restarts"] or back["again"] or back["controllers"]):
        return [f"rollback  {may}; restarts no node; lost: {'; '.join(back['lost']) or 'nothing that ZooKeeper lacks'}"]
    lost = "; ".join(back["lost"]) or "directory assignments only"
    said = f"restarts {back['restarts']}, with original files {back['again']}{took}; lost: {lost}"
    if back["controllers"]:
        said = f"controllers {back['controllers']} are ours again, {said}"
    gap = back.get("epoch_gap")
    if gap is not None:
        said += f"; epoch gap {gap}" + (": the rollback repairs it" if gap else "")
    said += f"; go last, since nothing is known of them: {', '.join(back['unknown'])}" if back.get("unknown") else ""
    said += f"; left out by name: {', '.join(back['left_out'])}" if back.get("left_out") else ""
    return [f"rollback  {may}; {said}"]


def waiver_line(waiver: dict[str, Any]) -> str:
    node = "" if waiver["node_id"] is None else f" of node {waiver['node_id']}"
    return f"waived  {waiver['what']}{node} by {waiver['owner']}: {waiver['reason']}"


def _unproven(road: dict[str, Any]) -> list[dict[str, Any]]:
    return [each for each in road.get("guards", ()) if each["state"] != "proven"]


def group_lines(group: dict[str, Any]) -> list[str]:
    """Open findings of one code: the first few, and where all of them are."""
    lines = [f"{each['code']}  {each['says']}" for each in group["first"]]
    more = group["count"] - len(lines)
    return [*lines, f"  and {more:,} more of {group['code']}; all are on {group['page']}"] if more else lines


def denial_line(node: int, denial: dict[str, Any], now: float) -> str:
    often = f"{denial['count']} requests ({', '.join(denial['requests'])}) in {span(now - denial['since'])}"
    return (
        f"controller {node} denies {denial['principal']} {denial['operation']} on the cluster: {often}, "
        f"the last {span(now - denial['last'])} ago from {denial['host']}"
    )


def divergence_line(observed: dict[str, Any]) -> str:
    oldest = f", the oldest for {span(observed['behind_ms'] / 1000)}" if observed["behind_ms"] else ""
    blocking = f"; changes refused for {span(observed['blocking_ms'] / 1000)}" if observed["blocking_ms"] else ""
    return f"ZooKeeper lacks  {dash(observed['lag_records'])} records{oldest}: {observed['divergence']}{blocking}"


def audit_line(observed: dict[str, Any], now: float) -> str:
    """The audits of dual-write in one line of the status."""
    if not observed["every_s"]:
        return "audits  off: `audit_every_s` is 0"
    last = "none has finished yet"
    if observed["last"] is not None:
        ago = span(now - observed["finished_at"])
        last = f"audit {observed['last']} {observed['result']} {ago} ago, {observed['differences']} different"
    due = (
        "now" if observed["next_at"] is None or observed["next_at"] <= now else f"in {span(observed['next_at'] - now)}"
    )
    return f"audits  {last}; the next one {due}"


def audit_lines(audit: dict[str, Any]) -> list[str]:
    outcome = audit["result"] or audit["state"]
    lines = [f"{audit['id']:>3}  {audit['purpose']} by {audit['engine']}: {outcome} {audit['problem']}".rstrip()]
    counts = ("compared", "equal", "expected", "different", "not_read")
    for family in audit["families"]:
        said = ", ".join(f"{family[key]} {key.replace('_', ' ')}" for key in counts)
        lines.append(f"     {family['family']}: {said}")
    return lines


def report_lines(report: dict[str, Any]) -> list[str]:
    lines = status_lines(report["migration"])
    lines += [f"{each['phase']}  {span(each['seconds'])}" for each in report["phases"]]
    lines += [line for audit in report["audits"] for line in audit_lines(audit)]
    return lines + [f"not verified  {each}" for each in report["not_verified"]]
