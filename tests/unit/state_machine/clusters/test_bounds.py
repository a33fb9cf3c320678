"""What an inventory may make the service read, and whom a control file may make it ask."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import httpx
import pytest

from migrator.control_api.control_file import CONTROL_FILE
from migrator.findings.finding import FindingError
from state_machine.clusters.bounds import Bounds
from state_machine.clusters.control import ControlClient
from state_machine.clusters.inventory import ClusterInventory, ControllerEntry, file_faults

TOLD = b'{"node": 3000, "run": "r", "quorum": {"leader": null, "epoch": 0}, "loop_delay_ms": 1.0}'


def an_entry(directory: Path, url: str = "http://127.0.0.1:9") -> ControllerEntry:
    data = directory / "data"
    data.mkdir(parents=True, exist_ok=True)
    (data / CONTROL_FILE).write_text(json.dumps({"url": url, "token": "t", "pid": 1}))
    return ControllerEntry(3000, str(directory / "c.properties"), str(data))


def an_inventory(entry: ControllerEntry) -> ClusterInventory:
    return ClusterInventory("orders", "zk:2181", "kafka:9092", (entry,))


def ask(entry: ControllerEntry, bounds: Bounds, answer: httpx.Response | None = None) -> list[httpx.Request]:
    """Ask for its status; answers what was sent. Raises Z2K-4021."""
    sent: list[httpx.Request] = []

    def receive(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        return answer or httpx.Response(200, content=TOLD)

    async def story() -> None:
        async with httpx.AsyncClient(transport=httpx.MockTransport(receive)) as http:
            await ControlClient(http, bounds).status(entry)

    asyncio.run(story())
    return sent


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254:80",
        "http://10.0.0.5:8080",
        "https://127.0.0.1:8443",
        "http://127.0.0.1:9@evil.example:80",
        "http://127.0.0.1:9/latest/meta-data?",
        "http://127.0.0.1.evil.example:80",
        "file:///etc/passwd",
        "http://127.0.0.1",
        "http://[::1",
        "",
    ],
)
def test_a_control_file_that_names_a_foreign_address_is_not_asked(tmp_path: Path, url: str) -> None:
    with pytest.raises(FindingError, match="is not used"):
        ask(an_entry(tmp_path, url), Bounds((tmp_path,)), httpx.Response(200, text="secret"))


@pytest.mark.parametrize("url", ["http://127.0.0.1:9", "http://localhost:9", "http://[::1]:9", "http://declared:9"])
def test_loopback_and_a_declared_host_are_asked(tmp_path: Path, url: str) -> None:
    [sent] = ask(an_entry(tmp_path, url), Bounds((tmp_path,), {"declared"}))
    assert sent.url.path == "/v1/status"


@pytest.mark.parametrize("status", [200, 404, 409, 500])
def test_nothing_of_a_foreign_answer_is_shown(tmp_path: Path, status: int) -> None:
    foreign = httpx.Response(status, text="<html>the secret of another service</html>")
    with pytest.raises(FindingError) as raised:
        ask(an_entry(tmp_path), Bounds((tmp_path,)), foreign)
    assert "secret" not in str(raised.value)


def test_a_pipe_as_control_file_keeps_nobody_waiting(tmp_path: Path) -> None:
    entry = an_entry(tmp_path)
    (tmp_path / "data" / CONTROL_FILE).unlink()
    os.mkfifo(tmp_path / "data" / CONTROL_FILE)
    with pytest.raises(FindingError, match="no regular file"):
        ask(entry, Bounds((tmp_path,)))


def test_a_pipe_as_properties_file_keeps_nobody_waiting(tmp_path: Path) -> None:
    entry = an_entry(tmp_path)
    os.mkfifo(entry.properties)
    assert list(file_faults(an_inventory(entry))) == [3000]


def test_paths_outside_the_roots_are_neither_asked_nor_read(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    entry = an_entry(outside)
    bounds = Bounds((inside,))
    with pytest.raises(FindingError, match="is outside"):
        ask(entry, bounds)
    barred = bounds.outside(an_inventory(entry))
    assert file_faults(an_inventory(entry), barred)[3000].code == "Z2K-4112"


def test_links_are_followed_before_a_path_is_judged(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "link").symlink_to("/etc")
    bounds = Bounds((inside,))
    for path in (f"{inside}/link/passwd", f"{inside}/../outside", f"{inside}-too/x"):
        assert bounds.outside_of(ControllerEntry(1, path, str(inside))) is not None, path
    assert bounds.outside_of(ControllerEntry(1, f"{inside}/c.properties", f"{inside}/data")) is None
