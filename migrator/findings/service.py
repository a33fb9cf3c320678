"""The service, its database, its operations and processes: Z2K-4001 to 4199."""

from __future__ import annotations

from migrator.findings.finding import Finding, Severity

SERVE_CONFIG = Finding(
    code="Z2K-4001",
    says="{file}: {key}: {reason}.",
    means="The service would run differently from its configuration, so it does not start.",
    remedy="Correct or remove the key; `zk2kraft serve --help` lists the keys that exist.",
)

REQUEST_NOT_UNDERSTOOD = Finding(
    code="Z2K-4002",
    says="The request is not valid: {reason}.",
    means="Nothing was recorded and nothing was changed.",
    remedy="Compare the request with /api/v1/openapi.json, correct it, and send it again.",
)

NOT_POSSIBLE_HERE = Finding(
    code="Z2K-4003",
    says="{operation} is not possible in {phase}; possible here: {possible}.",
    means="The table of transitions has no such step. Nothing was recorded or changed.",
    remedy="Check the phase with `zk2kraft status`, and use one of the possible operations.",
)

NO_SUCH_THING = Finding(
    code="Z2K-4004",
    says="There is no {what}.",
    means="The address names something that this service does not have.",
    remedy="List the existing ones with `zk2kraft migrations` or `zk2kraft audits`.",
)

GATE_CLOSED = Finding(
    code="Z2K-4005",
    says="{operation} is refused by its gate: {reason}.",
    means="At least one condition of the gate is not True now. Nothing was changed.",
    remedy="`zk2kraft gates` shows each condition with its message. Correct what is False (each code has a runbook) "
    "and repeat the operation.",
)

VERSION_MOVED = Finding(
    code="Z2K-4006",
    says="The migration is at version {found}; the request expected {expected}.",
    means="The migration changed after the request was prepared, so the request may now mean something else. Nothing "
    "was changed.",
    remedy="Check the migration again. If the step is still needed, repeat it with the new version.",
)

KEY_USED_AGAIN = Finding(
    code="Z2K-4007",
    says="The Idempotency-Key {key} was used for another request.",
    means="A key stands for one request, which makes it safe to repeat that request. Nothing was recorded.",
    remedy="Use a new key for a new operation, and the same key only to repeat the same request.",
)

OPERATION_PENDING = Finding(
    code="Z2K-4009",
    says="{operation}, requested by {who}, has not ended yet ({link}).",
    means="Two operations at the same time could have an unwanted result. The second one was not recorded.",
    remedy="Wait until the first one ends, or undo it (`zk2kraft abort`, `rollback`), which replaces it.",
)

BEYOND_LOOPBACK = Finding(
    code="Z2K-4010",
    says="The service may not listen on {host}: it is not a loopback address, and `origins` is empty.",
    means="The service has a token and no TLS. Whoever can read the connection could take the token and control the "
    "migration.",
    remedy="Listen on 127.0.0.1 and reach it through an SSH tunnel (`ssh -L 8085:127.0.0.1:8085 HOST`). In a container "
    "or behind a proxy with TLS, name in `origins` the addresses under which it is reached.",
)

GATES_NOT_PAUSED = Finding(
    code="Z2K-4011",
    says="{file} has zk2kraft.gates={value}.",
    means="Such a controller takes over by itself, without the service's gates and history. The service does not start "
    "it.",
    remedy="Set zk2kraft.gates=pause in the file of every controller that the service manages.",
)

CONTROLLER_DOES_NOT_STAY = Finding(
    code="Z2K-4012",
    says="Controller {node} ended {times} times soon after its start; its last log lines: {words}",
    means="The service does not start it again by itself. Until it runs, this migration can neither go on nor be "
    "undone with it.",
    remedy="Read its log ({log}) and remove the cause. Then `zk2kraft resume` lets the service start it again.",
)

SERVICE_RUNS_ALREADY = Finding(
    code="Z2K-4013",
    says="{directory} is in use by another `zk2kraft serve` ({holder}).",
    means="Two services on one database would both act on the cluster. This one does not start; one that runs already "
    "writes nothing more.",
    remedy="Use the running service, or stop it first, or give this one a directory and a database of its own.",
)

INSPECTION_FAILED = Finding(
    code="Z2K-4014",
    says="`zk2kraft {command}` gave no result: {reason}",
    means="This run has no result, so the gates that need it stay closed.",
    remedy="Run the same command by hand and read its output; the service tries again by itself.",
)

NAME_TAKEN = Finding(
    code="Z2K-4015",
    says="A migration named {name} exists already (number {number}, {phase}).",
    means="Two migrations of one cluster would work against each other. Nothing was created.",
    remedy="Continue the existing migration; after a rollback, create the next one with another name.",
)

DATABASE_UNUSABLE = Finding(
    code="Z2K-4016",
    says="The database {database} cannot be used: {reason}.",
    means="The service does not start: without its history it could repeat a step.",
    remedy="SQLite: check the path, its permissions and the disk. PostgreSQL: check the address, the user and the "
    "server; it needs the extra `zk2kraft[postgresql]`. A database of a later release needs that release, or the copy "
    "that was made before its schema changed (SQLite: NAME.schema-...).",
)

NOT_CONFIRMED = Finding(
    code="Z2K-4017",
    says="The name typed, {typed}, is not the name of this cluster.",
    means="The form asks for the name to protect you from changing the wrong cluster. Nothing was recorded.",
    remedy="Make sure that this page shows the cluster that you mean, and type its name as the page shows it.",
)

SERVICE_SILENT = Finding(
    code="Z2K-4018",
    says="The service at {url} gives no answer that can be read: {reason}.",
    means="The state of the migration is unknown. The controllers go on without the service.",
    remedy="Start `zk2kraft serve`, or give the right address with --url or ZK2KRAFT_URL. If the answer is of another "
    "release, use the command line of that release.",
)

NOT_OBSERVED = Finding(
    code="Z2K-4019",
    says="The service has not observed the cluster for {seconds} s.",
    means="The shown state may be old, so no step forward is allowed.",
    remedy="Read the log of `zk2kraft serve`; you can restart it safely at any moment.",
)

REHEARSAL_NOT_PASSED = Finding(
    code="Z2K-4020",
    says="There is no fresh rehearsal with an audit that passed: {reason}.",
    means="A takeover would commit what a rehearsal copied. Without an audited rehearsal, it is unknown whether that "
    "would be right.",
    remedy="Wait for the next rehearsal. If its audit found differences, read them with `zk2kraft audits`.",
)

CONTROLLER_SILENT = Finding(
    code="Z2K-4021",
    says="Controller {node} does not answer on its control port: {reason}.",
    means="The service cannot see the state of the driver or send it operations.",
    remedy="The service starts the controller again if it ended. If it hangs, read its log; `zk2kraft status` names "
    "the file.",
)

CLUSTER_DISAGREES = Finding(
    code="Z2K-4022",
    says="The driver is in {state}, which does not follow from {phase}: {reason}.",
    means="The cluster is in a state that this migration's history does not lead to. The service does not act on it.",
    remedy="Find out who else operates these controllers; the runbook of the phase says how to continue.",
)

FOREIGN_REQUEST = Finding(
    code="Z2K-4023",
    says="The request came from {origin}, not from this service's own page.",
    means="Another web page tried to use your browser to reach the service, or somebody called the service by a name "
    "that is not in its `origins`. Nothing was recorded.",
    remedy="Open the service's own page and use its forms. Programs must not send an Origin header. If people reach "
    "the service under this name, add it to `origins`.",
)

SERVICE_FAULT = Finding(
    code="Z2K-4024",
    says="The service met an internal fault: {fault}.",
    means="This request was not answered, and nothing was left half done. The reconcile loop is not affected.",
    remedy="Repeat the request with the same Idempotency-Key. If it happens again, report it with the service's log.",
)

# One migration's trouble, which is no other migration's.
DATABASE_TROUBLE = Finding(
    code="Z2K-4101",
    says="The database failed for migration {migration}: {reason}.",
    means="This migration waits; nothing was half written. The controllers go on.",
    remedy="Free space on the disk, or end what locks the database. The service continues by itself when the database "
    "answers.",
)

MIGRATION_UNREADABLE = Finding(
    code="Z2K-4102",
    says="The database rows of migration {migration} cannot be read: {reason}.",
    means="The service skips this migration: it neither observes it nor starts anything for it. Other migrations go "
    "on.",
    remedy="Restore the database from its backup, or remove the migration and create it again with its inventory.",
)

ROUND_FAILED = Finding(
    code="Z2K-4103",
    says="The service met an internal fault in its work for migration {migration}: {fault}.",
    means="This migration waits, and the service tries again every few seconds. Other migrations go on.",
    remedy="Report it with the service's log. The controllers go on; `zk2kraft rollback --help` says how to roll back.",
)

CLUSTER_TAKEN = Finding(
    code="Z2K-4104",
    says="Cluster {cluster} belongs to migration {number} ({name}), which is in {phase}.",
    means="Two migrations of one cluster would start two quorums for it. This migration makes no step forward.",
    remedy="Continue the other migration, or roll it back. Remove this one with `zk2kraft delete`.",
)

SERVICE_FILE_TROUBLE = Finding(
    code="Z2K-4105",
    says="The service could not use a file or start a process for migration {migration}: {reason}.",
    means="This migration waits, and the service tries again every few seconds. Other migrations go on.",
    remedy="Check the path, its permissions and the free space of the disk (`df`).",
)

NOT_REMOVABLE = Finding(
    code="Z2K-4106",
    says="Migration {name} cannot be {what}: {reason}.",
    means="Only a migration that holds no claim and runs no controller can be changed or removed.",
    remedy="Run `zk2kraft rollback`, wait until no controller runs, and repeat the command.",
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
    means="Without its token the service cannot be used, so it does not start.",
    remedy="Run the command as the user of the service, or remove the file and start the service again.",
)

TOKEN_NEEDED = Finding(
    code="Z2K-4111",
    says="This request has {token}.",
    means="The service answers only clients that can read its token file. Nothing was done.",
    remedy="Run `zk2kraft` as the user of the service, or name the file in ZK2KRAFT_TOKEN_FILE; see the runbook.",
)

PATH_OUTSIDE = Finding(
    code="Z2K-4112",
    says="{path} of controller {node} is outside the directories that this service may use: {roots}.",
    means="The service neither reads this file nor starts a controller with it.",
    remedy="Move the file, or add its directory to `roots` in the service's configuration and start the service again.",
)

NO_CLUSTER_ID = Finding(
    code="Z2K-4198",
    says="{given} is not a cluster id: it must be 22 characters of base64 (A-Z a-z 0-9 - _) that stand for 16 bytes.",
    means="Kafka's storage tool refuses it as well. A directory must have the cluster's own id.",
    remedy="Use the id in ZooKeeper: `zookeeper-shell HOST:PORT/chroot get /cluster/id`.",
)

STARTED_ELSEWHERE = Finding(
    code="Z2K-4199",
    says="Controller {node} does not answer, and this service does not start it (start_controllers = false, or the "
    "controller is on another host): {reason}.",
    means="Another supervisor runs this controller (a systemd unit or a container). The migration waits until it "
    "answers.",
    remedy="Start it where it runs: `systemctl start zk2kraft-controller@NODE` or `docker compose up -d "
    "controller-NODE`.",
)

STOPPED_ELSEWHERE = Finding(
    code="Z2K-4116",
    says="Controllers {nodes} still run on other hosts, where this service stops nothing.",
    means="The cluster does not need these controllers any more. A file of a stock controller is not written while one "
    "of ours runs in its place.",
    remedy="Stop them on their hosts: `systemctl stop zk2kraft-controller@NODE`. See the runbook for "
    "REPLACING_CONTROLLERS.",
)

CONTROLLER_NOT_REACHED = Finding(
    code="Z2K-4119",
    says="Controller {node} on another host cannot be asked: {reason}. It is not known whether it runs.",
    means="Only a control port that refuses connections shows that nothing runs there. Until it does, the service "
    "takes no step for which this controller has to be stopped.",
    remedy="Mend the way to its control port: certificates and token of the service, the firewall, the host's name. "
    "Where the host is gone for good, let a host without controller have its address.",
)

DATABASE_SILENT = Finding(
    code="Z2K-4120",
    says="The database of the service failed for this request: {reason}.",
    means="The request was not answered, and nothing was half written. The controllers go on.",
    remedy="Repeat the request with the same Idempotency-Key when the database answers. The log of the service and "
    "`zk2kraft migrations` name what keeps it.",
)

LOG_NOT_COPIED = Finding(
    code="Z2K-4117",
    says="The metadata log of controllers on other hosts could not be read: {reason}.",
    means="Where no directory of a controller is at hand, an audit reads the log from the leader. This audit has no "
    "result.",
    remedy="Check that this host reaches `controller.quorum.voters` of the controllers' file, with its certificates. "
    "A command that audits learns from `--controller FILE` how to speak to them. Then run the audit again.",
)

ADDRESS_NOT_DECLARED = Finding(
    code="Z2K-4118",
    says="The address of controller {node} on another host is not asked: {reason}.",
    means="The service shows its token to the addresses in `control_hosts` only. Nothing was stored.",
    remedy="Correct `control`, or add HOST:PORT to `control_hosts` in the service's configuration and start it again.",
)

PROCESS_NOT_KNOWN = Finding(
    code="Z2K-4113",
    says="Controllers {nodes} answer, but the processes named in their control files are not known to be theirs.",
    means="The service sends no signal to a process that it does not recognise. These controllers keep running.",
    remedy="Stop them by hand where they run (systemctl, docker, or SIGTERM to the process).",
)

SYSTEM_REFUSED = Finding(
    code="Z2K-4114",
    says="The system refused{what}: {reason}.",
    means="The command ended without a result.",
    remedy="Check the path, its permissions and the free space of the disk (`df`), or name another path. Then run the "
    "command again.",
)

PORT_UNUSABLE = Finding(
    code="Z2K-4115",
    says="The service cannot listen on {host}:{port}: {reason}.",
    means="The service did not start. The controllers go on.",
    remedy="End the process that uses the port (`ss -ltnp`), or give the service another `port`.",
)

OPERATION_FORGOTTEN = Finding(
    code="Z2K-4060",
    says="The requested {operation} has not begun, and no driver has it any more: {reason}.",
    means="Nothing was changed. The service does not repeat an operation by itself, because the cluster may have "
    "changed since the request.",
    remedy="Check the migration (`zk2kraft status`, `zk2kraft gates`), and repeat the operation if it is still needed.",
)

OPERATION_EXPIRED = Finding(
    code="Z2K-4061",
    says="The takeover was requested {age} s ago and has not begun; the request has expired.",
    means="Nothing was changed. A takeover begins only soon after its request, while the operator is present and the "
    "evidence is fresh.",
    remedy="Read why it waited (`zk2kraft status`, `zk2kraft gates`), and repeat it with `zk2kraft advance`.",
)

AGREED_TO_ANOTHER = Finding(
    code="Z2K-4064",
    says="Nothing was approved for {to}: the request carries {given}, and what is there now has {found}.",
    means="An approval counts for what its sender read. That has changed since, or the request does not say what was "
    "read.",
    remedy="Read it again (`zk2kraft approve --to PHASE` shows it), and approve it with its digest.",
)

AUDITS_DIVERGED = Finding(
    code="Z2K-4025",
    says="Audits {first} and {second} of dual-write both diverged; the later one found {different} differences.",
    means="ZooKeeper and the metadata log differ, and not only for a moment. Steps forward stay closed. The rollback "
    "stays possible and makes its own comparison.",
    remedy="Read the differences (`zk2kraft audits`), find out who wrote past the controller, and start another audit.",
)

AUDIT_OVERDUE = Finding(
    code="Z2K-4026",
    says="No audit of dual-write has passed since {since}; one is due every {every} s.",
    means="It is unknown whether ZooKeeper and the metadata log are still equal. Steps forward stay closed; the "
    "rollback stays possible.",
    remedy="Read why the last audits diverged or were incomplete (`zk2kraft audits`), and start another audit.",
)

BROKERS_DIVERGED = Finding(
    code="Z2K-4065",
    says="Audits {first} and {second} both found brokers that contradict the metadata log: {brokers}.",
    means="ZooKeeper and the log may be equal, and these brokers have something else: an access list that nobody told "
    "them, an older leader epoch, a log of a topic that was made again. Steps forward stay closed; the rollback stays "
    "possible.",
    remedy="Read which side stands alone on the page of the audit, mend that side as the runbook says, and start "
    "another audit.",
)

BROKERS_NOT_COMPARED = Finding(
    code="Z2K-4066",
    says="What brokers say was not compared with the log as a whole since {since}: {why}.",
    means="It is unknown whether every broker has what ZooKeeper and the log say. Steps forward stay closed; the "
    "rollback stays possible.",
    remedy="Start a broker that is down and that no roll restarts just now, or give the controllers' user Describe and "
    "Read where a broker denies it. A waiver of Z2K-4066 in the inventory file accepts one broker as not compared.",
)

CONFIRMATION_DISAGREES = Finding(
    code="Z2K-4027",
    says="Audit {audit} by Spark found {different} differences in a rehearsal that the quick engine passed.",
    means="One of the two engines is wrong. The takeover does not begin until Spark confirms a later rehearsal.",
    remedy="Read the differences of that audit (`zk2kraft audits`), and report them with both audits.",
)

AUDIT_PROCESS_ENDED = Finding(
    code="Z2K-4029",
    says="The warm audit process ended twice without a result: {reason}. The audit ran in a process of its own.",
    means="The result counts as any other; only the start of a new process cost a few seconds. The next audit uses the "
    "warm process again.",
    remedy="Check the reason, the free memory, and `audit-process.log` in the service's directory. "
    "`audit_process_idle_s = 0` turns the warm process off.",
    severity=Severity.WARNS,
)

SPARK_SAID_NOTHING = Finding(
    code="Z2K-4028",
    says="Spark has not confirmed the rehearsal: {reason} (audit {audit}).",
    means="The quick engine passed the rehearsal, which is enough for the takeover to begin. The second engine has no "
    "result.",
    remedy="Repair what the reason names (Java, memory, disk), or set the migration's `audit_engine` to `quick`.",
    severity=Severity.WARNS,
)

BODY_TOO_LARGE = Finding(
    code="Z2K-4062",
    says="A body of this request may have {most} bytes, and more came.",
    means="The rest was not read, and nothing was changed.",
    remedy="Send less. No request that the service knows is that large.",
)

CONNECTION_CLOSED = Finding(
    code="Z2K-4063",
    says="A connection of {peer} to the service was closed: {reason}.",
    means="More connections to the service are open than it takes, or somebody sends or reads too slowly. Migrations "
    "are not affected. Connections whose request is being answered go on.",
    remedy="Find out who opens them (`ss -tnp`). Where a proxy stands before the service, limit them there.",
    severity=Severity.WARNS,
)
