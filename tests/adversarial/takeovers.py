"""Takeovers cut short again and again, while clients change topics and ACLs and take producer ids.

    python -m tests.adversarial.takeovers [--rounds 200] [--seed N] [--brokers 2] [--report FILE.json]

Real ZooKeeper, real brokers, our controller as a process. What has to hold at the end of every round: each topic and
ACL that was acknowledged is there and each that was acknowledged as deleted is not, in ZooKeeper and at every broker;
no producer id was handed out twice; `/controller_epoch` only ever grew; in dual-write the audit finds both sides equal.

Exit codes: 0 all of that held, 1 it did not; the directory of the run is kept then.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from math import inf
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Producer

from migrator.findings.finding import FindingError
from migrator.lab.classes import prepared
from migrator.lab.cluster import LabCluster
from migrator.lab.ours import OurController
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.properties import Value
from migrator.lab.servers.zookeeper import ZooKeeperClient
from migrator.lab.takeover import roll_back_without_controllers, wait_sessions_ended
from tests.adversarial.load import GENTLY, Load
from tests.adversarial.outside import EpochWatch, Outside, figures
from tests.adversarial.rounds import WHOLE_EVERY, End, Round, rounds
from tests.e2e.support import assert_same, controller_of, ready_cluster, spoil, wait_for, wait_zookeeper_rules

BROKERS: Final[dict[str, Value]] = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "allow.everyone.if.no.acl.found": True,
    "super.users": "User:ANONYMOUS",
}
CONTROLLER: Final[dict[str, Value]] = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": True,
    "super.users": "User:ANONYMOUS",
    "zookeeper.session.timeout.ms": 3000,
    "zk2kraft.gates": "pause",
    "zk2kraft.takeover.max.ms": 5000,
}
GATE_S: Final = 120.0
"""The gate waits for a moment in which no deletion is pending and everything is in sync."""
REST_S: Final = 90.0
DWELLS_S: Final = 2.0
"""In dual-write, under load."""
MIXES_S: Final = 0.2
"""After a round, for clients to do something under ZooKeeper."""
ROLLBACKS_MAX: Final = 3
BEGINS_MAX: Final = 3
BEFORE_THE_CLAIM: Final = ("latch", "claim", "raise epoch")

Say = Callable[[str], None]


class Stand:
    """Has the controller stand still before an effect (SPOIL's `plan`, tests/support/spoiled_controller.py)."""

    def __init__(self, plan: Path) -> None:
        self.plan = plan
        self.taken = plan.with_suffix(".taken")
        self._go = plan.with_suffix(".go")

    def order(self, effect: str) -> None:
        self.clear()
        self.plan.write_text(effect)

    def clear(self) -> None:
        for path in (self.plan, self.taken, self._go, self.plan.with_suffix(".taking")):
            path.unlink(missing_ok=True)

    def go(self) -> None:
        self._go.touch()


@dataclass
class Result:
    """outcomes: how rounds ended, in the driver's words."""

    seed: int
    rounds: int = 0
    seconds: float = 0.0
    outcomes: Counter[str] = field(default_factory=Counter)
    figures: dict[str, Any] = field(default_factory=dict)

    def lines(self) -> Iterator[str]:
        yield f"seed {self.seed}: {self.rounds} rounds in {self.seconds:.0f} s, nothing wrong"
        yield from (f"  {count:4} {what}" for what, count in self.outcomes.most_common())
        yield from (f"  {name}: {value}" for name, value in self.figures.items())


class Run:
    """One cluster for all rounds; a controller and its quorum for as long as its log is not retired."""

    def __init__(self, cluster: LabCluster, controller: OurController, seed: int, say: Say) -> None:
        self.cluster = cluster
        self.controller = controller
        self.say = say
        self.rest_while: Path | None = None
        """Between rounds nothing is done as long as this file exists."""
        self.limit_s = inf
        """No round begins after it."""
        self.stand = Stand(cluster.laboratory.directory / "stand")
        self.load = Load([broker.spec.port for broker in cluster.brokers], seed)
        self.outside = Outside(cluster, self.load)
        self._eye = ZooKeeperClient(cluster.zookeeper.hosts, cluster.chroot)
        cluster.laboratory.on_close.callback(self._eye.close)
        self.watch = EpochWatch(self._eye.read)
        self.result = Result(seed)
        self._spoil()

    def _spoil(self) -> None:
        spoil(self.controller, self.stand.plan, plan=str(self.stand.plan))

    def play(self, plan: list[Round]) -> Result:
        began = time.monotonic()
        make_transaction_log(self.cluster)
        self.watch.start()
        self.load.start()
        try:
            for each in plan:
                if time.monotonic() - began > self.limit_s:
                    break
                self._rest()
                self._play_round(each, last=each is plan[-1])
            with self.load.quiet():
                self._check()
                assert list(self.outside.violations()) == []
            self.result.seconds = time.monotonic() - began
            self.result.figures = figures(self.load, self.watch)
        finally:
            self.load.stop()
            self.watch.stop()
        return self.result

    def _rest(self) -> None:
        if self.rest_while is not None and self.rest_while.exists():
            with self.load.quiet():
                while self.rest_while.exists():
                    time.sleep(1.0)

    # --- one round -----------------------------------------------------------------------------------------

    def _play_round(self, plan: Round, *, last: bool) -> None:
        """A takeover that was never begun is no round: it is asked for again."""
        for _ in range(BEGINS_MAX):
            if self._round(plan, last=last):
                return
        raise AssertionError(f"{plan}: not begun in {BEGINS_MAX} tries, the driver is {self.controller.status()}")

    def _round(self, plan: Round, *, last: bool) -> bool:
        """Whether the takeover began: one that was cut in front of its first write leaves the driver waiting again."""
        began, epoch = time.monotonic(), self._epoch()
        moves = self._begin(plan)
        reached = self._reaches(plan, moves)
        self.load.pace = 1.0
        if reached:
            time.sleep(plan.after_s)
            self._cut(plan)
        outcome = self._come_to_rest(plan)
        self._check()
        claimed = reached and plan.stands_before not in BEFORE_THE_CLAIM
        assert self._epoch() > epoch or not claimed, (
            f"{plan}: a takeover raises the epoch, also one that was given back"
        )
        begun = reached or not outcome.startswith("not begun")
        self.result.rounds += begun
        self.result.outcomes[outcome] += 1
        self.say(f"{plan}: {outcome} ({time.monotonic() - began:.1f} s)")
        if outcome.startswith("retired"):
            self._fresh_quorum(start=not last)
        time.sleep(MIXES_S)
        return begun

    def _begin(self, plan: Round) -> int:
        """Ask for the takeover. Returns the number of the driver's last move before that."""
        if not self.controller.is_running:
            self.controller.start()
        self.controller.wait_state("WAIT_QUORUM", "WAIT_BROKERS", "ABORTED", deadline_s=REST_S)
        self.stand.clear()
        if plan.stands_before:
            self.stand.order(plan.stands_before)
        moves = self._moves()
        self.load.pace = GENTLY
        self.controller.ask("takeover", str(plan))
        return moves

    def _moves(self) -> int:
        return max((each["number"] for each in self._history()), default=0)

    def _history(self) -> list[dict[str, Any]]:
        return list(self.controller.status()["driver"]["history"])

    def _entered(self, states: Collection[str], since: int) -> bool:
        """Whether the driver went into one of these states after the move of that number."""
        return any(each["to"] in states and each["number"] > since for each in self._history())

    def _reaches(self, plan: Round, moves: int) -> bool:
        """Wait for the place where the round is cut; False when the takeover ended by itself before it."""
        began = time.monotonic()
        while time.monotonic() - began < GATE_S:
            if self.stand.taken.exists() if plan.stands_before else self._claims():
                return True
            if self._entered(("ABORTED", "RETIRED", "DUAL_WRITE"), moves):
                return False
            time.sleep(0.005)
        raise AssertionError(
            f"{plan}: not reached after {GATE_S} s, the driver is {self.controller.status()['driver']}"
        )

    def _claims(self) -> bool:
        found = controller_of(self.cluster)
        return found is not None and found.get("kraftControllerEpoch", -1) > 0

    def _cut(self, plan: Round) -> None:
        match plan.end:
            case End.ABORT:
                with suppress(FindingError):  # too late for it: the copy is committed
                    self.controller.ask("abort", str(plan))
            case End.KILL | End.KILL_AND_START:
                self.controller.kill()
            case End.STOP:
                self.controller.stop()
            case End.OVERDUE:
                self.controller.wait_state("ABORTED", deadline_s=REST_S)
            case _:
                pass
        self.stand.go()

    # --- until the cluster is somebody's -------------------------------------------------------------------

    def _come_to_rest(self, plan: Round) -> str:
        """Let the driver finish, with a new life where it has none, and the whole way if it got beyond the commit."""
        if plan.end is End.KILL and not self._claim_is_persistent():
            wait_zookeeper_rules(self.cluster, REST_S)
        while True:
            self._live()
            state = self._rests()
            if state == "DUAL_WRITE":
                self._dual_write(plan)
            elif state == "ABORTED":
                wait_zookeeper_rules(self.cluster, REST_S)
                return f"given back: {self._finding()}"
            elif state == "RETIRED":
                wait_zookeeper_rules(self.cluster, REST_S)
                return f"retired: {plan.end}" if plan.is_whole else "retired: the copy was committed before the cut"
            else:
                return f"not begun: {state}"

    def _live(self) -> None:
        if not self.controller.is_running and "Z2K-2008" not in self._last_words():
            self.controller.launch()

    def _last_words(self) -> str:
        return self.controller.process.log_text()

    def _rests(self) -> str:
        """The state in which the driver stays, or RETIRED when the process ended because its log is."""
        found = ""

        def why_not() -> str | None:
            nonlocal found
            if not self.controller.is_running:
                assert "Z2K-2008" in self._last_words(), f"it ended: {self.controller.process.log_tail()}"
                found = "RETIRED"
                return None
            try:
                driver = self.controller.status()["driver"]
            except (OSError, ValueError):
                return "no status"
            found = driver["state"]
            assert found != "FENCED", driver
            return (
                None
                if found in ("ABORTED", "DUAL_WRITE", "RETIRED", "WAIT_BROKERS")
                else f"{found}: {driver['reason']}"
            )

        wait_for(why_not, "the driver rests", deadline_s=REST_S)
        return found

    def _finding(self) -> str:
        finding = self.controller.status()["driver"]["finding"]
        return "-" if finding is None else str(finding["code"])

    def _claim_is_persistent(self) -> bool:
        data = self.cluster.zk.read("/migration")
        return data is not None and json.loads(data)["kraft_metadata_offset"] >= 0

    # --- beyond the commit ---------------------------------------------------------------------------------

    def _dual_write(self, plan: Round) -> None:
        time.sleep(DWELLS_S)
        self._check()
        with self.load.quiet():
            self._wait_mirrored()
            assert_same(self.cluster, self.controller.data)
            if plan.end is End.RELEASE:
                self.controller.kill()  # what was not mirrored would be lost (docs/undo.md)
                wait_sessions_ended(self.cluster)
        if plan.end is End.RELEASE:
            roll_back_without_controllers(self.cluster)
            wait_zookeeper_rules(self.cluster, REST_S)
            return
        if plan.end is End.ROLLBACK_AFTER_KILL:
            self.controller.kill()
            self.controller.start()
            self.controller.wait_dual_write(REST_S)
            self._check()
        self._rollback()

    def _wait_mirrored(self) -> None:
        def why_not() -> str | None:
            behind = self.controller.status()["dual_write"]["lag_records"]
            return f"{behind} records behind" if behind else None

        wait_for(why_not, "ZooKeeper has everything", deadline_s=REST_S)

    def _rollback(self) -> None:
        """Under load; refused when something is still on its way, then asked again as an operator would."""
        for _ in range(ROLLBACKS_MAX):
            moves = self._moves()
            self.controller.ask("rollback")
            wait_for(partial(self._why_no_answer, moves), "the rollback is done or refused", deadline_s=REST_S)
            if self._entered(("RETIRED",), moves):
                return
        raise AssertionError(f"the rollback was refused: {self.controller.status()['driver']}")

    def _why_no_answer(self, moves: int) -> str | None:
        return None if self._entered(("RETIRED", "DUAL_WRITE"), moves) else self.controller.state()

    def _fresh_quorum(self, *, start: bool) -> None:
        """Another log in the place of the retired one, and brokers that never heard of it."""
        old = self.controller
        if old.is_running:
            old.stop()
        if not start:
            return
        shutil.rmtree(old.data)
        self.controller = OurController(self.cluster.laboratory, old.spec, self.cluster.cluster_id)
        self._spoil()
        self.cluster.restart_as(lambda spec: spec.as_migrating(old.voters))

    # --- what has to hold ----------------------------------------------------------------------------------

    def _check(self) -> None:
        self.outside.wait_as_told()
        assert self.watch.violations == []

    def _epoch(self) -> int:
        return int(self.cluster.zk.read("/controller_epoch") or -1)


def make_transaction_log(cluster: LabCluster) -> None:
    """The first transactional producer of a cluster has its topic made; the others need it."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": "the first"})
    producer.init_transactions(60)


@contextmanager
def a_run(laboratory: Laboratory, seed: int, brokers: int, say: Say) -> Iterator[Run]:
    with ready_cluster(laboratory, 1, brokers=brokers, extra=CONTROLLER, broker_extra=BROKERS) as (cluster, controller):
        yield Run(cluster, controller, seed, say)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.adversarial.takeovers", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=None, help="decides what happens in each round; default: the time")
    parser.add_argument("--brokers", type=int, default=2)
    parser.add_argument("--whole-every", type=int, default=WHOLE_EVERY, help="every which round goes to dual-write")
    parser.add_argument("--minutes", type=float, default=inf, help="end after so many, with the rounds done by then")
    parser.add_argument(
        "--rest-while", type=Path, default=None, help="do nothing between rounds while this file exists"
    )
    parser.add_argument("--report", type=Path, default=None, help="figures as JSON")
    chosen = parser.parse_args(arguments)
    seed = int(time.time()) if chosen.seed is None else chosen.seed
    directory = Path(tempfile.mkdtemp(prefix="zk2kraft-takeovers-"))

    def say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    plan = list(rounds(seed, chosen.rounds, chosen.whole_every))
    try:
        with (
            Laboratory(directory, prepared(), say=lambda _: None) as laboratory,
            a_run(laboratory, seed, chosen.brokers, say) as run,
        ):
            run.rest_while = chosen.rest_while
            run.limit_s = chosen.minutes * 60
            result = run.play(plan)
    except (AssertionError, FindingError) as error:
        print(f"TAKEOVERS FAILED  seed {seed}, kept in {directory}\n{error}", file=sys.stderr)
        return 1
    shutil.rmtree(directory)
    print("\n".join(result.lines()))
    if chosen.report:
        chosen.report.write_text(json.dumps(vars(result)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
