"""A wait has a name, a reason and an end."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest

from migrator.findings.finding import FindingError
from migrator.lab.servers import waiting
from migrator.lab.servers.waiting import wait_until


@dataclass
class Ended:
    alive: bool = False
    log: Path = Path("/lab/broker-1/server.log")

    def log_tail(self) -> str:
        return "Address already in use"


def test_a_wait_ends_when_there_is_no_reason_left() -> None:
    reasons = iter(["port closed", "no znode", None])
    assert wait_until(lambda: next(reasons), name="broker 1", deadline_s=60) < 60


def test_a_wait_says_what_it_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "REMIND_EVERY_S", 0.0)
    monkeypatch.setattr(waiting, "time", SimpleNamespace(monotonic=lambda: 100.0, sleep=lambda seconds: None))
    said: list[str] = []
    reasons = iter(["not in /brokers/ids/1", None])
    wait_until(lambda: next(reasons), name="broker 1", deadline_s=5, say=said.append)
    assert said == ["waiting: broker 1: not in /brokers/ids/1 (0 s)"]


@pytest.mark.parametrize(("costs_s", "pause_s"), [(0.0, 0.02), (0.005, 0.02), (0.03, 0.12), (3.0, 0.5)])
def test_a_look_that_costs_much_is_taken_less_often(
    monkeypatch: pytest.MonkeyPatch, costs_s: float, pause_s: float
) -> None:
    clock, pauses = [100.0], []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        clock[0] += seconds

    def look() -> str | None:
        clock[0] += costs_s
        return None if len(pauses) == 3 else "not yet"

    monkeypatch.setattr(waiting, "time", SimpleNamespace(monotonic=lambda: clock[0], sleep=sleep))
    waited = wait_until(look, name="replicas", deadline_s=60, poll_every_s=0.02)
    assert pauses == pytest.approx([pause_s] * 3)
    assert waited == pytest.approx(3 * pause_s + 4 * costs_s)


def test_a_wait_that_is_over_names_the_last_reason_and_the_log() -> None:
    with pytest.raises(FindingError) as caught:
        wait_until(lambda: "no znode", name="broker 1", deadline_s=0, process=Ended(alive=True))
    assert caught.value.code == "Z2K-6003"
    assert "no znode" in str(caught.value)
    assert "/lab/broker-1/server.log" in str(caught.value)


def test_a_wait_for_a_process_that_ended_fails_at_once_with_its_last_words() -> None:
    with pytest.raises(FindingError, match="Address already in use") as caught:
        wait_until(lambda: "port closed", name="broker 1", deadline_s=3600, process=Ended())
    assert caught.value.code == "Z2K-6003"
