"""Stories of a way back that a person types: Kafka's own procedure from stock, and the service by its commands.

In:   a laboratory; each story makes its own cluster. Elsewhere: the list of them (end_of_road.py), ways back that are
      asked for by REST (stories_back.py). The procedure: docs/undo.md, "Without zk2kraft controllers".
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any, Final

from migrator.lab.servers.broker import BrokerMode, BrokerProcess
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.ports import HOST
from migrator.lab.servers.properties import read, write
from migrator.node.transport.broker_client import BrokerConnection
from migrator.wire.messages.configs import (
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    IncrementalAlterConfigsResponse,
)
from migrator.zk import paths
from tests.adversarial.stories_back import (
    KEPT_IN_META,
    back_under_stock,
    elect_anew,
    epoch_in,
    epochs_of_states,
    in_soak,
    metas_of,
    soak,
)
from tests.adversarial.stories_support import (
    NOT_DONE_YET,
    ByCommandLine,
    create,
    elect_in_a_row,
    observed,
    wait_whole,
    without_controllers,
)
from tests.e2e.road_kills import leader_of, wait_leader
from tests.e2e.road_stage import RoadStage
from tests.e2e.support import HANGS_AFTER_S, wait_for, wait_zookeeper_rules

ELECTIONS: Final = 3
IN_A_ROW: Final = 5
ROWS_MAX: Final = 12
GAP_MIN: Final = 3
"""So far ahead of `/controller_epoch` the states have to be for the story to say anything."""
FLAG: Final = "zookeeper.metadata.migration.enable"
CLIENT_METRICS: Final = 16
SUBSCRIPTION: Final = "story"
ANSWER_S: Final = 60.0
REFUSED: Final = 4
"""Exit code of a step that its gate refuses."""


# --- Kafka's own procedure ----------------------------------------------------------------------------------


def back_by_hand_from_stock(laboratory: Laboratory) -> None:
    """In SOAK, without ours: brokers into ZooKeeper mode by hand, stock stopped, `rollback --without-controllers` with
    the logs that stock led. Stock's states had overtaken `/controller_epoch`; ZooKeeper mode takes every one of them.
    """
    stage, found, _ = in_soak(laboratory)
    cluster, stock = stage.cluster, list(stage.fleet.stock.values())
    voters = stage.fleet.ours[0].voters
    elect_anew(stage, ELECTIONS)
    overtake(stage)
    create(cluster, "made-under-stock")
    wait_whole(cluster)
    stage.service.operation(stage.migration, "pause")
    stage.wait_view(lambda view: None if view["paused"] else "not paused")

    began = time.monotonic()
    for broker in cluster.brokers:
        into_zookeeper_mode(stage, broker, found[broker.broker_id])
    assert set(cluster.zk.children(paths.BROKER_IDS)) == {str(each.broker_id) for each in cluster.brokers}
    names = cluster.zk.children(paths.TOPICS)
    cluster.wait_isr_whole(names)
    claimed, highest = epoch_in(stage, paths.CONTROLLER_EPOCH), max(epochs_of_states(stage))
    gap = highest - claimed
    print(f"epoch gap {gap}: /controller_epoch {claimed}, states up to epoch {highest}", flush=True)
    assert gap > 0, "no state has a higher epoch, so there is nothing to repair"
    stage.wait_view(lambda view: why_smaller(view, gap))

    leader = wait_leader(voters)
    alone = time.monotonic()
    for each in sorted(stock, key=lambda one: one.spec.node_id == leader):
        each.stop()
    logs = [word for each in stock for word in ("--log", str(each.directory / "data"))]
    planned = without_controllers(cluster, *logs)
    print(planned.stdout, flush=True)
    assert planned.returncode == 0, planned.stderr
    assert "ZooKeeper lacks nothing of it" in planned.stdout
    assert "not verified" not in planned.stdout, "these are the logs of all voters"
    assert epoch_in(stage, paths.CONTROLLER_EPOCH) == claimed, "a plan changes nothing"
    done = without_controllers(cluster, *logs, "--execute")
    assert done.returncode == 0, done.stdout + done.stderr
    wait_zookeeper_rules(cluster)
    print(f"without controller {time.monotonic() - alone:.1f} s at most", flush=True)
    again = without_controllers(cluster)
    assert (again.returncode, "is controller already" in again.stderr) == (2, True), again.stdout + again.stderr

    stage.service.wait_phase(stage.migration, "ROLLED_BACK")  # also while it is paused
    assert_zookeeper_mode_works(stage, claimed, "made-afterwards")
    isr_shrinks_and_grows(stage, cluster.brokers[0])
    for broker in cluster.brokers:
        without_migration_lines(stage, broker)
    assert_zookeeper_mode_works(stage, claimed, "made-without-the-flag")
    print(f"back by hand after {time.monotonic() - began:.0f} s", flush=True)
    for broker in cluster.brokers:
        assert broker.spec.mode is BrokerMode.ZOOKEEPER
        assert all(read(file)["version"] == "0" for file in metas_of(broker))
        assert not list(broker.directory.rglob("*-stray")), "a log was moved aside"
    assert cluster.zk.read(paths.MIGRATION) is None
    stage.assert_proven()


def overtake(stage: RoadStage) -> None:
    """Elections while ZooKeeper stands still: those who are elected lead no more once they could claim the cluster. The
    last one claims it.
    """
    voters = stage.fleet.ours[0].voters
    ahead = 0
    for _ in range(ROWS_MAX):
        (zookeeper,) = stage.cluster.zookeeper.servers
        zookeeper.pause()
        try:
            elect_in_a_row(voters, IN_A_ROW)
        finally:
            zookeeper.resume()
        wait_for(lambda: why_stock_does_not_mirror(stage), "stock is in dual-write", deadline_s=HANGS_AFTER_S)
        ahead = observed(voters).epoch - epoch_in(stage, paths.CONTROLLER_EPOCH)
        print(f"the KRaft epoch is {ahead} ahead of /controller_epoch", flush=True)
        if ahead >= GAP_MIN:
            return
    raise AssertionError(f"/controller_epoch kept up with the elections: {ahead}")


def why_stock_does_not_mirror(stage: RoadStage) -> str | None:
    leader = leader_of(stage.fleet.ours[0].voters)
    if leader is None:
        return "nobody leads"
    state = stage.fleet.stock[leader].driver_state()
    return None if state == "DUAL_WRITE" else f"the driver of {leader} is in {state}"


def why_smaller(view: Mapping[str, Any], gap: int) -> str | None:
    """The service shows an upper bound."""
    told = (view["road"]["back"] or {}).get("epoch_gap")
    return None if told is not None and told >= gap else f"the service shows an epoch gap of {told}"


def into_zookeeper_mode(stage: RoadStage, broker: BrokerProcess, migration_file: bytes) -> None:
    """As docs/undo.md says: stop, version 0, the migration file, start, whole."""
    broker.stop()
    for meta in metas_of(broker):
        said = read(meta)
        if said["version"] != "0":
            write(meta, {"version": 0, "broker.id": broker.broker_id} | {key: said[key] for key in KEPT_IN_META})
    broker.properties_file.write_bytes(migration_file)
    assert read(broker.properties_file)[FLAG] == "true"
    stage.fleet.start_again(broker.broker_id)
    broker.wait_ready()
    assert broker.spec.mode is BrokerMode.MIGRATING
    wait_whole(stage.cluster)


def without_migration_lines(stage: RoadStage, broker: BrokerProcess) -> None:
    """The second roll."""
    broker.stop()
    file = broker.properties_file
    kept = {key: value for key, value in read(file).items() if key != FLAG and not key.startswith("controller.")}
    write(file, kept)
    stage.fleet.start_again(broker.broker_id)
    broker.wait_ready()
    wait_whole(stage.cluster)


def assert_zookeeper_mode_works(stage: RoadStage, claimed: int, topic: str) -> None:
    """A topic is created, and no state is of a later epoch than the controller."""
    create(stage.cluster, topic)
    wait_whole(stage.cluster)
    wait_zookeeper_rules(stage.cluster)
    written = epochs_of_states(stage)  # first: the epoch only rises
    now = epoch_in(stage, paths.CONTROLLER_EPOCH)
    print(f"/controller_epoch {now}; states of epochs {sorted(written)}", flush=True)
    assert claimed < now
    assert max(written) <= now


def isr_shrinks_and_grows(stage: RoadStage, broker: BrokerProcess) -> None:
    """The controller takes it out of each ISR; the leaders put it back, by requests that name the epochs they know."""
    cluster, node = stage.cluster, broker.broker_id
    names = cluster.zk.children(paths.TOPICS)

    def still_in() -> str | None:
        states = {
            f"{name}-{number}": cluster.partition_state(name, int(number))
            for name in names
            for number in cluster.zk.children(f"{paths.TOPICS}/{name}/partitions")
        }
        bad = [key for key, state in states.items() if state is None or node in state["isr"] or state["leader"] < 0]
        return f"{bad} have it in their ISR" if bad else None

    broker.stop()
    wait_for(still_in, f"broker {node} left every ISR")
    stage.fleet.start_again(node)
    broker.wait_ready()
    cluster.wait_isr_whole(names)
    wait_whole(cluster)


# --- the service by its commands ----------------------------------------------------------------------------


def back_by_command_line(laboratory: Laboratory) -> None:
    """From SOAK by `zk2kraft rollback`, `status` and `approve`; the service dies once. What ZooKeeper cannot hold is
    named, and lost by consent only."""
    stage = RoadStage(laboratory, service=ByCommandLine)
    service = stage.service
    assert isinstance(service, ByCommandLine)
    stage.to_dual_write()
    found, ours = soak(stage)
    subscribe(stage)  # after the last election under stock, whose comparison would never end with it
    lost = f"configuration of client-metrics {SUBSCRIPTION}"
    stage.wait_view(lambda view: None if lost in view["road"]["back"]["lost"] else f"lost: {view['road']['back']}")

    refused = service.command(stage.migration, "rollback", "--no-wait")
    assert (refused.returncode, "Z2K-4230" in refused.stderr) == (REFUSED, True), refused.stdout + refused.stderr
    (line,) = lines_of(service, stage.migration, "rollback")
    print(line, flush=True)
    assert line.startswith("rollback  not possible now"), line
    assert lost in line.partition("; lost: ")[2], line
    words = ("approve", "--to", "ROLLING_BACK", "--reason", "nobody needs it")
    shown = service.command(stage.migration, *words)
    assert (shown.returncode, f"lost: {lost}" in shown.stdout) == (NOT_DONE_YET, True), shown.stdout + shown.stderr
    digest = next(line.split()[1] for line in shown.stdout.splitlines() if line.startswith("digest "))
    consented = service.command(stage.migration, *words, "--digest", digest)
    assert consented.returncode == 0, consented.stdout + consented.stderr

    back_under_stock(stage, found, ours, sorted(ours), kills_at=2)
    (line,) = lines_of(service, stage.migration, "road")
    assert line.startswith("road  ROLLED_BACK"), line
    assert not stage.cluster.zk.exists(f"/config/client-metrics/{SUBSCRIPTION}")


def lines_of(service: ByCommandLine, migration: int, begin: str) -> list[str]:
    """Of `zk2kraft status`, those that begin with this word."""
    shown = service.command(migration, "status")
    assert shown.returncode == 0, shown.stdout + shown.stderr
    return [line for line in shown.stdout.splitlines() if line.startswith(f"{begin}  ")]


def subscribe(stage: RoadStage) -> None:
    """A subscription to clients' metrics, by a broker in KRaft mode, which passes it on to the controller."""
    wanted = (IncrementalAlterableConfig("interval.ms", 0, "60000"), IncrementalAlterableConfig("metrics", 0, "*"))
    request = IncrementalAlterConfigsRequest((IncrementalAlterConfigsResource(CLIENT_METRICS, SUBSCRIPTION, wanted),))

    async def ask() -> str | None:
        connection = BrokerConnection(HOST, stage.cluster.brokers[0].spec.port, "a story")
        try:
            answer = await connection.ask(request, 1, IncrementalAlterConfigsResponse, ANSWER_S)
        finally:
            connection.close()
        (result,) = answer.responses
        return f"error {result.error_code}: {result.error_message}" if result.error_code else None

    wait_for(lambda: asyncio.run(ask()), "clients' metrics are subscribed to")
