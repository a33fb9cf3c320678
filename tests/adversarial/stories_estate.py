"""Stories of a whole migration of an estate as companies have it (estate.py).

In:   a laboratory; each story makes its own cluster. Elsewhere: the list of them (end_of_road.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Final

import httpx
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # public, but not re-exported for mypy
    AclOperation,
    ResourceType,
)
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError, NoNodeError

from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.properties import read
from migrator.zk import paths
from migrator.zk.session import ZkSession
from tests.adversarial.estate import CANARY_TOPIC, STANDARD_AUTHORIZER, EstateStage
from tests.adversarial.stories_back import back_under_stock, soak
from tests.adversarial.stories_support import create, wait_whole
from tests.e2e.road_stage import TOPICS, why_not_at_the_end
from tests.e2e.support import wait_for
from tests.support.secrets_in_files import files_below, found_in, held_by

REFUSED: Final = (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED)
GUARDED: Final = {"sasl:kafka:31", "world:anyone:1"}
SECRET: Final = {"sasl:kafka:31"}
SECRET_PATHS: Final = ("/config/users", "/config/brokers", "/delegation_token/tokens")
NOT_OURS: Final = ("/consumers", "/zookeeper")
ANSWER_S: Final = 60.0
WORDS: Final = ("", "/gates", "/brokers", "/quorum", "/findings", "/events", "/audits", "/report", "/change-report")


def secured_estate(laboratory: Laboratory) -> None:
    """SASL_SSL on every listener, ACLs, SCRAM users, two log directories, dynamic passwords, guarded znodes, JKS and
    PKCS12 stores, passwords from config providers: from CREATED to COMPLETED by the service."""
    stage = EstateStage(laboratory)
    stage.to_dual_write()
    assert_served(stage)
    changed_in_dual_write(stage)
    acls, users = stage.acls(), stage.users()
    assert len(acls) > 10, acls
    assert set(users) >= {"broker", "controller", "admin", "traffic", "service", "stranger", "late"}, users
    told = [*answers(stage)]
    stage.to_the_end()
    stage.wait_view(why_not_at_the_end)
    told += answers(stage)

    assert_served(stage)
    assert stage.acls() == acls
    assert stage.users() == users
    assert_files(stage)
    wait_for(lambda: stage.serves(0, stage.dynamic), "broker 0 has its dynamic store in KRaft mode")
    last = stage.estate.make_store("last", "JKS")
    stage.set_store(0, last)
    wait_for(lambda: stage.serves(0, last), "broker 0 opens another store in KRaft mode")
    named = stage.cluster.admin().list_topics(timeout=ANSWER_S).topics
    assert CANARY_TOPIC in named, "the service made and wrote its topic by its own login, or no node was restarted"
    print(f"canary: {stage.service.get(f'/migrations/{stage.migration}/change-report')['canary']}", flush=True)
    stage.assert_proven()
    print(f"traffic: {stage.traffic.status.acknowledged} records acknowledged", flush=True)
    stage.service.stop()
    assert_no_secret(stage, told)


def secured_estate_back(laboratory: Laboratory) -> None:
    """The same estate back from SOAK: ours in the place of stock again, brokers with the files of before."""
    stage = EstateStage(laboratory)
    stage.to_dual_write()
    changed_in_dual_write(stage)
    acls, users = stage.acls(), stage.users()
    found, ours = soak(stage)
    back_under_stock(stage, found, ours, sorted(ours), kills_at=2, end=False)
    assert_served(stage)
    assert stage.acls() == acls
    assert stage.users() == users
    wait_for(lambda: stage.serves(0, stage.dynamic), "broker 0 decodes its password in ZooKeeper mode")
    assert_guarded(stage)
    told = answers(stage)
    stage.assert_proven()
    print(f"traffic: {stage.traffic.status.acknowledged} records acknowledged", flush=True)
    stage.service.stop()
    assert_no_secret(stage, told)


def changed_in_dual_write(stage: EstateStage) -> None:
    """A user, a permission, a topic and a password, which our controllers write to both sides."""
    stage.estate.secrets["scram-late"] = "scr4m-of-late"
    stage.make_user("late")
    stage.allow("late", ResourceType.TOPIC, TOPICS[1], AclOperation.WRITE)
    create(stage.cluster, "made-in-dual-write")
    wait_whole(stage.cluster)
    second = stage.estate.make_store("second", "JKS")
    stage.set_store(0, second)
    wait_for(lambda: stage.serves(0, second), "broker 0 opens the store of this change")
    stage.dynamic = second
    assert_guarded(stage)


# --- clients ----------------------------------------------------------------------------------------------


def assert_served(stage: EstateStage) -> None:
    """Who has an ACL is served, who has none is refused, who has a wrong password does not come in."""
    # the traffic writes and reads meanwhile, by its ACLs
    refused = write_as(stage, "stranger", TOPICS[0])
    assert refused is not None
    assert refused.code() in REFUSED, refused
    refused = read_as(stage, "stranger", TOPICS[0])
    assert refused is not None
    assert refused.code() in REFUSED, refused
    wrong = {**stage.estate.client("traffic"), "sasl.password": "wr0ng"}
    told: list[KafkaError] = []
    producer = Producer({**wrong, "bootstrap.servers": stage.cluster.bootstrap_servers, "error_cb": told.append})
    wait_for(lambda: why_not_refused(producer, told), "a wrong password is refused")


def why_not_refused(producer: Producer, told: list[KafkaError]) -> str | None:
    producer.poll(1.0)
    if any(each.code() == KafkaError._AUTHENTICATION for each in told):
        return None
    return f"told {[each.name() for each in told]}"


def write_as(stage: EstateStage, user: str, topic: str) -> KafkaError | None:
    """One record by this user; None when it is in the log."""
    told: list[KafkaError | None] = []
    settings = {**stage.estate.client(user), "bootstrap.servers": stage.cluster.bootstrap_servers}
    producer = Producer({**settings, "message.timeout.ms": int(ANSWER_S * 1000)})

    def answered(error: KafkaError | None, _: Message) -> None:
        told.append(error)

    producer.produce(topic, "x", on_delivery=answered)
    producer.flush(ANSWER_S + 10)
    return told[0]


def read_as(stage: EstateStage, user: str, topic: str) -> KafkaError | None:
    settings = {**stage.estate.client(user), "bootstrap.servers": stage.cluster.bootstrap_servers}
    consumer = Consumer({**settings, "group.id": f"of-{user}", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    ends = time.monotonic() + ANSWER_S
    try:
        while time.monotonic() < ends:
            message = consumer.poll(1.0)
            if message is not None:
                return message.error()
    except KafkaException as error:
        found: KafkaError = error.args[0]
        return found
    finally:
        consumer.close()
    raise AssertionError(f"{user} neither reads {topic} nor is refused")


# --- ZooKeeper --------------------------------------------------------------------------------------------


def assert_guarded(stage: EstateStage) -> None:
    """Every znode has the list that Kafka's brokers give it, and who is somebody else is refused."""
    wrong = {}
    with stage.estate.logged_in(), ZkSession(stage.cluster.zookeeper_connect) as session:
        for path in everything(session):
            try:
                entries, _ = session._client.get_acls(path)
            except NoNodeError:  # an ephemeral one, or a notification that was heard
                continue
            lists = {f"{each.id.scheme}:{each.id.id}:{each.perms}" for each in entries}
            if lists != (SECRET if path.startswith(SECRET_PATHS) else GUARDED):
                wrong[path] = lists
    assert wrong == {}, wrong
    nobody = KazooClient(hosts=stage.cluster.zookeeper_connect, timeout=ANSWER_S)
    nobody.start(timeout=ANSWER_S)
    try:
        for path in (paths.CONTROLLER, paths.MIGRATION, f"{paths.TOPICS}/made-in-dual-write"):
            if nobody.exists(path):  # after a rollback there is no /migration
                assert_refused(lambda path=path: nobody.set(path, b"{}"), path)  # type: ignore[misc]
        for path in ("/config/users/late", "/config/brokers/0"):
            assert_refused(lambda path=path: nobody.get(path), path)  # type: ignore[misc]
    finally:
        nobody.stop()
        nobody.close()


def assert_refused(act: Callable[[], object], path: str) -> None:
    try:
        act()
    except NoAuthError:
        return
    raise AssertionError(f"somebody else may change or read {path}")


def everything(session: ZkSession, path: str = "") -> Iterator[str]:
    for name in session.children(path or "/") or []:
        below = f"{path}/{name}"
        if not below.startswith(NOT_OURS):
            yield below
            yield from everything(session, below)


# --- files and secrets ------------------------------------------------------------------------------------


def assert_files(stage: EstateStage) -> None:
    """Placeholders are in the written files as their owners wrote them; authorizer and keys are those of KRaft."""
    for broker in stage.cluster.brokers:
        written, own = read(broker.properties_file), placeholders_of(broker.spec.extra)
        assert {key: written.get(key) for key in own} == own, broker.name
        assert written["authorizer.class.name"] == STANDARD_AUTHORIZER
        assert "CONTROLLER:SASL_SSL" in written["listener.security.protocol.map"]
        assert not [key for key in written if key.startswith("zookeeper.")]
    for controller in stage.fleet.ours:
        written, own = read(controller.properties_file), placeholders_of(controller.spec.extra)
        assert {key: written.get(key) for key in own} == own, controller.name
        assert written["authorizer.class.name"] == STANDARD_AUTHORIZER
        assert not [key for key in written if key.startswith(("zookeeper.", "zk2kraft."))]


def placeholders_of(properties: object) -> dict[str, str]:
    assert isinstance(properties, dict)
    return {key: value for key, value in properties.items() if "${" in str(value)}


def answers(stage: EstateStage) -> list[str]:
    """Everything that REST and the page say of the migration."""
    service, number = stage.service, stage.migration
    addresses = [f"/api/v1/migrations/{number}{word}" for word in WORDS]
    addresses += ["/api/v1/migrations", f"/api/v1/migrations/{number}/change-report.html"]
    addresses += [f"/migrations/{number}", "/metrics"]
    headers = {"authorization": f"Bearer {service.token_file.read_text().strip()}"}
    with httpx.Client(timeout=ANSWER_S, trust_env=False, headers=headers, follow_redirects=True) as client:
        found = {address: client.get(f"{service.url}{address}") for address in addresses}
    assert {address: answer.status_code for address, answer in found.items() if answer.is_error} == {}
    return [answer.text for answer in found.values()]


def assert_no_secret(stage: EstateStage, told: list[str]) -> None:
    """No secret of the estate is in an answer, in what the service keeps, in a log, or in a properties file.

    The metadata log has what Kafka writes there in clear, a broker's dynamic passwords: rehearsals and the controllers'
    own directories hold such logs, and those are the only files left out.
    """
    secrets = {name: text.encode() for name, text in stage.estate.secrets.items()}
    assert [held_by(text.encode(), secrets) for text in told if held_by(text.encode(), secrets)] == []
    root = stage.laboratory.directory
    kept = set(files_below(root / "service", root / "fleet"))
    for name in (*(each.name for each in stage.fleet.ours), *(each.name for each in stage.cluster.brokers)):
        kept |= {file for file in (root / name).iterdir() if file.is_file()}
        kept |= {file for file in (root / name / "data").glob("zk2kraft-*") if file.is_file()}
    logs = {file for file in kept if file.suffix in (".log", ".checkpoint") and file.name[:20].isdigit()}
    rest = kept - logs
    assert len([file for file in rest if file.name.startswith("server.properties")]) > 6, rest
    assert any(file.suffix == ".db" for file in rest), rest
    assert [file for file in rest if file.suffix == ".backup"], rest
    assert found_in(sorted(rest), secrets) == []
    with_passwords = [file for each in stage.fleet.ours for file in each.metadata_log.glob("*") if file.is_file()]
    assert found_in(with_passwords, secrets), "the search finds what is there"
    print(f"searched {len(told)} answers and {len(rest)} files for {len(secrets)} secrets", flush=True)
