"""The whole way as legs: what is left out, what is refused, how many windows it takes, where a migration is on it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from migrator.findings.finding import FindingError
from migrator.findings.fleet import RELEASE_NOT_PLANNED
from migrator.fleet.inventory import Inventory, parse_inventory, require_inventory
from migrator.fleet.strict_yaml import dump_yaml
from state_machine.change.document import Leg
from state_machine.change.legs import Estate, legs_of, named_releases, with_states
from state_machine.policy.phases import Phase
from tests.support.inventories import an_inventory

NIGHT = {"start": "22:00", "end": "04:00"}


def an_estate(kafka: str = "3.9.2", nodes: dict[int, str] | None = None, **fields: Any) -> Estate:
    document = {**an_inventory(), "kafka": kafka, **{k: v for k, v in fields.items() if k not in ("through", "last")}}
    for each in document["brokers"]:
        each["kafka"] = (nodes or {}).get(each["id"], "")
    found: Inventory = parse_inventory(dump_yaml(document).encode(), "prod.yaml")
    require_inventory(found, "prod.yaml", datetime.now(UTC))
    given = {key: fields[key] for key in ("through", "last") if key in fields}
    return Estate(inventory=found, releases=named_releases(found), time_of_one=lambda role: (100.0, 3600.0), **given)


def whats(legs: tuple[Leg, ...]) -> list[str]:
    return [each.what for each in legs]


def test_a_release_that_migrates_needs_no_software_before_and_3_9_none_after() -> None:
    for release in ("3.6.2", "3.9", "3.9.2"):
        assert legs_of(an_estate(release))[0].phase == Phase.BROKERS_JOINING
    assert legs_of(an_estate(last="3.9.2"))[-1].phase == Phase.FINALIZING
    assert not [each for each in legs_of(an_estate(last="3.9.2")) if "4." in each.what]


@pytest.mark.parametrize(
    ("kafka", "nodes", "restarts", "because"),
    [
        ("2.8.2", {}, 3, "3 brokers run a release before 3.6.2"),
        ("3.9.2", {2: "3.6.1"}, 1, "1 brokers run a release before 3.6.2"),
        ("", {1: "3.9.2"}, 2, "the release of 2 brokers is not known"),
    ],
)
def test_older_and_unknown_brokers_get_software_first_and_then_the_protocol(
    kafka: str, nodes: dict[int, str], restarts: int, because: str
) -> None:
    software, protocol, *_ = legs_of(an_estate(kafka, nodes))
    assert (software.restarts, software.because, software.irreversible) == (restarts, because, "")
    assert protocol.what == "inter.broker.protocol.version to 3.9"
    assert (protocol.restarts, bool(protocol.irreversible)) == (3, True)


def test_an_old_protocol_is_raised_although_the_software_is_new() -> None:
    quorum = {**an_inventory()["cluster"]["quorum"], "metadata_version": "3.5"}
    legs = legs_of(an_estate(cluster={**an_inventory()["cluster"], "quorum": quorum}))
    assert legs[0].because == "a migration needs 3.6 or later; it is 3.5"


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"kafka": "4.0.0"}, "broker 1 would run without ZooKeeper already"),
        ({"through": "3.5.2"}, "a migration needs Kafka 3.6.2 to 3.9"),
        ({"through": "4.0.0"}, "a migration needs Kafka 3.6.2 to 3.9"),
        ({"last": "5.1"}, "releases with features are 4.0, 4.1, 4.2, 4.3, 4.4"),
        ({"last": "3.8.0"}, "the way ends at 3.9.2 or later"),
        ({"last": "newest"}, "a release has two or three numbers"),
    ],
)
def test_a_release_without_a_way_is_refused(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(FindingError, match=says) as raised:
        legs_of(an_estate(**fields))
    assert raised.value.code == RELEASE_NOT_PLANNED.code == "Z2K-7070"


def test_windows_are_counted_by_restarts_that_begin_in_them_and_racks_restart_together() -> None:
    legs = legs_of(an_estate(maintenance_windows=[NIGHT], at_once="rack"))
    rolls = {each.phase: each for each in legs}
    assert rolls[Phase.BROKERS_JOINING].windows == (1, 1)
    assert rolls[Phase.ROLLING_BROKERS].what == "brokers into KRaft mode"  # a rack each
    short = {"start": "22:00", "end": "22:30"}
    assert legs_of(an_estate(maintenance_windows=[NIGHT, short]))[0].windows == (1, 3)
    assert legs_of(an_estate())[0].windows is None


def test_a_migration_is_somewhere_on_the_way() -> None:
    legs = legs_of(an_estate("2.8.2"))
    joining = with_states(legs, Phase.BROKERS_JOINING)
    assert [each.state for each in joining][:4] == ["ahead", "ahead", "now", "ahead"]
    copying = with_states(legs, Phase.COPY)
    assert [each.state for each in copying][:5] == ["done", "done", "done", "now", "ahead"]
    soak = {each.phase: each.state for each in with_states(legs, Phase.SOAK) if each.phase}
    assert (soak[Phase.TAKEOVER], soak[Phase.SOAK], soak[Phase.FINALIZING]) == ("done", "now", "ahead")
    assert {each.state for each in with_states(legs, Phase.ROLLED_BACK)} == {"ahead"}
