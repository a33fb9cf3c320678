"""ZooKeeper after COMPLETED: still reachable, or unreachable without interruption since when, and kept until when."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from api.lines import status_lines
from api.views import migration_view
from migrator.findings.finding import FindingError
from migrator.findings.preflight import ZOOKEEPER_LOGIN_UNUSABLE, ZOOKEEPER_TLS_UNUSABLE
from migrator.findings.road import ZOOKEEPER_STILL_REACHABLE
from migrator.findings.zookeeper import ZOOKEEPER_LOST, ZOOKEEPER_REFUSES, ZOOKEEPER_UNREACHABLE
from state_machine.clusters.observe import Observation, ZooKeeperEnsemble, ZooKeeperObservation
from state_machine.finish.zookeeper_end import UNOBSERVED_S, end_text, observed_end
from state_machine.policy.gates import Holder
from state_machine.rows.documents import DAY_S, ZOOKEEPER_END, ZooKeeperEndDocument, document
from state_machine.settings import ServiceSettings, read_settings
from state_machine.work.reconcile import ENDED_ZOOKEEPER_EVERY_S
from tests.unit.state_machine.fakes import FakeZooKeeper
from tests.unit.state_machine.finish.test_version_raise import Completed

AWAY = ZooKeeperObservation(problem="zk:2181/kafka has not answered for 2 s")
THERE = ZooKeeperObservation(Holder.ANOTHER, holder_id=3000)
UNTOLD = ZooKeeperObservation(problem="its file is gone", code=ZOOKEEPER_LOGIN_UNUSABLE.code)


def after(*looks: tuple[float, ZooKeeperObservation], kept_days: float = 30) -> ZooKeeperEndDocument:
    found = None
    for at, zookeeper in looks:
        found = observed_end(found, Observation(at, zookeeper=zookeeper, zookeeper_at=at), kept_days)
    assert found is not None
    return found


def test_the_data_is_kept_for_the_days_that_are_configured_from_the_first_look_without_an_answer() -> None:
    found = after((1_000.0, THERE), (1_060.0, AWAY), (1_120.0, AWAY), (1_180.0, AWAY), kept_days=7)
    assert (found.reachable, found.unreachable_since, found.unobserved_s) == (False, 1_060.0, 0.0)
    assert found.may_delete_from == 1_060.0 + 7 * DAY_S


def test_one_look_that_answers_begins_anew() -> None:
    there = after((0.0, AWAY), (60.0, AWAY), (120.0, THERE))
    assert (there.reachable, there.unreachable_since, there.may_delete_from) == (True, None, None)
    assert after((0.0, AWAY), (60.0, THERE), (120.0, AWAY)).unreachable_since == 120.0


def test_time_in_which_the_service_did_not_run_moves_the_day_of_the_deletion_by_as_much() -> None:
    found = after((0.0, AWAY), (60.0, AWAY), (60.0 + 7_200.0, AWAY), (60.0 + 7_260.0, AWAY))
    assert (found.unreachable_since, found.unobserved_s) == (0.0, 7_200.0)
    assert found.may_delete_from == 7_200.0 + 30 * DAY_S
    assert "2.0 h that were not observed" in end_text(found, "zk:2181/kafka")
    assert after((0.0, AWAY), (UNOBSERVED_S, AWAY)).unobserved_s == 0.0


def test_after_that_time_an_answer_begins_anew_as_well() -> None:
    assert after((0.0, AWAY), (90_000.0, THERE), (90_060.0, AWAY)).unreachable_since == 90_060.0


def test_a_clock_that_went_back_begins_anew() -> None:
    assert after((5_000.0, AWAY), (1_000.0, AWAY)).unreachable_since == 1_000.0


def test_a_chroot_that_was_deleted_is_said_to_be_empty() -> None:
    nothing = ZooKeeperObservation(Holder.NOBODY, controller_epoch=-1)
    end = observed_end(None, Observation(10.0, zookeeper=nothing, zookeeper_at=10.0), 30)
    assert (end.reachable, end.empty) == (False, True)
    assert end_text(end, "zk:2181/kafka") == "ZooKeeper at zk:2181/kafka has nothing of this cluster any more"


def test_looks_that_tell_nothing_leave_it_as_it_was_and_their_time_does_not_count() -> None:
    found = after((0.0, AWAY), *((60.0 * turn, UNTOLD) for turn in range(1, 20)), (1_200.0, AWAY))
    assert (found.unreachable_since, found.unobserved_s) == (0.0, 1_200.0)
    unknown = after((0.0, UNTOLD))
    assert unknown.reachable is None
    assert "not known yet (its file is gone)" in end_text(unknown, "zk")
    assert "not known yet" in end_text(None, "zk")


@pytest.mark.parametrize(
    ("observed", "expected"),
    [
        (THERE, True),
        (ZooKeeperObservation(Holder.NOBODY, cluster_id="c"), True),
        (ZooKeeperObservation(Holder.NOBODY, controller_epoch=-1), False),
        (AWAY, False),
        (ZooKeeperObservation(problem="x", code=ZOOKEEPER_UNREACHABLE.code), False),
        (ZooKeeperObservation(problem="x", code=ZOOKEEPER_LOST.code), False),
        (ZooKeeperObservation(problem="x", code=ZOOKEEPER_REFUSES.code), False),
        (ZooKeeperObservation(problem="/controller is no JSON", code="Z2K-1001"), None),
        (ZooKeeperObservation(problem="no trust store", code=ZOOKEEPER_TLS_UNUSABLE.code), None),
        (UNTOLD, None),
        (ZooKeeperObservation(problem="x", code="unexpected"), None),
        (ZooKeeperObservation(), None),
    ],
)
def test_only_a_failure_of_the_ensemble_makes_it_unreachable_and_an_empty_chroot_is_gone(
    observed: ZooKeeperObservation, expected: bool | None
) -> None:
    assert observed.reachable is expected


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ZOOKEEPER_REFUSES.error(path="/controller", reason="no_auth"), ZOOKEEPER_REFUSES.code),
        (OSError("x"), "unexpected"),
    ],
)
def test_a_look_that_fails_keeps_why(error: Exception, code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_ensemble: ZooKeeperEnsemble, _ours: tuple[int, ...]) -> ZooKeeperObservation:
        raise error

    monkeypatch.setattr(ZooKeeperEnsemble, "_read", refuse)
    ensemble = ZooKeeperEnsemble("zk:2181")
    try:
        assert asyncio.run(ensemble.look(())).code == code
    finally:
        ensemble._thread.shutdown()


def test_days_below_zero_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ServiceSettings().zookeeper_kept_days == 30
    monkeypatch.setenv("ZK2KRAFT_SERVE_ZOOKEEPER_KEPT_DAYS", "0")
    assert read_settings(None).zookeeper_kept_days == 0
    monkeypatch.setenv("ZK2KRAFT_SERVE_ZOOKEEPER_KEPT_DAYS", "-1")
    with pytest.raises(FindingError, match="Z2K-4001"):
        read_settings(None)


class Counted(FakeZooKeeper):
    looks = 0

    async def look(self, ours: tuple[int, ...]) -> ZooKeeperObservation:
        self.looks += 1
        return self.observed


@pytest.fixture
def world(tmp_path: Path) -> Completed:
    made = Completed(tmp_path)
    made.zookeeper = Counted(made.zookeeper.observed)
    made.settings = made.settings.model_copy(update={"zookeeper_kept_days": 10.0})
    made.start_service()
    return made


def kept(world: Completed) -> ZooKeeperEndDocument:
    found = document(world.snapshot, ZOOKEEPER_END, ZooKeeperEndDocument)
    assert found is not None
    return found


def status(world: Completed) -> list[str]:
    return status_lines(migration_view(world.store, world.id, world.clock()))


def test_while_zookeeper_is_reachable_the_status_warns_and_when_it_is_not_it_says_until_when_to_keep_it(
    world: Completed,
) -> None:
    async def story() -> None:
        await world.to_completed()
        assert ZOOKEEPER_STILL_REACHABLE.code == "Z2K-4226"
        lines = status(world)
        assert any(line.startswith("Z2K-4226") for line in lines)
        assert any("end of ZooKeeper  ZooKeeper at zk:2181/kafka is still reachable" in line for line in lines)
        assert "/kafka/controller, /kafka/migration and /kafka/cluster/zk2kraft_finalize stay" in world.waiting
        world.zookeeper.observed = AWAY
        await world.rounds(2, seconds=ENDED_ZOOKEEPER_EVERY_S)
        await world.rounds(2, seconds=ENDED_ZOOKEEPER_EVERY_S)

    asyncio.run(story())
    lines = status(world)
    assert not any(line.startswith("Z2K-4226") for line in lines)
    assert any(
        "is unreachable since 1970-01-12T" in line and "may be deleted from 1970-01-22T" in line for line in lines
    )
    found = kept(world)
    assert (found.reachable, found.kept_days, found.problem) == (False, 10.0, AWAY.problem)
    assert "may be deleted from" in world.waiting


def test_zookeeper_is_observed_once_a_minute_and_a_new_life_of_the_service_goes_on_from_the_rows(
    world: Completed,
) -> None:
    async def story() -> None:
        await world.to_completed()
        world.zookeeper.observed = AWAY
        await world.rounds(1, seconds=ENDED_ZOOKEEPER_EVERY_S)
        zookeeper = world.zookeeper
        assert isinstance(zookeeper, Counted)
        before = zookeeper.looks
        await world.rounds(60, seconds=1.0)
        assert zookeeper.looks == before + 1
        since = kept(world).unreachable_since
        world.clock.pass_by(5 * 3600.0)
        world.start_service()
        await world.rounds(1, seconds=1.0)
        found = kept(world)
        assert found.unreachable_since == since
        assert found.unobserved_s == pytest.approx(5 * 3600.0, abs=120)

    asyncio.run(story())
