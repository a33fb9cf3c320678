"""The same requests of administrators and brokers to a stock 3.9 controller and to ours: equal answers, equal images.

What each log then says is dumped with Kafka's own tool and folded without any code of ours (support/kafka_image.py).
Every difference that is meant stands in `NAMED`, with the words by which docs/requests.md names it.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from migrator.lab.ours import OurController
from migrator.lab.servers.controller import StockController, quorum_specs
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.ports import HOST
from migrator.lab.servers.tools import dump_metadata_log, random_cluster_id
from migrator.node.transport.broker_client import BrokerConnection
from migrator.wire.frames import API_KEYS
from migrator.wire.messages.brokers import (
    BrokerHeartbeatResponse,
    BrokerRegistrationResponse,
)
from migrator.wire.messages.raft import DescribeQuorumPartition, DescribeQuorumRequest, DescribeQuorumTopic
from migrator.wire.messages.topics import CreateTopicsResponse
from migrator.wire.schema import Message, declaration_of
from tests.e2e.two_answers import HEARTBEATS_MAX, NEVER_FENCED
from tests.support.admin_cases import BROKERS, CASES, Known, beat, registration
from tests.support.kafka_image import Facts, parse_dump

pytestmark = pytest.mark.lab

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "requests.md"
EXTRA: Final = {
    **NEVER_FENCED,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "delegation.token.secret.key": "a secret",
    "auto.leader.rebalance.enable": "false",
}
TWICE = "CreateTopics, CreatePartitions, DeleteTopics, IncrementalAlterConfigs: something named twice"
ANY_ACL = "CreateAcls: ANY or MATCH"
UNKNOWN_ACL = "CreateAcls, DeleteAcls: a type or operation that is UNKNOWN"
ENTITY = "AlterClientQuotas: an entity with a type twice"
MOVED = "AssignReplicasToDirs: a directory that the broker does not have"
NAMED: Final = {
    "topics: twice in one request": TWICE,
    "growth: twice": TWICE,
    "configs: a resource twice": TWICE,
    "deletions: twice": TWICE,
    "deletions: by name and id in two": TWICE,
    "quotas: a type twice": ENTITY,
    **{f"acls: any {each}": ANY_ACL for each in ("type", "pattern", "operation", "permission")},
    "acls: matching patterns": ANY_ACL,
    "acls: an unknown type": UNKNOWN_ACL,
    "acls: an unknown operation": UNKNOWN_ACL,
    "acls: delete by an unknown type": UNKNOWN_ACL,
    "brokers: wants to leave still": "BrokerHeartbeat: a broker that leaves",
    "the end: an unknown operation": "IncrementalAlterConfigs: an unknown operation",
}
"""By case: the row of docs/requests.md, by its first words, that names the difference."""

NAMED_FACTS: Final[dict[tuple[Any, ...], str]] = {
    ("quota", (("user", "b"),), "producer_byte_rate"): ENTITY,
    ("partition", "orders", 0): MOVED,
}
"""By fact of the image: the row that names why the logs do not say the same of it."""


class Asked:
    """One controller with its pretended brokers."""

    def __init__(self, name: str, node_id: int, port: int, cluster_id: str) -> None:
        self.name = name
        self.known = Known(cluster_id, node_id)
        self.connection = BrokerConnection(HOST, port, "a test")

    async def ask(self, request: Message) -> Any:
        key = declaration_of(type(request)).api_key
        assert key is not None
        api = API_KEYS[key]
        return await self.connection.ask(request, api.declared.highest, api.response)

    async def join(self) -> None:
        for broker in BROKERS:
            for _ in range(HEARTBEATS_MAX):
                registered: BrokerRegistrationResponse = await self.ask(registration(self.known.cluster_id, broker))
                if not registered.error_code:
                    break
                await asyncio.sleep(0.1)
            self.known.epochs[broker] = registered.broker_epoch
            for _ in range(HEARTBEATS_MAX):
                answer: BrokerHeartbeatResponse = await self.ask(beat(broker)(self.known))
                if not answer.is_fenced:
                    break
                await asyncio.sleep(0.1)
            assert not answer.is_fenced, (self.name, broker, answer)
        wanted = DescribeQuorumRequest((DescribeQuorumTopic("__cluster_metadata", (DescribeQuorumPartition(0),)),))
        self.known.raft_epoch = (await self.ask(wanted)).topics[0].partitions[0].leader_epoch

    def note(self, answer: Message) -> None:
        if isinstance(answer, CreateTopicsResponse):
            self.known.ids |= {each.name: each.topic_id for each in answer.topics if not each.error_code}

    def plain(self, value: Any) -> Any:
        """As both sides would say it: without what each draws for itself, results in one order."""
        match value:
            case msgspec.Struct():
                fields = [each for each in value.__struct_fields__ if each != "port"]
                return {name: self.plain(getattr(value, name)) for name in fields}
            case list() | tuple():
                parts = [self.plain(each) for each in value]
                return sorted(parts, key=repr) if parts and isinstance(parts[0], dict) else parts
            case bytes():
                return next((f"(id of {name})" for name, id_ in self.known.ids.items() if id_ == value), value)
            case str():
                return value.replace(str(self.known.node_id), "(own)")
            case int() if value == self.known.node_id:
                return "(own)"
            case _:
                return value


def without_words(plain: Any) -> Any:
    """The same without error messages."""
    match plain:
        case dict():
            return {key: without_words(value) for key, value in plain.items() if key != "error_message"}
        case list():
            return sorted((without_words(each) for each in plain), key=repr)
        case _:
            return plain


async def answers(ours: Asked, stock: Asked) -> tuple[list[tuple[str, str, str]], list[tuple[str, str, str]]]:
    """Cases with different answers, and those in which only the words differ: the case, ours, stock's."""
    different, words = [], []
    for case in CASES:
        found = []
        for side in (ours, stock):
            try:
                answer = await side.ask(case.ask(side.known))
            except (OSError, EOFError, TimeoutError) as error:
                found.append(f"no answer ({type(error).__name__})")
            else:
                side.note(answer)
                found.append(side.plain(answer))
        mine, theirs = found
        if without_words(mine) != without_words(theirs):
            different.append((case.what, str(mine), str(theirs)))
        elif mine != theirs:
            words.append((case.what, str(mine), str(theirs)))
    return different, words


def image(laboratory: Laboratory, side: Asked, directory: Path) -> Facts:
    """What the log says, with names in place of ids, and without what each side draws for itself."""
    facts = parse_dump(dump_metadata_log(laboratory, directory)).facts()
    names = {key[1]: name for key, name in facts.items() if key[0] == "topic"}
    found: Facts = {}
    for key, value in facts.items():
        if key[0] in ("controller", "migration"):
            continue
        if key[0] == "broker":
            value = {name: each for name, each in value.items() if name != "epoch"}
        if key[0] == "acl":
            found["acl", str(value)] = True
            continue
        found[tuple(names.get(part, part) for part in key)] = value
    return found


def test_administrators_are_answered_as_by_stock_and_both_logs_say_the_same(laboratory: Laboratory) -> None:
    cluster_id = random_cluster_id()
    both = quorum_specs(laboratory, count=2, zookeeper_connect="", migrating=False, extra=EXTRA)
    of_ours, of_stock = (replace(each, voters=f"{each.node_id}@{HOST}:{each.port}") for each in both)
    ours, stock = OurController(laboratory, of_ours, cluster_id), StockController(laboratory, of_stock, cluster_id)
    stock.start()
    ours.start()
    stock.wait_ready()
    sides = [
        Asked(name, each.node_id, each.port, cluster_id) for name, each in (("ours", of_ours), ("stock", of_stock))
    ]

    async def run() -> tuple[list[tuple[str, str, str]], list[tuple[str, str, str]]]:
        try:
            for side in sides:
                await side.join()
            return await answers(*sides)
        finally:
            for side in sides:
                side.connection.close()

    different, words = asyncio.run(run())
    ours.stop()
    stock.stop()
    mine, theirs = (
        image(laboratory, side, directory)
        for side, directory in zip(sides, (ours.metadata_log, stock.metadata_log), strict=True)
    )
    keys = sorted((key for key in mine.keys() | theirs.keys() if mine.get(key) != theirs.get(key)), key=str)
    print(f"{len(CASES)} requests, {len(different)} answers differ, {len(words)} in their words, {len(keys)} facts")
    for what, own, other in (*different, *words):
        print(f"  {what}\n    ours  {own}\n    stock {other}")
    for key in keys:
        print(f"  {key}\n    ours  {mine.get(key)}\n    stock {theirs.get(key)}")
    assert {what for what, _, _ in different} == set(NAMED)
    assert set(keys) == set(NAMED_FACTS)
    assert len(CASES) > 200


def test_every_difference_that_is_meant_stands_on_the_page() -> None:
    rows = re.findall(r"^\| ([^|]+) \|", PAGE.read_text(), re.MULTILINE)
    for words in {*NAMED.values(), *NAMED_FACTS.values()}:
        assert any(row.startswith(words) for row in rows), words
