"""What is stored and not applied, before the first restart that the service orders: real brokers with tiered storage.

A switch-off of a tiered topic is taken by ZooKeeper and by no broker; the next restart makes its older records
unreadable. The service has to say so while everything can still be read, and the remedy has to hold over the restarts.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka.admin import ResourceType  # type: ignore[attr-defined]  # public, but not re-exported for mypy

from migrator.driver.checks.restarts import configs_of, restart_findings, tiered_topics
from migrator.findings.finding import FindingError, Occurrence
from migrator.findings.service import GATE_CLOSED
from migrator.lab.cluster import LabCluster
from migrator.lab.ours import PROGRAM, OurController, our_quorum
from migrator.lab.servers.artifacts import Artifacts, with_remote_store
from migrator.lab.servers.broker import BrokerProcess
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.tools import elect_preferred_leaders, reassign
from migrator.lab.servers.waiting import wait_until
from migrator.node.brokers.applied import ask_now, registered
from migrator.node.zookeeper.tree_reader import read_tree
from migrator.zk.multi import Multi, SetData
from migrator.zk.session import ZkSession
from tests.e2e.road_stage import CONTROLLER_SETTINGS, NAME, RoadStage
from tests.e2e.support import wait_for
from tests.e2e.tiered_stage import (
    COPIED_S,
    PARTITIONS,
    RECORDS,
    SYSTEM,
    TOPIC,
    fill_history,
    records_from_0,
    segments,
    tiered_settings,
)

pytestmark = pytest.mark.lab

UNMEANT: Final = "no change waits for a restart of a broker"


@pytest.fixture
def laboratory(tmp_path: Path, kafka_artifacts: Artifacts) -> Iterator[Laboratory]:
    """Whose brokers can have a remote store."""
    with Laboratory(tmp_path / "lab", with_remote_store(kafka_artifacts)) as opened:
        yield opened
    assert opened.processes.running == []


@pytest.fixture
def cluster(laboratory: Laboratory) -> LabCluster:
    """Two brokers in ZooKeeper mode, and a topic most of whose records only the remote store has."""
    store = laboratory.directory / "remote"
    made = LabCluster(laboratory, brokers=2, extra=tiered_settings(store))
    made.start()
    fill_history(made, store)
    return made


def condition(stage: RoadStage) -> dict[str, Any]:
    """Of the gate of BROKERS_JOINING; what there is before the service has read anything."""
    gates = stage.service.view(stage.migration)["gates"]
    conditions = [each for edge in gates if edge["to"] == "BROKERS_JOINING" for each in edge["conditions"]]
    nothing = {"status": "Unknown", "message": f"not there: {conditions}", "codes": []}
    return next((dict(each) for each in conditions if each["name"] == UNMEANT), nothing)


def wait_condition(stage: RoadStage, code: str | None) -> str:
    """Until that condition of the gate of BROKERS_JOINING names the code; None: until it is True. Its message."""

    def why_not() -> str | None:
        found = condition(stage)
        if code is None:
            return None if found["status"] == "True" else found["message"]
        return None if code in found["codes"] else found["message"]

    wait_for(why_not, f"{code} in the gate", 90)
    return str(condition(stage)["message"])


def checked(cluster: LabCluster, ours: list[OurController]) -> tuple[int, set[str]]:
    """Exit code and blocking codes of `zk2kraft check`."""
    files = [part for each in ours for part in ("--controllers", str(each.properties_file))]
    command = [sys.executable, *PROGRAM, "check", "-z", cluster.zookeeper_connect, *files, "--json"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    document = json.loads(ran.stdout)
    return ran.returncode, {each["code"] for each in document["findings"] if each["severity"] == "blocks"}


def test_a_switch_off_of_a_tiered_topic_closes_the_gate_before_any_restart_and_the_remedy_outlives_them(
    laboratory: Laboratory, cluster: LabCluster
) -> None:
    store = laboratory.directory / "remote"
    everything = list(range(RECORDS))
    ours = our_quorum(cluster, 3, {**CONTROLLER_SETTINGS, SYSTEM: True})
    stage = RoadStage(laboratory, joins=True, cluster=cluster)
    stage._control(NAME, ours, ())
    stage.service.start()
    stage.migration = stage.service.create(NAME, cluster, stage.fleet.ours)
    stage.step("PREFLIGHT")
    stage.service.wait_phase(stage.migration, "PREFLIGHT")
    stage.step("QUORUM")
    stage.service.wait_phase(stage.migration, "BROKERS_JOINING")
    assert wait_condition(stage, None) == "brokers run with what their files and ZooKeeper say"
    processes = [each.process.pid for each in cluster.brokers]

    cluster.alter_configs(ResourceType.TOPIC, TOPIC, {"remote.storage.enable": "false"})
    said = wait_condition(stage, "Z2K-1058")
    assert f"/config/topics/{TOPIC} does not set remote.storage.enable=true, and broker 0 still reads 2" in said
    assert "broker 1 still reads" in said
    with pytest.raises(FindingError, match=GATE_CLOSED.code):
        stage.service.operation(stage.migration, "advance", "BROKERS_JOINING")
    found = {each["code"]: each for each in stage.service.view(stage.migration)["findings"]}
    assert "set remote.storage.enable=true on the topic again" in found["Z2K-1058"]["remedy"]
    assert checked(cluster, ours) == (2, {"Z2K-1058"})
    assert [each.process.pid for each in cluster.brokers] == processes
    assert records_from_0(cluster) == everything

    cluster.alter_configs(ResourceType.TOPIC, TOPIC, {"remote.storage.enable": "true"})
    wait_condition(stage, None)
    file = cluster.brokers[1].properties_file
    before = file.read_text()
    file.write_text(before.replace("num.io.threads=4", "num.io.threads=5"))
    assert "broker 1 would also change num.io.threads" in wait_condition(stage, "Z2K-4234")
    file.write_text(before)
    wait_condition(stage, None)
    assert checked(cluster, ours)[1] == set()
    kept = segments(store)

    stage.step("BROKERS_JOINING")
    stage._wait_phase("READY")
    assert len({each.process.pid for each in cluster.brokers} | set(processes)) == 4, "each was restarted once"
    assert records_from_0(cluster) == everything
    assert segments(store) >= kept


# --- what ends a broker at its start ----------------------------------------------------------------------

ENDS: Final = (
    {"retention.ms": "soon"},
    {"segment.bytes": "3"},
    {"remote.log.copy.disable": "true"},
    {"remote.log.delete.on.disable": "true"},
)
STARTS: Final = (
    {"min.compaction.lag.ms": "100", "max.compaction.lag.ms": "10"},
    {"no.such.key": "1"},
    {"remote.log.copy.disable": "false"},
)


@pytest.mark.long
def test_a_broker_ends_at_its_start_at_exactly_those_configurations_that_are_named(cluster: LabCluster) -> None:
    """Written as nobody but an old tool would: brokers refuse to write these."""
    cluster.create_topics(["odd"], partitions=1)
    broker = cluster.brokers[1]
    for config in (*ENDS, *STARTS):
        with ZkSession(cluster.zookeeper_connect) as session:
            data = json.dumps({"version": 1, "config": config}).encode()
            assert session.apply(Multi((SetData("/config/topics/odd", data),))).applied
            named = [each.code for each in restart_findings(configs_of(read_tree(session)), {}, {})]
        assert starts_again(broker) is not bool(named), (config, named)
        assert bool(named) is (config in ENDS)


def starts_again(broker: BrokerProcess) -> bool:
    """Whether it comes up. One that gives up need not end: with remote storage its process may hang in its shutdown."""
    broker.stop()
    broker.start_as_written()

    def gave_up() -> bool:
        return not broker.is_running or "Fatal error during KafkaServer startup" in broker.process.log_text()

    wait_until(
        lambda: None if gave_up() or broker.why_not_ready() is None else "neither up nor given up",
        name=broker.name,
        deadline_s=120,
    )
    return not gave_up()


@pytest.mark.long
def test_a_replica_of_a_restarted_broker_begins_at_its_local_log_and_the_other_broker_is_named(
    cluster: LabCluster,
) -> None:
    """What the gate is there for: the restart does lose what the other broker can still read."""
    cluster.alter_configs(ResourceType.TOPIC, TOPIC, {"remote.storage.enable": None})
    assert named_brokers(cluster) == [0, 1]
    assert starts_again(cluster.brokers[1])
    cluster.wait_isr_whole([TOPIC])
    assert named_brokers(cluster) == [0]
    begins = applied(cluster)[1].begins[TOPIC]
    assert all(each.earliest > 0 and not each.uses_remote for each in begins.values()), begins
    cluster.alter_configs(ResourceType.TOPIC, TOPIC, {"remote.storage.enable": "true"})

    def why_not_named() -> str | None:
        """`true` again is no remedy for that replica: it would be the leader when the other broker restarts."""
        found = findings_of(cluster)
        later = [each for each in found if each.code == "Z2K-4234" and each.values["node"] == "broker 0"]
        return None if later and "broker 1 would lead it" in later[0].text else f"{[each.text for each in found]}"

    wait_for(why_not_named, "the replica that begins later", 60)
    assert records_from_0(cluster) == list(range(RECORDS))

    # what the runbook of Z2K-4234 says: the other one first, then this replica anew
    for replicas in ([0, 1], [0], [0, 1], [1, 0]):
        moved_to(cluster, replicas)
    elect_preferred_leaders(cluster.laboratory, cluster.bootstrap_servers)
    wait_for(lambda: None if led_by(cluster) == {1} else str(led_by(cluster)), "broker 1 leads", 60)
    assert records_from_0(cluster) == list(range(RECORDS))
    assert not [each for each in findings_of(cluster) if each.code == "Z2K-4234"]


def moved_to(cluster: LabCluster, replicas: list[int]) -> None:
    reassign(cluster.laboratory, cluster.bootstrap_servers, {(TOPIC, number): replicas for number in range(PARTITIONS)})

    def why_not() -> str | None:
        found = cluster.admin().list_topics(TOPIC, timeout=60).topics[TOPIC].partitions
        seen = {number: (list(each.replicas), sorted(each.isrs)) for number, each in found.items()}
        return None if all(each == (replicas, sorted(replicas)) for each in seen.values()) else str(seen)

    wait_for(why_not, f"replicas {replicas}", COPIED_S)


def led_by(cluster: LabCluster) -> set[int]:
    return {each.leader for each in cluster.admin().list_topics(TOPIC, timeout=60).topics[TOPIC].partitions.values()}


def applied(cluster: LabCluster) -> dict[int, Any]:
    with ZkSession(cluster.zookeeper_connect) as session:
        tree = read_tree(session)
    brokers, unknown = registered(tree.brokers)
    found, silent = ask_now(brokers, tiered_topics(configs_of(tree)), "PLAINTEXT", "a test")
    assert {**unknown, **silent} == {}
    return found


def findings_of(cluster: LabCluster) -> list[Occurrence]:
    with ZkSession(cluster.zookeeper_connect) as session:
        configs = configs_of(read_tree(session))
    return list(restart_findings(configs, applied(cluster), {}))


def named_brokers(cluster: LabCluster) -> list[int]:
    return [each.values["broker"] for each in findings_of(cluster) if each.code == "Z2K-1058"]
