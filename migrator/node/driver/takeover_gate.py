"""The acts before the window: wait for the quorum, for brokers, for the gate, and after an abort for a person.

In:   a `DriverNode` that leads, with a log that is before the migration.
Out:  how the act ended (`Happened`); the tree read ahead, encoded and compared, and the verdict, in `driver.now`.
Elsewhere: what the gate wants to know and decides (driver.gate), what follows when it opens (claiming.py).
Nothing is written to ZooKeeper here. Reading, encoding, comparing and the like run on threads, the loop only waits for
them.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import structlog

from migrator.driver.claim import left_controller
from migrator.driver.copy import Copy, make_copy
from migrator.driver.gate import Evidence, can_register, ibp_differs, takeover_verdict, voters_enabled
from migrator.driver.guard import strays, without_ids
from migrator.driver.machine import Happened
from migrator.driver.tree import Tree, replicas_gone
from migrator.driver.update_requests import reachable
from migrator.findings.driver import LATCHED
from migrator.findings.finding import Occurrence
from migrator.model.values import Mark
from migrator.node.brokers.survey import ask_denied, ask_settings, survey_brokers
from migrator.node.config.properties import controller_settings
from migrator.node.driver.copy_audit import CopyAudit
from migrator.node.driver.driver_node import DriverNode
from migrator.node.driver.event_queue import LOOK_S
from migrator.node.driver.window_guard import live_brokers
from migrator.node.zookeeper.claims import read_claim
from migrator.node.zookeeper.request_limits import RequestLimits
from migrator.node.zookeeper.tree_reader import read_guards, read_tree
from migrator.zk import paths
from migrator.zk.backup import export
from migrator.zk.pipeline import CONSIDERATE, UNLIMITED

log = structlog.get_logger()

READ_AGAIN_S = 1.0
"""Shortest pause between two readings of the tree while the gate is closed; large trees are read more rarely."""
READ_SHARE = 10
"""While waiting, at most a tenth of the time is spent reading ZooKeeper."""
EXPORT_FRESH_MS = 60 * 60 * 1_000


class GateActs:
    """The acts of one driver. audit: which compares ahead what a takeover would commit."""

    def __init__(self, driver: DriverNode, audit: CopyAudit) -> None:
        self.d = driver
        self._audit = audit
        self._read_ms = 0
        self._encode_ms = 0
        self._exported_ms = 0
        self._look_ms = 0
        self._strays: set[str] = set()
        self._limits = RequestLimits()
        self._reading = threading.Lock()

    # --- waiting -------------------------------------------------------------------------------------------

    async def wait_quorum(self) -> Happened:
        """Every voter is registered with the migration enabled."""
        while True:
            known = await self._voters_enabled()
            missing = [voter for voter in self.d.config.voter_ids if voter not in known]
            if not missing:
                return Happened.QUORUM_READY
            self.d.now.wait_because(f"controllers {missing} did not make themselves known yet")
            await self.d.events.changed(LOOK_S)

    async def _voters_enabled(self) -> Mapping[int, bool]:
        """Voters that are known, and whether each has the migration enabled (gate.voters_enabled)."""
        d = self.d
        image = d.controller.image
        asked = {} if can_register(image) else await d.quorum.migration_enabled()
        return voters_enabled(image, {d.config.node_id: d.config.migration_enabled, **asked})

    async def wait_brokers(self) -> Happened:
        """Brokers come, the tree is read ahead, the gate is asked; then, unless held, the takeover may begin."""
        while True:
            if left_controller(await self.d.claim_watch.observed(), self.d.config.voter_ids, self.d.epoch):
                return Happened.CLAIM_LEFT
            waiting = await self._missing_brokers()
            if waiting is not None:
                self.d.now.wait_because(waiting)
                await self.d.events.changed(LOOK_S)
                continue
            evidence = await self._evidence()
            self.d.now.trouble = None
            verdict = await asyncio.to_thread(takeover_verdict, evidence)  # it goes through every partition
            self.d.now.verdict = verdict
            if [check.name for check in verdict.failed] == ["a ZooKeeper export is taken"]:
                began_ms = self.d.now_ms()
                await self._export()
                self.d.operations.wait_longer(self.d.now_ms() - began_ms)
                continue
            if verdict.holds and (self.d.config.gates == "auto" or self.d.operations.takeover):
                self.d.operations.begun()
                return Happened.GATE_OPENED
            held = "the takeover is paused (zk2kraft.gates=pause); `zk2kraft advance` lets it begin"
            self.d.now.wait_because(held if verdict.holds else verdict.reason())
            await self.d.events.changed(max(READ_AGAIN_S, READ_SHARE * self._look_ms / 1000))

    async def _missing_brokers(self) -> str | None:
        d = self.d
        wanted = await asyncio.to_thread(live_brokers, self.d.session)
        image = d.controller.image
        d.now.trouble = None
        ready = {broker.id for broker in image.brokers.values() if broker.migrating and not broker.fenced}
        missing = sorted(wanted - ready)
        if not wanted:
            return f"no broker is in {paths.BROKER_IDS}"
        if missing:
            odd_hosts = d.controller.contacts.odd_hosts
            d.now.trouble = ibp_differs(d.controller.kept_out(), image) or next(iter(odd_hosts.values()), None)
            if d.now.trouble is not None:
                return d.now.trouble.text
            return f"brokers {missing} are not registered and unfenced yet ({len(wanted & ready)}/{len(wanted)})"
        return None

    async def _evidence(self) -> Evidence:
        """Read, encode and ask everything that the gate wants to know."""
        d = self.d
        before = d.now.tree
        tree, d.now.copy = await asyncio.to_thread(self._read_ahead, before, d.now.copy)
        d.now.tree = tree
        await asyncio.to_thread(read_guards, d.session, tree)
        d.controller.removals.take_places(replicas_gone(before, tree))
        observed = await asyncio.to_thread(read_claim, d.session)
        brokers = reachable(d.controller.image)
        if d.now_ms() - self._exported_ms > EXPORT_FRESH_MS:
            d.now.exported = None  # what is kept from days ago is no way back from what is claimed today
        whom = (brokers, d.config.inter_broker_listener, str(d.config.node_id), d.to_brokers)
        d.now.surveys, failed = await survey_brokers(*whom)
        settings, silent = await ask_settings(*whom)
        denied, unknown = await ask_denied(*whom)
        limits = await asyncio.to_thread(self._limits.ask, d.session.connect, d.config.jute_maxbuffer)
        return Evidence(
            tree=tree,
            observed=observed,
            image=d.controller.image,
            voters=d.config.voter_ids,
            foreign_voters=d.quorum.foreign_voters(),
            voters_enabled=await self._voters_enabled(),
            kraft_epoch=d.epoch,
            heartbeat_age_ms=d.controller.heartbeat_ages_ms(),
            estimated_ms=3 * self._read_ms + self._encode_ms,
            takeover_max_ms=d.config.takeover_max_ms,
            laboratory=d.laboratory,
            exported=d.now.exported,
            inter_broker_listener=d.config.inter_broker_listener,
            unasked=failed,
            denied={broker: found for broker, found in denied.items() if found},
            denials_unknown=unknown,
            unexplained=await asyncio.to_thread(self._unexplained, tree),
            cluster_id=d.controller.settings.cluster_id,
            waived=d.config.waived,
            ours=replace(controller_settings(d.config), level=d.controller.image.metadata_version),
            broker_settings=settings,
            settings_unread=silent,
            passwords=d.passwords,
            limits={each.server: each.passed for each in limits if not each.unknown},
            limits_unknown={each.server: each.unknown for each in limits if each.unknown},
            jute_maxbuffer=d.config.jute_maxbuffer,
        )

    def _unexplained(self, tree: Tree) -> list[Occurrence]:
        """On a thread: what the full send of this tree would take from the brokers, today as at the look before."""
        topics = {name: reading.topic for name, reading in tree.topics.items()}
        gone, surveys = self.d.controller.removals, list(self.d.now.surveys.values())
        observed = [found for each in surveys for found in strays(each, topics, gone.topics, gone.replicas)]
        before, self._strays = self._strays, {found.text for found in observed}
        lasting = [found for found in observed if found.text in before]
        return [found for each in surveys for found in without_ids(each, topics)] + lasting

    def _read_ahead(self, before: Tree | None, copy: Copy | None) -> tuple[Tree, Copy]:
        """On a thread: the tree, its records and the proof of both, reusing what did not move.

        An act that is cancelled leaves its thread behind: it changes nothing that the driver has, and another one waits
        for it.
        """
        with self._reading:
            limits = UNLIMITED if before is not None else CONSIDERATE
            started = time.monotonic()
            tree = read_tree(self.d.session, limits, before)
            read = time.monotonic()
            copy = make_copy(tree, copy, self.d.passwords)
            self._read_ms = int((read - started) * 1000)
            self._encode_ms = max(self._encode_ms, int((time.monotonic() - read) * 1000))
            self._audit.ahead(copy, limits)
            self._look_ms = int((time.monotonic() - started) * 1000)
            return tree, copy

    async def _export(self) -> None:
        d = self.d
        directory = d.config.export_dir or d.config.metadata_log_dir / "zk2kraft-exports"
        stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
        file = Path(directory) / f"zookeeper-{stamp}.jsonl.gz"
        d.now.wait_because(f"a ZooKeeper export is taken to {file}")
        info = await asyncio.to_thread(export, d.session, file, CONSIDERATE)
        log.info("zookeeper.exported", file=info.file, znodes=info.znodes, sha256=info.sha256)
        d.now.exported = info.file
        self._exported_ms = d.now_ms()

    # --- after an abort ------------------------------------------------------------------------------------

    async def hold(self) -> Happened:
        """Nothing happens by itself here; a person allows another takeover."""
        d = self.d
        if d.now.finding is None:
            d.now.finding = LATCHED.found(mark=d.controller.newest.marks.get(Mark.TAKEOVER))
            d.now.reason = d.now.finding.text
        while True:
            if d.operations.takeover:
                await d.controller.mark(Mark.TAKEOVER, "")
                d.now.finding = None
                return Happened.UNLATCHED
            await d.events.changed(5.0)
