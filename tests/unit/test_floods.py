"""Strangers flood each port of a real server with few descriptors; it goes on with its own business and answers others.

The servers run in processes of their own (tests/unit/flooded.py); the floods are of tests/adversarial/flood.py.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from migrator.http.bounded_port import PART_OF_DESCRIPTORS
from tests.adversarial.flood import Address, address_of, flood, kind_of, main
from tests.unit.flooded import DESCRIPTORS

LISTENERS = {"service": "http", "control": "http", "listener": "kafka"}
MEMORY_MB = 60
"""Far below the body that is sent; buffers and what Python itself takes."""


@contextmanager
def flooded(kind: str, directory: Path) -> Iterator[tuple[Address, dict[str, Any]]]:
    """The address, and what the server says of its own business at the end."""
    command = [sys.executable, "-m", "tests.unit.flooded", kind, str(directory)]
    root = Path(__file__).resolve().parents[2]
    process = subprocess.Popen(
        command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    business: dict[str, Any] = {}
    try:
        line = process.stdout.readline()
        assert line.strip().isdigit(), process.communicate(timeout=30)
        yield Address("127.0.0.1", int(line)), business
    finally:
        out, errors = process.communicate(timeout=60)
        business["errors"] = errors
        lines = [each for each in out.splitlines() if each.startswith("{")]
        business |= json.loads(lines[-1]) if lines else {}


@pytest.mark.parametrize("kind", LISTENERS)
def test_a_flooded_port_answers_others_and_its_process_lacks_nothing(tmp_path: Path, kind: str) -> None:
    with flooded(kind, tmp_path) as (address, business):
        assert kind_of(address) == LISTENERS[kind]
        found = list(flood(address, body=300_000_000, seconds=2.0))
    assert [each for each in found if not each.is_well] == []
    assert found[0].reached > DESCRIPTORS // PART_OF_DESCRIPTORS, "more than a port of HTTP takes"
    assert business["failed"] == 0, business
    assert business["grown_mb"] < MEMORY_MB, business
    assert business["errors"].count("\n") < 20, "whoever floods does not fill the log"


def test_only_ports_of_this_machine_are_flooded(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["192.0.2.1:9093"]) == 2
    assert "192.0.2.1:9093" in capsys.readouterr().err
    assert str(address_of("[::1]:9093")) == "::1:9093"
