"""Where a leader is reached stands in every answer that names it: a broker may know nothing but bootstrap servers."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from migrator.model.draft import Draft
from migrator.model.image import EMPTY, Image, Position
from migrator.model.values import Controller, Listener
from migrator.node.config.properties import VoterAddress
from migrator.node.config.voter_addresses import VoterAddresses
from migrator.node.listener.controller_apis import Caller, ControllerApis
from migrator.node.listener.server import ControllerServer
from migrator.node.observer.log_reader import METADATA_TOPIC, METADATA_TOPIC_ID
from migrator.node.quorum.quorum_apis import QuorumApis
from migrator.raft.effects import AnswerFetch, AnswerFetchSnapshot, AnswerLeaderClaim, AnswerVote
from migrator.raft.types import NOBODY, SnapshotId
from migrator.wire.errors import Error
from migrator.wire.frames import API_KEYS, decode_response, encode_request
from migrator.wire.messages.raft import (
    BeginQuorumEpochPartition,
    BeginQuorumEpochRequest,
    BeginQuorumEpochTopic,
    DescribeQuorumPartition,
    DescribeQuorumRequest,
    DescribeQuorumTopic,
    EndQuorumEpochPartition,
    EndQuorumEpochRequest,
    EndQuorumEpochTopic,
    VotePartition,
    VoteRequest,
    VoteTopic,
)
from migrator.wire.messages.replication import (
    FetchPartition,
    FetchRequest,
    FetchSnapshotPartition,
    FetchSnapshotRequest,
    FetchSnapshotTopic,
    FetchTopic,
)
from migrator.wire.schema import Message
from tests.support.builders import an_id
from tests.support.quorum_nodes import SECOND, VOTERS, a_leader

FILE = tuple(VoterAddress(each, f"c{each}.example", 9090 + each) for each in VOTERS)

ASKED: list[tuple[Message, int]] = [
    (FetchRequest(topics=(FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=(FetchPartition(0),)),)), 17),
    (VoteRequest(topics=(VoteTopic(METADATA_TOPIC, (VotePartition(0),)),)), 1),
    (BeginQuorumEpochRequest(topics=(BeginQuorumEpochTopic(METADATA_TOPIC, (BeginQuorumEpochPartition(0),)),)), 1),
    (EndQuorumEpochRequest(topics=(EndQuorumEpochTopic(METADATA_TOPIC, (EndQuorumEpochPartition(0),)),)), 1),
    (FetchSnapshotRequest(topics=(FetchSnapshotTopic(METADATA_TOPIC, (FetchSnapshotPartition(0),)),)), 1),
]
"""Every request whose answer names a leader, and from which version on it says where that is."""


class Follower:
    """A raft shell that sends everybody on to its leader."""

    def __init__(self, leader: int) -> None:
        self._leader = leader
        self.voter = SimpleNamespace(voters=VOTERS)
        self.metrics: Any = SimpleNamespace(fetch_served=lambda size: None)

    def now_ms(self) -> int:
        return 1_000

    async def fetch(self, event: Any) -> AnswerFetch:
        return AnswerFetch(0, Error.NOT_LEADER_OR_FOLLOWER, self._leader, 7, 10, 0)

    async def fetch_snapshot(self, event: Any) -> AnswerFetchSnapshot:
        return AnswerFetchSnapshot(0, Error.NOT_LEADER_OR_FOLLOWER, self._leader, 7, SnapshotId(1, 1))

    async def vote(self, event: Any) -> AnswerVote:
        return AnswerVote(0, Error.NONE, self._leader, 7)

    async def leader_claim(self, event: Any) -> AnswerLeaderClaim:
        return AnswerLeaderClaim(0, Error.NONE, self._leader, 7)


def registered_elsewhere() -> Image:
    """Controller 2 registered another listener beside the quorum's."""
    draft = Draft(EMPTY)
    listeners = (Listener("CONTROLLER", "inside", 9092), Listener("OUTSIDE", "outside", 19092))
    draft.put_controller(Controller(SECOND, an_id("run"), True, listeners))
    return draft.finish(Position(1, 1)).after


def ask(raft: Any, request: Message, version: int, listener: str = "CONTROLLER") -> Any:
    """The answer as the asker decodes it, through the frames of that version."""
    controller: Any = SimpleNamespace(allows=lambda *_: True)
    addresses = VoterAddresses(FILE, "CONTROLLER", registered_elsewhere)
    quorum = QuorumApis(raft, wall_ms=lambda: 50_000, addresses=addresses)
    server = ControllerServer(ControllerApis(raft, controller, quorum, listener=listener))
    frame = encode_request(request, version, correlation_id=9, client_id="a broker")[4:]
    answer = asyncio.run(server._answer(frame, Caller()))
    key = next(key for key, api in API_KEYS.items() if api.request is type(request))
    return decode_response(API_KEYS[key].response, version, answer[4:])[1]


def named(answer: Any) -> list[tuple[int, str, int]]:
    return [(each.node_id, each.host, each.port) for each in answer.node_endpoints]


@pytest.mark.parametrize(("request_", "since"), ASKED, ids=lambda each: type(each).__name__)
def test_an_answer_says_where_the_leader_is_reached(request_: Message, since: int) -> None:
    follower = Follower(leader=SECOND)
    assert named(ask(follower, request_, since)) == [(SECOND, "c2.example", 9092)]
    assert named(ask(follower, request_, since - 1)) == []


@pytest.mark.parametrize(("request_", "since"), ASKED, ids=lambda each: type(each).__name__)
def test_on_another_listener_the_leader_is_where_it_registered(request_: Message, since: int) -> None:
    assert named(ask(Follower(leader=SECOND), request_, since, "OUTSIDE")) == [(SECOND, "outside", 19092)]
    assert named(ask(Follower(leader=3), request_, since, "OUTSIDE")) == []


@pytest.mark.parametrize(("request_", "since"), ASKED, ids=lambda each: type(each).__name__)
def test_without_a_leader_there_is_no_address(request_: Message, since: int) -> None:
    assert named(ask(Follower(leader=NOBODY), request_, since)) == []


def test_the_description_of_the_quorum_says_where_voters_listen() -> None:
    request = DescribeQuorumRequest(topics=(DescribeQuorumTopic(METADATA_TOPIC, (DescribeQuorumPartition(0),)),))
    raft = SimpleNamespace(voter=a_leader(), now_ms=lambda: 1_000)
    nodes = ask(raft, request, 2).nodes
    assert [(each.node_id, [(one.name, one.host, one.port) for one in each.listeners]) for each in nodes] == [
        (voter.id, [("CONTROLLER", voter.host, voter.port)]) for voter in FILE
    ]
