"""An audit that could not be made, or not as a whole: Z2K-5xxx and 2201."""

from __future__ import annotations

from migrator.findings.finding import Finding

AUDIT_CANNOT_READ = Finding(
    code="Z2K-5001",
    says="The audit cannot read {what}: {reason}.",
    means="Nothing can be said about what was not read; this audit did not pass.",
    remedy="Name a directory with a metadata log, or the address of the active controller, and run it again.",
)

LOG_INCONSISTENT = Finding(
    code="Z2K-5002",
    says="The metadata log does not fit together at {record}: {reason}.",
    means="What the log says cannot be told from here on, so this audit did not pass. A controller could not read this "
    "log either.",
    remedy="Audit another controller's directory. If it says the same, do not take over with this log: run "
    "`zk2kraft log dump` on it and keep its output for the owner.",
)

SPARK_FAILED = Finding(
    code="Z2K-5003",
    says="Spark could not do the audit on {master}: {reason}.",
    means="Nothing was compared, or not all of it. Neither side was changed.",
    remedy="Check that Java 17 starts on this machine and that 2 GB of memory and 1 GB of disk are free, then run it "
    "again; `--engine quick` asks the same question without Spark.",
)

AUDIT_OUT_UNUSABLE = Finding(
    code="Z2K-5004",
    says="{directory} cannot be used for this audit: {reason}.",
    means="Nothing was read or compared. What an earlier audit kept is never written over.",
    remedy="Name a directory that does not exist or is empty; to look at an earlier audit again, name the one it kept.",
)

AUDIT_ROWS_LOST = Finding(
    code="Z2K-2201",
    says="The audit lost rows: it was to {step} {expected} and has {found}.",
    means="A part of one side was not compared, so nothing can be said; this audit is incomplete.",
    remedy="Name an output directory that every Spark executor sees and that nothing else changes, then run the audit "
    "again.",
)
