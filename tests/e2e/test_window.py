"""The window without a controller: it ends by itself in time, and nobody has to be awake."""

from __future__ import annotations

from pathlib import Path

import pytest

from migrator.lab.servers.laboratory import Laboratory
from tests.e2e.quorums import start, three_controllers
from tests.e2e.support import (
    copies,
    ready_cluster,
    spoil,
    wait_for,
    wait_zookeeper_rules,
    zookeeper_rules,
)

pytestmark = pytest.mark.lab


def stalled(mark: Path) -> None:
    wait_for(lambda: None if mark.exists() else "not stalled yet", "the controller stalls")


def test_a_stalled_copy_is_rolled_back_at_the_deadline_and_not_tried_again(
    laboratory: Laboratory, tmp_path: Path
) -> None:
    mark, limit_s = tmp_path / "mark", 10
    with ready_cluster(laboratory, extra={"zk2kraft.takeover.max.ms": limit_s * 1000}) as (cluster, controller):
        spoil(controller, mark, stall_before="read")
        controller.launch()
        stalled(mark)
        wait_zookeeper_rules(cluster)
        controller.wait_state("ABORTED")
        status = controller.status()["driver"]
        assert status["finding"]["code"] == "Z2K-2015"
        assert status["window_ms"] >= limit_s * 1000, "aborted at the limit, and not for another reason before it"
        cluster.create_topics(["decided-by-zookeeper"])
        assert cluster.zk.read("/migration") is None
        assert copies(controller) == 0


def test_an_operator_aborts_a_takeover(laboratory: Laboratory, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    with ready_cluster(laboratory, extra={"zk2kraft.takeover.max.ms": 60000}) as (cluster, controller):
        spoil(controller, mark, stall_before="audit")
        controller.launch()
        stalled(mark)
        controller.ask("abort", "the operator has second thoughts")
        wait_zookeeper_rules(cluster)
        controller.wait_state("ABORTED")
        finding = controller.status()["driver"]["finding"]
        assert finding["code"] == "Z2K-2020"
        assert "second thoughts" in finding["says"]


def test_a_leader_that_loses_its_majority_in_the_window_lets_the_claim_go_in_time(
    laboratory: Laboratory, tmp_path: Path
) -> None:
    """Nobody can be elected, so nobody can give the claim back; the old leader's session still holds it."""
    mark, limit_s = tmp_path / "mark", 40  # the others are killed within it, beside other tests
    with three_controllers(laboratory, {"zk2kraft.takeover.max.ms": limit_s * 1000}) as (cluster, ours):
        for each in ours:
            spoil(each, mark, stall_before="read")
        start(ours)
        stalled(mark)
        leader = next(each for each in ours if each.status()["driver"]["state"] == "COPYING")
        others = [each for each in ours if each is not leader]
        for each in others:
            each.kill()
        wait_zookeeper_rules(cluster)
        assert leader.is_running

        def reason() -> str:
            return str(leader.status()["driver"]["reason"])

        wait_for(lambda: None if "let go" in reason() else reason(), "it says that it let go")
        cluster.create_topics(["decided-by-zookeeper"])

        for each in others:
            each.start()
        wait_for(
            lambda: None if any(each.state() == "ABORTED" for each in ours) else "no driver is ABORTED",
            "the next leader does not try again by itself",
        )
        assert zookeeper_rules(cluster) is None
        cluster.create_topics(["decided-by-zookeeper-again"])
