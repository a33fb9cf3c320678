"""Stories of `engine: stock`: estates as companies have them, led by the service through Kafka's own controllers.

In:   a laboratory; each story makes its own cluster. Elsewhere: the list of them (end_of_road.py), the plain cluster
(tests/e2e/test_stock_engine.py), the estate (estate.py).
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]  # public, but not re-exported for mypy

from migrator.lab.ours import PROGRAM, OurController
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.properties import Value
from tests.adversarial.estate import EstateStage
from tests.adversarial.stories_estate import assert_served
from tests.e2e.road_kills import Kill
from tests.e2e.road_stage import why_not_at_the_end
from tests.e2e.stock_stage import STOCK_SETTINGS, StockStage, go_back
from tests.e2e.support import wait_for


class StockEstateStage(StockStage, EstateStage):
    """No broker has joined: all of it is the service's work."""

    def start_cluster(self) -> list[OurController]:
        """Files of brokers from before the migration are kept for the end of a way back."""
        ours = self.unjoined()
        self.found = {each.broker_id: each.properties_file.read_bytes() for each in self.cluster.brokers}
        return ours


def stock_engine_secured(laboratory: Laboratory) -> None:
    """SASL_SSL on every listener, ACLs, SCRAM users, dynamic passwords, guarded znodes: to COMPLETED by stock."""
    stage = StockEstateStage(laboratory)
    stage.to_dual_write()
    assert_served(stage)
    acls, users = stage.acls(), stage.users()
    stage.to_the_end()
    stage.wait_view(why_not_at_the_end)
    assert_served(stage)
    assert stage.acls() == acls
    assert stage.users() == users
    wait_for(lambda: stage.serves(0, stage.dynamic), "broker 0 has its dynamic store in KRaft mode")
    stage.assert_proven()
    print(f"traffic: {stage.traffic.status.acknowledged} records acknowledged", flush=True)


RULES: Final[Mapping[str, Value]] = {
    "authorizer.class.name": "EstateRules$ClosedTopics",
    "create.topic.policy.class.name": "EstateRules$NamesOfTopics",
}
"""Of brokers and of controllers (tests/support/EstateRules.java)."""
BLOCKED: Final = 2
"""Exit code of `check`."""


class RulesStage(StockStage):
    """An authorizer and a policy of the estate's own, in a small jar that is built here. Needs a JDK."""

    controller_settings: Mapping[str, Value] = {**STOCK_SETTINGS, **RULES}

    def __init__(self, laboratory: Laboratory) -> None:
        laboratory.artifacts = replace(laboratory.artifacts, beside=rules_jar(laboratory))
        super().__init__(laboratory, joins=True, broker_extra=RULES)

    def before_service(self) -> None:
        """An estate that `check` refuses for our controllers, by name, and not for Kafka's own."""
        for engine, is_refused in (("zk2kraft", True), ("stock", False)):
            code, found = checked(self, engine)
            assert (code == BLOCKED) is is_refused, found
            assert ("Z2K-3010" in found) is is_refused, found


def rules_jar(laboratory: Laboratory) -> Path:
    """The directory of the jar."""
    source = Path(__file__).parents[1] / "support" / "EstateRules.java"
    home, java = laboratory.directory / "rules", Path(laboratory.artifacts.java.path).resolve().parent
    classes = home / "classes"
    classes.mkdir(parents=True)
    libs = f"{laboratory.artifacts.libs}/*"
    subprocess.run([java / "javac", "-cp", libs, "-d", classes, source], check=True, timeout=120)
    subprocess.run([java / "jar", "cf", home / "rules.jar", "-C", classes, "."], check=True, timeout=120)
    return home


def stock_engine_rules(laboratory: Laboratory) -> None:
    """An estate that our controllers refuse: to COMPLETED by stock, its rules in force on the way and at the end."""
    stage = RulesStage(laboratory)
    stage.to_dual_write()
    assert_in_force(stage, "in dual-write")
    stage.to_the_end()
    stage.wait_view(why_not_at_the_end)
    assert_in_force(stage, "without ZooKeeper")
    stage.assert_proven()
    print(f"traffic: {stage.traffic.status.acknowledged} records acknowledged", flush=True)


def assert_in_force(stage: RulesStage, when: str) -> None:
    """Who asks for a topic of a name that the rules do not know gets what they say, and others get theirs."""

    admin = stage.cluster.new_admin()

    def made(name: str) -> str:
        try:
            admin.create_topics([NewTopic(name, 1, 3)])[name].result(60)
        except KafkaException as error:
            return str(error.args[0].name())
        return ""

    found = {name: made(name) for name in ("ill-named-one", "closed-one", f"fine-{when.split()[0]}")}
    assert list(found.values()) == ["POLICY_VIOLATION", "TOPIC_AUTHORIZATION_FAILED", ""], (when, found)


def checked(stage: RulesStage, engine: str) -> tuple[int, str]:
    """`zk2kraft check` with the controllers' files: exit code and words."""
    files = [word for each in stage.fleet.ours for word in ("--controllers", str(each.properties_file))]
    words = ["check", "-z", stage.cluster.zookeeper_connect, *files, "--engine", engine, "--json"]
    done = subprocess.run([sys.executable, *PROGRAM, *words], capture_output=True, text=True, timeout=300, check=False)
    return done.returncode, done.stdout


class KilledStage(StockStage):
    """The service dies right after some of its acts, each once, and goes on in its next life."""

    def _arm(self, kills: tuple[Kill, ...]) -> None:
        super()._arm(kills)
        self.left = {("start", 3001), ("written", 3002), ("stop", 0), ("start", 1), ("start", 2), ("stop", 3000)}

        def kill_once(act: str, node: int) -> None:
            if (act, node) in self.left:
                self.left.discard((act, node))
                print(f"the service is killed after {act} of {node}", flush=True)
                self.kill_service()

        self.fleet.after_act = kill_once


def stock_engine_killed(laboratory: Laboratory) -> None:
    """To SOAK and back; the service is killed after acts of the first start of stock, of joining, of its end."""
    stage = KilledStage(laboratory, joins=True)
    stage.to_dual_write()
    stage.to_soak()
    go_back(stage)
    assert stage.left == set(), f"never reached: {stage.left}"
