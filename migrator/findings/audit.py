"""An audit that could not be made, or not as a whole: Z2K-5xxx and 2201."""

from __future__ import annotations

from migrator.findings.finding import Finding, Severity

AUDIT_CANNOT_READ = Finding(
    code="Z2K-5001",
    says="The audit cannot read {what}: {reason}.",
    means="What was not read was not compared, so this audit is incomplete.",
    remedy="Name a directory with a metadata log, or the address of the active controller, and run it again.",
)

LOG_INCONSISTENT = Finding(
    code="Z2K-5002",
    says="The metadata log is inconsistent at {record}: {reason}.",
    means="The rest of the log cannot be understood, so this audit did not pass. A controller could not read this log "
    "either.",
    remedy="Audit another controller's directory. If it has the same fault, do not take over with this log: run "
    "`zk2kraft log dump` on it and keep its output for the owner.",
)

SPARK_FAILED = Finding(
    code="Z2K-5003",
    says="Spark could not run the audit on {master}: {reason}.",
    means="Nothing was compared, or only a part. Neither side was changed.",
    remedy="Check that Java 17 starts on this machine and that 2 GB of memory and 1 GB of disk are free, then run it "
    "again. `--engine quick` makes the same audit without Spark.",
)

AUDIT_OUT_UNUSABLE = Finding(
    code="Z2K-5004",
    says="{directory} cannot be used for this audit: {reason}.",
    means="Nothing was read or compared. The results of an earlier audit are never overwritten.",
    remedy="Name a directory, or an address, that does not exist or is empty. To see an earlier audit again, name the "
    "directory that it kept.",
)

LOG_NOT_WHOLE = Finding(
    code="Z2K-5005",
    says="The metadata log in {directory} is not what a controller should start on: {reason}.",
    means="A controller that starts here would serve something else than the cluster agreed to.",
    remedy="Do not start a controller on this directory. Check the directories of the other voters; if they are well "
    "and agree, this one is replaced.",
)

LOGS_PART = Finding(
    code="Z2K-5006",
    says="The metadata logs in {directories} part: {reason}.",
    means="What a quorum commits is the same in every voter's log. One of these was changed by hand, damaged in a way "
    "that no checksum shows, or belongs to another quorum.",
    remedy="Keep both directories. Check those of all voters together: the log that stands alone is the wrong one.",
)

SPARK_IN_CLEAR = Finding(
    code="Z2K-5007",
    says="Spark master {master} is on a network, and Spark does not protect what an audit sends: {missing}.",
    means="Tasks carry the login for ZooKeeper and `password.encoder.secret` where there are such, and rows of both "
    "sides go between the executors and their disks. Nothing was sent yet.",
    remedy="Set the missing keys in spark-defaults.conf of this machine and of the Spark cluster, or run the audit "
    "with `--master local[*]` or `--engine quick`.",
)

KEPT_AUDIT_UNREADABLE = Finding(
    code="Z2K-5008",
    says="{file} is no report of an audit that this release can read: {reason}.",
    means="Nothing was compared or made again. The file is unchanged, and it says nothing about the cluster.",
    remedy="Name the directory that `zk2kraft audit --out` kept, or the `report.json` in it. For a report of a newer "
    "release, use that release.",
)

NO_INPUTS_KEPT = Finding(
    code="Z2K-5009",
    says="The audit in {directory} cannot be judged again: {reason}.",
    means="Only a finished audit by Spark keeps what it read. The report in that directory is unchanged.",
    remedy="Make the audit again with `--engine spark --out DIRECTORY`, and replay that one. `zk2kraft audit report` "
    "and `zk2kraft audit diff` need no inputs.",
)

ZOOKEEPER_FILES_UNUSABLE = Finding(
    code="Z2K-5010",
    says="ZooKeeper's files in {file} cannot be audited: {reason}.",
    means="These files do not hold the tree that a server had at one moment, or hold it with a gap. Nothing was "
    "compared, and nothing was changed.",
    remedy="Copy the files of one server again, snapshots before logs, and name its dataDir and its dataLogDir. If the "
    "error stays, copy from another server of the ensemble.",
)

REMOTE_REPORT_UNUSABLE = Finding(
    code="Z2K-5012",
    says="The segments in tiered storage cannot be compared with {file}: {reason}.",
    means="Nothing was compared, so it is not known whether every segment is still there. The file is unchanged.",
    remedy="Name a file that `zk2kraft log tiered --json` printed, and later copies of the same partitions of "
    "__remote_log_metadata, from a broker that is in sync with them.",
)

DISK_LISTING_UNUSABLE = Finding(
    code="Z2K-5013",
    says="{file} is no listing of a broker's disks that can be compared: {reason}.",
    means="No broker was read, so this audit is incomplete. What ZooKeeper and the log say was compared.",
    remedy="Run `zk2kraft log disks` again on that broker's host with all of its log directories, and give the file "
    "that it wrote, one for each broker.",
)

LOG_DIRECTORY_UNUSABLE = Finding(
    code="Z2K-5014",
    says="{directory} cannot be listed as a broker's log directory: {reason}.",
    means="The listing has no last line, and no audit takes it. Nothing in the directory was changed.",
    remedy="Name each directory of the broker's log.dirs once, as a user who may read it, and run the command again.",
)

LOGIN_STAYS_HERE = Finding(
    code="Z2K-5015",
    says="The Kerberos login of {principal} for ZooKeeper cannot go to the executors of {master}.",
    means="Executors read ZooKeeper themselves, with the login of this process. A user with a password, and TLS keys, "
    "are sent to them. A keytab is not: it is the key of its principal for every service. Nothing was sent yet.",
    remedy="Run the audit with `--master local[*]` or `--engine quick`; this process alone reads ZooKeeper then.",
)

BROKERS_ASKED_HERE = Finding(
    code="Z2K-5017",
    says="The Kerberos login of {principal} for brokers cannot go to the executors of {master}: this process asked the "
    "brokers, one core for all.",
    means="Executors ask brokers themselves, with the login of the controller's file. A password, a token and TLS keys "
    "are sent to them. A keytab is not: it is the key of its principal for every service. What brokers said counts.",
    remedy="None needed. If it takes too long, run the audit with `--master local[*]`: its tasks log in by the keytab.",
    severity=Severity.WARNS,
)

ADDRESS_UNUSABLE = Finding(
    code="Z2K-5016",
    says="{address} cannot be used for kept audits: {reason}.",
    means="It is an address of a Hadoop file system, and Hadoop's client in Spark could not work with it. What an "
    "earlier audit kept there is unchanged. An audit that could not be kept did not pass.",
    remedy="Check the address. In spark-defaults.conf, name the jars of its file system (spark.jars, or "
    "spark.jars.packages) and its credentials (spark.hadoop.fs...), or name a directory.",
)

AUDIT_ROWS_LOST = Finding(
    code="Z2K-2201",
    says="The audit lost rows: to {step}, it expected {expected} and has {found}.",
    means="A part of one side was not compared, so this audit is incomplete.",
    remedy="Name an output directory that every Spark executor sees and that nothing else changes, then run the audit "
    "again.",
)

LOG_LOSES_SCRAM = Finding(
    code="Z2K-5011",
    says="A node of Kafka 3.5 to 4.4 that starts on the log in {directory} may not know {count} {mechanism} "
    "credentials: {users}.",
    means="The log is right. Kafka replays it wrongly: with a removed credential it loses those that are set beside "
    "it. Those users cannot log in to that node. A controller that starts like this writes it into its next snapshot, "
    "and then the credentials are gone for good.",
    remedy="Restart no node until each controller has written a snapshot behind the last removal; one that runs writes "
    "it within metadata.log.max.snapshot.interval.ms (an hour). Then check again.",
)
