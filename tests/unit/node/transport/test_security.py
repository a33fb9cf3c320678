"""What a stock file says of TLS and SASL: taken as Kafka takes it, or refused by the name of its key."""

from __future__ import annotations

from pathlib import Path

import pytest

from migrator.findings.finding import FindingError
from migrator.model.jaas import KerberosLogin
from migrator.model.values import SecurityProtocol
from migrator.node.config.properties import NodeConfig, PeerKind, parse_config, read_access, read_config
from migrator.node.transport.client_security import client_security
from migrator.node.transport.oauth import OauthLogin
from migrator.node.transport.security import ClientAuth, ListenerSecurity
from migrator.tls.sources import PemSource, StoreSource

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
LOGIN = f'{PLAIN} username="controller" password="s3cret" user_controller="s3cret" user_broker="0ther";'

BASE = {
    "process.roles": "controller",
    "node.id": "3000",
    "controller.quorum.voters": "3000@h:9093,3001@i:9093,3002@j:9093",
    "listeners": "CONTROLLER://:9093",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:SASL_SSL,PLAINTEXT:PLAINTEXT,INSIDE:SASL_SSL",
    "log.dirs": "/d",
    "ssl.keystore.type": "PEM",
    "ssl.keystore.location": "/k.pem",
    "ssl.truststore.type": "PEM",
    "ssl.truststore.location": "/t.pem",
    "sasl.mechanism.controller.protocol": "PLAIN",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.controller.plain.sasl.jaas.config": LOGIN,
}


def a_config(**changes: str | None) -> NodeConfig:
    """The file with keys changed (dots written as `__`), or taken out (None)."""
    keys = {**BASE, **{name.replace("__", "."): value for name, value in changes.items()}}
    return parse_config("\n".join(f"{key}={value}" for key, value in keys.items() if value is not None), "c.properties")


def of_controller(**changes: str | None) -> ListenerSecurity:
    return a_config(**changes).security["CONTROLLER"]


def test_tls_and_plain_are_read() -> None:
    found = of_controller()
    assert found.protocol is SecurityProtocol.SASL_SSL
    assert found.tls is not None
    assert found.tls.identity == PemSource("ssl.keystore.location", Path("/k.pem"))
    assert found.tls.trusted == PemSource("ssl.truststore.location", Path("/t.pem"))
    assert (found.tls.verify_names, found.tls.client_auth) == (True, ClientAuth.NONE)
    assert found.sasl is not None
    assert (found.sasl.enabled, found.sasl.mechanism) == (("PLAIN",), "PLAIN")
    assert dict(found.sasl.logins["PLAIN"].users) == {"controller": "s3cret", "broker": "0ther"}


def test_a_key_of_the_listener_wins_over_the_general_one() -> None:
    found = of_controller(
        listener__name__controller__ssl__keystore__location="/mine.pem",
        listener__name__controller__ssl__endpoint__identification__algorithm="",
        listener__name__other__ssl__truststore__location="/theirs.pem",
    )
    assert found.tls is not None
    assert found.tls.identity == PemSource("listener.name.controller.ssl.keystore.location", Path("/mine.pem"))
    assert found.tls.trusted == PemSource("ssl.truststore.location", Path("/t.pem"))
    assert not found.tls.verify_names


@pytest.mark.parametrize(
    ("protocol", "changes", "wanted"),
    [
        ("SSL", {"ssl__client__auth": "required"}, ClientAuth.REQUIRED),
        ("SSL", {"ssl__client__auth": "requested"}, ClientAuth.REQUESTED),
        ("SASL_SSL", {"ssl__client__auth": "required"}, ClientAuth.NONE),
        ("SASL_SSL", {"listener__name__controller__ssl__client__auth": "required"}, ClientAuth.REQUIRED),
    ],
)
def test_client_certificates_are_asked_for_on_sasl_listeners_only_by_their_own_key(
    protocol: str, changes: dict[str, str | None], wanted: ClientAuth
) -> None:
    """KIP-684."""
    tls = of_controller(listener__security__protocol__map=f"CONTROLLER:{protocol}", **changes).tls
    assert tls is not None
    assert tls.client_auth is wanted


def test_a_single_voter_needs_no_login_of_its_own_and_a_quorum_does() -> None:
    users_only = f'{PLAIN} user_broker="0ther";'
    jaas = {"listener__name__controller__plain__sasl__jaas__config": users_only}
    alone = of_controller(controller__quorum__voters="3000@h:9093", sasl__mechanism__controller__protocol=None, **jaas)
    assert alone.sasl is not None
    assert alone.sasl.mechanism is None
    assert refused(**jaas)[0] == "Z2K-3022"


def test_the_listener_of_the_brokers_is_read_when_they_are_told_things() -> None:
    inside: dict[str, str | None] = {
        "inter__broker__listener__name": "INSIDE",
        "sasl__mechanism__inter__broker__protocol": "SCRAM-SHA-512",
        "listener__name__inside__sasl__enabled__mechanisms": "SCRAM-SHA-512",
        "listener__name__inside__scram-sha-512__sasl__jaas__config": f'{SCRAM} username="c" password="s3cret";',
    }
    assert "INSIDE" not in a_config(**inside).security
    config = a_config(zookeeper__metadata__migration__enable="true", zookeeper__connect="z:1", **inside)
    found = config.security["INSIDE"].sasl
    assert found is not None
    assert (found.enabled, found.mechanism, found.logins["SCRAM-SHA-512"].user) == ((), "SCRAM-SHA-512", "c")
    migrating = {"zookeeper__metadata__migration__enable": "true", "zookeeper__connect": "z:1"}
    code, key, reason = refused(**migrating, **inside | {"listener__name__inside__sasl__enabled__mechanisms": None})
    assert (code, key) == ("Z2K-3022", "sasl.mechanism.inter.broker.protocol")
    assert "Set listener.name.inside.sasl.enabled.mechanisms=SCRAM-SHA-512" in reason, "stock refuses such a file"


def refused(**changes: str | None) -> tuple[str, str, str]:
    with pytest.raises(FindingError) as raised:
        a_config(**changes)
    assert "s3cret" not in str(raised.value)
    assert "0ther" not in str(raised.value)
    found = raised.value.occurrence.values
    return raised.value.code, str(found["key"]), str(found["reason"])


@pytest.mark.parametrize(
    ("changes", "key", "reason"),
    [
        ({"ssl__keystore__location": None}, "ssl.keystore.location", "needs a certificate"),
        ({"ssl__keystore__type": "BCFKS"}, "ssl.keystore.type", "BCFKS stores are not read here, only PEM, JKS"),
        ({"ssl__truststore__type": "JCEKS"}, "ssl.truststore.type", "JCEKS stores are not read here"),
        ({"ssl__keystore__type": "jks"}, "ssl.keystore.password", "it is missing"),
        ({"ssl__keystore__type": "PKCS12", "ssl__keystore__location": None, "ssl__keystore__key": "s3cret",
          "ssl__keystore__certificate__chain": "s3cret"}, "ssl.keystore.type", "are PEM, not PKCS12"),
        ({"ssl__truststore__type": None, "ssl__truststore__location": None, "ssl__truststore__password": "s3cret"},
         "ssl.truststore.location", "a password for it is given"),
        ({"ssl__keystore__password": "s3cret"}, "ssl.keystore.password", "no password"),
        ({"ssl__truststore__password": "s3cret"}, "ssl.truststore.password", "no password"),
        ({"ssl__keystore__key": "s3cret"}, "ssl.keystore.location", "only one of both"),
        ({"ssl__keystore__location": None, "ssl__keystore__key": "s3cret"}, "ssl.keystore.key", "both or not at all"),
        ({"ssl__truststore__certificates": "x"}, "ssl.truststore.location", "only one of both"),
        ({"ssl__cipher__suites": "TLS_AES_128_GCM_SHA256"}, "ssl.cipher.suites", "name none"),
        ({"ssl__engine__factory__class": "x.Y"}, "ssl.engine.factory.class", "JVM"),
        ({"ssl__enabled__protocols": "TLSv1.1"}, "ssl.enabled.protocols", "TLSv1.2"),
        ({"ssl__endpoint__identification__algorithm": "ldaps"}, "ssl.endpoint.identification.algorithm", "https"),
        ({"listener__name__controller__ssl__client__auth": "yes"}, "listener.name.controller.ssl.client.auth",
         "not one of"),
    ],
)  # fmt: skip
def test_tls_that_cannot_be_honoured_stops_the_start(changes: dict[str, str | None], key: str, reason: str) -> None:
    code, found, words = refused(**changes)
    assert (code, found) == ("Z2K-3021", key)
    assert reason in words


def test_stores_of_java_are_read_with_their_passwords_and_jks_is_the_default() -> None:
    found = of_controller(
        ssl__keystore__type=None,
        ssl__keystore__location="/k.jks",
        ssl__keystore__password="s3cret",
        ssl__key__password="0ther",
        ssl__truststore__type="pkcs12",
        ssl__truststore__location="/t.p12",
    ).tls
    assert found is not None
    assert found.identity == StoreSource("ssl.keystore.location", Path("/k.jks"), "s3cret")
    assert found.key_password == "0ther"
    assert found.trusted == StoreSource("ssl.truststore.location", Path("/t.p12"), None)
    assert "s3cret" not in repr(found)
    assert "0ther" not in repr(found)


@pytest.mark.parametrize(
    ("changes", "key", "reason"),
    [
        ({"sasl__enabled__mechanisms": None}, "sasl.enabled.mechanisms", "GSSAPI (the default)"),
        ({"sasl__enabled__mechanisms": "PLAIN,OAUTHBEARER"}, "sasl.enabled.mechanisms", "OAUTHBEARER is not possible"),
        ({"sasl__enabled__mechanisms": "s3cret"}, "sasl.enabled.mechanisms", "a mechanism that it names"),
        ({"sasl__mechanism__controller__protocol": "SCRAM-SHA-512"}, "sasl.mechanism.controller.protocol", "use PLAIN"),
        ({"sasl__mechanism__controller__protocol": None}, "sasl.mechanism.controller.protocol", "GSSAPI (the default)"),
        ({"listener__name__controller__plain__sasl__jaas__config": None},
         "listener.name.controller.plain.sasl.jaas.config", "JAAS file"),
        ({"listener__name__controller__plain__sasl__jaas__config": f'{SCRAM} password="s3cret";'},
         "listener.name.controller.plain.sasl.jaas.config", "PlainLoginModule"),
        ({"listener__name__controller__plain__sasl__jaas__config": f'{PLAIN} password="s3cret"'},
         "listener.name.controller.plain.sasl.jaas.config", "semicolon"),
        ({"listener__name__controller__plain__sasl__server__callback__handler__class": "x.Y"},
         "listener.name.controller.plain.sasl.server.callback.handler.class", "JVM"),
        ({"connections__max__reauth__ms": "60000"}, "connections.max.reauth.ms", "set it to 0"),
        ({"listener__name__controller__plain__connections__max__reauth__ms": "1"},
         "listener.name.controller.plain.connections.max.reauth.ms", "set it to 0"),
    ],
)  # fmt: skip
def test_sasl_that_cannot_be_honoured_stops_the_start(changes: dict[str, str | None], key: str, reason: str) -> None:
    code, found, words = refused(**changes)
    assert (code, found) == ("Z2K-3022", key)
    assert reason in words


TO_BROKERS: dict[str, str | None] = {
    "zookeeper__metadata__migration__enable": "true",
    "zookeeper__connect": "z:1",
    "inter__broker__listener__name": "INSIDE",
}
KERBEROS = "com.sun.security.auth.module.Krb5LoginModule required"
KEYTAB = 'useKeyTab=true storeKey=true keyTab="/k.keytab" principal="kafka/h@REALM"'
BY_KERBEROS: dict[str, str | None] = {
    **TO_BROKERS,
    "sasl__mechanism__inter__broker__protocol": "GSSAPI",
    "listener__name__inside__sasl__enabled__mechanisms": "GSSAPI",
    "listener__name__inside__gssapi__sasl__jaas__config": f"{KERBEROS} {KEYTAB};",
    "sasl__kerberos__service__name": "kafka",
}
OAUTH = "org.apache.kafka.common.security.oauthbearer"
OAUTH_LOGIN = "listener__name__inside__oauthbearer__sasl__jaas__config"
HANDLER = "listener__name__inside__oauthbearer__sasl__login__callback__handler__class"
ENDPOINT = "listener__name__inside__sasl__oauthbearer__token__endpoint__url"
CLIENT = 'clientId="c" clientSecret="s3cret" scope="kafka" extension_traceId="0ther"'
BY_OAUTH: dict[str, str | None] = {
    **TO_BROKERS,
    "sasl__mechanism__inter__broker__protocol": "OAUTHBEARER",
    "listener__name__inside__sasl__enabled__mechanisms": "OAUTHBEARER",
    OAUTH_LOGIN: f"{OAUTH}.OAuthBearerLoginModule required {CLIENT};",
    HANDLER: f"{OAUTH}.OAuthBearerLoginCallbackHandler",
    "listener__name__inside__oauthbearer__sasl__server__callback__handler__class": "of.the.Brokers",
    ENDPOINT: "https://s3cret/token",
}


def test_brokers_are_told_things_by_kerberos() -> None:
    found = a_config(**BY_KERBEROS).security["INSIDE"].sasl
    assert found is not None
    assert (found.enabled, found.mechanism, found.oauth) == ((), "GSSAPI", None)
    assert found.kerberos == KerberosLogin("kafka/h@REALM", "/k.keytab", service="kafka")
    of_login = {
        **BY_KERBEROS,
        "sasl__kerberos__service__name": None,
        "listener__name__inside__gssapi__sasl__jaas__config": f'{KERBEROS} {KEYTAB} serviceName="k";',
    }
    again = a_config(**of_login).security["INSIDE"].sasl
    assert again is not None
    assert again.kerberos is not None
    assert again.kerberos.service == "k"


def test_brokers_are_told_things_by_tokens() -> None:
    found = a_config(**BY_OAUTH).security["INSIDE"].sasl
    assert found is not None
    assert found.oauth == OauthLogin("https://s3cret/token", "c", "s3cret", "kafka", {"traceId": "0ther"})
    of_file = {**BY_OAUTH, ENDPOINT: "file:///run/token", OAUTH_LOGIN: f"{OAUTH}.OAuthBearerLoginModule required ;"}
    by_file = a_config(**of_file).security["INSIDE"].sasl
    assert by_file is not None
    assert by_file.oauth is not None
    assert by_file.oauth.file == Path("/run/token")


@pytest.mark.parametrize(
    ("changes", "key", "reason"),
    [
        ({"sasl__kerberos__service__name": None}, "sasl.kerberos.service.name", "it is missing"),
        ({"listener__name__inside__gssapi__sasl__jaas__config": f'{KERBEROS} {KEYTAB} serviceName="k";'},
         "sasl.kerberos.service.name", "another one than serviceName"),
        ({"listener__name__inside__gssapi__sasl__jaas__config": f'{KERBEROS} principal="p";'},
         "listener.name.inside.gssapi.sasl.jaas.config", "neither useKeyTab=true"),
        ({"listener__name__inside__gssapi__sasl__jaas__config": None},
         "listener.name.inside.gssapi.sasl.jaas.config", "JAAS file"),
        ({"listener__name__inside__gssapi__sasl__login__class": "x.Y"},
         "listener.name.inside.gssapi.sasl.login.class", "JVM"),
    ],
)  # fmt: skip
def test_kerberos_that_cannot_be_honoured_stops_the_start(
    changes: dict[str, str | None], key: str, reason: str
) -> None:
    code, found, words = refused(**{**BY_KERBEROS, **changes})
    assert (code, found) == ("Z2K-3022", key)
    assert reason in words


@pytest.mark.parametrize(
    ("changes", "key", "reason"),
    [
        ({HANDLER: None}, HANDLER.replace("__", "."), "tokens that nobody signed"),
        ({HANDLER: "x.Y"}, HANDLER.replace("__", "."), "JVM"),
        ({ENDPOINT: None}, "sasl.oauthbearer.token.endpoint.url", "begins with none of file:, http:, https:"),
        ({ENDPOINT: "s3cret"}, ENDPOINT.replace("__", "."), "begins with none of"),
        ({OAUTH_LOGIN: f"{OAUTH}.OAuthBearerLoginModule required ;"}, OAUTH_LOGIN.replace("__", "."),
         "clientId and clientSecret are missing"),
        ({OAUTH_LOGIN: f"{OAUTH}.OAuthBearerLoginModule required {CLIENT} extension_auth=x;"},
         OAUTH_LOGIN.replace("__", "."), "called auth"),
        ({OAUTH_LOGIN: f"{OAUTH}.OAuthBearerLoginModule required {CLIENT} ssl.protocol=x;"},
         OAUTH_LOGIN.replace("__", "."), "only ssl.truststore."),
    ],
)  # fmt: skip
def test_tokens_that_cannot_be_honoured_stop_the_start(changes: dict[str, str | None], key: str, reason: str) -> None:
    code, found, words = refused(**{**BY_OAUTH, **changes})
    assert (code, found) == ("Z2K-3022", key)
    assert reason in words


def test_a_tool_reads_how_stock_controllers_are_spoken_to_where_ours_would_not_run(tmp_path: Path) -> None:
    """Their listener takes GSSAPI, one voter is enough, and a policy class of Java is no business of an audit."""
    file = tmp_path / "c.properties"
    keys: dict[str, str | None] = {
        **BASE,
        "controller.quorum.voters": "3000@h:9093",
        "create.topic.policy.class.name": "of.the.Estate",
        "sasl.mechanism.controller.protocol": "GSSAPI",
        "sasl.enabled.mechanisms": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "listener.name.controller.gssapi.sasl.jaas.config": f"{KERBEROS} {KEYTAB};",
        "listener.name.inside.plain.sasl.jaas.config": LOGIN,
        "inter.broker.listener.name": "INSIDE",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.inside.sasl.enabled.mechanisms": "PLAIN",
    }
    file.write_text("\n".join(f"{key}={value}" for key, value in keys.items()))
    file.chmod(0o600)
    controllers, brokers = (read_access(file, peer) for peer in (PeerKind.CONTROLLERS, PeerKind.BROKERS))
    assert (controllers.listener, brokers.listener) == ("CONTROLLER", "INSIDE")
    assert controllers.security is not None
    assert brokers.security is not None
    assert controllers.security.sasl is not None
    assert brokers.security.sasl is not None
    assert (controllers.security.sasl.mechanism, brokers.security.sasl.mechanism) == ("GSSAPI", "PLAIN")
    with pytest.raises(FindingError) as raised:
        read_config(file)
    assert raised.value.code == "Z2K-3010"


def test_a_keytab_that_cannot_be_read_ends_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("migrator.kerberos.tickets.find_spec", lambda _: "found")
    login = f'{KERBEROS} useKeyTab=true keyTab="{tmp_path}/nowhere" principal="p";'
    changes = {**BY_KERBEROS, "listener__name__inside__gssapi__sasl__jaas__config": login}
    changes["listener__security__protocol__map"] = "CONTROLLER:SASL_SSL,PLAINTEXT:PLAINTEXT,INSIDE:SASL_PLAINTEXT"
    security = a_config(**changes).security
    with pytest.raises(FindingError, match="nowhere: No such file") as raised:
        client_security(security["INSIDE"])
    assert raised.value.code == "Z2K-3018"
    monkeypatch.setattr("migrator.kerberos.tickets.find_spec", lambda _: None)
    with pytest.raises(FindingError, match=r"zk2kraft\[kerberos\]"):
        client_security(security["INSIDE"])


def test_no_secret_is_in_the_text_of_a_configuration() -> None:
    config = a_config(ssl__key__password="s3cret")
    for text in (repr(config), str(config), repr(config.security)):
        assert "s3cret" not in text
        assert "0ther" not in text
