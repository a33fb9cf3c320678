"""The acts of going back: abort inside the window, rollback from dual-write, giving up before brokers were told.

In:   a `DriverNode` that holds (or may still hold) the claim.
Out:  how the act ended; after it a ZooKeeper-mode broker is controller, and none was restarted.
Elsewhere: the multis (driver.claim), `zk2kraft rollback --without-controllers` for when none of ours is alive
(without_controllers.py). Order of the rollback: no more changes; everything committed, mirrored and answered; both
sides equal; the mark, in the log for every voter and beside it on this disk, that retires it for ever; the listener
closed; the claim deleted.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import closing
from itertools import count

import msgspec
import structlog

from migrator.audit.compare import Kind, Report, Rules
from migrator.audit.compare import report as make_report
from migrator.audit.log_source import CommittedRecords, read_directory
from migrator.audit.normalise import LogFacts
from migrator.audit.passwords import PasswordReader
from migrator.audit.quick import compare_sides
from migrator.driver.claim import (
    Claim,
    ClaimObservation,
    left_controller,
    plan_abort,
    plan_fence,
    plan_leave_controller,
    plan_rollback,
    refuse_claim,
)
from migrator.driver.machine import Happened
from migrator.driver.orders import NO_ORDERS, Orders, in_the_way, with_orders
from migrator.findings.driver import ROLLBACK_NOT_POSSIBLE
from migrator.findings.finding import FindingError
from migrator.findings.zookeeper import ZOOKEEPER_LOST
from migrator.model.values import Mark
from migrator.node.config.properties import NodeConfig
from migrator.node.driver.driver_node import DriverNode
from migrator.node.driver.driver_state import not_mirrored
from migrator.node.driver.mirror_node import versions_lag
from migrator.node.zookeeper.claims import read_claim
from migrator.node.zookeeper.tree_reader import missing_places, read_tree
from migrator.node.zookeeper.zookeeper_orders import read_orders
from migrator.zk import paths
from migrator.zk.multi import JUTE_MAXBUFFER, Check, Multi
from migrator.zk.session import ZkSession

log = structlog.get_logger()

AGAIN_S = 0.2
FINISH_TRIES = 5
REFUSED = "rollback"
"""Under this stands why the last one was refused, until the next one begins."""

ORDER_TRIES = 3
"""Then orders that cannot be deleted stay: a cluster without a controller is worse."""

QUIET_MAX_S = 30.0
"""How long a rollback waits for everything to be mirrored and answered before it is refused."""

SPREAD_S = 2.0
"""How long a rollback waits for voters that lag: a majority has the mark in any case."""


class Left(msgspec.Struct, frozen=True):
    """The mark of a log that was rolled back: which claim stood, and what the next controller has to outrank.

    With it the last step can be done by a later life of this process, when the one that began it did not come to it.
    """

    at: float
    node: int
    kraft_epoch: int
    zk_epoch: int
    highest_state_epoch: int
    leaves_orders: bool = False
    """Given up before any broker was told: orders in ZooKeeper are its own affair, as if we had not come."""


def last_steps(
    observed: ClaimObservation, left: Left, orders: Orders = NO_ORDERS, jute_maxbuffer: int = JUTE_MAXBUFFER
) -> tuple[Multi, ...]:
    """Delete the claim of this log; none when it does not stand any more.

    orders: what came after the rollback had found none; it goes before anybody can carry it out.
    """
    held = observed.controller
    if held is None or (held.brokerid, held.kraft_epoch) != (left.node, left.kraft_epoch):
        return ()
    if observed.epoch != left.zk_epoch:
        return ()  # the claim of another migration, by a node of the same id in an epoch of the same number
    is_deleted = (
        observed.migration_version < 0
    )  # by hand: the claim stands all the same, and no broker can be controller
    if not is_deleted and (observed.migration is None or observed.migration.kraft_controller_epoch != left.kraft_epoch):
        return ()
    claim = Claim(
        node=left.node,
        kraft_epoch=left.kraft_epoch,
        zk_epoch=left.zk_epoch,
        epoch_version=observed.epoch_version,
        controller_version=observed.controller_version,
        migration_version=observed.migration_version,
        ephemeral=bool(observed.controller_owner),
    )
    returned = plan_rollback(claim, left.highest_state_epoch)
    stands = (
        Check(paths.CONTROLLER_EPOCH, observed.epoch_version),
        Check(paths.CONTROLLER, observed.controller_version),
    )
    return with_orders(returned, NO_ORDERS if left.leaves_orders else orders, stands, jute_maxbuffer)


def finish(config: NodeConfig, mark: str) -> None:
    """At the start of a process whose log carries the mark: if the claim still stands, the step after it was missed.

    Raises Z2K-2001 or Z2K-2002 when ZooKeeper does not answer: then nobody knows, and the next start asks again.
    """
    try:
        left = msgspec.json.decode(mark, type=Left)
    except msgspec.DecodeError:
        return  # found rolled back by somebody else: nothing of ours stands
    if config.zookeeper_connect is None:
        return
    timeout_s = config.zookeeper_connection_timeout_ms / 1000
    with closing(ZkSession(config.zookeeper_connect).start(timeout_s)) as session:
        for number in range(FINISH_TRIES):
            session.sync()
            orders = read_orders(session) if number < ORDER_TRIES else NO_ORDERS
            steps = last_steps(read_claim(session), left, orders, config.jute_maxbuffer)
            if all(session.apply(each).applied for each in steps):
                return
        raise ZOOKEEPER_LOST.error(path=paths.CONTROLLER, reason="the claim changes while it is given back")


async def retire_log(driver: DriverNode, text: str) -> None:
    """Write into the log, for every voter, that it is never used again; then wait a moment for them to know it."""
    await driver.controller.mark(Mark.RETIRED, text)
    await asyncio.to_thread(driver.retired_mark.write, text)
    await driver.quorum.known_to_all(SPREAD_S, driver.now.wait_because)


class RollbackActs:
    """The acts of one driver."""

    def __init__(self, driver: DriverNode) -> None:
        self.d = driver

    # --- abort ---------------------------------------------------------------------------------------------

    async def abort_takeover(self) -> Happened:
        """Before the commit: delete what is ours of the claim, also one that an earlier leader left or still sends."""
        d = self.d
        d.now.claim = None
        if Mark.TAKEOVER not in d.controller.newest.marks:  # aborted before it was latched: HELD has to outlive us
            await d.controller.mark(Mark.TAKEOVER, "aborted before the claim")
        await d.hooks.before("abandon")
        while True:
            observed = await d.claim_watch.observed()
            multi, is_claimed = self._way_back(observed)
            if multi is None:
                break
            if await self._apply(multi):
                if is_claimed:
                    log.info("zk.aborted", controller_epoch=observed.epoch)
                break
            d.now.wait_because("ZooKeeper did not take the claim back; reading it again")
            await asyncio.sleep(AGAIN_S)
        d.now.window_ms = None if d.now.window is None else d.now_ms() - d.now.window.opened_ms
        d.now.window = None
        d.ephemeral.end()
        return Happened.ABORT_DONE

    def _way_back(self, observed: ClaimObservation) -> tuple[Multi | None, bool]:
        """The next multi on the way back, and whether something of this quorum stands that it takes away."""
        claim = self._left_claim(observed)
        if claim is not None:
            return plan_abort(claim), True
        if left_controller(observed, self.d.config.voter_ids, self.d.epoch):
            return plan_leave_controller(observed), True
        if refuse_claim(observed, self.d.config.voter_ids, self.d.epoch) is not None:
            return None, False  # no claim of this quorum is possible here, of whatever epoch
        return plan_fence(observed), False

    def _left_claim(self, observed: ClaimObservation) -> Claim | None:
        """The claim that stands, if a voter of this quorum made it and nothing was committed under it."""
        held, migration = observed.controller, observed.migration
        voters = self.d.config.voter_ids
        if held is None or held.kraft_epoch <= 0 or held.brokerid not in voters or held.kraft_epoch > self.d.epoch:
            return None
        if migration is None or migration.kraft_controller_id not in voters or migration.kraft_metadata_offset >= 0:
            return None
        return Claim(
            node=held.brokerid,
            kraft_epoch=held.kraft_epoch,
            zk_epoch=observed.epoch,
            epoch_version=observed.epoch_version,
            controller_version=observed.controller_version,
            migration_version=observed.migration_version,
            ephemeral=bool(observed.controller_owner),
        )

    # --- rollback -----------------------------------------------------------------------------------------

    async def rollback(self) -> Happened:
        """From dual-write, with every broker in ZooKeeper mode."""
        d = self.d
        d.operations.begun()
        d.now.alarm(REFUSED, None)
        try:
            self._refuse_with_kraft_brokers()
            self._refuse_beside_stock()
            await self._quiet()
            self._refuse_with_unmirrored()
            self._refuse_with_lagging_versions()
            await asyncio.to_thread(self._refuse_missing_places)
            await self._refuse_with_orders()
            report, highest = await asyncio.to_thread(self._compare)
            d.now.audit = report
            if not report.same:
                first = report.differences[0]
                what = f"not readable: {first.rule}" if first.kind == Kind.NOT_READ else "different"
                raise ROLLBACK_NOT_POSSIBLE.error(reason=f"the audit found {first.family} {first.key} {what}")
        except FindingError as error:
            d.now.finding = error.occurrence
            d.now.alarm(REFUSED, error.occurrence)
            d.now.wait_because(str(error))
            return Happened.ROLLBACK_REFUSED
        return await self._leave(highest)

    async def give_up(self) -> Happened:
        """After the commit, but before any broker heard of us: leave at once; this log is retired."""
        return await self._leave(-1, leaves_orders=True)

    def _refuse_with_kraft_brokers(self) -> None:
        kraft = sorted(broker.id for broker in self.d.controller.image.brokers.values() if not broker.migrating)
        if kraft:
            raise ROLLBACK_NOT_POSSIBLE.error(reason=f"brokers {kraft} run in KRaft mode; roll them back first")

    def _refuse_beside_stock(self) -> None:
        """A stock voter does not know our marks: with this log it would take the cluster over again."""
        quorum, voters = self.d.quorum, len(self.d.config.voters)
        stock, foreign = quorum.stock_voters(), quorum.foreign_voters()
        if stock:
            raise ROLLBACK_NOT_POSSIBLE.error(reason=f"voters {stock} are Kafka's; put ours in their place first")
        ours = voters - len(foreign)
        if ours <= voters // 2:
            reason = f"{ours} of {voters} voters are there; {', '.join(foreign)}"
            raise ROLLBACK_NOT_POSSIBLE.error(reason=reason)

    def _refuse_with_unmirrored(self) -> None:
        found = not_mirrored(self.d.now.unmirrored)
        if found is not None:
            raise ROLLBACK_NOT_POSSIBLE.error(reason=f"{found.code} {found.text}")

    def _refuse_with_lagging_versions(self) -> None:
        """The ZooKeeper controller answers AlterPartition by them, and brokers keep the partition epochs they have."""
        found = versions_lag(self.d.mirror)
        if found is not None:
            raise FindingError(found)

    def _refuse_missing_places(self) -> None:
        """On a thread. What somebody deleted is created again first, from the log, which is retired afterwards."""
        missing = missing_places(self.d.session)
        if missing:
            raise ROLLBACK_NOT_POSSIBLE.error(reason=f"{missing[0]} does not exist; dual-write creates it again")

    async def _refuse_with_orders(self) -> None:
        """The next ZooKeeper controller would carry them out, days after they were given."""
        orders = await asyncio.to_thread(read_orders, self.d.session)
        found = in_the_way(orders)
        if found is not None:
            raise FindingError(found)

    async def _quiet(self) -> None:
        """Everything committed, mirrored, and answered by every broker."""
        d = self.d
        await d.controller.settled()
        deadline = d.now_ms() + int(QUIET_MAX_S * 1000)
        while True:
            behind = 0 if d.mirror is None else d.mirror.behind
            unanswered = d.propagator.channels.waiting()
            silence = d.propagator.silence()
            if d.mirror is not None and not behind and not unanswered and not silence and not d.controller.lag():
                return
            reason = silence or f"{behind} writes to ZooKeeper and {unanswered} requests to brokers are not answered"
            if d.mirror is None or d.now_ms() > deadline:
                raise ROLLBACK_NOT_POSSIBLE.error(reason=reason)
            d.now.wait_because(reason)
            await d.events.changed(0.1)

    def _compare(self) -> tuple[Report, int]:
        """On a thread: the log as it is on disk against ZooKeeper, and the highest epoch in any state."""
        started = time.monotonic()
        records, facts = CommittedRecords(), LogFacts()
        for record in read_directory(self.d.config.metadata_log_dir, records):
            facts.apply(record)
        comparison = compare_sides(self.d.session, facts, Rules(), passwords=PasswordReader.of(self.d.config.passwords))
        tree = read_tree(self.d.session, before=self.d.now.tree)
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

    async def _leave(self, highest_state_epoch: int, *, leaves_orders: bool = False) -> Happened:
        """The mark first: from then on this log is never used again, whatever happens next."""
        d = self.d
        claim = d.now.claim
        assert claim is not None
        await d.hooks.before("mark rolled back")
        left = Left(time.time(), claim.node, claim.kraft_epoch, claim.zk_epoch, highest_state_epoch, leaves_orders)
        d.now.claim = None  # from here on a change of the claim is ours, or of a voter that knows the mark
        await retire_log(d, msgspec.json.encode(left).decode())
        await d.hooks.before("close listener")
        await d.close_listener()
        await d.hooks.before("roll back")
        for number in count():
            observed = await d.claim_watch.observed()
            try:
                orders = await asyncio.to_thread(read_orders, d.session)
                orders = orders if number < ORDER_TRIES else NO_ORDERS
                steps = last_steps(observed, left, orders, d.config.jute_maxbuffer)
                if await self._apply_all(steps):
                    break  # none: deleted already, by us, with a lost answer, or by somebody else
                d.now.wait_because("ZooKeeper did not take the claim back; reading it again")
            except FindingError as error:  # the log is retired: whatever it is, there is no other way than on
                d.now.wait_because(f"ZooKeeper did not take the claim back; reading it again: {error}")
            await asyncio.sleep(AGAIN_S)
        d.ephemeral.end()
        log.info("zk.rolled_back", controller_epoch=claim.zk_epoch)
        d.now.reason = "the cluster was rolled back; this log is retired"
        return Happened.ROLLED_BACK

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
            outcome = await asyncio.to_thread(self.d.session.apply, multi)
        except FindingError as error:
            if error.code != ZOOKEEPER_LOST.code:
                raise
            return False
        return outcome.applied
