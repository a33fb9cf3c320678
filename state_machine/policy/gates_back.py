"""What has to hold before the cluster or nodes go back: led by our controllers or by stock, or a broker alone.

In:   `Evidence` with its `road`. Out: a `Verdict`.
Elsewhere: conditions that several gates share (conditions.py), what a way back would do and cost
(state_machine/rollback/plan.py), the restarts (rolling/loop.py).
Source: failure cases F-41 and F-51.
"""

from __future__ import annotations

from typing import Final

from migrator.control_api.states import State
from migrator.findings.road import (
    FILE_OF_BEFORE_LOST,
    FINALIZE_INTENT_STANDS,
    LOSS_NOT_ACCEPTED,
    NODE_HOLDS_WAY_BACK,
)
from migrator.model.values import MigrationState
from migrator.model.verdict import Condition, Verdict
from state_machine.policy.conditions import (
    APPROVAL_S,
    a_broker_is_controller,
    claim_is_ours,
    fleet_evidence_of,
    fleet_is_operable,
    guards_are_proven,
    log_is_observed,
    state_is,
    zookeeper_follows,
)
from state_machine.policy.fleet_evidence import FleetEvidence, Roll, RollbackPlan
from state_machine.policy.fleet_names import controllers_have_one_file
from state_machine.policy.gates import (
    Evidence,
    Holder,
    controllers_answer,
    driver_text,
    observed_at,
    rollback_is_possible,
    zookeeper_is_controller,
)
from state_machine.policy.later import no_later_kafka
from state_machine.policy.taken import restarts_take

UNLED_S: Final = 60.0
"""Hosts that are switched off refuse no connection. A look that fails may be a slow network; many looks are not."""


def broker_may_go_back(evidence: Evidence, broker: int) -> Verdict:
    """A failed broker of ROLLING_BROKERS into ZooKeeper mode again, alone."""
    road = fleet_evidence_of(evidence)
    features = ", ".join(road.features)
    return Verdict(
        (
            observed_at(evidence),
            no_later_kafka(evidence.later),
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


def zookeeper_mode_is_possible(road: FleetEvidence, *, every: bool = True) -> tuple[Condition, ...]:
    """What a broker with the migration flag cannot live with. every: also of directories, which are each broker's own
    affair once the rollback was begun (rollback/stops.py).
    """
    features, offline = ", ".join(road.features), [each for each in road.offline if each not in road.left_out]
    online = Condition(
        "every directory of every broker is online",
        not offline,
        f"brokers {offline} have one that is offline, and a broker with the flag halts then"
        if offline
        else "every directory is online",
    )
    return (
        state_is(road, MigrationState.MIGRATION),
        Condition(
            "no feature beside metadata.version is finalized",
            not features,
            f"ZooKeeper mode does not have {features}" if features else "no other feature is",
        ),
        *((online,) if every else ()),
    )


def cluster_may_return(evidence: Evidence) -> Verdict:
    """AUDIT or DUAL_WRITE to ROLLING_BACK: the driver alone, and no node restarts."""
    return Verdict((*rollback_is_possible(evidence).conditions, loss_is_accepted(fleet_evidence_of(evidence).back)))


def brokers_may_return(evidence: Evidence) -> Verdict:
    """ROLLING_BROKERS to ROLLING_BACK, led by the service: brokers into ZooKeeper mode, rollback, original files."""
    road = fleet_evidence_of(evidence)
    back = road.back or RollbackPlan()
    if zookeeper_is_controller(evidence).holds:
        return _rest_may_return(evidence)
    return Verdict(
        (
            observed_at(evidence),
            controllers_answer(evidence, road.left_out),
            no_later_kafka(evidence.later),
            Condition("the driver can roll back", evidence.can_roll_back, driver_text(evidence)),
            claim_is_ours(evidence),
            *((log_is_observed(road), fleet_is_operable(road)) if back.restarts else ()),
            *(zookeeper_mode_is_possible(road) if back.restarts else ()),
            files_are_kept(back),
            *some_host_answers(back),
            no_order_waits(back),
            loss_is_accepted(back),
            Condition("restarts, for information", True, cost_of(back)),
            *restarts_take(road, back.restarts),
        )
    )


def _rest_may_return(evidence: Evidence) -> Verdict:
    """The cluster went back without our controllers; brokers that the service stopped get their original file."""
    road = fleet_evidence_of(evidence)
    files = files_are_kept(road.back or RollbackPlan())
    return Verdict((*zookeeper_is_controller(evidence).conditions, fleet_is_operable(road), files))


def controllers_may_return(evidence: Evidence) -> Verdict:
    """REPLACING_CONTROLLERS or SOAK to ROLLING_BACK: ours in the place of stock first, then as from ROLLING_BROKERS.

    Half of the voters may be stock, and one may be away. What only a driver of ours knows, orders for a ZooKeeper
    controller among it, is asked once ours leads (`ours_lead_again`).
    """
    road = fleet_evidence_of(evidence)
    back = road.back or RollbackPlan()
    return Verdict(
        (
            observed_at(evidence),
            controllers_answer(evidence, road.left_out),
            finalize_is_not_begun(road),
            no_later_kafka(evidence.later),
            log_is_observed(road),
            *every_voter_has_the_flag(evidence),
            claim_is_ours(evidence),
            fleet_is_operable(road),
            *((*guards_are_proven(road, road.left_out), *controllers_have_one_file(road)) if back.controllers else ()),
            *zookeeper_mode_is_possible(road),
            files_are_kept(back),
            *some_host_answers(back),
            loss_is_accepted(back),
            Condition("restarts, for information", True, cost_of(back)),
            *restarts_take(road, back.restarts),
        )
    )


def rollback_may_be_cancelled(evidence: Evidence) -> Verdict:
    """ROLLING_BACK to ROLLING_BROKERS, from where the road goes forward: brokers that are back go over again, and stock
    that is still in place is left there. Not once the driver rolls back, and not while a node is away.
    """
    road = fleet_evidence_of(evidence)
    away = [each for roll in (Roll.OURS, Roll.BACK) for each in road.roll(roll).away if each not in road.left_out]
    ended = evidence.driver_state in (State.ROLLING_BACK, State.ROLLING_BACK_EARLY, State.RETIRED)
    led = evidence.road is not None
    return Verdict(
        (
            observed_at(evidence),
            Condition("the service leads this rollback", led, "it does" if led else "the driver carries it out alone"),
            Condition("the driver has not begun its rollback", not ended, driver_text(evidence)),
            claim_is_ours(evidence),
            log_is_observed(road),
            state_is(road, MigrationState.MIGRATION),
            Condition("no node is away", not away, f"nodes {away} are stopped or not whole" if away else "none is"),
        )
    )


def stock_is_in_place(evidence: Evidence) -> Verdict:
    """Some controller is a stock one, after a rollback was cancelled in its first part."""
    stock = [each.id for each in fleet_evidence_of(evidence).voters if each.stock]
    said = f"controllers {stock} are" if stock else "every controller is ours"
    return Verdict((Condition("a stock controller is in place", bool(stock), said),))


def finalize_is_not_begun(road: FleetEvidence) -> Condition:
    """No intent stands in ZooKeeper: with it, a controller may have run without the flag, whatever the log says."""
    said = f"the intent stands in ZooKeeper: {road.intent}" if road.intent else "no intent stands in ZooKeeper"
    return Condition("the finalize was not begun", not road.intent, said, (FINALIZE_INTENT_STANDS.code,))


def every_voter_has_the_flag(evidence: Evidence) -> tuple[Condition, ...]:
    """Every voter runs with the flag, by the registration of its process and not by its file: one that runs without may
    have written the end of the migration into the tail of its log.
    """
    road = fleet_evidence_of(evidence)
    ids, wanted = {each.id for each in road.voters}, set(evidence.controllers)
    without = [each.id for each in road.voters if each.ready is not True]
    later = [each for each in without if evidence.later.node(each, is_voter=True) is not None]
    others = [each for each in without if each not in later]
    reasons = [f"voters {later} know no such flag: their Kafka is without ZooKeeper"] if later else []
    reasons += [f"voters {others} are not registered as ready for the migration"] if others else []
    return (
        Condition(
            "every voter is known",
            bool(ids) and ids == wanted,
            f"the log has voters {sorted(ids)}, the inventory {sorted(wanted)}",
        ),
        Condition(
            "no voter runs without the migration flag",
            bool(ids) and not without,
            "; ".join(reasons) or "every voter is registered as ready for the migration",
        ),
    )


def ours_lead_again(evidence: Evidence) -> Verdict:
    """Dual-write is as it was before the stock controllers, and both sides are equal: in ROLLING_BACK, before the first
    broker is stopped.
    """
    road = fleet_evidence_of(evidence)
    back = road.back or RollbackPlan()
    name = "an audit found both sides equal since then"
    return Verdict(
        (
            observed_at(evidence),
            controllers_answer(evidence, road.left_out),
            Condition("the driver is in dual-write", evidence.driver_state == State.DUAL_WRITE, driver_text(evidence)),
            claim_is_ours(evidence),
            log_is_observed(road),
            state_is(road, MigrationState.MIGRATION),
            zookeeper_follows(road),
            no_order_waits(back),
            nothing_more_is_lost(back),
            Condition(name, back.equal is True, back.said),
        )
    )


def is_only_not_audited(verdict: Verdict) -> bool:
    """Everything that is asked before an audit holds; the audit is the last condition."""
    return all(each.holds for each in verdict.conditions[:-1]) and not verdict.conditions[-1].holds


def controller_may_be_stock_again(evidence: Evidence, controller: int) -> Verdict:
    """A failed controller of the first part of a rollback, alone; stock does not start while ZooKeeper is away."""
    road = fleet_evidence_of(evidence)
    return Verdict(
        (
            observed_at(evidence),
            log_is_observed(road),
            state_is(road, MigrationState.MIGRATION),
            claim_is_ours(evidence),
        )
    )


def files_are_kept(back: RollbackPlan) -> Condition:
    not_kept = "; ".join(back.not_kept)
    nodes = f"brokers {list(back.restarts)}" + (f", controllers {list(back.controllers)}" if back.controllers else "")
    return Condition(
        "the previous file of every node that goes back is kept",
        not not_kept,
        not_kept or f"{nodes}: it lies beside their file",
        (FILE_OF_BEFORE_LOST.code,),
    )


def some_host_answers(back: RollbackPlan) -> tuple[Condition, ...]:
    """One host that gives no answer holds its own nodes only, which go last; if none answers, nothing can be done."""
    if not back.unknown:
        return ()
    said = f"nothing is known now of {'; '.join(back.unknown_words)}: they go last, or are left out by name"
    any_known = len(back.unknown) < len(back.restarts) + len(back.controllers)
    codes = (NODE_HOLDS_WAY_BACK.code,)
    return (Condition("a host of a node that goes back answers", any_known, said, codes),)


def no_order_waits(back: RollbackPlan) -> Condition:
    orders = "the driver has not reported it" if back.orders is None else f"{back.orders} orders stand below /admin"
    return Condition("no order waits for a ZooKeeper controller", back.orders == 0, orders)


def nothing_more_is_lost(back: RollbackPlan) -> Condition:
    """The consent of the beginning counts for as long as the rollback takes; what came since needs another one."""
    more = "; ".join(back.unforeseen)
    said = f"only KRaft has, too: {more}. Consent with `zk2kraft approve --to ROLLING_BACK`" if more else "nothing came"
    return Condition("somebody consented to everything that is lost", not more, said, (LOSS_NOT_ACCEPTED.code,))


def loss_is_accepted(back: RollbackPlan | None) -> Condition:
    """F-51. Directory assignments are no loss: a broker in ZooKeeper mode finds its logs on its disks. back: None: what
    is lost is not known.
    """
    name, codes = "somebody consented to what is lost", (LOSS_NOT_ACCEPTED.code,)
    if back is None:
        return Condition(name, False, "what is lost is not known yet", codes)
    if not back.lost:
        return Condition(name, True, "nothing is lost but directory assignments, which ZooKeeper mode does not use")
    said = f"only KRaft has: {'; '.join(back.lost)}"
    consent = back.consent
    if consent is None:
        return Condition(name, False, f"{said}. Consent with `zk2kraft approve --to ROLLING_BACK`", codes)
    if not consent.fits or consent.age_s > APPROVAL_S:
        return Condition(name, False, f"{said}. The consent by {consent.who} is for another list, or too old", codes)
    return Condition(name, True, f"{said}. {consent.who} consented {consent.age_s / 60:.0f} min ago")


def cost_of(back: RollbackPlan) -> str:
    first, again = len(back.restarts), len(back.again)
    said = f"controllers {list(back.controllers)} are ours again, the active one last; " if back.controllers else ""
    said += f"brokers {list(back.restarts)} restart into ZooKeeper mode" if first else "no broker restarts"
    said += f"; afterwards brokers {list(back.again)} restart with their original file" if again else ""
    said += f"; left out by name: {'; '.join(back.left_out)}" if back.left_out else ""
    if not first and not back.controllers:
        return said
    if back.total_s:
        return f"{said}; about {back.total_s:.0f} s, by what restarts took before"
    return said if back.least_s is None else f"{said}; at least {back.least_s:.0f} s, by assumption: none was measured"


def cluster_has_returned(evidence: Evidence) -> Verdict:
    """The cluster went back from stock controllers by hand: a ZooKeeper-mode broker leads, and nobody leads the log."""
    road = fleet_evidence_of(evidence)
    unled = road.unled_s or 0.0
    said = (
        f"no voter that leads was found for {unled:.0f} s" if road.leader is None else f"controller {road.leader} leads"
    )
    nobody = road.leader is None and (road.no_leader or unled >= UNLED_S)
    in_zookeeper = zookeeper_is_controller(evidence).conditions[:2]
    return Verdict((*in_zookeeper, Condition("nobody leads the metadata log", nobody, said)))


def claim_is_gone(evidence: Evidence) -> Verdict:
    """The claim is gone, as it has to be before a broker gets its file from before the migration, without the flag."""
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
