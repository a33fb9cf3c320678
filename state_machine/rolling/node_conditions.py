"""What has to hold of a node that was started, by its role.

In:   a round, the row of the node, what its host says. Out: conditions.
Elsewhere: which of them count in a kind of roll (kind.py and the modules of the kinds).
"""

from __future__ import annotations

from migrator.fleet.actuator import ProcessState
from migrator.model.verdict import Condition
from state_machine.facts.voters import has_what_is_committed
from state_machine.policy.conditions import replicas_are_settled, replicas_are_whole
from state_machine.rollback.stops import broker_is_in_sync
from state_machine.rolling.round import Round
from state_machine.rows.tables import JournalRow


def own_process(process: ProcessState, rendered: bool | None) -> tuple[Condition, ...]:
    return (
        Condition("its process runs", process is not ProcessState.STOPPED, str(process)),
        Condition("its file is as rendered", rendered is not False, "it is not" if rendered is False else "it is"),
    )


def broker_whole(
    round: Round, row: JournalRow, mode: str, live: tuple[Condition, ...] = (), *, alone: bool
) -> tuple[Condition, ...]:
    """mode: ZooKeeper or KRaft. alone: what others lack is no reason; before the next stop of a way forward, every
    partition of the cluster is whole.
    """
    road, broker = round.road, round.log.broker(row.node_id)
    if broker is None:
        return (Condition("the broker is registered", False, "it is not"),)
    fresh = broker.incarnation != row.incarnation
    # in ZooKeeper mode a broker assigns no directory
    left = broker.unassigned_dirs if mode == "KRaft" else 0
    whole = (*replicas_are_whole(road), replicas_are_settled(road))
    if alone:
        whole = broker_is_in_sync(road, row.node_id, broker, round.work.quiet)
    return (
        *live,
        Condition("the broker registered anew", fresh, f"incarnation {broker.incarnation}"),
        Condition(f"it registered in {mode} mode", broker.mode == mode, f"{broker.mode} mode"),
        Condition("it is unfenced", broker.ready, "it is" if broker.ready else "fenced or shutting down"),
        Condition("every directory of its replicas is assigned", not left, f"{left} are not"),
        Condition("every directory is online", not broker.offline_dirs, f"{broker.offline_dirs} are offline"),
        *whole,
    )


def controller_whole(round: Round, row: JournalRow, *, flag: bool) -> tuple[Condition, ...]:
    """flag: it runs with the migration flag."""
    observed = round.log
    controller, voter = observed.controller(row.node_id), observed.voter(row.node_id)
    fresh = controller is not None and controller.incarnation != row.incarnation
    ready = controller is not None and controller.zk_migration_ready is flag
    lag = None if voter is None else voter.lag
    return (
        Condition(
            "the controller registered anew", fresh, "not registered" if controller is None else controller.incarnation
        ),
        Condition(
            f"it registered {'as ready for the migration' if flag else 'without the migration flag'}",
            fresh and ready,
            "not registered" if controller is None else f"zkMigrationReady is {controller.zk_migration_ready}",
        ),
        Condition(
            "it has what is committed",
            voter is not None and has_what_is_committed(voter),
            "its lag is not known" if lag is None else f"it is {lag} records behind",
        ),
        Condition(
            "a controller leads",
            observed.leader is not None,
            "no controller leads" if observed.leader is None else f"controller {observed.leader} leads",
        ),
    )
