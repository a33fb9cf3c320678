"""`make bench-audit-load`: what a running audit does to others' latency, on ZooKeeper and on brokers.

In:   `python -m tests.benchmarks.audit_load [--topics 10000] [--engines quick spark] [--seconds 10] [--turns 3]
      [--of zookeeper brokers]`.
Out:  p99 of one client's reads and writes with and without audits that follow each other, in turn; of ZooKeeper on a
      large tree, and of a producer and of metadata on three brokers that are asked as the third side.
Elsewhere: what an audit itself takes (audit.py, third_side.py).
The client does one thing at a time, `EVERY_S` apart, from this process. Ratios count: on two cores the client, the
server and the audit share what there is.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from kazoo.client import KazooClient

from migrator.lab.classes import prepared
from migrator.lab.cluster import LabCluster
from migrator.lab.ours import start_ready_to_migrate
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.ports import HOST
from migrator.lab.servers.zookeeper import ZooKeeper
from migrator.zk.session import ZkSession
from state_machine.children.commands import give_way
from tests.benchmarks.rehearse import COMMAND
from tests.benchmarks.takeovers import HEAP_MB, HEAP_PER_100K_MB
from tests.support.seeded_tree import SeededTree

EVERY_S: Final = 0.01
BROKER_TOPICS: Final = 200
PARTITIONS: Final = 10
MASTER: Final = "local[2]"

Probe = Callable[[], object]


def p99_ms(probe: Probe, seconds: float) -> float:
    taken, ends = [], time.monotonic() + seconds
    while time.monotonic() < ends:
        began = time.perf_counter()
        probe()
        taken.append(time.perf_counter() - began)
        time.sleep(EVERY_S)
    return statistics.quantiles(taken, n=100)[98] * 1_000


@contextmanager
def audits(words: Sequence[str]) -> Iterator[None]:
    """One behind the other, until the end; each gives way to others, as those of the service do."""
    script = 'while "$@" >/dev/null; do :; done'
    process = subprocess.Popen(["bash", "-c", script, "audits", *words], start_new_session=True)
    give_way(process.pid)
    try:
        yield
        assert process.poll() is None, "an audit did not pass"
    finally:
        subprocess.run(["pkill", "-TERM", "-s", str(process.pid)], check=False)
        process.wait()


def measured(what: str, probes: dict[str, Probe], words: Sequence[str], seconds: float, turns: int) -> None:
    found: dict[tuple[str, bool], list[float]] = {}
    for _ in range(turns):
        for name, probe in probes.items():
            found.setdefault((name, False), []).append(p99_ms(probe, seconds))
        with audits(words):
            time.sleep(1)
            for name, probe in probes.items():
                found.setdefault((name, True), []).append(p99_ms(probe, seconds))
    for name in probes:
        alone, beside = (statistics.median(found[name, each]) for each in (False, True))
        print(
            f"{what}: p99 of {name}: {alone:.1f} ms alone, {beside:.1f} ms beside audits: {beside / alone:.2f}",
            flush=True,
        )


def on_zookeeper(laboratory: Laboratory, options: argparse.Namespace) -> None:
    tree = SeededTree(options.topics, PARTITIONS)
    zookeeper = ZooKeeper(laboratory)
    (server,) = zookeeper.servers
    heap_mb = HEAP_MB + options.topics * PARTITIONS // 100_000 * HEAP_PER_100K_MB
    server.spec = replace(server.spec, heap_mb=heap_mb)
    zookeeper.start()
    address, copy = f"{HOST}:{server.spec.port}", laboratory.directory / "copy"
    with ZkSession(address) as session:
        tree.seed(session)
    subprocess.run([*COMMAND, "rehearse", "-z", address, "--out", str(copy)], check=True, stdout=subprocess.DEVNULL)
    client = KazooClient(address)
    client.start(30)
    client.create("/probe", b"x")
    probes: dict[str, Probe] = {"a read": lambda: client.get("/probe"), "a write": lambda: client.set("/probe", b"x")}
    for engine in options.engines:
        words = [*COMMAND, "audit", "-z", address, "--kraft", str(copy), "--engine", engine, "--master", MASTER]
        size = f"{options.topics * PARTITIONS:,} partitions"
        measured(f"ZooKeeper, {size}, {engine}", probes, words, options.seconds, options.turns)
    client.stop()
    client.close()
    zookeeper.stop()


def on_brokers(laboratory: Laboratory, options: argparse.Namespace) -> None:
    cluster = LabCluster(laboratory)
    (controller,) = start_ready_to_migrate(cluster, extra={"zk2kraft.takeover.max.ms": 60_000})
    topics = [f"topic-{number}" for number in range(BROKER_TOPICS)]
    cluster.create_topics(topics, partitions=PARTITIONS)
    controller.start()
    controller.wait_dual_write()
    cluster.wait_isr_whole(topics)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", "linger.ms": 0})
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})

    def produce() -> None:
        producer.produce(topics[0], b"x", partition=0)
        assert producer.flush(30) == 0

    probes: dict[str, Probe] = {"an acknowledged record": produce, "metadata": lambda: admin.list_topics(topics[0])}
    words = [*COMMAND, "audit", "-z", cluster.zookeeper_connect, "--kraft", str(controller.metadata_log)]
    words += ["--brokers", "registered", "--master", MASTER, "--engine"]
    for _ in range(60):
        if subprocess.run([*words, "quick"], stdout=subprocess.DEVNULL, check=False).returncode == 0:
            break
    size = f"{BROKER_TOPICS * PARTITIONS:,} partitions"
    for engine in options.engines:
        what = f"three brokers, {size}, three sides, {engine}"
        measured(what, probes, [*words, engine], options.seconds, options.turns)


SERVERS: Final = {"zookeeper": on_zookeeper, "brokers": on_brokers}


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.audit_load")
    parser.add_argument("--topics", type=int, default=10_000)
    parser.add_argument("--engines", nargs="+", default=["quick", "spark"])
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--of", nargs="+", choices=list(SERVERS), default=list(SERVERS))
    options = parser.parse_args(words)
    for each in (SERVERS[name] for name in options.of):
        with (
            tempfile.TemporaryDirectory(prefix="zk2kraft-load-") as home,
            Laboratory(Path(home), prepared()) as laboratory,
        ):
            each(laboratory, options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
