"""Poison for a cluster in dual-write: everything odd that clients, brokers and other tools can send or leave behind.

    python -m tests.adversarial.poison [--seed N] [--rounds M] [--only FAMILY ...] [--report FILE.json]

Real ZooKeeper, three real brokers, three controllers of ours. After each poison: an administrator's change is served
and stands in ZooKeeper within 5 s, no process ended, no stack trace is in a controller's log. Every few odd znodes, and
at the end, the active controller is killed and a broker restarted; then the same has to hold.

Prints a table. Exit codes: 0 all of that held, 1 it did not; the directory of the run is kept then.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from typing import Final

from kazoo.client import KazooClient

from migrator.findings.finding import FindingError
from migrator.lab.classes import prepared
from migrator.lab.cluster import LabCluster
from migrator.lab.ours import OurController
from migrator.lab.servers.broker import BrokerProcess
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.properties import Value
from migrator.wire.messages.brokers import BrokerRegistrationRequest
from migrator.wire.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tests.adversarial.poison_brokers import register, registrations
from tests.adversarial.poison_requests import FORWARDED, OF_BROKERS, OURS, Hostile, hostile_requests, large_requests
from tests.adversarial.poison_wire import (
    RESPONSES,
    ask,
    broken_frames,
    codes_of,
    exchange,
    send_forwarded,
    send_straight,
)
from tests.adversarial.poison_znodes import Gardener
from tests.e2e.quorums import ruling, start, three_controllers, wait_ruling

SERVED_S: Final = 5.0
"""The bound of the run: from the operation for a change until ZooKeeper has it."""
RECOVERS_S: Final = 30.0
"""How long the run waits for what missed the bound, before it goes on or gives up."""
RULES_S: Final = 60.0
AGAIN_S: Final = 0.1
ZNODES_PER_FAIL_OVER: Final = 6
SECRET: Final = "a secret of the laboratory"
BROKERS: Final[dict[str, Value]] = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "allow.everyone.if.no.acl.found": True,
    "super.users": "User:ANONYMOUS",
    "delegation.token.secret.key": SECRET,
}
CONTROLLERS: Final[dict[str, Value]] = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": True,
    "super.users": "User:ANONYMOUS",
    "delegation.token.secret.key": SECRET,
}
FAMILIES: Final = ("requests", "sizes", "frames", "brokers", "znodes")
DONE, EXISTS = 0, 36

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Poison:
    """act: does it, and says in words what was answered."""

    family: str
    what: str
    act: Callable[[], str]


@dataclass(frozen=True, slots=True)
class Seen:
    """What came of one poison.

    served_s: until an administrator's change stood in ZooKeeper. wrong: empty when all was right.
    """

    family: str
    what: str
    answer: str
    served_s: float
    wrong: tuple[str, ...]


@dataclass
class Stage:
    """The cluster under poison."""

    cluster: LabCluster
    ours: Sequence[OurController]
    chance: Random
    say: Say
    seen: list[Seen] = field(default_factory=list)
    _read: dict[Path, int] = field(default_factory=dict)
    _changes: int = 0

    # --- one poison ----------------------------------------------------------------------------------------

    def play(self, poison: Poison) -> bool:
        """Whether the run can go on."""
        try:
            answer = poison.act()
        except AssertionError as error:
            answer = f"nobody to send it to: {error}"
        return self.look(poison.family, poison.what, answer)

    def look(self, family: str, what: str, answer: str) -> bool:
        served_s, wrong = self._serves()
        wrong = [*wrong, *self._ended(), *self._stack_traces()]
        each = Seen(family, what, answer, round(served_s, 2), tuple(wrong))
        self.seen.append(each)
        self.say(line(each))
        return served_s < RECOVERS_S or self._mend()

    def _serves(self) -> tuple[float, list[str]]:
        """Create a topic; the seconds until ZooKeeper has it, its state included."""
        self._changes += 1
        name = f"change-{self._changes}"
        topic = CreatableTopic(name, -1, -1, (CreatableReplicaAssignment(0, (0, 1, 2)),))
        began, last = time.monotonic(), "nothing"
        while time.monotonic() - began < RECOVERS_S:
            answer = ask(self._port(), CreateTopicsRequest((topic,), 5_000), CreateTopicsResponse, SERVED_S)
            codes = codes_of(answer)
            last = f"answer {codes}"
            if set(codes) <= {DONE, EXISTS} and codes:
                if self.cluster.zk.exists(f"/brokers/topics/{name}/partitions/0/state"):
                    took = time.monotonic() - began
                    late = [] if took < SERVED_S else [f"served and mirrored only after {took:.1f} s"]
                    return took, late
                last = "not in ZooKeeper"
            time.sleep(AGAIN_S)
        return RECOVERS_S, [f"no change is served and mirrored in {RECOVERS_S:.0f} s ({last}; {self._reasons()})"]

    def _port(self) -> int:
        alive = [broker for broker in self.cluster.brokers if broker.is_running]
        return self.chance.choice(alive).spec.port

    def _reasons(self) -> str:
        found = []
        for each in self.ours:
            try:
                driver = each.status()["driver"]
                found.append(f"{each.name} {driver['state']}: {driver['reason'][:200]}")
            except (OSError, ValueError):
                found.append(f"{each.name} does not answer")
        return "; ".join(found)

    def _ended(self) -> Iterator[str]:
        processes: tuple[OurController | BrokerProcess, ...] = (*self.ours, *self.cluster.brokers)
        for each in processes:
            if not each.is_running:
                yield f"{each.name} ended: {each.process.log_tail()[-300:]}"

    def _stack_traces(self) -> Iterator[str]:
        for each in self.ours:
            log = each.process.log
            data = log.read_bytes()
            new, self._read[log] = data[self._read.get(log, 0) :], len(data)
            if b"Traceback (most recent call last)" in new:
                text = new.decode(errors="replace")
                yield f"{each.name} logged a stack trace: {_last_of_trace(text)}"

    def _mend(self) -> bool:
        """Start what ended, so that the next poison is tried on a cluster that lives; False when that does not help."""
        for each in self.ours:
            if not each.is_running:
                each.launch()
        try:
            wait_ruling(self.ours, RULES_S)
        except AssertionError:
            return False
        return True

    # --- fail-over and restart -----------------------------------------------------------------------------

    def fail_over(self, family: str) -> bool:
        active = ruling(self.ours)
        if active is None:
            return self._mend()
        active.kill()
        began = time.monotonic()
        try:
            wait_ruling([each for each in self.ours if each is not active], RULES_S)
            answer = f"dual-write again after {time.monotonic() - began:.1f} s"
        except AssertionError:
            answer = f"no dual-write after {RULES_S:.0f} s: {self._reasons()}"
        active.launch()
        active.wait_ready()
        return self.look(family, f"kill -9 of {active.name}", answer)

    def restart_a_broker(self) -> bool:
        broker = self.chance.choice(self.cluster.brokers)
        broker.stop()
        broker.start()
        try:
            answer = f"ready after {broker.wait_ready():.1f} s"
        except FindingError as error:
            answer = str(error)
        return self.look("restart", f"{broker.name} stopped and started", answer)

    def active_port(self) -> int:
        active = ruling(self.ours) or wait_ruling(self.ours, RULES_S)
        return active.spec.port


def _last_of_trace(text: str) -> str:
    """The line that names the exception of the last stack trace."""
    trace = text[text.rindex("Traceback (most recent call last)") :].replace("\\n", "\n")
    named = [each for each in trace.splitlines()[1:60] if each and not each.startswith((" ", "{"))]
    return (named or [trace[:300]])[0][:300]


# --- what is played ---------------------------------------------------------------------------------------


def poisons(stage: Stage, gardener: Gardener, only: Sequence[str]) -> dict[str, list[Poison]]:
    """By family, in the order of the run."""
    families: dict[str, Callable[[], Iterator[Poison]]] = {
        "requests": lambda: _requests(stage),
        "sizes": lambda: (_request(stage, "sizes", each) for each in large_requests(stage.chance)),
        "frames": lambda: _frames(stage),
        "brokers": lambda: _brokers(stage),
        "znodes": lambda: (Poison("znodes", each.what, _done(each.act)) for each in gardener.plants()),
    }
    return {name: list(made()) for name, made in families.items() if name in only}


def _requests(stage: Stage) -> Iterator[Poison]:
    for kind in (*FORWARDED, *OF_BROKERS):
        yield from (_request(stage, "requests", each) for each in hostile_requests(stage.chance, kind))


def _request(stage: Stage, family: str, each: Hostile) -> Poison:
    """What a client can send goes to a broker as well: it may be stricter, and it may break."""

    def act() -> str:
        response = RESPONSES[type(each.request)]
        if not each.forwarded:
            return send_straight(stage.active_port(), each.request, response)
        by_client = send_straight(stage._port(), each.request, response)
        return f"{send_forwarded(stage.active_port(), each.request, response)}; by a broker {by_client}"

    return Poison(family, each.what, act)


def _frames(stage: Stage) -> Iterator[Poison]:
    for what, frame in broken_frames(stage.chance):

        def act(frame: bytes = frame) -> str:
            answers = [exchange(each.spec.port, frame, timeout_s=2.0) for each in stage.ours]
            return ", ".join("closed" if each is None else f"{len(each)} bytes" for each in answers)

        yield Poison("frames", what, act)


def _brokers(stage: Stage) -> Iterator[Poison]:
    for what, request in registrations(stage.chance, stage.cluster.cluster_id):

        def act(request: BrokerRegistrationRequest = request) -> str:
            return register(stage.active_port(), request)

        yield Poison("brokers", what, act)


def _done(act: Callable[[], None]) -> Callable[[], str]:
    def played() -> str:
        try:
            act()
        except Exception as error:  # ZooKeeper itself may refuse it: then there is no poison
            return type(error).__name__
        return "planted"

    return played


def shared_out(families: dict[str, list[Poison]], rounds: int, chance: Random) -> dict[str, list[Poison]]:
    """`rounds` of them, the same number of each family as long as it has so many; 0: all. In their order."""
    left, found = rounds, {}
    for number, (family, each) in enumerate(sorted(families.items(), key=lambda item: len(item[1]))):
        share = min(len(each), left // (len(families) - number)) if rounds else len(each)
        found[family] = [each[index] for index in sorted(chance.sample(range(len(each)), share))]
        left -= share
    return {family: found[family] for family in families}


def run(stage: Stage, rounds: int, only: Sequence[str]) -> None:
    """Znodes and brokers with a fail-over every few; a fail-over and a broker's restart at the end."""
    kazoo = KazooClient(stage.cluster.zookeeper_connect)
    kazoo.start(10)
    stage.cluster.laboratory.on_close.callback(lambda: (kazoo.stop(), kazoo.close()))
    gardener = Gardener(kazoo, OURS)
    families = poisons(stage, gardener, only)
    for family, chosen in shared_out(families, rounds, stage.chance).items():
        for number, poison in enumerate(chosen, 1):
            if not stage.play(poison):
                return
            if family in ("znodes", "brokers") and number % ZNODES_PER_FAIL_OVER == 0 and not stage.fail_over(family):
                return
    if stage.fail_over("fail-over"):
        gardener.weed()
        stage.restart_a_broker()


# --- the report -------------------------------------------------------------------------------------------


def line(each: Seen) -> str:
    verdict = "; ".join(each.wrong) or "right"
    return f"| {each.family} | {each.what} | {each.answer} | {each.served_s:.2f} | {verdict} |".replace("\n", " ")


def summary(seen: Sequence[Seen]) -> str:
    """By family: how many, the slowest change, how many were wrong."""
    lines = ["| family | poisons | slowest change, s | wrong |", "| --- | --- | --- | --- |"]
    for family in dict.fromkeys(each.family for each in seen):
        of_it = [each for each in seen if each.family == family]
        slowest, wrong = max(each.served_s for each in of_it), sum(bool(each.wrong) for each in of_it)
        lines.append(f"| {family} | {len(of_it)} | {slowest:.2f} | {wrong} |")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.adversarial.poison", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--seed", type=int, default=None, help="decides values and choice; default: the time")
    parser.add_argument("--rounds", type=int, default=120, help="how many poisons; 0: all of them")
    parser.add_argument("--only", nargs="+", choices=FAMILIES, default=FAMILIES, help="families; default: all")
    parser.add_argument("--report", type=Path, default=None, help="what was seen, as JSON")
    chosen = parser.parse_args(arguments)
    seed = int(time.time()) if chosen.seed is None else chosen.seed
    directory = Path(tempfile.mkdtemp(prefix="zk2kraft-poison-"))

    def say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    with (
        Laboratory(directory, prepared(), say=lambda _: None) as laboratory,
        three_controllers(laboratory, CONTROLLERS, BROKERS) as (cluster, ours),
    ):
        start(ours)
        wait_ruling(ours, RULES_S)
        stage = Stage(cluster, ours, Random(seed), say)
        stage.look("before", "nothing", "")
        run(stage, chosen.rounds, chosen.only)
    if chosen.report:
        chosen.report.write_text(json.dumps([asdict(each) for each in stage.seen], indent=1))
    print(f"seed {seed}", summary(stage.seen), sep="\n\n")
    wrong = [each for each in stage.seen if each.wrong]
    if wrong or stage.seen[-1].family not in ("restart",):
        print(f"\nPOISONED  seed {seed}, kept in {directory}", *map(line, wrong), sep="\n")
        return 1
    shutil.rmtree(directory)
    return 0


if __name__ == "__main__":
    sys.exit(main())
