"""Random single faults on each of the three sides: an audit has to name each one, and nothing else, with every engine.

    python -m tests.adversarial.plants [--seed N] [--plants 500] [--shuffle-every 5] [--report FILE.json]

A real ZooKeeper with a tree of every family, a rehearsal of it, one change, then the audits: quick, Spark with one
task, and for every few Spark through its shuffle. Two of five plants are in the tree and two in the log; of both, half
are made by `foreign_plants.py`, which shares no code with the product. One of five is in what a broker says.

Prints a line for each plant that was not named rightly, and a table. Exit codes: 0 all were named, 1 not all.
"""

from __future__ import annotations

import argparse
import copy
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final
from unittest import mock

from kazoo.client import KazooClient

from migrator.audit.brokers.answers import LOGS, BrokerReading
from migrator.audit.brokers.compare import BROKER_FAMILIES, KNOWN_BY_BROKERS, compare_broker
from migrator.audit.compare import AuditReport
from migrator.audit.fingerprints import SecretFingerprints
from migrator.audit.log_plan import plan_log
from migrator.audit.log_source import CommittedRecords, read_directory
from migrator.audit.normalise import PARTITIONS, TOPICS, LogFacts
from migrator.audit.quick import facts_of
from migrator.audit.run import run_audit
from migrator.audit.security_facts import ACLS, QUOTAS, SCRAM, TOKENS
from migrator.audit.spark import job as spark_job
from migrator.audit.spark.kept_session import KeptSession
from migrator.lab.classes import prepared
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.zookeeper import ZooKeeper
from migrator.node.log.storage import LOG_NAME
from migrator.node.tools.rehearsal import rehearse
from migrator.wire.messages.metadata import (
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
    UserScramCredentialRecord,
)
from migrator.wire.messages.shared import ClientQuotaEntity
from migrator.wire.schema import Message
from migrator.zk.multi import Create, Delete, Multi, SetData
from migrator.zk.pipeline import UNLIMITED
from migrator.zk.session import ZkSession
from tests.adversarial.foreign_plants import Planted, plant_in_log, plant_in_tree, plant_on_broker, planted
from tests.support.kept_logs import with_records
from tests.support.seeded_tree import (
    EVERY_SECURITY_FAMILY,
    SeededTree,
    acls_json,
    an_id,
    config_json,
    scram_text,
    state_json,
    token_json,
    topic_json,
)

MASTER: Final = "local[2]"
SPLIT_BYTES: Final = 600
"""Small enough that the log of so small a tree has many splits."""
TREE: Final = SeededTree(topics=6, partitions=2, security=EVERY_SECURITY_FAMILY)
KINDS: Final = ("foreign tree", "foreign log", "tree", "log", "broker")
BROKER: Final = 1
TOLD_EVERY: Final = 25


@dataclass(frozen=True)
class Wrong:
    """A plant that an audit did not name, or with which it named something else."""

    kind: str
    seed: int
    what: str
    engine: str
    wanted: list[tuple[str, str]]
    named: list[tuple[str, str]]


@dataclass(frozen=True)
class Plants:
    """zookeeper: of all. sessions: Spark's. directory: of this run."""

    zookeeper: str
    sessions: KeptSession
    directory: Path

    def run(self, number: int, seed: int, *, shuffle: bool) -> Iterator[Wrong]:
        """Plant one fault, of the kind that is next, and audit."""
        kind, random = KINDS[number % len(KINDS)], Random(seed)
        with self._tree(f"/plant-{number}") as (connect, client, log):
            if kind == "broker":
                yield from _on_broker(log, random, seed)
                return
            match kind:
                case "foreign tree":
                    found = plant_in_tree(client, random)
                case "foreign log":
                    found = plant_in_log(client, random, log)
                case "tree":
                    found = _in_tree(connect, random)
                case _:
                    found, log = _in_log(log, random)
            for engine, report in self._reports(connect, log, shuffle=shuffle):
                named = {(each.family, each.key) for each in report.differences}
                if named != found.places or report.exit_code not in (1, 2):
                    yield Wrong(kind, seed, found.what, engine, sorted(found.places), sorted(named))

    @contextmanager
    def _tree(self, chroot: str) -> Iterator[tuple[str, KazooClient, Path]]:
        connect, log = self.zookeeper + chroot, self.directory / chroot[1:]
        with ZkSession(self.zookeeper) as root:
            root.ensure_path(chroot)
        with ZkSession(connect) as session:
            TREE.seed(session)
            rehearse(session, log, UNLIMITED)
        client = KazooClient(connect)
        client.start(30)
        try:
            yield connect, client, log
        finally:
            client.stop()
            client.close()

    def _reports(self, connect: str, log: Path, *, shuffle: bool) -> Iterator[tuple[str, AuditReport]]:
        yield "quick", run_audit(connect, str(log), engine="quick", master="", out=None)
        spark = partial(run_audit, connect, str(log), engine="spark", master=MASTER, out=None, sessions=self.sessions)
        yield "one task", spark()
        if shuffle:
            splits = partial(plan_log, split_bytes=SPLIT_BYTES)
            with mock.patch.multiple(spark_job, SMALL=0, plan_log=splits):
                yield "shuffle", spark()


# --- plants of the product's own code ---------------------------------------------------------------------


def _in_tree(connect: str, random: Random) -> Planted:
    number, partition = random.randrange(TREE.topics), random.randrange(TREE.partitions)
    topic, user = TREE.name(number), random.choice(["alice", "b%40b"])
    state = f"/brokers/topics/{topic}/partitions/{partition}/state"
    moved = topic_json(topic, range(TREE.partitions), adding={str(partition): [2]})
    choices: list[tuple[tuple[str, str], Create | Delete | SetData]] = [
        ((PARTITIONS, f"{topic}-{partition}"), SetData(state, state_json(leader=random.choice([2, 3])))),
        ((PARTITIONS, f"{topic}-{partition}"), SetData(state, state_json(isr=(1, 3)))),
        ((PARTITIONS, f"{topic}-{partition}"), SetData(state, state_json(leader_epoch=random.randrange(1, 99)))),
        ((PARTITIONS, f"{topic}-{partition}"), Delete(state)),
        ((PARTITIONS, f"{topic}-{partition}"), SetData(f"/brokers/topics/{topic}", moved)),
        ((TOPICS, topic), SetData(f"/brokers/topics/{topic}", topic_json("another", range(TREE.partitions)))),
        (("topic configs", topic), SetData(f"/config/topics/{topic}", config_json({"retention.ms": "99"}))),
        (("broker configs", "7"), Create("/config/brokers/7", config_json({"log.cleaner.threads": "9"}))),
        ((QUOTAS, "/config/users/eve"), Create("/config/users/eve", config_json({"producer_byte_rate": "5"}))),
        ((SCRAM, "/config/users/b%40b"),
         SetData("/config/users/b%40b", config_json({"SCRAM-SHA-256": scram_text("eA==")}))),
        ((ACLS, "/kafka-acl/Topic/*"), SetData("/kafka-acl/Topic/*", acls_json("Read", principal="User:eve"))),
        (("delegation tokens", "/delegation_token/tokens/abc"),
         SetData("/delegation_token/tokens/abc", token_json("abc", f"User%3A{user}x"))),
        (("delegation tokens", "/delegation_token/tokens/new"),
         Create("/delegation_token/tokens/new", token_json("new"))),
    ]  # fmt: skip
    place, operation = random.choice(choices)
    with ZkSession(connect) as session:
        assert session.apply(Multi((operation,))).applied, operation
    return planted(str(operation)[:200], place)


def _in_log(log: Path, random: Random) -> tuple[Planted, Path]:
    number, partition = random.randrange(TREE.topics), random.randrange(TREE.partitions)
    topic, topic_id = TREE.name(number), an_id(TREE.name(number))
    key, user = f"{topic}-{partition}", f"user{random.randrange(99)}"
    entity = (ClientQuotaEntity("user", user),)
    choices: list[tuple[tuple[str, str], Message]] = [
        ((PARTITIONS, key), PartitionChangeRecord(partition, topic_id, leader=random.choice([1, 2, 3, -1]))),
        ((PARTITIONS, key), PartitionChangeRecord(partition, topic_id, isr=(random.choice([1, 2, 3]),))),
        ((PARTITIONS, key), PartitionChangeRecord(partition, topic_id, adding_replicas=(3,))),
        ((PARTITIONS, key), PartitionChangeRecord(partition, topic_id, leader_recovery_state=1)),
        ((PARTITIONS, f"{topic}-9"), PartitionRecord(9, topic_id, (1, 2), (1, 2), leader=1)),
        ((TOPICS, topic), RemoveTopicRecord(topic_id)),
        ((TOPICS, "made"), TopicRecord("made", an_id("made"))),
        (("topic configs", topic), ConfigRecord(2, topic, "retention.ms", random.choice(["7", None]))),
        (("broker configs", "1"), ConfigRecord(4, "1", f"planted.{random.randrange(9)}", "x")),
        ((QUOTAS, f"/config/users/{user}"), ClientQuotaRecord(entity, "request_percentage", 1.5)),
        ((SCRAM, f"/config/users/{user}"), UserScramCredentialRecord(user, 2, b"s", b"k", b"v", 4_096)),
        (("delegation tokens", "/delegation_token/tokens/x"),
         DelegationTokenRecord("User:a", "User:a", (), 1, 3, 2, "x")),
    ]  # fmt: skip
    place, record = random.choice(choices)
    return planted(str(record)[:200], place), with_records(log, log.with_name(f"{log.name}-planted"), [record])


# --- brokers ----------------------------------------------------------------------------------------------


def _on_broker(log: Path, random: Random, seed: int) -> Iterator[Wrong]:
    """A broker in KRaft mode that says what the log says, but for one thing."""
    facts = facts_of(read_directory(log / LOG_NAME, CommittedRecords()))
    right = _said(facts)
    assert not compare_broker(BrokerReading(BROKER, kraft=True, facts=right), facts, SecretFingerprints()).differences
    said = copy.deepcopy(right)
    found = plant_on_broker(said, random)
    told = compare_broker(BrokerReading(BROKER, kraft=True, facts=said), facts, SecretFingerprints()).differences
    named = {(each.family, each.key) for each in told}
    if named != found.places or any(each.broker != BROKER for each in told):
        yield Wrong("broker", seed, found.what, "third side", sorted(found.places), sorted(named))


def _said(facts: LogFacts) -> dict[str, dict[str, Any]]:
    partitions = {f"{name}-{each}": told for name in facts.topics() for each, told in facts.partitions(name).items()}
    topics = {name: facts.topic(name) or {} for name in facts.topics()}
    said: dict[str, dict[str, Any]] = {
        TOPICS: topics,
        PARTITIONS: {key: {name: told[name] for name in KNOWN_BY_BROKERS} for key, told in partitions.items()},
        LOGS: {
            key: {"log": True, "topic_id": topics[key.rpartition("-")[0]]["id"], "leads at": told["leader_epoch"]}
            for key, told in partitions.items()
            if BROKER in told["replicas"]
        },
        "topic configs": dict(facts.configs("topic configs")),
        "broker configs": {
            key: told for key, told in facts.configs("broker configs").items() if key in ("", str(BROKER))
        },
        ACLS: dict(facts.security.facts(ACLS)),
        QUOTAS: dict(facts.security.facts(QUOTAS)),
        SCRAM: {
            key: {name: value for name, value in told.items() if name.endswith(" iterations")}
            for key, told in facts.security.facts(SCRAM).items()
        },
        TOKENS: dict(facts.security.facts(TOKENS)),
    }
    assert set(said) == set(BROKER_FAMILIES)
    return copy.deepcopy(said)


# --- the run ----------------------------------------------------------------------------------------------


@contextmanager
def plants(directory: Path) -> Iterator[Plants]:
    """A ZooKeeper and a session of Spark, for as many as wanted."""
    (directory / "spark").mkdir()
    sessions = KeptSession(directory / "spark", MASTER)
    with Laboratory(directory / "lab", prepared()) as laboratory:
        zookeeper = ZooKeeper(laboratory)
        zookeeper.start()
        try:
            yield Plants(zookeeper.hosts, sessions, directory)
        finally:
            sessions.stop()


def main(words: Sequence[str] | None = None, say: Callable[[str], None] = print) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--plants", type=int, default=500)
    parser.add_argument("--shuffle-every", type=int, default=5)
    parser.add_argument("--report", type=Path)
    arguments = parser.parse_args(words)
    wrong: list[Wrong] = []
    tried: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="zk2kraft-plants-") as name, plants(Path(name)) as run:
        for number in range(arguments.plants):
            shuffle = not number // len(KINDS) % arguments.shuffle_every
            tried[KINDS[number % len(KINDS)]] += 1
            for each in run.run(number, arguments.seed * 1_000_003 + number, shuffle=shuffle):
                wrong.append(each)
                say(f"NOT NAMED: {each}")
            if not (number + 1) % TOLD_EVERY:
                say(f"{number + 1} planted, {len({each.seed for each in wrong})} wrong")
    for kind in KINDS:
        missed = len({each.seed for each in wrong if each.kind == kind})
        say(f"{kind:14} {tried[kind]:5} planted, {tried[kind] - missed:5} named, {missed:3} wrong")
    if arguments.report is not None:
        arguments.report.write_text(json.dumps([vars(each) for each in wrong], indent=1))
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
