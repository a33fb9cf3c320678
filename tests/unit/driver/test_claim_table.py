"""Every cell of the table of claims: what stands in ZooKeeper, who leads, the brokers' modes, and what is done."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Final

import pytest

from migrator.driver.claim import Claim, ClaimObservation, plan_claim
from migrator.driver.claim_table import (
    TABLE,
    Answer,
    Brokers,
    ClaimedBefore,
    Known,
    Leads,
    Stands,
    brokers_of,
    claimed_before,
    judge,
    nobody_was_elected,
    what_stands,
)
from migrator.model.image import Position
from migrator.zk import paths
from migrator.zk.multi import Create, SetData
from migrator.zk.znodes import INT32_MAX, ControllerZnode, MigrationZnode
from tests.support.builders import a_broker, an_image

PAGE: Final = Path(__file__).resolve().parents[3] / "docs" / "claim.md"
VOTERS: Final = (3000, 3001, 3002)
LOG_END: Final = Position(5, 1500)
BORN: Final = 77
CLAIM: Final = Claim(
    node=3000,
    kraft_epoch=5,
    zk_epoch=8,
    epoch_version=8,
    controller_version=0,
    migration_version=3,
    ephemeral=False,
)
HOLDS: Final = Known(VOTERS, 5, LOG_END, claim=CLAIM, born=BORN)
COMES: Final = Known(VOTERS, 6, LOG_END, born=BORN, before=ClaimedBefore(8, 8))
"""The next leader, in the next epoch."""
KNOWN: Final = {Leads.GOING_ON: HOLDS, Leads.COMING: COMES}

OURS: Final = ClaimObservation(
    epoch=8,
    epoch_version=8,
    controller=ControllerZnode(3000, 2, "1", 5),
    controller_version=0,
    migration=MigrationZnode(3000, 5, 1200, 5),
    migration_version=3,
    migration_born=BORN,
)
ABSENT: Final = replace(OURS, controller=None, controller_version=-1)
BROKER: Final = ControllerZnode(1, 2, "1", -1)
NO_MIGRATION: Final = replace(OURS, migration=None, migration_version=-1, migration_born=-1)

STANDS: Final[Mapping[Stands, tuple[ClaimObservation, ...]]] = {
    Stands.OURS: (OURS, replace(OURS, migration_version=9)),
    Stands.ABSENT: (
        ABSENT,
        replace(ABSENT, migration=None, migration_version=-1),
        replace(ABSENT, epoch=9, epoch_version=9),
        replace(ABSENT, epoch=-1, epoch_version=-1),
        ClaimObservation(),
    ),
    Stands.LATER_VOTER: (replace(OURS, controller=ControllerZnode(3001, 2, "1", 7), epoch=9, epoch_version=9),),
    Stands.EARLIER_VOTER: (
        replace(OURS, controller=ControllerZnode(3001, 2, "1", 4)),
        replace(OURS, migration=MigrationZnode(3001, 4, 900, 4)),
    ),
    Stands.ZOOKEEPER_BROKER: (
        replace(OURS, controller=BROKER, epoch=9, epoch_version=9),
        replace(OURS, controller=BROKER, epoch=9, epoch_version=9, migration=None, migration_version=-1),
    ),
    Stands.EARLIER_BROKER: (
        replace(OURS, controller=BROKER),
        ClaimObservation(epoch=7, epoch_version=7, controller=BROKER, controller_version=0),
    ),
    Stands.FOREIGN_QUORUM: (
        replace(OURS, controller=ControllerZnode(4000, 2, "1", 9), epoch=9, epoch_version=9),
        replace(OURS, migration=MigrationZnode(4000, 9)),
    ),
    Stands.MIGRATION_GONE: (
        NO_MIGRATION,
        replace(OURS, migration=None),  # bytes that are no migration
        replace(OURS, migration=MigrationZnode()),  # a stock controller that looked made it again
        replace(OURS, epoch_version=9, migration_born=99),  # another ensemble got the znodes of ours
    ),
    Stands.ANOTHER_MIGRATION: (replace(OURS, epoch=12, epoch_version=12, migration_born=99),),
    Stands.LOG_BEHIND: (replace(OURS, migration=MigrationZnode(3000, 5, 1501, 5)),),
    Stands.TREE_GONE: (ClaimObservation(), ABSENT, NO_MIGRATION),
    Stands.EPOCH_MOVED: (
        replace(OURS, epoch=3, epoch_version=0),  # deleted and made again, or of an old backup
        replace(OURS, epoch=-1, epoch_version=-1),
    ),
}
NOT_FOR: Final = {
    Leads.COMING: (Stands.EARLIER_VOTER,),  # the leader before this one: that is the usual
    Leads.GOING_ON: (Stands.LOG_BEHIND,),  # what it wrote itself, it has
}
CELLS: Final = [
    (stands, leads, brokers)
    for stands, leads, brokers in product(Stands, (Leads.GOING_ON, Leads.COMING), Brokers)
    if stands not in NOT_FOR[leads]
]


def of_the_page() -> dict[tuple[Stands, Leads, Brokers], str]:
    """The table of docs/claim.md, word by word."""
    found = {}
    for line in PAGE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("| ") else []
        if len(cells) == 2 + len(Brokers) and cells[0] in {each.value for each in Stands}:
            for brokers, text in zip(Brokers, cells[2:], strict=True):
                found[Stands(cells[0]), Leads(cells[1]), brokers] = text
    return found


def test_the_page_says_what_the_table_says_cell_by_cell() -> None:
    mine = {
        (stands, leads, brokers): answers[tuple(Brokers).index(brokers)].value
        for (stands, leads), answers in TABLE.items()
        for brokers in Brokers
    }
    assert set(mine) == set(product(Stands, Leads, Brokers))
    assert of_the_page() == {cell: text for cell, text in mine.items() if cell[1] is not Leads.STOCK}
    assert {text for cell, text in mine.items() if cell[1] is Leads.STOCK} == {Answer.NOTHING.value}
    header = "| " + " | ".join(["what stands in ZooKeeper", "who leads", *(each.value for each in Brokers)]) + " |"
    assert header in PAGE.read_text()


@pytest.mark.parametrize(("stands", "leads", "brokers"), CELLS, ids=lambda each: each.name)
def test_each_cell_is_recognised_and_answered(stands: Stands, leads: Leads, brokers: Brokers) -> None:
    known = KNOWN[leads]
    for observed in STANDS[stands]:
        of_this_cluster = stands is not Stands.TREE_GONE
        judged = judge(observed, known, brokers, of_this_cluster=of_this_cluster)
        assert judged.stands is stands, observed
        wanted = TABLE[stands, leads][tuple(Brokers).index(brokers)]
        if wanted is Answer.PROVE:
            is_as_left = (observed.epoch, observed.epoch_version) == (8, 8)
            wanted = Answer.CLAIM_AGAIN if is_as_left else Answer.FENCE
        assert judged.answer is wanted, observed
        codes = {Answer.RETIRE: "Z2K-2008", Answer.FENCE: "Z2K-2009" if stands is Stands.LOG_BEHIND else "Z2K-2003"}
        assert (None if judged.finding is None else judged.finding.code) == codes.get(judged.answer)


def test_a_leader_that_goes_on_sees_an_epoch_that_somebody_raised() -> None:
    """Under its next leader the same znodes are those of an usual fail-over."""
    raised = replace(OURS, epoch=9, epoch_version=9)
    assert what_stands(raised, HOLDS) is Stands.EPOCH_MOVED
    assert what_stands(raised, COMES) is Stands.OURS


@pytest.mark.parametrize(("stands", "leads", "brokers"), CELLS, ids=lambda each: each.name)
def test_nothing_retires_while_a_broker_in_kraft_mode_is_registered_nor_because_something_is_absent(
    stands: Stands, leads: Leads, brokers: Brokers
) -> None:
    answer = TABLE[stands, leads][tuple(Brokers).index(brokers)]
    proven = brokers is Brokers.ZOOKEEPER and stands in (Stands.ZOOKEEPER_BROKER, Stands.ANOTHER_MIGRATION)
    assert (answer is Answer.RETIRE) == (proven and leads is Leads.COMING)
    if brokers is Brokers.KRAFT:
        assert answer not in (Answer.FENCE, Answer.RETIRE)  # brokers and administrators are served in every cell


@pytest.mark.parametrize("stands", [Stands.ZOOKEEPER_BROKER, Stands.EARLIER_BROKER, Stands.FOREIGN_QUORUM])
@pytest.mark.parametrize("brokers", Brokers)
@pytest.mark.parametrize("leads", [Leads.GOING_ON, Leads.COMING])
def test_a_controller_that_holds_the_claim_is_never_fought(stands: Stands, leads: Leads, brokers: Brokers) -> None:
    assert TABLE[stands, leads][tuple(Brokers).index(brokers)] in (Answer.FENCE, Answer.RETIRE, Answer.SERVE)


@pytest.mark.parametrize(
    ("before", "observed", "proven"),
    [
        (ClaimedBefore(8, 8), ABSENT, True),
        (ClaimedBefore(8, 8), replace(ABSENT, epoch=9, epoch_version=9), False),  # elected, and gone
        (ClaimedBefore(8, 8), replace(ABSENT, epoch_version=9), False),  # a rollback without controllers
        (None, ABSENT, False),  # no leader noted it
    ],
)
def test_only_an_epoch_as_our_claim_left_it_proves_that_nobody_was_elected(
    before: ClaimedBefore | None, observed: ClaimObservation, *, proven: bool
) -> None:
    known = replace(COMES, before=before)
    assert nobody_was_elected(observed, known) is proven
    answer = judge(observed, known, Brokers.HYBRID).answer
    assert answer is (Answer.CLAIM_AGAIN if proven else Answer.FENCE)


def test_without_a_noted_claim_a_controller_in_zookeeper_mode_counts_as_a_later_one() -> None:
    """A log of an earlier release: as before."""
    known = replace(COMES, before=None)
    assert judge(replace(OURS, controller=BROKER), known, Brokers.ZOOKEEPER).answer is Answer.RETIRE
    assert judge(replace(OURS, controller=BROKER), known, Brokers.KRAFT).answer is Answer.SERVE


def test_a_tree_of_another_cluster_is_left_alone_in_every_mode() -> None:
    answers = [judge(ABSENT, COMES, brokers, of_this_cluster=False).answer for brokers in Brokers]
    assert answers == [Answer.FENCE, Answer.FENCE, Answer.SERVE]


def test_an_epoch_that_cannot_be_raised_is_not_claimed() -> None:
    highest = replace(ABSENT, epoch=INT32_MAX, epoch_version=9)
    assert judge(highest, COMES, Brokers.KRAFT).answer is Answer.SERVE
    assert judge(replace(OURS, epoch=INT32_MAX, epoch_version=9), HOLDS, Brokers.KRAFT).answer is Answer.SERVE


def test_a_claim_after_an_old_backup_is_above_every_epoch_that_brokers_know() -> None:
    old = replace(OURS, epoch=3, epoch_version=0)
    multi, claim = plan_claim(old, node=3001, kraft_epoch=6, now_ms=1, ephemeral=False, above=8)
    assert claim.zk_epoch == 9
    assert multi.operations[0] == SetData(paths.CONTROLLER_EPOCH, b"9", 0)
    gone = replace(OURS, epoch=-1, epoch_version=-1)
    multi, claim = plan_claim(gone, node=3001, kraft_epoch=6, now_ms=1, ephemeral=False, above=8)
    assert multi.operations[0] == Create(paths.CONTROLLER_EPOCH, b"9")
    assert claim.epoch_version == 0


@pytest.mark.parametrize(
    ("migrating", "brokers"),
    [((), Brokers.ZOOKEEPER), ((1, 2, 3), Brokers.ZOOKEEPER), ((3,), Brokers.HYBRID), ((), Brokers.KRAFT)],
)
def test_a_single_registration_in_zookeeper_mode_makes_it_hybrid(migrating: tuple[int, ...], brokers: Brokers) -> None:
    ids = () if brokers is Brokers.ZOOKEEPER and not migrating else (1, 2, 3)
    registered = [a_broker(each, fenced=each == 3, migrating=each in migrating) for each in ids]
    assert brokers_of(an_image(brokers=registered)) is brokers


@pytest.mark.parametrize("text", [None, "", "8", "8 8 8", "eight 8"])
def test_a_mark_that_cannot_be_read_proves_nothing(text: str | None) -> None:
    assert claimed_before(text) is None
    assert claimed_before(ClaimedBefore(8, 11).text()) == ClaimedBefore(8, 11)


def test_the_page_names_every_cell_with_real_processes() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE.read_text())
    assert named
    for file, test in named:
        assert f"def {test}(" in (PAGE.parents[1] / file).read_text(), test
