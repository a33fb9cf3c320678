"""Which requests are decided apart: those whose answer may take more than a slice of records, and no others."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from migrator.controller.partitions import mass
from migrator.controller.partitions.mass import may_touch_many
from migrator.model.draft import Draft
from migrator.model.image import Image, Position
from migrator.model.values import Acl, AclEntry, AclPattern, AclResource, AclResourceType
from migrator.wire.messages.brokers import (
    BrokerHeartbeatRequest,
    BrokerRegistrationRequest,
    UnregisterBrokerRequest,
)
from migrator.wire.messages.configs import AlterClientQuotasEntry, AlterClientQuotasRequest
from migrator.wire.messages.partitions import (
    AlterPartitionPartition,
    AlterPartitionReassignmentsRequest,
    AlterPartitionRequest,
    AlterPartitionTopic,
    ElectLeadersRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from migrator.wire.messages.security import AclCreation, CreateAclsRequest, DeleteAclsFilter, DeleteAclsRequest
from migrator.wire.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
)
from migrator.wire.schema import Message
from tests.support.builders import a_broker, a_topic, an_image

MANY, FEW = 5, 3
TOPIC_ORDERS = AclResource(AclResourceType.TOPIC, AclPattern.LITERAL, "orders")


def alter(partitions: int) -> AlterPartitionRequest:
    changes = tuple(map(AlterPartitionPartition, range(partitions)))
    return AlterPartitionRequest(1, 101, (AlterPartitionTopic(partitions=changes),))


def cluster(partitions: int) -> Image:
    return an_image(a_topic("orders", partitions), brokers=(a_broker(1), a_broker(2, fenced=True)))


@pytest.mark.parametrize(
    ("request_", "apart"),
    [
        (BrokerHeartbeatRequest(1, 101), False),
        (BrokerHeartbeatRequest(2, 102, want_fence=True), False),
        (BrokerHeartbeatRequest(1, 101, want_fence=True), True),
        (BrokerHeartbeatRequest(2, 102), True),
        (BrokerHeartbeatRequest(1, 101, want_shut_down=True), True),
        (BrokerHeartbeatRequest(1, 101, offline_log_dirs=(b"d" * 16,)), True),
        (BrokerRegistrationRequest(broker_id=1), True),
        (BrokerRegistrationRequest(broker_id=2), False),
        (BrokerRegistrationRequest(broker_id=9), False),
        (UnregisterBrokerRequest(1), True),
        (ElectLeadersRequest(), True),
        (CreateTopicsRequest(), False),
        (alter(FEW), False),
        (alter(MANY), True),
    ],
)
def test_only_what_may_concern_many_partitions_is_decided_apart(
    monkeypatch: pytest.MonkeyPatch, request_: Message, *, apart: bool
) -> None:
    """A heartbeat that changes nothing comes twice a second from each broker."""
    monkeypatch.setattr(mass, "SLICE_RECORDS", 4)
    assert may_touch_many(cluster(MANY), request_) is apart
    if not isinstance(request_, AlterPartitionRequest):
        assert not may_touch_many(cluster(FEW), request_)


def create(*topics: CreatableTopic) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics)


@pytest.mark.parametrize(
    "of_so_many",
    [
        lambda many: create(CreatableTopic("orders", many, 3)),
        lambda many: create(*[CreatableTopic(f"orders-{number}", -1, -1) for number in range(many)]),
        lambda many: create(CreatableTopic("a", -1, -1, (CreatableReplicaAssignment(0, (1,)),) * many)),
        lambda many: CreatePartitionsRequest((CreatePartitionsTopic("orders", many, None),)),
        lambda many: AlterPartitionReassignmentsRequest(
            60_000, (ReassignableTopic("orders", (ReassignablePartition(0, (1, 2)),) * many),)
        ),
        lambda many: CreateAclsRequest((AclCreation(2, "orders", 3, "User:a", "*", 3, 3),) * many),
        lambda many: AlterClientQuotasRequest((AlterClientQuotasEntry(),) * many),
    ],
)
def test_a_request_of_an_administrator_about_many_things_is_decided_apart(
    monkeypatch: pytest.MonkeyPatch, of_so_many: Callable[[int], Message]
) -> None:
    """30,000 ACLs took a second of the loop on a slow machine, and an overloaded leader lost its leadership by it."""
    monkeypatch.setattr(mass, "SLICE_RECORDS", 4)
    assert may_touch_many(cluster(FEW), of_so_many(MANY))
    assert not may_touch_many(cluster(FEW), of_so_many(FEW))


def test_filters_of_acls_are_many_by_what_they_are_held_against(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mass, "ACLS_LOOKED_AT", 4)
    draft = Draft(an_image())
    for number in range(2):
        draft.put_acl(bytes([number]) * 16, Acl(TOPIC_ORDERS, AclEntry(f"User:{number}", "*", 3, 3)))
    image = draft.finish(Position(1, 1)).after
    assert not may_touch_many(image, DeleteAclsRequest((DeleteAclsFilter(),) * 2))
    assert may_touch_many(image, DeleteAclsRequest((DeleteAclsFilter(),) * 3))


def test_acls_of_a_resource_that_come_and_go_within_one_draft_are_the_ones_left() -> None:
    entries = [AclEntry(f"User:{number}", "*", 3, 3) for number in range(3)]
    ids = [bytes([number]) * 16 for number in range(3)]
    draft = Draft(an_image())
    for acl_id, entry in zip(ids[:2], entries[:2], strict=True):
        draft.put_acl(acl_id, Acl(TOPIC_ORDERS, entry))
    first = draft.finish(Position(1, 1)).after
    draft = Draft(first)
    draft.remove_acl(ids[0])
    draft.put_acl(ids[2], Acl(TOPIC_ORDERS, entries[2]))
    second = draft.finish(Position(1, 2)).after
    assert first.acl_entries(TOPIC_ORDERS) == frozenset(entries[:2])
    assert second.acl_entries(TOPIC_ORDERS) == frozenset(entries[1:])
    draft = Draft(second)
    draft.remove_acl(ids[1])
    draft.remove_acl(ids[2])
    assert TOPIC_ORDERS not in draft.finish(Position(1, 3)).after.acl_ids
