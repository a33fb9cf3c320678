"""Both inventories name one file for each controller; with two, a rollback would leave a file of stock."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from migrator.findings.fleet import CONTROLLER_FILES_DIFFER
from migrator.fleet.properties_file import parse_properties
from state_machine.facts.accepted import WaiverFact
from state_machine.nodes.controller_files import differing_files
from state_machine.nodes.fleet import Fleets
from state_machine.policy.conditions import fleet_evidence_of
from state_machine.policy.fleet_evidence import FilesObserved, RollbackPlan
from state_machine.policy.fleet_names import controllers_have_one_file
from state_machine.policy.gates_back import controllers_may_return
from state_machine.policy.gates_forward import may_replace_controllers
from state_machine.rows.observations import findings
from tests.unit.state_machine.policy.test_road_gates import NODES, closed, codes, evidence
from tests.unit.state_machine.rolling.test_rolling import Rolling

NAME = "both inventories name the same file of controller 3000"
DIFFERING = FilesObserved(5.0, with_flag=NODES, differing=((3000, "they differ in zk2kraft.gates"),))


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Rolling]:
    found = Rolling(tmp_path)
    yield found
    found.store.close()


def another_file(world: Rolling, directory: Path, text: str) -> Path:
    """The fleet's inventory names it in the place of the one with which ours runs."""
    file, fleet = directory / "another.properties", directory / "fleets/orders.yaml"
    file.write_text(text)
    document = json.loads(fleet.read_text())
    document["controllers"][0]["properties"] = str(file)
    fleet.write_text(json.dumps(document))
    return file


@pytest.mark.parametrize("same", [True, False])
def test_a_file_of_stock_beside_ours_is_named_as_soon_as_files_are_read(
    world: Rolling, tmp_path: Path, same: bool
) -> None:
    ours = Path(world.inventory.controllers[0].properties)
    text = "# a copy\n" + ours.read_text()
    another_file(world, tmp_path, text if same else text.replace("zk2kraft.gates=pause", ""))

    async def story() -> None:
        await world.to_dual_write()
        await world.rounds(3, seconds=31.0)

    asyncio.run(story())
    said = [each for each in findings(world.store, world.id, only_open=True) if each.code == "Z2K-7057"]
    assert not said if same else "differ in zk2kraft.gates" in said[0].says
    names = [each.name for each in may_replace_controllers(world.evidence).failed]
    assert (NAME in names) is not same


def test_values_are_in_no_message(world: Rolling, tmp_path: Path) -> None:
    file = another_file(world, tmp_path, "ssl.key.password=hunter2\n")
    node = Fleets(tmp_path / "fleets").fleet("orders").node("controller", 3000)
    assert node is not None
    asyncio.run(world.to_dual_write())
    (found,) = differing_files(world.snapshot, node, parse_properties(file.read_bytes(), str(file)))
    assert "hunter2" not in found.text
    assert "and 5 more" in found.text


def test_a_file_of_the_migration_that_cannot_be_read_is_not_taken_for_the_same(world: Rolling, tmp_path: Path) -> None:
    node = Fleets(tmp_path / "fleets").fleet("orders").node("controller", 3000)
    assert node is not None
    asyncio.run(world.to_dual_write())
    present = parse_properties(Path(node.path).read_bytes(), node.path)
    Path(world.inventory.controllers[0].properties).unlink()
    (found,) = differing_files(world.snapshot, node, present)
    assert found.code == CONTROLLER_FILES_DIFFER.code
    assert "cannot be read" in found.text


def test_two_files_close_the_way_forward_and_the_way_back_from_stock() -> None:
    with_stock = {"files": DIFFERING, "back": RollbackPlan(controllers=NODES)}
    assert NAME in closed(may_replace_controllers(evidence({"files": DIFFERING})))
    assert codes(may_replace_controllers(evidence({"files": DIFFERING}))) == {CONTROLLER_FILES_DIFFER.code}
    assert NAME in closed(controllers_may_return(evidence(with_stock)))


def test_a_waiver_opens_them_and_is_shown() -> None:
    waiver = WaiverFact("Z2K-7057", 3000, "its unit is removed", "ops", 2_000_000_000.0)
    road = replace(fleet_evidence_of(evidence({"files": DIFFERING})), waivers=(waiver,))
    (found,) = controllers_have_one_file(road)
    assert found.holds
    assert "waived by ops" in found.message
