"""The pipe to the warm audit process, with a small program in the place of Spark at its other end."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from migrator.audit.warm_process import MARK, OOM_SCORE, living
from state_machine.audits.warm_audits import LOG, SCRATCH, WarmAudits
from state_machine.children.commands import CHILDREN_NICE, Result
from tests.unit.state_machine.children.test_children import wait_until

STAND_IN = """
import json, os, signal, subprocess, sys, time
from pathlib import Path
from migrator.audit.warm_process import DATA_BYTES_MAX, answer_audits, run

words = sys.argv[1:]
options = dict(zip(words[1::2], words[2::2]))
home = Path(options["--directory"])
notes = home.parent / "notes"
notes.mkdir(exist_ok=True)
told = notes / "starts"
told.write_text(told.read_text() + "x" if told.exists() else "x")
start = len(told.read_text())

def work(pipe):
    print("a library prints this")
    (home / "spilled").write_text("something")
    below = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    (notes / "below").write_text(f"{os.getpid()} {below.pid}")
    def answer(words):
        what = words[words.index("-z") + 1]
        out = Path(words[words.index("--out") + 1]) if "--out" in words else None
        (notes / f"asked-{what}-{time.monotonic_ns()}").touch()
        if out is not None:
            (out / "look-1").mkdir()
        if what == "dies" or (what == "dies-once" and start == 1):
            print("Z2K-5003 no memory", file=sys.stderr, flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        if what == "raises":
            raise ValueError("a fault of ours")
        if what == "greedy":
            bytearray(DATA_BYTES_MAX + 1)
        if what == "garbage":
            pipe.answers.write(b"Exception in thread main" + bytes([10]))
            pipe.answers.flush()
            time.sleep(600)
        if what == "another":
            pipe.answers.write(b'{"number":7,"exit_code":0,"output":"{}"}' + bytes([10]))
            pipe.answers.flush()
            time.sleep(600)
        if what == "sleeps":
            time.sleep(600)
        if what == "half":
            time.sleep(0.3)
        (notes / f"ended-{what}-{time.monotonic_ns()}").touch()
        score = int(Path("/proc/self/oom_score_adj").read_text())
        return 1, json.dumps({"words": words, "start": start, "nice": os.nice(0), "score": score})
    answer_audits(pipe, answer, idle_s=float(options["--idle"]), between=lambda: None)

run(work, home)
"""


@dataclass
class FreshProcess:
    """`Commands`, of which only the words are kept."""

    runs: list[tuple[str, ...]] = field(default_factory=list)

    async def run(self, *arguments: str, limit_s: float) -> Result:
        self.runs.append(arguments)
        return Result(0, {"fresh": True}, "")


class Stage:
    """One service's directory."""

    def __init__(self, directory: Path, idle_s: float = 600) -> None:
        self.directory = directory
        self.fresh = FreshProcess()
        program = directory / "stand_in.py"
        program.write_text(STAND_IN)
        self.audits = WarmAudits(
            directory,
            master="local[2]",
            idle_s=idle_s,
            commands=self.fresh,
            program=(sys.executable, str(program)),
        )

    async def audit(self, what: str, *more: str, limit_s: float = 60) -> Result:
        words = ("audit", "-z", what, "--engine", "spark", "--master", "local[2]", *more)
        return await self.audits.run(*words, limit_s=limit_s)

    @property
    def notes(self) -> Path:
        return self.directory / "notes"

    def pids(self) -> list[int]:
        return [int(word) for word in (self.notes / "below").read_text().split()]

    def moments(self, word: str) -> list[int]:
        return sorted(int(file.name.rpartition("-")[2]) for file in self.notes.glob(f"{word}-*"))

    def assert_nothing_is_left(self) -> None:
        assert living(str(self.directory / SCRATCH)) == []
        assert not (self.directory / SCRATCH).exists()


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def play(stage: Stage, story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """The story, and the end of the service."""

    async def whole() -> None:
        try:
            await story()
        finally:
            await stage.audits.close()
        stage.assert_nothing_is_left()

    os.environ["PYTHONPATH"] = str(Path(__file__).parents[4])
    asyncio.run(whole())


def test_audits_one_after_the_other_are_answered_by_one_process_of_low_priority(stage: Stage) -> None:
    async def story() -> None:
        first, second = await stage.audit("a"), await stage.audit("b", "--controller", "file")
        assert (first.exit_code, first.words, first.note) == (1, "", None)
        assert (first.document["start"], second.document["start"]) == (1, 1)
        assert first.document["nice"] == max(CHILDREN_NICE, os.nice(0))
        assert first.document["score"] >= OOM_SCORE
        words = ["audit", "-z", "b", "--engine", "spark", "--master", "local[2]", "--controller", "file", "--json"]
        assert second.document["words"] == words
        assert stage.fresh.runs == []
        assert (stage.directory / SCRATCH).stat().st_mode & 0o777 == 0o700

    play(stage, story)


def test_two_audits_at_once_wait_for_each_other(stage: Stage) -> None:
    async def story() -> None:
        await asyncio.gather(stage.audit("half-1"), stage.audit("half-2"), stage.audit("half-3"))
        asked, ended = stage.moments("asked"), stage.moments("ended")
        assert all(end < begin for end, begin in zip(ended, asked[1:], strict=False))
        assert len(ended) == 3

    play(stage, story)


def test_a_process_that_dies_in_an_audit_is_started_again_and_begins_anew(stage: Stage) -> None:
    out = stage.directory / "out"
    out.mkdir()

    async def story() -> None:
        result = await stage.audit("dies-once", "--out", str(out))
        assert (result.document["start"], result.note) == (2, None)
        assert [each.name for each in out.iterdir()] == ["look-1"]
        assert stage.fresh.runs == []

    play(stage, story)


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        ("dies", "Z2K-5003 no memory"),
        ("raises", "ValueError: a fault of ours"),
        ("greedy", "MemoryError"),
        ("garbage", "gave no answer"),
        ("another", "answered request 7 in place of 1"),
    ],
)
def test_an_audit_without_answer_twice_runs_in_a_fresh_process_and_says_so(
    what: str, reason: str, stage: Stage
) -> None:
    out = stage.directory / "out"
    out.mkdir()

    async def story() -> None:
        result = await stage.audit(what, "--out", str(out))
        assert result.document == {"fresh": True}
        assert result.note is not None
        assert result.note.code == "Z2K-4029"
        assert reason in result.note.text
        assert len(stage.moments("asked")) == 2
        assert list(out.iterdir()) == [], "the fresh process finds an empty directory"
        assert len(stage.fresh.runs) == 1
        assert (await stage.audit("a")).note is None, "the next audit tries the warm process again"

    play(stage, story)


def test_a_process_that_was_killed_while_nothing_was_asked_is_no_failure(stage: Stage) -> None:
    async def story() -> None:
        await stage.audit("a")
        os.kill(stage.pids()[0], signal.SIGKILL)
        second = await stage.audit("b")
        assert (second.document["start"], second.note) == (2, None)

    play(stage, story)


def test_without_an_audit_for_a_while_the_process_ends_and_leaves_nothing(tmp_path: Path) -> None:
    """One that ends before the first request has reached it is started again: the starts are counted from there."""
    stage = Stage(tmp_path, idle_s=2)

    async def story() -> None:
        first = await stage.audit("a")
        await asyncio.to_thread(wait_until, lambda: not living(str(tmp_path / SCRATCH)))
        await asyncio.to_thread(wait_until, lambda: not (tmp_path / SCRATCH).exists())
        assert (await stage.audit("b")).document["start"] > first.document["start"]

    play(stage, story)


def test_a_cancelled_audit_ends_the_process_and_one_that_waits_does_not(stage: Stage) -> None:
    async def story() -> None:
        running = asyncio.create_task(stage.audit("sleeps"))
        await asyncio.to_thread(wait_until, lambda: stage.moments("asked"))
        waits, later = asyncio.create_task(stage.audit("a")), asyncio.create_task(stage.audit("b"))
        await asyncio.sleep(0.1)
        before = stage.pids()
        waits.cancel()
        await asyncio.gather(waits, return_exceptions=True)
        assert living(str(stage.directory / SCRATCH)) != []
        assert stage.pids() == before
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert (await later).document["start"] == 2
        assert len(stage.moments("asked")) == 2
        assert not set(before) & set(living(str(stage.directory / SCRATCH)))

    play(stage, story)


def test_an_audit_that_takes_too_long_is_ended_and_not_tried_again(stage: Stage) -> None:
    async def story() -> None:
        await stage.audit("a")
        result = await stage.audit("sleeps", limit_s=1)
        assert (result.exit_code, result.document, result.words) == (-1, None, "it was stopped after 1 s")
        assert stage.fresh.runs == []
        assert (await stage.audit("b")).document["start"] == 2

    play(stage, story)


@pytest.mark.parametrize(
    "words",
    [
        ("check", "-z", "a"),
        ("audit", "-z", "a", "--engine", "quick"),
        ("audit", "-z", "a", "--engine", "spark", "--master", "spark://somewhere:7077"),
        ("audit", "-z", "a", "--engine", "spark", "--master", "local[2]", "--out", "{directory}"),
    ],
    ids=["check", "quick", "another master", "a directory that holds something"],
)
def test_whatever_is_no_spark_audit_of_its_own_runs_in_a_fresh_process(words: tuple[str, ...], stage: Stage) -> None:
    (stage.directory / "kept").touch()

    async def story() -> None:
        given = [word.format(directory=stage.directory) for word in words]
        assert (await stage.audits.run(*given, limit_s=60)).document == {"fresh": True}
        assert not (stage.directory / SCRATCH).exists()
        assert (stage.directory / "kept").exists()

    play(stage, story)


def test_with_an_idle_time_of_zero_there_is_no_process(tmp_path: Path) -> None:
    stage = Stage(tmp_path, idle_s=0)

    async def story() -> None:
        await stage.audits.warm_up()
        assert (await stage.audit("a")).document == {"fresh": True}
        assert not (tmp_path / SCRATCH).exists()

    play(stage, story)


def test_warming_up_does_not_wait_for_the_process(stage: Stage) -> None:
    async def story() -> None:
        await stage.audits.warm_up()
        assert (stage.directory / LOG).stat().st_mode & 0o777 == 0o600
        assert (await stage.audit("a")).document["start"] == 1

    play(stage, story)


@pytest.mark.parametrize(("engine", "starts"), [("quick", False), ("spark", True)])
def test_a_service_starts_the_process_only_for_sparks_sake_and_after_it_serves(
    engine: Any, starts: bool, tmp_path: Path
) -> None:
    """The tests of the API open a service too; none of them is to start Spark."""
    from state_machine.service import open_service  # here, because services of other tests import this module
    from state_machine.settings import ServiceSettings

    service = open_service(ServiceSettings(directory=tmp_path, audit_engine=engine))
    service._audits._program = (sys.executable, "-c", "import time; time.sleep(600)")  # Spark may end before the look
    scratch = tmp_path / SCRATCH
    assert not scratch.exists()

    async def story() -> None:
        await service.warm_up()
        assert bool(living(str(scratch))) == scratch.exists() == starts
        await service.close()
        assert not scratch.exists()

    asyncio.run(story())
    assert living(str(scratch)) == []


SERVICE = """
import asyncio, sys
from pathlib import Path
from tests.unit.state_machine.audits.test_warm_audits import Stage

async def main():
    stage = Stage(Path(sys.argv[1]))
    await stage.audit("a")
    if sys.argv[2] == "busy":
        await stage.audit("sleeps")
    (stage.notes / "ready").touch()
    await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest.mark.parametrize("when", ["idle", "busy"])
def test_kill_9_of_the_service_leaves_nothing(when: str, tmp_path: Path) -> None:
    root = Path(__file__).parents[4]
    service = subprocess.Popen(
        [sys.executable, "-c", SERVICE, str(tmp_path), when], cwd=root, env={**os.environ, "PYTHONPATH": str(root)}
    )
    notes, scratch = tmp_path / "notes", tmp_path / SCRATCH
    wait_until(lambda: (notes / "ready").exists() or list(notes.glob("asked-sleeps-*")))
    assert len(living(str(scratch))) == 2
    service.kill()
    service.wait()
    wait_until(lambda: not living(str(scratch)))
    wait_until(lambda: not scratch.exists())


def test_the_next_service_ends_what_a_killed_process_has_left(stage: Stage) -> None:
    """Process and service were killed at once: nobody was there to end what came of it."""
    scratch = stage.directory / SCRATCH
    scratch.mkdir()
    (scratch / "spilled").touch()
    left = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(600)"], env={**os.environ, MARK: str(scratch)}
    )
    wait_until(lambda: living(str(scratch)) == [left.pid])

    async def story() -> None:
        assert (await stage.audit("a")).document["start"] == 1
        assert left.wait(60) == -signal.SIGKILL

    play(stage, story)
