"""`zk2kraft features` on a real stock controller, which decides each level as the command says (R-778-03, -04)."""

from __future__ import annotations

import asyncio
import base64
import json
import os

import pytest
from typer.testing import CliRunner

from api import cli
from migrator.lab.servers.controller import StockController, StockQuorum, quorum_specs
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.ports import HOST
from migrator.model.features.changes import LevelDirection, Refusal
from migrator.model.image import METADATA_VERSION
from migrator.node.transport.broker_client import BrokerConnection
from migrator.wire.messages.configs import FeatureUpdateKey, UpdateFeaturesRequest, UpdateFeaturesResponse
from tests.e2e.support import wait_for

pytestmark = pytest.mark.lab

VERSION = 1
UPGRADE, SAFE, UNSAFE = 1, 2, 3


def features(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli.app, ["features", *words])
    return result.exit_code, result.output


def stock_says(port: int, level: int, kind: int, *, only_ask: bool = True) -> str:
    """Why a stock controller does not change the level; empty when it does, or would."""

    async def ask() -> UpdateFeaturesResponse:
        connection = BrokerConnection(HOST, port, "test")
        try:
            key = FeatureUpdateKey(METADATA_VERSION, level, upgrade_type=kind)
            request = UpdateFeaturesRequest(feature_updates=(key,), validate_only=only_ask)
            return await connection.ask(request, VERSION, UpdateFeaturesResponse, 10.0)
        finally:
            connection.close()

    answer = asyncio.run(ask())
    return "; ".join(each.error_message or "" for each in answer.results if each.error_code)


def test_a_stock_controller_decides_each_level_as_the_command_says(laboratory: Laboratory) -> None:
    specs = quorum_specs(laboratory, count=1, zookeeper_connect="", migrating=False, release="3.8")
    cluster_id = base64.urlsafe_b64encode(os.urandom(16)).decode().rstrip("=").lstrip("-")
    quorum = StockQuorum(StockController(laboratory, each, cluster_id) for each in specs)
    quorum.start()

    def registered() -> str | None:
        code, text = features("--kraft", quorum.addresses)
        return None if code == 0 and "controller 3000" in text else text

    wait_for(registered, "the controller is registered")
    code, text = features("--kraft", quorum.addresses, "--json")
    document = json.loads(text)
    matrix = document["matrix"]
    assert (code, matrix["case"], matrix["effective"], document["silent"]) == (0, "F", 20, {})
    (node,) = matrix["nodes"]
    assert (node["name"], node["is_alive"]) == ("controller 3000", True)
    assert {"name": METADATA_VERSION, "lowest": 1, "highest": 21} in node["ranges"]
    assert {"name": "kraft.version", "lowest": 0, "highest": 1} in node["ranges"]

    port = specs[0].port
    for change in document["changes"]:
        kinds = [UPGRADE] if change["direction"] == LevelDirection.RAISE else [SAFE, UNSAFE]
        for kind in kinds:
            why = stock_says(port, change["level"], kind)
            assert bool(why) == (change["refused"] is not None), (change, kind, why)
        assert change["refused"] in (None, Refusal.RECORDS)
    assert stock_says(port, 21, UPGRADE, only_ask=False) == ""
    assert features("--kraft", quorum.addresses, "--to", "3.7")[0] == 0
    code, text = features("--kraft", quorum.addresses, "--to", "3.6")
    assert code == 1
    assert "would lose registrations of controllers, 1 (RegisterControllerRecord" in text
    quorum.stop()
    code, text = features("--kraft", str(specs[0].directory / "data"))
    assert code == 0
    assert "effective metadata.version: 3.9-IV0 (21)" in text
