"""What the stories of the end of the road share: a look at log and partitions, a topic that is created in any case.

In:   a cluster, or its voters.
Elsewhere: the stories (stories_forward.py, stories_back.py), their list (end_of_road.py).
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any, Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]  # public, but not re-exported for mypy

from migrator.findings.laboratory import TOOL_FAILED
from migrator.lab.cluster import LabCluster
from migrator.lab.service import LabService
from migrator.node.config.properties import VoterAddress
from state_machine.clusters.log_observer import LogObservation, LogObserver
from tests.e2e.support import wait_for

MIGRATION, POST_MIGRATION = "MIGRATION", "POST_MIGRATION"
NOT_DONE_YET: Final = 5
"""Exit code of a step that was accepted."""


class ByCommandLine(LabService):
    """Each step is asked for by a command of its own, as an operator at a terminal does."""

    def operation(
        self, migration: int, word: str, to: str | None = None, reason: str = "", who: str = "laboratory"
    ) -> dict[str, Any]:
        words = [word, "--url", self.url, "-m", str(migration), "--json", "--no-wait"]
        words += ["--to", to] if to else []
        words += ["--reason", reason] if reason else []
        environment = {**os.environ, "ZK2KRAFT_TOKEN_FILE": str(self.token_file), "LOGNAME": who}
        command = [sys.executable, "-m", "api", *words]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=240, check=False)
        if done.returncode not in (0, NOT_DONE_YET):
            said = f"{done.stdout} {done.stderr}"
            raise TOOL_FAILED.error(tool=f"zk2kraft {word}", exit_code=done.returncode, output=said)
        print(f"zk2kraft {word} --to {to}: exit code {done.returncode}", flush=True)
        mine = [each for each in self.view(migration)["operations"] if (each["operation"], each["who"]) == (word, who)]
        return {"operation": max(mine, key=lambda each: int(each["id"]))}


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
            cluster.admin().create_topics([NewTopic(name, 4, 3)], operation_timeout=10)[name].result(15)
        except KafkaException as error:
            return None if "already exists" in str(error) else str(error)
        return None

    wait_for(why_not, f"{name} is created")


def observed(voters: str) -> LogObservation:
    """What the service would see."""
    addresses = [each.partition("@") for each in voters.split(",")]
    found = [
        VoterAddress(int(node), where.rpartition(":")[0], int(where.rpartition(":")[2])) for node, _, where in addresses
    ]

    async def look() -> LogObservation:
        observer = LogObserver(found, None)
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
