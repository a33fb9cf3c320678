"""A cluster on the road from ZooKeeper to the end by Kafka's own controllers, driven by the service.

In:   a laboratory. Out: `StockStage`: as `RoadStage`, with `engine: stock`.
Elsewhere: the same with our controllers (road_stage.py).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from migrator.lab.ours import OurController, our_quorum
from migrator.lab.servers.properties import Value, write
from migrator.zk import paths
from tests.adversarial.stories_back import assert_rolled_back, roll_and_pause
from tests.e2e.road_kills import Kill
from tests.e2e.road_stage import RoadStage

STOCK_SETTINGS: Final[Mapping[str, Value]] = {"metadata.log.max.record.bytes.between.snapshots": 4_000}


class StockStage(RoadStage):
    """Nobody has joined, and no controller was ever started: all of it is the service's work."""

    controller_settings = STOCK_SETTINGS
    found: Mapping[int, bytes] = {}
    """Files of brokers from before the migration."""
    held: int | None = None
    """The active controller of ZooKeeper mode, as the last broker was held."""

    def start_to_join(self) -> list[OurController]:
        """A cluster in ZooKeeper mode."""
        self.cluster.start()
        self.found = {each.broker_id: each.properties_file.read_bytes() for each in self.cluster.brokers}
        return our_quorum(self.cluster, 3, self.controller_settings)

    def _control(self, name: str, ours: list[OurController], kills: tuple[Kill, ...]) -> None:
        """Of the controllers their files alone, as an operator wrote them, and empty directories."""
        for each in ours:
            each.data.mkdir(parents=True, exist_ok=True)
            write(each.properties_file, each.spec.properties())
        self.fleet = self.fleet_of(self.cluster, ours)
        self._arm(kills)
        self.before_service()
        self.fleet.serve()
        self.fleet.write(name)

    def _migrate(self, name: str) -> None:
        self.migration = self.service.create(name, self.cluster, self.fleet.ours, engine="stock")
        self.step("PREFLIGHT")
        self.step("QUORUM")
        self._wait_phase("BROKERS_JOINING")
        self.step("BROKERS_JOINING")
        self._wait_phase("READY")
        held = self.cluster.zk.read(paths.CONTROLLER)
        self.held = None if held is None else int(json.loads(held)["brokerid"])
        self.advance("TAKEOVER")
        self._wait_phase("DUAL_WRITE")

    def assert_one_at_a_time(self) -> None:
        """Of brokers; on the way back the controllers are stopped for good, one after the other."""
        assert self.kills.troubles == [], self.kills.troubles
        down: set[int] = set()
        for each in self.fleet.done:
            if each.node in {broker.broker_id for broker in self.cluster.brokers}:
                (down.add if each.act == "stop" else down.discard)(each.node)
                assert len(down) <= 1, f"brokers {sorted(down)} were down by the service at one time"

    def to_hybrid(self) -> None:
        """Two of three brokers in KRaft mode."""
        roll_and_pause(self, 2)

    def to_soak(self) -> None:
        self.advance("ROLLING_BROKERS")
        self.advance("SOAK")
        self._wait_phase("SOAK")


def go_back(stage: StockStage) -> None:
    """To ZooKeeper mode, with the files of before; nothing of stock is left, and nothing acknowledged is lost."""
    stage.wait_view(_why_not_possible)
    stage.service.operation(stage.migration, "rollback")
    stage.wait_view(lambda view: None if view["phase"] in ("ROLLING_BACK", "ROLLED_BACK") else view["phase"])
    stage.service.operation(stage.migration, "resume")  # of a roll that was paused half-way
    view = stage.wait_view(
        lambda view: None if view["phase"] == "ROLLED_BACK" else f"{view['phase']}: {view['waiting']}"
    )
    for each in stage.fleet.stock.values():
        assert not each.is_running, f"{each.name} runs"
    assert stage.cluster.zk.read(paths.MIGRATION) is None
    assert_rolled_back(stage, view, stage.found)


def _why_not_possible(view: dict[str, Any]) -> str | None:
    back = next(each for each in view["gates"] if each["to"] == "ROLLING_BACK")
    closed = [f"{each['name']}: {each['message']}" for each in back["conditions"] if each["status"] != "True"]
    return "; ".join(closed) or None
