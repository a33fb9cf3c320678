"""kill -9 at every place where it could hurt, against real brokers: the next life finishes or backs out."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from migrator.lab.cluster import LabCluster
from migrator.lab.servers.laboratory import Laboratory
from tests.e2e.support import (
    HANGS_AFTER_S,
    assert_same,
    claims,
    controller_of,
    copies,
    once,
    produce,
    ready_cluster,
    spoil,
    unspoil,
    wait_for,
    wait_zookeeper_rules,
)

pytestmark = pytest.mark.lab


def stalled(mark: Path) -> None:
    wait_for(lambda: None if mark.exists() else "not stalled yet", "the controller stalls")


@pytest.mark.parametrize(
    "effect",
    [
        "persist",
        pytest.param("reconcile", marks=pytest.mark.long),
        pytest.param("update", marks=pytest.mark.long),
        "enter dual-write",
    ],
)
def test_a_controller_killed_after_the_commit_goes_on_without_a_second_copy(
    laboratory: Laboratory, tmp_path: Path, effect: str
) -> None:
    mark = tmp_path / "mark"
    with ready_cluster(laboratory, extra={"zookeeper.session.timeout.ms": 60_000}) as (cluster, controller):
        spoil(controller, mark, stall_before=effect)
        controller.launch()
        stalled(mark)
        controller.kill()
        dying = cluster.brokers[1]
        dying.kill()

        unspoil(controller)
        controller.start()
        controller.wait_dual_write()
        assert copies(controller) == 1
        assert len(claims(controller)) == 2
        dying.start()
        dying.wait_ready()
        topics = [f"topic-{number}" for number in range(3)]
        cluster.wait_isr_whole(topics)
        cluster.create_topics(["later"])
        produce(cluster, "later", 100)
        assert_same(cluster, controller.data)


def test_a_controller_killed_in_dual_write_while_a_broker_dies_heals_the_partitions(
    laboratory: Laboratory,
) -> None:
    with ready_cluster(laboratory) as (cluster, controller):
        controller.start()
        controller.wait_dual_write()
        controller.kill()
        dying = cluster.brokers[0]
        dying.kill()
        controller.start()
        controller.wait_dual_write()

        def led() -> str | None:
            states = [cluster.partition_state(f"topic-{t}", p) for t in range(3) for p in range(4)]
            bad = [state for state in states if state is None or state["leader"] in (-1, dying.broker_id)]
            return f"{len(bad)} partitions are led by nobody able" if bad else None

        wait_for(led, "every partition has a living leader")
        dying.start()
        dying.wait_ready()
        cluster.wait_isr_whole([f"topic-{number}" for number in range(3)])
        assert copies(controller) == 1
        assert_same(cluster, controller.data)


def test_a_rollback_that_was_killed_before_its_last_step_is_finished_by_the_next_start(
    laboratory: Laboratory, tmp_path: Path
) -> None:
    """The log is marked as retired, and the claim still stands: nobody would be controller until somebody looked."""
    mark = tmp_path / "mark"
    with ready_cluster(laboratory) as (cluster, controller):
        spoil(controller, mark, stall_before="roll back")
        controller.start()
        controller.wait_dual_write()
        controller.ask("rollback")
        stalled(mark)
        controller.kill()
        assert (controller_of(cluster) or {})["brokerid"] == controller.spec.node_id

        unspoil(controller)
        controller.launch()
        wait_zookeeper_rules(cluster)
        assert controller.process.wait_for_exit(HANGS_AFTER_S)
        assert controller.process.exit_code not in (0, None)
        cluster.create_topics(["after-the-rollback"])


def not_led_by(cluster: LabCluster, broker: int) -> bool:
    states = [cluster.partition_state(f"topic-{topic}", each) for topic in range(3) for each in range(4)]
    return all(state is not None and state["leader"] != broker for state in states)


def test_a_broker_with_the_log_of_a_topic_that_was_deleted_without_it_holds_up_nobody_after_a_restart(
    laboratory: Laboratory,
) -> None:
    """The log knows the deletion, so the next full send may leave the topic out."""
    with ready_cluster(laboratory) as (cluster, controller):
        controller.start()
        controller.wait_dual_write()
        away = cluster.brokers[2]
        away.kill()
        wait_for(lambda: None if not_led_by(cluster, away.broker_id) else "it leads", "the dead broker is fenced")
        # A client that still takes the dead broker for the controller waits for it; a new one hears of the living.
        once(
            lambda: AdminClient({"bootstrap.servers": cluster.brokers[0].address}),
            lambda admin: admin.delete_topics(["topic-1"])["topic-1"].result(120),
            "topic-1 is deleted",
        )
        controller.kill()
        away.start()
        controller.start()
        controller.wait_dual_write()
        away.wait_ready()
        cluster.wait_isr_whole(["topic-0", "topic-2"])
        assert_same(cluster, controller.data)
