"""Producers of the traffic: one lane of plain idempotent records, one of transactions.

In:   the topics to write to, and a rate.
Out:  records on the brokers; each answer in the ledger and in the tally.
Elsewhere: what a record holds and whose turn it is (records.py), the clients' settings (clients.py).
Rules: what librdkafka reports lost is counted and never sent again, so that a loss stays visible. A transaction that
failed is sent again whole in a new one, as an application would; one whose commit was never answered is not.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final

from confluent_kafka import KafkaError, KafkaException

from migrator.lab.traffic.clients import (
    DELIVERY_TIMEOUT_S,
    FLUSH_DEADLINE_S,
    DeliveryReport,
    ProducerClient,
    Surroundings,
    now_us,
)
from migrator.lab.traffic.ledger import NO_TRANSACTION, Acknowledged, Failed, TransactionEnded, TransactionOutcome
from migrator.lab.traffic.records import Record, RecordPace, Rounds

TICK_S: Final = 0.02
RECORDS_PER_TRANSACTION: Final = 20
ABORT_EVERY: Final = 10
"""Every tenth transaction is aborted on purpose: a reader that shows its records would show an abort as a commit."""

BURST: Final = 2
TRANSACTION_BURST: Final = 5
"""Four partitions for each transaction: every partition of a commit costs the brokers a marker on each replica."""

RETRY_AFTER_S: Final = 0.2
LOOK_EVERY_S: Final = 0.5
UNANSWERED: Final = "UNANSWERED"
UNANSWERED_AFTER_S: Final = DELIVERY_TIMEOUT_S + 10.0
"""librdkafka (2.16) answers each record within the delivery timeout, with one exception that was seen: a record under
way to a broker that died, in a partition that another broker, just started, did not know yet. It was never answered.
"""

ASK_AGAIN_S: Final = 0.5
"""A broker may not have heard of a new topic yet; its client asks again."""


class Lane(ABC):
    """One producer in its own thread, writing to every partition in turn until the traffic stops."""

    _client: ProducerClient

    def __init__(self, name: str, here: Surroundings, rate: float, burst: int) -> None:
        self.name = name
        self.here = here
        self.topics: Mapping[str, int] = {}
        """The topics as this lane knows them; a topic that was dropped is done when every lane knows of it."""
        self._usable: dict[str, int] = {}
        self._ask_at = 0.0
        self._rounds = Rounds(name, burst)
        self._pace = RecordPace(rate, time.monotonic())

    @abstractmethod
    def run(self) -> None:
        """Until the traffic stops; on return nothing of this lane is outstanding, or it was counted as lost."""

    def _due(self) -> list[Record]:
        """The records for this moment."""
        if self._usable != self.here.topics.counts:
            self._follow(self.here.topics.counts)
        self.topics = self.here.topics.counts
        records = (self._rounds.next() for _ in range(self._pace.due(time.monotonic())))
        return [record for record in records if record is not None]

    def _follow(self, wanted: Mapping[str, int]) -> None:
        """Leave what was dropped at once; use what is new as soon as this lane's own client has heard of it.

        A client outdated by a topic that came back uses nothing new: within a transaction it cannot be replaced.
        """
        self._usable = {topic: count for topic, count in self._usable.items() if topic in wanted}
        now = time.monotonic()
        if self._usable != wanted and now >= self._ask_at and not self._client.is_outdated:
            self._ask_at = now + ASK_AGAIN_S
            known = self._client.partition_counts()
            self._usable |= {topic: min(count, known[topic]) for topic, count in wanted.items() if topic in known}
        self._rounds.set_topics(self._usable)

    def _acknowledged(self, answer: DeliveryReport, transaction: int) -> None:
        record = answer.record
        self.here.tally.delivered(answer.at_us / 1e6, (answer.at_us - answer.sent_us) / 1000)
        self.here.ledger.write(
            Acknowledged(
                topic=record.topic,
                partition=record.partition,
                offset=answer.offset,
                key=record.key,
                sequence=record.sequence,
                transaction=transaction,
                sent_us=answer.sent_us,
                acknowledged_us=answer.at_us,
            )
        )

    def _failed(self, answer: DeliveryReport, transaction: int) -> None:
        """A record that was accepted and given up, or refused: the ledger names both, with the error."""
        record = answer.record
        self.here.tally.error(answer.error)
        self.here.ledger.write(
            Failed(
                topic=record.topic,
                partition=record.partition,
                key=record.key,
                sequence=record.sequence,
                transaction=transaction,
                sent_us=answer.sent_us,
                failed_us=answer.at_us,
                error=answer.error,
            )
        )


class IdempotentLane(Lane):
    """Records by themselves.

    Its first record for a partition is answered before there is a second. A Kafka 3.9 broker takes any sequence number
    from a producer that it does not know yet (KAFKA-15591). So when the leader changes between the first batch and the
    second, the second is appended, the first one's retry counts as a duplicate, and the client calls it acknowledged:
    lost by stock software alone, and no fault of what is tested here. Transactions are checked more strictly (KIP-890).
    """

    def __init__(self, name: str, here: Surroundings, rate: float) -> None:
        super().__init__(name, here, rate, BURST)
        self._client = ProducerClient(name, here)
        self._opening: set[tuple[str, int]] = set()
        self._open: set[tuple[str, int]] = set()

    def run(self) -> None:
        while not self.here.stopping.wait(TICK_S):
            if self._client.is_dead or self._client.is_outdated:
                self._replace_client()
            for record in self._due():
                if self._may_send(record):
                    self.here.tally.sent(record.topic)
                    self._client.send(record, self._answered)
        self._client.close(FLUSH_DEADLINE_S)

    def _may_send(self, record: Record) -> bool:
        """Whether this producer is known in the partition, or begins to be with this record."""
        place = record.topic, record.partition
        if place in self._open:
            return True
        if place in self._opening:
            return False
        self._opening.add(place)
        return True

    def _answered(self, answer: DeliveryReport) -> None:
        place = answer.record.topic, answer.record.partition
        if answer.error:
            self._failed(answer, NO_TRANSACTION)
            self.here.tally.failed([answer.record.topic], refused=answer.refused)
        else:
            self._acknowledged(answer, NO_TRANSACTION)
            self.here.tally.counted([(answer.record, answer.offset)])
            self._open.add(place)
        self._opening.discard(place)

    def _replace_client(self) -> None:
        self._client.close(0.0 if self._client.is_dead else FLUSH_DEADLINE_S)
        self._client = ProducerClient(self.name, self.here)
        self._open.clear()


class UnansweredError(Exception):
    """The client said nothing of a record, not even that it gave it up."""


class Transaction:
    """One transaction on its way. Answers arrive from another thread."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.began_us = now_us()
        self.ending_us = self.began_us
        self.records: list[Record] = []
        self.offsets: list[tuple[Record, int]] = []
        self.failed = 0
        self._change = threading.Condition(threading.RLock())

    def answered(self, answer: DeliveryReport) -> None:
        with self._change:
            if answer.refused:
                self.records.remove(answer.record)
            elif answer.error:
                self.failed += 1
            else:
                self.offsets.append((answer.record, answer.offset))
            self._change.notify()

    def wait_for_answers(self, topics: Callable[[], Collection[str]]) -> bool:
        """Whether every record was acknowledged. topics: those still written to; one that was dropped ends the wait.

        Raises UnansweredError after UNANSWERED_AFTER_S.
        """
        ends = time.monotonic() + UNANSWERED_AFTER_S
        with self._change:
            while not self._change.wait_for(self._is_decided, timeout=LOOK_EVERY_S):
                if not {record.topic for record in self.records} <= set(topics()):
                    return False
                if time.monotonic() > ends:
                    raise UnansweredError
            return not self.failed

    def _is_decided(self) -> bool:
        return self.failed > 0 or len(self.offsets) == len(self.records)


class TransactionalLane(Lane):
    """Records in transactions, spread evenly, so that nearly always one is open. The transactional.id never changes."""

    def __init__(self, name: str, here: Surroundings, rate: float) -> None:
        super().__init__(name, here, rate, TRANSACTION_BURST)
        self._count = 0
        self._client = self._new_client()

    def run(self) -> None:
        while not self.here.stopping.is_set():
            self._count += 1
            on_purpose = self._count % ABORT_EVERY == 0
            transaction = self._begin()
            outcome = self._carry(transaction, self._paced(), abort=on_purpose)
            self._note(transaction, outcome)
            if outcome is TransactionOutcome.ABORTED and on_purpose:
                self.here.tally.transaction_aborted_on_purpose()
                self.here.tally.withdrawn(record.topic for record in transaction.records)
            elif outcome is TransactionOutcome.ABORTED:
                self._send_again(transaction)
        self._client.close()

    def _paced(self) -> Iterator[list[Record]]:
        """Records for one transaction as they fall due; fewer when the traffic stops."""
        count = 0
        while count < RECORDS_PER_TRANSACTION and not self.here.stopping.wait(TICK_S):
            due = self._due()
            count += len(due)
            yield due

    def _send_again(self, failed: Transaction) -> None:
        """The records of a failed transaction once more, in new ones, until they are in or the traffic has to end.

        Those of a topic that was dropped meanwhile are not sent again. Nobody lost them: the abort took them back.
        """
        give_up = time.monotonic() + FLUSH_DEADLINE_S
        while True:
            left = [record for record in failed.records if record.topic in self.here.topics.counts]
            self.here.tally.withdrawn(record.topic for record in failed.records)
            if not left:
                return
            if time.monotonic() > give_up:
                self._give_up(left, failed)
                return
            self.here.tally.transaction_retried()
            time.sleep(RETRY_AFTER_S)
            failed = self._begin()
            outcome = self._carry(failed, [left], abort=False)
            self._note(failed, outcome)
            if outcome is not TransactionOutcome.ABORTED:
                return

    def _give_up(self, records: list[Record], failed: Transaction) -> None:
        for record in records:
            self.here.tally.sent(record.topic)
            self.here.tally.failed([record.topic])
            self._failed(DeliveryReport(record, failed.began_us, now_us(), error="TRANSACTION_GIVEN_UP"), failed.number)

    def _begin(self) -> Transaction:
        if self._client.is_dead or self._client.is_outdated:
            self._replace_client()
        return Transaction(self.here.next_transaction())

    def _carry(self, transaction: Transaction, batches: Iterable[list[Record]], *, abort: bool) -> TransactionOutcome:
        """Open, fill and end one transaction; whatever the producer says, an outcome comes out."""
        committing = False
        try:
            self._client.producer.begin_transaction()
            for batch in batches:
                self._send(transaction, batch)
            whole = transaction.wait_for_answers(lambda: self.here.topics.counts)
            transaction.ending_us = now_us()
            if abort or not whole:
                return self._abort()
            committing = True
            return self._commit()
        except KafkaException as error:
            self.here.tally.error(error.args[0].name())
            self._replace_client()
            return TransactionOutcome.UNKNOWN if committing else TransactionOutcome.ABORTED
        except UnansweredError:  # an abort would wait for that record too; the next client's first call aborts it
            self.here.tally.error(UNANSWERED)
            self._replace_client()
            return TransactionOutcome.ABORTED

    def _send(self, transaction: Transaction, batch: list[Record]) -> None:
        def answered(answer: DeliveryReport) -> None:
            if answer.error:
                self._failed(answer, transaction.number)
                if answer.refused:
                    self.here.tally.failed([answer.record.topic], refused=True)
            else:
                self._acknowledged(answer, transaction.number)
            transaction.answered(answer)

        for record in batch:
            transaction.records.append(record)
            self.here.tally.sent(record.topic)
            self._client.send(record, answered)

    def _commit(self) -> TransactionOutcome:
        """Raises KafkaException when nobody can say how it ended."""
        while (error := self._ask(self._client.producer.commit_transaction)) is not None:
            if error.txn_requires_abort():
                return self._abort()
        return TransactionOutcome.COMMITTED

    def _abort(self) -> TransactionOutcome:
        while self._ask(self._client.producer.abort_transaction) is not None:
            pass
        return TransactionOutcome.ABORTED

    def _ask(self, question: Callable[[], None]) -> KafkaError | None:
        """None when it was answered, else an error after which the transaction can still be ended."""
        try:
            question()
        except KafkaException as error:
            reason: KafkaError = error.args[0]
            self.here.tally.error(reason.name())
            if reason.fatal() or not (reason.retriable() or reason.txn_requires_abort()):
                raise
            time.sleep(RETRY_AFTER_S)
            return reason
        return None

    def _note(self, transaction: Transaction, outcome: TransactionOutcome) -> None:
        self.here.ledger.write(
            TransactionEnded(
                transaction=transaction.number,
                outcome=outcome,
                began_us=transaction.began_us,
                ending_us=transaction.ending_us,
                ended_us=now_us(),
            )
        )
        if outcome is TransactionOutcome.COMMITTED:
            self.here.tally.transaction_committed()
            self.here.tally.counted(transaction.offsets)
        elif outcome is TransactionOutcome.UNKNOWN:
            self.here.tally.transaction_unknown()
            self.here.tally.withdrawn(record.topic for record in transaction.records)

    def _new_client(self) -> ProducerClient:
        """A producer that owns the transactional.id; what an earlier one left open is ended by that."""
        client = ProducerClient(self.name, self.here, transactional_id=f"{self.here.name}-{self.name}")
        while True:
            try:
                client.producer.init_transactions()
            except KafkaException as error:
                self.here.tally.error(error.args[0].name())
                if not error.args[0].retriable():
                    client.close()
                    raise
                time.sleep(RETRY_AFTER_S)
            else:
                return client

    def _replace_client(self) -> None:
        self._client.close()
        self._client = self._new_client()
