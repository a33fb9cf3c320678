"""Rows: operations that can be repeated, names that are taken, findings that open and close, one database per
service.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import text

from migrator.findings.driver import LOG_RETIRED
from migrator.findings.finding import FindingError
from state_machine.audits import audit_rows
from state_machine.clusters.observe import ControllerObservation, Observation
from state_machine.facts.nodes import AboutNode
from state_machine.policy.outcome import Blocked, Waiting
from state_machine.rows.database import open_database
from state_machine.rows.documents import FILES, FilesDocument
from state_machine.rows.observations import (
    ReportedFinding,
    RoundObservation,
    backups,
    findings,
    nodes,
    record_observation,
    record_outcome,
)
from state_machine.rows.store import NewOperation, Store
from state_machine.rows.tables import Base, Migration, ObservationRow
from state_machine.service import open_service
from state_machine.settings import ServiceSettings
from tests.support.old_databases import FILES_OF_0003, in_the_soak, make_schema
from tests.support.statuses import a_status
from tests.support.stores import a_store
from tests.unit.state_machine.world import an_inventory


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = a_store(tmp_path)
    made.create(an_inventory(tmp_path), who="test", at=1.0)
    yield made
    made.close()


ADVANCE = NewOperation(name="ADVANCE", who="Ada", reason="go", key="k1")


def test_the_steps_in_versions_make_the_tables_of_the_code(tmp_path: Path) -> None:
    engine = open_database(f"sqlite:///{tmp_path / 'new.db'}")
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), Base.metadata) == []
        assert connection.execute(text("PRAGMA journal_mode")).scalar() == "wal"
        assert connection.execute(text("PRAGMA synchronous")).scalar() == 2, "FULL"
    engine.dispose()


def test_opening_a_database_again_changes_nothing(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'new.db'}"
    first = Store.open(url)
    first.create(an_inventory(tmp_path), who="test", at=1.0)
    first.close()
    second = Store.open(url)
    assert [row.name for row in second.migrations()] == ["orders"]
    second.close()


def test_a_database_of_a_later_release_is_refused(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'new.db'}"
    engine = open_database(url)
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    engine.dispose()
    with pytest.raises(FindingError, match=r"Z2K-4016 .*a later release wrote it \(schema 9999; .* up to 0006\)"):
        open_database(url)
    assert copies_of(tmp_path / "new.db") == []


def of_schema(path: Path, schema: str) -> str:
    """A database as an earlier release left it, with one row. Returns its address."""
    noted = (text("CREATE TABLE noted (number INTEGER)"), text("INSERT INTO noted VALUES (7)"))
    return make_schema(f"sqlite:///{path}", schema, *noted)


def copies_of(path: Path) -> list[Path]:
    return sorted(path.parent.glob(f"{path.name}.schema-*"))


def test_a_file_is_copied_before_its_schema_changes_and_the_copy_opens_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "old.db"
    url = of_schema(file, "0002")
    open_database(url).dispose()
    open_database(url).dispose()
    (copy,) = copies_of(file)
    assert copy.name.startswith("old.db.schema-0002-")
    assert copy.stat().st_mode & 0o077 == 0
    with closing(sqlite3.connect(copy)) as opened:
        assert opened.execute("SELECT version_num FROM alembic_version").fetchall() == [("0002",)]
        assert opened.execute("SELECT number FROM noted").fetchall() == [(7,)]
    with closing(sqlite3.connect(file)) as opened:
        assert opened.execute("SELECT version_num FROM alembic_version").fetchall() == [("0006",)]
    copy.replace(file)
    open_database(url).dispose()
    assert len(copies_of(file)) == 1, "put back and upgraded again: copied again"


def test_what_an_earlier_release_kept_in_lines_is_kept_as_values(tmp_path: Path) -> None:
    assert_values(in_the_soak(f"sqlite:///{tmp_path / 'old.db'}"))


def assert_values(url: str) -> None:
    """Of what `in_the_soak` left at that address."""
    with closing(Store.open(url)) as opened, opened.reading() as session:
        assert session.get_one(Migration, 1).outcome == "blocked"
        found = msgspec.convert(session.get_one(ObservationRow, (1, FILES)).document, FilesDocument)
    kept = AboutNode("broker", 1, "/etc/kafka.properties: its host: refused")
    assert found.not_read == (kept, AboutNode("node", -1, "nobody knows which"))
    assert found.drifted == (AboutNode("controller", 3001, "/etc/controller.properties"),)
    assert (found.code, found.guards[0].code, found.guards[0].read_at) == ("Z2K-4207", "Z2K-7042", 0.0)
    assert found.baseline == FILES_OF_0003["baseline"]


def test_an_audit_of_an_earlier_release_asked_no_broker(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'old.db'}"
    migration = text(
        "INSERT INTO migration (id, name, inventory, created_at, created_by, phase, since, version, waiting) "
        "VALUES (1, 'orders', '{}', 1.0, 'Ada', 'SOAK', 1.0, 1, '')"
    )
    run = text(
        "INSERT INTO audit_run (id, migration_id, purpose, engine, state, who, asked_at, families, seconds, position, "
        "problem) VALUES (5, 1, 'schedule', 'quick', 'done', 'service', 1.0, '[]', '{}', '{}', '')"
    )
    difference = text(
        "INSERT INTO audit_difference (audit_id, number, family, key, field, kind, zookeeper, log, rule) "
        "VALUES (5, 0, 'topics', 'orders', 'id', 'changed', '1', '2', '')"
    )
    with closing(Store.open(make_schema(url, "0004", migration, run, difference))) as opened:
        assert audit_rows.brokers_of(audit_rows.audit(opened, 5)) is None
        (found,) = audit_rows.differences(opened, 5, cursor=0, limit=9)
    assert (found.broker, found.on_broker, found.alone, found.log) == (None, None, "", 2)


def test_a_new_database_is_not_copied(tmp_path: Path) -> None:
    open_database(f"sqlite:///{tmp_path / 'new.db'}").dispose()
    assert copies_of(tmp_path / "new.db") == []


def test_without_a_copy_the_schema_does_not_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "old.db"
    url = of_schema(file, "0002")

    def full(*_: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(FindingError, match=r"could not be copied .* no space left"):
        open_database(url)
    with closing(sqlite3.connect(file)) as opened:
        assert opened.execute("SELECT version_num FROM alembic_version").fetchall() == [("0002",)]


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "new.db").write_text("this is a letter\n" * 100)
    with pytest.raises(FindingError, match="Z2K-4016"):
        open_database(f"sqlite:///{tmp_path / 'new.db'}")


def test_a_second_service_on_one_directory_is_refused_until_the_first_ends(tmp_path: Path) -> None:
    first = open_service(ServiceSettings(directory=tmp_path))
    with pytest.raises(FindingError, match="Z2K-4013"):
        open_service(ServiceSettings(directory=tmp_path))
    first._held.close()
    second = open_service(ServiceSettings(directory=tmp_path))
    second._held.close()


def test_a_second_service_on_one_database_is_refused_wherever_its_directory_is(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "one")
    first = open_service(ServiceSettings(directory=tmp_path / "one"))
    other = ServiceSettings(directory=tmp_path / "two", database=f"sqlite:///{tmp_path / 'link' / 'zk2kraft.db'}")
    with pytest.raises(FindingError, match=r"Z2K-4013.*zk2kraft\.db is in use"):
        open_service(other)
    first._held.close()
    open_service(other)._held.close()


def test_the_directory_of_the_service_is_for_this_user_only(tmp_path: Path) -> None:
    service = open_service(ServiceSettings(directory=tmp_path / "service"))
    assert (tmp_path / "service").stat().st_mode & 0o077 == 0
    service._held.close()


# --- operations -----------------------------------------------------------------------------------------------


def test_repeating_an_operation_with_its_key_records_it_once(store: Store) -> None:
    first, new = store.record_operation(1, ADVANCE, at=2.0)
    again, new_again = store.record_operation(1, ADVANCE, at=3.0)
    assert (new, new_again) == (True, False)
    assert first.id == again.id
    assert len(store.operations(1)) == 1


def test_a_key_stands_for_one_request_only(store: Store) -> None:
    store.record_operation(1, ADVANCE, at=2.0)
    with pytest.raises(FindingError, match="Z2K-4007"):
        store.record_operation(1, replace(ADVANCE, reason="something else"), at=3.0)


def test_two_operations_at_a_time_are_refused_with_the_first_ones_address(store: Store) -> None:
    store.record_operation(1, ADVANCE, at=2.0)
    with pytest.raises(FindingError, match="/api/v1/migrations/1/operations/1"):
        store.record_operation(1, replace(ADVANCE, key="k2"), at=3.0)


def test_an_undo_withdraws_an_advance_that_waits(store: Store) -> None:
    store.record_operation(1, ADVANCE, at=2.0)
    store.record_operation(1, NewOperation(name="ROLL_BACK", who="Bob", reason=""), at=3.0)
    undo, advance = store.operations(1)
    assert (advance.state, undo.state) == ("cancelled", "recorded")
    assert "Bob requested rollback instead" in advance.answer


def test_hold_can_be_asked_for_at_any_time(store: Store) -> None:
    store.record_operation(1, ADVANCE, at=2.0)
    store.record_operation(1, NewOperation(name="PAUSE", who="Bob", reason="lunch"), at=3.0)
    store.pause(store.operations(1)[0], at=4.0)
    assert store.snapshot(1).migration.paused == "paused by Bob: lunch"


def test_an_operation_for_another_version_is_refused(store: Store) -> None:
    with pytest.raises(FindingError, match="is at version 1; the request expected 2"):
        store.record_operation(1, replace(ADVANCE, expected_version=2), at=2.0)


def test_a_migration_has_its_name_for_itself(store: Store, tmp_path: Path) -> None:
    with pytest.raises(FindingError, match="Z2K-4015"):
        store.create(an_inventory(tmp_path), who="test", at=2.0)


def test_creating_with_the_same_key_gives_the_same_migration(store: Store, tmp_path: Path) -> None:
    inventory = an_inventory(tmp_path, name="payments")
    first, _ = store.create(inventory, who="test", at=2.0, key="k")
    again, new = store.create(inventory, who="test", at=3.0, key="k")
    assert (first.id, new) == (again.id, False)
    with pytest.raises(FindingError, match="Z2K-4007"):
        store.create(an_inventory(tmp_path, name="clicks"), who="test", at=4.0, key="k")


@pytest.mark.parametrize("look", [lambda s: s.snapshot(7), lambda s: s.events(7), lambda s: s.operation(1, 7)])
def test_what_does_not_exist_is_refused_by_name(store: Store, look: object) -> None:
    assert callable(look)
    with pytest.raises(FindingError, match="Z2K-4004"):
        look(store)


# --- looks ------------------------------------------------------------------------------------------------


def reported(code: str = "Z2K-1002", says: str = "/brokers/topics/a has no topic_id.") -> ReportedFinding:
    return ReportedFinding.of_json({"code": code, "says": says})


def test_a_finding_is_open_as_long_as_it_is_told(store: Store) -> None:
    record_observation(store, 1, RoundObservation(Observation(10.0), {"check": [reported()]}))
    record_observation(
        store,
        1,
        RoundObservation(Observation(11.0), {"check": [reported()], "driver": [reported("Z2K-2003", "fenced")]}),
    )
    assert [(row.code, row.first_seen) for row in findings(store, 1)] == [("Z2K-1002", 10.0), ("Z2K-2003", 11.0)]
    record_observation(store, 1, RoundObservation(Observation(12.0), {"check": []}))
    assert [(row.code, row.open) for row in findings(store, 1)] == [("Z2K-2003", True), ("Z2K-1002", False)]
    assert [row.code for row in findings(store, 1, only_open=True)] == ["Z2K-2003"], "the driver was not asked anew"


def test_a_finding_of_an_unknown_code_keeps_its_words(store: Store) -> None:
    record_observation(
        store, 1, RoundObservation(Observation(10.0), {"driver": [reported("Z2K-2999", "something new")]})
    )
    assert findings(store, 1)[0].says == "something new"


def test_the_services_own_findings_close_with_the_outcome(store: Store) -> None:
    record_outcome(store, 1, Blocked("it is", (LOG_RETIRED.found(controller="broker 1"),)), at=10.0)
    record_outcome(store, 1, Waiting("for something"), at=11.0)
    assert [row.open for row in findings(store, 1)] == [False]


def test_nodes_and_exports_are_kept_when_the_controller_is_gone(store: Store) -> None:
    status = a_status(
        export="/exports/zookeeper.jsonl.gz",
        quorum={"leader": 3000, "epoch": 1},
        driver={"state": "WAIT_BROKERS"},
        brokers=[{"id": 1, "mode": "ZooKeeper", "fenced": False, "heartbeat_age_ms": None}],
    )
    record_observation(store, 1, RoundObservation(Observation(10.0, (ControllerObservation(3000, 1, status),))))
    record_observation(store, 1, RoundObservation(Observation(11.0, (ControllerObservation(3000, problem="gone"),))))
    assert [(node.node_id, node.seen_at) for node in nodes(store, 1, "broker")] == [(1, 10.0)]
    assert [each.file for each in backups(store, 1)] == ["/exports/zookeeper.jsonl.gz"]


def test_an_observation_comes_back_from_the_rows_as_it_was(store: Store) -> None:
    observed = Observation(
        10.0, (ControllerObservation(3000, problem="gone"),), controlled_at=9.0, window_ms=80, gap_s=1.5
    )
    record_observation(store, 1, RoundObservation(observed))
    assert store.snapshot(1).observation == observed
    assert msgspec.to_builtins(observed)["zookeeper"]["holder"].startswith("unknown")
