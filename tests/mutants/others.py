"""Faults of the controller's decisions, the ZooKeeper session, the operator's phases and the audit."""

from __future__ import annotations

from typing import Final

from tests.mutants.fault import Fault

CONTROLLER: Final = "migrator/controller/"
ZK: Final = "migrator/zk/"
PHASES: Final = "state_machine/"
AUDIT: Final = "migrator/audit/"

FAULTS: Final = (
    Fault(
        "migrator/model/at_a_stop.py",
        "            left = sum(1 for each in partition.isr if each not in away)\n",
        "            left = len(partition.isr) - 1\n",
        "a rack is judged broker by broker, and its stop takes partitions offline",
        ("tests/unit/state_machine/rolling/test_racks.py",),
    ),
    Fault(
        "migrator/fleet/roll.py",
        "    return [each for each in left if each.rack == own.rack and (each.id in last) == (first in last)]\n",
        "    return left\n",
        "all brokers are stopped together",
        ("tests/unit/state_machine/rolling/test_racks.py",),
    ),
    Fault(
        "state_machine/rolling/loop.py",
        "                    if not taken.holds:\n",
        "                    if not ready.holds:\n",
        "a broker is stopped although it has the only replica of a partition, and nobody accepted that",
        ("tests/unit/state_machine/policy/test_taken.py",),
    ),
    Fault(
        "state_machine/rolling/ways_back.py",
        "(answers, *cluster.conditions, *self.may_stop_node(round, node))",
        "(answers, *cluster.conditions)",
        "a node goes back although its stop takes the last replicas in sync away",
        ("tests/unit/state_machine/policy/test_roll_conditions.py",),
    ),
    Fault(
        "state_machine/rolling/final.py",
        "        return not give_up.is_put_back(row)\n",
        "        return False\n",
        "the first controller is stopped for the finalize before its intent stands",
        ("tests/unit/state_machine/rolling/test_roll_on_fakes.py",),
    ),
    Fault(
        "migrator/model/at_a_stop.py",
        "        value = own.get(broker, of_all if of_all is not None else files.get(broker))\n",
        "        value = own.get(broker, of_all)\n",
        "min.insync.replicas in brokers' files counts for nothing, so that a stop refuses writes unannounced",
        ("tests/unit/state_machine/policy/test_taken.py",),
    ),
    Fault(
        "state_machine/policy/phase_table.py",
        "        return self.goes_back in (GoesBack.DRIVER, GoesBack.LED)\n",
        "        return self.goes_back is GoesBack.LED\n",
        "a rollback from DUAL_WRITE loses what only KRaft has, and nobody consented to that",
        ("tests/unit/state_machine/policy/test_phase_table.py",),
    ),
    Fault(
        "state_machine/policy/phase_table.py",
        "        return self.audited and not self.no_return\n",
        "        return self.stage is PhaseStage.TAKEOVER\n",
        "no guard of stock controllers is read",
        ("tests/unit/state_machine/policy/test_phase_table.py",),
    ),
    Fault(
        "state_machine/rollback/stops.py",
        "    holds = known and (every or left >= needed or node not in following)\n",
        "    holds = known and (every or left >= 1 or node not in following)\n",
        "on the way back a controller is stopped without a majority that follows",
        ("tests/unit/state_machine/rollback/test_stops.py",),
    ),
    Fault(
        "migrator/model/partition_figures.py",
        "        if partition.leader >= 0 and len(isr) in (1, min(minimum, len(replicas))):\n",
        "        if partition.leader >= 0 and len(isr) == 1:\n",
        "on the way back a stop takes partitions below their minimum ISR",
        ("tests/unit/state_machine/rollback/test_stops.py",),
    ),
    Fault(
        "migrator/fleet/roll.py",
        "        if not entry.back and not now.around.holds:\n",
        "        if False:\n",
        "a roll ends while the cluster is not as its steps want it",
        ("tests/unit/fleet/test_roll.py", "tests/unit/state_machine/policy/test_step_conditions.py"),
    ),
    Fault(
        "state_machine/policy/step_conditions.py",
        "for need in LISTS[roll] if when not in need.never for",
        "for need in LISTS[roll] if not need.never for",
        "what one of gate, stop and start leaves out, all three leave out",
        ("tests/unit/state_machine/policy/test_step_conditions.py",),
    ),
    Fault(
        "state_machine/rollback/left_out.py",
        "    return [row for row in found if row is latest or RollStep(row.step) not in away]\n",
        "    return found\n",
        "a node that is wanted again is operated beside the one that is under way",
        ("tests/unit/state_machine/rollback/test_stops.py",),
    ),
    Fault(
        "migrator/fleet/inventory.py",
        "        if each.code != WAIVER_ENDED.code:\n",
        "        if each.code:\n",
        "a waiver that ended makes every node inoperable",
        ("tests/unit/state_machine/nodes/test_fleet_files.py",),
    ),
    Fault(
        "migrator/fleet/repeatable.py",
        "NO_ANSWER: Final = frozenset({HOST_NOT_REACHED.code, ACT_TOO_SLOW.code, TRANSFER_CUT.code})\n",
        "NO_ANSWER: Final = frozenset({ACT_TOO_SLOW.code})\n",
        "one lost connection leaves a broker down",
        ("tests/unit/state_machine/rolling/test_repeated_acts.py",),
    ),
    Fault(
        "migrator/fleet/repeatable.py",
        "        return error.code == ACT_FAILED.code and self.answers < ANSWERS_MAX\n",
        "        return error.code == ACT_FAILED.code\n",
        "a host that refuses is asked for ever, and nobody is told",
        ("tests/unit/state_machine/rolling/test_repeated_acts.py",),
    ),
    Fault(
        "migrator/model/listeners.py",
        '    if PROTOCOL_MAP in given or not given.get("process.roles"):\n',
        '    if not given.get("process.roles"):\n',
        "a controller listener that the map lacks is open, without a login",
        ("tests/unit/node/config/test_listener_names.py",),
    ),
    Fault(
        "migrator/model/listeners.py",
        "    return name.upper()\n",
        "    return name\n",
        "a protocol that the file gives a listener in another case is not its protocol",
        ("tests/unit/node/config/test_listener_names.py",),
    ),
    Fault(
        CONTROLLER + "brokers.py",
        "    if broker is None or broker.epoch != request.broker_epoch:\n"
        "        return Decision(BrokerHeartbeatResponse(error_code=Error.STALE_BROKER_EPOCH))\n"
        "    _heard_of(",
        "    if broker is None:\n"
        "        return Decision(BrokerHeartbeatResponse(error_code=Error.STALE_BROKER_EPOCH))\n"
        "    _heard_of(",
        "a broker's earlier life looks fresh while nothing may be decided",
        ("tests/unit/controller/test_brokers.py",),
    ),
    Fault(
        CONTROLLER + "brokers.py",
        "    if broker is None or broker.epoch != request.broker_epoch:\n"
        "        return Decision(BrokerHeartbeatResponse(error_code=Error.STALE_BROKER_EPOCH))\n"
        "    contact",
        "    if broker is None:\n"
        "        return Decision(BrokerHeartbeatResponse(error_code=Error.STALE_BROKER_EPOCH))\n"
        "    contact",
        "an earlier life of a broker unfences the present one",
        ("tests/unit/controller/test_brokers.py",),
    ),
    Fault(
        CONTROLLER + "brokers.py",
        "    if not again:\n        return _without(situation, before)\n",
        "    if not again:\n        return iter(())\n",
        "a broker that lost its disk stays in sync and leads",
        ("tests/unit/controller/test_brokers.py",),
    ),
    Fault(
        CONTROLLER + "partitions/alter_partition.py",
        "    if broker is None or broker.epoch != request.broker_epoch:",
        "    if broker is None:",
        "an earlier life of a leader changes in-sync sets",
        ("tests/unit/controller/test_alter_partition.py",),
    ),
    Fault(
        CONTROLLER + "partitions/alter_partition.py",
        "    return broker is not None and broker.active and member.broker_epoch in (-1, broker.epoch)",
        "    return broker is not None and broker.active",
        "a replica that restarted without its log joins the in-sync set",
        ("tests/unit/controller/test_alter_partition.py",),
    ),
    Fault(
        CONTROLLER + "partitions/alter_partition.py",
        "    if asked.partition_epoch < partition.partition_epoch:\n        return Error.INVALID_UPDATE_VERSION\n",
        "",
        "a late request takes a change back that came after it",
        ("tests/unit/controller/test_alter_partition.py",),
    ),
    Fault(
        CONTROLLER + "partitions/elections.py",
        "    if not stay or not in_sync or not set(stay) <= set(in_sync):\n",
        "    if not stay or not in_sync:\n",
        "a reassignment drops the old replicas before the new ones have the data",
        ("tests/unit/controller/test_reassignments.py",),
    ),
    Fault(
        ZK + "session.py",
        "                    transaction.check(path, version)\n",
        "                    transaction.check(path, -1)\n",
        "conditional writes are unconditional",
        ("tests/unit/zk/test_session.py",),
    ),
    Fault(
        ZK + "session.py",
        '            if name in ("RolledBackError", "RuntimeInconsistency"):\n                continue\n',
        '            if name in ("RolledBackError", "RuntimeInconsistency"):\n                versions.append(0)\n'
        "                continue\n",
        "a refused multi without a culprit counts as applied",
        ("tests/unit/zk/test_session.py",),
    ),
    Fault(
        ZK + "znodes.py",
        "or raw == ZERO_ID or topic_id_text(raw) != text:",
        "or raw == ZERO_ID:",
        "two texts of one topic id",
        ("tests/unit/zk/test_znodes.py",),
    ),
    Fault(
        ZK + "znodes.py",
        '    if not re.fullmatch(rb"-?[0-9]{1,10}", data or b"") or abs(int(data or b"")) > INT32_MAX:\n'
        '        raise MALFORMED_ZNODE.error(path=path, reason=f"{data!r} is not a number of 32 bits")\n',
        "",
        "a controller epoch that no broker can read is raised",
        ("tests/unit/zk/test_znodes.py",),
    ),
    Fault(
        PHASES + "rows/transition.py",
        "    if row.version != expected_version:\n"
        "        raise VERSION_MOVED.error(found=row.version, expected=expected_version)\n",
        "",
        "a step is taken from a state that its asker never saw",
        ("tests/unit/state_machine/rows/test_transition.py",),
    ),
    Fault(
        PHASES + "rows/transition.py",
        "    if not verdict.holds:\n",
        "    if False:\n",
        "a closed gate stops nobody",
        ("tests/unit/state_machine/rows/test_transition.py",),
    ),
    Fault(
        PHASES + "children/commands.py",
        "        finally:\n            await _end(child)\n",
        "        else:\n            await _end(child)\n",
        "a command that took too long is never ended",
        ("tests/unit/state_machine/children/test_children.py",),
    ),
    Fault(
        PHASES + "policy/gates.py",
        "            check is not None and check.age_s < CHECK_FRESH_S,",
        "            check is not None,",
        "controllers are started on the word of an old check",
        ("tests/unit/state_machine/policy/test_gates.py",),
    ),
    Fault(
        AUDIT + "compare.py",
        "        return not any(count.different or count.not_read for count in self.counts.values())",
        "        return not any(count.different for count in self.counts.values())",
        "what was not read counts as the same",
        ("tests/unit/audit/test_compare.py",),
    ),
    Fault(
        AUDIT + "catching_up.py",
        "            if end >= wanted:",
        "            if end.offset >= 0:",
        "the directory of a controller that was killed is compared with what others committed since",
        ("tests/unit/audit/test_busy_clusters.py",),
    ),
    Fault(
        AUDIT + "quick.py",
        "    for name in log.topics():\n        if name not in seen:\n            comparison.add",
        "    for name in log.topics():\n        if False:\n            comparison.add",
        "a topic that ZooKeeper lacks is not noticed",
        (
            "tests/unit/audit/test_quick.py",
            "tests/unit/audit/test_both_sides.py",
        ),
    ),
    Fault(
        ZK + "backup.py",
        "    level = [path for path in paths.ROOTS if path not in without]",
        '    level = [f"/{name}" for name in session.children("/") or [] if name != "zookeeper"]',
        "an export reads what others keep beside Kafka, and may protect",
        ("tests/unit/zk/test_backup.py",),
    ),
    Fault(
        ZK + "backup.py",
        "        temporary.unlink(missing_ok=True)\n        raise",
        "        raise",
        "each export that fails leaves its file on the disk",
        ("tests/unit/zk/test_backup.py", "tests/unit/node/zookeeper/test_zookeeper_exports.py"),
    ),
    Fault(
        PHASES + "policy/later.py",
        "        return self.leader is not None or self.forgotten",
        "        return self.forgotten",
        "undo is offered while a Kafka without ZooKeeper leads and nothing goes to ZooKeeper",
        ("tests/unit/state_machine/evidence/test_later_kafka.py",),
    ),
    Fault(
        PHASES + "policy/conditions.py",
        "    if seen is None or seen.problem or seen.age_s >= seen.limit_s:",
        "    if seen is None or seen.age_s >= seen.limit_s:",
        "brokers are restarted though nobody knows what else the restart would change",
        ("tests/unit/state_machine/policy/test_road_gates.py",),
    ),
    Fault(
        PHASES + "finish/give_up.py",
        "reached(row) in (RollStep.WRITTEN, RollStep.STARTED, RollStep.WHOLE)",
        "reached(row) in (RollStep.STARTED, RollStep.WHOLE)",
        "a finalize is given up although the first start without the flag may have been ordered",
        ("tests/unit/state_machine/finish/test_finalize_given_up.py",),
    ),
    Fault(
        PHASES + "times/stretches.py",
        "    if steady < 0 or max(steady, wall) > UNOBSERVED_S:",
        "    if steady < 0 or steady > UNOBSERVED_S:",
        "the hours in which the service's host slept are no gap",
        ("tests/unit/state_machine/times/test_stretches.py",),
    ),
    Fault(
        "migrator/fleet/roll.py",
        "seen.process is ProcessState.RUNNING and not seen.gone and not cluster.holds:\n",
        "seen.process is ProcessState.RUNNING and not seen.gone and False:\n",
        "a broker that serves again is stopped while another one is down",
        ("tests/unit/state_machine/rolling/test_rolling.py",),
    ),
    Fault(
        PHASES + "rows/store.py",
        "RollStep.STOPPING if started else node.failed_in",
        "node.failed_in",
        "a broker that its host started between stop and write is rolled by nobody any more (Z2K-4202)",
        ("tests/unit/state_machine/rolling/test_rolling.py",),
    ),
    Fault(
        PHASES + "nodes/calls.py",
        "                if self._busy[call.host] < self._per_host:",
        "                if self._busy[call.host] < self._at_once:",
        "one host that hangs takes the threads of all others",
        ("tests/unit/state_machine/nodes/test_host_calls.py",),
    ),
    Fault(
        PHASES + "nodes/readings.py",
        "        if last is None or last.rows != rows:",
        "        if last is None:",
        "what a hanging host said before its node was restarted opens a gate",
        ("tests/unit/state_machine/nodes/test_host_calls.py",),
    ),
    Fault(
        PHASES + "rolling/looks.py",
        "        if not look.task.done() or look.row != now:",
        "        if not look.task.done():",
        "a look at a node from before a person's decision leads the next act on it",
        ("tests/unit/state_machine/evidence/test_hanging_hosts.py",),
    ),
    Fault(
        "migrator/fleet/roll.py",
        "    if seen.process is ProcessState.STOPPED and seen.gone:\n",
        "    if seen.process is ProcessState.STOPPED or seen.gone:\n",
        "a broker that crashed counts as stopped by a person, and nothing keeps it from starting",
        ("tests/unit/fleet/test_roll.py",),
    ),
    Fault(
        "migrator/fleet/evidence.py",
        "        (evidence.bundle == digest, ",
        "        (True, ",
        "evidence of another bundle is believed",
        ("tests/unit/fleet/test_by_others.py",),
    ),
    Fault(
        "migrator/http/bounded_port.py",
        "        if answered or self.conn.their_state is h11.SEND_BODY or self._write_clock is not None:\n",
        "        if answered or self._write_clock is not None:\n",
        "half-sent bodies from anybody keep everybody else out",
        ("tests/unit/api/test_limits.py",),
    ),
    Fault(
        PHASES + "rollback/reconciled.py",
        "            return look is not None and bool(look.zookeeper.intent) and _may_stop(snapshot, found)\n",
        "            return look is not None and _may_stop(snapshot, found)\n",
        "a controller that somebody stopped gets the file without the flag, without the gate of FINALIZING",
        ("tests/unit/state_machine/rollback/test_lost_journal_of_controllers.py",),
    ),
    Fault(
        PHASES + "rollback/reconciled.py",
        "    return found.stopped or not any(_misses_voter(snapshot, each) for each in others)\n",
        "    return True\n",
        "a resume stops a running stock controller while another voter is away",
        ("tests/unit/state_machine/rollback/test_lost_journal_of_controllers.py",),
    ),
    Fault(
        PHASES + "rollback/reconciled.py",
        "            return found.stopped and _misses_voter(snapshot, found.node)\n",
        "            return False\n",
        "a stock controller that the service stopped stays down in the soak",
        ("tests/unit/state_machine/rollback/test_lost_journal_of_controllers.py",),
    ),
    Fault(
        PHASES + "nodes/identity.py",
        "        if cluster_id and found is not None and found != cluster_id:",
        "        if False:",
        "a broker of another cluster with the same id is stopped and converted",
        ("tests/unit/state_machine/nodes/test_identity_of_hosts.py",),
    ),
    Fault(
        PHASES + "nodes/identity.py",
        "    counted = node.role == BROKERS and not gone",
        "    counted = False",
        "the file of a broker that the cluster still has is written under it",
        ("tests/unit/state_machine/nodes/test_identity_of_hosts.py",),
    ),
)
