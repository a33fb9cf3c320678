"""What each phase is: one row per phase, from which everything follows that depends on the phase.

In:   nothing. Out: `PHASES`; `phases_where` picks phases by what their rows say, in the order of the way.
Elsewhere: which step leads where (phases.py), who acts in a phase (work/acts.py). docs/phases.md prints the table.
Rules: no other module lists phases (tests/unit/test_phase_lists.py). What follows from other columns is a property.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from state_machine.facts.engines import ControllerEngine
from state_machine.policy import undo_texts
from state_machine.policy.fleet_evidence import Roll
from state_machine.policy.phases import Phase
from state_machine.policy.undo_texts import Undo
from state_machine.policy.wanted import EITHER_MODE, KRAFT_MODE, ZOOKEEPER_MODE, Voters, WantedModes


class PhaseStage(StrEnum):
    """What the migration has of the cluster. It only grows on the way forward."""

    READING = "the service only reads"
    STARTED = "our controllers run, and nothing is claimed"
    TAKEOVER = "a takeover or its abort runs"
    BOTH_WRITTEN = "the log and ZooKeeper are both written"
    ROLLBACK = "a rollback runs"
    OVER = "it is over"


class GoesBack(StrEnum):
    """How `rollback` leads back from a phase."""

    STOPS = "our controllers are stopped"
    DRIVER = "the driver rolls back"
    LED = "the service restarts nodes, and the driver rolls back"


@dataclass(frozen=True, slots=True)
class PhaseRisk:
    """what: may happen in a phase. limit: what keeps it small. source: the page that tells more."""

    what: str
    limit: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseRow:
    """One phase. docs/phases.md shows these lines.

    stage: what the migration has of the cluster.
    undo: what leads back, and what it costs; undo.py says what it is at this moment.
    wanted: which modes and processes are right.
    forward: it is on the way to the end, not on a way back.
    ends: where a step ends that leads through it: the phase leads on by itself, and clients wait.
    goes_back: how `rollback` leads back from it; None: it does not.
    rolls: its rolling restarts; one with a failed node goes on only when a person requests it.
    contradicted: a node that this roll did not touch contradicts the journal if it is as the roll would leave it.
    restarts_brokers: the service restarts brokers, or is about to, and compares what a restart would change.
    backup: its next step needs a backup.
    canary: canary traffic runs, if the inventory wants it.
    soaked: the record of the soak counts.
    approval: what another person approves before a step here, in words; empty: nothing.
    no_return: nothing leads back; in FINALIZING from the first start of a controller without the migration flag on.
    reads_fleet: files of the nodes are read, and nothing is restarted yet.
    rests_on: purposes of the audits that the step to it rests on; the last one of each is kept.
    does: what `advance` to it does, for people.
    risk: of the phase, for the change report.
    """

    stage: PhaseStage
    undo: Undo
    wanted: WantedModes
    forward: bool = True
    ends: Phase | None = None
    goes_back: GoesBack | None = None
    rolls: tuple[Roll, ...] = ()
    contradicted: Roll | None = None
    restarts_brokers: bool = False
    backup: bool = False
    canary: bool = False
    soaked: bool = False
    approval: str = ""
    no_return: bool = False
    reads_fleet: bool = False
    rests_on: tuple[str, ...] = ()
    does: str = ""
    risk: PhaseRisk | None = None

    @property
    def before_takeover(self) -> bool:
        """Nothing is claimed, and nothing was."""
        return self.stage in (PhaseStage.READING, PhaseStage.STARTED)

    @property
    def without_controller(self) -> bool:
        """The cluster has no controller. One `advance` from READY leads through all of these phases."""
        return self.stage is PhaseStage.TAKEOVER and self.forward

    @property
    def moving(self) -> bool:
        """It leads on by itself, and within seconds: rounds are close together."""
        return self.ends is not None

    @property
    def audited(self) -> bool:
        """Both sides are written: audits run by their schedule. In FINALIZING until its first controller is stopped."""
        return self.stage is PhaseStage.BOTH_WRITTEN

    @property
    def reads_log(self) -> bool:
        """The log has the migration, and is observed. In a rollback for as long as our controllers have the claim."""
        return self.audited or (self.stage is PhaseStage.OVER and self.forward)

    @property
    def watches_software(self) -> bool:
        """A Kafka without ZooKeeper that leads would end the migration."""
        return self.stage not in (PhaseStage.READING, PhaseStage.OVER)

    @property
    def operated(self) -> bool:
        """On the way forward, and nodes may be restarted, or were."""
        return self.forward and (self.has_journal or self.reads_fleet)

    @property
    def has_journal(self) -> bool:
        """Rolling restarts are led or undone."""
        return self.reads_log or bool(self.rolls)

    @property
    def led_back(self) -> bool:
        """A rollback from here restarts nodes, and the service leads it."""
        return self.goes_back is GoesBack.LED

    @property
    def needs_consent(self) -> bool:
        """A rollback from here loses what only KRaft has, so somebody consents to that before."""
        return self.goes_back in (GoesBack.DRIVER, GoesBack.LED)

    @property
    def may_be_approved(self) -> bool:
        """Somebody may have agreed to what cannot be undone, or consented to a loss."""
        return self.has_journal or self.needs_consent

    @property
    def keeps_previous_files(self) -> bool:
        """A way back needs the files from before the restarts."""
        return self.led_back or self.stage is PhaseStage.ROLLBACK

    @property
    def guarded(self) -> bool:
        """A start of a controller without the flag is an accident. In a rollback it is one while one is stock."""
        return self.audited and not self.no_return

    @property
    def compares_inventories(self) -> bool:
        """The migration's files of controllers and the fleet's have to agree: one of them may be used for a restart."""
        return self.has_journal and not self.no_return

    @property
    def has_stock_alone(self) -> bool:
        """Every controller is Kafka's own: what comes after it may be a later Kafka."""
        return self.wanted.voters is Voters.STOCK

    @property
    def may_have_stock(self) -> bool:
        """Stock controllers may be in place, and the flag in their files still counts."""
        return self.wanted.voters in (Voters.SOME_STOCK, Voters.STOCK) and not self.no_return

    @property
    def has_gone_back(self) -> bool:
        """A rollback began. An abort leads to READY, from where the migration goes on."""
        return not self.forward and self.stage is not PhaseStage.TAKEOVER


_NOTHING_YET: Final = WantedModes(frozenset(), Voters.NONE)
_OURS: Final = WantedModes(ZOOKEEPER_MODE, Voters.OURS)

PHASES: Final[Mapping[Phase, PhaseRow]] = {
    Phase.CREATED: PhaseRow(
        stage=PhaseStage.READING, undo=undo_texts.BEFORE, wanted=_NOTHING_YET, goes_back=GoesBack.STOPS
    ),
    Phase.PREFLIGHT: PhaseRow(
        stage=PhaseStage.READING,
        undo=undo_texts.BEFORE,
        wanted=_NOTHING_YET,
        goes_back=GoesBack.STOPS,
        does="The service reads the cluster and the controllers' files. It changes nothing.",
    ),
    Phase.QUORUM: PhaseRow(
        stage=PhaseStage.STARTED,
        undo=undo_texts.BEFORE,
        wanted=_OURS,
        goes_back=GoesBack.STOPS,
        does="The service starts our controllers. They wait before the takeover. Brokers do not know them yet.",
    ),
    Phase.BROKERS_JOINING: PhaseRow(
        stage=PhaseStage.STARTED,
        undo=undo_texts.BEFORE,
        wanted=_OURS,
        goes_back=GoesBack.STOPS,
        rolls=(Roll.JOIN,),
        restarts_brokers=True,
        does="The service restarts every broker that has not joined, one at a time, with the migration settings. "
        "Brokers stay in ZooKeeper mode.",
        risk=PhaseRisk(
            "a broker that restarts is away; partitions with one replica on it are not served meanwhile",
            "one broker at a time, while every partition is whole; what stops take is accepted before (Z2K-1061, "
            "Z2K-4242)",
            "docs/to-dual-write.md",
        ),
    ),
    Phase.READY: PhaseRow(stage=PhaseStage.STARTED, undo=undo_texts.BEFORE, wanted=_OURS, goes_back=GoesBack.STOPS),
    Phase.TAKEOVER: PhaseRow(
        stage=PhaseStage.TAKEOVER,
        undo=undo_texts.WINDOW,
        wanted=_OURS,
        ends=Phase.DUAL_WRITE,
        rests_on=("rehearsal", "confirmation"),
        does="Our controller claims the controllership, copies ZooKeeper, audits and commits the copy, and updates "
        "every broker. From the claim until every broker is updated, the cluster has no controller. The rehearsal "
        "shows how long the copy takes. If anything fails before the commit, the takeover aborts by itself.",
        risk=PhaseRisk(
            "the cluster has no controller: no leader election, no change by an administrator",
            "the takeover aborts by itself at zk2kraft.takeover.max.ms, and its copy is audited before the commit",
            "docs/undo.md",
        ),
    ),
    Phase.COPY: PhaseRow(stage=PhaseStage.TAKEOVER, undo=undo_texts.WINDOW, wanted=_OURS, ends=Phase.DUAL_WRITE),
    Phase.AUDIT: PhaseRow(
        stage=PhaseStage.TAKEOVER,
        undo=undo_texts.WINDOW,
        wanted=_OURS,
        ends=Phase.DUAL_WRITE,
        goes_back=GoesBack.DRIVER,
    ),
    Phase.DUAL_WRITE: PhaseRow(
        stage=PhaseStage.BOTH_WRITTEN,
        undo=undo_texts.DUAL_WRITE,
        wanted=_OURS,
        goes_back=GoesBack.DRIVER,
        contradicted=Roll.KRAFT,
        restarts_brokers=True,
        backup=True,
        rests_on=("copy", "demand"),
        risk=PhaseRisk(
            "ZooKeeper may be behind the log when every controller dies",
            "the lag is limited (zk2kraft.divergence.*), and audits compare both sides by a schedule",
            "docs/undo.md",
        ),
    ),
    Phase.ROLLING_BROKERS: PhaseRow(
        stage=PhaseStage.BOTH_WRITTEN,
        undo=undo_texts.ROLLING_BROKERS,
        wanted=WantedModes(EITHER_MODE, Voters.OURS),
        goes_back=GoesBack.LED,
        rolls=(Roll.KRAFT,),
        contradicted=Roll.KRAFT,
        restarts_brokers=True,
        backup=True,
        canary=True,
        does="The service restarts every broker into KRaft mode, one at a time or by rack, as the inventory says. "
        "`zk2kraft rollback` goes back.",
        risk=PhaseRisk(
            "a broker does not start with its KRaft file",
            "the rolling restart stops at it; `zk2kraft back` returns this broker alone to its previous file",
            "docs/to-the-end.md",
        ),
    ),
    Phase.REPLACING_CONTROLLERS: PhaseRow(
        stage=PhaseStage.BOTH_WRITTEN,
        undo=undo_texts.STOCK,
        wanted=WantedModes(KRAFT_MODE, Voters.SOME_STOCK),
        goes_back=GoesBack.LED,
        rolls=(Roll.STOCK,),
        contradicted=Roll.STOCK,
        canary=True,
        does="The service replaces our controllers by stock, one at a time. `zk2kraft rollback` puts ours back, then "
        "the brokers.",
        risk=PhaseRisk(
            "a stock controller that starts without the migration flag ends the migration",
            "the guard on each controller's host refuses such a start (Z2K-7041); `zk2kraft rollback` puts ours back",
            "docs/inventory.md",
        ),
    ),
    Phase.SOAK: PhaseRow(
        stage=PhaseStage.BOTH_WRITTEN,
        undo=undo_texts.STOCK,
        wanted=WantedModes(KRAFT_MODE, Voters.STOCK),
        goes_back=GoesBack.LED,
        rolls=(Roll.SOAK,),
        contradicted=Roll.SOAK,
        backup=True,
        canary=True,
        soaked=True,
    ),
    Phase.FINALIZING: PhaseRow(
        stage=PhaseStage.BOTH_WRITTEN,
        undo=undo_texts.FINAL,
        wanted=WantedModes(KRAFT_MODE, Voters.STOCK),
        rolls=(Roll.FINAL,),
        contradicted=Roll.FINAL,
        canary=True,
        soaked=True,
        approval=Phase.FINALIZING,
        no_return=True,
        does="This cannot be undone. Each controller restarts without the migration flag. From the first such start "
        "on, the cluster cannot go back to ZooKeeper.",
        risk=PhaseRisk(
            "the first start of a controller without the migration flag cannot be undone",
            "another person approves it for exactly this plan and evidence, after a soak, audits and backups",
            "docs/undo.md",
        ),
    ),
    Phase.COMPLETED: PhaseRow(
        stage=PhaseStage.OVER,
        undo=undo_texts.FINAL,
        wanted=WantedModes(KRAFT_MODE, Voters.STOCK, zookeeper=False),
        soaked=True,
        approval="the raise of metadata.version",
        no_return=True,
    ),
    Phase.ABORTING: PhaseRow(
        stage=PhaseStage.TAKEOVER, undo=undo_texts.UNDER_WAY, wanted=_OURS, forward=False, ends=Phase.READY
    ),
    Phase.ROLLING_BACK: PhaseRow(
        stage=PhaseStage.ROLLBACK,
        undo=undo_texts.UNDER_WAY,
        wanted=WantedModes(EITHER_MODE, Voters.SOME_STOCK),
        forward=False,
        ends=Phase.ROLLED_BACK,
        rolls=(Roll.OURS, Roll.BACK, Roll.ORIGINAL),
        restarts_brokers=True,
        canary=True,
    ),
    Phase.ROLLED_BACK: PhaseRow(stage=PhaseStage.OVER, undo=undo_texts.NOTHING, wanted=_NOTHING_YET, forward=False),
}

_STOCK: Final = WantedModes(ZOOKEEPER_MODE, Voters.STOCK)
_BEFORE_STOCK: Final = replace(undo_texts.BEFORE, does="`zk2kraft rollback` stops the stock controllers")

_OF_STOCK: Final[Mapping[Phase, PhaseRow]] = {
    Phase.CREATED: PHASES[Phase.CREATED],
    Phase.PREFLIGHT: replace(PHASES[Phase.PREFLIGHT], reads_fleet=True),
    Phase.QUORUM: replace(
        PHASES[Phase.QUORUM],
        undo=_BEFORE_STOCK,
        wanted=_STOCK,
        rolls=(Roll.BEGIN,),
        does="The service writes the files of the stock controllers, formats their directories and starts them behind "
        "their guard. They wait for the brokers, which do not know them yet.",
    ),
    Phase.BROKERS_JOINING: replace(
        PHASES[Phase.BROKERS_JOINING],
        undo=_BEFORE_STOCK,
        wanted=_STOCK,
        does="The service restarts every broker but the last with the migration settings, one at a time. Brokers stay "
        "in ZooKeeper mode. The last one is held: stock copies as soon as it has registered.",
    ),
    Phase.READY: replace(
        PHASES[Phase.READY],
        undo=_BEFORE_STOCK,
        wanted=_STOCK,
        rolls=(Roll.JOIN,),
        restarts_brokers=True,
        backup=True,
    ),
    Phase.TAKEOVER: replace(
        PHASES[Phase.TAKEOVER],
        undo=undo_texts.STOCK_WINDOW,
        wanted=_STOCK,
        rolls=(Roll.JOIN,),
        restarts_brokers=True,
        rests_on=("rehearsal",),
        does="The service restarts the last broker. As soon as it has registered, stock claims the controllership, "
        "copies ZooKeeper and commits. Nothing can be compared before that commit: the audit comes right after it.",
        risk=PhaseRisk(
            "stock commits its copy before anybody has compared it",
            "a rehearsal was audited before, the copy is audited at once, and `zk2kraft rollback` leads back",
            "docs/stock-engine.md",
        ),
    ),
    Phase.COPY: replace(
        PHASES[Phase.COPY],
        undo=undo_texts.STOCK_ENGINE,
        wanted=_STOCK,
        goes_back=GoesBack.LED,
        rolls=(Roll.JOIN,),
    ),
    Phase.AUDIT: replace(
        PHASES[Phase.AUDIT],
        undo=undo_texts.STOCK_ENGINE,
        wanted=_STOCK,
        goes_back=GoesBack.LED,
        rolls=(Roll.JOIN,),
    ),
    Phase.DUAL_WRITE: replace(
        PHASES[Phase.DUAL_WRITE], undo=undo_texts.STOCK_ENGINE, wanted=_STOCK, goes_back=GoesBack.LED
    ),
    Phase.ROLLING_BROKERS: replace(
        PHASES[Phase.ROLLING_BROKERS],
        undo=undo_texts.STOCK_ENGINE,
        wanted=WantedModes(EITHER_MODE, Voters.STOCK),
    ),
    Phase.SOAK: replace(PHASES[Phase.SOAK], undo=undo_texts.STOCK_ENGINE),
    Phase.FINALIZING: PHASES[Phase.FINALIZING],
    Phase.COMPLETED: PHASES[Phase.COMPLETED],
    Phase.ROLLING_BACK: replace(
        PHASES[Phase.ROLLING_BACK],
        wanted=WantedModes(EITHER_MODE, Voters.NONE),
        rolls=(Roll.BACK, Roll.ORIGINAL),
    ),
    Phase.ROLLED_BACK: PHASES[Phase.ROLLED_BACK],
}

ROWS: Final[Mapping[ControllerEngine, Mapping[Phase, PhaseRow]]] = {
    ControllerEngine.OURS: PHASES,
    ControllerEngine.STOCK: _OF_STOCK,
}
"""By whose controllers take over. With stock no phase replaces controllers, and none aborts a window."""


def phases_where(
    holds: Callable[[PhaseRow], bool], engine: ControllerEngine = ControllerEngine.OURS
) -> tuple[Phase, ...]:
    """In the order of the table: those forward as they follow each other, then those of the ways back."""
    return tuple(phase for phase, row in ROWS[engine].items() if holds(row))


def row_of(name: str) -> PhaseRow | None:
    """By the name as a database or a client has it; None for a phase that this release does not know."""
    return PHASES[Phase(name)] if name in Phase.__members__ else None


WAY_FORWARD: Final = phases_where(lambda row: row.forward)
"""The way to the end, as a timeline shows it."""

PHASE_OF: Final[Mapping[Roll, Phase]] = {
    **{roll: phase for phase, row in _OF_STOCK.items() for roll in row.rolls},
    **{roll: phase for phase, row in PHASES.items() for roll in row.rolls},
}
"""Where each rolling restart belongs."""
