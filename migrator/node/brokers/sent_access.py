"""How tasks of Spark speak to brokers: as the controller of a file does, on this host or on others.

In:   what the file says of the listener between brokers (`ListenerSecurity`), or its name.
Out:  `SentAccess`, which is pickled into tasks on other hosts; `AccessOfFile` for tasks on this host, which read the
      file themselves. Both become a `ClientSecurity` where they arrive.
Elsewhere: the login for ZooKeeper (audit/spark/sent_login.py), that all that Spark sends is encrypted (Z2K-5007).
Rules: what is sent is only what is needed to log in to brokers: no other user of the file, and of OAUTHBEARER the token
and not the client's secret. Nothing of it stands in Spark's configuration, and no text shows it. No executor writes it
down: keys and a token become files in memory. In `local[...]` Spark encrypts nothing, so nothing is sent at all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Protocol

from migrator.audit.spark.shipped import SentFile
from migrator.findings.audit import BROKERS_ASKED_HERE
from migrator.findings.finding import words_of
from migrator.findings.quorum import TLS_NOT_USABLE
from migrator.node.config.properties import PeerKind, read_access
from migrator.node.transport.client_security import PLAINTEXT, ClientSecurity, client_security
from migrator.node.transport.oauth import OauthLogin, TokenSource
from migrator.node.transport.security import ListenerSecurity, SaslSettings, TlsSettings
from migrator.tls.contexts import STORE_BYTES_MAX
from migrator.tls.sources import PemSource, Source, StoreSource


class BrokerAccess(Protocol):
    """Can be pickled."""

    def here(self) -> ClientSecurity:
        """Raises Z2K-3018, Z2K-3021, and what reading a file of a controller raises."""


@dataclass(frozen=True, slots=True)
class PlainAccess:
    """Speaks without TLS and login."""

    def here(self) -> ClientSecurity:
        return PLAINTEXT


@dataclass(frozen=True, slots=True)
class AccessOfFile:
    """Lets a task read the file of the controller, which it sees."""

    file: Path

    def here(self) -> ClientSecurity:
        return client_security(read_access(self.file, PeerKind.BROKERS).security)


@dataclass(frozen=True, slots=True)
class SentAccess:
    """security: its stores and its token are in `files`, and where they stood says nothing.

    files: by what they are of.
    """

    security: ListenerSecurity
    files: dict[str, SentFile] = field(default_factory=dict, repr=False)

    def here(self) -> ClientSecurity:
        tls, sasl = self.security.tls, self.security.sasl
        if tls is not None:
            identity, trusted = (
                None if source is None else self._source(which, source)
                for which, source in ((IDENTITY, tls.identity), (TRUSTED, tls.trusted))
            )
            tls = replace(tls, identity=identity, trusted=trusted)
        if sasl is not None and sasl.oauth is not None:
            endpoint = f"file://{self.files[TOKEN].path()}"
            sasl = replace(sasl, oauth=replace(sasl.oauth, endpoint=endpoint))
        return client_security(replace(self.security, tls=tls, sasl=sasl))

    def _source(self, which: str, source: Source) -> Source:
        return replace(source, file=Path(self.files[which].path()), shown=False) if which in self.files else source


IDENTITY: Final = "identity"
TRUSTED: Final = "trusted"
TOKEN: Final = "token"
_NO_FILE: Final = Path("/")

MakeAccess = Callable[[], BrokerAccess]
"""Made anew for each look, as a token may be another one by then."""


def access_to_send(security: ListenerSecurity, master: str) -> MakeAccess | str:
    """How tasks on other hosts log in to brokers; a text where the login cannot travel, which says why.

    What is made raises OSError where no token can be had, and Z2K-3021.
    """
    sasl = security.sasl
    if sasl is not None and sasl.kerberos is not None:
        stays = BROKERS_ASKED_HERE.found(master=master, principal=sasl.kerberos.principal)
        return f"{stays.code} {stays.text}"
    tokens = None if sasl is None or sasl.oauth is None else TokenSource(sasl.oauth)
    return lambda: _sent(security, tokens)


def _sent(security: ListenerSecurity, tokens: TokenSource | None) -> SentAccess:
    files: dict[str, SentFile] = {}
    tls = security.tls
    if tls is not None:
        tls = _tls_without_files(security.file, tls, files)
    sasl = security.sasl
    if sasl is not None:
        oauth = None
        if tokens is not None:
            files[TOKEN] = SentFile(tokens.token_now().text.encode())
            oauth = OauthLogin(endpoint="", extensions=tokens.login.extensions)
        sasl = replace(_own_login(sasl), oauth=oauth)
    return SentAccess(replace(security, tls=tls, sasl=sasl), files)


def _own_login(sasl: SaslSettings) -> SaslSettings:
    """Without those by which others would come in."""
    own = {name: replace(login, users={}) for name, login in sasl.logins.items() if name == sasl.mechanism}
    return replace(sasl, enabled=(), logins=own)


def _tls_without_files(file: str, tls: TlsSettings, files: dict[str, SentFile]) -> TlsSettings:
    sources = {IDENTITY: tls.identity, TRUSTED: tls.trusted}
    for which, source in sources.items():
        if source is not None and source.file is not None:
            files[which] = SentFile(_content(file, source))
            sources[which] = replace(source, file=_NO_FILE)
    return replace(tls, identity=sources[IDENTITY], trusted=sources[TRUSTED])


def _content(file: str, source: PemSource | StoreSource) -> bytes:
    """Raises Z2K-3021."""
    assert source.file is not None
    try:
        with source.file.open("rb") as opened:
            data = opened.read(STORE_BYTES_MAX + 1)
    except OSError as error:
        reason = error.strerror or words_of(error)
        raise TLS_NOT_USABLE.error(file=file, key=source.key, reason=reason) from None
    if len(data) > STORE_BYTES_MAX:
        reason = f"it has more than {STORE_BYTES_MAX} bytes"
        raise TLS_NOT_USABLE.error(file=file, key=source.key, reason=reason)
    return data
