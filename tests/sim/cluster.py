"""What the committed log says of a cluster, record by record, and what must hold there whatever is asked at once.

In:   committed batches in log order, whoever shows them first; what leaders proposed; what was acknowledged.
Out:  a `Violation` with the name of the rule that a record, an answer or a voter's image breaks.
Elsewhere: who asks and what the answers promise (requests.py), rules of the quorum itself (invariants.py).
Rules: each is one small class. They look at records, not at the code that made them: partitions and brokers are kept
here as plain values. Only the image that voters are compared with is replayed by the product.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

from msgspec.structs import replace

from migrator.controller.replay import broker_of, changed, partition_of
from migrator.model.image import Image
from migrator.model.values import NO_LEADER, Broker, Partition, Recovery
from migrator.node.log.log_replay import LogReplay
from migrator.wire.batch import read_batch
from migrator.wire.messages.metadata import (
    AbortTransactionRecord,
    AccessControlEntryRecord,
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    EndTransactionRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)
from migrator.wire.records import decode_record
from migrator.wire.schema import Message
from tests.sim.invariants import Violation

Key = tuple[bytes, int]
"""Topic id and partition id."""

LOOSE: Final = "loose"
"""Topics whose names begin so take a leader that is out of sync rather than none; nobody else may."""

NOT_AN_IMAGE: Final = ("position",)


@dataclass(frozen=True)
class Step:
    """One partition before and after one record; before is None where it comes into being."""

    key: Key
    name: str
    offset: int
    before: Partition | None
    after: Partition

    def __str__(self) -> str:
        return f"{self.name}-{self.key[1]} at offset {self.offset}: {_short(self.before)} became {_short(self.after)}"


def _short(partition: Partition | None) -> str:
    if partition is None:
        return "nothing"
    moving = (
        f" adding {partition.adding} removing {partition.removing}" if partition.adding or partition.removing else ""
    )
    return (
        f"leader {partition.leader} isr {partition.isr} of {partition.replicas}{moving} "
        f"(epochs {partition.leader_epoch}, {partition.partition_epoch})"
    )


def _starts_over(step: Step) -> bool:
    """A move of a loose topic was taken back though nobody who stays is in sync: one of those who stay is made so."""
    before, after = step.before, step.after
    if before is None or not step.name.startswith(LOOSE) or before.replicas == after.replicas:
        return False
    return not set(before.isr) & set(after.isr)


# --- of one partition, at each record -----------------------------------------------------------------------


class LeaderInSync:
    rule = "safety: a leader outside of its ISR"

    def check(self, log: ClusterLog, step: Step) -> None:
        if step.after.leader not in (NO_LEADER, *step.after.isr):
            raise Violation(self.rule, str(step))


class CleanElection:
    rule = "safety: a leader that was not in sync before"

    def check(self, log: ClusterLog, step: Step) -> None:
        if step.before is None or step.after.leader in (NO_LEADER, step.before.leader, *step.before.isr):
            return
        if step.after.leader in log.proposed(step.key, step.before):
            return  # the end of a move: its leader said that it is in sync, and goes
        if _starts_over(step):
            return
        if not step.name.startswith(LOOSE) or step.after.recovery != Recovery.RECOVERING:
            raise Violation(self.rule, str(step))


class InSyncAreReplicas:
    rule = "safety: an ISR with somebody who has no replica"

    def check(self, log: ClusterLog, step: Step) -> None:
        isr = step.after.isr
        if not isr or len(set(isr)) != len(isr) or not set(isr) <= set(step.after.replicas):
            raise Violation(self.rule, str(step))


class NotReplaced:
    rule = "safety: a partition that exists is made again"

    def check(self, log: ClusterLog, step: Step, record: Message) -> None:
        if isinstance(record, PartitionRecord) and step.before is not None:
            raise Violation(self.rule, str(step))


class NewcomersAreActive:
    """Who joins an ISR, or begins to lead, is registered, not fenced and not on its way out at that offset."""

    rule = "safety: a broker that is fenced or unknown joins an ISR or leads"

    def check(self, log: ClusterLog, step: Step) -> None:
        before = () if step.before is None else (*step.before.isr, step.before.leader)
        joining = {*step.after.isr, step.after.leader} - {*before, NO_LEADER}
        if step.before is not None and step.after.leader != step.before.leader:
            joining |= {step.after.leader} - {NO_LEADER}
        if _starts_over(step):
            joining &= {step.after.leader}
        unable = [each for each in sorted(joining) if (known := log.brokers.get(each)) is None or not known.active]
        if unable:
            raise Violation(self.rule, f"{unable}: {step}")


class EpochsGrow:
    rule = "safety: an epoch of a partition did not grow"

    def check(self, log: ClusterLog, step: Step) -> None:
        before, after = step.before, step.after
        if before is None:
            return
        if after.partition_epoch != before.partition_epoch + 1 or after.leader_epoch < before.leader_epoch:
            raise Violation(self.rule, str(step))
        if after.leader != before.leader and after.leader_epoch == before.leader_epoch:
            raise Violation(self.rule, str(step))


class JoinsByItsLeader:
    """An ISR grows by a proposal that its leader made for exactly that state, or by an unclean election."""

    rule = "safety: a replica joins an ISR that no leader proposed for that state"

    def check(self, log: ClusterLog, step: Step) -> None:
        if step.before is None or _starts_over(step):
            return
        joined = set(step.after.isr) - set(step.before.isr)
        if step.name.startswith(LOOSE) and step.after.recovery == Recovery.RECOVERING:
            joined.discard(step.after.leader)
        if not joined <= log.proposed(step.key, step.before):
            raise Violation(self.rule, str(step))


class LeftMeansLeft:
    """What an AlterPartition was answered holds: who left the ISR leads again only after it has joined it again."""

    rule = "safety: a replica leads that had left the ISR, as its leader was told"

    def __init__(self) -> None:
        self._may_lead: dict[Key, set[int]] = {}

    def acknowledged(self, log: ClusterLog, key: Key, isr: tuple[int, ...], partition_epoch: int) -> None:
        """Also of states that were committed before the answer came."""
        self._may_lead[key] = set(isr)
        states = [state for _, state in log.histories.get(key, ()) if state.partition_epoch >= partition_epoch]
        for before, after in pairwise(states):
            self._follow(log, key, before, after)

    def check(self, log: ClusterLog, step: Step) -> None:
        if step.key in self._may_lead and step.before is not None:
            self._follow(log, step.key, step.before, step.after)

    def _follow(self, log: ClusterLog, key: Key, before: Partition, after: Partition) -> None:
        may_lead = (self._may_lead[key] | log.proposed(key, before)) & set(after.isr)
        if log.names[key[0]].startswith(LOOSE):
            may_lead.add(after.leader)
        if after.leader not in (NO_LEADER, *may_lead):
            story = f"{log.names[key[0]]}-{key[1]}: {_short(after)}; {sorted(may_lead)} may lead"
            raise Violation(self.rule, story)
        self._may_lead[key] = may_lead


# --- of brokers ---------------------------------------------------------------------------------------------


class GoneLeadNothing:
    """Whoever is fenced, forgotten or begins a new life leads nothing from then on, and is in sync nowhere."""

    rule = "safety: a broker is fenced and leads on, or stays in an ISR with others"

    def check(self, log: ClusterLog, broker: int, offset: int) -> None:
        for key, partition in log.partitions.items():
            if partition.leader == broker or (broker in partition.isr and len(partition.isr) > 1):
                story = f"broker {broker} at offset {offset}, {log.names[key[0]]}-{key[1]}: {_short(partition)}"
                raise Violation(self.rule, story)


class EpochIsItsOffset:
    rule = "safety: a broker's epoch is not the offset of its registration"

    def check(self, record: RegisterBrokerRecord, known: Broker | None, offset: int) -> None:
        again = known is not None and known.incarnation == record.incarnation_id
        expected = known.epoch if again and known is not None else offset
        if record.broker_epoch != expected:
            story = f"broker {record.broker_id} has {record.broker_epoch}, registered at offset {offset}"
            raise Violation(self.rule, story)


# --- of voters ----------------------------------------------------------------------------------------------


class SameImage:
    rule = "safety: two voters have different images of one offset"

    def check(self, log: ClusterLog, voter: int, end: int, image: Image) -> None:
        expected = log.images.get(end)
        if expected is None:
            return
        for name in image.__struct_fields__:
            seen, known = getattr(image, name), getattr(expected, name)
            if name not in NOT_AN_IMAGE and seen is not known and seen != known:
                raise Violation(self.rule, f"voter {voter} before offset {end}: {name}: {seen}, the log: {known}")


@dataclass
class ClusterLog:
    """The committed history, and every rule about it.

    end: of what is committed. histories: the states of each partition, each with the offset of its record.
    """

    end: int = 0
    brokers: dict[int, Broker] = field(default_factory=dict)
    partitions: dict[Key, Partition] = field(default_factory=dict)
    names: dict[bytes, str] = field(default_factory=dict)
    histories: dict[Key, list[tuple[int, Partition]]] = field(default_factory=dict)
    registrations: dict[tuple[int, bytes], set[int]] = field(default_factory=dict)
    """Epochs by broker and incarnation."""
    lives: list[tuple[int, int, bool]] = field(default_factory=list)
    """Offset, broker, whether it is fenced from there on."""
    removed: set[bytes] = field(default_factory=set)
    created: Counter[str] = field(default_factory=Counter)
    """Topics by name, those of the copy left out."""
    grown: Counter[tuple[str, int]] = field(default_factory=Counter)
    settings: set[str] = field(default_factory=set)
    """Every value of a configuration, ever."""
    principals: set[str] = field(default_factory=set)
    """Everybody who was named by an ACL, ever."""
    refused: set[str] = field(default_factory=set)
    """Values and principals of requests that were refused."""
    proposals: dict[tuple[Key, int, int], set[int]] = field(default_factory=dict)
    images: dict[int, Image] = field(default_factory=lambda: {0: LogReplay().image})
    image: Image = field(default_factory=lambda: LogReplay().image)
    left_means_left: LeftMeansLeft = field(default_factory=LeftMeansLeft)
    changes: int = 0

    def __post_init__(self) -> None:
        self._replay = LogReplay()
        self._in_copy = False
        self._transaction: list[tuple[Any, int]] | None = None
        self._gone = GoneLeadNothing()
        self._own_offset = EpochIsItsOffset()
        self._same_image = SameImage()
        self._not_replaced = NotReplaced()
        self._rules = (
            LeaderInSync(), InSyncAreReplicas(), EpochsGrow(), CleanElection(), NewcomersAreActive(),
            JoinsByItsLeader(), self.left_means_left,
        )  # fmt: skip

    # --- what is told ---------------------------------------------------------------------------------------

    def committed(self, data: bytes) -> None:
        """The next batch."""
        batch = read_batch(data)
        assert batch.base_offset == self.end, (batch.base_offset, self.end)
        for index, value in enumerate(batch.values):
            self._apply(decode_record(value), batch.base_offset + index)
        self._replay.apply(data)
        self.end = batch.last_offset + 1
        if not self._replay.transaction_open:
            self.image = self.images[self.end] = self._replay.image

    def proposes(self, key: Key, leader_epoch: int, partition_epoch: int, isr: tuple[int, ...]) -> None:
        self.proposals.setdefault((key, leader_epoch, partition_epoch), set()).update(isr)

    def proposed(self, key: Key, state: Partition) -> set[int]:
        return self.proposals.get((key, state.leader_epoch, state.partition_epoch), set())

    def shown(self, voter: int, end: int, image: Image) -> None:
        """A voter has applied everything before `end`, and this is what it sees."""
        self._same_image.check(self, voter, end, image)

    def states_since(self, key: Key, end: int) -> list[Partition]:
        """The state that a partition had when the log ended there, and all later ones."""
        history = self.histories.get(key, [])
        later = [index for index, (offset, _) in enumerate(history) if offset >= end]
        first = later[0] if later else len(history)
        return [state for _, state in history[max(0, first - 1) :]]

    def keys_of(self, name: str, partition: int) -> list[Key]:
        """Of every topic that has had this name."""
        return [(topic_id, partition) for topic_id, known in self.names.items() if known == name]

    # --- records --------------------------------------------------------------------------------------------

    def _apply(self, record: Any, offset: int) -> None:
        self.changes += 1
        match record:
            case BeginTransactionRecord():
                self._transaction = []
            case AbortTransactionRecord():
                self._transaction = None
            case EndTransactionRecord():
                self._in_copy, waiting, self._transaction = True, self._transaction or [], None
                for each, at in waiting:
                    self._apply(each, at)
                self._in_copy = False
            case _ if self._transaction is not None:
                self._transaction.append((record, offset))
            case TopicRecord():
                self.names[record.topic_id] = record.name
                self.created[record.name] += not self._in_copy
            case RemoveTopicRecord():
                self.removed.add(record.topic_id)
                for key in [key for key in self.partitions if key[0] == record.topic_id]:
                    del self.partitions[key]
            case PartitionRecord():
                self.grown[self.names[record.topic_id], record.partition_id] += 1
                self._changed((record.topic_id, record.partition_id), partition_of(record), record, offset)
            case PartitionChangeRecord():
                key = (record.topic_id, record.partition_id)
                self._changed(key, changed(self.partitions[key], record), record, offset)
            case RegisterBrokerRecord() | BrokerRegistrationChangeRecord() | UnregisterBrokerRecord():
                self._broker(record, offset)
            case ConfigRecord():
                self._said(self.settings, record.value or "", offset)
            case AccessControlEntryRecord():
                self._said(self.principals, record.principal, offset)

    def _changed(self, key: Key, after: Partition, record: Message, offset: int) -> None:
        step = Step(key, self.names[key[0]], offset, self.partitions.get(key), after)
        self._not_replaced.check(self, step, record)
        if not self._in_copy:
            for rule in self._rules:
                rule.check(self, step)
        self.partitions[key] = after
        self.histories.setdefault(key, []).append((offset, after))

    def _broker(self, record: Any, offset: int) -> None:
        before = self.brokers.get(record.broker_id)
        after: Broker | None = None
        match record:
            case RegisterBrokerRecord():
                self._own_offset.check(record, before, offset)
                after = broker_of(record)
                self.registrations.setdefault((after.id, after.incarnation), set()).add(after.epoch)
            case BrokerRegistrationChangeRecord():
                assert before is not None, f"a change of broker {record.broker_id}, which is not registered"
                fenced = before.fenced if record.fenced == 0 else record.fenced > 0
                leaving = before.in_controlled_shutdown or record.in_controlled_shutdown > 0
                after = replace(before, fenced=fenced, in_controlled_shutdown=leaving)
        was_in, is_in = before is not None and not before.fenced, after is not None and not after.fenced
        if was_in and not is_in:
            self._gone.check(self, record.broker_id, offset)
        self.lives.append((offset, record.broker_id, not is_in))
        if after is None:
            del self.brokers[record.broker_id]
        else:
            self.brokers[record.broker_id] = after

    def _said(self, where: set[str], what: str, offset: int) -> None:
        where.add(what)
        self.check_refused(what, offset)

    def check_refused(self, what: str, offset: int) -> None:
        if what in self.refused:
            raise Violation("safety: what was refused is in the log", f"{what} at offset {offset}")
