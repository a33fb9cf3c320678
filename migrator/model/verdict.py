"""What a gate answers: each condition with its message, not a bare yes or no.

The same verdict is stored with a transition, printed by the command line, and shown beside the greyed button.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


class Condition(msgspec.Struct, frozen=True):
    """One condition of a gate: what has to hold, whether it does, and what is true now (never empty when it does not).

    codes: the findings behind a failure, whose pages say what to do.
    In JSON `status` is "True" or "False", as conditions of Kubernetes have it.
    """

    name: str
    holds: bool
    message: str
    codes: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        return {"name": self.name, "status": str(self.holds), "message": self.message, "codes": list(self.codes)}

    @classmethod
    def of_json(cls, document: Mapping[str, Any]) -> Condition:
        return cls(document["name"], document["status"] == "True", document["message"], tuple(document["codes"]))


class Verdict(msgspec.Struct, frozen=True):
    conditions: tuple[Condition, ...]

    @property
    def holds(self) -> bool:
        return all(each.holds for each in self.conditions)

    @property
    def failed(self) -> tuple[Condition, ...]:
        return tuple(each for each in self.conditions if not each.holds)

    def reason(self) -> str:
        """One line for a log or a page: why it does not hold, the first two causes named."""
        failed = self.failed
        if not failed:
            return "every condition is True"
        shown = "; ".join(f"{each.name}: {each.message}" for each in failed[:2])
        more = f" (and {len(failed) - 2} more)" if len(failed) > 2 else ""
        return shown + more

    def as_json(self) -> dict[str, Any]:
        return {"holds": self.holds, "conditions": [each.as_json() for each in self.conditions]}
