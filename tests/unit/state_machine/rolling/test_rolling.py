"""Brokers go into KRaft mode one after the other: real commands on files in a directory, a metadata log that is faked.

The host of a broker is a directory with its file and a word that says whether it runs. What a start does to the
cluster's registrations is told to the service by the fake log.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from migrator.findings.finding import FindingError
from migrator.findings.road import BACK_REFUSED
from migrator.fleet.strict_yaml import load_yaml
from migrator.model.image import EMPTY
from migrator.model.values import Topic
from state_machine.clusters.log_observer import LogBroker, LogObservation, LogVoter
from state_machine.policy.fleet_evidence import Roll
from state_machine.policy.phases import Phase
from state_machine.rows.observations import findings
from state_machine.rows.tables import JournalRow, Migration
from state_machine.work.operations import may_send_back
from tests.unit.state_machine.fakes import diverged
from tests.unit.state_machine.world import World

BROKERS = (0, 1, 2)
SHIPPED = Path(__file__).resolve().parents[4] / "docker" / "actuators" / "local-systemd.yaml"
FILE = """# kept by hand
broker.id={id}
zookeeper.connect=zk:2181/kafka
zookeeper.metadata.migration.enable=true
inter.broker.protocol.version=3.9
listeners=PLAINTEXT://127.0.0.1:{port}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
controller.quorum.voters=3000@127.0.0.1:9093
controller.listener.names=CONTROLLER
log.dirs={logs}
"""


class Hosts:
    """Directories that stand for hosts. Every act is noted as `stop 1`."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.acts = home / "acts"
        home.mkdir()
        self.acts.touch()
        for number in BROKERS:
            place = home / str(number)
            (place / "logs").mkdir(parents=True)
            self.file(number).write_text(FILE.format(id=number, port=9100 + number, logs=place / "logs"))
            self.state(number, "running")

    def file(self, number: int) -> Path:
        return self.home / str(number) / "server.properties"

    def state(self, number: int, word: str) -> None:
        (self.home / str(number) / "state").write_text(word + "\n")

    def runs(self, number: int) -> bool:
        return (self.home / str(number) / "state").read_text().strip() == "running"

    def write_fleet(self, directory: Path, properties: str, data: str) -> None:
        shell = ["/bin/sh", "-c"]
        noted = 'echo "$2 $3" >> "$1/acts"; echo {} > "$1/$3/state"'
        place = [str(self.home)]
        template = {
            "version": 1,
            "acts": {
                **{name: load_yaml(SHIPPED.read_bytes())["acts"][name] for name in ("read", "list", "write")},
                "stop": {"argv": [*shell, noted.format("stopped"), "sh", *place, "stop", "{id}"]},
                "start": {"argv": [*shell, noted.format("running"), "sh", *place, "start", "{id}"]},
                "status": {"argv": [*shell, 'cat "$1/$2/state"', "sh", *place, "{id}"]},
            },
            "status_words": {"running": "^running", "stopped": "^stopped", "pid": "pid ([0-9]+)"},
        }
        inventory = {
            "version": 1,
            "cluster": {
                "name": "orders",
                "zookeeper": "zk:2181/kafka",
                "bootstrap_servers": "kafka:9092",
                "quorum": {"voters": "3000@127.0.0.1:9093"},
            },
            "actuator": {"kind": "exec", "template": "local.yaml"},
            "brokers": [
                {
                    "id": each,
                    "host": f"host{each}",
                    "properties": str(self.file(each)),
                    "log_dirs": [str(self.home / str(each) / "logs")],
                }
                for each in BROKERS
            ],
            "controllers": [{"id": 3000, "host": "host9", "properties": properties, "log_dirs": [data]}],
        }
        (directory / "templates").mkdir(parents=True, mode=0o700)
        directory.chmod(0o700)
        for path, document in (("templates/local.yaml", template), ("orders.yaml", inventory)):
            (directory / path).write_text(json.dumps(document))
            (directory / path).chmod(0o600)


class Rolling(World):
    """A world in ROLLING_BROKERS, with hosts."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.hosts = Hosts(directory / "hosts")
        entry = self.inventory.controllers[0]
        self.hosts.write_fleet(directory / "fleets", entry.properties, entry.data)
        self.settings = self.settings.model_copy(
            update={"fleets": directory / "fleets", "settle_s": 2.0, "node_deadline_s": 300.0}
        )
        self.crashes = dict.fromkeys(BROKERS, 0)
        self.stale = False
        """The cluster has not noticed yet who started: registrations stay as they are, each with the right mode. A
        broker that ended is fenced."""
        self.unfenced: set[int] = set()
        """Brokers that the cluster counts as present whatever their hosts say."""
        self.start_service()

    def register(self) -> None:
        """What brokers that run have registered: a start of a KRaft file makes a new incarnation in KRaft mode."""
        if self.stale:
            kept = tuple(
                msgspec.structs.replace(each, mode="KRaft", fenced=not self.hosts.runs(each.id))
                for each in self.log.observed.brokers
            )
            self.log.observed = msgspec.structs.replace(self.log.observed, brokers=kept)
            return
        brokers = []
        for number in BROKERS:
            text = self.hosts.file(number).read_text()
            kraft = "process.roles" in text
            started = self.hosts.acts.read_text().count(f"start {number}\n")
            mode = "KRaft" if kraft and started else "ZooKeeper"
            brokers.append(
                LogBroker(
                    number,
                    f"run-{started}-{self.crashes[number]}",
                    mode,
                    fenced=not self.hosts.runs(number) and number not in self.unfenced,
                )
            )
        down = sum(each.fenced for each in brokers)
        self.log.observed = LogObservation(
            problem="",
            leader=3000,
            epoch=5,
            high_watermark=100,
            migration="MIGRATION",
            brokers=tuple(brokers),
            voters=(LogVoter(3000, 100, 0, 0),),
            under_replicated=9 * down,
        )

    async def to_rolling(self) -> None:
        """Past the gate of ROLLING_BROKERS, which has tests of its own."""
        await self.to_dual_write()
        with self.store.writing() as session:
            session.get_one(Migration, self.id).phase = Phase.ROLLING_BROKERS

    async def turn(self, count: int = 1, seconds: float = 1.0) -> None:
        """Rounds; acts on hosts come to their end between them, and so much time passes."""
        for _ in range(count):
            self.register()
            await self.rounds(1, seconds=seconds)

    async def until(self, ready: Callable[[], bool], rounds: int = 300, seconds: float = 1.0) -> None:
        """seconds: that pass in each round; more of them where a story waits for nothing but time."""
        for _ in range(rounds):
            if ready():
                return
            await self.turn(seconds=seconds)
        raise AssertionError(f"{self.waiting}; {[(row.node_id, row.step, row.cause) for row in self.journal]}")

    @property
    def journal(self) -> tuple[JournalRow, ...]:
        return self.nodes_of(Roll.KRAFT)

    def step(self, number: int) -> str:
        return next((row.step for row in self.journal if row.node_id == number), "")

    @property
    def rolled(self) -> bool:
        return bool(self.journal) and all(row.step == "WHOLE" for row in self.journal)

    @property
    def acts(self) -> list[str]:
        return self.hosts.acts.read_text().split("\n")[:-1]


@pytest.fixture
def world(tmp_path: Path) -> Rolling:
    return Rolling(tmp_path)


def codes(world: World) -> set[str]:
    return {each.code for each in findings(world.store, world.id, only_open=True)}


def test_brokers_go_over_one_by_one_and_each_keeps_its_file_of_before(world: Rolling) -> None:
    async def story() -> None:
        await world.to_rolling()
        await world.until(lambda: world.rolled)

    asyncio.run(story())
    assert world.acts == [f"{act} {number}" for number in BROKERS for act in ("stop", "start")]
    for number in BROKERS:
        text = world.hosts.file(number).read_text()
        assert "process.roles=broker" in text
        assert "zookeeper" not in text
        assert text.startswith("# kept by hand\n")
        (kept,) = world.hosts.file(number).parent.glob("server.properties.zk2kraft-*")
        assert "zookeeper.connect=zk:2181/kafka" in kept.read_text()


@pytest.mark.parametrize("step", ["PREPARED", "STOPPING", "STOPPED", "WRITTEN", "STARTED"])
def test_a_service_that_dies_at_a_step_goes_on_from_it(world: Rolling, step: str) -> None:
    """The next life has the rows only; whatever act was under way is repeated, and no second broker is touched."""

    async def first() -> None:
        await world.to_rolling()
        await world.until(lambda: world.step(1) == step)

    async def second() -> None:
        await world.until(lambda: world.rolled)

    asyncio.run(first())
    world.start_service()
    asyncio.run(second())
    order = [act.split()[1] for act in world.acts]
    assert order == sorted(order), world.acts


def test_a_broker_that_crashed_before_its_stop_is_not_taken_for_the_one_that_was_started(world: Rolling) -> None:
    """Its host started it again while the roll waited: that registration is another one, and no proof of the roll."""

    async def story() -> None:
        await world.to_rolling()
        await world.until(lambda: world.step(0) == "PREPARED")
        world.crashes[0] += 1
        await world.until(lambda: world.step(0) == "STOPPING")
        world.stale = True
        await world.until(lambda: world.step(0) == "STARTED")
        await world.turn(10)
        assert world.step(0) == "STARTED"
        assert "the broker registered anew" in world.waiting
        world.stale = False
        await world.until(lambda: world.rolled)

    asyncio.run(story())


def test_a_pause_leaves_no_broker_half_done(world: Rolling) -> None:
    async def story() -> None:
        await world.to_rolling()
        await world.until(lambda: world.step(0) == "STOPPING")
        await world.run_operation("PAUSE", who="Ada", reason="lunch")
        await world.until(lambda: world.step(0) == "WHOLE")
        await world.turn(10)

    asyncio.run(story())
    assert world.acts == ["stop 0", "start 0"]
    assert "paused before broker 1" in world.waiting


def test_the_last_broker_is_not_whole_and_does_not_fail_while_the_cluster_is_not_as_before_its_stop(
    world: Rolling,
) -> None:
    async def story() -> None:
        await world.to_rolling()
        await world.until(lambda: world.step(2) == "STARTED")
        world.controller.divergence = diverged("WITHIN", records=5)
        await world.turn(310)
        assert world.step(2) == "STARTED"
        assert "broker 2 is whole, and the cluster is not as before its stop" in world.waiting
        assert "ZooKeeper is 5 records behind the log" in world.waiting
        world.controller.divergence = diverged("WITHIN", records=0)
        await world.until(lambda: world.rolled)

    asyncio.run(story())


def test_a_stray_directory_after_a_restart_stops_the_roll(world: Rolling) -> None:
    async def story() -> None:
        await world.to_rolling()
        await world.until(lambda: world.step(0) == "STARTED")
        (world.hosts.home / "0/logs/orders-0.0-stray").mkdir()
        await world.turn(20)

    asyncio.run(story())
    assert world.step(0) == "STARTED"
    assert "no directory of the broker is stray" in world.waiting
    assert "orders-0.0-stray" in world.waiting
    assert world.acts == ["stop 0", "start 0"]


def test_a_topic_id_that_the_log_does_not_have_keeps_the_broker_running(world: Rolling) -> None:
    topic = Topic("orders", b"\x07" * 16, ())
    world.log.image = msgspec.structs.replace(
        EMPTY, topics=EMPTY.topics.set(topic.id, topic), topic_ids=EMPTY.topic_ids.set("orders", topic.id)
    )
    place = world.hosts.home / "0/logs/orders-0"
    place.mkdir()
    (place / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n")

    async def story() -> None:
        await world.to_rolling()
        await world.until(lambda: world.step(0) == "FAILED")
        await world.turn(3)

    asyncio.run(story())
    assert world.acts == []
    assert world.journal[0].code == "Z2K-4206"


def test_a_broker_that_ends_after_its_start_stops_the_roll_until_somebody_resumes(world: Rolling) -> None:
    async def story() -> None:
        await world.to_rolling()
        await world.until(lambda: world.step(0) == "STARTED")
        world.hosts.state(0, "stopped")
        await world.until(lambda: world.step(0) == "FAILED")
        await world.turn(5)
        assert "Z2K-4204" in codes(world)
        assert world.acts == ["stop 0", "start 0"]
        await world.run_operation("RESUME", who="Ada", reason="its disk is mended")
        await world.until(lambda: world.rolled)

    asyncio.run(story())
    assert world.journal[0].cause == ""
    assert world.acts[:3] == ["stop 0", "start 0", "start 0"]


def test_a_broker_that_something_started_before_its_file_was_written_is_stopped_again_once_the_others_are_there(
    world: Rolling,
) -> None:
    """The mask ends with a boot of its host. The runbook of Z2K-4202 says that resume stops it again."""

    async def story() -> None:
        await world.to_rolling()
        await world.until(lambda: world.step(0) == "STOPPED")
        world.hosts.state(0, "running")
        await world.until(lambda: world.step(0) == "FAILED")
        assert world.journal[0].code == "Z2K-4202"
        world.hosts.state(1, "stopped")
        await world.turn()
        await world.run_operation("RESUME", who="Ada", reason="its host was booted")
        await world.turn(5)
        assert world.acts == ["stop 0"]
        assert "before broker 0 is stopped again" in world.waiting
        assert "brokers [1] are fenced" in world.waiting
        world.hosts.state(1, "running")
        await world.until(lambda: world.rolled)

    asyncio.run(story())
    assert world.acts[:3] == ["stop 0", "stop 0", "start 0"]


@pytest.mark.parametrize("still_kraft", [True, False])
def test_a_file_that_was_corrected_after_a_failed_start_is_taken_over_if_it_is_still_of_its_kind(
    world: Rolling, still_kraft: bool
) -> None:
    """Kafka names in its log what is wrong with the file; the way back knows the file of before as well as ever."""

    async def story() -> None:
        await world.to_rolling()
        await world.until(lambda: world.step(0) == "STARTED")
        world.hosts.state(0, "stopped")
        await world.until(lambda: world.step(0) == "FAILED")
        before, file = world.journal[0], world.hosts.file(0)
        more = "listener.name.inside.sasl.enabled.mechanisms=PLAIN\n" if still_kraft else "zookeeper.connect=zk:2181\n"
        file.write_text(file.read_text() + more)
        await world.run_operation("RESUME", who="Ada", reason="its file is corrected")
        if not still_kraft:
            await world.until(lambda: world.step(0) == "FAILED")
            assert "no kraft file any more (zookeeper.connect)" in world.journal[0].cause
            return
        await world.until(lambda: world.rolled)
        row = world.journal[0]
        assert row.checksum == hashlib.sha256(file.read_bytes()).hexdigest() != before.checksum
        assert row.rendered_from == before.rendered_from
        assert "is taken over" in row.detail

    asyncio.run(story())


def test_a_failed_broker_goes_back_alone_and_rolls_again_when_somebody_resumes(world: Rolling) -> None:
    """Its migration file, meta.properties of version 0, ZooKeeper mode; nothing is removed or touched beside it."""
    meta = world.hosts.home / "0/logs/meta.properties"
    meta.write_text("version=1\nnode.id=0\ncluster.id=abc\ndirectory.id=d0\n")
    before = world.hosts.file(0).read_text()

    async def story() -> None:
        await world.to_rolling()
        refused = await world.run_operation("BACK", who="Ada")
        assert (refused.state, refused.answer[:8]) == ("refused", "Z2K-4216")  # none failed
        await world.until(lambda: world.step(0) == "STARTED")
        world.hosts.state(0, "stopped")
        await world.until(lambda: world.step(0) == "FAILED")
        await world.turn()
        assert "`zk2kraft back`" in world.waiting
        operation = await world.run_operation("BACK", who="Ada", reason="its disk is slow")
        assert operation.state == "succeeded"
        await world.until(lambda: world.step(0) == "BACK")
        await world.turn(5)
        assert "runs with its previous file" in world.waiting
        assert world.hosts.file(0).read_text() == before
        assert meta.read_text() == "version=0\nbroker.id=0\ncluster.id=abc\ndirectory.id=d0\n"
        assert list((world.hosts.home / "0/logs").glob("meta.properties.zk2kraft-*"))
        assert world.acts == ["stop 0", "start 0", "stop 0", "start 0"]
        await world.run_operation("RESUME", who="Ada", reason="another try")
        await world.until(lambda: world.step(0) == "WHOLE")

    asyncio.run(story())
    assert "process.roles=broker" in world.hosts.file(0).read_text()


@pytest.mark.parametrize("step", ["STOPPED", "WRITTEN", "STARTED"])
def test_a_service_that_dies_while_a_broker_goes_back_ends_it(world: Rolling, step: str) -> None:
    async def first() -> None:
        await world.to_rolling()
        await world.until(lambda: world.step(0) == "STARTED")
        world.hosts.state(0, "stopped")
        await world.until(lambda: world.step(0) == "FAILED")
        await world.run_operation("BACK", who="Ada")
        await world.until(lambda: world.step(0) == step)

    async def second() -> None:
        await world.until(lambda: world.step(0) == "BACK")

    asyncio.run(first())
    world.start_service()
    asyncio.run(second())
    assert "zookeeper.metadata.migration.enable=true" in world.hosts.file(0).read_text()
    assert not [act for act in world.acts if not act.endswith(" 0")]


def test_no_broker_goes_back_alone_once_controllers_are_replaced_or_zookeeper_mode_lacks_a_feature(
    world: Rolling,
) -> None:
    async def story() -> None:
        await world.to_rolling()
        await world.until(lambda: world.step(0) == "STARTED")
        world.hosts.state(0, "stopped")
        await world.until(lambda: world.step(0) == "FAILED")

    asyncio.run(story())
    snapshot, good = world.snapshot, world.evidence
    assert good.road is not None
    assert may_send_back(snapshot, good).node_id == 0
    spoiled: dict[str, Any]
    for spoiled in ({"features": ("kraft.version",)}, {"offline": (0,)}, {"log_problem": "nobody leads"}):
        with pytest.raises(FindingError) as caught:
            may_send_back(snapshot, replace(good, road=replace(good.road, **spoiled)))
        assert caught.value.code == BACK_REFUSED.code == "Z2K-4216"
    snapshot.migration.phase = Phase.REPLACING_CONTROLLERS
    with pytest.raises(FindingError, match="not in REPLACING_CONTROLLERS"):
        may_send_back(snapshot, good)


def test_a_file_that_somebody_changed_is_named_within_half_a_minute(world: Rolling) -> None:
    async def story() -> None:
        await world.to_rolling()
        await world.until(lambda: world.rolled)
        await world.turn(5)
        with world.hosts.file(1).open("a") as file:
            file.write("num.io.threads=9\n")
        await world.turn(40)

    asyncio.run(story())
    assert "Z2K-4209" in codes(world)
    document: dict[str, Any] = world.snapshot.documents["files"]
    assert document["drifted"] == [{"role": "broker", "node": 1, "said": str(world.hosts.file(1))}]
