"""The Spark audit: everything of both sides, with its inputs kept so that a finding can be replayed.

In:   where ZooKeeper and the log are, a Spark master, a directory to keep things in.
Out:  a `Report`; in the directory, for each look, Parquet files of what was read and of what came of it:

    audit.json            what was audited, up to which offset, and which looks there were
    look-1/zookeeper      rows as ZooKeeper told them          look-1/records   records as the log told them
    look-1/log            rows that the records add up to      look-1/joined    both sides, key by key
    look-1/judged         every key that is not equal, with its differences
    look-2 and later      the same for the subjects that differed before (no `records` when the log did not move)

Elsewhere: reading (spark_sources.py), folding (spark_fold.py), comparing (spark_compare.py).
A live quorum is first read into segments in a scratch directory, which is deleted at the end like all that Spark
spills: raw records may hold secrets, and the Parquet files do not. Nothing here collects rows: the driver sees counts,
transaction markers, what could not be read, and the first differences. With a master that is not `local[...]` the
directory has to be on storage that all executors share.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import Any, Final

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from migrator.audit.compare import DIFFERENCES_SHOWN, LOOKS_MAX, Outcome, Report, Rules, no_counts, rounded
from migrator.audit.identity import refuse_foreign_log
from migrator.audit.kept_reading import kept_facts
from migrator.audit.live_log import LiveLog, fetch_into
from migrator.audit.log_plan import LogPlan, is_directory, plan_log
from migrator.audit.log_source import dropped_ranges
from migrator.audit.quick import SETTLE_S
from migrator.audit.rows import WHOLE_SIDE
from migrator.audit.seal import Seal
from migrator.audit.spark_compare import IDENTITY, counts, first_differences, joined, judged
from migrator.audit.spark_fold import folded, markers_of
from migrator.audit.spark_session import spark_session
from migrator.audit.spark_sources import (
    SIDE_SCHEMA,
    MetadataLogSource,
    SubjectReader,
    ZkReading,
    ZooKeeperSource,
    log_options,
    plan_parts,
    zookeeper_options,
)
from migrator.audit.zk_source import describe_tree, topic_names
from migrator.errors import AUDIT_CANNOT_READ, AUDIT_OUT_UNUSABLE
from migrator.zk.passwords import EncoderSettings
from migrator.zk.session import ZkSession

RECORDS_PER_TASK: Final = 50_000
"""What one task folds: some 60 MB of facts."""

TASKS_PER_CORE: Final = 2
NO_RULES: Final = Rules()
KEPT: Final = "audit.json"
SCRATCH: Final = ".scratch"
UNREAD_NAMED: Final = 20


class Kept(msgspec.Struct):
    """What a replay needs beside the Parquet files. records_of: which look's records each look is made of."""

    zk: dict[str, Any]
    kraft: dict[str, int]
    producer_id_margin: int
    copied_zxid: int
    read: str
    tasks: int
    records_of: list[int] = []


def spark_audit(
    zookeeper: str,
    kraft: str,
    *,
    master: str,
    out: Path | None,
    rules: Rules = NO_RULES,
    settle_s: float = SETTLE_S,
    passwords: EncoderSettings | None = None,
) -> Report:
    """out: an empty directory that keeps the audit; None: nothing is kept. passwords: the brokers' settings."""
    clock = _Clock()
    with _directory(out) as directory, _scratch(directory) as scratch:
        with ZkSession(zookeeper) as session:
            tree, names = describe_tree(session, zookeeper), topic_names(session)
        refuse_foreign_log(tree, kraft)
        seal = kept_facts(rules.read).seal if rules.read else Seal()
        log = _LogInput(kraft, scratch, seal, tree["cluster_id"])
        log.look()
        clock.lap("plan")
        with spark_session(master, scratch) as spark:
            clock.lap("session")
            readers = int(spark.sparkContext.defaultParallelism)
            tasks = max(TASKS_PER_CORE * readers, -(-log.plan.records // RECORDS_PER_TASK))
            kept = Kept(tree, {}, rules.producer_id_margin, rules.copied_zxid, rules.read, tasks)
            reading = ZkReading.shared(zookeeper, seal, readers, passwords)
            audit = _Audit(spark, directory, kept, clock)
            audit.look_at_all(reading, names, log)
            while audit.wants_another_look():
                time.sleep(settle_s)  # the cluster lives: what differed may have been on its way
                log.look()
                audit.look_again(reading, log)
            kept.kraft = {"offset": log.plan.offset, "epoch": log.plan.epoch}
            (directory / KEPT).write_bytes(msgspec.json.encode(kept))
            return audit.report()


def replay(directory: Path, *, master: str = "local[*]") -> Report:
    """The report of a kept audit, made again from what it read: no ZooKeeper, no log."""
    file = directory / KEPT
    if not file.is_file():
        raise AUDIT_CANNOT_READ.error(what=str(directory), reason="no finished audit was kept in it")
    clock = _Clock()
    kept = msgspec.json.decode(file.read_bytes(), type=Kept)
    with _directory(None) as again, _scratch(again) as scratch, spark_session(master, scratch) as spark:
        clock.lap("session")
        audit = _Audit(spark, again, msgspec.structs.replace(kept, records_of=[]), clock)
        for number, records_of in enumerate(kept.records_of, 1):
            audit.look_at_kept(directory / f"look-{number}", directory / f"look-{records_of}")
        return audit.report()


# --- the looks --------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Look:
    """One look: where its Parquet files are, and what is known of it. subjects: None when it is about everything."""

    directory: Path
    records: Path
    subjects: DataFrame | None = None

    def path(self, name: str) -> str:
        return str(self.directory / name)


@dataclass(slots=True)
class _Audit:
    """The looks of one audit, made one behind the other."""

    spark: SparkSession
    directory: Path
    kept: Kept
    clock: _Clock
    looks: list[_Look] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.spark.conf.set("spark.sql.shuffle.partitions", str(self.kept.tasks))

    # --- reading -------------------------------------------------------------------------------------------

    def look_at_all(self, reading: ZkReading, names: list[str], log: _LogInput) -> None:
        look = self._next_look()
        parts = plan_parts(names, self.kept.tasks)
        source = self.spark.read.format(ZooKeeperSource.name()).options(**zookeeper_options(reading, parts))
        self._keep(source.load(), look.path("zookeeper"))
        self.clock.lap("zookeeper")
        self._read_log(look, log)
        self.clock.lap("log")
        self._compare(look, look.path("zookeeper"))
        self.clock.lap("compare")

    def look_again(self, reading: ZkReading, log: _LogInput) -> None:
        """Read what differed once more, on both sides. The log is read again only if it has moved."""
        look = self._next_look()
        assert look.subjects is not None, "the first look is about everything"
        spread = look.subjects.repartition(self.kept.tasks)
        self._keep(spread.mapInArrow(SubjectReader(reading), SIDE_SCHEMA), look.path("zookeeper"))
        if log.moved:
            self._read_log(look, log)
        else:
            look.records = self.looks[-2].records
            self.kept.records_of[-1] = self.kept.records_of[-2]
        self._compare(look, look.path("zookeeper"))
        self.clock.lap("again")

    def look_at_kept(self, kept: Path, kept_records: Path) -> None:
        look = self._next_look()
        look.records = kept_records / "records"
        self._compare(look, str(kept / "zookeeper"))
        self.clock.lap("compare")

    def _next_look(self) -> _Look:
        number = len(self.looks) + 1
        directory = self.directory / f"look-{number}"
        subjects = self._different(self.looks[-1]).select("subject").distinct() if self.looks else None
        self.looks.append(_Look(directory, directory / "records", subjects))
        self.kept.records_of.append(number)
        return self.looks[-1]

    def _read_log(self, look: _Look, log: _LogInput) -> None:
        source = self.spark.read.format(MetadataLogSource.name()).options(**log_options(log.plan.splits, log.seal))
        self._keep(source.load(), str(look.records))

    # --- comparing -----------------------------------------------------------------------------------------

    def _compare(self, look: _Look, zookeeper: str) -> None:
        records = self._kept(str(look.records))
        _refuse_unread(records.where("problem != ''").select("problem"))
        dropped = dropped_ranges(markers_of(records))
        self._keep(folded(records, dropped, self.kept.tasks, look.subjects), look.path("log"))
        sides = self._kept(zookeeper), self._kept(look.path("log"))
        for side in sides:
            _refuse_unread(side.where(F.col("family") == WHOLE_SIDE).select(F.concat_ws(": ", "key", "problem")))
        self._keep(joined(*sides), look.path("joined"))
        rules = Rules(
            self.kept.producer_id_margin,
            copied_zxid=self.kept.copied_zxid,
            read=self.kept.read,
            in_dual_write=bool(self.kept.zk.get("dual_write")),
        )
        self._keep(judged(self._kept(look.path("joined")), rules), look.path("judged"))

    def wants_another_look(self) -> bool:
        """Something differs, all could be read, and what differs is not the same as in the look before."""
        look = self.looks[-1]
        verdicts = self._kept(look.path("judged"))
        found = {row["outcome"]: row["count"] for row in verdicts.groupBy("outcome").count().collect()}
        if not found.get(Outcome.DIFFERENT) or found.get(Outcome.NOT_READ) or len(self.looks) == LOOKS_MAX:
            return False
        if len(self.looks) == 1:
            return True
        before = self._different(self.looks[-2]).select(*IDENTITY)
        return not self._different(look).join(before, list(IDENTITY), "left_anti").isEmpty()

    def _different(self, look: _Look) -> DataFrame:
        return self._kept(look.path("judged")).where(F.col("outcome") == Outcome.DIFFERENT.value)

    # --- the report ----------------------------------------------------------------------------------------

    def report(self) -> Report:
        rows, verdicts = self._last_word("joined"), self._last_word("judged")
        families = no_counts()
        for family, outcome, keys in counts(rows, verdicts):
            families[family].count(outcome, keys)
        different = first_differences(verdicts, [Outcome.DIFFERENT, Outcome.NOT_READ], DIFFERENCES_SHOWN)
        expected = first_differences(verdicts, [Outcome.EXPECTED], DIFFERENCES_SHOWN)
        self.clock.lap("report")
        return Report(
            same=not any(each.different or each.not_read for each in families.values()),
            families=list(families.values()),
            differences=different,
            expected=expected,
            seconds=self.clock.seconds(),
            zk=self.kept.zk,
            kraft=self.kept.kraft,
            engine="spark",
        )

    def _last_word(self, name: str) -> DataFrame:
        """Of every subject, what the last look at it said."""
        parts = []
        for look, later in zip(self.looks, [*self.looks[1:], None], strict=True):
            rows = self._kept(look.path(name))
            subjects = None if later is None else later.subjects
            parts.append(rows if subjects is None else rows.join(subjects, "subject", "left_anti"))
        return reduce(DataFrame.unionByName, parts)

    # --- Parquet -------------------------------------------------------------------------------------------

    @staticmethod
    def _keep(rows: DataFrame, path: str) -> None:
        rows.write.parquet(path)

    def _kept(self, path: str) -> DataFrame:
        return self.spark.read.parquet(path)


def _refuse_unread(told: DataFrame) -> None:
    """told: one column, a row for each part of a side that could not be read. Nothing is known then: Z2K-5001."""
    reasons = [str(row[0]) for row in told.limit(UNREAD_NAMED).collect()]
    if reasons:
        raise AUDIT_CANNOT_READ.error(what="all of both sides", reason="; ".join(sorted(reasons)))


# --- the log, the clock, the directories --------------------------------------------------------------------


class _LogInput:
    """The log as files: a directory as it is, or a live quorum's log as far as it was fetched."""

    def __init__(self, kraft: str, scratch: Path, seal: Seal, cluster_id: str | None) -> None:
        self.seal = seal
        self.plan = LogPlan([], -1, -1, 0)
        self.moved = False
        self._live: LiveLog | None = None
        self._path = Path(kraft)
        if not is_directory(kraft):
            self._live, self._path = LiveLog(kraft, cluster_id), scratch / "log"
            self._path.mkdir()

    def look(self) -> None:
        """See how far the log goes now."""
        if self._live is not None:
            fetch_into(self._path, self._live)
        plan = plan_log(self._path)
        self.moved = plan != self.plan
        self.plan = plan


class _Clock:
    """Seconds by step; steps that come again add up."""

    def __init__(self) -> None:
        self._started = self._last = time.monotonic()
        self._laps: dict[str, float] = {}

    def lap(self, step: str) -> None:
        now = time.monotonic()
        self._laps[step] = self._laps.get(step, 0.0) + now - self._last
        self._last = now

    def seconds(self) -> dict[str, float]:
        return rounded({**self._laps, "total": self._last - self._started})


@contextmanager
def _directory(out: Path | None) -> Iterator[Path]:
    """The directory that keeps the audit, or one that is deleted behind it. Both are their owner's alone."""
    if out is not None:
        yield out.absolute()
        return
    with tempfile.TemporaryDirectory(prefix="zk2kraft-audit-") as temporary:
        yield Path(temporary)


@contextmanager
def _scratch(directory: Path) -> Iterator[Path]:
    scratch = directory / SCRATCH
    scratch.mkdir(mode=0o700, parents=True)
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        if scratch.exists():
            raise AUDIT_OUT_UNUSABLE.error(directory=str(scratch), reason="it cannot be deleted; it may hold secrets")
