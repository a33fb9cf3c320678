"""A quorum of both kinds, a controller of Kafka's and two of ours, whose leaders leave in turn."""

from __future__ import annotations

from typing import NamedTuple

from migrator.findings.finding import FindingError
from migrator.lab.ours import OurController
from migrator.lab.servers.controller import StockController, quorum_specs
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.properties import Value
from migrator.lab.servers.tools import random_cluster_id
from tests.e2e.support import wait_for

TURNS_MAX = 20
"""A slow voter is overtaken in some of them."""


class TwoKinds(NamedTuple):
    """Three voters: one of Kafka's, two of ours."""

    stock: StockController
    ours: list[OurController]

    def start(self) -> None:
        self.stock.start()
        for each in self.ours:
            each.launch()
        self.stock.wait_ready()
        for each in self.ours:
            each.wait_ready()

    def leader(self) -> int:
        """Whom all of ours that run name; -1 while they disagree."""
        try:
            seen = [each.status() for each in self.ours if each.is_running]
        except (OSError, ValueError, FindingError):
            return -1
        leaders = {each["quorum"]["leader"] for each in seen}
        return int(leaders.pop()) if len(leaders) == 1 else -1

    def wait_leader(self, other_than: int = -1) -> int:
        found: list[int] = []

        def why_not() -> str | None:
            found.append(self.leader())
            return None if found[-1] not in (-1, other_than) else f"the leader is {found[-1]}"

        wait_for(why_not, "a leader is elected")
        return found[-1]

    def lead_in_turn(self) -> None:
        """Until both kinds have led, and what they wrote is committed. The lowest id succeeds who leaves."""
        voters: tuple[StockController | OurController, ...] = (self.stock, *self.ours)
        led: set[int] = set()
        leader = self.wait_leader()
        for _ in range(TURNS_MAX):
            led.add(leader)
            if self.stock.spec.node_id in led and len(led) > 1:
                break
            leaving = next(each for each in voters if each.spec.node_id == leader)
            leaving.stop()
            leader = self.wait_leader(other_than=leader)
            leaving.start()
            leaving.wait_ready()
        assert self.stock.spec.node_id in led, "the stock controller never led"
        assert len(led) > 1, "ours never led"
        self._wait_committed()

    def _wait_committed(self) -> None:
        end = max(each.status()["quorum"]["log_end"] for each in self.ours)

        def why_not() -> str | None:
            behind = [each.name for each in self.ours if each.status()["quorum"]["high_watermark"] < end]
            return f"{behind} do not know that everything before {end} is committed" if behind else None

        wait_for(why_not, "all that was written is committed everywhere")


def two_kinds(laboratory: Laboratory, extra: dict[str, Value] | None = None) -> TwoKinds:
    """A plain KRaft quorum, not started."""
    cluster_id = random_cluster_id()
    first, *rest = quorum_specs(laboratory, count=3, zookeeper_connect="", migrating=False, extra=extra)
    ours = [OurController(laboratory, spec, cluster_id) for spec in rest]
    return TwoKinds(StockController(laboratory, first, cluster_id), ours)
