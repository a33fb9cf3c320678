"""Three controllers of ours with real brokers: whoever leads rules, whoever dies is followed by another."""

from __future__ import annotations

from pathlib import Path

import pytest

from migrator.lab.cluster import LabCluster
from migrator.lab.ours import OurController
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.ports import HOST
from migrator.lab.servers.properties import Value
from migrator.lab.servers.tools import dump_metadata_log
from tests.e2e.quorums import PATIENT, TOPICS, committed, start, three_controllers, wait_ruling
from tests.e2e.support import (
    HANGS_AFTER_S,
    assert_same,
    audit,
    controller_of,
    copies,
    produce,
    spoil,
    unspoil,
    wait_for,
    wait_zookeeper_rules,
)

pytestmark = pytest.mark.lab


def why_not_followed(leader: OurController, follower: OurController) -> str | None:
    """It may have been restarted a moment ago."""
    measured = follower.metrics()
    follows = measured.get("zk2kraft_role{follower}") == 1 and measured["zk2kraft_leader"] == leader.spec.node_id
    works = all(measured[f"zk2kraft_{part}_seconds_count"] > 0 for part in ("fsync", "apply"))
    return None if follows and works else f"{follower.name} does not follow yet"


def assert_measured(leader: OurController, follower: OurController) -> None:
    """R-595-16, of a leader that was elected when another had died, and of one who follows it."""
    wait_for(lambda: why_not_followed(leader, follower), "the follower has what the leader wrote")
    led, followed = leader.metrics(), follower.metrics()
    assert led["zk2kraft_role{leader}"] == followed["zk2kraft_role{follower}"] == 1
    assert led["zk2kraft_leader"] == followed["zk2kraft_leader"] == leader.spec.node_id
    for part in ("append", "fsync", "replicate", "commit", "apply", "election", "without_leader"):
        assert led[f"zk2kraft_{part}_seconds_count"] > 0, part
        assert led[f"zk2kraft_{part}_seconds_sum"] > 0, part
    assert led["zk2kraft_fetches_served_total"] > 0
    assert led["zk2kraft_fetch_sent_bytes_total"] > 0
    assert 0 < led["zk2kraft_high_watermark"] <= led["zk2kraft_log_end_offset"]
    for part in ("fsync", "apply"):
        assert followed[f"zk2kraft_{part}_seconds_count"] > 0, part


def assert_not_compared(cluster: LabCluster, dead: OurController) -> None:
    """What the others committed since it was killed is in ZooKeeper, and not in its directory: no difference of the
    cluster.
    """
    (told,) = audit(cluster, dead.data, exits=[2])["differences"]
    assert told["rule"] == "Z2K-5001"
    assert "ZooKeeper already has offset" in told["key"]


def test_whoever_is_killed_another_rules_and_nothing_is_lost(laboratory: Laboratory) -> None:
    """R-595-02, 03, 06; R-866-05: each leader claims with a higher epoch, and brokers follow it."""
    with three_controllers(laboratory, PATIENT) as (cluster, ours):
        start(ours)
        wait_ruling(ours)
        produce(cluster, TOPICS[0], 100)
        epochs = [(controller_of(cluster) or {})["kraftControllerEpoch"]]
        for turn in range(3):
            leader = wait_ruling(ours)  # another may have been elected since
            leader.kill()
            left = [each for each in ours if each is not leader]
            successor = wait_ruling(left)
            held = controller_of(cluster) or {}
            assert held["brokerid"] == successor.spec.node_id
            epochs.append(held["kraftControllerEpoch"])
            cluster.create_topics([f"made-{turn}"])
            cluster.wait_isr_whole([*TOPICS, f"made-{turn}"])
            produce(cluster, f"made-{turn}", 100)
            if turn == 0:
                assert_not_compared(cluster, leader)
            leader.start()
            assert_same(cluster, successor.data)
        assert epochs == sorted(set(epochs))
        leader = wait_ruling(ours)
        assert_measured(leader, next(each for each in ours if each is not leader))

        leader.ask("rollback")
        wait_zookeeper_rules(cluster)
        for each in ours:
            each.wait_state("RETIRED")
        for each in ours:
            each.stop()
        for each in ours:
            each.launch()
            assert each.process.wait_for_exit(HANGS_AFTER_S)
            assert each.process.exit_code == 1
            assert "Z2K-2008" in each.process.log_text()
        logs = [committed(laboratory, each) for each in ours]
        shortest = min(len(each) for each in logs)
        assert shortest > 50
        assert logs[0][:shortest] == logs[1][:shortest] == logs[2][:shortest]


def test_a_takeover_that_died_is_not_tried_again_by_another_voter_until_a_person_says_so(
    laboratory: Laboratory, tmp_path: Path
) -> None:
    """F-59: the latch is in the log, so that every voter keeps it, also after all of them were restarted."""
    extra: dict[str, Value] = {**PATIENT, "zookeeper.session.timeout.ms": 12_000}  # the claim outlives the election
    with three_controllers(laboratory, extra) as (cluster, ours):
        marks = [tmp_path / each.name for each in ours]
        for each, mark in zip(ours, marks, strict=True):
            spoil(each, mark, stall_before="encode")
        start(ours)
        wait_for(lambda: None if any(map(Path.exists, marks)) else "nobody stalls", "the leader stalls in COPYING")
        leader = next(each for each, mark in zip(ours, marks, strict=True) if mark.exists())
        leader.kill()
        left = [each for each in ours if each is not leader]

        def held(ours: list[OurController]) -> str | None:
            states = {each.name: each.state() for each in ours}
            return None if "ABORTED" in states.values() else str(states)

        wait_for(lambda: held(left), "another voter leads and holds")
        wait_zookeeper_rules(cluster)
        for each in left:
            each.stop()
        for each in ours:
            unspoil(each)
        start(ours)
        wait_for(lambda: held(ours), "the latch stands after a restart of all")
        assert sum(copies(each) for each in ours) == 0
        holder = next(each for each in ours if each.state() == "ABORTED")
        assert holder.status()["driver"]["finding"]["code"] == "Z2K-2017"
        holder.ask("takeover")
        ruler = wait_ruling(ours)
        assert_same(cluster, ruler.data)


def test_snapshots_are_taken_the_log_is_trimmed_and_a_node_with_an_empty_disk_loads_one(
    laboratory: Laboratory,
) -> None:
    """KIP-630: small limits, so that it happens here."""
    extra: dict[str, Value] = {
        "metadata.log.max.record.bytes.between.snapshots": 4_000,
        "metadata.max.retention.bytes": 20_000,
        "metadata.log.segment.bytes": 8_192,
        **PATIENT,
    }
    with three_controllers(laboratory, extra) as (cluster, ours):
        start(ours)
        leader = wait_ruling(ours)
        follower = next(each for each in ours if each is not leader)
        follower.kill()
        for turn in range(12):
            cluster.create_topics([f"more-{turn}-{number}" for number in range(5)], partitions=4)

        def snapshots(of: OurController) -> list[Path]:
            return sorted(of.metadata_log.glob("*.checkpoint"))

        wait_for(lambda: None if snapshots(leader) else "none yet", "the leader has a snapshot")
        for file in follower.metadata_log.iterdir():
            if file.name != "quorum-state":  # what it promised is not forgotten with its records
                file.unlink()
        follower.start()
        offset = leader.status()["log"]["offset"]
        wait_for(
            lambda: None if follower.status()["log"]["offset"] >= offset else str(follower.status()["log"]),
            "the follower has everything",
        )
        assert follower.status()["log"]["topics"] == leader.status()["log"]["topics"]
        follower.stop()
        follower.start()  # its log begins behind 0: what its snapshot holds is where it begins
        wait_for(
            lambda: None if follower.status()["log"]["offset"] >= offset else str(follower.status()["log"]),
            "the follower has everything again",
        )
        assert_same(cluster, f"{HOST}:{leader.spec.port}")  # an audit from elsewhere begins with its snapshot
        text = dump_metadata_log(laboratory, snapshots(leader)[-1])
        assert "TOPIC_RECORD" in text
        assert "Error" not in text
