"""An authority of a test's own, and what it signs: made by openssl at test time, for loopback."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

DAYS = "2"
TIMEOUT_S = 60.0


def openssl(*words: str | Path) -> str:
    done = subprocess.run(["openssl", *map(str, words)], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@dataclass(frozen=True)
class Signed:
    """A key and the certificate for it. pem: both in one file, as Kafka's PEM keystore wants them."""

    key: Path
    certificate: Path
    pem: Path


class Authority:
    """trusted: its own certificate, as a truststore."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._key = directory / "authority.key"
        self.trusted = directory / "authority.pem"
        words = ("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", DAYS)
        uses = ("-addext", "keyUsage=critical,keyCertSign,cRLSign")  # Python 3.13 believes no authority without
        openssl(*words, *uses, "-subj", "/CN=authority of a test", "-keyout", self._key, "-out", self.trusted)

    def sign(self, name: str, names: str = "DNS:localhost,IP:127.0.0.1") -> Signed:
        """names: which the certificate is good for, as OpenSSL's subjectAltName."""
        key, request = self._directory / f"{name}.key", self._directory / f"{name}.csr"
        certificate, pem = self._directory / f"{name}.crt", self._directory / f"{name}.pem"
        extensions = self._directory / f"{name}.ext"
        keys = "subjectKeyIdentifier=hash\nauthorityKeyIdentifier=keyid\n"
        extensions.write_text(f"subjectAltName={names}\n{keys}")
        words = ("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}")
        openssl(*words, "-keyout", key, "-out", request)
        signing = ("x509", "-req", "-in", request, "-CA", self.trusted, "-CAkey", self._key, "-CAcreateserial")
        openssl(*signing, "-days", DAYS, "-extfile", extensions, "-out", certificate)
        pem.write_text(key.read_text() + certificate.read_text())
        pem.chmod(0o600)
        return Signed(key, certificate, pem)
