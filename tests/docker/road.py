"""The road of a composition in steps, for tests that go different ways from one of them.

In:   a composition. Out: traffic that flows; a migration in READY, in DUAL_WRITE, in SOAK; the proof of the traffic.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Final

from confluent_kafka.admin import (  # type: ignore[attr-defined]  # public, but not re-exported for mypy
    AdminClient,
    NewTopic,
)

from migrator.lab.traffic.control import Traffic
from migrator.lab.traffic.proof import prove
from tests.docker.composition import BOOTSTRAP, BROKERS, CONTROLLERS, Composition

TOPICS: Final = ("orders", "payments")
RATE: Final = 150.0
ACKNOWLEDGED_LEAST: Final = 5_000
"""Fewer would prove little of a road that takes minutes."""


def start_traffic(composition: Composition) -> Traffic:
    """Clients on the host, by the published ports."""
    admin = AdminClient({"bootstrap.servers": BOOTSTRAP})

    def missing() -> str | None:
        registered = admin.list_topics(timeout=10).brokers
        return None if set(registered) == set(BROKERS) else f"brokers {sorted(registered)}"

    composition.wait(missing, "three brokers")
    topics = [NewTopic(name, 3, 3, config={"min.insync.replicas": "2"}) for name in TOPICS]
    for made in admin.create_topics(topics).values():
        made.result(60)
    traffic = Traffic(composition.laboratory, BOOTSTRAP, rate=RATE)
    traffic.start(TOPICS)
    traffic.wait_flowing()
    return traffic


def to_dual_write(composition: Composition) -> int:
    """The service restarts the brokers with their migration files, and adopts our controllers."""
    migration = composition.create()
    composition.advance(migration, "PREFLIGHT")
    composition.advance(migration, "QUORUM")
    composition.start_controllers()
    composition.wait_healthy(*(f"zk2kraft-controller-{node}" for node in CONTROLLERS))
    composition.wait_phase(migration, "BROKERS_JOINING")
    composition.advance(migration, "BROKERS_JOINING")
    composition.wait_phase(migration, "READY")
    composition.advance(migration, "TAKEOVER")
    composition.wait_phase(migration, "DUAL_WRITE")
    return migration


def to_soak(composition: Composition, migration: int) -> None:
    """Brokers in KRaft mode, stock controllers in the place of ours."""
    composition.advance(migration, "ROLLING_BROKERS")
    composition.advance(migration, "REPLACING_CONTROLLERS")
    composition.wait_phase(migration, "SOAK")
    assert not {f"zk2kraft-controller-{node}" for node in CONTROLLERS} & composition.running()
    assert {f"zk2kraft-kafka-controller-{node}" for node in CONTROLLERS} <= composition.running()


def assert_nothing_lost(composition: Composition, traffic: Traffic) -> None:
    """By the outside reader, from the brokers alone; `traffic` has been stopped."""
    assert traffic.status.lost == 0
    assert traffic.status.acknowledged > ACKNOWLEDGED_LEAST
    cluster = SimpleNamespace(laboratory=composition.laboratory, bootstrap_servers=BOOTSTRAP)
    data = [composition.directory / "data" / f"kafka-{node}" for node in BROKERS]
    report = prove(cluster, traffic.ledger, data_dirs=data, without_zookeeper=True)  # type: ignore[arg-type]
    assert report.bad == {}, report.bad
