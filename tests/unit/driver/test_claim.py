"""Who is controller: each multi of the claim against a ZooKeeper in memory, and what others may do in between."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from migrator.driver.claim import (
    Claim,
    ClaimObservation,
    left_controller,
    plan_abort,
    plan_claim,
    plan_displace,
    plan_fence,
    plan_leave_controller,
    plan_persist,
    plan_raise,
    plan_rollback,
    recognise,
    refuse_claim,
    still_ours,
)
from migrator.driver.claim_table import Brokers, Known, judge
from migrator.driver.way_back import left_migration
from migrator.findings.finding import Occurrence
from migrator.model.image import NOWHERE, Position
from migrator.node.zookeeper.claims import read_claim
from migrator.zk import paths
from migrator.zk.multi import Check, Create, Delete, Multi, Operation, SetData
from migrator.zk.znodes import ControllerZnode, MigrationZnode, controller_data, migration_data
from tests.support.fake_zookeeper import FakeEnsemble, FakeSession

VOTERS = (3000, 3001, 3002)


def refuse_resume(
    observed: ClaimObservation, voters: tuple[int, ...], kraft_epoch: int, at: Position, born: int | None = None
) -> Occurrence | None:
    """Beside brokers in ZooKeeper mode; the other modes are cells of test_claim_table.py."""
    return judge(observed, Known(voters, kraft_epoch, at, born=born), Brokers.ZOOKEEPER).finding


US = 3000
KRAFT_EPOCH = 5
COMMITTED = Position(epoch=5, offset=1200)


def a_zookeeper_cluster(epoch: int = 7, controller: int | None = 1) -> FakeEnsemble:
    """Ruled by a ZooKeeper-mode broker, in a session of its own."""
    ensemble = FakeEnsemble()
    ensemble.create("/brokers")
    ensemble.create(paths.CONTROLLER_EPOCH, b"0")
    broker = ensemble.session()
    for each in range(1, epoch + 1):
        apply(broker, SetData(paths.CONTROLLER_EPOCH, str(each).encode()))
    if controller is not None:
        apply(broker, Create(paths.CONTROLLER, controller_data(controller, -1, 1), ephemeral=True))
    return ensemble


def apply(session: FakeSession, *operations: Operation) -> None:
    assert session.apply(Multi(operations)).applied


def claim_it(session: FakeSession, *, ephemeral: bool = True, kraft_epoch: int = KRAFT_EPOCH, node: int = US) -> Claim:
    observed = read_claim(session)
    multi, claim = plan_claim(observed, node=node, kraft_epoch=kraft_epoch, now_ms=2, ephemeral=ephemeral)
    assert session.apply(multi).applied
    return claim


def persist_it(session: FakeSession, claim: Claim) -> Claim:
    multi, settled = plan_persist(claim, COMMITTED, now_ms=3)
    assert session.apply(multi).applied
    return settled


def matches(observed: ClaimObservation, claim: Claim) -> bool:
    """What stands is exactly what the claim says, each version included."""
    return (
        still_ours(observed, claim)
        and recognise(observed, claim)
        and observed.controller_version == claim.controller_version
        and bool(observed.controller_owner) == claim.ephemeral
        and observed.migration is not None
        and (observed.migration.kraft_metadata_epoch, observed.migration.kraft_metadata_offset)
        == (claim.at.epoch, claim.at.offset)
    )


# --- the claim --------------------------------------------------------------------------------------------


def test_nothing_of_the_old_controller_can_be_written_after_the_claim() -> None:
    """R-866-01."""
    ensemble = a_zookeeper_cluster()
    old, session = ensemble.session(), ensemble.session()
    fence = Check(paths.CONTROLLER_EPOCH, read_claim(old).epoch_version)
    assert old.apply(Multi((fence, SetData("/brokers", b"old")))).applied
    claim = claim_it(session)
    outcome = old.apply(Multi((fence, SetData("/brokers", b"too late"))))
    assert (outcome.failed_at, outcome.error) == (0, "bad_version")
    assert matches(read_claim(session), claim)


def displace(session: FakeSession) -> Claim:
    multi, displaced = plan_displace(read_claim(session), node=US, kraft_epoch=KRAFT_EPOCH, now_ms=2)
    assert session.apply(multi).applied
    return displaced


def test_k27_a_displaced_controller_may_end_what_it_is_about_until_the_epoch_is_raised() -> None:
    ensemble = a_zookeeper_cluster()
    old, session = ensemble.session(), ensemble.session()
    fence = Check(paths.CONTROLLER_EPOCH, read_claim(old).epoch_version)
    displaced = displace(session)
    assert matches(read_claim(session), displaced)
    assert old.apply(Multi((fence, SetData("/brokers", b"the rest of it")))).applied

    multi, claim = plan_raise(displaced)
    assert session.apply(multi).applied
    assert not old.apply(Multi((fence, SetData("/brokers", b"too late")))).applied
    assert matches(read_claim(session), claim)
    assert claim.zk_epoch == 8


def test_k27_whoever_dies_between_the_two_steps_leaves_a_cluster_that_elects() -> None:
    ensemble = a_zookeeper_cluster()
    session = ensemble.session()
    displaced = displace(session)
    ensemble.expire(session.session_id)
    observed = read_claim(ensemble.session())
    assert (observed.controller, observed.epoch) == (None, 7)
    assert refuse_claim(observed, VOTERS, KRAFT_EPOCH) is None
    assert not ensemble.session().apply(plan_raise(displaced)[0]).applied


def test_k27_a_displaced_controllers_place_is_rolled_back_with_the_epoch_as_it_was() -> None:
    ensemble = a_zookeeper_cluster()
    session = ensemble.session()
    displaced = displace(session)
    assert left_controller(read_claim(session), VOTERS, KRAFT_EPOCH)
    assert session.apply(plan_abort(displaced)).applied
    assert ensemble.tree() == {"/": b"", "/brokers": b"", paths.CONTROLLER_EPOCH: b"7"}
    assert not session.apply(plan_raise(displaced)[0]).applied


@pytest.mark.parametrize(("zookeeper", "kraft", "claimed"), [(7, 5, 8), (7, 7, 8), (2, 90, 91), (0, 1, 2)])
def test_the_epoch_claimed_is_above_both_worlds(zookeeper: int, kraft: int, claimed: int) -> None:
    """R-866-05, F-40."""
    ensemble = a_zookeeper_cluster(zookeeper)
    claim = claim_it(ensemble.session(), kraft_epoch=kraft)
    assert claim.zk_epoch == claimed
    assert ensemble.nodes[paths.CONTROLLER_EPOCH].data == str(claimed).encode()


def test_a_controller_that_dies_before_the_commit_rolls_the_cluster_back_with_nobody_awake() -> None:
    ensemble = a_zookeeper_cluster()
    session = ensemble.session()
    claim_it(session)
    ensemble.expire(session.session_id)
    observed = read_claim(ensemble.session())
    assert observed.controller is None
    assert refuse_claim(observed, VOTERS, KRAFT_EPOCH) is None  # what is left of /migration is ours, and says nothing


@pytest.mark.parametrize("looked", [False, True])
def test_a_claim_that_an_earlier_leader_planned_is_refused_after_the_fence(looked: bool) -> None:
    """It was paused between reading and writing, and ZooKeeper's own controller has not changed since."""
    ensemble = a_zookeeper_cluster()
    session = ensemble.session()
    if looked:  # a stock controller was there once
        assert session.apply(Multi((Create(paths.MIGRATION, migration_data(MigrationZnode())),))).applied
    planned, _ = plan_claim(read_claim(session), node=3000, kraft_epoch=KRAFT_EPOCH, now_ms=1, ephemeral=True)
    epoch = read_claim(session).epoch_version
    assert session.apply(plan_fence(read_claim(session))).applied
    assert not ensemble.session().apply(planned).applied
    assert read_claim(session).epoch_version == epoch
    assert refuse_claim(read_claim(session), VOTERS, KRAFT_EPOCH) is None  # the next one may
    claim_it(session)


def test_after_the_commit_the_claim_outlives_its_session() -> None:
    ensemble = a_zookeeper_cluster()
    session = ensemble.session()
    settled = persist_it(session, claim_it(session))
    ensemble.expire(session.session_id)
    assert matches(read_claim(ensemble.session()), settled)
    assert not settled.ephemeral


def test_settling_again_only_moves_the_offset() -> None:
    ensemble = a_zookeeper_cluster()
    session = ensemble.session()
    settled = persist_it(session, claim_it(session))
    multi, again = plan_persist(settled, Position(5, 1300), now_ms=9)
    assert [type(each) for each in multi.operations] == [Check, SetData]
    assert session.apply(multi).applied
    assert matches(read_claim(session), again)


kraft_or_zookeeper = st.sampled_from(
    [None, controller_data(1, -1, 1), controller_data(3001, 4, 1), b'{"version":1,"brokerid":2}']
)
migrations = st.sampled_from([None, migration_data(MigrationZnode(3001, 4)), b"", b"null"])


@given(
    epoch=st.integers(0, 12),
    kraft_epoch=st.integers(1, 12),
    controller=kraft_or_zookeeper,
    migration=migrations,
    rewrites=st.integers(0, 3),
    ephemeral=st.booleans(),
)
def test_the_versions_of_a_claim_are_those_that_stand_whatever_was_there_before(
    epoch: int, kraft_epoch: int, controller: bytes | None, migration: bytes | None, rewrites: int, ephemeral: bool
) -> None:
    ensemble = a_zookeeper_cluster(epoch, controller=None)
    for path, data in ((paths.CONTROLLER, controller), (paths.MIGRATION, migration)):
        if data is not None:
            ensemble.create(path, data)
            for _ in range(rewrites):
                apply(ensemble.session(), SetData(path, data))
    session = ensemble.session()
    claim = claim_it(session, ephemeral=ephemeral, kraft_epoch=kraft_epoch)
    assert matches(read_claim(session), claim)
    settled = persist_it(session, claim)
    assert matches(read_claim(session), settled)


# --- somebody else in between -----------------------------------------------------------------------------

Change = Callable[[FakeSession], None]


def another_controller_is_elected(session: FakeSession) -> None:
    observed = read_claim(session)
    operations: list[Operation] = [SetData(paths.CONTROLLER_EPOCH, str(observed.epoch + 1).encode())]
    if observed.controller_version >= 0:
        operations.append(Delete(paths.CONTROLLER))
    apply(session, *operations, Create(paths.CONTROLLER, controller_data(2, -1, 9), ephemeral=True))


def another_voter_of_ours_claims(session: FakeSession) -> None:
    claim_it(session, node=3001, kraft_epoch=KRAFT_EPOCH + 1)


def the_controller_is_deleted(session: FakeSession) -> None:
    apply(session, Delete(paths.CONTROLLER))


def a_stock_controller_writes_migration(session: FakeSession) -> None:
    data = migration_data(MigrationZnode(4000, 9, 10, 9))
    existing = read_claim(session).migration_version >= 0
    apply(session, SetData(paths.MIGRATION, data) if existing else Create(paths.MIGRATION, data))


def the_migration_is_deleted(session: FakeSession) -> None:
    apply(session, Delete(paths.MIGRATION))


BEFORE_CLAIM: list[Change] = [
    another_controller_is_elected,
    another_voter_of_ours_claims,
    the_controller_is_deleted,
    a_stock_controller_writes_migration,
]
AFTER_CLAIM: list[Change] = [*BEFORE_CLAIM, the_migration_is_deleted]


def named(change: Change) -> str:
    return change.__name__


@pytest.mark.parametrize("change", BEFORE_CLAIM, ids=named)
def test_a_claim_is_refused_whole_when_anything_moved_since_it_was_read(change: Change) -> None:
    ensemble = a_zookeeper_cluster()
    session = ensemble.session()
    multi, claim = plan_claim(read_claim(session), node=US, kraft_epoch=KRAFT_EPOCH, now_ms=2, ephemeral=True)
    change(ensemble.session())
    before = ensemble.tree()
    assert not session.apply(multi).applied
    assert ensemble.tree() == before
    assert not recognise(read_claim(session), claim)
    assert not still_ours(read_claim(session), claim)


@pytest.mark.parametrize("change", BEFORE_CLAIM, ids=named)
def test_k27_a_controller_is_displaced_only_where_nothing_moved_since_it_was_read(change: Change) -> None:
    ensemble = a_zookeeper_cluster()
    session = ensemble.session()
    multi, displaced = plan_displace(read_claim(session), node=US, kraft_epoch=KRAFT_EPOCH, now_ms=2)
    change(ensemble.session())
    before = ensemble.tree()
    assert not session.apply(multi).applied
    assert ensemble.tree() == before
    assert not recognise(read_claim(session), displaced)


def another_leader_gives_the_place_back(session: FakeSession) -> None:
    observed = read_claim(session)
    apply(session, *plan_leave_controller(observed).operations, Delete(paths.MIGRATION, observed.migration_version))


@pytest.mark.parametrize("change", [*AFTER_CLAIM, another_leader_gives_the_place_back], ids=named)
def test_k27_the_epoch_is_raised_only_where_the_place_is_still_ours(change: Change) -> None:
    """As by a leader that was paused while the old controller stepped down."""
    ensemble = a_zookeeper_cluster()
    session = ensemble.session()
    multi, claim = plan_raise(displace(session))
    change(ensemble.session())
    before = ensemble.tree()
    assert not session.apply(multi).applied
    assert ensemble.tree() == before
    assert not still_ours(read_claim(session), claim)


@pytest.mark.parametrize("change", AFTER_CLAIM, ids=named)
@pytest.mark.parametrize("step", ["persist", "abandon", "roll back"])
def test_no_step_is_taken_on_a_claim_that_somebody_touched(change: Change, step: str) -> None:
    """F-43: the multi fails whole, and the watcher's question says so too."""
    ensemble = a_zookeeper_cluster()
    session = ensemble.session()
    claim = claim_it(session)
    change(ensemble.session())
    before = ensemble.tree()
    multi = {
        "persist": plan_persist(claim, COMMITTED, now_ms=3)[0],
        "abandon": plan_abort(claim),
        "roll back": plan_rollback(claim, 0),
    }[step]
    assert not session.apply(multi).applied
    assert ensemble.tree() == before
    assert not still_ours(read_claim(session), claim)


def test_our_own_writes_to_migration_are_no_foreign_change() -> None:
    ensemble = a_zookeeper_cluster()
    session = ensemble.session()
    settled = persist_it(session, claim_it(session))
    later, _ = plan_persist(settled, Position(5, 1300), now_ms=9)
    assert session.apply(later).applied
    assert still_ours(read_claim(session), settled)


@pytest.mark.parametrize("applied", [True, False])
def test_after_a_lost_answer_the_claim_that_stands_tells_whether_it_is_ours(applied: bool) -> None:
    """K-01: id, epoch and every version are compared, so the claim of another leadership is not taken for ours."""
    ensemble = a_zookeeper_cluster()
    session = ensemble.session()
    multi, claim = plan_claim(read_claim(session), node=US, kraft_epoch=KRAFT_EPOCH, now_ms=2, ephemeral=True)
    if applied:
        assert session.apply(multi).applied
    again = ensemble.session()
    assert recognise(read_claim(again), claim) is applied
    if applied:
        another_voter_of_ours_claims(again)
        assert not recognise(read_claim(again), claim)


HELD = Claim(
    node=US,
    kraft_epoch=KRAFT_EPOCH,
    zk_epoch=8,
    epoch_version=8,
    controller_version=0,
    migration_version=1,
    ephemeral=True,
)
STANDS = ClaimObservation(
    epoch=8,
    epoch_version=8,
    controller=ControllerZnode(US, 2, "2", KRAFT_EPOCH),
    controller_version=0,
    controller_owner=7,
    migration=MigrationZnode(US, KRAFT_EPOCH),
    migration_version=1,
)
BY_OTHERS: list[tuple[dict[str, Any], bool]] = [
    ({"epoch_version": 9}, True),
    ({"epoch": 9, "epoch_version": 9}, True),
    ({"controller": None, "controller_version": -1}, True),
    ({"controller": ControllerZnode(3001, 2, "2", KRAFT_EPOCH)}, True),
    ({"controller": ControllerZnode(US, 2, "2", KRAFT_EPOCH + 1)}, True),
    ({"migration": None, "migration_version": -1}, True),
    ({"migration": None}, True),
    ({"migration": MigrationZnode(3001, KRAFT_EPOCH)}, True),
    ({"migration": MigrationZnode(US, KRAFT_EPOCH + 1)}, True),
    ({"migration_version": 2}, False),  # our own writes move it
]


@pytest.mark.parametrize(("change", "touched"), BY_OTHERS, ids=[str(change) for change, _ in BY_OTHERS])
def test_each_single_change_by_somebody_else_is_a_touch(change: dict[str, Any], touched: bool) -> None:
    assert still_ours(STANDS, HELD)
    assert still_ours(replace(STANDS, **change), HELD) is not touched


@pytest.mark.parametrize(
    "change",
    [
        {"epoch": 9},
        {"epoch_version": 9},
        {"controller": None},
        {"controller": ControllerZnode(3001, 2, "2", KRAFT_EPOCH)},
        {"controller": ControllerZnode(US, 2, "2", KRAFT_EPOCH - 1)},
        {"migration_version": 2},
        {"migration_version": -1},
    ],
)
def test_a_claim_that_differs_in_one_thing_is_not_the_one_that_was_planned(change: dict[str, Any]) -> None:
    """K-01."""
    assert recognise(STANDS, HELD)
    assert not recognise(replace(STANDS, **change), HELD)


# --- giving it back ---------------------------------------------------------------------------------------


def test_an_abort_leaves_zookeeper_as_if_we_had_not_come_but_for_the_epoch() -> None:
    ensemble = a_zookeeper_cluster(controller=None)
    before = ensemble.tree()
    session = ensemble.session()
    claim = claim_it(session)
    assert session.apply(plan_abort(claim)).applied
    assert ensemble.tree() == {**before, paths.CONTROLLER_EPOCH: b"8"}


@pytest.mark.parametrize(("highest_state_epoch", "left"), [(-1, 8), (3, 8), (40, 40)])
def test_the_next_zookeeper_controller_outranks_every_partition_state(highest_state_epoch: int, left: int) -> None:
    """F-40: it takes /controller_epoch + 1; F-42: /migration does not stay behind."""
    ensemble = a_zookeeper_cluster()
    session = ensemble.session()
    claim = persist_it(session, claim_it(session))
    assert session.apply(plan_rollback(claim, highest_state_epoch)).applied
    assert ensemble.tree() == {"/": b"", "/brokers": b"", paths.CONTROLLER_EPOCH: str(left).encode()}


# --- when a claim may be tried ----------------------------------------------------------------------------

FREE = ClaimObservation(epoch=7, epoch_version=7)
ZOOKEEPER_RULES = replace(FREE, controller=ControllerZnode(1, 2, "1", -1), controller_version=0, controller_owner=9)


@pytest.mark.parametrize(
    ("observed", "code", "says"),
    [
        (FREE, None, ""),
        (ZOOKEEPER_RULES, None, ""),
        (replace(FREE, migration=MigrationZnode(3002, 4), migration_version=3), None, ""),
        (replace(FREE, controller=ControllerZnode(3001, 2, "1", 4), controller_version=0), None, ""),
        (ClaimObservation(), "Z2K-2005", "does not exist"),
        (replace(FREE, controller=ControllerZnode(4000, 2, "1", 4), controller_version=0), "Z2K-2005", "4000"),
        (replace(FREE, migration_version=0), "Z2K-2006", "absent or unreadable"),  # F-05: null data
        (replace(FREE, migration=MigrationZnode(), migration_version=0), None, ""),  # a stock controller looked
        (replace(FREE, migration=MigrationZnode(4000, 4), migration_version=0), "Z2K-2006", "4000"),
        (replace(FREE, migration=MigrationZnode(3000, 6), migration_version=0), "Z2K-2006", ":6"),  # of a later log
        (replace(FREE, migration=MigrationZnode(3000, 4, 0, 4), migration_version=9), "Z2K-2006", ":0"),  # F-42
    ],
)
def test_a_first_claim_is_tried_only_where_nothing_of_another_migration_stands(
    observed: ClaimObservation, code: str | None, says: str
) -> None:
    refused = refuse_claim(observed, VOTERS, KRAFT_EPOCH)
    assert (None if refused is None else refused.code) == code
    assert refused is None or says in refused.text


OURS = ClaimObservation(
    epoch=8,
    epoch_version=8,
    controller=ControllerZnode(3001, 2, "1", 4),
    controller_version=0,
    migration=MigrationZnode(3001, 4, 1200, 4),
    migration_version=3,
)
LOG_END = Position(epoch=5, offset=1500)


@pytest.mark.parametrize(
    ("observed", "at", "code"),
    [
        (OURS, LOG_END, None),
        (OURS, Position(4, 1200), None),
        (replace(OURS, migration=MigrationZnode(3001, 4)), LOG_END, None),  # K-02: committed, the offset never noted
        (replace(OURS, controller=None, controller_version=-1), LOG_END, "Z2K-2003"),  # absence proves nothing
        (replace(OURS, controller=ControllerZnode(1, 2, "1", -1)), LOG_END, "Z2K-2008"),
        (replace(OURS, controller=ControllerZnode(4000, 2, "1", 4)), LOG_END, "Z2K-2003"),
        (replace(OURS, controller=ControllerZnode(3001, 2, "1", 6)), LOG_END, "Z2K-2003"),
        (replace(OURS, migration=None, migration_version=-1), LOG_END, "Z2K-2003"),
        (replace(OURS, migration=None), LOG_END, "Z2K-2003"),
        (replace(OURS, migration=MigrationZnode(4000, 4, 1200, 4)), LOG_END, "Z2K-2003"),
        (OURS, Position(4, 1199), "Z2K-2009"),
        (OURS, Position(3, 9000), "Z2K-2009"),
    ],
)
def test_a_log_in_migration_is_resumed_only_while_the_controllership_is_still_ours(
    observed: ClaimObservation, at: Position, code: str | None
) -> None:
    refused = refuse_resume(observed, VOTERS, KRAFT_EPOCH, at)
    assert (None if refused is None else refused.code) == code
    assert refused is None or refused.text


def test_a_resumed_claim_keeps_what_was_mirrored_and_fences_the_dead_leader() -> None:
    ensemble = a_zookeeper_cluster()
    dead, session = ensemble.session(), ensemble.session()
    old = persist_it(dead, claim_it(dead))
    observed = read_claim(session)
    multi, claim = plan_claim(observed, node=3001, kraft_epoch=6, now_ms=4, ephemeral=False, at=COMMITTED)
    assert session.apply(multi).applied
    assert matches(read_claim(session), claim)
    assert claim.zk_epoch == old.zk_epoch + 1
    stale, _ = plan_persist(old, Position(5, 1300), now_ms=9)
    assert dead.apply(stale).failed_at == 0


def test_a_claim_says_nothing_is_mirrored_before_the_commit() -> None:
    ensemble = a_zookeeper_cluster()
    claim = claim_it(ensemble.session())
    assert claim.at == NOWHERE
    assert ensemble.nodes[paths.MIGRATION].data == migration_data(MigrationZnode(US, KRAFT_EPOCH, -1, -1))


def test_a_log_of_an_earlier_migration_is_not_resumed_in_a_later_one_by_the_same_nodes() -> None:
    """Node ids and epochs may be the same; the znode that was made at the takeover is not."""
    ensemble = a_zookeeper_cluster()
    session = ensemble.session()
    first = claim_it(session)
    born = read_claim(session).migration_born
    multi, settled = plan_persist(first, COMMITTED, 3)
    assert session.apply(multi).applied
    observed = read_claim(session)
    assert observed.migration_born == born
    assert refuse_resume(observed, VOTERS, KRAFT_EPOCH + 1, COMMITTED, born) is None

    assert session.apply(plan_rollback(settled, 3)).applied
    again = claim_it(session)
    assert session.apply(plan_persist(again, COMMITTED, 4)[0]).applied
    refused = refuse_resume(read_claim(session), VOTERS, KRAFT_EPOCH + 1, COMMITTED, born)
    assert refused is not None
    assert refused.code == "Z2K-2008"
    assert refuse_resume(read_claim(session), VOTERS, KRAFT_EPOCH + 1, COMMITTED) is None


def test_what_a_claim_leaves_that_ended_before_it_was_persisted_does_not_bar_the_next_migration() -> None:
    """Committed, then stopped: the claim went with its session, `/migration` did not, and a fresh log begins lower."""
    ensemble = a_zookeeper_cluster()
    session, later = ensemble.session(), ensemble.session()
    claim_it(session)
    ensemble.expire(session.session_id)
    observed = read_claim(later)
    unproven = refuse_resume(observed, VOTERS, KRAFT_EPOCH + 1, COMMITTED)
    assert unproven is not None
    assert unproven.code == "Z2K-2003"
    proven = refuse_resume(replace(observed, controller=BROKER), VOTERS, KRAFT_EPOCH + 1, COMMITTED)
    assert proven is not None
    assert proven.code == "Z2K-2008"
    barred = refuse_claim(observed, VOTERS, KRAFT_EPOCH - 3)
    assert barred is not None
    assert barred.code == "Z2K-2006"

    left = left_migration(observed, VOTERS, KRAFT_EPOCH + 1)
    assert left is not None
    assert later.apply(left).applied
    assert refuse_claim(read_claim(later), VOTERS, KRAFT_EPOCH - 3) is None
    assert left_migration(read_claim(later), VOTERS, KRAFT_EPOCH + 1) is None


BROKER = ControllerZnode(1, 2, "1", -1)


@pytest.mark.parametrize(
    "observed",
    [
        replace(FREE, controller=BROKER, migration=MigrationZnode(3001, 4, 1200, 4), migration_version=3),
        replace(FREE, controller=BROKER, migration=MigrationZnode(4000, 4), migration_version=3),
        replace(FREE, controller=BROKER, migration=MigrationZnode(3001, 6), migration_version=3),
        replace(FREE, controller=BROKER, migration=MigrationZnode(), migration_version=3),
        replace(FREE, controller=BROKER, migration=None, migration_version=3),
        replace(OURS, migration=MigrationZnode(3001, 4)),
        replace(OURS, controller=ControllerZnode(4000, 2, "1", 4), migration=MigrationZnode(3001, 4)),
    ],
    ids=["mirrored", "of another quorum", "of a later log", "nobody's", "unreadable", "claim stands", "foreign claim"],
)
def test_a_migration_that_may_be_anothers_or_was_mirrored_is_left(observed: ClaimObservation) -> None:
    assert left_migration(observed, VOTERS, 5) is None


def test_a_left_migration_is_deleted_only_while_nobody_claims() -> None:
    ensemble = a_zookeeper_cluster()
    session, later = ensemble.session(), ensemble.session()
    claim_it(session)
    ensemble.expire(session.session_id)
    left = left_migration(read_claim(later), VOTERS, KRAFT_EPOCH)
    assert left is not None
    again = claim_it(ensemble.session(), kraft_epoch=KRAFT_EPOCH)
    assert not later.apply(left).applied
    assert matches(read_claim(later), again)
