"""Nodes that come and go after COMPLETED, as runbooks/phase-COMPLETED.md tells it: a controller with a new disk, a new
broker, a removed one; with static voters (kraft.version 0) on 3.9 and 4.4, with voters in the log (1) on 4.4.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial

import pytest

from migrator.lab.classes import prepared
from migrator.lab.kraft import KraftBroker, KraftCluster, Whose
from migrator.lab.servers.artifacts import KAFKA_VERSION, LATER_KAFKA_VERSION
from migrator.lab.servers.controller import StockController
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.properties import read, write
from migrator.model.features.raises import KRAFT
from migrator.model.image import METADATA_VERSION
from migrator.node.config.properties import VoterAddress
from state_machine.clusters.log_observer import LogObservation, LogObserver
from tests.e2e.support import HANGS_AFTER_S, wait_for

pytestmark = [pytest.mark.lab, pytest.mark.long]

VOTERS = "controller.quorum.voters"
SERVERS = "controller.quorum.bootstrap.servers"
QUORUM_TOOL = "org.apache.kafka.tools.MetadataQuorumCommand"


async def _raise(wanted: tuple[str, int], observer: LogObserver, found: LogObservation) -> None:
    await observer.raise_feature(*wanted, found)


class AfterCompleted:
    """Three stock controllers and two brokers of a release, on a log that began at 3.9."""

    def __init__(self, laboratory: Laboratory, release: str) -> None:
        self.laboratory, self.kafka = laboratory, prepared(release)
        self.cluster = KraftCluster(laboratory, Whose.STOCK, brokers=2)
        self.controllers = [each for each in self.cluster.controllers if isinstance(each, StockController)]
        for controller in self.controllers:
            controller.format()
        for broker in self.cluster.brokers:
            write(broker.properties_file, broker.properties())
            broker.before_start()
        for server in (*self.controllers, *self.cluster.brokers):
            server.kafka = self.kafka
        self.cluster.start()

    @property
    def addresses(self) -> str:
        return ",".join(each.address for each in self.controllers)

    def tool(self, main_class: str, *words: str) -> str:
        return self.laboratory.tool(main_class, *words, kafka=self.kafka)

    def format(self, file: str, *words: str) -> None:
        """By the tool of the release that runs."""
        cluster = f"--cluster-id={self.cluster.cluster_id}"
        self.tool("kafka.tools.StorageTool", "format", cluster, "--config", file, *words)

    def looked(self, act: Callable[[LogObserver, LogObservation], Awaitable[None]] | None = None) -> LogObservation:
        """What the leader and the log say; what `act` gives is awaited with it."""

        async def look() -> LogObservation:
            observer = LogObserver(
                [VoterAddress(each.spec.node_id, "127.0.0.1", each.spec.port) for each in self.controllers], None
            )
            try:
                async with asyncio.timeout(HANGS_AFTER_S):
                    while not (found := await observer.look(time.time())).known:
                        await asyncio.sleep(0.3)
                if act is not None:
                    await act(observer, found)
                return found
            finally:
                observer.close()

        return asyncio.run(look())

    def raised(self, *raises: tuple[str, int]) -> None:
        for each in raises:
            self.looked(partial(_raise, each))

    def wait_voters(self, ids: Sequence[int]) -> None:
        def why_not() -> str | None:
            found = {each.id: each.lag for each in self.looked().voters}
            return None if sorted(found) == sorted(ids) and not any(found.values()) else f"voters and lags {found}"

        wait_for(why_not, "every voter follows")

    def lose_disk(self, controller: StockController) -> None:
        controller.stop()
        shutil.rmtree(controller.directory / "data")

    def new_broker(self) -> KraftBroker:
        spec = replace(
            self.cluster.brokers[0].spec,
            broker_id=2,
            port=self.laboratory.ports.reserve(),
            directory=self.laboratory.directory / "broker-2",
        )
        return KraftBroker(self.laboratory, spec, self.cluster.cluster_id)

    def wait_brokers(self, ids: Sequence[int]) -> None:
        def why_not() -> str | None:
            found = [each.id for each in self.looked().brokers if each.ready or each.id not in ids]
            return None if found == list(ids) else f"registered and unfenced: {found}"

        wait_for(why_not, "brokers are registered")

    def comes_and_goes(self, broker: KraftBroker) -> None:
        """It serves a topic; then it is emptied, stopped and unregistered."""
        broker.wait_ready()
        self.wait_brokers([0, 1, 2])
        self.cluster.brokers.append(broker)
        self.cluster.create_topics(["wide"])
        admin = self.cluster.new_admin()  # held until the answer is there
        admin.delete_topics(["wide"])["wide"].result(HANGS_AFTER_S)
        self.cluster.brokers.remove(broker)
        broker.stop()
        servers = ("--bootstrap-server", self.cluster.bootstrap_servers)
        self.tool("org.apache.kafka.tools.ClusterTool", "unregister", "--id", "2", *servers)
        self.wait_brokers([0, 1])


@pytest.mark.parametrize("release", [KAFKA_VERSION, LATER_KAFKA_VERSION])
def test_with_static_voters_a_new_disk_is_formatted_and_started(laboratory: Laboratory, release: str) -> None:
    after = AfterCompleted(laboratory, release)
    after.cluster.create_topics(["orders"])
    controller = after.controllers[1]
    after.lose_disk(controller)
    after.format(str(controller.properties_file), "--release-version", "3.9")
    controller.start_as_written()
    controller.wait_ready()
    after.wait_voters([3000, 3001, 3002])

    broker = after.new_broker()
    write(broker.properties_file, broker.properties())
    after.format(str(broker.properties_file), "--release-version", "3.9")
    broker.kafka = after.kafka
    broker.start_as_written()
    after.comes_and_goes(broker)
    after.cluster.stop()


def test_with_voters_in_the_log_a_new_disk_is_another_voter(laboratory: Laboratory) -> None:
    """kraft.version 1: a voter is its id and its directory, so the lost one is removed and the new one added."""
    after = AfterCompleted(laboratory, LATER_KAFKA_VERSION)
    after.cluster.create_topics(["orders"])
    after.raised((METADATA_VERSION, 33), (KRAFT, 1))
    controller = after.controllers[1]
    after.lose_disk(controller)
    to = ("--bootstrap-controller", ",".join(each.address for each in after.controllers if each is not controller))

    described = after.tool(QUORUM_TOOL, *to, "describe", "--replication")
    lost = next(line.split()[1] for line in described.splitlines() if re.match(r"3001\s", line))
    after.tool(QUORUM_TOOL, *to, "remove-controller", "--controller-id", "3001", "--controller-directory-id", lost)
    after.wait_voters([3000, 3002])

    keys = {key: value for key, value in read(controller.properties_file).items() if key != VOTERS}
    write(controller.properties_file, {**keys, SERVERS: after.addresses})
    after.format(str(controller.properties_file), "--no-initial-controllers")
    controller.start_as_written()
    controller.wait_ready()

    def why_not_added() -> str | None:
        try:
            after.tool(QUORUM_TOOL, *to, "--command-config", str(controller.properties_file), "add-controller")
        except Exception as error:  # it has not caught up yet
            return str(error)
        return None

    wait_for(why_not_added, "the new directory is a voter")
    after.wait_voters([3000, 3001, 3002])

    broker = after.new_broker()
    properties = {key: value for key, value in broker.properties().items() if key != VOTERS}
    write(broker.properties_file, {**properties, SERVERS: after.addresses})
    after.format(str(broker.properties_file), "--no-initial-controllers")
    broker.kafka = after.kafka
    broker.start_as_written()
    after.comes_and_goes(broker)
    after.cluster.stop()
