"""What nobody thought of, in a change, a broker's host or an act of the driver: named, and no process ends of it."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from migrator.control_api.states import State
from migrator.driver.machine import Happened
from migrator.driver.mirror import Shape
from migrator.driver.update_requests import UPDATE_METADATA, BrokerUpdate, UpdateKind
from migrator.model.diff import diff
from migrator.model.draft import Draft
from migrator.model.image import Position
from migrator.model.values import Listener, QuotaEntity
from migrator.node.brokers.broker_channels import BrokerChannels
from migrator.node.brokers.survey import survey_brokers
from migrator.node.driver import mirror_node
from migrator.node.driver.mirror_node import Mirror
from migrator.node.transport.client_security import PLAINTEXT
from tests.support.builders import a_broker, a_topic, an_image
from tests.support.driver_acts import as_act, done, reconcile_acts, rollback_acts
from tests.support.statuses import driver_status
from tests.unit.driver.test_mirror import a_cluster, mirror
from tests.unit.node.driver.test_driver_acts import story
from tests.unit.node.driver.test_leaderships import a_voters_driver
from tests.unit.node.zookeeper.test_zookeeper_orders import a_driver_in_migration

DOT = QuotaEntity((("user", "."),))
ODD_HOSTS = ["kafka-0..svc", "a" * 64 + ".svc", "\0", ""]


def a_mirror(session: Any, claim: Any, image: Any, **told: Any) -> Mirror:
    heard: dict[str, Any] = {
        "on_applied": lambda position: None,
        "on_broken": lambda reason: None,
        "on_claim": lambda claim: None,
        **told,
    }
    return Mirror(session, claim, image, Shape(), session_id=session.session_id, **heard)


def test_a_change_that_zookeeper_cannot_be_told_breaks_no_mirror() -> None:
    async def told() -> None:
        ensemble, session, claim = a_cluster()
        before = an_image(a_topic("orders"))
        claim, _ = mirror(session, claim, diff(mirror_node_empty(before), before), Shape())
        broken: list[str] = []
        unmirrored: list[Any] = []
        mirrored = a_mirror(session, claim, before, on_broken=broken.append, on_unmirrored=unmirrored.append)
        odd = an_image(a_topic("orders"), a_topic("payments"), quotas={DOT: {"request_percentage": 1.0}}, offset=1001)
        mirrored.publish(diff(before, odd))
        mirrored.publish(diff(odd, an_image(a_topic("orders"), a_topic("payments"), offset=1002)))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert [[each.family for each in found] for found in unmirrored] == [["entity"], []]
        assert not broken
        assert "/brokers/topics/payments" in ensemble.nodes

    story(told)


def mirror_node_empty(image: Any) -> Any:
    draft = Draft(image)
    for topic_id in image.topics:
        draft.remove_topic(topic_id)
    return draft.finish(Position(1, 999)).after


def test_a_fault_of_the_planner_or_of_the_client_library_ends_the_mirror_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    async def told() -> None:
        _, session, claim = a_cluster()
        before, after = an_image(), an_image(a_topic("orders"), offset=1001)
        broken: list[str] = []

        def fails(*_: object, **__: object) -> Any:
            raise TypeError("Invalid type for 'data' (bytes expected)")

        with monkeypatch.context() as patched:
            patched.setattr(mirror_node, "plan", fails)
            a_mirror(session, claim, before, on_broken=broken.append).publish(diff(before, after))
        monkeypatch.setattr(session, "send", fails)
        a_mirror(session, claim, before, on_broken=broken.append).publish(diff(before, after))
        assert len(broken) == 2
        assert all("bytes expected" in each for each in broken)

    story(told)


def test_a_log_with_a_name_that_zookeeper_does_not_take_reaches_dual_write_and_bars_the_way_back() -> None:
    """Of the user `.` each controller died in its reconcile, one after the other."""

    async def told() -> None:
        driver, _ = a_driver_in_migration(State.SYNCING)
        image = an_image(a_topic("orders"), quotas={DOT: {"request_percentage": 1.0}})
        driver.parts.controller.image = driver.parts.controller.newest = image
        assert await done(driver, reconcile_acts(driver).reconcile()) is Happened.RECONCILED
        driver.parts.controller.heartbeat_ages_ms = dict
        driver.propagator.channels.states = list
        status = driver_status(driver)
        assert [each["code"] for each in status["driver"]["alarms"]] == ["Z2K-2104"]
        assert status["dual_write"]["unmirrored_count"] == 1
        assert "'.'" in status["dual_write"]["unmirrored"][0]

        async def quiet() -> None: ...

        acts = rollback_acts(driver)
        acts._quiet = quiet  # type: ignore[method-assign]
        assert await done(driver, acts.rollback()) is Happened.ROLLBACK_REFUSED
        assert (driver.now.finding.code, "Z2K-2104" in driver.now.finding.text) == ("Z2K-2014", True)

    story(told)


@pytest.mark.parametrize("state", [State.WAIT_QUORUM, State.WAIT_BROKERS, State.RESUMING, State.SYNCING])
def test_an_act_that_met_a_fault_is_tried_again_before_the_claim_and_once_the_log_is_the_truth(
    monkeypatch: pytest.MonkeyPatch, state: State
) -> None:
    monkeypatch.setattr("migrator.node.driver.driver_node.AGAIN_S", 0.0)

    async def told() -> None:
        tries: list[int] = []

        async def act() -> Happened:
            tries.append(1)
            if len(tries) < 3:
                raise AssertionError("nobody thought of this")
            return Happened.RECONCILED

        driver = a_voters_driver(state)
        assert await driver._guarded(as_act(act)) is Happened.RECONCILED
        assert "nobody thought of this" in driver.now.alarms["Z2K-2105"].text

    story(told)


async def fails() -> Happened:
    raise AssertionError("nobody thought of this")


@pytest.mark.parametrize("state", [State.TAKING_OVER, State.COPYING, State.AUDITING, State.COMMITTING])
def test_a_fault_of_an_act_before_the_append_ends_the_takeover_and_not_one_voter_after_the_other(state: State) -> None:
    async def told() -> None:
        driver = a_voters_driver(state)
        assert await driver._guarded(as_act(fails)) is Happened.WINDOW_FAILED
        assert driver.now.finding is not None
        assert (driver.now.finding.code, "nobody thought of this" in driver.now.reason) == ("Z2K-2105", True)

    story(told)


@pytest.mark.parametrize(
    ("state", "fresh_copy"), [(State.COMMITTING, True), (State.ABORTING, False), (State.ROLLING_BACK_EARLY, False)]
)
def test_a_fault_while_nobody_knows_whose_the_claim_is_ends_the_process_and_the_claim(
    state: State, fresh_copy: bool
) -> None:
    async def told() -> None:
        driver = a_voters_driver(state)
        driver.now.fresh_copy = fresh_copy
        with pytest.raises(AssertionError):
            await driver._guarded(as_act(fails))

    story(told)


def test_brokers_that_cannot_be_told_what_is_in_zookeeper_now_are_told_everything_anew() -> None:
    async def told() -> None:
        driver, _ = a_driver_in_migration(State.DUAL_WRITE)
        broken: list[str] = []
        driver.mirroring.mirror = SimpleNamespace(break_off=broken.append)
        driver.propagator.broker_updates = SimpleNamespace(mirrored=lambda position: 1 / 0)
        driver.on_applied(Position(1, 1001))
        assert "what ZooKeeper has now" in driver.now.alarms["Z2K-2105"].text
        assert (driver.propagator.broker_updates, len(broken)) == (None, 1)

    story(told)


def test_a_change_that_brokers_cannot_be_told_ends_no_process() -> None:
    async def told() -> None:
        driver, _ = a_driver_in_migration(State.DUAL_WRITE)
        broken: list[str] = []
        driver.mirroring.mirror = SimpleNamespace(publish=lambda delta: None, break_off=broken.append)
        driver.propagator.broker_updates = SimpleNamespace(published=lambda delta: 1 / 0)
        driver.published(Draft(driver.parts.controller.image).finish(Position(1, 1001)))
        assert "Z2K-2105" in driver.now.alarms
        assert driver.propagator.broker_updates is None
        assert broken

    story(told)


# --- hosts ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ODD_HOSTS)
def test_a_host_that_is_no_name_is_one_that_cannot_be_reached(host: str) -> None:
    async def told() -> None:
        with pytest.raises(OSError):  # noqa: PT011  (whatever the resolver says of it)
            await PLAINTEXT.open(host, 1, "test")
        broker = a_broker(1, listeners=(Listener("PLAINTEXT", host, 1),))
        answers, failed = await survey_brokers([broker], "PLAINTEXT", "test")
        assert (answers, set(failed)) == ({}, {1})

    story(told)


def test_a_channel_to_a_host_that_is_no_name_names_the_broker_and_goes_on() -> None:
    async def told() -> None:
        faults: list[Any] = []
        channels = BrokerChannels(
            "test",
            "PLAINTEXT",
            on_answer=lambda order, problem: None,
            alarm=lambda name, found: faults.append(found),
            now_ms=lambda: 0,
        )
        channels.follow([a_broker(1, listeners=(Listener("PLAINTEXT", "kafka-0..svc", 1),))])
        channels.send([BrokerUpdate(1, 101, UPDATE_METADATA, UpdateKind.INCREMENTAL, 0, b"")])
        while (state := channels.states()[0]).problem is None:
            await asyncio.sleep(0)
        assert (state.broker, "kafka-0..svc" in (state.problem or "")) == (1, True)
        assert not faults
        await channels.close()

    story(told)
