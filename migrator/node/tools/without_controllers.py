"""The rollback with only ZooKeeper alive: no controller of ours has to run.

In:   a ZooKeeper session; metadata log directories of controllers that are down, where they can be had.
Out:  what stands, what ZooKeeper has of the log, the multis that would release it, and, when executed, what stands
      afterwards.
Elsewhere: the rollback of a living controller (rollback.py), what a log holds that ZooKeeper lacks (unmirrored.py).
Rules: refused while a broker that holds replicas is not in ZooKeeper mode, and while an ephemeral claim shows that its
owner lives. `/controller_epoch` is raised to the highest epoch in any partition state, so that the next ZooKeeper
controller outranks them all (F-40). Producer ids go on behind all that ours may have handed out while ZooKeeper was
behind (F-29). Refused without consent when a log that is given holds what ZooKeeper lacks, or says something else.
Source: KIP-866's reversal, with `/migration` deleted as well (F-42); Kafka 3.9 `ZkProducerIdManager`, which hands out
the block after the one that `/latest_producer_id_block` names, whatever its owner, and never makes that znode.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from migrator.driver.claim import ClaimObservation
from migrator.driver.copy import PRODUCER_ID_BLOCK
from migrator.driver.orders import Orders, in_the_way, with_orders
from migrator.driver.tree import Tree, live_and_assigned
from migrator.findings.content import PRODUCER_IDS_EMPTY
from migrator.findings.driver import (
    LOG_HAS_TO_BE_SHOWN,
    LOG_IS_FINAL,
    ONLY_THE_LOG_HAS,
    WITHOUT_CONTROLLERS_REFUSED,
    WITHOUT_CONTROLLERS_WOULD_DIFFER,
    WITHOUT_CONTROLLERS_WOULD_LOSE,
)
from migrator.findings.finding import FindingError, Occurrence
from migrator.findings.road import FINALIZE_INTENT_STANDS
from migrator.model.image import NOWHERE, Position
from migrator.node.tools.log_against_zookeeper import (
    NOT_LOOKED,
    LogAgainstZooKeeper,
    guards,
    look_at_both,
    look_at_log,
    raise_versions,
)
from migrator.node.tools.unmirrored import LogLook, home_of, identity, look_into
from migrator.node.tools.who_runs import who_runs
from migrator.node.zookeeper.claims import read_claim
from migrator.node.zookeeper.kraft_brokers import kraft_brokers
from migrator.node.zookeeper.tree_reader import read_tree
from migrator.node.zookeeper.zookeeper_orders import read_orders
from migrator.zk import paths
from migrator.zk.bulk_read import Znode
from migrator.zk.multi import JUTE_MAXBUFFER_MIN, Create, Delete, Multi, Operation, SetData
from migrator.zk.pipeline import CONSIDERATE
from migrator.zk.session import ZkSession
from migrator.zk.znodes import PRODUCER_ID_MAX, migration_data, producer_ids_data

PRODUCER_ID_MARGIN: Final = 10**9 * PRODUCER_ID_BLOCK
"""Left out at a release. The margin of a copy counts what may be on its way, a block for each broker. Here nobody knows
for how long blocks were handed out that ZooKeeper never heard of: a thousand blocks a second for eleven days fit in,
and of all 2^63 ids it is one part in nine million. Whole blocks: who counts them by their size goes on counting right.
"""


@dataclass(frozen=True, slots=True)
class WithoutControllersPlan:
    """before: what stands, one line each. mirrored: what ZooKeeper has of the log, and how that is known, in lines.

    brokers: those in ZooKeeper mode. multis: what releases it, in order; the last one ends the claim.
    look: what a log and ZooKeeper say differently.
    guarded: what has to stand while versions of partition states are raised, before the multis.
    runs: the controllers of ours that run, with which it is not executed.
    """

    before: tuple[str, ...]
    mirrored: tuple[str, ...]
    brokers: tuple[int, ...]
    multis: tuple[Multi, ...]
    look: LogAgainstZooKeeper
    guarded: tuple[Operation, ...]
    runs: Occurrence | None = None


def plan_without_controllers(
    session: ZkSession,
    logs: Sequence[Path] = (),
    *,
    accept_loss: bool = False,
    drop_orders: bool = False,
    stopped: Collection[str] = (),
) -> WithoutControllersPlan:
    """logs: metadata log directories of voters; without them nothing is compared.

    stopped: HOST:PORT of controllers' listeners behind which somebody has seen that no controller runs.
    drop_orders: orders for a ZooKeeper controller that stand in ZooKeeper are deleted before anybody can carry them
        out; without it they refuse the rollback with Z2K-2102.

    Raises Z2K-4211 while the intent of a finalize stands, Z2K-2132 when a log is final, Z2K-2019 with the reason why it
    is not possible, Z2K-1118 while a controller runs on one of `logs`. When that loss was not accepted: Z2K-2131
    without a log while brokers were in KRaft mode, Z2K-2070 for a log that holds what ZooKeeper lacks, Z2K-2127 for one
    that says something else, Z2K-2133 for one with configuration that ZooKeeper has no form of. A directory that cannot
    be used: Z2K-3012, Z2K-3013, Z2K-5001.
    """
    observed = read_claim(session)
    _refuse_finalize(session)
    tree = read_tree(session, CONSIDERATE)
    _refuse_claim(observed)
    live = _live_brokers(tree)
    _refuse_odd_registrations(tree)
    noted = session.get(paths.KRAFT_BROKERS)
    if noted is not None and not logs and not accept_loss:
        raise LOG_HAS_TO_BE_SHOWN.error(
            brokers=list(kraft_brokers(noted)) or "of unknown ids", path=paths.KRAFT_BROKERS
        )
    orders = _orders(session, drop_orders=drop_orders)
    multis = with_orders(_multi(observed, tree, noted), orders, guards(observed), JUTE_MAXBUFFER_MIN)
    mirrored, furthest = _what_zookeeper_has(observed, tree, logs, accept_loss=accept_loss)
    look = NOT_LOOKED
    if furthest is not None:
        known = observed.migration is not None
        look = look_at_both(session, furthest.directory) if known else look_at_log(furthest.directory)
    if furthest is not None and not accept_loss:
        _refuse_losses(look, furthest.directory, live)
    # before any broker was in KRaft mode, only ours can have led: those show themselves in ZooKeeper
    listeners = {} if noted is None else _not_seen_stopped(look.registered.controllers, stopped)
    runs = who_runs(session, (), listeners)
    return WithoutControllersPlan(
        describe(observed), mirrored, tuple(sorted(live)), multis, look, guards(observed), runs
    )


def _refuse_finalize(session: ZkSession) -> None:
    """POST_MIGRATION may be committed in logs that nobody shows us."""
    found = session.get(paths.FINALIZE_INTENT)
    if found is not None:
        text = (found.data or b"").decode(errors="replace")
        raise FINALIZE_INTENT_STANDS.error(path=paths.FINALIZE_INTENT, text=text)


def _not_seen_stopped(
    registered: Mapping[int, Sequence[tuple[str, int]]], stopped: Collection[str]
) -> dict[int, list[tuple[str, int]]]:
    return {
        node: [(host, port) for host, port in places if f"{host}:{port}" not in stopped]
        for node, places in registered.items()
    }


def _refuse_claim(observed: ClaimObservation) -> None:
    held, reason = observed.controller, ""
    if observed.epoch_version < 0:
        reason = f"{paths.CONTROLLER_EPOCH} does not exist"
    elif held is not None and held.kraft_epoch <= 0:
        reason = f"broker {held.brokerid} is controller already"
    elif held is not None and observed.controller_owner:
        reason = "the claim is ephemeral: its controller lives; ask it to abort"
    elif held is None and observed.migration_version < 0:
        reason = "nothing is claimed"
    if reason:
        raise WITHOUT_CONTROLLERS_REFUSED.error(reason=reason)


def _live_brokers(tree: Tree) -> set[int]:
    """Those in ZooKeeper mode; each that holds replicas has to be among them."""
    live, assigned = live_and_assigned(tree)
    absent = sorted(set(assigned) - live)
    if absent:
        reason = f"brokers {absent} hold replicas and are not in ZooKeeper mode ({paths.BROKER_IDS})"
        raise WITHOUT_CONTROLLERS_REFUSED.error(reason=reason)
    return live


def _refuse_losses(look: LogAgainstZooKeeper, directory: Path, live: set[int]) -> None:
    """A broker in KRaft mode that holds no replica is missed nowhere in ZooKeeper; one that went back while no
    controller led registered in ZooKeeper alone.
    """
    in_kraft_mode = sorted(look.registered.kraft_brokers - live)
    if in_kraft_mode:
        reason = f"brokers {in_kraft_mode} are registered in KRaft mode in the log, and nobody would lead them"
        raise WITHOUT_CONTROLLERS_REFUSED.error(reason=reason)
    if look.differing:
        count, first = len(look.differing), look.differing[0]
        raise WITHOUT_CONTROLLERS_WOULD_DIFFER.error(count=count, directory=str(directory), first=first)
    if look.only_kraft:
        raise ONLY_THE_LOG_HAS.error(directory=str(directory), lost="; ".join(look.only_kraft))


def execute_without_controllers(session: ZkSession, plan: WithoutControllersPlan) -> tuple[str, ...]:
    """Raise versions that are behind, then apply the multis; returns what stands afterwards.

    Raises Z2K-1118 while controllers of ours run, Z2K-2019 when ZooKeeper moved meanwhile.
    """
    if plan.runs is not None:
        raise FindingError(plan.runs)
    raise_versions(session, plan.look.behind, plan.guarded)
    for multi in plan.multis:
        outcome = session.apply(multi)
        if not outcome.applied:
            refused = multi.describe()[outcome.failed_at]
            raise WITHOUT_CONTROLLERS_REFUSED.error(reason=f"ZooKeeper moved meanwhile ({outcome.error} at: {refused})")
    session.sync()
    return describe(read_claim(session))


def describe(observed: ClaimObservation) -> tuple[str, ...]:
    """The claim as lines for a person."""
    held = observed.controller
    kind = "" if held is None else "KRaft controller" if held.kraft_epoch > 0 else "ZooKeeper-mode broker"
    controller = "absent" if held is None else f"{kind} {held.brokerid}, KRaft epoch {held.kraft_epoch}"
    migration = _trouble_with_migration(observed)
    if observed.migration is not None:
        migration = migration_data(observed.migration).decode()
    return (
        f"{paths.CONTROLLER}: {controller}",
        f"{paths.CONTROLLER_EPOCH}: {observed.epoch} (version {observed.epoch_version})",
        f"{paths.MIGRATION}: {migration}",
    )


def _trouble_with_migration(observed: ClaimObservation) -> str:
    return "absent" if observed.migration_version < 0 else "unreadable"


def _refuse_odd_registrations(tree: Tree) -> None:
    """A ZooKeeper controller ends its election over a registration that it cannot read, and nobody is controller."""
    for problem in tree.problems:
        if str(problem.values.get("path", "")).startswith(f"{paths.BROKER_IDS}/"):
            raise WITHOUT_CONTROLLERS_REFUSED.error(reason=problem.text.rstrip("."))


# --- the multi --------------------------------------------------------------------------------------------


def _orders(session: ZkSession, *, drop_orders: bool) -> Orders:
    """Those that stand, by consent: the ZooKeeper controller that comes would carry them out."""
    orders = read_orders(session)
    found = in_the_way(orders)
    if found is not None and not drop_orders:
        raise FindingError(found)
    return orders


def _multi(observed: ClaimObservation, tree: Tree, noted: Znode | None) -> Multi:
    """noted: the znode that says that brokers were in KRaft mode."""
    epoch = max(observed.epoch, tree.highest_controller_epoch())
    operations: list[Operation] = [
        SetData(paths.CONTROLLER_EPOCH, str(epoch).encode(), observed.epoch_version),
        _move_producer_ids_on(tree),
    ]
    if noted is not None:
        operations.append(Delete(paths.KRAFT_BROKERS, noted.version))
    if observed.migration_version >= 0:
        operations.append(Delete(paths.MIGRATION, observed.migration_version))
    if observed.controller_version >= 0:
        operations.append(Delete(paths.CONTROLLER, observed.controller_version))
    return Multi(tuple(operations))


def _move_producer_ids_on(tree: Tree) -> Operation:
    """A block of nobody, as a KRaft controller leaves it; the next one that is handed out begins behind it."""
    for problem in tree.problems:
        if problem.values.get("path") == paths.PRODUCER_IDS and problem.code != PRODUCER_IDS_EMPTY.code:
            raise WITHOUT_CONTROLLERS_REFUSED.error(reason=problem.text)
    first = max(tree.next_producer_id(), 0) + PRODUCER_ID_MARGIN
    last = first + PRODUCER_ID_BLOCK - 1
    if last >= PRODUCER_ID_MAX:
        raise WITHOUT_CONTROLLERS_REFUSED.error(reason=f"{paths.PRODUCER_IDS} leaves no room for more producer ids")
    data = producer_ids_data(-1, first, last)
    if tree.producer_ids_version < 0:
        return Create(paths.PRODUCER_IDS, data)
    return SetData(paths.PRODUCER_IDS, data, tree.producer_ids_version)


# --- what ZooKeeper lacks ---------------------------------------------------------------------------------


def _what_zookeeper_has(
    observed: ClaimObservation, tree: Tree, logs: Sequence[Path], *, accept_loss: bool
) -> tuple[tuple[str, ...], LogLook | None]:
    """In lines; and the log that goes furthest, of those that have what ZooKeeper has."""
    if observed.migration is None:
        has = f"not known: {paths.MIGRATION} is {_trouble_with_migration(observed)}"
        looks = _look(logs, tree, NOWHERE)
        return (has, _NOT_COMPARED_WITHOUT_MIGRATION if logs else _NOT_COMPARED), max(
            looks, key=lambda look: look.end, default=None
        )
    at = Position(observed.migration.kraft_metadata_epoch, observed.migration.kraft_metadata_offset)
    has = f"everything up to offset {at.offset} of epoch {at.epoch}; a rollback loses what was committed after it"
    if not logs:
        return (has, _NOT_COMPARED), None
    looks = _look(logs, tree, at)
    lines = _compared(looks, at, accept_loss=accept_loss)
    furthest = max((look for look in looks if look.holds), key=lambda look: look.end)
    return (has, *lines), furthest


_NOT_COMPARED: Final = "not verified: whether ZooKeeper lacks a change (--log DIR compares with a controller's log)"


_NOT_COMPARED_WITHOUT_MIGRATION: Final = (
    "not verified: whether ZooKeeper lacks a change; nobody knows up to which offset it has them"
)


def _look(logs: Sequence[Path], tree: Tree, at: Position) -> list[LogLook]:
    looks = []
    runs = who_runs(None, [home_of(each) for each in logs])
    if runs is not None:
        raise FindingError(runs)
    for directory in logs:
        meta = identity(directory)
        if meta.cluster_id != tree.cluster_id:
            reason = f"{directory} belongs to cluster {meta.cluster_id}, ZooKeeper to {tree.cluster_id}"
            raise WITHOUT_CONTROLLERS_REFUSED.error(reason=reason)
        looks.append(look_into(directory, meta.node_id, at))
    for look in looks:
        if look.final_at >= 0:
            raise LOG_IS_FINAL.error(directory=str(look.directory), offset=look.final_at)
    return looks


def _compared(looks: Sequence[LogLook], at: Position, *, accept_loss: bool) -> list[str]:
    """One line for each log, and one when others might know more."""
    if not any(look.holds for look in looks):
        reason = (
            f"none of the logs given has offset {at.offset} of epoch {at.epoch}, which {paths.MIGRATION} names: they "
            "are behind ZooKeeper, or of another migration"
        )
        raise WITHOUT_CONTROLLERS_REFUSED.error(reason=reason)
    worst = max(looks, key=lambda look: (look.is_ahead, look.last))
    if worst.is_ahead and not accept_loss:
        directory = str(worst.directory)
        raise WITHOUT_CONTROLLERS_WOULD_LOSE.error(
            records=worst.records, directory=directory, mirrored=at.offset, last=worst.last
        )
    return [*map(_line, looks), *_others(looks)]


def _line(look: LogLook) -> str:
    place = f"{look.directory} (node {look.node}) ends at offset {look.end.offset} of epoch {look.end.epoch}"
    if not look.holds:
        return f"{place}: it is behind ZooKeeper"
    if not look.is_ahead:
        return f"{place}: ZooKeeper lacks nothing of it"
    return f"{place}: ZooKeeper lacks {look.records}, the last at offset {look.last}; this loss was accepted"


def _others(looks: Sequence[LogLook]) -> list[str]:
    """A committed record is in the logs of a majority, so a majority has to be looked at to be sure."""
    voters = max(looks, key=lambda look: look.end).voters
    known = voters & {look.node for look in looks}
    if 2 * len(known) > len(voters):
        return []
    compared = f"logs of {len(known)} of {len(voters) or 'an unknown number of'} voters were compared"
    return [f"not verified: what the other voters may have committed ({compared})"]
