"""Looks are independent: what a round costs, who waits for whom, and how often a migration is looked at."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import event, text

from api.figures import figures_of
from state_machine.rows.database import make_engine
from state_machine.rows.store import Store
from state_machine.rows.tables import Base, Migration
from state_machine.work import reconcile
from tests.unit.state_machine.world import World, a_world, an_inventory

STATEMENTS_OF_A_ROUND_MAX = 24
"""Of a quiet round; before, it was 34. Thirty migrations have sixty rounds a second."""
STATEMENTS_OF_FIGURES_MAX = 12
WRITERS, WRITES = 8, 25


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with a_world(tmp_path) as made:
        yield made


@contextmanager
def counted(store: Store) -> Iterator[list[str]]:
    """The statements that are executed meanwhile."""
    said: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        said.append(statement)

    event.listen(store._engine, "before_cursor_execute", note)
    try:
        yield said
    finally:
        event.remove(store._engine, "before_cursor_execute", note)


def test_a_quiet_round_takes_few_statements(world: World) -> None:
    asyncio.run(world.rounds(3))
    with counted(world.store) as said:
        asyncio.run(world.rounds(1))
    assert len(said) <= STATEMENTS_OF_A_ROUND_MAX, "\n".join(said)


def test_figures_for_prometheus_read_no_history(world: World) -> None:
    asyncio.run(world.rounds(2))
    with counted(world.store) as said:
        found = figures_of(world.store, world.id, world.clock)
    assert len(said) <= STATEMENTS_OF_FIGURES_MAX, "\n".join(said)
    assert not [each for each in said if "phase_event" in each or "finding" in each]
    assert found.values["look_age_seconds"] == pytest.approx(0.5)


def test_writers_of_one_service_wait_for_their_turn_not_in_sqlites_sleep(tmp_path: Path) -> None:
    """Without its sleep SQLite refuses a second writer at once: here none ever comes second."""
    engine = make_engine(f"sqlite:///{tmp_path / 'service.db'}")
    event.listen(engine, "connect", lambda connection, _: connection.execute("PRAGMA busy_timeout=0"))
    with engine.begin() as connection:
        Base.metadata.create_all(connection)
    store = Store(engine)
    number = store.create(an_inventory(tmp_path), who="test", at=1.0)[0].id
    refused: list[Exception] = []

    def write() -> None:
        try:
            for _ in range(WRITES):
                with store.writing() as session:
                    row = session.get_one(Migration, number)
                    row.since += 1
                    session.flush()
                    session.execute(text("SELECT 1"))
        except Exception as error:
            refused.append(error)

    threads = [threading.Thread(target=write) for _ in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert refused == []
    assert store.snapshot(number).migration.since == 1.0 + WRITERS * WRITES
    store.close()


def test_files_and_names_that_hang_keep_no_rows_waiting(world: World) -> None:
    """Every thread that the loop has for anything else is taken."""
    over = threading.Event()

    async def story() -> list[int]:
        hanging = [asyncio.create_task(asyncio.to_thread(over.wait, 60)) for _ in range(64)]
        await asyncio.sleep(0)
        try:
            async with asyncio.timeout(30):
                return await world.store.away(world.store.numbers)
        finally:
            over.set()
            await asyncio.gather(*hanging)

    assert asyncio.run(story()) == [world.id]


def test_a_round_begins_as_often_as_it_should_however_long_it_takes(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own time counts as part of the pause; only one that takes as long as all of it has a short one."""
    paused: list[float] = []
    durations = iter((0.2, 0.0, 7.0))

    async def step(_migration: int) -> float:
        world.clock.pass_by(next(durations))
        return 0.5

    async def until(_event: asyncio.Event, seconds: float) -> None:
        paused.append(seconds)
        if len(paused) == 3:
            raise asyncio.CancelledError

    monkeypatch.setattr(reconcile, "_until", until)
    monkeypatch.setattr(world.reconciler, "step", step)
    monkeypatch.setattr(world.reconciler, "_steady", world.clock)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(world.reconciler._watch(world.id, asyncio.Event()))
    assert paused == pytest.approx([0.3, 0.5, reconcile.LEAST_PAUSE_S])
