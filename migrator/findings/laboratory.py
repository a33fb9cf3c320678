"""Set-up, the laboratory and its traffic: Z2K-6xxx."""

from __future__ import annotations

from migrator.findings.finding import Finding

JAVA_MISSING = Finding(
    code="Z2K-6001",
    says="Java 17 or later is needed; found {found}.",
    means="Kafka, ZooKeeper and Spark run on Java; without it only `make check` works.",
    remedy="Install a Java 17 runtime (Debian: `apt install openjdk-17-jre-headless`) or set JAVA_HOME, then run "
    "the command again.",
)

ARTIFACTS_UNAVAILABLE = Finding(
    code="Z2K-6002",
    says="{artifact} could not be downloaded: {reason}.",
    means="The laboratory needs Kafka's and ZooKeeper's jars, and neither the cache nor the network has them.",
    remedy="Set KAFKA_HOME to an installed Kafka, or ZK2KRAFT_MAVEN_MIRROR to a reachable repository, then run the "
    "command again. Earlier downloads are kept.",
)

PROCESS_NOT_READY = Finding(
    code="Z2K-6003",
    says="{name} was not ready after {seconds} s: {reason}. Its log: {log}",
    means="A laboratory process started but did not answer its protocol, or it ended early.",
    remedy="Read the end of the named log; the usual cause is too little memory or a port that another process uses.",
)

PYTHON_TOO_OLD = Finding(
    code="Z2K-6004",
    says="Python 3.11 or later is needed; found {found}.",
    means="zk2kraft needs Python 3.11 or later; nothing was set up.",
    remedy="Install Python 3.11 or later and run the command again with it (`make PYTHON=python3.11 setup`).",
)

SETUP_FAILED = Finding(
    code="Z2K-6005",
    says="Set-up stopped at `{command}` (exit code {exit_code}).",
    means="The environment in .venv is not complete. The next run starts again and keeps earlier downloads.",
    remedy="Read the lines above this one. Without direct access to PyPI, set HTTPS_PROXY, or set ZK2KRAFT_PYPI_MIRROR "
    "to a reachable index; then run the command again.",
)

NO_FREE_PORT = Finding(
    code="Z2K-6006",
    says="No free port on {host} between {first} and {last}: {reason}.",
    means="The laboratory listens on loopback only and found no free port there.",
    remedy="Stop other laboratories on this machine (`make lab` in another terminal), or allow this user to listen "
    "on loopback; then run the command again.",
)

TOOL_FAILED = Finding(
    code="Z2K-6007",
    says="{tool} ended with exit code {exit_code}: {output}",
    means="One of Kafka's own tools refused its input. The laboratory did not go on.",
    remedy="Read the tool's output above; most often a directory was formatted before or belongs to another cluster.",
)

GUARD_LOST = Finding(
    code="Z2K-6008",
    says="The laboratory's guard process ended ({reason}); {name} was not started.",
    means="Without the guard, processes could outlive this run, so nothing more is started.",
    remedy="Start the laboratory again. If it happens twice, look for what kills processes of this user (memory?).",
)

CONTROL_REFUSED = Finding(
    code="Z2K-6012",
    says="The controller refused {operation}: {reason}.",
    means="The controller cannot do this in its present state.",
    remedy="Read its status (`zk2kraft status`), which shows what it waits for and which operations are possible.",
)

TRAFFIC_FAILED = Finding(
    code="Z2K-6013",
    says="The traffic {name} ended with exit code {exit_code}: {output}",
    means="The laboratory's clients did not end properly. The ledger is still true up to its end.",
    remedy="Read the traffic's own log; the last status file shows what was outstanding. Then run the test again.",
)

LEDGER_DAMAGED = Finding(
    code="Z2K-6014",
    says="{file}, line {line}, is not well formed: {reason}.",
    means="A file of evidence was edited, or another program wrote it. No conclusion is drawn from it.",
    remedy="Do not repair it by hand: run again with a new directory. A torn last line is no damage and is ignored.",
)

MARK_UNKNOWN = Finding(
    code="Z2K-6015",
    says="The ledger has no mark {mark} (known: {known}).",
    means="The requested moment was never marked in this run, so there is no figure for it.",
    remedy="Use a known mark, or give the moment in seconds of the wall clock.",
)

READER_FAILED = Finding(
    code="Z2K-6016",
    says="The outside reader gave no report (exit code {exit_code}): {output}",
    means="Nothing was checked, so it is unknown whether anything was lost.",
    remedy="Read its output; most often ZooKeeper or a broker does not run. Start it, then run the reader again.",
)

DEMO_NOT_POSSIBLE = Finding(
    code="Z2K-6017",
    says="The demo cannot run: {reason}.",
    means="Nothing was started or changed.",
    remedy="Correct the named cause and run it again; `zk2kraft demo --help` shows the options.",
)

DEMO_STOPPED = Finding(
    code="Z2K-6018",
    says="The demo stopped in {phase}: {reason}.",
    means="The migration did not go on as the demo expected. Its clusters and controllers were stopped. The directory "
    "with all logs was kept.",
    remedy="Read the reason, then service/server.log and the brokers' logs in the directory. The next demo there "
    "moves them to `before`.",
)

REHEARSAL_OUT_UNUSABLE = Finding(
    code="Z2K-6019",
    says="{directory} cannot be used for a rehearsal: {reason}.",
    means="Nothing was read or copied. Existing content there is never overwritten.",
    remedy="Name a directory with --out that does not exist or is empty.",
)
