"""Stock's migration and ours are the same: what is copied, what brokers are sent, how an audit finds both.

What may differ, and why: ids that a controller draws (of topics made in dual-write, of brokers' incarnations); the
producer ids that ours leaves out as a margin; the controller epoch inside a partition's state, where stock writes the
epoch of its own quorum; who returns gets the FULL type from ours (R-866-06), INCREMENTAL from stock; ours repeats no
partitions when only brokers changed; what comes before the FULL LeaderAndIsr is of the FULL type too (K-20); of a
deleted partition stock calls those replicas offline that are online (K-19).
"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from confluent_kafka.admin import ResourceType  # type: ignore[attr-defined]  # public, but not re-exported for mypy

from migrator.driver.claim import Claim
from migrator.driver.copy import producer_id_margin
from migrator.driver.update_requests import (
    DELETED_LEADER,
    UPDATE_METADATA,
    VERSIONS,
    BrokerUpdate,
    UpdateKind,
    delta_updates,
    full_updates,
)
from migrator.lab.changes import Plan
from migrator.lab.cluster import LabCluster
from migrator.lab.frames import ControlType, Direction, Frame
from migrator.lab.ours import OurController, our_controller
from migrator.lab.servers.controller import StockQuorum
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.tools import dump_metadata_log
from migrator.lab.stock import ControllerUnderTest, Recording, record_migration, stock_quorum
from migrator.model.diff import diff
from migrator.model.image import EMPTY, Image
from migrator.node.log.log_replay import LogReplay
from migrator.node.log.log_store import LogStore
from migrator.wire.codec import decode
from migrator.wire.frames import decode_request
from migrator.wire.messages.control import LeaderAndIsrRequest, StopReplicaRequest, UpdateMetadataRequest
from migrator.wire.schema import Message
from migrator.zk.paths import PRODUCER_IDS
from tests.adversarial.producer_ids import BLOCK, ProducerIdClient
from tests.e2e.support import LONG_WINDOW, audit, produce, wait_for

pytestmark = pytest.mark.lab

LISTENER = "PLAINTEXT"
LEAVER = "broker-2"
REQUESTS: dict[int, type[Message]] = {4: LeaderAndIsrRequest, 5: StopReplicaRequest, 6: UpdateMetadataRequest}
MERGED_COMMITS_MAX = 12
"""How many batches that change anything a controller may publish at once."""
ANSWERS_WITHIN_S = 60

Told = dict[str, Any]


class Observed:
    """A controller under test with a look at the cluster before it starts, and at both sides before it stops."""

    def __init__(self, cluster: LabCluster, inner: ControllerUnderTest | OurController, directory: Path) -> None:
        self._cluster = cluster
        self._inner = inner
        self.directory = directory
        self.report: dict[str, Any] = {}

    @property
    def voters(self) -> str:
        return self._inner.voters

    @property
    def metadata_log(self) -> Path:
        inner = self._inner
        if isinstance(inner, OurController):
            return inner.metadata_log
        assert isinstance(inner, StockQuorum)
        return inner.controllers[0].metadata_log

    def start(self) -> None:
        fill_every_family(self._cluster)
        rehearse(self._cluster, self.directory / "rehearsal")
        self._inner.start()

    def wait_dual_write(self, deadline_s: float) -> float:
        return self._inner.wait_dual_write(deadline_s)

    def stop(self) -> None:
        """The directory is audited while its controller writes: stock goes on with a tick each half second, and a copy
        lacks what ZooKeeper has by then.
        """
        use_up_a_block_of_producer_ids(self._cluster)
        self.report = audit(self._cluster, self.metadata_log.parent)
        spark = audit(self._cluster, self.metadata_log.parent, engine="spark")
        for told in ("families", "differences", "expected"):
            assert spark[told] == self.report[told]
        shutil.copytree(self.metadata_log.parent, self.directory / "data")
        self._inner.stop()


def patient_controller(cluster: LabCluster) -> OurController:
    return our_controller(cluster, LONG_WINDOW)


def fill_every_family(cluster: LabCluster) -> None:
    """Topic configs, broker configs of one and of all, producer ids."""
    topic = Plan().grown
    produce(cluster, topic, 50)
    of_topic = {"max.message.bytes": "2000000", "cleanup.policy": "compact,delete"}
    cluster.alter_configs(ResourceType.TOPIC, topic, of_topic)
    cluster.alter_configs(ResourceType.BROKER, "1", {"log.cleaner.backoff.ms": "14000"})
    of_all = ("--entity-type", "brokers", "--entity-default", "--alter", "--add-config", "log.cleaner.threads=2")
    cluster.laboratory.tool("kafka.admin.ConfigCommand", "--bootstrap-server", cluster.bootstrap_servers, *of_all)


def use_up_a_block_of_producer_ids(cluster: LabCluster) -> None:
    """Until a broker has got exactly one more from the controller, and ZooKeeper says so."""
    port = int(cluster.brokers[0].address.rpartition(":")[2])

    def asked(count: int) -> list[int]:
        """The error of each request; not 0 while the broker waits for a block."""
        client = ProducerIdClient(port)
        return [error for error, _ in asyncio.run(client.ask([None] * count, ANSWERS_WITHIN_S))]

    def has_a_block() -> str | None:
        try:
            return f"error {error}" if (error := asked(1)[0]) else None
        except (OSError, EOFError) as error:
            return f"no answer ({type(error).__name__})"

    wait_for(has_a_block, "the broker hands out producer ids")
    before = cluster.zk.read(PRODUCER_IDS)
    asked(BLOCK)
    wait_for(has_a_block, "the broker has another block")
    wait_for(lambda: "not yet" if cluster.zk.read(PRODUCER_IDS) == before else None, "that block is mirrored")


def rehearse(cluster: LabCluster, out: Path) -> None:
    command = [sys.executable, "-m", "api", "rehearse", "-z", cluster.zookeeper_connect, "--out", str(out), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr


def observe(
    laboratory: Laboratory, directory: Path, make: Callable[[LabCluster], ControllerUnderTest | OurController]
) -> tuple[Recording, Observed]:
    made: list[Observed] = []

    def make_controller(cluster: LabCluster) -> ControllerUnderTest:
        made.append(Observed(cluster, make(cluster), directory))
        return made[0]

    recording = record_migration(laboratory, directory / "frames", Plan(), make_controller)
    return recording, made[0]


# --- what is copied ---------------------------------------------------------------------------------------


def copied_records(laboratory: Laboratory, log: Path) -> dict[str, Any]:
    """What the migration's transaction says, as Kafka's own tool decodes it."""
    text = dump_metadata_log(laboratory, log / f"{0:020d}.log")
    records = [json.loads(each) for each in re.findall(r"payload: (\{.*\})", text)]
    begin = next(number for number, each in enumerate(records) if each["data"].get("name") == "ZK Migration")
    end = next(n for n, each in enumerate(records) if n > begin and each["type"] == "END_TRANSACTION_RECORD")
    found: dict[str, Any] = {}
    for record in records[begin + 1 : end]:
        data = record["data"]
        match record["type"]:
            case "TOPIC_RECORD":
                found[f"topic {data['name']}"] = record
            case "PARTITION_RECORD":
                found[f"partition {data['topicId']} {data['partitionId']}"] = record
            case "CONFIG_RECORD":
                found[f"config {data['resourceType']} {data['resourceName']} {data['name']}"] = record
            case "CLIENT_QUOTA_RECORD":
                found[f"quota {sorted(map(str, data['entity']))} {data['key']}"] = record
            case "USER_SCRAM_CREDENTIAL_RECORD":
                found[f"credential {data['name']} {data['mechanism']}"] = record
            case "ACCESS_CONTROL_ENTRY_RECORD":
                data.pop("id")  # stock draws it
                found[f"ACL {sorted(data.items())}"] = record
            case "DELEGATION_TOKEN_RECORD":
                found[f"token {data['tokenId']}"] = record
            case "PRODUCER_IDS_RECORD":
                found["producer ids"] = record
            case "ZK_MIGRATION_STATE_RECORD":
                found["migration"] = record
            case "BROKER_REGISTRATION_CHANGE_RECORD" | "NO_OP_RECORD":
                pass  # stock goes on while its transaction is open: a broker's unfencing, or its tick, may fall inside
            case other:
                raise AssertionError(f"a copy has no {other}")
    return found


# --- what brokers are sent --------------------------------------------------------------------------------


def images_of(log: Path) -> Iterator[Image]:
    """The image after each batch outside of transactions that changed it. A stock controller's tick changes
    nothing, and several pass while a busy machine keeps it from publishing.
    """
    replay = LogReplay()
    said: Image | None = None
    store = LogStore.open(log, 1 << 30)
    try:
        for piece in store.batches():
            while piece:
                length = 12 + int.from_bytes(piece[8:12])
                replay.apply(piece[:length])
                piece = piece[length:]
                content = msgspec.structs.replace(replay.image, position=EMPTY.position)
                if not replay.transaction_open and content != said:
                    said = content
                    yield replay.image
    finally:
        store.close()


def ours_for(images: list[Image], claim: Claim, *, stock: bool) -> dict[tuple[int, int], list[Told]]:
    """By broker and API: every request that our rules derive from these commits, alone or a few together.

    stock: a refresh may name every topic too, as the FULL request does.
    """
    found: dict[tuple[int, int], list[Told]] = {}

    def add(orders: list[BrokerUpdate]) -> None:
        for order in orders:
            message = decode(REQUESTS[order.api_key], VERSIONS[order.api_key], order.body)
            found.setdefault((order.broker, order.api_key), []).append(flat(message))
            if stock and order.api_key == UPDATE_METADATA and order.kind is UpdateKind.FULL:
                found[order.broker, order.api_key].append({**flat(message), "type": int(UpdateKind.UNKNOWN)})

    for number, image in enumerate(images):
        brokers = frozenset(image.brokers)
        add(full_updates(image, claim, brokers, LISTENER))
        for before in images[max(0, number - MERGED_COMMITS_MAX) : number]:
            delta = diff(before, image)
            refresh = before.brokers != image.brokers
            add(delta_updates(delta, claim, brokers, LISTENER, delta.topics, refresh=refresh))
    return found


def flat(message: Message) -> Told:
    """A request with its lists by name, since their order says nothing."""
    told: Told = msgspec.to_builtins(message)
    for topic in told["topic_states"]:
        topic["partition_states"] = {each.pop("partition_index"): each for each in topic["partition_states"]}
    told["topic_states"] = {each.pop("topic_name"): each for each in told["topic_states"]}
    for brokers in ("live_brokers", "live_leaders"):
        if brokers in told:
            told[brokers] = sorted(told[brokers], key=str)
    return told


def without_what_stock_says_otherwise(told: Told) -> Told:
    for topic in told["topic_states"].values():
        for partition in topic["partition_states"].values():
            partition.pop("controller_epoch", None)
            if partition.get("leader") == DELETED_LEADER:
                partition.pop("offline_replicas", None)
    return told


def differences(left: Any, right: Any, path: str = "") -> Iterator[str]:
    if isinstance(left, dict) and isinstance(right, dict):
        for key in sorted(left.keys() | right.keys(), key=str):
            yield from differences(left.get(key), right.get(key), f"{path}/{key}")
    elif left != right:
        yield f"{path}: {left} instead of {right}"


def sent(recording: Recording) -> list[tuple[Frame, Message]]:
    """Requests of the KRaft controller, decoded."""
    requests = [frame for frame in recording.frames if frame.direction is Direction.REQUEST]
    decoded = [(frame, decode_request(frame.payload)[1]) for frame in requests]
    return [(frame, message) for frame, message in decoded if message.is_kraft_controller]  # type: ignore[attr-defined]


def assert_equal_ours(recording: Recording, log: Path, *, stock: bool) -> int:
    """Every captured request is one that our rules derive from the log, field by field. Returns how many they were."""
    requests = sent(recording)
    claim = Claim(
        node=3000,
        kraft_epoch=1,
        zk_epoch=requests[0][1].controller_epoch,  # type: ignore[attr-defined]
        epoch_version=0,
        controller_version=0,
        migration_version=0,
        ephemeral=False,
    )
    derived = ours_for(list(images_of(log)), claim, stock=stock)
    if stock:
        for each in derived.values():
            for told in each:
                without_what_stock_says_otherwise(told)
    for frame, message in requests:
        told = without_what_stock_says_otherwise(flat(message)) if stock else flat(message)
        candidates = derived[int(frame.tap.removeprefix("broker-")), frame.api_key]
        is_the_returner = stock and (frame.label, frame.tap) == ("start-broker", LEAVER)
        named = "/type" if is_the_returner else "nothing"
        found = ([each for each in differences(told, one) if not each.startswith(named)] for one in candidates)
        closest = min(found, key=len)
        assert not closest, (frame.label, frame.tap, type(message).__name__, closest[:5])
    return len(requests)


def kinds(recording: Recording, step: str) -> dict[str, set[tuple[str, ControlType | None]]]:
    """By broker: which requests it was sent in a step, refreshes left out."""
    found: dict[str, set[tuple[str, ControlType | None]]] = {}
    for frame, message in sent(recording):
        if frame.label == step and frame.control_type is not ControlType.UNKNOWN:
            found.setdefault(frame.tap, set()).add((type(message).__name__, frame.control_type))
    return found


def test_ours_copies_and_tells_what_stock_copies_and_tells(laboratory: Laboratory, tmp_path: Path) -> None:
    stock, stock_side = observe(laboratory, tmp_path / "stock", stock_quorum)
    stock_log = stock_side.directory / "data" / "__cluster_metadata-0"
    assert stock_side.report["same"], stock_side.report["differences"]
    as_stock_writes = "stock writes the next block as handed out"
    assert [each["rule"] for each in stock_side.report["expected"]] == [as_stock_writes]

    theirs = copied_records(laboratory, stock_log)
    rehearsed = copied_records(laboratory, stock_side.directory / "rehearsal" / "__cluster_metadata-0")
    margin = producer_id_margin(brokers=3)
    theirs["producer ids"]["data"]["nextProducerId"] += margin
    assert list(differences(rehearsed, theirs)) == []
    of_configs = {"2 lab-00001 cleanup.policy", "4 1 log.cleaner.backoff.ms", "4  log.cleaner.threads"}
    assert {f"config {each}" for each in of_configs} <= theirs.keys()
    assert assert_equal_ours(stock, stock_log, stock=True) > 50

    with Laboratory(tmp_path / "second", laboratory.artifacts) as another:
        ours, our_side = observe(another, tmp_path / "ours", patient_controller)
    assert our_side.report["same"], our_side.report["differences"]
    assert our_side.report["expected"] == []
    assert assert_equal_ours(ours, our_side.directory / "data" / "__cluster_metadata-0", stock=False) > 40
    steps = ("takeover", "create-topic", "delete-topic", "add-partitions", "change-config", "stop-broker")
    for step in (*steps, "elect-leaders", "drop-replica"):
        mine, theirs = kinds(ours, step), kinds(stock, step)
        if step == "stop-broker":  # what still reaches the one that leaves is a question of time
            mine.pop(LEAVER, None)
            theirs.pop(LEAVER, None)
        assert mine == theirs, step
    (first, *_) = [kind for frame, _ in sent(ours) if frame.label == "start-broker" and frame.tap == LEAVER
                   and (kind := frame.control_type) is not ControlType.UNKNOWN]  # fmt: skip
    assert first is ControlType.FULL
