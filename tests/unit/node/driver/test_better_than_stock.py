"""Flaws of Kafka's own migration that sit inside: provoked on our acts with a ZooKeeper in memory.

The K numbers are those of docs/better-than-stock.md; what brokers and a real ZooKeeper see of the others is in
tests/e2e/test_better_than_stock.py.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import pytest
from kazoo import exceptions
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import KeeperState

from migrator.control_api.states import State
from migrator.driver.copy import Copy
from migrator.driver.machine import Happened
from migrator.driver.mirror import Shape
from migrator.driver.tree import Tree
from migrator.findings.finding import FindingError
from migrator.findings.zookeeper import ZOOKEEPER_REFUSES
from migrator.model.diff import diff
from migrator.model.draft import Draft
from migrator.model.image import EMPTY, Image
from migrator.model.values import ConfigKey, ConfigType, MigrationState
from migrator.node.leader.pending_appends import LeadershipLost
from migrator.zk import paths
from migrator.zk.logins import Logins
from migrator.zk.multi import Create, Multi
from migrator.zk.pipeline import ReadPipeline
from migrator.zk.session import PendingMulti, ZkSession
from tests.support.builders import a_claim, a_partition, a_topic, an_id, an_image
from tests.support.driver_acts import as_act, copy_acts, done, reconcile_acts, with_parts
from tests.support.fake_zookeeper import FakeEnsemble, FakeSession
from tests.unit.driver.test_mirror import a_cluster, assert_mirrored, mirror
from tests.unit.node.driver.test_driver_acts import a_driver, story
from tests.unit.node.driver.test_leaderships import found


def reconciled(session: FakeSession, claim: Any, image: Image) -> Any:
    """The driver after it compared this ZooKeeper with this log, as a successor does."""
    made: list[Any] = []

    async def told() -> None:
        driver = a_driver(State.SYNCING, session=session)
        driver.parts.controller.image = image
        driver.now.claim = claim
        made.append(driver)
        assert await done(driver, reconcile_acts(driver).reconcile()) is Happened.RECONCILED

    story(told)
    return made[0]


def mirrored_cluster(image: Image) -> tuple[FakeEnsemble, FakeSession, Any]:
    ensemble, session, claim = a_cluster()
    claim, _ = mirror(session, claim, diff(EMPTY, image), Shape())
    return ensemble, session, claim


# --- what a comparison finds ------------------------------------------------------------------------------


@pytest.mark.parametrize("named", [True, False], ids=["state missing", "assignment and state missing"])
def test_k08_a_partition_that_zookeeper_lacks_is_made(named: bool) -> None:
    image = an_image(a_topic("orders", 3))
    ensemble, session, claim = mirrored_cluster(image)
    del ensemble.nodes[paths.state("orders", 2)]
    if not named:
        del ensemble.nodes[paths.partition("orders", 2)]
        node = ensemble.nodes[paths.topic("orders")]
        fewer = json.loads(node.data)
        del fewer["partitions"]["2"]
        node.data = json.dumps(fewer).encode()
    reconciled(session, claim, image)
    assert_mirrored(session, image)


def test_k08_a_partition_is_made_where_somebody_left_znodes_that_no_assignment_names() -> None:
    before, after = an_image(a_topic("orders", 1)), an_image(a_topic("orders", 2))
    ensemble, session, claim = mirrored_cluster(before)
    ensemble.create(f"{paths.state('orders', 1)}/below", b"stray")
    reconciled(session, claim, after)
    assert_mirrored(session, after)
    assert f"{paths.state('orders', 1)}/below" not in ensemble.nodes


def test_k09_a_partition_that_only_zookeeper_has_is_deleted_with_all_below_it() -> None:
    before, after = an_image(a_topic("orders", 3)), an_image(a_topic("orders", 2))
    ensemble, session, claim = mirrored_cluster(before)
    ensemble.create(f"{paths.state('orders', 2)}/below", b"stray")
    reconciled(session, claim, after)
    assert_mirrored(session, after)
    assert not [path for path in ensemble.nodes if path.startswith(paths.partition("orders", 2))]


@pytest.mark.parametrize("done", range(8))
def test_k09_a_deletion_of_which_only_a_part_arrived_is_finished(done: int) -> None:
    """A topic too large for one multi: states and partitions go first, its own znode last."""
    before, after = an_image(a_topic("orders", 3), a_topic("kept", 1)), an_image(a_topic("kept", 1))
    ensemble, session, claim = mirrored_cluster(before)
    order = [path for p in range(3) for path in (paths.state("orders", p), paths.partition("orders", p))]
    for path in [*order, paths.partitions("orders"), paths.topic_config("orders")][:done]:
        del ensemble.nodes[path]
    reconciled(session, claim, after)
    assert_mirrored(session, after)
    assert not [path for path in ensemble.nodes if "orders" in path and not path.startswith(paths.TOPIC_CONFIGS)]


def test_k09_a_state_that_cannot_be_read_of_a_topic_that_both_have_is_written_from_the_log() -> None:
    """Only what the log lacks is passed over."""
    image = an_image(a_topic("orders", 2))
    ensemble, session, claim = mirrored_cluster(image)
    ensemble.nodes[paths.state("orders", 0)].data = b"no state"

    async def told() -> None:
        made = a_driver(State.SYNCING, session=session)
        made.parts.controller.image, made.now.claim = image, claim
        assert await done(made, reconcile_acts(made).reconcile()) is Happened.RECONCILED

    story(told)
    assert_mirrored(session, image)


def test_k07_a_namesake_is_deleted_before_it_is_made() -> None:
    before = an_image(a_topic("orders", 3), topic_configs={"orders": {"retention.ms": "1"}})
    after = an_image(a_topic("orders", [a_partition(0, partition_epoch=2)], topic_id=an_id("the second orders")))
    _, session, claim = mirrored_cluster(before)
    reconciled(session, claim, after)
    assert_mirrored(session, after)


@pytest.mark.parametrize("kind", [ConfigType.CLIENT_METRICS, ConfigType.GROUP])
def test_k11_configuration_that_zookeeper_has_no_form_of_holds_up_nothing(kind: ConfigType) -> None:
    """A log that stock wrote may have it."""
    image = with_config(an_image(a_topic("orders", 1)), kind)
    _, session, claim = a_cluster()
    reconciled(session, claim, image)
    assert_mirrored(session, image)
    assert reconciled(session, claim, with_config(image, kind, "another")).now.reconciled_writes == 0


def with_config(image: Image, kind: ConfigType, name: str = "one") -> Image:
    draft = Draft(image)
    draft.put_config(ConfigKey(kind, name), [("interval.ms", "1000")])
    return draft.finish(image.position).after


# --- errors -----------------------------------------------------------------------------------------------

KAZOO = [
    each
    for each in vars(exceptions).values()
    if isinstance(each, type) and issubclass(each, exceptions.KazooException) and each is not exceptions.NoNodeError
]
OPERATIONS: dict[str, Callable[[ZkSession], Any]] = {
    "get": lambda session: session.get("/a"),
    "get and watch": lambda session: session.get("/a", lambda: None),
    "children": lambda session: session.children("/a"),
    "sync": lambda session: session.sync(),
    "ensure_path": lambda session: session.ensure_path("/a"),
    "send": lambda session: session.send(Multi((Create("/a", b""),))),
    "apply": lambda session: session.apply(Multi((Create("/a", b""),))),
    "get_many": lambda session: list(session.get_many(["/a", "/b"])),
    "children_many": lambda session: list(session.children_many(["/a", "/b"])),
}
"""Everything by which we read and write ZooKeeper."""


class Failing:
    """Stands where kazoo's client is: whatever is asked of it fails in the same way."""

    chroot = ""

    client_state = KeeperState.CONNECTED

    def __init__(self, error: Exception) -> None:
        self.error = error
        self.handler = SimpleNamespace(async_result=lambda: SimpleNamespace(get=self.fail, rawlink=lambda _: None))

    def fail(self, *_: Any, **__: Any) -> Any:
        raise self.error

    def _call(self, request: object, result: object) -> None: ...

    def get_async(self, path: str, **options: Any) -> Any:
        return SimpleNamespace(get=self.fail)

    exists_async = get_children_async = sync_async = ensure_path_async = get_async

    def transaction(self) -> Any:
        return SimpleNamespace(create=lambda *_, **__: None, commit_async=self.fail)


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("error", [*KAZOO, KazooTimeoutError], ids=lambda each: each.__name__)
def test_k16_every_error_of_zookeeper_is_expected_trouble_that_names_a_path(
    error: type[Exception], operation: str
) -> None:
    """Expected trouble is tried again, or ends the window; anything else would be a fault."""
    session = ZkSession.__new__(ZkSession)
    session._client = Failing(error())
    session._reads = ReadPipeline(session._client)
    session._reads._has_multi_read = error is not exceptions.UnimplementedError
    session._listeners = {}
    session._login, session._set_acl, session._logins = None, False, Logins(None)
    with pytest.raises(FindingError, match=r"Z2K-200[24]"):
        OPERATIONS[operation](session)


def test_k16_an_answer_that_is_an_error_is_expected_trouble_too() -> None:
    with pytest.raises(FindingError, match="Z2K-2004"):
        PendingMulti(SimpleNamespace(get=Failing(exceptions.AuthFailedError()).fail), 1).outcome()


def test_k17_a_transaction_that_could_not_be_appended_ends_the_takeover() -> None:
    """Nothing is read, settled or told after it: stock goes on to read ZooKeeper."""
    touched: list[str] = []

    class Session:
        def __getattr__(self, name: str) -> Any:
            touched.append(name)
            raise AssertionError(name)

    async def append_copy(batches: object, delta: object) -> Any:
        raise LeadershipLost

    @asynccontextmanager
    async def paused() -> Any:
        yield

    async def told() -> None:
        driver = a_driver(State.COMMITTING, session=Session(), epoch=5)
        base = an_image(migration=MigrationState.PRE_MIGRATION)
        controller = SimpleNamespace(
            newest=base, image=base, paused=paused, next_offset=lambda: 10, append_copy=append_copy,
            heal=AsyncMock(side_effect=lambda: touched.append("heal")),
        )  # fmt: skip
        with_parts(driver, controller=controller)
        driver.now.copy, driver.now.claim = Copy(Tree(), {}, (), {}, 5_000), a_claim()

        async def observed() -> Any:
            return found(3000, 5)

        driver.claim_watch.observed = observed
        assert await driver._guarded(copy_acts(driver).commit) is Happened.LEADERSHIP_LOST
        assert touched == []

    story(told)


def test_k24_what_holds_the_driver_up_stands_in_its_status_until_it_is_over() -> None:
    async def told() -> None:
        driver = a_driver(State.SYNCING)
        tries: list[Any] = []

        async def act() -> Happened:
            tries.append(driver.now.trouble)
            if len(tries) == 1:
                raise ZOOKEEPER_REFUSES.error(path="/config/users", reason="NoAuthError")
            return Happened.RECONCILED

        assert await driver._guarded(as_act(act)) is Happened.RECONCILED
        assert [None if each is None else each.code for each in tries] == [None, "Z2K-2004"]
        await driver._enter(State.UPDATING_BROKERS, Happened.RECONCILED)
        assert driver.now.trouble is None

    story(told)


@pytest.mark.parametrize("state", [State.COPYING, State.DUAL_WRITE])
def test_k24_a_fault_in_the_background_is_not_only_logged(state: State) -> None:
    """Before brokers know of the claim it ends the driver; afterwards every next leader would meet it too, and it is
    an alarm.
    """

    async def told() -> None:
        driver = a_driver(state)

        async def broken_look() -> None:
            raise AssertionError("a promise of ours is broken")

        async def act() -> Happened:
            await asyncio.sleep(60)
            return Happened.MIRROR_BROKEN

        driver.claim_watch._check = broken_look
        running = asyncio.create_task(driver.run({state: as_act(act)}))
        await asyncio.sleep(0)
        driver.claim_watch._begin_look()
        if state is State.COPYING:
            with pytest.raises(AssertionError, match="a promise of ours"):
                await running
        else:
            while not driver.now.alarms:
                await asyncio.sleep(0)
            assert "a promise of ours is broken" in str(*driver.now.alarms.values())
            running.cancel()

    story(told)
