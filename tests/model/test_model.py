"""Every order of events of a small quorum: Spin tries them all on docs/model/quorum.pml.

A model that was gone through whole is not gone through again until it changes (checked.py): a few cases then show that
the checker still works. `make model` does all of them.
R-595-05, R-595-06, R-595-07. Three things are shown for each set of bounds that is used: what must hold does, a model
with a deliberate bug breaks it, and the states that make it interesting are reached.
Elsewhere: the real core in bad weather (tests/sim); what the model leaves out (docs/model/README.md).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.model.checked import MODEL, all_cases

MEMORY_MAX_MB = 4_000
SECONDS_MAX = 800
DEPTH_MAX = 200_000


@dataclass(frozen=True)
class Verdict:
    errors: int
    states: int
    trail: bool
    text: str


THREE_EPOCHS = ("EPOCHS=3", "LENGTH=3", "RECORDS=0", "CRASHES=1")
FOUR_EPOCHS = ("EPOCHS=4", "LENGTH=2", "RECORDS=0", "CRASHES=0")
TWO_CRASHES = ("EPOCHS=2", "LENGTH=3", "RECORDS=1", "CRASHES=2")
ONE_CRASH = ("EPOCHS=2", "LENGTH=3", "RECORDS=1", "CRASHES=1")
LOST_AND_LATE = ("LIVE", "EPOCHS=6", "LENGTH=6", "RECORDS=1", "CRASHES=1", "LOSSES=1", "LATE=1", "EARLY=0")
TOO_EARLY = ("LIVE", "EPOCHS=6", "LENGTH=6", "RECORDS=1", "CRASHES=1", "LOSSES=0", "LATE=0", "EARLY=1")

HOLDS = (
    (THREE_EPOCHS, 3_000_000),
    (FOUR_EPOCHS, 3_500_000),
    (TWO_CRASHES, 2_000_000),
    (LOST_AND_LATE, 500_000),
    (TOO_EARLY, 20_000),
)
"""Bounds, and how many states there must be at least: a model that does nothing has few."""

BUGS = (
    ("COUNT_OLD_EPOCHS", FOUR_EPOCHS, "assertion violated"),
    ("FORGET_VOTE", TWO_CRASHES, "assertion violated (led_by["),
    ("ACKNOWLEDGE_EARLY", TWO_CRASHES, "assertion violated"),
    ("NO_TRUNCATION", LOST_AND_LATE, "acceptance cycle"),
    ("NO_LEADER_CHANGE", LOST_AND_LATE, "acceptance cycle"),
)

REACHED = (
    ("REACH_TRUNCATE", THREE_EPOCHS, "(epoch["),
    ("REACH_COMMIT", THREE_EPOCHS, "(crashes=="),
    ("REACH_INHERIT", THREE_EPOCHS, "(commits>0)"),
    ("REACH_LOSS", ONE_CRASH, "==end["),
    ("REACH_LATE", ("EPOCHS=3", "LENGTH=3", "RECORDS=1", "CRASHES=1"), ">=fetched["),
)
"""Assertions that say of an interesting state that it is never reached, and how the broken one reads."""


QUICK = (LOST_AND_LATE, ONE_CRASH)
"""Bounds of the cases that are always run."""


def chosen(cases: tuple[Any, ...]) -> list[Any]:
    """Every case has its bounds in one of its fields."""
    return [case for case in cases if all_cases() or any(field in QUICK for field in case)]


def name_of(each: Any) -> str:
    """Only the name of a bug or state is upper case."""
    return str(each) if isinstance(each, str) and each.isupper() else ""


@pytest.fixture(autouse=True)
def _tools() -> None:
    missing = [tool for tool in ("spin", "gcc") if shutil.which(tool) is None]
    if missing:
        reason = f"{' and '.join(missing)} missing: apt-get install -y --no-install-recommends spin gcc libc6-dev"
        if os.environ.get("CI") == "true":
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)


def check(directory: Path, *defines: str) -> Verdict:
    """Spin writes a checker in C, which tries every order; with LIVE it looks for endless and for stuck runs."""
    is_live = "LIVE" in defines
    began = time.monotonic()
    run(directory, "spin", "-a", *(f"-D{each}" for each in defines), str(MODEL))
    kind = [] if is_live else ["-DSAFETY"]
    run(directory, "gcc", "-O1", "-w", f"-DMEMLIM={MEMORY_MAX_MB}", *kind, "-o", "pan", "pan.c")
    text = run(directory, "./pan", f"-m{DEPTH_MAX}", *(["-a"] if is_live else []))
    errors, states = re.search(r"errors: (\d+)", text), re.search(r"(\d+) states, stored", text)
    memory = re.search(r"([\d.]+)\s+total actual memory", text)
    assert errors is not None, text
    assert states is not None, text
    assert memory is not None, text
    seconds = time.monotonic() - began
    print(f"{' '.join(defines):<90} {int(states[1]):>9,} states {memory[1]:>8} MB {seconds:6.1f} s", flush=True)
    trail = any(directory.glob("*.trail"))
    assert "max search depth too small" not in text, text
    assert trail or "Search not completed" not in text, text
    return Verdict(int(errors[1]), int(states[1]), trail, text)


def run(directory: Path, *command: str) -> str:
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
    assert done.returncode == 0, f"{command[0]}: {done.stdout}{done.stderr}"
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    ("bounds", "states_min"), chosen(HOLDS), ids=lambda each: "-".join(each) if type(each) is tuple else ""
)
def test_what_must_hold_does_in_every_order(tmp_path: Path, bounds: tuple[str, ...], states_min: int) -> None:
    verdict = check(tmp_path, *bounds)
    assert verdict.errors == 0, verdict.text
    assert not verdict.trail, verdict.text
    assert verdict.states >= states_min, verdict.text


@pytest.mark.parametrize(("bug", "bounds", "broken"), chosen(BUGS), ids=name_of)
def test_a_deliberate_bug_is_found(tmp_path: Path, bug: str, bounds: tuple[str, ...], broken: str) -> None:
    """At bounds at which nothing is wrong without it, as the test above shows."""
    assert any(bounds == each for each, _ in HOLDS)
    verdict = check(tmp_path, *bounds, bug)
    assert verdict.errors == 1, verdict.text
    assert verdict.trail, verdict.text
    assert broken in verdict.text, verdict.text


@pytest.mark.parametrize(("state", "bounds", "broken"), chosen(REACHED), ids=name_of)
def test_an_interesting_state_is_reached(tmp_path: Path, state: str, bounds: tuple[str, ...], broken: str) -> None:
    verdict = check(tmp_path, *bounds, state)
    assert verdict.errors == 1, verdict.text
    assert verdict.trail, verdict.text
    assert broken in next(line for line in verdict.text.splitlines() if "assertion violated" in line), verdict.text
