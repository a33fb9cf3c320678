"""Operations in order become multis that ZooKeeper takes, each conditional on the claim and on the one before it.

In:   groups of operations, the claim, and the position that `/migration` shall name afterwards.
Out:  multis in order, and the claim as they leave it.
Elsewhere: which operations those are (mirror.py, lagging.py, orders.py, node.zookeeper.amending).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from migrator.driver.claim import Claim
from migrator.model.image import Position
from migrator.zk import paths
from migrator.zk.multi import HEADROOM_BYTES, Check, Multi, Operation, SetData
from migrator.zk.znodes import MigrationZnode, migration_data

OPERATIONS_MAX: Final = 1_000
"""Small changes are packed up to this many operations: the server applies them at one stroke, some milliseconds."""

BYTES_MAX: Final = 700_000
"""ZooKeeper refuses requests above `jute.maxbuffer` (1 MiB by default); one topic is kept whole up to this size."""


def bytes_max(jute_maxbuffer: int) -> int:
    """The largest multi for servers that take requests of up to `jute_maxbuffer` bytes."""
    return min(BYTES_MAX, jute_maxbuffer - HEADROOM_BYTES)


def pack(groups: Iterable[list[Operation]], most: int = BYTES_MAX) -> list[list[Operation]]:
    """Join small groups, keep each whole where it fits, and cut only what no server would take. most: in bytes."""
    packed: list[list[Operation]] = []
    current: list[Operation] = []
    current_bytes = 0
    for group in groups:
        for piece in _pieces(group, most):
            weight = Multi(tuple(piece)).bytes
            if current and (len(current) + len(piece) > OPERATIONS_MAX or current_bytes + weight > most):
                packed.append(current)
                current, current_bytes = [], 0
            current = current + piece if current else list(piece)
            current_bytes += weight
    if current:
        packed.append(current)
    return packed


def _pieces(group: list[Operation], most: int) -> list[list[Operation]]:
    if Multi(tuple(group)).bytes <= most:
        return [group]
    pieces: list[list[Operation]] = [[]]
    weight = 0
    for operation in group:
        own = Multi((operation,)).bytes
        if weight + own > most:
            pieces.append([])
            weight = 0
        pieces[-1].append(operation)
        weight += own
    return pieces


def guarded(guard: Sequence[Operation], operations: Iterable[Operation], jute_maxbuffer: int) -> tuple[Multi, ...]:
    """Operations that each stand for themselves, in order: as few multis as the servers take, each behind the guard."""
    packed = pack([[operation] for operation in operations], bytes_max(jute_maxbuffer))
    return tuple(Multi((*guard, *each)) for each in packed)


def chained(packed: list[list[Operation]], claim: Claim, at: Position) -> tuple[tuple[Multi, ...], Claim]:
    """Guard each multi by the version that the one before it left; only the last one says that `at` is mirrored."""
    guard = Check(paths.CONTROLLER_EPOCH, claim.epoch_version)
    places = [claim.at] * (len(packed) - 1) + [at]
    multis = []
    for number, (place, operations) in enumerate(zip(places, packed, strict=True)):
        znode = MigrationZnode(claim.node, claim.kraft_epoch, place.offset, place.epoch)
        moved = SetData(paths.MIGRATION, migration_data(znode), claim.migration_version + number)
        multis.append(Multi((guard, moved, *operations)))
    return tuple(multis), replace(claim, migration_version=claim.migration_version + len(packed), at=at)
