"""A directory that Kafka's own tool formatted for dynamic voters: refused, and left as it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from migrator.lab.ours import OurController
from migrator.lab.servers.controller import quorum_specs
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.ports import HOST
from migrator.lab.servers.properties import write
from migrator.lab.servers.tools import random_cluster_id
from tests.e2e.support import HANGS_AFTER_S

pytestmark = pytest.mark.lab


def test_a_directory_formatted_as_standalone_is_refused_before_anything_is_written(laboratory: Laboratory) -> None:
    (spec,) = quorum_specs(laboratory, count=1, zookeeper_connect="", migrating=False)
    dynamic = spec.properties()
    del dynamic["controller.quorum.voters"]
    dynamic["controller.quorum.bootstrap.servers"] = f"{HOST}:{spec.port}"
    file = laboratory.directory / "dynamic.properties"
    write(file, dynamic)
    cluster_id = random_cluster_id()
    words = (f"--cluster-id={cluster_id}", "--standalone", "--config", file)
    laboratory.tool("kafka.tools.StorageTool", "format", *words)

    ours = OurController(laboratory, spec, cluster_id)
    before = contents(ours.data)
    assert any(name.endswith(".checkpoint") for name in before)
    ours.launch()
    assert ours.process.wait_for_exit(HANGS_AFTER_S)
    assert ours.process.exit_code == 1
    assert "Z2K-3020" in ours.process.log_text()
    assert contents(ours.data) == before


def contents(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}
