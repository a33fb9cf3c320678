"""The kill matrix of the way back: a kill at each point of the road, a rollback asked there, another kill in it.

`python -m tests.adversarial.road_back [--parts 4] [--seed N] [--every-victim]`. The points are those of the kill matrix
(road.py) up to FINALIZING, on one broker and one controller that the seed draws. A run has one cluster and its traffic:
for each of its points, dual-write, the point, ROLLED_BACK, a fresh quorum; then the whole road to COMPLETED.
Exit code 0 when every rollback ended in ROLLED_BACK with the brokers' own files, every run in COMPLETED, and nothing
was lost.
"""

from __future__ import annotations

import argparse
import random
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from migrator.findings.finding import FindingError
from migrator.lab.servers.laboratory import Laboratory
from tests.adversarial.road import BROKERS, CONTROLLERS, add_parts, play_parts, seed_of
from tests.adversarial.stories_back import BACK_S, assert_rolled_back, why_not_begun
from tests.e2e.road_kills import ACTS, Kill, Victim
from tests.e2e.road_stage import RoadStage, assert_completed

ROLLS: Final = {"stop": (1, 2), "write": (1,), "start": (1, 2)}
"""Of a controller: stock takes its place, the soak. Nothing leads back from its third roll, after the intent."""
PHASES: Final = (
    ("ROLLING_BROKERS", "at"),
    ("ROLLING_BROKERS", "after"),
    ("REPLACING_CONTROLLERS", "at"),
    ("REPLACING_CONTROLLERS", "after"),
    ("SOAK", "after"),
    ("FINALIZING", "at"),
)
LATEST_ACT: Final = 8
"""Of the acts of a rollback, of which there are none (from dual-write) to 27 (from SOAK)."""


@dataclass(frozen=True, slots=True)
class Back:
    """One there and back. kill: where the rollback is asked. victim: who dies in it, at its `act`-th act.

    act 0: as soon as the rollback was accepted.
    """

    kill: Kill
    victim: Victim
    act: int

    def __str__(self) -> str:
        return f"{self.kill}, then {self.victim} at act {self.act} of the way back"


def points_of(draw: random.Random, *, every_victim: bool) -> list[Back]:
    """Each point once, its victims in turn, in an order of the seed; or once for each victim."""
    broker, controller = draw.choice(BROKERS), draw.choice(CONTROLLERS)
    where: list[tuple[str, int | None, str, int]] = [(phase, None, when, 1) for phase, when in PHASES]
    for act in ACTS:
        for when in ("at", "after"):
            where.append((act, broker, when, 1))
            where += [(act, controller, when, nth) for nth in ROLLS[act]]
    draw.shuffle(where)
    victims = list(Victim)
    first = victims if every_victim else [None]
    turns = [(each, victim) for each in where for victim in first]
    in_the_way_back = [victims[number % len(victims)] for number in range(len(turns))]
    draw.shuffle(in_the_way_back)
    found = []
    for number, (((point, node, when, nth), victim), later) in enumerate(zip(turns, in_the_way_back, strict=True)):
        kill = Kill(point, node, when, nth, victim or victims[number % len(victims)])
        found.append(Back(kill, later, draw.randint(0, LATEST_ACT)))
    return found


class InTheWayBack:
    """The kill in a rollback, at one of its acts. Acts go on to the kills of the road."""

    def __init__(self, stage: RoadStage, back: Back) -> None:
        self._stage = stage
        self._back = back
        self._lock = threading.Lock()
        self._acts = 0
        self.began = False
        self.happened = ""

    def before_act(self, act: str, node: int) -> None:
        self._stage.kills.before_act(act, node)
        if self.began and act in ACTS:
            with self._lock:
                self._acts += 1
                due = self._acts == self._back.act
            if due:
                self.kill(f"before {act} of {node}", node)

    def kill(self, where: str, node: int | None) -> None:
        """On whichever thread this is; what goes wrong belongs to the troubles of the road."""
        try:
            who = self._stage.kills.kill(self._back.victim, node)
        except (AssertionError, FindingError, OSError) as error:
            self._stage.kills.troubles.append(f"{self._back}: {error!r}")
            return
        self.happened = f"{who} {where}"
        print(f"killed in the way back: {self.happened}", flush=True)


def there_and_back(stage: RoadStage, back: Back, found: Mapping[int, bytes]) -> None:
    """From dual-write, with the kills of this point armed. found: the brokers' files, which they have again then."""
    in_the_way_back = InTheWayBack(stage, back)
    stage.fleet.before_act = in_the_way_back.before_act
    stage.until_killed()
    assert stage.kills.left == [], f"never reached: {[str(each) for each in stage.kills.left]}"
    asked_in = stage.wait_view(lambda _: None)["phase"]
    began = time.monotonic()
    stage.wait_view(lambda view: why_not_begun(stage, view))
    in_the_way_back.began = True
    if back.act == 0:
        in_the_way_back.kill("as soon as it was accepted", None)

    def why_not(view: dict[str, Any]) -> str | None:
        assert " failed: " not in view["waiting"], f"it stands until a person acts: {view['waiting']}"
        return None if view["phase"] == "ROLLED_BACK" else f"{view['phase']}: {view['waiting']}"

    view = stage.wait_view(why_not, BACK_S)
    print(
        f"{back}: asked in {asked_in}, ROLLED_BACK after {time.monotonic() - began:.0f} s; killed in it:"
        f" {in_the_way_back.happened or 'nobody, it had fewer acts'}",
        flush=True,
    )
    assert_rolled_back(stage, view, found, end=False)
    stage.assert_one_at_a_time()


def run_back_and_to_the_end(laboratory: Laboratory, points: tuple[Back, ...]) -> None:
    """Raises AssertionError, or the finding that stopped it."""
    first, *others = points
    stage = RoadStage(laboratory, (first.kill,))
    stage.to_dual_write()
    found = {each.broker_id: each.properties_file.read_bytes() for each in stage.cluster.brokers}
    there_and_back(stage, first, found)
    for number, each in enumerate(others, 2):
        stage.to_dual_write_again(f"road-{number}", (each.kill,))
        there_and_back(stage, each, found)
    stage.to_dual_write_again("road-to-the-end", ())
    stage.to_the_end()
    assert_completed(stage)
    stage.assert_proven()


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.adversarial.road_back")
    parser.add_argument("--every-victim", action="store_true", help="each point once for each victim, not one in turn")
    add_parts(parser, 4)
    chosen = parser.parse_args(arguments)
    points = points_of(random.Random(seed_of(chosen)), every_victim=chosen.every_victim)
    return play_parts("road-back", points, chosen, run_back_and_to_the_end)


if __name__ == "__main__":
    sys.exit(main())
