"""A backup with a key is one file that only the key opens, and that nobody can change unnoticed."""

from __future__ import annotations

import hashlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from migrator.findings.finding import FindingError
from migrator.fleet.secrets import Secret
from state_machine.finish import backups, encrypted_archive
from state_machine.finish.backups import take_backup
from state_machine.finish.encrypted_archive import read_archive, write_archive
from state_machine.nodes.fleet import Fleet
from tests.unit.state_machine.world import World

SECRET = Secret("correct horse")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    found = tmp_path / "before"
    (found / "files").mkdir(parents=True)
    (found / "files/broker-1.properties").write_bytes(b"ssl.keystore.password=hunter2\n" * 3000)
    (found / "SHA256SUMS").write_text("sums\n")
    return found


def test_what_went_in_comes_out_and_no_secret_can_be_read_in_the_file(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encrypted_archive, "BLOCK_BYTES", 64)  # many blocks
    file = tmp_path / "one.backup"
    sha256, size = write_archive(directory, file, SECRET)
    content = file.read_bytes()
    assert (sha256, size) == (hashlib.sha256(content).hexdigest(), len(content))
    assert b"hunter2" not in content
    assert file.stat().st_mode & 0o777 == 0o600
    names = read_archive(file, tmp_path / "after", SECRET)
    assert names == ("SHA256SUMS", "files/broker-1.properties")
    for name in names:
        assert (tmp_path / "after" / name).read_bytes() == (directory / name).read_bytes()


@pytest.mark.parametrize("spoiled", ["key", "byte", "cut between blocks", "cut", "blocks exchanged", "another file"])
def test_a_file_that_is_not_whole_or_another_key_opens_nothing(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spoiled: str
) -> None:
    monkeypatch.setattr(encrypted_archive, "BLOCK_BYTES", 64)
    file = tmp_path / "one.backup"
    write_archive(directory, file, SECRET)
    content = bytearray(file.read_bytes())
    head, block = 18 + 16, 4 + 64 + 16
    match spoiled:
        case "byte":
            content[-3] ^= 1
        case "cut between blocks":
            del content[head + block :]
        case "cut":
            del content[-3:]
        case "blocks exchanged":
            content[head : head + 2 * block] = content[head + block : head + 2 * block] + content[head : head + block]
        case "another file":
            content = bytearray(b"PK\x03\x04")
    file.write_bytes(content)
    with pytest.raises(FindingError) as caught:
        read_archive(file, tmp_path / "after", Secret("another") if spoiled == "key" else SECRET)
    assert caught.value.code == "Z2K-4221"
    assert not (tmp_path / "after").exists()


def test_nothing_is_restored_over_what_is_there(directory: Path, tmp_path: Path) -> None:
    file = tmp_path / "one.backup"
    write_archive(directory, file, SECRET)
    with pytest.raises(FindingError, match="Z2K-4221"):
        read_archive(file, directory, SECRET)


@pytest.mark.parametrize("key_is_there", [True, False])
def test_a_backup_with_a_key_leaves_no_readable_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key_is_there: bool
) -> None:
    """Not even when the key cannot be read: then there is no backup, and the step waits."""
    monkeypatch.setattr(backups, "ZkSession", lambda connect: SimpleNamespace(__enter__=None))
    session: Any = type("S", (), {"__enter__": lambda self: self, "__exit__": lambda self, *_: None})
    monkeypatch.setattr(backups, "ZkSession", lambda connect: session())
    monkeypatch.setattr(backups, "export", lambda session, file, limits: file.write_text("tree"))
    secret = tmp_path / "key"
    if key_is_there:
        secret.write_text("correct horse\n")
        secret.chmod(0o600)
    home = tmp_path / "home"
    killed_before = home / "SOAK-20260101T000000Z.clear" / "files"
    killed_before.mkdir(parents=True)
    (killed_before / "broker-1.properties").write_text("password=secret")
    (home / "SOAK-20260101T000000Z.backup.part").write_text("half")
    snapshot = World(tmp_path).snapshot
    fleet = Fleet(None, (), "")  # type: ignore[arg-type]
    if not key_is_there:
        with pytest.raises(FindingError, match="Z2K-4214"):
            take_backup(snapshot, fleet, home, "FINALIZING", f"file:{secret}")
        assert list(home.iterdir()) == []
        return
    taken = take_backup(snapshot, fleet, home, "FINALIZING", f"file:{secret}")
    (file,) = home.iterdir()
    assert (str(file), hashlib.sha256(file.read_bytes()).hexdigest()) == (taken.directory, taken.sha256)
    assert "zookeeper.json.gz" in read_archive(file, tmp_path / "out", SECRET)
