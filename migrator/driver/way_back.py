"""The way back: what bars it, what stands of a claim, and the multis that delete it.

In:   what the claim's znodes hold now; brokers, voters and the epoch of this quorum; the mark of a retired log.
Out:  why a rollback is refused; the next multi of an abort; the last steps of a rollback. None or nothing when no claim
      of this quorum stands.
Elsewhere: the multis themselves (claim.py), sending them (node.driver.rollback), orders below /admin (orders.py).
Rule: every multi names the versions that were observed, so a claim that moved meanwhile is left alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import msgspec

from migrator.driver.claim import (
    Claim,
    ClaimObservation,
    left_controller,
    plan_abort,
    plan_fence,
    plan_leave_controller,
    plan_rollback,
    refuse_claim,
)
from migrator.driver.orders import NO_ORDERS, Orders, with_orders
from migrator.findings.driver import ROLLBACK_NOT_POSSIBLE
from migrator.findings.finding import Occurrence
from migrator.model.values import Broker
from migrator.zk import paths
from migrator.zk.multi import JUTE_MAXBUFFER, Check, Delete, Multi


def refuse_rollback(
    brokers: Iterable[Broker], voters: int, stock_voters: Sequence[int], foreign_voters: Sequence[str]
) -> Occurrence | None:
    """Why a rollback is not possible with these brokers and voters.

    voters: how many the quorum has. stock_voters: ids of Kafka's own; with this log they would take the cluster over
    again, because they do not know our marks. foreign_voters: those not known to be ours, each with the reason.
    """
    kraft = sorted(broker.id for broker in brokers if not broker.migrating)
    if kraft:
        return ROLLBACK_NOT_POSSIBLE.found(reason=f"brokers {kraft} run in KRaft mode; roll them back first")
    if stock_voters:
        reason = f"voters {stock_voters} are Kafka's; put ours in their place first"
        return ROLLBACK_NOT_POSSIBLE.found(reason=reason)
    ours = voters - len(foreign_voters)
    if ours <= voters // 2:
        reason = f"{ours} of {voters} voters are there; {', '.join(foreign_voters)}"
        return ROLLBACK_NOT_POSSIBLE.found(reason=reason)
    return None


def way_back(observed: ClaimObservation, voters: Collection[int], epoch: int) -> tuple[Multi | None, bool]:
    """The next multi of an abort, and whether something of this quorum stands that it takes away.

    epoch: KRaft epoch of this leader.
    """
    claim = left_claim(observed, voters, epoch)
    if claim is not None:
        return plan_abort(claim), True
    if left_controller(observed, voters, epoch):
        return plan_leave_controller(observed), True
    if refuse_claim(observed, voters, epoch) is not None:
        return None, False  # no claim of this quorum is possible here, of whatever epoch
    return plan_fence(observed), False


def left_claim(observed: ClaimObservation, voters: Collection[int], epoch: int) -> Claim | None:
    """The claim that stands, if a voter of this quorum made it and nothing was committed under it."""
    held, migration = observed.controller, observed.migration
    if held is None or held.kraft_epoch <= 0 or held.brokerid not in voters or held.kraft_epoch > epoch:
        return None
    if migration is None or migration.kraft_controller_id not in voters or migration.kraft_metadata_offset >= 0:
        return None
    return _standing(observed, held.brokerid, held.kraft_epoch)


def left_migration(observed: ClaimObservation, voters: Collection[int], kraft_epoch: int) -> Multi | None:
    """Deletes a `/migration` that this quorum left when its claim ended with a session before it was persisted.

    Nobody holds the claim now, and no broker ever heard of it. Left alone it would bar this cluster's next migration:
    a fresh quorum begins with a lower epoch than that one names (Z2K-2006).
    """
    held, migration = observed.controller, observed.migration
    if held is not None and held.kraft_epoch > 0:
        return None
    if migration is None or migration.kraft_metadata_offset >= 0 or migration.kraft_controller_id not in voters:
        return None
    if migration.kraft_controller_epoch > kraft_epoch:
        return None
    return Multi(
        (
            Check(paths.CONTROLLER_EPOCH, observed.epoch_version),
            Delete(paths.MIGRATION, observed.migration_version),
        )
    )


def _standing(observed: ClaimObservation, node: int, kraft_epoch: int) -> Claim:
    return Claim(
        node=node,
        kraft_epoch=kraft_epoch,
        zk_epoch=observed.epoch,
        epoch_version=observed.epoch_version,
        controller_version=observed.controller_version,
        migration_version=observed.migration_version,
        ephemeral=bool(observed.controller_owner),
    )


class Left(msgspec.Struct, frozen=True):
    """The mark of a log that was rolled back: which claim stood, and what the next controller has to outrank.

    With it a later run of this process can do the last step, when the one that began it did not reach it.
    """

    at: float
    node: int
    kraft_epoch: int
    zk_epoch: int
    highest_state_epoch: int
    leaves_orders: bool = False
    """Rolled back before the first broker update: orders in ZooKeeper stay, as if no takeover had been."""


def last_steps(
    observed: ClaimObservation, left: Left, orders: Orders = NO_ORDERS, jute_maxbuffer: int = JUTE_MAXBUFFER
) -> tuple[Multi, ...]:
    """Delete the claim of this log; none when it does not stand any more.

    orders: what came after the rollback had found none; it goes before anybody can carry it out.
    """
    held = observed.controller
    if held is None or (held.brokerid, held.kraft_epoch) != (left.node, left.kraft_epoch):
        return ()
    if observed.epoch != left.zk_epoch:
        return ()  # the claim of another migration, by a node of the same id in an epoch of the same number
    is_deleted = observed.migration_version < 0  # by hand: the claim stands, and no broker can be controller
    if not is_deleted and (observed.migration is None or observed.migration.kraft_controller_epoch != left.kraft_epoch):
        return ()
    claim = _standing(observed, left.node, left.kraft_epoch)
    returned = plan_rollback(claim, left.highest_state_epoch)
    stands = (
        Check(paths.CONTROLLER_EPOCH, observed.epoch_version),
        Check(paths.CONTROLLER, observed.controller_version),
    )
    return with_orders(returned, NO_ORDERS if left.leaves_orders else orders, stands, jute_maxbuffer)
