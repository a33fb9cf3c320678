"""How late the loop is, and whether by its own work or for want of a processor."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path

import pytest

from migrator.node.process.loop_delay import EVERY_S, REMEMBERED, LoopDelay, waited_for_a_processor_s


def test_a_wait_for_a_processor_is_part_of_the_delay_and_not_of_the_work() -> None:
    loop = LoopDelay()
    loop.note(late_s=0.300, waited_s=0.250)
    loop.note(late_s=0.080, waited_s=0.000)
    loop.note(late_s=0.001, waited_s=0.010)
    assert loop.delay_ms == pytest.approx(300)
    assert loop.work_ms == pytest.approx(80)


def test_what_is_ten_seconds_old_is_forgotten() -> None:
    loop = LoopDelay()
    loop.note(late_s=0.5, waited_s=0.0)
    for _ in range(REMEMBERED):
        loop.note(late_s=0.002, waited_s=0.0)
    assert loop.delay_ms == pytest.approx(2)


def test_a_turn_that_works_makes_the_loop_late_by_its_work() -> None:
    async def work() -> LoopDelay:
        loop = LoopDelay()
        looking = asyncio.create_task(loop.measure())
        await asyncio.sleep(2 * EVERY_S)
        until = time.thread_time() + 0.3
        while time.thread_time() < until:
            pass
        await asyncio.sleep(2 * EVERY_S)
        looking.cancel()
        return loop

    found = asyncio.run(work())
    assert found.delay_ms >= found.work_ms > 200


def test_the_wait_for_a_processor_is_the_kernels_figure_and_nought_where_it_has_none(tmp_path: Path) -> None:
    told = tmp_path / "schedstat"
    told.write_text("2719000000 1250000000 4711\n")
    assert waited_for_a_processor_s(told) == 1.25
    told.write_text("\n")
    assert waited_for_a_processor_s(told) == 0.0
    assert waited_for_a_processor_s(tmp_path / "none") == 0.0
    own = Path(f"/proc/self/task/{threading.get_native_id()}/schedstat")
    assert waited_for_a_processor_s(own) >= 0.0
