"""The acts from the claim to a committed copy: read and encode what moved, compare it with ZooKeeper, append it.

In:   a `DriverNode` that holds the claim; the tree and its records as they were read ahead.
Out:  how the act ended (`Happened`); the copy and the audit of it in `driver.now`, the transaction in the log.
Elsewhere: the records (driver.copy), the comparison (copy_audit.py), what follows (dual_write.py).
Reading, encoding, comparing and the like run on threads, the loop only waits for them.
"""

from __future__ import annotations

import asyncio

import structlog

from migrator.driver.claim import still_ours
from migrator.driver.copy import copied, make_copy, transaction_batches
from migrator.driver.gate import content_findings
from migrator.driver.machine import Happened
from migrator.driver.tree import replicas_gone
from migrator.findings.driver import COPY_DIFFERS, MOVED_WHILE_COPIED
from migrator.findings.finding import FindingError, Severity
from migrator.model.image import Position
from migrator.node.driver.claiming import settle
from migrator.node.driver.copy_audit import CopyAudit
from migrator.node.driver.driver_node import DriverNode
from migrator.node.zookeeper.tree_reader import moved_since, read_tree
from migrator.zk.pipeline import UNLIMITED

log = structlog.get_logger()

SWEEPS_MAX = 3


class CopyActs:
    """The acts of one driver."""

    def __init__(self, driver: DriverNode, audit: CopyAudit) -> None:
        self.d = driver
        self._audit = audit

    async def copy(self) -> Happened:
        """Read again what moved, encode it, and make sure that nothing moves any more."""
        d = self.d
        started = d.now_ms()
        await d.hooks.before("read")
        tree = await asyncio.to_thread(read_tree, d.session, UNLIMITED, d.now.tree)
        for _ in range(SWEEPS_MAX):
            moved = await asyncio.to_thread(moved_since, d.session, tree)
            if not moved:
                break
            tree = await asyncio.to_thread(read_tree, d.session, UNLIMITED, tree)
        else:
            raise MOVED_WHILE_COPIED.error(count=len(moved), first=moved[0])
        found = await asyncio.to_thread(content_findings, tree, d.config.waived, d.passwords)
        blocking = [each for each in found if each.finding.severity is Severity.BLOCKS]
        if blocking:
            raise FindingError(blocking[0])
        read = d.now_ms()
        await d.hooks.before("encode")
        copy = await asyncio.to_thread(make_copy, tree, d.now.copy, d.passwords)
        d.controller.removals.take_places(replicas_gone(d.now.tree, tree))
        d.now.tree, d.now.copy = tree, copy
        log.info(
            "copy.finished",
            topics=len(tree.topics),
            partitions=tree.partition_count(),
            records=copy.record_count(),
            read_ms=read - started,
            encode_ms=d.now_ms() - read,
            total_ms=d.now_ms() - started,
        )
        return Happened.COPIED

    async def audit(self) -> Happened:
        """Compare what would be committed with ZooKeeper, read by another session after our epoch was seen there."""
        d = self.d
        await d.hooks.before("audit")
        copy, claim = d.now.copy, d.now.claim
        assert copy is not None
        assert claim is not None
        report = await asyncio.to_thread(self._audit.under, claim, copy)
        d.now.audit = report
        log.info("copy.audited", different=report.different, took_ms=int(report.seconds["total"] * 1000))
        if not report.same:
            first = report.differences[0]
            raise COPY_DIFFERS.error(different=len(report.differences), first=f"{first.family} {first.key}")
        return Happened.AUDIT_PASSED

    async def commit(self) -> Happened:
        """Append the transaction in one run, wait for its commit, heal leaderships, make the claim last."""
        d = self.d
        copy = d.now.copy
        assert copy is not None
        await d.hooks.before("append")
        started = d.now_ms()
        batches = await asyncio.to_thread(lambda: list(transaction_batches(copy, d.wall_ms())))
        async with d.controller.paused():
            base = d.controller.newest
            last = Position(d.epoch, d.controller.next_offset() + sum(count for count, _ in batches) - 1)
            delta = await asyncio.to_thread(copied, copy, base, last)
            observed, claim = await d.claim_watch.observed(), d.now.claim
            assert claim is not None
            if not still_ours(observed, claim):
                return d.claim_watch.touched(observed)
            if d.now.abandoned:
                return Happened.WINDOW_FAILED
            d.now.fresh_copy = True  # in one step with the append; no broker knows of it yet
            position = await d.controller.append_copy(batches, delta)
        log.info("copy.committed", offset=position.offset, epoch=position.epoch, took_ms=d.now_ms() - started)
        healed = await d.controller.heal()
        if healed:
            log.info("leaders.healed", partitions=healed)
        await d.hooks.before("persist")
        return await settle(d, position)
