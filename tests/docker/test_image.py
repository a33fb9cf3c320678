"""What the image of zk2kraft is, whatever it is used for."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.docker.engine import Engine

pytestmark = [pytest.mark.docker, pytest.mark.timeout(3600)]


@pytest.fixture(scope="module")
def config(engine: Engine, images: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(engine.docker("image", "inspect", images))[0]["Config"]
    return found


@pytest.fixture
def container(engine: Engine, images: str) -> Iterator[list[str]]:
    """Names of containers that are removed after the test."""
    names: list[str] = []
    yield names
    for name in names:
        engine.run(["rm", "--force", "--volumes", name])


def test_it_runs_as_an_ordinary_user_with_its_data_on_a_volume(
    engine: Engine, images: str, config: dict[str, Any]
) -> None:
    assert config["User"] == "zk2kraft"
    assert list(config["Volumes"]) == ["/var/lib/zk2kraft"]
    ask = (
        "id -u; test -w /opt/zk2kraft && echo writable; test -w /usr/local/bin && echo writable; touch here && echo may"
    )
    said = engine.docker("run", "--rm", "--entrypoint", "/bin/sh", images, "-c", ask)
    assert said.split() == ["10001", "may"]


def test_runbooks_guard_and_actuators_are_inside(engine: Engine, images: str) -> None:
    page = engine.docker("run", "--rm", "--entrypoint", "cat", images, "/opt/zk2kraft/runbooks/Z2K-4010.md")
    assert page.startswith("# Z2K-4010")
    ask = "ls /opt/zk2kraft/runbooks | wc -l; ls /opt/zk2kraft/actuators; ls /opt/zk2kraft/guard; java -version 2>&1"
    said = engine.docker("run", "--rm", "--entrypoint", "/bin/sh", images, "-c", ask)
    assert int(said.split()[0]) > 100
    assert {"docker.yaml", "zk2kraft-guard"} <= set(said.split())
    assert 'version "17' in said


def test_a_service_without_configuration_is_healthy_and_closed_to_other_containers(
    engine: Engine, images: str, container: list[str]
) -> None:
    name = engine.docker("run", "--detach", "--env", "ZK2KRAFT_SERVE_AUDIT_ENGINE=quick", images, "serve")
    container.append(name)
    ends = time.monotonic() + 120
    while (health := engine.docker("inspect", "--format", "{{.State.Health.Status}}", name)) != "healthy":
        assert time.monotonic() < ends, engine.docker("logs", name, merged=True) + health
        time.sleep(1)
    address = engine.docker("inspect", "--format", "{{.NetworkSettings.IPAddress}}", name)
    ask = f"import socket; socket.create_connection(('{address}', 8085), 3)"
    done = engine.run(["run", "--rm", "--entrypoint", "python3", images, "-c", ask])
    assert b"ConnectionRefusedError" in done.stderr
    engine.docker("stop", "--time", "30", name)
    assert engine.docker("inspect", "--format", "{{.State.ExitCode}}", name) == "0"


def test_a_service_that_would_listen_to_everybody_without_declared_names_does_not_start(
    engine: Engine, images: str
) -> None:
    done = engine.run(["run", "--rm", "--env", "ZK2KRAFT_SERVE_HOST=0.0.0.0", images, "serve"])
    assert done.returncode != 0
    assert b"Z2K-4010" in done.stderr + done.stdout
