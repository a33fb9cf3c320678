"""A controller of a later Kafka as a voter beside ours: it asks and is asked for pre-votes, follows, and is followed.

Its directory is formatted by the tool of 3.9, as that of a cluster that came from ZooKeeper is.
"""

from __future__ import annotations

import pytest

from migrator.lab.classes import prepared
from migrator.lab.servers.artifacts import LATER_KAFKA_VERSION
from migrator.lab.servers.laboratory import Laboratory
from tests.e2e.two_kinds import two_kinds

pytestmark = pytest.mark.lab

PROSPECTIVE = "transition to ProspectiveState"


def test_a_voter_of_kafka_4_and_ours_lead_and_follow_each_other(laboratory: Laboratory) -> None:
    """KIP-996 over Vote 2, and the other versions of KIP-853."""
    quorum = two_kinds(laboratory)
    quorum.stock.format()
    quorum.stock.kafka = prepared(LATER_KAFKA_VERSION)
    quorum.start()
    quorum.lead_in_turn()

    log = quorum.stock.process.log.read_text()
    assert PROSPECTIVE in log, "the later Kafka never asked for a pre-vote"
    assert "UNSUPPORTED_VERSION" not in log
    assert "Encountered fatal fault" not in log
