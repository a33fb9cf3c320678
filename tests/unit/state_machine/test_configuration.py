"""What the service is told: its own settings, and the files of its controllers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from api import cli
from migrator.findings.finding import FindingError
from state_machine.clusters.inventory import ClusterInventory, file_faults
from state_machine.settings import ServiceSettings, read_settings
from tests.unit.state_machine.world import NODE, an_inventory, properties


def write(path: Path, text: str) -> Path:
    file = path / "serve.toml"
    file.write_text(text)
    return file


def test_the_help_of_serve_names_every_key() -> None:
    for key in ServiceSettings.model_fields:
        assert key in (cli.serve.__doc__ or ""), key


def test_a_file_sets_what_it_names_and_the_rest_stays(tmp_path: Path) -> None:
    settings = read_settings(write(tmp_path, 'port = 0\naudit_engine = "quick"\n'))
    assert (settings.port, settings.audit_engine, settings.host) == (0, "quick", "127.0.0.1")
    assert settings.database_url.startswith("sqlite:////")


def test_the_environment_wins_over_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZK2KRAFT_SERVE_PORT", "9000")
    assert read_settings(write(tmp_path, "port = 1\n")).port == 9000


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("prot = 1", "prot"),
        ('port = "many"', "port"),
        ('audit_engine = "slow"', "audit_engine"),
        ("port = ", "the file itself"),
    ],
)
def test_what_cannot_be_is_refused_with_the_key(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(FindingError, match=f"Z2K-4001.*{words}"):
        read_settings(write(tmp_path, text))


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FindingError, match="does not exist"):
        read_settings(tmp_path / "nix.toml")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_loopback_is_allowed(tmp_path: Path, host: str) -> None:
    assert read_settings(write(tmp_path, f'host = "{host}"')).host == host


# --- controllers' files -----------------------------------------------------------------------------------


def fault(inventory: ClusterInventory) -> str:
    found = file_faults(inventory)
    return "" if not found else f"{found[NODE].code} {found[NODE].text}"


def rewrite(inventory: ClusterInventory, **changes: Any) -> ClusterInventory:
    entry = inventory.controllers[0]
    Path(entry.properties).write_text(properties(Path(entry.data), **changes))
    return inventory


def test_a_file_that_fits_has_no_fault(tmp_path: Path) -> None:
    assert fault(an_inventory(tmp_path)) == ""


def test_a_controller_that_would_take_over_by_itself_is_refused(tmp_path: Path) -> None:
    assert "Z2K-4011" in fault(rewrite(an_inventory(tmp_path), gates="auto"))


@pytest.mark.parametrize("zookeeper", ["zk:2181", "zk:2181/other", "elsewhere:2181/kafka"])
def test_another_zookeeper_than_the_inventorys_is_refused(tmp_path: Path, zookeeper: str) -> None:
    assert "zookeeper.connect" in fault(rewrite(an_inventory(tmp_path), zookeeper=zookeeper))


def test_naming_only_some_servers_of_the_ensemble_is_no_fault(tmp_path: Path) -> None:
    assert fault(rewrite(an_inventory(tmp_path), zookeeper="zk2:2181,zk:2181/kafka")) == ""


def test_a_directory_that_nobody_formatted_is_refused(tmp_path: Path) -> None:
    inventory = an_inventory(tmp_path)
    (Path(inventory.controllers[0].data) / "meta.properties").unlink()
    assert "Z2K-3012" in fault(inventory)


def test_a_log_that_was_rolled_back_is_refused(tmp_path: Path) -> None:
    inventory = an_inventory(tmp_path)
    (Path(inventory.controllers[0].data) / "zk2kraft-handed-back").write_text("{}")
    assert "Z2K-2008" in fault(inventory)


def test_another_directory_than_the_files_is_refused(tmp_path: Path) -> None:
    inventory = an_inventory(tmp_path)
    entry = inventory.controllers[0]
    file = Path(entry.properties)
    other = tmp_path / "other"
    other.mkdir()
    (other / "meta.properties").write_text((Path(entry.data) / "meta.properties").read_text())
    file.write_text(file.read_text().replace(entry.data, str(other)))
    assert "its metadata log is in" in fault(inventory)


def test_a_missing_file_is_a_fault(tmp_path: Path) -> None:
    inventory = an_inventory(tmp_path)
    Path(inventory.controllers[0].properties).unlink()
    assert "Z2K-3017" in fault(inventory)
