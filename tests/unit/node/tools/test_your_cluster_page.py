"""The controllers' files on docs/your-cluster.md are files that a controller takes."""

from __future__ import annotations

import re
from pathlib import Path

from migrator.node.config.properties import NodeConfig, is_known, parse_config

PAGE = (Path(__file__).resolve().parents[4] / "docs" / "your-cluster.md").read_text()
BLOCKS = re.findall(r"^```\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def controllers() -> list[NodeConfig]:
    return [parse_config(each) for each in BLOCKS if "process.roles=controller" in each]


def test_every_key_of_the_controllers_files_is_honoured() -> None:
    plain, secured = controllers()
    for config in (plain, secured):
        assert not config.unknown
        assert config.migration_enabled
        assert config.gates == "pause"
        assert config.voter_ids == (3000, 3001, 3002)
    assert plain.authorizer is None
    assert not plain.security
    assert secured.authorizer is not None
    assert sorted(secured.security) == ["BROKER", "CONTROLLER"]


def test_brokers_get_the_same_voters_and_known_keys() -> None:
    added = [each for each in BLOCKS if "process.roles" not in each and "listener.security.protocol.map=" in each]
    assert len(added) == 2
    for line in "".join(added).splitlines():
        assert is_known(line.partition("=")[0]), line
    voters = re.findall(r"^controller\.quorum\.voters=(.*)$", PAGE, re.MULTILINE)
    assert len(voters) == 3
    assert len(set(voters)) == 1
