"""How old what hosts said may be, before no gate rests on it any more.

In:   how often it is read, and how long the last reading of all hosts took. Out: a limit in seconds.
Elsewhere: the readings (nodes/readings.py), the gates (conditions.py).
Rules: never below the floor, so that one slow host closes no gate. An estate that needs more time gets it, up to the
ceiling: beyond that the readings are too old to decide by, and Z2K-7054 says so.
"""

from __future__ import annotations

from typing import Final

FLOOR_S: Final = 120.0
CEILING_S: Final = 600.0
ROUNDS: Final = 2.0
"""An answer is replaced after one pause and one reading; one of them may fail."""


def needed_s(every_s: float, round_s: float) -> float:
    """every_s: pause between two readings. round_s: from the begin of one to its end."""
    return ROUNDS * (every_s + round_s)


def limit_s(every_s: float, round_s: float) -> float:
    """Age from which an answer counts no more."""
    return min(max(FLOOR_S, needed_s(every_s, round_s)), CEILING_S)
