"""What a difference is, which differences are meant, and what a report says of them."""

from __future__ import annotations

import json

import msgspec
import pytest

from migrator.audit.compare import (
    DIFFERENCES_SHOWN,
    MOVED_ON,
    Comparison,
    Difference,
    Kind,
    Outcome,
    Rules,
    judge,
    report,
    table,
    unread_report,
)
from migrator.audit.normalise import BROKER_CONFIGS, FAMILIES, PARTITIONS, PRODUCER_IDS, TOPIC_CONFIGS, TOPICS
from migrator.errors import AUDIT_CANNOT_READ

STATE = {"leader": 1, "leader_epoch": 4, "isr": [1, 2], "recovery": 0, "partition_epoch": 7}
PARTITION = {"replicas": [1, 2], "adding": [], "removing": [], **STATE}


def a_report(comparison: Comparison) -> dict[str, object]:
    made = report(comparison, seconds={"total": 0.12345}, zk={}, kraft={"offset": 7, "epoch": 1}, engine="quick")
    found: dict[str, object] = json.loads(msgspec.json.encode(made))
    return found


def test_a_changed_field_is_told_with_both_values() -> None:
    outcome, found = judge(PARTITIONS, "orders-0", {**PARTITION, "leader": 2}, PARTITION, Rules())
    assert outcome is Outcome.DIFFERENT
    assert found == [Difference(PARTITIONS, "orders-0", "leader", Kind.CHANGED, 2, 1)]


def test_a_key_of_one_side_is_one_difference() -> None:
    _, found = judge(TOPICS, "orders", {"id": "a"}, None, Rules())
    assert found == [Difference(TOPICS, "orders", "", Kind.MISSING_IN_LOG, {"id": "a"}, None)]
    _, found = judge(TOPICS, "orders", None, {"id": "a"}, Rules())
    assert found == [Difference(TOPICS, "orders", "", Kind.MISSING_IN_ZOOKEEPER, None, {"id": "a"})]


def test_a_partition_without_its_state_znode_is_one_difference() -> None:
    assignment = {name: PARTITION[name] for name in ("replicas", "adding", "removing")}
    _, found = judge(PARTITIONS, "orders-0", assignment, PARTITION, Rules())
    assert found == [Difference(PARTITIONS, "orders-0", "state", Kind.MISSING_IN_ZOOKEEPER, None, STATE)]


def test_a_partition_that_only_the_assignment_knows_is_missing_in_the_log() -> None:
    outcome, found = judge(PARTITIONS, "orders-4", {"replicas": [1]}, None, Rules())
    assert outcome is Outcome.DIFFERENT
    assert [each.kind for each in found] == [Kind.MISSING_IN_LOG]


@pytest.mark.parametrize(
    ("log", "outcome"),
    [
        (5_999, Outcome.DIFFERENT),
        (6_000, Outcome.EQUAL),
        (6_001, Outcome.EXPECTED),
        (10_000, Outcome.EXPECTED),
        (10_001, Outcome.DIFFERENT),
    ],
)
def test_right_after_a_copy_the_log_may_be_ahead_by_the_margin(log: int, outcome: Outcome) -> None:
    sides = {"next_producer_id": 6_000}, {"next_producer_id": log}
    assert judge(PRODUCER_IDS, "next", *sides, Rules(producer_id_margin=4_000))[0] is outcome


@pytest.mark.parametrize(("mzxid", "outcome"), [(-1, "different"), (77, "different"), (78, "expected")])
def test_what_zookeeper_changed_after_a_rehearsal_says_nothing_about_it(mzxid: int, outcome: str) -> None:
    sides = {"replicas": [1, 2], "leader": 2}, {"replicas": [1, 2], "leader": 1}
    found, told = judge(PARTITIONS, "orders-0", *sides, Rules(copied_zxid=77), mzxid)
    assert found == outcome
    assert [each.rule for each in told] == [MOVED_ON if outcome == "expected" else ""]


def test_a_stock_controller_mirrors_the_next_block_as_handed_out() -> None:
    outcome, found = judge(PRODUCER_IDS, "next", {"next_producer_id": 2_000}, {"next_producer_id": 1_000}, Rules())
    assert outcome is Outcome.EXPECTED
    assert found[0].rule == "stock writes the next block as handed out"


def test_no_producer_ids_on_either_side_is_equal() -> None:
    assert judge(PRODUCER_IDS, "next", {}, None, Rules()) == (Outcome.EQUAL, [])


def test_configuration_without_a_topic_stays_in_zookeeper() -> None:
    outcome, found = judge(TOPIC_CONFIGS, "gone", {"retention.ms": "1"}, None, Rules(topics=frozenset({"orders"})))
    assert outcome is Outcome.EXPECTED
    assert found[0].rule == "configuration without a topic"
    outcome, _ = judge(TOPIC_CONFIGS, "orders", {"retention.ms": "1"}, None, Rules(topics=frozenset({"orders"})))
    assert outcome is Outcome.DIFFERENT


def test_secrets_that_differ_are_told_as_hashes_and_equal_ones_are_equal() -> None:
    comparison = Comparison()
    comparison.add(BROKER_CONFIGS, "1", {"ssl.key.password": "old-secret"}, {"ssl.key.password": "new-secret"})
    comparison.add(BROKER_CONFIGS, "2", {"ssl.key.password": "old-secret"}, None)
    comparison.add(BROKER_CONFIGS, "3", {"ssl.key.password": "old-secret"}, {"ssl.key.password": "old-secret"})
    text = json.dumps(a_report(comparison))
    assert comparison.counts[BROKER_CONFIGS].different == 2
    assert comparison.counts[BROKER_CONFIGS].equal == 1
    assert "secret" not in text
    assert "hmac-sha256:" in text


def test_a_report_shows_the_first_differences_in_the_order_of_families_and_keys_and_counts_all() -> None:
    comparison = Comparison()
    for number in reversed(range(DIFFERENCES_SHOWN + 5)):
        comparison.add(TOPIC_CONFIGS, f"t{number:03d}", {"a": "1"}, {"a": "2"})
    comparison.add(TOPICS, "zz", {"id": "a"}, None)
    made = report(comparison, seconds={}, zk={}, kraft={}, engine="quick")
    assert [each.key for each in made.differences[:3]] == ["zz", "t000", "t001"]
    assert len(made.differences) == DIFFERENCES_SHOWN
    assert made.different == DIFFERENCES_SHOWN + 6


def test_the_keys_of_the_json_are_the_contract() -> None:
    comparison = Comparison()
    comparison.add(TOPICS, "orders", {"id": "a"}, {"id": "b"})
    found = a_report(comparison)
    assert set(found) == {"same", "families", "differences", "expected", "seconds", "zk", "kraft", "engine"}
    counted = {"family": "topics", "compared": 1, "equal": 0, "expected": 0, "different": 1, "not_read": 0}
    assert found["families"][0] == counted  # type: ignore[index]
    assert found["differences"] == [
        {
            "family": "topics",
            "key": "orders",
            "field": "id",
            "kind": "changed",
            "zookeeper": "a",
            "log": "b",
            "rule": "",
        }
    ]


def test_not_read_is_never_green_and_weighs_more_than_a_difference() -> None:
    comparison = Comparison()
    comparison.add(TOPICS, "orders", {"id": "a"}, {"id": "b"})
    comparison.not_read(TOPICS, "payments", "it is torn")
    made = report(comparison, seconds={}, zk={}, kraft={}, engine="quick")
    assert not made.same
    assert made.exit_code == 2
    assert [each.key for each in made.differences] == ["orders", "payments"]


def test_a_side_that_could_not_be_read_leaves_no_family_green() -> None:
    error = AUDIT_CANNOT_READ.error(what="host:2181", reason="no answer")
    made = unread_report(error, "spark", {"total": 1.0})
    assert made.exit_code == 2
    assert [each.family for each in made.families if each.not_read] == list(FAMILIES)
    assert "host:2181" in made.differences[0].key


def test_the_table_has_a_line_for_each_family() -> None:
    lines = table(Comparison().counts.values()).splitlines()
    assert lines[0].split(" | ")[0].strip() == "family"
    assert [line.split(" | ")[0].strip() for line in lines[1:]] == list(FAMILIES)
