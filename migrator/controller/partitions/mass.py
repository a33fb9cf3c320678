"""Which decisions may concern so many partitions, ACLs or quotas that nothing else could be done meanwhile.

In:   the image and a request. Out: whether the decision has to be made apart, on a thread, and appended in slices.
Elsewhere: how that is done (node.leader.active_controller), the decisions (requests.py).
Why: to decide on 100,000 partitions takes 0.6 to 2 s, on 30,000 ACLs 0.5 to 1 s; a follower waits 2 s for its leader.
Source: Kafka 3.9 `QuorumController` appends what is not atomic in batches of 10,000 records, and admits at most
10,000 records of one user operation; what brokers cause (fencing, unfencing, shutdown, AlterPartition) has no limit.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from migrator.model.image import Image
from migrator.wire.messages.brokers import (
    BrokerHeartbeatRequest,
    BrokerRegistrationRequest,
    UnregisterBrokerRequest,
)
from migrator.wire.messages.configs import (
    AlterableConfig,
    AlterClientQuotasRequest,
    AlterConfigsRequest,
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
)
from migrator.wire.messages.partitions import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionRequest,
    ElectLeadersRequest,
)
from migrator.wire.messages.security import CreateAclsRequest, DeleteAclsRequest
from migrator.wire.messages.topics import (
    CreatableTopicConfig,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
)
from migrator.wire.schema import Message

SLICE_RECORDS: Final = 500
"""So many records are replayed and appended, or published, in one go: 10 to 20 ms on an idle machine."""


CONFIG_CHARACTERS: Final = 100_000
"""So much of settings is looked at in some 10 ms."""

ACLS_LOOKED_AT: Final = 20_000
"""So often an ACL is held against a filter in some 10 ms."""


def may_touch_many(image: Image, request: Message) -> bool:
    """Whether the answer may take more than a slice of records, or a look at every partition."""
    match request:
        case AlterPartitionRequest():
            return sum(len(topic.partitions) for topic in request.topics) > SLICE_RECORDS
        case CreateTopicsRequest():
            partitions = sum(max(1, each.num_partitions, len(each.assignments)) for each in request.topics)
            return partitions > SLICE_RECORDS or _long(each for topic in request.topics for each in topic.configs)
        case CreatePartitionsRequest():
            return sum(each.count for each in request.topics) > SLICE_RECORDS
        case AlterPartitionReassignmentsRequest():
            return sum(len(each.partitions) for each in request.topics) > SLICE_RECORDS
        case CreateAclsRequest():
            return len(request.creations) > SLICE_RECORDS
        case DeleteAclsRequest():
            return len(request.filters) * len(image.acls) > ACLS_LOOKED_AT
        case AlterClientQuotasRequest():
            return len(request.entries) > SLICE_RECORDS
        case IncrementalAlterConfigsRequest() | AlterConfigsRequest():
            return _long(each for resource in request.resources for each in resource.configs)
        case DeleteTopicsRequest():
            return len(request.topics) + len(request.topic_names) > SLICE_RECORDS
        case BrokerHeartbeatRequest():
            return _may_move(image, request) and has_many(image)
        case BrokerRegistrationRequest() | UnregisterBrokerRequest():
            return _is_unfenced(image, request.broker_id) and has_many(image)
        case ElectLeadersRequest():
            return has_many(image)
        case _:
            return False


def _long(configs: Iterable[CreatableTopicConfig | IncrementalAlterableConfig | AlterableConfig]) -> bool:
    """Lists in them are looked at entry by entry."""
    return sum(len(each.value or "") for each in configs) > CONFIG_CHARACTERS


def has_many(image: Image) -> bool:
    """Whether a look at every partition takes long."""
    return len(image.topics) > SLICE_RECORDS or image.partition_count() > SLICE_RECORDS


def _is_unfenced(image: Image, broker: int) -> bool:
    found = image.brokers.get(broker)
    return found is not None and not found.fenced


def _may_move(image: Image, request: BrokerHeartbeatRequest) -> bool:
    """A broker that stays what it is costs nothing."""
    if request.want_shut_down or request.offline_log_dirs:
        return True
    return request.want_fence == _is_unfenced(image, request.broker_id)
