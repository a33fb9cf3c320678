"""What the driver's acts make of a ZooKeeper that is away, forgot the session, or refuses: without any network.

The same on real ensembles, phase by phase: tests/e2e/test_zookeeper_trouble.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import pytest

from migrator.control_api.states import State
from migrator.driver.claim import plan_claim
from migrator.driver.guard import Survey
from migrator.driver.machine import Happened, TimeWithoutController
from migrator.driver.mirror import Shape
from migrator.driver.places import PLACE_PATHS
from migrator.findings.finding import Finding, FindingError
from migrator.findings.zookeeper import ZOOKEEPER_LOST, ZOOKEEPER_REFUSES
from migrator.model.diff import diff
from migrator.model.image import EMPTY, Image, Position
from migrator.model.values import Mark
from migrator.node.driver import persisting
from migrator.node.driver.mirror_node import Mirror
from migrator.node.log.log_store import LogStore
from migrator.node.log.storage import LOG_NAME
from migrator.node.zookeeper.claims import read_claim, refusal
from migrator.node.zookeeper.tree_reader import missing_places, read_tree
from migrator.wire.batch import build_batch
from migrator.wire.messages.metadata import NoOpRecord
from migrator.wire.records import encode_record
from migrator.zk import paths
from migrator.zk.multi import Check, Multi, MultiOutcome, SetData
from tests.support.builders import a_topic, an_image
from tests.support.driver_acts import (
    as_act,
    claim_acts,
    done,
    dual_write_acts,
    persisted,
    reconcile_acts,
    rollback_acts,
    update_acts,
)
from tests.support.fake_zookeeper import FakeEnsemble, FakeSession
from tests.unit.driver.test_mirror import a_cluster, assert_mirrored, mirror
from tests.unit.driver.test_places import remove
from tests.unit.node.driver.test_driver_acts import a_resting_mirror, story
from tests.unit.node.driver.test_leaderships import a_voters_driver

NODES = {"voter_ids": (3000,), "node_id": 3000, "gates": "auto", "takeover_max_ms": 15_000}
COMMITTED = Position(5, 40)
A_NOOP = encode_record(NoOpRecord(), 0)


class Troubled(FakeSession):
    """A session in which the next writes go wrong: before they arrive, or on the way back."""

    def __init__(self, ensemble: FakeEnsemble, *, lost_before: int = 0, lost_after: int = 0, **raised: Finding) -> None:
        super().__init__(ensemble, ensemble.session().session_id)
        self.lost_before, self.lost_after = lost_before, lost_after
        self.raised = list(raised.values())
        self.writes: list[Multi] = []

    def apply(self, multi: Multi) -> MultiOutcome:
        self.writes.append(multi)
        if self.raised:
            raise self.raised.pop().error(path="/migration", reason="NoAuthError")
        if self.lost_before:
            self.lost_before -= 1
            raise ZOOKEEPER_LOST.error(path="multi", reason="ConnectionLoss")
        outcome = super().apply(multi)
        if self.lost_after:
            self.lost_after -= 1
            raise ZOOKEEPER_LOST.error(path="multi", reason="ConnectionLoss")
        return outcome


def a_committed_driver(session: Troubled, *, opened_ms: int | None = None) -> Any:
    """In COMMITTING, the copy appended, the claim still of the session."""
    session.ensemble.create(paths.CONTROLLER_EPOCH, b"1")
    observed = read_claim(session)
    multi, claim = plan_claim(observed, node=3000, kraft_epoch=5, now_ms=0, ephemeral=True)
    assert FakeSession.apply(session, multi).applied
    driver = a_voters_driver(State.COMMITTING, session=session, config=SimpleNamespace(**NODES))
    driver.now.claim = claim
    driver.now.fresh_copy = True
    driver.now.window = TimeWithoutController(driver.parts.now_ms() if opened_ms is None else opened_ms, 15_000)
    return driver


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(persisting, "PERSIST_AGAIN_S", 0.0)
    monkeypatch.setattr("migrator.node.driver.driver_node.RIDE_AGAIN_S", 0.0)
    monkeypatch.setattr("migrator.node.driver.driver_node.AGAIN_S", 0.0)
    monkeypatch.setattr("migrator.node.driver.claim_watch.LOOK_S", 0.0)


# --- before the claim -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("trouble", "stands"), [({"lost_after": 1}, True), ({"lost_before": 1}, False)])
def test_k01_a_first_claim_whose_answer_was_lost_is_ours_exactly_if_it_stands(
    trouble: dict[str, Any], stands: bool
) -> None:
    """Taken for refused, it would keep every broker from the post, and nobody of us would act on it."""

    async def told() -> None:
        async def mark(mark: Mark, text: str, is_due: Callable[[Image], bool] = lambda _: True) -> None: ...

        ensemble, _, _ = a_cluster()
        for path in (paths.CONTROLLER, paths.MIGRATION):
            del ensemble.nodes[path]
        session = Troubled(ensemble, **trouble)
        config = SimpleNamespace(**NODES, broker_heartbeat_interval_ms=2_000)
        driver = a_voters_driver(State.TAKING_OVER, session=session, config=config)
        driver.parts.controller.mark = mark  # type: ignore[method-assign]
        driver.claim_watch.look = lambda: None  # type: ignore[method-assign]
        acts = claim_acts(driver)
        assert await done(driver, acts.take_over()) is (Happened.CLAIMED if stands else Happened.CLAIM_REFUSED)
        acts.close()
        assert (paths.CONTROLLER in ensemble.nodes) is stands
        assert (driver.now.claim is not None) is stands
        assert len(session.writes) == 1

    story(told)


def test_a_claim_that_was_never_tried_leaves_no_mark_and_no_hold() -> None:
    async def told() -> None:
        marks: list[str] = []

        async def mark(mark: Mark, text: str, is_due: Callable[[Image], bool] = lambda _: True) -> None:
            marks.append(text)

        def away(path: str, watch: object = None) -> None:
            raise ZOOKEEPER_LOST.error(path=path, reason="not connected")

        driver = a_voters_driver(State.TAKING_OVER, session=SimpleNamespace(get=away))
        driver.parts.controller.mark = mark  # type: ignore[method-assign]
        assert await done(driver, claim_acts(driver).take_over()) is Happened.CLAIM_REFUSED
        assert marks[-1] == ""
        assert driver.now.finding is not None
        assert driver.now.finding.code == "Z2K-2002"

    story(told)


# --- in the window ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", [State.COPYING, State.AUDITING])
def test_what_was_being_read_in_the_window_is_read_again_while_the_claim_stands(state: State) -> None:
    async def told() -> None:
        driver = a_committed_driver(Troubled(FakeEnsemble()))
        driver.now.state, driver.now.fresh_copy = state, False
        tries: list[int] = []

        async def act() -> Happened:
            tries.append(1)
            if len(tries) < 3:
                raise ZOOKEEPER_LOST.error(path="/brokers/topics/a", reason="ConnectionLoss")
            return Happened.COPIED

        assert await driver._guarded(as_act(act)) is Happened.COPIED
        assert len(tries) == 3
        assert driver.now.trouble is None

    story(told)


def test_nothing_is_read_again_for_a_claim_that_ended_with_its_session() -> None:
    async def told() -> None:
        session = Troubled(FakeEnsemble())
        driver = a_committed_driver(session)
        driver.now.state, driver.now.fresh_copy = State.COPYING, False
        session.ensemble.expire(session.session_id)

        async def act() -> Happened:
            raise ZOOKEEPER_LOST.error(path="/brokers/topics/a", reason="SessionExpiredError")

        assert await driver._guarded(as_act(act)) is Happened.WINDOW_FAILED
        assert driver.now.finding.code == "Z2K-2051"

    story(told)


# --- between the commit and the first word to a broker -----------------------------------------------------


@pytest.mark.parametrize(
    "trouble",
    [{"lost_before": 2}, {"lost_after": 1}, {"refused": ZOOKEEPER_REFUSES}],
    ids=lambda each: next(iter(each)),
)
def test_a_claim_that_is_ours_is_made_to_last_whatever_became_of_the_first_try(trouble: dict[str, Any]) -> None:
    """A lost write was taken for somebody else's touch: FENCED, with a claim that kept every broker from the post."""

    async def told() -> None:
        session = Troubled(FakeEnsemble(), **trouble)
        driver = a_committed_driver(session)
        assert await persisted(driver, COMMITTED) is Happened.COMMITTED
        assert not driver.now.claim.ephemeral
        observed = read_claim(session)
        assert observed.controller_owner == 0
        assert observed.migration_version == driver.now.claim.migration_version
        assert observed.migration is not None
        assert observed.migration.kraft_metadata_offset == COMMITTED.offset

    story(told)


def test_a_claim_that_cannot_be_made_to_last_within_the_limit_is_given_up() -> None:
    async def told() -> None:
        driver = a_committed_driver(Troubled(FakeEnsemble(), lost_before=1), opened_ms=-20_000)
        assert await persisted(driver, COMMITTED) is Happened.MUST_ROLL_BACK
        assert driver.now.finding.code == "Z2K-2052"
        assert "Z2K-2002" in driver.now.finding.text

    story(told)


def test_a_claim_whose_session_ended_after_the_commit_retires_the_log_and_needs_nobody() -> None:
    async def told() -> None:
        session = Troubled(FakeEnsemble())
        driver = a_committed_driver(session)
        session.ensemble.expire(session.session_id)
        assert await persisted(driver, COMMITTED) is Happened.MUST_ROLL_BACK
        assert driver.now.finding.code == "Z2K-2051"

    story(told)


def test_no_trouble_after_the_append_begins_the_commit_anew() -> None:
    """The copy would be appended a second time."""

    async def told() -> None:
        appended: list[int] = []
        driver = a_committed_driver(Troubled(FakeEnsemble(), first=ZOOKEEPER_REFUSES, second=ZOOKEEPER_REFUSES))

        async def commit() -> Happened:
            appended.append(1)
            return await persisted(driver, COMMITTED)

        assert await driver._guarded(as_act(commit)) is Happened.COMMITTED
        assert appended == [1]

    story(told)


def test_brokers_are_not_told_of_a_commit_when_the_window_is_over() -> None:
    async def told() -> None:
        driver = a_committed_driver(Troubled(FakeEnsemble()), opened_ms=-20_000)
        driver.now.state, driver.mirroring.mirror = State.UPDATING_BROKERS, SimpleNamespace()
        driver.parts.config.inter_broker_listener = "PLAINTEXT"
        driver.now.surveys = {broker: Survey(broker) for broker in driver.parts.controller.image.brokers}
        assert await done(driver, update_acts(driver).update_brokers()) is Happened.MUST_ROLL_BACK
        assert driver.now.finding.code == "Z2K-2052"
        assert driver.propagator.broker_updates is None

    story(told)


@pytest.mark.parametrize("marked", [True, False])
def test_a_successor_heals_leaderships_until_dual_write_was_entered_once(*, marked: bool) -> None:
    """Whoever committed the copy may have died between the commit and its own healing."""

    async def told() -> None:
        image = an_image(a_topic("orders"), marks={Mark.TAKEOVER: "epoch 4"} if marked else {})
        _, session, claim = a_cluster()
        claim, _ = mirror(session, claim, diff(EMPTY, image), Shape())
        healed: list[int] = []

        def heal() -> int:
            healed.append(1)
            return 1

        driver = a_voters_driver(State.SYNCING, session=session)
        driver.parts.controller.image = image
        driver.parts.controller.heal = AsyncMock(side_effect=heal)  # type: ignore[method-assign]
        driver.now.claim = claim
        assert await done(driver, reconcile_acts(driver).reconcile()) is Happened.RECONCILED
        assert healed == [1] * marked

    story(told)


# --- dual-write -------------------------------------------------------------------------------------------


def a_mirror(session: FakeSession, broken: list[str]) -> Mirror:
    return Mirror(
        session,
        read_and_claim(session),
        EMPTY,
        Shape(),
        session_id=session.session_id,
        on_applied=lambda position: None,
        on_broken=broken.append,
        on_claim=lambda claim: None,
    )


def read_and_claim(session: FakeSession) -> Any:
    session.ensemble.create(paths.CONTROLLER_EPOCH, b"1")
    multi, claim = plan_claim(read_claim(session), node=3000, kraft_epoch=5, now_ms=0, ephemeral=False)
    assert session.apply(multi).applied
    return claim


def test_nothing_is_written_in_a_later_session_than_that_in_which_the_claim_was_seen() -> None:
    async def told() -> None:
        broken: list[str] = []
        session = Troubled(FakeEnsemble())
        writer = a_mirror(session, broken)
        session.writes.clear()
        session.session_id += 1  # it expired, and kazoo has another one
        writer.publish(diff(EMPTY, an_image(a_topic("orders"))))
        assert session.writes == []
        assert len(broken) == 1

    story(told)


def test_a_mirror_whose_session_ended_says_so_once_and_writes_no_more() -> None:
    async def told() -> None:
        broken: list[str] = []
        session = Troubled(FakeEnsemble())
        writer = a_mirror(session, broken)
        session.writes.clear()
        writer.break_off("the session ended")
        writer.break_off("again")
        writer.publish(diff(EMPTY, an_image(a_topic("orders"))))
        assert session.writes == []
        assert broken == ["the session ended"]

    story(told)


def test_dual_write_says_that_zookeeper_is_away_until_it_is_back(monkeypatch: pytest.MonkeyPatch) -> None:
    async def told() -> None:
        def children(path: str) -> list[str]:
            if not session.connected:
                raise ZOOKEEPER_LOST.error(path=path, reason="not connected")
            return ["1"] if path == paths.BROKER_IDS else []

        def get_many(places: Iterable[str]) -> Iterator[Any]:
            return (SimpleNamespace(data=b'{"version":5}') for _ in places)

        session = SimpleNamespace(
            connected=False, children=children, get=lambda path, watch=None: None, get_many=get_many
        )
        driver = a_voters_driver(State.DUAL_WRITE, session=session)
        driver.mirroring.mirror = a_resting_mirror()
        said: list[tuple[str | None, bool]] = []

        async def changed(timeout_s: float) -> None:
            trouble = driver.now.trouble
            said.append((None if trouble is None else trouble.code, "not connected" in driver.now.reason))
            session.connected = True
            if len(said) == 2:
                driver.request_rollback()

        monkeypatch.setattr(driver.parts.events, "changed", changed)
        assert await done(driver, dual_write_acts(driver).dual_write()) is Happened.ROLLBACK_REQUESTED
        assert said == [("Z2K-2002", True), (None, False)]

    story(told)


async def nothing() -> None: ...


def test_a_rollback_that_cannot_compare_is_refused_and_dual_write_goes_on(tmp_path: Path) -> None:
    """Everything is quiet, the log can be read, and ZooKeeper falls silent at the first look into it."""

    async def told() -> None:
        asked: list[str] = []

        def away(path: str = "/") -> None:
            asked.append(path)
            raise ZOOKEEPER_LOST.error(path=path, reason="not connected")

        store = LogStore.open(tmp_path / LOG_NAME, 1 << 20)
        store.append(0, 1, [build_batch(base_offset=0, leader_epoch=1, timestamp_ms=0, values=[A_NOOP])])
        ensemble, _, _ = a_cluster()
        session = Troubled(ensemble)
        session.sync = away  # type: ignore[method-assign]
        driver = a_voters_driver(State.ROLLING_BACK, session=session)
        driver.parts.config.metadata_log_dir = tmp_path  # type: ignore[misc]
        driver.mirroring.mirror = a_resting_mirror()
        driver.parts.controller.settled, driver.parts.controller.lag = nothing, lambda: 0  # type: ignore[method-assign]
        assert await done(driver, rollback_acts(driver).rollback()) is Happened.ROLLBACK_REFUSED
        assert asked == ["/"], "the comparison itself was begun"
        assert driver.now.finding is not None
        assert driver.now.finding.code == "Z2K-2002"

    story(told)


def test_what_is_committed_while_zookeeper_is_away_is_not_kept_in_memory() -> None:
    """The comparison reads the image of then; an outage may last for hours."""

    async def told() -> None:
        def away() -> None:
            if not driver.mirroring.backlog:
                session.sync = lambda: None
            raise ZOOKEEPER_LOST.error(path="/", reason="not connected")

        session: Any = Troubled(FakeEnsemble())
        session.ensemble.create(paths.CONTROLLER_EPOCH, b"1")
        session.sync = away
        driver = a_voters_driver(State.SYNCING, session=session)
        driver.mirroring.backlog, driver.propagator._unsent = (
            [diff(EMPTY, driver.parts.controller.image)] for _ in range(2)
        )
        assert (await driver.claim_watch.observed()).epoch == 1
        assert (driver.mirroring.backlog, driver.propagator._unsent) == ([], [])

    story(told)


# --- access lists -----------------------------------------------------------------------------------------


def test_a_write_that_an_access_list_forbids_is_told_by_its_path_alone() -> None:
    multi = Multi((Check(paths.CONTROLLER_EPOCH, 1), SetData("/config/users/alice", b"a secret", 3)))
    found = refusal(multi, MultiOutcome(failed_at=1, error="no_auth"))
    assert (found.code, found.values) == ("Z2K-2050", {"path": "/config/users/alice"})


# --- persistent znodes that somebody deleted ----------------------------------------------------------------


@pytest.mark.parametrize(("error", "name"), [("no_node", "NoNode"), ("bad_version", "BadVersion"), ("odd", "odd")])
def test_a_refused_write_is_told_by_zookeepers_own_error_and_not_as_a_lost_connection(error: str, name: str) -> None:
    multi = Multi((Check(paths.CONTROLLER_EPOCH, 1), SetData(paths.PRODUCER_IDS, b"{}")))
    found = refusal(multi, MultiOutcome(failed_at=1, error=error))
    assert found.code == "Z2K-2121"
    assert f"{name} to a write on /latest_producer_id_block" in found.text
    assert "connection" not in found.text


@pytest.mark.parametrize("path", PLACE_PATHS)
def test_a_persistent_znode_that_vanished_after_the_takeover_is_created_again_from_the_log(path: str) -> None:
    async def told() -> None:
        image = an_image(a_topic("orders"), topic_configs={"orders": {"retention.ms": "1"}}, next_producer_id=5_000)
        ensemble, session, claim = a_cluster()
        claim, _ = mirror(session, claim, diff(EMPTY, image), Shape())
        remove(ensemble, path)
        driver = a_voters_driver(State.SYNCING, session=session)
        driver.parts.controller.image = image
        driver.now.claim = claim
        assert await done(driver, reconcile_acts(driver).reconcile()) is Happened.RECONCILED
        assert missing_places(session) == []
        assert_mirrored(session, image)
        assert path in driver.now.alarms["Z2K-2122"].text
        assert await done(driver, reconcile_acts(driver).reconcile()) is Happened.RECONCILED
        assert driver.now.alarms == {}

    story(told)


def test_dual_write_looks_for_persistent_znodes_that_vanished_and_no_rollback_goes_on_without_them() -> None:
    async def told() -> None:
        image = an_image(a_topic("orders"))
        ensemble, session, claim = a_cluster()
        claim, _ = mirror(session, claim, diff(EMPTY, image), Shape())
        remove(ensemble, paths.CONFIG_CHANGES)
        broken: list[str] = []
        driver = a_voters_driver(State.DUAL_WRITE, session=session)
        driver.mirroring.mirror = a_resting_mirror(break_off=broken.append)
        await dual_write_acts(driver)._look_for_places()
        assert broken == ["/config/changes does not exist any more"]
        with pytest.raises(FindingError, match=r"Z2K-2014.*/config/changes does not exist"):
            rollback_acts(driver)._refuse_missing_places()

    story(told)


@pytest.mark.parametrize("refused", [None, MultiOutcome(failed_at=1, error="no_auth")])
def test_the_takeover_creates_what_every_broker_would_before_it_claims_anything(refused: MultiOutcome | None) -> None:
    async def told() -> None:
        ensemble, _, _ = a_cluster()
        remove(ensemble, "/config/ips")
        for path in (paths.CONTROLLER, paths.MIGRATION):
            del ensemble.nodes[path]
        session = Troubled(ensemble)
        if refused is not None:
            session.apply = lambda multi: refused  # type: ignore[method-assign]

        async def mark(mark: Mark, text: str, is_due: Callable[[Image], bool] = lambda _: True) -> None: ...

        config = SimpleNamespace(**NODES, broker_heartbeat_interval_ms=2_000)
        driver = a_voters_driver(State.TAKING_OVER, session=session, config=config)
        driver.parts.controller.mark = mark  # type: ignore[method-assign]
        driver.claim_watch.look = lambda: None  # type: ignore[method-assign]
        driver.now.tree = read_tree(session)
        acts = claim_acts(driver)
        happened = await done(driver, acts.take_over())
        acts.close()
        if refused is None:
            assert happened is Happened.CLAIMED
            assert [multi.describe()[1:] for multi in session.writes[:1]] == [["create /config/ips "]]
            assert missing_places(session) == []
        else:
            assert happened is Happened.CLAIM_REFUSED
            assert driver.now.finding is not None
            assert driver.now.finding.code == "Z2K-2050"
            assert paths.CONTROLLER not in ensemble.nodes

    story(told)
