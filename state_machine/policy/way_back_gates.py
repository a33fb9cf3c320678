"""What has to hold before brokers go back, alone or all of them, while our controllers lead.

In:   `Evidence` with its `road`. Out: a `Verdict`.
Elsewhere: conditions that several gates share (road_conditions.py), what a way back would do and cost
(state_machine/road/way_back.py), the restarts (roller.py).
Source: failure cases F-41 and F-51.
"""

from __future__ import annotations

from migrator.findings.road import (
    FILE_OF_BEFORE_LOST,
    LOSS_NOT_ACCEPTED,
)
from migrator.model.values import MigrationState
from migrator.model.verdict import Condition, Verdict
from state_machine.policy.gates import (
    Evidence,
    Holder,
    controllers_answer,
    driver_text,
    observed_at,
)
from state_machine.policy.road_conditions import (
    APPROVAL_S,
    a_broker_is_controller,
    claim_is_ours,
    fleet_is_operable,
    log_is_observed,
    road_of,
    state_is,
)
from state_machine.policy.road_observations import RoadEvidence, WayBack


def broker_may_go_back(evidence: Evidence, broker: int) -> Verdict:
    """A failed broker of ROLLING_BROKERS into ZooKeeper mode again, alone."""
    road = road_of(evidence)
    features = ", ".join(road.features)
    return Verdict(
        (
            observed_at(evidence),
            log_is_observed(road),
            state_is(road, MigrationState.MIGRATION),
            claim_is_ours(evidence),
            Condition(
                "no feature beside metadata.version is finalized",
                not features,
                f"ZooKeeper mode does not have {features}" if features else "no other feature is",
            ),
            Condition(
                "every directory of the broker is online",
                broker not in road.offline,
                "one is offline, and a broker with the flag halts then"
                if broker in road.offline
                else "every directory is online",
            ),
        )
    )


def zookeeper_mode_is_possible(road: RoadEvidence) -> tuple[Condition, ...]:
    """Of every broker: what a broker with the migration flag cannot live with."""
    features, offline = ", ".join(road.features), list(road.offline)
    return (
        state_is(road, MigrationState.MIGRATION),
        Condition(
            "no feature beside metadata.version is finalized",
            not features,
            f"ZooKeeper mode does not have {features}" if features else "no other feature is",
        ),
        Condition(
            "every directory of every broker is online",
            not offline,
            f"brokers {offline} have one that is offline, and a broker with the flag halts then"
            if offline
            else "every directory is online",
        ),
    )


def brokers_may_return(evidence: Evidence) -> Verdict:
    """ROLLING_BROKERS to ROLLING_BACK, led by the service: brokers into ZooKeeper mode, rollback, original files."""
    road = road_of(evidence)
    back = road.back or WayBack()
    not_kept = "; ".join(back.not_kept)
    orders = "the driver has not reported it" if back.orders is None else f"{back.orders} orders stand below /admin"
    return Verdict(
        (
            observed_at(evidence),
            controllers_answer(evidence),
            Condition("the driver can roll back", evidence.can_roll_back, driver_text(evidence)),
            claim_is_ours(evidence),
            *((log_is_observed(road), fleet_is_operable(road)) if back.restarts else ()),
            *(zookeeper_mode_is_possible(road) if back.restarts else ()),
            Condition(
                "the previous file of every broker in KRaft mode is kept",
                not not_kept,
                not_kept or f"brokers {list(back.restarts)}: it lies beside their file",
                (FILE_OF_BEFORE_LOST.code,),
            ),
            Condition("no order waits for a ZooKeeper controller", back.orders == 0, orders),
            loss_is_accepted(back),
            Condition("restarts, for information", True, cost_of(back)),
        )
    )


def loss_is_accepted(back: WayBack) -> Condition:
    """F-51. Directory assignments are no loss: a broker in ZooKeeper mode finds its logs on its disks."""
    name, codes = "somebody consented to what is lost", (LOSS_NOT_ACCEPTED.code,)
    if not back.lost:
        return Condition(name, True, "nothing is lost but directory assignments, which ZooKeeper mode does not use")
    said = f"only KRaft has: {'; '.join(back.lost)}"
    consent = back.consent
    if consent is None:
        return Condition(name, False, f"{said}. Consent with `zk2kraft approve --to ROLLING_BACK`", codes)
    if not consent.fits or consent.age_s > APPROVAL_S:
        return Condition(name, False, f"{said}. The consent by {consent.who} is for another list, or too old", codes)
    return Condition(name, True, f"{said}. {consent.who} consented {consent.age_s / 60:.0f} min ago")


def cost_of(back: WayBack) -> str:
    first, again = len(back.restarts), len(back.again)
    said = f"brokers {list(back.restarts)} restart into ZooKeeper mode" if first else "no broker restarts"
    said += f"; afterwards brokers {list(back.again)} restart with their original file" if again else ""
    took = back.seconds
    return said + (f"; about {took * (first + again):.0f} s, by what restarts took before" if took and first else "")


def claim_is_gone(evidence: Evidence) -> Verdict:
    """Before a broker gets its file from before the migration, without the flag."""
    return Verdict(
        (
            observed_at(evidence),
            Condition(
                "a ZooKeeper-mode broker is controller",
                evidence.holder is Holder.ZOOKEEPER_BROKER,
                f"the holder is {evidence.holder}",
            ),
            Condition(
                "/migration names no committed log",
                evidence.committed_migration is False,
                {None: "unknown", True: "it names one", False: "it names no committed log"}[
                    evidence.committed_migration
                ],
            ),
        )
    )


def joined_broker_may_go_back(evidence: Evidence, broker: int) -> Verdict:
    """A failed broker of BROKERS_JOINING gets its previous file; nothing was taken over."""
    return Verdict((observed_at(evidence), a_broker_is_controller(evidence)))
