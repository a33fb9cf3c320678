"""Twelve takeovers cut short while clients change topics and ACLs.

`make adversarial` does two hundred (docs/adversarial.md).
"""

from __future__ import annotations

import logging

import pytest

from migrator.lab.servers.laboratory import Laboratory
from tests.adversarial.rounds import rounds
from tests.adversarial.takeovers import a_run

pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.alone]

SEED, ROUNDS, BROKERS = 18, 12, 2
ACKNOWLEDGED = ("create", "grow", "delete", "allow", "disallow", "transactional producer")
"""Kinds of change of which some have to be done, or the run shows nothing."""

log = logging.getLogger(__name__)


def test_takeovers_cut_short_under_load_lose_nothing_and_hand_out_no_producer_id_twice(laboratory: Laboratory) -> None:
    with a_run(laboratory, SEED, BROKERS, log.warning) as run:
        result = run.play(list(rounds(SEED, ROUNDS, whole_every=ROUNDS)))
    log.warning("\n".join(result.lines()))
    assert result.rounds == ROUNDS
    assert sum(count for outcome, count in result.outcomes.items() if outcome.startswith("given back")) >= ROUNDS / 2
    assert [outcome for outcome in result.outcomes if outcome.startswith("retired: goes on to dual-write")]
    answers = result.figures["answers"]
    assert [kind for kind in ACKNOWLEDGED if answers.get(f"{kind} done", 0) < 3] == []
    assert result.figures["blocks of producer ids"] >= 10
    assert result.figures["controller epochs"] >= ROUNDS
