"""What holds for every test."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator, Iterator

import pytest
from hypothesis import HealthCheck, settings

from migrator.model.prepared_types import prepare_types
from tests.support.order import PROCESSOR_S, in_order, seconds_by_file
from tests.support.skips import not_verified
from tests.support.turns import turn

settings.register_profile("no clock", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("no clock")
"""How long an example takes says how busy the machine is: that belongs into a benchmark."""

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # of a run in the background: what it starts would inherit that
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


_SPENT_S = pytest.StashKey[float]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record", action="store_true", help="write what the scenarios print now into their files")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """With several workers (`make test`), a test marked `alone` has the machine to itself."""
    if not hasattr(item.config, "workerinput"):
        return (yield)
    shared = item.config.rootpath / ".pytest_cache"
    shared.mkdir(exist_ok=True)
    with turn(shared, alone=item.get_closest_marker("alone") is not None):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """With the processor seconds of this worker, and of the processes that ended, since its last report."""
    report = yield
    now = sum(os.times()[:4])
    report.user_properties.append((PROCESSOR_S, now - item.config.stash.get(_SPENT_S, now)))
    item.config.stash[_SPENT_S] = now
    return report


REASON_MAX = 500
"""Characters."""


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """The name of a failed test at once, and why: a whole run takes half an hour, and dots say nothing."""
    if report.failed and os.environ.get("PYTEST_XDIST_WORKER") is None:
        crash = getattr(report.longrepr, "reprcrash", None)
        why = "" if crash is None else f": {crash.path}:{crash.lineno}: {crash.message[:REASON_MAX]}"
        print(f"\nfailed after {report.duration:.0f} s: {report.nodeid} ({report.when}){why}", flush=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With several workers, so that both have something to do until the end; whoever names tests has his own order."""
    if hasattr(config, "workerinput"):
        items[:] = in_order(items)


def pytest_collection_finish() -> None:
    """As programs with threads do at their start: tests run their parts without them (prepared_types.py)."""
    prepare_types()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What was skipped, and the table in tests/support/order.py. Also of tests that another process ran."""
    every = [each for kind in terminalreporter.stats.values() for each in kind]
    reports = [each for each in every if isinstance(each, pytest.TestReport)]
    if missing := not_verified(reports):
        terminalreporter.section("not verified")
        for line in missing:
            terminalreporter.write_line(line)
    if found := seconds_by_file(reports):
        terminalreporter.section("seconds by file: on the clock, of processors")
        for file, took in found.items():
            terminalreporter.write_line(f"{took.clock_s:6.0f} {took.processor_s:6.0f} {file}")
