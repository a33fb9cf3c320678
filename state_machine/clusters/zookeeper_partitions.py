"""The partitions of a cluster before the takeover: they stand in ZooKeeper only, and the log has the registrations.

In:   a look at the log and the brokers that ZooKeeper has. Out: the same look with the counts of its partitions.
Elsewhere: reading a tree (migrator.node.zookeeper.tree_reader), counting (migrator.model.partition_figures), who needs
it: rolling restarts of BROKERS_JOINING.
Rules: a thread and a session of its own, at most a fifth of the time in use. A reading that began before a broker came
or went says nothing: until the next one, the partitions are not known.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, Protocol

import msgspec

from migrator.driver.tree import Tree, as_image
from migrator.findings.content import STATE_MISSING
from migrator.findings.finding import FindingError, words_of
from migrator.model.at_a_stop import MinIsr, TakenAtStop
from migrator.model.image import EMPTY, Image
from migrator.model.partition_figures import PartitionCounter
from migrator.node.zookeeper.tree_reader import read_tree
from migrator.zk.pipeline import CONSIDERATE
from migrator.zk.session import ZkSession
from state_machine.clusters.log_observer import NOT_KNOWN, LogObservation

CONNECT_S: Final = 5.0
EVERY_S: Final = 2.0
REST: Final = 4.0
"""Times the duration of a reading, before the next one."""
FRESH_S: Final = 30.0


class ZooKeeperFigures(msgspec.Struct, frozen=True):
    """Counts of partitions. reassignments: also those that are only ordered. leaderless: also those without a state.

    under_replicated_leader: as of the log (log_observer.py).
    """

    topics: int = 0
    partitions: int = 0
    under_replicated: int = 0
    under_replicated_leader: int | None = None
    under_min_isr: int = 0
    reassignments: int = 0
    leaderless: int = 0
    single: TakenAtStop = TakenAtStop()
    at_minimum: TakenAtStop = TakenAtStop()
    min_isr: MinIsr = MinIsr()


class FiguresReader(Protocol):
    """Blocks. Raises a finding, or whatever kazoo makes of a server."""

    def read(self, min_isr: Mapping[int, int]) -> ZooKeeperFigures: ...
    def close(self) -> None: ...


class PartitionSource(Protocol):
    """The partitions of one cluster, as far as a look needs them."""

    def joined(
        self, log: LogObservation, live: tuple[int, ...], now: float, min_isr: Mapping[int, int] = NOT_KNOWN
    ) -> LogObservation: ...
    async def close(self) -> None: ...


class TreeFigures:
    """A session that is kept. Topics that did not move since the reading before are not parsed or counted again."""

    def __init__(self, connect: str) -> None:
        self._connect = connect
        self._session: ZkSession | None = None
        self._tree: Tree | None = None
        self._image: Image = EMPTY
        self._counter = PartitionCounter()

    def read(self, min_isr: Mapping[int, int]) -> ZooKeeperFigures:
        self._counter.min_isr_of_files = min_isr
        if self._session is None:
            self._session = ZkSession(self._connect).start(CONNECT_S)
        tree = read_tree(self._session, CONSIDERATE, self._tree)
        self._image = as_image(tree, self._image)
        self._tree = tree
        figures = self._counter.count(self._image)
        without_state = sum(each.code == STATE_MISSING.code for each in tree.problems)
        return ZooKeeperFigures(
            topics=len(tree.topics),
            partitions=figures.partitions,
            under_replicated=figures.under_replicated,
            under_replicated_leader=figures.under_replicated_leader,
            under_min_isr=figures.under_min_isr,
            reassignments=max(figures.reassignments, len(tree.ordered_moves)),
            leaderless=figures.leaderless + without_state,
            single=figures.single,
            at_minimum=figures.at_minimum,
            min_isr=figures.min_isr,
        )

    def close(self) -> None:
        if self._session is not None:
            self._session.close()


@dataclass(frozen=True, slots=True)
class _Reading:
    """began: by the wall clock. took_s: how long it lasted."""

    began: float
    took_s: float
    figures: ZooKeeperFigures


class ZooKeeperPartitions:
    """The partitions of one migration, read again and again on a thread. reader: what it reads with."""

    def __init__(self, connect: str, reader: FiguresReader | None = None) -> None:
        self._reader = reader or TreeFigures(connect)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="zookeeper-partitions")
        self._pending: asyncio.Future[_Reading] | None = None
        self._reading: _Reading | None = None
        self._problem = ""
        self._mark: object = None
        self._min_isr: Mapping[int, int] = NOT_KNOWN
        self._moved_at = 0.0
        self._next_at = 0.0
        self._steady: Callable[[], float] = time.monotonic

    def joined(
        self, log: LogObservation, live: tuple[int, ...], now: float, min_isr: Mapping[int, int] = NOT_KNOWN
    ) -> LogObservation:
        """Never waits: a reading that is due is begun, and counts from the look that finds it done. min_isr: as of the
        log (log_observer.py).
        """
        self._min_isr = min_isr
        if not log.known:
            return log
        mark = live, tuple((each.id, each.incarnation, each.fenced) for each in log.brokers)
        if mark != self._mark or now < self._moved_at:
            self._mark, self._moved_at, self._next_at = mark, now, 0.0
        self._take_result()
        self._begin(now)
        problem = self._why_unknown(now)
        if problem:
            return msgspec.structs.replace(log, problem=problem)
        assert self._reading is not None, "there is a reading where nothing speaks against it"
        return msgspec.structs.replace(log, **msgspec.structs.asdict(self._reading.figures))

    async def close(self) -> None:
        """Ending the session ends a reading that hangs."""
        await asyncio.to_thread(self._reader.close)
        self._thread.shutdown(wait=False, cancel_futures=True)
        if self._pending is not None:
            ended, _ = await asyncio.wait({self._pending}, timeout=CONNECT_S)
            for each in ended:
                if not each.cancelled():
                    each.exception()  # read, so that asyncio does not report it

    def _why_unknown(self, now: float) -> str:
        if self._problem:
            return f"the partitions in ZooKeeper are not read: {self._problem}"
        if self._reading is None or self._reading.began < self._moved_at:
            return "the partitions in ZooKeeper are read anew, since a broker came or went"
        age, most = now - self._reading.began, FRESH_S + (REST + 1) * self._reading.took_s
        return f"the partitions in ZooKeeper were last read {age:.0f} s ago" if age > most else ""

    def _begin(self, now: float) -> None:
        if self._pending is None and self._steady() >= self._next_at:
            self._pending = asyncio.get_running_loop().run_in_executor(self._thread, self._read, now)

    def _read(self, now: float) -> _Reading:
        began = self._steady()
        figures = self._reader.read(self._min_isr)
        return _Reading(now, self._steady() - began, figures)

    def _take_result(self) -> None:
        if self._pending is None or not self._pending.done():
            return
        done, self._pending = self._pending, None
        try:
            self._reading, self._problem = done.result(), ""
        except FindingError as error:
            self._problem = f"{error.code} {error.occurrence.text}"
        except Exception as error:  # whatever kazoo makes of an address or of what stands in a znode
            self._problem = words_of(error)
        took = 0.0 if self._reading is None else self._reading.took_s
        stale = self._reading is not None and self._reading.began < self._moved_at
        self._next_at = self._steady() + (0.0 if stale and not self._problem else max(EVERY_S, REST * took))
