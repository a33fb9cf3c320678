"""Brokers of each release from 3.6 on, at the protocol versions where something changes, and releases of ZooKeeper: one
story for all of them; older brokers, which are refused. docs/support.md has the outcomes.

The level of metadata.version decides which records there are and how they look: metadata transactions (3.6-IV1), no
registration of controllers (below 3.7-IV0), directories (3.7-IV2). Brokers of a release read the log with their own
code, so the jars are theirs, not only the setting.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from migrator.findings.finding import Finding, FindingError
from migrator.findings.preflight import RELEASE_KEEPS_LEADERS, RELEASE_TOO_OLD
from migrator.findings.quorum import CANNOT_ACTIVATE
from migrator.lab.classes import prepared
from migrator.lab.cluster import LabCluster
from migrator.lab.ours import OurController
from migrator.lab.servers.artifacts import Artifacts, zookeeper_artifacts
from migrator.lab.servers.controller import quorum_specs
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.tools import dump_metadata_log
from migrator.model.levels import CONTROLLER_REGISTRATION, DIRECTORIES
from migrator.node.config.formatting import level_of
from tests.e2e.support import claims, wait_for
from tests.e2e.whole_way import there_and_back, topic_made, waiting, waiting_brokers

pytestmark = [pytest.mark.lab, pytest.mark.long]

VERSIONS = [
    ("3.6.2", "3.6-IV1"),
    ("3.7.0", "3.7-IV4"),
    ("3.7.1", "3.7-IV4"),
    ("3.7.2", "3.7-IV1"),
    ("3.7.2", "3.7-IV2"),
    ("3.7.2", "3.7-IV3"),
    ("3.7.2", "3.7-IV4"),
    ("3.8.0", "3.8"),
    ("3.8.1", "3.8"),
    ("3.9.0", "3.9"),
    ("3.9.1", "3.9"),
    ("3.9.2", "3.6-IV2"),
    ("3.9.2", "3.7-IV4"),
    ("3.9.2", "3.8"),
    ("3.9.2", "3.9"),
]
"""Kafka, and its brokers' inter.broker.protocol.version: "3.6" is 3.6-IV2, "3.7" is 3.7-IV4."""
LOWEST: Final = "3.6-IV1"
BELOW_IT: Final = "3.6-IV0"
ZOOKEEPERS: Final = ["3.5.10", "3.6.4", "3.7.2", "3.9.3"]
"""Beside 3.8.4, which comes with each Kafka here and serves every other test."""
TOO_OLD: Final = [("3.4.1", "3.4"), ("3.5.2", "3.5")]


@pytest.fixture
def of_version(tmp_path: Path, kafka: str) -> Iterator[Laboratory]:
    """A laboratory in which this release runs."""
    artifacts = had(partial(prepared, kafka), f"Kafka {kafka}")
    with Laboratory(tmp_path / "lab", artifacts) as opened:
        yield opened
    assert opened.processes.running == []


def had(bring: Callable[[], Artifacts], what: str) -> Artifacts:
    """A release of something; the test is skipped where it cannot be had."""
    try:
        return bring()
    except FindingError as error:
        if os.environ.get("CI"):  # there a release that cannot be had is a release that nobody looked at
            raise
        pytest.skip(f"{what} cannot be had here: {error}")


def assert_records_fit(text: str, level: int) -> None:
    """text: the log as Kafka's own tool of that release prints it."""
    written = dict(re.findall(r'"type":"(\w+)","version":(\d+)', text))
    assert written["REGISTER_BROKER_RECORD"] == ("3" if level >= DIRECTORIES else "2")
    assert ("REGISTER_CONTROLLER_RECORD" in written) == (level >= CONTROLLER_REGISTRATION)
    made = re.findall(r'"type":"PARTITION_RECORD","version":(\d+)', text)
    assert made[0] == "0", "a copy tells no directories"
    assert made[-1] == ("1" if level >= DIRECTORIES else "0")
    assert ('"directories"' in text) == (level >= DIRECTORIES)


@pytest.mark.parametrize(("kafka", "ibp"), VERSIONS, ids=[f"{kafka}-at-{ibp}" for kafka, ibp in VERSIONS])
def test_abort_takeover_fail_over_and_rollback_at_each_version(
    of_version: Laboratory, tmp_path: Path, kafka: str, ibp: str
) -> None:
    assert of_version.artifacts.version == kafka
    level = level_of(ibp)
    cluster = LabCluster(of_version, brokers=2, ibp=ibp)
    ours = waiting(cluster, voters=1 if level >= CONTROLLER_REGISTRATION else 3, ibp=ibp)
    leader = there_and_back(cluster, ours, tmp_path / "mark", partial(topic_made, cluster))
    assert leader.status()["log"]["metadata_version"] == level
    leader.stop()
    assert_records_fit(dump_metadata_log(of_version, leader.metadata_log), level)


@pytest.mark.parametrize("zookeeper", ZOOKEEPERS)
def test_abort_takeover_fail_over_and_rollback_with_each_zookeeper(
    laboratory: Laboratory, tmp_path: Path, zookeeper: str
) -> None:
    cluster = LabCluster(laboratory, brokers=2)
    artifacts = had(partial(zookeeper_artifacts, zookeeper), f"ZooKeeper {zookeeper}")
    for each in cluster.zookeeper.servers:
        each.kafka = artifacts
    ours = waiting(cluster)
    (server,) = cluster.zookeeper.servers
    assert f"version={zookeeper}" in server.process.log_text().replace("version: ", "version=")
    there_and_back(cluster, ours, tmp_path / "mark", partial(topic_made, cluster)).stop()


@pytest.mark.parametrize(("kafka", "ibp"), TOO_OLD, ids=[kafka for kafka, _ in TOO_OLD])
def test_brokers_below_the_lowest_level_are_refused_and_served_on_by_zookeeper(
    of_version: Laboratory, kafka: str, ibp: str
) -> None:
    """They get nothing of the log, at a record of which they would end; controllers at their level do not lead."""
    assert of_version.artifacts.version == kafka
    cluster = LabCluster(of_version, brokers=2, ibp=ibp)
    (ours,) = waiting(cluster, ibp=LOWEST)
    assert_refused(cluster, ours, RELEASE_TOO_OLD, f"runs Kafka {kafka}, which cannot read")
    ours.stop()
    shutil.rmtree(ours.data)
    assert_controllers_do_not_lead(of_version, cluster, ibp)


@pytest.mark.parametrize("kafka", ["3.6.0", "3.6.1"])
def test_brokers_that_would_refuse_what_they_are_told_are_served_on_by_zookeeper(
    of_version: Laboratory, kafka: str
) -> None:
    """KAFKA-16121. Without the refusal the takeover is committed, and never comes to dual-write."""
    assert of_version.artifacts.version == kafka
    cluster = LabCluster(of_version, brokers=2, ibp=LOWEST)
    (ours,) = waiting(cluster, ibp=LOWEST)
    assert_refused(cluster, ours, RELEASE_KEEPS_LEADERS, f"runs Kafka {kafka}, which refuses")
    ours.stop()


def assert_refused(cluster: LabCluster, ours: OurController, finding: Finding, said: str) -> None:
    """ours: as a controller of the brokers' migration, not started yet; it runs afterwards."""
    ours.start()

    def why_not() -> str | None:
        driver = ours.status()["driver"]
        trouble = driver["trouble"]
        return None if trouble is not None and trouble["code"] == finding.code else str(driver["reason"])

    wait_for(why_not, "the refusal is named")
    assert said in ours.status()["driver"]["reason"]
    assert claims(ours) == []
    assert all(each.is_running for each in cluster.brokers), "a broker read a record that it does not know"
    topic_made(cluster, "made-meanwhile")


@pytest.mark.parametrize("kafka", ["3.6.2", "3.9.2"])
def test_controllers_of_a_level_without_metadata_transactions_do_not_lead(of_version: Laboratory, kafka: str) -> None:
    assert of_version.artifacts.version == kafka
    cluster = LabCluster(of_version, brokers=2, ibp=BELOW_IT)
    waiting_brokers(cluster, ibp=BELOW_IT)
    topic_made(cluster, "made-before")
    assert_controllers_do_not_lead(of_version, cluster, BELOW_IT)


def assert_controllers_do_not_lead(laboratory: Laboratory, cluster: LabCluster, ibp: str) -> None:
    """ibp: the brokers' own, at which the controllers are formatted. ZooKeeper serves the cluster on."""
    (spec,) = quorum_specs(laboratory, count=1, zookeeper_connect=cluster.zookeeper_connect, release=ibp)
    at_their_level = OurController(laboratory, spec, cluster.cluster_id)
    at_their_level.prepare()
    at_their_level.launch()
    wait_for(lambda: None if CANNOT_ACTIVATE.code in at_their_level.process.log_text() else "silent", "it is named")
    topic_made(cluster, "made-afterwards")
