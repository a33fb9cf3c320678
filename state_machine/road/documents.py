"""What the service keeps about a migration's road beside the journal: files, soak, intent, configured times.

In:   nothing. Out: structs, each one row of JSON under its kind.
Elsewhere: who writes them (file_watch.py, soak.py, finalize.py), what gates make of them (road_evidence.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from state_machine.road.canary_budget import CanaryFigures
from state_machine.store import CANARY, FILES, INTENT, LEVELS, LIMITS, SOAK, Snapshot

__all__ = ("CANARY", "FILES", "INTENT", "LEVELS", "LIMITS", "SOAK")

Shape = TypeVar("Shape")


class GuardRow(msgspec.Struct, frozen=True):
    """Of one controller's host. state: proven, not proven, or not read."""

    node: int
    state: str
    reason: str


class WaiverRow(msgspec.Struct, frozen=True):
    """A waiver of the inventory. node: None for the cluster. end: seconds since 1970."""

    what: str
    node: int | None
    reason: str
    owner: str
    end: float


class FilesDocument(msgspec.Struct, frozen=True):
    """The last look at all files. Keys of maps are `broker 1`, `controller 3000`.

    problem: why nodes cannot be operated, with its code. checksums: as read. baseline: as read first, for nodes whose
    file was not rendered yet. guards, waivers: as the hosts and the inventory said at that time. not_kept: brokers
    whose previous file is not beside their file, in words.
    """

    at: float
    problem: str = ""
    fleet: str = ""
    checksums: dict[str, str] = {}
    baseline: dict[str, str] = {}
    drifted: tuple[str, ...] = ()
    not_read: tuple[str, ...] = ()
    with_flag: tuple[int, ...] = ()
    without_flag: tuple[int, ...] = ()
    with_zookeeper: tuple[str, ...] = ()
    guards: tuple[GuardRow, ...] = ()
    waivers: tuple[WaiverRow, ...] = ()
    not_kept: tuple[str, ...] = ()


class SoakDocument(msgspec.Struct, frozen=True):
    """epoch, leader: as seen last. elected_at: when that changed last.

    snapshots: by node id, the end of the newest one since it became stock.
    """

    began: float
    epoch: int = 0
    leader: int | None = None
    leaders: tuple[int, ...] = ()
    elections: int = 0
    elected_at: float = 0.0
    snapshots: dict[str, int] = {}
    not_listed: tuple[int, ...] = ()


class IntentDocument(msgspec.Struct, frozen=True):
    """The finalize was begun. path: of the znode. text: what stands in it."""

    at: float
    path: str
    text: str
    who: str


class LevelsDocument(msgspec.Struct, frozen=True):
    """What each voter answered to ApiVersions. voters: lowest and highest metadata.version, by node id.

    silent: why a voter did not answer. finalized: as the voters say. raised: what was done with it, in words.
    """

    at: float
    voters: dict[str, tuple[int, int]] = {}
    silent: dict[str, str] = {}
    finalized: int = 0
    raised: str = ""


class CanaryDocument(msgspec.Struct, frozen=True):
    """figures: of canary_budget.py. errors_max, stall_s: as the inventory says. wanted: by the inventory.

    answered, failed: of all canary traffic of this migration, every life of the service included.
    """

    wanted: bool
    figures: CanaryFigures
    errors_max: float = 0.01
    stall_s: float = 30.0
    answered: int = 0
    failed: int = 0


class LimitsDocument(msgspec.Struct, frozen=True):
    """Times as the service is configured."""

    settle_s: float = 60.0
    soak_s: float = 86_400.0
    brokers_gone_s: float = 60.0
    single_operator: bool = False


def document(snapshot: Snapshot, kind: str, shape: type[Shape]) -> Shape | None:
    found: Mapping[str, Any] | None = snapshot.documents.get(kind)
    return None if found is None else msgspec.convert(found, shape)
