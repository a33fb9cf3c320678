"""Controllers' files beside brokers' ones: does who leads take tiered topics as the brokers do? (R-405-05, Z2K-4223)"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from migrator.fleet.properties_file import parse_properties
from migrator.fleet.render import FileKind, Wanted, render
from migrator.model.verdict import Verdict
from state_machine.facts.nodes import AboutNode
from state_machine.policy.fleet_evidence import FilesObserved, Roll
from state_machine.policy.fleet_names import controllers_take_tiers
from state_machine.policy.gates import Evidence
from state_machine.policy.gates_forward import (
    controllers_are_replaced,
    finalize_evidence,
    may_replace_controllers,
    may_roll_brokers,
)
from state_machine.policy.step_conditions import LISTS, When, conditions_of
from state_machine.rows.observations import findings
from tests.unit.state_machine.policy.test_road_gates import NODES, closed, evidence
from tests.unit.state_machine.rolling.test_rolling import Rolling

NAME: Final = "controllers' files have tiered storage as brokers' have"
LINE: Final = "\nremote.log.storage.system.enable=true\n"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Rolling]:
    found = Rolling(tmp_path)
    yield found
    found.store.close()


def files(without: tuple[int, ...]) -> FilesObserved:
    lacking = tuple(AboutNode("controller", each, "c.properties") for each in without)
    return FilesObserved(5.0, with_flag=NODES, with_tiers=(0, 1, 2), without_tiers=lacking)


@pytest.mark.parametrize(
    "gate", [may_roll_brokers, may_replace_controllers, controllers_are_replaced, finalize_evidence]
)
def test_a_controllers_file_without_it_closes_each_gate_and_one_with_it_none(
    gate: Callable[[Evidence], Verdict],
) -> None:
    assert NAME in closed(gate(evidence({"files": files((3001,))})))
    assert NAME not in closed(gate(evidence({"files": files(())})))


@pytest.mark.parametrize("roll", list(LISTS))
def test_no_node_is_stopped_before_it_is_there(roll: Roll) -> None:
    asked = conditions_of(evidence({"files": files((3001,))}), roll, When.STOP)
    (found,) = [each for each in asked if each.name == NAME]
    assert (found.holds, found.codes) == (False, ("Z2K-4223",))
    assert found.message == "brokers [0, 1, 2] have it, and the file of controller [3001] does not"


def test_the_gate_says_that_a_cluster_has_tiered_storage_and_nothing_of_one_without() -> None:
    road = evidence({"files": files(())}).road
    assert road is not None
    (found,) = controllers_take_tiers(road)
    assert (found.holds, found.message) == (True, "brokers [0, 1, 2] have it, and the controllers too")
    lacking = (AboutNode("controller", 3000, "f"),)
    plain = evidence({"files": FilesObserved(5.0, with_flag=NODES, without_tiers=lacking)})
    assert plain.road is not None
    assert controllers_take_tiers(plain.road) == ()


def test_a_controllers_file_is_named_until_it_has_the_line_and_that_edit_is_no_drift(world: Rolling) -> None:
    """Or the step after it would stay closed by the very edit that is asked for."""
    controller, broker = Path(world.inventory.controllers[0].properties), world.hosts.file(1)

    def named(code: str) -> list[str]:
        return [each.says for each in findings(world.store, world.id, only_open=True) if each.code == code]

    async def story() -> list[str]:
        broker.write_text(broker.read_text() + LINE)
        await world.to_dual_write()
        await world.rounds(3, seconds=31.0)
        found = named("Z2K-4223")
        controller.write_text(controller.read_text() + LINE)
        await world.rounds(3, seconds=31.0)
        return found

    (found,) = asyncio.run(story())
    assert f"{controller} of controller 3000 does not set" in found
    assert "the files of brokers [1] do" in found
    assert (named("Z2K-4223"), named("Z2K-4209")) == ([], [])


@pytest.mark.parametrize("kind", [FileKind.STOCK, FileKind.FINALIZED])
def test_files_of_stock_controllers_keep_every_key_of_remote_storage(kind: FileKind) -> None:
    """Stock checks a topic's configuration against its own file: the local retention that it inherits, too."""
    kept = {
        "remote.log.storage.system.enable": "true",
        "remote.log.storage.manager.class.name": "a.Manager",
        "log.local.retention.ms": "3600000",
        "log.retention.hours": "-1",
    }
    text = "process.roles=controller\nnode.id=3000\ncontroller.quorum.voters=3000@h:1\nzookeeper.connect=zk:2181\n"
    text += "".join(f"{key}={value}\n" for key, value in kept.items())
    found = render("controller", parse_properties(text.encode(), "c"), kind, Wanted()).document.values
    assert {key: found.get(key) for key in kept} == kept
