"""The feature levels of a cluster, as text for people.

In:   `FeatureReport`s, or the matrix alone. Out: lines.
Elsewhere: reading (migrator/node/tools/feature_levels.py), JSON (the structs themselves).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from migrator.model.features.cases import CASES
from migrator.model.features.changes import REFUSALS, FeatureReport, LevelChange, Obstacle
from migrator.model.features.losses import Loss
from migrator.model.features.matrix import FeatureMatrix, NodeFeatures
from migrator.model.image import METADATA_VERSION
from migrator.model.levels import level_name
from migrator.model.printable import printable

KEYS_SHOWN: Final = 3


def report_lines(report: FeatureReport, to: int | None = None) -> list[str]:
    """Everything that `zk2kraft features` prints. to: the level that was named; all keys of its losses are shown."""
    matrix = report.matrix
    lines = [f"the log was read up to offset {report.read_to.offset:,} (epoch {report.read_to.epoch})"]
    lines += [*matrix_lines(matrix)]
    lines += [printable(f"no answer: controller at {address}: {why}") for address, why in report.silent.items()]
    if matrix.effective is None:
        return [*lines, "", "no level is finalized, so none can be raised or lowered"]
    if to is None:
        groups = [list(group) for _, group in groupby(report.changes, key=_verdict)]
        return [
            *lines,
            "",
            "what another metadata.version would do:",
            *(line for each in groups for line in _few(each)),
        ]
    if not report.changes:
        return [*lines, "", f"metadata.version is {level_name(to)} already"]
    return [*lines, "", *(line for each in report.changes for line in _whole(each))]


def matrix_lines(matrix: FeatureMatrix) -> Iterator[str]:
    """What is finalized, the case of the cluster and what to do, and a row for each node."""
    level = "none" if matrix.effective is None else level_name(matrix.effective)
    yield f"effective metadata.version: {level}; migration: {matrix.migration}"
    others = {name: each for name, each in matrix.finalized.items() if name != METADATA_VERSION}
    if others:
        yield printable(f"other finalized features: {_levels(others)}")
    if matrix.in_zookeeper is not None:
        yield printable(f"finalized in ZooKeeper (/feature): {_levels(matrix.in_zookeeper) or 'nothing'}")
    yield from case_lines(matrix)
    yield ""
    yield from _table([_head(matrix), *(_row(each, matrix.features) for each in matrix.nodes)])


def case_lines(matrix: FeatureMatrix) -> Iterator[str]:
    """The case and what to do; where nodes stand in the way, each of their cases with their names."""
    row = CASES[matrix.case]
    if not row.stands_in_the_way:
        yield f"case {row.case}: {row.holds} {row.remedy}"
    for each in CASES.values():
        names = [node.name for node in matrix.nodes if node.case is each.case]
        if each.stands_in_the_way and names:
            yield printable(f"case {each.case} ({_names(names)}): {each.holds} {each.remedy}")


def _levels(features: dict[str, int]) -> str:
    return ", ".join(f"{name} {level}" for name, level in sorted(features.items()))


def _head(matrix: FeatureMatrix) -> list[str]:
    return ["node", "mode", "alive", "IBP", *matrix.features, "case"]


def _row(node: NodeFeatures, features: Sequence[str]) -> list[str]:
    ranges = [node.range_of(each) for each in features]
    alive = "not known" if node.is_alive is None else "yes" if node.is_alive else "no"
    return [
        node.name,
        node.mode.value,
        alive,
        "-" if node.ibp is None else "below 3.0-IV1" if not node.ibp else level_name(node.ibp),
        *("-" if each is None else f"{each.lowest}-{each.highest}" for each in ranges),
        node.case.value,
    ]


def _table(rows: list[list[str]]) -> Iterator[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        yield printable("  ".join(each.ljust(width) for each, width in zip(row, widths, strict=True)).rstrip())


# --- other levels -----------------------------------------------------------------------------------------


def _verdict(change: LevelChange) -> tuple[object, ...]:
    return change.direction, change.refused, change.obstacles, change.losses


def _few(group: list[LevelChange]) -> Iterator[str]:
    """Neighbouring levels with the same answer, as one."""
    first, last = group[0], group[-1]
    named = level_name(first.level) if first is last else f"{level_name(first.level)} to {level_name(last.level)}"
    yield f"  {named}: {_answer(first)}"
    yield from (f"    {_said(each)}" for each in first.obstacles)
    yield from (printable(f"    would lose {_lost(each, KEYS_SHOWN)}") for each in first.losses)


def _whole(change: LevelChange) -> Iterator[str]:
    yield f"{level_name(change.level)}: {_answer(change)}"
    yield from (f"  {_said(each)}" for each in change.obstacles)
    for each in change.losses:
        yield printable(f"  would lose {_lost(each, len(each.keys))}")


def _answer(change: LevelChange) -> str:
    if change.refused is not None:
        return f"{change.direction} is refused: {REFUSALS[change.refused]}"
    return f"{change.direction} is possible" + ("" if change.losses else "; it loses nothing")


def _said(obstacle: Obstacle) -> str:
    gone = "; it is not alive, and its registration counts" if obstacle.is_alive is False else ""
    if obstacle.lowest is None:
        return f"{obstacle.node}: not known what it supports{gone}"
    return f"{obstacle.node} supports {obstacle.lowest} to {obstacle.highest}{gone}"


def _lost(loss: Loss, shown: int) -> str:
    where = f"{loss.record}.{loss.field}" if loss.field else loss.record
    keys = ", ".join(loss.keys[:shown])
    more = f" and {loss.count - len(loss.keys[:shown]):,} more" if loss.count > len(loss.keys[:shown]) else ""
    return f"{loss.kind}, {loss.count:,} ({where}, from {level_name(loss.first_level)} on): {keys}{more}"


def _names(names: list[str]) -> str:
    more = f" and {len(names) - KEYS_SHOWN} more" if len(names) > KEYS_SHOWN else ""
    return ", ".join(names[:KEYS_SHOWN]) + more
