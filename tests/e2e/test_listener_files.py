"""Kafka's own parser and ours read the listeners of hundreds of files alike, and `check` says what the start would say.

What Kafka's parser takes and its start refuses is seen here as well: `ListenerReader.java` makes the channels of a
start. Real starts of a sample: tests/e2e/test_listener_starts.py.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from migrator.findings.finding import FindingError
from migrator.lab.servers.laboratory import Laboratory
from migrator.model.listeners import INTER_BROKER, INTER_BROKER_PROTOCOL
from migrator.model.values import Listener, SecurityProtocol
from migrator.node.config.properties import read_config
from migrator.node.tools.preflight import check
from migrator.zk.pipeline import UNLIMITED
from tests.support.certificates import Authority
from tests.support.fake_zookeeper import FakeEnsemble
from tests.support.listener_files import Answer, ask_kafka, some_files, written
from tests.support.seeded_tree import SeededTree

pytestmark = pytest.mark.lab

SEED, COUNT = 36_04, 400
ONLY_OURS = (
    "has two protocols",
    "is a listener of this node by",
    "who listens with TLS needs a certificate",
    "is not possible here, only PLAIN",
    "it names no mechanism",
    "voters that start have no leader",
)
"""What ours refuses and stock does not, by its reason; docs/drop-in.md, "Names of listeners"."""
REFUSALS = {"Z2K-3010", "Z2K-3011", "Z2K-3021", "Z2K-3022"}


def how_ours_reads(file: Path) -> Answer:
    try:
        config = read_config(file)
    except FindingError as error:
        values = error.occurrence.values
        return Answer(error.code, f"{values['key']}: {values['reason']}")
    between = f"{config.inter_broker_listener}:{config.inter_broker_protocol.name}"
    for each in config.listeners:
        security = config.security.get(each.name)
        assert (SecurityProtocol.PLAINTEXT if security is None else security.protocol) == each.protocol
    return Answer("", "", _text(config.listeners), _text(config.advertised), between)


def _text(listeners: tuple[Listener, ...]) -> str:
    hosts = (f"[{each.host}]" if ":" in each.host else each.host for each in listeners)
    return ",".join(
        f"{each.name}://{host}:{each.port}={SecurityProtocol(each.protocol).name}"
        for each, host in zip(listeners, hosts, strict=True)
    )


def is_only_ours(ours: Answer, theirs: Answer, keys: dict[str, str]) -> bool:
    """Also a login for brokers: stock misses it when the first broker is there."""
    name = theirs.inter_broker.partition(":")[0].lower()
    to_brokers = ours.reason.startswith(f"listener.name.{name}.") and ".sasl.jaas.config: " in ours.reason
    asks = "zookeeper.metadata.migration.enable" in keys and (INTER_BROKER in keys or INTER_BROKER_PROTOCOL in keys)
    return any(reason in ours.reason for reason in ONLY_OURS) or (to_brokers and asks)


def test_kafka_and_ours_read_the_listeners_of_hundreds_of_files_alike(laboratory: Laboratory, tmp_path: Path) -> None:
    authority = Authority(tmp_path / "authority")
    made = list(some_files(SEED, COUNT, authority.sign("controller").pem, authority.trusted))
    files = [written(tmp_path / f"{at}.properties", keys) for at, keys in enumerate(made)]
    ensemble = FakeEnsemble()
    SeededTree(topics=1, partitions=1).plant(ensemble)
    session = ensemble.session()
    met: Counter[str] = Counter()
    differences = []
    for keys, file, theirs in zip(made, files, ask_kafka(laboratory, files), strict=True):
        ours = how_ours_reads(file)
        found = {each.code for each in check(session, [file], UNLIMITED)[1]}
        assert (ours.by in found) if ours.by else not found & REFUSALS, (file, ours, found)
        if not theirs.by and ours.by and is_only_ours(ours, theirs, keys):
            met["only ours refuses"] += 1
        elif bool(ours.by) != bool(theirs.by) or (not ours.by and ours != theirs):
            differences.append(f"{file.name}\n  stock {theirs}\n  ours  {ours}\n{file.read_text()}")
        else:
            met[f"stock's {theirs.by} refuses" if theirs.by else "both start"] += 1
    assert not differences, f"{len(differences)} of {COUNT}, {dict(met)}\n" + "\n".join(differences[:10])
    assert min(met.values()) >= COUNT // 40, met
    assert len(met) == 4, met
