"""Brokers come, report, fall silent and go: registrations, heartbeats, sessions, and what they do to partitions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from migrator.controller.brokers import (
    fence_longest_silent,
    heal_leaderships,
    heartbeat,
    heartbeat_without_change,
    register_broker,
    register_controller,
    unregister_broker,
)
from migrator.controller.contacts import Contacts
from migrator.controller.decision import Situation, register_broker_version
from migrator.model.image import METADATA_VERSION, Image
from migrator.model.values import MigrationState
from migrator.wire.errors import Error
from migrator.wire.messages.brokers import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
    RegistrationFeature,
    RegistrationListener,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from migrator.wire.messages.metadata import (
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)
from tests.support.builders import a_broker, a_partition, a_topic, an_id, an_image
from tests.support.situations import CLUSTER, a_situation, after, messages, replayed

SESSION_MS = 9_000
ORDERS = an_id("orders")


def a_registration(broker: int = 4, **changes: Any) -> BrokerRegistrationRequest:
    """A ZooKeeper-mode broker on 3.9 with one directory."""
    fields: dict[str, Any] = {
        "broker_id": broker,
        "cluster_id": CLUSTER,
        "incarnation_id": an_id(f"run-{broker}"),
        "listeners": (RegistrationListener("PLAINTEXT", "127.0.0.1", 9090 + broker, 0),),
        "features": (RegistrationFeature(METADATA_VERSION, 21, 21),),
        "rack": "a",
        "is_migrating_zk_broker": True,
        "log_dirs": (an_id(f"dir-{broker}"),),
    }
    return BrokerRegistrationRequest(**{**fields, **changes})


def registered(situation: Situation, request: BrokerRegistrationRequest) -> tuple[BrokerRegistrationResponse, Any]:
    decision = register_broker(situation, request)
    assert isinstance(decision.reply, BrokerRegistrationResponse)
    return decision.reply, messages(decision)


def beat(situation: Situation, broker: int, **changes: Any) -> tuple[BrokerHeartbeatResponse, Situation, list[Any]]:
    """A heartbeat of a broker that has read everything; the answer, what follows, and the records."""
    known = situation.image.brokers.get(broker)
    fields: dict[str, Any] = {
        "broker_id": broker,
        "broker_epoch": -1 if known is None else known.epoch,
        "current_metadata_offset": situation.image.position.offset,
    }
    decision = heartbeat(situation, BrokerHeartbeatRequest(**{**fields, **changes}))
    assert isinstance(decision.reply, BrokerHeartbeatResponse)
    return decision.reply, after(situation, decision), messages(decision)


def at_level(image: Image, level: int) -> Image:
    return msgspec.structs.replace(image, features=image.features.set(METADATA_VERSION, level))


# --- registration -----------------------------------------------------------------------------------------


def test_a_new_broker_gets_the_offset_of_its_registration_as_its_epoch_and_begins_fenced() -> None:
    """R-595-09."""
    situation = a_situation(an_image())
    reply, records = registered(situation, a_registration(4))
    assert (reply.error_code, reply.broker_epoch) == (Error.NONE, situation.next_offset)
    (record,) = records
    assert isinstance(record, RegisterBrokerRecord)
    broker = replayed(situation.image, [(record, 3)]).after.brokers[4]
    assert (broker.fenced, broker.in_controlled_shutdown, broker.migrating) == (True, False, True)
    assert (broker.epoch, broker.rack, broker.log_dirs) == (situation.next_offset, "a", (an_id("dir-4"),))
    assert situation.contacts.session_stands(4, situation.now_ms + SESSION_MS, SESSION_MS)


def test_the_same_incarnation_registers_again_under_its_epoch_and_stays_as_it_was() -> None:
    situation = a_situation(an_image(brokers=(1, 2, a_broker(3, in_controlled_shutdown=True))))
    request = a_registration(3, rack="moved")
    reply, (record,) = registered(situation, request)
    assert reply.broker_epoch == 103
    assert (record.fenced, record.in_controlled_shutdown, record.rack) == (False, True, "moved")


def test_another_incarnation_waits_until_the_session_before_it_has_ended() -> None:
    situation = a_situation(an_image())
    again = a_registration(3, incarnation_id=an_id("another run"))
    early = replace(situation, now_ms=situation.now_ms + SESSION_MS)
    assert registered(early, again)[0].error_code == Error.DUPLICATE_BROKER_REGISTRATION
    late = replace(situation, now_ms=situation.now_ms + SESSION_MS + 1)
    reply, (record,) = registered(late, again)
    assert (reply.error_code, record.fenced, record.broker_epoch) == (Error.NONE, True, late.next_offset)
    fenced = a_situation(an_image(brokers=(1, 2, a_broker(3, fenced=True))))
    assert registered(fenced, again)[0].error_code == Error.NONE


def started_anew_unseen(*partitions: Any, **broker: Any) -> tuple[Situation, BrokerRegistrationResponse, list[Any]]:
    """Broker 1 crashed, and its next run registers after its session and before anybody looked at its silence."""
    situation = a_situation(an_image(a_topic("orders", partitions), brokers=(a_broker(1, **broker), 2, 3)))
    late = replace(situation, now_ms=situation.now_ms + SESSION_MS + 1)
    for other in (2, 3):
        late.contacts.touch(other, late.image.position.offset, late.now_ms, fenced=False)
    decision = register_broker(late, a_registration(1, incarnation_id=an_id("another run")))
    assert isinstance(decision.reply, BrokerRegistrationResponse)
    return after(late, decision), decision.reply, messages(decision)


def test_an_incarnation_that_comes_before_the_one_before_it_was_fenced_leads_nothing_and_is_in_sync_nowhere() -> None:
    """What the crash took from its log must not count: led in the same epoch, the others would be cut to it."""
    situation, reply, records = started_anew_unseen(
        a_partition(0), a_partition(1, isr=(2, 1)), a_partition(2, isr=(1,))
    )
    *changes, registration = records
    assert changes == [
        PartitionChangeRecord(partition_id=0, topic_id=ORDERS, isr=(2, 3), leader=2),
        PartitionChangeRecord(partition_id=1, topic_id=ORDERS, isr=(2,), leader=2),
        PartitionChangeRecord(partition_id=2, topic_id=ORDERS, leader=-1),  # only it has the records: it is waited for
    ]
    assert isinstance(registration, RegisterBrokerRecord)
    assert registration.fenced
    assert reply.broker_epoch == registration.broker_epoch == situation.image.position.offset
    behind, _, _ = beat(situation, 1, current_metadata_offset=reply.broker_epoch - 1)
    assert (behind.is_fenced, behind.is_caught_up) == (True, False)
    there, situation, records = beat(situation, 1)
    assert not there.is_fenced
    assert [record.leader for record in records if isinstance(record, PartitionChangeRecord)] == [1]
    assert [each.leader for _, each in situation.image.partitions()] == [2, 2, 1]


def test_an_incarnation_after_one_that_was_leaving_finds_what_that_one_left() -> None:
    situation, reply, records = started_anew_unseen(
        a_partition(0, isr=(2, 3)), a_partition(1, isr=(1,), leader=-1), in_controlled_shutdown=True
    )
    (registration,) = records
    assert reply.broker_epoch == registration.broker_epoch == situation.image.position.offset


def test_a_registration_is_checked_in_the_order_of_stock() -> None:
    """R-866-10, R-866-11: everything is wrong; each fault mended brings the next one to light."""
    situation = a_situation(an_image(), migration_enabled=False)
    request = a_registration(
        3,
        cluster_id="another",
        incarnation_id=an_id("another run"),
        listeners=(),
        log_dirs=(),
        features=(),
    )

    def refused() -> Error:
        reply, records = registered(situation, request)
        assert not records
        return Error(reply.error_code)

    assert refused() is Error.INCONSISTENT_CLUSTER_ID
    request = msgspec.structs.replace(request, cluster_id=CLUSTER)
    assert refused() is Error.DUPLICATE_BROKER_REGISTRATION
    request = msgspec.structs.replace(request, incarnation_id=an_id("run-3"))
    assert refused() is Error.BROKER_ID_NOT_REGISTERED
    situation = a_situation(an_image())
    assert refused() is Error.INVALID_REGISTRATION
    request = msgspec.structs.replace(request, listeners=a_registration().listeners)
    assert refused() is Error.INVALID_REGISTRATION
    request = msgspec.structs.replace(request, log_dirs=(an_id("dir-3"),))
    assert refused() is Error.UNSUPPORTED_VERSION
    request = msgspec.structs.replace(request, features=a_registration().features)
    assert registered(situation, request)[0].error_code == Error.NONE


@pytest.mark.parametrize(
    ("migrating", "state", "level", "error"),
    [
        (False, MigrationState.PRE_MIGRATION, 21, Error.BROKER_ID_NOT_REGISTERED),
        (False, MigrationState.MIGRATION, 21, Error.NONE),
        (True, MigrationState.PRE_MIGRATION, 21, Error.NONE),
        (True, MigrationState.MIGRATION, 21, Error.NONE),
        (True, MigrationState.POST_MIGRATION, 21, Error.BROKER_ID_NOT_REGISTERED),
        (True, MigrationState.NONE, 21, Error.BROKER_ID_NOT_REGISTERED),
        (True, MigrationState.PRE_MIGRATION, 7, Error.BROKER_ID_NOT_REGISTERED),
    ],
)
def test_brokers_of_a_kind_are_let_in_only_while_the_migration_is_ready_for_them(
    migrating: bool, state: MigrationState, level: int, error: Error
) -> None:
    """R-866-11, F-10: a broker in KRaft mode too early, one in ZooKeeper mode too late."""
    situation = a_situation(at_level(an_image(migration=state), level))
    features = (RegistrationFeature(METADATA_VERSION, 1, 21),)
    request = a_registration(is_migrating_zk_broker=migrating, features=features)
    assert registered(situation, request)[0].error_code == error


@pytest.mark.parametrize(
    ("log_dirs", "error"),
    [
        ((an_id("dir-4"), an_id("dir-4b")), Error.NONE),
        ((), Error.INVALID_REGISTRATION),
        ((an_id("dir-4"), an_id("dir-4")), Error.INVALID_REGISTRATION),
        ((an_id("dir-1"),), Error.INVALID_REGISTRATION),  # broker 1 has it
        ((bytes(15) + b"\x63",), Error.INVALID_REGISTRATION),  # reserved: below 100
        ((bytes(15) + b"\x64",), Error.NONE),
    ],
)
def test_directories_have_to_be_the_brokers_own(log_dirs: tuple[bytes, ...], error: Error) -> None:
    assert registered(a_situation(an_image()), a_registration(4, log_dirs=log_dirs))[0].error_code == error


@pytest.mark.parametrize(
    ("finalized", "given", "fits"),
    [
        ({METADATA_VERSION: 21}, {METADATA_VERSION: (1, 21)}, True),
        ({METADATA_VERSION: 21}, {METADATA_VERSION: (1, 20)}, False),
        ({METADATA_VERSION: 20}, {METADATA_VERSION: (21, 21)}, False),
        ({METADATA_VERSION: 21}, {}, False),  # not given counts as 1 to 1
        ({METADATA_VERSION: 21, "x": 1}, {METADATA_VERSION: (21, 21)}, False),  # not given counts as 0 to 0
        ({METADATA_VERSION: 21, "x": 1}, {METADATA_VERSION: (21, 21), "x": (0, 1)}, True),
        ({METADATA_VERSION: 21}, {METADATA_VERSION: (21, 21), "unheard of": (5, 9)}, True),
    ],
)
def test_a_broker_whose_software_does_not_fit_the_finalized_levels_stays_out(
    finalized: dict[str, int], given: dict[str, tuple[int, int]], fits: bool
) -> None:
    """R-866-10, R-778-05."""
    image = msgspec.structs.replace(an_image(), features=an_image().features.update(finalized))
    features = tuple(RegistrationFeature(name, low, high) for name, (low, high) in given.items())
    situation = a_situation(image)
    reply, records = registered(situation, a_registration(features=features))
    assert reply.error_code == (Error.NONE if fits else Error.UNSUPPORTED_VERSION)
    assert bool(records) == fits
    assert situation.contacts.kept_out == ({} if fits else {4: given.get(METADATA_VERSION, (1, 1))})


@pytest.mark.parametrize(("level", "version"), [(1, 0), (7, 1), (8, 2), (16, 2), (17, 3), (21, 3)])
def test_a_registration_is_written_in_the_version_of_the_level(level: int, version: int) -> None:
    """Directories are said only where the version has them."""
    assert register_broker_version(level) == version
    situation = a_situation(at_level(an_image(), level))
    features = (RegistrationFeature(METADATA_VERSION, 1, 21),)
    decision = register_broker(situation, a_registration(features=features))
    for record, written in decision.records:
        assert isinstance(record, RegisterBrokerRecord)
        assert written == version
        assert bool(record.log_dirs) == (level >= 17)


def test_a_controller_makes_itself_known_and_the_newest_registration_counts() -> None:
    request = ControllerRegistrationRequest(
        controller_id=3000,
        incarnation_id=an_id("run"),
        zk_migration_ready=True,
        listeners=(RegistrationListener("CONTROLLER", "c", 9093, 0),),
        features=(RegistrationFeature(METADATA_VERSION, 1, 21),),
    )
    situation = a_situation(an_image())
    situation = after(situation, register_controller(situation, request))
    again = msgspec.structs.replace(request, incarnation_id=an_id("next run"), zk_migration_ready=False)
    controllers = after(situation, register_controller(situation, again)).image.controllers
    assert [(each.id, each.incarnation, each.zk_migration_ready) for each in controllers.values()] == [
        (3000, an_id("next run"), False)
    ]
    early = register_controller(a_situation(at_level(an_image(), 14)), request)
    assert isinstance(early.reply, ControllerRegistrationResponse)
    assert early.reply.error_code == Error.UNSUPPORTED_VERSION
    assert not early.records


def test_an_unregistered_broker_leaves_its_in_sync_sets_before_it_leaves_the_cluster() -> None:
    image = an_image(a_topic("orders", [a_partition(0), a_partition(1, replicas=(2, 3)), a_partition(2, leader=3)]))
    situation = a_situation(image)
    decision = unregister_broker(situation, UnregisterBrokerRequest(broker_id=1))
    assert messages(decision) == [
        PartitionChangeRecord(partition_id=0, topic_id=ORDERS, isr=(2, 3), leader=2),
        PartitionChangeRecord(partition_id=2, topic_id=ORDERS, isr=(2, 3), leader=3),  # shrunk: the epoch is raised
        UnregisterBrokerRecord(broker_id=1, broker_epoch=101),
    ]
    assert 1 not in after(situation, decision).image.brokers
    assert situation.contacts.get(1) is None
    unknown = unregister_broker(situation, UnregisterBrokerRequest(broker_id=9)).reply
    assert isinstance(unknown, UnregisterBrokerResponse)
    assert unknown.error_code == Error.BROKER_ID_NOT_REGISTERED


# --- heartbeats -------------------------------------------------------------------------------------------

FENCED, UNFENCED, LEAVING, GONE = "fenced", "unfenced", "leaving", "may stop"


def in_state(state: str, *, leads: bool) -> Situation:
    """Broker 1 in a state; brokers 2 and 3 are well and have read everything."""
    leader = 1 if leads else 2
    partitions = [a_partition(0, leader=leader)]
    if state == FENCED:
        partitions = [a_partition(0, isr=(2, 3))]
    situation = a_situation(
        an_image(a_topic("orders", partitions), brokers=(a_broker(1, fenced=state == FENCED), 2, 3))
    )
    for broker in (1, 2, 3):
        situation.contacts.touch(broker, situation.image.position.offset, situation.now_ms, fenced=False)
    if state == LEAVING:
        situation.contacts.leaves_at(1, situation.image.position.offset)
    return situation


@pytest.mark.parametrize(
    ("before", "want_fence", "want_shut_down", "caught_up", "leads", "expected"),
    [
        (FENCED, False, False, True, False, UNFENCED),
        (FENCED, False, False, False, False, FENCED),
        (FENCED, True, False, True, False, FENCED),
        (FENCED, False, True, False, False, GONE),
        (FENCED, True, True, True, False, GONE),
        (UNFENCED, False, False, True, True, UNFENCED),
        (UNFENCED, False, False, False, False, UNFENCED),
        (UNFENCED, True, False, True, True, FENCED),
        (UNFENCED, True, True, True, True, GONE),
        (UNFENCED, False, True, True, True, LEAVING),
        (UNFENCED, False, True, True, False, GONE),
        (LEAVING, False, True, True, True, LEAVING),
        (LEAVING, False, False, True, True, LEAVING),
        (LEAVING, False, True, True, False, GONE),
    ],
)
def test_a_heartbeat_moves_a_broker_as_stock_moves_it(
    before: str, want_fence: bool, want_shut_down: bool, caught_up: bool, leads: bool, expected: str
) -> None:
    situation = in_state(before, leads=leads)
    offset = 101 if caught_up else 100  # broker 1 registered at offset 101
    reply, later, records = beat(
        situation, 1, want_fence=want_fence, want_shut_down=want_shut_down, current_metadata_offset=offset
    )
    assert (reply.is_fenced, reply.should_shut_down) == (expected in (FENCED, GONE), expected == GONE)
    assert reply.is_caught_up == caught_up
    assert bool(records) == (before != expected)
    broker = later.image.brokers[1]
    assert broker.fenced == (expected in (FENCED, GONE))
    if expected in (LEAVING, GONE) and before == UNFENCED:
        assert all(1 not in partition.isr and partition.leader != 1 for _, partition in later.image.partitions())


def test_a_heartbeat_under_another_epoch_is_stale() -> None:
    situation = a_situation(an_image())
    assert beat(situation, 1, broker_epoch=100)[0].error_code == Error.STALE_BROKER_EPOCH
    assert beat(situation, 9)[0].error_code == Error.STALE_BROKER_EPOCH


def test_a_fenced_broker_leaves_every_in_sync_set_before_it_is_fenced() -> None:
    situation = in_state(UNFENCED, leads=True)
    _, _, records = beat(situation, 1, want_fence=True)
    assert records == [
        PartitionChangeRecord(partition_id=0, topic_id=ORDERS, isr=(2, 3), leader=2),
        BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=101, fenced=1),
    ]


def test_a_broker_that_comes_back_leads_what_nobody_led() -> None:
    partitions = [
        a_partition(0, replicas=(1, 2), isr=(1,), leader=-1),
        a_partition(1, replicas=(3, 1), isr=(3,), leader=-1),  # it is not in sync here
    ]
    situation = a_situation(an_image(a_topic("orders", partitions), brokers=(a_broker(1, fenced=True), 2)))
    _, later, records = beat(situation, 1)
    assert records == [
        BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=101, fenced=-1),
        PartitionChangeRecord(partition_id=0, topic_id=ORDERS, leader=1),
    ]
    assert later.image.brokers[1].active


def test_a_controlled_shutdown_ends_when_the_others_have_read_that_it_began() -> None:
    """The broker stops only after every other one knows who leads instead of it."""
    situation = in_state(UNFENCED, leads=True)
    reply, situation, records = beat(situation, 1, want_shut_down=True)
    assert records[0] == BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=101, in_controlled_shutdown=1)
    assert (reply.is_fenced, reply.should_shut_down) == (False, False)
    began = situation.image.position.offset
    for broker, offset in ((2, began), (3, began - 1)):
        _, situation, _ = beat(situation, broker, current_metadata_offset=offset)
    reply, situation, records = beat(situation, 1, want_shut_down=True)
    assert not reply.should_shut_down
    assert not records
    _, situation, _ = beat(situation, 3, current_metadata_offset=began)
    reply, situation, _ = beat(situation, 1, want_shut_down=True)
    assert (reply.is_fenced, reply.should_shut_down) == (True, True)
    assert situation.image.brokers[1].fenced


def test_after_a_fail_over_a_controlled_shutdown_goes_on_without_a_second_registration_change() -> None:
    leaving = a_broker(1, in_controlled_shutdown=True)
    situation = a_situation(an_image(a_topic("orders", [a_partition(0, leader=1)]), brokers=(leaving, 2, 3)))
    _, later, records = beat(situation, 1, want_shut_down=True)
    assert records == [PartitionChangeRecord(partition_id=0, topic_id=ORDERS, isr=(2, 3), leader=2)]
    contact = situation.contacts.get(1)
    assert contact is not None
    assert contact.controlled_shutdown_offset == later.image.position.offset


# --- sessions ---------------------------------------------------------------------------------------------


def test_silent_brokers_are_fenced_one_at_a_time_the_longest_silent_first() -> None:
    situation = a_situation(an_image(a_topic("orders"), brokers=(1, 2, 3, a_broker(4, fenced=True))))
    start = situation.now_ms
    for broker, since in ((1, start + 300), (2, start + 100), (3, start + 200)):
        situation.contacts.touch(broker, 0, since, fenced=False)
    order = []
    situation = replace(situation, now_ms=start + SESSION_MS + 250)
    while (found := fence_longest_silent(situation)) is not None:
        broker, records = found
        order.append(broker)
        situation = after(situation, records)
    assert order == [2, 3]  # broker 1 still has 50 ms, broker 4 is fenced already
    assert [broker.id for broker in situation.image.brokers.values() if broker.active] == [1]
    partition = situation.image.partition(ORDERS, 0)
    assert partition is not None
    assert (partition.isr, partition.leader) == ((1,), 1)


def test_the_last_broker_of_an_in_sync_set_falls_silent_and_the_partition_waits_for_it() -> None:
    situation = a_situation(an_image(a_topic("orders", [a_partition(0, isr=(1,))])))
    late = replace(situation, now_ms=situation.now_ms + SESSION_MS + 1)
    situation.contacts.touch(2, 0, late.now_ms, fenced=False)
    situation.contacts.touch(3, 0, late.now_ms, fenced=False)
    found = fence_longest_silent(late)
    assert found is not None
    partition = after(late, found[1]).image.partition(ORDERS, 0)
    assert partition is not None
    assert (partition.isr, partition.leader) == ((1,), -1)


def test_a_new_leadership_gives_everybody_a_fresh_session() -> None:
    contacts = Contacts()
    contacts.clear([1, 2], now_ms=50_000)
    assert contacts.longest_silent([1, 2], 59_000, SESSION_MS) is None
    assert contacts.longest_silent([1, 2], 59_001, SESSION_MS) == 1
    assert contacts.age_ms(1, 59_001) == 9_001
    assert contacts.age_ms(7, 59_001) is None
    assert not contacts.session_stands(7, 50_000, SESSION_MS)
    assert contacts.lowest_offset([7]) is None


def test_what_nobody_able_leads_is_healed_once_after_the_copy() -> None:
    partitions = [
        a_partition(0),
        a_partition(1, leader=-1),
        a_partition(2, replicas=(4, 1), leader=4),  # broker 4 never registered
        a_partition(3, replicas=(4,), leader=4),
    ]
    situation = a_situation(an_image(a_topic("orders", partitions)))
    assert [record for record, _ in heal_leaderships(situation)] == [
        PartitionChangeRecord(partition_id=1, topic_id=ORDERS, leader=1),
        PartitionChangeRecord(partition_id=2, topic_id=ORDERS, leader=1),
        PartitionChangeRecord(partition_id=3, topic_id=ORDERS, leader=-1),
    ]


# --- while nothing may be decided -------------------------------------------------------------------------


@pytest.mark.parametrize(("epoch", "heard"), [(101, True), (100, False), (102, False)], ids=["this", "former", "later"])
def test_while_nothing_may_be_decided_only_this_life_of_a_broker_is_heard(epoch: int, heard: bool) -> None:
    """Otherwise a life that is over keeps the session of the present one, which may be silent."""
    situation = replace(a_situation(an_image(brokers=[a_broker(1, epoch=101)]), now_ms=50_000), now_ms=57_000)
    decision = heartbeat_without_change(situation, BrokerHeartbeatRequest(1, epoch, 200, want_fence=False))
    assert decision.records == ()
    assert situation.contacts.age_ms(1, 57_000) == (0 if heard else 7_000)
    if heard:
        assert decision.reply == BrokerHeartbeatResponse(is_caught_up=True, is_fenced=False)
    else:
        assert decision.reply == BrokerHeartbeatResponse(error_code=Error.STALE_BROKER_EPOCH)


def test_while_nothing_may_be_decided_a_fenced_broker_stays_fenced_whatever_it_wants() -> None:
    situation = a_situation(an_image(brokers=[a_broker(1, epoch=101, fenced=True)]))
    decision = heartbeat_without_change(situation, BrokerHeartbeatRequest(1, 101, 100, want_fence=False))
    assert decision == type(decision)(BrokerHeartbeatResponse(is_caught_up=False, is_fenced=True))
