"""Send a storm (storm.py) to a cluster and write down what was answered.

In:   waves of operations, the brokers' ports, the controller's port.
Out:  per operation its error codes, in the order of the answer.
Operations go to brokers, as an administrator's do; those about tokens go to the controller inside an Envelope, as a
broker sends them for a client that logged in: a plain listener has no such clients.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from typing import Any, Final

import msgspec

from migrator.node.transport.broker_client import BrokerConnection
from migrator.wire.frames import decode_response, encode_request
from migrator.wire.messages.brokers import EnvelopeRequest, EnvelopeResponse
from migrator.wire.messages.configs import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlterConfigsRequest,
    AlterConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from migrator.wire.messages.partitions import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from migrator.wire.messages.security import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    CreateAclsRequest,
    CreateAclsResponse,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    DefaultPrincipalData,
    DeleteAclsRequest,
    DeleteAclsResponse,
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from migrator.wire.messages.topics import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from migrator.wire.principal import encode_principal
from migrator.wire.schema import Message
from tests.support.storm import ANY_BROKER, Operation

RESPONSES: Final[dict[type[Message], type[Message]]] = {
    CreateTopicsRequest: CreateTopicsResponse,
    DeleteTopicsRequest: DeleteTopicsResponse,
    CreatePartitionsRequest: CreatePartitionsResponse,
    IncrementalAlterConfigsRequest: IncrementalAlterConfigsResponse,
    AlterConfigsRequest: AlterConfigsResponse,
    AlterClientQuotasRequest: AlterClientQuotasResponse,
    AlterUserScramCredentialsRequest: AlterUserScramCredentialsResponse,
    CreateAclsRequest: CreateAclsResponse,
    DeleteAclsRequest: DeleteAclsResponse,
    CreateDelegationTokenRequest: CreateDelegationTokenResponse,
    RenewDelegationTokenRequest: RenewDelegationTokenResponse,
    ExpireDelegationTokenRequest: ExpireDelegationTokenResponse,
    AlterPartitionReassignmentsRequest: AlterPartitionReassignmentsResponse,
    ElectLeadersRequest: ElectLeadersResponse,
}
LANES_PER_BROKER: Final = 3
ANSWER_S: Final = 60.0
MOVES_S: Final = 60.0
MOVES_LOOK_S: Final = 0.05
STOCK_FINDS_TOKENS_TRIES: Final = 100
"""Stock answers that a token exists a moment before it finds it again (62, DELEGATION_TOKEN_NOT_FOUND)."""
TOKEN_NOT_FOUND: Final = 62
HOST: Final = "127.0.0.1"


@dataclass
class Sender:
    """Connections to one cluster. secrets: of tokens, by their owner.

    finds_tokens_late: a stock controller, which is asked again; ours has to find a token that it has answered for.
    """

    brokers: Sequence[int]
    controller: int
    finds_tokens_late: bool
    secrets: dict[str, bytes] = field(default_factory=dict)

    def send(self, waves: Iterable[Sequence[Operation]]) -> list[tuple[str, tuple[int, ...]]]:
        return asyncio.run(self._send(waves))

    async def _send(self, waves: Iterable[Sequence[Operation]]) -> list[tuple[str, tuple[int, ...]]]:
        lanes = [[BrokerConnection(HOST, port, "a storm") for _ in range(LANES_PER_BROKER)] for port in self.brokers]
        controller = BrokerConnection(HOST, self.controller, "a storm")
        told: list[tuple[str, tuple[int, ...]]] = []
        try:
            for wave in waves:
                told += await self._wave(wave, lanes, controller)
                if any(each.moves for each in wave):
                    await self._wait_moved(lanes[0][0])
        finally:
            for each in [controller, *(lane for of_broker in lanes for lane in of_broker)]:
                each.close()
        return told

    async def _wave(
        self, wave: Sequence[Operation], lanes: list[list[BrokerConnection]], controller: BrokerConnection
    ) -> list[tuple[str, tuple[int, ...]]]:
        answers: dict[int, tuple[int, ...]] = {}
        work: dict[BrokerConnection, list[int]] = {}
        every = [cycle(of_broker) for of_broker in lanes]
        turn = cycle(every)
        for number, operation in enumerate(wave):
            if operation.owner is not None:
                lane = controller
            else:
                lane = next(next(turn) if operation.broker == ANY_BROKER else every[operation.broker])
            work.setdefault(lane, []).append(number)

        async def carry_out(lane: BrokerConnection, numbers: list[int]) -> None:
            for number in numbers:
                answers[number] = await self._one(lane, wave[number])

        await asyncio.gather(*(carry_out(lane, numbers) for lane, numbers in work.items()))
        return [(operation.kind, answers[number]) for number, operation in enumerate(wave)]

    async def _one(self, lane: BrokerConnection, operation: Operation) -> tuple[int, ...]:
        owner, request = operation.owner, operation.request
        if owner is None:
            assert isinstance(request, Message)
            answer = await lane.ask(request, operation.version, RESPONSES[type(request)], ANSWER_S)
            return tuple(_errors(msgspec.to_builtins(answer)))
        if isinstance(request, Message):
            answer = await self._as_owner(lane, owner, request, operation.version)
            if isinstance(answer, CreateDelegationTokenResponse):
                self.secrets[owner] = answer.hmac
            return tuple(_errors(msgspec.to_builtins(answer)))
        for _ in range(STOCK_FINDS_TOKENS_TRIES if self.finds_tokens_late else 1):
            answer = await self._as_owner(lane, owner, request(self.secrets[owner]), operation.version)
            found = tuple(_errors(msgspec.to_builtins(answer)))
            if found != (TOKEN_NOT_FOUND,):
                break
            await asyncio.sleep(MOVES_LOOK_S)
        return found

    @staticmethod
    async def _as_owner(lane: BrokerConnection, owner: str, request: Message, version: int) -> Message:
        inner = encode_request(request, version, correlation_id=1, client_id=owner)[4:]
        principal = encode_principal(DefaultPrincipalData("User", owner))
        envelope = EnvelopeRequest(inner, principal, bytes((127, 0, 0, 1)))
        answer = await lane.ask(envelope, 0, EnvelopeResponse, ANSWER_S)
        assert answer.error_code == 0, answer
        assert answer.response_data is not None
        return decode_response(RESPONSES[type(request)], version, answer.response_data)[1]

    @staticmethod
    async def _wait_moved(lane: BrokerConnection) -> None:
        async with asyncio.timeout(MOVES_S):
            while True:
                moving = await lane.ask(
                    ListPartitionReassignmentsRequest(), 0, ListPartitionReassignmentsResponse, ANSWER_S
                )
                assert moving.error_code == 0, moving
                if not moving.topics:
                    return
                await asyncio.sleep(MOVES_LOOK_S)


def _errors(answer: Any) -> Iterator[int]:
    """Every error code in an answer, in its order."""
    if isinstance(answer, dict):
        for name, value in answer.items():
            if name == "error_code":
                yield value
            else:
                yield from _errors(value)
    elif isinstance(answer, list | tuple):
        for each in answer:
            yield from _errors(each)
