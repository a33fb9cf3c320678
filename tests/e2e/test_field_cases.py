"""Cases from the field that show only while a real cluster runs (docs/cases.md)."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from migrator.lab.laboratory import Laboratory
from migrator.zk.multi import Delete, Multi
from migrator.zk.session import ZkSession
from tests.e2e.support import controller_of, ready_cluster

pytestmark = pytest.mark.lab


def test_a_migration_znode_that_somebody_deletes_stops_dual_write_loudly(laboratory: Laboratory) -> None:
    """F-43: stock goes on in memory and mirrors nothing any more; here the driver stops and everybody says why."""
    with ready_cluster(laboratory, topics=1) as (cluster, controller):
        controller.start()
        controller.wait_dual_write(30)
        with ZkSession(cluster.zookeeper_connect) as session:
            assert session.apply(Multi((Delete("/migration"),))).applied
        controller.wait_state("FENCED", deadline_s=20)
        assert controller.status()["driver"]["finding"]["code"] == "Z2K-2003"
        assert (controller_of(cluster) or {})["brokerid"] == 3000

        command = [sys.executable, "-m", "api", "check", "-z", cluster.zookeeper_connect, "--json"]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert ran.returncode == 2, ran.stderr
        (found,) = (each for each in json.loads(ran.stdout)["findings"] if each["code"] == "Z2K-1037")
        assert found["says"].endswith("and /migration does not exist.")
