"""The Spark audit: everything of both sides, with its inputs kept so that a finding can be replayed.

In:   where ZooKeeper and the log are, a Spark session or the master of one, a directory to keep things in.
Out:  an `AuditReport`; in the directory, for each look, Parquet files of what was read and of what came of it:

    audit.json            what was audited, up to which offset, and which looks there were
    look-1/inputs         rows of both sides as they were read: ZooKeeper's keys, the log's records
    look-1/judged         every key that is not equal, with its differences, and counts of the equal ones
    look-2 and later      the same for the subjects that differed before (no records when the log did not move)

Elsewhere: reading (sources.py), bringing together (fold.py), judging (compare.py).
A look is two passes: both sides into `inputs`, and `inputs` shuffled by subject into `judged`. Counts come by
observation. Every row that was written has to be read again and judged, or the look says nothing (Z2K-2201): lost
files would pass for two sides without anything.
What Spark spills is deleted at the end: raw records may hold secrets, and the Parquet files do not. Nothing here
collects rows: the driver sees counts, transaction markers, ids, what could not be read, and the first differences. With
a master that is not `local[...]` executors need no file of the driver's (shipped.py), unless an audit is kept in a
directory, which has to be on storage that all of them share then. An address of a Hadoop file system is.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import Any, Final

import msgspec
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from migrator.audit.catching_up import read_up_to
from migrator.audit.compare import (
    DIFFERENCES_SHOWN,
    LOOKS_MAX,
    NOT_A_COPY,
    AuditReport,
    ExpectedDifferences,
    KeyOutcome,
    left_off,
    no_counts,
    rounded,
)
from migrator.audit.engines import is_local
from migrator.audit.fingerprints import SecretFingerprints
from migrator.audit.history.hadoop_path import HadoopPath, KeptPath, write_new
from migrator.audit.history.kept_runs import MANIFEST_FILE
from migrator.audit.identity import follows_the_log, refuse_foreign_log
from migrator.audit.kept_reading import kept_facts
from migrator.audit.log_plan import LogPlan, LogSplit, begins_at, plan_log, splits_behind
from migrator.audit.log_source import Marker, dropped_ranges
from migrator.audit.log_states import OffsetRange
from migrator.audit.passwords import EncoderSecrets, Secrets
from migrator.audit.quick import SETTLE_S
from migrator.audit.rows import WHOLE_SIDE
from migrator.audit.spark.compare import (
    IDENTITY,
    JUDGED_SCHEMA,
    ROWS,
    TAKEN,
    Counts,
    SubjectJudge,
    counted,
    counting,
    counts,
    first_differences,
)
from migrator.audit.spark.fold import (
    GIVEN_IDS,
    IS_MARKER,
    IS_NAMELESS,
    committed,
    markers_of,
    refuse_ids_given_twice,
    together,
    with_subjects,
)
from migrator.audit.spark.kept_rows import KeptRows, RowsInFiles, RowsWithExecutors
from migrator.audit.spark.kept_tasks import SparkTasks
from migrator.audit.spark.sent_login import SentLogin, login_to_send
from migrator.audit.spark.session import spark_session
from migrator.audit.spark.shipped import SentFile, with_bytes
from migrator.audit.spark.sources import (
    BESIDE,
    INPUT_SCHEMA,
    LOG,
    READ,
    PartReader,
    SubjectReader,
    ZkReading,
    plan_parts,
)
from migrator.audit.standstill import STANDS_STILL_MS, behind_ms
from migrator.audit.zk_source import describe_tree, mirrored_position, topic_names
from migrator.findings.audit import AUDIT_CANNOT_READ, AUDIT_OUT_UNUSABLE, AUDIT_ROWS_LOST, NO_INPUTS_KEPT
from migrator.findings.finding import words_of
from migrator.model.image import NOWHERE, Position
from migrator.zk.session import ZkSession

RECORDS_PER_TASK: Final = 200_000
"""What one task judges: some 20 MB of rows, of which it holds one subject at a time, beside what it knows by its bytes
(`KNOWN_MAX`). Ten small tasks cost Spark more than one of their sum.
"""

SMALL: Final = 10_000
"""Records and topics that one task audits, without a shuffle: it takes less than to set others up beside it."""

SETTINGS: Final = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "5000",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(4 << 20),
}
"""Of a session that audits: the shuffle keeps as many tasks as its memory was reckoned with."""

COMPILED: Final = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
INTERPRETED: Final = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""Of a small audit: to generate and compile code for few rows takes longer than the rows."""

_UNREAD: Final = f"problem != '' and (side = {LOG} or kind = '{WHOLE_SIDE}')"
_SEEN: Final = (
    "count(1) as rows",
    f"count(if(side = {READ}, 1, null)) as ends",
    f"coalesce(sum(if(side = {READ}, place, 0)), 0) as parts",
    f"coalesce(sum(if(side = {READ}, nth, 0)), 0) as told",
    f"count(if({_UNREAD}, 1, null)) as unread",
    f"collect_list(if({IS_MARKER}, concat(place, ' ', kind), null)) as markers",
    f"count(if({IS_NAMELESS}, 1, null)) as nameless",
    f"collect_list({GIVEN_IDS}) as given",
)
"""What to observe of inputs on their way into Parquet."""

Sessions = Callable[[str, Path], AbstractContextManager[SparkSession]]
"""From a master and an audit's scratch directory."""

Finish = Callable[[AuditReport, SparkTasks], AuditReport]

NO_RULES: Final = ExpectedDifferences()
SCRATCH: Final = ".scratch"
UNREAD_NAMED: Final = 20


FIRST_LAYOUT, LAYOUT = 1, 2
"""Of the rows that an audit keeps. The first had a row for each key and each record, which nobody reads any more."""


class ReplayManifest(msgspec.Struct):
    """What a replay needs beside the Parquet files. records_of: which look's records each look is made of.

    rows: how many each look wrote. windows: of a dual-write, the offsets that ZooKeeper had during each look.
    beside: the last offset of the snapshot beside the log of each look; -1 without one. elections: the log's epoch.
    layout: of the rows.
    """

    zk: dict[str, Any]
    kraft: dict[str, int]
    producer_id_margin: int
    copied_zxid: int
    read: str
    tasks: int
    records_of: list[int] = []
    rows: list[int] = []
    windows: list[OffsetRange | None] = []
    beside: list[int] = []
    stands_still: bool = False
    elections: int | None = None
    layout: int = FIRST_LAYOUT


@dataclass(frozen=True, slots=True)
class SparkRequest:
    """What to audit. passwords: the brokers' settings. settle_s: between two looks at a cluster that lives.

    login: with which tasks read ZooKeeper; None: that of the process that they run in.
    """

    zookeeper: str
    kraft: str
    rules: ExpectedDifferences = NO_RULES
    settle_s: float = SETTLE_S
    passwords: EncoderSecrets | None = None
    login: SentLogin | None = None


def spark_audit(
    zookeeper: str,
    kraft: str,
    *,
    master: str,
    out: KeptPath | None,
    rules: ExpectedDifferences = NO_RULES,
    settle_s: float = SETTLE_S,
    passwords: EncoderSecrets | None = None,
    sessions: Sessions = spark_session,
    finish: Finish | None = None,
) -> AuditReport:
    """out: an empty directory that keeps the audit; None: nothing is kept. passwords: the brokers' settings.

    sessions: starts a session for this audit, or gives one that runs already and goes on to (kept_session.py).
    finish: goes on with the report while the session is there, as the third side does; None: nothing does.
    """
    login = None if is_local(master) else login_to_send(master)
    request = SparkRequest(zookeeper, kraft, rules, settle_s, passwords, login)
    with _prepared(request, out) as work, sessions(master, work.scratch) as spark:
        work.clock.lap("session")
        report = _audited(spark, request, work)
        return report if finish is None else finish(report, SparkTasks(spark))


@dataclass(slots=True)
class _Work:
    """What an audit knows before it needs Spark."""

    directory: KeptPath
    scratch: Path
    clock: _Clock
    tree: dict[str, Any]
    names: list[str]
    log: _LogInput
    keeps: bool


@contextmanager
def _prepared(request: SparkRequest, out: KeptPath | None) -> Iterator[_Work]:
    clock = _Clock()
    with _directory(out) as directory, _scratch(directory) as scratch:
        with ZkSession(request.zookeeper) as session:
            tree, names = describe_tree(session, request.zookeeper), topic_names(session)
            mirrored = mirrored_position(session) if follows_the_log(tree, request.rules) else NOWHERE
        refuse_foreign_log(tree, request.kraft)
        fingerprints = kept_facts(request.rules.read).fingerprints if request.rules.read else SecretFingerprints()
        log = _LogInput(request.kraft, fingerprints)
        log.look(mirrored)
        clock.lap("plan")
        yield _Work(directory, scratch, clock, tree, names, log, keeps=out is not None)


def _audited(spark: SparkSession, request: SparkRequest, work: _Work) -> AuditReport:
    log, cores = work.log, int(spark.sparkContext.defaultParallelism)
    tasks = _tasks(log.plan.records, len(work.names), cores)
    rules = request.rules
    kept = ReplayManifest(work.tree, {}, rules.producer_id_margin, rules.copied_zxid, rules.read, tasks, layout=LAYOUT)
    offsets = _Offsets(request.zookeeper, log) if follows_the_log(work.tree, rules) else None
    reading = ZkReading.shared(request.zookeeper, log.fingerprints, cores, Secrets.of(request.passwords), request.login)
    remote = not is_local(spark.sparkContext.master or "")
    sent = SentFile(Path(rules.read).read_bytes()) if remote and rules.read else None
    rows = RowsWithExecutors(spark) if remote and not work.keeps else RowsInFiles(spark)
    audit = _Audit(spark, work.directory, kept, work.clock, rows, ships=remote, sent=sent)
    audit.look_at_all(reading, work.names, log, offsets)
    while audit.wants_another_look():
        time.sleep(request.settle_s)  # the cluster lives: what differed may have been on its way
        audit.look_again(reading, log, offsets)
    kept.kraft = {"offset": log.plan.offset, "epoch": log.plan.epoch}
    write_new(work.directory / MANIFEST_FILE, msgspec.json.encode(kept))
    return audit.report()


def _tasks(records: int, topics: int, cores: int) -> int:
    """Into how many the work is cut."""
    return 1 if records + topics <= SMALL else max(cores, -(-records // RECORDS_PER_TASK))


def rehearse_a_look(spark: SparkSession, directory: Path, rows: Any, tasks: int = 1) -> AuditReport:
    """One look at rows that a function for `mapInArrow` makes: whatever an audit of so many tasks loads is loaded."""
    manifest = ReplayManifest({}, {}, 0, NOT_A_COPY, "", tasks)
    audit = _Audit(spark, directory, manifest, _Clock(), RowsInFiles(spark))
    look = audit._next_look()
    audit._keep_inputs(look, spark.range(0, 1, 1, 1).mapInArrow(rows, INPUT_SCHEMA), 1)
    audit._compare(look)
    return audit.report()


def replay(directory: KeptPath, *, master: str = "local[*]", out: KeptPath | None = None) -> AuditReport:
    """The report of a kept audit, made again from what it read: no ZooKeeper, no log.

    out: an empty directory that keeps every key as it was judged now; the inputs stay where they are.
    Raises Z2K-5009 where something that the audit read is gone.
    """
    directory = directory.absolute()
    kept = _manifest(directory)
    clock = _Clock()
    with _directory(out) as again, _scratch(again) as scratch, spark_session(master, scratch) as spark:
        clock.lap("session")
        empty = msgspec.structs.replace(kept, records_of=[], rows=[], windows=[], beside=[])
        remote = not is_local(spark.sparkContext.master or "")
        rows = RowsWithExecutors(spark) if remote and out is None else RowsInFiles(spark)
        sent = SentFile(Path(kept.read).read_bytes()) if remote and kept.read else None
        audit = _Audit(spark, again, empty, clock, rows, ships=remote, sent=sent)
        beside = kept.beside or [-1] * len(kept.rows)  # of an audit before snapshots were looked at
        looks = zip(kept.records_of, kept.rows, kept.windows, beside, strict=True)
        for number, (records_of, written, window, offset) in enumerate(looks, 1):
            audit.look_at_kept(directory / f"look-{number}", directory / f"look-{records_of}", written, window, offset)
        return audit.report()


def _manifest(directory: KeptPath) -> ReplayManifest:
    file = directory / MANIFEST_FILE
    if not file.is_file():
        raise AUDIT_CANNOT_READ.error(what=str(directory), reason="no finished audit was kept in it")
    try:
        kept = msgspec.json.decode(file.read_bytes(), type=ReplayManifest)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise NO_INPUTS_KEPT.error(directory=str(directory), reason=f"{file.name}: {words_of(error)}") from error
    if kept.layout != LAYOUT:
        reason = f"another release kept it: its rows have layout {kept.layout}, and this release reads layout {LAYOUT}"
        raise NO_INPUTS_KEPT.error(directory=str(directory), reason=reason)
    looks = sorted({*kept.records_of, *range(1, len(kept.rows) + 1)})
    wanted: list[KeptPath] = [directory / f"look-{number}" / "inputs" for number in looks]
    wanted += [Path(kept.read)] if kept.read else []  # what a rehearsal read: it excuses what moved since
    missing = [str(each) for each in wanted if not each.exists()]
    if missing:
        raise NO_INPUTS_KEPT.error(directory=str(directory), reason=f"{missing[0]} is gone")
    return kept


# --- the looks --------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Look:
    """One look: where its Parquet files are, and what is known of it. subjects: None when it is about everything.

    records: the look's inputs that the log's rows are in, where they are not in its own. given: ids of topics and ACLs
    that each task met in the log. nameless: rows of the log that only tell an id.
    """

    directory: KeptPath
    inputs: KeptPath
    rows: int = 0
    markers: list[Marker] = field(default_factory=list)
    given: list[str] = field(default_factory=list)
    nameless: int = 0
    records: _Look | None = None
    subjects: DataFrame | None = None
    window: OffsetRange | None = None
    beside: int = -1
    counts: Counts = field(default_factory=Counter)

    @property
    def judged(self) -> KeptPath:
        return self.directory / "judged"


@dataclass(slots=True)
class _Audit:
    """The looks of one audit, made one behind the other.

    ships: executors see no file of the log. sent: what the rehearsal read, where they do not see that either.
    """

    spark: SparkSession
    directory: KeptPath
    kept: ReplayManifest
    clock: _Clock
    rows: KeptRows
    ships: bool = False
    sent: SentFile | None = None
    looks: list[_Look] = field(default_factory=list)

    def __post_init__(self) -> None:
        cores = int(self.spark.sparkContext.defaultParallelism)
        tasks = {"spark.sql.shuffle.partitions": str(min(self.kept.tasks, cores))}  # of ids; that of rows has its own
        for name, value in {**SETTINGS, **(INTERPRETED if self.kept.tasks == 1 else COMPILED), **tasks}.items():
            self.spark.conf.set(name, value)

    # --- reading -------------------------------------------------------------------------------------------

    def look_at_all(
        self, reading: ZkReading, names: list[str], log: _LogInput, offsets: _Offsets | None = None
    ) -> None:
        """offsets: of a dual-write. What the log said while ZooKeeper was read is read behind it."""
        look = self._next_look()
        low = None if offsets is None else offsets.mirrored().offset
        self.kept.elections = log.plan.epoch
        self.kept.stands_still = low is not None and behind_ms(log.plan, low) > STANDS_STILL_MS
        parts = plan_parts(names, reading.readers)
        reader = PartReader(reading, parts, self._sent([*log.plan.splits, *log.plan.beside]))
        self._note_beside(look, log.plan.beside_offset)
        self._keep_inputs(look, self._read(reader), len(reader))
        if offsets is not None and low is not None:
            behind, high = offsets.read_behind()
            if behind:
                reader = PartReader(reading, [], self._sent(behind))
                self._keep_inputs(look, self._read(reader), len(reader))
            self._note_window(look, offsets.window(low, high.offset))
        self.clock.lap("read")
        self._compare(look)
        self.clock.lap("compare")

    def look_again(self, reading: ZkReading, log: _LogInput, offsets: _Offsets | None = None) -> None:
        """Read what differed once more, on both sides. The log is read again only if it has moved; of a dual-write
        behind ZooKeeper, else in front of it.
        """
        look = self._next_look()
        assert look.subjects is not None, "the first look is about everything"
        low = None if offsets is None else offsets.mirrored().offset
        if offsets is None:
            log.look()
        readers = min(self.kept.tasks, reading.readers)
        rows = look.subjects.repartition(readers).mapInArrow(SubjectReader(reading), INPUT_SCHEMA)
        self._keep_inputs(look, rows, look.subjects.count())
        if offsets is not None and low is not None:
            high = offsets.mirrored()
            log.look(high)
            self._note_window(look, offsets.window(low, high.offset))
        if log.moved:
            reader = PartReader(reading, [], self._sent([*log.plan.splits, *log.plan.beside]))
            self._keep_inputs(look, self._read(reader), len(reader))
            self._note_beside(look, log.plan.beside_offset)
        else:
            look.records = self.looks[-2].records or self.looks[-2]
            self.kept.records_of[-1] = self.kept.records_of[-2]
            self._note_beside(look, look.records.beside)
        self._compare(look)
        self.clock.lap("again")

    def look_at_kept(
        self, kept: KeptPath, kept_records: KeptPath, rows: int, window: OffsetRange | None, beside: int
    ) -> None:
        look = self._next_look()
        look.inputs, look.rows = kept / "inputs", rows
        self._note_window(look, window)
        self._note_beside(look, beside)
        if kept_records != kept:
            look.records = next(each for each in self.looks if each.inputs == kept_records / "inputs")
        inputs = self._inputs(look)
        look.markers, look.nameless = markers_of(inputs), inputs.where(IS_NAMELESS).count()
        look.given = [row["given"] for row in inputs.select(F.expr(f"{GIVEN_IDS} as given")).dropna().collect()]
        self.kept.rows[-1] = rows
        self._compare(look)
        self.clock.lap("compare")

    def _next_look(self) -> _Look:
        number = len(self.looks) + 1
        directory = self.directory / f"look-{number}"
        subjects = self._different(self.looks[-1]).select("subject").distinct() if self.looks else None
        self.looks.append(_Look(directory, directory / "inputs", subjects=subjects))
        self.kept.records_of.append(number)
        self.kept.rows.append(0)
        self.kept.windows.append(None)
        self.kept.beside.append(-1)
        return self.looks[-1]

    def _note_beside(self, look: _Look, offset: int) -> None:
        look.beside = self.kept.beside[-1] = offset

    def _note_window(self, look: _Look, window: OffsetRange | None) -> None:
        look.window = self.kept.windows[-1] = window

    def _sent(self, splits: Sequence[LogSplit]) -> Sequence[LogSplit]:
        return with_bytes(splits) if self.ships else splits

    def _read(self, reader: PartReader) -> DataFrame:
        """One task for each input, or one for all where that is enough; without any, none."""
        tasks = 1 if self.kept.tasks == 1 else max(1, len(reader))
        return self.spark.range(0, len(reader), 1, tasks).mapInArrow(reader, INPUT_SCHEMA)

    def _keep_inputs(self, look: _Look, rows: DataFrame, parts: int) -> None:
        """More rows of a look. parts: how many the tasks were given, all of which have to say that they were read."""
        seen = Observation()
        observed = rows.observe(seen, *map(F.expr, _SEEN))
        self.rows.add(look.inputs, observed)
        found = seen.get
        if found["unread"]:
            _refuse_unread(self._inputs(look).where(_UNREAD).select(F.concat_ws(": ", "key", "problem")))
        _refuse_lost("read", found["parts"], parts)
        _refuse_lost("write", found["rows"] - found["ends"], found["told"])
        look.rows += found["rows"]
        markers = (each.partition(" ") for each in found["markers"])
        look.markers += [Marker(int(place), kind) for place, _, kind in markers]
        look.given += found["given"]
        look.nameless += found["nameless"]
        self.kept.rows[-1] = look.rows

    # --- comparing -----------------------------------------------------------------------------------------

    def _compare(self, look: _Look) -> None:
        """Judge the rows of a look: those of its own, or of ZooKeeper its own and of the log an earlier look's."""
        source = look.records or look
        dropped = dropped_ranges(source.markers)
        if look.subjects is None:
            refuse_ids_given_twice(self._inputs(source), dropped, self.kept.tasks, look.given)
        scans = [(each, Observation()) for each in ([look] if look.records is None else [look, source])]
        rows = [self._inputs(each).observe(seen, F.count(F.lit(1)).alias("rows")) for each, seen in scans]
        both = rows[0]
        if look.records is not None:
            of_log = F.col("side").isin(LOG, BESIDE)
            both = rows[0].where(~of_log).unionAll(rows[1].where(of_log))
        told, nameless = committed(both, dropped), source.nameless > 0
        wanted = with_subjects(told, self._inputs(source), self.kept.tasks, nameless=nameless)
        if look.subjects is not None:
            wanted = wanted.join(F.broadcast(look.subjects), "subject", "left_semi").select(*wanted.columns)
        given, judged = Observation(), Observation()
        wanted = wanted.observe(given, F.count(F.lit(1)).alias("rows"))
        rules = ExpectedDifferences(
            self.kept.producer_id_margin,
            copied_zxid=self.kept.copied_zxid,
            read=self.kept.read,
            in_dual_write=bool(self.kept.zk.get("dual_write")),
            ours_leads=bool(self.kept.zk.get("ours_leads", True)),
            stands_still=self.kept.stands_still,
            elections=self.kept.elections,
        )
        judge = SubjectJudge(rules, look.window, look.beside, self.sent)
        verdicts = together(wanted, self.kept.tasks).mapInArrow(judge, JUDGED_SCHEMA)
        columns = [column.alias(name) for name, column in counting().items()]
        self.rows.add(look.judged, verdicts.observe(judged, *columns))
        for each, seen in scans:
            _refuse_lost("read", seen.get["rows"], each.rows)
        look.counts = counted(judged.get["given"])
        _refuse_lost("judge", look.counts[WHOLE_SIDE, TAKEN], given.get["rows"])
        _refuse_lost("keep", judged.get["rows"], look.counts[WHOLE_SIDE, ROWS])
        if look.counts[WHOLE_SIDE, KeyOutcome.NOT_READ.value]:
            unread = self._judged(look).where(F.col("family") == WHOLE_SIDE).where(F.col("kind") != "")
            _refuse_unread(unread.select(F.concat_ws(": ", "key", "rule")))

    def wants_another_look(self) -> bool:
        """Something differs, all could be read, and what differs is not the same as in the look before."""
        look = self.looks[-1]
        found = _by_outcome(look.counts)
        if not found[KeyOutcome.DIFFERENT] or found[KeyOutcome.NOT_READ] or len(self.looks) == LOOKS_MAX:
            return False
        if len(self.looks) == 1:
            return True
        before = self._different(self.looks[-2]).select(*IDENTITY)
        return not self._different(look).join(before, list(IDENTITY), "left_anti").isEmpty()

    def _different(self, look: _Look) -> DataFrame:
        return self._judged(look).where(F.col("outcome") == KeyOutcome.DIFFERENT.value)

    # --- the report ----------------------------------------------------------------------------------------

    def report(self) -> AuditReport:
        verdicts = self._last_word()
        families = no_counts()
        for (family, outcome), keys in (self.looks[0].counts if len(self.looks) == 1 else counts(verdicts)).items():
            if family != WHOLE_SIDE:
                families[family].count(KeyOutcome(outcome), keys)
        same = not any(each.different or each.not_read for each in families.values())
        meant = any(each.expected for each in families.values())
        failing = [KeyOutcome.DIFFERENT, KeyOutcome.NOT_READ]
        different, more = ([], 0) if same else first_differences(verdicts, failing, DIFFERENCES_SHOWN)
        expected, meant_more = (
            first_differences(verdicts, [KeyOutcome.EXPECTED], DIFFERENCES_SHOWN) if meant else ([], 0)
        )
        self.clock.lap("report")
        return AuditReport(
            same=same,
            families=list(families.values()),
            differences=different,
            expected=expected,
            seconds=self.clock.seconds(),
            zk=self.kept.zk,
            kraft=self.kept.kraft,
            engine="spark",
            left_off=left_off(differences=more, expected=meant_more),
        )

    def _last_word(self) -> DataFrame:
        """Of every subject, what the last look at it said."""
        parts = []
        for look, later in zip(self.looks, [*self.looks[1:], None], strict=True):
            rows = self._judged(look)
            subjects = None if later is None else later.subjects
            parts.append(
                rows if subjects is None else rows.join(subjects, "subject", "left_anti").select(*rows.columns)
            )
        return reduce(DataFrame.unionByName, parts)

    # --- Parquet -------------------------------------------------------------------------------------------

    def _inputs(self, look: _Look) -> DataFrame:
        return self.rows.at(look.inputs, INPUT_SCHEMA)

    def _judged(self, look: _Look) -> DataFrame:
        return self.rows.at(look.judged, JUDGED_SCHEMA)


def _by_outcome(found: Counts) -> dict[str, int]:
    """Keys of all families, by outcome."""
    return {each.value: sum(keys for (_, told), keys in found.items() if told == each.value) for each in KeyOutcome}


def _refuse_lost(step: str, found: int, expected: int) -> None:
    """Raises Z2K-2201: every row of both sides counts, or none does."""
    if found != expected:
        raise AUDIT_ROWS_LOST.error(step=step, found=found, expected=expected)


def _refuse_unread(told: DataFrame) -> None:
    """told: one column, a row for each part of a side that could not be read. Nothing is known then: Z2K-5001."""
    reasons = [str(row[0]) for row in told.limit(UNREAD_NAMED).collect()]
    if reasons:
        raise AUDIT_CANNOT_READ.error(what="all of both sides", reason="; ".join(sorted(reasons)))


# --- the log, the clock, the directories --------------------------------------------------------------------


class _LogInput:
    """The log as files, as far as it goes by now."""

    def __init__(self, kraft: str, fingerprints: SecretFingerprints) -> None:
        self.fingerprints = fingerprints
        self.plan = LogPlan([], -1, -1, 0)
        self.moved = False
        self.path = Path(kraft)

    def look(self, wanted: Position = NOWHERE) -> None:
        """See how far the log goes now, once it has what is wanted (catching_up.py)."""
        plan = read_up_to(wanted, self._plan, str(self.path))
        self.moved = plan != self.plan
        self.plan = plan

    def _plan(self) -> tuple[LogPlan, Position]:
        plan = plan_log(self.path, beside=True)
        return plan, plan.end


class _Offsets:
    """How far a dual-write has come in ZooKeeper, beside the log that it follows."""

    def __init__(self, zookeeper: str, log: _LogInput) -> None:
        self._zookeeper = zookeeper
        self._log = log

    def mirrored(self) -> Position:
        with ZkSession(self._zookeeper) as session:
            return mirrored_position(session)

    def read_behind(self) -> tuple[list[LogSplit], Position]:
        """What the log has by now that it had not before, and what ZooKeeper had in between."""
        before, high = self._log.plan, self.mirrored()
        self._log.look(high)
        behind = splits_behind(before, self._log.plan)
        if behind is None:
            raise AUDIT_CANNOT_READ.error(what=str(self._log.path), reason="it was cut off while it was read")
        return behind, high

    def window(self, low: int, high: int) -> OffsetRange:
        """The offsets that records cover: nothing says in which order the facts of a snapshot came about."""
        low = max(low, begins_at(self._log.plan))
        return OffsetRange(low, max(low, high))


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
def _directory(out: KeptPath | None) -> Iterator[KeptPath]:
    """The directory that keeps the audit, or one that is deleted behind it. Both are their owner's alone."""
    if out is not None:
        yield out.absolute()
        return
    with tempfile.TemporaryDirectory(prefix="zk2kraft-audit-") as temporary:
        yield Path(temporary)


@contextmanager
def _scratch(directory: KeptPath) -> Iterator[Path]:
    """Of this machine, also where the directory is an address."""
    if isinstance(directory, HadoopPath):
        with _directory(None) as here, _scratch(here) as scratch:
            yield scratch
        return
    scratch = directory / SCRATCH
    scratch.mkdir(mode=0o700, parents=True)
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        if scratch.exists():
            raise AUDIT_OUT_UNUSABLE.error(directory=str(scratch), reason="it cannot be deleted; it may hold secrets")
