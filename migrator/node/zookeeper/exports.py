"""The exports of one controller: the newest one is there when the takeover begins, and they do not pile up.

In:   a session, and the directory where this controller puts its exports.
Out:  the file that holds Kafka's znodes as they are now: a new one, or the newest where nothing changed since.
Elsewhere: the form of a file (zk/backup.py), when one is taken (driver/takeover_gate.py).
Rules: the files of other controllers and clusters in the same directory are left alone. After each export the newest
`KEPT` stay, and always the one that was taken last, on which a takeover rests: none is taken after it.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from migrator.findings.driver import EXPORT_NOT_WRITTEN, EXPORTS_NOT_REMOVED
from migrator.findings.finding import FindingError, Occurrence, words_of
from migrator.zk.backup import PART, BackupInfo, export, verify
from migrator.zk.pipeline import CONSIDERATE
from migrator.zk.session import ZkSession

KEPT: Final = 3
"""The tree of today, and two before it, for somebody who looks for what changed."""
OWN_DIRECTORY: Final = "zk2kraft-exports"
"""In the metadata directory, where only this controller writes."""


@dataclass(frozen=True, slots=True)
class ExportTaken:
    """info: of the file that has the tree of now. renewed: it was there already.

    left: what could not be removed.
    """

    info: BackupInfo
    renewed: bool
    left: Occurrence | None


@dataclass
class Exports:
    """directory: of all exports. suffix: ends the names of this controller's files before `.jsonl.gz`."""

    directory: Path
    suffix: str
    alone: bool
    """Nobody else writes into the directory; then names of earlier releases, which had no suffix, are its own too."""
    _taking: threading.Lock = field(default_factory=threading.Lock, init=False)

    @staticmethod
    def of(node_id: int, cluster_id: str, metadata_log_dir: Path, export_dir: Path | None) -> Exports:
        """export_dir: where the controller's file wants them; None: in a directory of its own."""
        suffix = f"-{node_id}-{cluster_id}"
        if export_dir is not None:
            return Exports(export_dir, suffix, alone=False)
        return Exports(metadata_log_dir / OWN_DIRECTORY, suffix, alone=True)

    def next_file(self) -> Path:
        """Where an export that begins now goes."""
        return self.directory / f"zookeeper-{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}{self.suffix}.jsonl.gz"

    def take(self, session: ZkSession, file: Path) -> ExportTaken:
        """Blocks; an export that a cancelled act left on its thread is waited for. file: of `next_file`.

        Raises Z2K-2004 and Z2K-2018 of the export, Z2K-2076 when the disk does not take it.
        """
        with self._taking:
            left = [*_removed(self._files(PART))]
            try:
                before = self._newest()
                info = export(session, file, CONSIDERATE)
                renewed = before is not None and before.sha256 == info.sha256 and Path(before.file) != file
                if before is not None and renewed:
                    file.unlink()
                    info = before
            except OSError as error:
                raise EXPORT_NOT_WRITTEN.error(file=str(file), reason=words_of(error)) from error
            others = [each for each in self._files() if each != Path(info.file)]
            left += _removed(others[KEPT - 1 :])
        return ExportTaken(info, renewed, self._said(left))

    def _newest(self) -> BackupInfo | None:
        """The newest one that is whole: a file that was cut or altered since is no export."""
        for each in self._files():
            try:
                return verify(each)
            except FindingError:
                continue
        return None

    def _files(self, end: str = "") -> list[Path]:
        """This controller's own, newest first. end: what follows the name of a whole one."""
        suffix = re.escape(self.suffix)
        own = re.compile(
            rf"zookeeper-\d{{8}}T\d{{6}}(?:{suffix}){'?' if self.alone else ''}\.jsonl\.gz{re.escape(end)}"
        )
        if not self.directory.is_dir():
            return []
        return sorted((each for each in self.directory.iterdir() if own.fullmatch(each.name)), reverse=True)

    def _said(self, left: list[tuple[Path, str]]) -> Occurrence | None:
        if not left:
            return None
        (first, reason), *_ = left
        return EXPORTS_NOT_REMOVED.found(count=len(left), first=str(first), reason=reason)


def _removed(files: list[Path]) -> Iterator[tuple[Path, str]]:
    """Those that could not be removed, with the reason."""
    for each in files:
        try:
            each.unlink(missing_ok=True)
        except OSError as error:
            yield each, words_of(error)
