"""Commands that audit: one audit, and the process that keeps a Spark session for many.

In:   what the command line read. Out: an exit code, and text or JSON on standard output.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from api.commands.audit_history import keep_page
from api.commands.clusters import encoder_settings
from api.commands.output import print_json
from migrator.findings.finding import FindingError
from migrator.model.printable import printable

if TYPE_CHECKING:
    from migrator.audit.brokers.both_sides import ReadSides
    from migrator.audit.brokers.lagging import ReadUpTo
    from migrator.audit.compare import AskedBroker, BrokersSide, Difference
    from migrator.audit.history.hadoop_path import KeptPath
    from migrator.audit.run import ThirdSide
    from migrator.audit.warm_process import Pipe
    from migrator.node.tools.quorum_log import QuorumLog
    from migrator.node.tools.third_side import LagAsked
    from migrator.node.transport.client_security import ClientSecurity
    from migrator.zk.files.server_files import FilesRead
    from migrator.zk.files.session import ZooKeeperFiles

LINES_MAX: Final = 100
"""As many differences as a terminal is read for."""


def zookeeper_side(zookeeper: str | None, files: Sequence[Path], chroot: str) -> str | ZooKeeperFiles:
    """Addresses where they are given, else the files."""
    from migrator.zk.files.session import ZooKeeperFiles

    return zookeeper or ZooKeeperFiles(tuple(files), chroot)


def audit(
    zookeeper: str | ZooKeeperFiles,
    kraft: str,
    engine: str,
    master: str,
    out: str | None,
    controller: Path | None,
    brokers: str | None = None,
    *,
    without: str = "",
    disks: Sequence[Path] = (),
    allow_moved: bool,
    as_json: bool,
    report_only: bool = False,
    sessions: Any = None,
) -> int:
    """out: a directory or an address. brokers: addresses, or `registered`; None: they are not asked. without: ids of
    those that are not asked. disks: listings of brokers' log directories.

    sessions: of the warm audit process; None: a Spark session for this audit alone.
    """
    from migrator.audit.compare import table, unread_report
    from migrator.audit.run import empty_directory, keep_report, run_audit
    from migrator.audit.spark.addresses import kept_path

    where: KeptPath | None = None
    try:
        where = None if out is None else kept_path(out, master)
        passwords = encoder_settings(controller)
        with log_to_read(zookeeper, kraft, controller, where) as log:
            report = run_audit(
                zookeeper,
                str(log.directory),
                engine=engine,
                master=master,
                out=where,
                allow_moved=allow_moved,
                passwords=passwords,
                sessions=sessions,
                confirm=log.confirm,
                third_side=_third_side(brokers, controller, without, disks, kraft),
                report_only=report_only,
            )
    except FindingError as error:
        report = unread_report(error, engine, {"total": 0.0})
        with suppress(FindingError):  # what an earlier audit kept is never written over
            if where is not None:
                empty_directory(where)
                keep_report(report, where)
    if where is not None and report.ended_at:  # one that was refused its directory writes nothing there
        keep_page(report, where)
    if as_json:
        print_json(report)
    else:
        print(table(report.families))
        for each in report.differences[:LINES_MAX]:
            print(printable(_difference_line(each)))
        more = len(report.differences[LINES_MAX:]) + report.left_off.get("differences", 0)
        if more:
            print(f"and {more:,} more differences; --json has the first {len(report.differences):,}")
        if report.brokers is not None:
            print_brokers(report.brokers)
        if (files := report.zk.get("files")) is not None:
            _print_files(files)
        sides = "both sides are" if report.brokers is None else "ZooKeeper, log and brokers are"
        print(f"passed: {sides} equal" if report.same else "not passed")
    return report.exit_code


def _third_side(
    brokers: str | None, controller: Path | None, without: str, disks: Sequence[Path], kraft: str
) -> ThirdSide | None:
    """They are spoken to as the controllers' file says: on the listener between brokers. Raises Z2K-5001.

    What is wrong with that file is a problem of the third side, and keeps nobody from comparing the two others.
    """
    from migrator.findings.audit import AUDIT_CANNOT_READ

    if brokers is None and without:
        raise AUDIT_CANNOT_READ.error(what="the brokers", reason="--without is about --brokers, which is not given")
    if brokers is None and not disks:
        return None
    from migrator.audit.brokers.disks_side import with_disks
    from migrator.audit.compare import BrokersSide
    from migrator.node.config.properties import PeerKind, read_access
    from migrator.node.tools.third_side import BrokersAsked, third_side
    from migrator.node.transport.client_security import client_security

    words = [each.strip() for each in without.split(",")] if without else []
    wrong = [each for each in words if not each.isdecimal()]
    if wrong:
        raise AUDIT_CANNOT_READ.error(what="the brokers", reason=f"--without: {wrong[0]!r} is no id of a broker")
    left_out = frozenset(map(int, words))

    def asked(addresses: str) -> BrokersAsked:
        if controller is None:
            return BrokersAsked(addresses, without=left_out)
        access = read_access(controller, PeerKind.BROKERS)
        security = client_security(access.security)
        return BrokersAsked(addresses, security, access.listener, left_out, access.security, controller.absolute())

    def ask(sides: ReadSides) -> BrokersSide:
        side = BrokersSide()
        if brokers is not None:
            lag = _lag_asked(kraft, controller, sides)
            side = third_side(asked(brokers), sides.read, sides.between, lag=lag, tasks=sides.tasks)
        return with_disks(side, disks, sides) if disks else side

    return ask


def _lag_asked(kraft: str, controller: Path | None, sides: ReadSides) -> LagAsked | None:
    """The quorum is known by its addresses, or by a controller's file; None: a directory alone says nothing of it."""
    from migrator.audit.log_plan import is_directory
    from migrator.node.config.properties import read_voters
    from migrator.node.tools.log_of_quorum import voters_at
    from migrator.node.tools.quorum_lag import read_up_to
    from migrator.node.tools.third_side import LagAsked

    if controller is None and is_directory(kraft):
        return None

    def read() -> dict[int, ReadUpTo]:
        voters = voters_at(kraft) if controller is None or not is_directory(kraft) else read_voters(controller)
        return read_up_to(voters, sides.cluster_id, controllers_security(controller))

    return LagAsked(read, sides.behind)


def _print_files(read: FilesRead) -> None:
    """What stood in for the ensemble, and up to when."""
    moment = _moment(read.at_ms) if read.at_ms else ""
    up_to = f"transaction {read.zxid:#x}" + (f" of {moment}" if moment else "")
    print(f"ZooKeeper's files up to {up_to}: {', '.join((read.snapshot, *read.logs))}")
    print(
        "the server's digest confirms this tree"
        if read.verified
        else "the server noted no digest, which would confirm this tree"
    )
    for each in read.skipped:
        print(printable(f"skipped {each.file}: {each.reason}"))
    if read.torn:
        print(
            f"{read.torn} ends inside the entry at offset {read.torn_at}: that one, and what came later, was not read"
        )


def print_brokers(side: BrokersSide) -> None:
    """Print what the third side of an audit found, a line for each thing."""
    from migrator.audit.compare import table

    modes = ", ".join(_how_it_told(each) for each in side.asked if not each.problem or each.listed_at_ms)
    print(f"\nbrokers: {modes or 'none'}; keys of all of them:")
    print(table(side.families))
    if side.not_asked:
        print(f"not asked, as wanted: {', '.join(map(str, side.not_asked))}")
    if side.problem:
        print(printable(f"not read: {side.problem}"))
    for asked in side.asked:
        if asked.problem or asked.refused:
            print(printable(f"not read: broker {asked.broker}: {asked.problem or asked.refused}"))
        if asked.lag is not None:
            print(f"broker {asked.broker}: {asked.lag_words}")
    for problem in filter(None, (side.lag_problem, side.asked_here)):
        print(printable(problem))
    for each in side.differences[:LINES_MAX]:
        what = " ".join(filter(None, (each.family, each.key, each.field_)))
        alone = {"broker": "the broker stands alone", "log": "the log stands alone", "each": "all three differ"}
        said = each.reason or f"broker={each.on_broker} log={each.log}"
        kind = f"lags, {each.kind}" if each.lags else each.kind
        print(
            printable("; ".join(filter(None, (f"{kind}: broker {each.broker}: {what}: {said}", alone.get(each.alone)))))
        )
    more = len(side.differences[LINES_MAX:]) + side.left_off
    if more:
        print(f"and {more:,} more differences of brokers; --json has the first {len(side.differences):,}")
    for told in side.zookeeper_alone[:LINES_MAX]:
        print(printable(f"ZooKeeper stands alone: {told}: every broker says what the log says"))


def _how_it_told(each: AskedBroker) -> str:
    listed = f"its disks as of {_moment(each.listed_at_ms)}" if each.listed_at_ms else ""
    return f"{each.broker} ({', '.join(filter(None, (each.mode and f'{each.mode} mode', listed)))})"


def _moment(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def controllers_security(controller: Path | None) -> ClientSecurity:
    """How a quorum is spoken to: as the controller of this file does, else without TLS and login."""
    from migrator.node.config.properties import PeerKind, read_access
    from migrator.node.transport.client_security import PLAINTEXT, client_security

    return PLAINTEXT if controller is None else client_security(read_access(controller, PeerKind.CONTROLLERS).security)


@contextmanager
def log_to_read(
    zookeeper: str | ZooKeeperFiles | None, kraft: str, controller: Path | None, out: KeptPath | None = None
) -> Iterator[QuorumLog]:
    """The directory that was named, or that of a copy: of the quorum at these addresses, for this command alone.

    zookeeper: says of which cluster the quorum has to be; None: it is not asked.
    """
    from migrator.audit.log_plan import is_directory
    from migrator.node.tools.quorum_log import QuorumLog

    if is_directory(kraft):
        yield QuorumLog(Path(kraft), lambda: None)
        return
    from migrator.audit.run import side_of
    from migrator.audit.zk_source import describe_tree
    from migrator.node.tools.log_of_quorum import log_of_quorum

    security, cluster_id = controllers_security(controller), None
    if zookeeper is not None:
        with side_of(zookeeper) as session:  # files are read twice then: nobody holds a tree while a log is copied
            cluster_id = describe_tree(session, str(zookeeper))["cluster_id"]
    beside = out.absolute().parent if isinstance(out, Path) else None
    within = beside if beside is not None and beside.is_dir() else None
    with log_of_quorum(kraft, cluster_id, security, within=within) as log:
        yield log


def run_audit_process(directory: Path, master: str, idle_s: float, commands: Any) -> NoReturn:
    """Audits that are asked for on standard input, all in one Spark session. Returns to nobody.

    commands: of the command line, `audit` among them.
    """
    from migrator.audit import warm_process

    warm_process.run(lambda pipe: _answer_audits(pipe, directory, master, idle_s, commands), directory)


def _answer_audits(pipe: Pipe, directory: Path, master: str, idle_s: float, commands: Any) -> None:
    import io
    from contextlib import redirect_stdout

    from migrator.audit.spark.kept_session import KeptSession
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
    from migrator.audit.compare import DifferenceKind

    what = " ".join(filter(None, (each.family, each.key, each.field_)))
    if each.kind == DifferenceKind.NOT_READ:
        return f"not read: {what}: {each.rule}"
    if each.kind == DifferenceKind.OTHER_IN_SNAPSHOT:
        return f"{each.kind}: {what} log={each.log}; {each.rule}"
    if each.kind == DifferenceKind.UNUSABLE:
        return f"{each.kind}: {what} {each.log} on both sides; {each.rule}"
    return f"{each.kind}: {what} zookeeper={each.zookeeper} log={each.log}"
