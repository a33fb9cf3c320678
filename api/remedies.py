"""What a person can do about a failed node of a rolling restart: the same two orders on the page, in REST and in text.

In:   a snapshot with its evidence.
Out:  `RemedyView`, each with what it does, and whether it is possible now.
Elsewhere: whether a node may go back (state_machine.work.operations), which nodes have failed (nodes.py).
"""

from __future__ import annotations

from typing import Final

from api.models import RemedyView
from api.nodes import failed_nodes
from migrator.findings.finding import FindingError
from state_machine.policy.gates import Evidence
from state_machine.rows.store import Snapshot
from state_machine.work.operations import may_send_back, sent_back_roll

RESUMES: Final = "Tries the failed node again from the step in which it failed; the rolling restart goes on."
GOES_BACK: Final = (
    "The failed node, alone, is stopped, gets its previous file, and is started with it. Nothing is removed. The "
    "rolling restart stands until somebody resumes."
)


def remedies(snapshot: Snapshot, observed: Evidence) -> list[RemedyView]:
    """None where no node has failed. `back` only in phases that have it."""
    if not failed_nodes(snapshot):
        return []
    found = [_remedy(snapshot, "resume", RESUMES, "")]
    if sent_back_roll(snapshot.phase_row) is not None:
        found.append(_remedy(snapshot, "back", GOES_BACK, _why_no_way_back(snapshot, observed)))
    return found


def _why_no_way_back(snapshot: Snapshot, observed: Evidence) -> str:
    """Empty when the failed node may go back."""
    try:
        may_send_back(snapshot, observed)
    except FindingError as error:
        return str(error)
    return ""


def _remedy(snapshot: Snapshot, word: str, does: str, why_not: str) -> RemedyView:
    command = f"zk2kraft {word} --migration {snapshot.id}"
    return RemedyView.model_validate(
        {"word": word, "command": command, "does": does, "possible": not why_not, "why_not": why_not}
    )
