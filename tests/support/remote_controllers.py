"""Our controllers as on hosts of their own: a control port with TLS and a token; a service that has copies alone."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from migrator.lab.servers.properties import Value
from tests.support.certificates import Authority

PREFIX: Final = "zk2kraft.control.remote."
TOKEN: Final = "a-token-of-the-company"


def remote_port(directory: Path, authority: Authority, port: int, name: str = "controller") -> dict[str, Value]:
    """What a controller's file says of its control port for other hosts. directory: its token is put there."""
    token = directory / "token-of-the-controller"
    token.write_text(TOKEN + "\n")
    token.chmod(0o600)
    return {
        f"{PREFIX}address": f"localhost:{port}",
        f"{PREFIX}token.file": str(token),
        f"{PREFIX}ssl.keystore.type": "PEM",
        f"{PREFIX}ssl.keystore.location": str(authority.sign(name).pem),
        f"{PREFIX}ssl.truststore.type": "PEM",
        f"{PREFIX}ssl.truststore.location": str(authority.trusted),
    }


class ServiceFiles:
    """What the service's host has of controllers elsewhere: copies of their files, a token, certificates.

    authority: of the company, which both sides trust.
    """

    def __init__(self, directory: Path, authority: Authority) -> None:
        self.directory = directory
        directory.mkdir(mode=0o700)
        self.token = directory / "token"
        self.token.write_text(TOKEN)
        self.token.chmod(0o600)
        self.certificate, self.ca = directory / "service.pem", directory / "ca.pem"
        self.take_certificates(authority)

    def take_certificates(self, authority: Authority) -> None:
        self.certificate.write_text(authority.sign("service").pem.read_text())
        self.ca.write_text(authority.trusted.read_text())

    def settings(self, *ports: int) -> Mapping[str, str | list[str]]:
        """Keys of the service's own file. ports: of the control ports that it may reach."""
        return {
            "control_hosts": [f"localhost:{port}" for port in ports],
            "control_ca": str(self.ca),
            "control_certificate": str(self.certificate),
            "control_token": f"file:{self.token}",
        }

    def copy_of(self, properties: Path, name: str) -> Path:
        copied = self.directory / f"{name}.properties"
        shutil.copy(properties, copied)
        return copied
