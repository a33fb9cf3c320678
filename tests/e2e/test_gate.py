"""Every condition that blocks a takeover, on a real cluster, through the drop-in path: `/controller` never changes."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from migrator.driver.checks.settings import ACL_AUTHORIZER
from migrator.lab.cluster import LabCluster
from migrator.lab.ours import OurController
from migrator.lab.servers.laboratory import Laboratory
from migrator.node.zookeeper.tree_reader import descendants
from migrator.zk.multi import JUTE_MAXBUFFER, Create, Delete, Multi, Operation, SetData
from migrator.zk.session import ZkSession
from tests.e2e.support import claims, controller_of, copies, ready_cluster, wait_for, wait_zookeeper_rules

pytestmark = pytest.mark.lab
TOPIC_1 = "/brokers/topics/topic-1"
TOPIC_2 = "/brokers/topics/topic-2"


def state(partition: int) -> str:
    return f"/brokers/topics/topic-0/partitions/{partition}/state"


DELETED = ("/latest_producer_id_block", "/config/changes")
"""Persistent znodes whose loss takes something with it that Kafka remembers nowhere else."""

Found = dict[str, Any]
MakeAndUndo = tuple[Callable[..., list[Operation]], Callable[..., list[Operation]]]


@dataclass(frozen=True)
class Plant:
    """One condition: how to make it, and what the gate says of it."""

    name: str
    says: str
    make: Callable[[ZkSession], list[Operation]]
    undo: Callable[[ZkSession, dict[str, bytes | None]], list[Operation]]


def created(path: str, data: bytes) -> MakeAndUndo:
    """A znode that is added, with its missing parents, and removed again."""

    def make(session: ZkSession) -> list[Operation]:
        session.ensure_path(path.rsplit("/", 1)[0])
        return [Create(path, data)]

    return make, lambda session, before: [Delete(path)]


def changed(path: str, change: Callable[[Found], Found]) -> MakeAndUndo:
    """A znode whose JSON is changed and put back."""

    def make(session: ZkSession) -> list[Operation]:
        znode = session.get(path)
        assert znode is not None
        return [SetData(path, json.dumps(change(json.loads(znode.data or b""))).encode())]

    return make, lambda session, before: [SetData(path, before[path])]


def removed(path: str) -> MakeAndUndo:
    return lambda session: [Delete(path)], lambda session, before: [Create(path, before[path])]


def without(key: str) -> Callable[[Found], Found]:
    return lambda found: {name: value for name, value in found.items() if name != key}


def with_absent_broker(found: Found) -> Found:
    return {**found, "partitions": {**found["partitions"], "0": [0, 1, 99]}}


ACL = b'{"version":1,"acls":[{"principal":"User:a","permissionType":"Allow","operation":"Any","host":"*"}]}'
QUOTA = b'{"version":1,"config":{"producer_byte_rate":"a thousand"}}'
SCRAM = b'{"version":1,"config":{"SCRAM-SHA-256":"salt=YQ==,stored_key=YQ=="}}'
FOREIGN = (
    b'{"version":0,"kraft_metadata_offset":77,"kraft_controller_id":4000,"kraft_metadata_epoch":3,'
    b'"kraft_controller_epoch":3}'
)
PASSWORD = b'{"version":1,"config":{"listener.name.x.ssl.keystore.password":"secret"}}'

WRONG = {"retention.ms": "soon"}
MOVES = "/admin/reassign_partitions"
NO_MOVES = b'{"version":1,"partitions":{}}'
UNKNOWN = {"leader_recovery_state": 2}
LISTENERS = b'{"version":1,"config":{"advertised.listeners":"PLAINTEXT://elsewhere:9092"}}'

PLANTS = [
    Plant("null migration", "/migration exists", *created("/migration", b"")),
    Plant("acl", "/kafka-acl/Topic/orders cannot be read", *created("/kafka-acl/Topic/orders", ACL)),
    Plant("quota", "/config/clients/app cannot be read", *created("/config/clients/app", QUOTA)),
    Plant("user quota", "/config/users/alice/clients/x cannot", *created("/config/users/alice/clients/x", QUOTA)),
    Plant("scram", "/config/users/bob cannot be read", *created("/config/users/bob", SCRAM)),
    Plant("token", "/delegation_token/tokens/t1 cannot be read", *created("/delegation_token/tokens/t1", b"{}")),
    Plant("password", "password", *created("/config/brokers/1", PASSWORD)),
    Plant("no topic id", "has no topic_id", *changed("/brokers/topics/topic-1", without("topic_id"))),
    Plant("no state", f"{state(0)} does not exist", *removed(state(0))),
    Plant("malformed state", f"{state(1)} cannot be read", *changed(state(1), without("leader"))),
    Plant("recovering", f"{state(2)} cannot be read", *changed(state(2), lambda found: {**found, **UNKNOWN})),
    Plant("small isr", "in sync", *changed(state(3), lambda found: {**found, "isr": found["isr"][:1]})),
    Plant("no move", "cannot be understood", *changed(TOPIC_1, lambda found: {**found, "adding_replicas": {"0": [7]}})),
    Plant("no order", f"{MOVES} cannot be read", *created(MOVES, NO_MOVES)),
    Plant("absent broker", "is not in /brokers/ids", *changed(TOPIC_2, with_absent_broker)),
    Plant("other cluster", "of one cluster", *changed("/cluster/id", lambda found: {**found, "id": "A" * 22})),
    Plant("config", "Invalid value soon", *changed("/config/topics/topic-1", lambda found: {**found, "config": WRONG})),
    Plant("listeners", "advertised.listeners dynamically", *created("/config/brokers/2", LISTENERS)),
    Plant("client metrics", "/config/client-metrics/push", *created("/config/client-metrics/push", LISTENERS)),
    Plant("late epoch", "/controller_epoch is", *changed(state(1), lambda found: {**found, "controller_epoch": 400})),
    Plant("foreign migration", "/migration exists", *created("/migration", FOREIGN)),
]  # fmt: skip
"""An absent broker is two findings, and a condition names two: the next one is no finding in the content."""


def test_no_blocking_condition_lets_the_takeover_begin(laboratory: Laboratory) -> None:
    with ready_cluster(laboratory) as (cluster, controller):
        zookeepers = controller_of(cluster)
        stopper = PLANTS[0]
        with ZkSession(cluster.zookeeper_connect) as session:
            before = plant(session, stopper)
            controller.start()
            blocked(controller, cluster, stopper, zookeepers)
            for following in PLANTS[1:]:
                # The gate says both before the one before goes: it reads one place after the other, and is never open.
                assert following.says not in stopper.says, "the verdict on the one before must not do for this one"
                kept = plant(session, following)
                blocked(controller, cluster, following, zookeepers)
                remove(session, stopper, before)
                blocked(controller, cluster, following, zookeepers)
                stopper, before = following, kept
            remove(session, stopper, before)
        controller.wait_dual_write()


def plant(session: ZkSession, condition: Plant) -> dict[str, bytes | None]:
    operations = condition.make(session)
    before = {each.path: _data(session, each.path) for each in operations}
    assert session.apply(Multi(tuple(operations))).applied, condition.name
    return before


def _data(session: ZkSession, path: str) -> bytes | None:
    """None of a znode without data: Kafka tells it from one with a text of no bytes."""
    znode = session.get(path)
    return None if znode is None else znode.data


def remove(session: ZkSession, condition: Plant, before: dict[str, bytes | None]) -> None:
    assert session.apply(Multi(tuple(condition.undo(session, before)))).applied, condition.name


def blocked(controller: OurController, cluster: LabCluster, condition: Plant, zookeepers: object) -> None:
    """The gate names the condition; nothing was claimed."""

    def why_not() -> str | None:
        gate = controller.status()["gate"]
        text = "" if gate is None else json.dumps([each for each in gate["conditions"] if each["status"] != "True"])
        return None if condition.says in text else f"{condition.name} is not named: {text[:300]}"

    wait_for(why_not, condition.name)
    assert controller_of(cluster) == zookeepers
    assert controller.status()["driver"]["state"] == "WAIT_BROKERS"


def only_failed(controller: OurController, code: str) -> Found:
    """The one condition that fails with a code; on a busy machine a broker may first answer too late for another."""
    failed: list[Found] = []

    def why_not() -> str | None:
        conditions = (controller.status()["gate"] or {"conditions": ()})["conditions"]
        failed[:] = [each for each in conditions if each["status"] != "True" and each["codes"]]
        return None if [each["codes"] for each in failed] == [[code]] else f"{failed}"

    wait_for(why_not, f"{code} alone blocks")
    return failed[0]


def test_deleted_persistent_znodes_block_and_do_not_use_the_quorum_up(laboratory: Laboratory) -> None:
    """F-23: found after the commit, each voter would end over the same missing znode, one after the other."""
    with ready_cluster(laboratory, topics=1) as (cluster, controller):
        zookeepers = controller_of(cluster)
        with ZkSession(cluster.zookeeper_connect) as session:
            kept = {path: _data(session, path) for path in DELETED}
            for path in DELETED:
                for below in (*reversed(descendants(session, path)), path):
                    assert session.apply(Multi((Delete(below),))).applied, below
            controller.start()
            for path in DELETED:
                says = f"{path} does not exist in ZooKeeper"
                blocked(controller, cluster, Plant(path, says, lambda _: [], lambda _, __: []), zookeepers)
            failed = [each for each in controller.status()["gate"]["conditions"] if each["status"] != "True"]
            assert "Z2K-1111" in {code for each in failed for code in each["codes"]}
            assert cluster.zk.read("/migration") is None
            assert copies(controller) == 0
            assert session.apply(Multi(tuple(Create(path, data) for path, data in kept.items()))).applied
        controller.wait_dual_write()
        assert copies(controller) == 1, "the same log, the first copy"


def test_a_topic_that_waits_for_its_deletion_blocks(laboratory: Laboratory) -> None:
    """ZooKeeper's controller cannot finish the deletion while a broker with replicas is away."""
    with ready_cluster(laboratory) as (cluster, controller):
        cluster.brokers[2].stop()
        with ZkSession(cluster.zookeeper_connect) as session:
            plant(session, Plant("deletion", "", *created("/admin/delete_topics/topic-2", b"")))
        wait_zookeeper_rules(cluster)
        zookeepers = controller_of(cluster)
        controller.start()
        waiting = Plant("deletion", "wait for deletion", lambda _: [], lambda _, __: [])
        blocked(controller, cluster, waiting, zookeepers)


def test_brokers_with_an_authorizer_that_the_controllers_lack_block(laboratory: Laboratory) -> None:
    """F-37, F-38: nothing in ZooKeeper says so, the brokers themselves do."""
    key = {"delegation.token.secret.key": "a secret of the laboratory"}
    authorizer = {"authorizer.class.name": ACL_AUTHORIZER, "super.users": "User:ANONYMOUS", **key}
    with ready_cluster(laboratory, topics=1, broker_extra=authorizer) as (cluster, controller):
        zookeepers = controller_of(cluster)
        controller.start()
        says = f"Broker 0 runs with authorizer.class.name={ACL_AUTHORIZER}"
        blocked(controller, cluster, Plant("authorizer", says, lambda _: [], lambda _, __: []), zookeepers)
        failed = only_failed(controller, "Z2K-1050")
        assert "Broker 0 runs with delegation.token.secret.key=(hidden)" in failed["message"]
        assert "a secret of" not in json.dumps(controller.status())


def test_a_broker_at_another_ibp_is_kept_out(laboratory: Laboratory) -> None:
    with ready_cluster(laboratory, topics=1) as (cluster, controller):
        other = cluster.brokers[2]
        other.restart_as(replace(other.spec, ibp="3.8"))
        controller.start()

        def why_not() -> str | None:
            trouble = controller.status()["driver"]["trouble"]
            return None if trouble is not None and trouble["code"] == "Z2K-1090" else str(trouble)

        wait_for(why_not, "the broker at IBP 3.8 is named")
        reason = controller.status()["driver"]["reason"]
        assert "Broker 2 runs at inter.broker.protocol.version 3.8-IV0 (20)" in reason
        assert claims(controller) == []
        wait_zookeeper_rules(cluster)


def test_a_missing_laboratory_rule_blocks(laboratory: Laboratory) -> None:
    with ready_cluster(laboratory, topics=1, brokers=1) as (cluster, controller):
        zookeepers = controller_of(cluster)
        controller.environment["ZK2KRAFT_LAB"] = "0"
        controller.start()
        blocked(controller, cluster, Plant("voters", "at least 3 voters", lambda _: [], lambda _, __: []), zookeepers)


def test_a_zookeeper_server_that_takes_less_than_the_controllers_may_send_blocks(laboratory: Laboratory) -> None:
    bound = "zk2kraft.zookeeper.jute.maxbuffer"
    with ready_cluster(laboratory, topics=1, brokers=1, extra={bound: 2_000_000}) as (cluster, controller):
        zookeepers = controller_of(cluster)
        controller.start()
        says = f"ZooKeeper server {cluster.zookeeper.hosts} accepts requests of up to {JUTE_MAXBUFFER} bytes"
        blocked(controller, cluster, Plant("small requests", says, lambda _: [], lambda _, __: []), zookeepers)
        only_failed(controller, "Z2K-1115")
        controller.stop()
        controller.spec = replace(controller.spec, extra={**controller.spec.extra, bound: JUTE_MAXBUFFER})
        controller.start()
        controller.wait_dual_write()
