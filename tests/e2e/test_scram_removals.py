"""A removed SCRAM credential takes no other with it: not under our controllers, and under Kafka's it is told (K-28)."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # public, but not re-exported for mypy
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from migrator.audit.log_check import check_logs
from migrator.lab.kraft import KraftCluster, Whose
from migrator.lab.ours import OurController
from migrator.lab.servers.controller import StockController
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.properties import Value
from tests.e2e.support import wait_for

pytestmark = pytest.mark.lab

ANSWER_S = 30.0
USERS = [f"user-{number}" for number in range(1, 9)]
REMOVED, LEFT = USERS[:4], USERS[4:]
SHA_256 = ScramMechanism.SCRAM_SHA_256


def alter(cluster: KraftCluster, *changes: UserScramCredentialAlteration) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    for each in admin.alter_user_scram_credentials(list(changes)).values():
        each.result(ANSWER_S)


def known(cluster: KraftCluster) -> list[str]:
    """To the one broker."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})  # it lives as long as it is waited for
    asked = admin.describe_user_scram_credentials()
    assert isinstance(asked, Future), "it was asked for all of them"
    return sorted(asked.result(ANSWER_S))


def with_users(laboratory: Laboratory, whose: Whose, extra: Mapping[str, Value] | None = None) -> KraftCluster:
    """Some were set, and some of them removed; no snapshot was written yet. extra: of the controller."""
    cluster = KraftCluster(laboratory, whose, controllers=1, brokers=1, controller_extra=extra)
    cluster.start()
    for user in USERS:
        alter(cluster, UserScramCredentialUpsertion(user, ScramCredentialInfo(SHA_256, 4096), b"secret"))
    for user in REMOVED:
        alter(cluster, UserScramCredentialDeletion(user, SHA_256))
    wait_for(lambda: None if known(cluster) == LEFT else "not yet", "the broker knows who is left")
    return cluster


def restart_broker(cluster: KraftCluster) -> None:
    (broker,) = cluster.brokers
    broker.stop()
    broker.start()
    broker.wait_ready()


def test_k28_a_broker_that_replays_our_log_knows_every_user_that_is_left(laboratory: Laboratory) -> None:
    cluster = with_users(laboratory, Whose.OURS)
    restart_broker(cluster)
    assert known(cluster) == LEFT
    (controller,) = cluster.controllers
    assert isinstance(controller, OurController)
    assert check_logs([controller.metadata_log]).exit_code == 0


def test_k28_a_stock_controller_that_goes_on_with_our_log_keeps_them_in_its_snapshots(laboratory: Laboratory) -> None:
    """As after REPLACING_CONTROLLERS: what its loader made of our log is what it writes, and begins with later."""
    cluster = with_users(laboratory, Whose.OURS, {"metadata.log.max.snapshot.interval.ms": 2_000})
    (ours,) = cluster.controllers
    ours.stop()
    stock = StockController(laboratory, ours.spec, cluster.cluster_id)

    def why_no_snapshot() -> str | None:
        return None if any(stock.metadata_log.glob("*.checkpoint")) else "no snapshot"

    for _ in range(2):
        stock.start()
        stock.wait_ready()
        alter(cluster, UserScramCredentialUpsertion("late", ScramCredentialInfo(SHA_256, 4096), b"secret"))
        wait_for(why_no_snapshot, "it wrote a snapshot")
        stock.stop()
    stock.start()
    stock.wait_ready()
    restart_broker(cluster)
    assert known(cluster) == ["late", *LEFT]
    alter(cluster, UserScramCredentialDeletion(LEFT[0], SHA_256))
    wait_for(lambda: None if known(cluster) == ["late", *LEFT[1:]] else "not yet", "a removal by stock is known")


def test_k28_of_kafka_s_own_log_it_is_told_whom_a_restart_loses(laboratory: Laboratory) -> None:
    cluster = with_users(laboratory, Whose.STOCK)
    (controller,) = cluster.controllers
    (directory,) = controller.directory.rglob("__cluster_metadata-0")
    (problem,) = check_logs([directory]).directories[0].problems
    assert problem.startswith("Z2K-5011 ")
    assert f"4 SCRAM-SHA-256 credentials: {', '.join(LEFT)}" in problem
    restart_broker(cluster)
    assert known(cluster) == []  # the day that this fails, Kafka has mended it
