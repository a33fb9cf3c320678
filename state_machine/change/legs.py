"""The whole way as legs: from the release that runs now, through the migration, to the last release and its features.

In:   an inventory, releases of nodes, how long one restart takes. Out: `Leg`s in their order, or a refusal.
Elsewhere: each restart of the migration (plan.py), how long one takes (durations.py), the command
(api/commands/plan.py), the change report (report.py).
Errors: Z2K-7070.
Rules: a broker below 3.6.2 gets new software before the migration, and its inter.broker.protocol.version afterwards.
One whose release is not known is counted with them. From 3.9 every later release is reached in one step. What the
service does not do itself has no phase.
Source: Kafka's upgrade notes of 3.9 and 4.0; docs/later-kafka.md; docs/support.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from migrator.findings.fleet import RELEASE_NOT_PLANNED
from migrator.fleet.inventory import Inventory, Window
from migrator.model.features.raises import Raise, moved_by
from migrator.model.levels import TRANSACTIONS, level_name, level_of_release
from state_machine.change.document import Leg
from state_machine.change.durations import ELECTION_S, TAKEOVER_S
from state_machine.change.facts import ChangeLimits
from state_machine.policy.fleet_evidence import BROKERS, CONTROLLERS
from state_machine.policy.phase_table import PHASES, WAY_FORWARD
from state_machine.policy.phases import Phase

THROUGH: Final = "3.9.2"
"""The release that migrates: brokers and stock controllers have it until COMPLETED."""
LAST: Final = "4.4.0"
MIGRATES_FROM: Final = (3, 6, 2)
WITHOUT_ZOOKEEPER: Final = (4, 0, 0)
ONE: Final = "one person"
TWO: Final = "one person requests it, another approves it"
UNTIL_RAISE: Final = "the former software, until the raise"
DAY_S: Final = 86_400

TimeOfOne = Callable[[str], tuple[float, float]]
"""Shortest and longest restart of one node of a role, in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estate:
    """What a way is planned for. releases: of brokers, by id; one that is not named is not known.

    time_of_one: by role. through: the release that migrates. last: the one at the end.
    """

    inventory: Inventory
    releases: Mapping[int, str]
    time_of_one: TimeOfOne
    limits: ChangeLimits = field(default_factory=ChangeLimits)
    through: str = THROUGH
    last: str = LAST


def named_releases(inventory: Inventory) -> dict[int, str]:
    """Return what the inventory says of brokers, by id."""
    said = {each.id: each.kafka or inventory.kafka for each in inventory.brokers}
    return {node: release for node, release in said.items() if release}


def numbers(release: str) -> tuple[int, ...]:
    """ "3.9" is (3, 9, 0). Raises Z2K-7070 for what is no release."""
    parts = release.split(".")
    if not 2 <= len(parts) <= 3 or not all(each.isdecimal() for each in parts):
        raise RELEASE_NOT_PLANNED.error(release=release, reason="a release has two or three numbers, such as 3.9.2")
    return tuple(map(int, (*parts, "0")[:3]))


def features_at_end(estate: Estate) -> tuple[Raise, ...]:
    """The decisions of the last release; none where it is the one that migrates."""
    return () if numbers(estate.last) < WITHOUT_ZOOKEEPER else moved_by(estate.last)


def legs_of(estate: Estate) -> tuple[Leg, ...]:
    """Numbered from 1. Raises Z2K-7070 for a release to or from which no way leads."""
    _require_planned(estate)
    found = [*_before(estate), *_migration(estate), *_after(estate)]
    return tuple(replace(leg, number=number) for number, leg in enumerate(found, 1))


def with_states(legs: tuple[Leg, ...], phase: Phase) -> tuple[Leg, ...]:
    """Where a migration is on them. What is done by the operator's own means is over once its next leg has begun."""
    if not PHASES[phase].forward:
        return legs
    here = WAY_FORWARD.index(phase)
    first = next(at for at, each in enumerate(legs) if each.phase)

    def state(at: int, leg: Leg) -> Leg:
        if leg.phase:
            place = WAY_FORWARD.index(Phase(leg.phase))
            last = max(WAY_FORWARD.index(Phase.AUDIT), place) if leg.phase == Phase.TAKEOVER else place
            return replace(leg, state="now" if place <= here <= last else "done" if last < here else "ahead")
        return replace(leg, state="done" if at < first and not PHASES[phase].before_takeover else "ahead")

    return tuple(state(at, leg) for at, leg in enumerate(legs))


# --- legs ---------------------------------------------------------------------------------------------------


def _require_planned(estate: Estate) -> None:
    through, last = numbers(estate.through), numbers(estate.last)
    if not MIGRATES_FROM <= through < WITHOUT_ZOOKEEPER:
        raise RELEASE_NOT_PLANNED.error(release=estate.through, reason="a migration needs Kafka 3.6.2 to 3.9")
    if last < through:
        reason = f"the way ends at {estate.through} or later"
        raise RELEASE_NOT_PLANNED.error(release=estate.last, reason=reason)
    if last >= WITHOUT_ZOOKEEPER:
        try:
            moved_by(estate.last)
        except ValueError as error:
            raise RELEASE_NOT_PLANNED.error(release=estate.last, reason=str(error)) from error
    for node, release in sorted(estate.releases.items()):
        if numbers(release) >= WITHOUT_ZOOKEEPER:
            reason = f"broker {node} would run without ZooKeeper already"
            raise RELEASE_NOT_PLANNED.error(release=release, reason=reason)


def _before(estate: Estate) -> Iterator[Leg]:
    """In ZooKeeper mode."""
    inventory = estate.inventory
    old = [node for node, release in estate.releases.items() if numbers(release) < MIGRATES_FROM]
    unknown = [each.id for each in inventory.brokers if each.id not in estate.releases]
    said = [f"{len(old)} brokers run a release before 3.6.2"] if old else []
    said += [f"the release of {len(unknown)} brokers is not known"] if unknown else []
    level = inventory.cluster.quorum.metadata_version
    if old or unknown:
        yield _leg(
            estate,
            f"brokers to Kafka {estate.through}, software alone",
            BROKERS,
            len(old) + len(unknown),
            undo="the former software, until the next leg",
            because="; ".join(said),
        )
    if old or unknown or (level and level_of_release(level) < TRANSACTIONS):
        yield _leg(
            estate,
            f"inter.broker.protocol.version to {'.'.join(estate.through.split('.')[:2])}",
            BROKERS,
            len(inventory.brokers),
            irreversible="from the first broker that restarts with it, no broker goes back to the former release",
            because="a migration needs 3.6 or later; "
            + ("software comes first" if old or unknown else f"it is {level}"),
        )


def _migration(estate: Estate) -> Iterator[Leg]:
    """What the service does."""
    brokers, controllers = len(estate.inventory.brokers), len(estate.inventory.controllers)
    rollback = "zk2kraft rollback"
    yield _leg(estate, "brokers join: migration settings", BROKERS, brokers, Phase.BROKERS_JOINING, undo=rollback)
    yield replace(
        _leg(
            estate,
            "takeover to dual-write, without controller",
            "",
            0,
            Phase.TAKEOVER,
            undo="zk2kraft abort, from its commit on rollback",
        ),
        low_s=TAKEOVER_S[0],
        high_s=TAKEOVER_S[1],
        windows=_windows(estate, 1, *TAKEOVER_S),
    )
    batches = brokers
    if estate.inventory.at_once == "rack":
        batches = len({each.rack or str(each.id) for each in estate.inventory.brokers})
    yield _leg(
        estate,
        "brokers into KRaft mode" + (f", {batches} racks" if batches != brokers else ""),
        BROKERS,
        brokers,
        Phase.ROLLING_BROKERS,
        undo=rollback,
        batches=batches,
    )
    yield _leg(
        estate,
        "our controllers replaced by stock",
        CONTROLLERS,
        controllers,
        Phase.REPLACING_CONTROLLERS,
        undo=rollback,
    )
    soak = _leg(estate, "soak, with restarts and elections", CONTROLLERS, controllers, Phase.SOAK, undo=rollback)
    rest = estate.limits.soak_s
    yield replace(
        soak,
        low_s=max(soak.low_s, rest),
        high_s=soak.high_s + rest + ELECTION_S * controllers + estate.limits.brokers_gone_s,
    )
    yield _leg(
        estate,
        "finalize: controllers without the migration flag",
        CONTROLLERS,
        controllers,
        Phase.FINALIZING,
        irreversible="from the first controller that starts without the flag",
        decides=TWO,
    )


def _after(estate: Estate) -> Iterator[Leg]:
    """To the last release."""
    if numbers(estate.last) == numbers(estate.through):
        return
    controllers = len(estate.inventory.controllers)
    later = numbers(estate.last) >= WITHOUT_ZOOKEEPER
    back = UNTIL_RAISE if later else "the former software"
    to = f"to Kafka {estate.last}, software alone"
    yield _leg(estate, f"controllers {to}", CONTROLLERS, controllers, undo=back)
    yield _leg(estate, f"brokers {to}", BROKERS, len(estate.inventory.brokers), undo=back)
    if later:
        level = moved_by(estate.last)[0].level
        yield _leg(
            estate,
            f"metadata.version to {level_name(level)}",
            "",
            0,
            Phase.COMPLETED,
            irreversible="when the controller takes it, 3.9 cannot be put back",
            decides=TWO,
        )


def _leg(
    estate: Estate,
    what: str,
    role: str,
    restarts: int,
    phase: Phase | None = None,
    *,
    undo: str = "",
    irreversible: str = "",
    because: str = "",
    decides: str = ONE,
    batches: int | None = None,
) -> Leg:
    turns = restarts if batches is None else batches
    low, high = estate.time_of_one(role) if turns else (0.0, 0.0)
    return Leg(
        number=0,
        what=what,
        phase=phase or "",
        role=role,
        restarts=restarts,
        low_s=round(low * turns, 1),
        high_s=round(high * turns, 1),
        windows=_windows(estate, turns, low, high),
        decides=decides,
        undo=undo,
        irreversible=irreversible,
        because=because,
    )


def _windows(estate: Estate, turns: int, low: float, high: float) -> tuple[int, int] | None:
    """How many of the shortest window; a restart that began in one may end after it. None where there are none."""
    windows = estate.inventory.maintenance_windows
    if not windows or not turns:
        return None
    length = min(map(length_s, windows))
    return tuple(math.ceil(turns / max(math.ceil(length / one), 1)) for one in (low, high))  # type: ignore[return-value]


def length_s(window: Window) -> int:
    """Return how long one maintenance window is, in seconds."""
    start, end = (int(each[:2]) * 3600 + int(each[3:]) * 60 for each in (window.start, window.end))
    return (end - start) % DAY_S or DAY_S
