"""Brokers and controllers come, report, are fenced and go.

In:   BrokerRegistration, BrokerHeartbeat, UnregisterBroker, ControllerRegistration; silence.
Out:  registration and partition-change records, and the reply.
Elsewhere: when silence is looked for (node), what else a broker asks (alter_partition.py, producer_ids.py).
Source: Kafka 3.9 `ClusterControlManager`, `BrokerHeartbeatManager`, `ReplicationControlManager`. Incompatible brokers
are named and kept out (R-866-10, R-866-11); joining the quorum is another matter (R-595-09).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from itertools import chain

from migrator.controller.decision import (
    Decision,
    Record,
    Situation,
    register_broker_version,
    registration_change_version,
)
from migrator.controller.partitions.directories import moved_away, newly_offline, registration_without, with_directories
from migrator.controller.partitions.elections import (
    arrived,
    badly_led,
    decide_again,
    with_broker_in_isr,
    without_leader,
)
from migrator.findings.finding import Occurrence
from migrator.findings.zookeeper import ODD_HOST
from migrator.model import levels
from migrator.model.image import METADATA_VERSION
from migrator.model.names import host_problem
from migrator.model.values import Broker, Controller, FeatureRange, Listener, MigrationState
from migrator.records.builders import broker_record, controller_record
from migrator.wire.errors import Error
from migrator.wire.messages.brokers import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from migrator.wire.messages.metadata import (
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)

_FIRST_RANDOM_DIRECTORY = 100
"""Directory ids whose number is below this one are reserved by Kafka."""


# --- registration -----------------------------------------------------------------------------------------


def register_broker(situation: Situation, request: BrokerRegistrationRequest) -> Decision:
    """A broker gets its epoch: the offset of its registration record.

    One that starts anew before its silence was looked at is still in sync and leads: it loses that here, as if it had
    been fenced. Stock relies on fencing to come first.
    """
    refusal = _refuse_registration(situation, request)
    if refusal is not Error.NONE:
        return Decision(BrokerRegistrationResponse(error_code=refusal))
    image, now_ms = situation.image, situation.now_ms
    before = image.brokers.get(request.broker_id)
    again = before is not None and before.incarnation == request.incarnation_id
    first = () if before is None or before.fenced else tuple(_given_up(situation, before, request, again=again))
    offset = situation.next_offset + len(first)
    epoch = before.epoch if again and before is not None else offset
    record = _registration_record(request, epoch, before if again else None, image.metadata_version)
    situation.contacts.registered(request.broker_id, offset, now_ms, new_incarnation=not again)
    version = register_broker_version(image.metadata_version)
    return Decision(BrokerRegistrationResponse(broker_epoch=epoch), (*first, (record, version)), divisible=True)


def _given_up(
    situation: Situation, before: Broker, request: BrokerRegistrationRequest, *, again: bool
) -> Iterator[Record]:
    """What a broker loses by registering while it is unfenced. again: the same incarnation."""
    if not again:
        return _without(situation, before)
    lost = newly_offline(situation, before, set(before.log_dirs) - set(request.log_dirs))
    return moved_away(situation, before, lost) if lost else iter(())


def _refuse_registration(situation: Situation, request: BrokerRegistrationRequest) -> Error:
    image, settings = situation.image, situation.settings
    level = image.metadata_version
    if request.cluster_id != settings.cluster_id:
        return Error.INCONSISTENT_CLUSTER_ID
    odd_host = _odd_host(request)
    if odd_host is not None:
        situation.contacts.odd_hosts[request.broker_id] = odd_host
        return Error.INVALID_REGISTRATION
    before = image.brokers.get(request.broker_id)
    another = before is not None and before.incarnation != request.incarnation_id and not before.fenced
    if another and situation.contacts.session_stands(request.broker_id, situation.now_ms, settings.session_timeout_ms):
        return Error.DUPLICATE_BROKER_REGISTRATION
    if request.is_migrating_zk_broker:
        if not settings.migration_enabled or level < levels.MIGRATION:
            return Error.BROKER_ID_NOT_REGISTERED
        if image.migration not in (MigrationState.PRE_MIGRATION, MigrationState.MIGRATION):
            return Error.BROKER_ID_NOT_REGISTERED
        if settings.inter_broker_listener not in [listener.name for listener in request.listeners]:
            return Error.INVALID_REGISTRATION
    elif image.migration is MigrationState.PRE_MIGRATION:
        return Error.BROKER_ID_NOT_REGISTERED
    if level >= levels.DIRECTORIES and not _directories_fit(image.brokers.values(), request):
        return Error.INVALID_REGISTRATION
    if not _features_fit(image.features.items(), request):
        situation.contacts.kept_out[request.broker_id] = _levels(request)
        return Error.UNSUPPORTED_VERSION
    return Error.NONE


def _odd_host(request: BrokerRegistrationRequest) -> Occurrence | None:
    """Once registered, every controller in turn would have to connect to it."""
    for listener in request.listeners:
        problem = host_problem(listener.host)
        if problem is not None:
            return ODD_HOST.found(broker=request.broker_id, listener=listener.name, host=listener.host, reason=problem)
    return None


def _directories_fit(brokers: Iterable[Broker], request: BrokerRegistrationRequest) -> bool:
    given = list(request.log_dirs)
    taken = {each for broker in brokers if broker.id != request.broker_id for each in broker.log_dirs}
    reserved = any(int.from_bytes(each, "big") < _FIRST_RANDOM_DIRECTORY for each in given)
    return bool(given) and not reserved and len(set(given)) == len(given) and not taken.intersection(given)


def _features_fit(finalized: Iterable[tuple[str, int]], request: BrokerRegistrationRequest) -> bool:
    """Each finalized level lies in the broker's range; a range that is not given counts as stock counts it."""
    given = {each.name: (each.min_supported_version, each.max_supported_version) for each in request.features}
    for name, level in finalized:
        low, high = given.get(name, (1, 1) if name == METADATA_VERSION else (0, 0))
        if not low <= level <= high:
            return False
    return True


def _levels(request: BrokerRegistrationRequest) -> tuple[int, int]:
    """Lowest and highest metadata.version; of a broker in ZooKeeper mode both are its IBP."""
    found = next((each for each in request.features if each.name == METADATA_VERSION), None)
    return (1, 1) if found is None else (found.min_supported_version, found.max_supported_version)


def _registration_record(
    request: BrokerRegistrationRequest, epoch: int, before: Broker | None, level: int
) -> RegisterBrokerRecord:
    """before: the standing registration of the same incarnation, whose fencing is kept."""
    features = [
        FeatureRange(each.name, each.min_supported_version, each.max_supported_version) for each in request.features
    ]
    if METADATA_VERSION not in [each.name for each in features]:
        features.append(FeatureRange(METADATA_VERSION, 1, 1))
    registered = Broker(
        id=request.broker_id,
        epoch=epoch,
        incarnation=request.incarnation_id,
        listeners=tuple(
            Listener(each.name, each.host, each.port, each.security_protocol) for each in request.listeners
        ),
        features=tuple(features),
        rack=request.rack,
        fenced=True if before is None else before.fenced,
        in_controlled_shutdown=False if before is None else before.in_controlled_shutdown,
        migrating=request.is_migrating_zk_broker,
        log_dirs=tuple(request.log_dirs) if level >= levels.DIRECTORIES else (),
    )
    return broker_record(registered)


def register_controller(situation: Situation, request: ControllerRegistrationRequest) -> Decision:
    """A controller makes itself known; the newest registration of an id counts."""
    if situation.image.metadata_version < levels.CONTROLLER_REGISTRATION:
        return Decision(ControllerRegistrationResponse(error_code=Error.UNSUPPORTED_VERSION, error_message=None))
    registered = Controller(
        id=request.controller_id,
        incarnation=request.incarnation_id,
        zk_migration_ready=request.zk_migration_ready,
        listeners=tuple(
            Listener(each.name, each.host, each.port, each.security_protocol) for each in request.listeners
        ),
        features=tuple(
            FeatureRange(each.name, each.min_supported_version, each.max_supported_version) for each in request.features
        ),
    )
    return Decision(ControllerRegistrationResponse(error_message=None), ((controller_record(registered), 0),))


def unregister_broker(situation: Situation, request: UnregisterBrokerRequest) -> Decision:
    """Forget a broker for good: out of every in-sync set, then out of the cluster."""
    broker = situation.image.brokers.get(request.broker_id)
    if broker is None:
        message = f"Broker ID {request.broker_id} is not currently registered"
        return Decision(UnregisterBrokerResponse(error_code=Error.BROKER_ID_NOT_REGISTERED, error_message=message))
    gone: Record = UnregisterBrokerRecord(broker_id=broker.id, broker_epoch=broker.epoch), 0
    situation.contacts.remove(broker.id)
    records = (*_without(situation, broker), gone)
    return Decision(UnregisterBrokerResponse(error_message=None), records, divisible=True)


# --- heartbeats -------------------------------------------------------------------------------------------


class BrokerState(Enum):
    FENCED = "fenced"
    UNFENCED = "unfenced"
    CONTROLLED_SHUTDOWN = "controlled shutdown"
    SHUTDOWN_NOW = "shut down now"


def heartbeat(situation: Situation, request: BrokerHeartbeatRequest) -> Decision:
    """A broker reports and asks to be fenced, unfenced or let go."""
    broker = situation.image.brokers.get(request.broker_id)
    if broker is None or broker.epoch != request.broker_epoch:
        return Decision(BrokerHeartbeatResponse(error_code=Error.STALE_BROKER_EPOCH))
    contact = situation.contacts.get(broker.id)
    register_offset = max(broker.epoch, -1 if contact is None else contact.register_offset)
    now = _state(situation, broker)
    after = _next_state(situation, broker, request, now, register_offset)
    records = tuple(_records_of_heartbeat(situation, broker, request, after, moves=after is not now))
    fenced = after in (BrokerState.FENCED, BrokerState.SHUTDOWN_NOW)
    _heard_of(situation, request, fenced=fenced)
    if after is BrokerState.CONTROLLED_SHUTDOWN:
        situation.contacts.leaves_at(broker.id, situation.next_offset + len(records) - 1)
    reply = BrokerHeartbeatResponse(
        is_caught_up=request.current_metadata_offset >= register_offset,
        is_fenced=fenced,
        should_shut_down=after is BrokerState.SHUTDOWN_NOW,
    )
    return Decision(reply, records, divisible=True)


def _records_of_heartbeat(
    situation: Situation, broker: Broker, request: BrokerHeartbeatRequest, after: BrokerState, *, moves: bool
) -> list[Record]:
    """What the broker becomes, and what its failed directories mean. The registration without them comes last: cut
    before it, the next heartbeat finds them failed once more.
    """
    lost = newly_offline(situation, broker, request.offline_log_dirs)
    if not lost:
        return _records_of_move(situation, broker, after) if moves else []
    left = with_directories(situation, broker, set(broker.log_dirs) - lost)
    records = _records_of_move(left, broker, after) if moves else list(moved_away(left, broker, lost))
    return [*records, *registration_without(broker, lost)]


def heartbeat_without_change(situation: Situation, request: BrokerHeartbeatRequest) -> Decision:
    """A broker reports while nothing may be decided: it is heard, and stays what it is."""
    broker = situation.image.brokers.get(request.broker_id)
    if broker is None or broker.epoch != request.broker_epoch:
        return Decision(BrokerHeartbeatResponse(error_code=Error.STALE_BROKER_EPOCH))
    _heard_of(situation, request, fenced=broker.fenced)
    caught_up = request.current_metadata_offset >= broker.epoch
    return Decision(BrokerHeartbeatResponse(is_caught_up=caught_up, is_fenced=broker.fenced))


def _heard_of(situation: Situation, request: BrokerHeartbeatRequest, *, fenced: bool) -> None:
    offset, offline = request.current_metadata_offset, request.offline_log_dirs
    situation.contacts.touch(request.broker_id, offset, situation.now_ms, fenced=fenced, offline_dirs=offline)


def _state(situation: Situation, broker: Broker) -> BrokerState:
    """The current state. A controlled shutdown that a former active controller allowed is asked for again."""
    contact = situation.contacts.get(broker.id)
    if broker.fenced:
        return BrokerState.FENCED
    if contact is not None and contact.controlled_shutdown_offset >= 0:
        return BrokerState.CONTROLLED_SHUTDOWN
    return BrokerState.UNFENCED


def _next_state(
    situation: Situation, broker: Broker, request: BrokerHeartbeatRequest, now: BrokerState, register_offset: int
) -> BrokerState:
    match now:
        case BrokerState.FENCED:
            if request.want_shut_down:
                return BrokerState.SHUTDOWN_NOW
            if not request.want_fence and request.current_metadata_offset >= register_offset:
                return BrokerState.UNFENCED
            return BrokerState.FENCED
        case BrokerState.UNFENCED:
            if request.want_fence:
                return BrokerState.SHUTDOWN_NOW if request.want_shut_down else BrokerState.FENCED
            if request.want_shut_down:
                leads = _leads_something(situation, broker.id)
                return BrokerState.CONTROLLED_SHUTDOWN if leads else BrokerState.SHUTDOWN_NOW
            return BrokerState.UNFENCED
        case _:
            if _leads_something(situation, broker.id):
                return BrokerState.CONTROLLED_SHUTDOWN
            return BrokerState.SHUTDOWN_NOW if _others_have_seen(situation, broker.id) else now


def _leads_something(situation: Situation, broker: int) -> bool:
    return any(partition.leader == broker for _, partition in situation.image.partitions())


def _others_have_seen(situation: Situation, leaving: int) -> bool:
    """Every active broker has read the records that moved the leaderships away."""
    contact = situation.contacts.get(leaving)
    active = [broker.id for broker in situation.image.brokers.values() if broker.active]
    lowest = situation.contacts.lowest_offset(active)
    return contact is None or lowest is None or contact.controlled_shutdown_offset <= lowest


def _records_of_move(situation: Situation, broker: Broker, after: BrokerState) -> list[Record]:
    match after:
        case BrokerState.FENCED | BrokerState.SHUTDOWN_NOW:
            return fence_records(situation, broker)
        case BrokerState.UNFENCED:
            partitions = without_leader(situation.image)
            return [
                _registration_change(situation, broker, fenced=-1),
                *decide_again(situation, partitions, joining=broker.id),
            ]
        case BrokerState.CONTROLLED_SHUTDOWN:
            begins = [] if broker.in_controlled_shutdown else [_registration_change(situation, broker, leaving=1)]
            return [*begins, *_without(situation, broker)]


def fence_records(situation: Situation, broker: Broker) -> list[Record]:
    """Take a broker out of every in-sync set and leadership, then fence it."""
    return [*_without(situation, broker), _registration_change(situation, broker, fenced=1)]


def _without(situation: Situation, broker: Broker) -> Iterator[Record]:
    """Nothing is led by this broker any more, and it is in sync nowhere."""
    return decide_again(situation, with_broker_in_isr(situation.image, broker.id), leaving=broker.id)


def _registration_change(situation: Situation, broker: Broker, *, fenced: int = 0, leaving: int = 0) -> Record:
    record = BrokerRegistrationChangeRecord(
        broker_id=broker.id, broker_epoch=broker.epoch, fenced=fenced, in_controlled_shutdown=leaving
    )
    level = situation.image.metadata_version
    return record, registration_change_version(level) if leaving else 0


def fence_longest_silent(situation: Situation) -> tuple[int, list[Record]] | None:
    """The one broker that is silent for the longest beyond its session, and the records that fence it."""
    silent = _longest_silent(situation)
    if silent is None:
        return None
    return silent, fence_records(situation, situation.image.brokers[silent])


def somebody_is_silent(situation: Situation) -> bool:
    """Whether there is a broker to fence."""
    return _longest_silent(situation) is not None


def _longest_silent(situation: Situation) -> int | None:
    unfenced = [broker.id for broker in situation.image.brokers.values() if not broker.fenced]
    return situation.contacts.longest_silent(unfenced, situation.now_ms, situation.settings.session_timeout_ms)


def heal_leaderships(situation: Situation) -> list[Record]:
    """Partitions that are led by nobody or by a broker that may not lead, and moves that can end: asked once after the
    copy.
    """
    image = situation.image
    found = {(topic.id, each.id): (topic, each) for topic, each in chain(badly_led(image), arrived(image))}
    return list(decide_again(situation, found.values()))
