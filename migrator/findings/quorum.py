"""Bytes, logs, configuration and connections of a controller: Z2K-3xxx."""

from __future__ import annotations

from migrator.findings.finding import Finding, Severity

MALFORMED_BYTES = Finding(
    code="Z2K-3001",
    says="{what} is not well formed at byte {position}: {reason}.",
    means="Bytes from a peer or a file do not follow Kafka's format. None of them were used.",
    remedy="From a peer: check its version and log; the connection was closed. From a file: keep a copy and follow "
    "this code's runbook; never edit the file.",
)

UNSUPPORTED_IN_VERSION = Finding(
    code="Z2K-3002",
    says="{message} version {version} has no field {field}, but it holds {value}.",
    means="This message in this version cannot carry a value that must not be lost.",
    remedy="This is a fault of zk2kraft: report it with this line. Nothing was sent.",
)

RECORD_NOT_SUPPORTED = Finding(
    code="Z2K-3003",
    says="The metadata log holds a {record}, which this release does not support.",
    means="A controller that led this log would lose the content of that record. The controller stops; nothing was "
    "written.",
    remedy="Run a stock controller on this directory, or a release of zk2kraft that supports the record. Keep "
    "zookeeper.metadata.migration.enable as it was: without it a stock controller finalizes the migration.",
)

CANNOT_ACTIVATE = Finding(
    code="Z2K-3004",
    says="This controller may not become active: {reason}.",
    means="Its configuration does not fit the metadata log. It stopped before it wrote anything.",
    remedy="Read the reason: correct zookeeper.metadata.migration.enable in the file, give the directory to a stock "
    "controller, or format a fresh quorum.",
    cases=("F-04", "F-11", "F-48"),
)

CONFIG_NOT_HONOURED = Finding(
    code="Z2K-3010",
    says="{file}: {key}={value} cannot be honoured: {reason}.",
    means="The controller would run differently from its file, so it does not start.",
    remedy="Change or remove the key; where the estate needs it, let Kafka's own controllers take over "
    "(`engine: stock`); see docs/drop-in.md.",
    cases=("F-21",),
)

CONFIG_MISSING = Finding(
    code="Z2K-3011",
    says="{file}: {key} is missing ({reason}).",
    means="A controller cannot start without it.",
    remedy="Add the key, which a stock Kafka controller needs as well.",
)

CONFIG_UNREADABLE = Finding(
    code="Z2K-3017",
    says="{file} cannot be read: {reason}.",
    means="The configuration of the controller is unknown, so no controller starts with it.",
    remedy="Name an existing properties file of a controller that this user may read.",
)

DIRECTORY_UNUSABLE = Finding(
    code="Z2K-3012",
    says="{directory} cannot be used: {reason}.",
    means="The directory is not formatted, belongs to another node or cluster, or is damaged. Nothing was changed.",
    remedy="Check log.dirs, metadata.log.dir and node.id. Format a new node with `zk2kraft storage format` or the "
    "storage tool of Kafka 3.9. If another directory is in the way, move it aside and never delete it.",
    cases=("F-14", "F-15"),
)

DIRECTORY_LOCKED = Finding(
    code="Z2K-3013",
    says="{directory} is in use by another process.",
    means="Two controllers on one directory would destroy the metadata log.",
    remedy="Find the other process (a stock controller or another zk2kraft controller) and stop it first.",
)

LOG_DAMAGED = Finding(
    code="Z2K-3014",
    says="{file} is damaged at byte {position}: {reason}.",
    means="Acknowledged records may be lost. (A torn end of the log is cut off by itself; this damage is not a torn "
    "end.)",
    remedy="Keep a copy of the directory. Before a takeover: format a fresh one. In dual-write: roll back with "
    "`zk2kraft rollback --without-controllers` while all brokers are in ZooKeeper mode.",
)

DYNAMIC_VOTERS = Finding(
    code="Z2K-3020",
    says="The quorum of this directory has dynamic voters (kraft.version 1), as {file} shows: {what}.",
    means="Its voters are those in its log, not those of controller.quorum.voters. This release supports static voters "
    "only and would count other majorities than the rest of the quorum. Nothing was changed.",
    remedy="A new quorum: format it without --standalone and --initial-controllers. A quorum that holds data: run "
    "stock controllers on it, because it cannot become static again.",
)

TLS_NOT_USABLE = Finding(
    code="Z2K-3021",
    says="{file}: {key} cannot be used: {reason}.",
    means="A listener needs TLS, and this setting of the file cannot be honoured. Nothing was started or changed.",
    remedy="Correct the key or the store (JKS, PKCS12 and PEM are read), with the passwords that Kafka needs as well. "
    "The runbook says how to look into a store, and how to convert other kinds.",
    cases=("F-16",),
)

SASL_NOT_USABLE = Finding(
    code="Z2K-3022",
    says="{file}: {key} cannot be used: {reason}.",
    means="A listener needs SASL, and this setting of the file cannot be honoured. Nothing was started or changed.",
    remedy="Use PLAIN over TLS, or TLS client certificates, on the controller listener, with the login in the file; "
    "see the runbook. GSSAPI and OAUTHBEARER are possible to brokers. Where controllers have to listen with them, "
    "Kafka's own do: `engine: stock`.",
    cases=("F-16",),
)

LOGIN_NOT_USABLE = Finding(
    code="Z2K-3018",
    says="{file}: the login by {mechanism} cannot be used here: {reason}.",
    means="The file says by which keytab, ticket cache or token brokers or controllers are logged in to, and this host "
    "lacks what that needs. Nothing was started or changed.",
    remedy="Install zk2kraft[kerberos] for GSSAPI. Give this process's user the right to read the keytab, krb5.conf or "
    "the token's file, and let whoever writes the token renew it before it ends.",
    cases=("F-16",),
)

CONFIG_VALUE_NOT_FOUND = Finding(
    code="Z2K-3023",
    says="{file}: {key} takes its value from the config provider {provider}, which does not have it: {reason}.",
    means="A stock controller would run with the text of the placeholder as the value, and fail later. This one does "
    "not start. Nothing was changed.",
    remedy="Correct the placeholder or config.providers, or give the controller's user the right to read the file; a "
    "variable has to be set in the environment of the controller. The runbook has the forms.",
    cases=("F-21",),
)

CONFIG_HELPER_NOT_USABLE = Finding(
    code="Z2K-3024",
    says="{file}: {key}={value} cannot be used: {reason}.",
    means="This executable has the values of a config provider. It may not be run, or it did not answer as "
    "docs/drop-in.md says. The controller does not start. Nothing was changed.",
    remedy="Name an executable by its absolute path. It, its directory and the properties file belong to root or to "
    "the user of the controller, and nobody else may write them. If it was run, run it by hand as that user; the "
    "runbook says how.",
    cases=("F-21",),
)

UNKNOWN_RELEASE = Finding(
    code="Z2K-3016",
    says="{release} is not a release with a known metadata.version (known: {known}).",
    means="The directory was not formatted.",
    remedy="Use the brokers' inter.broker.protocol.version, for instance 3.9.",
)

CERTIFICATES_NOT_RENEWED = Finding(
    code="Z2K-3125",
    says="Changed keys or certificates cannot be used, and those that were read before are used on: {reason}.",
    means="A file of a key or certificate was replaced while this process runs. New connections still show, or trust, "
    "what the file had before; a restart would not find what it needs.",
    remedy="Correct the file; it is read again within ten seconds of the next connection. Do not restart before.",
)

LOG_NOT_ON_DISK = Finding(
    code="Z2K-3121",
    says="Controller {node} cannot write its metadata log: {reason}.",
    means="A voter acknowledges only what is on its disk. This process ends; the other voters elect a leader and go "
    "on.",
    remedy="Repair the reason (disk full, disk error, no file descriptor, no thread), then start this controller "
    "again. It reads missing records from the others.",
)

LOG_FLUSH_SILENT = Finding(
    code="Z2K-3122",
    says="The disk of controller {node} has not confirmed a flush of the metadata log for {seconds} s.",
    means="This controller acknowledges nothing and does not lead until the disk answers. The other voters go on.",
    remedy="Check the disk of metadata.log.dir (kernel log, storage, iostat). When the disk answers, this controller "
    "catches up by itself. If the process stays stuck, end it and start it again.",
)

CONNECTIONS_FULL = Finding(
    code="Z2K-3123",
    says="All {most} connections are in use: {refused} were refused and {closed} were closed for others.",
    means="More connections are open than max.connections or the process's file descriptors allow. The controller "
    "closes the connections that were silent longest, so voters and brokers still get in.",
    remedy="Find out who opens them (ss -tn), raise the limit of open files of this process, and start it again.",
    severity=Severity.WARNS,
)

SNAPSHOT_NOT_WRITTEN = Finding(
    code="Z2K-3124",
    says="Controller {node} cannot write the metadata snapshot that ends at offset {end}: {reason}.",
    means="The log still has every record, and the quorum goes on. The log grows until a snapshot can be written, and "
    "a starting controller must read more.",
    remedy="Repair the reason (disk full, permissions). The controller tries the next snapshot after "
    "metadata.log.max.record.bytes.between.snapshots or metadata.log.max.snapshot.interval.ms.",
    severity=Severity.WARNS,
)

CONTROL_CONNECTION_CLOSED = Finding(
    code="Z2K-3126",
    says="A connection of {peer} to the control port was closed: {reason}.",
    means="More connections to the control port are open than it takes, or somebody sends or reads too slowly. The "
    "metadata log and the Kafka listener are not affected. Connections whose request is being answered go on.",
    remedy="Find out who opens them (`ss -tnp` on this host). Close the port of other hosts to all but the service.",
    severity=Severity.WARNS,
)
