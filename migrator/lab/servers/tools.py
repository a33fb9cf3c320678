"""Kafka's own command line tools, run inside a laboratory: what they print is the authority on what a file says.

In:   a laboratory, and files or addresses.
Out:  the tool's text.   Errors: Z2K-6007 when a tool ends with an error.
Elsewhere: our own reading of the same files (wire, node).
"""

from __future__ import annotations

import base64
import itertools
import json
import shutil
import tempfile
import uuid
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

from migrator.findings.finding import FindingError
from migrator.lab.servers.artifacts import Artifacts
from migrator.lab.servers.laboratory import Laboratory

ELECTION_DEADLINE_S: Final = 120.0
"""One run of the tool may take 20 s when it finds no leader."""


def format_storage(laboratory: Laboratory, properties_file: Path, cluster_id: str, release: str) -> str:
    """`kafka-storage format`: write meta.properties and the bootstrap records of `release` ("3.9").

    A broker in ZooKeeper mode may have made an id that begins with a dash, so it is not a word of its own here.
    """
    words = (f"--cluster-id={cluster_id}", "--config", properties_file, "--release-version", release)
    return laboratory.tool("kafka.tools.StorageTool", "format", *words)


def random_cluster_id() -> str:
    """What `kafka-storage random-uuid` prints, without a JVM: a random UUID in 22 characters, none that begins with a
    dash (Kafka's `Uuid.randomUuid`).
    """
    ids = (base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=") for _ in itertools.count())
    return next(each for each in ids if not each.startswith("-"))


def dump_metadata_log(laboratory: Laboratory, *files: Path, kafka: Artifacts | None = None) -> str:
    """`kafka-dump-log --cluster-metadata-decoder` of segments, snapshots, or whole directories of them.

    kafka: whose tool, when it is not the laboratory's.

    The files may belong to a running controller, which may delete them while the tool starts: copies are read.
    """
    copies = _copies(laboratory, files)
    assert copies, f"no segment and no snapshot in {files}"
    names = ",".join(str(each) for each in copies)
    tool = dump_log_segments(kafka or laboratory.artifacts)
    return laboratory.tool(tool, "--cluster-metadata-decoder", "--files", names, kafka=kafka)


def dump_log_segments(kafka: Artifacts) -> str:
    """Name the main class of `kafka-dump-log`."""
    return _since(kafka, "4.3", "kafka.tools.DumpLogSegments")


def config_command(kafka: Artifacts) -> str:
    """Name the main class of `kafka-configs`."""
    return _since(kafka, "4.4", "kafka.admin.ConfigCommand")


def _since(kafka: Artifacts, release: str, earlier: str) -> str:
    """The class of a tool that moved in that release: seen in the jars of 3.9.2, 4.2.2, 4.3.1 and 4.4.0."""
    moved = numbers_of(kafka.version) >= numbers_of(release)
    return f"org.apache.kafka.tools.{earlier.rpartition('.')[2]}" if moved else earlier


def numbers_of(version: str) -> tuple[int, ...]:
    """Return "4.10.1" as (4, 10, 1)."""
    return tuple(map(int, version.split(".")))


def describe_quorum(
    laboratory: Laboratory, controllers: str, view: Literal["--status", "--replication"] = "--status"
) -> str:
    """`kafka-metadata-quorum describe`, asked of the controllers ("host:port,...") directly.

    A quorum that is just electing refuses to answer, so the tool is run again until it does, for a while.
    """
    tool = "org.apache.kafka.tools.MetadataQuorumCommand"
    answers: list[str] = []

    def why_not() -> str | None:
        try:
            answers.append(laboratory.tool(tool, "--bootstrap-controller", controllers, "describe", view))
        except FindingError as error:
            return str(error)
        return None

    laboratory.wait(why_not, name="quorum", deadline_s=ELECTION_DEADLINE_S)
    return answers[-1]


def elect_preferred_leaders(laboratory: Laboratory, brokers: str) -> str:
    """`kafka-leader-election`: every partition goes back to its first replica. brokers: "host:port,..."."""
    return laboratory.tool(
        "org.apache.kafka.tools.LeaderElectionCommand",
        "--bootstrap-server",
        brokers,
        "--election-type",
        "preferred",
        "--all-topic-partitions",
    )


def elect_unclean_leader(laboratory: Laboratory, brokers: str, topic: str, partition: int) -> str:
    """`kafka-leader-election`: somebody leads this partition, also one that may lack records."""
    which = ("--topic", topic, "--partition", str(partition))
    kind = ("--election-type", "unclean")
    tool = "org.apache.kafka.tools.LeaderElectionCommand"
    return laboratory.tool(tool, "--bootstrap-server", brokers, *kind, *which)


Replicas = Mapping[tuple[str, int], Sequence[int]]
"""Broker ids by topic and partition."""


def reassign(laboratory: Laboratory, brokers: str, replicas: Replicas) -> str:
    """`kafka-reassign-partitions --execute`: order new replicas; does not wait for them."""
    return _reassign_tool(laboratory, brokers, "--reassignment-json-file", _plan(laboratory, replicas), "--execute")


def cancel_reassignment(laboratory: Laboratory, brokers: str, replicas: Replicas) -> str:
    """`kafka-reassign-partitions --cancel`: these moves are taken back. Without asking brokers about throttles, since
    one of them may be away.
    """
    words = ("--cancel", "--preserve-throttles")
    return _reassign_tool(laboratory, brokers, "--reassignment-json-file", _plan(laboratory, replicas), *words)


def list_reassignments(laboratory: Laboratory, brokers: str) -> str:
    """`kafka-reassign-partitions --list`: what moves now."""
    return _reassign_tool(laboratory, brokers, "--list")


def _reassign_tool(laboratory: Laboratory, brokers: str, *words: str | Path) -> str:
    tool = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
    return laboratory.tool(tool, "--bootstrap-server", brokers, *words)


def _plan(laboratory: Laboratory, replicas: Replicas) -> Path:
    moves = [
        {"topic": topic, "partition": partition, "replicas": list(chosen)}
        for (topic, partition), chosen in replicas.items()
    ]
    plan = laboratory.directory / "tools" / "reassignment.json"
    plan.parent.mkdir(exist_ok=True)
    plan.write_text(json.dumps({"version": 1, "partitions": moves}))
    return plan


def _copies(laboratory: Laboratory, files: Iterable[Path]) -> list[Path]:
    """Copies of segments and snapshots, by their own names, in the order of the files."""
    tools = laboratory.directory / "tools"
    tools.mkdir(exist_ok=True)
    copies = []
    for file in files:
        place = Path(tempfile.mkdtemp(prefix="copies-", dir=tools))
        for segment in sorted([*file.glob("*.checkpoint"), *file.glob("*.log")]) if file.is_dir() else [file]:
            try:
                copies.append(Path(shutil.copy(segment, place)))
            except FileNotFoundError:
                if not file.is_dir():
                    raise
    return copies
