"""What the properties file says of TLS and SASL on one listener.

In:   the keys of the file; a key with the listener's prefix (`listener.name.controller.ssl.…`) wins over the plain one.
Out:  `ListenerSecurity`: values only, with every secret kept out of its text. Nothing is opened yet.
Elsewhere: stores and keys read from disk (tls.py), conversations (sasl.py), who uses them (listener/server.py, others),
values that came from config providers (config/providers.py): their keys arrive here as `hidden`.
Errors: Z2K-3021 for TLS and Z2K-3022 for SASL that cannot be honoured, by the name of the key and never with its value.
Rule: GSSAPI and OAUTHBEARER are spoken as a client only. A listener of this node that others come in by is refused with
them, by name.
Source: Kafka 3.9 `ChannelBuilders`, `JaasContext.loadServerContext`, `DefaultSslEngineFactory`, `SslConfigs`,
`KerberosLogin`, `LoginManager`, `ConfigurationUtils` (OAUTHBEARER's keys with the mechanism's prefix). A login comes
from `listener.name.<listener>.<mechanism>.sasl.jaas.config` alone, for this side and for the other: stock uses the
listener's server login for its own connections as well. `KafkaConfig.validateValues`: the mechanism between brokers
is one of those that are enabled on their listener, also in the file of a controller, which has no such listener.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Final

from migrator.findings.finding import words_of
from migrator.findings.quorum import SASL_NOT_USABLE, TLS_NOT_USABLE
from migrator.model.jaas import KERBEROS, KerberosLogin, LoginModule, kerberos_login, parse_login_module
from migrator.model.values import SecurityProtocol
from migrator.node.transport.oauth import OauthLogin, extensions_of, refuse_endpoint
from migrator.node.transport.sasl import CLIENT_MECHANISMS, GSSAPI, MECHANISMS, OAUTHBEARER, PLAIN, SCRAM_HASHES
from migrator.tls.contexts import TLS_VERSIONS
from migrator.tls.key_stores import STORE_TYPES
from migrator.tls.sources import PemSource, Source, StoreSource

TLS_KEYS: Final = frozenset(
    {
        *(f"ssl.keystore.{what}" for what in ("location", "type", "password", "key", "certificate.chain")),
        *(f"ssl.truststore.{what}" for what in ("location", "type", "password", "certificates")),
        "ssl.key.password",
    }
)
"""What a prefix may stand before where only TLS is spoken."""

PEM: Final = "PEM"
CONTROL_PREFIX: Final = "zk2kraft.control.remote."
DEFAULT_TYPE: Final = "JKS"
LOGIN_MODULES: Final = {
    PLAIN: "org.apache.kafka.common.security.plain.PlainLoginModule",
    **dict.fromkeys(SCRAM_HASHES, "org.apache.kafka.common.security.scram.ScramLoginModule"),
    GSSAPI: KERBEROS,
    OAUTHBEARER: "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
}
OAUTH_HANDLERS: Final = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler",
    "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler",
)
"""What they do is done here without Java. Without one, Kafka makes tokens that nobody signed."""
LOGIN_HANDLER: Final = "sasl.login.callback.handler.class"
ENDPOINT: Final = "sasl.oauthbearer.token.endpoint.url"
BETWEEN_VOTERS: Final = "sasl.mechanism.controller.protocol"
TO_BROKERS: Final = "sasl.mechanism.inter.broker.protocol"
ENABLED: Final = "sasl.enabled.mechanisms"
FAILURE_DELAY_MS: Final = 100

_TLS_REFUSED: Final = {
    "ssl.engine.factory.class": "classes of the JVM cannot be loaded here",
    "ssl.provider": "providers of the JVM cannot be loaded here",
    "ssl.cipher.suites": "the suites of OpenSSL's defaults are used; name none",
}
_CLIENT_CLASSES: Final = ("sasl.login.class", LOGIN_HANDLER, "sasl.client.callback.handler.class")
_SERVER_CLASSES: Final = ("sasl.server.callback.handler.class",)


class ClientAuth(StrEnum):
    NONE = "none"
    REQUESTED = "requested"
    REQUIRED = "required"


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """identity: key and certificate chain; None: this side shows none. trusted: None: the system's authorities."""

    identity: Source | None
    key_password: str | None = field(repr=False)
    trusted: Source | None
    client_auth: ClientAuth
    verify_names: bool
    versions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SaslLogin:
    """One mechanism's login. users: who may come in by PLAIN, with passwords; user, password: who this node is."""

    user: str | None
    password: str | None = field(repr=False)
    users: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class SaslSettings:
    """enabled: what others may authenticate with. mechanism: what this node authenticates with, None: it never asks.

    logins: of mechanisms with passwords. kerberos, oauth: of this node's own one, where it is GSSAPI or OAUTHBEARER.
    """

    enabled: tuple[str, ...]
    mechanism: str | None
    logins: Mapping[str, SaslLogin]
    kerberos: KerberosLogin | None = None
    oauth: OauthLogin | None = None


@dataclass(frozen=True, slots=True)
class ListenerSecurity:
    """How one listener is spoken on."""

    file: str
    listener: str
    protocol: SecurityProtocol
    tls: TlsSettings | None = None
    sasl: SaslSettings | None = None
    failure_delay_ms: int = FAILURE_DELAY_MS


def read_security(
    file: str,
    given: Mapping[str, str],
    listener: str,
    protocol: SecurityProtocol,
    *,
    accepts: bool,
    asks_by: str | None,
    failure_delay_ms: int = FAILURE_DELAY_MS,
    hidden: Collection[str] = (),
    flags: Mapping[str, str] = {},
) -> ListenerSecurity:
    """Read and check what belongs to one listener.

    accepts: others connect to this node on it.
    asks_by: the key with the SASL mechanism of this node's own connections; None: it makes none.
    hidden: keys whose values may not be shown, whatever they are. flags: `-Dname=value` of KAFKA_OPTS, for Kerberos.
    """
    reader = _Reader(file, given, f"listener.name.{listener.lower()}.", protocol, hidden, flags)
    return ListenerSecurity(
        file,
        listener,
        protocol,
        reader.tls(accepts=accepts) if protocol in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL) else None,
        reader.sasl(accepts=accepts, asks_by=asks_by)
        if protocol in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)
        else None,
        failure_delay_ms,
    )


def require_mechanism_between_brokers(
    file: str, given: Mapping[str, str], listener: str, protocol: SecurityProtocol, hidden: Collection[str] = ()
) -> None:
    """Stock looks at the listener between brokers at every start, also where this node asks no broker."""
    if protocol in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL):
        _Reader(file, given, f"listener.name.{listener.lower()}.", protocol, hidden).require_enabled_mechanism()


def read_remote_control(file: str, given: Mapping[str, str], hidden: Collection[str] = ()) -> ListenerSecurity:
    """Read the security of the control port for other hosts: TLS, and a certificate of the trusted authority."""
    reader = _Reader(file, given, CONTROL_PREFIX, SecurityProtocol.SSL, hidden)
    tls = replace(reader.tls(accepts=True), client_auth=ClientAuth.REQUIRED, versions=("TLSv1.3",))
    if tls.trusted is None:
        reason = "it is missing, and every certificate of a public authority would be let in"
        raise TLS_NOT_USABLE.error(file=file, key=f"{CONTROL_PREFIX}ssl.truststore.location", reason=reason)
    return ListenerSecurity(file, "control", SecurityProtocol.SSL, tls)


class _Reader:
    def __init__(
        self,
        file: str,
        given: Mapping[str, str],
        prefix: str,
        protocol: SecurityProtocol,
        hidden: Collection[str] = (),
        flags: Mapping[str, str] = {},
    ) -> None:
        """prefix: a key with it wins over the plain one."""
        self._hidden = hidden
        self._flags = flags
        self._file = file
        self._given = given
        self._prefix = prefix
        self._protocol = protocol

    def _key(self, key: str) -> str:
        """The key's name as it stands in the file."""
        return self._prefix + key if self._prefix + key in self._given else key

    def _value(self, key: str, default: str = "") -> str:
        return self._given.get(self._key(key), default)

    # --- TLS -----------------------------------------------------------------------------------------------

    def tls(self, *, accepts: bool) -> TlsSettings:
        for key, reason in _TLS_REFUSED.items():
            if self._value(key):
                self._refuse_tls(key, reason)
        identity = self._identity()
        if accepts and identity is None:
            self._refuse_tls("ssl.keystore.location", "it is missing, and who listens with TLS needs a certificate")
        algorithm = self._value("ssl.endpoint.identification.algorithm", "https").lower()
        if algorithm not in ("https", ""):
            self._refuse_tls("ssl.endpoint.identification.algorithm", "it is neither https nor empty")
        versions = tuple(
            each.strip() for each in self._value("ssl.enabled.protocols", ",".join(TLS_VERSIONS)).split(",")
        )
        if not versions or not set(versions) <= set(TLS_VERSIONS):
            self._refuse_tls("ssl.enabled.protocols", f"only {' and '.join(TLS_VERSIONS)} are possible")
        return TlsSettings(
            identity=identity,
            key_password=self._value("ssl.key.password") or None,
            trusted=self.trusted(),
            client_auth=self._client_auth(),
            verify_names=algorithm == "https",
            versions=versions,
        )

    def _identity(self) -> Source | None:
        location, key, chain = (
            self._value(f"ssl.keystore.{what}") for what in ("location", "key", "certificate.chain")
        )
        kind = self._store_type("keystore", location, key or chain)
        if location:
            if key or chain:
                self._refuse_tls(
                    "ssl.keystore.location", "a private key is given besides; only one of both is possible"
                )
            return self._stored("keystore", kind, location)
        if bool(key) != bool(chain):
            self._refuse_tls("ssl.keystore.key", "key and certificate chain are given both or not at all")
        return PemSource(self._key("ssl.keystore.key"), text=f"{key}\n{chain}\n") if key else None

    def trusted(self) -> Source | None:
        location, certificates = self._value("ssl.truststore.location"), self._value("ssl.truststore.certificates")
        kind = self._store_type("truststore", location, certificates)
        if location and certificates:
            self._refuse_tls("ssl.truststore.location", "certificates are given besides; only one of both is possible")
        if location:
            return self._stored("truststore", kind, location)
        return PemSource(self._key("ssl.truststore.certificates"), text=certificates) if certificates else None

    def _stored(self, store: str, kind: str, location: str) -> Source:
        key = self._key(f"ssl.{store}.location")
        if kind == PEM:
            return PemSource(key, Path(location), shown=key not in self._hidden)
        password = self._value(f"ssl.{store}.password") or None
        return StoreSource(key, Path(location), password, shown=key not in self._hidden)

    def _store_type(self, store: str, location: str, text: str) -> str:
        """The type, which fits what is given besides. Kafka's rules: PEM has no password, a key store has one."""
        kind = self._value(f"ssl.{store}.type", DEFAULT_TYPE).upper()
        password = self._value(f"ssl.{store}.password")
        if kind == PEM:
            if password:
                self._refuse_tls(f"ssl.{store}.password", "a PEM store has no password (a key has: ssl.key.password)")
            return kind
        if kind not in STORE_TYPES and (location or text):
            reason = f"{kind} stores are not read here, only {', '.join((PEM, *STORE_TYPES))}; "
            named = self._key(f"ssl.{store}.type") not in self._hidden
            self._refuse_tls(
                f"ssl.{store}.type", (reason if named else "") + "convert it: keytool -importkeystore, to PKCS12"
            )
        if text:
            self._refuse_tls(f"ssl.{store}.type", f"keys and certificates in the file itself are {PEM}, not {kind}")
        if location and not password and store == "keystore":
            self._refuse_tls(f"ssl.{store}.password", "it is missing, and the store cannot be opened without it")
        if password and not location:
            self._refuse_tls(f"ssl.{store}.location", "it is missing, and a password for it is given")
        return kind

    def _client_auth(self) -> ClientAuth:
        """For SASL_SSL only a key of this very listener counts, as in stock (KIP-684)."""
        key = "ssl.client.auth"
        if self._protocol is SecurityProtocol.SASL_SSL and self._prefix + key not in self._given:
            return ClientAuth.NONE
        try:
            return ClientAuth(self._value(key, "none").lower())
        except ValueError:
            self._refuse_tls(key, f"it is not one of {', '.join(ClientAuth)}")
            raise

    def _refuse_tls(self, key: str, reason: str) -> None:
        raise TLS_NOT_USABLE.error(file=self._file, key=self._key(key), reason=reason)

    # --- SASL ----------------------------------------------------------------------------------------------

    def sasl(self, *, accepts: bool, asks_by: str | None) -> SaslSettings:
        for key in (*_CLIENT_CLASSES, *(_SERVER_CLASSES if accepts else ())):
            for name in (key, *(f"{each.lower()}.{key}" for each in CLIENT_MECHANISMS)):
                value = self._value(name)
                is_ours = name == f"{OAUTHBEARER.lower()}.{LOGIN_HANDLER}" and value in OAUTH_HANDLERS
                if value and not is_ours:
                    self._refuse_sasl(self._key(name), "classes of the JVM cannot be loaded here")
        enabled = self._enabled() if accepts else ()
        mechanism = None
        if asks_by is not None:
            possible = MECHANISMS if accepts else CLIENT_MECHANISMS  # who accepts speaks with its like
            mechanism = self._known(asks_by, self._given.get(asks_by, GSSAPI), possible)
            if asks_by == TO_BROKERS:
                self.require_enabled_mechanism()
            if asks_by == BETWEEN_VOTERS and mechanism in SCRAM_HASHES:
                self._refuse_sasl(asks_by, "voters that start have no leader, so no log, so no credentials; use PLAIN")
        if mechanism == GSSAPI:
            return SaslSettings(enabled, mechanism, self._logins(enabled), kerberos=self._kerberos())
        if mechanism == OAUTHBEARER:
            return SaslSettings(enabled, mechanism, self._logins(enabled), oauth=self._oauth())
        logins = self._logins((*enabled, *([mechanism] if mechanism else [])))
        if mechanism is not None and (logins[mechanism].user is None or logins[mechanism].password is None):
            self._refuse_sasl(self._login_key(mechanism), "username and password are missing: who is this node?")
        return SaslSettings(enabled, mechanism, logins)

    def require_enabled_mechanism(self) -> None:
        """The one between brokers, on the listener between brokers."""
        mechanism = self._given.get(TO_BROKERS, GSSAPI)
        if mechanism not in self._enabled_names():
            named = mechanism if mechanism in CLIENT_MECHANISMS else "its mechanism"
            key = f"{self._prefix}{ENABLED}"
            self._refuse_sasl(TO_BROKERS, f"stock does not start with it: {named} is not enabled. Set {key}={named}")

    def _enabled(self) -> tuple[str, ...]:
        key, names = ENABLED, self._enabled_names()
        if not names:
            self._refuse_sasl(self._key(key), "it names no mechanism, so nobody could log in")
        reauthentication = "connections.max.reauth.ms"
        for name in (reauthentication, *(f"{each.lower()}.{reauthentication}" for each in names)):
            if self._value(name, "0") != "0":
                self._refuse_sasl(self._key(name), "sessions do not end here; set it to 0 for this listener")
        return tuple(self._known(self._key(key), each, MECHANISMS) for each in dict.fromkeys(names))

    def _enabled_names(self) -> list[str]:
        """As Kafka reads a list: an empty text has no parts, and any other text keeps the empty ones."""
        text = self._value(ENABLED, GSSAPI)
        return [each.strip() for each in text.split(",")] if text else []

    def _known(self, key: str, mechanism: str, possible: Collection[str]) -> str:
        if mechanism not in possible:
            # Only names that exist are repeated: a password in the wrong line must not reach a log.
            named = mechanism if mechanism in CLIENT_MECHANISMS else "a mechanism that it names"
            default = " (the default)" if key not in self._given else ""
            self._refuse_sasl(key, f"{named}{default} is not possible here, only {', '.join(possible)}")
        return mechanism

    def _login_key(self, mechanism: str) -> str:
        return f"{self._prefix}{mechanism.lower()}.sasl.jaas.config"

    def _logins(self, mechanisms: Iterable[str]) -> dict[str, SaslLogin]:
        return {each: self._login(each) for each in dict.fromkeys(mechanisms)}

    def _login(self, mechanism: str) -> SaslLogin:
        module = self._module(mechanism)
        if module.options.get("tokenauth", "false").lower() == "true":
            self._refuse_sasl(self._login_key(mechanism), "delegation tokens are not supported")
        users = {name[5:]: each for name, each in module.options.items() if name.startswith("user_")}
        return SaslLogin(module.options.get("username"), module.options.get("password"), users)

    def _kerberos(self) -> KerberosLogin:
        """The name of the service stands in the file, in the login, or in both alike, as in Kafka."""
        key, options = "sasl.kerberos.service.name", self._module(GSSAPI).options
        service, beside = self._value(key), options.get("serviceName", "")
        if service and beside and service != beside:
            self._refuse_sasl(self._key(key), "it is another one than serviceName in the login")
        if not service and not beside:
            self._refuse_sasl(key, "it is missing: the first part of the servers' principals, such as kafka")
        try:
            return kerberos_login(options, self._flags, service or beside)
        except ValueError as error:
            raise SASL_NOT_USABLE.error(file=self._file, key=self._login_key(GSSAPI), reason=words_of(error)) from None

    def _oauth(self) -> OauthLogin:
        prefix, options = f"{OAUTHBEARER.lower()}.", self._module(OAUTHBEARER).options
        if not self._value(prefix + LOGIN_HANDLER):
            reason = f"it is missing, and Kafka then makes tokens that nobody signed; set it to {OAUTH_HANDLERS[0]}"
            self._refuse_sasl(f"{self._prefix}{prefix}{LOGIN_HANDLER}", reason)
        endpoint_key = prefix + ENDPOINT if self._value(prefix + ENDPOINT) else ENDPOINT
        endpoint, login_key = self._value(endpoint_key), self._login_key(OAUTHBEARER)
        encode_key = "sasl.oauthbearer.header.urlencode"
        encoded = self._value(prefix + encode_key, self._value(encode_key, "false")).lower() == "true"
        key = self._key(endpoint_key)
        try:
            refuse_endpoint(endpoint)
            key = login_key
            found = OauthLogin(
                endpoint,
                client_id=options.get("clientId", ""),
                client_secret=options.get("clientSecret", ""),
                scope=options.get("scope", ""),
                extensions=extensions_of(options),
                trusted=self._trusted_by_login(options),
                encoded=encoded,
            )
        except ValueError as error:
            raise SASL_NOT_USABLE.error(file=self._file, key=key, reason=words_of(error)) from None
        if found.file is None and not (found.client_id and found.client_secret):
            self._refuse_sasl(login_key, "clientId and clientSecret are missing: who asks the token endpoint?")
        return found

    def _trusted_by_login(self, options: Mapping[str, str]) -> Source | None:
        """Kafka reads the TLS of a token endpoint from the login, and from nowhere else."""
        strange = next((key for key in options if key.startswith("ssl.") and "truststore" not in key), None)
        if strange is not None:
            raise ValueError("of ssl. keys only ssl.truststore. is honoured in a login, for the token endpoint")
        return _Reader(self._file, options, "", SecurityProtocol.SSL, options).trusted()

    def _module(self, mechanism: str) -> LoginModule:
        key = self._login_key(mechanism)
        text = self._given.get(key, "")
        if not text:
            self._refuse_sasl(
                key, "it is missing; a JAAS file of the JVM (java.security.auth.login.config) is not read"
            )
        try:
            module = parse_login_module(text)
        except ValueError as error:
            raise SASL_NOT_USABLE.error(file=self._file, key=key, reason=words_of(error)) from None
        if module.name != LOGIN_MODULES[mechanism]:
            self._refuse_sasl(key, f"the login module of {mechanism} is {LOGIN_MODULES[mechanism]}")
        return module

    def _refuse_sasl(self, key: str, reason: str) -> None:
        raise SASL_NOT_USABLE.error(file=self._file, key=key, reason=reason)
