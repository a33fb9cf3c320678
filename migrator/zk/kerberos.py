"""Logins to ZooKeeper by Kerberos: the host's library gets tickets, from a keytab again and again.

In:   a `KerberosLogin` (login.py). Out: what kazoo needs for GSSAPI; the environment of this process, in which the
library finds its files.
Elsewhere: what a JAAS file says (login.py), the session (session.py).
Rules: a key server that does not answer is trouble with the network, as a ZooKeeper that does not: the session connects
again. kazoo alone would take both for a refusal, and an error before the first word even ends its thread.
Needs: the extra `kerberos` of this package, which is compiled against MIT's library (libkrb5-dev).
Source: RFC 4752; pure-sasl 0.6 `GSSAPIMechanism`; MIT krb5 1.20, `KRB5_CLIENT_KTNAME` (tickets are taken from that
keytab when there are none, or when half of their life is over).
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from kazoo.exceptions import ConnectionDropped
from puresasl import mechanisms as sasl

from migrator.findings.preflight import ZOOKEEPER_LOGIN_UNUSABLE
from migrator.zk.login import KerberosLogin

IN_MEMORY: Final = "MEMORY:zk2kraft"
"""Tickets of a keytab: the cache of the user whose process this is stays as it is."""


def kerberos_options(login: KerberosLogin) -> dict[str, str]:
    """As kazoo takes them. Sets variables of this process. Raises Z2K-1092."""
    if find_spec("kerberos") is None:
        raise ZOOKEEPER_LOGIN_UNUSABLE.error(
            file=login.principal, reason="the Python package kerberos is missing: install zk2kraft[kerberos]"
        )
    for file in filter(None, (login.keytab, login.configuration)):
        try:
            Path(file).open("rb").close()
        except OSError as error:
            raise ZOOKEEPER_LOGIN_UNUSABLE.error(file=file, reason=error.strerror or error) from error
    os.environ.update(environment_for(login))
    sasl.mechanisms["GSSAPI"] = _Gssapi
    return {"mechanism": "GSSAPI", "service": login.service, "principal": login.principal}


def environment_for(login: KerberosLogin) -> dict[str, str]:
    """Where MIT's library finds its files."""
    found = {"KRB5_CONFIG": login.configuration} if login.configuration else {}
    if login.keytab:
        return {**found, "KRB5_CLIENT_KTNAME": f"FILE:{login.keytab}", "KRB5CCNAME": IN_MEMORY}
    if login.ticket_cache:
        return {**found, "KRB5CCNAME": f"FILE:{login.ticket_cache}"}
    return found


class _Gssapi(sasl.GSSAPIMechanism):  # type: ignore[misc]  # it has no types
    """Asks the key server while it is made, so that what fails then is no answer of ZooKeeper."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        try:
            super().__init__(*arguments, **named)
            self._first: bytes | None = super().process(None)
        except Exception as error:
            raise ConnectionDropped(f"no Kerberos ticket for ZooKeeper: {error}") from error

    def process(self, challenge: bytes | None = None) -> Any:
        first, self._first = self._first, None
        return super().process(challenge) if first is None else first
