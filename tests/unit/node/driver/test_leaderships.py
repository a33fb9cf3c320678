"""What one leadership leaves to the next: claims, operations and answers that come late mean nothing to it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest

from migrator.control_api.states import State
from migrator.controller.contacts import Contacts
from migrator.driver.claim import NOBODYS, ClaimObservation
from migrator.driver.machine import Happened
from migrator.driver.way_back import Left, last_steps
from migrator.model.image import Image
from migrator.model.values import Mark, MigrationState
from migrator.node.driver import claim_watch, rollback
from migrator.node.driver.driver_node import DriverNode
from migrator.node.leader.active_controller import ActiveController, CommitListeners
from migrator.node.leader.applied_log import AppliedLog
from migrator.node.leader.pending_appends import LeadershipLost, PendingAppends
from migrator.node.log.log_replay import read_ahead
from migrator.node.quorum.hooks import Hooks
from migrator.node.quorum.metrics import Metrics
from migrator.wire.messages.metadata import NoOpRecord
from migrator.zk.multi import MultiOutcome
from migrator.zk.znodes import ControllerZnode, MigrationZnode
from tests.support.builders import a_claim, a_topic, an_image
from tests.support.driver_acts import as_act, claim_acts, done, rollback_acts, with_parts
from tests.unit.node.driver.test_driver_acts import a_driver, story

VOTERS = SimpleNamespace(voter_ids=(3000, 3001, 3002), voters=(1, 2, 3), node_id=3000, gates="auto")
NOBODY_ELSE = MigrationZnode(3000, 5, 10, 1)


def found(
    node: int, kraft_epoch: int, migration: MigrationZnode | None = NOBODY_ELSE, zk_epoch: int = 9
) -> ClaimObservation:
    return ClaimObservation(
        epoch=zk_epoch,
        epoch_version=zk_epoch,
        controller=ControllerZnode(node, 2, "1", kraft_epoch),
        controller_version=0,
        migration=migration,
        migration_version=-1 if migration is None else 50,
    )


def a_voters_driver(state: State, **known: Any) -> DriverNode:
    async def nothing() -> None: ...

    channels = SimpleNamespace(close=nothing, waiting=lambda: 0)
    reads = {"children": lambda path: None, "get": lambda path: None}
    session = SimpleNamespace(sync=lambda: None, apply=lambda multi: MultiOutcome(), **reads)
    given = {"config": VOTERS, "session": session, "channels": channels, **known}
    driver: DriverNode = a_driver(state, epoch=5, **given)
    driver.parts.controller.epoch = 5
    return driver


def zookeeper_says(monkeypatch: pytest.MonkeyPatch, *looks: ClaimObservation) -> None:
    """One look after the other; the last one stays."""
    waiting = list(looks)

    def read(session: object, watch: object = None) -> ClaimObservation:
        return waiting.pop(0) if len(waiting) > 1 else waiting[0]

    monkeypatch.setattr(claim_watch, "read_claim", read)
    monkeypatch.setattr(rollback, "read_claim", read)


async def for_ever() -> Happened:
    await asyncio.sleep(60)
    return Happened.LEADERSHIP_LOST


async def settle(driver: DriverNode, condition: Callable[[], bool]) -> None:
    """Let the driver's loop run until it holds."""
    for _ in range(12_000):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise AssertionError(f"after a minute: {driver.now.state}, {driver.now.reason}")


def test_a_leadership_that_ends_takes_its_claim_and_its_operations_along() -> None:
    async def told() -> None:
        driver = a_voters_driver(State.SYNCING)
        driver.now.claim = a_claim()
        running = asyncio.create_task(driver.run({State.SYNCING: as_act(for_ever)}))
        driver.request_rollback()
        driver.lost_leadership()
        await settle(driver, lambda: driver.now.state is State.IDLE and driver.now.claim is None)
        running.cancel()
        now = driver.now
        assert (now.state, now.claim, driver.operations.standing()) == (State.IDLE, None, [])

    story(told)


def test_what_is_seen_of_a_successor_half_written_fences_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """The znodes are read one by one; a second look sees the successor's claim whole."""

    async def told() -> None:
        driver = a_voters_driver(State.DUAL_WRITE)
        driver.parts.controller.resign = lambda: None  # type: ignore[method-assign]
        driver.now.claim = a_claim(node=3000, kraft_epoch=5)
        successors = MigrationZnode(3001, 6, 10, 1)
        zookeeper_says(monkeypatch, found(3000, 5, successors), found(3001, 6, successors, zk_epoch=10))
        running = asyncio.create_task(driver.run({State.DUAL_WRITE: as_act(for_ever)}))
        await driver.claim_watch._check()
        await settle(driver, lambda: driver.now.state is State.IDLE)
        running.cancel()
        assert driver.now.state is State.IDLE
        assert driver.now.finding is None

    story(told)


def test_a_look_that_began_under_an_earlier_leadership_means_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async def told() -> None:
        driver = a_voters_driver(State.DUAL_WRITE)
        driver.now.claim = a_claim(kraft_epoch=1)

        def read(session: object, watch: object = None) -> ClaimObservation:
            driver.now.claim = a_claim(kraft_epoch=5)  # meanwhile it was elected again, and has claimed
            return found(3001, 2)

        monkeypatch.setattr(claim_watch, "read_claim", read)
        await driver.claim_watch._check()
        assert driver.parts.events._interrupts.empty()

    story(told)


def test_a_follower_that_finishes_the_rollback_first_does_not_fence_the_leader(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One voter is down, so the leader still waits for it while another one, which knows the mark, goes ahead."""
    monkeypatch.setattr(claim_watch, "CLAIM_LOOK_S", 0.0)

    async def told() -> None:
        driver = a_voters_driver(State.ROLLING_BACK)
        driver.now.claim = a_claim()
        zookeeper_says(monkeypatch, found(1, -1, None, zk_epoch=10))

        async def known_to_all(timeout_s: float, wait_because: object) -> None:
            driver.claim_watch.look()
            await asyncio.sleep(0.05)

        async def mark(mark: Mark, text: str, is_due: Callable[[Image], bool] = lambda _: True) -> None: ...

        driver.parts.controller.mark = mark  # type: ignore[method-assign]
        with_parts(driver, quorum=SimpleNamespace(known_to_all=known_to_all))
        acts = rollback_acts(driver, retired_mark=SimpleNamespace(write=lambda text: None))
        running = asyncio.create_task(driver.run({State.ROLLING_BACK: partial(acts._leave, 3)}))
        await settle(driver, lambda: driver.now.state is State.RETIRED)
        running.cancel()
        assert driver.now.state is State.RETIRED

    story(told)


def test_a_retired_log_leaves_the_claim_of_the_next_migration_alone() -> None:
    """A freshly formatted quorum has the same node ids and begins with the same epochs."""
    left = Left(at=1.0, node=3000, kraft_epoch=1, zk_epoch=5, highest_state_epoch=5)
    migration = MigrationZnode(3000, 1, 400, 1)
    assert not last_steps(found(3000, 1, migration, zk_epoch=8), left)
    assert last_steps(found(3000, 1, migration, zk_epoch=5), left)


def test_an_abort_before_the_latch_is_latched(monkeypatch: pytest.MonkeyPatch) -> None:
    async def told() -> None:
        marks: list[Mark] = []
        is_at_the_latch = asyncio.Event()

        async def mark(mark: Mark, text: str, is_due: Callable[[Image], bool] = lambda _: True) -> None:
            marks.append(mark)

        async def before(effect: str) -> None:
            if effect == "latch":
                is_at_the_latch.set()
                await asyncio.sleep(60)

        driver = a_voters_driver(State.TAKING_OVER, hooks=Hooks(before=before))
        driver.parts.controller.mark = mark  # type: ignore[method-assign]
        zookeeper_says(monkeypatch, found(1, -1, None))
        table = {
            State.TAKING_OVER: claim_acts(driver).take_over,
            State.ABORTING: rollback_acts(driver).abort_takeover,
        }
        running = asyncio.create_task(driver.run(table))
        await is_at_the_latch.wait()
        assert driver.request_abort("no")
        await settle(driver, lambda: driver.now.state is State.ABORTED)
        running.cancel()
        assert (driver.now.state, marks) == (State.ABORTED, [Mark.TAKEOVER])

    story(told)


def test_a_controller_znode_of_ours_is_rolled_back_whatever_migration_says(monkeypatch: pytest.MonkeyPatch) -> None:
    async def told() -> None:
        sent: list[str] = []

        def apply(multi: Any) -> MultiOutcome:
            sent.append(str(multi.describe()))
            return MultiOutcome()

        driver = a_voters_driver(State.ABORTING, session=SimpleNamespace(apply=apply, sync=lambda: None))
        image = driver.parts.controller.image
        driver.parts.controller.newest = type(image)(marks=image.marks.set(Mark.TAKEOVER, "epoch 5"))
        zookeeper_says(monkeypatch, found(3001, 4, NOBODYS))
        assert await done(driver, rollback_acts(driver).abort_takeover()) is Happened.ABORT_DONE
        assert len(sent) == 1
        assert "delete /controller" in sent[0]

    story(told)


class RaftThatResigns:
    """An append after the check-quorum deadline: the core appends, and resigns in the same step."""

    controller: ActiveController
    voter = SimpleNamespace(log=SimpleNamespace(end=10))
    metrics = Metrics()

    def wall_ms(self) -> int:
        return 0

    def now_ms(self) -> int:
        return 0

    def leads(self, epoch: int) -> bool:
        return False

    def append(self, epoch: int, payloads: object) -> int:
        self.controller.stop_leading(epoch)
        return 10


def a_controller_about_to_resign() -> ActiveController:
    raft = RaftThatResigns()
    controller = raft.controller = ActiveController.__new__(ActiveController)
    image = an_image(a_topic("orders"), migration=MigrationState.MIGRATION)
    resumed = asyncio.Event()
    resumed.set()
    known = {
        "_raft": raft, "image": image, "newest": image, "epoch": 5, "_pending": PendingAppends(), "_resumed": resumed,
        "_elected": None, "_log": AppliedLog(cast(Any, raft), read_ahead([])), "_commit_listeners": CommitListeners(),
        "_catch_up": lambda: None, "_last_append_ms": 0, "contacts": Contacts(), "settings": None, "_chance": None,
        "_buckets": None, "_is_apart": False,
    }  # fmt: skip
    for name, value in known.items():
        setattr(controller, name, value)
    return controller


def test_no_reply_leaves_for_a_record_whose_append_ended_the_leadership() -> None:
    async def told() -> None:
        decision: Any = SimpleNamespace(records=[(NoOpRecord(), 0)], reply="created", divisible=False)
        future = a_controller_about_to_resign()._carry_out(decision)
        assert future is not None
        assert future.cancelled()

    story(told)


def test_a_mark_whose_append_ended_the_leadership_is_not_made() -> None:
    async def told() -> None:
        with pytest.raises(LeadershipLost):
            await a_controller_about_to_resign().mark(Mark.RETIRED, "x")

    story(told)
