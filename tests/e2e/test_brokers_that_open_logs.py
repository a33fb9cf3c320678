"""Brokers are busy with thousands of new logs while the active controller dies: nobody waits for them.

Elsewhere: a broker that hangs (test_silent_brokers.py).
"""

from __future__ import annotations

import asyncio
import time

import pytest

from migrator.lab.ours import OurController
from migrator.lab.servers.laboratory import Laboratory
from tests.e2e.quorums import start, three_controllers, wait_ruling
from tests.e2e.support import wait_for
from tests.e2e.test_silent_brokers import brokers_of, create_topics

pytestmark = [pytest.mark.lab, pytest.mark.alone]

NEW_TOPICS, NEW_PARTITIONS = 30, 100
"""3,000 partitions on every broker: seconds of opening logs."""


def not_updated(controllers: list[OurController]) -> list[int]:
    """Every one of them while nobody leads."""
    seen = brokers_of(controllers)
    return [broker for broker in (0, 1, 2) if not seen.get(broker, {}).get("updated")]


def test_a_fail_over_does_not_wait_for_brokers_that_open_their_logs(laboratory: Laboratory) -> None:
    """DUAL_WRITE and an administrator's change do not wait until the brokers have worked through 3,000 partitions."""
    with three_controllers(laboratory) as (cluster, ours):
        start(ours)
        leader = wait_ruling(ours)
        rest = [each for each in ours if each is not leader]
        topics = [f"many-{each}" for each in range(NEW_TOPICS)]
        asyncio.run(create_topics(cluster.brokers[0].address, topics, NEW_PARTITIONS))
        leader.kill()
        began = time.monotonic()

        wait_ruling(rest)
        ruling_s = time.monotonic() - began
        asyncio.run(create_topics(cluster.brokers[0].address, ["made-meanwhile"]))
        mirrored = "/brokers/topics/made-meanwhile"
        wait_for(lambda: None if cluster.zk.exists(mirrored) else "not in ZooKeeper", "the change is mirrored")
        mirrored_s = time.monotonic() - began
        assert not_updated(rest), "the brokers were done before it: nothing was shown"

        wait_for(lambda: str(not_updated(rest)) if not_updated(rest) else None, "every broker is updated")
        updated_s = time.monotonic() - began
        cluster.wait_isr_whole([*topics, "made-meanwhile"])
        print(
            f"dual-write after {ruling_s:.1f} s, an admin change in ZooKeeper after {mirrored_s:.1f} s, "
            f"every broker updated after {updated_s:.1f} s"
        )
