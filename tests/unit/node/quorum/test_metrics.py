"""What is measured is what happened, and the page says all of it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from migrator.node.quorum.metrics import BUCKETS_S, Histogram, Metrics
from migrator.raft.effects import Standing

PAGE = Path(__file__).resolve().parents[4] / "docs" / "metrics.md"
STATUS: dict[str, Any] = {
    "quorum": {
        "leader": 3001,
        "epoch": 7,
        "role": "follower",
        "high_watermark": 120,
        "log_start": 40,
        "log_end": 123,
        "snapshot": 100,
        "fetches_waiting": 2,
        "flush_waiting_ms": 3_500,
    },
    "findings": [{"code": "Z2K-3122"}],
    "loop_delay_ms": 12.5,
    "loop_work_ms": 7.5,
    "connections": {"open": 7, "most": 60, "without_place": 3},
}
DRIVER: dict[str, Any] = {
    "driver": {
        "state": "DUAL_WRITE",
        "since_ms": 1500,
        "without_controller_ms": None,
        "finding": None,
        "trouble": {"code": "Z2K-2004"},
        "alarms": [{"code": "Z2K-2101"}],
    },
    "dual_write": {
        "lag_records": 3,
        "behind_ms": 41_500,
        "blocking_ms": 11_500,
        "finding": {"code": "Z2K-2041"},
        "lagging_partitions": 7,
        "lagging_operations": 2_100,
        "orders_count": 2,
        "unmirrored_count": 1,
    },
    "brokers": [{"mode": "ZooKeeper", "problem": "error 31"}, {"mode": "KRaft", "problem": None}],
}


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def samples(text: str) -> dict[tuple[str, str], float]:
    """Value by name and the only label that a metric of ours has."""
    return {
        (sample.name, next(iter(sample.labels.values()), "")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_the_page_lists_every_metric_with_its_type_and_meaning() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| (.+) \|$", PAGE.read_text(), re.MULTILINE)
    metrics = Metrics()
    families = text_string_to_metric_families(metrics.text(STATUS | DRIVER))
    assert rows == [(each.name, each.type, each.documentation) for each in families]


def test_the_way_of_a_change_is_measured_piece_by_piece() -> None:
    clock = Clock()
    metrics = Metrics(clock)
    metrics.decided(10, at=99.999)
    metrics.decided(12, at=100.0)
    metrics.written(11)
    clock.now = 100.004
    metrics.written(13)
    metrics.committed(11)
    clock.now = 100.2
    metrics.committed(12)  # not all of the second batch
    metrics.committed(13)
    assert round(metrics.append.sum, 6) == 0.005
    assert round(metrics.replicate.sum, 6) == round(0.004 + 0.196, 6)
    assert sum(metrics.append.counts) == sum(metrics.replicate.counts) == 2


def test_what_a_former_leader_wrote_is_not_measured_when_another_commits_it() -> None:
    metrics = Metrics()
    metrics.decided(10, at=0.0)
    metrics.written(11)
    metrics.forgotten()
    metrics.committed(11)
    assert sum(metrics.replicate.counts) == 0


def test_an_election_counts_from_the_first_try_of_the_one_who_wins_it() -> None:
    clock = Clock()
    metrics = Metrics(clock)
    for at, standing, leader in (
        (100, Standing.UNATTACHED, -1),
        (101, Standing.FOLLOWER, 2),
        (110, Standing.CANDIDATE, -1),
        (112, Standing.CANDIDATE, -1),
        (113, Standing.LEADER, 1),
    ):
        clock.now = at
        metrics.stands(standing, leader)
    assert metrics.election.sum == metrics.without_leader.sum == 3
    assert sum(metrics.election.counts) == sum(metrics.without_leader.counts) == 1


def test_a_follower_that_votes_for_another_counts_only_the_time_without_a_leader() -> None:
    clock = Clock()
    metrics = Metrics(clock)
    for at, standing, leader in (
        (100, Standing.FOLLOWER, 2),
        (105, Standing.CANDIDATE, -1),
        (106, Standing.VOTED, -1),
        (107, Standing.FOLLOWER, 3),
        (120, Standing.UNATTACHED, -1),
    ):
        clock.now = at
        metrics.stands(standing, leader)
    assert (metrics.without_leader.sum, metrics.election.sum) == (2, 0)


def test_a_duration_falls_into_the_bucket_that_it_does_not_exceed() -> None:
    histogram = Histogram("any", "any")
    for seconds in (0.0, 0.0001, 0.00011, 10.0, 10.1):
        histogram.observe(seconds)
    assert histogram.counts[0] == 2
    assert histogram.counts[1] == 1
    assert histogram.counts[len(BUCKETS_S) - 1 :] == [1, 1]
    buckets = [sample.value for sample in histogram.family().samples if sample.name == "any_bucket"]
    assert buckets[-1] == 5
    assert buckets == sorted(buckets)


def test_a_scrape_shows_where_the_node_stands() -> None:
    metrics = Metrics()
    metrics.fetch_served(0)
    metrics.fetch_served(1_000)
    found = samples(metrics.text(STATUS | DRIVER))
    assert found["zk2kraft_role", "follower"] == 1
    assert sum(value for (name, _), value in found.items() if name == "zk2kraft_role") == 1
    assert found["zk2kraft_fetches_served_total", ""] == 2
    assert found["zk2kraft_fetch_sent_bytes_total", ""] == 1_000
    assert found["zk2kraft_loop_delay_seconds", ""] == 0.0125
    assert found["zk2kraft_loop_work_seconds", ""] == 0.0075
    assert found["zk2kraft_flush_waiting_seconds", ""] == 3.5
    assert found["zk2kraft_finding", "Z2K-3122"] == 1
    assert found["zk2kraft_connections", ""] == 7
    assert found["zk2kraft_connections_max", ""] == 60
    assert found["zk2kraft_connections_without_place", ""] == 3
    assert found["zk2kraft_snapshot_end_offset", ""] == 100
    assert found["zk2kraft_migrating_brokers", ""] == found["zk2kraft_dual_write", ""] == 1
    assert found["zk2kraft_driver_state", "DUAL_WRITE"] == found["zk2kraft_driver_finding", "Z2K-2004"] == 1
    assert found["zk2kraft_driver_state_seconds", ""] == 1.5
    assert found["zk2kraft_driver_finding", "Z2K-2041"] == found["zk2kraft_driver_finding", "Z2K-2101"] == 1
    assert (found["zk2kraft_zk_orders", ""], found["zk2kraft_zk_unmirrored", ""]) == (2, 1)
    lagging = "zk2kraft_zk_lagging_partitions", "zk2kraft_zk_lagging_operations"
    assert [found[each, ""] for each in lagging] == [7, 2_100]
    assert found["zk2kraft_zk_behind_seconds", ""] == 41.5
    assert found["kafka_controller_kafkacontroller_zkwritebehindlag", ""] == 3
    assert found["kafka_controller_kafkacontroller_zookeeperblockingkraftmillis", ""] == 11_500
    assert found["zk2kraft_brokers_refusing", ""] == 1


def test_a_controller_without_the_migration_shows_nothing_of_a_driver() -> None:
    assert "dual_write" not in Metrics().text(STATUS)
