"""What tests with real servers share: Kafka's jars, and a laboratory of their own.

In:   Java 17 and, the first time, a network; `make test` sees to both.
Out:  `kafka_artifacts` (once for all tests), `zookeeper` (one for each module), `laboratory` (one for each test, in its
      own directory).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from migrator.lab.classes import prepared
from migrator.lab.servers.artifacts import Artifacts
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.zookeeper import ZooKeeper


@pytest.fixture(scope="session")
def kafka_artifacts() -> Artifacts:
    """The default Kafka. Raises Z2K-6001 or Z2K-6002 when it cannot be had: such a test fails, it does not skip."""
    return prepared()


@pytest.fixture(scope="module")
def zookeeper(kafka_artifacts: Artifacts, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    """One ZooKeeper for all tests of a module: each takes a chroot of its own."""
    with Laboratory(tmp_path_factory.mktemp("zookeeper") / "lab", kafka_artifacts) as opened:
        started = ZooKeeper(opened)
        started.start()
        yield started


@pytest.fixture
def laboratory(tmp_path: Path, kafka_artifacts: Artifacts) -> Iterator[Laboratory]:
    """A laboratory under the test's directory; nothing of it runs after the test."""
    with Laboratory(tmp_path / "lab", kafka_artifacts) as opened:
        yield opened
    assert opened.processes.running == []
