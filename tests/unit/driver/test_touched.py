"""Another controller or program changed the claim: where the driver goes, and which finding says why."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from migrator.driver.claim import Claim, ClaimObservation
from migrator.driver.machine import Happened
from migrator.driver.touched import Touched, touched
from migrator.findings.driver import CLAIM_EXPIRED, FENCED
from migrator.zk.znodes import ControllerZnode

VOTERS: Final = (3000, 3001, 3002)
EPHEMERAL: Final = Claim(
    node=3000,
    kraft_epoch=5,
    zk_epoch=8,
    epoch_version=8,
    controller_version=0,
    migration_version=3,
    ephemeral=True,
)
PERSISTENT: Final = replace(EPHEMERAL, ephemeral=False)

GONE: Final = ClaimObservation(epoch=8, migration_version=3)
OF_A_BROKER: Final = ClaimObservation(epoch=9, controller=ControllerZnode(1), migration_version=3)
OF_ANOTHER_QUORUM: Final = ClaimObservation(
    epoch=9, controller=ControllerZnode(4000, kraft_epoch=6), migration_version=4
)
ALONE: Final = ClaimObservation(epoch=8, controller=ControllerZnode(3000, kraft_epoch=5), migration_version=-1)
"""Only `/migration` was deleted."""

BEFORE_THE_APPEND: Final = {"may_abort": True, "fresh_copy": False}
BEFORE_A_BROKER_UPDATE: Final = {"may_abort": False, "fresh_copy": True}
IN_DUAL_WRITE: Final = {"may_abort": False, "fresh_copy": False}


def meaning(observed: ClaimObservation, claim: Claim | None, where: dict[str, bool], epoch: int = 5) -> Touched:
    return touched(observed, claim, VOTERS, epoch, may_abort=where["may_abort"], fresh_copy=where["fresh_copy"])


@pytest.mark.parametrize(
    ("observed", "claim", "where", "happened", "code"),
    [
        (GONE, EPHEMERAL, BEFORE_THE_APPEND, Happened.WINDOW_FAILED, CLAIM_EXPIRED.code),
        (OF_A_BROKER, EPHEMERAL, BEFORE_THE_APPEND, Happened.WINDOW_FAILED, CLAIM_EXPIRED.code),
        (OF_ANOTHER_QUORUM, EPHEMERAL, BEFORE_THE_APPEND, Happened.WINDOW_FAILED, FENCED.code),
        (ALONE, EPHEMERAL, BEFORE_THE_APPEND, Happened.WINDOW_FAILED, FENCED.code),
        (GONE, EPHEMERAL, BEFORE_A_BROKER_UPDATE, Happened.MUST_ROLL_BACK, CLAIM_EXPIRED.code),
        (OF_A_BROKER, EPHEMERAL, BEFORE_A_BROKER_UPDATE, Happened.MUST_ROLL_BACK, CLAIM_EXPIRED.code),
        (GONE, PERSISTENT, BEFORE_A_BROKER_UPDATE, Happened.MUST_ROLL_BACK, FENCED.code),
        (ALONE, PERSISTENT, BEFORE_A_BROKER_UPDATE, Happened.MUST_ROLL_BACK, FENCED.code),
        (OF_ANOTHER_QUORUM, PERSISTENT, BEFORE_A_BROKER_UPDATE, Happened.CLAIM_TOUCHED, FENCED.code),
        (GONE, PERSISTENT, IN_DUAL_WRITE, Happened.CLAIM_TOUCHED, FENCED.code),
        (OF_A_BROKER, PERSISTENT, IN_DUAL_WRITE, Happened.CLAIM_TOUCHED, FENCED.code),
        (ALONE, PERSISTENT, IN_DUAL_WRITE, Happened.CLAIM_TOUCHED, FENCED.code),
        (OF_A_BROKER, None, IN_DUAL_WRITE, Happened.CLAIM_TOUCHED, FENCED.code),
    ],
)
def test_a_foreign_change_aborts_before_the_append_and_fences_once_brokers_have_updates(
    observed: ClaimObservation, claim: Claim | None, where: dict[str, bool], happened: Happened, code: str
) -> None:
    means = meaning(observed, claim, where)
    assert means.finding is not None
    assert (means.happened, means.finding.code) == (happened, code)


@pytest.mark.parametrize("where", [BEFORE_THE_APPEND, BEFORE_A_BROKER_UPDATE, IN_DUAL_WRITE])
def test_the_claim_of_a_successor_is_no_trouble_wherever_the_driver_is(where: dict[str, bool]) -> None:
    successor = ClaimObservation(epoch=9, controller=ControllerZnode(3001, kraft_epoch=6), migration_version=4)
    means = meaning(successor, PERSISTENT, where)
    assert (means.happened, means.finding, means.holder) == (Happened.LEADERSHIP_LOST, None, "node 3001")


def test_a_voter_that_claimed_in_an_epoch_before_ours_is_no_successor() -> None:
    stale = ClaimObservation(epoch=9, controller=ControllerZnode(3001, kraft_epoch=6), migration_version=4)
    means = meaning(stale, PERSISTENT, IN_DUAL_WRITE, epoch=6)
    assert means.happened is Happened.CLAIM_TOUCHED
    assert means.finding == FENCED.found(found="node 3001, epoch 9", expected="node 3000, epoch 8")
