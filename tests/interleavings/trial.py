"""One trial: a few operations at the same moment, then the question which serial order explains what came of it.

In:   a seed. Out: what was wrong, or nothing.
Elsewhere: the operations (operations.py), the loop (seeded_loop.py).
Rules: the log has to be that of one serial order of the operations that were carried out, record for record, and each
answer that of its place in this order. The serial twin is the core alone: one decision after the other, each from what
the one before left. An operation that is answered NOT_CONTROLLER was not carried out, except where the leadership was
lost: then a beginning of it may be in the log. Nothing is decided after writes were closed.
One more answer is allowed: a heartbeat that comes while somebody decides is heard, and told how its broker stands.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import permutations, product
from random import Random
from typing import Any, Final
from unittest.mock import patch

import msgspec

from migrator.controller.authorizer import AuthorizerRules
from migrator.controller.brokers import heartbeat_without_change
from migrator.controller.contacts import Contacts
from migrator.controller.decision import Record, Situation
from migrator.controller.replay import replay
from migrator.controller.requests import decide, says_not_controller
from migrator.findings.finding import Occurrence
from migrator.model.draft import Draft
from migrator.model.image import Image, Position
from migrator.node.leader.active_controller import ActiveController, CommitListeners
from migrator.node.leader.pending_appends import LeadershipLost
from migrator.node.log.log_replay import LogReplay, ReadAhead
from migrator.node.quorum.metrics import Metrics
from migrator.raft.types import Payload
from migrator.wire.batch import read_batch
from migrator.wire.messages.brokers import BrokerHeartbeatRequest
from migrator.wire.records import decode_record
from migrator.wire.schema import Message
from tests.interleavings.operations import FEW, KINDS, LONG, Operation, an_operation
from tests.interleavings.seeded_loop import SeededLoop
from tests.support.builders import a_broker, a_partition, a_topic, an_id, an_image
from tests.support.situations import the_settings

EPOCH: Final = 5
NOW_MS: Final = 100_000
SETTINGS: Final = the_settings(authorizer=AuthorizerRules(frozenset({"User:a"})), migration_enabled=True)
PAIRS: Final = tuple(product(KINDS, KINDS))
STEPS_MAX: Final = 5_000
NEVER: Final = 1 << 30
NAMED: Final = ("dir-", "run-", "another run of ")
UNTROUBLED, CLOSED, LOST = "nothing else", "writes are closed", "the leadership is lost"


class ViolationError(Exception):
    """No serial order explains what came of a trial."""


@dataclass
class Logs:
    """A quorum of one: takes what is appended; it is committed when the trial says so."""

    end: int
    records: list[Message] = field(default_factory=list)
    metrics: Metrics = field(default_factory=Metrics)

    def __post_init__(self) -> None:
        self.voter: Any = self
        self.log: Any = self
        self.generation = 0

    def now_ms(self) -> int:
        return NOW_MS

    def wall_ms(self) -> int:
        return 0

    def leads(self, epoch: int) -> bool:
        return True

    def applied(self, end: int, size: int) -> None: ...

    def fail(self, error: BaseException) -> None:
        raise error

    def append(self, epoch: int, payloads: list[Payload]) -> int:
        for payload in payloads:
            self.records += [decode_record(value) for value in read_batch(payload.batch).values]
            self.end += payload.count
        return self.end - 1


@dataclass
class Gate:
    """A gatekeeper that can be closed; to look into broker configurations takes a step."""

    writes: bool = True

    def writes_allowed(self, image: Image) -> bool:
        return self.writes

    def brokers_served(self) -> bool:
        return False

    def blocked(self) -> str | None:
        return None

    async def unmirrored(self, request: Message, image: Image) -> Mapping[str, Occurrence]:
        await asyncio.sleep(0)
        return {}


METRICS: Final = Metrics()


@dataclass(frozen=True, slots=True)
class Plan:
    """What a seed says. silent: the broker whose session is over."""

    seed: int
    image: Image
    operations: tuple[Operation, ...]
    trouble: str
    silent: int

    @property
    def title(self) -> str:
        return f"{' | '.join(each.kind for each in self.operations)}; {self.trouble}"


def plan(seed: int) -> Plan:
    """Two operations, each ordered pair of kinds in turn; every fourth seed adds a third one."""
    chance = Random(seed)
    image = _an_image(chance)
    kinds = list(PAIRS[seed % len(PAIRS)])
    if seed % 4 == 3:
        kinds.append(chance.choice(KINDS))
    trouble = chance.choices((UNTROUBLED, CLOSED, LOST), (6, 1, 1))[0]
    operations = tuple(an_operation(kind, image, chance) for kind in kinds)
    return Plan(seed, image, operations, trouble, chance.choice((0, 1, 2, 3)))


def _an_image(chance: Random) -> Image:
    """Brokers 1 to 3 are active and 4 is fenced; partitions are led and in sync as chance says."""
    brokers = [a_broker(each, fenced=each == 4, migrating=False) for each in (1, 2, 3, 4)]
    orders = [_a_partition(number, chance) for number in range(8)]
    bills = [_a_partition(number, chance) for number in range(2)]
    return an_image(
        a_topic("orders", orders),
        a_topic("bills", bills),
        brokers=brokers,
        topic_configs={"orders": {"unclean.leader.election.enable": "true"}} if chance.random() < 0.5 else None,
    )


def _a_partition(number: int, chance: Random) -> Any:
    replicas = chance.sample((1, 2, 3, 4), 3)
    if 4 in replicas and chance.random() < 0.2:
        return a_partition(number, replicas, isr=(4,), leader=-1, partition_epoch=3, leader_epoch=2)
    active = [each for each in replicas if each != 4]
    isr = chance.sample(active, chance.randint(1, len(active)))
    in_order = [each for each in replicas if each in isr]
    return a_partition(
        number, replicas, isr=in_order, leader=chance.choice(in_order), partition_epoch=3, leader_epoch=2
    )


# --- what came of it ----------------------------------------------------------------------------------------


@dataclass
class Outcome:
    """answers: None for an operation that was not carried out, as far as it says; duties have no answer.

    records: of the log, those that are committed at the end. closed_at: how many there were when writes were closed.
    """

    answers: list[Any]
    records: list[Any]
    lost: bool
    closed_at: int
    steps: int


def run(trial: Plan) -> Outcome:
    """The operations on the real controller, all of them at once."""
    chance = Random(trial.seed)
    loop = SeededLoop(chance)
    with (
        patch("migrator.node.leader.active_controller.SLICE_RECORDS", FEW),
        patch("migrator.controller.partitions.mass.SLICE_RECORDS", FEW),
        patch("migrator.controller.partitions.mass.CONFIG_CHARACTERS", LONG // 2),
        patch("migrator.controller.partitions.mass.ACLS_LOOKED_AT", 2),
        patch("migrator.node.leader.active_controller.short_turns", _nothing),
    ):
        try:
            return loop.run_until_complete(_run(trial, chance, loop))
        finally:
            loop.close()


class _nothing:
    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


async def _run(trial: Plan, chance: Random, loop: SeededLoop) -> Outcome:
    raft, gate = Logs(trial.image.position.offset + 1, metrics=METRICS), Gate()
    begins = raft.end
    controller = _a_controller(raft, gate, trial)
    tasks = [asyncio.ensure_future(_carried_out(controller, each)) for each in trial.operations]
    strikes_at = chance.randint(1, 40) if trial.trouble != UNTROUBLED else 0
    committed = begins
    lost, closed_at = False, NEVER
    while not all(each.done() for each in tasks):
        assert loop.steps < STEPS_MAX, "the trial does not end"
        if strikes_at and loop.steps >= strikes_at:
            strikes_at = 0
            if trial.trouble == CLOSED:
                gate.writes, closed_at = False, raft.end - begins
            else:
                lost = True
                controller.stop_leading(EPOCH)
                break
        if raft.end > committed and chance.random() < 0.3:
            committed = chance.randint(committed + 1, raft.end)
            controller.committed(committed)
        await asyncio.sleep(0)
    while not all(each.done() for each in tasks):
        await asyncio.sleep(0)
    if not lost:
        controller.committed(raft.end)
        while controller.image is not controller.newest:
            await asyncio.sleep(0)
        committed = raft.end
    await asyncio.sleep(0)
    records = _plain(raft.records[: committed - begins])
    return Outcome([each.result() for each in tasks], records, lost, closed_at, loop.steps)


def _a_controller(raft: Logs, gate: Gate, trial: Plan) -> ActiveController:
    controller = ActiveController(
        raft,  # type: ignore[arg-type]
        SETTINGS,
        ReadAhead(LogReplay(), 0, snapshot=trial.image, begins_at=raft.end),
        [],
        chance=Random(1),
        gatekeeper=gate,
        commit_listeners=CommitListeners(),
        on_lead=lambda epoch: None,
        on_refused=lambda error: None,
        on_retired=lambda text: None,
    )
    controller.epoch = EPOCH
    controller._catch_up = lambda: None  # type: ignore[method-assign]  # there is no file to read
    _begin_sessions(controller.contacts, trial)
    return controller


def _begin_sessions(contacts: Contacts, trial: Plan) -> None:
    contacts.clear(trial.image.brokers, NOW_MS)
    if trial.silent:
        contacts.clear({trial.silent: None}, NOW_MS - 2 * SETTINGS.session_timeout_ms)
        silent = contacts.kept(trial.silent) if hasattr(contacts, "kept") else contacts.get(trial.silent)
        contacts.clear(trial.image.brokers, NOW_MS)
        contacts._contacts[trial.silent] = silent  # type: ignore[assignment]


async def _carried_out(controller: ActiveController, operation: Operation) -> Any:
    if operation.request is not None:
        reply = await controller.submit(operation.request, operation.version)
        return None if says_not_controller(reply) else _plain(reply)
    assert operation.duty is not None
    try:
        if operation.kind == "duty: heal":
            await controller.heal()
        else:
            await controller.append_unasked(operation.duty)
    except LeadershipLost:
        pass
    return DUTY


DUTY: Final = "a duty"


def _plain(value: Any) -> Any:
    """Comparable, without ids that each side draws for itself."""
    if isinstance(value, msgspec.Struct):
        fields = [(name, _plain(getattr(value, name))) for name in value.__struct_fields__]
        return (type(value).__name__, *fields)
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, bytes) and len(value) == len(DRAWN) and value not in GIVEN:
        return DRAWN
    return value


DRAWN: Final = b"drawn by a side."
GIVEN: Final = frozenset(
    map(an_id, ("orders", "bills", "controller", *(f"{what}{each}" for what in NAMED for each in range(10))))
)
"""Ids that the operations name."""


# --- the serial twin ----------------------------------------------------------------------------------------


@dataclass
class Serial:
    """One decision after the other, each from what the one before left."""

    trial: Plan

    def __post_init__(self) -> None:
        self.image = self.trial.image
        self.contacts = Contacts()
        self.chance = Random(1)
        self.records: list[Any] = []
        _begin_sessions(self.contacts, self.trial)

    def carry_out(self, operation: Operation, heard: int = 0) -> Any:
        """The answer. heard: 1: a heartbeat that is only heard; 2: while its broker's silence is decided on."""
        situation = self._situation()
        if operation.request is None:
            assert operation.duty is not None
            self._append(operation.duty(situation))
            return DUTY
        if heard:
            assert isinstance(operation.request, BrokerHeartbeatRequest)
            contact = self.contacts.get(operation.request.broker_id)
            last_ms = None if contact is None else contact.last_ms
            reply = heartbeat_without_change(situation, operation.request).reply
            if heard == 2 and contact is not None and last_ms is not None:
                contact.last_ms = last_ms
            return _plain(reply)
        decision = decide(situation, operation.request, operation.version, writes_allowed=True)
        self._append(decision.records)
        return _plain(decision.reply)

    def _situation(self) -> Situation:
        return Situation(
            image=self.image,
            contacts=self.contacts,
            settings=SETTINGS,
            next_offset=self.image.position.offset + 1,
            now_ms=NOW_MS,
            chance=self.chance,
        )

    def _append(self, records: Iterable[Record]) -> None:
        draft, count = Draft(self.image), 0
        for record, _ in records:
            replay(draft, record)
            self.records.append(_plain(record))
            count += 1
        if count:
            self.image = draft.finish(Position(EPOCH, self.image.position.offset + count)).after


NOT_CLOSED: Final = frozenset({"duty: heal", "register controller"})
"""The driver orders the one, and asks for it in other states; the other is answered always."""


def explained(trial: Plan, outcome: Outcome) -> bool:
    """Whether a serial order has the same log and answers."""
    return any(
        _fits(trial, outcome, order, heard) for order in _orders(trial, outcome) for heard in _ways(trial, order)
    )


def _orders(trial: Plan, outcome: Outcome) -> Iterator[tuple[int, ...]]:
    """Of those that were carried out; without leadership, of any others as well, whose answers nobody knows.

    A duty that found nothing to do, or was not allowed any more, changes nothing: each may be left out.
    """
    answered = [number for number, answer in enumerate(outcome.answers) if answer not in (None, DUTY)]
    unknown = [
        number for number, answer in enumerate(outcome.answers) if answer == DUTY or (answer is None and outcome.lost)
    ]
    for wanted in product((True, False), repeat=len(unknown)):
        if not all(wanted) and trial.trouble == UNTROUBLED and not _may_be_skipped(trial, unknown, wanted):
            continue
        chosen = [*answered, *(number for number, take in zip(unknown, wanted, strict=True) if take)]
        yield from permutations(sorted(chosen))


def _may_be_skipped(trial: Plan, unknown: list[int], wanted: tuple[bool, ...]) -> bool:
    """Unasked duties are left out while somebody pauses them; healing is not."""
    return all(
        take or trial.operations[number].kind != "duty: heal" for number, take in zip(unknown, wanted, strict=True)
    )


def _ways(trial: Plan, order: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """How heartbeats may have been answered (`Serial.carry_out`); all of them decided on first."""
    beats = [isinstance(trial.operations[number].request, BrokerHeartbeatRequest) for number in order]
    yield from sorted(product(*((0, 1, 2) if each else (0,) for each in beats)), key=sum)


def _fits(trial: Plan, outcome: Outcome, order: tuple[int, ...], heard: tuple[int, ...]) -> bool:
    serial, known = Serial(trial), 0
    for number, how in zip(order, heard, strict=True):
        operation, begun = trial.operations[number], len(serial.records)
        answer = serial.carry_out(operation, how)
        if begun >= outcome.closed_at and len(serial.records) > begun and operation.kind not in NOT_CLOSED:
            return False  # decided after writes were closed
        if outcome.answers[number] not in (None, DUTY):
            if answer != outcome.answers[number]:
                return False
            known = len(serial.records)
    if outcome.lost:
        have = outcome.records
        return len(have) >= known and serial.records[: len(have)] == have
    return serial.records == outcome.records


def judge(seed: int) -> Plan:
    """Raises ViolationError with what came of it."""
    trial = plan(seed)
    outcome = run(trial)
    if not explained(trial, outcome):
        raise ViolationError(_report(trial, outcome))
    return trial


def _report(trial: Plan, outcome: Outcome) -> str:
    lines = [f"INTERLEAVING FAILED  no serial order explains it   seed {trial.seed}   step {outcome.steps}"]
    lines.append(f"  {trial.title}")
    lines += [f"  {each.kind}: {answer}" for each, answer in zip(trial.operations, outcome.answers, strict=True)]
    lines += [f"  record: {each}" for each in outcome.records]
    lines.append(f"  replay   python -m tests.interleavings --first {trial.seed} --count 1")
    return "\n".join(lines)
