"""The command line. Names, flags, exit codes and JSON keys are a contract.

In:   arguments. Out: text for people, or with `--json` one JSON document on standard output and nothing else.
Elsewhere: what each command does (commands/, imported inside the command, so that `--help` is quick).
Exit codes: 0 done, 1 trouble or a difference, 2 blocked or not all read, 3 could not check, 4 refused by a gate,
5 not done yet, 70 a fault of ours: whatever was asked has no answer.
"""

from __future__ import annotations

import getpass
import json
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from api.options_or_command import OptionsOrCommand
from migrator.audit.engines import default_engine
from migrator.findings.finding import FindingError, words_of
from migrator.findings.service import INVENTORY_FILE_UNUSABLE, SYSTEM_REFUSED
from migrator.model.printable import printable_lines
from state_machine.facts.engines import ControllerEngine

if TYPE_CHECKING:
    from api.client import Client

app = typer.Typer(
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode=None,  # [/chroot] is no markup
    pretty_exceptions_enable=False,  # locals may hold secrets
    help="Move an Apache Kafka cluster from ZooKeeper to KRaft.",
)
storage = typer.Typer(
    no_args_is_help=True, help="Format and show the directories of controllers, like Kafka's storage tool."
)
log = typer.Typer(no_args_is_help=True, help="Read metadata logs.")
audit = typer.Typer(cls=OptionsOrCommand, invoke_without_command=True)
inventory = typer.Typer(no_args_is_help=True, help="The inventory of nodes: who they are and how each is operated.")
render = typer.Typer(no_args_is_help=True, help="A node's next properties file, made from its present one.")
app.add_typer(storage, name="storage")
app.add_typer(inventory, name="inventory")
app.add_typer(render, name="render")
app.add_typer(log, name="log")
app.add_typer(audit, name="audit")

UNEXPECTED: Final = 70
"""`EX_SOFTWARE` of sysexits.h. An error that nobody foresaw must not look like an answer; Python's own code for it is
1, which is "diverged" or "go, with warnings"."""

DEMO_DIR = Path("zk2kraft-demo")

ZooKeeper = Annotated[str, typer.Option("-z", "--zookeeper", help="HOST:PORT[,HOST:PORT][/chroot]")]
AsJson = Annotated[bool, typer.Option("--json", help="one JSON document on standard output and nothing else")]
Properties = Annotated[Path, typer.Argument(help="the properties file of a stock Kafka controller")]
Controller = Annotated[
    Path | None,
    typer.Option(help="a controller's properties file: its password.encoder.* decode brokers' passwords"),
]
KeptAudit = Annotated[
    str, typer.Argument(help="the directory or address that --out of an audit named, or its report.json")
]
ConfigFile = Annotated[Path, typer.Option("-c", "--config", help="the controller's properties file")]


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version  # only now: it takes longer than the rest of `--help`

        print(f"zk2kraft {version('zk2kraft')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="show the version and end", is_eager=True, callback=_show_version)
    ] = False,
) -> None:
    pass


@app.command()
def controller(file: Properties) -> None:
    """Run one KRaft voter, in place of a stock controller with the same file."""
    from api.commands import controllers

    raise typer.Exit(controllers.run_controller(file))


@storage.command("format")
def storage_format(
    config: ConfigFile,
    cluster_id: Annotated[str, typer.Option("-t", "--cluster-id", help="the cluster's id, as in /cluster/id")],
    release_version: Annotated[
        str | None,
        typer.Option("-r", "--release-version", help="the brokers' inter.broker.protocol.version, such as 3.9"),
    ] = None,
    ignore_formatted: Annotated[
        bool, typer.Option("-g", "--ignore-formatted", help="leave formatted directories as they are")
    ] = False,
) -> None:
    """Format the directories of a new controller."""
    from api.commands import controllers

    raise typer.Exit(controllers.format_storage(config, cluster_id, release_version, ignore_formatted=ignore_formatted))


@storage.command("info")
def storage_info(config: ConfigFile) -> None:
    """Show the cluster id and the node id of the directories."""
    from api.commands import controllers

    raise typer.Exit(controllers.storage_info(config))


@log.command("dump")
def log_dump(path: Path, as_json: AsJson = False) -> None:
    """Decode the records of a segment, a snapshot or a directory."""
    from api.commands import controllers

    raise typer.Exit(controllers.dump_log(path, as_json=as_json))


@log.command("check")
def log_check(
    directories: Annotated[list[Path], typer.Argument(help="metadata log directories of one quorum's voters")],
    as_json: AsJson = False,
) -> None:
    """Check logs by themselves: checksums, epochs, snapshots, and whether voters agree. Exit: 0 well, 1 not."""
    from api.commands import controllers

    raise typer.Exit(controllers.check_logs(directories, as_json=as_json))


@log.command("disks")
def log_disks(
    directories: Annotated[list[Path], typer.Argument(help="all of log.dirs of one broker, on its host")],
) -> None:
    """List what a broker has on its disks, for `zk2kraft audit --disks`. Exit: 0 all, 1 a part, 2 nothing.

    It reads names, sizes and small files, and changes nothing. The broker may run. Write the output into a file.
    """
    from api.commands import disks

    raise typer.Exit(disks.list_log_directories(directories))


@log.command("tiered")
def log_tiered(
    directories: Annotated[
        list[Path], typer.Argument(help="directories of partitions of __remote_log_metadata, or that hold some")
    ],
    zookeeper: Annotated[
        str | None, typer.Option("-z", "--zookeeper", help="compare topic ids with this cluster (read only)")
    ] = None,
    kraft: Annotated[
        Path | None, typer.Option(help="a metadata log directory, or a copy: compare topic ids with this log")
    ] = None,
    broker: Annotated[
        Path | None, typer.Option(help="a copy of a broker's log directory: compare leader epochs with its checkpoints")
    ] = None,
    against: Annotated[
        Path | None, typer.Option(help="what this command printed earlier with --json: is every segment still there?")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """What a copy of __remote_log_metadata says of segments in tiered storage. Exit: 0 fits, 1 does not, 2 not read."""
    from api.commands import tiered

    raise typer.Exit(tiered.check_tiered(directories, zookeeper, kraft, broker, against, as_json=as_json))


@app.command()
def check(
    zookeeper: ZooKeeper,
    controllers: Annotated[list[Path] | None, typer.Option(help="a controller's properties file; repeatable")] = None,
    brokers: Annotated[list[Path] | None, typer.Option(help="a broker's properties file; repeatable")] = None,
    clients: Annotated[bool, typer.Option(help="also list ZooKeeper's other clients (its command `cons`)")] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="every finding, not only the first three of each code")
    ] = False,
    engine: Annotated[
        ControllerEngine, typer.Option(help="whose controllers take over: zk2kraft's, or Kafka 3.9's own")
    ] = ControllerEngine.OURS,
    as_json: AsJson = False,
) -> None:
    """Read the cluster and list what blocks a migration. Exit: 0 go, 1 warnings, 2 blocked, 3 could not check."""
    from api.commands import clusters

    raise typer.Exit(
        clusters.check(
            zookeeper,
            controllers or [],
            brokers or [],
            clients=clients,
            as_json=as_json,
            everything=everything,
            stock=engine is ControllerEngine.STOCK,
        )
    )


@app.command()
def rehearse(
    zookeeper: ZooKeeper,
    out: Annotated[Path, typer.Option(help="an empty directory for the metadata log")],
    controller: Controller = None,
    as_json: AsJson = False,
) -> None:
    """Copy ZooKeeper into a metadata log directory, without touching the cluster."""
    from api.commands import clusters

    raise typer.Exit(clusters.rehearse(zookeeper, out, controller, as_json=as_json))


@audit.callback()
def audit_now(
    context: typer.Context,
    kraft: Annotated[str, typer.Option(help="a metadata log directory, or HOST:PORT[,...] of controllers")],
    zookeeper: Annotated[
        str | None, typer.Option("-z", "--zookeeper", help="HOST:PORT[,HOST:PORT][/chroot]; or --zookeeper-files")
    ] = None,
    zookeeper_files: Annotated[
        list[Path] | None,
        typer.Option(
            help="in place of -z, by the quick engine: a copy of one server's dataDir; once more for its dataLogDir"
        ),
    ] = None,
    chroot: Annotated[str, typer.Option(help="with --zookeeper-files: where Kafka is in it, such as /kafka")] = "",
    engine: Annotated[
        str | None, typer.Option(help="spark or quick; files are read by quick", show_default=default_engine())
    ] = None,
    master: Annotated[str, typer.Option(help="the Spark master")] = "local[*]",
    out: Annotated[
        str | None,
        typer.Option(
            help="where the audit keeps its inputs and its result: an empty directory, or an address of a Hadoop file "
            "system (hdfs://..., s3a://...)"
        ),
    ] = None,
    report_only: Annotated[
        bool, typer.Option("--report-only", help="--out keeps the report and its page, and not what was read")
    ] = False,
    allow_moved: Annotated[
        bool, typer.Option("--allow-moved", help="for a rehearsal: changes in ZooKeeper since then are expected")
    ] = False,
    brokers: Annotated[
        str | None,
        typer.Option(
            help="also compare what every broker says (the third side): HOST:PORT[,...] of some, or `registered`: "
            "where the log says that they listen"
        ),
    ] = None,
    without: Annotated[str, typer.Option(help="ID[,...]: with --brokers, these are not asked")] = "",
    disks: Annotated[
        list[Path] | None,
        typer.Option(
            help="also compare what a broker has on its disks: a file of `zk2kraft log disks`; once for each broker"
        ),
    ] = None,
    controller: Controller = None,
    as_json: AsJson = False,
) -> None:
    """Compare ZooKeeper with the metadata log, and with brokers. Exit: 0 passed, 1 diverged, 2 incomplete.

    The commands below it are about audits that --out kept, and take none of these options.
    """
    if context.invoked_subcommand is not None:
        if zookeeper or zookeeper_files:
            raise typer.BadParameter(f"options of an audit are not for {context.invoked_subcommand}")
        return
    if bool(zookeeper) == bool(zookeeper_files):
        raise typer.BadParameter("name one of --zookeeper and --zookeeper-files")
    if chroot and zookeeper:
        raise typer.BadParameter(
            "--chroot goes with --zookeeper-files; with --zookeeper it stands behind the addresses"
        )
    from api.commands import audits

    side = audits.zookeeper_side(zookeeper, zookeeper_files or [], chroot)
    compares = engine or ("quick" if zookeeper_files else default_engine())
    code = audits.audit(
        *(side, kraft, compares, master, out, controller, brokers),
        without=without,
        disks=disks or (),
        allow_moved=allow_moved,
        report_only=report_only,
        as_json=as_json,
        sessions=context.obj,  # of the warm audit process, which runs this command again and again
    )
    raise typer.Exit(code)


@app.command()
def features(
    kraft: Annotated[str, typer.Option(help="a metadata log directory, or HOST:PORT[,...] of controllers")],
    zookeeper: Annotated[
        str | None, typer.Option("-z", "--zookeeper", help="also brokers and /feature there: HOST:PORT[,...][/chroot]")
    ] = None,
    to: Annotated[
        str | None, typer.Option("--to", help="only this metadata.version: 20, 3.8-IV0 or 3.8; with every key")
    ] = None,
    controller: Annotated[
        Path | None, typer.Option(help="a controller's properties file: how controllers are spoken to")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Which levels of features each node supports, and what another metadata.version would do.

    Reads only. Exit: 0 all well, 1 a node stands in the way or the level of --to is refused, 2 not read.
    """
    from api.commands import features as command

    raise typer.Exit(command.features(kraft, zookeeper, controller, to, as_json=as_json))


@audit.command("diff")
def audit_diff(first: KeptAudit, second: KeptAudit, as_json: AsJson = False) -> None:
    """Say what changed from one kept audit to another. Exit: 0 nothing, 1 something, 2 not all could be read."""
    from api.commands import audit_history

    raise typer.Exit(audit_history.diff(first, second, as_json=as_json))


@audit.command("replay")
def audit_replay(
    directory: KeptAudit,
    master: Annotated[str, typer.Option(help="the Spark master")] = "local[*]",
    out: Annotated[
        str | None, typer.Option(help="an empty directory, or an address, for the new verdicts and the new report")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Judge what a Spark audit kept by the rules of this release. Exit: 0 as its report, 1 not, 2 not possible."""
    from api.commands import audit_history

    raise typer.Exit(audit_history.replay(directory, master, out, as_json=as_json))


@audit.command("report")
def audit_report(
    directory: KeptAudit,
    html: Annotated[Path | None, typer.Option(help="the file to write; absent: report.html in the directory")] = None,
) -> None:
    """Write a kept audit as one printable page that needs nothing from elsewhere. Exit: 0, 2 it cannot be read."""
    from api.commands import audit_history

    raise typer.Exit(audit_history.report(directory, html))


@app.command(hidden=True)
def audit_process(
    directory: Annotated[Path, typer.Option(help="for all that Spark writes for itself; deleted at the end")],
    master: Annotated[str, typer.Option(help="the Spark master")],
    idle: Annotated[float, typer.Option(help="ends after so many seconds without an audit")],
) -> None:
    """Part of the service: audits asked for on standard input, answered on standard output."""
    from api.commands import audits

    audits.run_audit_process(directory, master, idle, app)


@app.command()
def demo(
    brokers: Annotated[int, typer.Option(help="number of brokers, 2 to 9")] = 3,
    controllers: Annotated[int, typer.Option(help="number of controllers: 1, 3 or 5")] = 1,
    topics: Annotated[int, typer.Option(help="number of topics, 3 or more")] = 30,
    partitions: Annotated[int, typer.Option(help="partitions of each topic")] = 4,
    directory: Annotated[Path, typer.Option("--dir", help="the directory for all files of the demo")] = DEMO_DIR,
    report: Annotated[Path | None, typer.Option(help="a second copy of the report, as JSON")] = None,
    full: Annotated[bool, typer.Option("--full", help="go to the end and to a later Kafka; 3 controllers")] = False,
    rollback_from: Annotated[
        str | None,
        typer.Option(
            metavar="POINT",
            help="go there, roll back, then migrate the same cluster as --full does; 3 controllers. POINT: DUAL_WRITE, "
            "ROLLING_BROKERS_HALF, ROLLING_BROKERS, REPLACING_CONTROLLERS_HALF or SOAK",
        ),
    ] = None,
    engine: Annotated[
        ControllerEngine, typer.Option(help="stock: as --full, led through Kafka's own controllers")
    ] = ControllerEngine.OURS,
    step: Annotated[bool, typer.Option("--step", help="stop at each gate and print the next command")] = False,
    keep: Annotated[bool, typer.Option("--keep", help="leave data and logs of every process in the directory")] = False,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="do not open the page in a browser")] = False,
) -> None:
    """Run a whole migration on this machine, with clients at work. Exit: 0 passed, 1 failed."""
    from api.commands import laboratory

    stock = engine is ControllerEngine.STOCK
    to_the_end = full or rollback_from or stock
    raise typer.Exit(
        laboratory.demo(
            directory=directory,
            report=report,
            brokers=brokers,
            controllers=3 if to_the_end and controllers == 1 else controllers,
            topics=topics,
            partitions=partitions,
            full=full,
            rollback_from=rollback_from,
            stock=stock,
            step=step,
            keep=keep,
            browser=not no_browser,
        )
    )


@app.command()
def export(zookeeper: ZooKeeper, out: Annotated[Path, typer.Option(help="the file to write")]) -> None:
    """Write a checksummed backup of the ZooKeeper tree."""
    from api.commands import clusters

    raise typer.Exit(clusters.export_tree(zookeeper, out))


@app.command("import")
def import_(file: Path, zookeeper: ZooKeeper) -> None:
    """Restore a backup into an empty chroot."""
    from api.commands import clusters

    raise typer.Exit(clusters.import_tree(file, zookeeper))


@app.command("open-backup")
def open_backup(
    file: Path,
    key: Annotated[str, typer.Option(help="file:/PATH, exec:/COMMAND or systemd:NAME, as `backup_key` of the service")],
    out: Annotated[Path, typer.Option(help="a directory that does not exist yet")],
) -> None:
    """Open an encrypted backup of the service. `import` restores its zookeeper.json.gz, into an empty chroot only."""
    from api.commands import clusters

    raise typer.Exit(clusters.open_backup(file, key, out))


# --- nodes and their files --------------------------------------------------------------------------------

NodeFile = Annotated[Path, typer.Argument(help="the node's present properties file")]
InventoryFile = Annotated[Path | None, typer.Option("--inventory", help="the inventory, for what the file lacks")]
NodeNumber = Annotated[int | None, typer.Option("--node", help="its id in the inventory; absent: the one in the file")]
Before = Annotated[Path | None, typer.Option("--before", help="for back: the kept predecessor of the present file")]
Kafka = Annotated[
    Path | None,
    typer.Option("--kafka", help="an installed Kafka; its own parser has to accept the result (needs Java)"),
]
Diff = Annotated[bool, typer.Option("--diff", help="show what changes, secrets hidden")]
OutFile = Annotated[Path | None, typer.Option("--out", help="write the whole file there, secrets included, mode 0600")]


@inventory.command("check")
def inventory_check(file: Path, as_json: AsJson = False) -> None:
    """Read an inventory and say what stands against it. Exit: 0 nothing, 1 warnings, 2 refused."""
    from api.commands import fleet

    raise typer.Exit(fleet.check_inventory_file(file, as_json=as_json))


@app.command()
def plan(
    file: Annotated[Path, typer.Argument(help="the inventory of nodes")],
    through: Annotated[str, typer.Option(help="the release that migrates: 3.6.2 to 3.9")] = "3.9.2",
    to: Annotated[str, typer.Option(help="the last release: this one, or 4.0 to 4.4")] = "4.4.0",
    broker_restart: Annotated[
        float | None, typer.Option(min=1, help="seconds of one restart of a broker, until it is whole, as measured")
    ] = None,
    controller_restart: Annotated[
        float | None, typer.Option(min=1, help="seconds of one restart of a controller, as measured")
    ] = None,
    read: Annotated[
        bool, typer.Option("--read", help="ask each broker's host which release runs; it changes nothing there")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Plan the whole way of an estate on one page: releases, legs, restarts, hours, what cannot be undone, who decides.

    It needs no cluster. `kafka` in the inventory says which release a broker runs; with --read its process does.
    Exit: 0 planned, 1 planned with brokers whose release is not known, 2 refused.
    """
    from api.commands import plan as planning

    measured = {"broker": broker_restart, "controller": controller_restart}
    raise typer.Exit(planning.plan_estate(file, through, to, measured, read=read, as_json=as_json))


ANSIBLE_HELP: Final = (
    "what `ansible-inventory -i X --list` prints, as a file or -; where ansible-inventory is on PATH: X itself"
)


@inventory.command("import")
def inventory_import(
    ansible: Annotated[Path | None, typer.Option(help=ANSIBLE_HELP)] = None,
    properties: Annotated[
        list[Path] | None, typer.Option(help="a copy of a node's properties file; repeatable, one for each node")
    ] = None,
    name: Annotated[str, typer.Option(help="of the cluster")] = "kafka",
    broker_file: Annotated[str, typer.Option(help="path of a broker's file on its host")] = "",
    controller_file: Annotated[str, typer.Option(help="path of a controller's file on its host")] = "",
    brokers_group: Annotated[str, typer.Option(help="the group of brokers, when its name is not a usual one")] = "",
    controllers_group: Annotated[str, typer.Option(help="the group of controllers, the same")] = "",
    out: Annotated[Path | None, typer.Option(help="the file to write; absent: standard output")] = None,
) -> None:
    """Make an inventory from what is there. Exit: 0 whole, 1 something is missing, which it names, 2 refused."""
    if ansible is None and not properties:
        raise typer.BadParameter("--ansible or --properties is needed")
    from api.commands import fleet

    given = {"broker_file": broker_file, "controller_file": controller_file}
    assumed = fleet.Assumed(name=name, **{key: value for key, value in given.items() if value})
    groups = {"brokers": brokers_group, "controllers": controllers_group}
    raise typer.Exit(fleet.import_inventory(ansible, properties or [], out, assumed, groups))


@render.command("broker")
def render_broker(
    file: NodeFile,
    kind: Annotated[str, typer.Option("--for", help="migration, kraft or back")],
    inventory_file: InventoryFile = None,
    node: NodeNumber = None,
    before: Before = None,
    kafka: Kafka = None,
    out: OutFile = None,
    diff: Diff = False,
) -> None:
    """A broker's file for the migration, for KRaft mode, or back. Exit: 0, 2 refused."""
    _render("broker", file, kind, inventory_file, node, before, kafka, out, diff)


@render.command("controller")
def render_controller(
    file: NodeFile,
    kind: Annotated[str, typer.Option("--for", help="stock, finalized or back")],
    inventory_file: InventoryFile = None,
    node: NodeNumber = None,
    before: Before = None,
    kafka: Kafka = None,
    out: OutFile = None,
    diff: Diff = False,
) -> None:
    """A controller's file for a stock one, for the end without ZooKeeper, or back. Exit: 0, 2 refused."""
    _render("controller", file, kind, inventory_file, node, before, kafka, out, diff)


def _render(
    role: str,
    file: Path,
    kind: str,
    inventory_file: Path | None,
    node: int | None,
    before: Path | None,
    kafka: Path | None,
    out: Path | None,
    diff: bool,
) -> None:
    from api.commands import fleet

    possible = fleet.kinds_of(role)
    if kind not in possible:
        raise typer.BadParameter(f"--for is one of {', '.join(possible)}")
    code = fleet.render_file(
        role,
        file,
        fleet.FileKind(kind),
        inventory=inventory_file,
        node=node,
        before=before,
        kafka=kafka,
        out=out,
        diff=diff,
    )
    raise typer.Exit(code)


# --- the service, and its REST client ---------------------------------------------------------------------

Url = Annotated[str, typer.Option("--url", envvar="ZK2KRAFT_URL", help="address of the service")]
Number = Annotated[
    int | None, typer.Option("-m", "--migration", help="number of the migration; not needed when there is only one")
]
Reason = Annotated[str, typer.Option("--reason", help="why; kept in the history")]
To = Annotated[str | None, typer.Option("--to", help="the phase you expect; refused if the step leads elsewhere")]
Version = Annotated[
    int | None, typer.Option("--expected-version", help="refused if the migration has another version now")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="only evaluate the gate")]
Wait = Annotated[float, typer.Option("--wait", help="seconds to wait for the outcome")]
NoWait = Annotated[bool, typer.Option("--no-wait", help="end as soon as the operation is recorded")]
Feature = Annotated[
    str | None, typer.Option("--feature", metavar="FEATURE=LEVEL", help="one feature, such as group.version=1")
]
LOCAL: Final = "http://127.0.0.1:8085"


@app.command()
def serve(
    config: Annotated[Path | None, typer.Option(help="a TOML file with the keys named above")] = None,
) -> None:
    """Run the service: phases, gates, history, REST and the page, on loopback or under declared origins.

    Keys of the file, all optional: host, origins (https://HOST[:PORT] under which it is reached beyond loopback),
    port (0: a free one, named in serve.json), directory (database, rehearsals, logs), database (an SQLAlchemy URL),
    observe_every_s, audit_engine (spark or quick), spark_master, rehearsal_every_s, audit_every_s (audits of dual-
    write; 0: none), audit_process_idle_s (0: no warm audit process), audits_max_bytes, command_limit_s, roots
    (directories that may hold controllers' files), control_hosts, control_ca, control_certificate,
    control_key_password, control_token (for controllers on other hosts), start_controllers, fleets (inventories of
    nodes and their actuators), settle_s, node_deadline_s, soak_s, brokers_gone_s, drift_every_s, hosts_at_once,
    calls_per_host, zookeeper_kept_days, single_operator, backup_key, backup_directory. docs/settings.md explains them.
    A variable ZK2KRAFT_SERVE_<KEY> wins over the file. Controllers go on when the service ends.
    """
    from api.commands import service

    raise typer.Exit(service.run_service(config))


@app.command()
def migrations(url: Url = LOCAL, as_json: AsJson = False) -> None:
    """List the migrations of a service."""
    _ask(url, as_json, lambda client: client.migrations())


@app.command()
def status(migration: Number = None, url: Url = LOCAL, as_json: AsJson = False) -> None:
    """Show the phase of a migration and its reason, the active controller, and the undo."""
    _ask(url, as_json, lambda client: client.status(migration))


@app.command()
def gates(migration: Number = None, url: Url = LOCAL, as_json: AsJson = False) -> None:
    """Show every possible step with its conditions. Exit: 0, or 4 if the step forward is closed."""
    _ask(url, as_json, lambda client: client.gates(migration))


@app.command()
def advance(
    migration: Number = None,
    to: To = None,
    reason: Reason = "",
    expected_version: Version = None,
    dry_run: DryRun = False,
    wait: Wait = 300.0,
    no_wait: NoWait = False,
    url: Url = LOCAL,
    as_json: AsJson = False,
) -> None:
    """Take the next step. Exit: 0 done, 1 ended in another phase, 4 refused by a gate, 5 not done yet."""
    _step("advance", migration, to, reason, expected_version, dry_run, None if no_wait else wait, url, as_json)


@app.command()
def abort(
    migration: Number = None,
    reason: Reason = "",
    dry_run: DryRun = False,
    wait: Wait = 300.0,
    no_wait: NoWait = False,
    url: Url = LOCAL,
    as_json: AsJson = False,
) -> None:
    """Abort the takeover before its commit. Exit: 0 done, 1 ended in another phase, 4 refused, 5 not done yet.

    In FINALIZING: give the finalize up, before any controller was started without the migration flag. A controller that
    is stopped gets its kept file first; then the migration is in SOAK again.
    """
    _step("abort", migration, None, reason, None, dry_run, None if no_wait else wait, url, as_json)


@app.command()
def rollback(
    migration: Number = None,
    reason: Reason = "",
    expected_version: Version = None,
    dry_run: DryRun = False,
    wait: Wait = 300.0,
    no_wait: NoWait = False,
    without_controllers: Annotated[
        bool, typer.Option("--without-controllers", help="use this when no zk2kraft controller can run")
    ] = False,
    zookeeper: Annotated[
        str | None,
        typer.Option("-z", "--zookeeper", help="only with --without-controllers: HOST:PORT[,HOST:PORT][/chroot]"),
    ] = None,
    logs: Annotated[
        list[Path] | None,
        typer.Option("--log", metavar="DIR", help="only with it: a controller's metadata log directory; repeatable"),
    ] = None,
    execute: Annotated[bool, typer.Option("--execute", help="only with it: apply the plan")] = False,
    accept_loss: Annotated[
        bool, typer.Option("--accept-loss", help="only with it: lose what a given log has and ZooKeeper lacks")
    ] = False,
    stopped: Annotated[
        list[str] | None,
        typer.Option(
            "--stopped", help="only with it: HOST:PORT of a listener where no controller runs, as you have seen"
        ),
    ] = None,
    drop_orders: Annotated[
        bool, typer.Option("--drop-orders", help="only with it: delete orders below /admin without carrying them out")
    ] = False,
    url: Url = LOCAL,
    as_json: AsJson = False,
) -> None:
    """Roll back to ZooKeeper. Exit: 0 done, 1 ended in another phase, 4 refused by a gate, 5 not done yet.

    From DUAL_WRITE on, `status` says before what a rollback costs and loses. From ROLLING_BROKERS to SOAK the service
    restarts nodes one by one. docs/undo.md says how, from each phase, and what to do in FINALIZING.

    With --without-controllers the command needs only ZooKeeper, no service and no controller. Without --execute it
    only prints its plan. Exit: 0 done, 2 refused.
    """
    if without_controllers != (zookeeper is not None):
        raise typer.BadParameter("--without-controllers and -z are given together or not at all")
    if zookeeper is not None:
        from api.commands import clusters

        consent = {"accept_loss": accept_loss, "drop_orders": drop_orders}
        done = clusters.rollback_without_controllers(
            zookeeper, logs or [], execute=execute, stopped=stopped or [], **consent
        )
        raise typer.Exit(done)
    if logs or execute or accept_loss or drop_orders or stopped:
        raise typer.BadParameter(
            "--log, --execute, --accept-loss, --stopped and --drop-orders need --without-controllers"
        )
    _step("rollback", migration, None, reason, expected_version, dry_run, None if no_wait else wait, url, as_json)


@app.command("finalize-version")
def finalize_version(
    migration: Number = None,
    feature: Feature = None,
    release_version: Annotated[
        str | None,
        typer.Option("--release-version", help="list what this release would raise, such as 4.4, and raise nothing"),
    ] = None,
    reason: Reason = "",
    expected_version: Version = None,
    dry_run: DryRun = False,
    wait: Wait = 120.0,
    no_wait: NoWait = False,
    url: Url = LOCAL,
    as_json: AsJson = False,
) -> None:
    """Raise metadata.version in COMPLETED, which cannot be undone. Exit: 0 done, 4 refused, 5 not done yet.

    The level is the highest that the software of every broker and voter supports. Another person approves it before:
    `zk2kraft approve --to COMPLETED`. With --feature it raises that feature alone, approved with the same --feature.
    With --release-version it lists every feature that a release would raise, what each changes, whether it can be
    undone, and what it waits for. Exit: 5 raises are left, 0 none is.
    """
    if release_version is not None:
        if feature is not None or dry_run:
            raise typer.BadParameter("--release-version only lists, so it goes with neither --feature nor --dry-run")
        _ask(url, as_json, lambda client: client.raises(migration, release_version))
        return
    seconds = None if no_wait else wait
    _step("finalize-version", migration, None, reason, expected_version, dry_run, seconds, url, as_json, feature)


@app.command()
def approve(
    migration: Number = None,
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            help="FINALIZING unless something else is named; COMPLETED: the raise of metadata.version; ROLLING_BACK: "
            "what a rollback loses",
        ),
    ] = None,
    feature: Feature = None,
    digest: Annotated[
        str | None, typer.Option("--digest", help="of what you read: the whole, or 12 and more of its first digits")
    ] = None,
    reason: Reason = "",
    wait: Wait = 60.0,
    no_wait: NoWait = False,
    url: Url = LOCAL,
    as_json: AsJson = False,
) -> None:
    """Agree to a step that cannot be undone, as plan and evidence are now; another person takes it. Or consent to what
    a rollback loses. Without --digest it shows what would be approved, with its digest, and approves nothing.

    Exit: 0 approved, 4 refused, also when things are not as you read them any more, 5 only shown.
    """
    body = {"reason": reason, "who": getpass.getuser()} if reason else {"who": getpass.getuser()}
    seconds = None if no_wait else wait
    _ask(url, as_json, lambda client: client.approve(migration, to, digest, body, wait_s=seconds, feature=feature))


@app.command()
def change(
    migration: Number = None,
    file: Annotated[Path | None, typer.Option(help="JSON with the fields of the inventory that change")] = None,
    zookeeper: Annotated[str | None, typer.Option(help="HOST:PORT[,HOST:PORT][/chroot]")] = None,
    bootstrap_servers: Annotated[str | None, typer.Option(help="HOST:PORT[,HOST:PORT] of brokers")] = None,
    reason: Reason = "",
    url: Url = LOCAL,
    as_json: AsJson = False,
) -> None:
    """Change the inventory of a migration before it starts controllers. Exit: 0, or 4 refused."""
    given = {"zookeeper": zookeeper, "bootstrap_servers": bootstrap_servers, "reason": reason}
    fields = _json_of(file) | {key: value for key, value in given.items() if value} | {"who": getpass.getuser()}
    _ask(url, as_json, lambda client: client.change(migration, fields))


@app.command()
def delete(
    migration: Annotated[int, typer.Option("-m", "--migration", help="its number")],
    url: Url = LOCAL,
    as_json: AsJson = False,
) -> None:
    """Remove a migration that holds no claim and runs no controller. Exit: 0, or 4 refused."""
    _ask(url, as_json, lambda client: client.delete(migration, getpass.getuser()))


@app.command()
def pause(migration: Number = None, reason: Reason = "", url: Url = LOCAL, as_json: AsJson = False) -> None:
    """Stop new steps forward; abort and rollback stay possible."""
    _step("pause", migration, None, reason, None, False, 10.0, url, as_json)


@app.command()
def resume(migration: Number = None, reason: Reason = "", url: Url = LOCAL, as_json: AsJson = False) -> None:
    """Allow steps forward again."""
    _step("resume", migration, None, reason, None, False, 10.0, url, as_json)


@app.command()
def back(
    migration: Number = None,
    reason: Reason = "",
    wait: Wait = 60.0,
    no_wait: NoWait = False,
    url: Url = LOCAL,
    as_json: AsJson = False,
) -> None:
    """Return the failed broker of a rolling restart, alone, to its previous file. Exit: 0 begun, 4 refused.

    In ROLLING_BACK, a stock controller starts again where a zk2kraft controller failed.
    """
    _step("back", migration, None, reason, None, False, None if no_wait else wait, url, as_json)


@app.command()
def audits(
    migration: Number = None,
    ask: Annotated[bool, typer.Option("--request", help="request an audit, and wait for its result")] = False,
    engine: Annotated[str | None, typer.Option(help="spark or quick")] = None,
    wait: Wait = 900.0,
    url: Url = LOCAL,
    as_json: AsJson = False,
) -> None:
    """Show audits, or request one. Exit: 0, or 1 if the requested audit did not pass."""
    who = getpass.getuser()
    _ask(url, as_json, lambda client: client.audits(migration, ask=ask, engine=engine, wait_s=wait, who=who))


@app.command()
def report(
    migration: Number = None,
    change: Annotated[bool, typer.Option("--change", help="the report for a change board, before and after")] = False,
    html: Annotated[Path | None, typer.Option(help="with --change: write it as one printable page, too")] = None,
    url: Url = LOCAL,
    as_json: AsJson = False,
) -> None:
    """Show a migration in figures: phases, time without controller, audits, and what was not verified."""
    if html is not None and not change:
        raise typer.BadParameter("it needs --change", param_hint="--html")
    _ask(url, as_json, lambda client: client.change_report(migration, html) if change else client.report(migration))


def _json_of(file: Path | None) -> dict[str, Any]:
    """Raises Z2K-4107."""
    if file is None:
        return {}
    try:
        document = json.loads(file.read_bytes())
    except (OSError, ValueError) as error:
        raise INVENTORY_FILE_UNUSABLE.error(file=file, reason=words_of(error)) from error
    if not isinstance(document, dict):
        raise INVENTORY_FILE_UNUSABLE.error(file=file, reason="it contains no JSON object")
    return document


def _step(
    word: str,
    migration: int | None,
    to: str | None,
    reason: str,
    expected_version: int | None,
    dry_run: bool,
    wait: float | None,
    url: str,
    as_json: bool,
    feature: str | None = None,
) -> None:
    given = {
        "to": to,
        "feature": feature,
        "reason": reason,
        "expected_version": expected_version,
        "who": getpass.getuser(),
    }
    body = {key: value for key, value in given.items() if value not in (None, "")}
    _ask(url, as_json, lambda client: client.step(word, migration, body, dry_run=dry_run, wait_s=wait))


def _ask(url: str, as_json: bool, command: Callable[[Client], int]) -> None:
    """Run one command of the REST client."""
    from api import client

    try:
        code = command(client.Client(url, as_json=as_json))
    except client.ServiceRefused as error:
        code = client.refused(error, as_json=as_json)
    raise typer.Exit(code)


def main(arguments: list[str] | None = None) -> Any:
    """The console script: findings are told without a traceback, anything else with it and an exit code of its own.

    arguments: None: those of this process, of which it is the program.
    """
    if arguments is None:
        sys.modules.setdefault("rich", None)  # type: ignore[arg-type]  # structlog imports it for what we never print
    try:
        return app(args=arguments)
    except FindingError as error:
        print(printable_lines(f"{error}\n{error.occurrence.finding.remedy}"), file=sys.stderr)
        sys.exit(1)
    except OSError as error:
        what = "" if error.filename is None else f" {error.filename}"
        found = SYSTEM_REFUSED.found(what=what, reason=error.strerror or str(error) or type(error).__name__)
        print(printable_lines(f"{found.code} {found.text}\n{found.finding.remedy}"), file=sys.stderr)
        sys.exit(UNEXPECTED)
    except Exception as error:
        traceback.print_exception(error)
        said = f"{type(error).__name__}: {error}".splitlines()[0]
        print(
            f"zk2kraft: the command ended by a fault of zk2kraft; this says nothing about the cluster. {said}",
            file=sys.stderr,
        )
        sys.exit(UNEXPECTED)
