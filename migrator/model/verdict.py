"""What a gate answers: each check with what was seen, not a bare yes or no.

The same verdict is stored with a transition, printed by the command line, and shown beside the greyed button.
"""

from __future__ import annotations

from typing import Any

import msgspec


class Check(msgspec.Struct, frozen=True):
    """One line of a verdict: what has to hold, whether it does, and what was seen (never empty when it does not).

    codes: the findings behind a failure, whose pages say what to do.
    """

    name: str
    holds: bool
    seen: str
    codes: tuple[str, ...] = ()


class Verdict(msgspec.Struct, frozen=True):
    checks: tuple[Check, ...]

    @property
    def holds(self) -> bool:
        return all(check.holds for check in self.checks)

    @property
    def failed(self) -> tuple[Check, ...]:
        return tuple(check for check in self.checks if not check.holds)

    def reason(self) -> str:
        """One line for a log or a page: why it does not hold, the first two causes named."""
        failed = self.failed
        if not failed:
            return "every check holds"
        shown = "; ".join(f"{check.name}: {check.seen}" for check in failed[:2])
        more = f" (and {len(failed) - 2} more)" if len(failed) > 2 else ""
        return shown + more

    def as_json(self) -> dict[str, Any]:
        return {"holds": self.holds, "checks": [msgspec.to_builtins(check) for check in self.checks]}
