"""Child processes of the service: commands with a time limit, controllers that outlive it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from state_machine.children.commands import Commands, Result, last_words
from state_machine.children.processes import LOGS_KEPT, ControllerProcesses
from state_machine.clusters.inventory import ControllerEntry
from state_machine.times.process_mark import process_mark

ENTRY = ControllerEntry(3000, "/c.properties", "/data")
PRINTS = "import json, sys; print(json.dumps(sys.argv[1:])); sys.exit(1)"
FAILS = """
import sys
print("Traceback", file=sys.stderr)
print("Z2K-2001 nobody", file=sys.stderr)
print("remedy", file=sys.stderr)
sys.exit(1)
"""
SLEEPS = """
import os, subprocess, sys, time
from pathlib import Path
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
pids = Path({pids!r})
pids.with_suffix(".part").write_text(f"{{os.getpid()}} {{child.pid}}")
pids.with_suffix(".part").rename(pids)
time.sleep(600)
"""


def commands(code: str) -> Commands:
    return Commands((sys.executable, "-c", code))


def test_a_document_counts_whatever_the_exit_code_says() -> None:
    result = asyncio.run(commands(PRINTS).run("audit", "-z", "zk", limit_s=60))
    assert (result.exit_code, result.document) == (1, ["audit", "-z", "zk", "--json"])


def test_a_command_without_a_document_gives_its_finding_as_words() -> None:
    result = asyncio.run(commands(FAILS).run("check", limit_s=60))
    assert (result.document, result.words) == (None, "Z2K-2001 nobody")


def sleeps(pids: Path) -> Commands:
    """A command that never ends, with a child; `pids` appears with both numbers when both run."""
    return commands(SLEEPS.format(pids=str(pids)))


def is_alive(pid: str) -> bool:
    """A zombie that nobody has waited for is dead."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def assert_ended(pids: Path) -> None:
    both = pids.read_text().split()
    assert len(both) == 2
    wait_until(lambda: not any(map(is_alive, both)))


def test_a_command_that_takes_too_long_is_ended_with_all_its_children(tmp_path: Path) -> None:
    """The limit is over once its child runs, by the clock of the loop."""
    pids = tmp_path / "pids"

    async def story() -> Result:
        loop = asyncio.get_running_loop()
        task = asyncio.create_task(sleeps(pids).run("rehearse", limit_s=600))
        await asyncio.to_thread(wait_until, pids.exists)
        loop.time = lambda: time.monotonic() + 600  # type: ignore[method-assign]
        return await task

    assert asyncio.run(story()).words == "it was stopped after 600 s"
    assert_ended(pids)


def test_a_cancelled_command_does_not_go_on(tmp_path: Path) -> None:
    pids = tmp_path / "pids"

    async def story() -> None:
        task = asyncio.create_task(sleeps(pids).run("audit", limit_s=600))
        await asyncio.to_thread(wait_until, pids.exists)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(story())
    assert_ended(pids)


@pytest.mark.parametrize(
    ("text", "words"),
    [("", ""), ("a\nb\n", "b"), ("Z2K-3012 no\nremedy\n", "Z2K-3012 no"), ("x" * 900, "x" * 600)],
)
def test_the_last_words_are_the_finding_if_there_is_one(text: str, words: str) -> None:
    assert last_words(text) == words


def wait_until(true: object) -> None:
    """On a machine that is busy, too."""
    assert callable(true)
    deadline = time.monotonic() + 120
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_controller_runs_in_its_own_session_with_its_own_log(tmp_path: Path) -> None:
    code = "import sys, time; print('Z2K-3012 as told', sys.argv[1:], flush=True); time.sleep(600)"
    processes = ControllerProcesses(tmp_path / "logs", (sys.executable, "-c", code))
    launched = processes.launch("orders", ENTRY)
    assert processes.runs(launched.pid, launched.mark)
    assert os.getsid(launched.pid) == launched.pid
    wait_until(lambda: "as told" in processes.words(launched.log))
    assert "['controller', '/c.properties']" in processes.words(launched.log)
    assert processes.ask_to_stop(launched.pid, ENTRY)
    wait_until(lambda: not processes.runs(launched.pid, launched.mark))


def test_of_each_controller_the_logs_of_its_last_runs_are_kept(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    old = [logs / f"orders-3000-202611{day:02}T000000.log" for day in range(1, 31)]
    others = [logs / "orders-3001-20260101T000000.log", logs / "orders-3000-eu-3000-20260101T000000.log"]
    for each in [*old, *others]:
        each.touch()
    processes = ControllerProcesses(logs, (sys.executable, "-c", "pass"))
    launched = processes.launch("orders", ENTRY)
    assert sorted(logs.iterdir()) == sorted([*old[1 - LOGS_KEPT :], *others, Path(launched.log)])
    wait_until(lambda: not processes.runs(launched.pid, launched.mark))


def test_a_number_that_now_belongs_to_another_process_is_not_ours() -> None:
    processes = ControllerProcesses(Path("/nowhere"))
    mark = process_mark(os.getpid())
    assert mark
    assert processes.runs(os.getpid(), mark)
    assert not processes.runs(os.getpid(), mark + "1")


def test_a_process_that_is_gone_does_not_run() -> None:
    assert process_mark(2**22 + 1) is None
    assert not ControllerProcesses(Path("/nowhere")).ask_to_stop(2**22 + 1, ENTRY)


def test_a_log_that_is_gone_is_told_as_such() -> None:
    assert "cannot be read" in ControllerProcesses(Path("/nowhere")).words("/nowhere/log")


@pytest.mark.parametrize("pid", [-1, 0, 1])
def test_a_number_that_means_many_processes_is_never_used(pid: int) -> None:
    """The number comes from a file in a directory that the caller names."""
    processes = ControllerProcesses(Path("/nowhere"))
    assert not processes.ask_to_stop(pid, ENTRY)
    assert not processes.runs(pid, "")


def a_process(directory: Path, *words: str) -> subprocess.Popen[bytes]:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", *words], cwd=directory)
    wait_until(lambda: b"sleep(600)" in Path(f"/proc/{child.pid}/cmdline").read_bytes())
    return child


def test_only_a_process_that_runs_this_very_file_is_told_to_stop(tmp_path: Path) -> None:
    entry = ControllerEntry(3000, str(tmp_path / "c.properties"), str(tmp_path))
    children = {
        words: a_process(tmp_path, *words)
        for words in [("controller", "c.properties"), ("controller", "other.properties"), ("serve", "c.properties")]
    }
    processes = ControllerProcesses(tmp_path)
    told = {words: processes.ask_to_stop(child.pid, entry) for words, child in children.items()}
    assert children["controller", "c.properties"].wait(60) == -signal.SIGTERM
    others = [child for words, child in children.items() if not told[words]]
    assert [child.poll() for child in others] == [None, None]
    for child in others:
        child.kill()
        child.wait()
