"""An engine and the images, once for all tests of this directory; the composition, once for each module.

In:   `ZK2KRAFT_DOCKER=1`, which `make docker-test` sets.
Out:  `engine`, `images`, and pytest-docker's fixtures for the composition (docker/compose.yaml).
Elsewhere: who drives it (composition.py). Without that variable nothing here starts a container, also in `make test`.
A migration leaves its cluster changed for good, so each module has its own.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from pytest_docker.plugin import Services, get_docker_services

from migrator.lab.servers.artifacts import kafka_artifacts
from migrator.lab.servers.laboratory import Laboratory
from tests.docker import images as pictures
from tests.docker.composition import PROJECT, Composition, prepared_files
from tests.docker.engine import Engine, opened, why_none

WANTED: Final = "ZK2KRAFT_DOCKER"
COMPOSE_FILE: Final = pictures.DOCKER / "compose.yaml"


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    """Skips where there is none: the end of the report says so (tests/support/skips.py)."""
    none = why_none() if os.environ.get(WANTED) == "1" else "`make docker-test` runs them"
    if none is not None:
        pytest.skip(f"containers: {none}")
    with opened() as found, pytest.MonkeyPatch.context() as patch:
        for name, value in found.environment.items():
            patch.setenv(name, value)
        yield found


@pytest.fixture(scope="session")
def images(engine: Engine) -> str:
    """The name of zk2kraft's image; Kafka's is made too. Where they cannot be made, tests fail: that is no skip."""
    pictures.make_images(engine)
    return pictures.OURS


# --- pytest-docker ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def composition_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("composition")


@pytest.fixture(scope="session")
def docker_compose_command(engine: Engine) -> str:
    return engine.compose


@pytest.fixture(scope="session")
def docker_compose_project_name() -> str:
    return PROJECT


@pytest.fixture(scope="module")
def docker_compose_file(engine: Engine, images: str, composition_directory: Path) -> Iterator[str]:
    """As it is shipped; its variables say where the files of this run lie."""
    etc, data = prepared_files(composition_directory)
    client = shutil.which("docker")
    assert client is not None, "an engine without its client"
    variables = {
        "ZK2KRAFT_ETC": etc,
        "ZK2KRAFT_DATA": data,
        "DOCKER_SOCKET": engine.socket,
        "DOCKER_CLIENT": Path(client).resolve(),
        "DOCKER_GROUP": engine.socket.stat().st_gid,
    }
    assert stat.S_ISSOCK(engine.socket.stat().st_mode)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, str(value))
        yield str(COMPOSE_FILE)


@pytest.fixture(scope="module")
def docker_setup() -> list[str]:
    """The cluster in ZooKeeper mode, and the stock controllers made, not started. Ours wait for their formatting."""
    return [
        "up -d --no-build zookeeper kafka-1 kafka-2 kafka-3 pod",
        "--profile stock up --no-start --no-build",
    ]


@pytest.fixture(scope="module")
def docker_cleanup(composition_directory: Path) -> list[str]:
    log = composition_directory / "containers.log"
    return [f"--profile stock logs --no-color > {log} 2>&1", "--profile stock down -v --timeout 20"]


@pytest.fixture(scope="module")
def docker_services(
    docker_compose_command: str,
    docker_compose_file: str,
    docker_compose_project_name: str,
    docker_setup: list[str],
    docker_cleanup: list[str],
) -> Iterator[Services]:
    """pytest-docker's own, for a module in place of a session; a set-up that fails is cleaned up as well."""
    with get_docker_services(
        docker_compose_command, docker_compose_file, docker_compose_project_name, [], docker_cleanup
    ) as services:
        for words in docker_setup:
            services._docker_compose.execute(words)
        yield services


@pytest.fixture(scope="module")
def composition(
    engine: Engine, composition_directory: Path, docker_services: Services, docker_ip: str
) -> Iterator[Composition]:
    """With our controllers formatted and not started, and the service answering."""
    with Laboratory(composition_directory / "laboratory", kafka_artifacts()) as laboratory:
        made = Composition(engine, composition_directory, docker_ip, docker_services, laboratory)
        made.format_controllers()
        made.compose("up -d --no-build serve")
        made.wait_served()
        yield made


@pytest.fixture(autouse=True)
def told_by_containers(request: pytest.FixtureRequest) -> Iterator[None]:
    """What containers said last, beside a test that failed."""
    yield
    if "composition" in request.fixturenames and "engine" in request.fixturenames:
        engine: Engine = request.getfixturevalue("engine")
        names = engine.docker("ps", "-a", "--filter", f"label=com.docker.compose.project={PROJECT}", "--format",
                              "{{.Names}} {{.Status}}")  # fmt: skip
        print(names)
        for line in names.splitlines():
            name = line.split()[0]
            done = subprocess.run(["docker", "logs", "--tail", "15", name], capture_output=True, check=False)
            print(f"--- {name}\n{(done.stdout + done.stderr).decode(errors='replace')}")
