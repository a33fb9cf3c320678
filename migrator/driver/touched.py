"""What it means that the claim is not as this node left it.

In:   the claim's znodes as they were observed, the claim of this node, and where its driver is.
Out:  a `Touched`: what happened, and the finding that explains it.
Elsewhere: observing the znodes and resigning (node.driver.claim_watch), which state follows (machine.py), what a leader
does about each claim that it finds once brokers have updates (claim_table.py).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from migrator.driver.claim import Claim, ClaimObservation, is_successor, stands_alone
from migrator.driver.claim_table import Answer, Brokers, Known, found_text, judge
from migrator.driver.machine import Happened
from migrator.findings.driver import CLAIM_CHANGED, CLAIM_EXPIRED, FENCED
from migrator.findings.finding import Occurrence


@dataclass(frozen=True, slots=True)
class Touched:
    """finding: None for a successor of this quorum, which is no trouble. holder: who has `/controller` now."""

    happened: Happened
    finding: Occurrence | None
    holder: str
    expected: str


def touched(
    observed: ClaimObservation,
    claim: Claim | None,
    voters: Collection[int],
    epoch: int,
    *,
    may_abort: bool,
    fresh_copy: bool,
    brokers: Brokers = Brokers.ZOOKEEPER,
) -> Touched:
    """What a change of the claim leads to.

    epoch: KRaft epoch of this node. may_abort: nothing is appended yet. fresh_copy: the copy is appended, and no broker
    has an update that was made from it. brokers: in which mode they are.
    """
    holder = "no controller" if observed.controller is None else f"node {observed.controller.brokerid}"
    expected = "no controller" if claim is None else f"node {claim.node}, epoch {claim.zk_epoch}"
    if claim is not None and is_successor(observed, claim, voters, epoch):
        return Touched(Happened.LEADERSHIP_LOST, None, holder, expected)
    is_gone = observed.controller is None or observed.controller.kraft_epoch <= 0
    if is_gone and (may_abort or fresh_copy) and claim is not None and claim.ephemeral:
        finding = CLAIM_EXPIRED.found(controller="absent" if observed.controller is None else holder)
    else:
        finding = FENCED.found(found=f"{holder}, epoch {observed.epoch}", expected=expected)
    # Nothing is appended: ZooKeeper mode goes on, whoever has the claim now.
    if may_abort:
        return Touched(Happened.WINDOW_FAILED, finding, holder, expected)
    # No broker acts on the copy yet, and the claim is gone or can still be taken away: leaving costs nothing.
    if fresh_copy and (is_gone or stands_alone(observed, claim)):
        return Touched(Happened.MUST_ROLL_BACK, finding, holder, expected)
    # Brokers act on the log. Whether the claim may be made again depends on who moved it, so the table decides.
    if claim is not None and not fresh_copy:
        judged = judge(observed, Known(voters, epoch, claim=claim), brokers)
        if judged.answer in (Answer.CLAIM_AGAIN, Answer.SERVE):
            again = CLAIM_CHANGED.found(found=found_text(observed, judged.stands), expected=expected)
            return Touched(Happened.CLAIM_LOST, again, holder, expected)
    return Touched(Happened.CLAIM_TOUCHED, finding, holder, expected)
