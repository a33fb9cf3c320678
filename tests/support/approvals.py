"""Approvals as gates look at them."""

from __future__ import annotations

from state_machine.facts.approvals import ApprovalFact, ApprovalNow

NOW_S = 1_800_000_000.0


def an_approval(who: str, age_s: float, *, fits: bool = True) -> ApprovalNow:
    """Given `age_s` ago. fits: what was approved is what would be approved now."""
    given = ApprovalFact(to="FINALIZING", who=who, reason="", at=NOW_S - age_s, digest="a")
    return ApprovalNow(given, "a" if fits else "b", NOW_S)
