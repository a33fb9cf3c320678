"""What many slow hosts cost the service, without any host: run by the interpreter of the checkout that is measured.

In:   `python hosts_work.py BROKERS CONTROLLERS DISKS CALL_S SECONDS`; product and world are those of the working
      directory. A call of a host sleeps CALL_S.
Out:  one line of JSON.
Elsewhere: both builds side by side, the table (hosts.py).
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import json
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec

from migrator.findings.fleet import FILE_ABSENT
from migrator.fleet.actuator import Done, Performed, ProcessState, ProcessStatus
from migrator.fleet.inventory import Inventory, parse_inventory
from migrator.model.image import EMPTY, Image
from state_machine.clusters.inventory import BrokerEntry, ClusterInventory, ControllerEntry
from state_machine.clusters.log_observer import LogBroker, LogObservation, LogVoter
from state_machine.clusters.observe import Observation, ZooKeeperObservation
from state_machine.policy.gates import Holder
from state_machine.policy.phases import Phase
from state_machine.settings import ServiceSettings
from tests.support.builders import a_partition, a_topic, an_image
from tests.support.stores import a_store

try:
    from state_machine.evidence.after_dual_write import fleet_evidence
    from state_machine.evidence.of_gates import evidence
    from state_machine.nodes.disks import look_at_disks
    from state_machine.nodes.fleet import Fleet, FleetNode
    from state_machine.policy.conditions import files_are_as_rendered, guards_are_proven
    from state_machine.policy.fleet_evidence import BROKERS, CONTROLLERS, Roll
    from state_machine.policy.outcome import Blocked
    from state_machine.rolling.loop import Roller
    from state_machine.rows.store import Snapshot, Store
    from state_machine.rows.tables import JournalRow, Migration
    from state_machine.work.acts_after_dual_write import ActsAfterDualWrite
except ModuleNotFoundError:  # a build like e48f2edd
    for module, names in {
        "evidence": "evidence",
        "policy.road_conditions": "files_are_as_rendered guards_are_proven",
        "policy.road_observations": "BROKERS CONTROLLERS Roll",
        "road.disks": "look_at_disks",
        "road.fleet": "Fleet FleetNode",
        "road.road_acts": "RoadActs=ActsAfterDualWrite",
        "road.road_evidence": "road_evidence=fleet_evidence",
        "road.roller": "Roller",
        "store": "Snapshot Store",
        "tables": "Migration RoadNode=JournalRow",
    }.items():
        found = import_module(f"state_machine.{module}")
        for there, _, here in (name.partition("=") for name in names.split()):
            globals()[here or there] = getattr(found, there)
    globals()["Blocked"] = None

GUARD = Path("docker/guard/zk2kraft-guard").read_bytes()
SSH = Path("docker/actuators/ssh-systemd.yaml").read_text()
SHARES_CONNECTIONS, READS_MANY = "ControlPersist" in SSH, "read_many" in SSH
GUARDED = "/usr/lib/guard"
TOPICS = 200
ROUND_S = 0.5
DECISIONS = 8
COMES_BACK_S = 10.0
ROLLED = 2
LOGS_OF_A_DISK = (5, 20)
"""Real disks have hundreds; the second figure is the one that counts."""
RACKS, OF_A_RACK = 6, 10
RACKS_ROLLED = 2
CAN_ROLL_RACKS = "at_once" in Inventory.__struct_fields__
FILE = """broker.id={id}
zookeeper.connect=zk:2181
zookeeper.metadata.migration.enable=true
inter.broker.protocol.version=3.9
listeners=PLAINTEXT://b{id}:9092
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
controller.quorum.voters={voters}
controller.listener.names=CONTROLLER
log.dirs={logs}
"""


@dataclass
class Calls:
    """Of all hosts."""

    call_s: float
    lock: threading.Lock = field(default_factory=threading.Lock)
    of: Counter[str] = field(default_factory=Counter)

    def on(self, host: str) -> None:
        with self.lock:
            self.of[host] += 1
        time.sleep(self.call_s)


@dataclass
class Process:
    """Of one host. started_at: by the steady clock; None while it is stopped. starts: of this run."""

    started_at: float | None = 0.0
    starts: int = 0

    @property
    def is_back(self) -> bool:
        """Registered and in every ISR."""
        return self.started_at is not None and time.monotonic() - self.started_at >= COMES_BACK_S


@dataclass(frozen=True)
class SlowHost:
    """One command, one sleep; with `read_many` in the shipped template, one for many paths."""

    host: str
    files: dict[str, bytes]
    names: dict[str, tuple[str, ...]]
    calls: Calls
    ahead: frozenset[str] = frozenset()
    kind: str = "exec"
    process: Process = field(default_factory=Process)

    def reading_ahead(self, paths: Sequence[str]) -> SlowHost:
        if not READS_MANY or set(paths) <= self.ahead:
            return self
        self.calls.on(self.host)
        return replace(self, ahead=self.ahead | set(paths))

    def read(self, path: str) -> bytes | None:
        if path not in self.ahead:
            self.calls.on(self.host)
        if path not in self.files:
            raise FILE_ABSENT.error(path=path, node=0)
        return self.files[path]

    def list(self, directory: str) -> tuple[str, ...] | None:
        if directory not in self.ahead:
            self.calls.on(self.host)
        return self.names[directory]

    def launch(self) -> str | None:
        self.calls.on(self.host)
        return f"{GUARDED} /opt/kafka/bin/kafka-server-start.sh /etc/kafka.properties"

    def status(self) -> ProcessStatus:
        self.calls.on(self.host)
        return ProcessStatus(ProcessState.STOPPED if self.process.started_at is None else ProcessState.RUNNING)

    def write(self, path: str, content: bytes) -> Performed:
        self.calls.on(self.host)
        self.files[path] = content
        return Done()

    def stop(self) -> Performed:
        self.calls.on(self.host)
        self.process.started_at = None
        return Done()

    def start(self) -> Performed:
        self.calls.on(self.host)
        self.process.started_at, self.process.starts = time.monotonic(), self.process.starts + 1
        return Done()


def an_inventory(brokers: int, controllers: int, disks: int) -> Inventory:
    voters = ",".join(f"{3000 + each}@c{each}:9093" for each in range(controllers))
    cluster = {"name": "orders", "zookeeper": "zk:2181", "bootstrap_servers": "k:9092", "quorum": {"voters": voters}}
    logs = [f"/data{each}" for each in range(disks)]
    file = {"properties": "/etc/kafka.properties"}
    document = {
        "version": 1,
        "cluster": cluster,
        "actuator": {"kind": "exec", "template": "t.yaml"},
        "brokers": [{"id": each, "host": f"b{each}", "log_dirs": logs, **file} for each in range(brokers)],
        "controllers": [
            {"id": 3000 + each, "host": f"c{each}", "log_dirs": ["/meta"], "guard": GUARDED, **file}
            for each in range(controllers)
        ],
    }
    return parse_inventory(json.dumps(document).encode(), "orders.yaml")


def a_fleet(inventory: Inventory, calls: Calls, topics: int) -> Fleet:
    nodes = []
    for role, those in ((BROKERS, inventory.brokers), (CONTROLLERS, inventory.controllers)):
        for node in those:
            text = f"process.roles={role}\nnode.id={node.id}\nzookeeper.metadata.migration.enable=true\n".encode()
            before = f"broker.id={node.id}\n".encode()
            files = {node.properties: text, kept_path(node.properties, before): before, GUARDED: GUARD}
            names: dict[str, tuple[str, ...]] = dict.fromkeys(
                ("/opt/kafka/libs", "/opt/kafka/share/java/kafka"), ("kafka_2.13-3.9.2.jar",)
            )
            for each in node.log_dirs:
                names[each] = tuple(f"t{number}-0" for number in range(topics))
                files |= {f"{each}/{log}/partition.metadata": b"version: 0\n" for log in names[each]}
            nodes.append(FleetNode(role, node, SlowHost(node.host, files, names, calls)))
    return Fleet(inventory, tuple(nodes), "digest")


def kept_path(path: str, content: bytes) -> str:
    return f"{path}.zk2kraft-{hashlib.sha256(content).hexdigest()[:16]}"


def rows_of(fleet: Fleet, migration: int) -> list[JournalRow]:
    """Every broker is in KRaft mode and every controller is stock."""
    return [
        JournalRow(
            migration_id=migration,
            roll=Roll.KRAFT if node.role == BROKERS else Roll.STOCK,
            node_id=node.id,
            role=node.role,
            rack="",
            step="WHOLE",
            path=node.path,
            kind="kraft" if node.role == BROKERS else "stock",
            rendered_from=hashlib.sha256(f"broker.id={node.id}\n".encode()).hexdigest(),
            checksum=hashlib.sha256(node.actuator.files[node.path]).hexdigest(),  # type: ignore[attr-defined]
            incarnation="before",
            changed_at=1.0,
        )
        for node in fleet.nodes
    ]


@dataclass
class Service:
    """One migration in a database, and the road's parts over it."""

    store: Store
    number: int
    settings: ServiceSettings

    @property
    def snapshot(self) -> Snapshot:
        return self.store.snapshot(self.number)

    def step_of(self, broker: int) -> str:
        return next(row.step for row in self.snapshot.nodes_of(Roll.KRAFT) if row.node_id == broker)


def a_service(home: Path, fleet: Fleet, phase: Phase) -> Service:
    store = a_store(home)
    controllers = tuple(ControllerEntry(each.id, "/etc/c.properties", "/meta") for each in fleet.of(CONTROLLERS))
    brokers = tuple(BrokerEntry(each.id) for each in fleet.of(BROKERS))
    inventory = ClusterInventory(
        name="orders", zookeeper="zk:2181", bootstrap_servers="k:9092", controllers=controllers, brokers=brokers
    )
    number = store.create(inventory, who="benchmark", at=time.time())[0].id
    with store.writing() as session:
        session.get_one(Migration, number).phase = phase
        for row in rows_of(fleet, number):
            session.add(row)
    return Service(store, number, ServiceSettings(directory=home, fleets=home))


def of_this(fleet: Fleet) -> Any:
    return SimpleNamespace(fleet=lambda name: fleet)


async def files(home: Path, fleet: Fleet, calls: Calls, seconds: float) -> dict[str, Any]:
    """The service's own loop over the files in SOAK, and what the gates make of them twice a second."""
    service, nothing = a_service(home, fleet, Phase.SOAK), SimpleNamespace(before_stop={})
    road = ActsAfterDualWrite(service.store, of_this(fleet), nothing, nothing, service.settings)  # type: ignore[arg-type]
    began, arrived, ages, opened = time.monotonic(), None, [], []
    at_arrival: Counter[str] = Counter()
    while time.monotonic() - began < seconds:
        await road.tend(service.snapshot)
        seen = fleet_evidence(service.snapshot, time.time())
        if seen is not None and seen.files is not None:
            if arrived is None:
                arrived, at_arrival = time.monotonic(), calls.of.copy()
            ages.append(seen.files.age_s)
            opened.append(all(each.holds for each in (files_are_as_rendered(seen), *guards_are_proven(seen))))
        await asyncio.sleep(ROUND_S)
    assert arrived is not None, f"no reading ended within {seconds} s"
    a_hour = (calls.of - at_arrival).total() / (time.monotonic() - arrived) * 3600
    return {
        "first_reading_s": round(arrived - began, 1),
        "oldest_answer_s": round(max(ages), 1),
        "gates_open_percent": round(100 * sum(opened) / len(opened)),
        "calls_an_hour": round(a_hour),
        # a shared connection stays for ten minutes after its last use, and each host is asked more often
        "logins_an_hour": len(calls.of) if SHARES_CONNECTIONS else round(a_hour),
    }


def disks(inventory: Inventory, call_s: float) -> dict[str, Any]:
    """Before each stop of a broker: its directories and one topic id of each topic in each. Nothing sleeps here."""
    calls = Calls(0.0)
    look_at_disks(a_fleet(inventory, calls, TOPICS).nodes[0], EMPTY, with_ids=True)
    return {"topic_id_calls": calls.of.total(), "topic_ids_s": round(calls.of.total() * call_s, 1)}


def settled_since(since: float) -> dict[str, Any]:
    """As the build that is measured has it."""
    found: dict[str, Any] = {"settled_since": since}
    if "settled" in Observation.__struct_fields__:
        from state_machine.times.stretches import ObservedTime  # one that an earlier build does not have

        found["settled"] = ObservedTime(time.time() - since)
    return found


class Log:
    """What a look at the cluster finds: everything is whole, but that the broker may not have come back yet."""

    def __init__(self, brokers: int) -> None:
        self.back = False
        self.brokers = brokers

    def now(self) -> Observation:
        at = time.time()
        registered = [
            LogBroker(each, "after" if each or self.back else "before", "KRaft", fenced=False)
            for each in range(self.brokers)
        ]
        log = LogObservation(
            at=at,
            problem="",
            leader=3000,
            epoch=5,
            high_watermark=100,
            migration="MIGRATION",
            brokers=tuple(registered),
            voters=(LogVoter(3000, 100, 0, 0),),
        )
        zookeeper = ZooKeeperObservation(holder=Holder.OURS, migration_offset=100)
        return Observation(at, zookeeper=zookeeper, log=log, **settled_since(at - 3600))


async def decisions(home: Path, fleet: Fleet) -> dict[str, Any]:
    """From the registration of a restarted broker to the step WHOLE; and for how long one round is held."""
    service = a_service(home, fleet, Phase.ROLLING_BROKERS)
    observer: Any = SimpleNamespace(log_of=lambda number: None)
    roller = Roller(service.store, of_this(fleet), observer, SimpleNamespace(), service.settings)
    log, took, rounds = Log(len(fleet.of(BROKERS))), [], []

    def step(name: str) -> None:
        with service.store.writing() as session:
            session.get_one(JournalRow, (service.number, Roll.KRAFT, 0)).step = name

    async def until(ready: Callable[[], bool], seconds: float) -> None:
        ends = time.monotonic() + seconds
        while not ready() and time.monotonic() < ends:
            began = time.monotonic()
            snapshot: Snapshot = replace(service.snapshot, observation=log.now())
            await roller.step(snapshot, evidence(snapshot, time.time()), Roll.KRAFT)
            rounds.append(time.monotonic() - began)
            if not ready():
                await asyncio.sleep(max(ROUND_S - rounds[-1], 0.05))

    for _ in range(DECISIONS):
        log.back = False
        step("STARTED")
        came_back: list[float] = []

        def comes_back(at: list[float] = came_back) -> None:
            log.back = True
            at.append(time.monotonic())

        asyncio.get_running_loop().call_later(5 + random.uniform(0, 3), comes_back)
        await until(lambda: service.step_of(0) == "WHOLE", 120)
        took.append(time.monotonic() - came_back[0])
        roller._work.clear()
    return {
        "decision_s": round(sorted(took)[len(took) // 2], 2),
        "slowest_decision_s": round(max(took), 2),
        "round_held_s": round(max(rounds), 2),
    }


def is_blocked(said: Any) -> bool:
    """An outcome of today, or the sentence of an earlier build."""
    return isinstance(said, Blocked) if Blocked is not None else bool(said.reason.startswith("blocked"))


def compared(call_s: float, snapshot: Snapshot, fleet: Fleet, now: float, *_: object) -> Any:
    """As long as reading the files of 60 brokers takes, 16 beside each other; nothing differs."""
    from state_machine.rows.documents import RestartsDocument  # one that an earlier build does not have

    time.sleep(call_s * 4)
    return RestartsDocument(now)


def in_racks(inventory: Inventory, racks: int) -> Inventory:
    """Some racks of the whole, restarted as racks."""
    brokers = [
        msgspec.structs.replace(each, rack=f"r{at // OF_A_RACK}")
        for at, each in enumerate(inventory.brokers[: racks * OF_A_RACK])
    ]
    options: dict[str, Any] = {"at_once": "rack", "brokers": tuple(brokers)}
    return msgspec.structs.replace(inventory, **options)


def spread(brokers: int) -> Image:
    """Topics with three replicas in three racks: every rack can be missed."""
    topics = [
        a_topic(
            f"x{at}",
            [a_partition(0, replicas=tuple((at + each * OF_A_RACK) % (RACKS * OF_A_RACK) for each in range(3)))],
        )
        for at in range(TOPICS)
    ]
    return an_image(*topics, brokers=range(brokers))


async def rolled(home: Path, inventory: Inventory, call_s: float, logs: int) -> float:
    """Seconds in which these brokers go into KRaft mode, with the times of the product; each comes back `COMES_BACK_S`
    after its start.
    """
    home.mkdir()
    fleet = a_fleet(inventory, Calls(call_s), logs)
    hosts: dict[int, SlowHost] = {}
    for node in fleet.of(BROKERS):
        host: Any = node.actuator
        text = FILE.format(id=node.id, voters=inventory.cluster.quorum.voters, logs=",".join(node.node.log_dirs))
        host.files[node.path] = text.encode()
        hosts[node.id] = host
    service = a_service(home, fleet, Phase.ROLLING_BROKERS)
    with service.store.writing() as session:
        for broker in hosts:
            session.delete(session.get_one(JournalRow, (service.number, Roll.KRAFT, broker)))
    observed = SimpleNamespace(image=spread(RACKS * OF_A_RACK))
    observer: Any = SimpleNamespace(log_of=lambda number: observed)
    roller = Roller(service.store, of_this(fleet), observer, SimpleNamespace(), service.settings)
    nothing = SimpleNamespace(before_stop={})
    # What a restart would change, of 60 brokers.
    compares = "restarts" in inspect.signature(ActsAfterDualWrite).parameters
    beside: Any = {"restarts": partial(compared, call_s)} if compares else {}
    acts: Any = ActsAfterDualWrite
    road = acts(service.store, of_this(fleet), nothing, nothing, service.settings, **beside)
    began, settled = time.monotonic(), time.time() - 3600
    while True:
        brokers = [
            LogBroker(
                each,
                f"run-{host.process.starts}",
                "KRaft" if host.process.starts else "ZooKeeper",
                fenced=not host.process.is_back,
            )
            for each, host in hosts.items()
        ]
        if not all(each.ready for each in brokers):
            settled = time.time()
        log = msgspec.structs.replace(Log(0).now().log, brokers=tuple(brokers))
        look = msgspec.structs.replace(Log(0).now(), log=log, **settled_since(settled))
        await road.tend(replace(service.snapshot, observation=look))
        snapshot: Snapshot = replace(service.snapshot, observation=look)
        said = await roller.step(snapshot, evidence(snapshot, time.time()), Roll.KRAFT)
        if said is None:
            return time.monotonic() - began
        assert not is_blocked(said), said
        await asyncio.sleep(ROUND_S)


async def measure(brokers: int, controllers: int, disks_each: int, call_s: float, seconds: float) -> dict[str, Any]:
    inventory = an_inventory(brokers, controllers, disks_each)
    with tempfile.TemporaryDirectory() as home:
        calls = Calls(call_s)
        (Path(home) / "files").mkdir()
        (Path(home) / "decisions").mkdir()
        found = disks(inventory, call_s)
        few, many = LOGS_OF_A_DISK
        two = msgspec.structs.replace(inventory, brokers=inventory.brokers[:ROLLED])
        found["a_broker_of_a_roll_s"] = round(await rolled(Path(home) / "few", two, call_s, few) / ROLLED, 1)
        one = await rolled(Path(home) / "many", two, call_s, many) / ROLLED
        found["a_broker_with_more_logs_s"] = round(one, 1)
        found["roll_of_60_one_by_one_min"] = round(one * RACKS * OF_A_RACK / 60, 1)
        if CAN_ROLL_RACKS:
            racks = await rolled(Path(home) / "racks", in_racks(inventory, RACKS_ROLLED), call_s, many)
            found["roll_of_60_by_rack_min"] = round(racks / RACKS_ROLLED * RACKS / 60, 1)
        found |= await decisions(Path(home) / "decisions", a_fleet(inventory, Calls(call_s), 1))
        return found | await files(Path(home) / "files", a_fleet(inventory, calls, 1), calls, seconds)


if __name__ == "__main__":
    *counts, call, window = sys.argv[1:]
    brokers, controllers, each = map(int, counts)
    print(json.dumps(asyncio.run(measure(brokers, controllers, each, float(call), float(window)))))
