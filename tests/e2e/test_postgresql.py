"""The service with its rows on a PostgreSQL server: a real one, killed and started again on the way.

Needs initdb and postgres (Debian: postgresql); CI counts their absence as a failure, elsewhere these tests are skipped.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import text

from migrator.findings.finding import FindingError
from migrator.findings.service import ROUND_FAILED
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.properties import write
from state_machine.policy.outcome import Waiting
from state_machine.rows.database import open_database
from state_machine.rows.database_claim import ClaimLost, claim_database
from state_machine.rows.observations import findings, record_outcome
from state_machine.rows.store import NewOperation, Store
from state_machine.rows.tables import Base, FindingRow
from tests.e2e.support import ready_cluster, wait_for, wait_zookeeper_rules
from tests.e2e.test_service import BACK, HELD, ROAD, STEP_DEADLINE_S, ServiceUnderTest, assert_sound, links
from tests.support.old_databases import in_the_soak
from tests.support.postgresql_server import PASSWORD, PostgresqlServer, why_not_here
from tests.unit.state_machine.rows.test_store import assert_values
from tests.unit.state_machine.world import an_inventory

pytestmark = pytest.mark.lab

ONLY_IN_SQLITE = "uq_finding_migration_id_source_code_says"


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresqlServer]:
    missing = why_not_here()
    if missing:
        assert os.environ.get("CI") != "true", f"CI has to have it: {missing}"
        pytest.skip(missing)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    made = PostgresqlServer(port)
    try:
        made.start()
        yield made
    finally:
        made.close()


@pytest.fixture
def url(server: PostgresqlServer) -> str:
    """Of a database without tables."""
    engine = open_database(server.url)
    with engine.begin() as connection:
        connection.exec_driver_sql("SET TRANSACTION READ WRITE")
        connection.exec_driver_sql("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    engine.dispose()
    return server.url


def test_the_steps_in_versions_make_the_tables_of_the_code(url: str) -> None:
    engine = open_database(url)
    options = {"include_object": lambda _it, name, *_: name != ONLY_IN_SQLITE}
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection, opts=options), Base.metadata) == []
    engine.dispose()


def test_what_an_earlier_release_kept_in_lines_is_kept_as_values(url: str) -> None:
    assert_values(in_the_soak(url))


def test_words_of_strangers_and_large_numbers_are_kept(url: str, tmp_path: Path) -> None:
    with closing(Store.open(url)) as store:
        row, _ = store.create(an_inventory(tmp_path), who="A\0da", at=1.0)
        store.record_document(row.id, "levels", {"name": "a\0b"}, at=2.0)
        store.record_backup(row.id, file="/b", phase="SOAK", sha256="", size_bytes=2**40, at=3.0)
        said = {"severity": "warning", "means": "", "remedy": "", "first_seen": 1.0, "last_seen": 1.0, "open": True}
        with store.writing() as session:
            long = "n" * 100_000 + os.urandom(8000).hex()
            session.add(FindingRow(migration_id=row.id, source="check", code="Z2K-1001", says=long, **said))
        kept = store.migrations()[0]
        assert kept.created_by == "A\N{REPLACEMENT CHARACTER}da"
        assert store.snapshot(row.id).documents["levels"] == {"name": "a\0b"}


def test_operations_that_arrive_together_are_recorded_one_by_one(url: str, tmp_path: Path) -> None:
    """Both writers read before either wrote: without a turn, each would find no pending operation."""
    with closing(Store.open(url)) as store:
        row, _ = store.create(an_inventory(tmp_path), who="Ada", at=1.0)
        others = [Store(open_database(url)) for _ in range(3)]
        begin, answers = threading.Barrier(len(others)), list[str]()

        def ask(at: Store, number: int) -> None:
            begin.wait(60)
            try:
                at.record_operation(row.id, NewOperation(name="ADVANCE", who=f"{number}", reason="go"), at=2.0)
                answers.append("recorded")
            except FindingError as error:
                answers.append(error.code)

        for _ in range(10):
            asking = [threading.Thread(target=ask, args=each) for each in zip(others, range(3), strict=True)]
            for each in asking:
                each.start()
            for each in asking:
                each.join(60)
            assert sorted(answers) == ["Z2K-4009", "Z2K-4009", "recorded"]
            answers.clear()
            store.end_operation(store.operations(row.id)[0].id, "refused", "", at=3.0)
        for other in others:
            other.close()


def test_a_service_that_lost_its_database_to_another_writes_nothing(url: str, tmp_path: Path) -> None:
    with closing(Store.open(url)) as store:
        store.create(an_inventory(tmp_path), who="Ada", at=1.0)
        with pytest.raises(FindingError, match=r"Z2K-4013.*process") as refused:
            claim_database(url)
        assert PASSWORD not in str(refused.value)
        engine = open_database(url)
        with engine.connect() as connection:
            connection.execute(
                text("SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE application_name LIKE 'zk2%'")
            )
        with closing(claim_database(url)):
            with pytest.raises(ClaimLost, match="in use by another"):
                store.remove(1, who="Ada", at=2.0)
            assert store.numbers() == [1]
        wait_for(lambda: why_not_removed(store), "it has its database again")
        assert store.numbers() == []
        engine.dispose()


def why_not_removed(store: Store) -> str | None:
    """The server lets go of a session within milliseconds of its end."""
    try:
        store.remove(1, who="Ada", at=3.0)
    except ClaimLost as error:
        return str(error)
    return None


def test_a_finding_with_a_character_that_cannot_be_kept_is_one_row(url: str, tmp_path: Path) -> None:
    with closing(Store.open(url)) as store:
        row, _ = store.create(an_inventory(tmp_path), who="Ada", at=1.0)
        told = ROUND_FAILED.found(migration=row.id, fault="KeyError a\0b")
        for at in (1.0, 2.0):
            record_outcome(store, row.id, Waiting("for a round", (told,)), at=at)
        assert [(each.first_seen, each.open) for each in findings(store, row.id)] == [(1.0, True)]


def test_a_cluster_goes_to_dual_write_and_back_while_the_server_is_killed(
    laboratory: Laboratory, server: PostgresqlServer, url: str
) -> None:
    with ready_cluster(laboratory, topics=3, extra=HELD) as (cluster, controller):
        write(controller.properties_file, controller.spec.properties())
        controller.format()
        service = ServiceUnderTest(laboratory, cluster, controller, database=url)
        service.start()
        service.create()
        assert_another_service_is_refused(laboratory, url)

        service.to_ready()
        server.kill()
        answer = service.http.get(f"{service.url}/api/v1/migrations/1")
        assert (answer.status_code, answer.json()["code"]) == (503, "Z2K-4120")
        server.start()
        wait_ready(service)
        service.step("advance", "DUAL_WRITE", to="DUAL_WRITE", reason="the rehearsal is passed")
        server.kill()
        server.start()
        wait_ready(service)
        service.kill()
        service.start()
        service.step("rollback", "ROLLED_BACK", reason="and back")
        wait_zookeeper_rules(cluster)
        assert service.rows() == [*links(*ROAD), *links(*BACK)]
        assert_sound(service.get("/events")["items"])
        service.stop()


def wait_ready(service: ServiceUnderTest) -> None:
    """It answers with its rows again, by itself."""
    path = f"{service.url}/api/v1/migrations/1"
    wait_for(lambda: None if service.http.get(path).status_code == 200 else "not yet", "the database is back")


def assert_another_service_is_refused(laboratory: Laboratory, url: str) -> None:
    directory = laboratory.directory / "another"
    directory.mkdir()
    file = directory / "serve.toml"
    file.write_text(f'port = 0\ndirectory = "{directory}/data"\ndatabase = "{url}"\n')
    command = [sys.executable, "-m", "api", "serve", "--config", str(file)]
    process = laboratory.processes.start("another", command, environment={**os.environ, "ZK2KRAFT_LAB": "1"})
    assert process.wait_for_exit(STEP_DEADLINE_S)
    assert process.exit_code != 0
    assert "Z2K-4013" in process.log_tail()
    assert PASSWORD not in process.log_tail()
