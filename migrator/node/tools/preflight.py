"""`zk2kraft check`: is this cluster fit to be migrated? Reads only.

In:   a ZooKeeper session, and the properties files of the controllers to be.
Out:  occurrences of findings, those that block first; the same content findings as the takeover gate's.
Elsewhere: the findings of the content (driver.gate, driver.checks.content), the brokers' settings, which only the gate
asks for, and what only a running quorum can see (its gate).
Rule: brokers are asked only where ZooKeeper tells of tiered topics: their next restart may make records unreadable.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final, Protocol

import msgspec

from migrator.driver.checks.restarts import Applied, configs_of, restart_findings, tells_of_tiers, tiered_topics
from migrator.driver.checks.settings import (
    REQUEST_MAX_BYTES,
    broker_findings,
    controller_findings,
    needed_limit,
    request_limit_finding,
)
from migrator.driver.gate import content_findings, full_request_bytes, limit_findings
from migrator.driver.tree import Tree, live_and_assigned
from migrator.findings.content import (
    CLUSTER_ID_DIFFERS,
    CONTROLLER_FILES_DISAGREE,
    KRAFT_RULES_ALREADY,
    MALFORMED_ZNODE,
    TOPIC_CONFIG_REFUSED,
)
from migrator.findings.driver import FOREIGN_MIGRATION, FULL_SEND_IS_LARGE
from migrator.findings.finding import FindingError, Occurrence, Severity
from migrator.findings.preflight import (
    BROKER_SETTING_FORBIDS,
    EXAMPLE_DIRECTORY,
    EXPORT_REFUSED,
    ONE_REPLICA,
    ZNODES_OF_OTHERS,
)
from migrator.findings.road import NEEDS_EVERY_REPLICA
from migrator.findings.zookeeper import ZOOKEEPER_REFUSES
from migrator.model.at_a_stop import KAFKA_MIN_ISR, MIN_ISR, Sums, min_isr_of, values_of, whole_number
from migrator.model.broker_settings import NOT_KNOWN, has_no_way
from migrator.model.connect_string import chroot_of
from migrator.model.values import Broker, SecurityProtocol
from migrator.node.brokers.applied import ask_now, registered
from migrator.node.config.encoder_config import encoder_of
from migrator.node.config.properties import WAIVE, NodeConfig, controller_settings, read_config
from migrator.node.log.storage import read_meta_properties
from migrator.node.transport.client_security import PLAINTEXT, ClientSecurity, client_security
from migrator.node.zookeeper.request_limits import ServerLimit
from migrator.node.zookeeper.tree_reader import read_guards, read_tree
from migrator.node.zookeeper.zookeeper_clients import foreign_sessions
from migrator.zk import paths
from migrator.zk.backup import foreign_roots, kafka_znodes
from migrator.zk.multi import JUTE_MAXBUFFER
from migrator.zk.pipeline import ReadLimits
from migrator.zk.session import ZkSession
from migrator.zk.znodes import migration_data

EXAMPLE_DIRECTORIES: Final = frozenset(
    Path("/tmp") / each for each in ("kafka-logs", "kraft-broker-logs", "kraft-combined-logs", "kraft-controller-logs")
)
"""Kafka's default of `log.dir`, and what its example files (config/*.properties, config/kraft/*.properties) set. Other
directories below /tmp are not named: laboratories work there on purpose."""


class AskBrokers(Protocol):
    """What each broker has applied, by id, and why that is not known of others. Blocks."""

    def __call__(
        self,
        brokers: Iterable[Broker],
        tiered: Collection[str],
        listener: str,
        client_id: str,
        security: ClientSecurity = ...,
    ) -> tuple[dict[int, Applied], dict[int, str]]: ...


def check(
    session: ZkSession,
    controllers: Sequence[Path],
    limits: ReadLimits,
    brokers: Sequence[tuple[str, Mapping[str, str]]] = (),
    *,
    clients: bool = False,
    ask: Callable[[str, int], Sequence[ServerLimit]] | None = None,
    ask_brokers: AskBrokers = ask_now,
    stock: bool = False,
) -> tuple[Tree, list[Occurrence]]:
    """Everything that can be known without a running quorum. What blocks comes first, and before all of it what no
    repair of the cluster helps against.

    controllers: their waivers count, as before a takeover.
    brokers: id and settings of each whose file is given (fleet.takeover_settings), judged as the takeover gate does.
    clients: also look who else has a session. ask: of each server, how large a request it takes (request_limits.py).
    ask_brokers: what each has applied (brokers/applied.py). stock: Kafka's own controllers take over, and `controllers`
    are their files.
    """
    tree = read_tree(session, limits)
    read_guards(session, tree)
    configs, faults = _read_files(controllers, stock=stock)
    first = configs[0] if configs else None
    waived, passwords = ((), None) if first is None else (first.waived, first.passwords)
    found = content_findings(tree, waived, encoder_of(passwords))
    if tree.cluster_id is None and not any(each.values.get("path") == paths.CLUSTER_ID for each in found):
        found.append(no_cluster(session))
    found += [*_claim_findings(tree), *faults]
    found += _controller_findings(tree, configs, chroot_of(session.connect))
    found += _broker_findings(tree, brokers, configs, chroot_of(session.connect))
    found += _size_findings(tree)
    found += _stop_findings(tree, brokers)
    found += _export_findings(session, limits) if tree.cluster_id is not None else ()
    found += _restart_findings(tree, first, ask_brokers)
    found += _limit_findings(session.connect, configs, ask) if ask else ()
    found += foreign_sessions(session) if clients else ()
    return tree, sorted(found, key=lambda each: (each.finding.severity is not Severity.BLOCKS, not _has_no_way(each)))


def _has_no_way(found: Occurrence) -> bool:
    """A setting of a broker for which this release has no migration."""
    if found.code != BROKER_SETTING_FORBIDS.code:
        return False
    return has_no_way(str(found.values["key"]), found.values["value"])


def _broker_findings(
    tree: Tree, brokers: Sequence[tuple[str, Mapping[str, str]]], configs: Sequence[NodeConfig], chroot: str
) -> Iterator[Occurrence]:
    """Without a controller's file, only what it could not make up for. The quorum's level is not known yet.

    Any of them may lead, so one without remote storage counts, whichever it is.
    """
    settings_of = [controller_settings(each) for each in configs]
    ours = next((each for each in settings_of if not each.remote_storage), settings_of[0] if settings_of else None)
    ours = replace(NOT_KNOWN, chroot=chroot) if ours is None else replace(ours, level=None)
    size = full_request_bytes(tree)
    for broker, settings in brokers:
        yield from broker_findings(broker, settings, ours)
        yield from filter(None, [request_limit_finding(broker, settings, size)])


def _export_findings(session: ZkSession, limits: ReadLimits) -> Iterator[Occurrence]:
    """What would keep the takeover's export from being made, and what of others it leaves out.

    Topics are the most znodes by far, and have just been read for the tree.
    """
    others = foreign_roots(session)
    if others:
        chroot = chroot_of(session.connect) or "/"
        yield ZNODES_OF_OTHERS.found(count=len(others), chroot=chroot, first=others[0])
    try:
        for _ in kafka_znodes(session, limits, without={paths.TOPICS}):
            pass
    except FindingError as error:
        if error.code != ZOOKEEPER_REFUSES.code:
            raise
        yield EXPORT_REFUSED.found(**error.occurrence.values)


def _size_findings(tree: Tree) -> Iterator[Occurrence]:
    """What brokers at Kafka's default would not take; how they are set only the gate knows."""
    size = full_request_bytes(tree)
    if needed_limit(size) > REQUEST_MAX_BYTES:
        yield FULL_SEND_IS_LARGE.found(bytes=size, needed=needed_limit(size), default=REQUEST_MAX_BYTES)


def _stop_findings(tree: Tree, brokers: Sequence[tuple[str, Mapping[str, str]]]) -> Iterator[Occurrence]:
    """What the restart of a broker takes away although every partition is whole; a migration restarts each one."""
    files = {
        int(broker): value
        for broker, settings in brokers
        if broker.isdecimal() and (value := whole_number(settings.get(MIN_ISR, str(KAFKA_MIN_ISR)))) is not None
    }
    minimum = min_isr_of(tree.broker_configs, files, tree.brokers)
    sums = Sums()
    for reading in tree.topics.values():
        own = whole_number(reading.config.get(MIN_ISR))
        sums.put(reading.topic, minimum.value if own is None else own)
    single, at_minimum = sums.taken()
    unknown = minimum.unknown(tree.brokers)
    if single.count:
        yield ONE_REPLICA.found(**values_of(single, minimum))
    if at_minimum.count:
        values = values_of(at_minimum, minimum)
        if unknown:
            values["minimum"] = (
                f"{values['minimum']}; not known are the files of brokers {list(unknown)} (--brokers FILE)"
            )
        yield NEEDS_EVERY_REPLICA.found(**values)


def _restart_findings(tree: Tree, config: NodeConfig | None, ask: AskBrokers) -> Iterator[Occurrence]:
    """What counts at the brokers' next restart. config: how brokers are spoken to; else without a login."""
    configs = configs_of(tree)
    applied: dict[int, Applied] = {}
    unknown: dict[int, str] = {}
    if tells_of_tiers(configs):
        brokers, unknown = registered(tree.brokers)
        listener = "" if config is None else config.inter_broker_listener
        security = PLAINTEXT if config is None else client_security(config.security.get(listener))
        if config is None:
            brokers, without = _with_plain_listener(brokers)
            unknown |= without
        applied, silent = ask(brokers, tiered_topics(configs), listener, "zk2kraft-check", security)
        unknown |= silent
    refused = {TOPIC_CONFIG_REFUSED.code}  # the content has them
    yield from (each for each in restart_findings(configs, applied, unknown) if each.code not in refused)


def _with_plain_listener(brokers: Sequence[Broker]) -> tuple[list[Broker], dict[int, str]]:
    """Each with nothing but its first PLAINTEXT listener, under an empty name; and those that have none."""
    found, without = [], {}
    for each in brokers:
        plain = next((one for one in each.listeners if one.protocol == SecurityProtocol.PLAINTEXT), None)
        if plain is None:
            without[each.id] = "it has no listener without TLS and login; name the controllers' files (--controllers)"
        else:
            found.append(msgspec.structs.replace(each, listeners=(msgspec.structs.replace(plain, name=""),)))
    return found, without


def _limit_findings(
    connect: str, configs: Sequence[NodeConfig], ask: Callable[[str, int], Sequence[ServerLimit]]
) -> list[Occurrence]:
    """ZooKeeper servers that take less than any of the controllers may send, as the gate finds them."""
    wanted = max((each.jute_maxbuffer for each in configs), default=JUTE_MAXBUFFER)
    found = ask(connect, wanted)
    limits = {each.server: each.passed for each in found if not each.unknown}
    less, unknown = limit_findings(limits, {each.server: each.unknown for each in found if each.unknown}, wanted)
    return less + unknown


def no_cluster(session: ZkSession) -> Occurrence:
    """Where `/cluster/id` is missing; with the chroots in which there is one."""
    reason = f"it does not exist; is the chroot right?{_clusters_elsewhere(session)}"
    return MALFORMED_ZNODE.found(path=paths.CLUSTER_ID, reason=reason)


def not_looked_at(
    controllers: Sequence[Path], *, clients: bool, brokers: bool = False, stock: bool = False
) -> list[str]:
    """What a person might think was checked, one line each."""
    configs, _ = _read_files(controllers, stock=stock)
    lines = []
    if not controllers:
        lines.append("the controllers' files (--controllers FILE)")
    missing = sorted({each for config in configs for each in config.voter_ids} - {each.node_id for each in configs})
    if missing:
        lines.append(f"the files of voters {missing}, which controller.quorum.voters names")
    for config in configs:
        try:
            read_meta_properties(config.metadata_log_dir)
        except FindingError:
            lines.append(f"{config.metadata_log_dir}: not formatted, or on another machine")
    if not clients:
        lines.append("who else uses ZooKeeper (--clients)")
    if not brokers:
        lines.append("the brokers' files (--brokers FILE)")
    lines.append("the brokers' own settings and permissions, which the gate before a takeover asks them for")
    return [*lines, "the brokers' files against the settings with which they run: a restart makes them count"]


def exit_code(found: Sequence[Occurrence]) -> int:
    """0 go, 1 warnings, 2 blocked."""
    if any(each.finding.severity is Severity.BLOCKS for each in found):
        return 2
    return 1 if found else 0


def _clusters_elsewhere(session: ZkSession) -> str:
    """Chroots of Kafka clusters not deeper than two levels below this one, as a hint (F-50)."""
    found = []
    for root in foreign_roots(session):
        with suppress(FindingError):  # it is not Kafka's, and may be protected
            places = [root, *(f"{root}/{name}" for name in session.children(root) or ())]
            ids = session.get_many(each + paths.CLUSTER_ID for each in places)
            found += [place for place, znode in zip(places, ids, strict=True) if znode is not None]
    return f" There is a cluster in {', '.join(found)}" if found else ""


def _claim_findings(tree: Tree) -> Iterator[Occurrence]:
    """What stands of a claim: before there is a quorum of ours, all of it is foreign."""
    if tree.migration_present:
        text = "null or unreadable" if tree.migration is None else migration_data(tree.migration).decode()
        yield FOREIGN_MIGRATION.found(found=text)
    held = tree.controller
    if held is not None and held.kraft_epoch > 0:
        migration = "exists" if tree.migration_present else "does not exist"
        yield KRAFT_RULES_ALREADY.found(node=held.brokerid, epoch=held.kraft_epoch, migration=migration)


def _read_files(files: Sequence[Path], *, stock: bool = False) -> tuple[list[NodeConfig], list[Occurrence]]:
    """Those that can be read, and what is wrong with the others."""
    configs: list[NodeConfig] = []
    faults: list[Occurrence] = []
    for file in files:
        try:
            configs.append(read_config(file, stock=stock))
        except FindingError as error:
            faults.append(error.occurrence)
    return configs, faults


def _controller_findings(tree: Tree, configs: Sequence[NodeConfig], chroot: str) -> Iterator[Occurrence]:
    said: set[str] = set()
    for config in configs:
        yield from _file_findings(tree, config, chroot)
        for each in controller_findings(tree, controller_settings(config)):
            if each.code not in said:  # once, not for each file
                said.add(each.code)
                yield each
        if config.voters != configs[0].voters:
            reason = f"controller.quorum.voters differs from {configs[0].file}"
            yield CONTROLLER_FILES_DISAGREE.found(file=config.file, reason=reason)
        if config.waived != configs[0].waived:
            yield CONTROLLER_FILES_DISAGREE.found(file=config.file, reason=f"{WAIVE} differs from {configs[0].file}")
        if config.passwords != configs[0].passwords:
            reason = f"password.encoder.* differs from {configs[0].file}"
            yield CONTROLLER_FILES_DISAGREE.found(file=config.file, reason=reason)


def _file_findings(tree: Tree, config: NodeConfig, chroot: str) -> Iterator[Occurrence]:
    live, assigned = live_and_assigned(tree)
    taken = sorted(set(config.voter_ids) & (live | set(assigned)))
    if taken:
        yield CONTROLLER_FILES_DISAGREE.found(file=config.file, reason=f"node ids {taken} are brokers' ids")
    own = next((each for each in config.voters if each.id == config.node_id), None)
    ports = sorted({each.port for each in (*config.listeners, *config.advertised)})
    if own is not None and own.port not in ports:
        reason = f"controller.quorum.voters has port {own.port} for node {own.id}, which listens on {ports}"
        yield CONTROLLER_FILES_DISAGREE.found(file=config.file, reason=reason)
    if not config.migration_enabled:
        reason = "zookeeper.metadata.migration.enable is not true"
        yield CONTROLLER_FILES_DISAGREE.found(file=config.file, reason=reason)
    if chroot_of(config.zookeeper_connect or "") != chroot:
        reason = f"zookeeper.connect is {config.zookeeper_connect}, the cluster that is checked is in {chroot or '/'}"
        yield CONTROLLER_FILES_DISAGREE.found(file=config.file, reason=reason)
    for broker, znode in sorted(tree.brokers.items()):
        names = [endpoint.partition("://")[0].upper() for endpoint in znode.endpoints]
        if config.inter_broker_listener not in names:
            reason = f"broker {broker} has no listener {config.inter_broker_listener} (it has {names})"
            yield CONTROLLER_FILES_DISAGREE.found(file=config.file, reason=reason)
    if config.metadata_log_dir in EXAMPLE_DIRECTORIES:
        yield EXAMPLE_DIRECTORY.found(file=config.file, directory=config.metadata_log_dir)
    try:
        meta = read_meta_properties(config.metadata_log_dir)
    except FindingError:
        return  # not formatted yet, or on another machine
    if meta.cluster_id != tree.cluster_id:
        yield CLUSTER_ID_DIFFERS.found(zookeeper=tree.cluster_id, controllers=meta.cluster_id)
