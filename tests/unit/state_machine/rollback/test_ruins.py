"""What a cut write left is repaired from the kept copy; a file that cannot be read and is waived stops no backup."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from migrator.findings.finding import FindingError
from migrator.fleet.files import checksum_of, predecessor_path
from migrator.fleet.inventory import parse_inventory, wanted_of
from migrator.fleet.properties_file import parse_properties
from migrator.fleet.render import FileKind, render
from migrator.fleet.ruins import is_ruin
from migrator.fleet.strict_yaml import dump_yaml
from state_machine.finish.backups import _copy_files
from state_machine.nodes.fleet import Fleet, FleetNode
from state_machine.rollback.previous_file import write_before
from tests.support.hosts import FakeHost
from tests.support.inventories import an_inventory

PATH = "/etc/kafka/server.properties"
MIGRATION = b"""# kept by hand
broker.id=1
zookeeper.connect=zk1:2181,zk2:2181/kafka
inter.broker.protocol.version=3.9
listeners=PLAINTEXT://b1:9092
log.dirs=/data/kafka
super.users=User:admin
"""


def a_fleet(host: FakeHost, **more: Any) -> Fleet:
    inventory = parse_inventory(dump_yaml({**an_inventory(), **more}).encode(), "f")
    return Fleet(inventory, (FleetNode("broker", inventory.brokers[0], host),), "")


def test_only_nothing_and_the_begin_of_a_known_file_are_ruins() -> None:
    assert all(is_ruin(MIGRATION[:cut], MIGRATION) for cut in range(len(MIGRATION)))
    assert is_ruin(MIGRATION[:50] + bytes(40), MIGRATION)
    assert not is_ruin(MIGRATION, MIGRATION)
    assert not is_ruin(MIGRATION[:50], MIGRATION, MIGRATION[:50]), "a file of stock may be the begin of the kept one"
    assert not is_ruin(MIGRATION[:50] + b"x", MIGRATION)


@pytest.mark.parametrize("part", [0.0, 0.01, 0.3, 0.5, 0.8, 0.99])
@pytest.mark.parametrize("written", ["kraft", "back"])
def test_the_way_back_repairs_a_file_that_was_cut_from_the_kept_one(part: float, written: str) -> None:
    fleet = a_fleet(FakeHost())
    wanted = wanted_of(fleet.inventory, fleet.nodes[0].node)
    before = render("broker", parse_properties(MIGRATION, PATH), FileKind.MIGRATION, wanted).content
    whole = render("broker", parse_properties(before, PATH), FileKind(written), wanted).content
    cut = whole[: int(len(whole) * part)]
    host = FakeHost(files={PATH: cut, predecessor_path(PATH, checksum_of(before)): before})
    fleet = a_fleet(host)
    columns = write_before(fleet, fleet.nodes[0], FileKind.BACK, checksum_of(before), needs_kept=False)
    assert host.files[PATH] == before
    assert columns["checksum"] == checksum_of(before)
    assert host.files[predecessor_path(PATH, checksum_of(cut))] == cut


def test_a_waived_file_that_cannot_be_read_is_named_in_the_backup_and_stops_it_no_more(tmp_path: Path) -> None:
    waiver = {
        "what": "Z2K-4218",
        "node": 1,
        "owner": "Ada",
        "reason": "its host is gone",
        "end": "2030-01-01T00:00:00Z",
    }
    with pytest.raises(FindingError):
        _copy_files(a_fleet(FakeHost()), tmp_path / "none", 1.0)
    with pytest.raises(FindingError):
        _copy_files(a_fleet(FakeHost(), waivers=[waiver]), tmp_path / "ended", 2e9)
    _copy_files(a_fleet(FakeHost(), waivers=[waiver]), tmp_path / "waived", 1.0)
    assert PATH in (tmp_path / "waived" / "NOT_READ").read_text()
