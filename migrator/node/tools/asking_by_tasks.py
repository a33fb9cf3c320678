"""Ask brokers in tasks of Spark, and compare each where it was asked: the driver holds what the report carries.

In:   who runs tasks, how they speak to brokers, and in each look the log's facts and whom to ask.
Out:  of each broker what is told of it (`ToldByBroker`), or why there is no answer.
Elsewhere: when a look follows (third_side.py), what is asked (node/brokers/what_they_say.py), the login
(node/brokers/sent_access.py), the tasks (audit/spark/kept_tasks.py).
Rules: as many tasks as run at once, `TASKS_AT_ONCE` at most, and no more than brokers. A task asks its brokers one
after the other, so that it has one answer in memory, each for `BROKER_S` at most. What a broker said otherwise stays
with its task until the next look: of a broker that differs in everything, that is a row for each of its keys. This
process asks who is alive, and the quorum's leader who lags.
"""

from __future__ import annotations

import asyncio
import pickle
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Final

from migrator.audit.brokers.compare import ComparedBroker, compare_broker
from migrator.audit.brokers.lagging import ReadUpTo, judge_lag
from migrator.audit.brokers.settling import may_settle, settled
from migrator.audit.brokers.tasks import SLOT, TOLD, KeepsRows, KeptRow, RunsTasks
from migrator.audit.brokers.told import ToldByBroker, tell
from migrator.audit.compare import Difference
from migrator.audit.fingerprints import SecretFingerprints
from migrator.audit.log_states import LogStates
from migrator.audit.normalise import LogFacts
from migrator.node.brokers.sent_access import BrokerAccess, MakeAccess
from migrator.node.brokers.what_they_say import Addresses, read_broker, reason_of, whom_to_ask
from migrator.node.transport.client_security import ClientSecurity

TASKS_AT_ONCE: Final = 16
"""Each has the log's facts in memory and one connection to a broker: 16 of them read 200,000 partitions of 60 brokers
in four turns."""

BROKER_S: Final = 120.0
"""For one broker: an answer about 1,000,000 partitions takes some 10 s of a processor."""

PER_ROW: Final = 5_000
"""Differences."""

_OF_STATE: Final = 1
"""`nth` of the first row that stays with the task."""


@dataclass(frozen=True, slots=True)
class LookedAt:
    """What the driver hears of a broker. told: None: there is no answer, and then why (`problem`).

    differs: it may settle in another look. kraft: it is in KRaft mode.
    """

    broker: int
    told: ToldByBroker | None
    problem: str = ""
    differs: bool = False
    kraft: bool = False


@dataclass(frozen=True, slots=True)
class _Judging:
    """What every step needs to say who stands alone. key_hex: of the fingerprints of all looks."""

    two_sides: Sequence[Difference]
    key_hex: str = field(repr=False)

    @property
    def fingerprints(self) -> SecretFingerprints:
        return SecretFingerprints.from_hex(self.key_hex)

    def rows(self, found: ComparedBroker) -> Iterator[KeptRow]:
        """What is told of a broker, and, where it differs, all that the next look needs."""
        differs = may_settle(found)
        looked_at = LookedAt(found.broker, tell(found, self.two_sides), differs=differs, kraft=found.kraft)
        yield KeptRow(found.broker, TOLD, pickle.dumps(looked_at))
        if differs:
            yield from _state_rows(found)


def _state_rows(found: ComparedBroker) -> Iterator[KeptRow]:
    differences = found.differences
    parts = [differences[at : at + PER_ROW] for at in range(0, len(differences), PER_ROW)]
    for nth, each in enumerate([replace(found, differences=[]), *parts], _OF_STATE):
        yield KeptRow(found.broker, nth, pickle.dumps(each))


def _state_in(rows: Iterable[KeptRow]) -> ComparedBroker | None:
    """What `_state_rows` made; None of a broker that did not differ."""
    parts = [pickle.loads(each.data) for each in rows if each.nth >= _OF_STATE]
    if not parts:
        return None
    found: ComparedBroker = parts[0]
    for each in parts[1:]:
        found.differences += each
    return found


@dataclass(frozen=True, slots=True)
class FirstLook:
    """Step: each task asks the brokers of its slot. slots: their ids, by the number of the task."""

    judging: _Judging
    questions: Questions
    slots: Sequence[Sequence[int]]

    def __call__(self, rows: Iterator[KeptRow]) -> Iterator[KeptRow]:
        for row in rows:
            assert row.nth == SLOT, row
            for broker, found in self.questions.answers(self.slots[row.owner]):
                if isinstance(found, str):
                    yield _silent(broker, found)
                else:
                    yield from self.judging.rows(found)


@dataclass(frozen=True, slots=True)
class LaterLook:
    """Step: those that differed are asked again; what is known of the others stays as it is."""

    judging: _Judging
    questions: Questions

    def __call__(self, rows: Iterator[KeptRow]) -> Iterator[KeptRow]:
        asking = self.questions.begin()
        for broker, some in groupby(rows, lambda each: each.owner):
            if broker not in self.questions.addresses:
                yield from some
                continue
            before = _state_in(some)
            assert before is not None, f"broker {broker} is asked again, and did not differ"
            found = asking(broker)
            if isinstance(found, str):
                yield _silent(broker, found)
            else:
                yield from self.judging.rows(settled(before, found))


@dataclass(frozen=True, slots=True)
class LagStep:
    """Step: of those that the leader knows, what they say otherwise is lag or is not. states: of the log, packed."""

    judging: _Judging
    read: dict[int, ReadUpTo]
    states: bytes = field(repr=False)

    def __call__(self, rows: Iterator[KeptRow]) -> Iterator[KeptRow]:
        states: LogStates | None = None
        for broker, some in groupby(rows, lambda each: each.owner):
            if broker not in self.read:
                yield from some
                continue
            found = _state_in(some)
            assert found is not None, f"broker {broker} does not differ"
            states = pickle.loads(self.states) if states is None else states
            judge_lag(found, self.read[broker], states, self.judging.fingerprints)
            yield from self.judging.rows(found)


def _silent(broker: int, problem: str) -> KeptRow:
    return KeptRow(broker, TOLD, pickle.dumps(LookedAt(broker, None, problem)))


@dataclass(frozen=True, slots=True)
class Questions:
    """Asks the brokers of a look, in a task. facts: of the log, packed. limit_s: until the last answer of the task."""

    addresses: Addresses
    access: BrokerAccess
    key_hex: str = field(repr=False)
    facts: bytes = field(repr=False)
    limit_s: float

    def answers(self, brokers: Sequence[int]) -> Iterator[tuple[int, ComparedBroker | str]]:
        asking = self.begin()
        for broker in brokers:
            yield broker, asking(broker)

    def begin(self) -> Callable[[int], ComparedBroker | str]:
        """Return what asks a broker, and compares it; a text says why it was not read."""
        ends = time.monotonic() + self.limit_s
        security: ClientSecurity | None = None
        facts: LogFacts | None = None
        fingerprints = SecretFingerprints.from_hex(self.key_hex)

        def ask(broker: int) -> ComparedBroker | str:
            nonlocal security, facts
            facts = pickle.loads(self.facts) if facts is None else facts
            limit_s = min(BROKER_S, ends - time.monotonic())
            try:
                security = self.access.here() if security is None else security
            except Exception as error:  # a file that is gone, or that this host cannot read
                return reason_of(error)
            reading = asyncio.run(read_broker(broker, self.addresses[broker], facts, security, limit_s))
            return reading if isinstance(reading, str) else compare_broker(reading, facts, fingerprints)

        return ask


class AsksByTasks:
    """Asks in tasks, look by look, as `AsksHere` does in this process."""

    def __init__(
        self, runner: RunsTasks, access: MakeAccess, security: ClientSecurity, two_sides: Sequence[Difference]
    ) -> None:
        """access: of the tasks. security: of this process, which asks who is alive."""
        self._runner = runner
        self._access = access
        self._security = security
        self._judging = _Judging(two_sides, SecretFingerprints().key_hex)
        self._tasks: KeepsRows | None = None
        self._found: dict[int, LookedAt] = {}

    def look(
        self,
        addresses: Sequence[tuple[str, int]],
        facts: LogFacts,
        *,
        only: Iterable[int] | None,
        without: frozenset[int],
        limit_s: float,
    ) -> dict[int, str]:
        """Return by broker id why there is no answer. Raises OSError when no address answers, Z2K-5003."""
        began = time.monotonic()
        asked = asyncio.run(whom_to_ask(addresses, facts, self._security, only=only, without=without))
        silent, alive = dict(asked.silent), asked.alive
        if not alive:
            return silent
        left_s = limit_s - (time.monotonic() - began)
        questions = Questions(alive, self._access(), self._judging.key_hex, pickle.dumps(facts), left_s)
        if self._tasks is None:
            count = max(1, min(len(alive), self._runner.at_once, TASKS_AT_ONCE))
            slots = [sorted(alive)[each::count] for each in range(count)]
            self._tasks = self._runner.keep(count)
            self._take(self._tasks.run(FirstLook(self._judging, questions, slots)))
        else:
            self._take(self._tasks.run(LaterLook(self._judging, questions)))
        return silent | {each.broker: each.problem for each in self._found.values() if each.told is None}

    def differing(self) -> dict[int, bool]:
        return {each.broker: each.kraft for each in self._found.values() if each.differs}

    def judge(self, read: dict[int, ReadUpTo], states: LogStates) -> None:
        assert self._tasks is not None, "somebody differed in a look"
        self._take(self._tasks.run(LagStep(self._judging, read, pickle.dumps(states))))

    def told(self, silent: Iterable[int]) -> list[ToldByBroker]:
        left_out = set(silent)
        found = (each for broker, each in self._found.items() if broker not in left_out)
        return [each.told for each in found if each.told is not None]

    def _take(self, rows: Iterable[KeptRow]) -> None:
        self._found = {row.owner: pickle.loads(row.data) for row in rows}
