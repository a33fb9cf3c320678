"""The files that say how nodes are operated: what is read again, and what does not close the way."""

from __future__ import annotations

import asyncio
import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from migrator.findings.finding import FindingError
from state_machine.nodes.fleet import Fleets
from tests.support.inventories import an_inventory
from tests.unit.state_machine.rolling.test_rolling import Rolling, codes

# by the clock of the world of tests, too, which begins on 12 January 1970
ENDED = {"what": "Z2K-4218", "node": 1, "reason": "no access", "owner": "Ada", "end": "1970-01-02T00:00:00Z"}


def put(file: Path, document: dict[str, Any], at_s: int | None = None) -> None:
    file.write_text(json.dumps(document))
    file.chmod(0o600)
    if at_s is not None:
        os.utime(file, (at_s, at_s))


def a_directory(tmp_path: Path, **changes: Any) -> Path:
    directory = tmp_path / "fleets"
    (directory / "templates").mkdir(parents=True, mode=0o700)
    directory.chmod(0o700)
    act = {"argv": ["true"]}
    acts = dict.fromkeys(("read", "list", "write", "stop", "start", "status"), act)
    put(directory / "templates" / "t.yaml", {"version": 1, "acts": acts}, 1_000)
    document = {**an_inventory(), "actuator": {"kind": "exec", "template": "t.yaml"}, **changes}
    document["brokers"] = [{k: v for k, v in each.items() if k != "actuator"} for each in document["brokers"]]
    document["controllers"] = [{k: v for k, v in each.items() if k != "actuator"} for each in document["controllers"]]
    put(directory / f"{document['cluster']['name']}.yaml", document, 1_000)
    return directory


def name_of(directory: Path) -> str:
    return next(each.stem for each in directory.glob("*.yaml"))


def test_a_waiver_that_ended_does_not_make_the_nodes_inoperable(tmp_path: Path) -> None:
    directory = a_directory(tmp_path, waivers=[ENDED])
    fleet = Fleets(directory).fleet(name_of(directory))
    assert len(fleet.nodes) == 6
    assert fleet.inventory.waiver("Z2K-4218", 1, datetime.now(UTC)) is None


def test_a_waiver_that_ended_is_reported_and_the_roll_goes_on_in_the_next_life(tmp_path: Path) -> None:
    """A broker that was stopped before the restart of the service is not left down for a waiver about another one."""
    world = Rolling(tmp_path)
    file = tmp_path / "fleets/orders.yaml"
    file.write_text(json.dumps({**json.loads(file.read_text()), "waivers": [ENDED]}))

    async def first() -> None:
        await world.to_rolling()
        await world.until(lambda: world.step(0) == "STOPPED")

    async def second() -> None:
        await world.until(lambda: world.rolled and "Z2K-7008" in codes(world))

    asyncio.run(first())
    world.start_service()
    asyncio.run(second())


def test_a_waiver_of_a_node_that_does_not_exist_is_refused_as_before(tmp_path: Path) -> None:
    directory = a_directory(tmp_path, waivers=[{**ENDED, "node": 77, "end": "2099-01-01T00:00:00Z"}])
    with pytest.raises(FindingError) as refused:
        Fleets(directory).fleet(name_of(directory))
    assert refused.value.code == "Z2K-7002"


def test_a_template_that_somebody_corrects_is_read_with_the_next_act(tmp_path: Path) -> None:
    """The inventory is the same file with the same time; only the template is another one."""
    directory = a_directory(tmp_path)
    fleets, name = Fleets(directory), name_of(directory)
    before = fleets.fleet(name)
    assert fleets.fleet(name) is before  # nothing is read twice
    file = directory / "templates" / "t.yaml"
    document = json.loads(file.read_text())
    document["acts"]["start"] = {"argv": ["trye"]}
    put(file, document, 1_000)  # the same size in the same second: a copy keeps its times
    start = fleets.fleet(name).nodes[0].actuator.template.acts["start"]  # type: ignore[attr-defined]
    assert start.argv == ("trye",)


def test_a_template_that_is_replaced_by_one_of_somebody_else_is_refused(tmp_path: Path) -> None:
    directory = a_directory(tmp_path)
    fleets, name = Fleets(directory), name_of(directory)
    fleets.fleet(name)
    (directory / "templates" / "t.yaml").chmod(0o666)
    with pytest.raises(FindingError) as refused:
        fleets.fleet(name)
    assert refused.value.code == "Z2K-7020"
