"""Times and amounts as people read them.

In:   seconds, wall times, counts. Out: short texts. Nothing is cut off, nothing is rounded up to look better.
"""

from __future__ import annotations

import time
from typing import Final

MINUTE_S: Final = 60
HOUR_S: Final = 3600
DAY_S: Final = 86400


def span(seconds: float | None) -> str:
    """A duration: 84 ms, 3.1 s, 42 s, 3 min 20 s, 5 h 10 min, 2 d 4 h."""
    if seconds is None:
        return "-"
    if 0 < seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = int(seconds)
    if whole < MINUTE_S:
        return f"{whole} s"
    if whole < HOUR_S:
        return f"{whole // MINUTE_S} min {whole % MINUTE_S} s"
    if whole < DAY_S:
        return f"{whole // HOUR_S} h {whole % HOUR_S // MINUTE_S} min"
    return f"{whole // DAY_S} d {whole % DAY_S // HOUR_S} h"


def clock(at: float | None, now: float) -> str:
    """A wall time, in UTC; the date is left out on its own day."""
    if at is None:
        return "-"
    moment, today = time.gmtime(at), time.gmtime(now)
    same_day = (moment.tm_year, moment.tm_yday) == (today.tm_year, today.tm_yday)
    return time.strftime("%H:%M:%S" if same_day else "%Y-%m-%d %H:%M:%S", moment)


def stamp(at: float | None) -> str:
    """A wall time with milliseconds, for the steps of a driver, which are that close together."""
    if at is None:
        return "-"
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(at)) + f".{int(at * 1000) % 1000:03d}"


def yes(value: bool | None) -> str:
    return {True: "yes", False: "no", None: "-"}[value]


def sentence(text: str) -> str:
    """A first capital; the rest as it is, so that KRaft and DUAL_WRITE stay."""
    return text[:1].upper() + text[1:]


def dash(value: object) -> str:
    return "-" if value is None or value == "" else str(value)
