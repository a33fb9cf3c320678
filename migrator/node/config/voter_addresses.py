"""Where the voters are reached: what answers of the quorum say beside the leader's id.

In:   this node's file (voters, on the first controller listener); the log (listeners that controllers registered).
Out:  the address of a voter on the listener from which a request came; all that is known of a voter's listeners.
Elsewhere: the answers (quorum_apis.py).
Source: Kafka 3.9 `Endpoints`. With static voters stock knows the addresses on the first controller listener only; we
also answer on another one, as the controllers registered it. A broker that is configured with
`controller.quorum.bootstrap.servers` alone knows no voter: without the address it ends at the first leader it hears of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from migrator.model.image import EMPTY, Image
from migrator.node.config.properties import VoterAddress
from migrator.wire.messages.raft import QuorumNode
from migrator.wire.messages.shared import NodeEndpoint, RaftEndpoint


class VoterAddresses:
    """voters: of the file. listener: on which their addresses are. image: what is committed now."""

    def __init__(
        self,
        voters: Iterable[VoterAddress] = (),
        listener: str = "CONTROLLER",
        image: Callable[[], Image] = lambda: EMPTY,
    ) -> None:
        self._voters = {voter.id: voter for voter in voters}
        self.listener = listener
        self._image = image

    def endpoints(self, node: int, listener: str) -> tuple[NodeEndpoint, ...]:
        """The address of a voter on a listener; nothing when there is no such node or it is not known there."""
        if listener == self.listener:
            voter = self._voters.get(node)
            return () if voter is None else (NodeEndpoint(node, voter.host, voter.port),)
        controller = self._image().controllers.get(node)
        named = () if controller is None else controller.listeners
        return tuple(NodeEndpoint(node, each.host, each.port) for each in named if each.name == listener)

    def described(self, node: int) -> QuorumNode:
        """The voter for DescribeQuorum, with the listener that voters use among themselves."""
        found = self.endpoints(node, self.listener)
        return QuorumNode(node, tuple(RaftEndpoint(self.listener, each.host, each.port) for each in found))
