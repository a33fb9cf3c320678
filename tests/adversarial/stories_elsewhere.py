"""The story of controllers that run as units on hosts of their own: the service starts and stops none of them.

In:   a laboratory. Elsewhere: the list of the stories (end_of_road.py), what the service shows and refuses
      (tests/e2e/test_controllers_on_other_hosts.py), files of both sides (tests/support/remote_controllers.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from migrator.lab.fleet import LabFleet
from migrator.lab.ours import OurController
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.server import Server
from migrator.lab.service import LabService
from tests.adversarial.road import CONTROLLERS
from tests.adversarial.stories_back import back_under_stock, soak
from tests.e2e.road_stage import STEP_DEADLINE_S, RoadStage, assert_completed
from tests.support.certificates import Authority
from tests.support.remote_controllers import ServiceFiles, remote_port

STILL_RUN: Final = "still run on other hosts"
BY_HAND: Final = 3002
"""`stop` of this node's template knows Kafka's unit alone, as the shipped ones do; ours its operator stops."""


class ServiceElsewhere(LabService):
    """It may read nothing of the controllers but copies of their files, and asks them by HTTPS."""

    def __init__(self, laboratory: Laboratory, name: str = "service", **settings: Any) -> None:
        self.authority = Authority(laboratory.directory / "authority")
        self.files = ServiceFiles(laboratory.directory / "files-of-the-service", self.authority)
        self.ports = {node: laboratory.ports.reserve() for node in CONTROLLERS}
        reached = self.files.settings(*self.ports.values())
        super().__init__(laboratory, name, **{**settings, **reached})

    def settings(self) -> dict[str, str | int | float | bool | list[str]]:
        return {**super().settings(), "roots": [str(self.files.directory)]}

    def entry_of(self, controller: OurController) -> dict[str, str | int]:
        copied = self.files.copy_of(controller.properties_file, controller.name)
        control = f"https://localhost:{self.ports[controller.spec.node_id]}"
        return {**super().entry_of(controller), "properties": str(copied), "control": control}


class HostsWithUnits(LabFleet):
    """`stop` of a controller ends its unit and ours, whichever of them runs; but for `BY_HAND`."""

    def _stop(self, server: Server) -> str:
        mine = next((each for each in self.ours if server is self.stock.get(each.spec.node_id)), None)
        if mine is not None and mine.is_running and mine.spec.node_id != BY_HAND:
            return f"our unit stopped in {mine.stop():.1f} s; {super()._stop(server)}"
        return super()._stop(server)


class StageElsewhere(RoadStage):
    """An operator starts and stops units of ours when the service says that it waits for that."""

    service: ServiceElsewhere
    fleet_of = HostsWithUnits

    def __init__(self, laboratory: Laboratory) -> None:
        super().__init__(laboratory, service=ServiceElsewhere)
        self.stopped_by_hand: list[tuple[str, int]] = []
        """Phase and node."""

    def start_cluster(self) -> list[OurController]:
        ours = super().start_cluster()
        for each in ours:
            port = self.service.ports[each.spec.node_id]
            own = remote_port(self.laboratory.directory, self.service.authority, port, each.name)
            each.spec = replace(each.spec, extra={**each.spec.extra, **own})
        return ours

    def step(self, phase: str) -> None:
        super().step(phase)
        if phase == "QUORUM":
            for each in self.fleet.ours:
                self._start_unit(each)

    def wait_view(
        self, why_not: Callable[[dict[str, Any]], str | None], deadline_s: float = STEP_DEADLINE_S
    ) -> dict[str, Any]:
        def watched(view: dict[str, Any]) -> str | None:
            self._operate(view)
            return why_not(view)

        return super().wait_view(watched, deadline_s)

    def _operate(self, view: Mapping[str, Any]) -> None:
        """What the remedies of Z2K-4199 and Z2K-4116 say."""
        said = str(view["waiting"])
        for each in self.fleet.ours:
            node = each.spec.node_id
            if f"Controller {node} does not answer, and this service does not start it" in said:
                self._start_unit(each)
        if STILL_RUN not in said:
            return
        named = said.partition("Controllers [")[2].partition("]")[0].split(", ")
        for each in self.fleet.ours:
            if str(each.spec.node_id) in named and each.is_running:
                print(f"{view['phase']}: {each.name} stopped by its operator: {said}", flush=True)
                each.stop()
                self.stopped_by_hand.append((view["phase"], each.spec.node_id))
        if said.startswith("blocked"):
            self.service.operation(self.migration, "resume")

    def _start_unit(self, each: OurController) -> None:
        """On the file as it stands there."""
        if each.is_running:
            return
        file = each.properties_file.read_bytes()
        each.launch()
        assert each.properties_file.read_bytes() == file, f"{each.name} had another file"


def controllers_on_other_hosts(laboratory: Laboratory) -> None:
    """To SOAK and back, then to COMPLETED on the same cluster with a fresh quorum."""
    stage = StageElsewhere(laboratory)
    stage.to_dual_write()
    found, ours = soak(stage)
    assert ("REPLACING_CONTROLLERS", BY_HAND) in stage.stopped_by_hand, stage.stopped_by_hand
    back_under_stock(stage, found, ours, sorted(ours), kills_at=2, end=False)
    stage.fleet.after_act = None

    stage.to_dual_write_again("again", ())
    retired = {node for phase, node in stage.stopped_by_hand if phase == "ROLLED_BACK"}
    assert retired == set(ours), "each is named after the rollback"
    assert stage.to_the_end()["phase"] == "COMPLETED"
    assert_completed(stage)
    stage.assert_proven()
