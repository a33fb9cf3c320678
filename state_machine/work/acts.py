"""What the service does by itself in each phase: compare what is with what should be, and do the difference.

In:   a fresh snapshot with its evidence.
Out:  controllers started or stopped, inspections begun, a step taken that needs nobody; and why nothing more happens.
Elsewhere: what people ask for (operations.py), what drivers did (driver_history.py), looking (observe.py).
Rules: every act can be repeated at any moment. Undoing is never held; starting again a controller that died is no
step forward.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

from migrator.control_api.operations import DriverOperation
from migrator.control_api.states import State
from migrator.findings.driver import BROKERS_FORWARD_NOTHING, MIRROR_STOPPED
from migrator.findings.finding import FindingError, Occurrence
from migrator.findings.road import CLOCK_SET_BACK
from migrator.findings.service import CONFIRMATION_DISAGREES, SPARK_SAID_NOTHING
from migrator.model.verdict import Verdict
from state_machine.audits import audit_rows
from state_machine.audits.audit_schedule import AuditSchedule, schedule_findings
from state_machine.audits.inspections import Inspections
from state_machine.children.supervisor import Supervisor
from state_machine.clusters.control import ControlClient
from state_machine.evidence.of_gates import asked_by
from state_machine.evidence.of_gates import evidence as evidence_at
from state_machine.finish.own_znodes import OwnZnodes
from state_machine.policy.conditions import accepted_brokers, fleet_evidence_of
from state_machine.policy.fleet_evidence import Roll
from state_machine.policy.gates import (
    NOTHING_CLAIMED,
    Evidence,
    Holder,
    Inspection,
    driver_text,
    leads_without_claim,
    ours_may_rule,
    rollback_is_possible,
    worth_rehearsing,
    zookeeper_is_controller,
)
from state_machine.policy.gates_back import cluster_has_returned, is_only_not_audited, ours_lead_again
from state_machine.policy.gates_forward import finalize_evidence
from state_machine.policy.outcome import Blocked, Finished, Moving, Outcome, Ready, Waiting
from state_machine.policy.phase_table import phases_where
from state_machine.policy.phases import STEPS, Phase, Trigger
from state_machine.policy.rivals import Rival
from state_machine.rollback.left_out import left_out_findings, words_of_left_out
from state_machine.rollback.plan import left_half_way
from state_machine.rollback.reconciled import stopped_by_us
from state_machine.rows.audit_queries import CONFIRMATION, SCHEDULE
from state_machine.rows.store import Snapshot, Store
from state_machine.rows.transition import SERVICE, PhaseStep, StepSource, take
from state_machine.settings import ServiceSettings
from state_machine.times.row_clock import AHEAD_WORTH_SAYING_S
from state_machine.work.acts_after_dual_write import ActsAfterDualWrite

AGAIN_S: Final = 20.0
"""Pause before an inspection that was not passed is repeated."""
ROLLBACK_AGAIN_S: Final = 5.0
"""From one request to the driver to the next one, in a rollback that the service leads."""
ASKS_BROKERS_S: Final = 60.0
"""A retired controller knows after about 35 s which brokers forward nothing."""


ONLY_IN: Final = {SCHEDULE: phases_where(lambda row: row.audited), CONFIRMATION: (Phase.READY,)}
"""Audits that the service asks for by itself say nothing once these phases are over."""


def no_step() -> float:
    return 0.0


class Acts:
    """One method per phase."""

    def __init__(
        self,
        store: Store,
        control: ControlClient,
        supervisor: Supervisor,
        inspections: Inspections,
        settings: ServiceSettings,
        road: ActsAfterDualWrite,
        clock: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
        znodes: OwnZnodes | None = None,
        ahead_s: Callable[[], float] = no_step,
    ) -> None:
        """clock: of rows. ahead_s: how far it is ahead of the wall clock."""
        self._ahead_s = ahead_s
        self._road = road
        road.finalize_gate = self._finalize_gate
        self._znodes = znodes
        self._store = store
        self._control = control
        self._supervisor = supervisor
        self._inspections = inspections
        self._settings = settings
        self._clock = clock
        self._steady = steady
        self._asked_at: dict[int, float] = {}
        self._schedule = AuditSchedule(store, settings.audit_every_s, clock, steady)
        self._table: dict[Phase, Callable[[Snapshot, Evidence], Awaitable[Outcome]]] = {
            Phase.CREATED: self._created,
            Phase.PREFLIGHT: self._preflight,
            Phase.QUORUM: self._quorum,
            Phase.BROKERS_JOINING: self._brokers_joining,
            Phase.READY: self._ready,
            Phase.TAKEOVER: self._window,
            Phase.COPY: self._window,
            Phase.AUDIT: self._audit,
            Phase.ABORTING: self._window,
            Phase.DUAL_WRITE: self._dual_write,
            Phase.ROLLING_BROKERS: self._rolling_brokers,
            Phase.REPLACING_CONTROLLERS: self._replacing_controllers,
            Phase.SOAK: self._soak,
            Phase.FINALIZING: self._finalizing,
            Phase.COMPLETED: self._road.completed,
            Phase.ROLLING_BACK: self._rolling_back,
            Phase.ROLLED_BACK: self._rolled_back,
        }

    async def act(self, snapshot: Snapshot, evidence: Evidence) -> Outcome:
        """Audits that somebody asked for or that are due, then the act of the phase."""
        if evidence.audits is not None:
            await self._schedule.tend(snapshot, evidence.audits)
        else:
            self._schedule.forget(snapshot.id)
        for run in await self._store.away(audit_rows.asked, self._store, snapshot.id):
            if snapshot.phase not in ONLY_IN.get(run.purpose, (snapshot.phase,)):
                why = f"{ONLY_IN[run.purpose][-1]} ended before it had a result"
                await self._store.away(audit_rows.stop, self._store, run.id, why)
            else:
                self._inspections.audit(snapshot, run)
        if self._znodes is not None:
            await self._znodes.tend(snapshot)
        on_the_road = evidence.road is not None and (snapshot.phase is not Phase.AUDIT or snapshot.inventory.has_stock)
        operable = on_the_road or self._road.may_join(snapshot)
        road = await self._road.tend(snapshot) if operable else await self._road.rest(snapshot)
        outcome = await self._table[snapshot.phase](snapshot, evidence)
        beside = (
            *schedule_findings(evidence.audits, self._clock(), accepted_brokers(evidence)),
            *_unconfirmed(snapshot, evidence),
            *road,
            *self._clock_set_back(),
        )
        if snapshot.led_back or snapshot.phase is Phase.ROLLED_BACK:
            beside = (*beside, *left_out_findings(snapshot, fleet_evidence_of(evidence).back, self._clock()))
        return replace(outcome, problems=(*outcome.problems, *beside))

    # --- before the takeover -------------------------------------------------------------------------------

    async def _created(self, snapshot: Snapshot, evidence: Evidence) -> Outcome:
        return Waiting("`zk2kraft advance` begins PREFLIGHT, which only reads")

    async def _preflight(self, snapshot: Snapshot, evidence: Evidence) -> Outcome:
        check = evidence.check
        pause = (
            AGAIN_S if check is None or not check.passed or evidence.file_faults else self._settings.rehearsal_every_s
        )
        if check is None or check.age_s > pause:
            self._inspections.check(snapshot)
        running = self._inspections.running_s(snapshot.id, "check")
        if check is None:
            return Waiting(f"`zk2kraft check` runs ({running or 0:.0f} s)")
        return self._next_step(evidence, snapshot, "`zk2kraft advance` starts the controllers")

    async def _quorum(self, snapshot: Snapshot, evidence: Evidence) -> Outcome:
        if snapshot.rival is not None:
            return _taken(snapshot.rival)
        kept = await self._supervisor.keep_running(snapshot)
        return kept or await self._step_when_open(snapshot, evidence, Trigger.QUORUM_FORMED)

    async def _brokers_joining(self, snapshot: Snapshot, evidence: Evidence) -> Outcome:
        """By themselves, as their operator restarts them; or by the service, once somebody requested that."""
        if snapshot.rival is not None:
            return _taken(snapshot.rival)
        kept = await self._supervisor.keep_running(snapshot)
        if kept is not None and (kept.problems or not snapshot.joining):
            return kept
        going = await self._road.joining_brokers(snapshot, evidence)
        if going is not None:
            return going
        joined = f"{len(evidence.brokers)} brokers are registered and unfenced"
        stepped = await self._step_when_open(snapshot, evidence, Trigger.BROKERS_JOINED, joined)
        if snapshot.joining or evidence.road is None or not isinstance(stepped, Waiting):
            return stepped
        offer = self._next_step(evidence, snapshot, "`zk2kraft advance` restarts the brokers one by one")
        return replace(stepped, text=f"{stepped.text}; {offer.words}")

    async def _ready(self, snapshot: Snapshot, evidence: Evidence) -> Outcome:
        """A rehearsal is kept fresh, so that a person can decide at any moment; none before everything else holds."""
        if snapshot.rival is not None:
            return _taken(snapshot.rival)
        kept = await self._supervisor.keep_running(snapshot)
        if kept is not None:
            return kept
        rehearsal = evidence.rehearsal
        asked = next((operation for operation in snapshot.operations if operation.state == "accepted"), None)
        if asked is None and self._is_due(rehearsal) and worth_rehearsing(evidence).holds:
            self._inspections.rehearse(snapshot)
        if asked is not None:
            return Waiting(f"the driver has the takeover that {asked.who} requested; {evidence.driver_reason}")
        if evidence.driver_finding is not None and evidence.driver_state == State.ABORTED:
            code, text = evidence.driver_finding
            return Waiting(f"the takeover was aborted: {code} {text}")
        running = self._inspections.running_s(snapshot.id, "rehearsal")
        if running is not None and (rehearsal is None or not rehearsal.passed):
            return Waiting(f"a rehearsal is made and audited ({running:.0f} s)")
        return self._next_step(evidence, snapshot, "`zk2kraft advance` takes over")

    def _is_due(self, rehearsal: Inspection | None) -> bool:
        """Old, or not passed; but never one right after the other."""
        if rehearsal is None:
            return True
        is_old = rehearsal.age_s > self._settings.rehearsal_every_s
        return (is_old or not rehearsal.passed) and rehearsal.ended_s > AGAIN_S

    # --- the window, and after it --------------------------------------------------------------------------

    async def _window(self, snapshot: Snapshot, evidence: Evidence) -> Outcome:
        kept = await self._supervisor.keep_running(snapshot)
        return kept or Moving(driver_text(evidence))

    async def _audit(self, snapshot: Snapshot, evidence: Evidence) -> Outcome:
        """As the window; and when a restart lost the result of the audit, another one is made."""
        released = await self._released(snapshot, evidence)
        if released is not None:
            return released
        if evidence.driver_state == State.DUAL_WRITE and (
            evidence.copy_audit is None or not evidence.copy_audit.passed
        ):
            await self._prove_copy(snapshot, evidence)
            said = "its result is not known" if evidence.copy_audit is None else evidence.copy_audit.said
            return Waiting(f"the copy is audited again before dual-write counts ({said})")
        return await self._window(snapshot, evidence)

    async def _prove_copy(self, snapshot: Snapshot, evidence: Evidence) -> None:
        if evidence.copy_audit is not None and evidence.copy_audit.age_s < AGAIN_S:
            return
        await self._request_audit(snapshot, "copy")

    async def _request_audit(self, snapshot: Snapshot, purpose: str) -> None:
        """By the quick engine; not while one of the service's runs. No way back waits for one of a person."""
        runs = await self._store.away(audit_rows.audits, self._store, snapshot.id, limit=5)
        if any((run.purpose, run.who) == (purpose, SERVICE) and run.state in ("asked", "running") for run in runs):
            return
        await self._store.away(
            audit_rows.ask_audit,
            self._store,
            snapshot.id,
            purpose=purpose,
            engine="quick",
            who=SERVICE,
            at=self._clock(),
        )

    async def _dual_write(self, snapshot: Snapshot, evidence: Evidence) -> Outcome:
        released = await self._released(snapshot, evidence)
        if released is not None:
            return released
        kept = await self._supervisor.keep_running(snapshot)
        if kept is not None:
            return kept
        changed = evidence.driver_state == State.FENCED or MIRROR_STOPPED.code in evidence.driver_alarms
        if changed and evidence.driver_finding is not None:
            code, text = evidence.driver_finding
            return Blocked(f"{code} {text}")
        said = evidence.driver_reason if evidence.driver_state == State.DUAL_WRITE else driver_text(evidence)
        return Moving(f"dual-write: {said}")

    # --- from dual-write to the end (road) -----------------------------------------------------------------

    async def _rolling_brokers(self, snapshot: Snapshot, evidence: Evidence) -> Outcome:
        released = await self._released(snapshot, evidence)
        if released is not None:
            return released
        kept = await self._supervisor.keep_running(snapshot, without=snapshot.replaced)
        if kept is not None and kept.problems:
            return kept
        rolled = await self._road.rolling_brokers(snapshot, evidence)
        whole = evidence.road is not None and evidence.road.roll(Roll.KRAFT).complete
        if snapshot.replaced and whole:  # a rollback was cancelled
            return await self._step_when_open(snapshot, evidence, Trigger.STOCK_IN_PLACE, "stock is in place already")
        return self._then(snapshot, evidence, rolled)

    async def _replacing_controllers(self, snapshot: Snapshot, evidence: Evidence) -> Outcome:
        """Those that are not replaced yet are kept running."""
        released = await self._returned(snapshot, evidence)
        if released is not None:
            return released
        kept = await self._supervisor.keep_running(snapshot, without=snapshot.replaced)
        if kept is not None and kept.problems:
            return kept
        done = await self._road.replacing_controllers(snapshot, evidence)
        if not isinstance(done, Finished):
            return done
        return await self._step_when_open(snapshot, evidence, Trigger.CONTROLLERS_REPLACED, "every voter is stock")

    async def _soak(self, snapshot: Snapshot, evidence: Evidence) -> Outcome:
        released = await self._returned(snapshot, evidence)
        if released is not None:
            return released
        return self._then(snapshot, evidence, await self._road.soak(snapshot, evidence))

    def _finalize_gate(self, snapshot: Snapshot, who: str) -> Verdict:
        return finalize_evidence(asked_by(evidence_at(snapshot, self._clock()), who))

    async def _finalizing(self, snapshot: Snapshot, evidence: Evidence) -> Outcome:
        going = await self._road.finalizing(snapshot, evidence)
        if not evidence.road or not evidence.road.roll(Roll.FINAL).complete:
            return going
        return await self._step_when_open(snapshot, evidence, Trigger.FINALIZED, "finalized on every voter")

    def _then(self, snapshot: Snapshot, evidence: Evidence, outcome: Outcome) -> Outcome:
        """Once a phase's own work is done: the next step, or what closes its gate."""
        if not isinstance(outcome, Finished):
            return outcome
        following = self._next_step(evidence, snapshot, "`zk2kraft advance` goes on")
        return replace(following, text=f"{outcome.text}; {following.text}", problems=outcome.problems)

    async def _released(self, snapshot: Snapshot, evidence: Evidence) -> Outcome | None:
        """`zk2kraft rollback --without-controllers` with all of ours dead: the cluster says that it went back."""
        if not evidence.silent or not zookeeper_is_controller(evidence).holds:
            return None
        return await self._found_rolled_back(snapshot, evidence)

    async def _returned(self, snapshot: Snapshot, evidence: Evidence) -> Outcome | None:
        """The same after stock was stopped (docs/undo.md, "Without zk2kraft controllers")."""
        if not cluster_has_returned(evidence).holds:
            return None
        return await self._found_rolled_back(snapshot, evidence)

    async def _found_rolled_back(self, snapshot: Snapshot, evidence: Evidence) -> Outcome:
        """Not while a node is down that the service stopped: it would stay so, with a file of another mode."""
        down = stopped_by_us(snapshot, left_half_way(snapshot, Roll.ORIGINAL), self._clock())
        if not down:
            left = await self._road.keep_left_out(snapshot)
            why = f"{evidence.driver_reason}{left}" if left else None
            return await self._step_when_open(snapshot, evidence, Trigger.FOUND_ROLLED_BACK, why)
        said = "; ".join(each.text for each in down)
        way = "`zk2kraft rollback` brings back what the service stopped"
        if snapshot.phase is Phase.ROLLING_BACK:
            way = "start what the service stopped with the file from before"
        return Blocked(f"a ZooKeeper-mode broker is controller; {way}: {said}", down)

    # --- back ----------------------------------------------------------------------------------------------

    async def _rolling_back(self, snapshot: Snapshot, evidence: Evidence) -> Outcome:
        """Undo whatever the driver is in, until ZooKeeper rules and nothing of ours runs.

        Until then controllers are kept alive rather than stopped wherever one of them may rule, led or not; but never
        started where none has run.
        """
        if snapshot.led_back:
            return await self._leading_back(snapshot, evidence)
        if zookeeper_is_controller(evidence).holds:
            return await self._found_rolled_back(snapshot, evidence)
        if evidence.can_abort:
            await self._ask(snapshot, DriverOperation.ABORT)
            return Waiting(f"the takeover is aborted; {evidence.driver_reason}")
        if leads_without_claim(evidence):
            return await self._supervisor.stop_all(snapshot)
        if ours_may_rule(evidence):
            if not snapshot.cursors:
                return Waiting(zookeeper_is_controller(evidence).reason())
            kept = await self._supervisor.keep_running(snapshot)
            return kept or Waiting(f"the cluster may depend on our controllers; {driver_text(evidence)}")
        if evidence.holder is Holder.UNKNOWN and len(evidence.silent) < len(evidence.controllers):
            return Waiting(f"our controllers are stopped when none of them is the active controller; {evidence.holder}")
        if evidence.driver_state not in NOTHING_CLAIMED:
            return Moving(driver_text(evidence))
        stopping = await self._supervisor.stop_all(snapshot)
        return stopping if evidence.driver_state is not None else Waiting(zookeeper_is_controller(evidence).reason())

    async def _leading_back(self, snapshot: Snapshot, evidence: Evidence) -> Outcome:
        """Ours in place of stock; brokers into ZooKeeper mode; the driver's rollback; original files once the claim is
        gone.
        """
        if zookeeper_is_controller(evidence).holds:
            original = await self._road.original_files(snapshot, evidence)
            if original is not None:
                if evidence.driver_state == State.RETIRED:
                    return _with_problems(original, await self._supervisor.stop_all(snapshot))
                return original
            left = await self._road.keep_left_out(snapshot)
            why = f"every broker has the file with which it was found{left}"
            return await self._step_when_open(snapshot, evidence, Trigger.FOUND_ROLLED_BACK, why)
        without = snapshot.replaced | fleet_evidence_of(evidence).left_out
        kept = await self._supervisor.keep_running(snapshot, without=without)
        ours = await self._road.controllers_back(snapshot, evidence)
        if ours is not None:
            return _with_problems(ours, kept)
        if kept is not None and kept.problems:
            return kept
        again = await self._ours_lead_again(snapshot, evidence)
        if again is not None:
            return again
        back = await self._road.brokers_back(snapshot, evidence)
        if back is not None:
            return back
        return await self._ask_for_rollback(snapshot, evidence)

    async def _ours_lead_again(self, snapshot: Snapshot, evidence: Evidence) -> Outcome | None:
        """Between controllers and brokers. None: dual-write is as before stock came, or no stock controller was put
        back, or the first broker was prepared already. An audit that is not passed is repeated, not at once.
        """
        if not snapshot.nodes_of(Roll.OURS) or snapshot.nodes_of(Roll.BACK):
            return None
        verdict = ours_lead_again(evidence)
        if verdict.holds:
            return None
        back, last = fleet_evidence_of(evidence).back, snapshot.copy_audit
        ended = None if last is None else last.finished_at
        lately = ended is not None and 0 <= self._clock() - ended < AGAIN_S
        failed_lately = back is not None and back.equal is False and lately
        if is_only_not_audited(verdict) and not failed_lately:
            await self._request_audit(snapshot, "demand")
        return Waiting(f"before the brokers go back: {verdict.reason()}")

    async def _ask_for_rollback(self, snapshot: Snapshot, evidence: Evidence) -> Outcome:
        """Every broker is in ZooKeeper mode again. One that was refused is asked for again, not at once."""
        if snapshot.migration.paused is not None:
            return Waiting(f"paused before the rollback of the cluster: {snapshot.migration.paused}")
        if evidence.driver_state != State.DUAL_WRITE:
            return Waiting(f"{driver_text(evidence)}")
        refused = "" if evidence.driver_finding is None else f"; last time: {': '.join(evidence.driver_finding)}"
        verdict = rollback_is_possible(evidence)
        if not verdict.holds:
            return Waiting(f"{verdict.reason()}{refused}")
        if self._steady() - self._asked_at.get(snapshot.id, -1e9) >= ROLLBACK_AGAIN_S:
            self._asked_at[snapshot.id] = self._steady()
            await self._ask(snapshot, DriverOperation.ROLL_BACK)
        return Waiting(f"the driver rolls the cluster back{refused}")

    async def _rolled_back(self, snapshot: Snapshot, evidence: Evidence) -> Outcome:
        """A retired controller only asks the brokers whether they forward requests (Z2K-2043), and is then stopped.

        One in any other state is not touched, nor what came later.
        """
        done = f"a broker is the active controller, as it was before{words_of_left_out(snapshot, self._clock())}"
        done += _not_there(snapshot)
        if evidence.driver_state == State.RETIRED:
            if BROKERS_FORWARD_NOTHING.code in evidence.driver_alarms:
                why = f"until every broker forwards requests ({BROKERS_FORWARD_NOTHING.code})"
                return Finished(f"{done}. Our controllers run on {why}")
            if evidence.driver_state_s < ASKS_BROKERS_S:
                return Finished(f"{done}. For a minute our controllers ask every broker if it forwards requests")
        if evidence.driver_state == State.RETIRED or evidence.driver_state in NOTHING_CLAIMED:
            left = await self._supervisor.stop_all(snapshot)
            if left.problems:  # no signal of ours reaches them
                return Finished(f"{done}. {left.problems[0].text}", left.problems)
        return Finished(done)

    def _clock_set_back(self) -> tuple[Occurrence, ...]:
        ahead = self._ahead_s()
        return (CLOCK_SET_BACK.found(seconds=f"{ahead:.0f}"),) if ahead > AHEAD_WORTH_SAYING_S else ()

    # --- shared --------------------------------------------------------------------------------------------

    async def _step_when_open(
        self, snapshot: Snapshot, evidence: Evidence, trigger: Trigger, why: str | None = None
    ) -> Outcome:
        """Take a step that needs nobody, as soon as its gate holds. why: if not for the driver's reason."""
        edge = STEPS[snapshot.engine][snapshot.phase, trigger]
        verdict = edge.gate(evidence)
        if not verdict.holds:
            return Waiting(verdict.reason())
        version = snapshot.migration.version
        step = PhaseStep(
            trigger=trigger,
            source=StepSource(SERVICE, version),
            at=self._clock(),
            who=SERVICE,
            reason=f"{trigger.value.lower().replace('_', ' ')}: {why or evidence.driver_reason}",
        )
        await self._store.away(
            take, self._store, snapshot.id, step, expected_version=version, evidence=evidence, now=self._clock()
        )
        return Moving(f"{edge.to} begins")

    def _next_step(self, evidence: Evidence, snapshot: Snapshot, invitation: str) -> Outcome:
        """What a person could do now, or what keeps them from it."""
        verdict = STEPS[snapshot.engine][snapshot.phase, Trigger.ADVANCE].gate(evidence)
        return Ready(invitation) if verdict.holds else Waiting(verdict.reason())

    async def _ask(self, snapshot: Snapshot, asks: DriverOperation) -> None:
        """Ask every controller that answers; one that has nothing to undo refuses, which is fine."""
        silent = {} if snapshot.observation is None else snapshot.observation.silent()
        for entry in snapshot.inventory.controllers:
            if entry.node_id in silent:
                continue
            try:
                await self._control.ask(entry, asks, "the migration is rolled back")
            except FindingError:
                continue  # it moved on meanwhile, or ended: the next look tells


def _not_there(snapshot: Snapshot) -> str:
    """Brokers of the inventory that ZooKeeper does not have, in words; empty when it has all, or is not known."""
    look = snapshot.observation
    if look is None or look.zookeeper.holder is Holder.UNKNOWN:
        return ""
    missing = sorted({each.id for each in snapshot.inventory.brokers} - set(look.zookeeper.brokers))
    return f"; brokers {missing} are not in /brokers/ids" if missing and look.zookeeper.brokers else ""


def _with_problems(outcome: Outcome, beside: Outcome | None) -> Outcome:
    """Both, where what goes on beside it is in trouble too."""
    if beside is None or not beside.problems:
        return outcome
    return replace(outcome, text=f"{outcome.text}; {beside.words}", problems=(*outcome.problems, *beside.problems))


def _unconfirmed(snapshot: Snapshot, evidence: Evidence) -> tuple[Occurrence, ...]:
    """What Spark said of a rehearsal that the quick engine passed, when it did not confirm it."""
    run = snapshot.confirmation
    if (
        snapshot.phase is not Phase.READY
        or run is None
        or evidence.confirmation is None
        or evidence.confirmation.passed
    ):
        return ()
    if evidence.confirmation.disagrees:
        return (CONFIRMATION_DISAGREES.found(audit=run.id, different=audit_rows.count(run, "different")),)
    return (SPARK_SAID_NOTHING.found(audit=run.id, reason=evidence.confirmation.said),)


def _taken(rival: Rival) -> Outcome:
    """Nothing is started for a second migration of one cluster."""
    found = rival.found()
    return Blocked(f"{found.text}", (found,))
