"""Who is controller, and every broker and voter, judged by what the phase wants of them.

In:   a snapshot and the time.
Out:  models (models.py). Page, status and metrics take them from here.
Elsewhere: what a phase wants (policy/phase_table.py), what a step requires (policy/gates.py, policy/gates_forward.py).
Rules: while a controller of ours leads, it says what it knows of brokers. Once stock leads, the metadata log does:
stock has no control port. What is not known is said to be unknown, with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import msgspec

from api.models import ActiveControllerView, BrokerView, ControllerView, DenialView
from migrator.model.verdict import Condition, Verdict
from state_machine.clusters.log_observer import LogObservation, LogVoter
from state_machine.clusters.observe import ControllerObservation, Observation, ZooKeeperObservation
from state_machine.evidence.after_dual_write import LOG_FRESH_S
from state_machine.evidence.of_gates import brokers_seen
from state_machine.facts.voters import has_what_is_committed
from state_machine.policy.fleet_evidence import BROKERS, CONTROLLERS
from state_machine.policy.gates import BrokerObservation, Evidence, Holder, standing
from state_machine.policy.phases import Phase
from state_machine.policy.wanted import KRAFT_MODE, Voters, WantedModes
from state_machine.rows.observations import nodes
from state_machine.rows.store import Snapshot, Store, has_failed, is_under_way
from state_machine.rows.tables import JournalRow

NONE_LEADS: Final = "none: every voter was asked, and none leads"


def wanted_of(snapshot: Snapshot) -> WantedModes:
    """By the phase; in a rollback, once a ZooKeeper-mode broker is controller again, nobody of ours has to run."""
    wanted, look = snapshot.phase_row.wanted, snapshot.observation
    returned = look is not None and look.zookeeper.holder is Holder.ZOOKEEPER_BROKER
    if snapshot.phase is Phase.ROLLING_BACK and returned:
        return replace(wanted, brokers=frozenset(), voters=Voters.NONE)
    return wanted


def standing_of(snapshot: Snapshot, observed: Evidence) -> Verdict:
    """The conditions of every phase, without those that this one does not need; with those of its rolling restart."""
    wanted = wanted_of(snapshot)
    left_out = {"every controller answers"} if wanted.voters in (Voters.NONE, Voters.STOCK) else set()
    left_out |= set() if wanted.zookeeper else {"ZooKeeper answers"}
    kept = tuple(each for each in standing(observed).conditions if each.name not in left_out)
    return Verdict((*kept, _no_node_has_failed(snapshot))) if snapshot.phase_row.rolls else Verdict(kept)


def failed_nodes(snapshot: Snapshot) -> tuple[JournalRow, ...]:
    """Of the rolling restarts of this phase; those of an earlier one keep nothing from going on."""
    rolls = snapshot.phase_row.rolls
    return tuple(each for each in snapshot.road if each.roll in rolls and has_failed(each))


def _no_node_has_failed(snapshot: Snapshot) -> Condition:
    failed = failed_nodes(snapshot)
    said = "; ".join(f"{each.role} {each.node_id}: {each.code} {each.cause}".strip() for each in failed)
    return Condition(
        "no node of the rolling restart has failed",
        not failed,
        said or "none has",
        tuple(dict.fromkeys(each.code for each in failed if each.code)),
    )


# --- the controller -----------------------------------------------------------------------------------------


def log_of(snapshot: Snapshot, now: float) -> LogObservation:
    """As it was read last; an old reading is a problem, and nothing else of it counts."""
    log = LogObservation() if snapshot.observation is None else snapshot.observation.log
    if log.known and now - log.at > LOG_FRESH_S:
        return LogObservation(problem=f"it was last read {now - log.at:.0f} s ago")
    return log


def stock_nodes(snapshot: Snapshot) -> frozenset[int]:
    """Controllers of the inventory that are stock now, or are to be: one that answers as ours is none of them."""
    wanted, look = wanted_of(snapshot).voters, snapshot.observation
    ours = set() if look is None else {each.node_id for each in look.controllers if each.status is not None}
    match wanted:
        case Voters.STOCK:
            return frozenset(snapshot.inventory.node_ids) - ours
        case Voters.SOME_STOCK:
            return snapshot.replaced - ours
        case Voters.NONE | Voters.OURS:
            return frozenset()


def stock_may_lead(snapshot: Snapshot, now: float) -> bool:
    """Whether the metadata log says who is controller: stock is there, and no later leader of ours answers."""
    if not stock_nodes(snapshot):
        return False
    look, log = snapshot.observation, log_of(snapshot, now)
    ours = None if look is None else look.active
    if ours is None or not ours.leads:
        return True
    return log.known and log.leader in stock_nodes(snapshot) and log.epoch > ours.epoch


def active_controller_view(snapshot: Snapshot, now: float) -> ActiveControllerView:
    look = snapshot.observation
    observed = ZooKeeperObservation() if look is None else look.zookeeper
    if stock_may_lead(snapshot, now):
        return _leader_by_log(snapshot, observed, log_of(snapshot, now))
    return ActiveControllerView(
        kind=observed.holder,
        node_id=observed.holder_id,
        since=None if observed.holder_since_ms is None else observed.holder_since_ms / 1000,
        controller_epoch=observed.controller_epoch,
        kraft_epoch=observed.kraft_epoch,
        says=_who_rules(observed, look),
    )


def _leader_by_log(snapshot: Snapshot, observed: ZooKeeperObservation, log: LogObservation) -> ActiveControllerView:
    """since: as `/controller` says, where it names the same controller."""
    names_leader = log.leader is not None and observed.holder_id == log.leader
    since = observed.holder_since_ms if names_leader else None
    return ActiveControllerView(
        kind=observed.holder,
        node_id=log.leader,
        since=None if since is None else since / 1000,
        controller_epoch=observed.controller_epoch,
        kraft_epoch=log.epoch if log.known else None,
        says=_who_leads(snapshot, log),
    )


def _who_leads(snapshot: Snapshot, log: LogObservation) -> str:
    if log.no_leader:
        return NONE_LEADS
    if not log.known or log.leader is None:
        return f"unknown: the metadata log is not observed: {log.problem or 'nobody is known to lead'}"
    voters = ", ".join(str(each.id) for each in sorted(log.voters, key=lambda voter: voter.id))
    of_them = f"leader of voters {voters} in epoch {log.epoch}"
    if log.leader in stock_nodes(snapshot):
        return f"controller {log.leader} (stock, KRaft mode), {of_them}"
    return f"controller {log.leader} (zk2kraft, KRaft mode), {of_them}, which does not answer the service"


def _who_rules(observed: ZooKeeperObservation, look: Observation | None) -> str:
    match observed.holder:
        case Holder.ZOOKEEPER_BROKER:
            return f"broker {observed.holder_id} (ZooKeeper mode)"
        case Holder.OURS:
            silent = look is not None and observed.holder_id in look.silent()
            return f"controller {observed.holder_id} (zk2kraft, KRaft mode)" + (
                ", which does not answer" if silent else ""
            )
        case Holder.ANOTHER:
            return f"KRaft controller {observed.holder_id} of another quorum"
        case Holder.NOBODY:
            return "none: /controller does not exist"
        case Holder.UNKNOWN:
            return "unknown: ZooKeeper does not answer"


def without_controller_s(snapshot: Snapshot, now: float) -> float | None:
    """0 while somebody rules; else since somebody was last seen to. The driver's own figure, inside its window. None:
    it is not known.
    """
    look = snapshot.observation
    if look is None:
        return None
    if stock_may_lead(snapshot, now):
        return _unled_s(look, log_of(snapshot, now), now)
    if look.zookeeper.holder is Holder.UNKNOWN or look.controlled_at is None:
        return None
    if look.controlled_at == look.at:
        return 0.0
    driver = None if look.active is None else look.active.driver
    if driver is not None and driver.without_controller_ms is not None:
        return round(driver.without_controller_ms / 1000 + now - look.at, 1)
    return round(max(0.0, now - look.controlled_at), 1)


def _unled_s(look: Observation, log: LogObservation, now: float) -> float | None:
    """Of voters of which none leads; a log that could not be read says nothing about them."""
    if log.no_leader and look.unled_since is not None:
        return round(max(0.0, now - look.unled_since), 1)
    return 0.0 if log.known and log.leader is not None else None


# --- brokers ------------------------------------------------------------------------------------------------


def broker_views(store: Store, snapshot: Snapshot, now: float) -> list[BrokerView]:
    """As the active controller tells; while none answers, as it was told last, with the age in the problem. As the
    metadata log tells, once stock leads.

    Where no controller of ours has to run, a broker that is not registered is no problem.
    """
    notes = {each.id: " ".join(filter(None, (each.host, each.note))) for each in snapshot.inventory.brokers}
    if stock_may_lead(snapshot, now):
        return [
            _broker_by_log(broker, snapshot, log_of(snapshot, now), notes.get(broker, ""))
            for broker in _expected(snapshot, log_of(snapshot, now))
        ]
    wanted = wanted_of(snapshot)
    known = {row.node_id: row for row in nodes(store, snapshot.id, "broker")}
    found = []
    for observed in brokers_seen(snapshot):
        row = known.get(observed.id)
        reported = row.document if row is not None and observed.registered is not False else {}
        problem = reported.get("problem") if observed.registered else None
        why = observed.why_not_ready(wanted.brokers)
        if observed.registered is None and row is not None:
            problem = f"{why}; last seen {now - (row.seen_at or now):.0f} s ago"
        problem = _said(problem or why, observed.id, snapshot) if wanted.brokers else ""
        found.append(_broker(observed, reported, problem, notes.get(observed.id, ""), _mode(reported, wanted)))
    return found


def _mode(reported: dict[str, Any], wanted: WantedModes) -> str:
    """Empty: nobody says. Before any broker may be in KRaft mode there is only one."""
    return str(reported.get("mode", "" if wanted.brokers & KRAFT_MODE else "ZooKeeper"))


def _broker(observed: BrokerObservation, reported: dict[str, Any], problem: str, note: str, mode: str) -> BrokerView:
    return BrokerView(
        id=observed.id,
        registered=observed.registered,
        mode=mode,
        epoch=reported.get("epoch"),
        fenced=reported.get("fenced"),
        heartbeat_age_ms=reported.get("heartbeat_age_ms"),
        metadata_version=reported.get("metadata_version"),
        listeners=reported.get("listeners", []),
        log_dirs=reported.get("log_dirs"),
        updated=reported.get("updated"),
        requests_waiting=reported.get("requests_waiting"),
        problem=problem,
        note=note,
    )


def _said(problem: str, broker: int, snapshot: Snapshot) -> str:
    """With the reason that is no trouble: the service restarts it just now."""
    return ", ".join(filter(None, (problem, _under_way(BROKERS, broker, snapshot)))) if problem else ""


def _expected(snapshot: Snapshot, log: LogObservation) -> list[int]:
    """Everybody who should be there, is registered, or is still in ZooKeeper."""
    live = () if snapshot.observation is None else snapshot.observation.zookeeper.brokers
    of_zookeeper = set(live) if wanted_of(snapshot).zookeeper else set()
    return sorted({each.id for each in snapshot.inventory.brokers} | {each.id for each in log.brokers} | of_zookeeper)


def _broker_by_log(broker: int, snapshot: Snapshot, log: LogObservation, note: str) -> BrokerView:
    """A registration has no heartbeat: a broker that sends none is fenced within seconds."""
    found = log.broker(broker)
    if not log.known:
        observed, problem = BrokerObservation(broker, registered=None), f"unknown: {log.problem}"
    elif found is None:
        observed, problem = BrokerObservation(broker, registered=False), "not registered"
    else:
        observed = BrokerObservation(broker, mode=found.mode, fenced=found.fenced)
        problem = observed.why_not_ready(wanted_of(snapshot).brokers)
        problem = problem or ("shutting down" if found.in_controlled_shutdown else "")
    problem = _said(problem, broker, snapshot)
    told: dict[str, Any] = (
        {}
        if found is None
        else {
            "epoch": found.epoch,
            "fenced": found.fenced,
            "metadata_version": None if found.levels is None else list(found.levels),
        }
    )
    return _broker(observed, told, problem, note, "" if found is None else found.mode)


# --- voters -------------------------------------------------------------------------------------------------


def controller_views(snapshot: Snapshot, now: float) -> list[ControllerView]:
    """Every controller of the inventory: ours as its control port says, stock as the metadata log's leader says."""
    look, stock, wanted = snapshot.observation, stock_nodes(snapshot), wanted_of(snapshot).voters
    observed = {} if look is None else {each.node_id: each for each in look.controllers}
    found = []
    for node in snapshot.inventory.node_ids:
        if node in stock:
            found.append(_stock(node, snapshot, log_of(snapshot, now)))
        else:
            found.append(_ours(node, observed.get(node), snapshot, needed=wanted is not Voters.NONE))
    return found


def _ours(node: int, controller: ControllerObservation | None, snapshot: Snapshot, *, needed: bool) -> ControllerView:
    process = snapshot.processes.get(node)
    status = None if controller is None else controller.status
    quorum = None if status is None else status.quorum
    driver = None if controller is None else controller.driver
    return ControllerView(
        node_id=node,
        answers=status is not None,
        leads=controller is not None and controller.leads,
        driver="" if driver is None else f"{driver.state}: {driver.reason}",
        epoch=None if quorum is None else quorum.epoch,
        high_watermark=None if quorum is None else quorum.high_watermark,
        log_end=None if quorum is None else quorum.log_end,
        observers={} if quorum is None else _by_number(quorum.observers),
        loop_delay_ms=None if status is None else status.loop_delay_ms,
        loop_work_ms=None if status is None else status.loop_work_ms,
        pid=None if controller is None else controller.pid,
        problem="not observed yet" if controller is None else controller.problem,
        denials=[] if status is None else [DenialView(**msgspec.to_builtins(each)) for each in status.denials],
        log="" if process is None or process.log is None else process.log,
        ready=status is not None or not needed,
    )


def _by_number(observers: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(observers.items(), key=lambda each: int(each[0])))


def _stock(node: int, snapshot: Snapshot, log: LogObservation) -> ControllerView:
    voter, leads = log.voter(node), log.known and log.leader == node
    problem = _under_way(CONTROLLERS, node, snapshot) or ("" if leads else _why_behind(voter, log))
    return ControllerView(
        node_id=node,
        kind="stock",
        answers=not problem,
        leads=leads,
        driver="",
        epoch=log.epoch if log.known else None,
        high_watermark=log.high_watermark if leads else None,
        log_end=None if voter is None else voter.log_end,
        observers={},
        loop_delay_ms=None,
        loop_work_ms=None,
        pid=None,
        problem=problem,
        denials=[],
        log="",
        ready=not problem,
    )


def _why_behind(voter: LogVoter | None, log: LogObservation) -> str:
    """As the gates judge a voter: one that had all of the log a moment ago follows."""
    if not log.known:
        return NONE_LEADS if log.no_leader else f"unknown: {log.problem}"
    if voter is None:
        return "no voter of the quorum"
    if has_what_is_committed(voter):
        return ""
    return "it has never fetched" if voter.lag is None else f"it is {voter.lag} records behind"


def _under_way(role: str, node: int, snapshot: Snapshot) -> str:
    """While the service restarts it."""
    rolls = snapshot.phase_row.rolls
    mine = (each for each in snapshot.road if each.roll in rolls and (each.role, each.node_id) == (role, node))
    step = next((each.step for each in mine if is_under_way(each)), None)
    return "" if step is None else f"it is being restarted ({step})"
