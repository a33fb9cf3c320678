"""What a controller says of itself: for the service, the dashboard, and `zk2kraft status`.

In:   the running parts of the process.
Out:  one `ControllerStatus`, the contract with the service (migrator/control_api/status.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from migrator.control_api.states import State
from migrator.control_api.status import (
    BrokerStatus,
    ConnectionsStatus,
    ControllerStatus,
    Denial,
    DriverStatus,
    DualWriteStatus,
    LogStatus,
    NotUpdated,
    PartitionsStatus,
    QuorumStatus,
)
from migrator.findings.finding import Occurrence
from migrator.findings.quorum import CERTIFICATES_NOT_RENEWED
from migrator.model.image import METADATA_VERSION
from migrator.model.partition_figures import BrokerFigures, PartitionFigures
from migrator.model.values import Broker
from migrator.node.brokers.denials import Denials
from migrator.node.driver.driver_node import DriverNode
from migrator.node.driver.driver_state import DriverState
from migrator.node.leader.active_controller import ActiveController
from migrator.node.process.loop_delay import LoopDelay
from migrator.node.process.partition_count import PartitionCount
from migrator.node.quorum.raft_node import RaftNode
from migrator.node.transport.connections import Connections
from migrator.tls.renewal import RenewedContext
from migrator.wire.primitives import uuid_text

SHOWN: Final = 100
HISTORY_SHOWN: Final = 50


def status(
    raft: RaftNode,
    controller: ActiveController,
    driver: DriverNode | None,
    *,
    counting: PartitionCount,
    run: str,
    cluster_id: str,
    loop: LoopDelay,
    connections: Connections,
    denials: Denials,
    certificates: Sequence[RenewedContext] = (),
    unfit: Sequence[Occurrence] = (),
) -> ControllerStatus:
    """run: the incarnation of this process; moves in the driver's history are numbered within it.

    certificates: those of its listeners and of its own connections. unfit: nodes that do not fit the migration.
    """
    found = ControllerStatus(
        node=raft.voter.node_id,
        run=run,
        cluster_id=cluster_id,
        quorum=_quorum(raft),
        loop_delay_ms=round(loop.delay_ms, 1),
        loop_work_ms=round(loop.work_ms, 1),
        connections=ConnectionsStatus(
            open=connections.open,
            most=connections.most,
            without_place=connections.refused + connections.closed_for_others,
        ),
        denials=msgspec.convert(denials.as_json(), tuple[Denial, ...]),
        findings=tuple(
            each.as_json()
            for each in (
                *raft.findings,
                *controller.findings,
                connections.finding,
                *denials.findings,
                *not_renewed(certificates),
                *unfit,
            )
            if each is not None
        ),
    )
    counted = counting.of(controller.image, later=driver is not None and driver.now.is_without_controller)
    found = with_log(found, controller, None if counted is None else counted[0], behind_ms=counted[1] if counted else 0)
    return found if driver is None else with_driver(found, driver)


def not_renewed(certificates: Sequence[RenewedContext]) -> list[Occurrence]:
    """Z2K-3125, once for each reason."""
    problems = dict.fromkeys(each.problem for each in certificates if each.problem)
    return [CERTIFICATES_NOT_RENEWED.found(reason=each) for each in problems]


def with_log(
    found: ControllerStatus, controller: ActiveController, figures: PartitionFigures | None, *, behind_ms: int = 0
) -> ControllerStatus:
    """The same, with what the log says, and how brokers and partitions are. figures: None while not counted."""
    image = controller.image
    return msgspec.structs.replace(
        found,
        log=LogStatus(
            migration=image.migration.name,
            offset=image.position.offset,
            epoch=image.position.epoch,
            metadata_version=image.metadata_version,
            topics=len(image.topics),
            next_producer_id=image.next_producer_id,
        ),
        partitions=None if figures is None else _partitions(figures, behind_ms),
        brokers=_brokers(controller, figures),
        registrations_refused=tuple(each.as_json() for each in controller.contacts.refused),
    )


def _partitions(figures: PartitionFigures, behind_ms: int) -> PartitionsStatus:
    return PartitionsStatus(
        offset=figures.position.offset,
        epoch=figures.position.epoch,
        behind_ms=behind_ms,
        partitions=figures.partitions,
        reassignments=figures.reassignments,
        under_replicated=figures.under_replicated,
        under_min_isr=figures.under_min_isr,
        leaderless=figures.leaderless,
    )


def with_driver(found: ControllerStatus, driver: DriverNode) -> ControllerStatus:
    """The same, with what a controller of a migration has beside it."""
    now = driver.now
    if found.log is None:
        found = with_log(found, driver.parts.controller, None)
    return msgspec.structs.replace(
        found,
        driver=_driver(driver),
        claim=None if now.claim is None else msgspec.to_builtins(now.claim),
        dual_write=_dual_write(driver),
        gate=None if now.verdict is None else now.verdict.as_json(),
        export=now.exported,
        audit=None if now.audit is None else msgspec.to_builtins(now.audit),
        brokers=_updated(found.brokers, driver),
    )


def _quorum(raft: RaftNode) -> QuorumStatus:
    voter = raft.voter
    return QuorumStatus(
        leader=voter.leader,
        epoch=voter.epoch,
        role=voter.standing.value,
        voters=tuple(voter.voters),
        high_watermark=voter.high_watermark,
        log_start=voter.log.start,
        log_end=voter.log.end,
        snapshot=max((each.end_offset for each in voter.log.snapshots), default=0),
        fetches_waiting=0 if voter.leadership is None else len(voter.leadership.parked),
        flush_waiting_ms=round(raft.flusher.waiting_s * 1000),
        observers={str(each): progress.end for each, progress in voter.observers(raft.now_ms()).items()},
    )


def _driver(driver: DriverNode) -> DriverStatus:
    now = driver.now
    return DriverStatus(
        state=now.state.value,
        reason=now.reason,
        since_ms=driver.parts.now_ms() - now.since_ms,
        without_controller_ms=now.without_controller_ms(driver.parts.now_ms()),
        window_ms=now.window_ms,
        can_abort=now.may_abort,
        can_roll_back=now.state is State.DUAL_WRITE,
        aborted=now.state is State.ABORTED,
        operations=tuple(driver.operations.standing()),
        replacing=None if now.replacing is None else tuple(each.as_json() for each in now.replacing),
        finding=None if now.finding is None else now.finding.as_json(),
        trouble=None if now.trouble is None else now.trouble.as_json(),
        alarms=tuple(each.as_json() for each in now.alarms.values()),
        history=tuple(now.history[-HISTORY_SHOWN:]),
    )


def _dual_write(driver: DriverNode) -> DualWriteStatus:
    now, mirror = driver.now, driver.mirror
    behind, too_far = driver.divergence.look(), driver.divergence.finding
    lacking = max(0, driver.parts.controller.image.position.offset - now.dual_write_at.offset)
    return DualWriteStatus(
        offset=now.dual_write_at.offset,
        multis_waiting=0 if mirror is None else mirror.behind,
        lag_ms=None if mirror is None else round(mirror.lag_ms, 1),
        lag_records=lacking if _mirrors(now) else None,
        behind_ms=behind.behind_ms,
        blocking_ms=behind.blocking_ms,
        divergence=behind.level.name,
        finding=None if too_far is None else too_far.as_json(),
        reconciled_writes=now.reconciled_writes,
        lagging_partitions=None if mirror is None else mirror.lagging.partitions,
        lagging_operations=None if mirror is None else mirror.lagging.operations,
        lagging_s=None if mirror is None else round(mirror.lagging_s, 1),
        unmirrored=tuple(f"{each.family} {each.key}: {each.reason}" for each in now.unmirrored[:SHOWN]),
        unmirrored_count=len(now.unmirrored),
        orders=tuple(now.orders.given[:SHOWN]),
        orders_count=len(now.orders.given),
        only_kraft=None if now.claim is None else driver.only_kraft.of(driver.parts.controller.image),
    )


def _mirrors(now: DriverState) -> bool:
    """Whether ZooKeeper should have what the log has; also, and above all, while it is not being written."""
    return now.claim is not None and now.dual_write_at.offset >= 0


def _brokers(controller: ActiveController, figures: PartitionFigures | None) -> tuple[BrokerStatus, ...]:
    ages = controller.heartbeat_ages_ms()
    found = []
    for broker in sorted(controller.image.brokers.values(), key=lambda each: each.id):
        counted = None if figures is None else figures.brokers.get(broker.id, BrokerFigures())
        contact = controller.contacts.get(broker.id)
        failed = frozenset() if contact is None else contact.offline_dirs
        found.append(
            BrokerStatus(
                id=broker.id,
                mode="ZooKeeper" if broker.migrating else "KRaft",
                epoch=broker.epoch,
                incarnation=uuid_text(broker.incarnation),
                rack=broker.rack,
                fenced=broker.fenced,
                in_controlled_shutdown=broker.in_controlled_shutdown,
                heartbeat_age_ms=ages.get(broker.id),
                metadata_version=_levels(broker),
                listeners=tuple(f"{each.name}://{each.host}:{each.port}" for each in broker.listeners),
                log_dirs=len(broker.log_dirs),
                under_replicated=None if counted is None else counted.under_replicated,
                under_min_isr=None if counted is None else counted.under_min_isr,
                offline_dirs=None if counted is None else len(counted.offline_dirs | failed),
                unassigned_dirs=None if counted is None else counted.unassigned_dirs,
            )
        )
    return tuple(found)


def _updated(brokers: tuple[BrokerStatus, ...], driver: DriverNode) -> tuple[BrokerStatus, ...]:
    """The same, with what the propagator knows of each."""
    channels = {state.broker: state for state in driver.propagator.channels.states()}
    updated, not_updated = driver.propagator.updated(), driver.propagator.why_not_updated()
    found = []
    for broker in brokers:
        channel, why = channels.get(broker.id), not_updated.get(broker.id)
        found.append(
            msgspec.structs.replace(
                broker,
                updated=updated[broker.id],
                not_updated=None if why is None else msgspec.convert(why, NotUpdated),
                requests_waiting=0 if channel is None else channel.waiting,
                problem=None if channel is None else channel.problem,
            )
        )
    return tuple(found)


def _levels(broker: Broker) -> tuple[int, int]:
    found = next((each for each in broker.features if each.name == METADATA_VERSION), None)
    return (1, 1) if found is None else (found.lowest, found.highest)
