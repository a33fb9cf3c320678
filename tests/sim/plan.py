"""What a seed means: the quorum, its settings, its weather, and everything that will be done to it.

All chance of a run comes from the plan's seed. A plan is a value and has a text form, so that a shrunk failure can be
kept as a file and read by a person.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from enum import StrEnum

from migrator.raft.roles import QuorumSettings

STORM_EVENTS = 2_000
"""A storm lasts until the cores have received so many events."""

STORM_MS_MAX = 3_600_000
"""And not longer than this virtual time, whatever happens in it."""


@dataclass(frozen=True)
class Weather:
    """What the network and the disks do to everybody, all the time."""

    drop: float = 0.0
    duplicate: float = 0.0
    delay_ms: tuple[int, int] = (1, 10)
    disk_ms: tuple[int, int] = (0, 2)
    torn: float = 0.5
    skew: float = 0.0
    """Clocks run up to this much too fast or too slow."""

    def text(self) -> str:
        return (
            f"weather drop {self.drop} duplicate {self.duplicate} torn {self.torn} skew {self.skew} "
            f"delay {self.delay_ms[0]} {self.delay_ms[1]} disk {self.disk_ms[0]} {self.disk_ms[1]}"
        )


@dataclass(frozen=True)
class Action:
    """Something done at a virtual time to some nodes. `span_ms`: how long it lasts."""

    at_ms: int
    kind: str
    nodes: tuple[int, ...]
    span_ms: int = 0
    detail: str = ""

    def __str__(self) -> str:
        nodes = ",".join(map(str, self.nodes))
        return f"at {self.at_ms} {self.kind} {nodes or '-'} for {self.span_ms} {self.detail or '-'}"


@dataclass(frozen=True)
class Plan:
    seed: int
    voters: int
    observers: int
    settings: QuorumSettings
    weather: Weather
    clients: int
    think_ms: int
    actions: tuple[Action, ...] = field(repr=False, default=())
    storm_events: int = STORM_EVENTS
    old_voters: tuple[int, ...] = ()
    """Voters as of Kafka 3.9 in this: they cannot be asked for a pre-vote, and do not ask."""

    @property
    def voter_ids(self) -> tuple[int, ...]:
        return tuple(range(1, self.voters + 1))

    @property
    def node_ids(self) -> tuple[int, ...]:
        return tuple(range(1, self.voters + self.observers + 1))

    def settings_of(self, node: int) -> QuorumSettings:
        return replace(self.settings, pre_vote=False) if node in self.old_voters else self.settings

    def text(self) -> str:
        """The plan as a scenario file; `from_text` reads it back."""
        lines = [
            f"seed {self.seed}",
            f"storm-events {self.storm_events}",
            f"voters {self.voters}",
            f"observers {self.observers}",
            f"clients {self.clients} {self.think_ms}",
            *([f"old-voters {','.join(map(str, self.old_voters))}"] if self.old_voters else []),
            *(f"{name} {int(getattr(self.settings, name))}" for name in SETTINGS),
            self.weather.text(),
            *map(str, self.actions),
        ]
        return "\n".join(lines) + "\n"


SETTINGS = (
    "election_timeout_ms",
    "fetch_timeout_ms",
    "election_backoff_max_ms",
    "request_timeout_ms",
    "fetch_wait_ms",
    "append_linger_ms",
    "pre_vote",
    "snapshot_part_bytes",
    "snapshot_after_bytes",
    "snapshot_after_ms",
    "retention_bytes",
    "retention_ms",
)


def from_text(text: str) -> Plan:
    """Read what `Plan.text` wrote; lines that begin with # are comments."""
    values: dict[str, list[str]] = {}
    actions: list[Action] = []
    for line in text.splitlines():
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if words[0] == "at":
            nodes = () if words[3] == "-" else tuple(map(int, words[3].split(",")))
            detail = "" if words[6] == "-" else words[6]
            actions.append(Action(int(words[1]), words[2], nodes, int(words[5]), detail))
        else:
            values[words[0]] = words[1:]
    sky = values["weather"]
    weather = Weather(
        drop=float(sky[1]),
        duplicate=float(sky[3]),
        torn=float(sky[5]),
        skew=float(sky[7]),
        delay_ms=(int(sky[9]), int(sky[10])),
        disk_ms=(int(sky[12]), int(sky[13])),
    )
    return Plan(
        seed=int(values["seed"][0]),
        voters=int(values["voters"][0]),
        observers=int(values["observers"][0]),
        settings=_settings_of({name: int(values[name][0]) for name in SETTINGS}),
        weather=weather,
        clients=int(values["clients"][0]),
        think_ms=int(values["clients"][1]),
        actions=tuple(actions),
        storm_events=int(values["storm-events"][0]),
        old_voters=tuple(map(int, values["old-voters"][0].split(","))) if "old-voters" in values else (),
    )


def _settings_of(numbers: dict[str, int]) -> QuorumSettings:
    pre_vote = bool(numbers.pop("pre_vote"))
    return QuorumSettings(**numbers, pre_vote=pre_vote, linger_bytes_max=200)


# --- from a seed ------------------------------------------------------------------------------------------

CRASH_POINTS = (
    "Persist", "Lead", "Append", "AppendReplicated", "Truncate", "InstallSnapshot", "InstallSnapshot", "Flush",
    "AnswerVote", "TrimLog", "SendVote", "SendFetch",
)  # fmt: skip
"""Effects around which a crash is most telling."""

HALVES = ("Persist", "Truncate", "InstallSnapshot")
"""Those that can be under way when the power goes."""


def plan_for(seed: int) -> Plan:
    """Each seed draws its own mixture: some runs are all crashes, some all network, most a bit of everything."""
    rng = random.Random(seed)
    voters = rng.choice((1, 2, 3, 3, 3, 3, 3, 4, 5, 5, 5))
    observers = rng.choice((0, 1, 1, 2))
    settings = _settings(rng)
    if rng.random() < 0.2:  # a log that is trimmed all the time, so that who falls behind needs a snapshot
        settings = replace(settings, snapshot_after_bytes=500, retention_bytes=0)
    plan = Plan(
        seed=seed,
        voters=voters,
        observers=observers,
        settings=settings,
        weather=_weather(rng),
        clients=rng.randint(1, 4),
        think_ms=rng.choice((10, 40, 150)),
    )
    return replace(plan, actions=tuple(_actions(rng, plan)))


class PreVotes(StrEnum):
    """Who of the voters asks first. What else a seed means is the same in all of them."""

    DRAWN = "drawn"
    """All or nobody, as the seed says."""
    ALL = "all"
    SOME = "some"
    """A quorum mixed with voters of 3.9, at least one of each kind."""


def plan_with(seed: int, pre_votes: PreVotes) -> Plan:
    plan = plan_for(seed)
    if pre_votes is PreVotes.DRAWN:
        return plan
    old: tuple[int, ...] = ()
    if pre_votes is PreVotes.SOME and plan.voters > 1:
        rng = random.Random(f"old voters of {seed}")
        old = tuple(sorted(rng.sample(plan.voter_ids, rng.randrange(1, plan.voters))))
    return replace(plan, settings=replace(plan.settings, pre_vote=True), old_voters=old)


def pre_votes_of(plan: Plan) -> PreVotes:
    """With which word its seed gives this plan again."""
    if plan.old_voters:
        return PreVotes.SOME
    return PreVotes.DRAWN if plan.settings.pre_vote == plan_for(plan.seed).settings.pre_vote else PreVotes.ALL


def _settings(rng: random.Random) -> QuorumSettings:
    election_ms = rng.choice((80, 150, 150, 300, 1_000))
    return QuorumSettings(
        election_timeout_ms=election_ms,
        fetch_timeout_ms=2 * election_ms,
        election_backoff_max_ms=election_ms,
        request_timeout_ms=rng.choice((election_ms, 2 * election_ms)),
        retry_backoff_ms=20,
        pre_vote=rng.random() < 0.7,
        fetch_wait_ms=rng.choice((election_ms // 8, election_ms // 4, election_ms // 2)),
        append_linger_ms=rng.choice((0, 0, 5, 25)),
        linger_bytes_max=200,
        snapshot_part_bytes=rng.choice((40, 100, 10_000)),
        snapshot_after_bytes=rng.choice((500, 1_500, 4_000, 10**9)),
        snapshot_after_ms=rng.choice((2_000, 20_000, 10**9)),
        retention_bytes=rng.choice((0, 1_000, 5_000)),
        retention_ms=rng.choice((3_000, 10**9)),
    )


def _weather(rng: random.Random) -> Weather:
    return Weather(
        drop=rng.choice((0.0, 0.0, 0.02, 0.1, 0.25)),
        duplicate=rng.choice((0.0, 0.02, 0.1)),
        delay_ms=rng.choice(((1, 4), (1, 20), (2, 60), (1, 150))),
        disk_ms=rng.choice(((0, 1), (0, 5), (0, 40))),
        torn=rng.choice((0.2, 0.8)),
        skew=rng.choice((0.0, 0.02, 0.2)),
    )


def _actions(rng: random.Random, plan: Plan) -> list[Action]:
    kinds = [
        "kill", "power-cut", "crash-at", "power-cut-all", "power-cut-leader", "partition", "one-way", "isolate",
        "pause", "slow-disk", "stop", "resign",
    ]  # fmt: skip
    weights = [rng.choice((0, 1, 1, 4)) for _ in kinds]
    if not any(weights):
        weights = [1] * len(kinds)
    focus = rng.choice(CRASH_POINTS) if rng.random() < 0.3 else None
    if plan.settings.retention_bytes == 0 and rng.random() < 0.4:
        focus = "InstallSnapshot"
    if focus is not None:
        weights[kinds.index("crash-at")] = 6
    gap_ms = rng.choice((150, 400, 1_000)) * plan.settings.election_timeout_ms // 150
    actions: list[Action] = []
    at_ms = rng.randint(0, 1_000)
    while at_ms < 60_000 and len(actions) < 150:
        kind = rng.choices(kinds, weights)[0]
        actions.append(_action(rng, plan, at_ms, kind, focus))
        at_ms += rng.randint(1, 2 * gap_ms)
    return actions


def _action(rng: random.Random, plan: Plan, at_ms: int, kind: str, focus: str | None) -> Action:
    unit = plan.settings.election_timeout_ms
    node = rng.choice(plan.node_ids if rng.random() < 0.3 else plan.voter_ids)
    other = rng.choice(plan.voter_ids)
    span_ms = rng.randint(1, rng.choice((1, 5, 12)) * unit)
    match kind:
        case "partition":
            side = tuple(each for each in plan.node_ids if rng.random() < 0.5)
            return Action(at_ms, kind, side, span_ms)
        case "one-way":
            return Action(at_ms, kind, (node, other), span_ms)
        case "crash-at":
            point = focus or rng.choice(CRASH_POINTS)
            point += rng.choice((":before", ":after", ":half" if point in HALVES else ":after"))
            return Action(at_ms, kind, (node,), span_ms, point)
        case "slow-disk":
            return Action(at_ms, kind, (node,), span_ms, rng.choice(("20", "20", "200")))
        case "power-cut-leader":
            return Action(at_ms, kind, (), span_ms)
        case "power-cut-all":
            return Action(at_ms, kind, plan.voter_ids, span_ms)
        case _:
            return Action(at_ms, kind, (node,), span_ms)
