"""Brokers get the migration settings one after the other, before the takeover: they stay in ZooKeeper mode.

As in test_rolling.py, the host of a broker is a directory. A start of a file with the migration flag registers the
broker with our controllers, which the fake log and the fake control port say.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from migrator.driver.checks.restarts import Applied
from migrator.findings.finding import FindingError, Occurrence
from migrator.findings.road import NO_FLEET
from migrator.fleet.files import Present
from migrator.fleet.properties_file import parse_properties
from migrator.fleet.render import FileKind
from state_machine.clusters.log_observer import LogBroker, LogObservation, LogVoter
from state_machine.evidence.file_watch import compared_file
from state_machine.nodes.fleet import Fleets
from state_machine.nodes.readings import NodeReading
from state_machine.policy.fleet_evidence import Roll
from state_machine.policy.phases import Phase
from state_machine.rows.documents import RestartFound
from state_machine.rows.observations import findings
from state_machine.rows.tables import JournalRow
from tests.unit.state_machine.rolling.test_rolling import BROKERS, Hosts
from tests.unit.state_machine.world import World

PLAIN = """# kept by hand
broker.id={id}
zookeeper.connect=zk:2181/kafka
inter.broker.protocol.version=3.9
listeners=PLAINTEXT://127.0.0.1:{port}
log.dirs={logs}
"""
FLAG = "zookeeper.metadata.migration.enable=true"


class Joining(World):
    """A world on its way to BROKERS_JOINING, with hosts. Broker 1 is the controller of the cluster."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.hosts = Hosts(directory / "hosts")
        for each in BROKERS:
            place = directory / "hosts" / str(each)
            self.hosts.file(each).write_text(PLAIN.format(id=each, port=9100 + each, logs=place / "logs"))
        entry = self.inventory.controllers[0]
        self.hosts.write_fleet(directory / "fleets", entry.properties, entry.data)
        self.settings = self.settings.model_copy(
            update={"fleets": directory / "fleets", "settle_s": 2.0, "node_deadline_s": 300.0}
        )
        self.controller.brokers = ()
        self.zookeeper.broker_rules(1)
        self.joined_by_hand: set[int] = set()
        self.under_replicated = 0
        self.start_service()

    def observe(self) -> None:
        """What brokers that run say: to ZooKeeper always, to our controllers when their file has the flag."""
        live = tuple(each for each in BROKERS if self.hosts.runs(each))
        registered = []
        for each in BROKERS:
            starts = self.hosts.acts.read_text().count(f"start {each}\n")
            if each in self.joined_by_hand or (starts and FLAG in self.hosts.file(each).read_text()):
                registered.append(LogBroker(each, f"run-{starts}", "ZooKeeper", fenced=each not in live))
        self.zookeeper.observed = msgspec.structs.replace(self.zookeeper.observed, brokers=live)
        self.log.observed = LogObservation(
            problem="",
            leader=3000,
            epoch=5,
            high_watermark=20,
            migration="PRE_MIGRATION",
            brokers=tuple(registered),
            voters=(LogVoter(3000, 20, 0, 0),),
            under_replicated=self.under_replicated + 9 * (len(BROKERS) - len(live)),
        )
        self.controller.brokers = tuple(each.id for each in registered if not each.fenced)
        if len(self.controller.brokers) == len(BROKERS):
            self.brokers_join()

    async def to_joining(self) -> None:
        await self.to_preflight()
        await self.run_operation("ADVANCE")
        await self.rounds(3)
        await self.turn(3)
        assert self.phase is Phase.BROKERS_JOINING, self.waiting

    async def turn(self, count: int = 1, seconds: float = 1.0) -> None:
        for _ in range(count):
            self.observe()
            await self.rounds(1, seconds=seconds)

    async def until(self, ready: Callable[[], bool], rounds: int = 300) -> None:
        for _ in range(rounds):
            if ready():
                return
            await self.turn()
        raise AssertionError(f"{self.waiting}; {[(row.node_id, row.step, row.cause) for row in self.journal]}")

    async def advance(self) -> None:
        await self.until(lambda: self.waiting.endswith("restarts the brokers one by one"))
        operation = await self.run_operation("ADVANCE", to=Phase.BROKERS_JOINING)
        assert operation.state == "succeeded", operation.answer

    @property
    def journal(self) -> tuple[JournalRow, ...]:
        return self.nodes_of(Roll.JOIN)

    def step(self, number: int) -> str:
        return next((row.step for row in self.journal if row.node_id == number), "")

    @property
    def acts(self) -> list[str]:
        return self.hosts.acts.read_text().split("\n")[:-1]


@pytest.fixture
def world(tmp_path: Path) -> Joining:
    return Joining(tmp_path)


def test_brokers_join_one_by_one_and_the_controller_of_the_cluster_is_the_last_one(world: Joining) -> None:
    async def story() -> None:
        await world.to_joining()
        await world.turn(20)
        assert world.acts == []  # nothing begins by itself
        await world.advance()
        await world.until(lambda: world.phase is Phase.READY)
        await world.turn()

    asyncio.run(story())
    assert world.acts == [f"{act} {number}" for number in (0, 2, 1) for act in ("stop", "start")]
    for number in BROKERS:
        text = world.hosts.file(number).read_text()
        assert text.startswith("# kept by hand\n")
        assert FLAG in text
        assert "controller.quorum.voters=3000@127.0.0.1:9093" in text
        assert "process.roles" not in text
        (kept,) = world.hosts.file(number).parent.glob("server.properties.zk2kraft-*")
        assert FLAG not in kept.read_text()
    assert "BROKERS_JOINING" in {event.from_phase for event in world.events if event.to_phase == "BROKERS_JOINING"}
    assert world.partitions.closed  # READY needs no such reading


def test_a_broker_that_has_joined_already_is_not_restarted(world: Joining) -> None:
    world.joined_by_hand = {0}

    async def story() -> None:
        await world.to_joining()
        await world.advance()
        await world.until(lambda: world.step(0) == "WHOLE")
        assert "it had joined already" in world.journal[0].detail
        assert "lacks what would be rendered: controller.listener.names" in world.journal[0].detail
        await world.until(lambda: world.phase is Phase.READY)

    asyncio.run(story())
    assert world.acts == ["stop 2", "start 2", "stop 1", "start 1"]


@pytest.mark.parametrize("step", ["PREPARED", "STOPPING", "STOPPED", "WRITTEN", "STARTED"])
def test_a_service_that_dies_while_a_broker_joins_goes_on_from_its_step(world: Joining, step: str) -> None:
    async def first() -> None:
        await world.to_joining()
        await world.advance()
        await world.until(lambda: world.step(2) == step)

    async def second() -> None:
        await world.until(lambda: world.phase is Phase.READY)

    asyncio.run(first())
    world.start_service()
    asyncio.run(second())
    order = list(dict.fromkeys(act.split()[1] for act in world.acts))
    assert order == ["0", "2", "1"], world.acts


def test_no_further_broker_is_stopped_while_partitions_are_not_whole_or_not_known(world: Joining) -> None:
    async def story() -> None:
        await world.to_joining()
        await world.advance()
        await world.until(lambda: world.step(0) == "WHOLE")
        world.under_replicated = 3
        await world.turn(10)
        assert "under-replicated partitions: 3" in world.waiting
        world.under_replicated, world.partitions.problem = 0, "they are read anew"
        await world.turn(10)
        assert "they are read anew" in world.waiting
        assert world.acts == ["stop 0", "start 0"]
        world.partitions.problem = ""
        await world.until(lambda: world.phase is Phase.READY)

    asyncio.run(story())


def test_a_broker_that_does_not_join_stops_the_roll_and_goes_back_alone_to_its_file_of_before(world: Joining) -> None:
    before = world.hosts.file(0).read_text()

    async def story() -> None:
        await world.to_joining()
        await world.advance()
        await world.until(lambda: world.step(0) == "STARTED")
        world.hosts.state(0, "stopped")
        await world.until(lambda: world.step(0) == "FAILED")
        await world.turn(3)
        assert "Z2K-4204" in {each.code for each in findings(world.store, world.id, only_open=True)}
        assert "`zk2kraft back`" in world.waiting
        operation = await world.run_operation("BACK", who="Ada", reason="its disk is slow")
        assert operation.state == "succeeded", operation.answer
        await world.until(lambda: world.step(0) == "BACK")
        assert world.hosts.file(0).read_text() == before
        await world.turn(5)
        assert "runs with its previous file" in world.waiting
        await world.run_operation("RESUME", who="Ada", reason="another disk")
        await world.until(lambda: world.phase is Phase.READY)

    asyncio.run(story())
    assert world.acts[:4] == ["stop 0", "start 0", "stop 0", "start 0"]


def test_a_pause_stops_between_two_brokers_and_a_rollback_waits_for_the_one_under_way(world: Joining) -> None:
    async def story() -> None:
        await world.to_joining()
        await world.advance()
        await world.until(lambda: world.step(0) == "STOPPED")
        refused = await world.run_operation("ROLL_BACK", who="Ada")
        assert refused.state == "refused"
        assert "no broker is being restarted by the service" in refused.answer
        await world.run_operation("PAUSE", who="Ada", reason="lunch")
        await world.until(lambda: world.step(0) == "WHOLE")
        await world.turn(10)
        assert "paused before broker 2" in world.waiting
        assert world.acts == ["stop 0", "start 0"]

    asyncio.run(story())


@pytest.mark.parametrize(
    "line",
    [
        "authorizer.class.name=com.example.Ranger",
        "create.topic.policy.class.name=com.example.Policy",
        "alter.config.policy.class.name=com.example.Policy",
        "principal.builder.class=com.example.Principals",
        "listener.name.plaintext.principal.builder.class=com.example.Principals",
        "zookeeper.connect=zk:2181/another",
        "zookeeper.set.acl=TRUE",
        "authorizer.class.name=kafka.security.authorizer.AclAuthorizer",
        "delegation.token.secret.key=hunter2",
    ],
)
def test_what_the_takeover_gate_would_refuse_is_said_before_the_first_broker_is_stopped(
    world: Joining, line: str
) -> None:
    """The last broker in the order has it, so that the others would have been restarted before."""
    with world.hosts.file(1).open("a") as file:
        file.write(f"{line}\n")

    async def story() -> None:
        await world.to_joining()
        await world.turn(40)
        assert "Z2K-1050" in world.waiting
        assert line.partition("=")[0] in world.waiting
        assert "hunter2" not in world.waiting
        refused = await world.run_operation("ADVANCE", to=Phase.BROKERS_JOINING)
        assert refused.state == "refused"
        await world.turn(5)
        assert world.acts == []
        world.hosts.file(1).write_text(world.hosts.file(1).read_text().replace(line, ""))
        await world.turn(40)
        await world.advance()
        await world.until(lambda: world.phase is Phase.READY)

    asyncio.run(story())


def test_without_an_inventory_file_brokers_join_by_hand_as_before(tmp_path: Path) -> None:
    world = Joining(tmp_path)
    (tmp_path / "fleets/orders.yaml").unlink()

    async def story() -> None:
        await world.to_joining()
        await world.turn(10)
        refused = await world.run_operation("ADVANCE", to=Phase.BROKERS_JOINING)
        assert refused.state == "refused"
        assert "restart them yourself" in refused.answer
        assert world.evidence.road is None
        assert "advance" not in world.waiting
        world.joined_by_hand = set(BROKERS)
        await world.until(lambda: world.phase is Phase.READY)

    asyncio.run(story())
    assert NO_FLEET.code == "Z2K-4207"
    assert world.acts == []


# --- what a restart would change beside ---------------------------------------------------------------------

SWITCHED_OFF = RestartFound(
    "Z2K-1058", {"path": "/config/topics/t", "broker": 2, "count": 1, "first": "t-0", "offset": 99, "lost": "none"}
)


def test_no_broker_is_restarted_while_a_change_waits_for_its_restart_and_the_finding_is_shown(world: Joining) -> None:
    world.waits_for_restart = (SWITCHED_OFF,)

    async def story() -> None:
        await world.to_joining()
        await world.turn(40)
        assert "waiting: no change waits for a restart of a broker: Z2K-1058 /config/topics/t" in world.waiting
        refused = await world.run_operation("ADVANCE", to=Phase.BROKERS_JOINING)
        assert refused.state == "refused", refused.answer
        assert "Z2K-1058" in {each.code for each in findings(world.store, world.id, only_open=True)}
        assert world.acts == []
        world.waits_for_restart = ()
        await world.turn(40)
        await world.advance()
        await world.until(lambda: world.step(0) == "WHOLE")
        world.waits_for_restart = (SWITCHED_OFF,)  # somebody switches it off between two restarts
        await world.turn(40)
        assert "Z2K-1058 /config/topics/t does not set remote.storage.enable=true" in world.waiting
        assert world.acts == ["stop 0", "start 0"]
        world.waits_for_restart = ()
        await world.until(lambda: world.phase is Phase.READY)

    asyncio.run(story())


def test_a_comparison_that_fails_is_not_known_and_closes_the_gate(
    world: Joining, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise ConnectionError("ZooKeeper went away")

    monkeypatch.setattr(world, "restarts", fails)
    world.start_service()

    async def story() -> None:
        await world.to_joining()
        await world.turn(40)
        refused = await world.run_operation("ADVANCE", to=Phase.BROKERS_JOINING)
        assert refused.state == "refused"
        assert "not known: ZooKeeper went away" in str(refused.verdict)

    asyncio.run(story())
    assert world.acts == []


def test_the_file_of_a_broker_is_compared_with_what_it_runs_with_and_the_migrations_keys_are_meant(
    world: Joining,
) -> None:
    fleet = Fleets(world.settings.fleets).fleet("orders")
    node = fleet.of("broker")[0]
    file = world.hosts.file(node.id)

    def compared(applied: Applied) -> list[Occurrence]:
        try:
            said: NodeReading[bytes | None] = NodeReading(0.0, 0.0, node.actuator.read(node.path))
        except FindingError as error:
            said = NodeReading(0.0, 0.0, error=error)
        return list(compared_file(fleet, node, applied, said))

    runs = Applied(dict(parse_properties(file.read_bytes(), "file").values), {str(file.parent / "logs"): 3})
    assert compared(runs) == []
    rendered = fleet.render(node, Present(node.path, file.read_bytes()), FileKind.MIGRATION)
    file.write_bytes(rendered.content)  # prepared by hand, and not restarted yet
    assert FLAG in file.read_text()
    assert compared(runs) == []
    file.write_text(file.read_text() + "num.io.threads=3\n")
    (found,) = compared(runs)
    assert (found.code, found.values["key"], found.values["node"]) == ("Z2K-4234", "num.io.threads", "broker 0")
    file.unlink()
    (found,) = compared(runs)
    assert (found.code, found.values["broker"]) == ("Z2K-1060", 0)
