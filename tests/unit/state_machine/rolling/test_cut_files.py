"""A file that a lost connection cut while its node is down: `resume` and `back` repair it from the kept copy."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from state_machine.policy.fleet_evidence import Roll
from tests.unit.state_machine.rollback.test_ours_again import assert_ours_again
from tests.unit.state_machine.rolling.test_rolling import Rolling
from tests.unit.state_machine.under_stock import UnderStock


@pytest.fixture
def world(tmp_path: Path) -> Rolling:
    return Rolling(tmp_path)


@pytest.mark.parametrize("left", [0, 40, 200])
@pytest.mark.parametrize("of", ["before", "wanted"])
def test_a_write_that_was_cut_is_repaired_from_the_kept_file(world: Rolling, left: int, of: str) -> None:
    """The connection broke after the predecessor was kept; the act is repeated, by itself or by `resume`."""

    async def story() -> None:
        await world.to_rolling()
        await world.until(lambda: world.step(0) == "WRITTEN")
        file = world.hosts.file(0)
        (kept,) = file.parent.glob("server.properties.zk2kraft-*")
        whole = file if of == "wanted" else kept
        file.write_bytes(whole.read_bytes()[:left])
        set_step(world, "STOPPED")
        await world.until(lambda: world.step(0) == "WHOLE")

    asyncio.run(story())
    assert "process.roles=broker" in world.hosts.file(0).read_text()
    assert "listeners=PLAINTEXT://127.0.0.1:9100" in world.hosts.file(0).read_text()


def set_step(world: Rolling, step: str) -> None:
    from state_machine.rolling.journal import record

    record(world.store, world.id, Roll.KRAFT, 0, at=world.clock(), step=step)


def test_a_file_that_somebody_changed_is_not_overwritten_and_both_are_named(world: Rolling) -> None:
    async def story() -> None:
        await world.to_rolling()
        await world.until(lambda: world.step(0) == "STOPPED")
        file = world.hosts.file(0)
        before = file.read_text()
        file.write_text(before + "num.io.threads=9\n")
        await world.until(lambda: world.step(0) == "FAILED")
        row = world.journal[0]
        assert "Z2K-7052" in row.cause
        assert row.rendered_from in row.cause
        assert "differs from the first in num.io.threads" in row.cause or "an unknown place" in row.cause
        assert file.read_text() == before + "num.io.threads=9\n"
        file.write_text(before)
        await world.run_operation("RESUME", who="Ada")
        await world.until(lambda: world.step(0) == "WHOLE")

    asyncio.run(story())


@pytest.mark.parametrize("left", [0, 60])
def test_a_controller_that_goes_back_to_stock_alone_is_not_rendered_from_a_cut_file(tmp_path: Path, left: int) -> None:
    world = UnderStock(tmp_path)

    async def story() -> None:
        await world.to_soak()
        stock = world.files[3001].read_text()
        await world.ask_back()
        world.launcher.ends_at_once = True
        await world.until(lambda: world.ours_step(3001) == "FAILED")
        await world.run_operation("BACK", who="Ada", reason="its host lacks memory")
        await world.until(lambda: world.ours_step(3001) == "STOPPED")
        file = world.files[3001]
        file.write_bytes(file.read_bytes()[:left])
        await world.until(lambda: world.ours_step(3001) == "BACK")
        assert file.read_text() == stock
        world.launcher.ends_at_once = False
        await world.run_operation("RESUME", who="Ada")
        await world.until_brokers()

    asyncio.run(story())
    assert_ours_again(world)
