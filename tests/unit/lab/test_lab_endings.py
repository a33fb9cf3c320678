"""What ends a demo, a traffic or a reading from outside, each with the finding that says so; nothing is started."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from migrator.findings.finding import FindingError
from migrator.findings.laboratory import DEMO_NOT_POSSIBLE, DEMO_STOPPED, READER_FAILED, TRAFFIC_FAILED
from migrator.lab.demo.run import BEFORE, LAB, MARKER, Demo, Options, clean, run_demo
from migrator.lab.service import LabService
from migrator.lab.traffic.control import Traffic
from migrator.lab.traffic.proof import prove


class Ended:
    """A process that has come to its end and printed what the test says."""

    def __init__(self, exit_code: int) -> None:
        self.exit_code = exit_code

    def wait_for_exit(self, deadline_s: float) -> None:
        pass

    def kill(self) -> None:
        pass

    def log_tail(self) -> str:
        return "Traceback: it broke"


@pytest.mark.parametrize(
    "changes",
    [{"controllers": 2}, {"brokers": 1}, {"brokers": 10}, {"topics": 2}, {"partitions": 0}],
    ids=str,
)
def test_a_demo_that_cannot_be_played_is_refused_before_anything_is_written(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    with pytest.raises(FindingError) as refused:
        run_demo(replace(Options(directory=tmp_path / "demo"), **changes))
    assert refused.value.code == DEMO_NOT_POSSIBLE.code
    assert not (tmp_path / "demo").exists()


def test_a_demo_never_takes_a_directory_that_holds_something_else(tmp_path: Path) -> None:
    kept = tmp_path / "thesis.txt"
    kept.write_text("of three years")
    with pytest.raises(FindingError) as refused:
        run_demo(Options(directory=tmp_path))
    assert refused.value.code == DEMO_NOT_POSSIBLE.code
    assert kept.read_text() == "of three years"


def test_the_files_of_a_demo_that_failed_are_kept_from_the_next_one(tmp_path: Path) -> None:
    directory = tmp_path / "demo"
    for run in ("first", "second"):
        clean(directory)
        (directory / LAB).mkdir()
        (directory / LAB / "server.log").write_text(run)
    clean(directory)
    assert (directory / BEFORE / LAB / "server.log").read_text() == "second"
    assert not (directory / LAB).exists()
    clean(directory)
    assert [each.name for each in directory.iterdir()] == [MARKER], "a demo that passed has nothing to be kept"


REFUSED = {
    "phase": "READY",
    "version": 3,
    "waiting": "",
    "operations": [{"state": "refused", "operation": "advance", "answer": "no", "verdict": {"holds": True}}],
}
WENT_BACK = {"phase": "ABORTING", "version": 4, "waiting": "a broker left", "operations": []}


@pytest.mark.parametrize(
    ("view", "words"),
    [(REFUSED, "in READY: advance was refused: no"), (WENT_BACK, "in ABORTING: a broker left")],
    ids=["refused", "went back"],
)
def test_a_demo_stops_where_the_migration_does_not_go_on(view: dict[str, Any], words: str) -> None:
    def wait_view(migration: int, why_not: Callable[[dict[str, Any]], str | None], *, deadline_s: float) -> None:
        why_not(view)

    demo = object.__new__(Demo)
    demo.options = Options(directory=Path("unused"))
    demo.migration = 1
    demo.service = SimpleNamespace(  # type: ignore[assignment]
        ask=lambda *_: True, was_closed=LabService.was_closed, wait_view=wait_view
    )
    demo._view = lambda: {"version": 3}  # type: ignore[method-assign]
    with pytest.raises(FindingError) as stopped:
        demo._go_on("DUAL_WRITE", "it is time")
    assert stopped.value.code == DEMO_STOPPED.code
    assert stopped.value.occurrence.values["phase"] == view["phase"]
    assert words.partition(": ")[2] in stopped.value.occurrence.text


def test_a_traffic_that_ends_badly_is_no_proof_of_anything(tmp_path: Path) -> None:
    (tmp_path / "traffic").mkdir()
    traffic = Traffic(SimpleNamespace(directory=tmp_path), "127.0.0.1:1")  # type: ignore[arg-type]
    traffic._process = Ended(3)  # type: ignore[assignment]
    with pytest.raises(FindingError) as failed:
        traffic.stop()
    assert failed.value.code == TRAFFIC_FAILED.code
    assert failed.value.occurrence.values["exit_code"] == 3


@pytest.mark.parametrize("printed", [b"", b'{"cut": '], ids=["nothing", "cut short"])
def test_a_reader_that_prints_no_report_has_read_nothing(tmp_path: Path, printed: bytes) -> None:
    (tmp_path / "reader").mkdir()
    (tmp_path / "reader" / "report.json").write_bytes(printed)
    processes = SimpleNamespace(start=lambda *_, **__: Ended(1))
    laboratory = SimpleNamespace(directory=tmp_path, processes=processes)
    cluster: Any = SimpleNamespace(
        laboratory=laboratory, brokers=[], bootstrap_servers="127.0.0.1:1", zookeeper_connect="127.0.0.1:1"
    )
    with pytest.raises(FindingError) as failed:
        prove(cluster, tmp_path / "ledger")
    assert failed.value.code == READER_FAILED.code
