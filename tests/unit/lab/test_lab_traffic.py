"""The traffic without brokers: what it writes down, says of itself, and makes of commands and failures."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from hypothesis import given
from hypothesis import strategies as st

from migrator.findings.finding import FindingError
from migrator.lab.traffic import clients as traffic_clients
from migrator.lab.traffic import producers as traffic_producers
from migrator.lab.traffic.clients import DeliveryReport, ProducerClient, Surroundings, Topics
from migrator.lab.traffic.control import Add, CommandFile, Drop, MarkCommand, Stop
from migrator.lab.traffic.ledger import (
    NO_TRANSACTION,
    Acknowledged,
    Began,
    Entry,
    Failed,
    GroupCommitted,
    LedgerWriter,
    Marked,
    RunEnded,
    TopicAdded,
    TopicDropped,
    TransactionEnded,
    TransactionOutcome,
    read_ledger,
)
from migrator.lab.traffic.producers import IdempotentLane, Transaction, TransactionalLane
from migrator.lab.traffic.records import (
    KEYS_PER_PARTITION,
    VALUE_BYTES,
    Record,
    RecordPace,
    Rounds,
    sequence_in,
    value_of,
)
from migrator.lab.traffic.status import TrafficState, TrafficStatus
from migrator.lab.traffic.tally import ERROR_KINDS_MAX, GroupTally, Tally

EVERY_KIND: list[Entry] = [
    Began(1, "run-1", VALUE_BYTES, 10),
    TopicAdded("orders", 11),
    Acknowledged("orders", 3, 7, "plain-0", 2, NO_TRANSACTION, 20, 25),
    Failed("orders", 3, "plain-1", 2, 4, 20, 30, "_MSG_TIMED_OUT"),
    TransactionEnded(4, TransactionOutcome.ABORTED, 19, 30, 31),
    GroupCommitted("by-hand", "orders", 3, 8, True, 40),
    Marked('a "mark", with signs', 41),
    TopicDropped("orders", 42),
    RunEnded(50),
]


# --- the ledger -----------------------------------------------------------------------------------------------


def test_the_ledger_rolls_back_what_was_written(tmp_path: Path) -> None:
    ledger = LedgerWriter(tmp_path / "ledger")
    ledger.write(*EVERY_KIND)
    ledger.close()
    assert list(read_ledger(tmp_path / "ledger")) == EVERY_KIND


def test_a_torn_last_line_of_the_ledger_is_left_out(tmp_path: Path) -> None:
    file = tmp_path / "ledger"
    ledger = LedgerWriter(file)
    ledger.write(*EVERY_KIND)
    ledger.close()
    file.write_bytes(file.read_bytes()[:-3])
    assert list(read_ledger(file)) == EVERY_KIND[:-1]


def test_a_damaged_line_of_the_ledger_is_a_finding_with_its_number(tmp_path: Path) -> None:
    file = tmp_path / "ledger"
    file.write_text('["begin",1,"run-1",128,10]\n["ack","orders"]\n')
    with pytest.raises(FindingError, match="line 2") as caught:
        list(read_ledger(file))
    assert caught.value.code == "Z2K-6014"


def test_entries_of_many_threads_do_not_mix(tmp_path: Path) -> None:
    ledger = LedgerWriter(tmp_path / "ledger")
    entries = [[Marked(f"{thread} " * 200, number) for number in range(50)] for thread in range(4)]

    def write(mine: Iterable[Entry]) -> None:
        for entry in mine:
            ledger.write(entry)

    threads = [threading.Thread(target=write, args=[mine]) for mine in entries]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ledger.close()
    assert sorted(read_ledger(tmp_path / "ledger"), key=repr) == sorted(chain(*entries), key=repr)


# --- the status -----------------------------------------------------------------------------------------------


def test_a_status_that_is_written_while_it_is_read_is_never_torn(tmp_path: Path) -> None:
    tally = Tally("run-1")
    file = tmp_path / "status.json"
    tally.status(TrafficState.RUNNING, 0, ()).write(file)
    stop = threading.Event()

    def write() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            tally.error("KIND" * (number % 1000))
            tally.status(TrafficState.RUNNING, number, ()).write(file)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        seen = [TrafficStatus.read(file).commands_done for _ in range(500)]
    finally:
        stop.set()
        writer.join()
    assert seen == sorted(seen)
    assert list(tmp_path.iterdir()) == [file]


def test_records_count_when_they_are_answered_and_lag_until_they_are_read() -> None:
    tally = Tally("run-1")
    tally.set_topics({"orders": 2}, missing=[])
    group = tally.group("by-hand")
    record = Record("orders", 1, "plain-0", 0)
    tally.sent("orders")
    tally.delivered(time.time(), 12.5)
    before = tally.status(TrafficState.RUNNING, 0, ())
    assert (before.acknowledged, before.outstanding, before.silent_partitions) == (0, 1, 2)
    assert before.latency.max_ms == before.since_mark.latency_max_ms == 12.5
    tally.counted([(record, 9)])
    after = tally.status(TrafficState.RUNNING, 0, ())
    assert (after.acknowledged, after.outstanding, after.silent_partitions) == (1, 0, 1)
    assert after.groups["by-hand"].lag == 10
    group.saw(("orders", 1), 9, b"plain-0", 0)
    assert tally.lag(group) == 0


def test_failures_of_a_dropped_topic_are_counted_apart_also_those_of_before() -> None:
    tally = Tally("run-1")
    for topic in ("orders", "gone", "gone", "gone"):
        tally.sent(topic)
    tally.failed(["orders", "gone"])
    assert tally.status(TrafficState.RUNNING, 0, ()).lost == 2
    tally.dropped("gone")
    tally.failed(["gone"], refused=True)
    told = tally.status(TrafficState.RUNNING, 0, in_use=())
    assert (told.lost, told.refused, told.to_deleted, told.outstanding, told.settling) == (1, 0, 2, 1, ("gone",))
    assert tally.added("gone")
    assert not tally.added("new")


def test_a_dropped_topic_settles_when_every_thread_has_heard_of_it() -> None:
    tally = Tally("run-1")
    tally.dropped("gone")
    assert tally.status(TrafficState.RUNNING, 0, in_use={"gone"}).settling == ("gone",)
    assert tally.status(TrafficState.RUNNING, 0, in_use=()).settling == ()


def test_offsets_of_a_dropped_topic_do_not_count_for_the_one_that_comes_back() -> None:
    tally = Tally("run-1")
    group = tally.group("by-hand")
    tally.dropped("again")
    tally.counted([(Record("again", 0, "plain-0", 0), 575)])
    tally.added("again")
    tally.set_topics({"again": 1}, missing=[])
    assert tally.status(TrafficState.RUNNING, 0, ()).silent_partitions == 1
    assert tally.lag(group) == 0


def test_error_kinds_are_bounded() -> None:
    tally = Tally("run-1")
    for number in range(3 * ERROR_KINDS_MAX):
        tally.error(f"kind {number}")
    errors = tally.status(TrafficState.RUNNING, 0, ()).errors
    assert len(errors) == ERROR_KINDS_MAX + 1
    assert sum(errors.values()) == 3 * ERROR_KINDS_MAX


def test_a_mark_begins_its_figures_anew() -> None:
    tally = Tally("run-1")
    tally.delivered(time.time(), 900.0)
    tally.mark("TAKING_OVER", time.time())
    assert tally.status(TrafficState.RUNNING, 1, ()).since_mark.latency_max_ms == 0.0
    tally.delivered(time.time(), 3.0)
    told = tally.status(TrafficState.RUNNING, 1, ()).since_mark
    assert (told.name, told.latency_max_ms) == ("TAKING_OVER", 3.0)


def test_a_group_tells_order_violations_duplicates_and_redeliveries_apart() -> None:
    group, place = GroupTally(), ("orders", 0)
    for offset, sequence in ((0, 0), (1, 1), (2, 1), (3, 0), (3, 0), (4, 2)):
        group.saw(place, offset, b"key", sequence)
    group.saw(place, 5, b"key", None)
    assert (group.read, group.duplicates, group.order_violations, group.redelivered) == (5, 1, 1, 1)
    group.forget({"orders"})
    group.saw(place, 0, b"key", 3)
    assert (group.read, group.redelivered) == (6, 1)


# --- records --------------------------------------------------------------------------------------------------


def test_every_partition_has_its_turn_and_sequences_of_a_key_only_grow() -> None:
    rounds = Rounds("plain", burst=2)
    assert rounds.next() is None
    rounds.set_topics({"a": 2, "b": 1})
    records = [record for _ in range(60) if (record := rounds.next())]
    assert [(one.topic, one.partition) for one in records[:6]] == [("a", 0)] * 2 + [("b", 0)] * 2 + [("a", 1)] * 2
    by_key: dict[tuple[str, int, str], list[int]] = {}
    for one in records:
        by_key.setdefault((one.topic, one.partition, one.key), []).append(one.sequence)
    assert len(by_key) == 3 * KEYS_PER_PARTITION
    assert all(sequences == list(range(len(sequences))) for sequences in by_key.values())


def test_sequences_go_on_when_a_topic_comes_back() -> None:
    rounds = Rounds("plain", burst=1)
    rounds.set_topics({"a": 1})
    before = [rounds.next() for _ in range(KEYS_PER_PARTITION)]
    rounds.set_topics({})
    rounds.set_topics({"a": 1})
    again = rounds.next()
    assert before[0] is not None
    assert again == Record("a", 0, before[0].key, 1)


def test_a_value_holds_its_whole_record_and_knows_its_run() -> None:
    value = value_of("run-1", Record("orders", 3, "plain-0", 42))
    assert value.startswith(b"run-1|orders|3|plain-0|42|..")
    assert len(value) == VALUE_BYTES
    assert sequence_in("run-1", value) == 42
    assert sequence_in("run-2", value) is None
    assert sequence_in("run-1", None) is None


@given(
    st.lists(st.floats(min_value=0, max_value=0.9), min_size=1, max_size=200), st.floats(min_value=20, max_value=900)
)
def test_the_pace_is_kept_whatever_the_ticks(pauses: list[float], rate: float) -> None:
    pace, now, sent = RecordPace(rate, 100.0), 100.0, 0
    for pause in pauses:
        now += pause
        sent += pace.due(now)
        assert (now - 100.0) * rate - 1.001 <= sent <= (now - 100.0) * rate + 0.001


def test_a_standstill_is_caught_up_by_one_second_only() -> None:
    pace = RecordPace(100, 0.0)
    assert pace.due(60.0) == 100


# --- commands -------------------------------------------------------------------------------------------------


def test_commands_are_read_once_and_whole(tmp_path: Path) -> None:
    commands = CommandFile(tmp_path / "commands")
    assert commands.new() == []
    with (tmp_path / "commands").open("a") as file:
        file.write('{"command":"mark","name":"A","at_us":5}\n{"command":"add","topic":"x"}\n{"command":"dr')
        file.flush()
        assert commands.new() == [MarkCommand("A", 5), Add("x")]
        assert commands.new() == []
        file.write('op","topic":"x"}\n{"command":"stop"}\n')
        file.flush()
        assert commands.new() == [Drop("x"), Stop()]
    assert commands.new() == []


# --- transactions ---------------------------------------------------------------------------------------------


class FakeProducer:
    """Acknowledges every record at once. plan: what each commit does, in order: an error, or None for success."""

    def __init__(self, plan: list[KafkaError | None]) -> None:
        self.plan = plan
        self.calls: list[str] = []

    def begin_transaction(self) -> None:
        self.calls.append("begin")

    def abort_transaction(self) -> None:
        self.calls.append("abort")

    def init_transactions(self) -> None:
        self.calls.append("init")

    def commit_transaction(self) -> None:
        self.calls.append("commit")
        if self.plan and (error := self.plan.pop(0)) is not None:
            raise KafkaException(error)


class FakeClient:
    is_dead = False
    is_outdated = False
    shared: FakeProducer
    offset = 0

    def __init__(self, *_: Any, **__: Any) -> None:
        self.producer = FakeClient.shared

    def partition_counts(self) -> dict[str, int]:
        return {"orders": 1}

    def send(self, record: Record, answered: Any) -> None:
        FakeClient.offset += 1
        answered(DeliveryReport(record, 1, 2, FakeClient.offset))

    def close(self, flush_s: float = 0.0) -> None:
        self.producer.calls.append("close")


class OneTransaction(threading.Event):
    """Lets the lane fill one transaction and then stops it."""

    def __init__(self, lane_has_enough: Any) -> None:
        super().__init__()
        self._enough = lane_has_enough

    def wait(self, timeout: float | None = None) -> bool:
        time.sleep(0.001)
        if self._enough():
            self.set()
        return self.is_set()


PLACES = ((0, 0), (0, 1), (1, 0))


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traffic_producers, "ProducerClient", FakeClient)
    monkeypatch.setattr(traffic_producers, "RETRY_AFTER_S", 0.0)
    monkeypatch.setattr(traffic_producers, "RECORDS_PER_TRANSACTION", 1_000_000)  # a slow machine fills 20 in one tick
    FakeClient.offset = 0


def one_transaction(tmp_path: Path, plan: list[KafkaError | None]) -> tuple[list[str], list[Entry], TrafficStatus]:
    """Run a lane for a single transaction whose commits end as planned: calls, ledger, status."""
    FakeClient.shared = FakeProducer(plan)
    tally, ledger = Tally("run-1"), LedgerWriter(tmp_path / "ledger")
    stopping = OneTransaction(lambda: tally.outstanding() > 0)
    here = Surroundings("traffic", "run-1", "", Topics(), ledger, tally, stopping=stopping)
    here.topics.counts = {"orders": 1}
    TransactionalLane("transactional", here, rate=1000.0).run()
    ledger.close()
    return FakeClient.shared.calls, list(read_ledger(tmp_path / "ledger")), tally.status(TrafficState.STOPPED, 0, ())


def outcomes(entries: list[Entry]) -> list[TransactionOutcome]:
    return [entry.outcome for entry in entries if isinstance(entry, TransactionEnded)]


def an_error(**flags: bool) -> KafkaError:
    return KafkaError(KafkaError._TRANSPORT, "planned", **flags)


@pytest.mark.usefixtures("quick")
def test_a_client_outdated_by_a_returned_topic_uses_only_what_it_knows(tmp_path: Path) -> None:
    FakeClient.shared = FakeProducer([])
    here = Surroundings("traffic", "run-1", "", Topics(), LedgerWriter(tmp_path / "ledger"), Tally("run-1"))
    lane = TransactionalLane("transactional", here, rate=1000.0)
    here.topics.counts = {"orders": 1}
    client: Any = lane._client
    client.is_outdated = True
    time.sleep(0.01)
    assert lane._due() == []
    client.is_outdated = False
    time.sleep(0.01)
    assert {record.topic for record in lane._due()} == {"orders"}


@pytest.mark.usefixtures("quick")
def test_the_first_record_for_a_partition_is_answered_before_there_is_a_second(tmp_path: Path) -> None:
    FakeClient.shared = FakeProducer([])
    here = Surroundings("traffic", "run-1", "", Topics(), LedgerWriter(tmp_path / "ledger"), Tally("run-1"))
    lane = IdempotentLane("plain", here, rate=1000.0)
    first, second, elsewhere = (Record("orders", partition, "plain-0", number) for partition, number in PLACES)
    assert [lane._may_send(record) for record in (first, second, elsewhere)] == [True, False, True]
    lane._answered(DeliveryReport(first, 1, 2, error="_MSG_TIMED_OUT"))
    assert [lane._may_send(record) for record in (first, second)] == [True, False]
    lane._answered(DeliveryReport(first, 1, 2, 0))
    assert [lane._may_send(record) for record in (first, second)] == [True, True]
    lane._replace_client()
    assert [lane._may_send(record) for record in (first, second)] == [True, False]


@pytest.mark.usefixtures("quick")
def test_what_an_abort_took_back_from_a_topic_dropped_meanwhile_is_no_loss(tmp_path: Path) -> None:
    FakeClient.shared = FakeProducer([])
    here = Surroundings("traffic", "run-1", "", Topics(), LedgerWriter(tmp_path / "ledger"), Tally("run-1"))
    lane = TransactionalLane("transactional", here, rate=1000.0)
    here.topics.counts = {"orders": 1, "gone": 1}
    aborted = Transaction(1)
    for number, topic in enumerate(("gone", "orders", "gone")):
        aborted.records.append(Record(topic, 0, "transactional-0", number))
        here.tally.sent(topic)
    here.topics.counts = {"orders": 1}
    here.tally.dropped("gone")
    lane._send_again(aborted)
    status = here.tally.status(TrafficState.RUNNING, 0, ())
    assert (status.to_deleted, status.lost, status.outstanding, status.settling) == (0, 0, 0, ())
    assert (status.acknowledged, status.transactions.retried) == (1, 1)


@pytest.mark.usefixtures("quick")
def test_records_of_a_transaction_count_when_it_is_committed(tmp_path: Path) -> None:
    calls, entries, status = one_transaction(tmp_path, [None])
    assert calls == ["init", "begin", "commit", "close"]
    assert outcomes(entries) == [TransactionOutcome.COMMITTED]
    assert status.acknowledged == FakeClient.offset > 0
    assert (status.outstanding, status.lost, status.transactions.committed) == (0, 0, 1)


@pytest.mark.usefixtures("quick")
def test_a_commit_that_may_be_asked_again_is_asked_again(tmp_path: Path) -> None:
    calls, entries, _ = one_transaction(tmp_path, [an_error(retriable=True), None])
    assert calls == ["init", "begin", "commit", "commit", "close"]
    assert outcomes(entries) == [TransactionOutcome.COMMITTED]


@pytest.mark.usefixtures("quick")
def test_a_failed_transaction_is_sent_again_whole_in_a_new_one(tmp_path: Path) -> None:
    calls, entries, status = one_transaction(tmp_path, [an_error(txn_requires_abort=True), None])
    assert calls == ["init", "begin", "commit", "abort", "begin", "commit", "close"]
    assert outcomes(entries) == [TransactionOutcome.ABORTED, TransactionOutcome.COMMITTED]
    records = [entry for entry in entries if isinstance(entry, Acknowledged)]
    assert [one.sequence for one in records if one.transaction == 0] == [
        one.sequence for one in records if one.transaction == 1
    ]
    assert status.acknowledged == len(records) / 2
    assert (status.outstanding, status.lost, status.transactions.retried) == (0, 0, 1)


@pytest.mark.usefixtures("quick")
def test_a_client_that_never_answers_a_record_is_replaced_and_the_transaction_sent_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent = [True]

    class SilentOnce(FakeClient):
        def send(self, record: Record, answered: Any) -> None:
            if silent:
                silent.clear()
            else:
                super().send(record, answered)

    monkeypatch.setattr(traffic_producers, "ProducerClient", SilentOnce)
    monkeypatch.setattr(traffic_producers, "UNANSWERED_AFTER_S", 0.0)
    calls, entries, status = one_transaction(tmp_path, [None])
    assert calls == ["init", "begin", "close", "init", "begin", "commit", "close"]
    assert outcomes(entries) == [TransactionOutcome.ABORTED, TransactionOutcome.COMMITTED]
    assert (status.outstanding, status.lost, status.transactions.retried) == (0, 0, 1)
    assert status.errors[traffic_producers.UNANSWERED] == 1


class DyingProducer:
    """As librdkafka behaves (2.16, seen): a fatal error is raised by the call that runs callbacks, once, and never told
    to `error_cb`; what is sent afterwards is refused.
    """

    def __init__(self, dies_in: str) -> None:
        self._dies_in = dies_in
        self._told = False

    def __len__(self) -> int:
        return 0

    def _run_callbacks(self, call: str) -> int:
        if call == self._dies_in and not self._told:
            self._told = True
            raise KafkaException(KafkaError(KafkaError.INVALID_TXN_STATE, "planned", fatal=True))
        return 0

    def poll(self, seconds: float) -> int:
        time.sleep(min(seconds, 0.01))
        return self._run_callbacks("poll")

    def flush(self, seconds: float) -> int:
        return self._run_callbacks("flush")

    def produce(self, *_: Any, **__: Any) -> None:
        raise KafkaException(KafkaError(KafkaError._FATAL, "planned"))


@pytest.mark.parametrize("dies_in", ["poll", "flush"])
def test_a_client_that_failed_for_good_is_dead_and_no_fault_of_the_traffic(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dies_in: str
) -> None:
    monkeypatch.setattr(traffic_clients, "Producer", lambda _: DyingProducer(dies_in))
    here = Surroundings("traffic", "run-1", "", Topics(), LedgerWriter(tmp_path / "ledger"), Tally("run-1"))
    client = ProducerClient("plain", here)
    answers: list[DeliveryReport] = []
    deadline = time.monotonic() + 60.0
    while dies_in == "poll" and not client.is_dead and time.monotonic() < deadline:
        time.sleep(0.01)
    client.send(Record("orders", 0, "plain-0", 1), answers.append)
    client.close(0.0)
    assert client.is_dead
    assert not here.faults
    assert [answer.error for answer in answers] == ["_FATAL"]
    assert here.tally.status(TrafficState.RUNNING, 0, ()).errors == {"INVALID_TXN_STATE": 1}


@pytest.mark.usefixtures("quick")
def test_a_commit_that_was_never_answered_is_of_unknown_end_and_not_sent_again(tmp_path: Path) -> None:
    calls, entries, status = one_transaction(tmp_path, [an_error(fatal=True)])
    assert calls == ["init", "begin", "commit", "close", "init", "close"]
    assert outcomes(entries) == [TransactionOutcome.UNKNOWN]
    assert (status.acknowledged, status.outstanding, status.transactions.unknown) == (0, 0, 1)


class ForgetfulProducer:
    """As librdkafka behaves (2.16, seen) while a broker that starts says that topics do not exist."""

    def __init__(self, refusals: int) -> None:
        self._refusals = refusals
        self.taken: list[bytes] = []

    def __len__(self) -> int:
        return 0

    def poll(self, seconds: float) -> int:
        time.sleep(min(seconds, 0.01))
        return 0

    def flush(self, _: float) -> int:
        return 0

    def produce(self, _: str, value: bytes, *__: Any, **___: Any) -> None:
        if self._refusals:
            self._refusals -= 1
            raise KafkaException(KafkaError(KafkaError._UNKNOWN_TOPIC, "planned"))
        self.taken.append(value)


@pytest.mark.parametrize(("topics", "taken"), [({"orders": 1}, 1), ({}, 0)])
def test_a_record_that_a_client_does_not_take_is_handed_over_again_while_its_topic_is_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, topics: dict[str, int], taken: int
) -> None:
    producer = ForgetfulProducer(refusals=3)
    monkeypatch.setattr(traffic_clients, "Producer", lambda _: producer)
    monkeypatch.setattr(traffic_clients, "ASKS_AGAIN_EVERY_S", 0.0)
    here = Surroundings("traffic", "run-1", "", Topics(), LedgerWriter(tmp_path / "ledger"), Tally("run-1"))
    here.topics.counts = topics
    client = ProducerClient("plain", here)
    answers: list[DeliveryReport] = []
    client.send(Record("orders", 0, "plain-0", 1), answers.append)
    client.close(0.0)
    assert len(producer.taken) == taken
    assert [(answer.error, answer.refused) for answer in answers] == ([] if taken else [("_UNKNOWN_TOPIC", True)])
    assert here.tally.status(TrafficState.RUNNING, 0, ()).errors == ({"_UNKNOWN_TOPIC": 3} if taken else {})


def test_a_record_whose_partition_stays_unknown_is_refused_after_a_minute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(traffic_clients, "Producer", lambda _: ForgetfulProducer(refusals=1_000_000))
    monkeypatch.setattr(traffic_clients, "ASKS_AGAIN_FOR_S", 0.0)
    here = Surroundings("traffic", "run-1", "", Topics(), LedgerWriter(tmp_path / "ledger"), Tally("run-1"))
    here.topics.counts = {"orders": 1}
    client = ProducerClient("plain", here)
    answers: list[DeliveryReport] = []
    client.send(Record("orders", 0, "plain-0", 1), answers.append)
    client.close(0.0)
    assert [(answer.error, answer.refused) for answer in answers] == [("_UNKNOWN_TOPIC", True)]
