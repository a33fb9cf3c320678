"""The acts of the way back: abort inside the window, rollback from dual-write, rollback before the first broker update.

In:   a claim that stands, or that may still stand.
Out:  how the act ended; after it a ZooKeeper-mode broker is controller, and none was restarted.
Elsewhere: the multis (driver.claim), what bars a rollback (driver.way_back), `zk2kraft rollback --without-controllers`
for when no controller of this quorum runs (without_controllers.py). Order of the rollback: no more changes; everything
committed, mirrored and answered; both sides equal; the mark that retires the log for ever, in the log for every voter
and beside it on this disk; the listener closed; the claim deleted.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import count

import msgspec
import structlog

from migrator.audit.compare import AuditReport, DifferenceKind, ExpectedDifferences
from migrator.audit.compare import report as make_report
from migrator.audit.log_source import CommittedRecords, read_directory
from migrator.audit.normalise import LogFacts
from migrator.audit.passwords import PasswordReader
from migrator.audit.quick import compare_sides
from migrator.driver.machine import Happened
from migrator.driver.orders import NO_ORDERS, in_the_way
from migrator.driver.way_back import Left, last_steps, refuse_rollback, way_back
from migrator.findings.driver import ROLLBACK_NOT_POSSIBLE
from migrator.findings.finding import FindingError
from migrator.findings.zookeeper import ZOOKEEPER_LOST
from migrator.model.values import Mark
from migrator.node.config.properties import NodeConfig
from migrator.node.driver.act import ActEnded, Audited, ClaimDropped, Found, HasParts
from migrator.node.driver.claim_watch import ClaimWatch
from migrator.node.driver.driver_state import not_mirrored
from migrator.node.driver.ephemeral_claim import EphemeralClaim
from migrator.node.driver.mirror_node import Mirroring, versions_lag
from migrator.node.driver.operations import DriverOperations
from migrator.node.driver.propagator import Propagator
from migrator.node.driver.retiring import Retirement
from migrator.node.zookeeper.claims import read_claim
from migrator.node.zookeeper.kraft_brokers import forget_kraft_brokers
from migrator.node.zookeeper.tree_reader import missing_places, read_tree
from migrator.node.zookeeper.zookeeper_orders import read_orders
from migrator.zk import paths
from migrator.zk.multi import Multi
from migrator.zk.session import ZkSession

log = structlog.get_logger()

AGAIN_S = 0.2
FINISH_TRIES = 5
REFUSED = "rollback"
"""The name of the alarm: why the last rollback was refused, until the next one begins."""

ORDER_TRIES = 3
"""Then orders that cannot be deleted stay: a cluster without a controller is worse."""

QUIET_MAX_S = 30.0
"""How long a rollback waits for everything to be mirrored and answered before it is refused."""


def finish(config: NodeConfig, mark: str) -> None:
    """Delete the claim if it still stands, at the start of a process whose log carries the mark.

    Raises Z2K-2001 or Z2K-2002 when ZooKeeper does not answer: then it is not known, and the next start asks again.
    """
    try:
        left = msgspec.json.decode(mark, type=Left)
    except msgspec.DecodeError:
        return  # another process rolled back: no claim of this log stands
    if config.zookeeper_connect is None:
        return
    timeout_s = config.zookeeper_connection_timeout_ms / 1000
    with closing(ZkSession(config.zookeeper_connect, tls=config.zookeeper_tls).start(timeout_s)) as session:
        for number in range(FINISH_TRIES):
            session.sync()
            orders = read_orders(session) if number < ORDER_TRIES else NO_ORDERS
            steps = last_steps(read_claim(session), left, orders, config.jute_maxbuffer)
            if all(session.apply(each).applied for each in steps):
                if steps:  # else the claim was gone, and what is noted may be of a later migration
                    with suppress(FindingError):
                        forget_kraft_brokers(session)
                return
        raise ZOOKEEPER_LOST.error(path=paths.CONTROLLER, reason="the claim changes while it is deleted")


@dataclass(kw_only=True)
class RollbackActs(HasParts):
    """The acts of one driver. close_listener: brokers reach this node no more."""

    claim_watch: ClaimWatch
    ephemeral: EphemeralClaim
    mirroring: Mirroring
    propagator: Propagator
    operations: DriverOperations
    retirement: Retirement
    close_listener: Callable[[], Awaitable[None]]

    # --- abort ---------------------------------------------------------------------------------------------

    async def abort_takeover(self) -> ActEnded:
        """Delete the claim of this quorum before the commit, also one that an earlier leader left or still sends."""
        self.progress.changed(ClaimDropped())
        if Mark.TAKEOVER not in self.controller.newest.marks:  # ABORTED has to outlive this node
            await self.controller.mark(Mark.TAKEOVER, "aborted before the claim")
        await self.parts.hooks.before("abandon")
        while True:
            observed = await self.claim_watch.observed()
            multi, is_claimed = way_back(observed, self.config.voter_ids, self.now.epoch)
            if multi is None:
                break
            if await self._apply(multi):
                if is_claimed:
                    log.info("zk.aborted", controller_epoch=observed.epoch)
                break
            self.progress.waiting("ZooKeeper did not take the claim back; reading it again")
            await asyncio.sleep(AGAIN_S)
        self.ephemeral.end()
        return ActEnded(Happened.ABORT_DONE)

    # --- rollback -----------------------------------------------------------------------------------------

    async def rollback(self) -> ActEnded:
        """Go back from dual-write, with every broker in ZooKeeper mode."""
        self.operations.begun()
        self.progress.alarm(REFUSED, None)
        try:
            self._refuse_with_brokers_or_voters()
            await self._quiet()
            self._refuse_with_unmirrored()
            self._refuse_with_lagging_versions()
            await asyncio.to_thread(self._refuse_missing_places)
            await self._refuse_with_orders()
            report, highest = await asyncio.to_thread(self._compare)
            self.progress.changed(Audited(report))
            if not report.same:
                first = report.differences[0]
                what = f"not readable: {first.rule}" if first.kind == DifferenceKind.NOT_READ else "different"
                raise ROLLBACK_NOT_POSSIBLE.error(reason=f"the audit found {first.family} {first.key} {what}")
        except FindingError as error:
            self.progress.alarm(REFUSED, error.occurrence)
            self.progress.waiting(str(error))
            return ActEnded(Happened.ROLLBACK_REFUSED, (Found(error.occurrence),))
        return await self._leave(highest)

    async def roll_back_early(self) -> ActEnded:
        """Leave at once, after the commit but before the first broker update; this log is retired."""
        return await self._leave(-1, leaves_orders=True)

    def _refuse_with_brokers_or_voters(self) -> None:
        stock, foreign = self.parts.quorum.stock_voters(), self.parts.quorum.foreign_voters()
        found = refuse_rollback(self.controller.image.brokers.values(), len(self.config.voters), stock, foreign)
        if found is not None:
            raise FindingError(found)

    def _refuse_with_unmirrored(self) -> None:
        found = not_mirrored(self.now.unmirrored)
        if found is not None:
            raise ROLLBACK_NOT_POSSIBLE.error(reason=f"{found.code} {found.text}")

    def _refuse_with_lagging_versions(self) -> None:
        """The ZooKeeper controller answers AlterPartition by them, and brokers keep the partition epochs they have."""
        found = versions_lag(self.mirroring.mirror)
        if found is not None:
            raise FindingError(found)

    def _refuse_missing_places(self) -> None:
        """On a thread. A deleted znode is created again first, from the log, which is retired afterwards."""
        missing = missing_places(self.session)
        if missing:
            raise ROLLBACK_NOT_POSSIBLE.error(reason=f"{missing[0]} does not exist; dual-write creates it again")

    async def _refuse_with_orders(self) -> None:
        """The next ZooKeeper controller would carry them out, days after they were given."""
        orders = await asyncio.to_thread(read_orders, self.session)
        found = in_the_way(orders)
        if found is not None:
            raise FindingError(found)

    async def _quiet(self) -> None:
        """Everything committed, mirrored, and answered by every broker."""
        await self.controller.settled()
        deadline = self.now_ms() + int(QUIET_MAX_S * 1000)
        while True:
            behind = 0 if self.mirroring.mirror is None else self.mirroring.mirror.behind
            unanswered = self.propagator.channels.waiting()
            silence = self.propagator.silence()
            is_quiet = not behind and not unanswered and not silence and not self.controller.lag()
            if self.mirroring.mirror is not None and is_quiet:
                return
            reason = silence or f"{behind} writes to ZooKeeper and {unanswered} requests to brokers are not answered"
            # Without a mirror nothing gets quiet by waiting: dual-write has to make one first.
            if self.mirroring.mirror is None or self.now_ms() > deadline:
                raise ROLLBACK_NOT_POSSIBLE.error(reason=reason)
            self.progress.waiting(reason)
            await self.parts.events.changed(0.1)

    def _compare(self) -> tuple[AuditReport, int]:
        """On a thread: the log as it is on disk against ZooKeeper, and the highest epoch in any state."""
        started = time.monotonic()
        records, facts = CommittedRecords(), LogFacts()
        for record in read_directory(self.config.metadata_log_dir, records):
            facts.apply(record)
        comparison = compare_sides(
            self.session, facts, ExpectedDifferences(), passwords=PasswordReader.of(self.config.passwords)
        )
        tree = read_tree(self.session, before=self.now.tree)
        if tree.problems:  # the next ZooKeeper controller would read it too, and may end of it
            raise ROLLBACK_NOT_POSSIBLE.error(reason=f"{tree.problems[0].code} {tree.problems[0].text}")
        report = make_report(
            comparison,
            seconds={"total": time.monotonic() - started},
            zk={},
            kraft={"offset": records.offset, "epoch": records.epoch},
            engine="quick",
        )
        return report, tree.highest_controller_epoch()

    async def _leave(self, highest_state_epoch: int, *, leaves_orders: bool = False) -> ActEnded:
        """The mark first: from then on this log is never used again, whatever happens next."""
        claim = self.now.claim
        assert claim is not None
        await self.parts.hooks.before("mark rolled back")
        left = Left(time.time(), claim.node, claim.kraft_epoch, claim.zk_epoch, highest_state_epoch, leaves_orders)
        self.progress.changed(ClaimDropped())  # from here on this quorum changes it, or a voter that knows the mark
        await self.retirement.retire(msgspec.json.encode(left).decode())
        await self.parts.hooks.before("close listener")
        await self.close_listener()
        await self.parts.hooks.before("roll back")
        for number in count():
            observed = await self.claim_watch.observed()
            try:
                orders = await asyncio.to_thread(read_orders, self.session)
                orders = orders if number < ORDER_TRIES else NO_ORDERS
                steps = last_steps(observed, left, orders, self.config.jute_maxbuffer)
                if await self._apply_all(steps):
                    break  # none: deleted already, by this node with a lost answer, or by another
                self.progress.waiting("ZooKeeper did not take the claim back; reading it again")
            except FindingError as error:  # the log is retired: whatever it is, there is no other way than on
                self.progress.waiting(f"ZooKeeper did not take the claim back; reading it again: {error}")
            await asyncio.sleep(AGAIN_S)
        with suppress(FindingError):  # it asks for a log once more than needed, and bars nothing else
            await asyncio.to_thread(forget_kraft_brokers, self.session)
        self.ephemeral.end()
        log.info("zk.rolled_back", controller_epoch=claim.zk_epoch)
        self.progress.status("the cluster was rolled back; this log is retired")
        return ActEnded(Happened.ROLLED_BACK)

    # --- ZooKeeper -----------------------------------------------------------------------------------------

    async def _apply_all(self, multis: tuple[Multi, ...]) -> bool:
        """One after the other, as long as they are applied."""
        for each in multis:
            if not await self._apply(each):
                return False
        return True

    async def _apply(self, multi: Multi) -> bool:
        """True when applied; False when refused or unknown, then what stands is read again."""
        try:
            outcome = await asyncio.to_thread(self.session.apply, multi)
        except FindingError as error:
            if error.code != ZOOKEEPER_LOST.code:
                raise
            return False
        return outcome.applied
