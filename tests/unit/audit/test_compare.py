"""What a difference is, which differences are meant, and what a report says of them."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from migrator.audit.compare import (
    DIFFERENCES_BYTES_MAX,
    DIFFERENCES_SHOWN,
    MARGIN,
    MOVED_ON,
    STOCK_RUNS_AHEAD,
    VERSION_LAGS,
    Comparison,
    Difference,
    DifferenceKind,
    ExpectedDifferences,
    KeyOutcome,
    judge,
    report,
    table,
    unread_report,
)
from migrator.audit.kept_reading import KEPT, KeptReading, kept_facts
from migrator.audit.normalise import (
    BROKER_CONFIGS,
    FAMILIES,
    PARTITIONS,
    PRODUCER_IDS,
    TOPIC_CONFIGS,
    TOPICS,
    Facts,
    zk_producer_ids,
    zk_state,
    zk_topic,
)
from migrator.audit.rows import PRODUCER_IDS_SUBJECT, SideRow, facts_text
from migrator.audit.subjects import ZkRow, judge_subject
from migrator.findings.audit import AUDIT_CANNOT_READ
from migrator.findings.finding import FindingError
from migrator.zk.bulk_read import Znode

STATE = {"leader": 1, "leader_epoch": 4, "isr": [1, 2], "recovery": 0, "partition_epoch": 7}
PARTITION = {"replicas": [1, 2], "adding": [], "removing": [], **STATE}


def a_report(comparison: Comparison) -> dict[str, object]:
    made = report(comparison, seconds={"total": 0.12345}, zk={}, kraft={"offset": 7, "epoch": 1}, engine="quick")
    found: dict[str, object] = json.loads(msgspec.json.encode(made))
    return found


@pytest.mark.parametrize(
    ("in_dual_write", "changes", "outcome"),
    [
        (True, {"partition_epoch": 3}, KeyOutcome.EXPECTED),
        (False, {"partition_epoch": 3}, KeyOutcome.DIFFERENT),
        (True, {"partition_epoch": 8}, KeyOutcome.DIFFERENT),
        (True, {"partition_epoch": 3, "isr": [1]}, KeyOutcome.DIFFERENT),
        (True, {"leader_epoch": 3}, KeyOutcome.DIFFERENT),
    ],
    ids=["it lags", "at a rollback it counts", "ahead", "and the ISR differs", "another field"],
)
def test_a_version_behind_its_partition_epoch_is_named_in_dual_write(
    in_dual_write: bool, changes: dict[str, object], outcome: KeyOutcome
) -> None:
    rules = ExpectedDifferences(in_dual_write=in_dual_write)
    found, said = judge(PARTITIONS, "orders-0", {**PARTITION, **changes}, PARTITION, rules)
    assert found is outcome
    assert said
    assert all((each.rule == VERSION_LAGS) is (outcome is KeyOutcome.EXPECTED) for each in said)


@pytest.mark.parametrize(
    ("ours_leads", "changes", "outcome"),
    [
        (False, {"partition_epoch": 8}, KeyOutcome.EXPECTED),
        (True, {"partition_epoch": 8}, KeyOutcome.DIFFERENT),
        (False, {"partition_epoch": 8, "isr": [1]}, KeyOutcome.DIFFERENT),
    ],
    ids=["under stock", "under ours", "and the ISR differs"],
)
def test_a_version_ahead_of_its_partition_epoch_is_expected_under_stock_controllers_only(
    ours_leads: bool, changes: dict[str, object], outcome: KeyOutcome
) -> None:
    rules = ExpectedDifferences(in_dual_write=True, ours_leads=ours_leads)
    found, said = judge(PARTITIONS, "orders-0", {**PARTITION, **changes}, PARTITION, rules)
    assert found is outcome
    assert all((each.rule == STOCK_RUNS_AHEAD) is (outcome is KeyOutcome.EXPECTED) for each in said)


@pytest.mark.parametrize(("elections", "outcome"), [
    (None, KeyOutcome.EXPECTED), (3, KeyOutcome.EXPECTED), (2, KeyOutcome.DIFFERENT), (0, KeyOutcome.DIFFERENT),
])  # fmt: skip
def test_a_version_is_ahead_by_no_more_than_stock_leaders_have_written(
    elections: int | None, outcome: KeyOutcome
) -> None:
    """S02. Without a bound 2,000 writes by a stranger passed. A way back knows none, and waits for none."""
    rules = ExpectedDifferences(in_dual_write=True, ours_leads=False, elections=elections)
    found, _ = judge(PARTITIONS, "orders-0", {**PARTITION, "partition_epoch": 7 + 106}, PARTITION, rules)
    assert found is outcome


@pytest.mark.parametrize(("changes", "field", "reason"), [
    ({"leader": 9}, "leader", "none of the replicas"),
    ({"isr": [1, 1]}, "isr", "twice"),
    ({"isr": [1, 9]}, "isr", "none of the replicas"),
    ({"replicas": [], "isr": [], "leader": -1}, "replicas", "no replica"),
    ({"replicas": [1, 1]}, "replicas", "twice"),
])  # fmt: skip
def test_what_both_sides_say_and_no_broker_can_lead_is_told(changes: Facts, field: str, reason: str) -> None:
    """E10, E11, S11. A takeover has its own gate for it, and a way back does not wait."""
    facts = {**PARTITION, **changes}
    outcome, (said,) = judge(PARTITIONS, "orders-0", facts, facts, ExpectedDifferences())
    assert (outcome, said.kind, said.field_) == (KeyOutcome.DIFFERENT, DifferenceKind.UNUSABLE, field)
    assert reason in said.rule
    back = ExpectedDifferences(accepts_unusable=True)
    assert judge(PARTITIONS, "orders-0", facts, facts, back) == (KeyOutcome.EQUAL, [])
    for rules, equal in ((ExpectedDifferences(), 0), (back, 1)):
        comparison = Comparison(rules)
        comparison.add(PARTITIONS, "orders-0", facts, facts)
        assert comparison.counts[PARTITIONS].equal == equal


def test_a_partition_without_a_leader_can_be_led_again() -> None:
    facts = {**PARTITION, "leader": -1}
    assert judge(PARTITIONS, "orders-0", facts, facts, ExpectedDifferences()) == (KeyOutcome.EQUAL, [])


def test_a_changed_field_is_told_with_both_values() -> None:
    outcome, found = judge(PARTITIONS, "orders-0", {**PARTITION, "leader": 2}, PARTITION, ExpectedDifferences())
    assert outcome is KeyOutcome.DIFFERENT
    assert found == [Difference(PARTITIONS, "orders-0", "leader", DifferenceKind.CHANGED, 2, 1)]


def test_a_key_of_one_side_is_one_difference() -> None:
    _, found = judge(TOPICS, "orders", {"id": "a"}, None, ExpectedDifferences())
    assert found == [Difference(TOPICS, "orders", "", DifferenceKind.MISSING_IN_LOG, {"id": "a"}, None)]
    _, found = judge(TOPICS, "orders", None, {"id": "a"}, ExpectedDifferences())
    assert found == [Difference(TOPICS, "orders", "", DifferenceKind.MISSING_IN_ZOOKEEPER, None, {"id": "a"})]


def test_a_partition_without_its_state_znode_is_one_difference() -> None:
    assignment = {name: PARTITION[name] for name in ("replicas", "adding", "removing")}
    _, found = judge(PARTITIONS, "orders-0", assignment, PARTITION, ExpectedDifferences())
    assert found == [Difference(PARTITIONS, "orders-0", "state", DifferenceKind.MISSING_IN_ZOOKEEPER, None, STATE)]


def test_a_partition_that_only_the_assignment_knows_is_missing_in_the_log() -> None:
    outcome, found = judge(PARTITIONS, "orders-4", {"replicas": [1]}, None, ExpectedDifferences())
    assert outcome is KeyOutcome.DIFFERENT
    assert [each.kind for each in found] == [DifferenceKind.MISSING_IN_LOG]


@pytest.mark.parametrize(
    ("log", "outcome"),
    [
        (5_999, KeyOutcome.DIFFERENT),
        (6_000, KeyOutcome.EQUAL),
        (6_001, KeyOutcome.EXPECTED),
        (10_000, KeyOutcome.EXPECTED),
        (10_001, KeyOutcome.DIFFERENT),
    ],
)
def test_right_after_a_copy_the_log_may_be_ahead_by_the_margin(log: int, outcome: KeyOutcome) -> None:
    sides = {"next_producer_id": 6_000}, {"next_producer_id": log}
    assert judge(PRODUCER_IDS, "next", *sides, ExpectedDifferences(producer_id_margin=4_000))[0] is outcome


def a_reading(directory: Path, *partitions: int) -> str:
    """The file of a rehearsal that read partitions of one topic, each at replica 1 and 2 with leader 1."""
    kept = KeptReading()
    assignment = {str(each): [1, 2] for each in partitions}
    topic = json.dumps({"version": 3, "topic_id": "AAAAAAAAAAAAAAAAAAAAAQ", "partitions": assignment})
    kept.note("/brokers/topics/orders", a_znode(topic))
    state = {"controller_epoch": 1, "leader": 1, "version": 1, "leader_epoch": 0, "isr": [1, 2]}
    for each in partitions:
        kept.note(f"/brokers/topics/orders/partitions/{each}/state", a_znode(json.dumps(state)))
    (directory / KEPT).write_bytes(kept.content())
    return str(directory / KEPT)


def a_znode(text: str) -> Znode:
    return Znode(text.encode(), 0, 10, 10, 0)


AS_READ = zk_state("", json.dumps({"controller_epoch": 1, "leader": 1, "leader_epoch": 0, "isr": [1, 2]}).encode(), 0)
COPIED = {
    **zk_topic("", b'{"version":3,"topic_id":"AAAAAAAAAAAAAAAAAAAAAQ","partitions":{"0":[1,2]}}')[1][0],
    **AS_READ,
}


@pytest.mark.parametrize(
    ("mzxid", "partition", "leader", "outcome"),
    [
        (-1, 0, 1, "different"),
        (77, 0, 1, "different"),
        (78, 0, 1, "expected"),
        (78, 0, 3, "different"),  # ZooKeeper moved on, and what was read is not what the copy says
        (78, 5, 1, "different"),  # nothing was read under this key
    ],
)
def test_what_zookeeper_changed_after_a_rehearsal_is_excused_where_the_copy_says_what_was_read(
    mzxid: int, partition: int, leader: int, outcome: str, tmp_path: Path
) -> None:
    rules = ExpectedDifferences(copied_zxid=77, read=a_reading(tmp_path, 0, 1))
    sides = {**COPIED, "leader": 2}, {**COPIED, "leader": leader}
    found, told = judge(PARTITIONS, f"orders-{partition}", *sides, rules, mzxid)
    assert found == outcome
    assert [each.rule for each in told] == [MOVED_ON if outcome == "expected" else ""]


@pytest.mark.parametrize(("leader", "outcome"), [(1, "expected"), (2, "different")])
def test_what_was_deleted_after_a_rehearsal_is_excused_where_the_copy_says_what_was_read(
    leader: int, outcome: str, tmp_path: Path
) -> None:
    """F11: a topic that was deleted meanwhile has no transaction number, and was called a difference."""
    rules = ExpectedDifferences(copied_zxid=77, read=a_reading(tmp_path, 0))
    assert judge(PARTITIONS, "orders-0", None, {**COPIED, "leader": leader}, rules)[0] == outcome
    assert judge(PARTITIONS, "orders-0", None, {**COPIED, "leader": leader}, ExpectedDifferences())[0] == "different"


def test_what_was_created_after_a_rehearsal_is_excused_and_what_was_left_out_is_not(tmp_path: Path) -> None:
    rules = ExpectedDifferences(copied_zxid=77, read=a_reading(tmp_path, 0))
    assert judge(PARTITIONS, "orders-1", COPIED, None, rules, 78)[0] == "expected"
    assert judge(PARTITIONS, "orders-0", COPIED, None, rules, 78)[0] == "different"


def test_a_rehearsal_made_again_at_the_same_path_is_read_again(tmp_path: Path) -> None:
    """A process that audits again and again sees other files under the same name."""
    path, draft = tmp_path / KEPT, tmp_path / "draft"
    path.write_bytes(KeptReading().content())
    first = kept_facts(str(path)).fingerprints.key_hex
    draft.write_bytes(KeptReading().content())
    draft.replace(path)
    second = kept_facts(str(path)).fingerprints.key_hex
    assert first != second
    assert bytes.fromhex(second) == path.read_bytes()
    assert kept_facts(str(path)) is kept_facts(str(path))


def test_a_rehearsal_that_kept_nothing_of_what_it_read_excuses_nothing(tmp_path: Path) -> None:
    sides = {**COPIED, "leader": 2}, COPIED
    assert judge(PARTITIONS, "orders-0", *sides, ExpectedDifferences(copied_zxid=77), 78)[0] == "different"
    (tmp_path / KEPT).write_bytes(b"not whole")
    for name in (KEPT, "missing"):
        with pytest.raises(FindingError, match="Z2K-5001"):
            judge(PARTITIONS, "orders-0", *sides, ExpectedDifferences(copied_zxid=77, read=str(tmp_path / name)), 78)


Block = tuple[int, int]
PATH_OF_BLOCK = "/latest_producer_id_block"
BLOCK = '{"version":1,"broker":%d,"block_start":"%d","block_end":"%d"}'


@pytest.mark.parametrize(
    ("broker", "first", "log", "rules", "outcome"),
    [
        pytest.param(-1, 5_000, 5_000, ExpectedDifferences(), "expected", id="stock mirrored it"),
        pytest.param(-1, 5_000, 6_000, ExpectedDifferences(), "equal", id="stock copied it"),
        pytest.param(2, 5_000, 5_000, ExpectedDifferences(), "different", id="a broker took it behind the log's back"),
        pytest.param(
            3000, 5_000, 5_000, ExpectedDifferences(), "different", id="ours mirrored it, and the log lost it"
        ),
        pytest.param(-1, 4_900, 5_000, ExpectedDifferences(), "different", id="stock never writes such a block"),
        pytest.param(
            -1, 5_000, 4_000, ExpectedDifferences(), "different", id="stock mirrored it, and the log lost one"
        ),
        pytest.param(2, 5_000, 5_000, ExpectedDifferences(4_000), "different", id="a copy that begins a block too low"),
        pytest.param(
            -1, 5_000, 5_000, ExpectedDifferences(4_000), "different", id="such a copy after a migration of stock"
        ),
        pytest.param(-1, 5_000, 10_000, ExpectedDifferences(4_000), "expected", id="a copy after a migration of stock"),
    ],
)
@pytest.mark.parametrize("engine", ["quick", "spark"])
def test_a_log_one_block_behind_is_expected_only_of_a_block_that_stock_mirrored(
    engine: str, broker: int, first: int, log: int, rules: ExpectedDifferences, outcome: str
) -> None:
    zookeeper = zk_producer_ids(PATH_OF_BLOCK, (BLOCK % (broker, first, 5_999)).encode())
    in_log = {"next_producer_id": log}
    told = judged_by_spark if engine == "spark" else judged_by_quick
    found, rule = told(zookeeper, in_log, rules)
    assert found == outcome
    expected = MARGIN if rules.producer_id_margin else "stock writes the next block as"
    assert rule.startswith(expected) if outcome == "expected" else rule == ""


@pytest.mark.parametrize(
    ("read", "now", "log", "outcome"),
    [
        pytest.param((5_000, 5_999), (5_000, 5_999), 10_000, MARGIN, id="nothing was handed out since"),
        pytest.param((5_000, 5_999), (6_000, 6_999), 10_000, MOVED_ON, id="a block was handed out since"),
        pytest.param((5_000, 5_999), (90_000, 90_999), 10_000, MOVED_ON, id="more blocks than the margin has"),
        pytest.param(None, (0, 999), 4_000, MOVED_ON, id="the first block of all"),
        pytest.param((5_000, 5_999), (4_000, 4_999), 10_000, "", id="smaller than what was read"),
        pytest.param((5_000, 5_999), None, 10_000, "", id="gone"),
        pytest.param((5_000, 5_999), (6_000, 7_999), 10_000, "", id="two blocks as one"),
        pytest.param((5_000, 5_999), (6_001, 7_000), 10_000, "", id="a block that does not follow another"),
        pytest.param((5_000, 5_999), (8_000, 7_999), 10_000, "", id="a block without ids"),
        pytest.param((5_000, 5_999), (9_000, 9_999), 9_000, "", id="the copy began a block too low"),
        pytest.param((5_000, 5_999), (9_000, 9_999), 11_000, "", id="the copy began a block too high"),
        pytest.param(None, (9_000, 9_999), 13_000, "", id="the copy says what was never read"),
    ],
)
@pytest.mark.parametrize("engine", ["quick", "spark"])
def test_producer_ids_of_a_rehearsal_move_on_by_whole_blocks_from_what_was_read(
    engine: str, read: Block | None, now: Block | None, log: int, outcome: str, tmp_path: Path
) -> None:
    """What moved was once excused by its transaction number alone, a smaller block too."""
    kept = KeptReading()
    if read is not None:
        kept.note(PATH_OF_BLOCK, a_znode(BLOCK % (1, *read)))
    (tmp_path / KEPT).write_bytes(kept.content())
    rules = ExpectedDifferences(4_000, copied_zxid=5, read=str(tmp_path / KEPT))
    zookeeper = {} if now is None else zk_producer_ids(PATH_OF_BLOCK, (BLOCK % (1, *now)).encode())
    told = judged_by_spark if engine == "spark" else judged_by_quick
    assert told(zookeeper, {"next_producer_id": log}, rules) == ("expected" if outcome else "different", outcome)


def judged_by_quick(zookeeper: Facts, log: Facts, rules: ExpectedDifferences) -> tuple[str, str]:
    comparison = Comparison(rules)
    comparison.add(PRODUCER_IDS, "next", zookeeper, log, 7)
    (outcome,) = (each for each in KeyOutcome if comparison.counts[PRODUCER_IDS].of(each))
    return outcome.value, "".join(each.rule for each in (*comparison.differences, *comparison.expected))


def judged_by_spark(zookeeper: Facts, log: Facts, rules: ExpectedDifferences) -> tuple[str, str]:
    """What one task of the Spark job says of the row, without a session."""
    row = ZkRow(PRODUCER_IDS, "next", facts_text(zookeeper), 7, "")
    in_log = SideRow(PRODUCER_IDS, "next", PRODUCER_IDS_SUBJECT, log, 9)
    (told,) = judge_subject(PRODUCER_IDS_SUBJECT, [row], {(PRODUCER_IDS, "next"): in_log}, rules)
    return told.outcome, told.differences[0].rule if told.differences else ""


def test_no_producer_ids_on_either_side_is_equal() -> None:
    assert judge(PRODUCER_IDS, "next", {}, None, ExpectedDifferences()) == (KeyOutcome.EQUAL, [])


def test_configuration_without_a_topic_stays_in_zookeeper() -> None:
    outcome, found = judge(
        TOPIC_CONFIGS, "gone", {"retention.ms": "1"}, None, ExpectedDifferences(topics=frozenset({"orders"}))
    )
    assert outcome is KeyOutcome.EXPECTED
    assert found[0].rule == "configuration without a topic"
    outcome, _ = judge(
        TOPIC_CONFIGS, "orders", {"retention.ms": "1"}, None, ExpectedDifferences(topics=frozenset({"orders"}))
    )
    assert outcome is KeyOutcome.DIFFERENT


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


def test_a_report_carries_every_difference_up_to_its_bound_and_says_how_many_it_left_off() -> None:
    for count, carried, left in ((133, 133, {}), (DIFFERENCES_SHOWN + 7, DIFFERENCES_SHOWN, {"expected": 7})):
        comparison = Comparison(ExpectedDifferences(in_dual_write=True))
        for number in range(count):
            comparison.add(PARTITIONS, f"t-{number}", {"partition_epoch": 1}, {"partition_epoch": 2})
        made = report(comparison, seconds={}, zk={}, kraft={}, engine="quick")
        assert made.same
        assert (len(made.expected), made.left_off) == (carried, left)
        assert msgspec.to_builtins(made).get("left_off", {}) == left


def test_long_differences_are_left_off_before_a_report_is_too_long_for_its_pipe() -> None:
    comparison = Comparison()
    for number in range(20):
        comparison.add(TOPICS, f"t{number:02d}", {"id": "a" * (1 << 20)}, None)
    made = report(comparison, seconds={}, zk={}, kraft={}, engine="quick")
    assert 0 < len(made.differences) < 20
    assert made.left_off == {"differences": 20 - len(made.differences)}
    assert len(msgspec.json.encode(made)) < DIFFERENCES_BYTES_MAX + (1 << 20)


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
    alone = Comparison()
    alone.not_read(TOPICS, "payments", "it is torn")
    assert not alone.same


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
