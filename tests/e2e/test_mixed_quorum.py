"""Voters of ours and of Kafka's in one quorum, on a log in migration: each follows the other, whoever dies."""

from __future__ import annotations

import re
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from migrator.audit.log_check import check_logs
from migrator.findings.finding import FindingError
from migrator.lab.cluster import LabCluster
from migrator.lab.ours import OurController
from migrator.lab.servers.controller import StockController
from migrator.lab.servers.laboratory import Laboratory
from tests.e2e.quorums import TOPICS, Voter, committed, leading, ruling, start, three_controllers, wait_ruling
from tests.e2e.support import HANGS_AFTER_S, assert_same, audit, controller_of, produce, wait_for, wait_zookeeper_rules

pytestmark = [pytest.mark.lab, pytest.mark.long]

KILLS = 10
EACH_KIND = 3
"""Of the kills, at least so many hit a leader of ours, and at least so many one of Kafka's."""
NO_LEADER_EXPLAINS = frozenset(
    {
        *(KafkaError.POLICY_VIOLATION, KafkaError.INVALID_REQUEST, KafkaError.UNSUPPORTED_VERSION),
        *(KafkaError.TOPIC_EXCEPTION, KafkaError.INVALID_PARTITIONS),
        *(KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED),
    }
)


NOTICES_FIRST = {"controller.quorum.fetch.timeout.ms": 1200}
"""The others have 2000: a stock follower with this stands first when a leader of ours dies, so that both kinds lead."""


def as_stock(ours: OurController) -> StockController:
    """A stock controller on the directory of one of ours that has ended, with its file but for one time-out."""
    spec = replace(ours.spec, extra={**ours.spec.extra, **NOTICES_FIRST})
    stock = StockController(ours.laboratory, spec, ours.cluster_id)
    stock.start()
    stock.wait_ready()
    return stock


def rules(voter: Voter, ours: OurController) -> str | None:
    """None when this voter leads and writes to both sides. ours: one that is alive, to ask who leads."""
    if isinstance(voter, OurController):
        return None if ruling([voter]) is voter else "not in dual-write"
    if leading([ours]) != voter.spec.node_id:
        return "does not lead"
    return None if voter.driver_state() == "DUAL_WRITE" else voter.driver_state()


def wait_leader(voters: list[Voter]) -> Voter:
    found: list[Voter] = []
    ours = [each for each in voters if isinstance(each, OurController)]

    def why_not() -> str | None:
        reasons = {each.name: rules(each, ours[0]) for each in voters if each.is_running}
        found.extend(each for each in voters if each.is_running and reasons[each.name] is None)
        return None if found else str(reasons)

    wait_for(why_not, "somebody rules in dual-write")
    return found[0]


class Load:
    """Topics are created and records produced all the while; what was acknowledged has to be there at the end."""

    def __init__(self, cluster: LabCluster) -> None:
        self._cluster = cluster
        self._ends = threading.Event()
        self.created: list[str] = []
        self.asked = 0
        self.unexpected: list[str] = []
        """What no leader that was killed explains."""

    @contextmanager
    def running(self) -> Iterator[Load]:
        thread = threading.Thread(target=self._run, name="load")
        thread.start()
        try:
            yield self
        finally:
            self._ends.set()
            thread.join(HANGS_AFTER_S)
            assert not thread.is_alive()
        assert self.unexpected == []

    def _run(self) -> None:
        while not self._ends.is_set() and self.asked < 2_000:
            name = f"loaded-{self.asked}"
            self.asked += 1
            try:
                self._cluster.create_topics([name], partitions=2)
                self.created.append(name)
            except KafkaException as error:  # nobody led: it may be there or not
                if error.args[0].code() in NO_LEADER_EXPLAINS:
                    self.unexpected.append(f"{name}: {error}")
            except BaseException as error:  # this thread ends; whoever waits for it hears why
                self.unexpected.append(f"{name}: {error!r}")
                raise
            self._ends.wait(0.2)


def why_not_followed(laboratory: Laboratory, stock: StockController, ours: list[OurController]) -> str | None:
    """Its time-out is short: on a busy machine it may have been elected; then it leaves and comes back."""
    if leading(ours) == stock.spec.node_id:
        stock.stop()
        stock.start()
        stock.wait_ready()
    leader = ruling(ours)
    if leader is None:
        return "none of ours rules"
    try:
        told = quorum_status(laboratory, leader)["LeaderId"]
        lag = lag_of(laboratory, leader, stock.spec.node_id)
    except (FindingError, KeyError, ValueError) as error:  # another was elected between two looks
        return str(error)
    return None if told == str(leader.spec.node_id) and lag == 0 else f"{told} leads, stock lags by {lag}"


def wait_holder(cluster: LabCluster, voters: list[Voter]) -> Voter:
    """Who leads, and ZooKeeper says so."""
    found: list[Voter] = []

    def why_not() -> str | None:
        leader, held = wait_leader(voters), controller_of(cluster)
        found[:] = [leader]
        named = held is not None and held["brokerid"] == leader.spec.node_id
        return None if named else f"{leader.name} leads, ZooKeeper says {held}"

    wait_for(why_not, "ZooKeeper names who leads")
    return found[0]


def test_ours_and_stock_lead_and_follow_each_other_while_leaders_are_killed(laboratory: Laboratory) -> None:
    """R-595-02, 06; drop-in both ways on one directory, under load, ten kills of whoever leads."""
    with three_controllers(laboratory) as (cluster, ours):
        start(ours)
        leader: Voter = wait_ruling(ours)
        produce(cluster, TOPICS[0], 100)

        # A stock controller takes the place of a follower of ours, and follows ours.
        replaced = next(each for each in ours if each is not leader)
        replaced.stop()
        stock = as_stock(replaced)
        voters: list[Voter] = [stock, *(each for each in ours if each is not replaced)]
        others = [each for each in ours if each is not replaced]
        wait_for(lambda: why_not_followed(laboratory, stock, others), "stock follows ours")

        killed: Counter[str] = Counter()
        with Load(cluster).running() as load:
            while sum(killed.values()) < KILLS or min(killed["ours"], killed["stock"]) < EACH_KIND:
                assert sum(killed.values()) < 2 * KILLS, f"one kind hardly ever led: {killed}"
                leader = wait_holder(cluster, voters)
                acknowledged = len(load.created)
                wait_for(
                    lambda before=acknowledged: None if len(load.created) > before else "no answer",  # type: ignore[misc]
                    "the new leader serves",
                )
                leader.kill()
                killed["ours" if isinstance(leader, OurController) else "stock"] += 1
                wait_leader([each for each in voters if each is not leader])
                leader.start()
                leader.wait_ready()
        leader = wait_leader(voters)
        cluster.wait_isr_whole([*TOPICS, *load.created])
        assert len(load.created) > KILLS
        assert stock.is_running
        if leader is stock:
            only_what_stock_writes_again(audit(cluster, stock.metadata_log.parent))
        stock.kill()
        stock.spec = replaced.spec  # from here on it only follows; with its short time-out it is elected at any time
        leader = wait_ruling(ours)
        stock.start()
        stock.wait_ready()
        assert_same(cluster, leader.data)
        of_all = check_logs([*(each.metadata_log for each in ours), stock.metadata_log])
        assert of_all.exit_code == 0, of_all

        # Ours comes back on the directory that stock has used, and the cluster can go back to ZooKeeper.
        leader.ask("rollback")
        refused = rf"voters \[{stock.spec.node_id}\] are Kafka's"
        wait_for(
            lambda: None if any(re.search(refused, each["reason"]) for each in waits(leader)) else leader.state(),
            "the rollback is refused beside a stock voter",
        )
        wait_ruling([leader])
        stock.stop()
        replaced.launch()
        replaced.wait_ready()
        ruler = wait_ruling(ours)
        cluster.create_topics(["made-by-ours"])
        cluster.wait_isr_whole(["made-by-ours"])
        assert_same(cluster, ruler.data)
        wait_for(
            lambda: None if not followers_behind(laboratory, ruler) else str(followers_behind(laboratory, ruler)),
            "all follow",
        )
        ruler.ask("rollback")
        wait_zookeeper_rules(cluster)
        for each in ours:
            each.wait_state("RETIRED")
            each.stop()
        logs = [committed(laboratory, each) for each in ours]
        shortest = min(map(len, logs))
        assert shortest > 50
        assert logs[0][:shortest] == logs[1][:shortest] == logs[2][:shortest]


def test_ours_does_not_take_over_beside_a_stock_voter(laboratory: Laboratory) -> None:
    """F-59: before the log is in migration a stock voter with the flag on would copy unasked as soon as it leads."""
    with three_controllers(laboratory) as (cluster, ours):
        before = controller_of(cluster)
        start(ours[:2])
        wait_for(lambda: None if leading(ours[:2]) else "nobody leads", "one of ours leads")
        stock = StockController(laboratory, ours[2].spec, ours[2].cluster_id)
        stock.start()
        stock.wait_ready()

        def refused() -> str | None:
            known = leading(ours[:2])
            leader = next((each for each in ours[:2] if each.spec.node_id == known), None)
            if leader is None:
                return f"the leader is {known}"
            reason = str(leader.status()["driver"]["reason"])
            return (
                None
                if re.search(rf"not known to run zk2kraft: {stock.spec.node_id} \(apache-kafka-java\)", reason)
                else reason
            )

        wait_for(refused, "the gate names the stock voter")
        time.sleep(2)  # it stays so
        wait_for(refused, "the gate names it still")
        assert controller_of(cluster) == before
        stock.stop()
        ours[2].launch()
        ours[2].wait_ready()
        ruler = wait_ruling(ours)
        assert_same(cluster, ruler.data)


def waits(controller: OurController) -> list[dict[str, Any]]:
    return [event for event in controller.events() if event.get("event") == "driver.waits"]


def only_what_stock_writes_again(report: dict[str, Any]) -> None:
    """A stock leader writes states again that did not change, which counts their znodes' versions up."""
    for each in report["differences"]:
        assert each["field"] == "partition_epoch", each
        assert each["zookeeper"] > each["log"], each


def quorum_status(laboratory: Laboratory, leader: Voter) -> dict[str, str]:
    """What Kafka's own tool says of a quorum, asked at its leader."""
    text = quorum_command(laboratory, leader, "--status")
    return dict(re.findall(r"^(\w+):\s+(.*)$", text, re.M))


def followers_behind(laboratory: Laboratory, leader: Voter) -> dict[int, int]:
    lags = {voter: lag_of(laboratory, leader, voter) for voter in (3000, 3001, 3002)}
    return {voter: lag for voter, lag in lags.items() if lag != 0}


def lag_of(laboratory: Laboratory, leader: Voter, node: int) -> int:
    text = quorum_command(laboratory, leader, "--replication")
    (lag,) = re.findall(rf"^{node}\s+\S+\s+\d+\s+(-?\d+)\s", text, re.M)
    return int(lag)


def quorum_command(laboratory: Laboratory, leader: Voter, what: str) -> str:
    where = ("--bootstrap-controller", f"127.0.0.1:{leader.spec.port}")
    return laboratory.tool("org.apache.kafka.tools.MetadataQuorumCommand", *where, "describe", what)
