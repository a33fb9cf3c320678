"""The command line's side of REST: ask the service, print for people or as JSON, end with the right code.

In:   the service's address, what was asked for.
Out:  text or one JSON document on standard output; an exit code: 0, 1 trouble, 4 refused by a gate or by the table,
5 not done yet.
Elsewhere: names and flags (cli.py), what the fields mean (models.py), how they are told to people (lines.py).
An operation is followed until the loop has settled it, because the cluster may refuse what the last look allowed.
"""

from __future__ import annotations

import json
import sys
import time
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import httpx
from pydantic import BaseModel, ValidationError

from api.change.text import change_lines
from api.change.views import as_html
from api.lines import (
    MOVING,
    agreement_lines,
    audit_lines,
    gate_lines,
    migration_line,
    operation_lines,
    phase_lines,
    problem_lines,
    raises_lines,
    report_lines,
    status_lines,
)
from api.models import (
    Accepted,
    AgreementView,
    AuditView,
    DryRun,
    EdgeView,
    EventView,
    MigrationLine,
    MigrationView,
    OperationView,
    Page,
    Problem,
    RaiseView,
    Report,
)
from api.standalone import write_page
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
    RAISES,
    REPORT,
    STEPS,
)
from migrator.model.printable import printable
from state_machine.access import token_for
from state_machine.policy.phases import APPROVED, NO_CHOICE, OPERATIONS, PEOPLE, Phase, Trigger

REFUSED: Final = 4
NOT_DONE_YET: Final = 5
ENDS: Final = {row.word: row.ends for row in OPERATIONS.values() if row.ends is not None}
TROUBLE: Final = 1
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
Told = TypeVar("Told", bound=BaseModel)
CONNECT_TRIES: Final = 3
"""A service that is being restarted is back within a second or two."""


@dataclass(frozen=True, slots=True)
class Fetched(Generic[Told]):
    """told: what this release knows of the answer. raw: all that the service said, for `--json`."""

    told: Told
    raw: dict[str, Any]


class PhaseNow(BaseModel):
    """What is waited for. A step that was recorded is followed by a client of another release too."""

    phase: Phase
    waiting: str


class StepTaken(BaseModel):
    """A row of the history: what decides the exit code."""

    to_phase: Phase


class ServiceRefused(Exception):
    """The service answered with a problem. raw: all that it said, for `--json`."""

    def __init__(self, problem: Problem, raw: dict[str, Any] | None = None) -> None:
        super().__init__(problem.detail)
        self.problem = problem
        self.raw = problem.model_dump(mode="json") if raw is None else raw

    @property
    def exit_code(self) -> int:
        return REFUSED if self.problem.code in REFUSALS else TROUBLE


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
        found = self._get(MIGRATIONS(), Page[MigrationLine])
        return self._show(found.raw, lambda: [migration_line(each) for each in found.told.items] or ["no migrations"])

    def status(self, migration: int | None) -> int:
        found = self._view(self._number(migration))
        return self._show(found.raw, lambda: status_lines(found.told))

    def gates(self, migration: int | None) -> int:
        """4 when the step forward is closed."""
        found = self._get(GATES(number=self._number(migration)), Page[EdgeView])
        chosen = [edge for edge in found.told.items if edge.trigger not in NO_CHOICE]
        self._show(found.raw, lambda: [line for edge in chosen for line in gate_lines(edge)])
        forward = [edge for edge in found.told.items if edge.trigger == PEOPLE[Trigger.ADVANCE]]
        return 0 if all(edge.holds for edge in forward) else REFUSED

    def step(
        self, word: str, migration: int | None, body: dict[str, Any], *, dry_run: bool, wait_s: float | None
    ) -> int:
        """advance, abort, rollback, pause or resume; waits for the outcome. wait_s: None: only until it is recorded.

        0 done, 1 it ended elsewhere, 4 refused, 5 not done yet.
        """
        number = self._number(migration)
        if word == PEOPLE[Trigger.RAISE_VERSION]:
            body = {"to": Phase.COMPLETED, **body}
        headers = {"Idempotency-Key": str(uuid.uuid4())}
        if dry_run:
            path = STEPS[word](number=number, dry_run="true")
            dry = self._request("POST", path, DryRun, json=body, headers=headers)
            return self._show(dry.raw, lambda: gate_lines(dry.told.edge))
        accepted = self._request("POST", STEPS[word](number=number), Accepted, json=body, headers=headers)
        deadline = time.monotonic() + (wait_s or 0.0)
        operation = Fetched(accepted.told.operation, accepted.raw["operation"])
        if wait_s is not None:
            operation = self._settled(operation, accepted.told.link, deadline)
        state = operation.told.state
        phase = self._at_rest(number, deadline) if word in ENDS and state == "succeeded" else None
        history = self._get(accepted.told.event, Page[StepTaken])
        rows = history.raw["items"]

        def lines() -> list[str]:
            events = [self._read(each, EventView) for each in rows]
            return [*operation_lines(operation.told, events), *phase_lines(phase)]

        self._show({"operation": operation.raw, "events": rows, "phase": phase}, lines)
        return 0 if wait_s is None else outcome_code(word, state, [each.to_phase for each in history.told.items], phase)

    def approve(
        self,
        migration: int | None,
        to: str | None,
        given: str | None,
        body: dict[str, Any],
        *,
        wait_s: float | None,
        feature: str | None = None,
    ) -> int:
        """Without `given`: show what would be approved, with its digest. 5: nothing was approved. With it, as `step`.

        given: the digest that was read, or 12 and more of its first digits. feature: the raise that is approved.
        """
        number = self._number(migration)
        to = to or (APPROVED if feature is None else Phase.COMPLETED)
        found = self._get(AGREEMENT(number=number, to=to, feature=feature), AgreementView)
        body = body if feature is None else {**body, "feature": feature}
        if given is None:
            self._show(found.raw, lambda: agreement_lines(number, found.told, feature))
            return NOT_DONE_YET
        short = len(given) >= DIGITS_LEAST and found.told.digest.startswith(given)
        digest = found.told.digest if short else given
        return self.step("approve", number, {**body, "to": to, "digest": digest}, dry_run=False, wait_s=wait_s)

    def raises(self, migration: int | None, release: str) -> int:
        """What a release would raise, one decision each. 5: nothing was raised; 0: nothing is left to raise."""
        found = self._get(RAISES(number=self._number(migration), release=release), Page[RaiseView])
        self._show(found.raw, lambda: raises_lines(release, found.told.items))
        return 0 if all(each.done for each in found.told.items) else NOT_DONE_YET

    def change(self, migration: int | None, fields: dict[str, Any]) -> int:
        """Another inventory, in part."""
        found = self._request("PATCH", MIGRATION(number=self._number(migration)), MigrationView, json=fields)
        return self._show(found.raw, lambda: status_lines(found.told))

    def delete(self, migration: int, who: str) -> int:
        self._ask("DELETE", MIGRATION(number=migration, who=who))
        return self._show({"removed": migration}, lambda: [f"migration {migration} is removed"])

    def audits(self, migration: int | None, *, ask: bool, engine: str | None, wait_s: float, who: str = "") -> int:
        """Show the audits; with `ask`, request one and wait for its end. 0 passed, 1 diverged or incomplete."""
        number = self._number(migration)
        if not ask:
            found = self._get(AUDITS(number=number), Page[AuditView])
            return self._show(found.raw, lambda: [line for each in found.told.items for line in audit_lines(each)])
        body = {key: value for key, value in {"engine": engine, "who": who}.items() if value}
        audit = self._request("POST", AUDITS(number=number), AuditView, json=body)
        deadline = time.monotonic() + wait_s
        while audit.told.state in ("asked", "running") and time.monotonic() < deadline:
            time.sleep(SETTLE_POLL_S)
            audit = self._get(AUDIT(number=audit.told.id), AuditView)
        self._show(audit.raw, lambda: audit_lines(audit.told))
        return 0 if audit.told.passed else TROUBLE

    def change_report(self, migration: int | None, page: Path | None) -> int:
        """Text or JSON on standard output; the same as a page in `page`."""
        found = self._ask("GET", CHANGE_REPORT(number=self._number(migration)))
        if page is not None:
            write_page(page, as_html(found))
            print(f"{page}: the page, for a browser or a printer", file=sys.stderr)
        return self._show(found, lambda: change_lines(found))

    def report(self, migration: int | None) -> int:
        found = self._get(REPORT(number=self._number(migration)), Report)
        return self._show(found.raw, lambda: report_lines(found.told))

    # --- the conversation ----------------------------------------------------------------------------------

    def _view(self, number: int) -> Fetched[MigrationView]:
        return self._get(MIGRATION(number=number), MigrationView)

    def _number(self, migration: int | None) -> int:
        """The one that is meant: the number given, or the only one there is."""
        if migration is not None:
            return migration
        items = self._get(MIGRATIONS(), Page[MigrationLine]).told.items
        if len(items) != 1:
            known = ", ".join(f"{each.id} ({each.name})" for each in items)
            several = f"single migration: choose one with --migration, {known}"
            raise NO_SUCH_THING.error(what=several if items else "migration yet")
        return items[0].id

    def _at_rest(self, number: int, deadline: float) -> Phase:
        """The phase in which the step ended, or the one that it is in at the deadline; says what is waited for."""
        said = ""
        while True:
            view = self._get(MIGRATION(number=number), PhaseNow).told
            if view.phase not in MOVING or time.monotonic() >= deadline:
                return view.phase
            said = _progress(f"{view.phase}: {view.waiting}", said)
            time.sleep(SETTLE_POLL_S)

    def _settled(self, operation: Fetched[OperationView], link: str, deadline: float) -> Fetched[OperationView]:
        said = ""
        while operation.told.state in ("recorded", "accepted") and time.monotonic() < deadline:
            said = _progress(f"{operation.told.operation} is {operation.told.state}", said)
            time.sleep(SETTLE_POLL_S)
            operation = self._get(link, OperationView)
        return operation

    def _get(self, path: str, model: type[Told]) -> Fetched[Told]:
        return self._request("GET", path, model)

    def _request(self, method: str, path: str, model: type[Told], **arguments: Any) -> Fetched[Told]:
        """Raises Z2K-4018 also for an answer that this release cannot read, as `_ask` otherwise."""
        document = self._ask(method, path, **arguments)
        return Fetched(self._read(document, model), document)

    def _ask(self, method: str, path: str, **arguments: Any) -> dict[str, Any]:
        """Raises Z2K-4018 when nobody answers, `ServiceRefused` when the answer is a problem."""
        try:
            answer = self._http.request(method, self._url + path, **arguments)
            document: dict[str, Any] = answer.json() if answer.content else {}
        except (httpx.HTTPError, ValueError) as error:
            raise SERVICE_SILENT.error(url=self._url, reason=words_of(error)) from error
        if answer.is_error:
            raise ServiceRefused(self._read(document, Problem), document)
        return document

    def _read(self, document: Any, model: type[Told]) -> Told:
        try:
            return model.model_validate(document)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"]))
            reason = f"this release cannot read its answer as {model.__name__}: {place}: {first['msg']}"
            raise SERVICE_SILENT.error(url=self._url, reason=reason) from error

    def _show(self, document: Any, lines: Callable[[], Iterable[str]]) -> int:
        print(json.dumps(document) if self.as_json else _text(lines()))
        return 0


def outcome_code(word: str, state: str, events: list[Phase], phase: Phase | None) -> int:
    """state: of the operation. events: the phases to which it led. phase: where the migration is now; None when nobody
    looked.
    """
    match state:
        case "refused":
            return REFUSED
        case "recorded" | "accepted":
            return NOT_DONE_YET
        case "cancelled":
            return TROUBLE
    if phase in MOVING:
        return NOT_DONE_YET
    if word == PEOPLE[Trigger.ABORT] and Phase.SOAK in events:
        return 0 if phase is Phase.SOAK else TROUBLE  # a finalize was given up
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


def refused(error: ServiceRefused, *, as_json: bool) -> int:
    """Print a problem: every condition that does not hold with its code, and what to do."""
    if as_json:
        print(json.dumps(error.raw))
    else:
        print(_text(problem_lines(error.problem)), file=sys.stderr)
    return error.exit_code
