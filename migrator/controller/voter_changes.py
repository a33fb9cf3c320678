"""Requests that would change who votes (KIP-853): AddRaftVoter, RemoveRaftVoter, UpdateRaftVoter.

In:   the request, and where this node stands in its quorum.
Out:  the error that a stock controller with kraft.version 0 answers. Voters are static there and here: none is changed.
Source: Kafka 3.9 `KafkaRaftClient`, `AddVoterHandler`, `RemoveVoterHandler`, `UpdateVoterHandler`.
"""

from __future__ import annotations

from dataclasses import dataclass

from migrator.model.values import ZERO_ID
from migrator.wire.errors import Error
from migrator.wire.messages.raft import (
    AddRaftVoterRequest,
    AddRaftVoterResponse,
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
    UpdateRaftVoterCurrentLeader,
    UpdateRaftVoterRequest,
    UpdateRaftVoterResponse,
)

VoterChange = AddRaftVoterRequest | RemoveRaftVoterRequest | UpdateRaftVoterRequest
VoterChangeResponse = AddRaftVoterResponse | RemoveRaftVoterResponse | UpdateRaftVoterResponse


@dataclass(frozen=True, slots=True)
class QuorumStanding:
    """What this node knows of its quorum.

    leader: -1 unknown. address: host and port of the leader on the listener that was asked.
    listener: the voters' own, by its name. knows_committed: a leader knows what is committed in its epoch.
    """

    cluster_id: str
    epoch: int
    leader: int
    leads: bool
    knows_committed: bool
    listener: str
    address: tuple[str, int] = ("", 0)


def answer_voter_change(request: VoterChange, standing: QuorumStanding) -> VoterChangeResponse:
    """Always a refusal; the first reason counts, as in stock's order."""
    error, words = _refusal(request, standing)
    match request:
        case AddRaftVoterRequest():
            return AddRaftVoterResponse(error_code=error, error_message=words)
        case RemoveRaftVoterRequest():
            return RemoveRaftVoterResponse(error_code=error, error_message=words)
        case UpdateRaftVoterRequest():
            host, port = standing.address
            leader = UpdateRaftVoterCurrentLeader(standing.leader, standing.epoch, host, port)
            return UpdateRaftVoterResponse(error_code=error, current_leader=leader)


def _refusal(request: VoterChange, standing: QuorumStanding) -> tuple[Error, str]:
    if request.cluster_id is not None and request.cluster_id != standing.cluster_id:
        return Error.INCONSISTENT_CLUSTER_ID, ""
    if isinstance(request, UpdateRaftVoterRequest) and request.current_leader_epoch != standing.epoch:
        is_old = request.current_leader_epoch < standing.epoch
        return Error.FENCED_LEADER_EPOCH if is_old else Error.UNKNOWN_LEADER_EPOCH, ""
    if not standing.leads:
        return Error.NOT_LEADER_OR_FOLLOWER, ""
    odd = _odd_shape(request, standing)
    if odd is not None:
        return Error.INVALID_REQUEST, odd
    if not standing.knows_committed:
        words = "Request timed out waiting for leader to establish HWM and fence previous voter changes"
        return Error.REQUEST_TIMED_OUT, words
    act = "adding" if isinstance(request, AddRaftVoterRequest) else "removing"
    return Error.UNSUPPORTED_VERSION, f"Cluster doesn't support {act} voter because the kraft.version feature is 0"


def _odd_shape(request: VoterChange, standing: QuorumStanding) -> str | None:
    act = "Add" if isinstance(request, AddRaftVoterRequest) else "Remove"
    if request.voter_id < 0 or request.voter_directory_id == ZERO_ID:
        return f"{act} voter request didn't include a valid voter"
    if isinstance(request, RemoveRaftVoterRequest):
        return None
    if standing.listener not in [each.name.upper() for each in request.listeners]:  # as stock reads these
        return f"Add voter request didn't include the endpoint for the default listener {standing.listener}"
    if isinstance(request, UpdateRaftVoterRequest):
        range_ = request.kraft_version_feature
        if not 0 <= range_.min_supported_version <= range_.max_supported_version:
            return "The range of kraft.version is none"
    return None
