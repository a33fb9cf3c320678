"""The real shell in bad weather: a short simulation for every condition; `--shell` runs the long one."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from migrator.node.log import storage
from migrator.node.log.log_flusher import LogFlusher
from migrator.node.log.log_store import LogStore
from tests.sim.runner import summarise
from tests.sim.shell import HAPPENED, run_shell_seed, run_shell_seeds

SEEDS = range(12)
FOUND = (823_537,)
"""Each broke something once. 823537: a crash in the middle of a trim, then a follower of an epoch that was trimmed."""


def test_nothing_promised_is_broken_whatever_the_files_refuse() -> None:
    summary = summarise(run_shell_seeds(SEEDS), expected=HAPPENED)
    assert not summary.failures, "\n".join(failure.report for failure in summary.failures)
    assert not summary.never_happened


@pytest.mark.parametrize("seed", FOUND)
def test_what_was_found_once_holds(seed: int) -> None:
    result = run_shell_seed(seed)
    assert not result.rule, result.report


def test_a_seed_is_a_run() -> None:
    first, second = run_shell_seed(3), run_shell_seed(3)
    assert (first.counts, first.virtual_ms, first.steps) == (second.counts, second.virtual_ms, second.steps)


def _closes_without_a_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LogStore, "flush", staticmethod(os.close))


def _dies_unseen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LogFlusher, "_ended", lambda self, task: task.exception())


def _forgets_directories(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "sync_directory", lambda path: None)


@pytest.mark.parametrize("fault", [_closes_without_a_sync, _dies_unseen, _forgets_directories])
def test_a_shell_with_a_fault_of_its_own_is_found(
    monkeypatch: pytest.MonkeyPatch, fault: Callable[[pytest.MonkeyPatch], None]
) -> None:
    """Or the simulator is a toy."""
    fault(monkeypatch)
    assert any(run_shell_seed(seed).rule for seed in range(40))
