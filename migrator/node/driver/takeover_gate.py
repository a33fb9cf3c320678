"""The acts before the takeover: wait for the quorum, brokers and the gate, and after an abort for an operator.

In:   the leadership of a log that is before the migration.
Out:  how the act ended; the tree read ahead, encoded and compared, and the verdict.
Elsewhere: what the gate wants to know and decides (driver.gate), what follows when it opens (claiming.py).
Nothing is written to ZooKeeper here. Reading, encoding, comparing and the like run on threads, the loop only waits for
them.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

import structlog

from migrator.driver.claim import left_controller
from migrator.driver.copy import Copy, make_copy
from migrator.driver.gate import TakeoverEvidence, can_register, ibp_differs, takeover_verdict, voters_enabled
from migrator.driver.guard import strays, without_ids
from migrator.driver.machine import Happened
from migrator.driver.tree import Tree, replicas_gone
from migrator.driver.update_requests import reachable
from migrator.findings.driver import EXPORTS_NOT_REMOVED, LATCHED
from migrator.findings.finding import Occurrence
from migrator.model.values import Mark
from migrator.node.brokers.send_rehearsal import rehearse_send
from migrator.node.brokers.survey import ask_denied, ask_settings, survey_brokers
from migrator.node.config.properties import controller_settings
from migrator.node.driver.act import (
    ActEnded,
    BrokersSurveyed,
    Concluded,
    CopyMade,
    Exported,
    Found,
    GateAsked,
    HasParts,
    TreeRead,
)
from migrator.node.driver.claim_watch import ClaimWatch
from migrator.node.driver.copy_audit import CopyAudit
from migrator.node.driver.event_queue import LOOK_S
from migrator.node.driver.operations import DriverOperations
from migrator.node.driver.window_guard import live_brokers
from migrator.node.on_thread import on_thread
from migrator.node.zookeeper.claims import read_claim
from migrator.node.zookeeper.exports import Exports
from migrator.node.zookeeper.request_limits import RequestLimits, ask_servers
from migrator.node.zookeeper.tree_reader import read_guards, read_tree
from migrator.zk import paths
from migrator.zk.pipeline import CONSIDERATE, UNLIMITED

log = structlog.get_logger()

READ_AGAIN_S: Final = 1.0
"""Shortest pause between two looks while the gate is closed."""
READ_SHARE: Final = 10
"""While waiting, at most a tenth of the time is spent reading ZooKeeper and asking brokers."""
WAITED_SHARE: Final = 5
WAITED_AGAIN_S: Final = 10.0
"""The longer nothing changed, the more rarely is looked: after a fifth of what was waited, at most after so long."""
EXPORT_FRESH_MS = 60 * 60 * 1_000


def pause_s(least_s: float, look_ms: int, waited_ms: int) -> float:
    """The pause before the next look, unless an operation is requested, or a broker comes or goes.

    look_ms: how long this look took. waited_ms: from what last cut a pause short to the beginning of this look.
    """
    waited_s = min(waited_ms / 1000 / WAITED_SHARE, WAITED_AGAIN_S)
    return max(least_s, READ_SHARE * look_ms / 1000, waited_s)


@dataclass(kw_only=True)
class GateActs(HasParts):
    """The acts of one driver. copy_audit: compares ahead what a takeover would commit. laboratory: fewer voters do."""

    claim_watch: ClaimWatch
    operations: DriverOperations
    copy_audit: CopyAudit
    laboratory: bool
    _read_ms: int = field(default=0, init=False)
    _encode_ms: int = field(default=0, init=False)
    _exported_ms: int = field(default=0, init=False)
    _silence_ms: int = field(default=0, init=False)
    """Of the look: what was waited for brokers that did not answer, which costs nobody anything."""
    _waiting_since_ms: int = field(default=0, init=False)
    _strays: set[str] = field(default_factory=set, init=False)
    _limits: RequestLimits = field(init=False)
    _reading: threading.Lock = field(default_factory=threading.Lock, init=False)

    def __post_init__(self) -> None:
        self._limits = RequestLimits(lambda connect, wanted: ask_servers(connect, wanted, self.session.sockets))

    @cached_property
    def _exports(self) -> Exports:
        config = self.config
        cluster_id = self.controller.settings.cluster_id
        return Exports.of(config.node_id, cluster_id, config.metadata_log_dir, config.export_dir)

    # --- waiting -------------------------------------------------------------------------------------------

    async def wait_quorum(self) -> ActEnded:
        """Wait until every voter is known with the migration enabled."""
        while True:
            known = await self._voters_enabled()
            missing = [voter for voter in self.config.voter_ids if voter not in known]
            if not missing:
                return ActEnded(Happened.QUORUM_READY)
            self.progress.waiting(f"controllers {missing} did not make themselves known yet")
            await self.parts.events.changed(LOOK_S)

    async def _voters_enabled(self) -> Mapping[int, bool]:
        """Voters that are known, and whether each has the migration enabled (gate.voters_enabled)."""
        image = self.controller.image
        asked = {} if can_register(image) else await self.parts.quorum.migration_enabled()
        return voters_enabled(image, {self.config.node_id: self.config.migration_enabled, **asked})

    async def wait_brokers(self) -> ActEnded:
        """Brokers register, the tree is read ahead, the gate is asked; then the takeover begins unless it is paused."""
        self._waiting_since_ms = self.now_ms()
        while True:
            began_ms = self.now_ms()
            if left_controller(await self.claim_watch.observed(), self.config.voter_ids, self.now.epoch):
                return ActEnded(Happened.CLAIM_LEFT)
            waiting = await self._missing_brokers()
            if waiting is not None:
                self.progress.waiting(waiting)
                await self._rest(LOOK_S, began_ms)
                continue
            evidence = await self._evidence()
            self.progress.trouble(None)
            verdict = await asyncio.to_thread(takeover_verdict, evidence)  # it goes through every partition
            self.progress.changed(GateAsked(verdict))
            if [check.name for check in verdict.failed] == ["a ZooKeeper export is taken"]:
                export_began_ms = self.now_ms()
                await self._export()
                self.operations.wait_longer(self.now_ms() - export_began_ms)
                continue
            if verdict.holds and (self.config.gates == "auto" or self.operations.takeover):
                if await self._missing_brokers() is not None:
                    continue  # to find out which, and wait
                self.operations.begun()
                return ActEnded(Happened.GATE_OPENED)
            held = "the takeover is paused (zk2kraft.gates=pause); `zk2kraft advance` lets it begin"
            self.progress.waiting(held if verdict.holds else verdict.reason())
            await self._rest(READ_AGAIN_S, began_ms)

    async def _rest(self, least_s: float, began_ms: int) -> None:
        """After a look that began then. Commits do not cut it short: there is one every half second."""
        look_ms = self.now_ms() - began_ms - self._silence_ms
        if await self.parts.events.called(pause_s(least_s, look_ms, began_ms - self._waiting_since_ms)):
            self._waiting_since_ms = self.now_ms()

    async def _missing_brokers(self) -> str | None:
        wanted = await asyncio.to_thread(live_brokers, self.session)
        image = self.controller.image
        self.progress.trouble(None)
        contacts = self.controller.contacts
        joined = {broker.id for broker in image.brokers.values() if broker.migrating and not broker.fenced}
        ready = joined & contacts.reading
        missing = sorted(wanted - ready)
        if not wanted:
            return f"no broker is in {paths.BROKER_IDS}"
        if missing:
            refused = {broker: why for broker in missing if (why := contacts.why_refused(broker)) is not None}
            trouble = ibp_differs(self.controller.kept_out(), image) or next(iter(refused.values()), None)
            self.progress.trouble(trouble)
            if trouble is not None:
                others = [each for each, why in refused.items() if why is not trouble and why.code == trouble.code]
                return f"{trouble.text} The same holds for brokers {others}." if others else trouble.text
            if wanted <= joined:
                return f"brokers {missing} are registered and do not read this log yet"
            missing = sorted(wanted - joined)
            return f"brokers {missing} are not registered and unfenced yet ({len(wanted & joined)}/{len(wanted)})"
        return None

    async def _evidence(self) -> TakeoverEvidence:
        """Read, encode and ask everything that the gate wants to know."""
        before = self.now.tree
        tree, copy = await asyncio.to_thread(self._read_ahead, before, self.now.copy)
        self.progress.changed(TreeRead(tree), CopyMade(copy))
        await asyncio.to_thread(read_guards, self.session, tree)
        self.controller.removals.take_places(replicas_gone(before, tree))
        observed = await asyncio.to_thread(read_claim, self.session)
        brokers = reachable(self.controller.image)
        if self.now_ms() - self._exported_ms > EXPORT_FRESH_MS:
            self.progress.changed(Exported(None))  # what is kept from days ago is no way back from today
        whom = (brokers, self.config.inter_broker_listener, str(self.config.node_id), self.parts.to_brokers)
        asked_ms = self.now_ms()
        surveys, failed = await survey_brokers(*whom)
        self.progress.changed(BrokersSurveyed(surveys))
        settings, silent = await ask_settings(*whom)
        denied, unknown = await ask_denied(*whom)
        self._silence_ms = self.now_ms() - asked_ms if failed or silent or unknown else 0
        sending = await on_thread(
            rehearse_send, tree, self.controller.image, surveys, self.config.inter_broker_listener
        )
        limits = await asyncio.to_thread(self._limits.ask, self.session.connect, self.config.jute_maxbuffer)
        return TakeoverEvidence(
            tree=tree,
            observed=observed,
            image=self.controller.image,
            voters=self.config.voter_ids,
            foreign_voters=self.parts.quorum.foreign_voters(),
            voters_enabled=await self._voters_enabled(),
            kraft_epoch=self.now.epoch,
            heartbeat_age_ms=self.controller.heartbeat_ages_ms(),
            reading=frozenset(self.controller.contacts.reading),
            estimated_ms=3 * self._read_ms + self._encode_ms + sending.total_ms,
            takeover_max_ms=self.config.takeover_max_ms,
            laboratory=self.laboratory,
            exported=self.now.exported,
            inter_broker_listener=self.config.inter_broker_listener,
            unasked=failed,
            denied={broker: found for broker, found in denied.items() if found},
            denials_unknown=unknown,
            unexplained=await asyncio.to_thread(self._unexplained, tree),
            cluster_id=self.controller.settings.cluster_id,
            waived=self.config.waived,
            ours=replace(controller_settings(self.config), level=self.controller.image.metadata_version),
            broker_settings=settings,
            settings_unread=silent,
            passwords=self.parts.passwords,
            limits={each.server: each.passed for each in limits if not each.unknown},
            limits_unknown={each.server: each.unknown for each in limits if each.unknown},
            jute_maxbuffer=self.config.jute_maxbuffer,
        )

    def _unexplained(self, tree: Tree) -> list[Occurrence]:
        """On a thread: what the full send of this tree would take from the brokers, today as at the look before."""
        topics = {name: reading.topic for name, reading in tree.topics.items()}
        gone, surveys = self.controller.removals, list(self.now.surveys.values())
        observed = [found for each in surveys for found in strays(each, topics, gone.topics, gone.replicas)]
        before, self._strays = self._strays, {found.text for found in observed}
        lasting = [found for found in observed if found.text in before]
        return [found for each in surveys for found in without_ids(each, topics)] + lasting

    def _read_ahead(self, before: Tree | None, copy: Copy | None) -> tuple[Tree, Copy]:
        """On a thread: the tree, its records and the proof of both, reusing what did not move.

        An act that is cancelled leaves its thread behind. That thread changes nothing that the driver has, and the next
        one waits for it.
        """
        with self._reading:
            limits = UNLIMITED if before is not None else CONSIDERATE
            started = time.monotonic()
            tree = read_tree(self.session, limits, before)
            read = time.monotonic()
            copy = make_copy(tree, copy, self.parts.passwords)
            self._read_ms = int((read - started) * 1000)
            self._encode_ms = max(self._encode_ms, int((time.monotonic() - read) * 1000))
            self.copy_audit.ahead(copy, limits)
            return tree, copy

    async def _export(self) -> None:
        file = self._exports.next_file()
        self.progress.waiting(f"a ZooKeeper export is taken to {file}")
        taken = await asyncio.to_thread(self._exports.take, self.session, file)
        info = taken.info
        log.info("zookeeper.exported", file=info.file, znodes=info.znodes, sha256=info.sha256, renewed=taken.renewed)
        self.progress.alarm(EXPORTS_NOT_REMOVED.code, taken.left)
        self.progress.changed(Exported(info.file))
        self._exported_ms = self.now_ms()

    # --- after an abort ------------------------------------------------------------------------------------

    async def wait_aborted(self) -> ActEnded:
        """Nothing happens by itself here; an operator allows another takeover."""
        if self.now.finding is None:
            mark = self.controller.newest.marks.get(Mark.TAKEOVER)
            self.progress.changed(Concluded(LATCHED.found(mark=mark)))
        while True:
            if self.operations.takeover:
                await self.controller.mark(Mark.TAKEOVER, "")
                return ActEnded(Happened.UNLATCHED, (Found(None),))
            await self.parts.events.changed(5.0)
