"""Who is controller: the multis that take the claim, persist it and end it, and how to recognise it.

In:   what the znodes `/controller_epoch`, `/controller` and `/migration` held, with their versions.
Out:  one conditional multi per step, and the `Claim` that holds when it was applied.
Elsewhere: sending them (node.driver.claiming, node.driver.rollback), when (machine.py, claim_table.py), with no
controller alive (node.tools.without_controllers).
Source: Kafka 3.9 `KafkaZkClient.tryRegisterKRaftControllerAsActiveController`.

What can happen. Between a read and a write, another process can change any of the three znodes. An answer can be lost
after the write took effect. The session can expire at any moment. This process can stand still for a minute and then
send a write that it decided on long ago. An operator can delete a znode by hand.

Why it is safe. Every write names the versions that were read.

* The claim is one multi that raises `/controller_epoch`. Every conditional write of the old controller names the old
  version of that znode, so after the claim none of them can succeed (R-866-01). A stale leader of this quorum is fenced
  by the same rule.
* A ZooKeeper-mode controller is displaced first, with its epoch unchanged: it sees that `/controller` is another's,
  finishes what it is about and steps down. A controller that is fenced in the middle of a change keeps half a batch of
  requests and can do nothing if it is ever elected again (K-27).
* The claim is ephemeral until the copy is committed. If this process dies before that, the session's end deletes
  `/controller`, and a broker takes over with nobody awake. After the commit, and before any broker is updated, one more
  multi persists it: a fail-over must not depend on a session.
* After a lost answer the znodes tell: a claim with our node, our epoch and the versions that we planned is ours (K-01).
  Anything else is foreign, and the driver stops writing.
* The epoch claimed is above the epoch of both worlds (R-866-05). Partition states that we write carry that epoch, so a
  later ZooKeeper controller, whose epoch is higher still, is accepted by every broker (F-40).
* `/migration` is checked or set in every multi of dual-write. Its version counts the writes, so two writers cannot both
  go on.

Where it differs from Kafka. Stock claims persistently at once, does not displace, and writes its KRaft epoch into
partition states. It takes over a `/migration` of any origin; here one that names another quorum, or a log that this one
does not have, is refused (F-42, K-03).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Final

from migrator.findings.driver import CLAIM_NOT_POSSIBLE, FOREIGN_MIGRATION
from migrator.findings.finding import Occurrence
from migrator.model.image import NOWHERE, Position
from migrator.zk import paths
from migrator.zk.multi import Check, Create, Delete, Multi, Operation, SetData
from migrator.zk.znodes import ControllerZnode, MigrationZnode, controller_data, migration_data


@dataclass(frozen=True, slots=True)
class ClaimObservation:
    """The three znodes of the claim as read. A version of -1 means: does not exist.

    controller_owner: the session of an ephemeral `/controller`, 0 for a persistent one.
    migration_born:   the transaction that created `/migration`: the identity of one migration, from its takeover to
                      its end. Node ids and epochs of two migrations of one cluster may be the same.
    """

    epoch: int = -1
    epoch_version: int = -1
    controller: ControllerZnode | None = None
    controller_version: int = -1
    controller_owner: int = 0
    migration: MigrationZnode | None = None
    migration_version: int = -1
    migration_born: int = -1


@dataclass(frozen=True, slots=True)
class Claim:
    """The controllership as we hold it: every version that a later write has to name."""

    node: int
    kraft_epoch: int
    zk_epoch: int
    epoch_version: int
    controller_version: int
    migration_version: int
    ephemeral: bool
    at: Position = NOWHERE
    """What `/migration` says is mirrored."""


NOBODYS: Final = MigrationZnode()
"""Nothing to fear: another quorum that only looks waits for brokers, and those of this cluster are registered here."""


def refuse_claim(observed: ClaimObservation, voters: Collection[int], kraft_epoch: int) -> Occurrence | None:
    """Why a first claim (log in PRE_MIGRATION) may not be tried; None when it may.

    A `/migration` is ours when a voter of this quorum wrote it before any commit; whatever else it holds, it
    belongs to another migration or another log, and going on would empty ZooKeeper (F-42, K-03). One that names nobody
    was left by a stock controller that only looked: each creates it as soon as it starts.
    """
    if observed.epoch_version < 0:
        return CLAIM_NOT_POSSIBLE.found(
            reason=f"{paths.CONTROLLER_EPOCH} does not exist: this cluster never had a controller"
        )
    found = observed.migration
    if (
        observed.migration_version >= 0
        and found != NOBODYS
        and (
            found is None
            or found.kraft_metadata_offset >= 0
            or found.kraft_controller_id not in voters
            or found.kraft_controller_epoch > kraft_epoch
        )
    ):
        return FOREIGN_MIGRATION.found(found=_text(found))
    if (
        observed.controller is not None
        and observed.controller.kraft_epoch > 0
        and observed.controller.brokerid not in voters
    ):
        return CLAIM_NOT_POSSIBLE.found(
            reason=f"{paths.CONTROLLER} is held by KRaft controller {observed.controller.brokerid}, "
            f"epoch {observed.controller.kraft_epoch}"
        )
    return None


def left_controller(observed: ClaimObservation, voters: Collection[int], kraft_epoch: int) -> bool:
    """Whether `/controller` is held by this quorum, in no later epoch, and nothing was committed under it."""
    held, migration = observed.controller, observed.migration
    return (
        held is not None
        and 0 < held.kraft_epoch <= kraft_epoch
        and held.brokerid in voters
        and (migration is None or migration.kraft_metadata_offset < 0)
    )


def plan_claim(
    observed: ClaimObservation,
    *,
    node: int,
    kraft_epoch: int,
    now_ms: int,
    ephemeral: bool,
    at: Position = NOWHERE,
    above: int = -1,
) -> tuple[Multi, Claim]:
    """Take the controllership in one multi.

    at: what `/migration` shall say is mirrored: nothing at a first claim; when a log in MIGRATION is resumed,
        what it said before, or the position of the MIGRATION record if that was never noted (K-02).
    above: an epoch that brokers know already, whatever `/controller_epoch` says; it is made again where it is absent.
    """
    zk_epoch = max(observed.epoch, kraft_epoch, above) + 1
    migration = migration_data(MigrationZnode(node, kraft_epoch, at.offset, at.epoch))
    epoch = str(zk_epoch).encode()
    operations: list[Operation] = [
        Create(paths.CONTROLLER_EPOCH, epoch)
        if observed.epoch_version < 0
        else SetData(paths.CONTROLLER_EPOCH, epoch, observed.epoch_version)
    ]
    if observed.controller_version >= 0:
        operations.append(Delete(paths.CONTROLLER, observed.controller_version))
    operations.append(Create(paths.CONTROLLER, controller_data(node, kraft_epoch, now_ms), ephemeral=ephemeral))
    if observed.migration_version >= 0:
        operations.append(SetData(paths.MIGRATION, migration, observed.migration_version))
    else:
        operations.append(Create(paths.MIGRATION, migration))
    claim = Claim(
        node=node,
        kraft_epoch=kraft_epoch,
        zk_epoch=zk_epoch,
        epoch_version=observed.epoch_version + 1,
        controller_version=0,
        migration_version=observed.migration_version + 1,
        ephemeral=ephemeral,
        at=at,
    )
    return Multi(tuple(operations)), claim


def plan_displace(observed: ClaimObservation, *, node: int, kraft_epoch: int, now_ms: int) -> tuple[Multi, Claim]:
    """Put this node into the place of a ZooKeeper-mode controller and leave the epoch as it is.

    Until `plan_raise` the old controller may still write; nothing that is read before that may be relied on.
    """
    migration = migration_data(MigrationZnode(node, kraft_epoch))
    create = observed.migration_version < 0
    multi = Multi(
        (
            Check(paths.CONTROLLER_EPOCH, observed.epoch_version),
            Delete(paths.CONTROLLER, observed.controller_version),
            Create(paths.CONTROLLER, controller_data(node, kraft_epoch, now_ms), ephemeral=True),
            Create(paths.MIGRATION, migration)
            if create
            else SetData(paths.MIGRATION, migration, observed.migration_version),
        )
    )
    claim = Claim(
        node=node,
        kraft_epoch=kraft_epoch,
        zk_epoch=observed.epoch,
        epoch_version=observed.epoch_version,
        controller_version=0,
        migration_version=observed.migration_version + 1,
        ephemeral=True,
    )
    return multi, claim


def plan_raise(displaced: Claim) -> tuple[Multi, Claim]:
    """The claim itself, where this node stands in `/controller` already."""
    claim = replace(
        displaced,
        zk_epoch=max(displaced.zk_epoch, displaced.kraft_epoch) + 1,
        epoch_version=displaced.epoch_version + 1,
        migration_version=displaced.migration_version + 1,
    )
    multi = Multi(
        (
            SetData(paths.CONTROLLER_EPOCH, str(claim.zk_epoch).encode(), displaced.epoch_version),
            Check(paths.CONTROLLER, displaced.controller_version),
            SetData(paths.MIGRATION, _migration(claim, NOWHERE), displaced.migration_version),
        )
    )
    return multi, claim


def recognise(observed: ClaimObservation, planned: Claim) -> bool:
    """Whether the claim that stands is the one that we planned: asked when the answer was lost (K-01)."""
    return (
        observed.epoch == planned.zk_epoch
        and observed.epoch_version == planned.epoch_version
        and observed.controller is not None
        and observed.controller.brokerid == planned.node
        and observed.controller.kraft_epoch == planned.kraft_epoch
        and observed.migration_version == planned.migration_version
    )


def is_successor(observed: ClaimObservation, claim: Claim, voters: Collection[int], epoch: int) -> bool:
    """Another voter of this quorum was elected and has claimed; this node, in `epoch`, has not heard of it yet."""
    held = observed.controller
    return (
        held is not None
        and held.brokerid in voters
        and held.brokerid != claim.node
        and held.kraft_epoch > max(claim.kraft_epoch, epoch)
    )


def stands_alone(observed: ClaimObservation, claim: Claim | None) -> bool:
    """`/migration` was deleted beside a claim that is ours: the claim can be taken away all the same."""
    held = observed.controller
    return (
        claim is not None
        and held is not None
        and (held.brokerid, held.kraft_epoch, observed.epoch) == (claim.node, claim.kraft_epoch, claim.zk_epoch)
        and observed.migration_version < 0
    )


def plan_persist(claim: Claim, at: Position, now_ms: int) -> tuple[Multi, Claim]:
    """Note the offset of the commit and make the claim outlive our session, before any broker hears of us."""
    operations: list[Operation] = [
        Check(paths.CONTROLLER_EPOCH, claim.epoch_version),
        SetData(paths.MIGRATION, _migration(claim, at), claim.migration_version),
    ]
    settled = replace(claim, migration_version=claim.migration_version + 1, at=at)
    if claim.ephemeral:
        operations.append(Delete(paths.CONTROLLER, claim.controller_version))
        operations.append(Create(paths.CONTROLLER, controller_data(claim.node, claim.kraft_epoch, now_ms)))
        settled = replace(settled, ephemeral=False, controller_version=0)
    return Multi(tuple(operations)), settled


def plan_abort(claim: Claim) -> Multi:
    """Abort before the commit: leave as if we had not come, but for the epoch, which never goes back."""
    return Multi(
        (
            Check(paths.CONTROLLER_EPOCH, claim.epoch_version),
            Delete(paths.MIGRATION, claim.migration_version),
            Delete(paths.CONTROLLER, claim.controller_version),
        )
    )


def plan_fence(observed: ClaimObservation) -> Multi:
    """Refuse an earlier leader's first claim that may still be on its way, after an abort that found no claim to end.

    That claim names the version of `/migration` (or creates it); with this it is refused whenever it arrives, and the
    ZooKeeper controller is not disturbed, as it would be by a touch of `/controller_epoch`.
    """
    check = Check(paths.CONTROLLER_EPOCH, observed.epoch_version)
    if observed.migration_version < 0:
        return Multi((check, Create(paths.MIGRATION, migration_data(NOBODYS))))
    return Multi((check, SetData(paths.MIGRATION, migration_data(NOBODYS), observed.migration_version)))


def plan_leave_controller(observed: ClaimObservation) -> Multi:
    """Delete a `/controller` of this quorum beside which `/migration` says nothing of it."""
    return Multi(
        (Check(paths.CONTROLLER_EPOCH, observed.epoch_version), Delete(paths.CONTROLLER, observed.controller_version))
    )


def plan_rollback(claim: Claim, highest_state_epoch: int) -> Multi:
    """End of dual-write with every broker in ZooKeeper mode: one of them is controller a moment later.

    highest_state_epoch: the highest controller epoch in any partition state; the next ZooKeeper controller takes
    `/controller_epoch` + 1 and must outrank it (F-40).
    """
    epoch = max(claim.zk_epoch, highest_state_epoch)
    raised = SetData(paths.CONTROLLER_EPOCH, str(epoch).encode(), claim.epoch_version)
    left = Delete(paths.CONTROLLER, claim.controller_version)
    if claim.migration_version < 0:  # somebody deleted it
        return Multi((raised, left))
    return Multi((raised, Delete(paths.MIGRATION, claim.migration_version), left))


def still_ours(observed: ClaimObservation, claim: Claim) -> bool:
    """Whether the claim is untouched. `/migration` is compared by owner only: our own writes move its version."""
    return (
        observed.epoch_version == claim.epoch_version
        and observed.controller is not None
        and observed.controller.brokerid == claim.node
        and observed.controller.kraft_epoch == claim.kraft_epoch
        and observed.migration is not None
        and observed.migration.kraft_controller_id == claim.node
        and observed.migration.kraft_controller_epoch == claim.kraft_epoch
    )


def _migration(claim: Claim, at: Position) -> bytes:
    return migration_data(MigrationZnode(claim.node, claim.kraft_epoch, at.offset, at.epoch))


def _text(migration: MigrationZnode | None) -> str:
    return "absent or unreadable" if migration is None else migration_data(migration).decode()
