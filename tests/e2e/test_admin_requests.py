"""What administrators do in dual-write beyond topics: move replicas, elect leaders, configure the old way.

Kafka's own tools and a client's admin, sent to real ZooKeeper-mode brokers, which pass it on to our controller. Each
time both sides are compared, and in the end the cluster goes back and ZooKeeper shows what the log said.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import Consumer, ElectionType, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ConfigResource,
    NewTopic,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from migrator.lab.cluster import LOOKS_FOR_FLAWS_S, LabCluster
from migrator.lab.ours import OurController, ready_to_migrate
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.tools import (
    cancel_reassignment,
    elect_preferred_leaders,
    elect_unclean_leader,
    list_reassignments,
    reassign,
)
from migrator.node.transport.broker_client import BrokerConnection
from migrator.wire.messages.partitions import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from tests.e2e.support import (
    HANGS_AFTER_S,
    Answer,
    assert_same,
    once,
    produce,
    ready_cluster,
    wait_for,
    wait_zookeeper_rules,
)

pytestmark = pytest.mark.lab

MOVED = "moved"
RECORDS = 2_000
NOBODY_BALANCES = {"auto.leader.rebalance.enable": False}
"""Where a test says who leads: after 300 s, which a busy machine may need, leaders go back to preferred replicas."""


def create(cluster: LabCluster, topic: str, *replicas: Sequence[int]) -> None:
    assignment = [list(each) for each in replicas]
    new = NewTopic(topic, num_partitions=len(assignment), replica_assignment=assignment)
    once(
        cluster.new_admin,
        lambda admin: admin.create_topics([new], operation_timeout=30)[topic].result(120),
        f"topic {topic} is created",
    )
    cluster.wait_isr_whole([topic])


def assignment(cluster: LabCluster, topic: str) -> dict[str, Any]:
    """`/brokers/topics/<topic>` as ZooKeeper has it."""
    data = cluster.zk.read(f"/brokers/topics/{topic}")
    assert data is not None
    found = json.loads(data)
    return {key: found[key] for key in ("partitions", "adding_replicas", "removing_replicas")}


def at_rest(**partitions: Sequence[int]) -> dict[str, Any]:
    return {
        "partitions": {number.removeprefix("p"): list(each) for number, each in partitions.items()},
        "adding_replicas": {},
        "removing_replicas": {},
    }


def wait_assignment(cluster: LabCluster, topic: str, wanted: dict[str, Any]) -> None:
    """A move ends by a change of the ISR, which a broker with the flaw of docs/undo.md reports to nobody."""
    looked = time.monotonic()

    def why_not() -> str | None:
        nonlocal looked
        found = assignment(cluster, topic)
        if found != wanted and time.monotonic() - looked > LOOKS_FOR_FLAWS_S:
            cluster.restart_flawed()
            looked = time.monotonic()
        return None if found == wanted else f"{found}"

    wait_for(why_not, f"{topic} is at {wanted}")
    cluster.wait_isr_whole([topic])


def wait_logs(cluster: LabCluster, topic: str, partition: int, brokers: set[int]) -> None:
    """Exactly these brokers have a log of the partition; what a StopReplica deletes is renamed first."""

    def why_not() -> str | None:
        found = {
            broker.broker_id
            for broker in cluster.brokers
            if (broker.spec.directory / "data-0" / f"{topic}-{partition}").exists()
        }
        return None if found == brokers else f"brokers {sorted(found)} have it"

    wait_for(why_not, f"the log of {topic}-{partition} is on {sorted(brokers)}")


def order(cluster: LabCluster, topic: str, *replicas: Sequence[int]) -> None:
    """A reassignment that Kafka's tool would not send: it looks first whether every broker is there."""
    moves = tuple(ReassignablePartition(number, each) for number, each in enumerate(replicas))
    request = AlterPartitionReassignmentsRequest(topics=(ReassignableTopic(topic, moves),))

    async def ask() -> AlterPartitionReassignmentsResponse:
        connection = BrokerConnection("127.0.0.1", cluster.brokers[0].spec.port, "a test")
        try:
            return await connection.ask(request, 0, AlterPartitionReassignmentsResponse, 120)
        finally:
            connection.close()

    answer = asyncio.run(ask())
    assert answer.error_code == 0, answer
    assert [each.error_code for each in answer.responses[0].partitions] == [0] * len(replicas), answer


def leaders(cluster: LabCluster, topic: str, partitions: int) -> list[int]:
    states = [cluster.partition_state(topic, number) for number in range(partitions)]
    return [-1 if state is None else int(state["leader"]) for state in states]


def ends_of(cluster: LabCluster, partitions: Sequence[TopicPartition]) -> dict[int, int]:
    """Where each partition ends, asked by a new client: one that has heard of no leader asks nobody for one until its
    metadata is old (librdkafka 2.16, `rd_kafka_query_watermark_offsets`). Raises KafkaException.
    """
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "everything"})
    try:
        return {each.partition: consumer.get_watermark_offsets(each, timeout=30)[1] for each in partitions}
    finally:
        consumer.close()


def consumed(cluster: LabCluster, topic: str, partitions: int) -> list[str]:
    """Every record from the first to the end."""
    wanted = [TopicPartition(topic, number, 0) for number in range(partitions)]
    ends: dict[int, int] = {}

    def why_not() -> str | None:
        """Clients hear a moment later than ZooKeeper who leads."""
        try:
            ends.update(ends_of(cluster, wanted))
        except KafkaException as error:
            return str(error)
        return None

    wait_for(why_not, f"the leaders of {topic} answer")
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "everything"})
    try:
        consumer.assign(wanted)
        found: list[str] = []
        for _ in range(sum(ends.values())):
            message = consumer.poll(HANGS_AFTER_S)
            assert message is not None, f"{len(found)} records after {HANGS_AFTER_S} s without one"
            assert message.error() is None, message.error()
            value = message.value()
            assert isinstance(value, bytes)
            found.append(value.decode())
        return found
    finally:
        consumer.close()


def assert_all_there(cluster: LabCluster, topic: str, partitions: int, count: int = RECORDS) -> None:
    assert sorted(consumed(cluster, topic, partitions)) == sorted(map(str, range(count)))


def described(cluster: LabCluster, *topics: str) -> dict[str, dict[int, list[int]]]:
    """Replicas by topic and partition, as a client is told."""

    def ask(admin: AdminClient) -> dict[str, dict[int, list[int]]]:
        return {
            name: {each.id: [node.id for node in each.replicas] for each in future.result(120).partitions}
            for name, future in admin.describe_topics(TopicCollection(list(topics))).items()
        }

    return once(cluster.new_admin, ask, "topics are described")


def rollback(cluster: LabCluster, controller: OurController) -> None:
    controller.ask("rollback")
    controller.wait_state("RETIRED")
    controller.stop()
    wait_zookeeper_rules(cluster)


def why_not_unfenced(controller: OurController, broker: int) -> str | None:
    """Its port and its znode are there before the controller has heard that it is."""
    seen = [each for each in controller.status()["brokers"] if each["id"] == broker]
    return None if seen and not seen[0]["fenced"] else f"broker {broker}: {seen}"


def elect_preferred_leader(cluster: LabCluster, topic: str, partition: int) -> str | None:
    """The error's name, None when it was elected."""
    asked = [TopicPartition(topic, partition)]
    (error,) = once(
        cluster.new_admin,
        lambda admin: admin.elect_leaders(ElectionType.PREFERRED, asked).result(),
        f"an election for {topic}-{partition}",
    ).values()
    return None if error is None else str(error.name())


def test_replicas_with_data_move_leaders_are_elected_and_the_cluster_goes_back(laboratory: Laboratory) -> None:
    with ready_cluster(laboratory, extra=NOBODY_BALANCES) as (cluster, controller):
        create(cluster, MOVED, (0, 1), (1, 2))
        produce(cluster, MOVED, RECORDS)
        controller.start()
        controller.wait_dual_write()

        # One partition leaves its leader, the other one gets a third replica; both need a log that has to be copied.
        reassign(laboratory, cluster.bootstrap_servers, {(MOVED, 0): (2, 1), (MOVED, 1): (1, 2, 0)})
        wait_assignment(cluster, MOVED, at_rest(p0=(2, 1), p1=(1, 2, 0)))
        wait_logs(cluster, MOVED, 0, {1, 2})
        assert leaders(cluster, MOVED, 2) == [2, 1]
        assert_same(cluster, controller.data)
        assert_all_there(cluster, MOVED, 2)

        # Fewer replicas, and another order: nothing to copy.
        reassign(laboratory, cluster.bootstrap_servers, {(MOVED, 0): (1, 2), (MOVED, 1): (0,)})
        wait_assignment(cluster, MOVED, at_rest(p0=(1, 2), p1=(0,)))
        wait_logs(cluster, MOVED, 1, {0})
        assert leaders(cluster, MOVED, 2) == [2, 0]

        elect_preferred_leaders(laboratory, cluster.bootstrap_servers)
        wait_for(lambda: str(now) if (now := leaders(cluster, MOVED, 2)) != [1, 0] else None, "preferred leaders")
        assert elect_preferred_leader(cluster, MOVED, 0) == "ELECTION_NOT_NEEDED"
        assert_same(cluster, controller.data)

        before = described(cluster, MOVED, "topic-0")
        rollback(cluster, controller)
        assert described(cluster, MOVED, "topic-0") == before
        assert before[MOVED] == {0: [1, 2], 1: [0]}
        assert_all_there(cluster, MOVED, 2)

        reassign(laboratory, cluster.bootstrap_servers, {(MOVED, 0): (0, 1), (MOVED, 1): (2,)})  # by ZooKeeper's own
        wait_assignment(cluster, MOVED, at_rest(p0=(0, 1), p1=(2,)))
        wait_logs(cluster, MOVED, 1, {2})
        assert_all_there(cluster, MOVED, 2)


def test_a_move_to_a_broker_that_is_away_can_be_seen_taken_back_and_outlives_controllers_and_the_rollback(
    laboratory: Laboratory,
) -> None:
    with ready_cluster(laboratory) as (cluster, controller):
        create(cluster, MOVED, (0, 1), (1, 0), (0, 1))
        produce(cluster, MOVED, RECORDS)
        controller.start()
        controller.wait_dual_write()
        away = cluster.brokers[2]
        away.stop()

        order(cluster, MOVED, (0, 2), (2, 0), (2, 1))
        moving = {
            "partitions": {"0": [0, 2, 1], "1": [2, 0, 1], "2": [2, 1, 0]},
            "adding_replicas": {"0": [2], "1": [2], "2": [2]},
            "removing_replicas": {"0": [1], "1": [1], "2": [0]},
        }
        wait_for(lambda: None if assignment(cluster, MOVED) == moving else "not yet", "the move is in ZooKeeper")
        text = list_reassignments(laboratory, cluster.bootstrap_servers)
        assert "moved-0: replicas: 0,2,1. adding: 2. removing: 1." in text, text
        assert_same(cluster, controller.data)

        cancel_reassignment(laboratory, cluster.bootstrap_servers, {(MOVED, 2): (2, 1)})
        moving["partitions"]["2"] = [1, 0]
        del moving["adding_replicas"]["2"], moving["removing_replicas"]["2"]
        wait_for(lambda: None if assignment(cluster, MOVED) == moving else "not yet", "one move is taken back")

        controller.kill()
        controller.launch()
        controller.wait_dual_write()
        assert assignment(cluster, MOVED) == moving
        assert_same(cluster, controller.data)

        rollback(cluster, controller)
        assert assignment(cluster, MOVED) == moving
        away.start()
        away.wait_ready()
        wait_assignment(cluster, MOVED, at_rest(p0=(0, 2), p1=(2, 0), p2=(1, 0)))
        wait_logs(cluster, MOVED, 0, {0, 2})
        assert_all_there(cluster, MOVED, 3)


@pytest.mark.long
def test_a_successor_ends_a_move_that_its_predecessor_began(laboratory: Laboratory) -> None:
    """The broker that comes back finds the move, and what it ends is deleted although nobody remembers the order."""
    with ready_cluster(laboratory) as (cluster, controller):
        create(cluster, MOVED, (0, 1))
        produce(cluster, MOVED, RECORDS)
        controller.start()
        controller.wait_dual_write()
        away = cluster.brokers[2]
        away.stop()
        order(cluster, MOVED, (2, 1))
        wait_for(lambda: None if assignment(cluster, MOVED)["adding_replicas"] else "not yet", "the move began")
        controller.kill()
        away.start()  # it comes while nobody is controller
        controller.launch()
        controller.wait_dual_write()
        away.wait_ready()
        wait_assignment(cluster, MOVED, at_rest(p0=(2, 1)))
        wait_logs(cluster, MOVED, 0, {1, 2})
        assert_same(cluster, controller.data)
        assert_all_there(cluster, MOVED, 1)


def test_an_unclean_leader_is_elected_when_somebody_asks_for_it(laboratory: Laboratory) -> None:
    with ready_cluster(laboratory, extra=NOBODY_BALANCES) as (cluster, controller):
        create(cluster, MOVED, (1, 2))
        produce(cluster, MOVED, RECORDS)
        controller.start()
        controller.wait_dual_write()
        first, second = cluster.brokers[1], cluster.brokers[2]

        def isr(wanted: list[int], leader: int) -> None:
            def why_not() -> str | None:
                state = cluster.partition_state(MOVED, 0)
                return None if state and (state["isr"], state["leader"]) == (wanted, leader) else f"{state}"

            wait_for(why_not, f"in sync {wanted}, led by {leader}")

        second.stop()
        isr([1], 1)
        first.stop()
        isr([1], -1)
        second.start()
        second.wait_ready()
        wait_for(lambda: why_not_unfenced(controller, 2), "broker 2 may lead")
        assert elect_preferred_leader(cluster, MOVED, 0) == "PREFERRED_LEADER_NOT_AVAILABLE"
        elect_unclean_leader(laboratory, cluster.brokers[0].address, MOVED, 0)
        isr([2], 2)
        assert_all_there(cluster, MOVED, 1)  # it had everything when it left
        assert_same(cluster, controller.data)

        first.start()
        first.wait_ready()
        cluster.wait_isr_whole([MOVED])
        assert leaders(cluster, MOVED, 1) == [2]
        rollback(cluster, controller)
        assert_all_there(cluster, MOVED, 1)


def test_configuration_is_replaced_as_a_whole_by_the_old_request(laboratory: Laboratory) -> None:
    with ready_cluster(laboratory) as (cluster, controller):
        controller.start()
        controller.wait_dual_write()

        def stored(path: str) -> dict[str, str] | None:
            data = cluster.zk.read(f"/config/{path}")
            return None if data is None else dict(json.loads(data)["config"])

        def becomes(path: str, wanted: dict[str, str]) -> None:
            wait_for(lambda: None if stored(path) in (wanted, wanted or None) else str(stored(path)), path)

        def of_brokers(*words: str) -> None:
            """The tool of 3.9 asks what is there, and sends the whole of it back with AlterConfigs."""
            server = ("--bootstrap-server", cluster.bootstrap_servers)
            laboratory.tool("kafka.admin.ConfigCommand", *server, "--entity-type", "brokers", "--alter", *words)

        def known(name: str, value: str) -> None:
            """The tool asks the broker, which hears of a change a moment after ZooKeeper has it."""

            def why_not() -> str | None:
                found = cluster.describe_configs(ResourceType.BROKER, "1")[name].value
                return None if found == value else f"{name} is {found}"

            wait_for(why_not, "the broker knows it")

        of_brokers("--entity-name", "1", "--add-config", "log.cleaner.backoff.ms=14000")
        known("log.cleaner.backoff.ms", "14000")
        of_brokers("--entity-name", "1", "--add-config", "log.cleaner.io.buffer.size=600000")
        becomes("brokers/1", {"log.cleaner.backoff.ms": "14000", "log.cleaner.io.buffer.size": "600000"})
        known("log.cleaner.io.buffer.size", "600000")
        of_brokers("--entity-default", "--add-config", "log.cleaner.threads=2")
        becomes("brokers/<default>", {"log.cleaner.threads": "2"})
        of_brokers("--entity-name", "1", "--delete-config", "log.cleaner.backoff.ms")
        becomes("brokers/1", {"log.cleaner.io.buffer.size": "600000"})

        def of_topic(only_validate: bool = False, **values: str) -> None:
            configs = {name.replace("_", "."): value for name, value in values.items()}
            resource = ConfigResource(ResourceType.TOPIC, "topic-0", set_config=configs)
            once(
                cluster.new_admin,
                lambda admin: admin.alter_configs([resource], validate_only=only_validate)[resource].result(120),
                "a topic is configured",
            )

        of_topic(retention_ms="3600001", cleanup_policy="compact")
        becomes("topics/topic-0", {"retention.ms": "3600001", "cleanup.policy": "compact"})
        of_topic(only_validate=True, segment_bytes="1000000")
        of_topic(retention_ms="3600002")
        becomes("topics/topic-0", {"retention.ms": "3600002"})
        with pytest.raises(Exception, match="INVALID_CONFIG"):
            of_topic(retention_ms="soon")

        known("log.cleaner.threads", "2")
        assert_same(cluster, controller.data)
        rollback(cluster, controller)
        assert stored("brokers/1") == {"log.cleaner.io.buffer.size": "600000"}


def test_quotas_and_credentials_reach_zookeeper_and_the_brokers(laboratory: Laboratory) -> None:
    with ready_cluster(laboratory) as (cluster, controller):
        controller.start()
        controller.wait_dual_write()

        def stored(path: str) -> dict[str, str] | None:
            data = cluster.zk.read(f"/config/{path}")
            return None if data is None else dict(json.loads(data)["config"])

        def becomes(path: str, wanted: dict[str, str]) -> None:
            wait_for(lambda: None if stored(path) in (wanted, wanted or None) else str(stored(path)), path)

        def configs(*words: str) -> str:
            return laboratory.tool("kafka.admin.ConfigCommand", "--bootstrap-server", cluster.bootstrap_servers, *words)

        def described(*words: str) -> str:
            return configs("--describe", *words)

        alice = ("--entity-type", "users", "--entity-name", "alice smith")
        app = ("--entity-type", "clients", "--entity-name", "app/1")
        anybody = ("--entity-type", "users", "--entity-default")
        home = ("--entity-type", "ips", "--entity-name", "127.0.0.1")
        configs("--alter", *alice, "--add-config", "producer_byte_rate=1048576,request_percentage=12.5")
        configs("--alter", *alice, *app, "--add-config", "consumer_byte_rate=2097152")
        configs("--alter", *anybody, "--add-config", "controller_mutation_rate=50")
        configs("--alter", *home, "--add-config", "connection_creation_rate=1000")
        becomes("users/alice%20smith/clients/app%2F1", {"consumer_byte_rate": "2097152"})
        becomes("users/<default>", {"controller_mutation_rate": "50.0"})
        becomes("ips/127.0.0.1", {"connection_creation_rate": "1000"})
        configs("--alter", *alice, "--delete-config", "request_percentage")
        becomes("users/alice%20smith", {"producer_byte_rate": "1048576"})
        wait_for(lambda: None if "1048576" in described(*alice) else "not yet", "brokers say what alice may")

        def of_alice(alteration: UserScramCredentialUpsertion | UserScramCredentialDeletion) -> None:
            once(
                cluster.new_admin,
                lambda admin: admin.alter_user_scram_credentials([alteration])["alice smith"].result(120),
                "credentials are altered",
            )

        sha_512 = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 8192)
        of_alice(UserScramCredentialUpsertion("alice smith", sha_512, b"a secret of hers", b"some salt"))
        wait_for(lambda: None if "SCRAM-SHA-512" in (stored("users/alice%20smith") or {}) else "not yet", "it is kept")
        text = (stored("users/alice%20smith") or {})["SCRAM-SHA-512"]
        assert "iterations=8192" in text

        def of_this_user(admin: AdminClient) -> Any:
            answers = admin.describe_user_scram_credentials(["alice smith"])
            assert isinstance(answers, dict)
            return answers["alice smith"].result(120)

        found = once(cluster.new_admin, of_this_user, "credentials are described")
        assert [(each.mechanism, each.iterations) for each in found.scram_credential_infos] == [
            (ScramMechanism.SCRAM_SHA_512, 8192)
        ]
        with pytest.raises(KafkaException, match="RESOURCE_NOT_FOUND"):
            of_alice(UserScramCredentialDeletion("alice smith", ScramMechanism.SCRAM_SHA_256))
        assert_same(cluster, controller.data)

        rollback(cluster, controller)
        assert stored("users/alice%20smith") == {"producer_byte_rate": "1048576", "SCRAM-SHA-512": text}
        configs("--alter", *alice, "--add-config", "producer_byte_rate=1048577")  # by ZooKeeper's own
        becomes("users/alice%20smith", {"producer_byte_rate": "1048577", "SCRAM-SHA-512": text})


TOKEN_KEY = "what tokens of the laboratory are derived with"


def with_a_client_listener(laboratory: Laboratory) -> tuple[LabCluster, str]:
    """Brokers with an authorizer and a listener on which clients say who they are; the address of that one."""
    authorized = {
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:ANONYMOUS",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,CLIENT:SASL_PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "delegation.token.secret.key": TOKEN_KEY,
        "listener.name.client.plain.sasl.jaas.config": (
            'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="hers";'
        ),
    }
    cluster = LabCluster(laboratory)
    addresses = []
    for broker in cluster.brokers:
        addresses.append(f"127.0.0.1:{laboratory.ports.reserve()}")
        listeners = f"PLAINTEXT://127.0.0.1:{broker.spec.port},CLIENT://{addresses[-1]}"
        extra = {**authorized, "listeners": listeners, "advertised.listeners": listeners}
        broker.spec = replace(broker.spec, extra=extra)
    return cluster, ",".join(addresses)


def test_acls_and_tokens_are_for_whom_a_broker_passes_a_request_on(laboratory: Laboratory) -> None:
    cluster, for_clients = with_a_client_listener(laboratory)
    cluster.start()
    cluster.create_topics(["topic-0"])

    def acls(*words: str) -> str:
        return laboratory.tool("kafka.admin.AclCommand", "--bootstrap-server", cluster.bootstrap_servers, *words)

    def stored(path: str) -> set[str]:
        data = cluster.zk.read(path)
        return {each["operation"] for each in json.loads(data)["acls"]} if data else set()

    acls("--add", "--allow-principal", "User:alice", "--operation", "Describe", "--topic", "topic-0")
    of_topic = "/kafka-acl/Topic/topic-0"
    wait_for(lambda: None if stored(of_topic) == {"Describe"} else "not yet", "an ACL before the migration")
    rules = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "delegation.token.secret.key": TOKEN_KEY,
    }
    controller = ready_to_migrate(cluster, ["topic-0"], rules)
    controller.start()
    controller.wait_dual_write()
    of_alice = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}

    def alice(ask: Callable[[AdminClient], Answer]) -> Answer:
        login = {"bootstrap.servers": for_clients, "sasl.username": "alice", "sasl.password": "hers", **of_alice}
        return once(lambda: AdminClient(dict(login)), ask, "alice is answered")

    def creates(name: str) -> str:
        try:
            alice(lambda admin: admin.create_topics([NewTopic(name, 1, 3)], operation_timeout=30)[name].result(120))
        except KafkaException as error:
            return str(error.args[0].name())
        return "NO_ERROR"

    assert creates("alices-1") == "TOPIC_AUTHORIZATION_FAILED"
    pattern = ("--topic", "alices-", "--resource-pattern-type", "prefixed")
    acls("--add", "--allow-principal", "User:alice", "--operation", "Create", "--operation", "Describe", *pattern)
    of_prefix = "/kafka-acl-extended/prefixed/Topic/alices-"
    wait_for(lambda: None if stored(of_prefix) == {"Create", "Describe"} else "not yet", "it is in ZooKeeper")
    assert creates("alices-1") == "NO_ERROR"
    cluster.wait_isr_whole(["alices-1"])
    assert creates("somebodys-1") == "TOPIC_AUTHORIZATION_FAILED"
    wait_for(lambda: None if "alices-" in acls("--list") else "not yet", "brokers have heard of it")
    with pytest.raises(KafkaException, match="TOPIC_AUTHORIZATION_FAILED"):
        alice(lambda admin: admin.delete_topics(["topic-0"])["topic-0"].result(120))
    asked = [TopicPartition("topic-0", 0)]
    with pytest.raises(KafkaException, match="CLUSTER_AUTHORIZATION_FAILED"):
        alice(lambda admin: admin.elect_leaders(ElectionType.PREFERRED, asked).result(120))

    login = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="hers";'
    as_alice = laboratory.directory / "alice.properties"
    as_alice.write_text("".join(f"{key}={value}\n" for key, value in {**of_alice, "sasl.jaas.config": login}.items()))

    def tokens(*words: str) -> str:
        server = ("--bootstrap-server", for_clients, "--command-config", as_alice)
        return laboratory.tool("org.apache.kafka.tools.DelegationTokenCommand", *server, *words)

    told = tokens("--create", "--max-life-time-period", "-1").strip().splitlines()[-1].split()
    token, secret = told[0], told[1]
    wait_for(lambda: None if cluster.zk.exists(f"/delegation_token/tokens/{token}") else "not yet", "the token")
    wait_for(
        lambda: None if token in tokens("--describe", "--owner-principal", "User:alice") else "not yet",
        "brokers know the token",
    )
    tokens("--renew", "--renew-time-period", "60000", "--hmac", secret)
    kept = tokens("--create", "--max-life-time-period", "-1").strip().splitlines()[-1].split()[0]
    tokens("--expire", "--expiry-time-period", "-1", "--hmac", secret)
    wait_for(lambda: "still there" if cluster.zk.exists(f"/delegation_token/tokens/{token}") else None, "its end")
    assert secret not in controller.process.log_text()
    assert TOKEN_KEY not in controller.process.log_text()

    acls("--remove", "--force", "--allow-principal", "User:alice", "--operation", "Create", *pattern)
    wait_for(lambda: None if stored(of_prefix) == {"Describe"} else "not yet", "one is gone")
    assert creates("alices-2") == "TOPIC_AUTHORIZATION_FAILED"
    assert_same(cluster, controller.data)

    rollback(cluster, controller)
    assert (stored(of_topic), stored(of_prefix)) == ({"Describe"}, {"Describe"})
    assert cluster.zk.exists(f"/delegation_token/tokens/{kept}")
    assert creates("alices-3") == "TOPIC_AUTHORIZATION_FAILED"  # ZooKeeper's own controller says so too
