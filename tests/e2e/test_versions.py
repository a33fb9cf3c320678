"""Brokers of each release from 3.6 on, at the protocol versions where something changes: one story for all of them.

The level of metadata.version decides which records there are and how they look: metadata transactions (3.6-IV1), no
registration of controllers (below 3.7-IV0), directories (3.7-IV2). Brokers of a release read the log with their own
code, so the jars are theirs, not only the setting.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from migrator.findings.finding import FindingError
from migrator.lab.classes import prepared
from migrator.lab.cluster import LabCluster
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.tools import dump_metadata_log
from migrator.model.levels import CONTROLLER_REGISTRATION, DIRECTORIES
from migrator.node.config.formatting import level_of
from tests.e2e.whole_way import there_and_back, topic_made, waiting

pytestmark = [pytest.mark.lab, pytest.mark.long]

VERSIONS = [("3.6.2", "3.6-IV1"), ("3.7.2", "3.7-IV1"), ("3.7.2", "3.7-IV2"), ("3.8.1", "3.8"), ("3.9.2", "3.9")]


@pytest.fixture
def of_version(tmp_path: Path, kafka: str) -> Iterator[Laboratory]:
    """A laboratory in which this release runs."""
    try:
        artifacts = prepared(kafka)
    except FindingError as error:
        if os.environ.get("CI"):  # there a release that cannot be had is a release that nobody looked at
            raise
        pytest.skip(f"Kafka {kafka} cannot be had here: {error}")
    with Laboratory(tmp_path / "lab", artifacts) as opened:
        yield opened
    assert opened.processes.running == []


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
