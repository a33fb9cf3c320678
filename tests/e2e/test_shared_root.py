"""Kafka without a chroot beside other applications, on real servers: neither bothers the other."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

from migrator.lab.cluster import LabCluster
from migrator.lab.ours import OurController, start_ready_to_migrate
from migrator.lab.servers.laboratory import Laboratory
from migrator.zk import paths
from migrator.zk.backup import verify
from tests.e2e.quorums import start, wait_ruling
from tests.e2e.support import LONG_WINDOW
from tests.support.neighbours import neighbours

pytestmark = pytest.mark.lab


def exports_of(controller: OurController) -> list[Path]:
    return sorted((controller.data / "zk2kraft-exports").glob("*"))


def paths_in(export: Path) -> list[str]:
    with gzip.open(export, "rb") as lines:
        return [path for line in lines if (path := json.loads(line).get("path")) is not None]


def test_a_root_shared_with_applications_that_protect_and_change_their_znodes_is_taken_over(
    laboratory: Laboratory, tmp_path: Path
) -> None:
    cluster = LabCluster(laboratory, brokers=2)
    ours = start_ready_to_migrate(cluster, 3, LONG_WINDOW)
    cluster.create_topics(["topic-0", "topic-1"], partitions=4)
    with neighbours(cluster.zookeeper_connect) as others:
        command = [sys.executable, "-m", "api", "check", "-z", cluster.zookeeper_connect, "--json"]
        checked = subprocess.run(command, capture_output=True, text=True, timeout=240)
        assert [each["code"] for each in json.loads(checked.stdout)["findings"]] == ["Z2K-1056"], checked.stderr
        command = [sys.executable, "-m", "api", "export", "-z", cluster.zookeeper_connect, "--out", "tree.gz"]
        exported = subprocess.run(command, capture_output=True, text=True, timeout=240, cwd=tmp_path)
        assert "first /busy" in exported.stdout, exported.stderr

        start(ours)
        leader = wait_ruling(ours)
        files = [file for each in ours for file in exports_of(each)]
        assert [file for file in files if file.suffix == ".part"] == []
        (taken,) = exports_of(leader)
        assert verify(taken).znodes == len(paths_in(taken))
        roots = {"/" + path.split("/")[1] for path in paths_in(taken)} - {"/"}
        assert {"/brokers", "/config", "/cluster"} <= roots <= set(paths.ROOTS)
        assert others.changes > 0
    cluster.create_topics(["decided-by-ours"])
