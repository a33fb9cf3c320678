"""What somebody says about a step that a person or another tool carried out, and whether it is believed.

In:   evidence, the step that it answers, the times of both. Out: why it is refused, or nothing.
Elsewhere: bundles and files (by_others.py), what the cluster says (roll.py).
Rules: evidence is of one bundle, by its checksum, so that it answers no step of another node, cluster or time. What a
form was filled with beforehand proves nothing: places that somebody has to fill in hold words that are refused.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final, Literal

import msgspec

LEFT_WITHIN_S: Final = 3_600.0
"""From the act until its evidence is left."""
CLOCKS_DIFFER_S: Final = 300.0

PLACEHOLDERS: Final = {
    "sha256": "SHA-256 ON THE HOST",
    "state": "",
    "cluster_id": "CLUSTER ID ON THE HOST",
    "by": "YOUR NAME",
    "at": "2000-01-01T00:00:00Z",
}


class ManualStep(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is to be done. sha256: of the file after it, for a write. number: of the steps of this node."""

    step: str
    node: int
    host: str
    act: str
    unit: str = ""
    path: str = ""
    sha256: str = ""
    cluster: str = ""
    number: int = 0


class StepEvidence(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Somebody says that a step is done. bundle: SHA-256 of its step.json. sha256: of the file as it is now, for a
    write. cluster_id: as the host has it."""

    step: str
    by: Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
    at: Annotated[datetime, msgspec.Meta(tz=True)]
    bundle: str = ""
    node: int | None = None
    cluster_id: str = ""
    sha256: str = ""
    state: Literal["", "running", "stopped"] = ""
    note: Annotated[str, msgspec.Meta(max_length=1_000)] = ""


def why_refused(
    evidence: StepEvidence, asked: ManualStep, digest: str, cluster_id: str, asked_at: float, left_at: float
) -> str | None:
    """None when it is believed. digest: of the bundle. cluster_id: empty where it is not known.

    asked_at, left_at: when the step was shown, and when its evidence was left, by the clock of the exchange.
    """
    at = evidence.at.timestamp()
    wanted_state = {"stop": "stopped", "start": "running"}.get(asked.act, "")
    checks = (
        (evidence.step == asked.step, f"it is of step {evidence.step}, not of {asked.step}"),
        (evidence.bundle == digest, "its `bundle` is not the checksum of step.json: it answers another bundle"),
        (evidence.node == asked.node, f"it is of node {evidence.node}, not of {asked.node}"),
        (
            evidence.cluster_id not in ("", PLACEHOLDERS["cluster_id"]) and cluster_id in ("", evidence.cluster_id),
            f"its cluster_id is {evidence.cluster_id!r}, and the cluster's is {cluster_id or 'to be filled in'}",
        ),
        (
            not asked.sha256 or evidence.sha256.lower() == asked.sha256,
            "its sha256 is not that of the file to be written",
        ),
        (evidence.state == wanted_state or not wanted_state, f"its state is {evidence.state!r}, not {wanted_state}"),
        (evidence.by != PLACEHOLDERS["by"], "it does not say who acted"),
        (at >= asked_at - CLOCKS_DIFFER_S, f"it is about {evidence.at}, before the step was asked for"),
        (at <= left_at + CLOCKS_DIFFER_S, f"it is about {evidence.at}, later than it was left here"),
        (left_at - at <= LEFT_WITHIN_S, f"it is about {evidence.at}, and was left more than an hour later"),
    )
    return next((reason for holds, reason in checks if not holds), None)
