"""Stories of tiered storage over the whole road, there and back: every copied segment is where it was (R-405-07).

In:   a laboratory; each story makes its own cluster, whose traffic goes into tiered topics all the time.
Elsewhere: the list of stories (end_of_road.py), the stage and its comparisons (tests/e2e/tiered_road.py), the way back
from dual-write (tests/e2e/test_tiered_road.py).
A broker is killed inside the copy of a large segment, and a tiered topic is deleted and made again: the first leaves
garbage and the second a deletion, and nothing else may differ.
"""

from __future__ import annotations

import time
from typing import Any, Final

from confluent_kafka import Producer

from migrator.lab.servers.broker import BrokerMode, BrokerProcess
from migrator.lab.servers.laboratory import Laboratory
from tests.adversarial.stories_back import back_under_stock, soak
from tests.adversarial.stories_support import wait_whole
from tests.e2e.road_kills import BROKER_AWAY_S, SESSION_S
from tests.e2e.road_stage import assert_completed
from tests.e2e.support import wait_for
from tests.e2e.tiered_road import AGAIN, FINISHED, SETTLES_S, TieredStage, produce
from tests.e2e.tiered_stage import RECORDS, TIERED_TOPIC, records_from_0

BIG: Final = "big"
BIG_BYTES: Final = 30_000_000
BIG_RECORD: Final = bytes(100_000)
TRIES: Final = 6
"""A copy of 30 MB takes some tens of milliseconds where the disk is idle: one that ended in time is tried again."""
STARTED: Final = "COPY_SEGMENT_STARTED"
DELETED: Final = "DELETE_SEGMENT_FINISHED"


def kill_inside_a_copy(stage: TieredStage, topic: str) -> None:
    """The leader dies while it copies a segment of 30 MB: one copy that never ends, and a whole one by the next leader.

    As its host would, somebody starts it again.
    """
    config = {**TIERED_TOPIC, "segment.bytes": str(BIG_BYTES)}
    stage.cluster.create_topics([topic], partitions=1, config=config)
    for turn in range(1, TRIES + 1):
        leader = leader_of_topic(stage, topic)
        seen = {each.name for each in stage.store.rglob(f"{topic}-0-*/*.log")}
        produce(stage, topic, BIG_RECORD, BIG_BYTES // len(BIG_RECORD) - 5)
        producer = Producer({"bootstrap.servers": stage.cluster.bootstrap_servers, "acks": "all"})
        for _ in range(10):  # the segment is full now, and another one begins
            producer.produce(topic, BIG_RECORD, partition=0)
        ends = time.monotonic() + 60
        while time.monotonic() < ends:
            producer.poll(0)
            names = {each.name for each in stage.store.glob(f"*/{topic}-0-*/*.log")}
            if names - seen:
                break
        leader.kill()
        producer.flush(120)
        away_s = BROKER_AWAY_S if leader.spec.mode is BrokerMode.KRAFT else SESSION_S
        time.sleep(away_s)
        stage.fleet.start_again(leader.broker_id)
        leader.wait_ready()
        wait_whole(stage.cluster)
        garbage = garbage_of(stage, topic)
        print(f"{topic}: {leader.name} was killed, try {turn}: garbage {garbage}", flush=True)
        if garbage:
            return
    raise AssertionError(f"no copy of {topic} was cut in {TRIES} tries")


def leader_of_topic(stage: TieredStage, topic: str) -> BrokerProcess:
    """Of its only partition; a broker may hear of a new topic after its creation was answered."""
    found: list[int] = []

    def why_not() -> str | None:
        seen = stage.cluster.admin().list_topics(topic, timeout=60).topics[topic].partitions.get(0)
        found[:] = [] if seen is None or seen.leader < 0 else [seen.leader]
        return None if found else f"{topic} has no leader"

    wait_for(why_not, f"{topic} has a leader")
    return next(each for each in stage.cluster.brokers if each.broker_id == found[0])


def garbage_of(stage: TieredStage, topic: str) -> list[str]:
    """Segments whose copy was begun and is not finished, once the next leader has copied them anew."""

    def of_topic() -> Any:
        _, document = stage.tiered()
        return next((each for each in document["partitions"] if each["topic"] == topic), None)

    def why_not() -> str | None:
        found = of_topic()
        left = found is None or any(
            each["state"] == STARTED
            and not any(other["start"] == each["start"] and other["state"] == FINISHED for other in found["segments"])
            for each in found["segments"]
        )
        return "a copy is not finished" if left else None

    wait_for(why_not, f"{topic} is copied", SETTLES_S)
    found = of_topic()
    assert found["problems"] == []
    return [each["segment"] for each in found["waiting"]]


def delete_and_make_again(stage: TieredStage) -> None:
    cluster = stage.cluster
    cluster.admin().delete_topics([AGAIN], operation_timeout=30)[AGAIN].result(60)
    wait_for(lambda: AGAIN if AGAIN in cluster.admin().list_topics(timeout=10).topics else None, f"{AGAIN} is gone")
    cluster.create_topics([AGAIN], partitions=1, config=TIERED_TOPIC)
    produce(stage, AGAIN, bytes(1_000), 100)


def assert_only_deleted(stage: TieredStage, *words: str) -> None:
    """The topic that was made again has an id of which nothing is left, and one whose segments are copied."""

    def why_not() -> str | None:
        code, document = stage.tiered(*words)
        assert code == 0, [each for each in document["partitions"] if each["problems"]]
        parts = [each for each in document["partitions"] if each["topic"] == AGAIN]
        old = [each for each in parts if set(each["states"]) == {DELETED}]
        new = [each for each in parts if FINISHED in each["states"]]
        return (
            None if (len(old), len(new)) == (1, 1) and not document["deleting"] else f"{[p['states'] for p in parts]}"
        )

    wait_for(why_not, f"{AGAIN} is deleted and copied anew", SETTLES_S)
    print(f"{AGAIN}: its first id is deleted, its second one is copied", flush=True)


# --- the stories ------------------------------------------------------------------------------------------


def tiered(laboratory: Laboratory) -> None:
    """From ZooKeeper mode to COMPLETED: a kill inside a copy and a topic made again in dual-write; ZooKeeper is gone at
    the end.
    """
    everything = list(range(RECORDS))
    stage = TieredStage(laboratory)
    stage.to_dual_write()
    both = (*stage.zookeeper, "--kraft", str(stage.fleet.ours[0].metadata_log))
    assert records_from_0(stage.cluster) == everything
    kill_inside_a_copy(stage, BIG)
    delete_and_make_again(stage)
    assert_only_deleted(stage, *both)
    stage.assert_kept(stage.before, *both, what="DUAL_WRITE")
    hybrid = stage.keep("hybrid", *both)
    stage.to_soak()
    stage.assert_kept(hybrid, *both, what="SOAK")
    stage.to_completed()
    assert_completed(stage)
    stage.cluster.zookeeper.stop()
    kraft = ("--kraft", str(stage.fleet.ours[0].metadata_log))
    stage.assert_kept(stage.before, *kraft, what="COMPLETED, since the beginning")
    stage.assert_kept(hybrid, *kraft, what="COMPLETED, since dual-write")
    assert records_from_0(stage.cluster) == everything
    stage.assert_proven()


def tiered_back(laboratory: Laboratory) -> None:
    """To SOAK, where a broker in KRaft mode dies inside a copy, and back to ZooKeeper mode."""
    everything = list(range(RECORDS))
    stage = TieredStage(laboratory)
    stage.to_dual_write()
    found, ours = soak(stage)
    stage.assert_kept(stage.before, *stage.zookeeper, what="SOAK")
    kill_inside_a_copy(stage, BIG)
    in_soak = stage.keep("soak", *stage.zookeeper)
    back_under_stock(stage, found, ours, sorted(ours), kills_at=2, end=False)
    stage.assert_kept(stage.before, *stage.zookeeper, what="ROLLED_BACK, since the beginning")
    stage.assert_kept(in_soak, *stage.zookeeper, what="ROLLED_BACK, since the soak")
    assert records_from_0(stage.cluster) == everything
    stage.assert_proven()
