"""A checksummed copy of Kafka's znodes in a file, and back into an empty chroot.

In:   a session and a file.
Out:  `export` writes one JSON line per znode between a header and a checksum; `restore` creates them again.
Elsewhere: which znodes are Kafka's (paths.ROOTS), when one is taken, how long it is kept (node/zookeeper/exports.py).
Rules: what others keep in the same chroot is counted and never read: they may protect it, and it is not ours to keep. A
file whose checksum does not fit is refused; a chroot that holds anything is refused. Ephemeral znodes are listed and
not restored: they belong to sessions. Access lists are not kept (secured ensembles are not supported yet).
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import os
import zlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from migrator.findings.driver import BACKUP_UNUSABLE
from migrator.findings.finding import FindingError, words_of
from migrator.findings.zookeeper import ZOOKEEPER_REFUSES
from migrator.zk import paths
from migrator.zk.bulk_read import Znode
from migrator.zk.multi import HEADROOM_BYTES, JUTE_MAXBUFFER_MIN, Create, Multi
from migrator.zk.pipeline import ReadLimits
from migrator.zk.session import ZkSession
from migrator.zk.znodes import UNREADABLE

FORMAT: Final = 1
PART: Final = ".part"
"""Ends the name of a file that is being written."""
CREATES_PER_MULTI: Final = 500
BYTES_PER_MULTI: Final = JUTE_MAXBUFFER_MIN - HEADROOM_BYTES
"""ZooKeeper refuses requests above `jute.maxbuffer`, and nobody says here how the servers are set; a larger znode goes
alone."""


@dataclass(frozen=True, slots=True)
class BackupInfo:
    """What a backup file holds.

    foreign: persistent znodes that are not Kafka's, which only earlier exports have. first: path of the first.
    """

    file: str
    znodes: int
    ephemerals: int
    sha256: str
    foreign: int = 0
    first: str = ""


class _Line(msgspec.Struct, forbid_unknown_fields=True):
    """The header (`format`), one znode (`path`), or the end with the checksum of all lines before it."""

    format: int | None = None
    path: str | None = None
    data: str | None = None
    version: int = 0
    ephemeral: bool = False
    end: bool = False
    znodes: int = 0
    sha256: str = ""


def export(session: ZkSession, file: Path, limits: ReadLimits) -> BackupInfo:
    """Write Kafka's znodes below the session's chroot. The file is complete or it does not exist.

    Raises Z2K-2018 where there is no such chroot, Z2K-2004 with the path where a znode of Kafka's refuses to be read.
    """
    temporary = file.with_name(file.name + PART)
    file.parent.mkdir(parents=True, exist_ok=True)
    try:
        info = _written(session, file, temporary, limits)
        temporary.replace(file)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return info


def _written(session: ZkSession, file: Path, temporary: Path, limits: ReadLimits) -> BackupInfo:
    digest = hashlib.sha256()
    znodes = ephemerals = 0
    header = msgspec.json.encode({"format": FORMAT}) + b"\n"
    digest.update(header)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as raw:
        with gzip.open(raw, "wb") as out:
            out.write(header)
            for line in _lines(session, limits):
                znodes += 1
                ephemerals += b'"ephemeral":true' in line
                digest.update(line)
                out.write(line)
            if not znodes:
                raise BACKUP_UNUSABLE.error(file=str(file), reason="there is no such chroot, nothing was exported")
            checksum = digest.hexdigest()
            out.write(msgspec.json.encode({"end": True, "znodes": znodes, "sha256": checksum}) + b"\n")
        raw.flush()
        os.fsync(raw.fileno())
    return BackupInfo(str(file), znodes, ephemerals, checksum)


def _lines(session: ZkSession, limits: ReadLimits) -> Iterator[bytes]:
    """The chroot itself, then Kafka's znodes below it: parents before children, level by level.

    The chroot is not listed: Kafka's roots are known, and a root that is shared may refuse to list its children.
    """
    top = _chroot(session)
    if top is not None:
        yield _line("/", top.data, top.version, ephemeral=False)
    for path, znode in kafka_znodes(session, limits):
        yield _line(path, znode.data, znode.version, ephemeral=bool(znode.owner))


def kafka_znodes(session: ZkSession, limits: ReadLimits, without: Collection[str] = ()) -> Iterator[tuple[str, Znode]]:
    """Kafka's znodes with their paths, level by level. without: paths that are left out with all that is below them.

    Raises Z2K-2004 with the path of the first one that refuses to be read.
    """
    level = [path for path in paths.ROOTS if path not in without]
    while level:
        for path, znode in zip(level, session.get_many(level, limits), strict=True):
            if znode is not None:
                yield path, znode
        below = zip(level, session.children_many(level, limits), strict=True)
        found = (f"{parent}/{name}" for parent, names in below for name in sorted(names or ()))
        level = [path for path in found if path not in without]


def foreign_roots(session: ZkSession) -> tuple[str, ...]:
    """What others keep beside Kafka's znodes, by path. Empty as well where the chroot refuses to list its children."""
    try:
        names = session.children("/") or []
    except FindingError as error:
        if error.code != ZOOKEEPER_REFUSES.code:
            raise
        return ()
    return tuple(path for name in names if is_foreign(path := f"/{name}"))


def is_foreign(path: str) -> bool:
    """Whether a znode is neither Kafka's nor ZooKeeper's own. path: below the chroot, "/" is the chroot itself."""
    root = f"/{path.split('/')[1]}"
    return root not in (*paths.ROOTS, paths.ZOOKEEPER, "/")


def _chroot(session: ZkSession) -> Znode | None:
    """None where it does not exist, and where a root that is shared refuses: Kafka keeps nothing in it."""
    try:
        return session.get("/")
    except FindingError as error:
        if error.code != ZOOKEEPER_REFUSES.code:
            raise
        return None


def _line(path: str, data: bytes | None, version: int, *, ephemeral: bool) -> bytes:
    entry = {
        "path": path,
        "data": None if data is None else base64.b64encode(data).decode(),
        "version": version,
        "ephemeral": ephemeral,
    }
    return msgspec.json.encode(entry) + b"\n"


def verify(file: Path) -> BackupInfo:
    """Read a backup through; raises Z2K-2018 when it is not whole, or not of this format."""
    lines = _read_lines(file)
    header, first = next(lines, (b"", _Line()))
    if first.format != FORMAT:
        raise BACKUP_UNUSABLE.error(file=str(file), reason=f"it does not begin as an export of format {FORMAT}")
    digest = hashlib.sha256(header)
    ephemerals = 0
    others, first_of_others = 0, ""
    info: BackupInfo | None = None
    for znodes, (line, entry) in enumerate(lines):
        if info is not None:
            raise BACKUP_UNUSABLE.error(file=str(file), reason="something follows its end")
        if entry.end:
            if entry.sha256 != digest.hexdigest() or entry.znodes != znodes:
                raise BACKUP_UNUSABLE.error(file=str(file), reason="its checksum does not fit")
            info = BackupInfo(str(file), znodes, ephemerals, entry.sha256, others, first_of_others)
        digest.update(line)
        ephemerals += entry.ephemeral
        if entry.path is not None and not entry.ephemeral and is_foreign(entry.path):
            others, first_of_others = others + 1, first_of_others or entry.path
    if info is None:
        raise BACKUP_UNUSABLE.error(file=str(file), reason="it ends early")
    return info


def _read_lines(file: Path) -> Iterator[tuple[bytes, _Line]]:
    decode = msgspec.json.Decoder(_Line).decode
    try:
        with gzip.open(file, "rb") as lines:
            for line in lines:
                yield line, decode(line)
    except (OSError, EOFError, zlib.error, *UNREADABLE) as error:
        raise BACKUP_UNUSABLE.error(file=str(file), reason=words_of(error)) from error


def restore(session: ZkSession, file: Path) -> BackupInfo:
    """Create every persistent znode of Kafka's that a verified backup has; the session's chroot has to be empty.

    Those of others, in exports of earlier releases, are counted and not created.
    """
    info = verify(file)
    present = [name for name in session.children("/") or [] if name != "zookeeper"]
    if present:
        reason = f"the target is not empty (it has /{present[0]})"
        raise BACKUP_UNUSABLE.error(file=str(file), reason=reason)
    operations: list[Create] = []
    weight = 0
    for _, entry in _read_lines(file):
        if entry.path in (None, "/") or entry.ephemeral or is_foreign(entry.path or "/"):
            continue
        create = Create(entry.path or "", None if entry.data is None else base64.b64decode(entry.data))
        own = Multi((create,)).bytes
        if operations and (len(operations) >= CREATES_PER_MULTI or weight + own > BYTES_PER_MULTI):
            _apply(session, file, operations)
            operations, weight = [], 0
        operations.append(create)
        weight += own
    if operations:
        _apply(session, file, operations)
    return info


def _apply(session: ZkSession, file: Path, operations: list[Create]) -> None:
    outcome = session.apply(Multi(tuple(operations)))
    if not outcome.applied:
        refused = operations[outcome.failed_at]
        raise BACKUP_UNUSABLE.error(file=str(file), reason=f"{refused.path}: {outcome.error}")
