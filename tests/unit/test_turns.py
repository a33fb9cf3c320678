"""Who may run beside whom."""

from __future__ import annotations

import threading
from pathlib import Path

from tests.support.turns import turn


def test_tests_that_only_wait_run_beside_each_other(tmp_path: Path) -> None:
    both_inside = threading.Barrier(2, timeout=60)

    def run() -> None:
        with turn(tmp_path, alone=False):
            both_inside.wait()

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not both_inside.broken


def test_a_test_about_time_waits_until_it_is_alone(tmp_path: Path) -> None:
    order: list[str] = []
    first_inside, first_may_end = threading.Event(), threading.Event()

    def run(name: str, alone: bool) -> None:
        with turn(tmp_path, alone=alone):
            order.append(name)
            if name == "first":
                first_inside.set()
                first_may_end.wait(60)

    first = threading.Thread(target=run, args=("first", False))
    timed = threading.Thread(target=run, args=("timed", True))
    first.start()
    assert first_inside.wait(60)
    timed.start()
    first_may_end.set()
    first.join()
    timed.join()
    assert order == ["first", "timed"]
