"""What a reconcile would destroy and what a rollback would lose is refused by name (Z2K-2013, Z2K-2014)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from migrator.audit.compare import Comparison, ExpectedDifferences, report
from migrator.audit.normalise import TOPICS
from migrator.control_api.states import State
from migrator.driver.machine import Happened
from migrator.findings.driver import ONLY_IN_ZOOKEEPER, ROLLBACK_NOT_POSSIBLE
from migrator.findings.finding import FindingError
from migrator.model.diff import diff
from migrator.model.draft import Delta
from migrator.model.values import Mark
from migrator.wire.primitives import ZERO_UUID
from tests.support.builders import a_topic, an_image
from tests.support.driver_acts import done, reconcile_acts, rollback_acts
from tests.unit.driver.test_mirror import a_cluster
from tests.unit.node.driver.test_driver_acts import a_driver, story

STAYS, GOES = a_topic("orders"), msgspec.structs.replace(a_topic("payments"), id=b"\x77" * 16)


def without_payments() -> Delta:
    """ZooKeeper has a topic that the log does not have: a reconcile would delete it."""
    return diff(an_image(STAYS, GOES), an_image(STAYS))


@pytest.mark.parametrize(
    ("in_takeover", "removed_by_log", "refused"),
    [
        (True, None, True),
        (True, GOES.id, False),
        (True, b"\x76" * 16, True),
        (True, ZERO_UUID, False),
        (False, None, False),
    ],
    ids=[
        "only ZooKeeper knows it",
        "the log removed it",
        "the log removed another one of that name",
        "the log removed one of that name, as a snapshot of an earlier release says",
        "dual-write was entered before",
    ],
)
def test_a_topic_that_only_zookeeper_has_is_not_deleted_before_dual_write_was_entered(
    in_takeover: bool, removed_by_log: bytes | None, refused: bool
) -> None:
    async def told() -> None:
        driver = a_driver(State.SYNCING)
        marks = {Mark.TAKEOVER: "begun"} if in_takeover else {}
        driver.parts.controller.image = msgspec.structs.replace(driver.parts.controller.image, marks=marks)
        if removed_by_log is not None:
            driver.parts.controller.removals.topic_gone(GOES.name, removed_by_log)
        look = reconcile_acts(driver)._refuse_to_delete_what_only_zookeeper_has
        if not refused:
            look(without_payments())
            return
        with pytest.raises(FindingError) as error:
            look(without_payments())
        assert error.value.code == ONLY_IN_ZOOKEEPER.code
        assert error.value.occurrence.values == {"count": 1, "first": "/brokers/topics/payments"}
        assert driver.now.finding == error.value.occurrence

    story(told)


def a_way_back(**quorum: Any) -> tuple[Any, Any]:
    """A driver in dual-write, whose brokers and voters would all let it go."""
    _, session, _ = a_cluster()
    facts = {"stock_voters": list, "foreign_voters": list} | quorum
    driver = a_driver(State.ROLLING_BACK, session=session, quorum=SimpleNamespace(**facts))
    driver.parts.config.voters = {3000: None, 3001: None, 3002: None}
    driver.operations = SimpleNamespace(begun=lambda: None)
    acts = rollback_acts(driver)
    acts._quiet = nothing  # type: ignore[method-assign]
    return driver, acts


async def nothing() -> None:
    pass


@pytest.mark.parametrize(
    ("quorum", "words"),
    [
        ({"stock_voters": lambda: [3001]}, "voters [3001] are Kafka's"),
        ({"foreign_voters": lambda: ["3001: silent", "3002: silent"]}, "1 of 3 voters are there"),
    ],
    ids=["a stock voter", "a minority of ours"],
)
def test_a_quorum_that_would_not_keep_the_mark_does_not_rollback(quorum: dict[str, Any], words: str) -> None:
    story(refusal_of(quorum, words))


def refusal_of(quorum: dict[str, Any], words: str) -> Callable[[], Awaitable[None]]:
    async def told() -> None:
        driver, acts = a_way_back(**quorum)
        assert await done(driver, acts.rollback()) is Happened.ROLLBACK_REFUSED
        assert driver.now.finding.code == ROLLBACK_NOT_POSSIBLE.code
        assert words in driver.now.finding.text

    return told


def test_a_cluster_with_a_broker_in_kraft_mode_is_not_rolled_back() -> None:
    async def told() -> None:
        driver, acts = a_way_back()
        image = driver.parts.controller.image
        brokers = image.brokers.set(2, msgspec.structs.replace(image.brokers[2], migrating=False))
        driver.parts.controller.image = msgspec.structs.replace(image, brokers=brokers)
        assert await done(driver, acts.rollback()) is Happened.ROLLBACK_REFUSED
        assert driver.now.finding.code == ROLLBACK_NOT_POSSIBLE.code
        assert "[2] run in KRaft mode" in driver.now.finding.text

    story(told)


@pytest.mark.parametrize("unread", [True, False], ids=["a key that was not read", "a key that differs"])
def test_a_rollback_wants_every_key_read_and_equal(unread: bool) -> None:
    async def told() -> None:
        driver, acts = a_way_back()
        compared = Comparison(ExpectedDifferences())
        if unread:
            compared.not_read(TOPICS, "orders", "Z2K-1001 no JSON")
        else:
            compared.add(TOPICS, "orders", {"id": "a"}, {"id": "b"})
        found = report(compared, seconds={}, zk={}, kraft={}, engine="quick")
        acts._compare = lambda: (found, 7)
        assert await done(driver, acts.rollback()) is Happened.ROLLBACK_REFUSED
        assert driver.now.finding.code == ROLLBACK_NOT_POSSIBLE.code
        assert "orders" in driver.now.finding.text
        assert ("not readable: Z2K-1001 no JSON" in driver.now.finding.text) is unread

    story(told)
