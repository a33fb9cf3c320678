"""What ZooKeeper says and brokers have not applied: one reading of the cluster, for the service.

In:   where ZooKeeper is, and a controller's file, which says how brokers are spoken to. Reads only.
Out:  `RestartReading`: findings, and what each broker that answered has applied.
Elsewhere: what is compared (driver.checks.restarts), asking brokers (node.brokers.applied), the same for `check`, which
has read the whole tree (preflight.py), brokers' files (state_machine.evidence.file_watch).
Rule: brokers in KRaft mode are not asked: their configuration is in the log, which takes nothing that they refuse.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from migrator.driver.checks.restarts import Applied, restart_findings, tiered_topics
from migrator.driver.tree import read_config
from migrator.findings.finding import Occurrence
from migrator.node.brokers.applied import ask_now, registered
from migrator.node.config.properties import NodeConfig
from migrator.node.transport.client_security import client_security
from migrator.zk import paths
from migrator.zk.pipeline import CONSIDERATE
from migrator.zk.session import ZkSession
from migrator.zk.znodes import BrokerZnode, parse


@dataclass(frozen=True, slots=True)
class RestartReading:
    """applied: by broker id, of those that answered; `found` names the others."""

    found: tuple[Occurrence, ...]
    applied: Mapping[int, Applied]


def read_restarts(connect: str, config: NodeConfig, client_id: str) -> RestartReading:
    """Blocks. Raises a finding, or whatever kazoo makes of a server, where nothing at all is known."""
    with ZkSession(connect) as session:
        configs, problems = _configs(session)
        brokers, unknown = registered(_registrations(session))
    listener = config.inter_broker_listener
    security = client_security(config.security.get(listener))
    applied, silent = ask_now(brokers, tiered_topics(configs), listener, client_id, security)
    return RestartReading((*problems, *restart_findings(configs, applied, unknown | silent)), applied)


def _configs(session: ZkSession) -> tuple[dict[str, Mapping[str, str]], list[Occurrence]]:
    """Of every topic, also of those that do not exist; and what cannot be read, at which a broker's start ends too."""
    problems: list[Occurrence] = []
    names = session.children(paths.TOPIC_CONFIGS) or []
    znodes = session.get_many(map(paths.topic_config, names), CONSIDERATE)
    found: dict[str, Mapping[str, str]] = {}
    for name, znode in zip(names, znodes, strict=True):
        found[name], _ = read_config(paths.topic_config(name), znode, problems)
    return found, problems


def _registrations(session: ZkSession) -> dict[int, BrokerZnode]:
    names = session.children(paths.BROKER_IDS) or []
    znodes = session.get_many(map(paths.broker_id, names), CONSIDERATE)
    return {
        int(name): parse(BrokerZnode, paths.broker_id(name), znode.data)
        for name, znode in zip(names, znodes, strict=True)
        if znode is not None
    }
