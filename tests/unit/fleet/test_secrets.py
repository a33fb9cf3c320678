"""A secret is read where it is used; a reference is all that is stored."""

from __future__ import annotations

from pathlib import Path

import pytest

from migrator.findings.finding import FindingError
from migrator.fleet.secrets import is_reference, resolve


def test_a_secret_is_read_from_a_file_a_command_or_systemd_and_shown_nowhere(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("hunter2\n")
    file.chmod(0o600)
    script = tmp_path / "get"
    script.write_text(f"#!/bin/sh\ncat '{file}'\n")
    script.chmod(0o700)
    environment = {"CREDENTIALS_DIRECTORY": str(tmp_path)}
    for reference in (f"file:{file}", f"exec:{script} one 'two three'", "systemd:secret"):
        secret = resolve(reference, environment)
        assert secret.reveal() == "hunter2"
        assert "hunter2" not in f"{secret} {secret!r}"


def test_what_cannot_be_read_is_named_without_the_secret(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.write_text("hunter2")
    shared.chmod(0o644)
    empty = tmp_path / "empty"
    empty.touch(0o600)
    references = (
        *(f"file:{shared}", f"file:{empty}", f"file:{tmp_path}", "file:/no/such", "systemd:none"),
        *("exec:/no/such hunter2", "exec:/bin/sh -c 'echo hunter2 >&2; exit 1'", "exec:/bin/sh 'unclosed", "hunter2"),
    )
    for reference in references:
        with pytest.raises(FindingError) as error:
            resolve(reference, {})
        assert error.value.code == "Z2K-7010"
        assert "hunter2" not in str(error.value)


def test_only_absolute_references_count() -> None:
    assert is_reference("file:/etc/secret")
    assert is_reference("systemd:kafka.admin")
    assert not any(map(is_reference, ("file:secret", "exec:get secret", "hunter2", "", "systemd:../x", "file:/a\n")))
