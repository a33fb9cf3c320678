"""Long work on a thread: how soon the loop has the interpreter back meanwhile, and afterwards."""

from __future__ import annotations

import asyncio
import sys

import pytest

from migrator.node.on_thread import TURN_S, on_thread, short_turns


def test_turns_are_short_until_the_last_work_on_a_thread_is_over() -> None:
    usual = sys.getswitchinterval()
    assert usual > TURN_S

    async def scenario() -> None:
        may_end = asyncio.Event()

        async def waits() -> None:
            with short_turns():
                await may_end.wait()

        waiting = asyncio.create_task(waits())
        await asyncio.sleep(0)
        number, turn_s = await on_thread(lambda number: (number, sys.getswitchinterval()), 7)
        assert number == 7
        assert turn_s == pytest.approx(TURN_S)
        assert sys.getswitchinterval() == pytest.approx(TURN_S)
        may_end.set()
        await waiting

    asyncio.run(scenario())
    assert sys.getswitchinterval() == pytest.approx(usual)


def test_turns_are_as_usual_after_work_that_failed() -> None:
    usual = sys.getswitchinterval()
    with pytest.raises(ZeroDivisionError):
        asyncio.run(on_thread(lambda: 1 // 0))
    assert sys.getswitchinterval() == pytest.approx(usual)
