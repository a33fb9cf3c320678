"""Stores that Java's own keytool makes, one node each, and a trust store with all of their certificates: needs Java."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from migrator.lab.servers.java import find_java

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
            words = ("-genkeypair", "-alias", name, "-keyalg", "EC", "-groupname", "secp256r1", "-validity", "2")
            self._keytool(*words, "-dname", f"CN={name}", "-ext", NAMES, "-storetype", kind, "-keystore", str(store))
            certificate = self._directory / f"{name}{suffix}.crt"
            self._keytool("-exportcert", "-alias", name, "-keystore", str(store), "-file", str(certificate))
            words = ("-importcert", "-noprompt", "-alias", store.name, "-file", str(certificate), "-storetype", "JKS")
            self._keytool(*words, "-keystore", str(self.trusted))
        return store

    def _keytool(self, *words: str) -> None:
        java = find_java(os.environ)
        assert java is not None, "keytool comes with Java"
        found = Path(shutil.which(java.path) or java.path).resolve().with_name("keytool")
        command = [str(found), "-J-XX:TieredStopAtLevel=1", *words, "-storepass:env", "STORE_PASSWORD"]
        environment = {**os.environ, "STORE_PASSWORD": self.password}
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False, env=environment)
        assert done.returncode == 0, done.stdout + done.stderr
