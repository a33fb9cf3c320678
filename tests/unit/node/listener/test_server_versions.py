"""An answer has the shape of the version that was asked for, also where an older version has no place for a field."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from migrator.node.listener.controller_apis import Caller, ControllerApis
from migrator.node.listener.server import ControllerServer
from migrator.node.quorum.quorum_apis import QuorumApis
from migrator.wire.frames import decode_response, encode_request
from migrator.wire.messages.raft import (
    DescribeQuorumPartition,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumTopic,
)
from tests.support.quorum_nodes import ME, VOTERS, a_leader


def a_server(**surroundings: Any) -> ControllerServer:
    raft: Any = SimpleNamespace(now_ms=lambda: 1_000, **surroundings)
    controller: Any = SimpleNamespace(allows=lambda *_: True)
    quorum = QuorumApis(raft, wall_ms=lambda: 50_000)
    return ControllerServer(ControllerApis(raft, controller, quorum, listener="CONTROLLER"))


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_quorum_is_described_in_every_version_and_its_nodes_from_version_2(version: int) -> None:
    """Version 0 is what Kafka's tools of 3.0 to 3.2 ask for; it was answered by closing the connection."""
    request = DescribeQuorumRequest(topics=(DescribeQuorumTopic("__cluster_metadata", (DescribeQuorumPartition(0),)),))
    frame = encode_request(request, version, correlation_id=9, client_id="a tool")[4:]
    answer = asyncio.run(a_server(voter=a_leader())._answer(frame, Caller()))
    correlation, found = decode_response(DescribeQuorumResponse, version, answer[4:])
    assert correlation == 9
    partition = found.topics[0].partitions[0]
    assert partition.leader_id == ME
    assert tuple(each.replica_id for each in partition.current_voters) == VOTERS
    assert tuple(each.node_id for each in found.nodes) == (VOTERS if version >= 2 else ())
