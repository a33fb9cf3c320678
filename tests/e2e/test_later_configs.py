"""The table of what later releases do with keys and values of 3.9, against the classes of those releases."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from migrator.lab.servers.artifacts import LATER_KAFKA_VERSION, Artifacts, kafka_artifacts
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.tools import numbers_of
from migrator.model.later_configs import (
    CHANGED_DEFAULTS,
    DROPPED_OF_BROKERS,
    RAISED_OF_BROKERS,
    RAISED_OF_TOPICS,
    RaisedMinimum,
)
from migrator.model.topic_configs import DROPPED_IN_4

pytestmark = pytest.mark.lab

PROGRAM: Final = Path(__file__).parent.parent / "support" / "ConfigLister.java"
OTHERS: Final = ("4.0.2", "4.1.2", "4.2.2", "4.3.1")
_LOWEST: Final = re.compile(r"\[(-?\d+),\.\.\.")

UNMEANT: Final = frozenset(
    {
        "controller.quorum.append.linger.ms",
        "controller.quorum.election.backoff.max.ms",
        "controller.quorum.election.timeout.ms",
        "controller.quorum.fetch.timeout.ms",
        "controller.quorum.request.timeout.ms",
        "controller.quorum.retry.backoff.ms",
        "node.id",
    }
)
"""Below 0 from 4.1 on, and nobody has them below 0: times of a quorum, and the id of a node in KRaft mode."""

NEW_OF_3_9: Final = frozenset({"group.coordinator.append.linger.ms", "group.coordinator.new.enable"})
"""Of the coordinator that 3.9 only has as an early access."""


class Listed(NamedTuple):
    default: str
    allowed: str

    @property
    def lowest(self) -> int | None:
        found = _LOWEST.match(self.allowed)
        return None if found is None else int(found[1])


def listed(laboratory: Laboratory, kafka: Artifacts | None = None) -> Mapping[str, Mapping[str, Listed]]:
    """Public keys of topics and of nodes, as Kafka's own classes define them."""
    found: dict[str, dict[str, Listed]] = {"topic": {}, "node": {}}
    for line in laboratory.tool(str(PROGRAM), kafka=kafka).splitlines():
        whose, name, default, allowed = line.split("\t")
        found[whose][name] = Listed(default, allowed)
    return found


def raised(before: Mapping[str, Listed], after: Mapping[str, Listed]) -> dict[str, int]:
    """Lower limits that a later release has, and 3.9 has not."""
    return {
        name: each.lowest
        for name, each in after.items()
        if name in before and each.lowest is not None and each.lowest > _at_least(before[name])
        if not name.startswith("group.share.") and name not in UNMEANT
    }


def _at_least(listed: Listed) -> int:
    return -(1 << 63) if listed.lowest is None else listed.lowest


def by_then(minimums: Mapping[str, RaisedMinimum], version: str) -> dict[str, int]:
    release = numbers_of(version)
    return {name: low for name, (low, since) in minimums.items() if numbers_of(since) <= release}


@pytest.mark.parametrize(
    "version", [LATER_KAFKA_VERSION, *(pytest.param(each, marks=pytest.mark.long) for each in OTHERS)]
)
def test_the_table_says_what_the_classes_of_that_release_say(laboratory: Laboratory, version: str) -> None:
    before, after = listed(laboratory), listed(laboratory, kafka_artifacts(version))
    assert raised(before["topic"], after["topic"]) == by_then(RAISED_OF_TOPICS, version)
    assert raised(before["node"], after["node"]) == by_then(RAISED_OF_BROKERS, version)
    assert before["topic"].keys() - after["topic"].keys() == DROPPED_IN_4

    of_zookeeper = {name for name in before["node"] if name.startswith("zookeeper.")}
    dropped = before["node"].keys() - after["node"].keys() - of_zookeeper - NEW_OF_3_9
    assert {each for each in dropped if not each.startswith("group.share.")} == DROPPED_OF_BROKERS
    assert of_zookeeper.isdisjoint(after["node"])

    for name, (earlier, later, since) in CHANGED_DEFAULTS.items():
        assert numbers_of(since) <= numbers_of(version)
        assert (before["node"][name].default, after["node"][name].default) == (earlier, later), name
    after_max = "message.timestamp.after.max.ms"
    assert after["topic"][after_max].default == CHANGED_DEFAULTS[f"log.{after_max}"][1]
