"""The znodes that the migration itself made or changed, read from the ensemble before a rollback and after it.

In:   a snapshot in each round from dual-write on. Out: a `ZnodesDocument`, kept as the other documents are.
Elsewhere: who makes and deletes them (docs/undo.md has the list), the plan of a rollback without controllers
(migrator/node/tools/without_controllers.py), showing the list (change/report.py).
Rules: it only reads, in a session of its own, and never delays a round. Paths have the chroot. Znodes that the mirror
keeps as Kafka would have written them (topics, configuration and so on) are the audit's subject.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from typing import Any, Final

import msgspec
import structlog

from migrator.findings.finding import FindingError, words_of
from migrator.model.connect_string import chroot_of
from migrator.zk import paths
from migrator.zk.bulk_read import Znode
from migrator.zk.session import ZkSession
from state_machine.policy.phase_table import PHASES
from state_machine.policy.phases import Phase
from state_machine.rows.documents import ZNODES, ZnodeList, ZnodeRow, ZnodesDocument, document
from state_machine.rows.store import Snapshot, Store

log = structlog.get_logger()

CONNECT_S: Final = 5.0
AGAIN_S: Final = 60.0
"""From one reading to the next."""
NOT_OVER_S: Final = 3600.0
"""So long after a rollback it is read again while something of the migration is left: ephemeral znodes end with their
sessions. Later, what is there may be of another migration.
"""
DATA_SHOWN: Final = 200
CHANGED: Final = (paths.CONTROLLER, paths.CONTROLLER_EPOCH)
"""Kafka's own: a ZooKeeper controller has them as well."""
MADE: Final = (paths.MIGRATION, paths.FINALIZE_INTENT, paths.ROAD_LOCK)
OWN_PREFIXES: Final = (paths.PRESENCE_PREFIX, "zk2kraft_")


def read_znodes(connect: str, known: Iterable[str] = ()) -> tuple[ZnodeRow, ...]:
    """Blocks. connect: with its chroot. known: full paths that are listed also when they do not exist any more.

    Raises Z2K-2001, Z2K-2002 or Z2K-2004.
    """
    with closing(ZkSession(connect).start(CONNECT_S)) as session:
        session.sync()
        return znodes_of(session, chroot_of(connect), known)


def znodes_of(session: ZkSession, chroot: str, known: Iterable[str] = ()) -> tuple[ZnodeRow, ...]:
    """session: below this chroot."""
    names = session.children(paths.CLUSTER) or []
    own = [f"{paths.CLUSTER}/{name}" for name in names if name.startswith(OWN_PREFIXES)]
    earlier = [path.removeprefix(chroot) for path in known]
    wanted = dict.fromkeys((*CHANGED, *MADE, *own, *earlier))
    return tuple(_row(chroot + path, session.get(path)) for path in wanted)


def _row(path: str, znode: Znode | None) -> ZnodeRow:
    return ZnodeRow(path) if znode is None else ZnodeRow(path, znode.version, bool(znode.owner), _text(znode.data))


def _text(data: bytes | None) -> str:
    shown = (data or b"").decode(errors="replace")[:DATA_SHOWN]
    return "".join(each if each.isprintable() else "\ufffd" for each in shown)


def nothing_is_left(after: ZnodeList, chroot: str) -> bool:
    """Kafka's own znodes stay; every other one of the list is gone."""
    kept = {chroot + path for path in CHANGED}
    return not after.problem and not any(each.exists for each in after.znodes if each.path not in kept)


class OwnZnodes:
    """One reading at a time of each migration. read: blocks; as `read_znodes`."""

    def __init__(
        self,
        store: Store,
        read: Callable[[str, Iterable[str]], tuple[ZnodeRow, ...]] = read_znodes,
        clock: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._read = read
        self._clock = clock
        self._steady = steady
        self._reading: dict[int, tuple[bool, asyncio.Task[ZnodeList]]] = {}
        self._read_at: dict[tuple[int, bool], float] = {}

    async def tend(self, snapshot: Snapshot) -> None:
        """Beside the round: keep what was read, begin the next reading when it is due."""
        reading = self._reading.get(snapshot.id)
        if reading is not None:
            is_after, task = reading
            if task.done():
                del self._reading[snapshot.id]
                await self._keep(snapshot, task.result(), is_after=is_after)
            return
        kept = document(snapshot, ZNODES, ZnodesDocument) or ZnodesDocument()
        is_after = snapshot.phase is Phase.ROLLED_BACK
        last = self._read_at.get((snapshot.id, is_after), -AGAIN_S)
        if self._steady() - last < AGAIN_S or not self._is_wanted(snapshot, kept):
            return
        self._read_at[snapshot.id, is_after] = self._steady()
        known = () if kept.before is None else tuple(each.path for each in kept.before.znodes)
        task = asyncio.create_task(self._list(snapshot, known if is_after else ()))
        self._reading[snapshot.id] = is_after, task

    def _is_wanted(self, snapshot: Snapshot, kept: ZnodesDocument) -> bool:
        """In a rollback only where nothing was read before it: then the driver may be at work already."""
        if PHASES[snapshot.phase].audited:
            return True
        if snapshot.phase is Phase.ROLLING_BACK:
            return kept.before is None or bool(kept.before.problem)
        if snapshot.phase is not Phase.ROLLED_BACK:
            return False
        if self._clock() - snapshot.migration.since > NOT_OVER_S:
            return False
        return kept.after is None or not nothing_is_left(kept.after, chroot_of(snapshot.inventory.zookeeper))

    async def _list(self, snapshot: Snapshot, known: tuple[str, ...]) -> ZnodeList:
        at, phase = self._clock(), snapshot.phase.value
        try:
            return ZnodeList(at, phase, await asyncio.to_thread(self._read, snapshot.inventory.zookeeper, known))
        except FindingError as error:
            return ZnodeList(at, phase, problem=str(error))
        except Exception as error:  # whatever kazoo makes of it: this list holds up no rollback
            return ZnodeList(at, phase, problem=words_of(error))

    async def _keep(self, snapshot: Snapshot, found: ZnodeList, *, is_after: bool) -> None:
        """A reading that failed takes the place of none that gave something."""
        kept = document(snapshot, ZNODES, ZnodesDocument) or ZnodesDocument()
        earlier = kept.after if is_after else kept.before
        if found.problem and earlier is not None and not earlier.problem:
            return
        changed = {"after" if is_after else "before": found}
        document_: dict[str, Any] = msgspec.to_builtins(msgspec.structs.replace(kept, **changed))

        def write() -> None:
            self._store.record_document(snapshot.id, ZNODES, document_, at=self._clock())

        await self._store.away(write)
        if is_after and not found.problem:
            log.info("znodes.after_rollback", znodes={each.path: each.says for each in found.znodes})
