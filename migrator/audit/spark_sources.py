"""ZooKeeper and the metadata log as PySpark data sources.

In:   options, all of them text: what to read and how it is split, made by `zookeeper_options` and `log_options`.
Out:  Arrow batches of `SideRow`s (ZooKeeper) and of `RecordRow`s (the log), read by tasks; nothing goes to the driver.
Elsewhere: what a row says (zk_source.py, log_fold.py), what is done with the rows (spark_fold.py, spark_compare.py).
Rules: a task that cannot read gives one row that says so, and ends: its partition is not half right. A task asks the
ensemble for its share of what one considerate reader may ask for, since they run side by side.
Source: PySpark 4.3 `pyspark.sql.datasource`. On a real Spark cluster every executor needs this package, sees the
directory of the log, and reaches ZooKeeper.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final, assert_never

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from migrator.audit.log_fold import RecordRow, record_rows, unreadable_records
from migrator.audit.log_plan import LogSplit, read_split
from migrator.audit.normalise import BROKER_CONFIGS, TOPIC_CONFIGS
from migrator.audit.rows import (
    BROKER_SUBJECT,
    HOLD_SECRETS,
    ORDER_SUBJECT,
    PRODUCER_IDS_SUBJECT,
    TOPIC_SUBJECT,
    ZNODE_SUBJECT,
    SideRow,
    facts_text,
    not_read,
)
from migrator.audit.seal import Seal
from migrator.audit.zk_source import (
    Session,
    config_names,
    config_rows,
    order_rows,
    order_rows_at,
    producer_id_row,
    security_paths,
    security_rows,
    topic_names,
    topic_rows,
    unassigned_partitions,
)
from migrator.errors import FindingError
from migrator.zk import paths
from migrator.zk.passwords import EncoderSettings, PasswordEncoder
from migrator.zk.pipeline import CONSIDERATE, ReadLimits
from migrator.zk.session import ZkSession

ROWS_PER_BATCH: Final = 10_000
TOPICS_PER_RANGE_MAX: Final = 5_000

SIDE_SCHEMA: Final = "family string, key string, subject string, facts string, version bigint, problem string"
RECORD_SCHEMA: Final = (
    "offset bigint, nth bigint, epoch int, type string, topic_id string, name string, subject string, data string, "
    "problem string"
)
_SIDE_ARROW: Final = pa.schema(
    [
        ("family", pa.string()),
        ("key", pa.string()),
        ("subject", pa.string()),
        ("facts", pa.string()),
        ("version", pa.int64()),
        ("problem", pa.string()),
    ]
)
_RECORD_ARROW: Final = pa.schema(
    [
        ("offset", pa.int64()),
        ("nth", pa.int64()),
        ("epoch", pa.int32()),
        ("type", pa.string()),
        ("topic_id", pa.string()),
        ("name", pa.string()),
        ("subject", pa.string()),
        ("data", pa.string()),
        ("problem", pa.string()),
    ]
)

SEAL_OPTION: Final = "seal_secret"
ENCODER_OPTION: Final = "encoder_secret"
"""Spark hides the values of options with such names in everything that it prints."""

Rows = Callable[[Session, ReadLimits, PasswordEncoder | None], Iterator[SideRow]]


# --- rows as Arrow ----------------------------------------------------------------------------------------


def side_batches(rows: Iterable[SideRow], seal: Seal | None = None) -> Iterator[pa.RecordBatch]:
    """seal: for rows as they were read; rows of sealed records are sealed."""
    return _batches((_side_values(row, seal) for row in rows), _SIDE_ARROW)


def record_batches(rows: Iterable[RecordRow]) -> Iterator[pa.RecordBatch]:
    return _batches((msgspec.structs.astuple(row) for row in rows), _RECORD_ARROW)


def _side_values(row: SideRow, seal: Seal | None) -> tuple[Any, ...]:
    facts = row.facts
    if facts is not None and seal is not None and row.family in HOLD_SECRETS:
        facts = seal.facts(facts)
    return row.family, row.key, row.subject, None if facts is None else facts_text(facts), row.version, row.problem


def _batches(rows: Iterator[tuple[Any, ...]], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    while chunk := list(islice(rows, ROWS_PER_BATCH)):
        columns = [pa.array(column, field.type) for column, field in zip(zip(*chunk, strict=True), schema, strict=True)]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


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
        return "configurations of brokers, producer ids, quotas, credentials, ACLs, tokens and orders"


ZkPart = TopicRange | Others


class ZkReading(msgspec.Struct, frozen=True):
    """How tasks read ZooKeeper. Each takes its share of the limits. passwords: what decodes those of brokers."""

    connect: str
    seal_hex: str
    in_flight: int
    per_second: int
    passwords: EncoderSettings | None = None

    @classmethod
    def shared(cls, connect: str, seal: Seal, readers: int, passwords: EncoderSettings | None = None) -> ZkReading:
        """readers: tasks that run at the same time."""
        per_second = (CONSIDERATE.per_second or 0) // readers
        return cls(connect, seal.key_hex, max(1, CONSIDERATE.in_flight // readers), max(1, per_second), passwords)

    def batches(self, what: str, rows: Rows) -> Iterator[pa.RecordBatch]:
        """What `rows` reads from a session; `what` names it should that fail."""
        logging.getLogger("kazoo").setLevel(logging.CRITICAL)
        limits = ReadLimits(self.in_flight, self.per_second)
        encoder = None if self.passwords is None else PasswordEncoder(self.passwords, os.urandom)
        try:
            with ZkSession(self.connect) as session:
                session.sync()
                yield from side_batches(rows(session, limits, encoder), Seal.from_hex(self.seal_hex))
        except FindingError as error:
            yield from side_batches([not_read(what, str(error))])


def _rows_of_part(
    part: ZkPart, session: Session, limits: ReadLimits, passwords: PasswordEncoder | None
) -> Iterator[SideRow]:
    match part:
        case TopicRange():
            topics = _within(topic_names(session), part)
            configs = _within(config_names(session, TOPIC_CONFIGS), part)
            yield from _topics_and_configs(session, topics, configs, limits)
        case Others():
            brokers = config_names(session, BROKER_CONFIGS)
            yield from config_rows(session, BROKER_CONFIGS, brokers, limits, passwords)
            yield producer_id_row(session)
            yield from security_rows(session, security_paths(session, limits), limits)
            yield from order_rows(session)
        case _:
            assert_never(part)


def _rows_of_subjects(
    subjects: list[str], session: Session, limits: ReadLimits, passwords: PasswordEncoder | None
) -> Iterator[SideRow]:
    topics = _named(subjects, TOPIC_SUBJECT)
    brokers = [name or paths.DEFAULT_ENTITY for name in _named(subjects, BROKER_SUBJECT)]
    yield from _topics_and_configs(session, topics, topics, limits)
    yield from config_rows(session, BROKER_CONFIGS, brokers, limits, passwords)
    if PRODUCER_IDS_SUBJECT in subjects:
        yield producer_id_row(session)
    yield from security_rows(session, _named(subjects, ZNODE_SUBJECT), limits)
    yield from order_rows_at(session, _named(subjects, ORDER_SUBJECT))


def _topics_and_configs(
    session: Session, topics: list[str], configs: list[str], limits: ReadLimits
) -> Iterator[SideRow]:
    for rows in topic_rows(session, topics, limits):
        yield rows.topic
        yield from rows.partitions
    yield from unassigned_partitions(session, topics, limits)
    yield from config_rows(session, TOPIC_CONFIGS, configs, limits)


def _within(names: list[str], wanted: TopicRange) -> list[str]:
    return [name for name in names if wanted.low <= name and (wanted.high is None or name < wanted.high)]


def _named(subjects: list[str], prefix: str) -> list[str]:
    return sorted(subject.removeprefix(prefix) for subject in subjects if subject.startswith(prefix))


def plan_parts(names: Sequence[str], count: int) -> list[ZkPart]:
    """Ranges of about as many topics each, which together hold every name there is or will be; then the others.

    names: of the topics, ascending. count: wanted; more when a range would have too many topics.
    """
    ranges = min(max(count, -(-len(names) // TOPICS_PER_RANGE_MAX)), max(1, len(names)))
    starts = ["", *(names[len(names) * each // ranges] for each in range(1, ranges))]
    parts: list[ZkPart] = [TopicRange(low, high) for low, high in zip(starts, [*starts[1:], None], strict=True)]
    return [*parts, Others()]


def zookeeper_options(reading: ZkReading, parts: list[ZkPart]) -> dict[str, str]:
    hidden = msgspec.structs.replace(reading, seal_hex="", passwords=None)
    secrets = {SEAL_OPTION: reading.seal_hex, ENCODER_OPTION: _text(reading.passwords)}
    return {"reading": _text(hidden), "parts": _text(parts), **secrets}


class ZooKeeperSource(DataSource):
    """`spark.read.format("zk2kraft_zookeeper")`: one partition per range of topics, and one for the rest."""

    @classmethod
    def name(cls) -> str:
        return "zk2kraft_zookeeper"

    def schema(self) -> str:
        return SIDE_SCHEMA

    def reader(self, schema: Any) -> DataSourceReader:
        return _ZooKeeperReader(self.options)


class _ZooKeeperReader(DataSourceReader):
    def __init__(self, options: Mapping[str, str]) -> None:
        reading = msgspec.json.decode(options["reading"], type=ZkReading)
        passwords = msgspec.json.decode(options[ENCODER_OPTION], type=EncoderSettings | None)
        self._reading = msgspec.structs.replace(reading, seal_hex=options[SEAL_OPTION], passwords=passwords)
        self._parts = msgspec.json.decode(options["parts"], type=list[ZkPart])

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(part) for part in self._parts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._reading.batches(str(partition.value), partial(_rows_of_part, partition.value))


class SubjectReader:
    """For `mapInArrow`: reads the subjects that it is given from ZooKeeper again."""

    def __init__(self, reading: ZkReading) -> None:
        self._reading = reading

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        subjects = [each for batch in batches for each in batch.column("subject").to_pylist()]
        if subjects:
            yield from self._reading.batches(f"{len(subjects)} subjects again", partial(_rows_of_subjects, subjects))


# --- the metadata log -------------------------------------------------------------------------------------


def log_options(splits: list[LogSplit], seal: Seal) -> dict[str, str]:
    return {"splits": _text(splits), SEAL_OPTION: seal.key_hex}


class MetadataLogSource(DataSource):
    """`spark.read.format("zk2kraft_metadata_log")`: one partition per split of a `LogPlan`."""

    @classmethod
    def name(cls) -> str:
        return "zk2kraft_metadata_log"

    def schema(self) -> str:
        return RECORD_SCHEMA

    def reader(self, schema: Any) -> DataSourceReader:
        return _MetadataLogReader(self.options)


class _MetadataLogReader(DataSourceReader):
    def __init__(self, options: Mapping[str, str]) -> None:
        self._splits = msgspec.json.decode(options["splits"], type=list[LogSplit])
        self._seal_hex = options[SEAL_OPTION]

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(split) for split in self._splits]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        split: LogSplit = partition.value
        try:
            yield from record_batches(
                record_rows(read_split(split), Seal.from_hex(self._seal_hex), split.snapshot_offset)
            )
        except FindingError as error:
            yield from record_batches([unreadable_records(error)])


def _text(value: Any) -> str:
    return msgspec.json.encode(value).decode()
