"""Somebody agreed to a step that cannot be undone, or consented to what is lost."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalFact:
    """to: the phase. digest: SHA-256 of what was approved. at: wall time in seconds.

    raises: the raise of a feature, such as `group.version=1`; empty: of metadata.version, or it raises nothing.
    """

    to: str
    who: str
    reason: str
    at: float
    digest: str
    raises: str = ""


@dataclass(frozen=True, slots=True)
class ApprovalNow:
    """An approval beside what would be approved at `now`. digest: of that."""

    given: ApprovalFact
    digest: str
    now: float

    @property
    def who(self) -> str:
        return self.given.who

    @property
    def age_s(self) -> float:
        """Infinite where the clock says that it is from the future."""
        return self.now - self.given.at if self.now >= self.given.at else math.inf

    @property
    def fits(self) -> bool:
        """Whether the plan and the evidence are those that the approver saw."""
        return self.given.digest == self.digest
