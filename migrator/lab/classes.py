"""An archive of loaded classes, so that a JVM does not parse and verify the same classes at every start.

In:   artifacts.
Out:  the same artifacts with an archive, made once per Kafka and Java by letting one broker run and end.
Elsewhere: which flags use it (java.py).
Source: JEP 350 (dynamic class-data archives). Measured on 2 cores: three brokers up in 1.2 s with it, 1.9 s without.
It is only ever a matter of speed: where it cannot be made, everything works without, and one line says so.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Final

from migrator.findings.finding import FindingError
from migrator.lab.servers.artifacts import Artifacts, cache_directory, kafka_artifacts, locked
from migrator.lab.servers.broker import BrokerProcess, BrokerSpec
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.ports import HOST
from migrator.lab.servers.waiting import Say, say_on_stderr
from migrator.lab.servers.zookeeper import ZooKeeper

TRAINING_DEADLINE_S: Final = 60.0
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
    """Run one broker to its end and keep what it loaded; an empty file remembers that it did not work."""
    say(f"archiving the classes of Kafka {artifacts.version}, once (a few seconds)")
    work = archive.with_name("classes.training")
    shutil.rmtree(work, ignore_errors=True)
    draft = work / "draft.jsa"
    try:
        with Laboratory(work, replace(artifacts, archive=None), say=say) as laboratory:
            _run_once(laboratory, draft)
    except FindingError as error:
        say(f"going on without an archive of classes: {error}")
    if not draft.exists():
        draft.touch()
    draft.replace(archive)
    shutil.rmtree(work, ignore_errors=True)


def _run_once(laboratory: Laboratory, draft: Path) -> None:
    zookeeper = ZooKeeper(laboratory)
    zookeeper.start(TRAINING_DEADLINE_S)
    spec = BrokerSpec(
        broker_id=0,
        port=laboratory.ports.reserve(),
        directory=laboratory.directory / "broker-0",
        zookeeper_connect=zookeeper.hosts,
        ibp=".".join(laboratory.artifacts.version.split(".")[:2]),
    )
    broker = _TrainingBroker(laboratory, spec.as_migrating(NO_VOTER), zookeeper.client())
    broker.draft = draft
    broker.start()
    broker.wait_ready(TRAINING_DEADLINE_S)
    broker.stop(TRAINING_DEADLINE_S)


class _TrainingBroker(BrokerProcess):
    draft: Path

    def jvm_options(self) -> tuple[str, ...]:
        return (f"-XX:ArchiveClassesAtExit={self.draft}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off")


def _fingerprint(artifacts: Artifacts) -> str:
    """An archive fits one class path, in its order, and one Java."""
    words = f"{artifacts.class_path}\n{artifacts.java.path}\n{artifacts.java.text}"
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
