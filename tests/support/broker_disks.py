"""Log directories as a broker writes them, and listings of them, for tests."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from migrator.audit.brokers.disk_listing import DiskListing, read_listing
from migrator.audit.brokers.list_disks import list_disks

CLUSTER_ID: Final = "MkU3OEVBNTcwNTJENDM2Qk"


def a_log_directory(
    path: Path, broker: int = 1, *, cluster_id: str = CLUSTER_ID, directory_id: str = "", alive_ms: int = -1
) -> Path:
    """alive_ms: when the broker last wrote its high watermarks; -1: never."""
    path.mkdir(parents=True, exist_ok=True)
    said = f"#\n#Mon Nov 30 00:00:00 UTC 2026\ncluster.id={cluster_id}\nversion=0\nbroker.id={broker}\n"
    (path / "meta.properties").write_text(said + (f"directory.id={directory_id}\n" if directory_id else ""))
    if alive_ms >= 0:
        file = path / "replication-offset-checkpoint"
        file.write_text("0\n0\n")
        os.utime(file, ns=(alive_ms * 1_000_000, alive_ms * 1_000_000))
    return path


def a_replica(
    directory: Path,
    name: str,
    topic_id: str | None,
    epochs: Sequence[tuple[int, int]] = ((0, 0),),
    *,
    segments: Sequence[tuple[int, int]] = ((0, 100),),
) -> Path:
    """topic_id: None: without partition.metadata. segments: base offset and bytes of each."""
    found = directory / name
    found.mkdir()
    if topic_id is not None:
        (found / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}")
    lines = ["0", str(len(epochs)), *(f"{epoch} {start}" for epoch, start in epochs)]
    (found / "leader-epoch-checkpoint").write_text("\n".join(lines) + "\n")
    for base, size in segments:
        (found / f"{base:020d}.log").write_bytes(bytes(size))
        (found / f"{base:020d}.index").write_bytes(bytes(10))
    return found


def a_listing(file: Path, directories: Sequence[Path], listed_at_ms: int) -> Path:
    """As `zk2kraft log disks` writes it."""
    lines = [msgspec.json.encode(each) + b"\n" for each in list_disks(directories, listed_at_ms)]
    file.write_bytes(b"".join(lines))
    return file


def listed(file: Path, directories: Sequence[Path], listed_at_ms: int) -> DiskListing:
    return read_listing(a_listing(file, directories, listed_at_ms))
