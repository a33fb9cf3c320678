"""The acts from the claim to a committed copy: read and encode what changed, compare it with ZooKeeper, append it.

In:   the claim; the tree and its records as they were read ahead.
Out:  how the act ended; the copy and the audit of it, the transaction in the log, the claim persistent.
Elsewhere: the records (driver.copy), the comparison (copy_audit.py), the persistent claim (persisting.py), what follows
(reconciling.py).
Reading, encoding, comparing and the like run on threads, the loop only waits for them.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial

import structlog

from migrator.driver.claim import still_ours
from migrator.driver.copy import copied, make_copy, transaction_batches
from migrator.driver.gate import content_findings
from migrator.driver.machine import Happened
from migrator.driver.tree import replicas_gone
from migrator.findings.content import CLUSTER_ID_DIFFERS
from migrator.findings.driver import COPY_DIFFERS, MOVED_WHILE_COPIED
from migrator.findings.finding import FindingError, Severity
from migrator.model.image import Position
from migrator.node.driver.act import (
    ActEnded,
    Audited,
    CopyAppended,
    CopyMade,
    HasParts,
    TreeRead,
)
from migrator.node.driver.claim_watch import ClaimWatch
from migrator.node.driver.copy_audit import CopyAudit
from migrator.node.driver.persisting import ClaimPersistence
from migrator.node.zookeeper.tree_reader import moved_since, read_tree
from migrator.zk.pipeline import UNLIMITED

log = structlog.get_logger()

SWEEPS_MAX = 3


@dataclass(kw_only=True)
class CopyActs(HasParts):
    """The acts of one driver. claim_audit: the audit under the claim; passwords: of broker configurations."""

    claim_watch: ClaimWatch
    persistence: ClaimPersistence
    claim_audit: CopyAudit

    async def copy(self) -> ActEnded:
        """Read again what changed, encode it, and make sure that nothing changes any more.

        Raises Z2K-1013, Z2K-2012 and what blocks in the content: the window ends, and ZooKeeper mode goes on.
        """
        started = self.now_ms()
        await self.parts.hooks.before("read")
        again = partial(read_tree, self.session, UNLIMITED, claimed_by=self.config.node_id)
        tree = await asyncio.to_thread(again, self.now.tree)
        for _ in range(SWEEPS_MAX):
            moved = await asyncio.to_thread(moved_since, self.session, tree)
            if not moved:
                break
            tree = await asyncio.to_thread(again, tree)
        else:
            raise MOVED_WHILE_COPIED.error(count=len(moved), first=moved[0])
        ours = self.controller.settings.cluster_id
        if tree.cluster_id != ours:  # the gate saw it at another moment than what else it asks about
            raise CLUSTER_ID_DIFFERS.error(zookeeper=tree.cluster_id, controllers=ours)
        found = await asyncio.to_thread(content_findings, tree, self.config.waived, self.parts.passwords)
        blocking = [each for each in found if each.finding.severity is Severity.BLOCKS]
        if blocking:
            raise FindingError(blocking[0])
        read = self.now_ms()
        await self.parts.hooks.before("encode")
        copy = await asyncio.to_thread(make_copy, tree, self.now.copy, self.parts.passwords)
        self.controller.removals.take_places(replicas_gone(self.now.tree, tree))
        log.info(
            "copy.finished",
            topics=len(tree.topics),
            partitions=tree.partition_count(),
            records=copy.record_count(),
            read_ms=read - started,
            encode_ms=self.now_ms() - read,
            total_ms=self.now_ms() - started,
        )
        return ActEnded(Happened.COPIED, (TreeRead(tree), CopyMade(copy)))

    async def audit(self) -> ActEnded:
        """Compare what would be committed with ZooKeeper, read by another session after our epoch was seen there."""
        await self.parts.hooks.before("audit")
        copy, claim = self.now.copy, self.now.claim
        assert copy is not None
        assert claim is not None
        report = await asyncio.to_thread(self.claim_audit.under, claim, copy)
        log.info("copy.audited", different=report.different, took_ms=int(report.seconds["total"] * 1000))
        if not report.same:
            self.progress.changed(Audited(report))
            first = report.differences[0]
            raise COPY_DIFFERS.error(different=len(report.differences), first=f"{first.family} {first.key}")
        return ActEnded(Happened.AUDIT_PASSED, (Audited(report),))

    async def commit(self) -> ActEnded:
        """Append the transaction in one run, wait for its commit, heal leaderships, persist the claim."""
        copy = self.now.copy
        assert copy is not None
        await self.parts.hooks.before("append")
        started = self.now_ms()
        batches = await asyncio.to_thread(lambda: list(transaction_batches(copy, self.parts.wall_ms())))
        async with self.controller.paused():
            base = self.controller.newest
            end = self.controller.next_offset() + sum(count for count, _ in batches) - 1
            delta = await asyncio.to_thread(copied, copy, base, Position(self.now.epoch, end))
            observed, claim = await self.claim_watch.observed(), self.now.claim
            assert claim is not None
            if not still_ours(observed, claim):
                return ActEnded(self.claim_watch.touched(observed))
            if self.now.abandoned:
                return ActEnded(Happened.WINDOW_FAILED)
            self.progress.changed(CopyAppended())  # in one step with the append; no broker has an update from it yet
            position = await self.controller.append_copy(batches, delta)
        log.info("copy.committed", offset=position.offset, epoch=position.epoch, took_ms=self.now_ms() - started)
        healed = await self.controller.heal()
        if healed:
            log.info("leaders.healed", partitions=healed)
        await self.parts.hooks.before("persist")
        return await self.persistence.persist(position)
