"""Commands about a cluster, with no service: check, rehearse, back up, restore, and roll back without controllers.

In:   what the command line read. Out: an exit code, and text or JSON on standard output.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from api.check_text import finding_lines
from api.commands.output import print_json
from api.feature_text import case_lines
from migrator.findings.finding import FindingError
from migrator.findings.zookeeper import ZOOKEEPER_LOST
from migrator.model.printable import printable

if TYPE_CHECKING:
    from migrator.zk.passwords import EncoderSettings


COULD_NOT_CHECK: Final = 3


def check(
    zookeeper: str,
    controllers: list[Path],
    brokers: list[Path],
    *,
    clients: bool,
    as_json: bool,
    everything: bool = False,
    stock: bool = False,
) -> int:
    from api.commands.fleet import broker_settings
    from migrator.driver.checks.restarts import configs_of, tiered_topics
    from migrator.node.tools import feature_levels, preflight
    from migrator.node.zookeeper.request_limits import ask_servers
    from migrator.zk.pipeline import CONSIDERATE
    from migrator.zk.session import ZkSession

    try:
        settings = [broker_settings(file) for file in brokers]
        with ZkSession(zookeeper) as session:
            ask = partial(ask_servers, sockets=session.sockets)
            tree, found = preflight.check(
                session, controllers, CONSIDERATE, settings, clients=clients, ask=ask, stock=stock
            )
    except FindingError as error:
        if as_json:
            print_json({"exit": COULD_NOT_CHECK, "findings": [error.occurrence.as_json()]})
        else:
            print(printable(f"could not check: {error}"), file=sys.stderr)
        return COULD_NOT_CHECK
    code, unknown = (
        preflight.exit_code(found),
        preflight.not_looked_at(controllers, clients=clients, brokers=bool(brokers), stock=stock),
    )
    tiered = len(tiered_topics(configs_of(tree)))
    observed = {"topics": len(tree.topics), "partitions": tree.partition_count(), "brokers": sorted(tree.brokers)}
    levels = feature_levels.before_a_quorum(tree, settings)
    if as_json:
        said = {"findings": [each.as_json() for each in found], "not_looked_at": unknown, "features": levels}
        print_json({"exit": code, **observed, "tiered_topics": tiered, **said})
        return code
    print(f"{observed['topics']} topics, {observed['partitions']} partitions, brokers {observed['brokers']}")
    if tiered:
        print(f"{tiered} tiered topics (docs/tiered-storage.md: what each step means for them)")
    print("\n".join(finding_lines(found, everything=everything)), end="\n" if found else "")
    if levels is not None:
        print("\n".join(f"feature levels, {each}" for each in case_lines(levels)))
    print("not checked:", *unknown, sep="\n  ")
    print({0: "go: no finding", 1: "go, with warnings", 2: "blocked"}[code])
    return code


def rehearse(zookeeper: str, out: Path, controller: Path | None, *, as_json: bool) -> int:
    from migrator.node.tools.rehearsal import rehearse as run
    from migrator.zk.pipeline import CONSIDERATE
    from migrator.zk.session import ZkSession

    with ZkSession(zookeeper) as session:
        result = run(session, out, CONSIDERATE, encoder_settings(controller))
    if as_json:
        print_json(result)
    else:
        print(f"{result.topics} topics, {result.partitions} partitions, {result.records} records in {result.directory}")
        print(
            f"read {result.read_seconds} s, encode {result.encode_seconds} s, write {result.write_seconds} s, "
            f"{result.peak_rss_bytes >> 20} MiB"
        )
    return 0


def encoder_settings(controller: Path | None) -> EncoderSettings | None:
    """`password.encoder.*` of a controller's file, ours or Kafka's own: how brokers encrypt their passwords."""
    if controller is None:
        return None
    from migrator.node.config.properties import read_config

    return read_config(controller, stock=True).passwords


def open_backup(file: Path, key: str, out: Path) -> int:
    """Raises Z2K-4221 or Z2K-7010."""
    from migrator.fleet.secrets import resolve
    from state_machine.finish.encrypted_archive import read_archive

    names = read_archive(file, out, resolve(key))
    print("\n".join([*(f"{out}/{name}" for name in names), "metadata logs are evidence: never put one under a voter"]))
    return 0


def rollback_without_controllers(
    zookeeper: str, logs: list[Path], *, execute: bool, accept_loss: bool, drop_orders: bool, stopped: list[str]
) -> int:
    from migrator.node.tools.without_controllers import execute_without_controllers, plan_without_controllers
    from migrator.zk.session import ZkSession

    with ZkSession(zookeeper) as session:
        try:
            plan = plan_without_controllers(
                session, logs, accept_loss=accept_loss, drop_orders=drop_orders, stopped=stopped
            )
            print("before", *plan.before, sep="\n  ")
            print("what ZooKeeper has of the metadata log", *plan.mirrored, sep="\n  ")
            print("what differs from the metadata log", *plan.look.lines, sep="\n  ")
            print(f"brokers in ZooKeeper mode: {list(plan.brokers)}")
            for multi in plan.multis:
                print("the multi", *multi.describe(), sep="\n  ")
            if not execute:
                if plan.runs is not None:
                    print(f"--execute would be refused: {plan.runs.in_full}")
                print("nothing was changed; --execute applies it")
                return 0
            print("after", *execute_without_controllers(session, plan), sep="\n  ")
        except FindingError as error:
            if error.code == ZOOKEEPER_LOST.code:
                raise  # whether ZooKeeper did it is not known
            return _without_controllers_refused(error)
    return 0


def _without_controllers_refused(error: FindingError) -> int:
    print(f"{error}\n{error.occurrence.finding.remedy}", file=sys.stderr)
    return 2


def export_tree(zookeeper: str, out: Path) -> int:
    from migrator.zk.backup import export, foreign_roots
    from migrator.zk.pipeline import CONSIDERATE
    from migrator.zk.session import ZkSession

    with ZkSession(zookeeper) as session:
        info = export(session, out, CONSIDERATE)
        others = foreign_roots(session)
    print(f"{info.znodes} znodes ({info.ephemerals} ephemeral) in {info.file}, sha256 {info.sha256}")
    if others:
        print(f"not exported, not Kafka's: {len(others)} znodes of {zookeeper} with all below them, first {others[0]}")
    return 0


def import_tree(file: Path, zookeeper: str) -> int:
    from migrator.zk.backup import restore, verify
    from migrator.zk.session import ZkSession

    verify(file)
    address, slash, chroot = zookeeper.partition("/")
    with ZkSession(address) as root:
        root.ensure_path(slash + chroot)
    with ZkSession(zookeeper) as session:
        info = restore(session, file)
    print(f"{info.znodes - info.ephemerals - info.foreign} znodes restored to {zookeeper}")
    if info.foreign:
        print(f"not restored, not Kafka's: {info.foreign} znodes of {file}, first {info.first}")
    return 0
