"""A Kerberos key server of a test's own, on loopback; needs Debian's krb5-kdc.

In:   a directory, a port. Out: a configuration for clients, keytabs for principals.
Each keytab has one key. Realm and hosts are those of loopback: servers are SERVICE/localhost.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Final

REALM: Final = "ZK2KRAFT.TEST"
TIMEOUT_S: Final = 60.0
PROGRAMS: Final = ("krb5kdc", "kdb5_util", "kadmin.local")
WHERE: Final = f"{os.environ.get('PATH', '')}:/usr/sbin"


def why_not_here() -> str | None:
    missing = [each for each in PROGRAMS if shutil.which(each, path=WHERE) is None]
    if missing:
        return f"Kerberos: {missing[0]} is not installed here (Debian's krb5-kdc)"
    return None if find_spec("kerberos") else "Kerberos: the extra `kerberos` is not installed (`make test-kerberos`)"


class KeyServer:
    """Runs between `start` and `stop`. configuration: krb5.conf of its clients, Java's and MIT's."""

    def __init__(self, directory: Path, port: int) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self.configuration = directory / "krb5.conf"
        self.configuration.write_text(
            f"[libdefaults]\n  default_realm = {REALM}\n  dns_lookup_kdc = false\n  dns_lookup_realm = false\n"
            f"  udp_preference_limit = 1\n  ticket_lifetime = 600\n"
            f"[realms]\n  {REALM} = {{\n    kdc = 127.0.0.1:{port}\n  }}\n"
            f"[domain_realm]\n  localhost = {REALM}\n"
        )
        settings = directory / "kdc.conf"
        settings.write_text(
            f"[kdcdefaults]\n  kdc_listen = 127.0.0.1:{port}\n  kdc_tcp_listen = 127.0.0.1:{port}\n"
            f"[realms]\n  {REALM} = {{\n    database_name = {directory}/principals\n"
            f"    key_stash_file = {directory}/stash\n    acl_file = {directory}/kadm5.acl\n  }}\n"
            f"[logging]\n  kdc = FILE:{directory}/kdc.log\n"
        )
        self._environment = {
            **os.environ,
            "PATH": WHERE,
            "KRB5_CONFIG": str(self.configuration),
            "KRB5_KDC_PROFILE": str(settings),
        }
        self._process: subprocess.Popen[bytes] | None = None
        self._run("kdb5_util", "create", "-s", "-r", REALM, "-P", "of this test")

    def start(self) -> None:
        program = shutil.which("krb5kdc", path=WHERE)
        assert program is not None
        with (self._directory / "kdc.out").open("ab") as out:
            self._process = subprocess.Popen(
                [program, "-n", "-r", REALM], env=self._environment, stdout=out, stderr=out, stdin=subprocess.DEVNULL
            )

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.terminate()
            process.wait(TIMEOUT_S)

    def keytab(self, principal: str) -> Path:
        """Of a new principal of the realm, such as kafka/localhost."""
        file = self._directory / f"{principal.replace('/', '-')}.keytab"
        self._run("kadmin.local", "-r", REALM, "-q", f"addprinc -randkey {principal}@{REALM}")
        self._run("kadmin.local", "-r", REALM, "-q", f"ktadd -k {file} -norandkey {principal}@{REALM}")
        return file

    def _run(self, *words: str) -> None:
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=TIMEOUT_S, env=self._environment, check=False
        )
        assert done.returncode == 0, done.stderr
