"""The outside reader's verdicts on prepared inputs: records, transactions, order, groups."""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from migrator.lab.traffic import ledger as traffic_ledger
from migrator.lab.traffic import outside_reader
from migrator.lab.traffic import records as traffic_records
from migrator.lab.traffic.outside_reader import (
    CheckLine,
    Hidden,
    Ledger,
    LogBatch,
    Reading,
    RecordJudge,
    as_text,
    exit_code,
    find_sent_again,
    judge_group_offset,
)
from tests.support.source_trees import tree_of

ALLOWED = {"confluent_kafka", "kazoo", *sys.stdlib_module_names}
PLAIN = -1


def a_ledger(tmp_path: Path, *entries: list[Any], deleted: tuple[str, ...] = (), **recreated: str) -> Ledger:
    lines = [["begin", 1, "run-1", 64, 1], *entries, ["end", 999]]
    file = tmp_path / "ledger"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return Ledger(file, deleted, recreated)


def ack(offset: int, key: str, sequence: int, transaction: int = PLAIN, topic: str = "a", sent: int = 10) -> list[Any]:
    return ["ack", topic, 0, offset, key, sequence, transaction, sent, sent + 1]


def txn(number: int, outcome: str) -> list[Any]:
    return ["txn", number, outcome, 1, 2, 3]


def a_value(key: str, sequence: int, topic: str = "a") -> bytes:
    return f"run-1|{topic}|0|{key}|{sequence}|".encode().ljust(64, b".")


def verdict(
    ledger: Ledger,
    log: Mapping[int, tuple[str, int]],
    hidden: Mapping[int, tuple[str, int]] | None = None,
    end: int = 0,
    unread: str = "",
) -> dict[str, CheckLine]:
    """What the reader says of partition a-0.

    log:    offset to key and sequence, of committed records.   hidden: of what else is there, when it looks again.
    end:    where committed records end.                        unread: why it was not read to there.
    """
    judge = RecordJudge(ledger)
    for offset, (key, sequence) in sorted(log.items()):
        judge.saw("a", 0, offset, key.encode(), a_value(key, sequence))
    committed = Reading({("a", 0): unread} if unread else {}, {} if unread else {("a", 0): end})
    found: Hidden = {}
    for offset, (key, sequence) in (hidden or {}).items():
        content = key.encode(), a_value(key, sequence)
        found["a", 0, judge.promised_at(("a", 0), offset, *content)] = offset, content
    return {check.name: check for check in judge.checks(committed, found)}


def bad(checks: Mapping[str, CheckLine]) -> dict[str, list[str]]:
    return {name: check.first for name, check in checks.items() if check.failed or check.not_read}


def test_the_reader_imports_nothing_of_what_it_judges() -> None:
    tree = tree_of(Path(outside_reader.__file__).read_text())
    imported = {
        name.split(".")[0]
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or "."]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert imported <= ALLOWED


def test_the_reader_and_the_traffic_mean_the_same_bytes(tmp_path: Path) -> None:
    file = tmp_path / "ledger"
    writer = traffic_ledger.LedgerWriter(file)
    writer.write(
        traffic_ledger.Began(traffic_ledger.FORMAT, "run-1", traffic_records.VALUE_BYTES, 1),
        traffic_ledger.Acknowledged("orders", 3, 7, "plain-0", 2, traffic_ledger.NO_TRANSACTION, 20, 25),
        traffic_ledger.Acknowledged("orders", 3, 8, "transactional-0", 0, 5, 20, 25),
        traffic_ledger.TransactionEnded(5, traffic_ledger.TransactionOutcome.ABORTED, 19, 30, 31),
        traffic_ledger.GroupCommitted("by-hand", "orders", 3, 8, True, 40),
        traffic_ledger.RunEnded(50),
    )
    writer.close()
    ledger = Ledger(file, (), {})
    plain, in_transaction = ledger.promises["orders", 3].values()
    record = traffic_records.Record("orders", 3, "plain-0", 2)
    assert ledger.content(("orders", 3), plain) == (b"plain-0", traffic_records.value_of("run-1", record))
    assert (ledger.outcome(plain), ledger.outcome(in_transaction)) == ("committed", "aborted")
    assert ledger.commits == {("by-hand", "orders", 3): [8]}
    assert ledger.one_at_a_time == {"by-hand"}
    assert ledger.ended


def test_all_is_good_when_every_promise_is_kept(tmp_path: Path) -> None:
    ledger = a_ledger(tmp_path, ack(0, "k", 0), ack(1, "k", 1), ack(2, "t", 0, 7), txn(7, "committed"))
    checks = verdict(ledger, {0: ("k", 0), 1: ("k", 1), 2: ("t", 0)})
    assert bad(checks) == {}
    assert checks["acknowledged records"].compared == 3
    assert checks["committed transactions are whole"].compared == 1
    assert exit_code(checks.values()) == 0


def test_a_missing_record_is_found(tmp_path: Path) -> None:
    checks = verdict(a_ledger(tmp_path, ack(0, "k", 0), ack(1, "k", 1)), {0: ("k", 0)})
    assert bad(checks) == {"acknowledged records": ["a-0 offset 1: expected key k sequence 1, absent"]}
    assert exit_code(checks.values()) == 1


def test_a_record_behind_an_open_transaction_is_neither_lost_nor_good(tmp_path: Path) -> None:
    ledger = a_ledger(tmp_path, ack(0, "k", 0), ack(5, "k", 1), ack(6, "t", 0, 7), txn(7, "committed"))
    checks = verdict(ledger, {0: ("k", 0)}, hidden={5: ("k", 1), 6: ("t", 0)}, end=3)
    behind = "there, behind a transaction that is still open"
    assert bad(checks) == {
        "acknowledged records": [
            f"not read: a-0 offset 5: expected key k sequence 1, {behind}",
            f"not read: a-0 offset 6: expected key t sequence 0 of transaction 7, {behind}",
        ]
    }
    assert exit_code(checks.values()) == 2


def test_a_committed_record_that_the_brokers_hold_for_aborted_is_lost(tmp_path: Path) -> None:
    ledger = a_ledger(tmp_path, ack(0, "t", 0, 7), txn(7, "committed"))
    checks = verdict(ledger, {}, hidden={0: ("t", 0)}, end=3)
    assert checks["acknowledged records"].first == [
        "a-0 offset 0: expected key t sequence 0 of transaction 7, there, but its transaction was aborted"
    ]
    assert exit_code(checks.values()) == 1


def test_changed_content_is_found(tmp_path: Path) -> None:
    ledger = a_ledger(tmp_path, ack(0, "k", 0), ack(1, "k", 1))
    judge = RecordJudge(ledger)
    judge.saw("a", 0, 0, b"k", a_value("k", 0))
    judge.saw("a", 0, 1, b"k", a_value("k", 1)[:-1] + b"!")
    (records, *_) = judge.checks(Reading({}), {})
    assert records.failed == 1
    assert "offset 1: expected key k sequence 1, found" in records.first[0]


def test_a_record_at_another_offset_is_missing_at_its_own(tmp_path: Path) -> None:
    checks = verdict(a_ledger(tmp_path, ack(0, "k", 0)), {5: ("k", 0)})
    assert list(bad(checks)) == ["acknowledged records"]


def test_a_record_whose_offset_was_not_told_may_be_anywhere_but_must_be_there_once(tmp_path: Path) -> None:
    ledger = a_ledger(tmp_path, ack(-1, "k", 0), ack(-1, "k", 1), ack(8, "k", 2))
    assert bad(verdict(ledger, {5: ("k", 0), 6: ("k", 1), 8: ("k", 2)})) == {}
    assert bad(verdict(ledger, {5: ("k", 0), 8: ("k", 2)})) == {
        "acknowledged records": ["a-0 at whatever offset: expected key k sequence 1, absent"]
    }
    hidden = verdict(ledger, {5: ("k", 0)}, hidden={6: ("k", 1), 8: ("k", 2)}, end=6)
    assert (hidden["acknowledged records"].failed, hidden["acknowledged records"].not_read) == (0, 2)
    assert list(bad(verdict(ledger, {5: ("k", 0), 6: ("k", 1), 7: ("k", 1), 8: ("k", 2)}))) == ["no record twice"]


def test_two_promises_for_one_offset_cannot_both_be_kept(tmp_path: Path) -> None:
    checks = verdict(a_ledger(tmp_path, ack(0, "k", 0), ack(0, "k", 1)), {0: ("k", 1)})
    assert bad(checks) == {"acknowledged records": ["a-0 offset 0 was promised to two records"]}


def test_an_order_violation_is_found(tmp_path: Path) -> None:
    ledger = a_ledger(tmp_path, ack(0, "k", 1), ack(1, "k", 0), ack(2, "k", 2))
    checks = verdict(ledger, {0: ("k", 1), 1: ("k", 0), 2: ("k", 2)})
    assert bad(checks) == {"order of each key": ["a-0 offset 1: key k has sequence 0 after 1"]}


def test_a_record_that_is_there_twice_is_found(tmp_path: Path) -> None:
    checks = verdict(a_ledger(tmp_path, ack(0, "k", 0)), {0: ("k", 0), 1: ("k", 0)})
    assert bad(checks) == {"no record twice": ["a-0 offset 1: key k has sequence 0 after 0"]}


@pytest.mark.parametrize(
    ("first", "second", "is_good"),
    [
        ((0, 0), (0, 1), True),
        ((0, 0), (0, 0), False),  # a broker took the same batch twice
        ((0, 1), (0, 0), False),
        ((0, 0), (1, 1), False),
        ((-1, -1), (-1, -1), False),
    ],
)
def test_what_a_client_sent_again_under_a_later_epoch_is_no_fault_of_the_cluster(
    tmp_path: Path, first: tuple[int, int], second: tuple[int, int], *, is_good: bool
) -> None:
    """As librdkafka does it: two records, then both again in the first batch of the next epoch, then the next one."""
    judge = RecordJudge(a_ledger(tmp_path, ack(2, "k", 0), ack(3, "k", 1), ack(4, "k", 2)))
    sequences = [0, 1, 0, 1, 2]
    for offset, sequence in enumerate(sequences):
        judge.saw("a", 0, offset, b"k", a_value("k", sequence))
    copies = {(("a", 0), b"k", sequence): [sequence, sequence + 2] for sequence in (0, 1)}
    batches = [LogBatch(0, 2, 1, first), LogBatch(2, 5, 2, second)]
    again = find_sent_again(judge.repeats, copies, {("a", 0): batches}, {("a", 0): {2, 3, 4}})
    checks = {check.name: check for check in judge.checks(Reading({}, {("a", 0): 5}), {}, again)}
    assert bool(bad(checks)) is not is_good
    assert [check.compared for name, check in checks.items() if name.startswith("sent again")] == [2] * is_good


@pytest.mark.parametrize(("promised", "transactional"), [({0, 2}, False), ({2}, True)])
def test_no_client_sends_again_what_was_acknowledged_or_is_of_a_transaction(
    tmp_path: Path, promised: set[int], *, transactional: bool
) -> None:
    """An aborted transaction whose records became visible looks the same but for this."""
    judge = RecordJudge(a_ledger(tmp_path, ack(2, "k", 0)))
    for offset in (0, 2):
        judge.saw("a", 0, offset, b"k", a_value("k", 0))
    batches = {("a", 0): [LogBatch(0, 2, 1, (0, 0), transactional), LogBatch(2, 3, 2, (0, 1))]}
    assert find_sent_again(judge.repeats, {(("a", 0), b"k", 0): [0, 2]}, batches, {("a", 0): promised}) == set()


def test_what_another_run_wrote_under_the_same_keys_is_no_copy_of_a_record_that_was_sent_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The traffic of before the rollback, for one: its keys are the same, and so are its sequences."""
    values = [a_value("k", 0).replace(b"run-1", b"run-0"), a_value("k", 0), a_value("k", 0)]

    def read(_: Any, places: Any, __: str, ___: float, saw: Any) -> Reading:
        for offset, value in enumerate(values):
            saw("a", 0, offset, b"k", value)
        return Reading({}, {("a", 0): len(values)})

    batches = [LogBatch(0, 1, 1, (7, 0)), LogBatch(1, 2, 2, (8, 0)), LogBatch(2, 3, 3, (8, 1))]
    monkeypatch.setattr(outside_reader, "read_everything", read)
    monkeypatch.setattr(outside_reader, "batches_of", lambda _: (len(values), batches))
    (tmp_path / "data" / "a-0").mkdir(parents=True)
    ledger = a_ledger(tmp_path, ack(2, "k", 0))
    tree = outside_reader.TreeReading(replicas={"a": {0: [0]}})
    checks = outside_reader.check_records({}, ledger, tree, RecordJudge(ledger), 1.0, [tmp_path / "data"])
    assert bad({check.name: check for check in checks}) == {}
    assert [check.compared for check in checks if check.name.startswith("sent again")] == [1]


def test_a_third_copy_in_the_epoch_of_the_second_is_a_fault_of_a_broker(tmp_path: Path) -> None:
    judge = RecordJudge(a_ledger(tmp_path, ack(2, "k", 0)))
    for offset in (0, 2, 3):
        judge.saw("a", 0, offset, b"k", a_value("k", 0))
    batches = {("a", 0): [LogBatch(0, 2, 1, (0, 0)), LogBatch(2, 3, 2, (0, 1)), LogBatch(3, 4, 3, (0, 1))]}
    again = find_sent_again(judge.repeats, {(("a", 0), b"k", 0): [0, 2, 3]}, batches, {("a", 0): set()})
    assert [each.offset for each in again] == [2]


def test_an_order_violation_without_an_earlier_copy_is_one_whatever_the_epochs(tmp_path: Path) -> None:
    judge = RecordJudge(a_ledger(tmp_path, ack(0, "k", 1), ack(1, "k", 0)))
    for offset, sequence in enumerate([1, 0]):
        judge.saw("a", 0, offset, b"k", a_value("k", sequence))
    batches = {("a", 0): [LogBatch(0, 1, 1, (0, 0)), LogBatch(1, 2, 2, (0, 1))]}
    copies = {(("a", 0), b"k", 0): [1]}
    assert find_sent_again(judge.repeats, copies, batches, {}) == set()


def test_a_record_of_an_aborted_transaction_must_not_be_seen(tmp_path: Path) -> None:
    ledger = a_ledger(tmp_path, ack(0, "k", 0), ack(1, "t", 0, 7), ack(2, "t", 1, 7), txn(7, "aborted"))
    assert bad(verdict(ledger, {0: ("k", 0)})) == {}
    assert bad(verdict(ledger, {0: ("k", 0), 2: ("t", 1)})) == {
        "aborted transactions are absent": ["transaction 7: 1 of 2 records seen"]
    }


def test_a_committed_transaction_must_be_whole(tmp_path: Path) -> None:
    ledger = a_ledger(tmp_path, ack(0, "t", 0, 7), ack(1, "t", 1, 7), txn(7, "committed"))
    assert list(bad(verdict(ledger, {0: ("t", 0)}))) == ["acknowledged records", "committed transactions are whole"]


@pytest.mark.parametrize("ended", [[], [["txn", 7, "unknown", 1, 2, 3]]], ids=["killed", "never answered"])
def test_a_transaction_of_unknown_end_is_all_there_or_not_at_all(tmp_path: Path, ended: list[list[Any]]) -> None:
    ledger = a_ledger(tmp_path, ack(9, "k", 0), ack(0, "t", 0, 7), ack(1, "t", 1, 7), *ended)
    assert bad(verdict(ledger, {9: ("k", 0)})) == {}
    assert bad(verdict(ledger, {9: ("k", 0), 0: ("t", 0), 1: ("t", 1)})) == {}
    assert bad(verdict(ledger, {9: ("k", 0), 0: ("t", 0)})) == {
        "transactions of unknown end are whole or absent": ["transaction 7: 1 of 2 records seen"]
    }


def test_what_was_not_read_is_not_lost_but_not_good_either(tmp_path: Path) -> None:
    checks = verdict(a_ledger(tmp_path, ack(0, "k", 0)), {}, unread="no leader")
    records = checks["acknowledged records"]
    assert (records.failed, records.not_read) == (0, 2)
    assert exit_code(checks.values()) == 2


def test_an_empty_ledger_proves_nothing(tmp_path: Path) -> None:
    assert exit_code(verdict(a_ledger(tmp_path), {}).values()) == 2


def test_deleted_topics_are_left_out_and_recreated_ones_count_from_their_mark(tmp_path: Path) -> None:
    ledger = a_ledger(
        tmp_path,
        ack(0, "k", 0, topic="gone"),
        ack(0, "k", 0, topic="again", sent=10),
        ["commit", "g", "again", 0, 1, False, 11],
        ["mark", "AGAIN", 20],
        ack(0, "k", 1, topic="again", sent=30),
        ["commit", "g", "again", 0, 1, False, 31],
        deleted=("gone",),
        again="AGAIN",
    )
    assert ledger.topics == {"again"}
    assert [promise.sequence for promise in ledger.promises["again", 0].values()] == [1]
    assert ledger.commits == {("g", "again", 0): [1]}
    assert ledger.excluded == 3


def test_a_torn_last_line_is_left_out_and_the_run_did_not_end_in_order(tmp_path: Path) -> None:
    file = tmp_path / "ledger"
    file.write_text('["begin",1,"run-1",64,1]\n["ack","a",0,0,"k",0,-1,10,11]\n["ack","a",0,1,"k')
    ledger = Ledger(file, (), {})
    assert len(ledger.promises["a", 0]) == 1
    assert not ledger.ended


def test_records_of_others_are_counted_and_not_judged(tmp_path: Path) -> None:
    judge = RecordJudge(a_ledger(tmp_path, ack(0, "k", 0)))
    judge.saw("a", 0, 0, b"k", a_value("k", 0))
    judge.saw("a", 0, 1, None, b"of somebody else")
    judge.saw("a", 0, 2, b"k", a_value("k", 1))
    assert (judge.foreign, judge.unpromised) == (1, 1)
    assert exit_code(judge.checks(Reading({}), {})) == 0


@pytest.mark.parametrize(
    ("recorded", "found", "ended", "alone", "good"),
    [
        ([3, 5], 5, True, True, True),
        ([3, 5], 6, True, True, False),  # nobody was there to commit more
        ([3, 5], 6, False, True, True),  # a killed group may have committed what it could not write down
        ([3, 5], 4, False, True, False),
        ([3, 5], -1001, True, True, False),  # none at all
        ([5, 3, 6], 6, True, True, False),  # reset on the way
        ([3, 6, 5, 6], 6, True, False, True),  # two were under way, and the older one was repeated
        ([3, 6, 5], 5, True, False, False),  # and it stayed
        ([5, 3], 3, True, False, False),  # reset
    ],
)
def test_a_committed_offset_is_kept_and_never_reset(
    recorded: list[int], found: int, ended: bool, alone: bool, good: bool
) -> None:
    check = CheckLine("committed group offsets")
    judge_group_offset(check, "g a-0", recorded, found, ended=ended, one_at_a_time=alone)
    assert (check.failed == 0) is good


def test_the_text_names_each_check_and_the_verdict() -> None:
    check = {"name": "acknowledged records", "compared": 7, "failed": 1, "not_read": 0, "first": ["a-0 offset 1"]}
    text = as_text({"exit_code": 1, "run": "run-1", "took_s": 1.5, "checks": [check]})
    assert "acknowledged records" in text
    assert "    a-0 offset 1" in text
    assert text.endswith("something failed; run run-1, 1.5 s")


def test_the_first_failures_are_few() -> None:
    check = CheckLine("x")
    for number in range(100):
        check.fail(str(number))
    assert (check.failed, len(check.first)) == (100, outside_reader.FIRST_MAX)
