"""Voters are static: who would change them hears what a stock controller with kraft.version 0 says."""

from __future__ import annotations

from dataclasses import replace

import pytest

from migrator.controller.voter_changes import QuorumStanding, VoterChange, answer_voter_change
from migrator.wire.errors import Error
from migrator.wire.messages.raft import AddRaftVoterRequest, RemoveRaftVoterRequest, UpdateRaftVoterRequest
from migrator.wire.messages.shared import RaftEndpoint
from tests.support.builders import an_id

LEADS = QuorumStanding("cluster", epoch=4, leader=3000, leads=True, knows_committed=True, listener="CONTROLLER")
FOLLOWS = replace(LEADS, leads=False, leader=3001, address=("host", 9093))
AT = (RaftEndpoint("CONTROLLER", "host", 1),)
ADD = AddRaftVoterRequest("cluster", 1000, 3005, an_id("dir"), AT)
REMOVE = RemoveRaftVoterRequest("cluster", 3001, an_id("dir"))
UPDATE = UpdateRaftVoterRequest("cluster", 4, 3001, an_id("dir"), AT)


@pytest.mark.parametrize("request_", [ADD, REMOVE, UPDATE], ids=["add", "remove", "update"])
def test_no_voter_changes_whoever_asks(request_: VoterChange) -> None:
    assert answer_voter_change(request_, LEADS).error_code == Error.UNSUPPORTED_VERSION
    assert answer_voter_change(request_, FOLLOWS).error_code == Error.NOT_LEADER_OR_FOLLOWER
    waits = replace(LEADS, knows_committed=False)
    assert answer_voter_change(request_, waits).error_code == Error.REQUEST_TIMED_OUT


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (AddRaftVoterRequest("other", 1000, 3005, an_id("dir"), AT), Error.INCONSISTENT_CLUSTER_ID),
        (AddRaftVoterRequest(None, 1000, 3005, an_id("dir"), AT), Error.UNSUPPORTED_VERSION),
        (AddRaftVoterRequest("cluster", 1000, -1, an_id("dir"), AT), Error.INVALID_REQUEST),
        (AddRaftVoterRequest("cluster", 1000, 3005, bytes(16), AT), Error.INVALID_REQUEST),
        (AddRaftVoterRequest("cluster", 1000, 3005, an_id("dir"), ()), Error.INVALID_REQUEST),
        (RemoveRaftVoterRequest("cluster", -1, an_id("dir")), Error.INVALID_REQUEST),
        (UpdateRaftVoterRequest("cluster", 3, 3001, an_id("dir"), AT), Error.FENCED_LEADER_EPOCH),
        (UpdateRaftVoterRequest("cluster", 5, 3001, an_id("dir"), AT), Error.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_the_first_reason_counts(request_: VoterChange, error: Error) -> None:
    assert answer_voter_change(request_, LEADS).error_code == error


def test_a_follower_names_the_leader_to_a_voter_that_moved() -> None:
    answer = answer_voter_change(UPDATE, FOLLOWS)
    leader = answer.current_leader  # type: ignore[union-attr]
    assert (leader.leader_id, leader.leader_epoch, leader.host, leader.port) == (3001, 4, "host", 9093)
