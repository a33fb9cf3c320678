"""Stock controllers are stopped with the leader last; a dead host is left out by name, and no majority is."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from migrator.findings.finding import FindingError
from migrator.fleet.actuator import Done, Instruction, Performed, ProcessState, ProcessStatus
from state_machine.rollback import stock_end
from state_machine.rollback.stock_end import stop_controllers


class Host:
    """Of one controller. obeys: a stop ends its process."""

    def __init__(self, stopped: list[int], node: int, *, runs: bool = True, obeys: bool = True) -> None:
        self._stopped, self._node, self._runs, self._obeys = stopped, node, runs, obeys

    def status(self) -> ProcessStatus:
        return ProcessStatus(ProcessState.RUNNING if self._runs else ProcessState.STOPPED)

    def stop(self) -> Performed:
        self._stopped.append(self._node)
        self._runs = self._runs and not self._obeys
        return Done()


def a_fleet(hosts: dict[int, Any]) -> Any:
    nodes = [SimpleNamespace(id=node, name=f"controller {node}", actuator=each) for node, each in hosts.items()]
    return SimpleNamespace(of=lambda role: tuple(nodes))


def test_the_leader_is_stopped_last_and_who_has_ended_stays_so() -> None:
    stopped: list[int] = []
    fleet = a_fleet({each: Host(stopped, each, runs=each != 3001) for each in (3000, 3001, 3002)})
    assert stop_controllers(fleet, 3000) == ""
    assert stopped == [3001, 3002, 3000], "one that is down is kept from being started"


def test_nothing_goes_on_before_a_host_says_that_it_has_ended() -> None:
    stopped: list[int] = []
    fleet = a_fleet({each: Host(stopped, each, obeys=each != 3001) for each in (3000, 3001, 3002)})
    with pytest.raises(FindingError, match="does not say that it has ended"):
        stop_controllers(fleet, 3002)
    assert stopped == [3000, 3001]


def test_a_minority_may_be_left_out_and_no_more() -> None:
    stopped: list[int] = []
    fleet = a_fleet({each: Host(stopped, each) for each in (3000, 3001, 3002)})
    with pytest.raises(FindingError, match="could lead"):
        stop_controllers(fleet, 3000, {3001, 3002})
    assert stopped == []
    assert stop_controllers(fleet, 3000, {3001}) == ""
    assert stopped == [3002, 3000]


def test_a_person_is_told_what_to_stop() -> None:
    asked = SimpleNamespace(
        status=lambda: ProcessStatus(ProcessState.NOT_READ), stop=lambda: Instruction("On c1: stop kafka.service")
    )
    assert stop_controllers(a_fleet({3000: asked}), None) == (
        "a person has to act on controller 3000: On c1: stop kafka.service"
    )


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is mirrored here."""
    monkeypatch.setattr(stock_end, "MIRRORS_S", 0.0)
