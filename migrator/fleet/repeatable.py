"""Which failures of an act on a host say nothing about the node, and how long an act is repeated.

In:   the finding that an act raised, and a clock. Out: when the act is done again, or that a person has to decide.
Elsewhere: the acts (exec_actuator.py), the journal that makes each of them repeatable (roll.py, state_machine/rolling).
Nothing blocks meanwhile: between two attempts the roll looks at the node and decides anew, so that an act whose answer
alone was lost is not repeated, and a person may go back or pause.
Rules: a connection that was lost, bytes that did not arrive whole, a command that could not be started and one that did
not end in time are no answer: the act is repeated until the time of its node is over. A command that ended with an exit
code answered: it is asked `ANSWERS_MAX` times, since a supervisor may have been busy. What waits for a person (a copy,
better evidence) is looked for again every few seconds; how long, the deadline of the node says. Every other finding is
a decision of ours, and stands.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import structlog

from migrator.findings.finding import FindingError
from migrator.findings.fleet import (
    ACT_FAILED,
    ACT_TOO_SLOW,
    COPY_WANTED,
    EVIDENCE_REFUSED,
    HOST_NOT_REACHED,
    TRANSFER_CUT,
)

NO_ANSWER: Final = frozenset({HOST_NOT_REACHED.code, ACT_TOO_SLOW.code, TRANSFER_CUT.code})
BY_A_PERSON: Final = frozenset({COPY_WANTED.code, EVIDENCE_REFUSED.code})
ANSWERS_MAX: Final = 3
FIRST_PAUSE_S: Final = 1.0
PAUSE_MAX_S: Final = 30.0
PERSON_PAUSE_S: Final = 5.0

log = structlog.get_logger()


def gave_no_answer(error: BaseException) -> bool:
    """Whether it is not known what the host would have said."""
    return isinstance(error, FindingError) and error.code in NO_ANSWER


def pause_s(times: int) -> float:
    """Before the next attempt, after so many that failed: 1, 2, 4 ... 30 s."""
    return float(min(FIRST_PAUSE_S * 2 ** min(times - 1, 10), PAUSE_MAX_S))


@dataclass(slots=True)
class Repetition:
    """Of one act on one node. since, again_at: of a clock that only goes on."""

    since: float
    again_at: float
    times: int = 0
    answers: int = 0
    said: str = ""

    def after(self, error: FindingError, now: float, limit_s: float) -> bool:
        """Note an attempt that failed. False: a person decides. limit_s: from the first failure."""
        self.times += 1
        self.said = f"{error.code} {error.occurrence.text}"
        if error.code in BY_A_PERSON:
            self.again_at = now + PERSON_PAUSE_S
            return True
        self.again_at = now + pause_s(self.times)
        if gave_no_answer(error):
            return now - self.since < limit_s
        self.answers += 1
        return error.code == ACT_FAILED.code and self.answers < ANSWERS_MAX


@dataclass(slots=True)
class Repeats:
    """Of one migration, in this life of the service; by roll, node and act. steady: a clock that only goes on."""

    steady: Callable[[], float]
    _acts: dict[tuple[str, int, str], Repetition] = field(default_factory=dict)

    def after(self, roll: str, node: int, act: str, error: FindingError, limit_s: float) -> str | None:
        """In words when it is done again; None: a person decides. limit_s: from the first failure of this act."""
        now, key = self.steady(), (roll, node, act)
        kept = self._acts.setdefault(key, Repetition(now, now))
        before = kept.said
        if not kept.after(error, now, limit_s):
            del self._acts[key]
            return None
        if error.code not in BY_A_PERSON or kept.said != before:
            log.warning("roll.act_again", roll=roll, node=node, act=act, times=kept.times, reason=kept.said)
        return self.waits(roll, node, act)

    def waits(self, roll: str, node: int, act: str) -> str | None:
        """In words, while it is not done again yet."""
        kept = self._acts.get((roll, node, act))
        left = 0.0 if kept is None else kept.again_at - self.steady()
        return None if kept is None or left <= 0 else f"{act} is done again in {left:.0f} s: {kept.said}"

    def trouble(self, roll: str, node: int) -> str:
        """What the last failed attempt of its present act said."""
        found = [kept.said for (of, each, _), kept in self._acts.items() if (of, each) == (roll, node)]
        return found[-1] if found else ""

    def forget(self, roll: str, node: int) -> None:
        """It went on."""
        self._acts = {key: kept for key, kept in self._acts.items() if key[:2] != (roll, node)}
