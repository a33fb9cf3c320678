"""Traffic and the outside reader on real brokers while our controller takes over and rolls back: nothing is lost.

Elsewhere: what the reader finds when something is planted (test_lab_reader.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from datetime import datetime
from itertools import groupby

import pytest

from migrator.lab.cluster import LabCluster
from migrator.lab.ours import OurController, ready_to_migrate
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.traffic.control import Traffic
from migrator.lab.traffic.figures import figures_between
from migrator.lab.traffic.ledger import read_ledger
from migrator.lab.traffic.proof import ReaderReport, prove
from migrator.lab.traffic.status import TrafficStatus
from migrator.lab.watcher import ClaimHolder, Reign, read_observations, reigns, start_watcher, unseen_s
from tests.e2e.support import HANGS_AFTER_S

pytestmark = [pytest.mark.lab, pytest.mark.alone]

TOPICS = ["orders", "payments", "grown"]
RECORDS = 5_000
WARM_UP_S = 5.0
"""A broker's first seconds are those of its compiler; figures about a takeover should not be about that."""


NOBODY_SEEN = (ClaimHolder.ABSENT, ClaimHolder.UNKNOWN)
"""A ZooKeeper that stands still for a second is not reached, whoever is controller."""


def longest_without_s(seen: Iterable[Reign]) -> float:
    """The longest time in which no controller was seen, with what ZooKeeper could not be asked."""
    runs = groupby(seen, key=lambda reign: reign.kind in NOBODY_SEEN)
    return max((sum(reign.seconds for reign in run) for nobody, run in runs if nobody), default=0.0)


def assert_nothing_lost(status: TrafficStatus) -> None:
    assert (status.state, status.outstanding, status.silent_partitions) == ("stopped", 0, 0)
    assert (status.lost, status.refused, status.to_deleted, status.transactions.unknown) == (0, 0, 0, 0)
    assert status.transactions.committed > 0
    assert status.transactions.aborted_on_purpose > 0
    for group in status.groups.values():
        assert (group.lag, group.order_violations, group.duplicates) == (0, 0, 0)


def assert_all_good(report: ReaderReport) -> None:
    assert report.bad == {}
    assert report.exit_code == 0
    assert report.ended_in_order
    assert (report.unpromised, report.foreign) == (0, 0)
    empty = {check.name for check in report.checks if not check.compared}
    assert empty <= {"transactions of unknown end are whole or absent"}


def test_nothing_is_lost_when_our_controller_takes_over_and_rolls_back(
    laboratory: Laboratory, record_property: Callable[[str, object], None]
) -> None:
    cluster = LabCluster(laboratory, chroot="/kafka")
    cluster.start()
    cluster.create_topics(TOPICS)
    controller = ready_to_migrate(cluster, TOPICS)
    watcher, observations = start_watcher(laboratory, cluster.zookeeper_connect)
    traffic = Traffic(laboratory, cluster.bootstrap_servers)
    traffic.start(TOPICS)
    traffic.wait_flowing()
    time.sleep(WARM_UP_S)

    controller.start()
    controller.wait_dual_write()
    time.sleep(2)
    controller.ask("rollback")
    controller.wait_state("RETIRED")
    cluster.wait_whole()
    traffic.wait_acknowledged(RECORDS, deadline_s=HANGS_AFTER_S)
    status = traffic.stop()
    watcher.stop()

    assert_nothing_lost(status)
    assert_all_good(prove(cluster, traffic.ledger))
    assert watcher.exit_code == 0
    seen = reigns(read_observations(observations))
    kinds = [reign.kind for reign in seen if reign.kind not in NOBODY_SEEN]
    assert [kind for index, kind in enumerate(kinds) if kinds[:index][-1:] != [kind]] == [
        ClaimHolder.ZOOKEEPER,
        ClaimHolder.KRAFT,
        ClaimHolder.ZOOKEEPER,
    ]
    without_s = longest_without_s(seen)
    assert without_s < 15.0, f"longer than a takeover may take; ZooKeeper was not reached for {unseen_s(seen)} s"
    report_figures(controller, traffic, without_s, record_property)


def report_figures(
    controller: OurController, traffic: Traffic, absence_s: float, record_property: Callable[[str, object], None]
) -> None:
    """What clients felt from TAKING_OVER to DUAL_WRITE, printed and kept; a bound on a busy machine proves little."""
    moments = {
        event["to"]: datetime.fromisoformat(event["timestamp"]).timestamp()
        for event in controller.events()
        if event.get("event") == "driver.state"
    }
    start_us, end_us = (int(moments[state] * 1e6) for state in ("TAKING_OVER", "DUAL_WRITE"))
    figures = figures_between(read_ledger(traffic.ledger), start_us, end_us)
    told = {
        "window_ms": round((end_us - start_us) / 1000, 1),
        "acknowledgement_p100_ms": figures.acknowledgement.max_ms,
        "acknowledgement_p100_of_records_sent_inside_ms": figures.sent_inside.max_ms,
        "longest_stall_ms": figures.longest_stall_ms,
        "longest_absence_ms": round(absence_s * 1000, 1),
    }
    for name, value in told.items():
        record_property(name, value)
    print("from TAKING_OVER to DUAL_WRITE:", told)
    assert figures.failed == 0
    assert figures.acknowledgement.count > 0
    assert figures.longest_stall_ms < 5_000
