"""A removed SCRAM credential takes no other with it: not under our controllers, and under Kafka's it is told (K-28)."""

from __future__ import annotations

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
from migrator.lab.servers.laboratory import Laboratory
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


def with_users(laboratory: Laboratory, whose: Whose) -> KraftCluster:
    """Some were set, and some of them removed; no snapshot was written yet."""
    cluster = KraftCluster(laboratory, whose, controllers=1, brokers=1)
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


def test_k28_of_kafka_s_own_log_it_is_told_whom_a_restart_loses(laboratory: Laboratory) -> None:
    cluster = with_users(laboratory, Whose.STOCK)
    (controller,) = cluster.controllers
    (directory,) = controller.directory.rglob("__cluster_metadata-0")
    (problem,) = check_logs([directory]).directories[0].problems
    assert problem.startswith("Z2K-5011 ")
    assert f"4 SCRAM-SHA-256 credentials: {', '.join(LEFT)}" in problem
    restart_broker(cluster)
    assert known(cluster) == []  # the day that this fails, Kafka has mended it
