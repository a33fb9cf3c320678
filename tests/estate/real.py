"""The laboratory's cluster on hosts with ssh: real brokers and controllers, clients, the whole service, lost links.

    python -m tests.estate.real [--seeds 3] [--first 0]

In:   a seed: the story (to COMPLETED, back from the middle of the brokers, back from SOAK), what happens to links and
      when, where the service is killed. Out: exit code 0 when each run ended as its story says and nothing was lost.
Elsewhere: hosts that are only counted (world.py), links (links.py), the road and its proof (tests/e2e/road_stage.py).
Rules: every file is read and written by `docker/actuators/ssh-systemd.yaml`, word for word. Processes start and stop
by a `systemctl` that tells the laboratory. The operator has `advance`, `approve`, `rollback` and `resume`.
"""

from __future__ import annotations

import argparse
import logging
import os
import random
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Final

from migrator.findings.finding import FindingError
from migrator.findings.road import NODE_NOT_AS_JOURNAL
from migrator.lab import fleetctl
from migrator.lab.fleet import TEMPLATE, LabFleet
from migrator.lab.servers.laboratory import Laboratory
from tests.adversarial.kept import PASSED, outcome_of
from tests.adversarial.stories_back import BACK_S, assert_rolled_back, why_not_begun
from tests.e2e.road_kills import Kill, Victim
from tests.e2e.road_stage import RoadStage, assert_completed
from tests.estate.hosts import FILES, SSHD_CONFIG, Host
from tests.estate.links import Cut, Links
from tests.estate.namespaces import INSIDE, OWN, SSHD, is_inside, settle_in, why_not
from tests.estate.world import CONFIGURED_IN, LOGIN, SHIPPED, SSH_CONFIG

HOME: Final = Path("/tmp/zk2kraft-estate")
"""In this mount namespace, a disk in memory of its own."""
OWN_FILES: Final = Path(__file__).parent / "real_host"
UNIT: Final = "kafka.service"
BROKERS: Final = (0, 1, 2)
CONTROLLERS: Final = (3000, 3001, 3002)
PAUSE_S: Final = (3.0, 9.0)
"""Between two things that happen to links."""
AWAY_S: Final = (5.0, 25.0)
BYTES_MAX: Final = 9_000
"""A login takes about 5,000, a file 3,000."""
LEAST_FAULTS: Final = 5
"""In a run that is to say something."""
PATIENCE_S: Final = 6.0
RUN_S: Final = 2_400.0


class RealHost(Host):
    """An address with an sshd, keys and a tree of its own, in the network of the laboratory."""

    def build(self) -> None:
        for each in ("bin", "ssh", "volatile", "log"):
            (self.tree / each).mkdir(parents=True)
        shutil.copy(FILES / "sudo", self.tree / "bin" / "sudo")
        shutil.copy(OWN_FILES / "systemctl", self.tree / "bin" / "systemctl")
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.tree / "ssh" / "host_key")], check=True
        )
        config = SSHD_CONFIG.format(address=self.address, tree=self.tree, home=self.home)
        (self.tree / "ssh" / "sshd_config").write_text(config)
        words = [SSHD, "-D", "-e", "-f", str(self.tree / "ssh" / "sshd_config")]
        with (self.tree / "log" / "sshd").open("ab") as said:
            self.init = subprocess.Popen(words, stderr=said)

    def link(self, up: bool) -> None:
        self.linked = up

    def told_by(self, fleet: Path, node: int) -> None:
        """fleet: the laboratory's socket."""
        words = f"{sys.executable} -I -S {fleetctl.__file__} {fleet}"
        (self.tree / "fleet").write_text(f'tell() {{ {words} "$1" {node}; }}\n')


class Estate:
    """Six hosts, the ways to them, and what happens to these. From `begin` to `calm`, on a thread of its own."""

    def __init__(self, home: Path, seed: int) -> None:
        self.home = home
        nodes = enumerate((*BROKERS, *CONTROLLERS), 1)
        self.hosts = {node: RealHost(f"host{number}", number, number % 2, home) for number, node in nodes}
        self.happened: Counter[str] = Counter()
        self._chance = random.Random(seed)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._blow, name="links-fail", daemon=True)

    def build(self) -> None:
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.home / "user_key")], check=True)
        for network in ("10.98.0.1/16", "10.99.0.1/16"):
            subprocess.run(["ip", "addr", "add", network, "dev", "lo"], check=True)
        Path("/run/sshd").mkdir(exist_ok=True)
        passwd = self.home / "passwd"
        others = [each for each in Path("/etc/passwd").read_text().splitlines() if not each.startswith("root:")]
        passwd.write_text("\n".join([f"root:x:0:0:root:{self.home}:/bin/sh", *others]) + "\n")
        (self.home / "ssh_config").write_text(SSH_CONFIG.format(home=self.home))
        for own, place in ((passwd, "/etc/passwd"), (self.home / "ssh_config", CONFIGURED_IN)):
            subprocess.run(["mount", "--bind", str(own), place], check=True)
        os.environ["RUNTIME_DIRECTORY"] = str(self.home)  # where the sockets of shared connections are
        for host in self.hosts.values():
            host.build()
        self.links = Links(tuple(self.hosts.values()))
        self._know()

    def _know(self, foreign: Host | None = None) -> None:
        """foreign: a host whose key is not the one that is known."""
        keys = {each.name: each.public_key for each in self.hosts.values()}
        if foreign is not None:
            keys[foreign.name] = next(key for name, key in keys.items() if name != foreign.name)
        lines = [f"{self.links.by_name[each.name].address} {keys[each.name]}\n" for each in self.hosts.values()]
        new = self.home / "known_hosts.new"
        new.write_text("".join(lines))
        new.replace(self.home / "known_hosts")

    def begin(self) -> None:
        self._thread.start()

    def calm(self) -> None:
        """Nothing happens any more, and every host can be reached."""
        self._over.set()
        self._thread.join()

    def _blow(self) -> None:
        ends = time.monotonic() + RUN_S
        while not self._over.wait(self._chance.uniform(*PAUSE_S)) and time.monotonic() < ends:
            host = self._chance.choice(list(self.hosts.values()))
            name, happens = self._chance.choice(self._kinds())
            happens(host)
            self.happened[name] += 1

    def _kinds(self) -> list[tuple[str, Callable[[Host], None]]]:
        return [
            ("dropped", self.links.drop),
            ("cut", lambda host: self._cut(host, Cut(self._chance.random() < 0.5, self._bytes()))),
            ("hangs", lambda host: self._cut(host, Cut(True, self._bytes(), resets=False, hangs=True))),
            ("refused", lambda host: self._cut(host, Cut(True, 0, refuses=True))),
            ("link down", self._away),
            ("foreign key", self._foreign),
        ]

    def _bytes(self) -> int:
        return self._chance.randint(1, BYTES_MAX)

    def _cut(self, host: Host, cut: Cut) -> None:
        """The shared connection is lost, and the next one is cut."""
        self.links.by_name[host.name].cut = cut
        self.links.drop(host)

    def _away(self, host: Host) -> None:
        host.link(False)
        self.links.drop(host)
        self._over.wait(self._chance.uniform(*AWAY_S))
        host.link(True)

    def _foreign(self, host: Host) -> None:
        self._know(host)
        self.links.drop(host)
        self._over.wait(self._chance.uniform(*AWAY_S))
        self._know()


class SshFleet(LabFleet):
    """The laboratory's processes, on hosts that are reached as the shipped template says."""

    estate: ClassVar[Estate]
    """One to a process."""

    def write(self, name: str) -> Path:
        directory = super().write(name)
        (directory / "templates" / TEMPLATE).write_bytes(SHIPPED.read_bytes())
        return directory

    def serve(self) -> None:
        super().serve()
        for node, host in self.estate.hosts.items():
            host.told_by(self._socket_path, node)

    def _inventory(self, name: str) -> dict[str, object]:
        found = super()._inventory(name)
        return {
            **found,
            "actuator": {"kind": "exec", "template": TEMPLATE, "settings": {"login": LOGIN}},
            **{part: self._on_hosts(found[part]) for part in ("brokers", "controllers")},
        }

    def _on_hosts(self, nodes: object) -> list[dict[str, object]]:
        assert isinstance(nodes, list)
        links = {node: self.estate.links.by_name[host.name] for node, host in self.estate.hosts.items()}
        return [{**each, "host": links[each["id"]].address, "unit": UNIT} for each in nodes]


class SshStage(RoadStage):
    """Whoever needs a person gets one, as the documentation says of a host that could not be reached."""

    fleet_of = SshFleet

    def __init__(self, laboratory: Laboratory, kills: tuple[Kill, ...], estate: Estate) -> None:
        super().__init__(laboratory, kills)
        self.estate = SshFleet.estate = estate
        self.found: dict[int, bytes] = {}
        """The brokers' files in dual-write."""
        self.resumed: list[str] = []
        self._pressed_at = 0.0

    def _follow_runbook(self, view: Mapping[str, Any]) -> None:
        super()._follow_runbook(view)
        rows = (view.get("road") or {}).get("nodes", ())
        needs = [f"{row['node_id']}: {row['detail']}" for row in rows if row["step"] == "FAILED"]
        needs += [each["text"] for each in view["findings"] if each["code"] == NODE_NOT_AS_JOURNAL.code]
        if not needs or time.monotonic() - self._pressed_at < PATIENCE_S:
            return
        self._pressed_at = time.monotonic()
        try:
            self.service.operation(self.migration, "resume")
        except FindingError as error:
            needs.append(f"resume was refused: {error}")
        self.resumed.append("; ".join(needs))
        print(f"resumed: {self.resumed[-1]}", flush=True)


def kills_of(chance: random.Random) -> tuple[Kill, ...]:
    """The service dies twice in the first roll, around what it does to a broker."""
    one, other = chance.sample(BROKERS, 2)
    return tuple(
        Kill(chance.choice(("stop", "start")), node, chance.choice(("at", "after")), 1, Victim.SERVICE)
        for node in (one, other)
    )


def to_completed(stage: SshStage) -> None:
    stage.to_the_end()
    stage.estate.calm()
    assert_completed(stage)
    stage.assert_proven()


def back_from_the_middle(stage: SshStage) -> None:
    stage.advance("ROLLING_BROKERS")
    stage.wait_view(lambda view: view["waiting"] if stage.kills.left else None)
    _back(stage)


def back_from_soak(stage: SshStage) -> None:
    stage.advance("ROLLING_BROKERS")
    stage.advance("REPLACING_CONTROLLERS")
    stage.wait_view(lambda view: None if view["phase"] == "SOAK" else f"{view['phase']}: {view['waiting']}")
    _back(stage)


def _back(stage: SshStage) -> None:
    stage.wait_view(lambda view: why_not_begun(stage, view))
    view = stage.wait_view(
        lambda view: None if view["phase"] == "ROLLED_BACK" else f"{view['phase']}: {view['waiting']}", BACK_S
    )
    stage.estate.calm()
    assert_rolled_back(stage, view, stage.found)


STORIES: Final = (to_completed, back_from_the_middle, back_from_soak)


def play(laboratory: Laboratory, estate: Estate, seed: int) -> None:
    """One run. Raises AssertionError, or the finding that stopped it."""
    story = STORIES[seed % len(STORIES)]
    stage = SshStage(laboratory, kills_of(random.Random(seed)), estate)
    stage.to_dual_write()
    stage.found = {each.broker_id: each.properties_file.read_bytes() for each in stage.cluster.brokers}
    began = time.monotonic()
    estate.begin()
    try:
        story(stage)
    finally:
        estate.calm()
    stage.assert_one_at_a_time()
    assert estate.happened.total() >= LEAST_FAULTS, f"only {dict(estate.happened)} happened"
    left = [str(each) for each in laboratory.directory.rglob("*.zk2kraft-new*")]
    assert not left, f"half-written files were left: {left}"
    phase, found = stage.wait_view(lambda _: None)["phase"], stage.traffic.status
    print(
        f"seed {seed}: {story.__name__}: {phase} {time.monotonic() - began:.0f} s after dual-write; links:"
        f" {dict(sorted(estate.happened.items()))}; killed: {stage.kills.happened}; a person resumed"
        f" {len(stage.resumed)} times; {found.acknowledged} records acknowledged, {found.lost} lost",
        flush=True,
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.estate.real", description="Real brokers behind real ssh.")
    parser.add_argument("--seeds", type=int, default=len(STORIES))
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    if is_inside():
        return _inside(options.first)
    reason = why_not()
    if reason:
        print(f"no estate here: {reason}")
        return 3
    failed = []
    for seed in range(options.first, options.first + options.seeds):
        words = [*OWN, sys.executable, "-m", "tests.estate.real", "--first", str(seed)]
        if subprocess.run(words, env={**os.environ, INSIDE: "1"}, check=False).returncode != 0:
            failed.append(seed)
    print(f"{options.seeds} runs; failed: {len(failed)} {failed}")
    return 1 if failed else 0


def _inside(seed: int) -> int:
    settle_in()
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # what a lost link did not end
    HOME.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(HOME)], check=True)
    estate = Estate(HOME, seed)
    estate.build()
    outcome = outcome_of("estate", lambda laboratory: play(laboratory, estate, seed))
    print(f"seed {seed}: {outcome}", flush=True)
    return 0 if outcome == PASSED else 1


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)
