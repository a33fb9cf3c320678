"""Orders that somebody left in ZooKeeper: seen in dual-write, taken away by the next reconcile, in no way back left."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest

from migrator.audit.compare import ExpectedDifferences
from migrator.audit.quick import compare_sides, facts_of_values
from migrator.control_api.states import State
from migrator.controller.contacts import Contacts
from migrator.driver.chained import OPERATIONS_MAX
from migrator.driver.copy import make_copy
from migrator.driver.machine import Happened
from migrator.driver.mirror import Shape
from migrator.driver.not_following import NotFollowing
from migrator.driver.orders import orders_of, plan_orders_removed
from migrator.driver.way_back import Left, last_steps
from migrator.findings.finding import FindingError
from migrator.model.diff import diff
from migrator.model.image import EMPTY
from migrator.model.values import Mark
from migrator.node.driver import dual_write
from migrator.node.tools.without_controllers import execute_without_controllers, plan_without_controllers
from migrator.node.zookeeper.claims import read_claim
from migrator.node.zookeeper.tree_reader import read_tree
from migrator.node.zookeeper.zookeeper_orders import read_orders
from migrator.zk import paths
from migrator.zk.multi import Multi, MultiOutcome
from tests.support.builders import a_topic, an_image
from tests.support.driver_acts import done, dual_write_acts, reconcile_acts, rollback_acts, with_parts
from tests.support.fake_zookeeper import FakeEnsemble, FakeSession
from tests.support.seeded_tree import SeededTree
from tests.support.statuses import driver_status
from tests.unit.driver.test_mirror import a_cluster, mirror
from tests.unit.node.driver.test_driver_acts import a_resting_mirror, story
from tests.unit.node.driver.test_leaderships import a_voters_driver
from tests.unit.node.tools.test_without_controllers import a_dead_dual_write

MARK = f"{paths.DELETE_TOPICS}/orders"
ORDERS = {
    MARK: b"",
    f"{paths.DELETE_TOPICS}/unknown.topic": b"",
    f"{MARK}/odd": b"below a mark",
    paths.REASSIGN_PARTITIONS: b'{"version":1,"partitions":7}',
    paths.PREFERRED_ELECTION: b"\xff",
}
GIVEN = tuple(sorted(path for path in ORDERS if path != f"{MARK}/odd"))


def with_orders(ensemble: FakeEnsemble) -> FakeEnsemble:
    for path, data in ORDERS.items():
        ensemble.create(path, data)
    return ensemble


def orders_in(ensemble: FakeEnsemble) -> set[str]:
    return {path for path in ORDERS if path in ensemble.nodes}


def a_driver_in_migration(state: State, **marks: str) -> tuple[Any, FakeEnsemble]:
    """Of a cluster that is mirrored, with a claim that stands."""
    ensemble, session, claim = a_cluster()
    image = an_image(a_topic("orders"), marks=marks)
    claim, _ = mirror(session, claim, diff(EMPTY, image), Shape())
    driver = a_voters_driver(state, session=session)
    driver.parts.controller.image = driver.parts.controller.newest = image
    driver.parts.controller.heal = AsyncMock(return_value=0)  # type: ignore[method-assign]
    driver.parts.controller.contacts = Contacts()
    driver.now.claim = claim
    return driver, ensemble


@pytest.mark.parametrize("marks", [{}, {Mark.TAKEOVER: "epoch 4"}], ids=["after a fail-over", "before dual-write"])
def test_a_reconcile_takes_every_order_away_and_nothing_else(marks: dict[str, str]) -> None:
    async def told() -> None:
        driver, ensemble = a_driver_in_migration(State.SYNCING, **marks)
        before = ensemble.tree().keys()
        with_orders(ensemble)
        assert await done(driver, reconcile_acts(driver).reconcile()) is Happened.RECONCILED
        assert ensemble.tree().keys() >= before
        assert not orders_in(ensemble)

    story(told)


def test_orders_are_taken_away_only_while_the_claim_stands() -> None:
    ensemble, session, claim = a_cluster()
    orders = read_orders(with_orders(ensemble).session())
    assert orders.given == GIVEN
    (multi,) = plan_orders_removed(orders, replace(claim, epoch_version=claim.epoch_version + 1))
    assert not session.apply(multi).applied
    assert orders_in(ensemble) == set(ORDERS)
    many = orders_of([f"{paths.DELETE_TOPICS}/t{number}" for number in range(2 * OPERATIONS_MAX + 1)], [])
    assert [len(each) - 1 for each in plan_orders_removed(many, claim)] == [OPERATIONS_MAX, OPERATIONS_MAX, 1]


def test_orders_that_zookeeper_does_not_let_go_hold_up_no_reconcile() -> None:
    class Guarded(FakeSession):
        def apply(self, multi: Multi) -> MultiOutcome:
            guarded = [at for at, each in enumerate(multi.operations) if each.path in ORDERS]
            return MultiOutcome(failed_at=guarded[0], error="no_auth") if guarded else super().apply(multi)

    async def told() -> None:
        driver, ensemble = a_driver_in_migration(State.SYNCING)
        with_parts(driver, session=Guarded(with_orders(ensemble), driver.parts.session.session_id))
        assert await done(driver, reconcile_acts(driver).reconcile()) is Happened.RECONCILED
        assert orders_in(ensemble) == set(ORDERS)

    story(told)


def test_dual_write_tells_of_orders_as_long_as_they_stand() -> None:
    async def told() -> None:
        driver, ensemble = a_driver_in_migration(State.DUAL_WRITE)
        acts = dual_write_acts(driver)
        driver.parts.controller.heartbeat_ages_ms = dict
        driver.propagator.channels.states = list
        with_orders(ensemble)
        await acts._look_for_orders()
        status = driver_status(driver)
        assert [each["code"] for each in status["driver"]["alarms"]] == ["Z2K-2101"]
        assert (tuple(status["dual_write"]["orders"]), status["dual_write"]["orders_count"]) == (GIVEN, len(GIVEN))
        for path in sorted(ORDERS, reverse=True):
            del ensemble.nodes[path]
        await acts._look_for_orders()
        assert (driver.now.alarms, driver.now.orders.given) == ({}, ())

    story(told)


def test_dual_write_looks_for_orders_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    async def told() -> None:
        driver, ensemble = a_driver_in_migration(State.DUAL_WRITE)
        with_orders(ensemble)
        driver.mirroring.mirror = a_resting_mirror()
        observed: list[int] = []

        def look(session: Any) -> Any:
            observed.append(1)
            driver.request_rollback()
            return read_orders(session)

        monkeypatch.setattr(dual_write, "read_orders", look)
        assert await done(driver, dual_write_acts(driver).dual_write()) is Happened.ROLLBACK_REQUESTED
        assert observed == [1]
        assert "Z2K-2101" in driver.now.alarms

    story(told)


def test_an_observation_that_fails_unexpectedly_keeps_no_other_from_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    async def told() -> None:
        driver, ensemble = a_driver_in_migration(State.DUAL_WRITE)
        driver.mirroring.mirror = a_resting_mirror()
        ensemble.create(f"{paths.BROKER_IDS}/77", b"{no JSON")
        acts = dual_write_acts(driver)
        with monkeypatch.context() as patched:
            patched.setattr(dual_write, "against_stock", Mock(side_effect=KeyError("no topic of this id")))
            patched.setattr(dual_write, "read_orders", Mock(side_effect=TypeError("odd")))
            await acts._observe(NotFollowing())
        fault = driver.now.alarms["fault of the observation of replacing controllers"]
        assert (fault.code, "no topic of this id" in fault.text) == ("Z2K-2105", True)
        assert driver.now.replacing is None
        assert "Z2K-2107" in {each.code for each in driver.now.alarms.values()}
        await acts._observe(NotFollowing())
        assert [each.code for each in driver.now.alarms.values()] == ["Z2K-2107"]

    story(told)


def test_dual_write_names_a_registration_over_which_the_next_broker_ends_at_its_start() -> None:
    async def told() -> None:
        driver, ensemble = a_driver_in_migration(State.DUAL_WRITE)
        ensemble.create(f"{paths.BROKER_IDS}/77", b"{no JSON")
        acts = dual_write_acts(driver)
        await acts._look_for_odd_registrations()
        (alarm,) = driver.now.alarms.values()
        assert (alarm.code, f"{paths.BROKER_IDS}/77" in alarm.text) == ("Z2K-2107", True)
        del ensemble.nodes[f"{paths.BROKER_IDS}/77"]
        await acts._look_for_odd_registrations()
        assert not driver.now.alarms

    story(told)


# --- the way back -----------------------------------------------------------------------------------------


def test_no_rollback_while_orders_stand() -> None:
    async def told() -> None:
        driver, ensemble = a_driver_in_migration(State.ROLLING_BACK)

        async def settled() -> None: ...

        driver.parts.controller.settled = settled
        driver.parts.controller.lag = lambda: 0
        driver.mirroring.mirror = a_resting_mirror()
        acts = rollback_acts(driver)
        tree = with_orders(ensemble).tree()
        assert await done(driver, acts.rollback()) is Happened.ROLLBACK_REFUSED
        assert driver.now.finding.code == "Z2K-2102"
        assert ensemble.tree() == tree

    story(told)


@pytest.mark.parametrize("given_up", [False, True])
def test_an_order_that_came_at_the_last_moment_goes_with_the_claim(*, given_up: bool) -> None:
    """But for a log that is given up before any broker was told: then ZooKeeper's controller never stopped ruling."""
    ensemble, session, claim = a_cluster()
    orders = read_orders(with_orders(ensemble).session())
    left = Left(0.0, claim.node, claim.kraft_epoch, claim.zk_epoch, -1, leaves_orders=given_up)
    (multi,) = last_steps(read_claim(session), left, orders)
    assert session.apply(multi).applied
    assert paths.CONTROLLER not in ensemble.nodes
    assert orders_in(ensemble) == (set(ORDERS) if given_up else set())


def test_a_release_is_refused_while_orders_stand_and_drops_them_with_consent() -> None:
    ensemble = with_orders(a_dead_dual_write())
    tree = ensemble.tree()
    with pytest.raises(FindingError) as refused:
        plan_without_controllers(ensemble.session())
    assert refused.value.code == "Z2K-2102"
    assert ensemble.tree() == tree
    session = ensemble.session()
    execute_without_controllers(session, plan_without_controllers(session, drop_orders=True))
    assert not orders_in(ensemble)
    assert paths.DELETE_TOPICS in ensemble.nodes
    assert paths.CONTROLLER not in ensemble.nodes


# --- the audit --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rules", "same"),
    [
        (ExpectedDifferences(), False),
        (ExpectedDifferences(copied_zxid=10**6), True),
        (ExpectedDifferences(producer_id_margin=10**6), True),
    ],
    ids=["in dual-write", "a rehearsal", "before the commit"],
)
def test_an_audit_tells_of_each_order_while_ours_rule(rules: ExpectedDifferences, *, same: bool) -> None:
    ensemble = FakeEnsemble()
    SeededTree().plant(ensemble)
    session = ensemble.session()
    copy = make_copy(read_tree(session))
    with_orders(ensemble)
    comparison = compare_sides(session, facts_of_values(copy.values()), replace(rules, producer_id_margin=10**6))
    if rules == ExpectedDifferences():
        comparison = compare_sides(session, facts_of_values(copy.values()), rules)
    told = comparison.expected if same else comparison.differences
    assert {each.key for each in told if each.family == "orders"} == set(GIVEN)
    assert comparison.counts["orders"].different == (0 if same else len(GIVEN))
