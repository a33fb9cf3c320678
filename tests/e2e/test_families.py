"""Quotas, SCRAM credentials, ACLs and delegation tokens on a real cluster: copied as stock copies them, kept in
ZooKeeper while both worlds live, and still there, unchanged, after the way back.

All of them are planted by Kafka's own tools, through brokers with AclAuthorizer. Only the delegation token is written
by hand, in Kafka's format: brokers make one only for clients that log in with SASL.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from migrator.driver.copy import producer_id_margin
from migrator.lab.cluster import LabCluster
from migrator.lab.ours import OurController, our_controller
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.properties import Value
from migrator.zk.multi import Create, Delete, Multi, SetData
from migrator.zk.session import ZkSession
from tests.e2e.support import assert_same, audit, produce, wait_for, wait_zookeeper_rules
from tests.e2e.test_stock_equality import copied_records, differences, rehearse

pytestmark = pytest.mark.lab

TOPICS = ["orders", "payments"]
WITH_SECURITY: dict[str, Value] = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "allow.everyone.if.no.acl.found": True,
    "super.users": "User:ANONYMOUS",
    "delegation.token.secret.key": "a secret of the laboratory",
    "auto.leader.rebalance.enable": "false",  # leaders that move between two copies would differ in them
}
HEEDING_ACLS: dict[str, Value] = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "delegation.token.secret.key": WITH_SECURITY["delegation.token.secret.key"],
}
"""Without it the gate stays closed over ACLs (Z2K-1020) and tokens (Z2K-1044)."""

PASSWORD = "hunter2-of-the-laboratory"

ACL_COMMANDS = (
    (
        "--add --force --allow-principal User:alice --allow-principal User:CN=bob,O=x --allow-host * --allow-host "
        "127.0.0.1 --operation All --operation Describe --topic orders --topic * --group app --transactional-id tx"
    ),
    (
        "--add --force --deny-principal User:mallory --operation Write --operation Create --topic pre- "
        "--resource-pattern-type prefixed"
    ),
    (
        "--add --force --allow-principal User:alice --operation ClusterAction --operation IdempotentWrite "
        "--operation AlterConfigs --operation DescribeConfigs --cluster"
    ),
    (
        "--add --force --allow-principal User:alice --operation CreateTokens --operation DescribeTokens "
        "--user-principal User:carol"
    ),
    "--add --force --allow-principal User:alice --operation Describe --delegation-token some-token",
)
CONFIG_COMMANDS = (
    "--entity-type users --entity-name al@ice --add-config producer_byte_rate=1048576,request_percentage=12.5",
    (
        "--entity-type users --entity-name al@ice --add-config "
        f"SCRAM-SHA-256=[iterations=4096,password={PASSWORD}],SCRAM-SHA-512=[password={PASSWORD}]"
    ),
    "--entity-type users --entity-default --add-config consumer_byte_rate=9999999",
    (
        "--entity-type users --entity-name al@ice --entity-type clients --entity-default "
        "--add-config controller_mutation_rate=10000000"
    ),
    "--entity-type users --entity-default --entity-type clients --entity-name app/1 --add-config producer_byte_rate=7",
    "--entity-type clients --entity-name some~app --add-config consumer_byte_rate=5",
    "--entity-type clients --entity-default --add-config request_percentage=0.0001",
    "--entity-type ips --entity-name 127.0.0.2 --add-config connection_creation_rate=100",
    "--entity-type ips --entity-default --add-config connection_creation_rate=100000",
)
TOKEN = "/delegation_token/tokens/Gr1sLFtXR6ejN-_a"
TOKEN_DATA = json.dumps(
    {
        "version": 3, "owner": "User%3Aal%40ice", "tokenRequester": "User%3Asuper", "renewers": ["User%3Acarol"],
        "issueTimestamp": 1_700_000_000_000, "maxTimestamp": 4_000_000_000_000, "expiryTimestamp": 3_900_000_000_000,
        "tokenId": "Gr1sLFtXR6ejN-_a",
    }
).encode()  # fmt: skip
ROOTS = ("/config/users", "/config/clients", "/config/ips", "/kafka-acl", "/kafka-acl-extended/prefixed")


def plant_every_family(cluster: LabCluster) -> None:
    tool, brokers = cluster.laboratory.tool, ("--bootstrap-server", cluster.bootstrap_servers)
    for words in ACL_COMMANDS:
        tool("kafka.admin.AclCommand", *brokers, *words.split())
    for words in CONFIG_COMMANDS:
        tool("kafka.admin.ConfigCommand", *brokers, "--alter", *words.split())
    cluster.zk.create(TOKEN, TOKEN_DATA)


def listed_acls(cluster: LabCluster) -> list[str]:
    """What a broker's authorizer knows, as Kafka's tool prints it."""
    text = cluster.laboratory.tool("kafka.admin.AclCommand", "--bootstrap-server", cluster.bootstrap_servers, "--list")
    return sorted(line.strip() for line in text.splitlines() if line.strip())


def znodes(cluster: LabCluster) -> dict[str, Any]:
    """What the families' znodes say, without those that say nothing; a resource's ACLs are a set."""
    return dict(_said(cluster))


def _said(cluster: LabCluster) -> Iterator[tuple[str, Any]]:
    below = [*ROOTS, TOKEN.rpartition("/")[0]]
    while below:
        path = below.pop()
        below += [f"{path}/{name}" for name in cluster.zk.children(path)]
        data = cluster.zk.read(path)
        found = json.loads(data) if data else {}
        if "acls" in found:
            found["acls"] = sorted(found["acls"], key=str)
        if found and found != {"version": 1, "config": {}}:
            yield path, found


def notifications(cluster: LabCluster, root: str) -> set[str]:
    return {(cluster.zk.read(f"{root}/{name}") or b"").decode() for name in cluster.zk.children(root)}


def abort_takeover(cluster: LabCluster) -> None:
    """What Kafka's documentation says for the way back from a stock quorum that is stopped."""
    cluster.zk.delete("/migration")
    cluster.zk.delete("/controller")
    wait_zookeeper_rules(cluster)


def spoil_zookeeper(cluster: LabCluster) -> None:
    """What somebody else might have done while no controller of ours was there."""
    acls = b'{"version":1,"acls":[{"principal":"User:eve","permissionType":"Allow","host":"*","operation":"All"}]}'
    change = (
        Delete("/kafka-acl/Topic/orders"),
        Create("/kafka-acl-extended/prefixed/Topic/stray-", acls),
        SetData("/config/users/al%40ice", b'{"version":1,"config":{"producer_byte_rate":"1"}}'),
        Delete("/config/users/<default>/clients/app%2F1"),
        SetData("/config/ips/<default>", b'{"version":1,"config":{}}'),
        Create("/config/clients/stray", b'{"version":1,"config":{"consumer_byte_rate":"1"}}'),
        Delete(TOKEN),
    )
    with ZkSession(cluster.zookeeper_connect) as session:
        assert session.apply(Multi(change)).applied


def assert_no_secret_in(text: str, kept: dict[str, Any]) -> None:
    credentials = kept["/config/users/al%40ice"]["config"]
    parts = [credentials[key] for key in ("SCRAM-SHA-256", "SCRAM-SHA-512")]
    secrets = [PASSWORD, *(pair.partition("=")[2] for part in parts for pair in part.split(",")[:3])]
    assert len(secrets) == 7
    assert not [secret for secret in secrets if secret in text]


@pytest.mark.long
def test_every_family_is_copied_as_stock_copies_it_kept_and_rolled_back(laboratory: Laboratory, tmp_path: Path) -> None:
    cluster = LabCluster(laboratory, extra=WITH_SECURITY)
    cluster.start()
    cluster.create_topics(TOPICS)
    produce(cluster, TOPICS[0], 10)
    plant_every_family(cluster)
    planted = znodes(cluster)
    assert len(planted) == 17, sorted(planted)
    acls = listed_acls(cluster)

    stock = cluster.quorum(1)
    cluster.restart_as(lambda spec: spec.as_migrating(stock.voters))
    cluster.wait_isr_whole(TOPICS)
    rehearse(cluster, tmp_path / "rehearsal")
    stock.start()
    stock.wait_dual_write()
    rehearsed = copied_records(laboratory, tmp_path / "rehearsal" / "__cluster_metadata-0")
    theirs = copied_records(laboratory, stock.controllers[0].metadata_log)
    theirs["producer ids"]["data"]["nextProducerId"] += producer_id_margin(brokers=3)
    assert list(differences(rehearsed, theirs)) == []
    kinds = [key.split(" ")[0] for key in theirs]
    assert [kinds.count(kind) for kind in ("quota", "credential", "ACL", "token")] == [9, 2, 41, 1]
    assert_same(cluster, stock.controllers[0].metadata_log)
    stock.stop()
    stock.controllers[0].directory.rename(laboratory.directory / "stock")  # ours takes its node id and its place
    abort_takeover(cluster)
    assert znodes(cluster) == planted

    ours = our_controller(cluster, HEEDING_ACLS)
    cluster.restart_as(lambda spec: spec.as_migrating(ours.voters))
    cluster.wait_isr_whole(TOPICS)
    ours.start()
    ours.wait_dual_write()
    assert_same(cluster, ours.metadata_log)
    assert znodes(cluster) == planted

    ours.kill()
    spoil_zookeeper(cluster)
    report = audit(cluster, ours.metadata_log)
    assert {each["family"]: each["different"] for each in report["families"] if each["different"]} == {
        "client quotas": 4, "SCRAM credentials": 1, "ACLs": 2, "delegation tokens": 1,
    }  # fmt: skip
    assert_no_secret_in(json.dumps(report), planted)
    ours.start()
    ours.wait_dual_write()
    assert znodes(cluster) == planted
    assert_same(cluster, ours.metadata_log)
    assert "TOPIC:orders" in notifications(cluster, "/kafka-acl-changes")
    assert notifications(cluster, "/delegation_token/token_changes") == {TOKEN.rpartition("/")[2]}
    wait_for(lambda: None if listed_acls(cluster) == acls else "other ACLs", "brokers know the ACLs again")

    rollback(cluster, ours)
    assert znodes(cluster) == planted
    assert listed_acls(cluster) == acls
    assert_no_secret_in(ours.process.log_text(), planted)


def rollback(cluster: LabCluster, controller: OurController) -> None:
    controller.ask("rollback")
    controller.wait_state("RETIRED")
    wait_zookeeper_rules(cluster)
    assert cluster.zk.read("/migration") is None
    controller.stop()
