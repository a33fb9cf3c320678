"""What the service keeps about a migration beside its journal: files, soak, intent, configured times.

In:   nothing. Out: structs, each one row of JSON under its kind.
Elsewhere: who writes them (evidence/file_watch.py and modules of `finish`), what gates make of them
(evidence/after_dual_write.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar

import msgspec

from state_machine.facts.accepted import WaiverFact
from state_machine.facts.guards import GuardFact
from state_machine.facts.nodes import AboutNode
from state_machine.policy.freshness import FLOOR_S
from state_machine.rows.store import (
    CANARY,
    FILES,
    INTENT,
    LEFT_OUT,
    LEVELS,
    LIMITS,
    RESTARTS,
    SOAK,
    ZNODES,
    ZOOKEEPER_END,
    Snapshot,
)
from state_machine.times.stretches import Moment, ObservedTime

__all__ = ("CANARY", "FILES", "INTENT", "LEFT_OUT", "LEVELS", "LIMITS", "RESTARTS", "SOAK", "ZNODES", "ZOOKEEPER_END")

Shape = TypeVar("Shape")

DAY_S: Final = 86_400.0


class NoAnswer(msgspec.Struct, frozen=True):
    """A node whose host gave no answer, with the reason in words."""

    node: int
    reason: str


class NotAsNoted(msgspec.Struct, frozen=True):
    """A node that is not as the journal says. step: by the journal. found: in words. stopped: its process is."""

    node: int
    role: str
    step: str
    found: str
    stopped: bool


class DifferingFiles(msgspec.Struct, frozen=True):
    """A controller for which the two inventories name different files. values: of its Z2K-7057."""

    node: int
    values: dict[str, Any]


class LeftOutNode(msgspec.Struct, frozen=True):
    """name: `broker 2`. owner, reason: of the waiver."""

    name: str
    owner: str
    reason: str


class LeftOutDocument(msgspec.Struct, frozen=True):
    """Nodes that a way back left out by name, as it ended. stock: controllers that it left with stock's file."""

    at: float
    nodes: tuple[LeftOutNode, ...] = ()
    stock: tuple[int, ...] = ()


class FilesDocument(msgspec.Struct, frozen=True):
    """The last look at all files. Keys of maps are `broker 1`, `controller 3000`.

    problem: why nodes cannot be operated, in words. code: of the finding that says so. checksums: as read. baseline: as
    read first, for nodes whose file was not rendered yet. forbidden: what brokers' files say that the takeover gate
    would refuse or that keeps their migration file from being written, in words, while brokers join; forbidden_codes:
    of these findings. guards, waivers: as the hosts and the inventory said at that time.
    not_kept: nodes whose previous file is not beside their file. unproven: values of each Z2K-7043. no_answer: nodes of
    which nothing is known, since their host gave no answer. contradicting: nodes that are not as the journal says.
    read_at: wall time as of which each node's answer holds. unanswered: seconds, of hosts that do not answer now.
    round_s: how long this reading took. limit_s: age from which it counts no more (policy/freshness.py). named: brokers
    of the inventory file; None where an earlier release wrote this. differing: controllers. min_isr: by broker,
    `min.insync.replicas` of its file as it was read last; brokers whose file was never read are not named. with_tiers:
    brokers whose file switches remote storage on; without_tiers: controllers whose file does not.
    unjoined: brokers whose file lacks the migration flag.
    min_isr_of_controllers: as min_isr. with_voters: nodes, in words, whose file has controller.quorum.voters.
    """

    at: float
    problem: str = ""
    code: str = ""
    fleet: str = ""
    checksums: dict[str, str] = {}
    baseline: dict[str, str] = {}
    drifted: tuple[AboutNode, ...] = ()
    not_read: tuple[AboutNode, ...] = ()
    with_flag: tuple[int, ...] = ()
    without_flag: tuple[int, ...] = ()
    with_zookeeper: tuple[AboutNode, ...] = ()
    guards: tuple[GuardFact, ...] = ()
    waivers: tuple[WaiverFact, ...] = ()
    not_kept: tuple[AboutNode, ...] = ()
    forbidden: tuple[str, ...] = ()
    forbidden_codes: tuple[str, ...] = ()
    unproven: tuple[dict[str, Any], ...] = ()
    no_answer: tuple[NoAnswer, ...] = ()
    contradicting: tuple[NotAsNoted, ...] = ()
    read_at: dict[str, float] = {}
    unanswered: dict[str, float] = {}
    round_s: float = 0.0
    limit_s: float = FLOOR_S
    named: tuple[int, ...] | None = None
    differing: tuple[DifferingFiles, ...] = ()
    min_isr: tuple[tuple[int, int], ...] = ()
    with_tiers: tuple[int, ...] = ()
    without_tiers: tuple[AboutNode, ...] = ()
    min_isr_of_controllers: tuple[tuple[int, int], ...] = ()
    with_voters: tuple[str, ...] = ()
    unjoined: tuple[int, ...] = ()


class RestartFound(msgspec.Struct, frozen=True):
    """An occurrence of a finding, as it is kept. values: of its placeholders."""

    code: str
    values: dict[str, Any]


class RestartsDocument(msgspec.Struct, frozen=True):
    """What brokers' next restarts would change beside what is meant. problem: why nothing is known.

    oldest_at: wall time as of which every answer holds. limit_s: age from which it counts no more.
    """

    at: float
    problem: str = ""
    found: tuple[RestartFound, ...] = ()
    oldest_at: float | None = None
    limit_s: float = FLOOR_S


class SoakDocument(msgspec.Struct, frozen=True):
    """epoch, leader: as seen last. elected_at: when that changed last.

    snapshots: by node id, the end of the newest one since it became stock.
    counted: the time of the soak, as far as it was observed; None: of a release that did not ask. moment: of the
    observation that counted last; None: the next one counts nothing.
    """

    began: float
    epoch: int = 0
    leader: int | None = None
    leaders: tuple[int, ...] = ()
    elections: int = 0
    elected_at: float = 0.0
    snapshots: dict[str, int] = {}
    not_listed: tuple[int, ...] = ()
    counted: ObservedTime | None = None
    moment: Moment | None = None


class IntentDocument(msgspec.Struct, frozen=True):
    """The finalize was begun. path: of the znode. text: what stands in it.

    withdrawn: it was given up at that time by that person, and the znode has to go.
    """

    at: float
    path: str
    text: str
    who: str
    withdrawn: bool = False


class LevelsDocument(msgspec.Struct, frozen=True):
    """What each voter answered to ApiVersions. voters: lowest and highest metadata.version, by node id.

    silent: why a voter did not answer. finalized: as the voters say. raised: what was done with it, in words.
    features: finalized levels of all others. raised_features: what was done with those, in words, by feature.
    """

    at: float
    voters: dict[str, tuple[int, int]] = {}
    silent: dict[str, str] = {}
    finalized: int = 0
    raised: str = ""
    features: dict[str, int] = {}
    raised_features: dict[str, str] = {}


class ZooKeeperEndDocument(msgspec.Struct, frozen=True):
    """ZooKeeper after COMPLETED, as the service reaches it. Times are wall times in seconds.

    at: when it was observed last. reachable: None while that is not known. problem: why it is not reachable.
    unreachable_since: the first observation of an unbroken row without an answer. unobserved_s: of the time since then,
    what the service did not observe, because it did not run. kept_days: as configured. empty: it answers, and has
    nothing of this cluster any more.
    """

    at: float
    reachable: bool | None
    kept_days: float
    problem: str = ""
    unreachable_since: float | None = None
    unobserved_s: float = 0.0
    empty: bool = False

    @property
    def may_delete_from(self) -> float | None:
        """Time that was not observed does not count. None while it is reachable, or nothing is known."""
        if self.unreachable_since is None:
            return None
        return self.unreachable_since + self.unobserved_s + self.kept_days * DAY_S


class ZnodeRow(msgspec.Struct, frozen=True):
    """path: with the chroot. version: -1 when it does not exist. ephemeral: of a living session. data: as text."""

    path: str
    version: int = -1
    ephemeral: bool = False
    data: str = ""

    @property
    def exists(self) -> bool:
        return self.version >= 0

    @property
    def says(self) -> str:
        if not self.exists:
            return "absent"
        return f"version {self.version}{', ephemeral' if self.ephemeral else ''}: {self.data or 'empty'}"


class ZnodeList(msgspec.Struct, frozen=True):
    """One reading of the ensemble. at: when it began; phase: of the migration then. problem: why it gave nothing."""

    at: float
    phase: str
    znodes: tuple[ZnodeRow, ...] = ()
    problem: str = ""


class ZnodesDocument(msgspec.Struct, frozen=True):
    """The znodes of the migration itself. before: the last reading before a rollback; after: once it was over."""

    before: ZnodeList | None = None
    after: ZnodeList | None = None


def document(snapshot: Snapshot, kind: str, shape: type[Shape]) -> Shape | None:
    found: Mapping[str, Any] | None = snapshot.documents.get(kind)
    return None if found is None else msgspec.convert(found, shape)
