"""`zk2kraft plan`: an estate of sixty brokers from 2.8 to 4.4 on one page, without a cluster."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any, Final

import pytest
from typer.testing import CliRunner

from api import cli
from api.commands import plan as planning
from api.plan_text import ranges
from migrator.fleet.releases.running import RunningRelease
from migrator.fleet.strict_yaml import dump_yaml
from tests.support.inventories import an_inventory

GOLDEN: Final = Path(__file__).with_name("plan_of_60_brokers.txt")
PAGE_LINES: Final = 45
PAGE_COLUMNS: Final = 120


def sixty() -> dict[str, Any]:
    """58 brokers of 2.8.2, two of 3.5.2, three racks, two nights a week."""
    found = an_inventory()
    one = found["brokers"][0]
    found["brokers"] = [
        {
            **deepcopy(one),
            "id": node,
            "host": f"b{node}",
            "rack": f"r{node % 3}",
            **({"kafka": "3.5.2"} if node > 58 else {}),
        }
        for node in range(1, 61)
    ]
    windows = [{"start": "22:00", "end": "04:00", "days": ["mon", "tue"]}]
    return {**found, "kafka": "2.8.2", "maintenance_windows": windows}


def planned(directory: Path, document: dict[str, Any], *words: str) -> tuple[int, str]:
    file = directory / "prod.yaml"
    file.write_text(dump_yaml(document))
    result = CliRunner().invoke(cli.app, ["plan", str(file), *words])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


def test_sixty_brokers_from_2_8_to_4_4_are_one_page(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Written anew with `pytest --record`."""
    code, said = planned(tmp_path, sixty(), "--broker-restart", "104")
    assert code == 0
    if request.config.getoption("--record"):
        GOLDEN.write_text(said)
    assert said == GOLDEN.read_text()
    lines = said.splitlines()
    assert len(lines) <= PAGE_LINES
    assert max(map(len, lines)) <= PAGE_COLUMNS


def test_the_same_for_programs(tmp_path: Path) -> None:
    code, said = planned(tmp_path, sixty(), "--json")
    found = json.loads(said)
    assert code == 0
    assert found["restarts"] == 312
    assert len(found["hosts"]) == 60
    assert found["hosts"][59] == {"host": "b60", "broker": 60, "rack": "r0", "kafka": "3.5.2"}
    assert [each["number"] for each in found["legs"] if each["irreversible"]] == [2, 8, 11]
    assert found["features"][-1] == {"feature": "kraft.version=1", "undo": ""}


def test_a_broker_whose_release_is_not_known_is_exit_1_and_hosts_are_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, said = planned(tmp_path, an_inventory())
    assert code == 1
    assert "runs now    not known   brokers 1-3 (b1 and 2 more hosts)" in said
    shown = {
        1: RunningRelease("3.9.2", "kafka_2.13-3.9.2.jar"),
        2: RunningRelease(reason="no answer"),
        3: RunningRelease("3.9.2"),
    }
    monkeypatch.setattr(planning, "_running", lambda *_: shown)
    code, said = planned(tmp_path, an_inventory(), "--read")
    assert code == 1
    assert "not read    broker 2: no answer" in said
    assert "leg 1 is there because the release of 1 brokers is not known" in said


def test_what_has_no_way_is_exit_2_with_its_remedy(tmp_path: Path) -> None:
    code, said = planned(tmp_path, an_inventory(), "--to", "5.1")
    assert code == 2
    assert said.startswith("Z2K-7070 No way is planned for Kafka 5.1")


def test_ids_are_ranges() -> None:
    assert ranges([7, 1, 2, 3]) == "1-3, 7"
