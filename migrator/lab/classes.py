"""An archive of loaded classes, so that a JVM does not parse and verify the same classes at every start.

In:   artifacts.
Out:  the same artifacts with an archive, made once per Kafka and Java from what servers and tools load.
Elsewhere: which flags use it (java.py).
Source: JEP 310 and JEP 341 (class-data sharing of applications, default archives).
It is only ever a matter of speed: where it cannot be made, everything works without, and one line says so.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import shutil
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from confluent_kafka import KafkaException

from migrator.findings.finding import FindingError
from migrator.findings.laboratory import TOOL_FAILED
from migrator.lab.kraft import KraftCluster, Whose
from migrator.lab.servers.artifacts import KAFKA_VERSION, Artifacts, cache_directory, kafka_artifacts, locked
from migrator.lab.servers.broker import BrokerProcess, BrokerSpec
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.ports import HOST
from migrator.lab.servers.processes import Process
from migrator.lab.servers.tools import dump_metadata_log, elect_preferred_leaders, list_reassignments
from migrator.lab.servers.waiting import Say, say_on_stderr
from migrator.lab.servers.zookeeper import ZooKeeper

TRAINING_DEADLINE_S: Final = 60.0
LISTED: Final = "servers of both modes, tools"
"""Another word, another archive."""
NO_VOTER: Final = f"3000@{HOST}:1"
"""A quorum that nobody answers for: enough to load the classes of the migration mode."""


def prepared(version: str | None = None, say: Say = say_on_stderr) -> Artifacts:
    """Artifacts ready for a laboratory: brought and trained now if need be. Raises Z2K-6001, Z2K-6002."""
    artifacts = kafka_artifacts(version, say=say)
    return replace(artifacts, archive=archive_of(artifacts, say))


def archive_of(artifacts: Artifacts, say: Say = say_on_stderr) -> Path | None:
    """The archive that fits these artifacts; None where none can be had (Kafka 4 has no ZooKeeper to train with)."""
    if not list(artifacts.libs.glob("zookeeper-[0-9]*.jar")):
        return None
    archive = cache_directory(os.environ) / "kafka" / artifacts.version / f"classes-{_fingerprint(artifacts)}.jsa"
    if not archive.exists():
        with locked(archive.with_name("classes.lock"), say, "another run to archive classes"):
            if not archive.exists():
                _train(artifacts, archive, say)
    return archive if archive.stat().st_size else None


def _train(artifacts: Artifacts, archive: Path, say: Say) -> None:
    """Run each kind of process once and keep what they loaded; an empty file remembers that it did not work."""
    say(f"archiving the classes of Kafka {artifacts.version}, once (up to half a minute)")
    work = archive.with_name("classes.training")
    shutil.rmtree(work, ignore_errors=True)
    draft = work / "draft.jsa"
    try:
        with _Training(work, replace(artifacts, archive=None), say=say) as laboratory:
            _run_zookeeper_mode(laboratory)
            if artifacts.version == KAFKA_VERSION:  # another release runs in one test
                _run_kraft_mode_and_tools(laboratory)
            _dump(laboratory, draft)
    except (FindingError, KafkaException, OSError) as error:
        say(f"going on without an archive of classes: {error}")
    if not draft.exists():
        draft.touch()
    draft.replace(archive)
    shutil.rmtree(work, ignore_errors=True)


class _Training(Laboratory):
    """Every JVM in it lists the classes that it loads."""

    def __init__(self, directory: Path, artifacts: Artifacts, *, say: Say) -> None:
        super().__init__(directory, artifacts, say=say)
        self.lists = self.directory / "lists"
        self.lists.mkdir(parents=True)
        self._runs = itertools.count()

    def java(self, *words: Any, options: tuple[str, ...] = (), **settings: Any) -> Process:
        listing = f"-XX:DumpLoadedClassList={self.lists / str(next(self._runs))}"
        return super().java(*words, options=(*options, listing), **settings)


def _run_zookeeper_mode(laboratory: Laboratory) -> None:
    zookeeper = ZooKeeper(laboratory)
    zookeeper.start(TRAINING_DEADLINE_S)
    spec = BrokerSpec(
        broker_id=0,
        port=laboratory.ports.reserve(),
        directory=laboratory.directory / "broker-0",
        zookeeper_connect=zookeeper.hosts,
        ibp=".".join(laboratory.artifacts.version.split(".")[:2]),
    )
    broker = BrokerProcess(laboratory, spec.as_migrating(NO_VOTER), zookeeper.client())
    broker.start()
    broker.wait_ready(TRAINING_DEADLINE_S)
    broker.stop(TRAINING_DEADLINE_S)
    shutil.rmtree(broker.directory)  # the next broker has its place
    zookeeper.stop()


def _run_kraft_mode_and_tools(laboratory: Laboratory) -> None:
    cluster = KraftCluster(laboratory, Whose.STOCK, controllers=1, brokers=1)
    cluster.start(TRAINING_DEADLINE_S)
    cluster.create_topics(["trained"], partitions=1)
    server = ("--bootstrap-server", cluster.bootstrap_servers)
    laboratory.tool("org.apache.kafka.tools.TopicCommand", *server, "--describe")
    laboratory.tool("kafka.admin.ConfigCommand", *server, "--entity-type", "brokers", "--describe")
    with suppress(FindingError):  # without an authorizer it lists nothing
        laboratory.tool("kafka.admin.AclCommand", *server, "--list")
    list_reassignments(laboratory, cluster.bootstrap_servers)
    elect_preferred_leaders(laboratory, cluster.bootstrap_servers)
    dump_metadata_log(laboratory, cluster.controllers[0].metadata_log)
    cluster.stop()


def _dump(laboratory: _Training, archive: Path) -> None:
    """Raises Z2K-6007 when the JVM refuses."""
    merged = laboratory.directory / "classes.lst"
    merged.write_text("".join(f"{line}\n" for line in merged_lists(laboratory.lists.iterdir())))
    runs = laboratory.artifacts
    command = [runs.java.path, "-Xshare:dump", f"-XX:SharedClassListFile={merged}", f"-XX:SharedArchiveFile={archive}"]
    process = laboratory.processes.start("dump", [*command, "-Xlog:cds=off", "-cp", runs.class_path])
    if not process.wait_for_exit(TRAINING_DEADLINE_S) or process.exit_code != 0:
        output, exit_code = process.log_tail(), process.exit_code
        archive.unlink(missing_ok=True)
        raise TOOL_FAILED.error(tool="java -Xshare:dump", exit_code=exit_code, output=output)


def merged_lists(lists: Iterable[Path]) -> list[str]:
    """Lines of -XX:DumpLoadedClassList of several JVMs as one list: each once, without the ids of the one JVM.

    Classes of class loaders of their own are left out: they are named by such ids.
    """
    found: dict[str, None] = {}
    for file in sorted(lists):
        for line in file.read_text().splitlines():
            if not line.startswith("#") and " source: " not in line:
                found[line.partition(" id: ")[0]] = None
    return list(found)


def _fingerprint(artifacts: Artifacts) -> str:
    """An archive fits one class path, in its order, and one Java; and it has what was listed for it."""
    words = f"{LISTED}\n{artifacts.class_path}\n{artifacts.java.path}\n{artifacts.java.text}"
    return hashlib.sha256(words.encode()).hexdigest()[:16]


def main() -> int:
    """Bring and train the default version; for the set-up, so that no later step has to wait for it."""
    try:
        artifacts = prepared()
    except FindingError as error:
        print(error, error.occurrence.finding.remedy, file=sys.stderr)
        return 1
    print(f"Kafka {artifacts.version} is in {artifacts.libs}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
