"""The hand-back with only ZooKeeper alive: no controller of ours has to run.

In:   a ZooKeeper session.
Out:  what stands, the multi that would release it, and, when executed, what stands afterwards.
Elsewhere: the hand-back of a living controller (hand_back.py).
Rules: refused while a broker that holds replicas is not in ZooKeeper mode, and while an ephemeral claim shows that its
owner lives. `/controller_epoch` is raised to the highest epoch in any partition state, so that the next ZooKeeper
controller outranks them all (F-40).
Source: KIP-866's reversal, with `/migration` deleted as well (F-42).
"""

from __future__ import annotations

from dataclasses import dataclass

from migrator.driver.claim import Seen
from migrator.driver.tree import live_and_assigned
from migrator.errors import RELEASE_REFUSED
from migrator.node.claims import read_claim
from migrator.node.tree_reader import read_tree
from migrator.zk import paths
from migrator.zk.multi import Delete, Multi, Operation, SetData
from migrator.zk.pipeline import CONSIDERATE
from migrator.zk.session import ZkSession
from migrator.zk.znodes import migration_data


@dataclass(frozen=True, slots=True)
class ReleasePlan:
    """before: what stands, one line each. brokers: those in ZooKeeper mode. multi: what releases it."""

    before: tuple[str, ...]
    brokers: tuple[int, ...]
    multi: Multi


def plan_release(session: ZkSession) -> ReleasePlan:
    """Raises Z2K-2019 with the reason why it may not be released."""
    seen = read_claim(session)
    tree = read_tree(session, CONSIDERATE)
    if seen.epoch_version < 0:
        raise RELEASE_REFUSED.error(reason=f"{paths.CONTROLLER_EPOCH} does not exist")
    if seen.controller is not None and seen.controller.kraft_epoch <= 0:
        raise RELEASE_REFUSED.error(reason=f"broker {seen.controller.brokerid} is controller already")
    if seen.controller is not None and seen.controller_owner:
        raise RELEASE_REFUSED.error(reason="the claim is ephemeral: its controller lives; ask it to abort")
    if seen.controller is None and seen.migration_version < 0:
        raise RELEASE_REFUSED.error(reason="nothing is claimed")
    live, assigned = live_and_assigned(tree)
    absent = sorted(set(assigned) - live)
    if absent:
        reason = f"brokers {absent} hold replicas and are not in ZooKeeper mode ({paths.BROKER_IDS})"
        raise RELEASE_REFUSED.error(reason=reason)
    return ReleasePlan(describe(seen), tuple(sorted(live)), _multi(seen, tree.highest_controller_epoch()))


def execute_release(session: ZkSession, plan: ReleasePlan) -> tuple[str, ...]:
    """Apply the multi; returns what stands afterwards. Raises Z2K-2019 when ZooKeeper moved meanwhile."""
    outcome = session.apply(plan.multi)
    if not outcome.applied:
        refused = plan.multi.describe()[outcome.failed_at]
        raise RELEASE_REFUSED.error(reason=f"ZooKeeper moved meanwhile ({outcome.error} at: {refused})")
    session.sync()
    return describe(read_claim(session))


def _multi(seen: Seen, highest_state_epoch: int) -> Multi:
    epoch = max(seen.epoch, highest_state_epoch)
    operations: list[Operation] = [SetData(paths.CONTROLLER_EPOCH, str(epoch).encode(), seen.epoch_version)]
    if seen.migration_version >= 0:
        operations.append(Delete(paths.MIGRATION, seen.migration_version))
    if seen.controller_version >= 0:
        operations.append(Delete(paths.CONTROLLER, seen.controller_version))
    return Multi(tuple(operations))


def describe(seen: Seen) -> tuple[str, ...]:
    """The claim as lines for a person."""
    held = seen.controller
    kind = "" if held is None else "KRaft controller" if held.kraft_epoch > 0 else "ZooKeeper-mode broker"
    controller = "absent" if held is None else f"{kind} {held.brokerid}, KRaft epoch {held.kraft_epoch}"
    migration = "absent" if seen.migration_version < 0 else "unreadable"
    if seen.migration is not None:
        migration = migration_data(seen.migration).decode()
    return (
        f"{paths.CONTROLLER}: {controller}",
        f"{paths.CONTROLLER_EPOCH}: {seen.epoch} (version {seen.epoch_version})",
        f"{paths.MIGRATION}: {migration}",
    )
