"""Passwords in brokers' dynamic configuration on a real cluster: copied as stock copies them, changed in dual-write so
that ZooKeeper-mode brokers can read them, and nowhere in clear but in the metadata log.

What brokers make of a value is seen from outside: the certificate of a listener whose key store it opens.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import ssl
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import ResourceType  # type: ignore[attr-defined]  # public, but not re-exported for mypy

from migrator.driver.copy import producer_id_margin
from migrator.lab.cluster import LabCluster
from migrator.lab.ours import OurController, our_controller
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.ports import HOST
from migrator.lab.servers.properties import Value, write
from migrator.zk.entity_znodes import parse_scram
from migrator.zk.multi import Multi, SetData
from migrator.zk.passwords import EncoderSettings, PasswordEncoder
from migrator.zk.session import ZkSession
from tests.e2e.support import AUDIT_DEADLINE_S, controller_of, produce, wait_for, wait_zookeeper_rules
from tests.e2e.test_families import TOKEN, TOKEN_DATA, abort_takeover
from tests.e2e.test_service import HELD, ServiceUnderTest
from tests.e2e.test_stock_equality import copied_records, differences
from tests.support.certificates import Authority, openssl
from tests.support.password_coder import Task, ask_kafka
from tests.support.secrets_in_files import files_below, found_in, held_by

pytestmark = [pytest.mark.lab, pytest.mark.long]

TOPICS = ["orders"]
BROKERS = 2
PREFIX = "listener.name.external."
JAAS = f"{PREFIX}plain.sasl.jaas.config"
KEY_PASSWORD, STORE_PASSWORD = f"{PREFIX}ssl.key.password", f"{PREFIX}ssl.keystore.password"
ENCODER = EncoderSettings("the-encoders-s3cret", cipher="AES/GCM/NoPadding", key_length=256, iterations=2_048)
NEXT_ENCODER = msgspec.structs.replace(ENCODER, secret="the-next-s3cret", old_secret=ENCODER.secret)
"""The secret is changed while the cluster is in ZooKeeper mode, as Kafka's documentation says."""
TOKEN_KEY = "s1gns-delegation-tokens"
SCRAM_PASSWORD = "scr4m-of-alice"
TOOL = "kafka.admin.ConfigCommand"


@dataclass(frozen=True)
class Store:
    """A key store with a password of its own, and the certificate by which its use is recognised."""

    file: Path
    password: str
    certificate: bytes

    def settings(self) -> dict[str, str]:
        location = {f"{PREFIX}ssl.keystore.location": str(self.file)}
        return {**location, STORE_PASSWORD: self.password, KEY_PASSWORD: self.password}


class Stores:
    """Makes key stores in Java's PKCS12 form; brokers change one for another only of the same names."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.passwords: dict[str, bytes] = {}

    def make(self, name: str) -> Store:
        signed = Authority(self._directory / name).sign("listener")
        file, password = self._directory / f"{name}.p12", f"op3ns-{name}-store"
        words = ("pkcs12", "-export", "-in", signed.certificate, "-inkey", signed.key, "-out", file, "-name", "x")
        openssl(*words, "-passout", f"pass:{password}")
        self.passwords[f"password of {name}"] = password.encode()
        return Store(file, password, ssl.PEM_cert_to_DER_cert(signed.certificate.read_text()))


class SecuredCluster:
    """Brokers with a TLS listener beside the plain one; the store of broker 0 is set dynamically, through Kafka."""

    def __init__(self, laboratory: Laboratory) -> None:
        self.laboratory = laboratory
        self.encoder = ENCODER
        self.stores = Stores(laboratory.directory / "stores")
        first = self.stores.make("static")
        self.cluster = LabCluster(laboratory, brokers=BROKERS)
        self.ports: list[int] = []
        for broker in self.cluster.brokers:
            self.ports.append(laboratory.ports.reserve())
            listeners = f"PLAINTEXT://{HOST}:{broker.spec.port},EXTERNAL://{HOST}:{self.ports[-1]}"
            extra: dict[str, Value] = {
                "listeners": listeners,
                "advertised.listeners": listeners,
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,EXTERNAL:SSL,CONTROLLER:PLAINTEXT",
                f"{PREFIX}ssl.keystore.type": "PKCS12",
                **first.settings(),
                **lines_of(ENCODER),
                "delegation.token.secret.key": TOKEN_KEY,
            }
            broker.spec = replace(broker.spec, extra=extra)
        self.cluster.start()
        self.cluster.create_topics(TOPICS)
        produce(self.cluster, TOPICS[0], 10)

    def set(self, broker: int, values: Mapping[str, str]) -> None:
        """By IncrementalAlterConfigs, sent to that broker."""
        self.cluster.alter_configs(ResourceType.BROKER, str(broker), values)

    def set_by_tool(self, broker: int, values: Mapping[str, str]) -> None:
        """By `kafka-configs`, which sends AlterConfigs: sensitive values that are not named would be removed."""
        file = self.laboratory.directory / "stores" / f"broker-{broker}.properties"
        write(file, dict(values))
        words = ("--entity-type", "brokers", "--entity-name", str(broker), "--alter", "--add-config-file", file)
        self.laboratory.tool(TOOL, "--bootstrap-server", self.cluster.bootstrap_servers, *words)

    def serves(self, broker: int, store: Store) -> str | None:
        shown = ssl.PEM_cert_to_DER_cert(ssl.get_server_certificate((HOST, self.ports[broker])))
        return None if shown == store.certificate else "it shows another certificate"

    def wait_serves(self, broker: int, store: Store) -> None:
        wait_for(lambda: self.serves(broker, store), f"broker {broker} opened {store.file.name}")

    def in_zookeeper(self, broker: int) -> dict[str, str]:
        data = self.cluster.zk.read(f"/config/brokers/{broker}")
        return dict(json.loads(data)["config"]) if data else {}

    def decoded(self, broker: int) -> dict[str, str]:
        """As ours decodes ZooKeeper's texts, and as Kafka does, which has to be the same."""
        kept, encoder = self.in_zookeeper(broker), PasswordEncoder(self.encoder, os.urandom)
        texts = passwords_in(kept)
        answers = ask_kafka(self.laboratory, [Task("decode", self.encoder, text) for text in texts.values()])
        clear = {key: encoder.decode(text).clear for key, text in texts.items()}
        assert list(clear.values()) == answers
        return {**kept, **clear}

    def described(self, broker: int) -> dict[str, Any]:
        return self.cluster.describe_configs(ResourceType.BROKER, str(broker))

    def other_secrets(self) -> dict[str, bytes]:
        """What brokers made of alice's password, and the secret of the token."""
        kept = json.loads(self.cluster.zk.read("/config/users/alice") or b"")["config"]["SCRAM-SHA-256"]
        scram = parse_scram("", "SCRAM-SHA-256", kept)
        token = hmac.digest(TOKEN_KEY.encode(), TOKEN.rpartition("/")[2].encode(), hashlib.sha512)
        return {
            "alice's password": SCRAM_PASSWORD.encode(),
            "token's secret": token,
            "token key": TOKEN_KEY.encode(),
            "alice's salt": scram.salt,
            "her stored key": scram.stored_key,
            "her server key": scram.server_key,
        }


def passwords_in(values: Mapping[str, str]) -> dict[str, str]:
    return {key: text for key, text in values.items() if key.endswith(("password", "jaas.config"))}


def lines_of(settings: EncoderSettings) -> dict[str, Value]:
    """As they stand in a properties file, with the key that the brokers have for tokens."""
    old = {} if settings.old_secret is None else {"password.encoder.old.secret": settings.old_secret}
    return {
        "password.encoder.secret": settings.secret,
        "password.encoder.cipher.algorithm": settings.cipher,
        "password.encoder.key.length": settings.key_length,
        "password.encoder.iterations": settings.iterations,
        "delegation.token.secret.key": TOKEN_KEY,
        **old,
    }


def run(*words: str | Path, exit_code: int = 0) -> str:
    """A command of ours; returns everything that it printed."""
    command = [sys.executable, "-m", "api", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == exit_code, (done.returncode, done.stdout, done.stderr)
    return done.stdout + done.stderr


def audited(secured: SecuredCluster, ours: OurController, exit_code: int = 0) -> str:
    words = ("audit", "-z", secured.cluster.zookeeper_connect, "--kraft", ours.data, "--engine", "quick")
    return run(*words, "--controller", ours.properties_file, exit_code=exit_code)


def overwrite(cluster: LabCluster, values: Mapping[str, str]) -> None:
    """What somebody else may do to broker 0."""
    data = json.dumps({"version": 1, "config": dict(values)}).encode()
    with ZkSession(cluster.zookeeper_connect) as session:
        assert session.apply(Multi((SetData("/config/brokers/0", data),))).applied


def with_extra(controller: OurController, extra: Mapping[str, Value]) -> None:
    """From its next start on."""
    controller.spec = replace(controller.spec, extra=extra)
    write(controller.properties_file, controller.spec.properties())


def test_passwords_are_copied_as_stock_copies_them_and_mirrored_so_that_brokers_read_them(
    laboratory: Laboratory, tmp_path: Path
) -> None:
    secured = SecuredCluster(laboratory)
    cluster, first = secured.cluster, secured.stores.make("first")
    planted = {**first.settings(), JAAS: 'org.x.Login required user_bob="b0bs-jaas, with: signs";'}
    secured.set(0, planted)
    secured.wait_serves(0, first)
    assert secured.decoded(0) == planted

    stock = cluster.quorum(1, extra=lines_of(ENCODER))
    cluster.restart_as(lambda spec: spec.as_migrating(stock.voters))
    cluster.wait_isr_whole(TOPICS)
    stock.start()
    stock.wait_dual_write()
    file = stock.controllers[0].directory / "server.properties"
    rehearsal = tmp_path / "rehearsal"
    run("rehearse", "-z", cluster.zookeeper_connect, "--out", rehearsal, exit_code=1)
    run("rehearse", "-z", cluster.zookeeper_connect, "--out", rehearsal, "--controller", file)
    theirs = copied_records(laboratory, stock.controllers[0].metadata_log)
    rehearsed = copied_records(laboratory, rehearsal / "__cluster_metadata-0")
    theirs["producer ids"]["data"]["nextProducerId"] += producer_id_margin(BROKERS)
    assert list(differences(rehearsed, theirs)) == []
    assert theirs[f"config 4 0 {STORE_PASSWORD}"]["data"]["value"] == first.password
    stock.stop()
    stock.controllers[0].directory.rename(laboratory.directory / "stock")
    abort_takeover(cluster)

    ours = our_controller(cluster, lines_of(NEXT_ENCODER))
    write(ours.properties_file, ours.spec.properties())
    check = ("check", "-z", cluster.zookeeper_connect, "--controllers", ours.properties_file)
    assert run(*check, exit_code=2).count("Z2K-1072") == len(passwords_in(planted))
    secured.encoder, extra = NEXT_ENCODER, lines_of(NEXT_ENCODER)
    for broker in cluster.brokers:  # one at a time: to write its passwords again a broker needs a controller
        broker.restart_as(replace(broker.spec.as_migrating(ours.voters), extra={**broker.spec.extra, **extra}))
        cluster.wait_isr_whole(TOPICS)
    assert "Z2K-1075" in run(*check, exit_code=1)
    extra.pop("password.encoder.old.secret")
    for broker in cluster.brokers:  # for their next start
        left = {key: value for key, value in broker.spec.extra.items() if key != "password.encoder.old.secret"}
        broker.spec = replace(broker.spec, extra=left)
    with_extra(ours, extra)
    run(*check)
    assert secured.decoded(0) == planted
    texts = secured.in_zookeeper(0)
    with_extra(ours, {**lines_of(ENCODER), "password.encoder.secret": "the wrong one"})
    ours.start()
    wait_for(lambda: None if "Z2K-1070" in str(ours.status()) else "no finding", "a wrong secret closes the gate")
    assert "TAKING_OVER" not in ours.driver_states()
    assert (controller_of(cluster) or {})["kraftControllerEpoch"] == -1
    ours.stop()
    with_extra(ours, extra)
    ours.start()
    ours.wait_dual_write()
    assert secured.in_zookeeper(0) == texts, "what is equal is not written again"
    audited(secured, ours)

    second = secured.stores.make("second")
    secured.set(0, second.settings())
    secured.wait_serves(0, second)
    assert secured.decoded(0) == {**planted, **second.settings()}
    third = secured.stores.make("third")
    secured.set_by_tool(0, {**planted, **third.settings()})
    secured.wait_serves(0, third)
    secured.set(1, second.settings())
    secured.wait_serves(1, second)
    sensitive = {name: entry for name, entry in secured.described(0).items() if entry.is_sensitive}
    assert {STORE_PASSWORD, KEY_PASSWORD, JAAS} <= sensitive.keys()
    assert {entry.value for entry in sensitive.values()} == {None}
    audited(secured, ours)

    ours.kill()
    texts = secured.in_zookeeper(0)
    foreign = {**texts, JAAS: PasswordEncoder(EncoderSettings("another"), os.urandom).encode("x")}
    overwrite(cluster, foreign)
    ours.start()
    ours.wait_dual_write()
    assert ours.status()["driver"]["finding"]["code"] == "Z2K-1070"
    with pytest.raises(KafkaException, match=r"Z2K-1070.*password\.encoder\.secret"):
        secured.set(0, {"log.cleaner.threads": "2"})
    assert secured.in_zookeeper(0) == foreign, "what cannot be read is not written"
    assert JAAS in audited(secured, ours, exit_code=2)
    ours.ask("rollback")
    wait_for(lambda: None if "not readable" in str(ours.events()) else "no word", "a rollback says why not")
    overwrite(cluster, texts)
    ours.kill()
    ours.start()
    ours.wait_dual_write()
    secured.set(0, {"log.cleaner.threads": "2"})
    audited(secured, ours)
    ours.ask("rollback")
    ours.wait_state("RETIRED")
    wait_zookeeper_rules(cluster)
    assert secured.decoded(0) == {**planted, **third.settings(), "log.cleaner.threads": "2"}
    cluster.restart_as(lambda spec: spec.as_zookeeper())
    secured.wait_serves(0, third)
    secured.wait_serves(1, second)
    text = ours.process.log.read_text(errors="replace")
    encoders = {"encoder": ENCODER.secret.encode(), "next encoder": NEXT_ENCODER.secret.encode()}
    assert held_by(text.encode(), {**secured.stores.passwords, **encoders}) == []


def test_no_secret_is_written_in_clear_anywhere_but_into_the_log(laboratory: Laboratory, tmp_path: Path) -> None:
    """The whole way by the service, with Spark: check, rehearsal, takeover, changes, audits, and back."""
    secured = SecuredCluster(laboratory)
    cluster, first = secured.cluster, secured.stores.make("first")
    secured.set(0, {**first.settings(), JAAS: 'org.x.Login required user_bob="b0bs-jaas";'})
    words = ("--entity-type", "users", "--entity-name", "alice", "--add-config")
    scram = f"SCRAM-SHA-256=[password={SCRAM_PASSWORD}]"
    laboratory.tool(TOOL, "--bootstrap-server", cluster.bootstrap_servers, "--alter", *words, scram)
    cluster.zk.create(TOKEN, TOKEN_DATA)
    ours = our_controller(cluster, {**lines_of(ENCODER), **HELD, "delegation.token.secret.key": TOKEN_KEY})
    cluster.restart_as(lambda spec: spec.as_migrating(ours.voters))
    cluster.wait_isr_whole(TOPICS)
    write(ours.properties_file, ours.spec.properties())
    ours.format()

    service = ServiceUnderTest(laboratory, cluster, ours, engine="spark", deadline_s=AUDIT_DEADLINE_S)
    service.start()
    service.create()
    told = [run("check", "-z", cluster.zookeeper_connect, "--controllers", ours.properties_file)]
    service.to_ready()
    service.step("advance", "DUAL_WRITE", to="DUAL_WRITE", reason="the rehearsal is passed")
    second = secured.stores.make("second")
    secured.set(0, second.settings())
    secured.wait_serves(0, second)
    audit = service.http.post(f"{service.url}/api/v1/migrations/1/audits", json={}).headers["location"]
    wait_for(lambda: _why_not_done(service, audit), "the audit is done", deadline_s=AUDIT_DEADLINE_S)
    assert service.http.get(service.url + audit).json()["passed"] is True
    told += [str(ours.status()), *answers(service, audit)]
    told += [run("log", "dump", ours.metadata_log), run("log", "dump", ours.metadata_log, "--json")]
    export = tmp_path / "out" / "export.gz"
    told.append(run("export", "-z", cluster.zookeeper_connect, "--out", export))
    service.step("rollback", "ROLLED_BACK", reason="and back")
    wait_zookeeper_rules(cluster)
    told += answers(service, audit)
    service.stop()
    with_imported = f"{cluster.zookeeper.hosts}/imported"
    told.append(run("import", export, "-z", with_imported))

    passwords = {**secured.stores.passwords, "jaas": b"b0bs-jaas", "encoder": ENCODER.secret.encode()}
    everything = {**passwords, **secured.other_secrets()}
    assert [held_by(text.encode(), everything) for text in told if held_by(text.encode(), everything)] == []
    ours_wrote = set(files_below(laboratory.directory / "service", ours.directory, tmp_path / "out"))
    ours_wrote |= {file for file in laboratory.directory.iterdir() if file.is_file()}
    logs = {file for file in ours_wrote if file.parent.name == "__cluster_metadata-0" and is_log(file)}
    exports = {file for file in ours_wrote if file.suffix == ".gz"}
    rest = ours_wrote - logs - exports - {ours.properties_file}
    kept = [file for file in rest if file.suffix == ".parquet"]
    assert {file.parent.name for file in kept} >= {"inputs", "judged"}, kept
    assert found_in(sorted(rest), everything) == []
    assert found_in(sorted(exports), passwords) == []  # credentials are in them, as they are in ZooKeeper
    assert {oct(file.stat().st_mode & 0o777) for file in exports} == {"0o600"}
    assert found_in(sorted(logs), passwords), "the search finds what is there"
    rehearsals = laboratory.directory / "service" / "migrations" / "1" / "rehearsals"
    assert oct(rehearsals.stat().st_mode & 0o777) == "0o700"


def is_log(file: Path) -> bool:
    return file.suffix in (".log", ".checkpoint")


def answers(service: ServiceUnderTest, audit: str) -> list[str]:
    """What REST and the page say."""
    paths = [f"/api/v1/migrations/1{each}" for each in ("", *(f"/{word}" for word in WORDS))]
    paths += ["/api/v1/migrations", audit, f"{audit}/differences", "/migrations/1", "/metrics", "/healthz"]
    return [service.http.get(service.url + path).text for path in paths]


WORDS = ("gates", "brokers", "quorum", "findings", "events", "audits", "report")


def _why_not_done(service: ServiceUnderTest, audit: str) -> str | None:
    found = service.http.get(service.url + audit).json()
    return None if found["state"] == "done" else f"{found['state']} {found['problem']}"
