"""The way back from dual-write, with real brokers: none is restarted, nothing acknowledged is lost."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import time
from dataclasses import replace

import pytest
from confluent_kafka.admin import ResourceType  # type: ignore[attr-defined]  # public, but not re-exported for mypy

from migrator.findings.finding import FindingError
from migrator.lab.cluster import LabCluster
from migrator.lab.ours import OurController
from migrator.lab.servers.broker import SESSION_TIMEOUT_MS, BrokerProcess
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.takeover import wait_sessions_ended
from migrator.zk import paths
from migrator.zk.session import ZkSession
from migrator.zk.znodes import ProducerIdBlock, parse_producer_ids
from tests.adversarial.producer_ids import Handed, ProducerIdClient
from tests.e2e.quorums import PATIENT, start, three_controllers, wait_ruling
from tests.e2e.support import (
    HANGS_AFTER_S,
    LONG_WINDOW,
    controller_of,
    produce,
    ready_cluster,
    wait_for,
    wait_zookeeper_rules,
)

pytestmark = pytest.mark.lab

TOPICS = [f"topic-{number}" for number in range(5)]
LONGER_THAN_A_SESSION_S = SESSION_TIMEOUT_MS / 1000 + 2
"""Whatever a broker's absence ends by time-out has ended then."""
ASKED_ALL_S = 15
"""A broker that gets nothing from one voter asks another one after a second or so: by then each has been asked."""
NEVER_STANDS = {"controller.quorum.election.timeout.ms": 120_000, "controller.quorum.fetch.timeout.ms": 120_000}
"""Of a voter that no test waits for that long."""


def isr_changes(cluster: LabCluster, rounds: int) -> None:
    """Stop and return brokers: each time every partition's ISR shrinks and grows."""
    for number in range(rounds):
        broker = cluster.brokers[number % len(cluster.brokers)]
        broker.stop()
        broker.start()
        broker.wait_ready()
        cluster.wait_isr_whole(TOPICS)


def partition_epochs(cluster: LabCluster) -> int:
    """Changes of all partitions so far: the sum of the state znodes' versions."""
    states = [paths.state(topic, p) for topic in TOPICS for p in range(4)]
    with ZkSession(cluster.zookeeper_connect) as session:
        return sum(znode.version for znode in session.get_many(states) if znode is not None)


def processes(cluster: LabCluster) -> list[int]:
    return [broker.process.pid for broker in cluster.brokers]


def zookeeper_rules_after(cluster: LabCluster, since: float) -> float:
    """The seconds from then until a broker claimed, as the broker wrote it down: this process may stand still too."""
    wait_zookeeper_rules(cluster)
    claimed = controller_of(cluster)
    assert claimed is not None
    return int(claimed["timestamp"]) / 1000 - since


def assert_zookeeper_goes_on(cluster: LabCluster, stopped_s: float) -> None:
    """Each broker in turn is away for a while: every partition gets a leader, and the ISR is whole again."""
    for broker in cluster.brokers:
        broker.stop()
        produce(cluster, TOPICS[0], 50)
        time.sleep(stopped_s)

        def led(away: int = broker.broker_id) -> str | None:
            states = [cluster.partition_state(topic, p) for topic in TOPICS for p in range(4)]
            bad = [state for state in states if state is None or state["leader"] in (-1, away)]
            return f"{len(bad)} partitions are badly led" if bad else None

        wait_for(led, "every partition has a leader")
        broker.start()
        broker.wait_ready()
        cluster.wait_isr_whole(TOPICS)


def assert_refuses_to_start(cluster: LabCluster, controller: OurController) -> None:
    """The old controller, restarted unchanged, ends with a finding and touches nothing."""
    before = {path: cluster.zk.read(path) for path in ("/controller", "/controller_epoch", "/migration")}
    cluster.create_topics(f"under-zookeeper-{number}" for number in range(5))
    controller.launch()
    wait_for(lambda: None if not controller.is_running else "still running", "it ends")
    assert controller.process.exit_code not in (0, None)
    assert "Z2K-2008" in controller.process.log_text()
    assert {path: cluster.zk.read(path) for path in before} == before
    assert cluster.zk.exists("/brokers/topics/under-zookeeper-4")


@pytest.mark.long
def test_the_cluster_goes_back_after_200_isr_changes(laboratory: Laboratory) -> None:
    with ready_cluster(laboratory, topics=len(TOPICS)) as (cluster, controller):
        produce(cluster, TOPICS[0], 500)
        controller.start()
        controller.wait_dual_write()
        before = partition_epochs(cluster)
        isr_changes(cluster, rounds=6)
        assert partition_epochs(cluster) - before >= 200
        pids = processes(cluster)

        controller.ask("rollback")
        controller.wait_state("RETIRED")
        assert zookeeper_rules_after(cluster, time.time()) < 5
        assert processes(cluster) == pids
        assert all(broker.is_running for broker in cluster.brokers)
        assert cluster.zk.read("/migration") is None
        assert_zookeeper_goes_on(cluster, stopped_s=LONGER_THAN_A_SESSION_S)
        controller.stop()
        assert_refuses_to_start(cluster, controller)


def without_controllers(cluster: LabCluster, *words: str) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "api",
        "rollback",
        "--without-controllers",
        "-z",
        cluster.zookeeper_connect,
        *words,
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=240)


def why_not_mirrored(controller: OurController) -> str | None:
    lag = controller.status()["dual_write"]["lag_records"]
    return f"{lag} records behind" if lag else None


def newest_block(cluster: LabCluster) -> ProducerIdBlock:
    block = parse_producer_ids(paths.PRODUCER_IDS, cluster.zk.read(paths.PRODUCER_IDS))
    assert block is not None
    return block


def hand_out_ids(broker: BrokerProcess, handed: Handed, beyond: int) -> None:
    """Use producer ids up at one broker until it gives one above `beyond`; it asks for blocks on the way."""

    async def ask() -> None:
        client = ProducerIdClient(broker.spec.port)
        ends = time.monotonic() + HANGS_AFTER_S
        while time.monotonic() < ends:
            for error, producer_id in await client.ask([None] * 500, timeout_s=120):
                if not error:
                    handed.note(producer_id, broker.broker_id)
            if handed.highest > beyond:
                client.close()
                return
            await asyncio.sleep(0.1)
        raise AssertionError(f"broker {broker.broker_id} gave none above {beyond}; the highest was {handed.highest}")

    asyncio.run(ask())


def test_release_rolls_back_with_none_of_ours_alive(laboratory: Laboratory) -> None:
    """Also with a log at hand, which tells first that ZooKeeper lacks nothing, and then that it lacks producer ids."""
    extra = {"zookeeper.session.timeout.ms": 12_000}
    with ready_cluster(laboratory, topics=len(TOPICS), extra=extra) as (cluster, controller):
        log, handed = ("--log", str(controller.data)), Handed()
        controller.start()
        controller.wait_dual_write()
        isr_changes(cluster, rounds=1)
        pids = processes(cluster)
        for words in ((), log):
            refused = without_controllers(cluster, *words, "--execute")
            assert (refused.returncode, "Z2K-1118" in refused.stderr) == (2, True), refused.stdout + refused.stderr
            assert f"controller 3000, process {controller.process.pid}" in refused.stderr
        assert (controller_of(cluster) or {})["kraftControllerEpoch"] > 0
        wait_for(lambda: why_not_mirrored(controller), "everything is mirrored")
        controller.kill()
        level = without_controllers(cluster, *log)
        assert "ZooKeeper lacks nothing of it" in level.stdout, level.stdout + level.stderr
        controller.start()
        controller.wait_dual_write()

        mirrored = int(newest_block(cluster).block_end)
        cluster.zookeeper.stop()
        hand_out_ids(cluster.brokers[0], handed, beyond=mirrored)
        controller.kill()
        cluster.zookeeper.start()
        assert int(newest_block(cluster).block_end) == mirrored
        lost = without_controllers(cluster, *log)
        assert lost.returncode == 2
        assert "Z2K-2070" in lost.stderr
        planned = without_controllers(cluster)
        assert planned.returncode == 0, planned.stderr
        assert "not verified" in planned.stdout
        assert "nothing was changed" in planned.stdout
        assert (controller_of(cluster) or {})["kraftControllerEpoch"] > 0

        wait_sessions_ended(cluster)
        done = without_controllers(cluster, *log, "--accept-loss", "--execute")
        ended = time.time()
        assert done.returncode == 0, done.stderr
        assert "this loss was accepted" in done.stdout
        assert re.search(r"after\s+/controller: (absent|ZooKeeper-mode broker)", done.stdout), done.stdout
        assert zookeeper_rules_after(cluster, ended) < 5
        assert processes(cluster) == pids
        released = newest_block(cluster)
        assert int(released.block_start) > handed.highest
        assert_zookeeper_goes_on(cluster, stopped_s=2)
        hand_out_ids(cluster.brokers[1], handed, beyond=int(released.block_end))
        assert newest_block(cluster).broker >= 0, "handed out by a ZooKeeper controller"
        assert not handed.violations
        assert_refuses_to_start(cluster, controller)

        again = without_controllers(cluster)
        assert again.returncode == 2
        assert "Z2K-2019" in again.stderr


def not_refused(fresh: OurController, cluster: LabCluster) -> str | None:
    said = [line for line in fresh.process.log_text().splitlines() if "fetch.refused" in line]
    left = [each.name for each in cluster.brokers if not any(f'"broker": {each.broker_id},' in line for line in said)]
    return f"{left} asked for nothing yet; {said[-1:]}" if left else None


def faulted(cluster: LabCluster) -> list[str]:
    return [each.name for each in cluster.brokers if "raftManager fault" in each.process.log_text()]


def test_a_second_migration_after_a_rollback_needs_a_fresh_quorum_and_restarted_brokers(
    laboratory: Laboratory,
) -> None:
    with ready_cluster(laboratory, topics=len(TOPICS)) as (cluster, controller):
        controller.start()
        controller.wait_dual_write()
        cluster.alter_configs(ResourceType.TOPIC, TOPICS[0], {"retention.ms": "3600002"})
        controller.ask("rollback")
        controller.wait_state("RETIRED")
        controller.stop()
        wait_zookeeper_rules(cluster)
        kept = json.loads(cluster.zk.read(f"/config/topics/{TOPICS[0]}") or b"")
        assert kept["config"] == {"retention.ms": "3600002"}

        controller.directory.rename(controller.directory.with_name("retired"))
        fresh = OurController(laboratory, controller.spec, cluster.cluster_id)
        fresh.start()  # of the epoch and the addresses that brokers know: told to cut their log, each would end
        wait_for(
            lambda: not_refused(fresh, cluster),
            "brokers that follow the old log get nothing of the new one",
        )
        produce(cluster, TOPICS[0], 20)
        assert all(broker.is_running for broker in cluster.brokers)
        assert faulted(cluster) == []
        cluster.restart_as(lambda spec: spec.as_migrating(fresh.voters))
        cluster.wait_isr_whole(TOPICS)
        fresh.wait_dual_write()
        cluster.create_topics(["second-migration"])


def start_led_by(leader: OurController, others: list[OurController]) -> None:
    """Nobody else stands for election, so this one leads, in the first epoch."""
    leader.spec = replace(leader.spec, extra={**LONG_WINDOW, **PATIENT})
    for each in others:
        each.spec = replace(each.spec, extra={**LONG_WINDOW, **NEVER_STANDS})
    start([leader, *others])

    def why_not() -> str | None:
        try:
            quorum = leader.status()["quorum"]
        except FindingError as error:
            return str(error)
        return None if (quorum["leader"], quorum["epoch"]) == (leader.spec.node_id, 1) else str(quorum)

    wait_for(why_not, f"{leader.name} leads in epoch 1")


@pytest.mark.long
@pytest.mark.parametrize("earlier", [False, True], ids=["the same epoch", "an earlier epoch"])
def test_a_fresh_quorum_with_another_leader_of_an_epoch_that_brokers_know_ends_none(
    laboratory: Laboratory, *, earlier: bool
) -> None:
    """Kafka 3.9 takes no two leaders of one epoch, and none of an earlier one: such a broker reads nothing."""
    with three_controllers(laboratory) as (cluster, retired):
        start_led_by(retired[0], retired[1:])
        retired[0].wait_dual_write()
        retired[0].ask("rollback")
        retired[0].wait_state("RETIRED")
        for each in retired if earlier else reversed(retired):  # the leader last, for no other epoch
            each.stop()
        wait_zookeeper_rules(cluster)

        for each in retired:
            each.directory.rename(each.directory.with_name(f"retired-{each.spec.node_id}"))
        first, leader, third = (OurController(laboratory, each.spec, cluster.cluster_id) for each in retired)
        start_led_by(leader, [third])  # where the leader was that brokers know, nobody answers: they ask these
        wait_for(lambda: not_refused(leader, cluster), "brokers ask the new leader")
        wait_for(lambda: None if "Z2K-1055" in json.dumps(leader.status()) else "not named", "the status names one")
        time.sleep(ASKED_ALL_S)
        assert faulted(cluster) == []
        start([first])
        time.sleep(ASKED_ALL_S)
        produce(cluster, TOPICS[0], 20)
        assert all(broker.is_running for broker in cluster.brokers)
        assert faulted(cluster) == []
        cluster.restart_as(lambda spec: spec.as_migrating(leader.voters))
        cluster.wait_isr_whole(TOPICS[:3])
        wait_ruling([first, leader, third])


def lacks_log(cluster: LabCluster) -> str | None:
    left = [each.name for each in cluster.brokers if "High watermark set to" not in each.process.log_text()]
    return f"{left} do not" if left else None


def why_not_registered(fresh: OurController, cluster: LabCluster) -> str | None:
    registered = {each["id"] for each in fresh.status()["brokers"]}
    left = {each.broker_id for each in cluster.brokers} - registered
    return f"{left} are not" if left else None


@pytest.mark.long
def test_brokers_that_a_wrongly_formatted_quorum_refused_register_with_the_next_one_and_are_not_ended(
    laboratory: Laboratory,
) -> None:
    """As the runbook of Z2K-1090 has it: they go on trying to register, without a restart, with the old log."""
    with ready_cluster(laboratory, topics=len(TOPICS)) as (cluster, wrong):
        right = wrong.spec
        wrong.spec = replace(right, release="3.8")
        wrong.start()
        wait_for(lambda: None if "Z2K-1090" in json.dumps(wrong.status()) else "not named", "the level is named")
        wait_for(lambda: lacks_log(cluster), "every broker knows what is committed")
        wrong.stop()
        wrong.directory.rename(wrong.directory.with_name("wrong"))

        fresh = OurController(laboratory, right, cluster.cluster_id)
        fresh.start()
        wait_for(lambda: why_not_registered(fresh, cluster), "all brokers registered")
        wait_for(lambda: not_refused(fresh, cluster), "all brokers are refused")
        time.sleep(ASKED_ALL_S)
        status = fresh.status()
        assert (status["driver"]["state"], "Z2K-1055" in json.dumps(status)) == ("WAIT_BROKERS", True)
        produce(cluster, TOPICS[0], 20)
        assert all(broker.is_running for broker in cluster.brokers)
        assert faulted(cluster) == []
        cluster.restart_as(lambda spec: spec.as_migrating(fresh.voters))
        fresh.wait_dual_write()
