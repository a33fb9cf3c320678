"""The first start of Kafka's own controllers: a directory is formatted once, and only where it holds nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from migrator.findings.finding import FindingError
from migrator.findings.fleet import FILE_ABSENT
from migrator.fleet.actuator import Done, Performed, ProcessState, ProcessStatus
from migrator.fleet.files import Present
from migrator.node.log.storage import read_meta_properties
from state_machine.rolling.begin import BeginRoll

CLUSTER = "FbxHQtKdRWi4pNqPAw3Rlg"
FILE = b"process.roles=controller\nnode.id=3000\nlog.dirs=%s\nmetadata.log.dir=%s\n"


@dataclass
class Disk:
    """A host with this disk, as an actuator shows it."""

    written: list[str] = field(default_factory=list)

    def read(self, path: str) -> bytes:
        try:
            return Path(path).read_bytes()
        except FileNotFoundError:
            raise FILE_ABSENT.error(path=path, node=3000) from None

    def list(self, directory: str) -> tuple[str, ...]:
        if not Path(directory).is_dir():
            raise FILE_ABSENT.error(path=directory, node=3000)
        return tuple(sorted(each.name for each in Path(directory).iterdir()))

    def write(self, path: str, content: bytes) -> Performed:
        Path(path).write_bytes(content)
        self.written.append(Path(path).name)
        return Done()

    def status(self) -> ProcessStatus:
        return ProcessStatus(ProcessState.STOPPED)


def a_task(disk: Disk, file: Path) -> Any:
    quorum = SimpleNamespace(metadata_version="3.9")
    rendered = SimpleNamespace(checksum="", document=Present(str(file), file.read_bytes()).document)
    fleet = SimpleNamespace(
        inventory=SimpleNamespace(cluster=SimpleNamespace(quorum=quorum)), render=lambda *given: rendered
    )
    round = SimpleNamespace(fleet=fleet, snapshot=SimpleNamespace(migration=SimpleNamespace(cluster_id=CLUSTER)))
    node = SimpleNamespace(id=3000, name="controller 3000", path=str(file), actuator=disk)
    return SimpleNamespace(round=round, node=node)


def test_each_directory_is_formatted_once_bootstrap_first_and_the_same_at_each_repetition(tmp_path: Path) -> None:
    disk, directory, file = Disk(), tmp_path / "metadata", tmp_path / "controller.properties"
    directory.mkdir()
    file.write_bytes(FILE % (bytes(directory), bytes(directory)))
    task, begin = a_task(disk, file), BeginRoll()
    begin._format(task, str(directory))
    assert disk.written == ["bootstrap.checkpoint", "meta.properties"]
    first = read_meta_properties(directory)
    assert (first.cluster_id, first.node_id) == (CLUSTER, 3000)
    assert first.directory_id
    assert begin._format(task, str(directory)) is None
    assert disk.written == ["bootstrap.checkpoint", "meta.properties"], "it is left as it is"
    (directory / "meta.properties").unlink()  # a write that was cut between the two
    begin._format(task, str(directory))
    assert read_meta_properties(directory) == first


def test_a_directory_with_a_log_is_refused(tmp_path: Path) -> None:
    disk, directory, file = Disk(), tmp_path / "metadata", tmp_path / "controller.properties"
    log = directory / "__cluster_metadata-0"
    log.mkdir(parents=True)
    file.write_bytes(FILE % (bytes(directory), bytes(directory)))
    task, present = a_task(disk, file), Present(str(file), file.read_bytes())
    assert BeginRoll().found(task, present) is None, "an empty one is nobody's"
    (log / "00000000000000000000.log").write_bytes(b"")
    with pytest.raises(FindingError, match="has a metadata log already"):
        BeginRoll().found(task, present)
