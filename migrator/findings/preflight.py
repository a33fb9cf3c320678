"""What else keeps a takeover from beginning: settings, levels, permissions, waivers. Z2K-1050 to 1069, 1090 to 1199."""

from __future__ import annotations

from migrator.findings.finding import Finding, Severity

PATH_MISSING = Finding(
    code="Z2K-1111",
    says="{path} does not exist in ZooKeeper: {lost}.",
    means="Every broker creates this znode at its start, so it was deleted later. The takeover writes into it or below "
    "it and would fail after the commit. The takeover waits until the znode exists.",
    remedy="Follow this code's runbook for the path. A restart of the brokers, one by one, creates most paths again; "
    "/latest_producer_id_block needs a value first.",
)

PATH_WILL_BE_CREATED = Finding(
    code="Z2K-1112",
    says="{path} does not exist in ZooKeeper; the takeover creates it, empty, before the claim.",
    means="Every broker creates this znode at its start, so it was deleted later, with everything below it.",
    remedy="Find out who deleted it and whether configuration below it was lost. An earlier export shows what was "
    "there.",
    severity=Severity.WARNS,
)

PERMISSION_MISSING = Finding(
    code="Z2K-1113",
    says="Broker {broker} denies this controller's principal {operations} on the cluster.",
    means="With an authorizer, brokers accept UpdateMetadata, LeaderAndIsr and StopReplica only from a principal with "
    "ClusterAction. They show their logs and settings only with Describe and DescribeConfigs.",
    remedy="Grant the operations to the controllers' principal with kafka-acls.sh, or add it to the brokers' "
    "super.users. Follow this code's runbook.",
)

ZOOKEEPER_TAKES_LESS = Finding(
    code="Z2K-1115",
    says="ZooKeeper server {server} accepts requests of up to {passed} bytes, and the controllers may send {limit}.",
    means="A server closes the connection at a request above its jute.maxbuffer. After a takeover such a change would "
    "be committed but never reach ZooKeeper.",
    remedy="Set `zk2kraft.zookeeper.jute.maxbuffer` in every controller's file to the smallest size that a server "
    "accepts, and restart the controllers one by one. Or raise that server's jute.maxbuffer.",
)

ZOOKEEPER_LIMIT_UNKNOWN = Finding(
    code="Z2K-1116",
    says="The largest request that ZooKeeper server {server} accepts is unknown: {reason}.",
    means="Every server of zookeeper.connect is tested. A server with a smaller limit would close the connection at a "
    "large write as soon as the controllers' session moves there.",
    remedy="Bring the server back, or remove it from `zookeeper.connect`, then check again.",
    severity=Severity.WARNS,
)

CONTROLLERS_RUN = Finding(
    code="Z2K-1118",
    says="Our controllers are running: {controllers}.",
    means="They are the cluster's controllers. A rollback without controllers would remove their claim while they "
    "answer brokers, and what they have not yet written to ZooKeeper would be lost. Nothing was changed.",
    remedy="Better: use them and run `zk2kraft rollback`. Otherwise stop the named processes, and keep their "
    "supervisor (systemd, the service) from starting them again. A session of a killed process ends within its "
    "time-out (zookeeper.session.timeout.ms, default 18 s). Then run the command again.",
)

PEER_DENIED = Finding(
    code="Z2K-1119",
    says="Controllers deny requests of {principal}: it lacks {operation} on the cluster.",
    means="Only brokers and controllers need this operation. A denied controller elects no leader and follows none. A "
    "denied broker is not registered, or is fenced.",
    remedy="Add the principal to super.users in every controller's properties file and restart the controllers one by "
    "one. Or, where ACLs are already copied, grant the operation with kafka-acls.sh. Follow this code's runbook.",
    severity=Severity.WARNS,
)

WAIVED = Finding(
    code="Z2K-1120",
    says="The waiver {waiver} lifts Z2K-1008 from {count} partitions, the first {first}.",
    means="They are not fully in sync, and the controllers' files accept that. Their leaders cannot be replaced during "
    "the seconds of the takeover.",
    remedy="None needed. When the replicas are in sync again, remove the waiver from the files (zk2kraft.waive).",
    severity=Severity.WARNS,
)

WAIVER_EXCEEDED = Finding(
    code="Z2K-1121",
    says="The waiver {waiver} lifts nothing: {count} of the {total} partitions that it matches are not fully in sync.",
    means="That is more than the waiver's share, so each of these partitions blocks as if there were no waiver.",
    remedy="Find out why more partitions than accepted are out of sync. Bring replicas back into sync, or accept a "
    "larger share in the controllers' files (zk2kraft.waive).",
    severity=Severity.WARNS,
)

BROKER_SETTING_FORBIDS = Finding(
    code="Z2K-1050",
    says="Broker {broker} runs with {key}={value}: {reason}.",
    means="The settings of the broker and of the controllers do not fit. In dual-write or later, requests would be "
    "authorized, sent or stored differently than now.",
    remedy="Follow this code's runbook for the key: change the broker's file and restart the broker, or change the "
    "controllers' files. Where a class of your own decides on requests, Kafka's own controllers can run it: "
    "`engine: stock`.",
    cases=("F-09", "F-18", "F-37", "F-38", "F-39", "F-50"),
)

BROKER_SETTING_FOR_LATER = Finding(
    code="Z2K-1051",
    says="Broker {broker} runs with {key}={value}: {reason}.",
    means="It does no harm now. Change it before you restart this broker in KRaft mode.",
    remedy="Follow this code's runbook for the key when you write the broker's file for KRaft mode.",
    severity=Severity.WARNS,
    cases=("F-37", "F-53"),
)

EXAMPLE_DIRECTORY = Finding(
    code="Z2K-1052",
    says="{file}: {directory} is a directory of Kafka's default or of its example files.",
    means="It is below /tmp. Many systems empty /tmp at a restart, and some remove old files from it every day. The "
    "controller would lose its metadata log and its votes.",
    remedy="Set `log.dirs` or `metadata.log.dir` to a directory on a durable disk that no other process uses. Format "
    "that directory with `zk2kraft storage format`.",
    severity=Severity.WARNS,
    cases=("F-59",),
)

RELEASE_TOO_OLD = Finding(
    code="Z2K-1053",
    says="Broker {broker} runs Kafka {release}, which cannot read a metadata log at {level}.",
    means="A broker that reads a record that it does not know ends at once. This controller gives such a broker "
    "nothing of the log: it goes on in ZooKeeper mode, is not registered, and the takeover gate stays closed.",
    remedy="If every broker's inter.broker.protocol.version is lower than that level, and 3.6-IV1 or later, format "
    "the controllers again with it (`zk2kraft storage format -r`). Otherwise upgrade the broker first. Follow the "
    "runbook.",
    cases=("F-12",),
)

RELEASE_KEEPS_LEADERS = Finding(
    code="Z2K-1054",
    says="Broker {broker} runs Kafka {release}, which refuses a KRaft controller's word about a partition whose leader "
    "epoch did not change.",
    means="A flaw of Kafka 3.6.0 and 3.6.1 (KAFKA-16121), mended in 3.6.2 and 3.7.0. After a takeover such a broker "
    "would refuse the metadata that every broker gets, and later every reassignment. Until then this controller gives "
    "it nothing of the log: it goes on in ZooKeeper mode, and the takeover gate stays closed.",
    remedy="Upgrade the broker to 3.6.2 or later (3.9 is best) before the takeover. Follow the runbook.",
    cases=("F-12",),
)

EARLIER_LOG = Finding(
    code="Z2K-1055",
    says="Broker {broker} still follows the metadata log of an earlier quorum.",
    means="Most likely it was not restarted since that quorum served at these addresses. Told where its log parts from "
    "this one, its process would end. Before the takeover this controller gives it nothing of the log: it serves its "
    "clients, and the takeover gate stays closed.",
    remedy="Restart the broker: its start in ZooKeeper mode deletes the old log (before Kafka 3.7.2 somebody has to). "
    "Follow the runbook.",
)

SWITCH_OFF_WAITS = Finding(
    code="Z2K-1058",
    says="{path} does not set remote.storage.enable=true, and broker {broker} still reads {count} partitions from "
    "remote storage, the first is {first} (up to offset {offset}); brokers whose replica lost that already: {lost}.",
    means="In ZooKeeper mode Kafka 3.9 takes this switch-off, and no broker applies it until its next restart. Then "
    "the topic begins where its local log begins: consumers of older records get OFFSET_OUT_OF_RANGE, and these "
    "records are lost. Until then everything can be read.",
    remedy="Restart no broker. First set remote.storage.enable=true on the topic again with kafka-configs: nothing is "
    "lost then. If the message names brokers that lost records already, follow the runbook before any other step.",
)

CONTROLLERS_WITHOUT_TIERS = Finding(
    code="Z2K-1059",
    says="{count} topics are tiered, the first is {first}, and {file} does not set "
    "remote.log.storage.system.enable=true.",
    means="In dual-write and later, controllers decide on topics. Without this key they refuse to create a tiered "
    "topic, and to change the configuration of one. Nothing that is stored is lost.",
    remedy="Set remote.log.storage.system.enable=true in every controller's file, and restart the controllers one by "
    "one.",
)

APPLIED_UNKNOWN = Finding(
    code="Z2K-1060",
    says="What the next restart of broker {broker} would change is not known: {reason}.",
    means="A broker can have a setting in ZooKeeper or in its file that counts only after a restart. Some of them make "
    "records unreadable. So no broker is restarted before this one has answered.",
    remedy="Correct what the message names. If that is not possible, look for the changes yourself with the runbook, "
    "and then waive Z2K-1060 for this broker in the inventory, with a reason.",
)

BROKER_WITHOUT_TIERS = Finding(
    code="Z2K-1062",
    says="{count} topics are tiered, the first is {first}, and broker {broker} runs without "
    "remote.log.storage.system.enable=true.",
    means="A broker without remote storage ends at its start while a topic is tiered. This one was started before. A "
    "migration restarts every broker at least once.",
    remedy="Give its file the remote.* settings of the other brokers, and restart it before the migration does. It has "
    "to be in sync again before the next step.",
)

TIERS_REFUSED = Finding(
    code="Z2K-1063",
    says="{count} tiered topics, the first is {first}, do not go with what they inherit from {file}: {reason}.",
    means="In dual-write and later, controllers check a topic's retention against the defaults of their own files. "
    "They would refuse every change of the configuration of such a topic. Nothing that is stored is lost.",
    remedy="Give every controller's file the log.retention.* and log.local.retention.* lines of the brokers, and "
    "restart the controllers one by one. Or set the total retention on the topic itself.",
)

ONE_REPLICA = Finding(
    code="Z2K-1061",
    says="{count} partitions have one replica, such as {first}; by broker: {brokers}.",
    means="Each of them is offline from the stop of its broker until that broker has started and recovered its logs: "
    "nobody reads or writes it. A migration restarts every broker at least once. No record is lost by that.",
    remedy="Add a replica with kafka-reassign-partitions. Or let the owner accept it, once for all of them: a waiver "
    "Z2K-1061 in the inventory, with owner, reason and end. Without it no broker is restarted.",
    severity=Severity.WARNS,
)

IBP_DIFFERS = Finding(
    code="Z2K-1090",
    says="Broker {broker} runs at inter.broker.protocol.version {ibp}; this quorum was formatted with metadata.version "
    "{level}.",
    means="The quorum registers a broker only at exactly its own level, so this broker is not registered and the "
    "takeover gate stays closed. The level of a log cannot change during a migration.",
    remedy="If every broker runs at that inter.broker.protocol.version, format the controllers again with it "
    "(`zk2kraft storage format -r`). If only this broker does, give it the version of the others and restart it.",
    cases=("F-12",),
)

ZNODES_OF_OTHERS = Finding(
    code="Z2K-1056",
    says="{count} znodes beside Kafka's are in the chroot {chroot}, the first {first}.",
    means="Another application shares this part of ZooKeeper with Kafka. Its znodes are not read, exported, restored "
    "or changed, so it may protect them.",
    remedy="None needed for the migration. Find out whose they are before somebody switches ZooKeeper off: that "
    "application still needs it after the migration.",
    severity=Severity.WARNS,
)

EXPORT_REFUSED = Finding(
    code="Z2K-1057",
    says="The ZooKeeper export before a takeover would fail: {path} refuses to be read ({reason}).",
    means="The takeover gate needs an export of all znodes of Kafka's. This one is needed for nothing else, so that "
    "only the gate would notice, after every broker was restarted for the migration.",
    remedy="Read the access list of that path (getAcl). If it is not that of the other znodes, somebody protected it "
    "by hand: its owner has to let the brokers' login read it. Follow this code's runbook.",
)

LEVEL_WITHOUT_TOKENS = Finding(
    code="Z2K-1091",
    says="{count} delegation tokens are in ZooKeeper; metadata.version {level} has no tokens, 3.6-IV2 has.",
    means="In dual-write, tokens could not be created, renewed or expired, and a snapshot of stock controllers would "
    "omit them. Below that level ZooKeeper serves tokens and KRaft does not.",
    remedy="Raise the brokers' inter.broker.protocol.version to 3.6-IV2 or later and format the controllers with the "
    "same level, or expire the tokens with kafka-delegation-tokens.",
    cases=("F-38",),
)

ZOOKEEPER_LOGIN_UNUSABLE = Finding(
    code="Z2K-1092",
    says="The login for ZooKeeper in {file} cannot be used: {reason}.",
    means="KAFKA_OPTS names a JAAS file, as for Kafka's own processes. Without a login from it, ZooKeeper would treat "
    "this process as anonymous. The process does not start.",
    remedy="Correct the file: its section Client has ZooKeeper's DigestLoginModule or Java's Krb5LoginModule, as on "
    "brokers. Kerberos needs zk2kraft[kerberos], and a keytab or a ticket cache. Or "
    "remove -Djava.security.auth.login.config from KAFKA_OPTS if ZooKeeper needs no login.",
    cases=("F-18",),
)

ZOOKEEPER_TLS_UNUSABLE = Finding(
    code="Z2K-1093",
    says="{origin}: {key} cannot be used for TLS to ZooKeeper: {reason}.",
    means="TLS to ZooKeeper is wanted, and this setting cannot be honoured. Nothing was connected, read or changed: a "
    "connection that is less secure than its settings is not made.",
    remedy="Correct the key in the controller's file (zookeeper.ssl.*), or in KAFKA_OPTS (-Dzookeeper.ssl.*) of a "
    "command or the service. The brokers' settings show what works; see docs/drop-in.md.",
    cases=("F-18",),
)
