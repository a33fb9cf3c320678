"""What the demo waits for before it goes on."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from api.commands import laboratory
from migrator.findings.finding import FindingError
from migrator.findings.laboratory import DEMO_NOT_POSSIBLE, TOOL_FAILED
from migrator.findings.service import GATE_CLOSED
from migrator.lab.demo.full import FullDemo
from migrator.lab.demo.progress import ProgressReporter
from migrator.lab.demo.rollback_from import RollbackFromDemo
from migrator.lab.demo.run import Demo, unconfirmed
from migrator.lab.service import LabService
from migrator.lab.traffic.control import LEDGER
from migrator.lab.traffic.ledger import NO_TRANSACTION, Acknowledged, LedgerWriter


@pytest.mark.parametrize(
    ("states", "waits"),
    [([], True), (["asked"], True), (["running"], True), (["done"], False), (["failed"], False), (["stopped"], False)],
)
def test_the_takeover_waits_for_the_confirmation_of_the_rehearsal_to_end(states: list[str], waits: bool) -> None:
    """Cut off by the takeover it has no result, and the demo was not passed for it."""
    audits: list[dict[str, Any]] = [{"purpose": "rehearsal", "state": "done"}]
    audits += [{"purpose": "confirmation", "state": each} for each in states]
    assert (unconfirmed({"audits": audits}) is not None) == waits


class _Built:
    """What `FullDemo` needs of its parts to end its first stage."""

    def __init__(self, ledger: Path) -> None:
        self.ledger = ledger


def test_the_start_of_the_cluster_is_no_stall_of_the_first_stage(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The demo told of a stall of as many seconds as ZooKeeper and brokers took to start."""
    clock = [1_000.0]
    monkeypatch.setattr(time, "time", lambda: clock[0])

    def build(_: Demo) -> None:
        clock[0] += 16.0  # traffic flows from then on

    monkeypatch.setattr(Demo, "_build", build)
    writer = LedgerWriter(tmp_path / LEDGER)
    for tenth in range(101):
        at_us = 1_016_000_000 + tenth * 100_000
        writer.write(Acknowledged("demo-00", 0, tenth, "key", tenth, NO_TRANSACTION, at_us - 5_000, at_us))
    writer.close()
    demo = FullDemo.__new__(FullDemo)
    demo.stages = []
    demo.progress = ProgressReporter()
    demo.traffic = _Built(tmp_path / LEDGER)  # type: ignore[assignment]
    monkeypatch.setattr(FullDemo, "_counters", lambda _: "")
    demo._build()
    clock[0] += 10.0
    demo._next_stage("brokers to KRaft")
    (stage,) = demo.stages
    assert (stage.name, stage.seconds, stage.longest_stall_ms) == ("to dual-write", 10.0, 100.0)


@pytest.mark.parametrize(("nodes", "half"), [([0, 1, 2], 1), ([3000, 3001, 3002, 3003, 3004], 2), ([0, 1], 1)])
def test_a_rollback_from_half_way_pauses_while_the_last_of_that_half_starts(
    monkeypatch: pytest.MonkeyPatch, nodes: list[int], half: int
) -> None:
    """A pause that comes later would let the next one begin."""
    paused: list[str] = []
    started: list[int] = []
    demo = RollbackFromDemo.__new__(RollbackFromDemo)
    demo.migration = 1
    demo.fleet = SimpleNamespace(after_act=None)  # type: ignore[assignment]
    demo.service = SimpleNamespace(  # type: ignore[assignment]
        wait_gate=lambda migration, phase: {},
        operation=lambda migration, word, reason: paused.append(f"{word} after {len(started)}"),
    )
    monkeypatch.setattr(RollbackFromDemo, "_next_stage", lambda _, name: None)
    monkeypatch.setattr(RollbackFromDemo, "_go_on", lambda _, phase, reason: None)

    def rolled(_: RollbackFromDemo, roll: str, count: int, deadline_s: float) -> None:
        assert demo.fleet is not None
        assert demo.fleet.after_act is not None
        assert count == half
        for node in nodes:
            demo.fleet.after_act("stop", node)
            started.append(node)
            demo.fleet.after_act("start", node)
            demo.fleet.after_act("start", node)  # one that was repeated after a death of the service

    monkeypatch.setattr(RollbackFromDemo, "_some_rolled", rolled)
    demo._half("ROLLING_BROKERS", "kraft", nodes)
    assert paused == [f"pause after {half}"]
    assert demo.fleet is not None
    assert demo.fleet.after_act is None


def test_a_point_that_the_road_does_not_have_is_refused_with_those_that_it_has() -> None:
    with pytest.raises(FindingError, match="FINALIZING is not one of DUAL_WRITE, ROLLING_BROKERS_HALF") as caught:
        laboratory.demo(rollback_from="FINALIZING")
    assert caught.value.code == DEMO_NOT_POSSIBLE.code


class AskedTwice(LabService):
    """A service whose gate is closed at the first request, and again when the second one is carried out."""

    def __init__(self) -> None:
        self.asked = 0
        self.views = 0

    def operation(self, migration: int, word: str, to: str | None = None, *_: Any, **__: Any) -> dict[str, Any]:
        self.asked += 1
        if self.asked == 1:
            raise TOOL_FAILED.error(tool="service", exit_code=409, output=f"{GATE_CLOSED.code} voter 3001 is behind")
        return {}

    def view(self, migration: int) -> dict[str, Any]:
        self.views += 1
        refused = {"operation": "advance", "state": "refused", "answer": "", "verdict": {"holds": False}}
        operations = [refused] if self.asked == 2 else []
        phase = "QUORUM" if self.asked == 3 else "PREFLIGHT"
        return {"version": 1, "phase": phase, "waiting": "", "operations": operations, "dual_write": None}

    def wait_view(self, migration: int, why_not: Callable[..., str | None], *, deadline_s: float) -> dict[str, Any]:
        while why_not(view := self.view(migration)) is not None:
            assert self.views < 20
        return view


def test_a_step_whose_gate_was_closed_for_a_moment_is_asked_for_again() -> None:
    """A voter was one record behind when the step was carried out, and the demo stopped."""
    demo = Demo.__new__(Demo)
    demo.migration = 1
    demo.options = SimpleNamespace(step=False)  # type: ignore[assignment]
    demo.service = AskedTwice()
    demo._go_on("QUORUM", "nothing stands in the way")
    assert demo.service.asked == 3


def test_a_step_that_is_refused_for_another_reason_stops_the_demo() -> None:
    class Refusing(AskedTwice):
        def operation(self, *_: Any, **__: Any) -> dict[str, Any]:
            raise TOOL_FAILED.error(tool="service", exit_code=409, output="Z2K-4006 the version moved")

    demo = Demo.__new__(Demo)
    demo.migration = 1
    demo.options = SimpleNamespace(step=False)  # type: ignore[assignment]
    demo.service = Refusing()
    with pytest.raises(FindingError, match="Z2K-4006"):
        demo._go_on("QUORUM", "nothing stands in the way")
