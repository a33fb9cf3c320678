"""docker/: the composition, its files and the inventory agree, and nothing of it is open beyond the host.

Elsewhere: the same with a real engine (tests/docker).
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from migrator.fleet.guard import why_not_used
from migrator.fleet.inventory import Inventory, check_inventory, read_inventory, wanted_of
from migrator.fleet.properties_file import parse_properties
from migrator.fleet.render import FileKind, render
from migrator.lab.servers.properties import read
from migrator.node.config.properties import read_config
from state_machine.settings import read_settings
from tests.docker.images import mirror_of, pinned_base

DOCKER: Final = Path(__file__).resolve().parents[3] / "docker"
FILES: Final = DOCKER / "cluster"
ETC: Final = "/etc/zk2kraft/"
VOLUME: Final = re.compile(r"\$\{ZK2KRAFT_[A-Z]+:-([^}]+)\}([^:]*):([^:]+)(?::ro)?")
INVENTORY: Final = FILES / "fleets/containers.yaml"


@pytest.fixture(scope="module")
def services() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = yaml.safe_load((DOCKER / "compose.yaml").read_text())["services"]
    return found


@pytest.fixture(scope="module")
def inventory() -> Inventory:
    return read_inventory(INVENTORY)


def by_container(services: dict[str, dict[str, Any]], name: str | None) -> dict[str, Any]:
    (found,) = (each for each in services.values() if each["container_name"] == name)
    return found


def mounted(service: dict[str, Any]) -> set[str]:
    """Paths inside the container, which are those of the host, since the service acts on both."""
    found = [VOLUME.fullmatch(each) for each in service["volumes"]]
    assert all(each is not None and each[1] + each[2] == each[3] for each in found), service["volumes"]
    return {each[3] for each in found if each is not None}


def test_the_inventory_has_no_fault_and_every_node_is_a_container_that_starts_its_file(
    services: dict[str, dict[str, Any]], inventory: Inventory
) -> None:
    assert check_inventory(inventory, INVENTORY.name, datetime.now(UTC)) == ()
    for node in inventory.nodes:
        service = by_container(services, node.container)
        assert node.properties in service["entrypoint"]
        places = mounted(service)
        for path in (node.properties, *node.log_dirs):
            assert any(path.startswith(place) for place in places), f"{path} is not mounted into {node.container}"
        properties = read(FILES / node.properties.removeprefix(ETC))
        assert properties["log.dirs"] == ",".join(node.log_dirs)
        assert properties.get("broker.id", properties.get("node.id")) == str(node.id)
        assert properties["zookeeper.connect"] == inventory.cluster.zookeeper


def test_stock_controllers_start_behind_the_guard_and_not_by_themselves(
    services: dict[str, dict[str, Any]], inventory: Inventory
) -> None:
    for node in inventory.controllers:
        service = by_container(services, node.container)
        first, *rest = service["entrypoint"]
        assert node.guard is not None
        assert why_not_used(f"{json.dumps(first)} {json.dumps(rest)}", node.guard, node.properties) is None
        assert (service["restart"], service["profiles"]) == ("no", ["stock"])


@pytest.mark.parametrize(
    ("role", "kinds"),
    [
        ("brokers", (FileKind.MIGRATION, FileKind.KRAFT)),
        ("controllers", (FileKind.STOCK, FileKind.FINALIZED)),
    ],
)
def test_every_file_of_the_road_can_be_made_of_the_shipped_ones(
    inventory: Inventory, role: str, kinds: tuple[FileKind, ...]
) -> None:
    for node in getattr(inventory, role):
        content = (FILES / node.properties.removeprefix(ETC)).read_bytes()
        for kind in kinds:
            document = parse_properties(content, node.properties)
            content = render(role.removesuffix("s"), document, kind, wanted_of(inventory, node)).require().content


def test_our_controllers_read_their_files_and_take_over_only_when_somebody_says_so(inventory: Inventory) -> None:
    for node in inventory.controllers:
        config = read_config(FILES / node.properties.removeprefix(ETC))
        assert (config.gates, config.migration_enabled) == ("pause", True)
        assert set(config.voter_ids) == {each.id for each in inventory.controllers}


def test_the_service_has_settings_that_it_accepts_and_no_port_is_open_beyond_the_host(
    services: dict[str, dict[str, Any]],
) -> None:
    settings = read_settings(FILES / "serve.toml")
    assert (settings.host, settings.origins) == ("0.0.0.0", ("http://127.0.0.1:8085",))
    assert settings.start_controllers is False
    published = [port for service in services.values() for port in service.get("ports", ())]
    assert len(published) == 4
    assert all(port.startswith("127.0.0.1:") for port in published), published
    for name, service in services.items():
        assert "privileged" not in service, name
        assert service.get("network_mode", "") != "host", name
        assert service.get("pid", "") != "host", name


def test_the_image_is_pinned_by_its_content_and_ends_as_an_ordinary_user() -> None:
    ours, kafka = ((DOCKER / name).read_text() for name in ("Dockerfile", "kafka/Dockerfile"))
    assert re.fullmatch(r"python:3\.\d+\.\d+-slim-bookworm@sha256:[0-9a-f]{64}", pinned_base())
    assert f"ARG BASE={pinned_base()}" in kafka
    assert [line for line in ours.splitlines() if line.startswith("USER ")] == ["USER zk2kraft"]
    assert [line for line in kafka.splitlines() if line.startswith("USER ")] == ["USER 10001:10001"]


def test_the_mirror_is_the_one_that_apt_uses() -> None:
    policy = (
        "Package files:\n 100 /var/lib/dpkg/status\n     release a=now\n"
        " 500 http://mirror.example/security bookworm-security/main amd64 Packages\n"
        " 500 http://mirror.example/debian bookworm/main amd64 Packages\n"
    )
    assert mirror_of(policy) == "http://mirror.example/debian"
    assert mirror_of("Package files:\n") is None


# --- health -----------------------------------------------------------------------------------------------


class Healthz(BaseHTTPRequestHandler):
    """Answers `status` of its server."""

    def do_GET(self) -> None:
        self.send_response(self.server.status if self.path == "/healthz" else 404)  # type: ignore[attr-defined]
        self.end_headers()

    def log_message(self, *words: object) -> None:
        """No lines in the report."""


@pytest.fixture
def server() -> Iterator[HTTPServer]:
    with HTTPServer(("127.0.0.1", 0), Healthz) as made:
        threading.Thread(target=made.serve_forever, daemon=True).start()
        yield made
        made.shutdown()


def health(file: Path) -> int:
    """By the shipped check, but that it waits longer: who answers it runs in this process, and may stand still."""
    shipped = (DOCKER / "healthcheck.py").read_text()
    patient = file.with_name("healthcheck.py")
    patient.write_text(shipped.replace("TIMEOUT_S = 3.0", "TIMEOUT_S = 60.0"))
    assert patient.read_text() != shipped
    command: list[str | Path] = [sys.executable, "-I", "-S", patient, file]
    environment = {**os.environ, "http_proxy": "http://127.0.0.1:1"}
    return subprocess.run(command, env=environment, capture_output=True, timeout=120, check=False).returncode


def test_health_is_what_the_process_answers_where_its_file_says(server: HTTPServer, tmp_path: Path) -> None:
    file = tmp_path / "serve.json"
    assert health(file) == 1
    file.write_text("[]")
    assert health(file) == 1
    file.write_text(json.dumps({"url": f"http://127.0.0.1:{server.server_port}"}))
    for status, code in ((200, 0), (503, 1)):
        server.status = status  # type: ignore[attr-defined]
        assert health(file) == code
