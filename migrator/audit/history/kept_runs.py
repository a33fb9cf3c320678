"""Read again what an audit kept.

In:   path or address of a directory that `--out` named, of the report in it, or of a directory that the service keeps.
Out:  a `KeptRun`.
Elsewhere: writing it (run.py, spark/job.py), comparing two of them (diff.py).
Rules: a report of another release is read as far as it goes: fields that are not known are ignored, and one that says
nothing of the verdict may be missing. What is no report is refused, never read as an empty one.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from migrator.audit.compare import AuditReport, BrokersSide
from migrator.audit.history.hadoop_path import KeptPath, written_at
from migrator.audit.shape.cluster_shape import ClusterShape
from migrator.findings.audit import KEPT_AUDIT_UNREADABLE
from migrator.findings.finding import words_of

REPORT_FILE: Final = "report.json"
"""What an audit said, beside what it kept."""

MANIFEST_FILE: Final = "audit.json"
"""What a replay needs beside the Parquet files; the quick engine keeps none."""

OF_A_REHEARSAL: Final = "audit"
"""Where the service keeps the audit of a rehearsal, below the rehearsal's directory."""

MAY_BE_MISSING: Final[dict[str, Any]] = {"expected": [], "seconds": {}, "zk": {}, "kraft": {}, "engine": ""}
"""Nothing of it decides whether an audit passed."""


class KeptRun(msgspec.Struct, frozen=True):
    """One audit that was kept. directory: where. lacks: fields that its release did not write.

    ended_at: seconds since 1970 in UTC; by the report, or when its file was written.
    """

    directory: KeptPath
    report: AuditReport
    ended_at: float
    lacks: tuple[str, ...] = ()

    @property
    def has_inputs(self) -> bool:
        return (self.directory / MANIFEST_FILE).is_file()


def kept_run(path: KeptPath) -> KeptRun:
    """Read the report of a kept audit. path: its directory, or the report itself. Raises Z2K-5008 and Z2K-5016."""
    file = report_file(path)
    try:
        data, modified_at = file.read_bytes(), written_at(file)
    except OSError as error:
        raise KEPT_AUDIT_UNREADABLE.error(file=str(file), reason=error.strerror or words_of(error)) from error
    try:
        document = msgspec.json.decode(data)
        if not isinstance(document, dict):
            raise KEPT_AUDIT_UNREADABLE.error(file=str(file), reason="it contains no JSON object")
        lacks = tuple(name for name in MAY_BE_MISSING if name not in document)
        document = {**MAY_BE_MISSING, **document}
        brokers, shape = _brokers_of(document.pop("brokers", None)), _shape_of(document.pop("shape", None))
        report = msgspec.convert(document, AuditReport)
        report.brokers, report.shape = brokers, shape
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise KEPT_AUDIT_UNREADABLE.error(file=str(file), reason=words_of(error)) from error
    return KeptRun(file.parent, report, report.ended_at or modified_at, lacks)


def _brokers_of(document: Any) -> BrokersSide | None:
    """What is of another form is no reason to lose what the two other sides said; and it is never taken for passed."""
    try:
        return msgspec.convert(document, BrokersSide | None)
    except msgspec.ValidationError as error:
        return BrokersSide(problem=f"what they said is of another release: {error}")


def _shape_of(document: Any) -> ClusterShape | None:
    """Figures prove nothing: those of another form are left out."""
    try:
        return msgspec.convert(document, ClusterShape | None)
    except msgspec.ValidationError:
        return None


def report_file(path: KeptPath) -> KeptPath:
    """Where the report is: `path` itself, in that directory, or below it where the service keeps a rehearsal."""
    if path.is_file():
        return path
    below = path / OF_A_REHEARSAL / REPORT_FILE
    return below if not (path / REPORT_FILE).exists() and below.is_file() else path / REPORT_FILE
