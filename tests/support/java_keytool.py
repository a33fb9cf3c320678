"""Stores that Java's own keytool makes, one node each, and a trust store: needs Java.

In:   a directory; an authority of the test's own where certificates are signed. Out: JKS and PKCS12 stores.
"""

from __future__ import annotations

import os
import shutil
import ssl
import subprocess
from dataclasses import dataclass
from pathlib import Path

from migrator.lab.servers.java import find_java
from tests.support.certificates import Authority, openssl

NAMES = "SAN=dns:localhost,ip:127.0.0.1"
TIMEOUT_S = 60.0


class JavaStores:
    """password: of every store, and of every key. trusted: a JKS trust store with every certificate made so far.

    password_file: has it in its first line.
    """

    password = "st0re-s3cret"

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self.trusted = directory / "trusted.jks"
        self.password_file = directory / "password"
        self.password_file.write_text(f"{self.password}\n")

    def jks(self, name: str) -> Path:
        return self._made(name, "JKS", ".jks")

    def pkcs12(self, name: str) -> Path:
        return self._made(name, "PKCS12", ".p12")

    def _made(self, name: str, kind: str, suffix: str) -> Path:
        store = self._directory / f"{name}{suffix}"
        if not store.exists():
            words: tuple[str, ...]
            words = ("-genkeypair", "-alias", name, "-keyalg", "EC", "-groupname", "secp256r1", "-validity", "2")
            self._keytool(*words, "-dname", f"CN={name}", "-ext", NAMES, "-storetype", kind, "-keystore", str(store))
            certificate = self._directory / f"{name}{suffix}.crt"
            self._keytool("-exportcert", "-alias", name, "-keystore", str(store), "-file", str(certificate))
            words = ("-importcert", "-noprompt", "-alias", store.name, "-file", str(certificate), "-storetype", "JKS")
            self._keytool(*words, "-keystore", str(self.trusted))
        return store

    def _keytool(self, *words: str) -> None:
        keytool(*words, "-storepass:env", "STORE_PASSWORD", STORE_PASSWORD=self.password)


@dataclass(frozen=True)
class SignedStore:
    """A key store; the certificate of its key, by which its use is recognised. key_password: of a PKCS12, the same."""

    kind: str
    file: Path
    password: str
    key_password: str
    certificate: bytes


class SignedStores:
    """Key stores whose certificates one authority signed, and `trusted`, a JKS store with that authority alone.

    Every store and every key of a JKS store has a password of its own. authority: its file is what clients trust.
    """

    def __init__(self, directory: Path, trust_password: str) -> None:
        self.authority = Authority(directory)
        self.trusted = directory / "trusted.jks"
        self._directory = directory
        words = ("-importcert", "-noprompt", "-alias", "authority", "-file", str(self.authority.trusted))
        store = ("-storetype", "JKS", "-keystore", str(self.trusted))
        keytool(*words, *store, "-storepass:env", "TRUST", TRUST=trust_password)

    def make(self, name: str, kind: str, password: str, key_password: str) -> SignedStore:
        """A new key and certificate for loopback. name: of the file. kind: JKS or PKCS12.

        All have one distinguished name: brokers change a store for another only where the names are the same.
        """
        signed = self.authority.sign("node")
        certificate = ssl.PEM_cert_to_DER_cert(signed.certificate.read_text())
        package = self._directory / f"{name}.p12"
        words = ("pkcs12", "-export", "-in", signed.certificate, "-inkey", signed.key, "-out", package, "-name", "node")
        openssl(*words, "-passout", f"pass:{password}")
        if kind == "PKCS12":
            return SignedStore(kind, package, password, password, certificate)
        store = self._directory / f"{name}.jks"
        source = ("-importkeystore", "-noprompt", "-srckeystore", str(package), "-srcstoretype", "PKCS12")
        target = ("-srcalias", "node", "-destkeystore", str(store), "-deststoretype", "JKS")
        passwords = ("-srcstorepass:env", "STORE", "-deststorepass:env", "STORE", "-destkeypass:env", "KEY")
        keytool(*source, *target, *passwords, STORE=password, KEY=key_password)
        package.unlink()
        return SignedStore(kind, store, password, key_password, certificate)


def keytool(*words: str, **passwords: str) -> None:
    """passwords: variables that the words name."""
    java = find_java(os.environ)
    assert java is not None, "keytool comes with Java"
    found = Path(shutil.which(java.path) or java.path).resolve().with_name("keytool")
    command = [str(found), "-J-XX:TieredStopAtLevel=1", *words]
    environment = {**os.environ, **passwords}
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
