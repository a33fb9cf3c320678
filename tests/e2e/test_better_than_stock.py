"""What goes wrong in Kafka's own migration, provoked under ours on real ZooKeeper and brokers.

The K numbers are those of docs/better-than-stock.md. The tests share one cluster and run in the order of this file,
from before the takeover to after the way back; each leaves a cluster that the next one can use.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import count

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclOperation,
    AclPermissionType,
    NewPartitions,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from migrator.lab.ours import OurController
from migrator.lab.servers.artifacts import Artifacts
from migrator.lab.servers.laboratory import Laboratory
from migrator.zk.multi import Create, Delete, SetData
from migrator.zk.znodes import MigrationZnode, migration_data
from tests.e2e.better_stage import TOPICS, Stage, a_stage
from tests.e2e.support import (
    HANGS_AFTER_S,
    assert_same,
    claims,
    controller_of,
    copies,
    produce,
    spoil,
    unspoil,
    wait_for,
    wait_zookeeper_rules,
)

pytestmark = pytest.mark.lab

ENTITY = ("--entity-type", "clients", "--entity-name", "app")
CLUSTER_ACL = "/kafka-acl/Cluster/kafka-cluster"
NO_CLUSTER_ACTION = {"principal": "User:ANONYMOUS", "permissionType": "Deny", "host": "*", "operation": "ClusterAction"}
NOT_FOR_CONTROLLERS = json.dumps({"version": 1, "acls": [NO_CLUSTER_ACTION]}).encode()


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory, kafka_artifacts: Artifacts) -> Iterator[Stage]:
    directory = tmp_path_factory.mktemp("better")
    with Laboratory(directory / "lab", kafka_artifacts) as laboratory, a_stage(laboratory, directory) as made:
        yield made


# --- before the takeover: nothing but the gate keeps it from beginning ------------------------------------


def test_k03_an_empty_quorum_refuses_a_migration_that_another_log_began(stage: Stage) -> None:
    """Stock would take the offset for its own, and bring ZooKeeper to what its empty log says."""
    controller, zookeepers = stage.controller, controller_of(stage.cluster)
    topics = stage.written([f"/brokers/topics/{topic}" for topic in TOPICS])
    stage.change(Create("/migration", migration_data(MigrationZnode(controller.spec.node_id, 1, 500, 1))))
    stage.block(lambda: stage.cluster.zk.delete("/migration"))
    spoil(controller, stage.stalled, stall_before="persist", lose_answer=str(stage.lost))
    controller.start()
    stage.wait_gate_names("Z2K-2006")
    assert controller_of(stage.cluster) == zookeepers
    assert stage.written(list(topics)) == topics


def test_k22_a_password_that_is_encrypted_in_zookeeper_is_not_copied_as_if_it_were_clear(stage: Stage) -> None:
    path = "/config/brokers/1"
    stage.change(Create(path, b'{"version":1,"config":{"listener.name.x.ssl.key.password":"encrypted"}}'))
    stage.block(lambda: stage.cluster.zk.delete(path))
    stage.wait_gate_names("Z2K-1010")


def test_k14_an_ensemble_with_access_lists_is_refused_and_nothing_is_made_in_it(stage: Stage) -> None:
    """Without a login there (tests/e2e/test_zookeeper_acls.py has one) what we made would be readable by everybody."""
    stage.block(stage.keep_from_us("/config/users", readable=False))
    trouble = stage.wait_trouble("Z2K-2004", "WAIT_BROKERS")
    assert "/config/users" in trouble["says"]
    assert (controller_of(stage.cluster) or {})["kraftControllerEpoch"] == -1


# --- the takeover -----------------------------------------------------------------------------------------


def test_k01_a_claim_whose_answer_was_lost_is_recognised(stage: Stage) -> None:
    stage.block(lambda: None)
    wait_for(lambda: None if stage.stalled.exists() else "not there yet", "the copy is committed")
    assert stage.lost.read_text() == "applied: True"
    assert (controller_of(stage.cluster) or {})["brokerid"] == stage.controller.spec.node_id
    assert copies(stage.controller) == len(claims(stage.controller)) == 1
    assert "ABORTING" not in stage.controller.driver_states()


def test_k02_a_migration_that_was_committed_and_not_noted_in_zookeeper_goes_on(stage: Stage) -> None:
    assert stage.json_at("/migration")["kraft_metadata_offset"] == -1
    unspoil(stage.controller)
    stage.again()
    assert copies(stage.controller) == 1
    assert stage.json_at("/migration")["kraft_metadata_offset"] > 0
    stage.cluster.create_topics(["decided-by-ours"])


# --- a write that ZooKeeper refuses -----------------------------------------------------------------------


def test_k04_a_change_that_zookeeper_refused_reaches_it_and_the_brokers(stage: Stage) -> None:
    """Where the new partition's znodes go, somebody left one."""
    moves = stage.moves()
    stage.change(Create("/brokers/topics/topic-0/partitions/4", b""))
    stage.asked(lambda admin: admin.create_partitions([NewPartitions("topic-0", 5)])["topic-0"])
    stage.wait_calm(moves)
    stage.cluster.wait_isr_whole(["topic-0"])
    assert stage.json_at("/brokers/topics/topic-0")["partitions"].keys() == {"0", "1", "2", "3", "4"}

    def told() -> str | None:
        known = stage.cluster.admin().list_topics("topic-0", timeout=60).topics["topic-0"].partitions
        return None if len(known) == 5 and known[4].leader >= 0 else str(known)

    wait_for(told, "brokers know the new partition")


def test_k05_after_a_refused_write_the_next_ones_succeed(stage: Stage) -> None:
    before = stage.breaks()
    stage.cluster.create_topics([f"next-{number}" for number in range(3)], partitions=1)
    assert stage.breaks() == before
    assert_same(stage.cluster, stage.controller.data)


def test_k06_a_topic_is_created_where_an_earlier_one_left_its_configuration(stage: Stage) -> None:
    path = "/config/topics/left-over"
    stage.change(Create(path, b'{"version":1,"config":{"retention.ms":"1"}}'))
    moves = stage.moves()
    stage.cluster.create_topics(["left-over"], partitions=1, config={"max.message.bytes": "2000"})
    stage.wait_calm(moves)
    assert stage.json_at(path)["config"] == {"max.message.bytes": "2000"}
    produce(stage.cluster, "left-over", 10)


def test_k15_a_refused_write_of_acls_is_no_success_and_k24_whoever_watches_hears_of_it(stage: Stage) -> None:
    path = "/kafka-acl/Topic/secret"
    stage.asked(lambda admin: admin.create_acls([_acl("User:alice")])[_acl("User:alice")])
    wait_for(lambda: None if stage.cluster.zk.exists(path) else "not yet", "alice may read")
    abort_takeover = stage.keep_from_us(path, readable=True)
    moves = stage.moves()
    stage.asked(lambda admin: admin.create_acls([_acl("User:bob")])[_acl("User:bob")])
    assert stage.wait_trouble("Z2K-2050", "SYNCING")["values"]["path"] == path
    assert stage.controller.metrics()["zk2kraft_dual_write"] == 0
    abort_takeover()
    stage.wait_calm(moves)
    assert sorted(each["principal"] for each in stage.json_at(path)["acls"]) == ["User:alice", "User:bob"]
    assert not [name for name in stage.controller.metrics() if name.startswith("zk2kraft_driver_finding")]


def _acl(principal: str) -> AclBinding:
    return AclBinding(
        ResourceType.TOPIC, "secret", ResourcePatternType.LITERAL, principal, "*", AclOperation.READ,
        AclPermissionType.ALLOW,
    )  # fmt: skip


def test_k26_brokers_that_refuse_what_they_are_told_are_named_and_told_again(stage: Stage) -> None:
    """They forbid controllers to speak to them, by an ACL that came into ZooKeeper without us."""
    stage.change(
        *(Create(path, b"") for path in ("/kafka-acl/Cluster",) if not stage.cluster.zk.exists(path)),
        Create(CLUSTER_ACL, NOT_FOR_CONTROLLERS),
        Create("/kafka-acl-changes/acl_changes_", b"CLUSTER:kafka-cluster", sequence=True),
    )
    stage.asked(lambda admin: admin.create_topics([NewTopic("k26", 1, 3)])["k26"])
    later = (f"k26-{number}" for number in count())

    def refused() -> str | None:
        brokers = stage.controller.status()["brokers"]
        named = [each["id"] for each in brokers if "31" in (each["problem"] or "")]
        if named == [0, 1, 2]:
            return None
        time.sleep(1)
        stage.cluster.admin().create_topics([NewTopic(next(later), 1, 3)])  # it has not heard of the list
        return f"refusing: {named}"

    wait_for(refused, "all brokers refuse")
    assert stage.controller.metrics()["zk2kraft_brokers_refusing"] == 3
    stage.change(
        Delete(CLUSTER_ACL),
        Create("/kafka-acl-changes/acl_changes_", b"CLUSTER:kafka-cluster", sequence=True),
    )
    wait_for(
        lambda: None if not stage.controller.metrics()["zk2kraft_brokers_refusing"] else "refusing", "they heed us"
    )
    produce(stage.cluster, "k26", 10)


# --- what a comparison finds ------------------------------------------------------------------------------


def test_k08_partitions_that_zookeeper_lacks_are_made(stage: Stage) -> None:
    path = "/brokers/topics/topic-1"
    stage.controller.kill()
    fewer = stage.json_at(path)
    del fewer["partitions"]["3"]
    gone = [f"{path}/partitions/3/state", f"{path}/partitions/3", f"{path}/partitions/2/state"]
    stage.change(*map(Delete, gone), SetData(path, json.dumps(fewer).encode()))
    stage.controller.start()
    stage.wait_dual_write()
    assert_same(stage.cluster, stage.controller.data)
    stage.cluster.wait_isr_whole(["topic-1"])


def test_k09_partitions_and_topics_that_only_zookeeper_has_are_deleted_from_below(stage: Stage) -> None:
    """One of the topics is what a deletion leaves when it was too large for one multi and only its first one came."""
    path = "/brokers/topics/topic-2"
    stage.controller.kill()
    more = stage.json_at(path)
    more["partitions"]["4"] = [0, 1, 2]
    cut = {**more, "topic_id": "AAAAAAAAAAAAAAAAAAAAQQ"}
    stage.change(
        SetData(path, json.dumps(more).encode()),
        Create(f"{path}/partitions/4", b""),
        Create(f"{path}/partitions/4/state", stage.cluster.zk.read(f"{path}/partitions/0/state") or b""),
        Create(f"{path}/partitions/4/state/stray", b""),
        Create("/brokers/topics/cut", json.dumps(cut).encode()),
        Create("/brokers/topics/cut/partitions", b""),
        Create("/brokers/topics/cut/partitions/4", b""),
    )
    stage.controller.start()
    stage.wait_dual_write()
    assert not stage.cluster.zk.exists(f"{path}/partitions/4")
    assert not stage.cluster.zk.exists("/brokers/topics/cut")
    assert_same(stage.cluster, stage.controller.data)


def test_k12_producer_ids_go_on_where_they_were_and_are_written_once(stage: Stage) -> None:
    block = "/latest_producer_id_block"
    produce(stage.cluster, "topic-0", 10)

    def handed_out() -> str | None:
        end, following = int(stage.json_at(block)["block_end"]), stage.controller.status()["log"]["next_producer_id"]
        return None if end + 1 == following else f"up to {end} in ZooKeeper, the log goes on at {following}"

    wait_for(handed_out, "ZooKeeper goes on where the log does")
    before = stage.written([block])
    stage.again()
    assert stage.written([block]) == before


def test_k13_a_comparison_writes_nothing_where_nothing_differs(stage: Stage) -> None:
    """Quotas and ACLs are there: stock writes each of them again, and wakes every broker for it."""
    _configs(stage, "--add-config", "producer_byte_rate=1000")
    wait_for(lambda: None if stage.cluster.zk.exists("/config/clients/app") else "not yet", "the quota is there")
    stage.wait_calm(0)
    told = {root: stage.cluster.zk.children(root) for root in ("/config/changes", "/kafka-acl-changes")}
    before = stage.written(["/config/clients/app", "/kafka-acl/Topic/secret"])
    stage.again()
    assert stage.controller.status()["dual_write"]["reconciled_writes"] == 0
    assert {root: stage.cluster.zk.children(root) for root in told} == told
    assert stage.written(list(before)) == before


def test_k10_the_last_quota_of_an_entity_can_be_taken_away(stage: Stage) -> None:
    before = stage.breaks()
    _configs(stage, "--delete-config", "producer_byte_rate")
    wait_for(lambda: "still there" if stage.cluster.zk.exists("/config/clients/app") else None, "the quota is gone")
    assert stage.breaks() == before


def _configs(stage: Stage, *words: str) -> None:
    servers = ("--bootstrap-server", stage.cluster.bootstrap_servers)
    stage.cluster.laboratory.tool("kafka.admin.ConfigCommand", *servers, "--alter", *ENTITY, *words)


# --- topics that come and go ------------------------------------------------------------------------------


def test_k21_a_topic_that_is_made_again_at_once_is_dropped_first_on_every_broker(stage: Stage) -> None:
    admin = stage.cluster.admin()
    stage.cluster.create_topics(["again"])
    refused = stage.refusals()
    for _ in range(5):
        admin.delete_topics(["again"])["again"].result(120)
        admin.create_topics([NewTopic("again", 4, 3)])["again"].result(120)
    stage.cluster.wait_isr_whole(["again"])
    produce(stage.cluster, "again", 50)
    assert stage.refusals() == refused


def test_k07_a_topic_that_was_made_again_while_nobody_wrote_to_zookeeper_is_replaced_there(stage: Stage) -> None:
    path = "/brokers/topics/again"
    before = stage.json_at(path)["topic_id"]
    stage.controller.kill()
    with stage.about_to_compare():
        stage.asked(lambda admin: admin.delete_topics(["again"])["again"])
        stage.asked(lambda admin: admin.create_topics([NewTopic("again", 2, 3)])["again"])
        assert stage.json_at(path)["topic_id"] == before
    assert stage.json_at(path)["topic_id"] != before
    assert stage.json_at(path)["partitions"].keys() == {"0", "1"}
    wait_for(lambda: stage.why_not_known("again", {0, 1}), "every broker knows the new topic")
    produce(stage.cluster, "again", 50)
    assert_same(stage.cluster, stage.controller.data)


def test_k18_a_dead_broker_is_not_shown_to_clients(stage: Stage) -> None:
    stage.cluster.create_topics(["gone"], partitions=1)
    produce(stage.cluster, "gone", 10)
    away = stage.cluster.brokers[2]
    away.kill()
    others = ",".join(broker.address for broker in stage.cluster.brokers[:2])
    wait_for(lambda: None if stage.named_by(others) == {0, 1} else "three", "clients are sent to two brokers")


def test_k20_a_broker_that_was_away_keeps_nothing_of_what_was_deleted_without_it(stage: Stage) -> None:
    """Also a topic made again under its name, and also when the log remembers the deletion in a snapshot only.

    Two of its logs have no topic id, as after a kill right after they were made: it then fails at FULL requests.
    """
    away = stage.cluster.brokers[2]
    assert stage.logs_of("gone", 2)
    assert stage.logs_of("again", 2)
    stage.asked(lambda admin: admin.delete_topics(["gone"])["gone"])
    stage.asked(lambda admin: admin.delete_topics(["again"])["again"])
    stage.asked(lambda admin: admin.create_topics([NewTopic("again", 2, 2)])["again"])
    stage.trim_log()
    stage.controller.kill()
    for log in ("gone-0", "topic-0-0"):
        (away.directory / "data-0" / log / "partition.metadata").unlink(missing_ok=True)
    with stage.about_to_compare():
        away.start()
        wait_for(lambda: None if stage.is_unfenced(2) else "fenced", "the broker is back before anybody is told")
    stage.cluster.wait_isr_whole(TOPICS)
    wait_for(lambda: str(stage.logs_of("gone", 2)) if stage.logs_of("gone", 2) else None, "no log of 'gone' is kept")
    wait_for(lambda: str(stage.logs_of("again", 2)) if stage.logs_of("again", 2) else None, "none of 'again' is kept")
    produce(stage.cluster, "again", 50)
    wait_for(lambda: None if stage.named_by(away.address) == {0, 1, 2} else "not all", "it names all three brokers")
    wait_for(lambda: "known" if "gone" in stage.topics_known_by(away.address) else None, "it does not know 'gone'")
    assert_same(stage.cluster, stage.controller.data)


# --- the way back -----------------------------------------------------------------------------------------


def test_k25_no_duration_that_was_told_is_negative(stage: Stage) -> None:
    events = stage.controller.events()
    told = [(event["event"], key, value) for event in events for key, value in event.items() if key.endswith("_ms")]
    assert len(told) > 20
    assert not [each for each in told if isinstance(each[2], (int, float)) and each[2] < 0]
    assert not [(name, value) for name, value in stage.controller.metrics().items() if "_seconds" in name and value < 0]


def test_an_operator_who_deletes_migration_stops_our_writes_and_release_rolls_the_cluster_back(stage: Stage) -> None:
    stage.cluster.zk.delete("/migration")
    stage.controller.wait_state("FENCED")
    assert stage.driver()["finding"]["code"] == "Z2K-2003"
    refused = stage.cluster.admin().create_topics([NewTopic("not-now", 1, 3)], request_timeout=3)["not-now"]
    with pytest.raises(KafkaException):
        refused.result(120)
    assert not stage.cluster.zk.exists("/brokers/topics/not-now")
    stage.controller.stop()


def test_k23_the_way_back_removes_the_controller_znode_itself(stage: Stage) -> None:
    command = [
        sys.executable,
        "-m",
        "api",
        "rollback",
        "--without-controllers",
        "-z",
        stage.cluster.zookeeper_connect,
        "--execute",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    wait_zookeeper_rules(stage.cluster)
    stage.cluster.create_topics(["under-zookeeper"])


def test_a_second_migration_waits_for_brokers_that_were_not_restarted_and_then_succeeds(stage: Stage) -> None:
    cluster, old = stage.cluster, stage.controller
    old.directory.rename(old.directory.with_name("retired"))
    zookeepers = controller_of(cluster)
    fresh = stage.controller = OurController(cluster.laboratory, old.spec, cluster.cluster_id)
    fresh.start()

    def named() -> str | None:
        reason = stage.driver()["reason"]
        said = "Broker 0 still follows the metadata log of an earlier quorum. The same holds for brokers [1, 2]."
        return None if said in reason else reason

    wait_for(named, "brokers that know the old log are named")
    assert controller_of(cluster) == zookeepers
    cluster.restart_as(lambda spec: spec.as_migrating(fresh.voters))
    cluster.wait_isr_whole([*TOPICS, "under-zookeeper"])
    stage.wait_dual_write()
    assert_same(cluster, fresh.data)


def test_an_operator_who_deletes_controller_ends_the_migration_and_ours_writes_no_more(stage: Stage) -> None:
    stage.cluster.zk.delete("/controller")
    wait_zookeeper_rules(stage.cluster)
    stage.controller.wait_state("FENCED")
    stage.cluster.create_topics(["by-zookeeper"])
    produce(stage.cluster, "by-zookeeper", 50)
    stage.controller.kill()
    stage.controller.launch()
    assert stage.controller.process.wait_for_exit(HANGS_AFTER_S)
    assert "Z2K-2008" in stage.controller.process.log_text()
    assert stage.cluster.zk.exists("/brokers/topics/by-zookeeper")
