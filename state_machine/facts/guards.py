"""The proof that a host refuses to start a stock controller without the migration flag."""

from __future__ import annotations

import msgspec


class GuardFact(msgspec.Struct, frozen=True):
    """Of one controller's host. state: proven, not proven, or not read; reason: in words. code: of the finding that the
    reason names; empty without one.

    read_at: wall time of its host's answer, in seconds; 0 where an earlier release kept it: too old for a gate.
    """

    node: int
    state: str
    reason: str
    read_at: float = 0.0
    code: str = ""
