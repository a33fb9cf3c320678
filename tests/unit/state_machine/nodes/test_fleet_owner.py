"""The inventory file names commands: only its owner may have written it, as it is with templates."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from migrator.findings.finding import FindingError
from migrator.findings.fleet import INVENTORY_NOT_OWNED, INVENTORY_UNREADABLE
from migrator.fleet.actuator import ProcessState
from state_machine.nodes.fleet import INVENTORY_BYTES_MAX, Fleets
from tests.support.inventories import an_inventory


@pytest.fixture
def fleets(tmp_path: Path) -> Path:
    document = an_inventory()
    document["actuator"] = {"kind": "manual", "exchange": str(tmp_path / "exchange")}
    directory = tmp_path / "fleets"
    directory.mkdir(mode=0o700)
    (directory / "orders-prod.yaml").write_text(json.dumps(document))
    (directory / "orders-prod.yaml").chmod(0o600)
    return directory


def test_a_file_of_its_own_is_read(fleets: Path) -> None:
    fleet = Fleets(fleets).fleet("orders-prod")
    assert len(fleet.nodes) == 6
    assert fleet.nodes[0].actuator.status().state is ProcessState.NOT_READ


@pytest.mark.parametrize(
    ("place", "mode"), [("orders-prod.yaml", 0o666), ("orders-prod.yaml", 0o620), ("", 0o777), ("", 0o770)]
)
def test_a_file_that_others_may_write_or_replace_is_refused(fleets: Path, place: str, mode: int) -> None:
    (fleets / place).chmod(mode)
    with pytest.raises(FindingError) as caught:
        Fleets(fleets).fleet("orders-prod")
    assert caught.value.code == INVENTORY_NOT_OWNED.code == "Z2K-7047"
    assert f"(mode {mode:04o})" in str(caught.value)


def test_a_file_that_becomes_writable_and_is_changed_is_refused(fleets: Path) -> None:
    read = Fleets(fleets)
    read.fleet("orders-prod")
    file = fleets / "orders-prod.yaml"
    file.chmod(0o666)
    file.write_text(file.read_text() + "\n")
    with pytest.raises(FindingError, match="Z2K-7047"):
        read.fleet("orders-prod")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a file away")
def test_a_file_of_another_user_is_refused(fleets: Path) -> None:
    os.chown(fleets / "orders-prod.yaml", 12_345, 12_345)
    with pytest.raises(FindingError, match="belongs to user 12345"):
        Fleets(fleets).fleet("orders-prod")


def test_a_link_that_leads_out_of_the_directory_is_refused(fleets: Path, tmp_path: Path) -> None:
    file = fleets / "orders-prod.yaml"
    file.rename(tmp_path / "elsewhere.yaml")
    file.symlink_to(tmp_path / "elsewhere.yaml")
    with pytest.raises(FindingError, match="it is not below"):
        Fleets(fleets).fleet("orders-prod")


def test_a_pipe_or_a_file_without_end_is_not_waited_for(fleets: Path) -> None:
    file = fleets / "orders-prod.yaml"
    file.write_bytes(b"#" * (INVENTORY_BYTES_MAX + 1))
    with pytest.raises(FindingError, match="larger than"):
        Fleets(fleets).fleet("orders-prod")
    file.unlink()
    os.mkfifo(file, 0o600)
    with pytest.raises(FindingError, match="no regular file"):
        Fleets(fleets).fleet("orders-prod")


def test_a_file_that_cannot_be_opened_is_named(fleets: Path) -> None:
    file = fleets / "orders-prod.yaml"
    file.unlink()
    file.symlink_to(fleets / "a-directory-that-is-not-there")
    with pytest.raises(FindingError) as caught:
        Fleets(fleets).fleet("orders-prod")
    assert caught.value.code in ("Z2K-4207", INVENTORY_UNREADABLE.code)
