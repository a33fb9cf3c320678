"""Every call of the real actuator, with the faults of a run and what must hold of files and nodes around each.

In:   hosts, links, a plan. Out: `Calls`: counts, does what the plan says, and notes what was violated.
Elsewhere: drawing faults (faults.py), what must hold at the end of a run (run.py).
Rules: the commands are the template's own, over ssh. Calls on one host come one after the other, so that a fault meets
the call that it is for. A life of the service that was killed does nothing any more.
"""

from __future__ import annotations

import hashlib
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from migrator.commands.bounded import Output
from migrator.fleet.exec_actuator import CommandActuator
from migrator.fleet.files import KEPT
from tests.estate.faults import LASTING, Effect, Fault, Plan
from tests.estate.hosts import Host
from tests.estate.links import Cut, Links

LIFE: Final = "life"
"""Among the settings of an inventory: the life of the service whose actuators it makes."""
REAL_RUN: Final = CommandActuator._run


class LifeEnded(BaseException):
    """The service was killed: nothing of this life goes on. No `except Exception` takes it for something else."""


@dataclass(slots=True)
class Calls:
    """kill: ends the present life of the service. stops_ok: why a process may not be stopped now; empty when it may."""

    hosts: dict[int, Host]
    links: Links
    plan: Plan
    kill: Callable[[], None]
    why_not_stop: Callable[[int], str]
    clock: Callable[[float], None]
    known_hosts: Callable[[Host, bool], None]
    connect_anew: Callable[[Host], None]
    life: int = 0
    counted: Counter[tuple[int, str]] = field(default_factory=Counter)
    reached: list[Fault] = field(default_factory=list)
    standing: dict[Fault, float] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)
    trace: list[str] = field(default_factory=list)
    stopped: set[int] = field(default_factory=set)
    """Nodes whose process our stop ended; until our start."""
    database_back: bool = False
    aloud: bool = False
    _files: dict[Path, str] = field(default_factory=dict)
    _sent: set[str] = field(default_factory=set)
    _locks: dict[str, threading.Lock] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._locks = {each.name: threading.Lock() for each in self.hosts.values()}

    @property
    def copies_wanted(self) -> bool:
        """A fault that puts an earlier database back may come."""
        return any(each.effect is Effect.DATABASE_BACK and each not in self.reached for each in self.plan.faults)

    # --- around a call -------------------------------------------------------------------------------------

    def perform(self, actuator: CommandActuator, name: str, *, stdin: bytes = b"", **more: str) -> Output:
        """In place of `CommandActuator._run`, which it calls."""
        host = self.hosts[actuator.node]
        with self._locks[host.name]:
            self._alive(actuator)
            self.counted[actuator.node, name] += 1
            fault = self._fault_of(actuator.node, name)
            cut = self._begin(host, fault)
            running = name == "stop" and host.runs()
            objection = self.why_not_stop(actuator.node) if running else ""
            said = ""
            try:
                answer = REAL_RUN(actuator, name, stdin=stdin, **more)
            except Exception as error:
                said = f": {error}"
                raise
            finally:
                if cut is not None and not cut.happened:
                    link = self.links.by_name[host.name]
                    self.say(f"no more than {link.bytes_to_host} and {link.bytes_from_host} bytes went there and back")
                    cut.happened = fault is not None and fault.effect is not Effect.DROPPED
                    cut.then()
                self._end(host, fault, cut)
                self._note(f"{name} {more.get('path', '')} node {actuator.node}{said}")
                if running and not host.runs():
                    self.stopped.add(actuator.node)
                if name == "start" and not said:
                    self.stopped.discard(actuator.node)
                if running and not host.runs() and objection:
                    self.violations.append(f"node {actuator.node} was stopped by us while {objection}")
                self._compare(host, more.get("path", "") if name == "write" else "", stdin)
            self._alive(actuator)
            return answer

    def _alive(self, actuator: CommandActuator) -> None:
        if actuator.values.get(LIFE) != str(self.life):
            raise LifeEnded

    def _fault_of(self, node: int, act: str) -> Fault | None:
        number = self.counted[node, act]
        found = [each for each in self.plan.faults if (each.node, each.act, each.nth) == (node, act, number)]
        return found[0] if found and found[0] not in self.reached else None

    def _begin(self, host: Host, fault: Fault | None) -> Cut | None:
        if fault is None:
            return None
        self.reached.append(fault)
        self._note(f"** {fault}")
        cut = self._cut_of(host, fault)
        self.connect_anew(host)
        self.links.by_name[host.name].cut = cut
        return cut

    def _cut_of(self, host: Host, fault: Fault) -> Cut | None:
        cut = Cut(fault.to_host, fault.after_bytes)
        match fault.effect:
            case Effect.DROPPED:
                return cut
            case Effect.REFUSED:
                cut.refuses = True
            case Effect.HANGS:
                cut.hangs = True
            case Effect.FOREIGN_KEY:
                self.known_hosts(host, False)
                return None
            case Effect.DISK_FULL:
                host.fill_disk()
                return None
            case Effect.HOST_CLOCK:
                host.skew(86_400 if fault.to_host else -86_400)
                return None
            case Effect.LINK_DOWN:
                cut.then = lambda: self.unplug(host)
            case Effect.POWER_CUT:
                cut.then = lambda: self._cut_power(host)
            case Effect.CRASHED:
                cut.resets, cut.then = False, lambda: _crash(host)
            case Effect.SERVICE_KILLED:
                cut.then = self.kill
            case Effect.DATABASE_BACK:
                cut.then = self._kill_and_lose
            case Effect.CLOCK_BACK:
                cut.resets, cut.then = False, lambda: self.clock(-3600.0)
            case Effect.CLOCK_FORWARD:
                cut.resets, cut.then = False, lambda: self.clock(3600.0)
        if fault.after_bytes >= 1 << 30:
            cut.resets = False  # once the call has ended
        return cut

    def _cut_power(self, host: Host) -> None:
        host.cut_power()
        self.links.by_name[host.name].drop_all()

    def unplug(self, host: Host) -> None:
        """On the links' thread."""
        host.link(False)
        self.links.by_name[host.name].drop_all()

    def _kill_and_lose(self) -> None:
        self.database_back = True
        self.kill()

    def _end(self, host: Host, fault: Fault | None, cut: Cut | None) -> None:
        self.links.by_name[host.name].cut = None
        if fault is not None and fault.effect in LASTING and (cut is None or cut.happened):
            self.standing[fault] = fault.lasts_s

    # --- mending -------------------------------------------------------------------------------------------

    def mend(self, seconds: float, everything: bool = False) -> None:
        """Time went by. everything: the service asked for somebody, who looks at every host."""
        for fault in list(self.standing):
            self.standing[fault] -= seconds
            if self.standing[fault] <= 0 or everything:
                del self.standing[fault]
                self._mend(fault)

    def _mend(self, fault: Fault) -> None:
        host = self.hosts[fault.node]
        self._note(f"-- mended: {fault.effect} of node {fault.node}")
        match fault.effect:
            case Effect.FOREIGN_KEY:
                self.known_hosts(host, True)
            case Effect.DISK_FULL:
                host.free_disk()
            case Effect.LINK_DOWN:
                host.link(True)
            case Effect.POWER_CUT if not host.on:
                host.boot()
            case _:
                pass

    # --- what must hold ------------------------------------------------------------------------------------

    def remember_files(self) -> None:
        """As hosts have them before the run."""
        self._files = {each.properties: _checksum(each.properties) for each in self.hosts.values()}

    def changed_by_hand(self, file: Path) -> None:
        self._files[file] = _checksum(file)

    def _compare(self, host: Host, path: str, content: bytes) -> None:
        """A file is what it was, or all of what was just sent; a kept one is what its name says."""
        for kept in (*host.properties.parent.glob(f"*{KEPT}*"), *host.data.glob(f"*{KEPT}*")):
            digits = kept.name.rpartition(KEPT)[2]
            if not digits.startswith("new.") and not _checksum(kept).startswith(digits):
                self.violations.append(f"{kept} is not the file that was kept")
        file = host.properties
        if path == str(file):
            self._sent.add(hashlib.sha256(content).hexdigest())
        before, now = self._files[file], _checksum(file)
        if now == before:
            return
        if now in self._sent:  # also by a call whose connection was lost before the host had done it
            self._files[file] = now
            return
        size = file.stat().st_size if file.exists() else -1
        self.violations.append(f"{file} has {size} bytes that are neither the old nor the new file")
        self._files[file] = now

    def _note(self, text: str) -> None:
        self.say(f"life {self.life}  {text}")

    def say(self, text: str) -> None:
        """Into the trace of this run."""
        self.trace.append(text[:400])
        if self.aloud:
            print(f"    {text[:400]}", flush=True)


def _crash(host: Host) -> None:
    if host.on and host.runs():
        host.kill_process()
        host.systemctl("start")


def _checksum(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest() if file.exists() else ""


@contextmanager
def in_place(calls: Calls) -> Iterator[None]:
    """The service's actuators go through `calls`."""

    def perform(actuator: CommandActuator, name: str, *, stdin: bytes = b"", **more: str) -> Output:
        return calls.perform(actuator, name, stdin=stdin, **more)

    actuators: Any = CommandActuator
    actuators._run = perform
    try:
        yield
    finally:
        actuators._run = REAL_RUN
