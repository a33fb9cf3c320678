"""The processes of our controllers, in whose place stock runs or ran: their host's supervisor knows nothing of them.

In:   a snapshot, a node. Out: whether ours runs there; its end.
Elsewhere: who starts them (supervisor.py). All that stops one blocks, on a thread.
"""

from __future__ import annotations

import time
from typing import Any, Final

from migrator.findings.finding import words_of
from migrator.findings.road import CONTROLLER_NOT_LEFT
from migrator.findings.service import CONTROLLER_NOT_REACHED, STOPPED_ELSEWHERE
from migrator.fleet.actuator import Instruction
from state_machine.children.processes import Launcher
from state_machine.clusters.remote_ports import accepts
from state_machine.rolling.kind import performed
from state_machine.rolling.round import NodeTask
from state_machine.rows.store import Snapshot
from state_machine.times.process_mark import process_mark

LEAVE_S: Final = 60.0
"""A controller of ours that is asked to stop ends within seconds."""


def stop_with_ours(task: NodeTask) -> dict[str, Any]:
    """What runs on this node, ours or stock."""
    stop_ours(task.round.means.launcher, task.round.snapshot, task.node.id)
    stopped = task.node.actuator.stop()
    if not isinstance(stopped, Instruction):
        wait_until_left(task.round.snapshot, task.node.id)
    return performed(stopped)


def stop_ours(launcher: Launcher, snapshot: Snapshot, node: int) -> None:
    """The process of ours in whose place stock will run; it leaves its quorum in order. Raises Z2K-4213."""
    entry = next((each for each in snapshot.inventory.controllers if each.node_id == node), None)
    pid = _pid_of_ours(launcher, snapshot, node)
    if entry is None or pid is None:
        return
    mark = process_mark(pid) or ""
    if not launcher.ask_to_stop(pid, entry):
        return
    ends = time.monotonic() + LEAVE_S
    while launcher.runs(pid, mark):
        if time.monotonic() > ends:
            raise CONTROLLER_NOT_LEFT.error(node=node, pid=pid, seconds=f"{LEAVE_S:g}")
        time.sleep(0.1)


def wait_until_left(snapshot: Snapshot, node: int) -> None:
    """One of ours on another host, which its actuator has stopped: nothing accepts on its control port any more.

    Raises Z2K-4116, and Z2K-4119 where nobody can tell: a file of stock must not be written under a process of
    ours.
    """
    entry = next((each for each in snapshot.inventory.controllers if each.node_id == node), None)
    ends = time.monotonic() + LEAVE_S
    while entry is not None and entry.is_remote:
        try:
            if not accepts(entry.control):
                return
            error = STOPPED_ELSEWHERE.error(nodes=[node])
        except OSError as unknown:
            error = CONTROLLER_NOT_REACHED.error(node=node, reason=words_of(unknown))
        if time.monotonic() > ends:
            raise error
        time.sleep(0.5)


def ours_runs(launcher: Launcher, snapshot: Snapshot, node: int) -> bool:
    look = () if snapshot.observation is None else snapshot.observation.controllers
    elsewhere = {each.node_id for each in look if each.status is not None and each.pid is None}
    return node in elsewhere or _pid_of_ours(launcher, snapshot, node) is not None


def _pid_of_ours(launcher: Launcher, snapshot: Snapshot, node: int) -> int | None:
    """The process of ours that was started for it, or that answers at its control port; None when there is none."""
    known, look = snapshot.processes.get(node), snapshot.observation
    if known is not None and known.pid is not None and launcher.runs(known.pid, known.process_mark or ""):
        return known.pid
    answering = {each.node_id: each for each in (() if look is None else look.controllers)}
    found = answering.get(node)
    return None if found is None or found.status is None else found.pid
