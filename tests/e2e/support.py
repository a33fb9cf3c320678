"""What the scenarios with real brokers share: a cluster ready for a takeover, and looks at it from outside."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient

from migrator.lab.admin import by_new_clients
from migrator.lab.cluster import DID_NOTHING, LOOKS_FOR_FLAWS_S, LabCluster
from migrator.lab.ours import OurController, start_ready_to_migrate
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.properties import Value

POLL_EVERY_S, POLL_AT_LEAST_EVERY_S = 0.02, 0.6

HANGS_AFTER_S = 240.0
"""Ends a test that hangs; what is slow passes. How fast something is, benchmarks say."""
AUDIT_DEADLINE_S = 600.0
"""Spark has a low priority, and three test files share the machine."""
LONG_WINDOW: Final[Mapping[str, Value]] = {"zk2kraft.takeover.max.ms": 60_000}
"""As much as it may: a takeover that ends for a busy machine is not tried again. Tests of the window set their own."""
SPOILED = str(Path(__file__).parents[1] / "support" / "spoiled_controller.py")

Answer = TypeVar("Answer")


@contextmanager
def ready_cluster(
    laboratory: Laboratory,
    topics: int = 3,
    *,
    partitions: int = 4,
    chroot: str = "",
    brokers: int = 3,
    extra: Mapping[str, Value] | None = None,
    broker_extra: Mapping[str, Value] | None = None,
) -> Iterator[tuple[LabCluster, OurController]]:
    """A cluster in ZooKeeper mode with topics, its brokers with the migration on, and a controller of ours that was not
    started yet. (Restarting brokers into the migration is tried in test_lab_traffic.py, test_families.py and others.)
    """
    cluster = LabCluster(laboratory, chroot=chroot, brokers=brokers, extra=broker_extra)
    (controller,) = start_ready_to_migrate(cluster, extra={**LONG_WINDOW, **(extra or {})})
    cluster.create_topics([f"topic-{number}" for number in range(topics)], partitions=partitions)
    yield cluster, controller


def spoil(controller: OurController, mark: Path, **spoiled: Any) -> None:
    """From its next start on the controller runs with something spoiled."""
    controller.program = (SPOILED,)
    controller.environment["SPOIL"] = json.dumps({"mark": str(mark), **spoiled})


def unspoil(controller: OurController) -> None:
    controller.program = ("-m", "api")
    controller.environment.pop("SPOIL", None)


def wait_for(why_not: Callable[[], str | None], what: str, deadline_s: float = HANGS_AFTER_S) -> float:
    """Poll until it holds; fails the test with the last reason. Returns the seconds that took.

    A question that costs much (a view of the service, the states of three controllers) is put less often: it takes its
    time from those who are waited for.
    """
    began = time.monotonic()
    while True:
        asked = time.monotonic()
        reason = why_not()
        now = time.monotonic()
        if reason is None:
            return now - began
        assert now - began < deadline_s, f"{what} after {deadline_s} s: {reason}"
        time.sleep(min(max(POLL_EVERY_S, 6 * (now - asked)), POLL_AT_LEAST_EVERY_S))


def controller_of(cluster: LabCluster) -> dict[str, Any] | None:
    """`/controller` as ZooKeeper has it."""
    data = cluster.zk.read("/controller")
    return None if data is None else dict(json.loads(data))


def zookeeper_rules(cluster: LabCluster) -> str | None:
    """None when a ZooKeeper-mode broker is controller."""
    found = controller_of(cluster)
    if found is None:
        return "nobody is controller"
    return None if found.get("kraftControllerEpoch", -1) <= 0 else f"KRaft node {found['brokerid']} is controller"


def wait_zookeeper_rules(cluster: LabCluster, deadline_s: float = HANGS_AFTER_S) -> float:
    return wait_for(lambda: zookeeper_rules(cluster), "a ZooKeeper broker is controller", deadline_s=deadline_s)


def audit(
    cluster: LabCluster,
    kraft: Path | str,
    engine: str = "quick",
    exits: Collection[int] = (0, 1),
    controller: Path | None = None,
) -> dict[str, Any]:
    """Our audit, as anybody would run it. kraft: a directory, or the address of a controller."""
    command = [sys.executable, "-m", "api", "audit", "-z", cluster.zookeeper_connect, "--kraft", str(kraft)]
    command += [] if controller is None else ["--controller", str(controller)]
    done = subprocess.run(
        [*command, "--engine", engine, "--json"], capture_output=True, text=True, timeout=AUDIT_DEADLINE_S
    )
    assert done.returncode in exits, done.stderr
    return dict(json.loads(done.stdout))


def assert_same(cluster: LabCluster, kraft: Path | str, controller: Path | None = None) -> None:
    report = audit(cluster, kraft, controller=controller)
    assert report["same"], report["differences"]


def produce(cluster: LabCluster, topic: str, count: int) -> None:
    """Acknowledged by all, or the test fails."""
    failed: list[str] = []
    producer = Producer({**cluster.client, "acks": "all", "enable.idempotence": True})
    for number in range(count):
        producer.produce(topic, f"{number}", on_delivery=lambda error, _: failed.append(str(error)) if error else None)
    try:
        wait_for(lambda: why_not_written(cluster, producer), f"{topic} is written to")
    except AssertionError as error:
        raise AssertionError(f"{error}\n{who_leads(cluster, topic)}") from None
    assert not failed, failed[:3]


LAST_WARNINGS: Final = 12


def who_leads(cluster: LabCluster, topic: str) -> str:
    """The topic's states in ZooKeeper, what each running broker tells clients of it, and its last warnings."""
    partitions = f"/brokers/topics/{topic}/partitions"
    said = [
        f"{topic}-{each}: {cluster.zk.read(f'{partitions}/{each}/state')!r}" for each in cluster.zk.children(partitions)
    ]
    for broker in (each for each in cluster.brokers if each.is_running):
        try:
            client = AdminClient({**cluster.client, "bootstrap.servers": broker.address})
            found = client.list_topics(topic, timeout=LOOKS_FOR_FLAWS_S).topics[topic].partitions.values()
            told = "; ".join(f"{each.id}: leader {each.leader}, isr {each.isrs}, {each.error}" for each in found)
        except (KafkaException, KeyError) as error:
            told = repr(error)
        lines = broker.process.log.read_text(errors="replace").splitlines()
        warned = [line for line in lines if " WARN " in line or " ERROR " in line][-LAST_WARNINGS:]
        said += [f"{broker.name} says {told}", *warned]
    return "\n".join(said)


def why_not_written(cluster: LabCluster, producer: Producer) -> str | None:
    left = producer.flush(LOOKS_FOR_FLAWS_S)
    return f"{left} records are not acknowledged; {cluster.restart_flawed()} brokers restarted" if left else None


def claims(controller: OurController) -> list[int]:
    """Controller epochs that it ever claimed."""
    return [event["controller_epoch"] for event in controller.events() if event.get("event") == "zk.takeover"]


def copies(controller: OurController) -> int:
    return sum(event.get("event") == "copy.committed" for event in controller.events())


def once(make: Callable[[], AdminClient], ask: Callable[[AdminClient], Answer], what: str) -> Answer:
    """The answer to a request that is sent once, by whichever client connects.

    Brokers name one of them at random as the controller, and librdkafka now and then waits for the one of an earlier
    answer without connecting to it; then a new client asks (lab/admin.py). So it does after a refusal that passes by
    itself: who was asked is controller no more, or a broker is fenced for a moment; nothing was done then.
    """
    answers: list[Answer] = []

    def why_not() -> str | None:
        try:
            answers.append(by_new_clients(make, ask, what, deadline_s=HANGS_AFTER_S))
        except KafkaException as error:
            if error.args[0].code() not in DID_NOTHING:
                raise
            return str(error)
        return None

    wait_for(why_not, what)
    return answers[0]
