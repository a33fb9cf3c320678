"""A few runs of the estate as an ordinary test, and that the bench finds what it is for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.estate.dead import DEATHS
from tests.estate.faults import plan_of
from tests.estate.namespaces import why_not

ROOT = Path(__file__).resolve().parents[2]
BROKERS, CONTROLLERS = (0, 1, 2), (3000, 3001, 3002)
QUICK = ("broker-in-kraft-mode", "broker-in-the-soak")
"""Of DEATHS: under half a minute, beside other work."""

hosts = pytest.mark.skipif(bool(why_not()), reason=why_not() or "there are hosts")


def estate(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.estate", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


@hosts
def test_there_and_back_whatever_happens_to_hosts_links_and_the_service() -> None:
    """Two ways back. `make estate` runs more, and every story."""
    done = estate("--first", "1", "--seeds", "2", "--trace")
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]


@hosts
def test_from_the_first_restart_of_each_broker_and_back_to_the_files_with_which_they_were_found() -> None:
    done = estate("--join", "--first", "1", "--seeds", "1", "--trace")
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]


@hosts
def test_a_write_that_nobody_compares_is_found() -> None:
    """The bench has teeth: a template as it was, whose `write` takes the end of its input for the end of the file."""
    done = estate("--plant", "unproven-write", "--first", "1", "--seeds", "1")
    assert done.returncode == 1, done.stdout + done.stderr[-2000:]
    assert "neither the old nor the new file" in done.stdout


@hosts
@pytest.mark.parametrize(
    "name", [each if each in QUICK else pytest.param(each, marks=pytest.mark.long) for each in DEATHS]
)
def test_one_dead_host_closes_no_way_back(name: str) -> None:
    """From the begin of a phase, from its middle or from the middle of a restart to the end of the run."""
    done = estate("--dead", name, "--trace")
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]


@hosts
@pytest.mark.long
def test_real_brokers_go_back_while_links_fail() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.estate.real", "--first", "1", "--seeds", "1"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]


def test_the_same_seed_is_the_same_plan() -> None:
    for seed in range(50):
        assert plan_of(seed, BROKERS, CONTROLLERS) == plan_of(seed, BROKERS, CONTROLLERS)
    assert len({str(plan_of(seed, BROKERS, CONTROLLERS)) for seed in range(50)}) == 50
