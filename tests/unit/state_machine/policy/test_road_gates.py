"""The gates from dual-write to the end: every single condition closes its gate, and says what is true now."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from migrator.findings.road import (
    BACKUP_FAILED,
    FILE_DRIFTED,
    FINALIZE_NOT_APPROVED,
    LOG_NOT_OBSERVED,
    NO_FLEET,
    SOAK_WITHOUT_DISK,
)
from migrator.model.verdict import Verdict
from state_machine.facts.accepted import Limits, WaiverFact
from state_machine.facts.canary import CanaryFact, CanaryFigures
from state_machine.facts.guards import GuardFact
from state_machine.facts.nodes import AboutNode
from state_machine.policy.audit_observations import AuditObservation, BrokerSaid, BrokersAudit, ScheduledAudits
from state_machine.policy.fleet_evidence import (
    FilesObserved,
    FleetEvidence,
    RestartChange,
    RestartsObserved,
    Roll,
    RollObserved,
    SoakObserved,
    VoterObserved,
)
from state_machine.policy.freshness import FLOOR_S
from state_machine.policy.gates import Evidence, Holder
from state_machine.policy.gates_forward import (
    controllers_are_replaced,
    finalize_evidence,
    finalize_is_committed,
    may_replace_controllers,
    may_roll_brokers,
)
from state_machine.rolling.table import cluster_ready
from tests.support.approvals import an_approval

NODES = (3000, 3001, 3002)
BROKERS = (0, 1, 2)
AFTER = "an audit passed after the last restart and election"


def whole(nodes: tuple[int, ...]) -> RollObserved:
    return RollObserved(nodes=nodes, whole=nodes)


def voters(**changes: Any) -> tuple[VoterObserved, ...]:
    fields = {"stock": True, "lag": 0, "ready": True, "behind_record": True, **changes}
    return tuple(VoterObserved(id=node, **fields) for node in NODES)


def a_canary(age_s: float = 2.0, **figures: Any) -> CanaryFact:
    """As old as that for an `evidence()`, whose time is 0."""
    return CanaryFact(wanted=True, figures=CanaryFigures(at=-age_s, **figures))


def evidence(road: dict[str, Any] | None = None, **changes: Any) -> Evidence:
    """Everything is as it has to be before FINALIZING."""
    fields: dict[str, Any] = {
        "fleet_problem": "",
        "log_problem": "",
        "migration": "MIGRATION",
        "leader": 3000,
        "kraft": BROKERS,
        "gone_s": 100.0,
        "settled_s": 100.0,
        "dual_write_lag": 0,
        "migration_offset": 900,
        "replacing": (),
        "rolls": {
            Roll.KRAFT: whole(BROKERS),
            Roll.STOCK: whole(NODES),
            Roll.SOAK: whole(NODES),
            Roll.FINAL: whole(NODES),
        },
        "voters": voters(),
        "files": FilesObserved(5.0, with_flag=NODES),
        "soak": SoakObserved(100.0, leaders=NODES, elections=2, snapshots=NODES, quiet_s=60.0),
        "approval": an_approval("bo", 60.0),
        "asker": "ann",
        "limits": Limits(settle_s=60.0, soak_s=90.0, brokers_gone_s=60.0),
        "backed_up": 10.0,
        "restarts": RestartsObserved(5.0),
        "named": BROKERS,
        "guards": tuple(GuardFact(node, "proven", "the guard starts it") for node in NODES),
        **(road or {}),
    }
    audit = AuditObservation(7, "passed", 0, 30.0, "audit 7 by quick")
    known = Evidence(
        observation_age_s=0.5,
        driver_state="DUAL_WRITE",
        holder=Holder.OURS,
        holder_id=3000,
        audits=ScheduledAudits(every_s=900.0, last=audit, passed_s=30.0, brokers=(of_brokers(),)),
        road=FleetEvidence(**fields),
    )
    return replace(known, **changes)


def of_brokers(number: int = 7, result: str = "passed", **fields: Any) -> BrokersAudit:
    """result: of broker 2; the others say what the log says."""
    said = tuple(BrokerSaid(each, result if each == 2 else "passed") for each in BROKERS)
    seen = BrokersAudit(id=number, brokers=said, age_s=30.0, asked_s=31.0, said=f"audit {number}")
    return replace(seen, **fields)


def closed(verdict: Verdict) -> list[str]:
    return [each.name for each in verdict.failed]


def codes(verdict: Verdict) -> set[str]:
    return {code for each in verdict.failed for code in each.codes}


@pytest.mark.parametrize(
    "gate", [may_roll_brokers, may_replace_controllers, controllers_are_replaced, finalize_evidence]
)
def test_a_gate_opens_when_every_condition_is_true(gate: Any) -> None:
    assert closed(gate(evidence())) == []


def test_a_voter_that_had_everything_a_moment_ago_follows() -> None:
    """Its fetch is under way: `advance` was refused as a voter was one record behind."""
    assert closed(may_replace_controllers(evidence({"voters": voters(lag=1, caught_up_ms_ago=400)}))) == []


@pytest.mark.parametrize(("lacking_s", "named"), [(None, False), (59.0, False), (61.0, True)])
def test_partitions_that_stay_under_replicated_are_said_to_have_a_flaw_of_a_broker_as_cause(
    lacking_s: float | None, named: bool
) -> None:
    found = may_replace_controllers(evidence({"under_replicated": 8, "lacking_s": lacking_s})).conditions
    said = next(each.message for each in found if each.name == "no partition is under-replicated or without a leader")
    assert "under-replicated partitions: 8" in said
    assert ("Z2K-2043" in said) is named


@pytest.mark.parametrize(
    ("road", "name"),
    [
        ({"zookeeper": (2,), "kraft": (0, 1)}, "every registered broker is in KRaft mode"),
        ({"gone_s": 59.0}, "/brokers/ids is empty, and was for 60 s"),
        ({"gone_s": None, "zookeeper_ids": (2,)}, "/brokers/ids is empty, and was for 60 s"),
        ({"orphans": 1}, "every replica has a directory of a registered broker"),
        ({"unassigned": (1,)}, "every replica has a directory of a registered broker"),
        ({"scram_at_stake": ("ann",)}, "no SCRAM credential is at stake"),
        ({"under_replicated": 1}, "no partition is under-replicated or without a leader"),
        ({"voters": voters(stock=False)}, "every voter is a stock controller"),
        ({"voters": voters(ready=False)}, "every voter runs with the migration flag"),
        ({"voters": voters(lag=3)}, "every voter has what is committed"),
        ({"voters": voters(lag=None)}, "every voter has what is committed"),
        ({"voters": voters(lag=1, caught_up_ms_ago=2_001)}, "every voter has what is committed"),
        ({"migration": "POST_MIGRATION"}, "the log says MIGRATION"),
        ({"dual_write_lag": 1}, "ZooKeeper has every committed change"),
        ({"dual_write_lag": None}, "ZooKeeper has every committed change"),
        ({"files": None}, "every file is as rendered"),
        (
            {"files": FilesObserved(5.0, drifted=(AboutNode("broker", 1, "/etc/kafka.properties"),))},
            "every file is as rendered",
        ),
        ({"files": FilesObserved(5.0, not_read=(AboutNode("broker", 1, "/etc/k"),))}, "every file is as rendered"),
        ({"files": FilesObserved(500.0)}, "every file is as rendered"),
        ({"soak": SoakObserved(89.0, elections=1, snapshots=NODES)}, "the soak lasted 90 s"),
        ({"soak": SoakObserved(100.0, elections=0, snapshots=NODES)}, "an election was held in the soak"),
        ({"soak": SoakObserved(100.0, elections=1, snapshots=(3000,))}, "every stock controller wrote a snapshot"),
        ({"soak": SoakObserved(100.0, (3000, 3001), 9, NODES)}, "every stock controller led in the soak"),
        ({"soak": SoakObserved(100.0, NODES, 9, NODES, quiet_s=20.0)}, AFTER),
        ({"rolls": {Roll.SOAK: RollObserved(NODES)}}, "every stock controller was restarted in the soak"),
        ({"backed_up": None}, "ZooKeeper, the metadata log and the files are backed up"),
        ({"approval": None}, "another person approved FINALIZING"),
        ({"approval": an_approval("bo", 4 * 3600.0 + 1)}, "another person approved FINALIZING"),
        ({"approval": an_approval("bo", 60.0, fits=False)}, "another person approved FINALIZING"),
        ({"approval": an_approval("ann", 60.0)}, "another person approved FINALIZING"),
        ({"approval": an_approval(" Ann", 60.0)}, "another person approved FINALIZING"),
        ({"approval": an_approval("operator", 60.0)}, "another person approved FINALIZING"),
        ({"asker": "operator"}, "another person approved FINALIZING"),
        ({"log_problem": "nobody leads"}, "the metadata log is observed"),
    ],
)
def test_each_condition_alone_keeps_a_migration_from_its_end(road: dict[str, Any], name: str) -> None:
    assert name in closed(finalize_evidence(evidence(road)))


def test_a_single_operator_may_approve_what_he_asks_for_where_that_is_configured() -> None:
    road = {
        "approval": an_approval("ann", 60.0),
        "limits": Limits(single_operator=True, soak_s=90.0),
    }
    assert closed(finalize_evidence(evidence(road))) == []


@pytest.mark.parametrize("audits", [None, ScheduledAudits(every_s=900.0)])
def test_no_finalize_without_a_fresh_audit(audits: ScheduledAudits | None) -> None:
    assert "the last audit passed, under 10 minutes ago" in closed(finalize_evidence(evidence(audits=audits)))


def test_what_is_not_known_is_no_yes() -> None:
    unknown = evidence(road=None)
    for gate in (may_roll_brokers, may_replace_controllers, controllers_are_replaced, finalize_evidence):
        found = gate(replace(unknown, road=None))
        assert not found.holds
        assert LOG_NOT_OBSERVED.code in codes(found)


def test_controllers_are_replaced_only_after_every_broker_went_over() -> None:
    half = {
        "rolls": {Roll.KRAFT: RollObserved(BROKERS, whole=(0, 1), under_way=(2,))},
        "zookeeper": (2,),
        "kraft": (0, 1),
    }
    found = closed(may_replace_controllers(evidence(half)))
    assert found[:2] == ["every broker was restarted into KRaft mode", "every registered broker is in KRaft mode"]


@pytest.mark.parametrize("replacing", [None, (("Z2K-2161", "a group configuration stands"),)])
def test_stock_does_not_follow_on_a_log_that_it_stumbles_on(replacing: Any) -> None:
    found = may_replace_controllers(evidence({"replacing": replacing}))
    assert closed(found) == ["nothing in the log or in ZooKeeper stops a stock controller"]


@pytest.mark.parametrize("state", ["not proven", "not read"])
def test_controllers_are_replaced_only_where_each_host_proves_its_guard(state: str) -> None:
    guards = (
        GuardFact(3000, "proven", "it is"),
        GuardFact(3001, state, "who knows"),
        GuardFact(3002, "proven", "it is"),
    )
    verdict = may_replace_controllers(evidence({"guards": guards}))
    assert closed(verdict) == ["the guard of controller 3001 is proven"]
    assert f"{state}: who knows" in verdict.failed[0].message
    assert codes(verdict) == {"Z2K-7040"}
    waiver = WaiverFact("Z2K-7040", 3001, "no supervisor starts it by itself", "ops", 2e9)
    waived = may_replace_controllers(evidence({"guards": guards, "waivers": (waiver,)}))
    assert closed(waived) == []
    said = next(each.message for each in waived.conditions if each.name == "the guard of controller 3001 is proven")
    assert "waived by ops until 2033-05-18T03:33:20Z (no supervisor starts it by itself)" in said
    of_another = replace(waiver, node=3002)
    other = may_replace_controllers(evidence({"guards": guards, "waivers": (of_another,)}))
    assert closed(other) == ["the guard of controller 3001 is proven"]


@pytest.mark.parametrize("road", [{"guards": ()}, {"files": None}])
def test_a_guard_that_nobody_looked_at_is_no_guard(road: dict[str, Any]) -> None:
    assert "the guard of every controller is proven" in closed(may_replace_controllers(evidence(road)))


@pytest.mark.parametrize(
    ("age_s", "limit_s", "is_closed"), [(119.0, 120.0, False), (120.0, 120.0, True), (150.0, 180.0, False)]
)
def test_a_guard_that_nobody_looked_at_lately_is_no_guard(age_s: float, limit_s: float, is_closed: bool) -> None:
    guards = (GuardFact(3000, "proven", "it is"), GuardFact(3001, "proven", "it is", -age_s))
    road = {"guards": guards, "files": FilesObserved(10.0, limit_s=limit_s)}
    expected = ["the guard of controller 3001 is proven"] if is_closed else []
    assert closed(may_replace_controllers(evidence(road))) == expected


@pytest.mark.parametrize("offset", [None, -1, 0])
def test_stock_stays_inactive_below_an_offset(offset: int | None) -> None:
    found = closed(may_replace_controllers(evidence({"migration_offset": offset})))
    assert found == ["/migration has an offset above 0 (at -1 stock stays inactive)"]


def test_the_end_is_reached_when_every_voter_has_the_record_and_no_file_names_zookeeper() -> None:
    final = {"migration": "POST_MIGRATION", "voters": voters(ready=False)}
    assert closed(finalize_is_committed(evidence(final))) == []
    behind = {**final, "voters": voters(ready=False, behind_record=False)}
    assert closed(finalize_is_committed(evidence(behind))) == ["that record is on every voter"]
    named = {**final, "files": FilesObserved(5.0, with_zookeeper=(AboutNode("broker", 1, "/etc/kafka.properties"),))}
    assert closed(finalize_is_committed(evidence(named))) == ["no file has a ZooKeeper key"]


def test_each_closed_condition_has_the_page_that_says_what_to_do() -> None:
    assert codes(may_roll_brokers(evidence({"fleet_problem": "no inventory"}))) == {NO_FLEET.code} == {"Z2K-4207"}
    assert codes(may_roll_brokers(evidence({"log_problem": "nobody leads"}))) == {LOG_NOT_OBSERVED.code} == {"Z2K-4208"}
    assert codes(may_roll_brokers(evidence({"backed_up": None}))) == {BACKUP_FAILED.code} == {"Z2K-4214"}
    assert codes(finalize_evidence(evidence({"files": None}))) == {FILE_DRIFTED.code} == {"Z2K-4209"}
    assert codes(finalize_evidence(evidence({"approval": None}))) == {FINALIZE_NOT_APPROVED.code} == {"Z2K-4210"}
    blind = {"soak": SoakObserved(100.0, NODES, elections=1, snapshots=(), not_listed=NODES)}
    assert codes(finalize_evidence(evidence(blind))) == {SOAK_WITHOUT_DISK.code} == {"Z2K-4215"}


def test_a_file_that_nobody_can_read_is_waived_for_its_node_and_drift_never_is() -> None:
    unread = FilesObserved(5.0, not_read=(AboutNode("broker", 1, "/etc/k.properties: its actuator cannot read files"),))
    verdict = finalize_evidence(evidence({"files": unread}))
    assert codes(verdict) == {"Z2K-4209", "Z2K-4218"}
    waiver = WaiverFact("Z2K-4218", 1, "an appliance", "ops", 2e9)
    assert closed(finalize_evidence(evidence({"files": unread, "waivers": (waiver,)}))) == []
    other = replace(waiver, node=2)
    assert closed(finalize_evidence(evidence({"files": unread, "waivers": (other,)}))) == ["every file is as rendered"]
    drifted = FilesObserved(5.0, drifted=(AboutNode("broker", 1, "/etc/k.properties"),))
    for what in ("Z2K-4209", "Z2K-4218", "every file is as rendered"):
        accepted = evidence({"files": drifted, "waivers": (replace(waiver, what=what),)})
        assert closed(finalize_evidence(accepted)) == ["every file is as rendered"]


def test_snapshots_that_cannot_be_listed_are_waived_by_name_and_only_there() -> None:
    waiver = WaiverFact("Z2K-4215", 3001, "its host lists nothing", "ops", 2e9)
    soak = SoakObserved(100.0, NODES, elections=1, snapshots=(3000, 3002), not_listed=(3001,))
    verdict = finalize_evidence(evidence({"soak": soak, "waivers": (waiver,)}))
    assert closed(verdict) == []
    assert any("3001 is waived by ops: its host lists nothing" in each.message for each in verdict.conditions)
    listed = replace(soak, not_listed=())  # it can be listed now, and has none
    assert closed(finalize_evidence(evidence({"soak": listed, "waivers": (waiver,)}))) == [
        "every stock controller wrote a snapshot"
    ]


def test_credentials_that_a_restart_may_lose_are_named_and_need_a_waiver() -> None:
    """Z2K-4224: the service cannot see whether a newer snapshot has them already (K-28)."""
    users = tuple(f"user-{number}" for number in range(7))
    name = "no SCRAM credential is at stake"
    verdict = finalize_evidence(evidence({"scram_at_stake": users}))
    assert closed(verdict) == [name]
    (found,) = (each for each in verdict.conditions if each.name == name)
    assert found.codes == ("Z2K-4224",)
    assert found.message.endswith("of user-0, user-1, user-2, user-3, user-4 and 2 more")
    waiver = WaiverFact("Z2K-4224", None, "each log check ended with 0", "ops", 2e9)
    assert closed(finalize_evidence(evidence({"scram_at_stake": users, "waivers": (waiver,)}))) == []


# --- what a restart would change --------------------------------------------------------------------------

UNMEANT = "no change waits for a restart of a broker"
LOST = RestartChange("Z2K-1058", 1, "topic t would begin at its local log")


def a_waiver(what: str, node: int | None = None) -> WaiverFact:
    return WaiverFact(what, node, "we looked", "ann", 2_000_000_000.0)


@pytest.mark.parametrize(
    ("restarts", "says"),
    [
        (None, "not known: the service has not compared them yet"),
        (RestartsObserved(5.0, "Z2K-2001 ZooKeeper does not answer"), "not known: Z2K-2001 ZooKeeper does not answer"),
        (RestartsObserved(FLOOR_S), "not known: the last comparison is 120 s old"),
        (RestartsObserved(5.0, changes=(LOST,)), "Z2K-1058 topic t would begin at its local log"),
    ],
)
def test_brokers_are_not_rolled_while_a_change_waits_for_their_restart_or_nobody_knows(
    restarts: RestartsObserved | None, says: str
) -> None:
    (found,) = may_roll_brokers(evidence({"restarts": restarts})).failed
    assert (found.name, found.message) == (UNMEANT, says)
    assert set(found.codes) & {"Z2K-1058", "Z2K-1060"}
    for roll in (Roll.JOIN, Roll.KRAFT):
        ready = cluster_ready(evidence({"restarts": restarts, "zookeeper_ids": BROKERS}), roll)
        assert UNMEANT in closed(ready), roll


def test_a_change_that_waits_is_waived_by_its_code_for_its_broker() -> None:
    both = RestartsObserved(5.0, changes=(LOST, replace(LOST, node=2)))
    (found,) = may_roll_brokers(evidence({"restarts": both, "waivers": (a_waiver("Z2K-1058", 1),)})).failed
    assert "Z2K-1058 is waived by ann (we looked)" in found.message
    assert closed(may_roll_brokers(evidence({"restarts": both, "waivers": (a_waiver("Z2K-1058"),)}))) == []
    unread = RestartsObserved(5.0, changes=(RestartChange("Z2K-1060", 2, "its file is not read"),))
    assert codes(may_roll_brokers(evidence({"restarts": unread}))) == {"Z2K-1060"}
    for waived in ("Z2K-1060", "Z2K-4218"):  # who accepted that a file is not read accepted this as well
        assert closed(may_roll_brokers(evidence({"restarts": unread, "waivers": (a_waiver(waived, 2),)}))) == []


def test_a_line_of_a_gate_names_five_changes_and_counts_the_others() -> None:
    many = RestartsObserved(5.0, changes=tuple(replace(LOST, said=f"change {each}") for each in range(12)))
    (found,) = may_roll_brokers(evidence({"restarts": many})).failed
    assert found.message.endswith("Z2K-1058 change 4; and 7 more")


NONE_WELL = "no audit found every broker equal to the log"


@pytest.mark.parametrize(
    ("brokers", "restarted_s", "code", "said"),
    [
        ((), None, "Z2K-4066", NONE_WELL),
        ((of_brokers(age_s=1801.0),), None, "Z2K-4066", "ended 1801 s ago"),
        ((of_brokers(),), 30.5, "Z2K-4066", "the last restart or election was 30 s ago, audit 7 31 s ago"),
        ((of_brokers(result="incomplete"),), None, "Z2K-4066", NONE_WELL),
        ((of_brokers(result="left out"),), None, "Z2K-4066", NONE_WELL),
        ((of_brokers(brokers=()),), None, "Z2K-4066", NONE_WELL),
        ((of_brokers(9, "diverged"), of_brokers(8, "diverged"), of_brokers(7)), None, "Z2K-4065", "audit 9"),
        ((of_brokers(9, "diverged"), of_brokers(8, brokers=()), of_brokers(7, "diverged"), of_brokers(6)),
         None, "Z2K-4065", "audit 9"),
    ],
    ids=["never", "too old", "before the restart", "silent", "left out", "none read", "twice", "none read between"],
)  # fmt: skip
@pytest.mark.parametrize("gate", [may_roll_brokers, may_replace_controllers, finalize_evidence])
def test_no_step_forward_where_brokers_are_not_known_to_say_what_the_log_says(
    gate: Callable[[Evidence], Verdict],
    brokers: tuple[BrokersAudit, ...],
    restarted_s: float | None,
    code: str,
    said: str,
) -> None:
    found = gate(with_brokers(*brokers, restarted_s=restarted_s))
    closed_by = [each for each in found.conditions if not each.holds and code in each.codes]
    assert len(closed_by) == 1
    assert said in closed_by[0].message


def with_brokers(*brokers: BrokersAudit, waivers: tuple[WaiverFact, ...] = (), **fields: Any) -> Evidence:
    known = evidence({"waivers": waivers})
    assert known.audits is not None
    return replace(known, audits=replace(known.audits, brokers=brokers, **fields))


def test_one_difference_of_a_broker_closes_nothing_but_the_step_that_cannot_be_undone() -> None:
    seen = with_brokers(of_brokers(8, "diverged"), of_brokers(7), restarted_s=40.0)
    assert may_roll_brokers(seen).holds
    assert closed(finalize_evidence(seen)) == ["brokers said what the log says, lately and since the last restart"]


def test_the_last_pass_is_remembered_beyond_the_audits_that_are_kept_at_hand() -> None:
    before = of_brokers(3, brokers=(), age_s=1700.0, asked_s=1701.0)
    seen = with_brokers(*(of_brokers(20 - each, "left out") for each in range(10)), brokers_passed=before)
    assert may_roll_brokers(seen).holds


@pytest.mark.parametrize(
    ("result", "code", "node", "opens"),
    [
        ("incomplete", "Z2K-4066", 2, True),
        ("left out", "Z2K-4066", 2, True),
        ("diverged", "Z2K-4065", 2, True),
        ("diverged", "Z2K-4066", 2, False),
        ("incomplete", "Z2K-4066", 1, False),
        ("incomplete", "Z2K-4066", None, False),
    ],
)
@pytest.mark.parametrize("gate", [may_roll_brokers, may_replace_controllers, finalize_evidence])
def test_a_broker_is_accepted_by_its_number_and_by_what_is_wrong_with_it(
    gate: Callable[[Evidence], Verdict], result: str, code: str, node: int | None, *, opens: bool
) -> None:
    waiver = WaiverFact(code, node, "its host is gone", "Ada", 2e9)
    seen = with_brokers(of_brokers(8, result), of_brokers(7, result), waivers=(waiver,))
    assert gate(seen).holds is opens
    told = [each.message for each in gate(seen).conditions if each.name.startswith("brokers said")]
    assert ("broker 2 is waived by Ada (its host is gone)" in told[0]) is opens


def test_a_waiver_without_a_node_does_not_hide_the_one_of_a_broker() -> None:
    waivers = (WaiverFact("Z2K-4066", None, "all", "Bo", 2e9), WaiverFact("Z2K-4066", 2, "gone", "Ada", 2e9))
    assert may_roll_brokers(with_brokers(of_brokers(8, "incomplete"), waivers=waivers)).holds


def test_a_waiver_without_a_node_opens_no_gate_where_no_broker_was_asked() -> None:
    waiver = WaiverFact("Z2K-4066", None, "all of them", "Ada", 2e9)
    assert not may_roll_brokers(with_brokers(waivers=(waiver,))).holds
