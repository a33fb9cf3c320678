"""A controller dies in the window: the cluster is ZooKeeper's again in time. What else ends it: test_window.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from migrator.lab.servers.laboratory import Laboratory
from tests.e2e.support import (
    assert_same,
    controller_of,
    copies,
    ready_cluster,
    spoil,
    unspoil,
    wait_zookeeper_rules,
)
from tests.e2e.test_window import stalled

pytestmark = [pytest.mark.lab, pytest.mark.alone]


def test_a_controller_killed_while_copying_leaves_the_cluster_to_zookeeper_and_does_not_try_again(
    laboratory: Laboratory, tmp_path: Path
) -> None:
    mark = tmp_path / "mark"
    with ready_cluster(laboratory, extra={"zookeeper.session.timeout.ms": 6000}) as (cluster, controller):
        spoil(controller, mark, stall_before="encode")
        controller.launch()
        stalled(mark)
        assert (controller_of(cluster) or {})["brokerid"] == controller.spec.node_id
        controller.kill()
        took = wait_zookeeper_rules(cluster)
        assert took < 15, took
        cluster.create_topics(["after-the-crash"])

        unspoil(controller)
        controller.start()
        controller.wait_state("ABORTED")
        assert (controller_of(cluster) or {})["kraftControllerEpoch"] == -1
        assert controller.status()["driver"]["finding"]["code"] == "Z2K-2017"

        controller.ask("takeover")
        controller.wait_dual_write()
        assert copies(controller) == 1
        assert_same(cluster, controller.data)
