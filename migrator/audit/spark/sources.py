"""Both sides of an audit as rows of one table, read by tasks side by side.

In:   which part of ZooKeeper, or which split of the metadata log, each task reads.
Out:  Arrow batches of `INPUT_SCHEMA`; nothing goes to the driver.
Elsewhere: what a row says (zk_source.py, log_fold.py), what is done with the rows (fold.py, compare.py).
Rules: a task that cannot read gives one row that says so, and ends: its part is not half right. The last row of a task
says how many parts and rows it has read, so that a lost task, or a lost file, is noticed. A task asks the ensemble for
its share of what one considerate reader may ask for, since they run side by side.
On a real Spark cluster every executor reaches ZooKeeper; all else is sent to it (shipped.py, sent_login.py).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Final, assert_never

import msgspec
import pyarrow as pa

from migrator.audit.fingerprints import SecretFingerprints
from migrator.audit.log_fold import NAMING_RECORDS, RecordRow, record_rows, unreadable_records
from migrator.audit.log_plan import LogSplit, read_split
from migrator.audit.normalise import BROKER_CONFIGS, TOPIC_CONFIGS
from migrator.audit.passwords import PasswordReader, Secrets
from migrator.audit.rows import (
    TOPIC_SUBJECT,
    SideRow,
    facts_text,
    not_read,
)
from migrator.audit.spark.sent_login import SentLogin
from migrator.audit.spark.topic_rows import ReadTopic, topic_rows
from migrator.audit.subjects import fingerprinted_facts
from migrator.audit.zk_source import (
    Session,
    cluster_rows,
    config_names,
    config_rows,
    list_rows,
    order_rows,
    producer_id_row,
    security_paths,
    security_rows,
    subject_rows,
    topic_names,
)
from migrator.findings.finding import FindingError
from migrator.zk.pipeline import CONSIDERATE, ReadLimits
from migrator.zk.session import ZkSession

ROWS_PER_BATCH: Final = 5_000
TOPICS_PER_RANGE_MAX: Final = 50_000
"""Each range lists the names of all topics first."""

READERS_MAX: Final = 8
"""Sessions that one audit opens with ZooKeeper, however many tasks run side by side."""

ROWS_BYTES_MAX: Final = 4 << 20
"""About, of one batch of rows."""

ZOOKEEPER, LOG, READ, BESIDE = 0, 1, 2, 3
"""The sides; READ is the last row of a task. BESIDE is the snapshot beside the log, in the same form."""

INPUT_SCHEMA: Final = (
    "side tinyint, subject string, place bigint, nth bigint, kind string, key string, data binary, problem string"
)
"""
          ZooKeeper's rows    its topics        the log's rows                   READ
place     mzxid               mzxid             offset of the first record       parts that the task was given
nth       0                   which row of it   as in `RecordRow`                rows in front of this one
kind      family              PACKED            as in `RecordRow`                ""
key       key                 name              id of the topic or the ACL       null
data      facts as JSON       `PackedTopic`     `PackedRecords`                  ids that the log gave in them
"""
_INPUT_ARROW: Final = pa.schema(
    [
        ("side", pa.int8()),
        ("subject", pa.string()),
        ("place", pa.int64()),
        ("nth", pa.int64()),
        ("kind", pa.string()),
        ("key", pa.string()),
        ("data", pa.binary()),
        ("problem", pa.string()),
    ]
)

PACKED: Final = "topic with its partitions"

InputRow = tuple[int, str | None, int, int, str, str | None, bytes | None, str]
_PACK: Final = msgspec.msgpack.Encoder()

Rows = Callable[[Session, ReadLimits, PasswordReader | None], Iterator[SideRow | ReadTopic]]


# --- rows as Arrow ----------------------------------------------------------------------------------------


def zookeeper_rows(rows: Iterable[SideRow | ReadTopic], fingerprints: SecretFingerprints) -> Iterator[InputRow]:
    """The same rows for Spark; in families that hold secrets, each secret is a fingerprint."""
    for row in rows:
        if isinstance(row, ReadTopic):
            yield from _topic_rows(row, fingerprints)
            continue
        data = None if row.facts is None else _told(row, fingerprints).encode()
        yield ZOOKEEPER, row.subject, row.version, 0, row.family, row.key, data, row.problem


def _topic_rows(topic: ReadTopic, fingerprints: SecretFingerprints) -> Iterator[InputRow]:
    subject, (first, *others) = TOPIC_SUBJECT + topic.name, topic.packs
    if topic.config is not None:
        told = _told(topic.config, fingerprints)
        first = msgspec.structs.replace(first, config=told, config_mzxid=topic.config.version)
    for nth, pack in enumerate((first, *others)):
        yield ZOOKEEPER, subject, topic.mzxid, nth, PACKED, topic.name, _PACK.encode(pack), ""


def _told(row: SideRow, fingerprints: SecretFingerprints) -> str:
    return facts_text(fingerprinted_facts(row.family, row.facts or {}, fingerprints))


def log_rows(rows: Iterable[RecordRow], side: int = LOG) -> Iterator[InputRow]:
    for row in rows:
        yield side, row.subject, row.offset, row.nth, row.kind, row.id, row.data, row.problem


def counted_batches(rows: Iterable[InputRow], parts: int) -> Iterator[pa.RecordBatch]:
    """The rows of one task, and behind them how many there were, and which ids the log gave in them."""
    read, given = 0, list[str]()
    for chunk in _chunks(rows):
        read += len(chunk)
        given += [row[5] or "" for row in chunk if row[0] == LOG and row[4] in NAMING_RECORDS]
        yield _batch(chunk)
    yield _batch([(READ, None, parts, read, "", None, " ".join(given).encode(), "")])


def _chunks(rows: Iterable[InputRow]) -> Iterator[list[InputRow]]:
    chunk: list[InputRow] = []
    size = 0
    for row in rows:
        chunk.append(row)
        size += len(row[6] or b"")
        if len(chunk) == ROWS_PER_BATCH or size >= ROWS_BYTES_MAX:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _batch(rows: Sequence[InputRow]) -> pa.RecordBatch:
    columns = zip(zip(*rows, strict=True), _INPUT_ARROW, strict=True)
    return pa.RecordBatch.from_arrays([pa.array(column, field.type) for column, field in columns], schema=_INPUT_ARROW)


# --- ZooKeeper --------------------------------------------------------------------------------------------


class TopicRange(msgspec.Struct, frozen=True, tag=True):
    """Topics and configurations of topics with `low` <= name < `high`; high None: to the end."""

    low: str
    high: str | None

    def __str__(self) -> str:
        return f"topics from {self.low!r} on" if self.high is None else f"topics from {self.low!r} to {self.high!r}"


class Others(msgspec.Struct, frozen=True, tag=True):
    """Everything but topics and their configurations."""

    def __str__(self) -> str:
        return "the cluster, configurations of brokers, producer ids, quotas, credentials, ACLs, tokens and orders"


ZkPart = TopicRange | Others


class ZkReading(msgspec.Struct, frozen=True):
    """How tasks read ZooKeeper. Each takes its share of the limits. readers: so many at the same time.

    passwords: what decodes those of brokers. login: None: what KAFKA_OPTS says where the task runs.
    """

    connect: str
    fingerprint_key_hex: str
    in_flight: int
    per_second: int
    readers: int
    passwords: Secrets | None = None
    login: SentLogin | None = None

    @classmethod
    def shared(
        cls,
        connect: str,
        fingerprints: SecretFingerprints,
        cores: int,
        passwords: Secrets | None = None,
        login: SentLogin | None = None,
    ) -> ZkReading:
        """cores: tasks that run at the same time. Half of them read ZooKeeper, as the limits hold for all together, and
        the log is read beside it.
        """
        readers = max(1, min(cores // 2, READERS_MAX))
        per_second = max(1, (CONSIDERATE.per_second or 0) // readers)
        in_flight = max(1, CONSIDERATE.in_flight // readers)
        return cls(connect, fingerprints.key_hex, in_flight, per_second, readers, passwords, login)

    def rows(self, what: str, rows: Rows) -> Iterator[InputRow]:
        """What `rows` reads from a session; `what` names it should that fail."""
        logging.getLogger("kazoo").setLevel(logging.CRITICAL)
        limits, fingerprints = (
            ReadLimits(self.in_flight, self.per_second),
            SecretFingerprints.from_hex(self.fingerprint_key_hex),
        )
        encoder = None if self.passwords is None else PasswordReader(self.passwords)
        try:
            with self._session() as session:
                session.sync()
                yield from zookeeper_rows(rows(session, limits, encoder), fingerprints)
        except FindingError as error:
            yield from zookeeper_rows([not_read(what, str(error))], fingerprints)

    def _session(self) -> ZkSession:
        return ZkSession(self.connect) if self.login is None else self.login.session(self.connect)


def _rows_of_part(
    part: ZkPart, session: Session, limits: ReadLimits, passwords: PasswordReader | None
) -> Iterator[SideRow | ReadTopic]:
    match part:
        case TopicRange():
            topics = _within(topic_names(session), part)
            configs = _within(config_names(session, TOPIC_CONFIGS), part)
            yield from topic_rows(session, topics, configs, limits)
            yield from list_rows(session, session.lists_changed)
        case Others():
            brokers = config_names(session, BROKER_CONFIGS)
            yield from config_rows(session, BROKER_CONFIGS, brokers, limits, passwords)
            yield from cluster_rows(session)
            yield producer_id_row(session)
            yield from security_rows(session, security_paths(session, limits), limits)
            yield from order_rows(session)
            yield from list_rows(session, session.lists_changed)
        case _:
            assert_never(part)


def _within(names: list[str], wanted: TopicRange) -> list[str]:
    return [name for name in names if wanted.low <= name and (wanted.high is None or name < wanted.high)]


def plan_parts(names: Sequence[str], count: int) -> list[ZkPart]:
    """Ranges of about as many topics each, which together hold every name there is or will be; then the others.

    names: of the topics, ascending. count: wanted; more when a range would have too many topics.
    """
    ranges = min(max(count, -(-len(names) // TOPICS_PER_RANGE_MAX)), max(1, len(names)))
    starts = ["", *(names[len(names) * each // ranges] for each in range(1, ranges))]
    parts: list[ZkPart] = [TopicRange(low, high) for low, high in zip(starts, [*starts[1:], None], strict=True)]
    return [*parts, Others()]


# --- tasks ------------------------------------------------------------------------------------------------


class PartReader:
    """Reads the parts of ZooKeeper and the splits of the log, for `mapInArrow` over numbers.

    Tasks begin in the order of their numbers: first the readers of ZooKeeper, each with its parts one behind the other,
    then a task for each split, which other cores take meanwhile.
    """

    def __init__(self, reading: ZkReading, parts: Sequence[ZkPart], splits: Sequence[LogSplit]) -> None:
        self._reading = reading
        of_readers = (tuple(parts[each :: reading.readers]) for each in range(reading.readers))
        self._inputs: list[tuple[ZkPart, ...] | LogSplit] = [*filter(None, of_readers), *splits]

    def __len__(self) -> int:
        return len(self._inputs)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from counted_batches(self._rows(self._inputs[number]), 1)

    def _rows(self, wanted: tuple[ZkPart, ...] | LogSplit) -> Iterator[InputRow]:
        if isinstance(wanted, LogSplit):
            yield from _rows_of_split(wanted, SecretFingerprints.from_hex(self._reading.fingerprint_key_hex))
        else:
            for part in wanted:
                yield from self._reading.rows(str(part), partial(_rows_of_part, part))


def _rows_of_split(split: LogSplit, fingerprints: SecretFingerprints) -> Iterator[InputRow]:
    try:
        side = BESIDE if split.beside else LOG
        yield from log_rows(record_rows(read_split(split), fingerprints, split.snapshot_offset), side)
    except FindingError as error:
        yield from log_rows([unreadable_records(error)])


class SubjectReader:
    """Reads the subjects that it is given from ZooKeeper again, for `mapInArrow`."""

    def __init__(self, reading: ZkReading) -> None:
        self._reading = reading

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        subjects = [each for batch in batches for each in batch.column("subject").to_pylist()]
        if subjects:
            rows = self._reading.rows(
                f"{len(subjects)} subjects again",
                partial(subject_rows, subjects),
            )
            yield from counted_batches(rows, len(subjects))
