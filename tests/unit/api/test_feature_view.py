"""Feature levels in REST and on the page, from what is observed anyway (R-778-01, R-778-05)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tests.unit.api.service import Served
from tests.unit.api.test_pages import read
from tests.unit.api.test_true_views import observe_log, served_world, under_stock
from tests.unit.state_machine.under_stock import UnderStock


@pytest.fixture
def stock(tmp_path: Path) -> Iterator[Served]:
    yield from served_world(UnderStock(tmp_path), tmp_path)


def test_before_a_takeover_no_level_is_effective_or_it_is_the_one_of_our_quorum(stock: Served) -> None:
    """R-778-01: supported and not initialised; nobody is asked for it."""
    features = stock.get("/migrations/1")["features"]
    assert (features["case"], features["effective"]) == ("C", None)
    assert "case C" in read(stock)


def test_in_soak_the_level_and_who_supports_what_are_shown_by_groups(stock: Served) -> None:
    """R-778-05: a broker that does not support the level stands out, with what to do."""
    world = under_stock(stock)
    asyncio.run(world.to_soak())
    brokers = [msgspec.structs.replace(each, levels=(1, 21)) for each in world.log.observed.brokers]
    brokers[0] = msgspec.structs.replace(brokers[0], levels=(1, 20))
    observe_log(world, brokers=tuple(brokers), metadata_version=21, feature_levels={"group.version": 1})
    asyncio.run(world.rounds())
    features = stock.get("/migrations/1")["features"]
    assert (features["case"], features["effective"], features["others"]) == ("E", "3.9-IV0 (21)", ["group.version 1"])
    groups = {each["case"]: each for each in features["nodes"] if "broker" in each["nodes"][0]}
    assert groups["E"]["nodes"] == [f"broker {brokers[0].id}"]
    assert groups["E"]["metadata_version"] == [1, 20]
    assert groups["E"]["stands_in_the_way"]
    assert groups["D"]["nodes"] == [f"broker {each.id}" for each in brokers[1:]]
    text = read(stock)
    assert "case E" in text
    assert "also finalized: group.version" in text
