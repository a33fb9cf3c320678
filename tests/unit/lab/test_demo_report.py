"""What turns a demo red, each planted alone; and that a slow machine does not."""

from __future__ import annotations

from typing import Any

import pytest

from migrator.lab.demo.changes import DemoChange
from migrator.lab.demo.full_report import RolledBack, rollback_problems
from migrator.lab.demo.pace import DemoPace, Moments, Stretch, WakeUps, measure, stall_limit_ms
from migrator.lab.demo.report import (
    ClusterFigures,
    DemoReport,
    DualWrite,
    Rollback,
    TakeoverFigures,
    not_measured,
    notes,
    problems,
)
from migrator.lab.traffic.figures import Latency
from migrator.lab.traffic.ledger import NO_TRANSACTION, Acknowledged
from migrator.lab.traffic.proof import ReaderCheck, ReaderReport
from migrator.lab.traffic.status import SinceMark, TrafficState, TrafficStatus, Transactions

LEAST = 50_000


def a_latency(slowest_ms: float) -> Latency:
    return Latency(1_000, 3.0, slowest_ms / 2, slowest_ms)


def a_pace(slowest_ms: float = 150.0) -> DemoPace:
    return DemoPace(a_latency(slowest_ms), Latency(200, 0.1, 2.0, 8.0))


def a_stretch(
    name: str = "takeover",
    *,
    disturbed: bool = False,
    slowest_ms: float = 150.0,
    stall_ms: float = 90.0,
    late_ms: float = 5.0,
) -> Stretch:
    return Stretch(name, disturbed, a_latency(slowest_ms), stall_ms, Latency(20, 0.1, late_ms, late_ms))


def an_audit(number: int, purpose: str, *, passed: bool = True) -> dict[str, Any]:
    return {
        "id": number,
        "purpose": purpose,
        "passed": passed,
        "state": "done",
        "families": [],
        "brokers": of_brokers() if purpose == "demand" else None,
    }


def of_brokers(result: str = "passed", said: str = "9 keys of 2 brokers compared", *left_out: int) -> dict[str, Any]:
    return {"result": result, "said": said, "not_asked": list(left_out)}


AUDITS = [an_audit(1, "rehearsal"), an_audit(2, "demand"), an_audit(3, "demand")]


def a_reader(*checks: ReaderCheck) -> ReaderReport:
    return ReaderReport(int(bool(checks)), "run", True, 0, 0, 0, (), 3.0, checks)


def a_traffic(*, acknowledged: int = 2 * LEAST, lost: int = 0) -> TrafficStatus:
    return TrafficStatus(
        at=0.0,
        run="run",
        state=TrafficState.STOPPED,
        commands_done=0,
        topics=30,
        partitions=120,
        silent_partitions=0,
        missing_topics=(),
        settling=(),
        acknowledged=acknowledged,
        lost=lost,
        refused=0,
        to_deleted=0,
        outstanding=0,
        retried=0,
        transactions=Transactions(1, 0, 0, 0),
        latency=a_latency(20.0),
        since_mark=SinceMark("start", 0.0, 1, 1.0, 1.0),
        groups={},
        errors={},
        cpu_s=1.0,
        memory_mb=1,
    )


def a_window(unseen_s: float = 0.0) -> TakeoverFigures:
    return TakeoverFigures(0.2, 220, 0.4, a_latency(150.0), a_latency(150.0), 90.0, unseen_s)


def a_report(**changes: Any) -> DemoReport:
    known: dict[str, Any] = {
        "ok": False,
        "problems": [],
        "notes": [],
        "versions": {},
        "machine": {},
        "cluster": ClusterFigures(3, 1, 30, 120, 3),
        "seconds": 300.0,
        "phases": [],
        "window": a_window(),
        "pace": a_pace(),
        "stretches": [a_stretch(), a_stretch("dual-write", disturbed=True), a_stretch("rollback")],
        "traffic": a_traffic(),
        "outside_reader": a_reader(),
        "audits": AUDITS,
        "audit_page": "zk2kraft-demo/audit.html",
        "dual_write": DualWrite([DemoChange("one", 0.1, 0.1)], 1.0, 0.1, 0),
        "brokers_stopped": [],
        "fail_overs": [],
        "rollback": Rollback(0.4, 0.1, 0),
        "undo": {},
        "not_verified": [],
    }
    return DemoReport(**(known | changes))


def the_problems(**changes: Any) -> list[str]:
    return problems(a_report(**changes), acknowledged_least=LEAST)


def test_what_was_lost_or_misplaced_in_a_rollback_turns_the_whole_demo_red() -> None:
    def after(reader: ReaderReport, lost: int) -> list[str]:
        return rollback_problems(RolledBack("SOAK", 60.0, 100.0, [], {}, [], a_traffic(lost=lost), reader))

    assert after(a_reader(), 0) == []
    assert after(a_reader(ReaderCheck("order of records", 9, 1, 0, ("orders-0 at 7",))), 3) == [
        "outside reader after the rollback: order of records: orders-0 at 7",
        "3 records were given up by the producers before or in the rollback",
    ]


def test_what_clients_gave_up_is_not_called_lost() -> None:
    assert a_traffic(acknowledged=12_345).counters == "12,345 acknowledged, 0 lost"
    assert a_traffic(lost=1_234).counters.endswith(" acknowledged, 1,234 given up by the clients, never acknowledged")


def test_a_demo_that_lost_nothing_is_green() -> None:
    assert the_problems() == []
    assert notes(a_report()) == []


def test_a_slow_acknowledgement_is_a_note_and_not_a_problem() -> None:
    slow = {"stretches": [a_stretch(slowest_ms=648.6, stall_ms=640.0)]}
    assert the_problems(**slow) == []
    [note] = notes(a_report(**slow))
    assert note.startswith("takeover: the slowest acknowledgement took 648.6 ms")
    assert "the slowest 150.0 ms" in note


def test_a_confirmation_that_the_takeover_did_not_wait_for_is_a_note_and_one_that_disagrees_is_a_problem() -> None:
    reason = "the takeover was about to begin"
    stopped = {**an_audit(4, "confirmation", passed=False), "state": "stopped", "problem": reason}
    assert the_problems(audits=[*AUDITS, stopped]) == []
    assert notes(a_report(audits=[*AUDITS, stopped])) == [f"Spark did not confirm the rehearsal: {reason}"]
    other = an_audit(4, "confirmation", passed=False)
    assert the_problems(audits=[*AUDITS, other]) == ["audit 4 (confirmation) did not pass"]


def test_what_is_as_slow_as_the_run_before_is_not_even_noted() -> None:
    assert notes(a_report(pace=a_pace(400.0), stretches=[a_stretch(slowest_ms=900.0)])) == []


LOST = ReaderCheck("acknowledged records", 84_019, 1, 0, ("demo-03/1 offset 512 is not there",))
NOT_READ = ReaderCheck("acknowledged records", 0, 0, 4, ("no answer",))
REDS: dict[str, tuple[dict[str, Any], str]] = {
    "one acknowledged record lost": (
        {"outside_reader": a_reader(LOST)},
        "outside reader: acknowledged records: demo-03/1 offset 512 is not there",
    ),
    "a check that read nothing": (
        {"outside_reader": a_reader(NOT_READ)},
        "outside reader: acknowledged records: no answer",
    ),
    "a record given up": ({"traffic": a_traffic(lost=1)}, "1 records were given up by the producers"),
    "too little traffic": (
        {"traffic": a_traffic(acknowledged=LEAST - 1)},
        f"{LEAST - 1} of {LEAST} records were acknowledged",
    ),
    "a stall of 10 s in the takeover": (
        {"stretches": [a_stretch(stall_ms=10_000.0)]},
        "takeover: no acknowledgement for 10,000.0 ms; the limit of this run is 2,005.0 ms",
    ),
    "a stall of 10 s on a slow machine": (
        {"pace": a_pace(3_000.0), "stretches": [a_stretch(stall_ms=10_000.0)]},
        "takeover: no acknowledgement for 10,000.0 ms; the limit of this run is 8,005.0 ms",
    ),
    "a stall of 10 s while brokers are stopped": (
        {"stretches": [a_stretch("dual-write", disturbed=True, stall_ms=10_000.0)]},
        "dual-write: no acknowledgement for 10,000.0 ms; the limit of this run is 8,005.0 ms",
    ),
    "a stall of 10 s in the rollback": (
        {"stretches": [a_stretch("rollback", stall_ms=10_000.0)]},
        "rollback: no acknowledgement for 10,000.0 ms; the limit of this run is 2,005.0 ms",
    ),
    "no record at all in the takeover": (
        {"stretches": [Stretch("takeover", False, Latency(0, None, None, None), 90.0, a_latency(5.0))]},
        "takeover: no record was acknowledged",
    ),
    "an audit left out": ({"audits": AUDITS[:2]}, "1 of 2 audits were made in dual-write"),
    "a broker that contradicts": (
        {
            "audits": [
                *AUDITS[:2],
                an_audit(3, "demand") | {"brokers": of_brokers("diverged", "broker 1: 2 keys differ")},
            ]
        },
        "audit 3: brokers: diverged, broker 1: 2 keys differ",
    ),
    "a broker that was left out": (
        {"audits": [*AUDITS[:2], an_audit(3, "demand") | {"brokers": of_brokers("passed", "not asked: 1", 1)}]},
        "audit 3: brokers: passed, not asked: 1",
    ),
    "brokers that nobody asked": (
        {"audits": [*AUDITS[:2], an_audit(3, "demand") | {"brokers": None}]},
        "audit 3: brokers: they were not asked",
    ),
    "the rehearsal's audit left out": ({"audits": AUDITS[1:]}, "the rehearsal was not audited"),
    "an audit that did not pass": (
        {"audits": [*AUDITS[:2], an_audit(3, "demand", passed=False)]},
        "audit 3 (demand) did not pass",
    ),
    "a broker restarted by the rollback": (
        {"rollback": Rollback(0.4, 0.1, 1)},
        "1 brokers were restarted by the rollback",
    ),
}


@pytest.mark.parametrize("planted", REDS)
def test_one_planted_fault_alone_turns_the_demo_red(planted: str) -> None:
    changes, problem = REDS[planted]
    assert the_problems(**changes) == [problem]


def test_time_in_which_the_machine_stood_still_is_not_the_stall_of_anybody() -> None:
    assert the_problems(stretches=[a_stretch(stall_ms=6_500.0, late_ms=6_000.0)]) == []
    assert stall_limit_ms(a_pace(), a_stretch(late_ms=6_000.0)) == 8_000.0


def test_a_window_that_the_watcher_did_not_see_is_said_to_be_unmeasured() -> None:
    assert not_measured(a_window()) == []
    assert not_measured(a_window(1.2)) == [
        "time without controller: for 1.2 s of it the watcher did not reach ZooKeeper"
    ]


def test_the_pace_is_measured_before_the_takeover_and_a_stall_after_it() -> None:
    def acknowledged(sent_s: float, took_ms: int) -> Acknowledged:
        sent_us = int(sent_s * 1e6)
        return Acknowledged("t", 0, 0, "k", 0, NO_TRANSACTION, sent_us, sent_us + took_ms * 1000)

    entries = [acknowledged(1.0, 30), acknowledged(9.0, 50), acknowledged(10.2, 9_900), acknowledged(40.0, 20)]
    pace, stretches = measure(entries, WakeUps(), Moments(0.0, 10.0, 11.0, 39.0, 41.0))
    assert (pace.acknowledgement.count, pace.acknowledgement.max_ms) == (2, 50.0)
    assert [each.name for each in stretches] == ["takeover", "dual-write", "rollback"]
    assert stretches[0].acknowledgement.max_ms == 9_900.0
    assert stretches[0].longest_stall_ms == 11_050.0
