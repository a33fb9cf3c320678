"""Persisting the claim: once the copy is committed, it may not end with the session any more.

In:   the claim, and the position of the commit.
Out:  the claim in ZooKeeper outlives the session and notes the position; or why the cluster has to be rolled back.
Elsewhere: the multi (driver.claim), the commit before it (copying.py).
Until then the claim ends with the session, and while that lives no other process can be controller.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from migrator.driver.claim import plan_persist, still_ours
from migrator.driver.machine import Happened
from migrator.driver.window import too_late
from migrator.findings.finding import FindingError, Occurrence
from migrator.model.image import Position
from migrator.node.driver.act import ActEnded, ClaimHeld, Concluded, HasParts
from migrator.node.driver.claim_watch import ClaimWatch
from migrator.node.driver.ephemeral_claim import EphemeralClaim
from migrator.node.zookeeper.claims import refusal
from migrator.zk.multi import Multi
from migrator.zk.session import ZkSession

PERSIST_AGAIN_S = 0.2


@dataclass(kw_only=True)
class ClaimPersistence(HasParts):
    """Makes the claim of one driver outlive its session."""

    claim_watch: ClaimWatch
    ephemeral: EphemeralClaim

    async def persist(self, position: Position) -> ActEnded:
        """Try again and again, while the claim stands and the window has time."""
        claim = self.now.claim
        assert claim is not None
        while True:
            multi, persisted = plan_persist(claim, position, self.parts.wall_ms())
            reason = await refused(self.session, multi)
            if reason is None:
                break
            observed = await self.claim_watch.observed()
            if not still_ours(observed, claim):
                return ActEnded(self.claim_watch.touched(observed))
            if observed.migration_version == persisted.migration_version:
                break  # applied, and the answer lost
            self.progress.trouble(reason)
            self.progress.waiting(reason.text)
            late = too_late(self.now.window, self.now_ms(), reason, fresh_copy=self.now.fresh_copy)
            if late is not None:
                return ActEnded(Happened.MUST_ROLL_BACK, (Concluded(late),))
            await asyncio.sleep(PERSIST_AGAIN_S)
        self.ephemeral.end()
        return ActEnded(Happened.COMMITTED, (ClaimHeld(persisted),))


async def refused(session: ZkSession, multi: Multi) -> Occurrence | None:
    """Why it was not applied, or may not have been; None when it was."""
    try:
        outcome = await asyncio.to_thread(session.apply, multi)
    except FindingError as error:
        return error.occurrence
    return None if outcome.applied else refusal(multi, outcome)
