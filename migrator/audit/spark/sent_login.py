"""The login and the TLS keys with which executors on other hosts read ZooKeeper: those of this process.

In:   what KAFKA_OPTS of this process says (zk/login.py, zk/tls_settings.py), and the files that it names.
Out:  `SentLogin`, which travels inside the pickled task, and opens sessions where it arrives.
Elsewhere: that the wire and what Spark spills are encrypted, or nothing is sent (session.py, Z2K-5007).
Rules: nothing of it stands in Spark's configuration, which logs, event logs and pages show; its text shows nothing. No
executor writes it down: a store becomes a file in memory (shipped.py), since OpenSSL reads files only.
Errors: Z2K-5015 for a Kerberos login: a keytab is a principal's key for every service, and the ticket of one host is
none of another's.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from migrator.audit.spark.shipped import SentFile
from migrator.findings.audit import LOGIN_STAYS_HERE
from migrator.model.jaas import KerberosLogin
from migrator.zk.login import DigestLogin
from migrator.zk.session import ZkSession, process_login, process_tls
from migrator.zk.tls_settings import ZkStore, ZkTls
from migrator.zk.tls_sockets import content_of


@dataclass(frozen=True, slots=True)
class SentStore:
    """A store with the bytes of its file. store: with its password; its path is one of the driver's."""

    store: ZkStore
    file: SentFile = field(repr=False)

    @classmethod
    def of(cls, store: ZkStore | None) -> SentStore | None:
        """Raises Z2K-1093."""
        if store is None:
            return None
        whole, content = content_of(store)
        return cls(whole, SentFile(content))

    def here(self) -> ZkStore:
        """The same store for this process. Its path would say nothing in a message."""
        return replace(self.store, file=self.file.path(), shown=False)


@dataclass(frozen=True, slots=True)
class SentLogin:
    """How tasks log in. user: by DIGEST-MD5; None: as nobody. tls: None: plain TCP; its stores are the two below."""

    user: DigestLogin | None
    tls: ZkTls | None = None
    identity: SentStore | None = None
    trusted: SentStore | None = None

    def session(self, connect: str) -> ZkSession:
        """Raises Z2K-1093 and Z2K-2001 as a session of the driver's does."""
        if self.tls is None:
            return ZkSession(connect, tls=None, login=self.user)
        identity, trusted = (None if each is None else each.here() for each in (self.identity, self.trusted))
        return ZkSession(connect, tls=replace(self.tls, identity=identity, trusted=trusted), login=self.user)


def login_to_send(master: str) -> SentLogin | None:
    """Who this process is for ZooKeeper; None: nobody, and executors are who their own KAFKA_OPTS says.

    Raises Z2K-5015 for a login that cannot travel, Z2K-1092 and Z2K-1093 for what is said and cannot be used.
    """
    user, tls = process_login(), process_tls()
    if isinstance(user, KerberosLogin):
        raise LOGIN_STAYS_HERE.error(master=master, principal=user.principal)
    if user is None and tls is None:
        return None
    if tls is None:
        return SentLogin(user)
    return SentLogin(user, tls, SentStore.of(tls.identity), SentStore.of(tls.trusted))
