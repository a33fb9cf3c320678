"""What an answer promises, held against the committed log: what is acknowledged is in it, what is refused is not.

In:   a request, its answer, how long the committed log was when it was asked.
Out:  a `Violation` where the log does not say so.
Elsewhere: the committed log (cluster.py), who asks (stand_ins.py).
NOT_CONTROLLER promises nothing: the records may be committed by the next leader.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from migrator.model.values import NO_LEADER
from migrator.wire.errors import Error
from migrator.wire.messages.brokers import BrokerHeartbeatRequest, BrokerRegistrationRequest
from migrator.wire.messages.configs import IncrementalAlterConfigsRequest
from migrator.wire.messages.partitions import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionRequest,
    ElectLeadersRequest,
)
from migrator.wire.messages.security import CreateAclsRequest
from migrator.wire.messages.topics import CreatePartitionsRequest, CreateTopicsRequest, DeleteTopicsRequest
from migrator.wire.schema import Message
from tests.sim.cluster import ClusterLog
from tests.sim.invariants import Violation

RULE = "safety: what was acknowledged is not in the log"
TWICE = "safety: one change was acknowledged twice"


class Acknowledged:
    """Of one run. unknown: creations of a name of which nobody knows whether they were carried out."""

    def __init__(self, log: ClusterLog) -> None:
        self._log = log
        self._created: Counter[str] = Counter()
        self._unknown: Counter[str] = Counter()
        self._grown: Counter[tuple[str, int]] = Counter()
        self._deleted: set[bytes] = set()
        self.answers: Counter[str] = Counter()

    def unanswered(self, request: Message) -> None:
        if isinstance(request, CreateTopicsRequest):
            self._unknown.update(topic.name for topic in request.topics)

    def answered(self, request: Message, reply: Any, asked_end: int, known_end: int) -> None:
        """known_end: where the log ended that the answering leader showed when it was asked.

        It is behind `asked_end` in a leader that was deposed and has not heard of it, and while one publishes a large
        change piece by piece. What it writes then is acknowledged like everything else; what it says without writing
        is as old as that, and nobody was told of anything newer. (Stock's leader knows no better either.)
        """
        kind = type(request).__name__.removesuffix("Request")
        errors = 0
        match request:
            case CreateTopicsRequest():
                errors = sum(not self._topic_created(each) for each in reply.topics)
            case CreatePartitionsRequest():
                errors = sum(
                    not self._topic_grown(asked.name, asked.count, each.error_code)
                    for asked, each in zip(request.topics, reply.results, strict=True)
                )
            case DeleteTopicsRequest():
                errors = sum(not self._topic_deleted(each) for each in reply.responses)
            case AlterPartitionRequest():
                errors = self._altered(reply)
            case ElectLeadersRequest():
                self._elected(reply, asked_end)
            case AlterPartitionReassignmentsRequest():
                errors = self._moved(request, reply, asked_end)
            case IncrementalAlterConfigsRequest():
                values = [resource.configs[0].value or "" for resource in request.resources]
                errors = self._said(values, [each.error_code for each in reply.responses], self._log.settings)
            case CreateAclsRequest():
                who = [each.principal for each in request.creations]
                errors = self._said(who, [each.error_code for each in reply.results], self._log.principals)
            case BrokerRegistrationRequest():
                errors = int(not self._registered(request, reply))
            case BrokerHeartbeatRequest():
                errors = int(not self._heard(request, reply, min(asked_end, known_end)))
        self.answers[f"{kind} {'refused in part' if errors else 'done'}"] += 1

    def at_the_end(self) -> None:
        """When everybody has an answer."""
        for name, count in self._log.created.items():
            if count > self._created[name] + self._unknown[name]:
                story = f"{name}: {count} times in the log, {self._created[name]} acknowledged"
                raise Violation("safety: a topic was created that nobody was told of", story)

    def _expect(self, holds: bool, story: str) -> bool:
        if not holds:
            raise Violation(RULE, story)
        return True

    # --- topics ---------------------------------------------------------------------------------------------

    def _topic_created(self, result: Any) -> bool:
        if result.error_code == Error.NOT_CONTROLLER:
            self._unknown[result.name] += 1
        if result.error_code:
            return False
        self._created[result.name] += 1
        return self._expect(self._log.names.get(result.topic_id) == result.name, f"topic {result.name} was created")

    def _topic_grown(self, name: str, count: int, error: int) -> bool:
        if error:
            return False
        self._grown[name, count - 1] += 1
        if self._grown[name, count - 1] > self._log.grown[name, count - 1]:
            raise Violation(TWICE, f"{name} has {count} partitions, as so many were told who asked for that")
        return True

    def _topic_deleted(self, result: Any) -> bool:
        if result.error_code:
            return False
        if result.topic_id in self._deleted:
            raise Violation(TWICE, f"topic {result.name} was deleted")
        self._deleted.add(result.topic_id)
        return self._expect(result.topic_id in self._log.removed, f"topic {result.name} was deleted")

    # --- partitions -----------------------------------------------------------------------------------------

    def _altered(self, reply: Any) -> int:
        if reply.error_code:
            return 1
        refused = 0
        for topic in reply.topics:
            for each in topic.partitions:
                if each.error_code:
                    refused += 1
                    continue
                key = (topic.topic_id, each.partition_index)
                told = (each.leader_id, tuple(each.isr), each.leader_epoch, each.partition_epoch)
                states = [state for _, state in self._log.histories.get(key, ())]
                in_log = any(
                    (state.leader, state.isr, state.leader_epoch, state.partition_epoch) == told for state in states
                )
                self._expect(in_log, f"{self._log.names[key[0]]}-{key[1]} has leader, ISR, epochs {told}")
                self._log.left_means_left.acknowledged(self._log, key, tuple(each.isr), each.partition_epoch)
        return refused

    def _elected(self, reply: Any, asked_end: int) -> None:
        """As in Kafka, "done" says that a record was written: mostly another leader, at times the end of a move."""
        if reply.error_code:
            return
        for topic in reply.replica_election_results:
            for each in topic.partition_result:
                if each.error_code:
                    continue
                keys = self._log.keys_of(topic.topic, each.partition_id)
                changed = any(len(self._log.states_since(key, asked_end)) > 1 for key in keys)
                self._expect(changed, f"an election changed {topic.topic}-{each.partition_id}")

    def _moved(self, request: AlterPartitionReassignmentsRequest, reply: Any, asked_end: int) -> int:
        if reply.error_code:
            return 1
        refused = 0
        for topic, results in zip(request.topics, reply.responses, strict=True):
            for asked, each in zip(topic.partitions, results.partitions, strict=True):
                if each.error_code or asked.replicas is None:
                    refused += each.error_code != 0
                    continue
                keys = self._log.keys_of(topic.name, asked.partition_index)
                states = [state for key in keys for state in self._log.states_since(key, asked_end)]
                wanted = [tuple(r for r in state.replicas if r not in state.removing) for state in states]
                moves = tuple(asked.replicas) in wanted
                self._expect(moves, f"{topic.name}-{asked.partition_index} moves to {asked.replicas}: {wanted}")
        return refused

    # --- settings and rights --------------------------------------------------------------------------------

    def _said(self, values: list[str], errors: list[int], known: set[str]) -> int:
        for value, error in zip(values, errors, strict=True):
            if not error:
                self._expect(value in known, f"{value} was written")
            elif error != Error.NOT_CONTROLLER:
                self._log.refused.add(value)
                if value in known:
                    self._log.check_refused(value, self._log.end)
        return sum(error != 0 for error in errors)

    # --- brokers --------------------------------------------------------------------------------------------

    def _registered(self, request: BrokerRegistrationRequest, reply: Any) -> bool:
        if reply.error_code:
            return False
        epochs = self._log.registrations.get((request.broker_id, request.incarnation_id), set())
        story = f"broker {request.broker_id} is registered with epoch {reply.broker_epoch}, the log has {epochs}"
        return self._expect(reply.broker_epoch in epochs, story)

    def _heard(self, request: BrokerHeartbeatRequest, reply: Any, asked_end: int) -> bool:
        """That it is not fenced was so at some time since it asked; told to stop, it led nothing then.

        A copy that comes behind that in the log brings back what ZooKeeper said, whoever is fenced.
        """
        if reply.error_code:
            return False
        broker = request.broker_id
        said = [fenced for offset, who, fenced in self._log.lives if who == broker and offset >= asked_end]
        before = [fenced for offset, who, fenced in self._log.lives if who == broker and offset < asked_end]
        self._expect(reply.is_fenced in [*before[-1:], *said], f"broker {broker} is fenced: {reply.is_fenced}")
        if reply.should_shut_down:
            let_go = max((offset for offset, who, _ in self._log.lives if who == broker), default=-1)
            led = [
                key
                for key, partition in self._log.partitions.items()
                if partition.leader == broker and len(said) <= 1 and partition.leader != NO_LEADER
                if self._log.histories[key][0][0] <= let_go
            ]
            named = [f"{self._log.names[topic_id]}-{partition}" for topic_id, partition in led]
            self._expect(not led, f"broker {broker} may stop, and leads {named}")
        return True
