"""The book of the adversarial runs: what may be seen after which answers, and which ids were handed out twice."""

from __future__ import annotations

from tests.adversarial.ledger import Entry, Ledger, settled, wrong
from tests.adversarial.producer_ids import Handed
from tests.adversarial.rounds import AFTER_THE_COMMIT, BEFORE_THE_COMMIT, End, rounds


def a_ledger_with(topic: str, partitions: int) -> Ledger[str]:
    ledger: Ledger[str] = Ledger()
    ledger.begin(topic, partitions)
    ledger.acknowledge(topic, partitions)
    return ledger


def test_what_was_acknowledged_has_to_be_there_and_nothing_else() -> None:
    entries = a_ledger_with("orders", 3).snapshot()
    assert wrong(entries, {"orders": 3}) == []
    assert wrong(entries, {"orders": 2}) == [("orders", 2, entries["orders"])]
    assert wrong(entries, {}) == [("orders", 0, entries["orders"])]


def test_a_change_without_an_answer_may_have_been_made_or_not() -> None:
    ledger = a_ledger_with("orders", 3)
    ledger.begin("orders", 0)
    entries = ledger.snapshot()
    assert wrong(entries, {"orders": 3}) == wrong(entries, {}) == []
    assert wrong(entries, {"orders": 4}) == [("orders", 4, Entry(frozenset({0, 3}), changes=2, life=1))]


def test_what_was_acknowledged_as_deleted_must_not_come_back() -> None:
    ledger = a_ledger_with("orders", 3)
    ledger.begin("orders", 0)
    ledger.acknowledge("orders", 0)
    assert wrong(ledger.snapshot(), {"orders": 3}) == [("orders", 3, Entry(frozenset({0}), changes=2, life=1))]
    assert ledger.entries["orders"].life == 1
    ledger.begin("orders", 1)
    assert ledger.entries["orders"].life == 2


def test_a_thing_that_changed_between_two_looks_is_not_judged() -> None:
    ledger = a_ledger_with("orders", 3)
    ledger.begin("bills", 1)
    before = ledger.snapshot()
    ledger.begin("orders", 5)
    ledger.acknowledge("bills", 1)
    assert settled(before, ledger.snapshot()) == {"bills": Entry(frozenset({0, 1}), 1, 1)}


def test_an_id_or_a_block_that_is_handed_out_twice_is_named() -> None:
    handed = Handed()
    for producer_id in (0, 1, 2_000, 2_999):
        handed.note(producer_id, broker=producer_id // 2_000)
    assert (handed.violations, handed.blocks, handed.count, handed.highest) == ([], 2, 4, 2_999)
    handed.note(1, broker=0)
    handed.note(2_500, broker=0)
    assert handed.violations == [
        "producer id 1 was handed out by 0 and again by 0",
        "brokers 1 and 0 both have the block of producer id 2500",
    ]


def test_a_seed_is_a_plan_that_has_every_end_and_every_place() -> None:
    plan = list(rounds(7, 200))
    assert plan == list(rounds(7, 200))
    assert {each.end for each in plan} == set(End)
    assert {each.stands_before for each in plan if not each.is_whole} == {"", *BEFORE_THE_COMMIT}
    assert {each.stands_before for each in plan if each.is_whole} & set(AFTER_THE_COMMIT)
    assert [each.number for each in plan if each.is_whole] == list(range(18, 201, 18))
