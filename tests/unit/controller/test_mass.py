"""Which requests are decided apart: those whose answer may take more than a slice of records, and no others."""

from __future__ import annotations

import pytest

from migrator.controller.partitions import mass
from migrator.controller.partitions.mass import may_touch_many
from migrator.model.image import Image
from migrator.wire.messages.brokers import (
    BrokerHeartbeatRequest,
    BrokerRegistrationRequest,
    UnregisterBrokerRequest,
)
from migrator.wire.messages.partitions import (
    AlterPartitionPartition,
    AlterPartitionRequest,
    AlterPartitionTopic,
    ElectLeadersRequest,
)
from migrator.wire.messages.topics import CreateTopicsRequest
from migrator.wire.schema import Message
from tests.support.builders import a_broker, a_topic, an_image

MANY, FEW = 5, 3


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
