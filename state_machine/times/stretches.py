"""For how long something was so, by observations that followed one another without a gap.

In:   moments of observations, one after the other. Out: an `ObservedTime`: seconds, how many observations, the longest
      pause.
Elsewhere: what is observed (clusters/observe.py, finish/soak.py), what gates want of it (policy/).
Rules: what lies between two observations counts only when both are of one life of the service and at most
`UNOBSERVED_S` apart, by its steady clock and by the wall clock: a host that slept stops the steady one. What counts is
the shorter of the two. So a time is never longer than what was observed; a step of the wall clock can only end it.
"""

from __future__ import annotations

from typing import Final

import msgspec

UNOBSERVED_S: Final = 30.0
"""From one observation to the next: rounds take seconds while hosts are slow. A broker that restarts meanwhile has
another registration, which ends a stretch by itself."""


class Moment(msgspec.Struct, frozen=True):
    """When one observation was made. life: that of the service; empty: not known. steady: seconds of that life only."""

    wall: float
    steady: float = 0.0
    life: str = ""


class ObservedTime(msgspec.Struct, frozen=True):
    """samples: observations that it rests on. longest_s: between two of them."""

    seconds: float = 0.0
    samples: int = 1
    longest_s: float = 0.0

    @property
    def text(self) -> str:
        times = "1 observation" if self.samples == 1 else f"{self.samples} observations"
        return f"{times}, at most {self.longest_s:.1f} s apart"


def passed(before: Moment | None, now: Moment) -> float | None:
    """Seconds that count between two observations. None: nobody knows what was in between."""
    if before is None or not now.life or before.life != now.life:
        return None
    steady, wall = now.steady - before.steady, now.wall - before.wall
    if steady < 0 or max(steady, wall) > UNOBSERVED_S:
        return None
    return steady if wall < 0 else min(steady, wall)


def gone_on(before: ObservedTime | None, passed_s: float | None, *, holds: bool) -> ObservedTime | None:
    """The time with one more observation. None: it is not so. passed_s: since the observation before (`passed`)."""
    if not holds:
        return None
    if before is None or passed_s is None:
        return ObservedTime()
    return ObservedTime(before.seconds + passed_s, before.samples + 1, max(before.longest_s, passed_s))
