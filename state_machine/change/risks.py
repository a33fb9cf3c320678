"""What may go wrong and what keeps it small, accepted exceptions, and what was not verified.

In:   `ChangeFacts` and restarts. Out: values of document.py, words.
Rules: a risk of the table stands in the report as long as its phase is not over. What is open now stands first.
Nothing unknown is left out: silence would be taken for a pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Final

from migrator.findings.finding import Severity
from state_machine.audits.audit_rows import result_of
from state_machine.change.document import ReportedAudit, ReportedWaiver, Restart, Risk
from state_machine.change.facts import ChangeFacts
from state_machine.change.plan import DONE, place
from state_machine.nodes.fleet import waivers_in
from state_machine.policy.audit_observations import PASSED
from state_machine.policy.fleet_evidence import Roll
from state_machine.policy.phase_table import PHASE_OF, PHASES, PhaseStage
from state_machine.policy.phases import PEOPLE, Phase, Trigger, next_edges
from state_machine.policy.undo import is_irreversible, undo_of
from state_machine.rows.documents import FILES, FilesDocument, document
from state_machine.rows.tables import AuditRun

PROVEN: Final = "proven"


def risks_of(facts: ChangeFacts, restarts: Sequence[Restart]) -> tuple[Risk, ...]:
    """Open ones first, then those of the phases ahead."""
    phase = facts.snapshot.phase
    found = [*_open_findings(facts), *_of_the_plan(facts, restarts)]
    ahead = PHASES[phase].stage not in (PhaseStage.ROLLBACK, PhaseStage.OVER)
    found += [
        Risk(phase=where, what=risk.what, limit=risk.limit, source=risk.source, open=where is phase)
        for where, risk in ((each, row.risk) for each, row in PHASES.items())
        if risk is not None and ahead and place(where) >= place(phase)
    ]
    return tuple(found)


def _open_findings(facts: ChangeFacts) -> Iterator[Risk]:
    for each in sorted(facts.findings, key=lambda row: (row.severity != Severity.BLOCKS, row.code, row.says)):
        yield Risk(
            phase=facts.snapshot.phase,
            what=f"{each.code} {each.says}",
            limit=each.remedy,
            source=f"runbooks/{each.code}.md",
            open=True,
        )


def _of_the_plan(facts: ChangeFacts, restarts: Sequence[Restart]) -> Iterator[Risk]:
    """What the inventory and the settings leave open."""
    inventory, phase = facts.inventory, facts.snapshot.phase
    if inventory is None or place(phase) >= place(Phase.COMPLETED):
        return

    def risk(what: str, limit: str, source: str = "docs/inventory.md") -> Risk:
        return Risk(phase=phase, what=what, limit=limit, source=source, open=True)

    bare = [each.id for each in inventory.brokers if not each.rack]
    if bare and len(inventory.brokers) > 1:
        yield risk(
            f"{_ids('broker', bare)} have no rack in the inventory", "they restart by id, whatever rack they are in"
        )
    if inventory.canary is None:
        yield risk("no canary traffic is wanted, so that errors of clients are not counted", "`canary: {}` sends it")
    if not inventory.maintenance_windows:
        yield risk(
            "no maintenance window is set", "nodes restart at any time of the day; `zk2kraft pause` stops between two"
        )
    unguarded = [each.id for each in inventory.controllers if not each.guard]
    if unguarded and place(phase) < place(Phase.FINALIZING):
        yield risk(
            f"{_ids('controller', unguarded)} have no guard in the inventory",
            "REPLACING_CONTROLLERS waits for a proven guard or a waiver (Z2K-7040)",
        )
    if facts.limits.single_operator:
        yield risk(
            "single_operator is on: one person may request and approve FINALIZING",
            "set it to false",
            "docs/settings.md",
        )
    if not facts.limits.backups_encrypted:
        yield risk(
            "backups are not encrypted, and files in them may hold secrets",
            "their directories have mode 0700; `backup_key` encrypts them",
            "docs/settings.md",
        )


def _ids(role: str, ids: Sequence[int]) -> str:
    shown = ", ".join(map(str, ids[:10]))
    more = f" and {len(ids) - 10} more" if len(ids) > 10 else ""
    return f"{role}s {shown}{more}"


# --- waivers ----------------------------------------------------------------------------------------------


def waivers_of(facts: ChangeFacts) -> tuple[ReportedWaiver, ...]:
    """Of the inventory as it is now; without it, as the service read it last."""
    if facts.inventory is not None:
        found = waivers_in(facts.inventory)
    else:
        found = (document(facts.snapshot, FILES, FilesDocument) or FilesDocument(0.0)).waivers
    return tuple(ReportedWaiver(**asdict(each), holds=facts.at < each.end) for each in found)


# --- audits -----------------------------------------------------------------------------------------------


def audit_report(run: AuditRun) -> ReportedAudit:
    ended = run.state not in ("asked", "running", "stopped")
    return ReportedAudit(
        id=run.id,
        purpose=run.purpose,
        engine=run.engine,
        who=run.who,
        state=run.state,
        result=result_of(run) if ended else "",
        finished_at=run.finished_at,
        compared=_sum(run, "compared"),
        different=_sum(run, "different"),
        not_read=_sum(run, "not_read"),
        problem=run.problem,
    )


def _sum(run: AuditRun, name: str) -> int:
    return sum(int(each.get(name, 0)) for each in run.families)


# --- not verified -----------------------------------------------------------------------------------------


def not_verified(facts: ChangeFacts, restarts: Sequence[Restart], waivers: Sequence[ReportedWaiver]) -> tuple[str, ...]:
    return tuple(
        dict.fromkeys(
            (
                *_not_read(facts),
                *_waived(waivers),
                *_audits(facts),
                *_restarts(facts, restarts),
                *_conditions(facts),
                *_measures(facts),
                *_undo(facts),
            )
        )
    )


def _not_read(facts: ChangeFacts) -> Iterator[str]:
    files = document(facts.snapshot, FILES, FilesDocument)
    if facts.no_inventory:
        yield f"no plan per host: {facts.no_inventory}"
    if files is None:
        if facts.inventory is not None:
            yield "files on hosts: the service reads them from BROKERS_JOINING on, and has not read them yet"
        return
    if files.problem:
        yield f"files on hosts: {files.problem}"
    yield from (f"not read: {each.words}" for each in files.not_read)
    yield from (f"not as rendered: {each.words}" for each in files.drifted)
    yield from (
        f"the guard of controller {each.node} is {each.state}: {each.reason}"
        for each in files.guards
        if each.state != PROVEN
    )


def _waived(waivers: Sequence[ReportedWaiver]) -> Iterator[str]:
    for each in waivers:
        where = "the cluster" if each.node is None else f"node {each.node}"
        end = datetime.fromtimestamp(each.end, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        said = f"until {end}" if each.holds else f"which ended at {end} and does not count any more"
        yield f"waived: {each.what} of {where}, by {each.owner}, {said}: {each.reason}"


def _audits(facts: ChangeFacts) -> Iterator[str]:
    ended = [each for each in facts.audits if each.finished_at is not None]
    for each in ended:
        if result_of(each) != PASSED:
            unread = f", {count} keys were not read" if (count := _sum(each, "not_read")) else ""
            why = f": {each.problem}" if each.problem else ""
            yield f"audit {each.id} ({each.purpose}) {result_of(each)}{unread}{why}"
    before_takeover = PHASES[facts.snapshot.phase].before_takeover
    if not before_takeover and not any(
        each.purpose in ("demand", "schedule") and result_of(each) == PASSED for each in ended
    ):
        yield "no audit since the takeover passed; the driver audited its copy before the commit"
    if before_takeover and not any(each.purpose == "rehearsal" and result_of(each) == PASSED for each in ended):
        yield "no rehearsal passed yet"


def _restarts(facts: ChangeFacts, restarts: Sequence[Restart]) -> Iterator[str]:
    unknown = [each for each in restarts if each.file and not each.checksum_after and each.step not in DONE]
    if unknown:
        yield (
            f"{len(unknown)} files are rendered when their node is prepared; before that, `zk2kraft render --diff` "
            "shows their change"
        )
    for each in restarts:
        name = f"{each.role} {each.node} ({each.roll})"
        if each.step == "FAILED":
            yield f"{name} failed {each.trouble}"
        elif each.began_at is not None and each.step not in DONE:
            yield f"{name} is {each.step}: it is not whole yet"
        elif each.seconds is not None and not each.whole:
            yield f"{name}: what held when it was whole was not kept"
    passed = _passed_by_hand(facts, restarts)
    if passed:
        yield f"restarts that this service did not do, and has no evidence of: {', '.join(passed)}"


def _passed_by_hand(facts: ChangeFacts, restarts: Sequence[Restart]) -> list[str]:
    """Rolling restarts whose phase is over without a row of the journal."""
    phase = facts.snapshot.phase
    if PHASES[phase].has_gone_back:
        return []
    done = {each.roll for each in restarts}
    names = {Roll.JOIN: "brokers with the migration settings"}
    return [words for roll, words in names.items() if roll not in done and place(phase) > place(PHASE_OF[roll])]


def _conditions(facts: ChangeFacts) -> Iterator[str]:
    """Of the next step forward: what is not True now."""
    edge = next_edges(facts.snapshot.phase, facts.snapshot.engine).get(Trigger.ADVANCE)
    if edge is None:
        return
    for each in edge.gate(facts.observed).conditions:
        if not each.holds:
            codes = f" [{' '.join(each.codes)}]" if each.codes else ""
            yield f"before {PEOPLE[Trigger.ADVANCE]} to {edge.to}: {each.name}: {each.message}{codes}"


def _measures(facts: ChangeFacts) -> Iterator[str]:
    if PHASES[facts.snapshot.phase].before_takeover:
        return
    yield (
        "observed times without controller are as exact as observations (observe_every_s); shorter ones may be missed"
    )
    if facts.inventory is not None and facts.inventory.canary is None:
        yield "errors of clients: no canary traffic is wanted, and the service does not see other clients"


def _undo(facts: ChangeFacts) -> Iterator[str]:
    phase = facts.snapshot.phase
    road = facts.observed.road
    later = facts.observed.later
    undo = undo_of(phase, None if road is None else road.back, later, road, facts.snapshot.engine)
    if undo.command and not is_irreversible(phase, later, road):
        yield f"the undo from here was not tried: {undo.command}"
