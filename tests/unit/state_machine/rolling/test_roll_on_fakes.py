"""The loop of a roll on hosts in memory, one forward and one back: in which order it acts, and what the journal has."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from migrator.fleet.files import Present, checksum_of, predecessor_path
from migrator.fleet.render import FileKind
from migrator.fleet.roll import Perform
from state_machine.policy.fleet_evidence import Roll
from state_machine.policy.outcome import Blocked, Outcome, Waiting
from state_machine.rolling import journal
from state_machine.rows.store import Snapshot
from tests.unit.state_machine.policy.test_roll_conditions import fakes_of
from tests.unit.state_machine.policy.test_step_conditions import as_before
from tests.unit.state_machine.roll_fakes import IDS, Fakes, judged_by


def test_brokers_go_into_kraft_mode_one_after_the_other(tmp_path: Path) -> None:
    fakes = fakes_of(tmp_path / "kraft", Roll.KRAFT)
    before = {each: fakes.hosts[each].files["/etc/k"] for each in IDS}
    asyncio.run(fakes.until(lambda: set(fakes.steps().values()) == {"WHOLE"}))
    assert fakes.acts == [f"{act} {each}" for each in IDS for act in ("stop", "write", "start")]
    for row in fakes.rows():
        host = fakes.hosts[row.node_id]
        assert b"process.roles=broker" in host.files["/etc/k"]
        assert host.files[predecessor_path("/etc/k", row.rendered_from)] == before[row.node_id]
        assert (row.checksum, row.kind) == (checksum_of(host.files["/etc/k"]), "kraft")
    assert asyncio.run(fakes.round()) is None, "every node is whole"


def into_kraft_mode(fakes: Fakes) -> None:
    """As the roll there leaves hosts and journal; the last one there is the first one back."""
    store, at = fakes.world.store, fakes.world.clock()
    journal.begin(store, fakes.world.id, Roll.KRAFT, fakes.fleet.of("broker"), at=at)
    for each in IDS:
        host, node = fakes.hosts[each], fakes.fleet.node("broker", each)
        assert node is not None
        before = host.files["/etc/k"]
        after = fakes.fleet.render(node, Present("/etc/k", before), FileKind.KRAFT).content
        host.files |= {"/etc/k": after, predecessor_path("/etc/k", checksum_of(before)): before}
        columns: dict[str, Any] = {
            "step": "WHOLE",
            "rendered_from": checksum_of(before),
            "checksum": checksum_of(after),
        }
        journal.record(store, fakes.world.id, Roll.KRAFT, each, at=at, began_at=at + each, **columns)


def test_brokers_go_back_into_zookeeper_mode_in_the_reverse_order(tmp_path: Path) -> None:
    fakes = fakes_of(tmp_path / "back", Roll.BACK)
    before = {each: fakes.hosts[each].files["/etc/k"] for each in IDS}
    into_kraft_mode(fakes)
    asyncio.run(fakes.until(lambda: set(fakes.steps().values()) == {"WHOLE"}, 400))
    assert fakes.acts == [f"{act} {each}" for each in reversed(IDS) for act in ("stop", "write", "start")]
    assert {each: fakes.hosts[each].files["/etc/k"] for each in IDS} == before
    assert asyncio.run(fakes.round()) is None


def test_a_node_that_cannot_be_prepared_stops_the_roll_and_is_named(tmp_path: Path) -> None:
    """The finding holds a table, so that nobody may take it for a key."""
    fakes = fakes_of(tmp_path / "ours", Roll.OURS)
    fakes.begin()
    said = [asyncio.run(fakes.round()) for _ in range(2)][-1]
    assert isinstance(said, Blocked)
    assert [each.code for each in said.problems] == ["Z2K-4231"]
    assert "FAILED" in fakes.steps().values()
    assert fakes.acts == []


def test_nobody_is_stopped_while_the_cluster_is_not_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    noted = judged_by(monkeypatch)
    (tmp_path / "kraft").mkdir()
    fakes = Fakes(tmp_path / "kraft", Roll.KRAFT, as_before(Roll.KRAFT, road={"not_ready": (2,)}))
    fakes.begin()
    for each in IDS:
        fakes.at_step(each, "PREPARED")
    asyncio.run(fakes.round())
    assert fakes.acts == []
    assert not any(isinstance(each, Perform) for each in noted.decisions)


@pytest.mark.parametrize(("kind", "stopped"), [("finalized", False), ("back", True)])
def test_what_is_asked_before_the_stops_of_a_roll_holds_them_and_not_those_that_put_a_node_back(
    tmp_path: Path, kind: str, stopped: bool
) -> None:
    """The intent of FINALIZING: no controller is stopped for it before it stands; one that is put back needs none."""
    fakes = fakes_of(tmp_path / "final", Roll.FINAL)
    fakes.begin()
    fakes.at_step(3001, "STOPPING", kind=kind)

    async def refuses(snapshot: Snapshot) -> Outcome:
        return Waiting("the intent does not stand yet")

    fakes.roller.before_stop[Roll.FINAL] = refuses
    said = asyncio.run(fakes.round())
    assert (fakes.acts == ["stop 3001"]) is stopped
    assert said is not None
    assert said.text == ("controller 3001: stop begins" if stopped else "the intent does not stand yet")
