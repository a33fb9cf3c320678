"""The service, its database, its operations and processes: Z2K-4xxx."""

from __future__ import annotations

from migrator.findings.finding import Finding, Severity

SERVE_CONFIG = Finding(
    code="Z2K-4001",
    says="{file}: {key}: {reason}.",
    means="The service would run differently from what its configuration says, so it does not start.",
    remedy="Correct or remove the key; `zk2kraft serve --help` names those that exist.",
)

REQUEST_NOT_UNDERSTOOD = Finding(
    code="Z2K-4002",
    says="The request was not understood: {reason}.",
    means="Nothing was recorded and nothing was changed.",
    remedy="Compare the request with /api/v1/openapi.json, correct it, and send it again.",
)

NOT_POSSIBLE_HERE = Finding(
    code="Z2K-4003",
    says="{operation} is not possible in {phase}; possible here: {possible}.",
    means="The table of transitions has no such step. Nothing was recorded and nothing was changed.",
    remedy="Look at the phase with `zk2kraft status`, and ask for one of the steps that the line names.",
)

NO_SUCH_THING = Finding(
    code="Z2K-4004",
    says="There is no {what}.",
    means="The address names something that this service does not have.",
    remedy="List what there is with `zk2kraft migrations` or `zk2kraft audits`.",
)

GATE_CLOSED = Finding(
    code="Z2K-4005",
    says="{operation} is refused by its gate: {reason}.",
    means="At least one condition of the step does not hold now. Nothing was changed.",
    remedy="`zk2kraft gates` shows each check with what was seen. Mend what fails (its code has a page) and ask again.",
)

VERSION_MOVED = Finding(
    code="Z2K-4006",
    says="The migration is at version {found}; the request expected {expected}.",
    means="Something happened since the request was made up, so it may not mean the same now. Nothing was changed.",
    remedy="Look at the migration again; if the step is still wanted, ask for it with the new version.",
)

KEY_USED_AGAIN = Finding(
    code="Z2K-4007",
    says="The Idempotency-Key {key} was used for another request.",
    means="A key stands for one request, so that repeating it is safe. Nothing was recorded.",
    remedy="Use a new key for a new operation, and the same key only to repeat the same request.",
)

NOT_IN_THIS_RELEASE = Finding(
    code="Z2K-4008",
    says="{phase} is not in this release.",
    means="This release goes as far as dual-write and back. Nothing was changed.",
    remedy="Stay in dual-write or roll back; a later release goes on from here.",
)

OPERATION_PENDING = Finding(
    code="Z2K-4009",
    says="{operation} was asked for by {who} and is not settled yet ({link}).",
    means="Two operations at a time could mean something that nobody wants. The second was not recorded.",
    remedy="Wait until the first one is settled, or undo (`zk2kraft abort`, `rollback`), which takes its place.",
)

BEYOND_LOOPBACK = Finding(
    code="Z2K-4010",
    says="The service may not listen on {host}: it is not a loopback address.",
    means="Without tokens and TLS anybody who reaches the port could move the cluster. This release has neither.",
    remedy="Listen on 127.0.0.1 and reach it through an SSH tunnel (`ssh -L 8085:127.0.0.1:8085 HOST`).",
)

GATES_NOT_PAUSED = Finding(
    code="Z2K-4011",
    says="{file} has zk2kraft.gates={value}.",
    means="Such a controller takes over by itself, without the service's gates and history. It is not started.",
    remedy="Set zk2kraft.gates=pause in the file of every controller that the service looks after.",
)

CONTROLLER_DOES_NOT_STAY = Finding(
    code="Z2K-4012",
    says="Controller {node} ended {times} times soon after its start; its last words: {words}",
    means="It is not started again by itself. Until it runs, this migration cannot go on, nor be undone by it.",
    remedy="Read its log ({log}) and mend the cause, then `zk2kraft resume` lets the service start it again.",
)

SERVICE_RUNS_ALREADY = Finding(
    code="Z2K-4013",
    says="{directory} is in use by another `zk2kraft serve` ({holder}).",
    means="Two services on one database would both act on the cluster. This one does not start.",
    remedy="Use the one that runs, stop it first, or give this one a directory of its own.",
)

INSPECTION_FAILED = Finding(
    code="Z2K-4014",
    says="`zk2kraft {command}` gave no result: {reason}",
    means="Nothing is known from this run, so the gates that need it stay closed.",
    remedy="Run the same command by hand and read what it says; the service tries again by itself.",
)

NAME_TAKEN = Finding(
    code="Z2K-4015",
    says="A migration named {name} exists already (number {number}, {phase}).",
    means="Two migrations of one cluster would work against each other. Nothing was created.",
    remedy="Go on with the one that exists; after a rollback create the next one under another name.",
)

DATABASE_UNUSABLE = Finding(
    code="Z2K-4016",
    says="The database {database} cannot be used: {reason}.",
    means="The service does not start: without its history it could repeat a step.",
    remedy="Look at the path, its rights and the disk; a database of a later release needs that release.",
)

NOT_CONFIRMED = Finding(
    code="Z2K-4017",
    says="The name typed, {typed}, is not the name of this cluster.",
    means="The form asks for the name so that nobody moves the wrong cluster. Nothing was recorded.",
    remedy="Make sure that this is the page of the cluster that you mean, and type its name as the page shows it.",
)

SERVICE_SILENT = Finding(
    code="Z2K-4018",
    says="The service at {url} does not answer: {reason}.",
    means="Nothing is known of the migration. The controllers go on without the service.",
    remedy="Start `zk2kraft serve`, or name the right address with --url or ZK2KRAFT_URL.",
)

NOT_OBSERVED = Finding(
    code="Z2K-4019",
    says="The service has not looked at the cluster for {seconds} s.",
    means="What it shows may be old, so no step forward is allowed.",
    remedy="Look at the log of `zk2kraft serve`; restarting it is safe at any moment.",
)

REHEARSAL_NOT_PASSED = Finding(
    code="Z2K-4020",
    says="There is no fresh rehearsal with an audit that passed: {reason}.",
    means="A rehearsal is what a takeover would commit. Without an audited one nobody knows whether it would be right.",
    remedy="Wait for the next rehearsal; if its audit found differences, look at them with `zk2kraft audits`.",
)

CONTROLLER_SILENT = Finding(
    code="Z2K-4021",
    says="Controller {node} does not answer on its control port: {reason}.",
    means="The service cannot see what the driver does, nor ask it for anything.",
    remedy="The service starts it again if it ended. If it hangs, read its log, named by `zk2kraft status`.",
)

CLUSTER_DISAGREES = Finding(
    code="Z2K-4022",
    says="The driver is in {state}, which does not follow from {phase}: {reason}.",
    means="The cluster is somewhere that this migration's history does not lead to. The service does not act on it.",
    remedy="Find out who else drives these controllers; the phase's page says how to go on from here.",
)

FOREIGN_REQUEST = Finding(
    code="Z2K-4023",
    says="The request came from {origin}, not from this service's own page.",
    means="Another web page tried to use your browser to reach the service. Nothing was recorded.",
    remedy="Open the service's own page and use its forms; programs send no Origin header.",
)

SERVICE_FAULT = Finding(
    code="Z2K-4024",
    says="The service met a fault of its own: {fault}.",
    means="This request was not answered. What the loop does is not touched by it; nothing was half done.",
    remedy="Repeat the request with the same Idempotency-Key. If it happens again, report it with the service's log.",
)

# One migration's trouble, which is no other migration's.
DATABASE_TROUBLE = Finding(
    code="Z2K-4101",
    says="The database did not do its work for migration {migration}: {reason}.",
    means="This migration waits; nothing was half written. Controllers go on.",
    remedy="Free the disk, or end what locks the database. The service goes on by itself once the database answers.",
)

MIGRATION_UNREADABLE = Finding(
    code="Z2K-4102",
    says="What the database holds of migration {migration} cannot be read: {reason}.",
    means="This migration is set aside: the service does not look at it and starts nothing for it. Others go on.",
    remedy="Restore the database from its backup, or remove the migration and create it again with its inventory.",
)

ROUND_FAILED = Finding(
    code="Z2K-4103",
    says="The service met a fault of its own while it looked after migration {migration}: {fault}.",
    means="This migration waits and is tried again every few seconds. Others go on.",
    remedy="Report it with the service's log. Controllers go on; `zk2kraft rollback --help` says how to go back.",
)

CLUSTER_TAKEN = Finding(
    code="Z2K-4104",
    says="Cluster {cluster} belongs to migration {number} ({name}), which is in {phase}.",
    means="Two migrations of one cluster would start two quorums for it. This one does nothing forward.",
    remedy="Go on with the other migration, or roll it back; remove this one with `zk2kraft delete`.",
)

SERVICE_FILE_TROUBLE = Finding(
    code="Z2K-4105",
    says="The service could not use a file or start a process for migration {migration}: {reason}.",
    means="This migration waits and is tried again every few seconds. Others go on.",
    remedy="Look at the path, its rights and the space on the disk (`df`).",
)

NOT_REMOVABLE = Finding(
    code="Z2K-4106",
    says="Migration {name} cannot be {what}: {reason}.",
    means="Only a migration that holds no claim and runs no controller can be changed or removed.",
    remedy="Run `zk2kraft rollback`, wait until no controller runs, and repeat this.",
)

INVENTORY_FILE_UNUSABLE = Finding(
    code="Z2K-4107",
    says="The file {file} cannot be used as an inventory: {reason}.",
    means="Nothing was sent to the service.",
    remedy="Name a file with one JSON object; docs/service.md shows its fields.",
)

TOKEN_FILE_UNUSABLE = Finding(
    code="Z2K-4110",
    says="The token file {file} cannot be used: {reason}.",
    means="Without its token nobody can use the service, and the service does not start.",
    remedy="Run the command as the user of the service, or remove the file and start the service again.",
)

TOKEN_NEEDED = Finding(
    code="Z2K-4111",
    says="This request has {token}.",
    means="The service answers only who can read its token file. Nothing was done.",
    remedy="Use `zk2kraft` as the user of the service, or name the file in ZK2KRAFT_TOKEN_FILE; see the runbook.",
)

PATH_OUTSIDE = Finding(
    code="Z2K-4112",
    says="{path} of controller {node} lies outside the directories that this service may use: {roots}.",
    means="The service neither reads this file nor starts a controller with it.",
    remedy="Move the file, or add its directory to `roots` in the service's configuration and start the service again.",
)

NO_CLUSTER_ID = Finding(
    code="Z2K-4198",
    says="{given} is no cluster id: it has to be 22 characters of base64 (A-Z a-z 0-9 - _) that stand for 16 bytes.",
    means="Kafka's storage tool refuses it as well. A directory with another id than the cluster's is of no use.",
    remedy="Take the id that stands in ZooKeeper: `zookeeper-shell HOST:PORT/chroot get /cluster/id`.",
)

STARTED_ELSEWHERE = Finding(
    code="Z2K-4199",
    says="Controller {node} does not answer, and this service starts none (start_controllers = false).",
    means="Controllers are units or containers of their own here. The migration waits until this one answers.",
    remedy="Start it: `systemctl start zk2kraft-controller@NODE` or `docker compose up -d controller-NODE`.",
)

PROCESS_NOT_KNOWN = Finding(
    code="Z2K-4113",
    says="Controllers {nodes} answer, but the processes that their control files name are not known to be theirs.",
    means="The service sends no signal to a process that it does not recognise. These controllers go on.",
    remedy="Stop them by hand where they run (systemctl, docker, or SIGTERM to the process).",
)

SYSTEM_REFUSED = Finding(
    code="Z2K-4114",
    says="The system refused{what}: {reason}.",
    means="The command ended without an answer.",
    remedy="Look at the path, its rights and the space on the disk (`df`), or name another one; then run it again.",
)

PORT_UNUSABLE = Finding(
    code="Z2K-4115",
    says="The service cannot listen on {host}:{port}: {reason}.",
    means="The service did not start. Controllers go on.",
    remedy="End what has the port (`ss -ltnp`), or give the service another `port`.",
)

OPERATION_FORGOTTEN = Finding(
    code="Z2K-4060",
    says="The {operation} that was asked for has not begun, and no driver keeps it: {reason}.",
    means="Nothing was changed. No operation is handed on by itself: the cluster may not be what it was when it was "
    "meant.",
    remedy="Look at the migration (`zk2kraft status`, `zk2kraft gates`), and ask again if the step is still wanted.",
)

OPERATION_EXPIRED = Finding(
    code="Z2K-4061",
    says="The takeover was asked for {age} s ago and has not begun; it is not begun any more.",
    means="Nothing was changed. A takeover begins while somebody is there, and on evidence of that moment.",
    remedy="Read why it waited (`zk2kraft status`, `zk2kraft gates`), and ask again with `zk2kraft advance`.",
)

AUDITS_DIVERGED = Finding(
    code="Z2K-4025",
    says="Audits {first} and {second} of dual-write both diverged; the later one found {different} differences.",
    means="ZooKeeper and the metadata log say different things, and not only for a moment. Steps forward stay closed; "
    "the way back stays open, and compares by itself.",
    remedy="Look at the differences (`zk2kraft audits`), find who wrote beside the controller, and ask for an audit.",
)

AUDIT_OVERDUE = Finding(
    code="Z2K-4026",
    says="No audit of dual-write has passed since {since}; one is due every {every} s.",
    means="Nobody knows whether ZooKeeper and the metadata log still say the same. Steps forward stay closed; the way "
    "back stays open.",
    remedy="Read why the last audits have no result or diverged (`zk2kraft audits`), and ask for one.",
)

CONFIRMATION_DISAGREES = Finding(
    code="Z2K-4027",
    says="Audit {audit} by Spark found {different} differences in a rehearsal that the quick engine passed.",
    means="One of the two engines is wrong. The takeover is not begun until Spark confirms a later rehearsal.",
    remedy="Look at the differences of that audit (`zk2kraft audits`); report it with both audits.",
)

AUDIT_PROCESS_ENDED = Finding(
    code="Z2K-4029",
    says="The warm audit process ended twice without a result: {reason}. The audit ran in a process of its own.",
    means="The result counts as any other: only the seconds of a fresh start were lost. The next audit tries the warm "
    "process again.",
    remedy="Look at the reason, at free memory, and at `audit-process.log` in the service's directory. "
    "`audit_process_idle_s = 0` keeps no such process.",
    severity=Severity.WARNS,
)

SPARK_SAID_NOTHING = Finding(
    code="Z2K-4028",
    says="The rehearsal is not confirmed by Spark: {reason} (audit {audit}).",
    means="The quick engine passed the rehearsal, and the takeover may begin on that. The second engine has no result.",
    remedy="Repair what the reason names (Java, memory, disk), or set the migration's `audit_engine` to `quick`.",
    severity=Severity.WARNS,
)
