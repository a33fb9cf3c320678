"""Children end when they should, and none outlives its run. Real processes, no Java."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from migrator.findings.finding import FindingError
from migrator.lab.servers import guard
from migrator.lab.servers.processes import Processes
from migrator.lab.servers.waiting import wait_until

STUBBORN = ["sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.1; done"]
FAMILY = ["sh", "-c", "sleep 1000 & sleep 1000 & echo ready; wait"]

RUN_THAT_IS_KILLED = """
import signal, sys
from pathlib import Path
from migrator.lab.servers.processes import Processes
processes = Processes(Path(sys.argv[1]))
family = ["sh", "-c", "sleep 1000 & sleep 1000 & echo ready; wait"]
one, two = processes.start("one", family), processes.start("two", family)
print(one.pid, two.pid, processes._guard.pid, flush=True)
if sys.argv[2] == "forked":
    import os
    if os.fork() == 0:
        print(os.getpid(), flush=True)
        signal.pause()
signal.pause()
"""


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    with Processes(tmp_path) as book:
        yield book


def group_members(leader: int) -> list[int]:
    """Living processes of a group; dead ones that nobody has collected yet do not count."""
    members = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, group = entry.read_text().rpartition(")")[2].split()[:3]
        except OSError:
            continue
        if int(group) == leader and state != "Z":
            members.append(int(entry.parent.name))
    return members


def wait_for_members(leader: int, count: int) -> None:
    def why_not() -> str | None:
        members = group_members(leader)
        return None if len(members) == count else f"group {leader} has members {members}"

    wait_until(why_not, name=f"group {leader}", deadline_s=60)


def wait_for_log(process_log: Path, text: str) -> None:
    wait_until(lambda: None if text in process_log.read_text() else "silent", name=str(process_log), deadline_s=60)


def test_a_child_is_stopped_by_sigterm(processes: Processes) -> None:
    child = processes.start("child", ["sleep", "1000"])
    assert child.alive
    assert (child.directory / "pid").read_text().split()[0] == str(child.pid)
    child.stop()
    assert child.exit_code == -signal.SIGTERM
    assert not (child.directory / "pid").exists()
    assert processes.running == []


def test_a_child_that_ignores_sigterm_is_killed_at_the_deadline(processes: Processes) -> None:
    child = processes.start("stubborn", STUBBORN)
    wait_for_log(child.log, "ready")
    child.stop(deadline_s=0.2)
    assert child.exit_code == -signal.SIGKILL


def test_the_children_of_a_child_end_with_it(processes: Processes) -> None:
    child = processes.start("family", FAMILY)
    wait_for_members(child.pid, 3)
    child.kill()
    wait_for_members(child.pid, 0)


def test_what_a_child_leaves_behind_in_its_group_ends_too(processes: Processes) -> None:
    child = processes.start("parting", ["sh", "-c", "sleep 1000 & exit 3"])
    assert child.wait_for_exit(60)
    assert child.exit_code == 3
    child.stop()
    wait_for_members(child.pid, 0)


def test_a_paused_child_does_nothing_until_it_is_resumed_and_can_be_stopped(processes: Processes) -> None:
    child = processes.start("child", ["sleep", "1000"])
    child.pause()
    wait_until(lambda: None if "T" in state_of(child.pid) else "runs", name="pause", deadline_s=60)
    child.resume()
    wait_until(lambda: None if "S" in state_of(child.pid) else "paused", name="resume", deadline_s=60)
    child.pause()
    child.stop(deadline_s=60)
    assert child.exit_code == -signal.SIGTERM


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_the_log_of_a_second_run_is_read_apart_from_the_first(processes: Processes) -> None:
    first = processes.start("talker", ["echo", "first run"])
    assert first.wait_for_exit(60)
    second = processes.start("talker", ["sh", "-c", "echo second run; echo trouble >&2"])
    assert second.wait_for_exit(60)
    assert second.log_text() == "second run\ntrouble\n"
    assert second.log_tail() == "second run | trouble"
    assert second.log.read_text().startswith("first run\n")


def test_leaving_the_block_kills_everything(tmp_path: Path) -> None:
    with Processes(tmp_path) as processes:
        pids = [processes.start(name, FAMILY).pid for name in ("one", "two")]
    for pid in pids:
        wait_for_members(pid, 0)


@pytest.mark.parametrize("how", ["alone", "forked"])
def test_after_kill_9_of_the_run_no_child_lives(tmp_path: Path, how: str) -> None:
    """ "forked": a forked child of the run keeps the guard's pipe open, as a worker pool would."""
    run = subprocess.Popen(
        [sys.executable, "-c", RUN_THAT_IS_KILLED, str(tmp_path), how], stdout=subprocess.PIPE, text=True
    )
    assert run.stdout is not None
    one, two, guard_pid = (int(pid) for pid in run.stdout.readline().split())
    forked = int(run.stdout.readline()) if how == "forked" else None
    for pid in (one, two):
        wait_for_members(pid, 3)
    run.kill()
    run.wait()
    for pid in (one, two):
        wait_for_members(pid, 0)
    wait_for_members(guard_pid, 0)
    if forked is not None:
        os.kill(forked, signal.SIGKILL)
    run.stdout.close()


def test_after_an_interrupt_no_child_lives(tmp_path: Path) -> None:
    run = subprocess.Popen(
        [sys.executable, "-c", RUN_THAT_IS_KILLED, str(tmp_path), "alone"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert run.stdout is not None
    one, two, _ = (int(pid) for pid in run.stdout.readline().split())
    run.send_signal(signal.SIGINT)
    run.wait()
    for pid in (one, two):
        wait_for_members(pid, 0)
    run.stdout.close()


def test_nothing_is_started_when_the_guard_is_gone(processes: Processes) -> None:
    os.kill(processes._guard.pid, signal.SIGKILL)
    processes._guard.wait()
    with pytest.raises(FindingError) as caught:
        processes.start("child", ["sleep", "1000"])
    assert caught.value.code == "Z2K-6008"
    assert processes.running == []


def test_a_pid_that_now_belongs_to_somebody_else_is_left_alone(processes: Processes) -> None:
    stranger = processes.start("stranger", ["sleep", "1000"])
    assert guard.kill_group(stranger.pid, "1") is False
    assert stranger.alive
    assert guard.kill_group(stranger.pid, stranger.started) is True
