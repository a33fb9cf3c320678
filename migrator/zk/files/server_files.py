"""The files of one ZooKeeper server as a tree: the newest whole snapshot, and the logs from there on.

In:   copies of `dataDir` and `dataLogDir`, each with or without its directory `version-2`.
Out:  the tree, and what was read: up to which transaction, from which files.
Elsewhere: the forms of the files (snapshot.py, txn_log.py).
Errors: Z2K-5010 where the files do not give the tree of one moment, or would give it with a gap.
Rules: every transaction has the number behind the one before it, also a refused one; a new leader begins at 1 of its
epoch. So a missing file shows, unless it held the end of an epoch; the digest that servers note since 3.6 shows that
one, too. A snapshot has changes of the time while it was written: with a log that ends before that it is a tree that no
server had.
Source: ZooKeeper 3.9 `FileTxnSnapLog`, `FileSnap`, `FileTxnLog`, `SnapStream`, `Util`, `ZxidUtils`.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, cast
from zlib import error as ZlibError

import msgspec

from migrator.findings.audit import ZOOKEEPER_FILES_UNUSABLE
from migrator.findings.finding import words_of
from migrator.zk.files.jute import EndOfBytes, NotJute
from migrator.zk.files.snapshot import TreeOfSnapshot, read_snapshot
from migrator.zk.files.transactions import LoggedTransaction
from migrator.zk.files.txn_log import TxnLogReader
from migrator.zk.files.znode_tree import ZnodeTree

VERSION_DIRECTORY: Final = "version-2"
_FILE: Final = re.compile(r"(snapshot|log)\.([0-9a-f]{1,16})(\.gz|\.snappy)?")
GZIP, SNAPPY = ".gz", ".snappy"
EPOCH_BITS: Final = 32
"""A transaction's number is the leader's epoch, and a counter in that epoch."""
NOT_WHOLE: Final = "it ends too early"


class SkippedFile(msgspec.Struct, frozen=True):
    file: str
    reason: str


class FilesRead(msgspec.Struct, frozen=True):
    """What an audit read in place of an ensemble.

    zxid:     the last transaction in the tree.  at_ms: when it was made, since 1970 in UTC; 0 where no log has it.
    snapshot: the file that was begun with.  logs: those with transactions behind it.
    skipped:  newer snapshots that are not whole, and why.
    torn:     the log that ends inside an entry, and `torn_at`, where that entry begins in it; empty: none does.
    verified: the tree has the digest that the server noted for it; false: the server notes none.
    """

    zxid: int
    at_ms: int
    snapshot: str
    logs: tuple[str, ...]
    skipped: tuple[SkippedFile, ...]
    torn: str
    torn_at: int
    verified: bool


class _File(NamedTuple):
    zxid: int
    path: Path

    def unusable(self, reason: str) -> Exception:
        return ZOOKEEPER_FILES_UNUSABLE.error(file=str(self.path), reason=reason)


def read_server_files(directories: Sequence[Path]) -> tuple[ZnodeTree, FilesRead]:
    """Read the tree of one server. directories: its dataDir, and its dataLogDir where that is another one.

    Raises Z2K-5010.
    """
    snapshots, logs = _found(directories)
    snapshot, begun, skipped = _newest_whole(snapshots, directories)
    replay = _Replay(begun, snapshot.zxid)
    for each in _from(logs, snapshot.zxid):
        replay.take(each)
    replay.refuse_too_early(snapshot, logs)
    return begun.tree, FilesRead(
        zxid=replay.zxid,
        at_ms=replay.at_ms,
        snapshot=snapshot.path.name,
        logs=tuple(replay.logs),
        skipped=tuple(skipped),
        torn=replay.torn,
        torn_at=replay.torn_at,
        verified=replay.verified(snapshot),
    )


class _Replay:
    """The logs behind a snapshot, one after the other."""

    def __init__(self, begun: TreeOfSnapshot, zxid: int) -> None:
        self._begun = begun
        self._tree = begun.tree
        self._snapshot_zxid = zxid
        self.zxid, self.at_ms = zxid, 0
        self._seen = 0
        self._digest = begun.digest if begun.digest_zxid == zxid else None
        """Of the tree as it is now, where the server noted it."""
        self.logs: list[str] = []
        self.torn, self.torn_at = "", -1

    def take(self, file: _File) -> None:
        """Raises Z2K-5010 where the file is damaged, or does not go on where the one before it ended."""
        self.torn, self.torn_at = "", -1
        before = self.zxid
        try:
            with file.path.open("rb") as stream:
                reader = TxnLogReader(stream)
                for each in _read(reader, file):
                    self._seen = max(self._seen, each.zxid)
                    if each.zxid > self._snapshot_zxid:
                        self._apply(each, file)
        except OSError as error:
            raise file.unusable(words_of(error)) from error
        if self.zxid > before:
            self.logs.append(file.path.name)
        if reader.torn:
            self.torn, self.torn_at = file.path.name, reader.offset

    def _apply(self, transaction: LoggedTransaction, file: _File) -> None:
        if not is_next(self.zxid, transaction.zxid):
            missing = transaction.zxid > self.zxid
            why = "transactions between them are missing" if missing else "these are not in their order"
            raise file.unusable(f"transaction {transaction.zxid:#x} follows {self.zxid:#x}: {why}")
        self._tree.apply(transaction)
        self.zxid, self.at_ms = transaction.zxid, transaction.time_ms
        if transaction.digest is not None or transaction.changes:
            self._digest = transaction.digest

    def refuse_too_early(self, snapshot: _File, logs: Sequence[_File]) -> None:
        """Raises Z2K-5010 where the log does not have all that the snapshot may have changes of."""
        if not logs:
            reason = "there is no transaction log (log.*): name the directory of dataLogDir, too"
            raise snapshot.unusable(reason)
        if self._begun.up_to > self.zxid:
            reason = f"it has changes up to {self._begun.up_to:#x}, and the transaction logs end at {self.zxid:#x}"
            raise snapshot.unusable(reason)
        is_of_one_moment = self._begun.digest_zxid == snapshot.zxid
        if self._seen < snapshot.zxid and not is_of_one_moment:
            raise snapshot.unusable(f"the transaction logs end at {self._seen:#x}, before it")

    def verified(self, snapshot: _File) -> bool:
        """Raises Z2K-5010 where the server noted another digest for the tree."""
        if self._digest is None:
            return False
        if self._tree.digest() != self._digest:
            reason = f"with the logs it gives another tree at {self.zxid:#x} than the server had (by its digest)"
            raise snapshot.unusable(reason)
        return True


def is_next(before: int, zxid: int) -> bool:
    """Whether no transaction can be between the two, but the rest of an epoch that ended."""
    if zxid >> EPOCH_BITS > before >> EPOCH_BITS:
        return zxid & ((1 << EPOCH_BITS) - 1) == 1
    return zxid == before + 1


def _read(reader: TxnLogReader, file: _File) -> Iterator[LoggedTransaction]:
    try:
        yield from reader
    except NotJute as error:
        raise file.unusable(f"at offset {reader.offset}: {error}") from error


# --- which files ------------------------------------------------------------------------------------------


def _found(directories: Sequence[Path]) -> tuple[list[_File], list[_File]]:
    """Snapshots and logs, the oldest first. Raises Z2K-5010 where a directory has neither, or two servers are named."""
    found: dict[str, dict[Path, list[_File]]] = {"snapshot": {}, "log": {}}
    for named in dict.fromkeys(directories):
        directory = named / VERSION_DIRECTORY if (named / VERSION_DIRECTORY).is_dir() else named
        try:
            names = [each.name for each in directory.iterdir()]
        except OSError as error:
            raise _File(0, directory).unusable(words_of(error)) from error
        matches = [match for match in map(_FILE.fullmatch, names) if match is not None]
        if not matches:
            raise _File(0, directory).unusable("it has no snapshot.* and no log.* of a ZooKeeper server")
        for match in matches:
            files = found[match[1]].setdefault(directory, [])
            files.append(_File(int(match[2], 16), directory / match[0]))
    for kind, places in found.items():
        if len(places) > 1:
            first, second, *_ = places
            raise _File(0, second).unusable(f"{first} has {kind} files, too: these are files of two servers")
    snapshots, logs = ([each for files in places.values() for each in sorted(files)] for places in found.values())
    return snapshots, logs


def _newest_whole(
    snapshots: Sequence[_File], directories: Sequence[Path]
) -> tuple[_File, TreeOfSnapshot, list[SkippedFile]]:
    """The newest snapshot that can be read to its end, and newer ones that cannot."""
    skipped: list[SkippedFile] = []
    for file in reversed(snapshots):
        if file.path.suffix == SNAPPY:
            reason = "it is packed by snappy, which zk2kraft does not read"
            raise file.unusable(reason)
        try:
            with _opened(file.path) as stream:
                return file, read_snapshot(stream), skipped
        except (EndOfBytes, EOFError):
            skipped.append(SkippedFile(file.path.name, NOT_WHOLE))
        except (NotJute, gzip.BadGzipFile, ZlibError) as error:
            skipped.append(SkippedFile(file.path.name, str(error)))
        except OSError as error:
            raise file.unusable(words_of(error)) from error
    where = ", ".join(map(str, directories))
    told = "; ".join(f"{each.file}: {each.reason}" for each in skipped)
    reason = f"no snapshot in it is whole ({told})" if told else "there is no snapshot (snapshot.*) in it"
    raise ZOOKEEPER_FILES_UNUSABLE.error(file=where, reason=reason)


def _opened(path: Path) -> BinaryIO:
    return cast(BinaryIO, gzip.open(path)) if path.suffix == GZIP else path.open("rb")


def _from(logs: Sequence[_File], zxid: int) -> list[_File]:
    """Logs with transactions behind `zxid`: the newest that may have the next one, and all after it."""
    first = max((each.zxid for each in logs if each.zxid <= zxid + 1), default=0)
    return [each for each in logs if each.zxid >= first]
