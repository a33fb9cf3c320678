"""What the stories of the end of the road share: commands, looks at log and partitions, topics, elections.

In:   a cluster, or its voters.
Elsewhere: the stories (stories_forward.py, stories_back.py, stories_by_hand.py), their list (end_of_road.py).
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]  # public, but not re-exported for mypy

from migrator.findings.laboratory import TOOL_FAILED
from migrator.lab.cluster import LabCluster
from migrator.lab.ours import PROGRAM
from migrator.lab.service import LabService
from migrator.node.config.properties import VoterAddress
from state_machine.clusters.log_observer import LogObservation, LogObserver
from tests.e2e.support import HANGS_AFTER_S, wait_for

MIGRATION, POST_MIGRATION = "MIGRATION", "POST_MIGRATION"
NOT_DONE_YET: Final = 5
"""Exit code of a step that was accepted."""
REFUSED: Final = 4
COMMAND_S: Final = 900.0
STANDS_S: Final = 3.0
"""A voter that was asked and is not elected after so long is asked again."""


class ByCommandLine(LabService):
    """Each step is asked for by a command of its own, as an operator at a terminal does."""

    waits: tuple[str, ...] = ("--no-wait",)

    def operation(
        self, migration: int, word: str, to: str | None = None, reason: str = "", who: str = "laboratory"
    ) -> dict[str, Any]:
        words = ["--json", *self.waits]
        words += ["--to", to] if to else []
        words += ["--reason", reason] if reason else []
        if word == "approve":
            shown = self.command(migration, word, "--json", "--to", to or "FINALIZING", who=who)
            words += ["--digest", json.loads(shown.stdout)["digest"]]
        done = self.command(migration, word, *words, who=who)
        self.ended(word, to, done.returncode)
        refused_later = done.returncode == REFUSED and "operation" in json.loads(done.stdout or "{}")
        if done.returncode not in (0, NOT_DONE_YET) and not refused_later:
            said = f"{done.stdout} {done.stderr}"
            raise TOOL_FAILED.error(tool=f"zk2kraft {word}", exit_code=done.returncode, output=said)
        mine = [each for each in self.view(migration)["operations"] if (each["operation"], each["who"]) == (word, who)]
        return {"operation": max(mine, key=lambda each: int(each["id"]))}

    def ended(self, word: str, to: str | None, exit_code: int) -> None:
        print(f"zk2kraft {word} --to {to}: exit code {exit_code}", flush=True)

    def command(
        self, migration: int, word: str, *words: str, who: str = "laboratory"
    ) -> subprocess.CompletedProcess[str]:
        """`zk2kraft WORD -m MIGRATION`, as a process of its own."""
        environment = {**os.environ, "ZK2KRAFT_TOKEN_FILE": str(self.token_file), "LOGNAME": who}
        command = [sys.executable, *PROGRAM, word, "--url", self.url, "-m", str(migration), *words]
        return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=COMMAND_S, check=False)


def without_controllers(cluster: LabCluster, *words: str) -> subprocess.CompletedProcess[str]:
    """`zk2kraft rollback --without-controllers`, as a process of its own."""
    command = [sys.executable, *PROGRAM, "rollback", "--without-controllers", "-z", cluster.zookeeper_connect, *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_S, check=False)


def wait_whole(cluster: LabCluster) -> None:
    """As clients are told, since ZooKeeper may be away."""

    def why_not() -> str | None:
        try:
            seen = cluster.admin().list_topics(timeout=10).topics
        except KafkaException as error:
            return str(error)
        bad = [
            f"{name}-{number}"
            for name, topic in seen.items()
            for number, each in topic.partitions.items()
            if each.leader < 0 or set(each.isrs) != set(each.replicas)
        ]
        return f"{bad} are not whole" if bad or not seen else None

    wait_for(why_not, "every replica is in sync")


def create(cluster: LabCluster, name: str) -> None:
    """As an administrator who asks until somebody leads: a topic that exists by then was made by the ask before."""

    def why_not() -> str | None:
        try:
            new = NewTopic(name, 4, 3)
            cluster.admin().create_topics([new], operation_timeout=10, request_timeout=15)[name].result()
        except KafkaException as error:
            return None if "already exists" in str(error) else str(error)
        return None

    wait_for(why_not, f"{name} is created")


def _observer(voters: str) -> LogObserver:
    addresses = [each.partition("@") for each in voters.split(",")]
    found = [
        VoterAddress(int(node), where.rpartition(":")[0], int(where.rpartition(":")[2])) for node, _, where in addresses
    ]
    return LogObserver(found, None)


def observed(voters: str) -> LogObservation:
    """What the service would see."""

    async def look() -> LogObservation:
        observer = _observer(voters)
        try:
            return await observer.look(time.time())
        finally:
            observer.close()

    return asyncio.run(look())


def wait_observed(voters: str, holds: Callable[[LogObservation], bool], what: str) -> LogObservation:
    latest: list[LogObservation] = []

    def why_not() -> str | None:
        latest[:] = [observed(voters)]
        return None if latest[0].known and holds(latest[0]) else latest[0].problem or f"it says {latest[0].migration}"

    wait_for(why_not, what)
    return latest[0]


def elect_in_a_row(voters: str, count: int) -> None:
    """So many elections, each as soon as the leader of the one before is known: a follower stands when it is asked, as
    the service asks in the soak.
    """

    async def ask() -> None:
        observer, asked, epoch, at = _observer(voters), 0, -1, 0.0
        try:
            async with asyncio.timeout(HANGS_AFTER_S):
                while asked < count:
                    seen = await observer.look(time.time())
                    others = [each for each in seen.voters if each.id != seen.leader and each.lag is not None]
                    waits = seen.epoch == epoch and time.monotonic() < at + STANDS_S
                    if not seen.known or not others or waits:
                        await asyncio.sleep(0.02)
                        continue
                    with suppress(OSError, TimeoutError):  # another one was elected meanwhile
                        await observer.ask_to_lead(min(others, key=lambda each: each.lag or 0).id, seen)
                        asked, epoch, at = asked + 1, seen.epoch, time.monotonic()
        finally:
            observer.close()

    asyncio.run(ask())
