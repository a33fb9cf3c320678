"""A quorum of which one is stopped for ten seconds, in any state of its driver or before any of its effects."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from migrator.control_api.operations import KEPT_IN, DriverOperation
from migrator.findings.finding import FindingError
from migrator.lab.cluster import LabCluster
from migrator.lab.ours import OurController
from tests.e2e.quorums import leading, ruling, wait_ruling
from tests.e2e.support import spoil, wait_for, wait_zookeeper_rules

PAUSE_S = 10.0
"""Longer than any election, shorter than a session of ZooKeeper: the paused one's writes would still arrive."""

DEEDS = {"zk.takeover", "copy.committed", "brokers.updated", "dual_write.entered", "zk.aborted", "zk.rolled_back"}
"""What a driver logs after something of it was accepted."""

REST = {"IDLE", "RETIRED"}
"""The states of a driver that does not lead, or never will again."""


class Quorum:
    """Three voters, of which one is paused before a given effect."""

    def __init__(self, cluster: LabCluster, ours: list[OurController], plan: Path) -> None:
        self.cluster = cluster
        self.ours = ours
        self._plan = plan
        self._taken = plan.with_suffix(".taken")
        for each in ours:
            spoil(each, plan, plan=str(plan))

    def awake(self) -> list[OurController]:
        return [each for each in self.ours if each.is_running and not stopped(each)]

    def leader(self) -> OurController:
        """Who leads, as those see it who are not paused; never the paused one."""
        found: list[OurController] = []

        def why_not() -> str | None:
            awake = self.awake()
            known = leading(awake)
            found[:] = [each for each in awake if each.spec.node_id == known]
            return None if found else f"the leader is {known}"

        wait_for(why_not, "somebody leads")
        return found[0]

    def claim(self) -> list[bytes | None]:
        return [self.cluster.zk.read(path) for path in ("/controller", "/controller_epoch")]

    def pause_in(self, state: str) -> OurController:
        """Pause the leader while its driver rests in this state."""
        found: list[OurController] = []

        def why_not() -> str | None:
            found[:] = [self.leader()]
            now = state_of(found[0])
            return None if now == state else now

        wait_for(why_not, f"the leader is {state}")
        pause(found[0])
        return found[0]

    def pause_before(self, effect: str, cause: Callable[[], object]) -> OurController:
        """Whoever comes to the effect stands still before it, as a process, and goes right on when it is resumed.

        cause: brings somebody to it, and is called until somebody has come: an election may undo what it did before.
        """
        paused = self.stall_before(effect, cause)
        pause(paused)
        self._plan.with_suffix(".go").touch()
        return paused

    def stall_before(self, effect: str, cause: Callable[[], object]) -> OurController:
        """Whoever comes to the effect waits before it, and leads on: to be killed there. cause: as of pause_before."""
        self._plan.with_suffix(".go").unlink(missing_ok=True)
        self._put_plan(effect)
        found: list[OurController] = []

        def why_not() -> str | None:
            found[:] = self.taker()
            if found and not found[0].is_running:  # the cause was its end
                self._put_plan(effect)
            elif not found:
                cause()
            return None if found and found[0].is_running else "nobody yet"

        wait_for(why_not, f"somebody comes to {effect!r}")
        self._taken.unlink()
        return found[0]

    def taker(self) -> list[OurController]:
        """Who came to the effect of the plan; nobody while it lies there."""
        if not self._taken.exists():
            return []
        name = self._taken.read_text()
        return [each for each in self.ours if str(each.properties_file) == name]

    def _put_plan(self, effect: str) -> None:
        """At once and whole, for controllers read it at any moment."""
        self._taken.unlink(missing_ok=True)
        new = self._plan.with_suffix(".new")
        new.write_text(effect)
        new.rename(self._plan)

    def ask_for(self, operation: DriverOperation) -> None:
        """Ask whoever leads and has not accepted it: an operation that has not begun is dropped by an election."""
        for each in self.awake():
            try:
                driver = each.status()["driver"]
                if driver["state"] in KEPT_IN[operation] and operation not in driver["operations"]:
                    each.ask(operation)
            except (OSError, ValueError, FindingError):
                continue  # it is starting, or leads no more

    def ask_for_takeover(self) -> None:
        self.ask_for(DriverOperation.TAKE_OVER)

    def ask_for_rollback(self) -> None:
        self.ask_for(DriverOperation.ROLL_BACK)

    def kill_leader(self) -> None:
        """Whoever is in dual-write; whom this killed before, when another one led already, runs again first.

        A leader that waits before it enters dual-write is in that state already: it may be killed as it comes there.
        """
        leader = ruling(self.awake())
        if leader is not None:
            self.start_killed()
            if not self.taker():
                leader.kill()

    def start_killed(self) -> None:
        for each in self.ours:
            if not each.is_running:
                each.start()

    def nothing_of_it_is_accepted(self, paused: OurController, others: Callable[[], object]) -> None:
        """others: waits until the other two have come to rest."""
        stopped = time.monotonic()
        others()
        time.sleep(max(0.0, PAUSE_S - (time.monotonic() - stopped)))
        before, seen = self.claim(), len(paused.events())
        paused.process.resume()

        def why_not() -> str | None:
            """It may be elected again at once, so that its log alone tells."""
            now = state_of(paused)
            left = any(event["to"] in REST for event in moves(paused.events()[seen:]))
            return None if left or now in REST or now == "ended" else now

        wait_for(why_not, "the paused one stands back")
        held, events = self.claim(), paused.events()[seen:]
        elected = next((event for event in moves(events) if event["from"] in REST), None)
        assert deeds(events if elected is None else events[: events.index(elected)]) == []
        anothers = self.is_later(before, held) and (elected is not None or claimant(held) != paused.spec.node_id)
        assert held == before or anothers, f"{before} became {held}"

    def is_later(self, before: list[bytes | None], held: list[bytes | None]) -> bool:
        """A claim of a later epoch: of somebody who was elected meanwhile."""
        was, now = (json.loads(each[0] or b"{}") for each in (before, held))
        return bool(now.get("kraftControllerEpoch", -1) > was.get("kraftControllerEpoch", -1))

    def wait_held(self) -> None:
        def why_not() -> str | None:
            states = [each.state() for each in self.awake()]
            return None if "ABORTED" in states else str(states)

        wait_for(why_not, "another one holds")
        wait_zookeeper_rules(self.cluster)

    def wait_ruling(self) -> None:
        wait_ruling(self.awake())

    def wait_others_retired(self) -> None:
        """The next leader finds a ZooKeeper broker in charge, and the log is retired."""

        def why_not() -> str | None:
            states = [state_of(each) for each in self.ours if not each.is_running or not stopped(each)]
            return None if set(states) <= {"RETIRED", "ended"} else str(states)

        wait_for(why_not, "the others are retired")
        wait_zookeeper_rules(self.cluster)


def pause(controller: OurController) -> None:
    controller.process.pause()
    wait_for(lambda: None if stopped(controller) else "it still runs", "the process stands still")


def stopped(controller: OurController) -> bool:
    """Whether the process is stopped by a signal, as the kernel tells."""
    stat = Path(f"/proc/{controller.process.pid}/stat").read_text()
    return stat.rpartition(")")[2].split()[0] == "T"


def state_of(controller: OurController) -> str:
    try:
        return controller.state()
    except OSError:
        return "starting" if controller.is_running else "ended"


def claimant(claim: list[bytes | None]) -> int | None:
    """Whose `/controller` it is."""
    found = json.loads(claim[0] or b"{}").get("brokerid")
    return None if found is None else int(found)


def moves(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those of the driver, from one state to another."""
    return [event for event in events if event.get("event") == "driver.state"]


def deeds(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [event for event in events if event.get("event") in DEEDS]


def ready_for_takeover(quorum: Quorum) -> None:
    """Somebody leads, and the gate would open."""

    def why_not() -> str | None:
        reasons = {each.state(): str(each.status()["driver"]["reason"]) for each in quorum.awake()}
        if "ABORTED" in reasons:
            return None
        return None if "zk2kraft advance" in reasons.get("WAIT_BROKERS", "") else str(reasons)

    wait_for(why_not, "the takeover is paused by nothing but the gate")
