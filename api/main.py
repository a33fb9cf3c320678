"""Where the rooms are put together: one function per command.

In:   what the command line read. Out: an exit code; text and JSON on standard output.
Elsewhere: what is put together.
"""

from __future__ import annotations

import base64
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec
import structlog

from api.check_text import finding_lines
from migrator.errors import ZOOKEEPER_LOST, FindingError

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator

    from migrator.audit.compare import Difference
    from migrator.audit.warm_process import Pipe
    from migrator.zk.passwords import EncoderSettings
    from state_machine.settings import Settings


def start_logging() -> None:
    """Structured events to standard error: JSON lines, or key=value when it is a terminal."""
    terminal = sys.stderr.isatty()
    renderer: Any = structlog.dev.ConsoleRenderer() if terminal else structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)


def _print_json(document: Any) -> None:
    sys.stdout.write(msgspec.json.encode(document).decode() + "\n")


# --- controllers ------------------------------------------------------------------------------------------


def run_controller(file: Path) -> int:
    from migrator.node.config import read_config
    from migrator.node.process import run_controller as run

    start_logging()
    return run(read_config(file))


def format_storage(file: Path, cluster_id: str, release: str | None, *, ignore_formatted: bool) -> int:
    from migrator.node.config import read_config
    from migrator.node.formatting import format_node

    for line in format_node(read_config(file), cluster_id, release, ignore_formatted=ignore_formatted):
        print(line)
    return 0


def storage_info(file: Path) -> int:
    from migrator.node.config import read_config
    from migrator.node.storage import read_meta_properties

    config = read_config(file)
    problems = 0
    for directory in sorted({config.metadata_log_dir, *config.log_dirs}):
        try:
            meta = read_meta_properties(directory)
            print(f"{directory}: cluster.id={meta.cluster_id} node.id={meta.node_id} directory.id={meta.directory_id}")
        except FindingError as error:
            problems += 1
            print(error)
    return 1 if problems else 0


def dump_log(path: Path, *, as_json: bool) -> int:
    """One line per record: offset, epoch, type, and its fields (ids as Kafka writes them, secrets left out)."""
    from migrator.audit.log_source import log_directory
    from migrator.wire.batch import read_batches
    from migrator.wire.records import decode_versioned_record

    files = [path] if path.is_file() else sorted(log_directory(path).glob("*.log"))
    documents = []
    for file in files:
        for batch in read_batches(file.read_bytes()):
            for number, record in enumerate(batch.control_records):
                documents.append(_document(batch.base_offset + number, batch.leader_epoch, record, 0))
            for number, value in enumerate(batch.values):
                message, version = decode_versioned_record(value)
                documents.append(_document(batch.base_offset + number, batch.leader_epoch, message, version))
    if as_json:
        _print_json(documents)
    else:
        for each in documents:
            print(f"{each['offset']:>8} {each['epoch']:>4} {each['type']} {msgspec.json.encode(each['data']).decode()}")
    return 0


def _document(offset: int, epoch: int, record: msgspec.Struct, version: int) -> dict[str, Any]:
    from migrator.audit.seal import without_secrets

    shown = without_secrets(record)
    data = {name: _plain(getattr(shown, name)) for name in record.__struct_fields__}
    return {"offset": offset, "epoch": epoch, "type": type(record).__name__, "version": version, "data": data}


def _plain(value: Any) -> Any:
    """Ids become Kafka's text; structs become their fields."""
    if isinstance(value, bytes):
        return base64.urlsafe_b64encode(value).rstrip(b"=").decode()
    if isinstance(value, msgspec.Struct):
        return {name: _plain(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return value


# --- looking at a cluster ---------------------------------------------------------------------------------

COULD_NOT_CHECK = 3


def check(zookeeper: str, controllers: list[Path], *, clients: bool, as_json: bool, everything: bool = False) -> int:
    from migrator.node import preflight
    from migrator.node.request_limits import ask_servers
    from migrator.zk.pipeline import CONSIDERATE
    from migrator.zk.session import ZkSession

    try:
        with ZkSession(zookeeper) as session:
            tree, found = preflight.check(session, controllers, CONSIDERATE, clients=clients, ask=ask_servers)
    except FindingError as error:
        if as_json:
            _print_json({"exit": COULD_NOT_CHECK, "findings": [error.occurrence.as_json()]})
        else:
            print(f"could not check: {error}", file=sys.stderr)
        return COULD_NOT_CHECK
    code, unknown = preflight.exit_code(found), preflight.not_looked_at(controllers, clients=clients)
    seen = {"topics": len(tree.topics), "partitions": tree.partition_count(), "brokers": sorted(tree.brokers)}
    if as_json:
        _print_json({"exit": code, **seen, "findings": [each.as_json() for each in found], "not_looked_at": unknown})
        return code
    print(f"{seen['topics']} topics, {seen['partitions']} partitions, brokers {seen['brokers']}")
    print("\n".join(finding_lines(found, everything=everything)), end="\n" if found else "")
    print("not looked at:", *unknown, sep="\n  ")
    print({0: "go: nothing stands in the way", 1: "go, with warnings", 2: "blocked"}[code])
    return code


def rehearse(zookeeper: str, out: Path, controller: Path | None, *, as_json: bool) -> int:
    from migrator.node.rehearsal import rehearse as run
    from migrator.zk.pipeline import CONSIDERATE
    from migrator.zk.session import ZkSession

    with ZkSession(zookeeper) as session:
        result = run(session, out, CONSIDERATE, _encoder_settings(controller))
    if as_json:
        _print_json(result)
    else:
        print(f"{result.topics} topics, {result.partitions} partitions, {result.records} records in {result.directory}")
        print(
            f"read {result.read_seconds} s, encode {result.encode_seconds} s, write {result.write_seconds} s, "
            f"{result.peak_rss_bytes >> 20} MiB"
        )
    return 0


def _encoder_settings(controller: Path | None) -> EncoderSettings | None:
    """`password.encoder.*` of a controller's file: how brokers encrypt their passwords in ZooKeeper."""
    from migrator.node.config import read_config

    return None if controller is None else read_config(controller).passwords


def audit(
    zookeeper: str,
    kraft: str,
    engine: str,
    master: str,
    out: Path | None,
    controller: Path | None,
    *,
    allow_moved: bool,
    as_json: bool,
    sessions: Any = None,
) -> int:
    """sessions: of the warm audit process; None: a Spark session for this audit alone."""
    from migrator.audit.compare import table, unread_report
    from migrator.audit.run import run_audit

    try:
        passwords = _encoder_settings(controller)
    except FindingError as error:
        report = unread_report(error, engine, {"total": 0.0})
    else:
        report = run_audit(
            zookeeper,
            kraft,
            engine=engine,
            master=master,
            out=out,
            allow_moved=allow_moved,
            passwords=passwords,
            sessions=sessions,
        )
    if as_json:
        _print_json(report)
    else:
        print(table(report.families))
        for each in report.differences:
            print(_difference_line(each))
        print("same" if report.same else "not the same")
    return report.exit_code


def run_audit_process(directory: Path, master: str, idle_s: float, commands: Any) -> NoReturn:
    """Audits that are asked for on standard input, all in one Spark session. Returns to nobody.

    commands: of the command line, `audit` among them.
    """
    from migrator.audit import warm_process

    warm_process.run(lambda pipe: _answer_audits(pipe, directory, master, idle_s, commands), directory)


def _answer_audits(pipe: Pipe, directory: Path, master: str, idle_s: float, commands: Any) -> None:
    import io
    from contextlib import redirect_stdout

    from migrator.audit.kept_session import KeptSession
    from migrator.audit.warm_process import answer_audits

    session = KeptSession(directory, master)

    def answer(words: list[str]) -> tuple[int, str]:
        with redirect_stdout(io.StringIO()) as printed:
            exit_code = commands(words, obj=session, standalone_mode=False)
        if session.distrusted is not None:
            raise session.distrusted
        return exit_code, printed.getvalue()

    if pipe.requests.empty():  # else the audit that waits warms it up
        session.warm_up()
    answer_audits(pipe, answer, idle_s=idle_s, between=session.tidy)


def _difference_line(each: Difference) -> str:
    what = " ".join(filter(None, (each.family, each.key, each.field_)))
    if each.kind == "not read":
        return f"not read: {what}: {each.rule}"
    return f"{each.kind}: {what} zookeeper={each.zookeeper} log={each.log}"


def release(zookeeper: str, logs: list[Path], *, execute: bool, accept_loss: bool, drop_orders: bool) -> int:
    from migrator.node.release import execute_release, plan_release
    from migrator.zk.session import ZkSession

    with ZkSession(zookeeper) as session:
        try:
            plan = plan_release(session, logs, accept_loss=accept_loss, drop_orders=drop_orders)
            print("before", *plan.before, sep="\n  ")
            print("what ZooKeeper has of the metadata log", *plan.mirrored, sep="\n  ")
            print("what differs from the metadata log", *plan.look.lines, sep="\n  ")
            print(f"brokers in ZooKeeper mode: {list(plan.brokers)}")
            for multi in plan.multis:
                print("the multi", *multi.describe(), sep="\n  ")
            if not execute:
                if plan.runs is not None:
                    print(f"--execute would be refused: {plan.runs.in_full}")
                print("nothing was changed; --execute applies it")
                return 0
            print("after", *execute_release(session, plan), sep="\n  ")
        except FindingError as error:
            if error.code == ZOOKEEPER_LOST.code:
                raise  # whether ZooKeeper did it is not known
            return _release_refused(error)
    return 0


def _release_refused(error: FindingError) -> int:
    print(f"{error}\n{error.occurrence.finding.remedy}", file=sys.stderr)
    return 2


def export_tree(zookeeper: str, out: Path) -> int:
    from migrator.zk.backup import export
    from migrator.zk.pipeline import CONSIDERATE
    from migrator.zk.session import ZkSession

    with ZkSession(zookeeper) as session:
        info = export(session, out, CONSIDERATE)
    print(f"{info.znodes} znodes ({info.ephemerals} ephemeral) in {info.file}, sha256 {info.sha256}")
    return 0


def import_tree(file: Path, zookeeper: str) -> int:
    from migrator.zk.backup import restore, verify
    from migrator.zk.session import ZkSession

    verify(file)
    address, slash, chroot = zookeeper.partition("/")
    with ZkSession(address) as root:
        root.ensure_path(slash + chroot)
    with ZkSession(zookeeper) as session:
        info = restore(session, file)
    print(f"{info.znodes - info.ephemerals} znodes restored to {zookeeper}")
    return 0


# --- the laboratory ---------------------------------------------------------------------------------------


def demo(**options: Any) -> int:
    """A whole migration on this machine; `migrator.lab.demo.Options` names the options."""
    from migrator.lab.demo import Options, run_demo

    return run_demo(Options(**options))


# --- the service ------------------------------------------------------------------------------------------


def run_service(config: Path | None) -> int:
    """Serve until SIGTERM or SIGINT; controllers go on. 1 when the loop ended by a fault of ours."""
    import asyncio

    from state_machine.settings import read_settings

    start_logging()
    logging.getLogger("httpx").setLevel(logging.WARNING)
    return asyncio.run(_serve(read_settings(config)))


async def _serve(settings: Settings) -> int:
    """The loop and the listener side by side; the end of one is the end of both."""
    import asyncio
    import signal
    import time
    from contextlib import contextmanager

    import uvicorn

    from api.rest.app import guarded, make_app
    from api.rest.parts import Parts
    from migrator.zk.reach import reach
    from state_machine.access import service_token, tell_clients_no_more
    from state_machine.service import open_service

    class Server(uvicorn.Server):
        """Leaves signals to us: uvicorn would raise them again before anything is closed."""

        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield

    service = open_service(settings)
    reconciler = service.reconciler
    parts = Parts(
        service.store,
        settings,
        time.time,
        reconciler.wake,
        lambda: reconciler.last_round_at,
        reconciler.alone_with,
        reconciler.troubles,
        reach,
    )
    token = service_token(settings.directory.absolute())
    app = guarded(make_app(parts, token), token)
    server = Server(uvicorn.Config(app, settings.host, settings.port, log_level="warning", lifespan="off"))
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, setattr, server, "should_exit", True)
    listening = _listen(settings)
    url = f"http://{settings.host}:{listening.getsockname()[1]}"
    _tell_where(settings.directory.absolute(), url, token)
    loop = asyncio.create_task(reconciler.run(), name="reconcile")
    loop.add_done_callback(lambda _: setattr(server, "should_exit", True))
    warming = asyncio.create_task(service.warm_up(), name="warm up")
    try:
        await server.serve(sockets=[listening])
    finally:
        failed = loop.done()
        loop.cancel()
        results = await asyncio.gather(loop, warming, return_exceptions=True)
        tell_clients_no_more(url)
        await service.close()
    if failed:
        structlog.get_logger().critical("service.failed", error=repr(results[0]), exc_info=results[0])
    return 1 if failed else 0


def _listen(settings: Settings) -> socket.socket:
    """Raises Z2K-4115."""
    import socket

    from migrator.errors import PORT_UNUSABLE

    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listening = socket.socket(family)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((settings.host, settings.port))
    except OSError as error:
        listening.close()
        reason = error.strerror or str(error)
        raise PORT_UNUSABLE.error(host=settings.host, port=settings.port, reason=reason) from error
    return listening


def _tell_where(directory: Path, url: str, token: str) -> None:
    """The address first: on standard output (with the token only for a person at a terminal), and in files."""
    from api.pages.login import url_with_token
    from state_machine.access import tell_clients

    shown = url_with_token(url, token) if sys.stdout.isatty() else url
    print(f"{shown}  (the page of this service; REST is below /api/v1)", flush=True)
    tell_clients(directory, url)
    structlog.get_logger().info("service.started", url=url)
