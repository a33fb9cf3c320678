"""kill -9 at named points of the road: of the service, the active controller, a broker, ZooKeeper.

In:   what is to be killed where; the fleet, which tells of each act on a node; the stage, which tells of each phase.
Out:  the kills that happened and those that are left. Who was killed is started again, as its host would do it.
Elsewhere: the road itself (road_stage.py), acts on nodes (migrator/lab/fleet.py).
Rules: a victim is never the node that the service acts on; where that node leads just then, it dies at its own stop.
A controller of ours and the service have no host of their own here: the service starts the one, the stage the other.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from migrator.findings.finding import FindingError
from migrator.lab.fleet import LabFleet
from migrator.lab.ours import CONTROL_FILE
from migrator.lab.servers.broker import BrokerMode
from migrator.node.transport.broker_client import BrokerConnection
from migrator.wire.messages.raft import (
    DescribeQuorumPartition,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumTopic,
)

INTENT: Final = "intent"
"""The znode of the finalize intent."""
ACTS: Final = ("stop", "write", "start")
HOST_STARTS_AFTER_S: Final = 1.0
BROKER_AWAY_S: Final = 2.0
SESSION_S: Final = 18.0
"""How long a killed broker in ZooKeeper mode stays away: Kafka's default session in ZooKeeper. It cannot register
before that has ended (the laboratory ends it by hand). Its session with our controllers takes 9 s, and begins again
with each leader: two that die after it make that 12 s. Where a broker starts before that end, as it can with a
shorter `zookeeper.session.timeout.ms`, it waits for its registration with an empty cache and answers clients from
it. That case is not tried here, and not solved."""
ZOOKEEPER_AWAY_S: Final = 3.0
LEADER_S: Final = 240.0
ANSWER_S: Final = 1.0


class Victim(StrEnum):
    SERVICE = "service"
    LEADER = "leader"
    BROKER = "broker"
    ZOOKEEPER = "zookeeper"


@dataclass(frozen=True, slots=True)
class Kill:
    """point: an act on a node, a phase that begins, or INTENT. when: `at` its begin, or `after` its end.

    nth: the roll of that node; of a controller 1 stock takes its place, 2 the soak, 3 without the flag.
    """

    point: str
    node: int | None = None
    when: str = "at"
    nth: int = 1
    victim: Victim = Victim.SERVICE

    def __str__(self) -> str:
        where = self.point if self.node is None else f"{self.point} of {self.node} ({self.nth})"
        return f"{self.victim} {self.when} {where}"


class RoadKills:
    """Each kill happens once, in whatever order the road meets them. kill_service: the stage starts it again."""

    def __init__(self, kills: tuple[Kill, ...], fleet: LabFleet, kill_service: Callable[[], None]) -> None:
        self.left = list(kills)
        self.happened: list[str] = []
        """With who it was and when."""
        self.troubles: list[str] = []
        """What went wrong on threads of this class."""
        self._fleet = fleet
        self._kill_service = kill_service
        self._rolls: dict[int, int] = {}
        self._last_act: dict[int, str] = {}
        self._lock = threading.Lock()
        self._began = time.monotonic()

    def wants(self, point: str) -> bool:
        return any(each.point == point for each in self.left)

    def before_act(self, act: str, node: int) -> None:
        """On the fleet's thread, which goes on with the act, as a command on a host would."""
        if act == "written":
            return self.meet("write", "after", node)
        if act == "stop" and self._last_act.get(node, "start") == "start":
            self._rolls[node] = self._rolls.get(node, 0) + 1  # a stop that is repeated belongs to the same roll
        self._last_act[node] = act
        return self.meet(act, "at", node)

    def after_act(self, act: str, node: int) -> None:
        """Before the service hears that the act has ended."""
        if act in ("stop", "start"):
            self.meet(act, "after", node)

    def meet(self, point: str, when: str, node: int | None = None) -> None:
        """The road is at this point: whoever has to die here does."""
        nth = 1 if node is None else self._rolls[node]
        with self._lock:
            due = [
                each for each in self.left if (each.point, each.when, each.node, each.nth) == (point, when, node, nth)
            ]
            for each in due:
                self.left.remove(each)
        for kill in due:
            try:
                who = self.kill(kill.victim, node)
            except (AssertionError, FindingError, OSError) as error:
                self.troubles.append(f"{kill}: {error!r}")
                continue
            self.happened.append(f"{kill}: {who} at {time.monotonic() - self._began:.0f} s")
            print(f"killed {self.happened[-1]}", flush=True)

    def kill(self, victim: Victim, node: int | None) -> str:
        """node: the one that the service acts on, if any; it is never the broker that dies. Returns who it was."""
        match victim:
            case Victim.SERVICE:
                self._kill_service()
                return "service"
            case Victim.LEADER:
                return self.kill_leader()
            case Victim.BROKER:
                return self._kill_broker(node)
            case Victim.ZOOKEEPER:
                return self._kill_zookeeper()

    def kill_leader(self) -> str:
        """Of our controllers or stock; its host, or the service, starts it again."""
        node = wait_leader(self._fleet.ours[0].voters)
        stock = self._fleet.stock[node]
        if stock.is_running:
            stock.kill()
            self._later(HOST_STARTS_AFTER_S, lambda: self._fleet.start_again(node))
            return f"{stock.name} (stock)"
        ours = next(each for each in self._fleet.ours if each.spec.node_id == node)
        pid = int(json.loads((ours.data / CONTROL_FILE).read_text())["pid"])
        os.kill(pid, signal.SIGKILL)  # the service starts it again
        return f"{ours.name} (ours)"

    def _kill_broker(self, node: int | None) -> str:
        others = [each for each in self._fleet.cluster.brokers if each.broker_id != node]
        _until(lambda: all(each.is_running for each in others), "every broker runs")
        broker = others[-1]
        broker.kill()
        away_s = BROKER_AWAY_S if broker.spec.mode is BrokerMode.KRAFT else SESSION_S
        self._later(away_s, lambda: self._fleet.start_again(broker.broker_id))
        return broker.name

    def _kill_zookeeper(self) -> str:
        (server,) = self._fleet.cluster.zookeeper.servers
        _until(lambda: server.is_running, "ZooKeeper runs")
        server.kill()
        self._later(ZOOKEEPER_AWAY_S, server.start_as_written)
        return server.name

    def _later(self, seconds: float, start: Callable[[], object]) -> None:
        def run() -> None:
            try:
                start()
            except (AssertionError, FindingError, OSError) as error:
                self.troubles.append(f"start again: {error!r}")

        timer = threading.Timer(seconds, run)
        timer.daemon = True
        timer.start()


# --- who leads --------------------------------------------------------------------------------------------


def leader_of(voters: str) -> int | None:
    """The voter that says that it leads. voters: as `controller.quorum.voters`."""
    for voter in voters.split(","):
        node, _, address = voter.partition("@")
        host, _, port = address.rpartition(":")
        with suppress(OSError, TimeoutError, FindingError):
            if asyncio.run(_leads(int(node), host, int(port))):
                return int(node)
    return None


def wait_leader(voters: str, deadline_s: float = LEADER_S) -> int:
    found: list[int] = []

    def leads() -> bool:
        if (leader := leader_of(voters)) is not None:
            found.append(leader)
        return bool(found)

    _until(leads, "a controller leads", deadline_s)
    return found[0]


async def _leads(node: int, host: str, port: int) -> bool:
    connection = BrokerConnection(host, port, "kills")
    try:
        topic = DescribeQuorumTopic("__cluster_metadata", (DescribeQuorumPartition(0),))
        answer = await connection.ask(DescribeQuorumRequest((topic,)), 1, DescribeQuorumResponse, ANSWER_S)
    finally:
        connection.close()
    if answer.error_code or not answer.topics or not answer.topics[0].partitions:
        return False
    partition = answer.topics[0].partitions[0]
    return partition.error_code == 0 and partition.leader_id == node


def _until(holds: Callable[[], bool], what: str, deadline_s: float = LEADER_S) -> None:
    ends = time.monotonic() + deadline_s
    while not holds():
        assert time.monotonic() < ends, f"not within {deadline_s:g} s: {what}"
        time.sleep(0.05)
