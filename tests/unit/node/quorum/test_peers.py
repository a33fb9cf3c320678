"""Asking another voter, over a real socket: with the newest version that both sides know, never with another."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from migrator.node.config.properties import VoterAddress
from migrator.node.quorum.peers import Peer
from migrator.node.transport import broker_client
from migrator.raft.effects import SendVote
from migrator.raft.types import VoteAnswered
from migrator.wire.errors import Error
from migrator.wire.frames import decode_request, encode_response, read_frame_length
from migrator.wire.messages.handshake import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from migrator.wire.messages.raft import VotePartitionResult, VoteRequest, VoteResponse, VoteTopicResult

VOTE = 52
PRE_VOTE = SendVote(7, 3001, epoch=4, candidate=3000, last_epoch=4, last_offset=9, pre_vote=True)
GRANTED = VoteResponse(topics=(VoteTopicResult("__cluster_metadata", (VotePartitionResult(0, 0, -1, 4, True),)),))


LIMIT_S = 60.0
"""Of an answer and of a connection, which are no subject here."""


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_client, "CONNECT_TIMEOUT_S", LIMIT_S)


class Voters:
    """A socket that speaks Vote up to `highest` and grants everything; `asked` is what it was asked, with versions."""

    def __init__(self, highest: int) -> None:
        self.highest = highest
        self.asked: list[tuple[int, bool]] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                frame = await reader.readexactly(read_frame_length(await reader.readexactly(4)))
                header, request = decode_request(frame)
                answer: Any = ApiVersionsResponse(api_keys=(ApiVersion(18, 0, 3), ApiVersion(VOTE, 0, self.highest)))
                if isinstance(request, VoteRequest):
                    self.asked.append((header.api_version, request.topics[0].partitions[0].pre_vote))
                    answer = GRANTED
                else:
                    assert isinstance(request, ApiVersionsRequest)
                writer.write(encode_response(answer, header.api_version, correlation_id=header.correlation_id))
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()


@asynccontextmanager
async def a_peer(voters: Voters) -> AsyncIterator[Peer]:
    server = await asyncio.start_server(voters.serve, "127.0.0.1", 0)
    peer = Peer(VoterAddress(3001, "127.0.0.1", server.sockets[0].getsockname()[1]), 3000, "a cluster", LIMIT_S)
    try:
        yield peer
    finally:
        peer.close()
        server.close()


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(test())


def test_a_voter_of_kafka_4_is_asked_for_a_pre_vote() -> None:
    async def test() -> None:
        voters = Voters(highest=2)
        async with a_peer(voters) as peer:
            assert await peer.ask(PRE_VOTE) == VoteAnswered(7, Error.NONE, -1, 4, granted=True)
        assert voters.asked == [(2, True)]

    run(test)


@pytest.mark.parametrize("highest", [0, 1])
def test_a_voter_of_kafka_3_is_not_asked_and_answered_for_in_the_epoch_of_the_question(highest: int) -> None:
    """With any other epoch the core would take it for an answer of the past, and wait."""

    async def test() -> None:
        voters = Voters(highest)
        async with a_peer(voters) as peer:
            assert await peer.ask(PRE_VOTE) == VoteAnswered(7, Error.UNSUPPORTED_VERSION, -1, 4, granted=False)
            vote = SendVote(8, 3001, epoch=5, candidate=3000, last_epoch=4, last_offset=9)
            await peer.ask(vote)
        assert voters.asked == [(highest, False)]

    run(test)


def test_who_was_updated_and_connects_again_is_asked_from_then_on() -> None:
    async def test() -> None:
        voters = Voters(highest=1)
        async with a_peer(voters) as peer:
            await peer.ask(PRE_VOTE)
            voters.highest = 2
            peer.close()
            assert (await peer.ask(PRE_VOTE)).error is Error.NONE  # type: ignore[union-attr]
        assert voters.asked == [(2, True)]

    run(test)
