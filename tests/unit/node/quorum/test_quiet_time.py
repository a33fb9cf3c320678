"""What waits while the cluster has no controller, and that it does not wait for ever."""

from __future__ import annotations

import asyncio
import gc

import pytest

from migrator.node.quorum.quiet_time import QuietTime


@pytest.fixture(autouse=True)
def _collector_as_before() -> object:
    yield
    gc.enable()
    gc.unfreeze()


async def _is_over(calm: QuietTime) -> bool:
    try:
        await asyncio.wait_for(calm.over(), 0.01)
    except TimeoutError:
        return False
    return True


def test_collector_and_snapshots_wait_from_the_beginning_to_the_end() -> None:
    asyncio.run(_from_the_beginning_to_the_end())


async def _from_the_beginning_to_the_end() -> None:
    calm = QuietTime()
    assert await _is_over(calm)
    calm.begin()
    calm.begin()
    assert not gc.isenabled()
    assert not await _is_over(calm)
    calm.end()
    assert gc.isenabled()
    assert await _is_over(calm)
    calm.begin()
    assert not await _is_over(calm)
    calm.end()


def test_a_window_that_stays_open_ends_the_calm_once_and_does_not_begin_it_again() -> None:
    asyncio.run(_open_for_too_long())


async def _open_for_too_long() -> None:
    calm = QuietTime(longest_s=0.02)
    calm.begin()
    await asyncio.wait_for(calm.over(), 60)
    assert gc.isenabled()
    calm.begin()
    assert await _is_over(calm)
    calm.end()
    calm.begin()
    assert not gc.isenabled()
    calm.end()
