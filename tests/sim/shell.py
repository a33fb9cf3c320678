"""The real shell under the simulator: RaftNode, LogStore, SnapshotFiles and the stored promises, on files that fail.

In:   a seed. Out: a `Result`, as of the simulated cores (runner.py).
Three voters run on one loop with virtual time. Their disks are directories below which every call of `os` can refuse,
hang or lose its power; between them are messages that come late or never. What commits must be one history, an epoch
has one leader, a vote is given once, a snapshot is the state that it names, and a healed quorum goes on.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import multiprocessing
import os
import random
import shutil
import tempfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
import structlog

from migrator.findings.finding import FindingError
from migrator.node.log.log_store import LogStore
from migrator.node.log.snapshot_files import SnapshotFiles
from migrator.node.log.storage import LOG_NAME, read_election_state
from migrator.node.process.startup import view_of
from migrator.node.quorum.peers import batches_of
from migrator.node.quorum.raft_node import RaftNode
from migrator.raft.effects import SendBeginQuorumEpoch, SendEndQuorumEpoch, SendFetch, SendFetchSnapshot, SendVote
from migrator.raft.roles import QuorumSettings
from migrator.raft.types import (
    Event,
    FetchAnswered,
    FetchReceived,
    FetchSnapshotAnswered,
    FetchSnapshotReceived,
    LeaderClaimAnswered,
    LeaderClaimed,
    LeaderLeft,
    Payload,
    RequestFailed,
    SnapshotId,
    VoteAnswered,
    VoteReceived,
)
from migrator.raft.voter import Voter
from migrator.wire.batch import build_batch, peek, read_batches
from migrator.wire.errors import Error
from migrator.wire.messages.metadata import NoOpRecord
from migrator.wire.records import decode_record, encode_record
from tests.sim.invariants import Violation
from tests.sim.runner import Result
from tests.sim.virtual_loop import VirtualLoop
from tests.support.power import Power, PowerCut, Remains

CLUSTER: Final = "simulated"
VOTERS: Final = (1, 2, 3)
STORM_S: Final = 6.0
HEAL_S: Final = 20.0
SETTINGS: Final = QuorumSettings(
    election_timeout_ms=150,
    fetch_timeout_ms=300,
    election_backoff_max_ms=100,
    request_timeout_ms=300,
    retry_backoff_ms=10,
    fetch_wait_ms=100,
    snapshot_part_bytes=100,
    snapshot_after_bytes=1_500,
    retention_bytes=0,
)
FAULTS: Final = (
    "no descriptor", "no thread", "hung fsync", "full disk", "failed fsync", "power cut", "power cut of all", "kill",
    "isolated",
)  # fmt: skip
HAPPENED: Final = (*FAULTS, "elections", "commits", "snapshots taken", "snapshots loaded", "voters ended", "resigned")
"""A run of many seeds in which any of it never happened proves less than it seems to."""


class Ledger:
    """What must be one history, whoever tells it."""

    def __init__(self) -> None:
        self.batches: dict[int, bytes] = {}
        self.digests: dict[int, int] = {0: 0}
        self.leaders: dict[int, int] = {}
        self.votes: dict[tuple[int, int], int] = {}
        self.end = 0

    def committed(self, base: int, data: bytes, digest: int) -> int:
        known = self.batches.setdefault(base, data)
        if known != data:
            raise Violation("safety: two histories", f"another batch was committed at {base}")
        end = peek(data).last_offset + 1
        after = zlib.crc32(data, digest)
        if self.digests.setdefault(end, after) != after:
            raise Violation("safety: two histories", f"another state at {end}")
        self.end = max(self.end, end)
        return after

    def led(self, epoch: int, node: int) -> None:
        if self.leaders.setdefault(epoch, node) != node:
            raise Violation("safety: two leaders in one epoch", f"epoch {epoch}: {self.leaders[epoch]} and {node}")

    def voted(self, voter: int, epoch: int, candidate: int) -> None:
        if self.votes.setdefault((voter, epoch), candidate) != candidate:
            raise Violation("safety: two votes in one epoch", f"voter {voter}, epoch {epoch}")


class Machine:
    """A digest of everything that was committed."""

    def __init__(self, node: ShellNode) -> None:
        self.node = node
        self.applied = self.digest = 0

    def lead(self, epoch: int, start: int) -> None:
        self.node.world.count("elections")
        self.node.world.checked(lambda: self.node.world.ledger.led(epoch, self.node.id))

    def stop_leading(self, epoch: int) -> None:
        if self.node.hung_until > self.node.world.loop.time():
            self.node.world.count("resigned")

    def committed(self, high_watermark: int) -> None:
        size = 0
        while self.applied < high_watermark:
            data = self.node.raft.store.read(self.applied, high_watermark, 1)
            self._apply(peek(data).base_offset, data)
            size += len(data)
        if size:
            self.node.raft.applied(self.applied, size)

    def _apply(self, base: int, data: bytes) -> None:
        world = self.node.world
        self.digest = world.checked(lambda: world.ledger.committed(base, data, self.digest))
        self.applied = peek(data).last_offset + 1
        world.count("commits")

    def snapshot_values(self, snapshot: SnapshotId) -> Callable[[], Iterable[bytes]]:
        assert snapshot.end_offset == self.applied, f"{snapshot} of a state at {self.applied}"
        text = f"{self.applied}:{self.digest}"
        self.node.world.count("snapshots taken")
        return lambda: [encode_record(NoOpRecord(mark="state", mark_text=text), 0)]

    def load_snapshot(self, snapshot: SnapshotId) -> None:
        path = SnapshotFiles(self.node.log).path(snapshot)
        (value,) = (value for batch in read_batches(path.read_bytes()) for value in batch.values)
        record = decode_record(value)
        assert isinstance(record, NoOpRecord)
        end, digest = map(int, record.mark_text.split(":"))
        expected = self.node.world.ledger.digests.get(end)
        if end != snapshot.end_offset or digest != expected:
            self.node.world.broken(Violation("safety: a snapshot of another state", f"{snapshot}: {end}, {digest}"))
        self.node.world.count("snapshots loaded")
        self.applied, self.digest = end, digest


class SimulatedDisk:
    """Flushes that take their time, or do not end while the disk hangs."""

    def __init__(self, node: ShellNode, store: LogStore) -> None:
        if node.no_thread_until > node.world.loop.time():
            raise RuntimeError("can't start new thread")
        self._node = node
        self._store = store
        self._open: set[int] = set()

    def flush(self, descriptor: int) -> asyncio.Future[float]:
        done: asyncio.Future[float] = self._node.world.loop.create_future()
        self._open.add(descriptor)
        self._later(descriptor, done)
        return done

    def _later(self, descriptor: int, done: asyncio.Future[float]) -> None:
        world = self._node.world
        wait_s = max(world.rng.random() * 0.01, self._node.hung_until - world.loop.time())
        world.loop.call_later(wait_s, self._flush, descriptor, done)

    def _flush(self, descriptor: int, done: asyncio.Future[float]) -> None:
        if descriptor not in self._open:
            return
        if self._node.hung_until > self._node.world.loop.time():
            self._later(descriptor, done)
            return
        self._open.discard(descriptor)
        try:
            self._store.flush(descriptor)
        except BaseException as error:
            if not done.done():
                done.set_exception(error)
        else:
            if not done.done():
                done.set_result(0.0)

    def close(self) -> None:
        for descriptor in self._open:
            os.close(descriptor)
        self._open = set()


class ShellNode:
    """One voter, through all its lives."""

    def __init__(self, number: int, world: ShellWorld) -> None:
        self.id = number
        self.world = world
        self.raft: RaftNode
        self.machine: Machine
        self.disk: SimulatedDisk | None = None
        self.alive = False
        self.lives = 0
        self.moves = 0
        self.hung_until = self.no_thread_until = self.full_until = self.no_descriptor_until = self.cut_off_until = 0.0
        self.fsync_fails = False
        self.data = world.root / f"voter-{number}-0"
        self.data.mkdir()
        self.power = self._powered()

    @property
    def log(self) -> Path:
        return self.data / LOG_NAME

    @property
    def leads(self) -> bool:
        return self.alive and hasattr(self, "raft") and self.raft.leads(self.raft.voter.epoch)

    def _powered(self) -> Power:
        power = Power(self.data, self.world.root / f"{self.data.name}-graveyard")
        power.settle()
        self.world.patches.enter_context(power.watching(self.world.patched))
        return power

    def boot(self) -> None:
        if self.alive:
            return
        self.lives += 1
        self.alive = True
        store: LogStore | None = None
        try:
            store = LogStore.open(self.log, 2_000)
            self._start(store)
        except (PowerCut, OSError) as error:
            if store is not None and not hasattr(self, "raft"):
                store.abandon()
            self._ended(error)
        except FindingError as error:
            self.alive = False
            self.world.broken(Violation("safety: a start refuses what the disk kept", f"voter {self.id}: {error}"))

    def _start(self, store: LogStore) -> None:
        rng = random.Random(self.world.rng.getrandbits(48))
        voter = Voter(
            node_id=self.id,
            voters=VOTERS,
            cluster_id=CLUSTER,
            state=read_election_state(self.log),
            log=view_of(store),
            settings=SETTINGS,
            chance=lambda n: int(rng.random() * n),
        )
        loop = self.world.loop
        self.raft = RaftNode(
            voter,
            store,
            on_fatal=self._ended,
            now_ms=lambda: int(loop.time() * 1000),
            wall_ms=lambda: int(loop.time() * 1000),
            disk=self._disk,
        )
        self.machine = Machine(self)
        self.raft.peers = self  # type: ignore[assignment]
        self.raft.state_machine = self.machine
        if voter.log.snapshots:
            self.machine.load_snapshot(voter.log.snapshots[-1])
        self.raft.start()

    def _disk(self, store: LogStore) -> SimulatedDisk:
        self.disk = SimulatedDisk(self, store)
        return self.disk

    def _ended(self, error: BaseException) -> None:
        cause = error.__cause__ or error
        if not isinstance(cause, PowerCut | OSError | RuntimeError):
            self.world.broken(Violation("safety: a node refused to go on", f"voter {self.id}: {cause!r}"))
        self.world.count("voters ended")
        self.world.tell(f"voter {self.id} ends: {cause!r}")
        self.world.loop.call_soon(self.die, self.lives)

    def die(self, life: int, *, power_cut: bool = False) -> None:
        """Everything in memory is gone; with the power, what was not synced."""
        if not self.alive or life != self.lives:
            return
        self.alive = False
        if hasattr(self, "raft"):
            self._drop()
        if power_cut and not self.power.is_cut:
            self.power.fail()
        if self.power.is_cut:
            self._move_on()
        self.world.loop.call_later(self.world.rng.random() * 0.6, self.boot)

    def _drop(self) -> None:
        raft = self.raft
        raft._has_failed = raft._has_left = raft.flusher._is_stopping = True
        if raft._timer is not None:
            raft._timer.cancel()
        for task in (*raft._chores, raft.flusher._task):
            if task is not None:
                task.cancel()
        for future in raft._waiting.values():
            future.cancel()
        if self.disk is not None:
            self.disk.close()
        raft.store.abandon()
        del self.raft

    def _move_on(self) -> None:
        """What the disk has kept, in a directory of its own."""
        remains = self.world.rng.choice(list(Remains))
        self.moves += 1
        self.data = self.world.root / f"voter-{self.id}-{self.moves}"
        self.world.tell(f"voter {self.id} keeps {remains.name}")
        self.power.restore(remains, self.data)
        self.power = self._powered()

    # --- what its disk refuses -----------------------------------------------------------------------------

    def refuse(self, act: str) -> None:
        now = self.world.loop.time()
        if act in ("dup", "replace") and self.no_descriptor_until > now:
            raise OSError(errno.EMFILE, "Too many open files")
        if act in ("pwrite", "replace") and self.full_until > now:
            raise OSError(errno.ENOSPC, "No space left on device")
        if act == "fsync" and self.fsync_fails:
            self.fsync_fails = False
            self.power.fail()  # the system has thrown away what it could not write
            raise OSError(errno.EIO, "Input/output error")

    # --- its peers -----------------------------------------------------------------------------------------

    def send(self, effect: Any) -> None:
        self.world.loop.create_task(self._carry(effect, self.lives))

    async def close(self) -> None: ...

    async def _carry(self, effect: Any, life: int) -> None:
        world, target = self.world, self.world.nodes[effect.to]
        await asyncio.sleep(world.delay_s())
        if world.loses(self, target):
            return
        event: Event = RequestFailed(effect.request)
        if target.alive:
            try:
                event = await target.serve(effect)
            except asyncio.CancelledError:
                return
            except (PowerCut, OSError):
                event = RequestFailed(effect.request)
        await asyncio.sleep(world.delay_s())
        if self.alive and self.lives == life and not world.loses(target, self):
            self._take(event)

    def _take(self, event: Event) -> None:
        try:
            self.raft.receive(event)
        except (PowerCut, OSError):
            return  # it has been told that this node ends

    async def serve(self, ask: Any) -> Event:
        raft, number = self.raft, ask.request
        match ask:
            case SendVote():
                last, offset = ask.last_epoch, ask.last_offset
                vote = await raft.vote(
                    lambda n: VoteReceived(
                        n, CLUSTER, ask.to, ask.candidate, ask.epoch, last, offset, pre_vote=ask.pre_vote
                    )
                )
                if vote.granted and not ask.pre_vote:
                    self.world.checked(lambda: self.world.ledger.voted(self.id, ask.epoch, ask.candidate))
                return VoteAnswered(number, vote.error, vote.leader, vote.epoch, vote.granted, vote.top_level)
            case SendBeginQuorumEpoch():
                claim = await raft.leader_claim(lambda n: LeaderClaimed(n, CLUSTER, ask.leader, ask.epoch, ask.to))
                return LeaderClaimAnswered(number, claim.error, claim.leader, claim.epoch, claim.top_level)
            case SendEndQuorumEpoch():
                left = await raft.leader_claim(lambda n: LeaderLeft(n, CLUSTER, ask.leader, ask.epoch, ask.successors))
                return LeaderClaimAnswered(number, left.error, left.leader, left.epoch, left.top_level)
            case SendFetch():
                return await self._fetched(ask)
            case SendFetchSnapshot():
                return await self._piece(ask)
        raise AssertionError(ask)

    async def _fetched(self, ask: SendFetch) -> Event:
        raft = self.raft
        found = await raft.fetch(
            lambda n: FetchReceived(n, CLUSTER, ask.replica, ask.epoch, ask.offset, ask.last_epoch, ask.max_wait_ms)
        )
        data = b""
        if found.read_from is not None and found.error is Error.NONE:
            data = raft.store.read(found.read_from, found.read_to, 4_000)
        return FetchAnswered(
            ask.request, found.error, found.leader, found.epoch, found.high_watermark, tuple(batches_of(data)),
            found.diverging_epoch, found.diverging_end, found.snapshot, found.top_level,
        )  # fmt: skip

    async def _piece(self, ask: SendFetchSnapshot) -> Event:
        raft = self.raft
        found = await raft.fetch_snapshot(
            lambda n: FetchSnapshotReceived(
                n, CLUSTER, ask.replica, ask.epoch, ask.snapshot, ask.position, ask.max_bytes
            )
        )
        data = b""
        if found.error is Error.NONE:
            data = raft.snapshots.read(found.snapshot, found.position, found.max_bytes)
        return FetchSnapshotAnswered(
            ask.request, found.error, found.leader, found.epoch, found.snapshot, found.size, found.position, data,
            found.top_level,
        )  # fmt: skip


class ShellWorld:
    """One run."""

    def __init__(self, seed: int, root: Path, patches: ExitStack, patched: pytest.MonkeyPatch) -> None:
        self.rng = random.Random(seed)
        self.root = root
        self.patches = patches
        self.patched = patched
        self.loop = VirtualLoop(self._thread_takes_s)
        self.loop.set_exception_handler(self._unexpected)
        self.counts: Counter[str] = Counter()
        self.ledger = Ledger()
        self.story: list[str] = []
        self.violation: Violation | None = None
        self.healed = False
        self.operations = 0
        self.nodes: Mapping[int, ShellNode] = {number: ShellNode(number, self) for number in VOTERS}
        for act, path_of in (("dup", _of), ("pwrite", _of), ("fsync", _of), ("replace", lambda source, *_: source)):
            patched.setattr(os, act, self._refusing(act, getattr(os, act), path_of))

    def _refusing(self, act: str, real: Callable[..., Any], path_of: Callable[..., Any]) -> Callable[..., Any]:
        def called(*given: Any, **named: Any) -> Any:
            path = str(path_of(*given))
            for node in self.nodes.values():
                if path.startswith(str(node.data)):
                    node.refuse(act)
            return real(*given, **named)

        return called

    def _thread_takes_s(self) -> float:
        return self.rng.random() * 0.02

    # --- what is told --------------------------------------------------------------------------------------

    def count(self, what: str) -> None:
        self.counts[what] += 1

    def tell(self, line: str) -> None:
        self.story.append(f"{self.loop.time():9.3f} s  {line}")

    def broken(self, violation: Violation) -> None:
        if self.violation is None:
            self.violation = violation

    def checked(self, look: Callable[[], Any]) -> Any:
        try:
            return look()
        except Violation as violation:
            self.broken(violation)
            raise

    def _unexpected(self, loop: Any, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if not isinstance(error, PowerCut | OSError | asyncio.CancelledError | None):
            self.broken(Violation("crash", f"{context.get('message')}: {error!r}"))

    # --- messages ------------------------------------------------------------------------------------------

    def delay_s(self) -> float:
        return 0.001 + self.rng.random() * (0.004 if self.healed else 0.02)

    def loses(self, source: ShellNode, target: ShellNode) -> bool:
        if self.healed:
            return False
        now = self.loop.time()
        return source.cut_off_until > now or target.cut_off_until > now or self.rng.random() < 0.02

    # --- the run -------------------------------------------------------------------------------------------

    async def run(self) -> None:
        for node in self.nodes.values():
            node.boot()
        clients = self.loop.create_task(self._operate())
        while self.loop.time() < STORM_S and self.violation is None:
            await asyncio.sleep(0.1 + self.rng.random() * 0.6)
            self._fault()
        await self._heal()
        clients.cancel()
        for node in self.nodes.values():
            if node.alive:
                node.alive = False
                node._drop()
        if self.violation is not None:
            raise self.violation

    async def _operate(self) -> None:
        while True:
            await asyncio.sleep(0.005 + self.rng.random() * 0.03)
            for node in self.nodes.values():
                if node.leads:
                    self._append(node, node.raft.voter.epoch)

    def _append(self, node: ShellNode, epoch: int) -> None:
        self.operations += 1
        record = NoOpRecord(mark="op", mark_text=f"{self.operations}:{'x' * self.rng.randint(0, 120)}")
        batch = build_batch(base_offset=0, leader_epoch=0, timestamp_ms=1, values=[encode_record(record, 0)])
        try:
            node.raft.append(epoch, [Payload(1, batch)])
        except (PowerCut, OSError):
            return

    def _fault(self) -> None:
        kind = self.rng.choice(FAULTS)
        node = self.nodes[self.rng.choice(VOTERS)]
        leaders = [each for each in self.nodes.values() if each.leads]
        if leaders and self.rng.random() < 0.5:
            node = leaders[-1]
        until = self.loop.time() + self.rng.random() * 1.5
        self.count(kind)
        self.tell(f"{kind}: voter {node.id}")
        match kind:
            case "no descriptor":
                node.no_descriptor_until = until
            case "no thread":
                node.no_thread_until = until
                node.die(node.lives)
            case "hung fsync":
                node.hung_until = until
            case "full disk":
                node.full_until = until
            case "failed fsync":
                node.fsync_fails = True
            case "power cut":
                node.power.cut_at = node.power.steps + self.rng.randint(0, 12)
            case "power cut of all":
                for each in self.nodes.values():
                    each.die(each.lives, power_cut=True)
            case "kill":
                node.die(node.lives)
            case "isolated":
                node.cut_off_until = until

    async def _heal(self) -> None:
        self.healed = True
        self.tell("healed")
        for node in self.nodes.values():
            node.hung_until = node.no_thread_until = node.full_until = node.no_descriptor_until = 0.0
            node.fsync_fails = False
            node.power.cut_at = None
        deadline, target = self.loop.time() + HEAL_S, self.ledger.end + 20
        while self.violation is None:
            if all(each.alive and each.machine.applied >= target for each in self.nodes.values()):
                return
            if self.loop.time() > deadline:
                seen = {each.id: (each.alive, each.alive and each.machine.applied) for each in self.nodes.values()}
                raise Violation("liveness: a healed quorum makes no progress", f"wanted {target}: {seen}")
            await asyncio.sleep(0.05)


def _of(descriptor: int, *_: Any) -> str:
    return os.readlink(f"/proc/self/fd/{descriptor}")


@contextmanager
def _a_place() -> Iterator[Path]:
    memory = Path("/dev/shm")
    root = Path(tempfile.mkdtemp(prefix="shell-sim-", dir=memory if memory.is_dir() else None))
    try:
        yield root
    finally:
        shutil.rmtree(root, ignore_errors=True)


@contextmanager
def _silence() -> Iterator[None]:
    """Nothing is logged meanwhile; whoever logs afterwards in this process does it as before."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        yield
    finally:
        structlog.configure(**before)


def run_shell_seed(seed: int) -> Result:
    """One run; never raises for what the simulation finds."""
    result = Result(seed, 0, 0)
    with _silence(), _a_place() as root, ExitStack() as patches, pytest.MonkeyPatch.context() as patched:
        world = ShellWorld(seed, root, patches, patched)
        try:
            world.loop.run_until_complete(world.run())
        except Violation as violation:
            result.rule = violation.rule
            result.report = _report(seed, world, violation)
        except Exception as error:
            result.rule = f"crash: {type(error).__name__}"
            result.report = _report(seed, world, Violation(result.rule, repr(error)))
        finally:
            result.steps, result.virtual_ms = world.operations, int(world.loop.time() * 1000)
            result.counts = world.counts
            for task in asyncio.all_tasks(world.loop):
                task.cancel()
            world.loop.run_until_complete(asyncio.sleep(0))
            world.loop.close()
    return result


def run_shell_seeds(seeds: Iterable[int], processes: int = 1) -> Iterator[Result]:
    if processes <= 1:
        yield from map(run_shell_seed, seeds)
        return
    with multiprocessing.get_context("fork").Pool(processes) as pool:
        yield from pool.imap_unordered(run_shell_seed, seeds, chunksize=5)


def _report(seed: int, world: ShellWorld, violation: Violation) -> str:
    seen = "\n".join(f"    {line}" for line in world.story[-14:])
    return f"""SIMULATION OF THE SHELL FAILED  {violation.rule}
  seed {seed}   virtual time {world.loop.time():.3f} s
  {violation.story}
  before it:
{seen}
  replay   python -m tests.sim run --shell --seeds 1 --first {seed}"""
