"""A controller of Kafka 4.0 as a voter beside ours: it asks and is asked for pre-votes, follows, and is followed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from migrator.lab.classes import prepared
from migrator.lab.servers.laboratory import Laboratory
from tests.e2e.two_kinds import two_kinds

pytestmark = pytest.mark.lab

PROSPECTIVE = "transition to ProspectiveState"


@pytest.fixture
def later(tmp_path: Path) -> Iterator[Laboratory]:
    """A laboratory of Kafka 4.0."""
    with Laboratory(tmp_path, prepared("4.0.0")) as laboratory:
        yield laboratory


def test_a_voter_of_kafka_4_and_ours_lead_and_follow_each_other(later: Laboratory) -> None:
    """KIP-996 over Vote 2, and the other versions of KIP-853."""
    quorum = two_kinds(later)
    quorum.start()
    quorum.lead_in_turn()

    log = quorum.stock.process.log.read_text()
    assert PROSPECTIVE in log, "Kafka 4.0 never asked for a pre-vote"
    assert "UNSUPPORTED_VERSION" not in log
    assert "Encountered fatal fault" not in log
