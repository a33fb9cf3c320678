"""What the service knows of the road from dual-write to the end, as its gates look at it.

In:   nothing. Out: plain values; `None` is "not known", which no gate takes for a yes.
Elsewhere: how they are put together (evidence/after_dual_write.py), the gates (gates_forward.py).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from migrator.findings.road import NODE_HOLDS_WAY_BACK
from migrator.model.at_a_stop import MinIsr, TakenAtStop
from state_machine.facts.accepted import Limits, WaiverFact
from state_machine.facts.approvals import ApprovalNow
from state_machine.facts.canary import CanaryFact
from state_machine.facts.guards import GuardFact
from state_machine.facts.nodes import AboutNode
from state_machine.facts.raises import FeatureRaise
from state_machine.policy.freshness import FLOOR_S


class Roll(StrEnum):
    """The rolling restarts of a migration, by what they do.

    BEGIN: Kafka's own controllers start for the first time (`engine: stock`).
    JOIN: brokers get the migration settings. KRAFT: brokers go into KRaft mode. STOCK: stock controllers take the place
    of ours. SOAK: stock controllers restart as they are. FINAL: stock controllers restart without the migration flag.
    OURS: our controllers take the place of stock again. BACK: brokers go back into ZooKeeper mode. ORIGINAL: after the
    claim is gone, brokers get their file from before the migration.
    """

    BEGIN = "begin"
    JOIN = "join"
    KRAFT = "kraft"
    STOCK = "stock"
    SOAK = "soak"
    FINAL = "final"
    OURS = "ours"
    BACK = "back"
    ORIGINAL = "original"


LEFT_OUT: Final = NODE_HOLDS_WAY_BACK.code
"""What a waiver accepts that leaves a node out of the way back."""
UNNAMED: Final = "operator"
"""Who requests something when a request names nobody: no person, where two persons are needed."""
BROKERS: Final = "broker"
CONTROLLERS: Final = "controller"
SHORTEST_RESTART_S: Final = {BROKERS: 12.0, CONTROLLERS: 6.0}
"""Of one restart without `settle_s`, in the laboratory (docs/performance.md, the road beside stock)."""


@dataclass(frozen=True, slots=True)
class RollObserved:
    """Nodes of one roll by how far they are. away: stopped and not whole, failed ones among them."""

    nodes: tuple[int, ...] = ()
    whole: tuple[int, ...] = ()
    failed: tuple[int, ...] = ()
    under_way: tuple[int, ...] = ()
    away: tuple[int, ...] = ()

    @property
    def complete(self) -> bool:
        return bool(self.nodes) and self.whole == self.nodes

    @property
    def text(self) -> str:
        if not self.nodes:
            return "it was not begun"
        parts = [f"{len(self.whole)} of {len(self.nodes)} are whole"]
        parts += [f"under way: {list(self.under_way)}"] if self.under_way else []
        parts += [f"failed: {list(self.failed)}"] if self.failed else []
        return "; ".join(parts)


@dataclass(frozen=True, slots=True)
class VoterObserved:
    """stock: it was replaced and answers at no control port. ready: the running process registered with the flag on.

    behind_record: its log end is behind the record that set the present state of the migration.
    caught_up_ms_ago: when it last had all that the leader had; None: never, or nobody said.
    """

    id: int
    stock: bool
    lag: int | None
    ready: bool | None
    behind_record: bool = False
    caught_up_ms_ago: int | None = None


@dataclass(frozen=True, slots=True)
class FilesObserved:
    """The last look at the files of all nodes. with_flag: controllers whose file has the migration flag.

    with_zookeeper: nodes whose file has a ZooKeeper key. forbidden: while brokers join, what their files say
    that the takeover gate would refuse or that keeps their migration file from being written, in words;
    forbidden_codes: of these findings. age_s: of the oldest answer, which is that of `oldest`.
    limit_s: age from which an answer counts no more. differing: controllers whose two files differ, each in words.
    with_tiers: brokers whose file switches remote storage on; without_tiers: controllers whose file does not.
    unjoined: brokers whose file lacks the migration flag.
    """

    age_s: float
    drifted: tuple[AboutNode, ...] = ()
    not_read: tuple[AboutNode, ...] = ()
    with_flag: tuple[int, ...] = ()
    without_flag: tuple[int, ...] = ()
    with_zookeeper: tuple[AboutNode, ...] = ()
    forbidden: tuple[str, ...] = ()
    forbidden_codes: tuple[str, ...] = ()
    oldest: str = ""
    limit_s: float = FLOOR_S
    differing: tuple[tuple[int, str], ...] = ()
    with_tiers: tuple[int, ...] = ()
    without_tiers: tuple[AboutNode, ...] = ()
    unjoined: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class RestartChange:
    """Something that counts at a broker's next restart. node: None where it is not about one. said: in words."""

    code: str
    node: int | None
    said: str


@dataclass(frozen=True, slots=True)
class RestartsObserved:
    """The last comparison of what is stored with what brokers have applied. problem: why there was none."""

    age_s: float
    problem: str = ""
    changes: tuple[RestartChange, ...] = ()
    limit_s: float = FLOOR_S


@dataclass(frozen=True, slots=True)
class SoakObserved:
    """leaders: controllers that led since it began. snapshots: controllers that wrote one since they were replaced.

    not_listed: controllers whose directory cannot be listed. quiet_s: since the last restart or election in it.
    age_s: as far as it was observed. rests_on: in words. missed_s: since its begin, what was not observed.
    """

    age_s: float
    leaders: tuple[int, ...] = ()
    elections: int = 0
    snapshots: tuple[int, ...] = ()
    not_listed: tuple[int, ...] = ()
    quiet_s: float = math.inf
    rests_on: str = ""
    missed_s: float = 0.0


@dataclass(frozen=True, slots=True)
class RollbackPlan:
    """What a rollback would do and cost now; one from AUDIT or DUAL_WRITE restarts nothing.

    controllers: stock ones, in whose place ours are put first.
    restarts: brokers that go back into ZooKeeper mode. again: brokers that restart with their original file afterwards.
    not_kept: in words, nodes whose previous file is not beside their file. lost: what only KRaft has, in words.
    consent:  to exactly that loss; None: there is none. orders: orders for a ZooKeeper controller; None: not known.
    unforeseen: of `lost`, what nobody has consented to since the rollback was requested.
    seconds:  about how long one restart of a broker took on the way here; None before the first one.
    controller_seconds: the same of a controller. settle_s: as the service is configured; it is part of each restart.
    equal:    whether the last audit since every controller is ours again passed; None: there is none. said: its result.
    unknown:  nodes of which nothing can be read now, each with the reason: they go last. left_out: in words, who is, by
              name.
    epoch_gap: while stock leads, how far the KRaft epoch is ahead of `/controller_epoch` at most (F-40); None: ours
              leads, whose states have no higher epoch, or it is not known.
    """

    restarts: tuple[int, ...] = ()
    again: tuple[int, ...] = ()
    not_kept: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    consent: ApprovalNow | None = None
    orders: int | None = None
    seconds: float | None = None
    controllers: tuple[int, ...] = ()
    controller_seconds: float | None = None
    settle_s: float = 60.0
    unforeseen: tuple[str, ...] = ()
    equal: bool | None = None
    said: str = ""
    epoch_gap: int | None = None
    unknown: tuple[tuple[str, str], ...] = ()
    left_out: tuple[str, ...] = ()

    @property
    def unknown_words(self) -> tuple[str, ...]:
        return tuple(f"{name} ({reason})" for name, reason in self.unknown)

    @property
    def total_s(self) -> float | None:
        """Of all restarts; None when nothing is left, or how long one takes is not known."""
        known = self._restarts()
        if not known or any(each is None for _, _, each in known):
            return None
        return sum(count * (each or 0.0) for _, count, each in known)

    @property
    def least_s(self) -> float | None:
        """At least so long, where no restart of some kind was measured yet: an assumption. None: nothing is left, or
        `total_s` is known.
        """
        known = self._restarts()
        if not known or self.total_s is not None:
            return None
        return sum(
            count * (SHORTEST_RESTART_S[role] + self.settle_s if each is None else each) for role, count, each in known
        )

    def _restarts(self) -> list[tuple[str, int, float | None]]:
        """What is left, by role: how many, and how long one took."""
        brokers, controllers = len(self.restarts) + len(self.again), len(self.controllers)
        parts = [(BROKERS, brokers, self.seconds), (CONTROLLERS, controllers, self.controller_seconds)]
        return [each for each in parts if each[1]]


@dataclass(frozen=True, slots=True)
class LevelsObserved:
    """Which levels of metadata.version the software of each node supports, both ends included.

    finalized: the present level. ranges: by node in words, of every registration and of every voter's own answer.
    unknown: nodes, in words, that do not say. age_s: of the oldest answer of a voter.
    """

    finalized: int
    ranges: Mapping[str, tuple[int, int]]
    unknown: tuple[str, ...] = ()
    age_s: float = math.inf

    @property
    def target(self) -> int | None:
        """The highest level that every node supports; None when there is none, or a node does not say."""
        if not self.ranges or self.unknown:
            return None
        lowest, highest = max(low for low, _ in self.ranges.values()), min(high for _, high in self.ranges.values())
        return highest if highest >= lowest else None

    @property
    def in_the_way(self) -> tuple[str, ...]:
        """Nodes whose software supports no later level."""
        return tuple(each for each, (_, high) in self.ranges.items() if high <= self.finalized)


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetEvidence:
    """What gates after DUAL_WRITE look at.

    fleet_problem: why nodes cannot be operated; empty when they can.
    log_problem:   why the log is not observed; empty when it is.
    no_leader:     every voter was asked, or refused the connection, and none leads. unled_s: for how long nobody was
                   found to lead, or no voter could be asked; None: one leads.
    gone_s:        for how long `/brokers/ids` has been empty; None while it is not, or is not known.
    dual_write_lag: records that ZooKeeper lacks; None: not known.
    replacing:     findings that speak against replacing ours, (code, words); None: not known.
    settled_s:     for how long nothing was under-replicated, as far as it was observed without a gap.
    settled_rests_on, gone_rests_on: on which observations, in words.
    lacking_s:     for how long partitions have been under-replicated while no broker was missing; None: they are not.
    lacking_leader: the broker that leads all of these partitions; None where several do.
    backed_up:     when the backup for the next step was taken, seconds ago; None: there is none.
    digest:        of the plan and evidence of the next step that needs an approval.
    offline:       brokers with a directory that is offline.
    features:      finalized ones above 0 beside metadata.version.
    guards:        of each controller's host, as looked at with the files.
    canary:        None: the inventory wants none.
    back:          what a rollback would cost; None where the service does not lead one.
    levels:        None before COMPLETED, and until the voters were asked.
    raising:       the raise of one feature that was asked for; None: metadata.version, as high as it goes.
    waivers:       of the inventory, those whose end is not reached.
    restarts:      what brokers' next restarts would change; None: it was not looked at yet.
    stopped_for_it: controllers that were stopped for the finalize and do not run again. started_without: those that may
                   have been started without the flag, by the journal.
    named:         brokers that the inventory file names; None: it was not read yet.
    now:           wall time of these observations, from which ages count.
    single, at_minimum, min_isr: what the stop of a broker takes although every partition is whole (taken.py).
    """

    fleet_problem: str
    log_problem: str
    migration: str = "NONE"
    leader: int | None = None
    no_leader: bool = False
    unled_s: float | None = None
    kraft: tuple[int, ...] = ()
    zookeeper: tuple[int, ...] = ()
    not_ready: tuple[int, ...] = ()
    zookeeper_ids: tuple[int, ...] = ()
    gone_s: float | None = None
    under_replicated: int = 0
    under_min_isr: int = 0
    reassignments: int = 0
    leaderless: int = 0
    orphans: int = 0
    scram_at_stake: tuple[str, ...] = ()
    unassigned: tuple[int, ...] = ()
    settled_s: float = 0.0
    lacking_s: float | None = None
    lacking_leader: int | None = None
    dual_write_lag: int | None = None
    migration_offset: int | None = None
    replacing: tuple[tuple[str, str], ...] | None = None
    rolls: Mapping[str, RollObserved] = field(default_factory=dict)
    voters: tuple[VoterObserved, ...] = ()
    files: FilesObserved | None = None
    soak: SoakObserved | None = None
    approval: ApprovalNow | None = None
    asker: str | None = None
    limits: Limits = field(default_factory=Limits)
    backed_up: float | None = None
    intent: str = ""
    digest: str = ""
    offline: tuple[int, ...] = ()
    features: tuple[str, ...] = ()
    guards: tuple[GuardFact, ...] = ()
    waivers: tuple[WaiverFact, ...] = ()
    canary: CanaryFact | None = None
    back: RollbackPlan | None = None
    levels: LevelsObserved | None = None
    raising: FeatureRaise | None = None
    restarts: RestartsObserved | None = None
    stopped_for_it: tuple[int, ...] = ()
    started_without: tuple[int, ...] = ()
    settled_rests_on: str = ""
    gone_rests_on: str = ""
    named: tuple[int, ...] | None = None
    now: float = 0.0
    single: TakenAtStop = field(default_factory=TakenAtStop)
    at_minimum: TakenAtStop = field(default_factory=TakenAtStop)
    min_isr: MinIsr = field(default_factory=MinIsr)

    def roll(self, roll: Roll) -> RollObserved:
        return self.rolls.get(roll, RollObserved())

    @property
    def left_out(self) -> frozenset[int]:
        """Nodes that a way back leaves out by name."""
        return frozenset(each.node for each in self.waivers if each.what == LEFT_OUT and each.node is not None)

    def waiver(self, what: str, node: int | None = None) -> WaiverFact | None:
        """One for the cluster holds for each node."""
        return next((each for each in self.waivers if each.what == what and each.node in (None, node)), None)
