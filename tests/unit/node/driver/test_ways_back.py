"""The order of the last steps, and what a rollback does not take for equal: without any network."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from migrator.audit.compare import AuditReport, Difference, DifferenceKind, FamilyCount
from migrator.control_api.states import State
from migrator.driver.guard import Survey
from migrator.driver.machine import Happened, TimeWithoutController
from migrator.driver.way_back import Left
from migrator.model.values import Mark
from migrator.node.driver import propagator, updating_brokers
from migrator.node.driver.rollback import RollbackActs, finish
from migrator.node.zookeeper.claims import read_claim
from migrator.node.zookeeper.kraft_brokers import KraftBrokersNoted
from migrator.node.zookeeper.tree_reader import read_tree
from migrator.zk import paths
from migrator.zk.multi import Create, Delete, Multi, SetData
from migrator.zk.znodes import MigrationZnode, controller_data, migration_data
from tests.support.driver_acts import claim_acts, done, rollback_acts, update_acts
from tests.support.fake_zookeeper import FakeEnsemble
from tests.unit.node.driver.test_driver_acts import a_resting_mirror, story
from tests.unit.node.zookeeper.test_zookeeper_orders import a_driver_in_migration


def a_report(**counts: int) -> AuditReport:
    """Of one family, with one difference where something is not equal."""
    same = not counts
    kind = DifferenceKind.NOT_READ if "not_read" in counts else DifferenceKind.CHANGED
    found = [] if same else [Difference("topics", "orders", "", kind, None, None, "no JSON")]
    return AuditReport(same, [FamilyCount("topics", 1, **counts)], found, [], {}, {}, {}, "quick")


def with_kraft_brokers(ensemble: FakeEnsemble) -> None:
    ensemble.create(paths.CLUSTER, b"")
    KraftBrokersNoted(ensemble.session()).note([2])
    assert paths.KRAFT_BROKERS in ensemble.nodes


def rolling_back(driver: Any, report: AuditReport, write: Callable[[str], object] = len) -> RollbackActs:
    """write: of the mark beside the log."""

    async def quiet() -> None: ...

    acts = rollback_acts(driver, retired_mark=SimpleNamespace(write=write))
    acts._quiet = quiet  # type: ignore[method-assign]
    acts._refuse_missing_places = lambda: None  # type: ignore[method-assign]
    acts._compare = lambda: (report, read_tree(driver.parts.session).highest_controller_epoch())  # type: ignore[method-assign]
    return acts


@pytest.mark.parametrize("counts", [{"not_read": 1}, {"different": 1}])
def test_what_is_different_or_could_not_be_read_is_not_rolled_back(counts: dict[str, int]) -> None:
    async def told() -> None:
        driver, ensemble = a_driver_in_migration(State.ROLLING_BACK)
        before = ensemble.tree()
        assert await done(driver, rolling_back(driver, a_report(**counts)).rollback()) is Happened.ROLLBACK_REFUSED
        assert driver.now.finding.code == "Z2K-2014"
        assert "orders" in driver.now.finding.text
        assert driver.now.alarms["rollback"] is driver.now.finding, "dual-write goes on and forgets its finding"
        assert ensemble.tree() == before

    story(told)


def test_the_log_is_retired_for_every_voter_and_on_this_disk_before_the_claim_goes() -> None:
    async def told() -> None:
        driver, ensemble = a_driver_in_migration(State.ROLLING_BACK)
        with_kraft_brokers(ensemble)
        steps: list[str] = []

        async def mark(which: Mark, text: str) -> None:
            assert (which, bool(text)) == (Mark.RETIRED, True)
            steps.append(f"log, claim stands: {paths.CONTROLLER in ensemble.nodes}")

        def write(text: str) -> None:
            steps.append(f"disk, claim stands: {paths.CONTROLLER in ensemble.nodes}")

        driver.parts.controller.mark = mark
        acts = rolling_back(driver, a_report(), write)
        assert await done(driver, acts.rollback()) is Happened.ROLLED_BACK
        assert steps == ["log, claim stands: True", "disk, claim stands: True"]
        assert paths.CONTROLLER not in ensemble.nodes
        assert paths.KRAFT_BROKERS not in ensemble.nodes, "the next migration begins without it"

    story(told)


def test_a_log_whose_claim_ended_before_it_was_persisted_takes_its_migration_away_and_is_retired() -> None:
    async def told() -> None:
        driver, ensemble = a_driver_in_migration(State.RESUMING)
        session = ensemble.session()
        observed = read_claim(session)
        never_mirrored = migration_data(MigrationZnode(driver.parts.config.node_id, driver.now.epoch))
        assert session.apply(
            Multi(
                (
                    Delete(paths.CONTROLLER, observed.controller_version),
                    Create(paths.CONTROLLER, controller_data(1, -1, 9)),
                    SetData(paths.MIGRATION, never_mirrored, observed.migration_version),
                )
            )
        ).applied
        stands: list[bool] = []

        async def mark(which: Mark, text: str) -> None:
            stands.append(paths.MIGRATION in ensemble.nodes)

        driver.parts.controller.mark = mark
        acts = claim_acts(driver, retired_mark=SimpleNamespace(write=lambda text: None))
        assert await done(driver, acts.resume()) is Happened.ROLLED_BACK
        assert stands == [False], "before the mark: a retired log never looks again"
        assert read_claim(session).controller_version == 0

    story(told)


def test_a_copy_that_a_broker_may_have_heard_of_is_no_fresh_one_any_more() -> None:
    """Given up after that, brokers would act on a log that is retired."""

    async def told() -> None:
        driver, _ = a_driver_in_migration(State.UPDATING_BROKERS)
        driver.now.fresh_copy = True
        driver.mirroring.mirror = a_resting_mirror()
        driver.now.surveys = {broker: Survey(broker) for broker in driver.parts.controller.image.brokers}
        sent: list[bool] = []
        driver.propagator.channels = SimpleNamespace(
            follow=lambda brokers: None, send=lambda orders: sent.append(driver.now.fresh_copy), states=list
        )
        updating = asyncio.create_task(done(driver, update_acts(driver).update_brokers()))
        while not sent:
            await asyncio.sleep(0)
        updating.cancel()
        await asyncio.gather(updating, return_exceptions=True)
        await driver.propagator.full_sends.stop()
        assert not any(sent)
        assert not driver.now.fresh_copy

    story(told)


def test_a_broker_that_says_nothing_after_the_commit_costs_no_rollback(monkeypatch: pytest.MonkeyPatch) -> None:
    """It registered again in the window and hangs. Waiting for it took two time-outs of 10 s, which end the window."""

    async def told() -> None:
        driver, _ = a_driver_in_migration(State.UPDATING_BROKERS)
        driver.now.fresh_copy = True
        driver.now.window = TimeWithoutController(driver.parts.now_ms(), 3_000)
        driver.mirroring.mirror = a_resting_mirror()
        silent = max(driver.parts.controller.image.brokers)
        driver.now.surveys = {each: Survey(each) for each in driver.parts.controller.image.brokers if each != silent}
        sent: list[int] = []
        driver.propagator.channels = SimpleNamespace(
            follow=lambda brokers: None, send=lambda orders: sent.extend(each.broker for each in orders), states=list
        )

        async def hangs(*_: Any) -> Any:
            await asyncio.Event().wait()

        monkeypatch.setattr(updating_brokers, "survey_brokers", hangs)
        monkeypatch.setattr(propagator, "survey_brokers", hangs)
        updating = asyncio.create_task(done(driver, update_acts(driver).update_brokers()))
        while not sent and not updating.done():
            await asyncio.sleep(0.01)
        assert not updating.done()
        assert sorted(set(sent)) == sorted(set(driver.parts.controller.image.brokers) - {silent})
        assert driver.propagator.not_updated()[-1] == silent
        updating.cancel()
        await asyncio.gather(updating, return_exceptions=True)
        await driver.propagator.full_sends.stop()

    story(told)


@pytest.mark.parametrize("stands", [True, False])
def test_a_retired_controller_that_starts_again_forgets_what_its_own_claim_noted_and_no_later_one(
    monkeypatch: pytest.MonkeyPatch, stands: bool
) -> None:
    async def told() -> None:
        _, ensemble = a_driver_in_migration(State.ROLLING_BACK)
        session = ensemble.session()
        observed = read_claim(session)
        held = observed.controller
        assert held is not None
        epoch = observed.epoch if stands else observed.epoch - 1
        left = Left(0.0, held.brokerid, held.kraft_epoch, epoch, -1)
        with_kraft_brokers(ensemble)
        opened = SimpleNamespace(start=lambda _: ensemble.session())
        monkeypatch.setattr("migrator.node.driver.rollback.ZkSession", lambda *_, **__: opened)
        config: Any = SimpleNamespace(
            zookeeper_connect="zk", zookeeper_tls=None, zookeeper_connection_timeout_ms=1, jute_maxbuffer=1 << 20
        )
        finish(config, msgspec.json.encode(left).decode())
        assert (paths.CONTROLLER in ensemble.nodes) is not stands
        assert (paths.KRAFT_BROKERS in ensemble.nodes) is not stands

    story(told)
