"""A controller of Kafka 4.0 as a voter beside ours: it asks and is asked for pre-votes, follows, and is followed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from migrator.errors import FindingError
from migrator.lab.classes import prepared
from migrator.lab.controller import Controller, quorum_specs
from migrator.lab.laboratory import Laboratory
from migrator.lab.ours import PLAIN_KRAFT, OurController
from migrator.lab.tools import random_cluster_id
from tests.e2e.support import wait_for

pytestmark = pytest.mark.lab

ELECTION_S = 40.0
TURNS_MAX = 6
PROSPECTIVE = "transition to ProspectiveState"


@pytest.fixture
def later(tmp_path: Path) -> Iterator[Laboratory]:
    """A laboratory of Kafka 4.0."""
    with Laboratory(tmp_path, prepared("4.0.0")) as laboratory:
        yield laboratory


def leader_of(ours: list[OurController]) -> int:
    """Whom all of ours that run name; -1 while they disagree."""
    try:
        seen = [each.status() for each in ours if each.is_running]
    except (OSError, ValueError, FindingError):
        return -1
    leaders = {each["quorum"]["leader"] for each in seen}
    return int(leaders.pop()) if len(leaders) == 1 else -1


def wait_leader(ours: list[OurController], other_than: int = -1) -> int:
    found: list[int] = []

    def why_not() -> str | None:
        found.append(leader_of(ours))
        return None if found[-1] not in (-1, other_than) else f"the leader is {found[-1]}"

    wait_for(why_not, ELECTION_S, "a leader is elected")
    return found[-1]


def test_a_voter_of_kafka_4_and_ours_lead_and_follow_each_other(later: Laboratory) -> None:
    """KIP-996 over Vote 2, and the other versions of KIP-853. The node with the lowest id succeeds who leaves."""
    cluster_id = random_cluster_id(later)
    first, *rest = quorum_specs(later, count=3, zookeeper_connect="", migrating=False)
    stock = Controller(later, first, cluster_id)
    ours = [OurController(later, spec, cluster_id) for spec in rest]
    stock.start()
    for each in ours:
        each.environment.update(PLAIN_KRAFT)
        each.launch()
    stock.wait_ready()
    for each in ours:
        each.wait_ready()

    led: set[int] = set()
    leader = wait_leader(ours)
    for _ in range(TURNS_MAX):
        led.add(leader)
        if stock.spec.node_id in led and len(led) > 1:
            break
        leaving = next(each for each in (stock, *ours) if each.spec.node_id == leader)
        leaving.stop()
        leader = wait_leader(ours, other_than=leader)
        leaving.start()
        leaving.wait_ready()
    assert stock.spec.node_id in led, "Kafka 4.0 never led"
    assert len(led) > 1, "ours never led"

    log = stock.process.log.read_text()
    assert PROSPECTIVE in log, "Kafka 4.0 never asked for a pre-vote"
    assert "UNSUPPORTED_VERSION" not in log
    assert "Encountered fatal fault" not in log
    end = max(each.status()["quorum"]["log_end"] for each in ours)

    def why_not() -> str | None:
        behind = [each.name for each in ours if each.status()["quorum"]["high_watermark"] < end]
        return f"{behind} do not know that everything before {end} is committed" if behind else None

    wait_for(why_not, ELECTION_S, "all that was written is committed everywhere")
