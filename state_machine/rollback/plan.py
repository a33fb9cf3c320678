"""A rollback from dual-write on: which nodes restart, with which file, and what is lost.

In:   a `Snapshot`. Out: node ids, checksums of previous files, `RollbackPlan` for gate and view.
Elsewhere: the restarts (rolling/loop.py), their files (previous_file.py), controllers (controllers_back.py), the gates
(policy/gates_back.py).
Rules: everything follows from the journal, so that a service that dies goes on. A broker that another roll has left
half-way is taken first.
Source: Kafka 3.9 operations page, "Reverting to ZooKeeper mode"; failure cases F-41 and F-51.
"""

from __future__ import annotations

import hashlib
from collections.abc import Container, Iterable, Sequence
from statistics import median
from typing import Any, Final

import msgspec

from migrator.fleet.render import FileKind
from migrator.fleet.roll import UNDER_WAY, UNTOUCHED, RollStep
from state_machine.clusters.observe import Observation
from state_machine.facts.accepted import Limits
from state_machine.facts.approvals import ApprovalNow
from state_machine.policy.fleet_evidence import BROKERS, CONTROLLERS, Roll, RollbackPlan
from state_machine.policy.phase_table import GoesBack
from state_machine.policy.phases import Phase
from state_machine.policy.rolls import ROLLS
from state_machine.rollback import controllers_back
from state_machine.rollback.left_out import left_out, nodes_left_out, without_answer
from state_machine.rows.documents import FILES, LIMITS, FilesDocument, document
from state_machine.rows.store import Snapshot, reached
from state_machine.rows.tables import JournalRow

BROKER_ROLLS: Final = tuple(roll for roll, row in ROLLS.items() if row.role == BROKERS)
"""In the order in which a broker goes through them."""
WITH_FILE: Final = frozenset({RollStep.WRITTEN, RollStep.STARTED, RollStep.WHOLE, RollStep.BACK})


def way_back(snapshot: Snapshot, now: float) -> RollbackPlan | None:
    """None where a rollback loses nothing, or the driver carries it out already."""
    if not (snapshot.phase_row.needs_consent or snapshot.led_back):
        return None
    lost = loss_of(snapshot)
    if not (snapshot.phase_row.led_back or snapshot.led_back):
        return RollbackPlan(lost=lost, consent=_consent(snapshot, lost, now))
    files, out, silent = document(snapshot, FILES, FilesDocument), left_out(snapshot, now), without_answer(snapshot)
    restarts = tuple(each for each in into_zookeeper_mode(snapshot) if each not in out)
    controllers = tuple(each for each in controllers_back.to_put_back(snapshot) if each not in out)
    look = snapshot.observation
    status = None if look is None or look.active is None else look.active.status
    mirror = None if status is None else status.dual_write
    equal, said = _audited(snapshot)
    limits = document(snapshot, LIMITS, Limits) or Limits()
    return RollbackPlan(
        restarts=restarts,
        again=tuple(each for each in _as_found(snapshot) if each not in out),
        not_kept=_not_kept(snapshot, restarts, files, out),
        lost=lost,
        consent=_consent(snapshot, lost, now),
        orders=None if mirror is None else mirror.orders_count,
        seconds=_seconds(snapshot, (Roll.JOIN, Roll.KRAFT, Roll.BACK)),
        controllers=controllers,
        controller_seconds=_seconds(snapshot, (Roll.STOCK, Roll.SOAK, Roll.OURS)),
        settle_s=limits.settle_s,
        unforeseen=_unforeseen(snapshot, lost),
        equal=equal,
        said=said,
        epoch_gap=_epoch_gap(snapshot),
        unknown=tuple(
            (f"{role} {node}", silent[node])
            for role, nodes in ((CONTROLLERS, controllers), (BROKERS, restarts))
            for node in nodes
            if node in silent
        ),
        left_out=tuple(f"{each.name} by {each.owner} ({each.reason})" for each in nodes_left_out(snapshot, now)),
    )


# --- which brokers ----------------------------------------------------------------------------------------


def into_zookeeper_mode(snapshot: Snapshot) -> tuple[int, ...]:
    """Brokers that this migration stopped for KRaft mode, or that are registered in it; whoever is back is not."""
    back = {row.node_id for row in snapshot.nodes_of(Roll.BACK) if row.step == RollStep.WHOLE}
    rolled = {row.node_id for row in snapshot.nodes_of(Roll.KRAFT) if is_touched(row) and row.step != RollStep.BACK}
    log = None if snapshot.observation is None else snapshot.observation.log
    kraft = {each.id for each in log.brokers if each.mode == "KRaft"} if log is not None and log.known else set()
    return tuple(sorted((rolled | kraft) - back))


def to_original_file(snapshot: Snapshot) -> tuple[int, ...]:
    """After the claim is gone: brokers whose migration file this migration wrote, or that did not come back before."""
    done = {row.node_id for row in snapshot.nodes_of(Roll.ORIGINAL) if row.step == RollStep.WHOLE}
    missing = {*left_half_way(snapshot, Roll.ORIGINAL), *into_zookeeper_mode(snapshot)}
    joined = {
        row.node_id
        for row in snapshot.nodes_of(Roll.JOIN)
        if _wrote(row) and last_written(snapshot, row.node_id) != row.rendered_from
    }
    return tuple(sorted((missing | joined) - done))


def left_half_way(snapshot: Snapshot, roll: Roll) -> tuple[int, ...]:
    """Brokers that a roll before `roll` has stopped and not brought to its end, the last one that touched each."""
    rows = [row for each in BROKER_ROLLS[: BROKER_ROLLS.index(roll)] for row in snapshot.nodes_of(each)]
    found = []
    for node in sorted({row.node_id for row in rows}):
        begun = [row for row in rows if row.node_id == node and is_touched(row)]
        if begun and reached(begun[-1]) in UNDER_WAY:
            found.append(node)
    return tuple(found)


def is_touched(row: JournalRow) -> bool:
    """Its stop was ordered."""
    return reached(row) not in UNTOUCHED


# --- which file -------------------------------------------------------------------------------------------


def kept_for(snapshot: Snapshot, node: int, kind: FileKind) -> str:
    """The checksum of the previous file, which lies beside the present one; empty when this migration kept none."""
    if kind is FileKind.ORIGINAL:
        for row in snapshot.nodes_of(Roll.JOIN):
            if row.node_id == node and _wrote(row):
                return row.rendered_from
    for row in (*snapshot.nodes_of(Roll.KRAFT), *snapshot.nodes_of(Roll.STOCK)):
        if row.node_id == node and is_touched(row):
            return row.rendered_from
    return ""


def last_written(snapshot: Snapshot, node: int) -> str:
    """The checksum of its present file, by the journal; empty when nothing was written."""
    newest = ""
    for roll in BROKER_ROLLS:
        for row in snapshot.nodes_of(roll):
            if row.node_id == node and reached(row) in WITH_FILE:
                newest = row.checksum
    return newest


def _wrote(row: JournalRow) -> bool:
    """Whether this migration replaced the file; a broker that had joined already keeps its own."""
    return reached(row) in WITH_FILE and bool(row.rendered_from) and row.checksum != row.rendered_from


def _as_found(snapshot: Snapshot) -> tuple[int, ...]:
    """Brokers of the second roll, as far as that is known: those whose migration file this migration wrote."""
    if snapshot.nodes_of(Roll.ORIGINAL) or snapshot.nodes_of(Roll.BACK):
        return to_original_file(snapshot)
    return tuple(row.node_id for row in snapshot.nodes_of(Roll.JOIN) if _wrote(row))


def _not_kept(
    snapshot: Snapshot, restarts: Sequence[int], files: FilesDocument | None, out: Container[int]
) -> tuple[str, ...]:
    said = () if files is None else files.not_kept
    found = [each.words for each in said if each.node not in out]
    found += [
        f"broker {node}: this migration did not restart it into KRaft mode"
        for node in restarts
        if not any(row.node_id == node and is_touched(row) for row in snapshot.nodes_of(Roll.KRAFT))
    ]
    return tuple(found)


# --- what it costs ----------------------------------------------------------------------------------------


NOT_KNOWN: Final = "configuration of client-metrics, if there is any: it is not known now"
"""Consent opens the gate then, too: the way back must not depend on what cannot be read."""


def loss_of(snapshot: Snapshot) -> tuple[str, ...]:
    """What has no form in ZooKeeper, in words: read in the log, and reported by the leader (F-51)."""
    look = snapshot.observation
    if snapshot.phase_row.goes_back is GoesBack.DRIVER:
        return _loss_by_the_driver(look)
    if look is None:
        return ()
    status = None if look.active is None else look.active.status
    mirror = None if status is None else status.dual_write
    left = () if mirror is None else mirror.unmirrored
    more = 0 if mirror is None else mirror.unmirrored_count - len(left)
    return (*look.log.only_kraft, *left, *((f"and {more} more that are not mirrored",) if more > 0 else ()))


def _loss_by_the_driver(look: Observation | None) -> tuple[str, ...]:
    """It tells before the service has read the log. What it could not mirror is no loss: it refuses the rollback."""
    status = None if look is None or look.active is None else look.active.status
    told = None if status is None or status.dual_write is None else status.dual_write.only_kraft
    if told is not None:
        return told
    return look.log.only_kraft if look is not None and look.log.known else (NOT_KNOWN,)


def loss_document(lost: Sequence[str]) -> dict[str, Any]:
    """What somebody consents to."""
    return {"lost": list(lost)}


def loss_digest(lost: Sequence[str]) -> str:
    return hashlib.sha256(msgspec.json.encode(loss_document(lost), order="deterministic")).hexdigest()


def _unforeseen(snapshot: Snapshot, lost: Sequence[str]) -> tuple[str, ...]:
    """What was added to the list while the rollback ran: stock reports nothing of what it could not mirror."""
    approval = snapshot.approval
    consented = approval is not None and approval.to_phase == Phase.ROLLING_BACK
    known = approval.document.get("lost", ()) if approval is not None and consented else ()
    return tuple(each for each in lost if each not in known)


def _audited(snapshot: Snapshot) -> tuple[bool | None, str]:
    """The last audit that was requested after the last controller was ours again, and what it said."""
    since = max((row.changed_at for row in snapshot.nodes_of(Roll.OURS)), default=None)
    run = snapshot.copy_audit
    if since is None or run is None or run.asked_at < since:
        return None, "none was made since"
    different, not_read = (sum(int(each[key]) for each in run.families) for key in ("different", "not_read"))
    said = run.problem or f"audit {run.id}: {different} keys are different, {not_read} were not read"
    return run.same is True and not not_read, said


def _consent(snapshot: Snapshot, lost: Sequence[str], now: float) -> ApprovalNow | None:
    approval = snapshot.approval
    if approval is None or approval.to_phase != Phase.ROLLING_BACK:
        return None
    return ApprovalNow(approval.fact, loss_digest(lost), now)


def _epoch_gap(snapshot: Snapshot) -> int | None:
    """Only stock writes KRaft epochs into partition states."""
    look = snapshot.observation
    if look is None or not look.log.known or look.log.leader not in snapshot.replaced:
        return None
    return look.epoch_gap


def _seconds(snapshot: Snapshot, rolls: Iterable[Roll]) -> float | None:
    took = [
        row.changed_at - row.began_at
        for roll in rolls
        for row in snapshot.nodes_of(roll)
        if row.step == RollStep.WHOLE and row.began_at is not None
    ]
    return median(took) if took else None
