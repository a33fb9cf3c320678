"""Three real controllers under the simulator, with requests in flight: brokers, administrators, duties, a rollback.

In:   a seed. Out: a `Result`, as of the simulated cores (runner.py).
Each voter is the real `ActiveController` with its periodic tasks on the real shell (shell.py), in one loop with
virtual time. Brokers and administrators ask several things at once; what counts as "many" is a handful, so that many
decisions are made apart, on threads that end in an order of the seed's. Files are in memory and do not fail: what is
looked for is what requests do to each other, not what disks do (`--shell`).
Elsewhere: who asks (stand_ins.py), what must hold of what is committed (cluster.py) and answered (acknowledged.py).
"""

from __future__ import annotations

import asyncio
import multiprocessing
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, NoReturn, TypeVar, TypeVarTuple

import pytest

from migrator.controller.authorizer import AuthorizerRules
from migrator.controller.partitions import mass
from migrator.model.image import METADATA_VERSION
from migrator.node.leader import active_controller, periodic_tasks
from migrator.node.leader.active_controller import ActiveController, CommitListeners
from migrator.node.leader.pending_appends import LeadershipLost
from migrator.node.leader.periodic_tasks import run_periodic_tasks
from migrator.node.log import payloads
from migrator.node.log.log_store import LogStore
from migrator.node.log.storage import read_election_state
from migrator.node.process.startup import replay_stored, view_of
from migrator.node.quorum.raft_node import RaftNode
from migrator.raft.roles import QuorumSettings
from migrator.raft.types import Payload, SnapshotId
from migrator.raft.voter import Voter
from migrator.wire.batch import peek, read_batch
from migrator.wire.messages.metadata import FeatureLevelRecord, NoOpRecord, RegisterControllerRecord
from migrator.wire.records import decode_record
from tests.sim.acknowledged import Acknowledged
from tests.sim.cluster import ClusterLog
from tests.sim.invariants import Violation
from tests.sim.runner import Result
from tests.sim.shell import CLUSTER, VOTERS, Ledger, ShellNode, ShellWorld, SimulatedDisk, _a_place, _silence
from tests.sim.stand_ins import Administrator, StandInBroker, StandInDriver
from tests.sim.virtual_loop import VirtualLoop
from tests.support.situations import the_settings

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

STORM_S: Final = 2.2
HEAL_S: Final = 15.0
BROKERS: Final = (1, 2, 3, 4)
LEVEL: Final = 21
SETTINGS: Final = QuorumSettings(
    election_timeout_ms=150,
    fetch_timeout_ms=300,
    election_backoff_max_ms=100,
    request_timeout_ms=300,
    retry_backoff_ms=10,
    fetch_wait_ms=100,
    snapshot_part_bytes=4_000,
    snapshot_after_bytes=12_000,
    retention_bytes=0,
)
DUTIES: Final[Any] = SimpleNamespace(
    idle_interval_ms=150,
    auto_leader_rebalance=True,
    leader_imbalance_check_interval_s=0.3,
    unclean_check_interval_ms=200,
    token_check_interval_ms=1_000,
)
SESSION_MS: Final = 400
FAULTS: Final = ("kill", "isolated", "resign", "kill of all")
HAPPENED: Final = (
    *FAULTS, "elections", "snapshots taken", "decided apart", "waited for a decision apart", "copies",
    "rollbacks begun", "quiet times", "healed", "leaders that changed", "ISRs that shrank", "ISRs that grew",
    "brokers fenced", "brokers let go", "brokers silent", "AlterPartition done", "AlterPartition refused in part",
    "CreateTopics done", "CreateTopics refused in part", "DeleteTopics done", "CreatePartitions done",
    "ElectLeaders done", "AlterPartitionReassignments done", "IncrementalAlterConfigs done", "CreateAcls done",
    "BrokerRegistration done",     "BrokerHeartbeat done", "requests without an answer",
)  # fmt: skip
"""A run of many seeds in which any of it never happened proves less than it seems to."""


class SeededLoop(VirtualLoop):
    """A thread does its work at once or at its end, as the seed says, and takes its time either way."""

    def __init__(self, rng: random.Random, thread_s: float) -> None:
        super().__init__(lambda: rng.random() * thread_s)
        self._rng = rng

    def run_in_executor(self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        if self._rng.random() < 0.5:
            return super().run_in_executor(executor, func, *args)
        try:
            value = func(*args)
        except Exception as error:
            return super().run_in_executor(executor, _raises, error)
        return super().run_in_executor(executor, lambda: value)


def _raises(error: Exception) -> NoReturn:
    raise error


class WatchedRaft(RaftNode):
    """The real one; what is appended and applied is looked at."""

    node: ControllerVoter

    def append(self, epoch: int, payloads: list[Payload]) -> int:
        if self.node.driver.is_quiet:
            self.node.world.checked(lambda: _refuse_in_quiet(self.node.id, payloads))
        return super().append(epoch, payloads)

    def applied(self, end: int, size: int) -> None:
        settled, image = self.node.controller._log._settled
        if settled == end:
            self.node.world.checked(lambda: self.node.world.log.shown(self.node.id, end, image))
        super().applied(end, size)


def _refuse_in_quiet(voter: int, payloads: list[Payload]) -> None:
    for payload in payloads:
        for value in read_batch(payload.batch).values:
            record = decode_record(value)
            if not isinstance(record, NoOpRecord | RegisterControllerRecord):
                story = f"voter {voter} appends {record}"
                raise Violation("safety: an append after everything was quiet for a rollback", story)


class WatchedMachine:
    """The active controller, as the quorum sees it; what commits is shown to the rules first."""

    def __init__(self, node: ControllerVoter) -> None:
        self._node = node

    def lead(self, epoch: int, start: int) -> None:
        world = self._node.world
        world.count("elections")
        world.tell(f"voter {self._node.id} leads epoch {epoch}")
        world.checked(lambda: world.ledger.led(epoch, self._node.id))
        self._node.led_from = start
        self._node.controller.lead(epoch, start)

    def stop_leading(self, epoch: int) -> None:
        self._node.controller.stop_leading(epoch)

    def committed(self, high_watermark: int) -> None:
        self._node.world.committed(self._node.raft.store, high_watermark)
        self._node.controller.committed(high_watermark)

    def snapshot_values(self, snapshot: SnapshotId) -> Any:
        self._node.world.count("snapshots taken")
        return self._node.controller.snapshot_values(snapshot)

    def load_snapshot(self, snapshot: SnapshotId) -> None:
        """It is replayed on a thread; the image is looked at when it is applied (`WatchedRaft.applied`)."""
        self._node.controller.load_snapshot(snapshot)
        self._node.world.count("snapshots loaded")


class ControllerVoter(ShellNode):
    """One controller, through all its lives; its directory is never lost."""

    world: RequestWorld
    led_from = 0

    def __init__(self, number: int, world: RequestWorld) -> None:
        self.controller: ActiveController
        self.driver = StandInDriver(self, world)
        self.tasks: set[asyncio.Task[Any]] = set()
        super().__init__(number, world)

    def _powered(self) -> Any:
        return None

    def known_end(self) -> int:
        """Where the log ends that it shows: what came before its own epoch, and what it has published since."""
        return max(self.led_from, self.controller.image.position.offset + 1) if hasattr(self, "controller") else 0

    def run(self, work: Any) -> asyncio.Task[Any]:
        """Something of this life."""
        task = self.world.loop.create_task(work)
        self.keep(task)
        return task

    def keep(self, task: asyncio.Task[Any]) -> None:
        if task not in self.tasks:
            self.tasks.add(task)
            task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self.tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None and not isinstance(error, LeadershipLost):
            self.world.failed(error)

    def _start(self, store: LogStore) -> None:
        world, loop = self.world, self.world.loop
        rng = random.Random(world.rng.getrandbits(48))
        voter = Voter(
            node_id=self.id,
            voters=VOTERS,
            cluster_id=CLUSTER,
            state=read_election_state(self.log),
            log=view_of(store),
            settings=SETTINGS,
            chance=lambda n: int(rng.random() * n),
        )
        ahead = replay_stored(store)
        now_ms = lambda: int(loop.time() * 1000)  # noqa: E731
        self.raft = raft = WatchedRaft(
            voter, store, on_fatal=self._ended, now_ms=now_ms, wall_ms=now_ms, disk=self._disk
        )
        raft.node = self
        self.driver = StandInDriver(self, world)
        listeners = CommitListeners()
        listeners.join(self.driver)
        self.controller = ActiveController(
            raft,
            the_settings(
                node_id=3000 + self.id,
                cluster_id=CLUSTER,
                session_timeout_ms=SESSION_MS,
                authorizer=AuthorizerRules(frozenset(), allow_everyone=True),
            ),
            ahead,
            [(FeatureLevelRecord(name=METADATA_VERSION, feature_level=LEVEL), 0)],
            chance=random.Random(rng.getrandbits(48)),
            gatekeeper=self.driver,
            commit_listeners=listeners,
            on_lead=lambda epoch: self.driver.begins(epoch),
            on_refused=world.failed,
            on_retired=lambda text: None,
        )
        raft.peers = self  # type: ignore[assignment]  # as in shell.py: it sends, which is all that the shell asks
        raft.state_machine = WatchedMachine(self)
        self.run(run_periodic_tasks(self.controller, DUTIES, self._alarmed))
        raft.start()

    def _alarmed(self, name: str, found: Any) -> None:
        if found is not None:
            self.world.broken(Violation("safety: a duty failed", f"voter {self.id}: {name}: {found.text}"))

    def _disk(self, store: LogStore) -> QuickDisk:
        self.disk = QuickDisk(self, store)
        return self.disk

    def die(self, life: int, *, power_cut: bool = False) -> None:
        """Everything in memory is gone, and whoever waits for an answer hears nothing."""
        if not self.alive or life != self.lives:
            return
        self.alive = False
        if hasattr(self, "raft"):
            self._drop()
        self.world.loop.call_later(self.world.rng.random() * 0.4, self.boot)

    def _drop(self) -> None:
        self.driver.is_quiet = False
        for task in (*self.tasks, self.controller._catching_up):
            if task is not None:
                task.cancel()
        super()._drop()

    async def submit(self, request: Any, version: int) -> Any:
        """None when this voter dies before it answers."""
        if not self.alive or not hasattr(self, "raft"):
            return None
        if self.controller._is_apart or not self.controller._resumed.is_set():
            self.world.count("waited for a decision apart")
        task = self.run(self.controller.submit(request, version))
        await asyncio.wait({task})
        return None if task.cancelled() or task.exception() is not None else task.result()


class QuickDisk(SimulatedDisk):
    """Never hangs, and takes a few milliseconds."""

    def _later(self, descriptor: int, done: asyncio.Future[float]) -> None:
        world = self._node.world
        world.loop.call_later(world.rng.random() * 0.004, self._flush, descriptor, done)


class RequestWorld(ShellWorld):
    """One run."""

    def __init__(self, seed: int, root: Path, patched: pytest.MonkeyPatch) -> None:
        self.rng = rng = random.Random(seed)
        self.root = root
        self.is_calm = rng.random() < 0.5
        self.loop = SeededLoop(rng, rng.choice((0.002, 0.02, 0.06)))
        self.loop.set_exception_handler(self._unexpected)
        self.counts: Counter[str] = Counter()
        self.ledger = Ledger()
        self.log = ClusterLog()
        self.acknowledged = Acknowledged(self.log)
        self.told: list[tuple[float, Any]] = []
        self.violation: Violation | None = None
        self.healed = False
        self.cluster_id = CLUSTER
        self.operations = 0
        self.in_flight: set[asyncio.Task[Any]] = set()
        self._make_few_many(patched)
        self.nodes: Mapping[int, ControllerVoter] = {number: ControllerVoter(number, self) for number in VOTERS}
        self.brokers = [StandInBroker(number, self) for number in BROKERS]
        self.administrator = Administrator(self)

    def _make_few_many(self, patched: pytest.MonkeyPatch) -> None:
        """Decisions about a handful are made apart, and appended and published in slices of less."""
        few = self.rng.choice((1, 3, 6))
        patched.setattr(mass, "SLICE_RECORDS", few)
        patched.setattr(mass, "CONFIG_CHARACTERS", self.rng.choice((0, 100)))
        patched.setattr(active_controller, "SLICE_RECORDS", self.rng.choice((1, 2, few, 500)))
        patched.setattr(payloads, "BATCH_RECORDS_MAX", self.rng.choice((1, 3, 10_000)))
        patched.setattr(periodic_tasks, "time", SimpleNamespace(monotonic=self.loop.time))
        apart = ActiveController._apart

        async def counted(controller: ActiveController, *given: Any) -> Any:
            """The loop alone keeps such a task; a voter that dies takes it along."""
            self.count("decided apart")
            raft, task = controller._raft, asyncio.current_task()
            assert isinstance(raft, WatchedRaft)
            assert task is not None
            raft.node.keep(task)
            return await apart(controller, *given)

        patched.setattr(ActiveController, "_apart", counted)

    def tell(self, line: Any) -> None:
        if self.violation is None:
            self.told.append((self.loop.time(), line))

    def lines(self) -> list[str]:
        return [f"{at:9.3f} s  {line}" for at, line in self.told]

    # --- what is seen ---------------------------------------------------------------------------------------

    def committed(self, store: LogStore, high_watermark: int) -> None:
        """Whoever knows of more than everybody before shows it to the rules."""
        while self.log.end < high_watermark:
            data = store.read(self.log.end, high_watermark, 1)
            self.checked(partial(self.log.committed, data))
            assert peek(data).last_offset + 1 == self.log.end

    def failed(self, error: BaseException) -> None:
        if isinstance(error, Violation):
            self.broken(error)
        elif not isinstance(error, asyncio.CancelledError):
            self.broken(Violation("safety: a request or an act ended with an exception", repr(error)))

    def _unexpected(self, loop: Any, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if error is not None:
            self.failed(error)

    def leader(self) -> ControllerVoter | None:
        """Whom a client takes for the leader; now and then somebody else."""
        alive = [node for node in self.nodes.values() if node.alive and hasattr(node, "raft")]
        leading = [node for node in alive if node.leads]
        if leading and (self.healed or self.rng.random() < 0.95):
            return leading[-1]
        return self.rng.choice(alive) if alive else None

    def ask(self, request: Any, version: int = 0) -> asyncio.Task[Any]:
        """Ask in the background; the task returns the answer, or None where there was none."""
        task = self.loop.create_task(self._ask(request, version))
        self.in_flight.add(task)
        task.add_done_callback(self._answered)
        return task

    def _answered(self, task: asyncio.Task[Any]) -> None:
        self.in_flight.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.failed(error)

    async def _ask(self, request: Any, version: int) -> Any:
        self.operations += 1
        await asyncio.sleep(self.rng.random() * 0.01)
        node, end = self.leader(), self.log.end
        known = end if node is None else node.known_end()
        reply = None if node is None else await node.submit(request, version)
        kind = type(request).__name__.removesuffix("Request")
        if reply is None:
            self.count("requests without an answer")
            self.acknowledged.unanswered(request)
            return None
        assert node is not None
        self.tell(_Answer(node.id, kind, request, reply))
        self.checked(lambda: self.acknowledged.answered(request, reply, end, known))
        await asyncio.sleep(self.rng.random() * 0.005)
        return reply

    # --- the run --------------------------------------------------------------------------------------------

    async def run(self) -> None:
        for node in self.nodes.values():
            node.boot()
        clients: tuple[StandInBroker | Administrator, ...] = (*self.brokers, self.administrator)
        lives = [self.loop.create_task(each.live()) for each in clients]
        for task in lives:
            task.add_done_callback(self._answered)
        while self.loop.time() < STORM_S and self.violation is None:
            await asyncio.sleep(0.1 + self.rng.random() * 0.6)
            if not self.is_calm:
                self._fault()
        await self._heal()
        for task in lives:
            task.cancel()
        for node in self.nodes.values():
            if node.alive:
                node.alive = False
                node._drop()
        if self.violation is not None:
            raise self.violation

    def _fault(self) -> None:
        kind = self.rng.choice(FAULTS)
        node = self.nodes[self.rng.choice(VOTERS)]
        leaders = [each for each in self.nodes.values() if each.leads]
        if leaders and self.rng.random() < 0.6:
            node = leaders[-1]
        self.count(kind)
        self.tell(f"{kind}: voter {node.id}")
        match kind:
            case "kill":
                node.die(node.lives)
            case "kill of all":
                for each in self.nodes.values():
                    each.die(each.lives)
            case "isolated":
                node.cut_off_until = self.loop.time() + self.rng.random() * 0.8
            case "resign":
                if node.alive and hasattr(node, "raft"):
                    node.controller.resign()

    async def _heal(self) -> None:
        """From here on everybody who asks gets an answer, every broker comes back, and what can be led is led."""
        self.healed = True
        self.tell("healed")
        deadline, asked = self.loop.time() + HEAL_S, set(self.in_flight)
        while self.violation is None:
            lacking = self._lacking(asked)
            if not lacking:
                self.acknowledged.at_the_end()
                self.counts.update(self.acknowledged.answers)
                self._count_changes()
                self.count("healed")
                return
            if self.loop.time() > deadline:
                raise Violation("liveness: healed, and yet", lacking)
            await asyncio.sleep(0.05)

    def _lacking(self, asked: set[asyncio.Task[Any]]) -> str:
        """What is not well yet, in words; empty when everything is."""
        log = self.log
        if not self.administrator.is_done:
            return "a topic is not created"
        open_ = [task for task in asked if not task.done()]
        if open_:
            return f"{len(open_)} requests are not answered"
        inactive = [each for each in BROKERS if each not in log.brokers or not log.brokers[each].active]
        if inactive:
            return f"brokers {inactive} are not active"
        for (topic_id, partition), state in log.partitions.items():
            if state.leader < 0:
                return f"nobody leads {log.names[topic_id]}-{partition}: {state}"
        for node in self.nodes.values():
            if not node.alive or node.controller.image.topics != log.image.topics:
                return f"voter {node.id} does not have what is committed"
        return ""

    def _count_changes(self) -> None:
        for history in self.log.histories.values():
            for (_, before), (_, after) in pairwise(history):
                self.counts["leaders that changed"] += before.leader != after.leader
                self.counts["ISRs that shrank"] += not set(before.isr) <= set(after.isr)
                self.counts["ISRs that grew"] += not set(after.isr) <= set(before.isr)
        self.counts["brokers fenced"] += sum(fenced for _, _, fenced in self.log.lives)


@dataclass(frozen=True)
class _Answer:
    """A line of the story, which is written only if somebody reads it."""

    voter: int
    kind: str
    request: Any
    reply: Any

    def __str__(self) -> str:
        return f"{self.kind} at voter {self.voter}: {_brief(self.request)} -> {_brief(self.reply)}"


def _brief(message: Any) -> str:
    """The fields that say something."""
    text = ", ".join(f"{name}={_value(getattr(message, name))}" for name in message.__struct_fields__)
    return text[:300]


def _value(value: Any) -> str:
    if isinstance(value, bytes):
        return value.hex()[:6]
    if isinstance(value, tuple | list):
        return "[" + ", ".join(map(_value, value)) + "]"
    if hasattr(value, "__struct_fields__"):
        return "(" + ", ".join(_value(getattr(value, name)) for name in value.__struct_fields__) + ")"
    return str(value)


def run_requests_seed(seed: int) -> Result:
    """One run; never raises for what the simulation finds."""
    return _run(seed)[0]


def replay_requests_seed(seed: int) -> tuple[Result, list[str]]:
    """The same, with the whole story."""
    result, world = _run(seed)
    return result, world.lines()


def _run(seed: int) -> tuple[Result, RequestWorld]:
    result = Result(seed, 0, 0)
    with _silence(), _a_place() as root, pytest.MonkeyPatch.context() as patched:
        world = RequestWorld(seed, root, patched)
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
            world.loop.set_exception_handler(lambda loop, context: None)
            for task in asyncio.all_tasks(world.loop):
                task.cancel()
            world.loop.run_until_complete(asyncio.sleep(0))
            world.loop.close()
    return result, world


def run_requests_seeds(seeds: Iterable[int], processes: int = 1) -> Iterator[Result]:
    if processes <= 1:
        yield from map(run_requests_seed, seeds)
        return
    with multiprocessing.get_context("fork").Pool(processes) as pool:
        yield from pool.imap_unordered(run_requests_seed, seeds, chunksize=5)


def _report(seed: int, world: RequestWorld, violation: Violation) -> str:
    seen = "\n".join(f"    {line}" for line in world.lines()[-14:])
    return f"""SIMULATION OF REQUESTS IN FLIGHT FAILED  {violation.rule}
  seed {seed}   virtual time {world.loop.time():.3f} s
  {violation.story}
  before it:
{seen}
  replay   python -m tests.sim replay {seed} --requests"""
