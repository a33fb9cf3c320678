"""Faults of `migrator/driver`: takeover, copy, dual-write and rollback as plans."""

from __future__ import annotations

from typing import Final

from tests.mutants.fault import Fault

DRIVER: Final = "migrator/driver/"


def of(*files: str) -> tuple[str, ...]:
    """Tests of this package."""
    return tuple(f"tests/unit/driver/{file}" for file in files)


FAULTS: Final = (
    Fault(
        DRIVER + "mirror.py",
        "        raises = max(0, min(wanted, self._raises_left))\n",
        "        raises = max(0, wanted)\n",
        "millions of writes stand before brokers are updated",
        of("test_lagging.py"),
    ),
    Fault(
        DRIVER + "chained.py",
        "migration_data(znode), claim.migration_version + number)",
        "migration_data(znode), -1)",
        "multis in flight apply after an earlier one was refused",
        of("test_mirror.py", "test_mirror_pipelined.py"),
    ),
    Fault(
        DRIVER + "chained.py",
        "        multis.append(Multi((guard, moved, *operations)))",
        "        multis.append(Multi((moved, *operations)))",
        "a controller that was replaced goes on writing",
        of("test_mirror.py", "test_mirror_pipelined.py"),
    ),
    Fault(
        DRIVER + "mirror.py",
        "    groups = [group for group in groups if group]\n",
        "    groups = [group for group in groups if group][::-1]\n",
        "a topic that was deleted and made again ends as deleted (K-07)",
        of("test_mirror.py", "test_mirror_pipelined.py"),
    ),
    Fault(
        DRIVER + "claim.py",
        "        zk_epoch=max(displaced.zk_epoch, displaced.kraft_epoch) + 1,",
        "        zk_epoch=displaced.zk_epoch,",
        "the old controller is not fenced",
        of("test_claim.py"),
    ),
    Fault(
        DRIVER + "claim.py",
        "    epoch = max(claim.zk_epoch, highest_state_epoch)\n",
        "    epoch = claim.zk_epoch\n",
        "the next ZooKeeper controller is outranked by partition states (F-40)",
        of("test_claim.py"),
    ),
    Fault(
        DRIVER + "claim.py",
        "        Check(paths.CONTROLLER_EPOCH, claim.epoch_version),\n        SetData(paths.MIGRATION, _migration",
        "        SetData(paths.MIGRATION, _migration",
        "a claim that was lost is made persistent",
        of("test_claim.py"),
    ),
    Fault(
        DRIVER + "claim.py",
        "        and observed.controller.kraft_epoch == claim.kraft_epoch\n",
        "",
        "the claim of a later leader counts as this leader's own",
        of("test_claim.py"),
    ),
    Fault(
        DRIVER + "guard.py",
        "        if not is_explained and (update.broker, topic, partition) not in removed:\n",
        "        if False:\n",
        "a full send moves logs aside that it does not name",
        of("test_guard.py"),
    ),
    Fault(
        DRIVER + "guard.py",
        "        if topic not in named:\n",
        "        if False:\n",
        "a full send drops the committed offsets of topics that it does not name",
        of("test_guard.py"),
    ),
    Fault(
        DRIVER + "guard.py",
        "    return {body: _named_in(body, deleted) for body in bodies}\n",
        "    return dict.fromkeys(bodies, _named_in(next(iter(bodies)), deleted)) if bodies else {}\n",
        "bytes that leave for one broker alone are judged by those of the first",
        of("test_guard.py"),
    ),
    Fault(
        DRIVER + "guard.py",
        "    wanted = REPLICAS_READ if deleted else IDS_READ\n",
        "    wanted = IDS_READ\n",
        "of a name that was once deleted, the replicas that the bytes say are not looked at (F-31)",
        of("test_guard.py"),
    ),
    Fault(
        DRIVER + "update_requests.py",
        "            for broker in told:\n",
        "            for broker in told[:1]:\n",
        "a state that was encoded once leaves for the first of its replicas alone",
        of("test_update_requests.py"),
    ),
    Fault(
        DRIVER + "guard.py",
        "    return known in ids or (ZERO_UUID in ids and known != now)\n",
        "    return bool(ids)\n",
        "a topic that was made again under its name is not protected from a full send (F-31)",
        of("test_guard.py"),
    ),
    Fault(
        DRIVER + "broker_updates.py",
        "        waiting = needs_zookeeper_first(delta) | self._topics_behind_held(delta)",
        "        waiting = needs_zookeeper_first(delta)",
        "brokers hear of a change before that of which it is a change",
        of("test_broker_updates.py"),
    ),
    Fault(
        DRIVER + "copy.py",
        "    return PRODUCER_ID_BLOCK * (brokers + 1)",
        "    return 0",
        "producer ids are handed out twice",
        of("test_copy.py"),
    ),
    Fault(
        DRIVER + "machine.py",
        "    (State.COMMITTING, Happened.MUST_ROLL_BACK): State.ROLLING_BACK_EARLY,",
        "    (State.COMMITTING, Happened.MUST_ROLL_BACK): State.ABORTING,",
        "an abort after the commit leaves a log that may lead again",
        of("test_machine.py"),
    ),
    Fault(
        DRIVER + "claim_table.py",
        "    (Stands.ABSENT, Leads.COMING): (_FENCE, Answer.PROVE, Answer.CLAIM_AGAIN),\n",
        "    (Stands.ABSENT, Leads.COMING): (Answer.RETIRE, Answer.RETIRE, Answer.RETIRE),\n",
        "one deleted `/controller` and a restart end every controller for good",
        of("test_claim_table.py"),
    ),
    Fault(
        DRIVER + "checks/restarts.py",
        "        return self.tiered >= 0 or self.local > self.earliest\n",
        "        return self.local > self.earliest + 1_000_000\n",
        "a switch-off that no broker has applied is not named, and the first restart loses the topic's older records",
        ("tests/unit/driver/test_restarts.py",),
    ),
)
