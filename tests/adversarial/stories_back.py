"""Stories of the end of the road that go back to ZooKeeper mode.

In:   a laboratory; each story makes its own cluster. Elsewhere: the list of them (end_of_road.py).
"""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from migrator.findings.finding import FindingError
from migrator.lab.servers.broker import BrokerProcess
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.properties import read, write
from migrator.zk import paths
from state_machine.policy.gates import Holder
from tests.adversarial.stories_support import create, wait_observed, wait_whole
from tests.e2e.road_kills import leader_of, wait_leader
from tests.e2e.road_stage import RoadStage
from tests.e2e.support import wait_for

BACK_S: Final = 1_500.0
"""Something stands still: each node has a deadline of its own. Three controllers and three brokers took eight minutes
on a machine that also had another cluster."""
KEPT_IN_META: Final = ("cluster.id", "directory.id")


def back_from_half_way(laboratory: Laboratory) -> None:
    """Two of three brokers in KRaft mode, the third untouched; the service leads the cluster back, and dies once."""
    back_with_rolled(laboratory, 2)


def back_from_all_rolled(laboratory: Laboratory) -> None:
    """Every broker in KRaft mode, under our controllers."""
    back_with_rolled(laboratory, 3)


def back_to_original_files(laboratory: Laboratory) -> None:
    """The service wrote two of the migration files: after the rollback these brokers get their files without any."""
    back_with_rolled(laboratory, 2, joins=True)


def back_with_version_1(laboratory: Laboratory) -> None:
    """A broker in KRaft mode got a directory that `kafka-storage format` made; without the flag ZooKeeper mode refuses
    such a one, and the flag goes in the second roll back."""
    back_with_rolled(laboratory, 3, joins=True, in_hybrid=format_as_kraft_does)


def format_as_kraft_does(stage: RoadStage) -> None:
    """The last broker, which the second roll restarts as well."""
    broker = stage.cluster.brokers[-1]
    broker.stop()
    for file in metas_of(broker):
        found = read(file)
        assert found["version"] == "0", "a broker that came from ZooKeeper mode leaves the version as it is"
        write(file, {"version": 1, "node.id": broker.broker_id} | {key: found[key] for key in KEPT_IN_META})
    broker.start_as_written()
    wait_whole(stage.cluster)
    assert all(read(file)["version"] == "1" for file in metas_of(broker))


def metas_of(broker: BrokerProcess) -> list[Path]:
    return sorted(broker.directory.glob("data-*/meta.properties"))


def back_with_rolled(
    laboratory: Laboratory, count: int, *, joins: bool = False, in_hybrid: Callable[[RoadStage], None] | None = None
) -> None:
    stage = RoadStage(laboratory, joins=joins)
    stage.to_dual_write()
    brokers = {each.broker_id: each for each in stage.cluster.brokers}
    found = {node: as_found(each) for node, each in brokers.items()}
    again = [node for node, each in brokers.items() if each.properties_file.read_bytes() != found[node]]
    assert len(again) == (2 if joins else 0), again
    rolled = roll_and_pause(stage, count)
    create(stage.cluster, "made-in-hybrid")
    wait_whole(stage.cluster)
    if in_hybrid is not None:
        in_hybrid(stage)
    view = stage.wait_view(lambda view: None if (view["road"]["back"] or {}).get("possible") else view["waiting"])
    print(f"readiness: {view['road']['back']}", flush=True)

    killed = threading.Event()

    def kill_once(act: str, node: int) -> None:
        if act == "stop" and node == rolled[0] and not killed.is_set():
            killed.set()
            stage.kill_service()

    stage.fleet.after_act = kill_once
    began, number = time.monotonic(), len(stage.fleet.done)
    stage.service.operation(stage.migration, "rollback")
    stage.wait_view(lambda view: None if view["phase"] == "ROLLING_BACK" else view["phase"])
    stage.service.operation(stage.migration, "resume")
    view = stage.wait_view(
        lambda view: None if view["phase"] == "ROLLED_BACK" else f"{view['phase']}: {view['waiting']}"
    )
    print(f"ROLLED_BACK after {time.monotonic() - began:.0f} s; the service was killed: {killed.is_set()}", flush=True)
    acts = [(each.act, each.node) for each in stage.fleet.done[number:]]
    print(f"acts: {acts}", flush=True)
    starts = [node for act, node in acts if act == "start"]
    assert starts[:count] == list(reversed(rolled)), acts
    assert sorted(starts[count:]) == again, acts
    assert_rolled_back(stage, view, found)


def roll_and_pause(stage: RoadStage, count: int) -> list[int]:
    """So many brokers go into KRaft mode, in the order that is returned; then the service is paused."""
    before = len(stage.fleet.done)

    def started() -> list[int]:
        return [each.node for each in stage.fleet.done[before:] if each.act == "start"]

    def pause_in_time(act: str, node: int) -> None:
        if act == "start" and len(started()) == count:
            stage.service.operation(stage.migration, "pause")

    stage.fleet.after_act = pause_in_time
    stage.advance("ROLLING_BROKERS")
    stage.wait_view(lambda view: None if len(_whole(view, "kraft")) == count else view["waiting"])
    return started()


def assert_rolled_back(
    stage: RoadStage, view: Mapping[str, Any], found: Mapping[int, bytes], *, end: bool = True
) -> None:
    """Every broker is in ZooKeeper mode with the file with which it was found; nothing acknowledged is lost."""
    brokers = {each.broker_id: each for each in stage.cluster.brokers}
    for node, each in brokers.items():
        assert each.properties_file.read_bytes() == found[node], f"broker {node} has another file"
        metas = [read(file) for file in metas_of(each)]
        assert metas
        assert all((meta["version"], meta["broker.id"]) == ("0", str(node)) for meta in metas), metas
    wait_for(lambda: _who_is_away(stage, brokers), "who was killed on the way is back")
    assert view["active_controller"]["kind"] == Holder.ZOOKEEPER_BROKER, view["active_controller"]
    create(stage.cluster, "made-afterwards")
    wait_whole(stage.cluster)
    for each in brokers.values():
        assert not list(each.directory.rglob("*-stray")), "a log was moved aside"
    if end:
        stage.assert_proven()


def _who_is_away(stage: RoadStage, brokers: Iterable[int]) -> str | None:
    """The rollback waits for brokers that it restarted; one that was killed meanwhile comes when its host starts it."""
    away = {str(each) for each in brokers} - set(stage.cluster.zk.children(paths.BROKER_IDS))
    return f"brokers {sorted(away)} are not there" if away else None


def in_soak(laboratory: Laboratory) -> tuple[RoadStage, dict[int, bytes], dict[int, bytes]]:
    """Every controller stock and restarted in the soak. With the files of brokers and of our controllers before."""
    stage = RoadStage(laboratory)
    stage.to_dual_write()
    return stage, *soak(stage)


def soak(stage: RoadStage) -> tuple[dict[int, bytes], dict[int, bytes]]:
    """From dual-write on, as `in_soak`."""
    found, ours = files_of(stage)
    stage.advance("ROLLING_BROKERS")
    stage.advance("REPLACING_CONTROLLERS")
    stage.wait_view(lambda view: None if len(_whole(view, "soak")) == len(ours) else view["waiting"], BACK_S)
    return found, ours


def back_from_soak(laboratory: Laboratory) -> None:
    """Every broker in KRaft mode, every controller stock, each restarted in the soak; the service dies once."""
    stage, found, ours = in_soak(laboratory)
    back_under_stock(stage, found, ours, sorted(ours), kills_at=2)


def back_after_ten_elections(laboratory: Laboratory) -> None:
    """Stock changed its leader ten times, and leaders of partitions in each epoch. A broker that is controller in
    ZooKeeper mode afterwards takes every state, also when it is another broker, and changes every one of them."""
    stage, found, ours = in_soak(laboratory)
    elect_anew(stage, 10)
    claimed = epoch_in(stage, paths.CONTROLLER_EPOCH)
    back_under_stock(stage, found, ours, sorted(ours), kills_at=2, end=False)
    for _ in range(2):
        take_states_over(stage)
    written = epochs_of_states(stage)
    now = epoch_in(stage, paths.CONTROLLER_EPOCH)
    print(f"controller epoch {claimed} under stock, {now} now; states of epochs {sorted(written)}", flush=True)
    assert max(written) <= now
    assert min(written) > claimed, "a ZooKeeper-mode controller wrote every state anew"
    stage.assert_proven()


def elect_anew(stage: RoadStage, count: int) -> None:
    """The stock controller that leads is killed, so many times, and a topic is created under each next one."""
    voters = stage.fleet.ours[0].voters
    for number in range(count):
        leader = wait_leader(voters)
        stage.fleet.stock[leader].kill()
        wait_for(lambda dead=leader: None if leader_of(voters) not in (None, dead) else "nobody", "another leads")  # type: ignore[misc]
        stage.fleet.start_again(leader)
        create(stage.cluster, f"elected-{number}")
        wait_observed(voters, lambda log: all(each.lag == 0 for each in log.voters), "every voter has the log")


def epochs_of_states(stage: RoadStage) -> set[int]:
    """Of the controllers that wrote them, as the states of all partitions in ZooKeeper say."""
    states = [
        f"{paths.TOPICS}/{topic}/partitions/{number}/state"
        for topic in stage.cluster.zk.children(paths.TOPICS)
        for number in stage.cluster.zk.children(f"{paths.TOPICS}/{topic}/partitions")
    ]
    return {int(json.loads(stage.cluster.zk.read(path) or b"{}")["controller_epoch"]) for path in states}


def epoch_in(stage: RoadStage, path: str) -> int:
    return int(stage.cluster.zk.read(path) or b"-1")


def take_states_over(stage: RoadStage) -> None:
    """Each broker in its turn restarts, so another one is controller, and every partition changes under it."""
    for broker in stage.cluster.brokers:
        broker.stop()
        broker.start_as_written()
        broker.wait_ready()
        wait_whole(stage.cluster)
    create(stage.cluster, f"made-in-epoch-{epoch_in(stage, paths.CONTROLLER_EPOCH)}")
    wait_whole(stage.cluster)


def back_from_replacing_half(laboratory: Laboratory) -> None:
    """One controller of three is stock, and the service paused: only that one is put back; the service dies at it."""
    stage = RoadStage(laboratory)
    stage.to_dual_write()
    found, ours = files_of(stage)

    def pause_in_time(act: str, node: int) -> None:
        if act == "start" and node in ours:
            stage.service.operation(stage.migration, "pause")

    stage.advance("ROLLING_BROKERS")
    stage.wait_view(lambda view: None if len(_whole(view, "kraft")) == len(found) else view["waiting"])
    stage.fleet.after_act = pause_in_time
    stage.advance("REPLACING_CONTROLLERS")
    view = stage.wait_view(lambda view: None if len(_whole(view, "stock")) == 1 else view["waiting"])
    back_under_stock(stage, found, ours, _whole(view, "stock"), kills_at=1)


def files_of(stage: RoadStage) -> tuple[dict[int, bytes], dict[int, bytes]]:
    """Of the brokers as they were found, and of our controllers; by node id."""
    brokers = {each.broker_id: as_found(each) for each in stage.cluster.brokers}
    return brokers, {each.spec.node_id: each.properties_file.read_bytes() for each in stage.fleet.ours}


def back_under_stock(
    stage: RoadStage,
    found: Mapping[int, bytes],
    ours: Mapping[int, bytes],
    stock: Sequence[int],
    *,
    kills_at: int,
    end: bool = True,
) -> None:
    """To ROLLED_BACK by one operation. kills_at: the service dies when it stops this many-th controller.

    end: whether the traffic ends here, with its proof.
    """
    create(stage.cluster, "made-under-stock")
    wait_whole(stage.cluster)
    view = stage.wait_view(lambda view: None if (view["road"]["back"] or {}).get("possible") else _why_not_back(view))
    print(f"readiness: {view['road']['back']}", flush=True)
    assert view["road"]["back"]["controllers"] == list(stock)
    assert view["undo"]["command"] == "zk2kraft rollback"
    stopped: list[int] = []
    killed = threading.Event()

    def kill_once(act: str, node: int) -> None:
        if act == "stop" and node in ours:
            stopped.append(node)
            if len(stopped) == kills_at and not killed.is_set():
                killed.set()
                stage.kill_service()

    stage.fleet.after_act = kill_once
    began, number = time.monotonic(), len(stage.fleet.done)
    stage.wait_view(lambda view: why_not_begun(stage, view))
    if view["paused"]:
        stage.service.operation(stage.migration, "resume")
    view = stage.wait_view(
        lambda view: None if view["phase"] == "ROLLED_BACK" else f"{view['phase']}: {view['waiting']}", BACK_S
    )
    print(f"ROLLED_BACK after {time.monotonic() - began:.0f} s; the service was killed: {killed.is_set()}", flush=True)
    acts = [(each.act, each.node) for each in stage.fleet.done[number:]]
    print(f"acts: {acts}", flush=True)
    assert killed.is_set()
    assert set(stopped) == set(stock), "only stock ones are put back"
    assert [act for act in acts if act[0] == "start" and act[1] in ours] == [], "no host starts stock again"
    assert max(n for n, act in enumerate(acts) if act[1] in ours) < min(
        n for n, act in enumerate(acts) if act[1] not in ours
    ), "no broker goes back before the last controller is ours"
    for each in stage.fleet.ours:
        file = each.properties_file
        assert file.read_bytes() == ours[each.spec.node_id], f"{each.name} has another file"
        refused = subprocess.run([str(stage.fleet.guard), "--check", str(file)], capture_output=True, check=False)
        assert refused.returncode == 78, f"the guard starts stock on a retired log with {file}"
    assert any(each["purpose"] == "demand" and each["passed"] for each in view["audits"]), "audited before the brokers"
    assert_rolled_back(stage, view, found, end=end)


def why_not_begun(stage: RoadStage, view: Mapping[str, Any]) -> str | None:
    """Requests it, and again when an election of the soak has closed the gate in that very moment."""
    if view["phase"] in ("ROLLING_BACK", "ROLLED_BACK"):
        return None
    newest = next((each for each in view["operations"] if each["operation"] == "rollback"), None)
    if newest is not None and newest["state"] not in ("refused", "cancelled", "expired"):
        return f"the rollback is {newest['state']}"
    try:
        stage.service.operation(stage.migration, "rollback")
    except FindingError as error:
        return str(error)
    return "requested just now"


def _why_not_back(view: Mapping[str, Any]) -> str:
    back = view["road"]["back"]
    return f"{view['phase']}: {view['waiting']}" if back is None else f"{view['phase']}: {back['why_not']}"


def as_found(broker: BrokerProcess) -> bytes:
    """Its file before this migration wrote another one: the predecessor that was kept."""
    kept = list(broker.properties_file.parent.glob(f"{broker.properties_file.name}.zk2kraft-*"))
    assert len(kept) <= 1, kept
    return (kept[0] if kept else broker.properties_file).read_bytes()


def _whole(view: Mapping[str, Any], roll: str) -> list[int]:
    return [row["node_id"] for row in view["road"]["nodes"] if row["roll"] == roll and row["step"] == "WHOLE"]
