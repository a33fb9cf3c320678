"""Canary traffic: what became of its records, beside what the inventory allows."""

from __future__ import annotations

import msgspec


class CanaryFigures(msgspec.Struct, frozen=True):
    """What became of the records of the last ten minutes. at: wall time of these figures, in seconds.

    waiting_s: the age of the oldest record without answer. silent: partitions that never answered.
    problem: why there is no traffic; empty while there is.
    """

    at: float
    sent: int = 0
    acknowledged: int = 0
    failed: int = 0
    longest_s: float = 0.0
    waiting_s: float = 0.0
    silent: tuple[int, ...] = ()
    problem: str = ""
    last_error: str = ""


class CanaryFact(msgspec.Struct, frozen=True):
    """wanted: by the inventory. errors_max: the share of records that may fail; stall_s: how long one may wait.

    answered, failed: of all canary traffic of this migration, every life of the service included.
    """

    wanted: bool
    figures: CanaryFigures
    errors_max: float = 0.01
    stall_s: float = 30.0
    answered: int = 0
    failed: int = 0
