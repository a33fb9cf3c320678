"""Run one audit with the engine that was asked for.

In:   where ZooKeeper is, or copies of its files; where the log is, which engine, where to keep the inputs.
Out:  an `AuditReport`, always: what could not be read is named in it, and the audit did not pass (exit code 2).
Elsewhere: the engines (quick.py, job.py).
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from migrator.audit.beside import facts_by_key, others_in_snapshot, read_snapshot
from migrator.audit.brokers.both_sides import SETTLES_MS, LogSince, ReadSides
from migrator.audit.brokers.tasks import RunsTasks
from migrator.audit.catching_up import read_up_to
from migrator.audit.compare import (
    NOT_A_COPY,
    AuditReport,
    BrokersSide,
    ExpectedDifferences,
    unread_report,
)
from migrator.audit.engines import HOW_TO_INSTALL_SPARK, spark_is_installed
from migrator.audit.history.hadoop_path import HadoopPath, KeptPath, write_new
from migrator.audit.history.kept_runs import REPORT_FILE
from migrator.audit.identity import cluster_of_log, follows_the_log, refuse_foreign_log, refuse_nothing_compared
from migrator.audit.kept_reading import KEPT
from migrator.audit.log_plan import TRIMMED_MEANWHILE, LogPlan, begins_at, offset_before, plan_log
from migrator.audit.log_source import CommittedRecords, planned_batches
from migrator.audit.log_states import NO_OFFSET, LogStates, OtherInSnapshot
from migrator.audit.normalise import LogFacts
from migrator.audit.passwords import EncoderSecrets, PasswordReader
from migrator.audit.quick import quick_audit
from migrator.audit.standstill import behind_ms
from migrator.audit.zk_source import describe_tree
from migrator.findings.audit import ADDRESS_UNUSABLE, AUDIT_CANNOT_READ, AUDIT_OUT_UNUSABLE
from migrator.findings.finding import FindingError, words_of
from migrator.model.image import NOWHERE, Position
from migrator.zk.files.session import FilesSession, ZooKeeperFiles
from migrator.zk.pipeline import CONSIDERATE
from migrator.zk.session import ZkSession

REHEARSAL = "zk2kraft-rehearsal"
"""The mark of a rehearsal's directory: by how much the copy's producer ids are ahead, and when it was read."""

ThirdSide = Callable[[ReadSides], BrokersSide]


def run_audit(
    zookeeper: str | ZooKeeperFiles,
    kraft: str,
    *,
    engine: str,
    master: str,
    out: KeptPath | None,
    allow_moved: bool = False,
    passwords: EncoderSecrets | None = None,
    sessions: Any = None,
    confirm: Callable[[], None] | None = None,
    third_side: ThirdSide | None = None,
    report_only: bool = False,
) -> AuditReport:
    """kraft: a metadata log directory; it may grow meanwhile. out: must not hold anything.

    zookeeper:   addresses, or copies of a server's files, which the quick engine reads alone.
    allow_moved: of a rehearsal, what ZooKeeper changed after it was read is expected.
    passwords:   the brokers' settings; None: a broker with a password in ZooKeeper is not read.
    sessions:    `spark_job.Sessions`; None: the spark engine starts a session for this audit alone.
    confirm:     returns once `kraft` has all that it should have by now; raises when it is not what it should be.
    third_side:  asks brokers, given both other sides; None: they are not asked.
    report_only: `out` keeps no rows: executors need not see it then, and nobody can judge them again.
    """
    started = time.monotonic()
    try:
        if out is not None:
            empty_directory(out)
        rules = rules_of(kraft)
        if not allow_moved:
            rules = replace(rules, copied_zxid=NOT_A_COPY, read="")
        rows = None if report_only else out

        def finish(two_sides: AuditReport, tasks: RunsTasks | None = None) -> AuditReport:
            two_sides = refuse_nothing_compared(two_sides, kraft)
            if confirm is not None:
                confirm()
            return two_sides if third_side is None else _with_brokers(two_sides, third_side, kraft, confirm, tasks)

        report = _run(zookeeper, kraft, engine, master, rows, rules, passwords, sessions, finish)
    except FindingError as error:
        report = unread_report(error, engine, {"total": time.monotonic() - started})
        if error.code in (AUDIT_OUT_UNUSABLE.code, ADDRESS_UNUSABLE.code):
            return report
    if out is not None:
        keep_report(report, out)
    return report


def _with_brokers(
    report: AuditReport,
    third_side: ThirdSide,
    kraft: str,
    confirm: Callable[[], None] | None,
    tasks: RunsTasks | None = None,
) -> AuditReport:
    """The log is read again for it: a broker is compared with what the log says now. What the two sides said of each
    other stays where no broker can be read. tasks: of the engine, where it has any.
    """

    def now() -> None:
        if confirm is not None:
            confirm()

    def read() -> LogFacts:
        now()
        return read_log(kraft, beside=False)[0].facts

    def behind(offset: int) -> LogStates:
        now()
        return read_log(kraft, offset, beside=False)[0]

    def since(times_ms: Sequence[int]) -> list[LogSince]:
        now()
        return read_since(kraft, times_ms)

    cluster_id = report.zk.get("cluster_id") or cluster_of_log(kraft)
    try:
        side = third_side(ReadSides(read, behind, since, [*report.differences, *report.expected], cluster_id, tasks))
    except FindingError as error:
        side = BrokersSide(problem=str(error))
    except Exception as error:  # a fault of ours or of a library: a way back may wait for what the two sides said
        import structlog  # it brings half a second of modules, which no other audit needs

        structlog.get_logger().exception("audit.third_side", reason=words_of(error))
        side = BrokersSide(problem=f"it ended unexpectedly: {type(error).__name__}: {words_of(error)}")
    seconds = {**report.seconds, "brokers": side.seconds, "total": report.seconds.get("total", 0.0) + side.seconds}
    return msgspec.structs.replace(report, brokers=side, same=report.same and side.same, seconds=seconds)


def keep_report(report: AuditReport, out: KeptPath) -> None:
    """Write it, with the time of it: a report that has one was kept. Raises Z2K-5004 where there is one, Z2K-5016."""
    ended_at = round(time.time(), 3)
    data = msgspec.json.encode(msgspec.structs.replace(report, ended_at=ended_at))
    try:
        write_new(out / REPORT_FILE, msgspec.json.format(data))
    except FileExistsError as error:
        raise AUDIT_OUT_UNUSABLE.error(directory=str(out), reason="another audit wrote its report there") from error
    report.ended_at = ended_at


def _run(
    zookeeper: str | ZooKeeperFiles,
    kraft: str,
    engine: str,
    master: str,
    out: KeptPath | None,
    rules: ExpectedDifferences,
    passwords: EncoderSecrets | None,
    sessions: Any,
    finish: Callable[..., AuditReport],
) -> AuditReport:
    """finish: goes on with the report of two sides, while the engine's tasks are there."""
    match engine:
        case "quick":
            return finish(_quick(zookeeper, kraft, rules, passwords))
        case "spark":
            if isinstance(zookeeper, ZooKeeperFiles):
                reason = "only --engine quick reads files of ZooKeeper"
                raise AUDIT_CANNOT_READ.error(what=str(zookeeper), reason=reason)
            if not spark_is_installed():
                raise AUDIT_CANNOT_READ.error(what="engine spark", reason=HOW_TO_INSTALL_SPARK)
            from migrator.audit.spark.job import spark_audit
            from migrator.audit.spark.session import spark_session

            opened = spark_session if sessions is None else sessions
            return spark_audit(
                zookeeper,
                kraft,
                master=master,
                out=out,
                rules=rules,
                passwords=passwords,
                sessions=opened,
                finish=finish,
            )
        case _:
            raise AUDIT_CANNOT_READ.error(what=f"engine {engine}", reason="it is neither spark nor quick")


def _quick(
    zookeeper: str | ZooKeeperFiles, kraft: str, rules: ExpectedDifferences, passwords: EncoderSecrets | None
) -> AuditReport:
    with _without_cycle_collection(), side_of(zookeeper) as session:
        tree = tree_of(session, zookeeper)
        refuse_foreign_log(tree, kraft)
        return quick_audit(
            session,
            _Reading(kraft),
            rules=replace(rules, in_dual_write=tree["dual_write"], ours_leads=tree["ours_leads"]),
            limits=CONSIDERATE,
            zk=tree,
            follows=follows_the_log(tree, rules),
            of_copy=isinstance(session, FilesSession),
            passwords=PasswordReader.of(passwords),
        )


def side_of(zookeeper: str | ZooKeeperFiles) -> ZkSession | FilesSession:
    """What ZooKeeper's side is read from. Open it with `with`."""
    return FilesSession(zookeeper) if isinstance(zookeeper, ZooKeeperFiles) else ZkSession(zookeeper)


def tree_of(session: ZkSession | FilesSession, zookeeper: str | ZooKeeperFiles) -> dict[str, Any]:
    """Describe the tree as `describe_tree` does, and what was read where it is files."""
    files = {"files": session.files_read} if isinstance(session, FilesSession) else {}
    return {**describe_tree(session, str(zookeeper)), **files}


@contextmanager
def _without_cycle_collection() -> Iterator[None]:
    """Facts are plain values without cycles, and the collector went through all of them again and again: a quarter of
    the processor's time.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def empty_directory(directory: KeptPath) -> None:
    """Create it if need be, for its owner alone. Raises Z2K-5004 when it holds anything, or is no directory."""
    try:
        if isinstance(directory, HadoopPath):
            if directory.is_file():
                raise AUDIT_OUT_UNUSABLE.error(directory=str(directory), reason="it is a file")
            directory.make_directory()
        else:
            directory.mkdir(parents=True, exist_ok=True)
            directory.chmod(0o700)
        if any(directory.iterdir()):
            raise AUDIT_OUT_UNUSABLE.error(directory=str(directory), reason="it is not empty")
    except OSError as error:
        raise AUDIT_OUT_UNUSABLE.error(directory=str(directory), reason=words_of(error)) from error


class _Reading:
    """Readings of one log, one behind the other. The snapshot beside it never changes: the first one compares it."""

    def __init__(self, kraft: str) -> None:
        self._kraft = kraft
        self._first = True

    def __call__(self, low: int = NO_OFFSET, wanted: Position = NOWHERE) -> tuple[LogStates, Position]:
        first, self._first = self._first, False
        return read_log(self._kraft, low, wanted, beside=first)


def read_log(
    kraft: str, low: int = NO_OFFSET, wanted: Position = NOWHERE, *, beside: bool = True
) -> tuple[LogStates, Position]:
    """What the log says, and the position up to which it goes.

    low:    what keys said since this offset is kept too. Of a snapshot only what it says at its end.
    wanted: what the log has to have; it is waited for (catching_up.py).
    beside: compare the newest snapshot beside it, too (beside.py).

    A controller that runs deletes old snapshots and segments: a directory that lost a file meanwhile is read again.
    """
    for _ in range(TRIMMED_MEANWHILE):
        try:
            return _read_log(kraft, low, wanted, beside=beside)
        except FindingError as error:
            if not isinstance(error.__cause__, FileNotFoundError):
                raise
    return _read_log(kraft, low, wanted, beside=beside)


def read_since(kraft: str, times_ms: Sequence[int]) -> list[LogSince]:
    """What the log says, and all that it said since shortly before each of these times (`SETTLES_MS`).

    Where the log is younger than that, it begins at the time itself. A log that had no topic then was not the cluster's
    yet: it was copied from ZooKeeper later.
    """
    plan = plan_log(Path(kraft))
    lows = [[offset_before(plan, each - SETTLES_MS), offset_before(plan, each)] for each in times_ms]
    known = [each for some in lows for each in some if each is not None]
    states = read_log(kraft, min(known, default=NO_OFFSET), beside=False)[0]

    def since(some: list[int | None]) -> LogSince:
        low = next((each for each in some if each is not None and states.had_topics(each)), None)
        return LogSince(states, NO_OFFSET if low is None else low, reaches=low is not None)

    return [since(some) for some in lows]


def _read_log(kraft: str, low: int, wanted: Position, *, beside: bool) -> tuple[LogStates, Position]:
    """Only headers are read until it has what is wanted."""

    def look() -> tuple[LogPlan, Position]:
        plan = plan_log(Path(kraft), since=None if low == NO_OFFSET else low, beside=beside)
        return plan, plan.end

    plan = read_up_to(wanted, look, kraft)
    records = CommittedRecords()
    states = LogStates(max(low, begins_at(plan)))
    states.behind_ms = 0 if low == NO_OFFSET else behind_ms(plan, low)
    compared_at = plan.beside_offset if beside else -1
    for batch in planned_batches(plan, records):
        if not 0 <= compared_at < batch.last_offset:
            states.take_batch(batch, records)
            continue
        for record in records.take(batch):  # the snapshot may end inside it
            if 0 <= compared_at < records.at:
                states.other_in_snapshot, compared_at = _other_in_snapshot(plan, states), -1
            states.take(records.at, record)
    if compared_at >= 0:
        states.other_in_snapshot = _other_in_snapshot(plan, states)
    return states, Position(records.epoch, records.offset)


def _other_in_snapshot(plan: LogPlan, states: LogStates) -> list[OtherInSnapshot]:
    """states: of the log up to the snapshot's offset."""
    snapshot = facts_by_key(read_snapshot(plan))
    return list(others_in_snapshot(snapshot, facts_by_key(states.facts), plan.beside_offset))


class RehearsalMark(msgspec.Struct):
    """What a rehearsal's directory says of itself; see `compare.ExpectedDifferences`."""

    producer_id_margin: int
    copied_zxid: int


def rules_of(kraft: str) -> ExpectedDifferences:
    """A rehearsal is ahead by the copy's margin, and ZooKeeper may move on afterwards; a mirrored log is followed."""
    mark = Path(kraft) / REHEARSAL
    if not mark.is_file():
        return ExpectedDifferences()
    try:
        found = msgspec.json.decode(mark.read_bytes(), type=RehearsalMark)
    except msgspec.DecodeError as error:
        raise AUDIT_CANNOT_READ.error(what=str(mark), reason=words_of(error)) from error
    read = Path(kraft) / KEPT
    return ExpectedDifferences(
        found.producer_id_margin, copied_zxid=found.copied_zxid, read=str(read.absolute()) if read.is_file() else ""
    )
