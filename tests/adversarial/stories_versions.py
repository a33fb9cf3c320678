"""Stories of releases that change: of zk2kraft in dual-write, there and back; of Kafka before the migration.

In:   a laboratory; each story makes its own cluster. Elsewhere: the list of them (end_of_road.py), the earlier code
(earlier.py).
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from confluent_kafka.admin import ResourceType  # type: ignore[attr-defined]  # public, but not re-exported for mypy

from migrator.findings.finding import FindingError
from migrator.findings.service import DATABASE_UNUSABLE
from migrator.lab import fleetctl
from migrator.lab.classes import prepared
from migrator.lab.fleet import LabFleet
from migrator.lab.ours import OurController
from migrator.lab.servers.laboratory import Laboratory
from migrator.zk import paths
from tests.adversarial.earlier import LAST_WITH_SCHEMA_2, LAST_WITH_SCHEMA_3, Earlier, ServiceOfEitherRelease
from tests.adversarial.stories_support import create, wait_observed, wait_whole
from tests.e2e.quorums import ruling, wait_ruling
from tests.e2e.road_stage import RoadStage
from tests.e2e.support import HANGS_AFTER_S, wait_for

EARLIER_KAFKA: Final = "3.6.2"
EARLIER_IBP: Final = "3.6"
RETENTION_MS: Final = 3_600_000


# --- zk2kraft ---------------------------------------------------------------------------------------------------------


class MixedStage(RoadStage):
    """Controllers are units of their own; each and the service run the earlier code or the present one.

    The service reaches a phase of the road behind dual-write only with the present code.
    """

    service: ServiceOfEitherRelease

    def __init__(self, laboratory: Laboratory, commit: str) -> None:
        super().__init__(laboratory, service=ServiceOfEitherRelease, settings={"start_controllers": False})
        self.earlier = Earlier(laboratory, commit)
        self.service.earlier = self.earlier
        self.said_by: dict[bool, frozenset[str]] = {}
        """Keys of a controller's status, by whether it runs the earlier code."""

    @property
    def ours(self) -> list[OurController]:
        return self.fleet.ours

    def step(self, phase: str) -> None:
        super().step(phase)
        if phase == "QUORUM":
            for each in self.ours:
                self.earlier.put_under(each, earlier=True)
                each.launch()
            for each in self.ours:
                each.wait_ready()

    def restart(self, controller: OurController, *, earlier: bool) -> None:
        """One voter, on the same directory; returns when the quorum dual-writes and every voter has the log."""
        controller.stop()
        assert ruling([controller]) is None
        wait_ruling([each for each in self.ours if each is not controller])
        self.earlier.put_under(controller, earlier=earlier)
        controller.launch()
        controller.wait_ready()
        self.wait_in_order()
        assert self.earlier.runs(controller.process.pid) == earlier, f"{controller.name} runs other code"
        said = frozenset(controller.status())
        assert self.said_by.setdefault(earlier, said) == said, f"{controller.name} says {sorted(said)}"

    def wait_in_order(self) -> OurController:
        leader = wait_ruling(self.ours)
        wait_observed(leader.voters, lambda log: all(each.lag == 0 for each in log.voters), "every voter has the log")
        return leader

    def led_by(self, *, earlier: bool) -> OurController:
        """The leader, which runs this code now: leaders of the other one stop and start until one of this code is
        elected.
        """
        for _ in range(6):
            leader = self.wait_in_order()
            if self.earlier.runs(leader.process.pid) == earlier:
                return leader
            self.restart(leader, earlier=not earlier)
        raise AssertionError(f"none of the {'earlier' if earlier else 'present'} code was elected")

    def change(self, name: str) -> None:
        """A topic with its configuration, which ZooKeeper and every voter have afterwards."""
        leader = self.wait_in_order()
        codes = {each.spec.node_id: self.earlier.runs(each.process.pid) for each in self.ours}
        state = {True: "earlier", False: "present"}
        print(f"{name}: {leader.name} leads; { ({node: state[old] for node, old in codes.items()}) }", flush=True)
        create(self.cluster, name)
        self.cluster.alter_configs(ResourceType.TOPIC, name, {"retention.ms": str(RETENTION_MS)})

        def why_not() -> str | None:
            if self.cluster.zk.read(f"{paths.TOPICS}/{name}/partitions/0/state") is None:
                return f"ZooKeeper has no {name}"
            found = json.loads(self.cluster.zk.read(f"{paths.CONFIG}/topics/{name}") or b"{}").get("config", {})
            return None if found.get("retention.ms") == str(RETENTION_MS) else f"ZooKeeper has {found} of {name}"

        wait_for(why_not, "ZooKeeper has the change")
        self.wait_in_order()
        wait_whole(self.cluster)
        self.wait_view(self._why_not_observed)

    def _why_not_observed(self, view: dict[str, Any]) -> str | None:
        """The service has all controllers, whatever code it and they run."""
        if view["phase"] != "DUAL_WRITE":
            return f"{view['phase']}: {view['waiting']}"
        silent = [each["node_id"] for each in view["quorum"] if each["pid"] is None]
        return f"no answer of {silent}" if silent else None

    def audit(self) -> None:
        found = self.service.audit(self.migration, "quick")
        assert found["passed"], found

    # --- the service ---------------------------------------------------------------------------------------

    @property
    def database(self) -> Path:
        return self.service.directory / "data" / "zk2kraft.db"

    def schema(self) -> str:
        with closing(sqlite3.connect(self.database)) as opened:
            return str(opened.execute("SELECT version_num FROM alembic_version").fetchone()[0])

    def service_forward(self) -> None:
        """The present code on the database of the earlier one."""
        before = set(self.copies())
        self.service.stop()
        self.service.earlier = None
        self.service.start()
        assert not self.earlier.runs(self.service.process.pid)
        assert self.schema() == self.earlier.schema_now
        made = set(self.copies()) - before
        assert len(made) == (self.earlier.schema != self.earlier.schema_now), made
        self.audit()

    def service_back(self) -> None:
        """The earlier code. It refuses a database of a later schema; the copy that the upgrade made is put back."""
        self.service.stop()
        self.service.earlier = self.earlier
        if self.earlier.schema != self.earlier.schema_now:
            self.assert_refused()
            self.put_copy_back()
        self.service.start()
        assert self.earlier.runs(self.service.process.pid)
        assert self.schema() == self.earlier.schema
        self.audit()

    def assert_refused(self) -> None:
        try:
            self.service.start()
        except FindingError:
            told = [line for line in self.service.process.log_text().splitlines() if DATABASE_UNUSABLE.code in line]
            assert told, self.service.process.log_text()[-2000:]
            print(told[-1][:300], flush=True)
            return
        raise AssertionError(f"schema {self.schema()} was taken for schema {self.earlier.schema}")

    def copies(self) -> list[Path]:
        return sorted(self.database.parent.glob(f"{self.database.name}.schema-*"))

    def put_copy_back(self) -> None:
        """As the runbook of Z2K-4016 says."""
        self.database.rename(self.database.with_name("kept.db"))
        for end in ("-wal", "-shm"):
            self.database.with_name(self.database.name + end).unlink(missing_ok=True)
        shutil.copy2(self.copies()[-1], self.database)
        audits = self.database.parent / "migrations" / str(self.migration) / "audits"
        audits.rename(audits.with_name("audits.later"))


def upgraded_in_dual_write(laboratory: Laboratory, commit: str = LAST_WITH_SCHEMA_2) -> None:
    """Three voters and the service of an earlier commit, in dual-write with traffic: forward one at a time, back, and
    forward again to the end. A change in every mixture, led by either code.
    """
    stage = MixedStage(laboratory, commit)
    stage.to_dual_write()
    assert all(stage.earlier.runs(each.process.pid) for each in stage.ours)
    assert stage.earlier.runs(stage.service.process.pid)
    assert stage.schema() == stage.earlier.schema
    print(f"in dual-write under {commit}, schema {stage.schema()}", flush=True)
    stage.change("all-earlier")

    voters_turn(stage, to_earlier=False, turn="forward")
    stage.service_forward()
    stage.change("all-present")
    stage.service_back()
    voters_turn(stage, to_earlier=True, turn="back")
    stage.audit()
    stage.change("all-earlier-again")

    stage.service_forward()
    voters_turn(stage, to_earlier=False, turn="again", both_lead=False)
    stage.audit()
    keys = {name: sorted(stage.said_by[old] - stage.said_by[not old]) for name, old in (("-", True), ("+", False))}
    print(f"keys of a status: {keys}", flush=True)
    assert stage.to_the_end()["phase"] == "COMPLETED"
    stage.assert_proven()


class FleetOfAnEarlierTemplate(LabFleet):
    """Its template is one of its operator's own, written for a release that proved no bytes; it stays as it is."""

    def _template(self) -> dict[str, object]:
        found = super()._template()
        tell = 'case "$path" in *.properties) "$@" {} "$id" </dev/null >/dev/null;; esac; '
        write = f"set -e; umask 077; path=$1; id=$2; shift 2; {tell.format('write')}"
        write += 'new="$path.zk2kraft-new"; cat > "$new"; sync -- "$new"; mv -f -- "$new" "$path"; '
        write += tell.format("written")
        shell, control = ["/bin/sh", "-c"], [sys.executable, "-I", "-S", fleetctl.__file__, str(self._socket_path)]
        acts = {
            "read": {"argv": [*shell, 'test -e "$1" || exit 66; exec cat -- "$1"', "sh", "{path}"]},
            "list": {"argv": [*shell, 'test -d "$1" || exit 66; exec ls -A -- "$1"', "sh", "{path}"]},
            "write": {"argv": [*shell, write, "sh", "{path}", "{id}", *control]},
        }
        present = found["acts"]
        assert isinstance(present, dict)
        return {**found, "acts": {**present, **acts}}


class RollOfEitherRelease(MixedStage):
    """As it was before an upgrade, the operator's template too."""

    fleet_of = FleetOfAnEarlierTemplate


def upgraded_in_the_roll(laboratory: Laboratory, commit: str = LAST_WITH_SCHEMA_3) -> None:
    """The service of an earlier commit is killed in ROLLING_BROKERS, one broker whole and the next one under way. The
    present code goes on with its database to the end. Voters run the earlier code until stock takes their place.
    """
    stage = RollOfEitherRelease(laboratory, commit)
    stage.to_dual_write()
    stage.change("before-the-roll")
    stage.advance("ROLLING_BROKERS")

    def why_not(view: dict[str, Any]) -> str | None:
        steps = {(each["role"], each["node_id"]): each["step"] for each in view["road"]["nodes"]}
        whole, others = [each for each in steps.values() if each == "WHOLE"], len(steps)
        return None if whole and others > len(whole) else str(steps)

    stage.wait_view(why_not)
    stage.service.process.kill()
    assert stage.schema() == stage.earlier.schema
    stage.service.earlier = None
    stage.service.start()
    assert not stage.earlier.runs(stage.service.process.pid)
    assert stage.schema() == stage.earlier.schema_now
    assert len(stage.copies()) == (stage.earlier.schema != stage.earlier.schema_now), "the database of before is kept"
    assert stage.to_the_end()["phase"] == "COMPLETED"
    stage.assert_one_at_a_time()
    stage.assert_proven()


def voters_turn(stage: MixedStage, *, to_earlier: bool, turn: str, both_lead: bool = True) -> None:
    """Every voter from one code to the other: followers first. both_lead: before the last one, each code leads."""
    leader = stage.wait_in_order()
    first, second = [each for each in stage.ours if each is not leader]
    stage.restart(first, earlier=to_earlier)
    stage.change(f"{turn}-one-of-three")
    stage.restart(second, earlier=to_earlier)
    stage.change(f"{turn}-two-of-three")
    if both_lead:
        for earlier, who in ((not to_earlier, "the-one-before"), (to_earlier, "the-one-after")):
            stage.led_by(earlier=earlier)
            stage.change(f"{turn}-{who}-leads")
    last = next(each for each in stage.ours if stage.earlier.runs(each.process.pid) != to_earlier)
    stage.restart(last, earlier=to_earlier)
    stage.change(f"{turn}-all")


# --- Kafka ------------------------------------------------------------------------------------------------------------


class EarlierBrokers(RoadStage):
    """Brokers of an earlier release in ZooKeeper mode; each becomes one of the laboratory's before the migration."""

    def __init__(self, laboratory: Laboratory) -> None:
        super().__init__(laboratory, joins=True)
        earlier = prepared(EARLIER_KAFKA)
        for each in self.cluster.brokers:
            each.kafka = earlier
            each.spec = replace(each.spec, ibp=EARLIER_IBP)

    def start_to_join(self) -> list[OurController]:
        cluster = self.cluster
        cluster.start()
        self.begin_traffic()
        assert versions_of(self) == {EARLIER_KAFKA}, versions_of(self)
        target = cluster.laboratory.artifacts.version
        for each in cluster.brokers:
            began = time.monotonic()
            each.kafka = None
            each.restart_as(each.spec)
            wait_whole(cluster)
            create(cluster, f"software-of-{each.broker_id}")
            print(f"{each.name} runs Kafka {target} after {time.monotonic() - began:.1f} s", flush=True)
        assert versions_of(self) == {target}, versions_of(self)
        for each in cluster.brokers:
            began = time.monotonic()
            each.restart_as(replace(each.spec, ibp="3.9"))
            wait_whole(cluster)
            create(cluster, f"protocol-of-{each.broker_id}")
            print(f"{each.name} is at IBP 3.9 after {time.monotonic() - began:.1f} s", flush=True)
        self.traffic.wait_acknowledged(self.traffic.status.acknowledged + 300, HANGS_AFTER_S)
        return self.with_first_joined()


def versions_of(stage: RoadStage) -> set[str]:
    """Of the running brokers, as each logs it at its last start."""
    return {last_version(each.process.log.read_text(errors="replace").splitlines()) for each in stage.cluster.brokers}


def last_version(lines: Sequence[str]) -> str:
    return next(
        line.partition("Kafka version: ")[2].split()[0] for line in reversed(lines) if "Kafka version: " in line
    )


def brokers_of_3_6(laboratory: Laboratory) -> None:
    """Three brokers of Kafka 3.6.2 at IBP 3.6, rolled to 3.9.2 and then to IBP 3.9, and migrated to the end; traffic on
    from the beginning.
    """
    stage = EarlierBrokers(laboratory)
    stage.to_dual_write()
    assert stage.to_the_end()["phase"] == "COMPLETED"
    stage.assert_proven()
