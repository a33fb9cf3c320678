"""What stands in ZooKeeper and cannot be copied as it is, or needs a look: codes Z2K-1001 to 1049 and 1070 to 1089."""

from __future__ import annotations

from migrator.findings.finding import Finding, Severity

MALFORMED_ZNODE = Finding(
    code="Z2K-1001",
    says="{path} cannot be read: {reason}.",
    means="The content of this znode is not what Kafka writes there. A copy would need guesses, so nothing is copied.",
    remedy="Read the znode with `zk2kraft export` or ZooKeeper's shell and find out who wrote it. Repair or remove it "
    "with Kafka's own tools, then run `zk2kraft check` again.",
)

TOPIC_ID_MISSING = Finding(
    code="Z2K-1002",
    says="{path} has no topic_id.",
    means="The topic was written by hand or by a broker below IBP 2.8. Its id in KRaft would be a guess, and brokers "
    "move aside the logs of a wrong id.",
    remedy="Restart the ZooKeeper controller and delete nothing: at IBP 2.8 or later it gives an id to every topic "
    "without one. Then run `zk2kraft check` again.",
    cases=("F-23",),
)

STATE_MISSING = Finding(
    code="Z2K-1003",
    says="{path} does not exist.",
    means="The partition was assigned but never got a leader, or its state was deleted. Stock Kafka would invent a "
    "full ISR at leader epoch 0; zk2kraft invents nothing.",
    remedy="Start the replicas of the partition, so that the ZooKeeper controller elects a leader; or delete the "
    "topic. Then run `zk2kraft check` again.",
    cases=("F-26",),
)

FEATURE_FINALIZED = Finding(
    code="Z2K-1004",
    says="/feature finalizes {count} features, the first at {first}.",
    means="Kafka's brokers in ZooKeeper mode support no feature and end on one that is finalized. So other software "
    "than Apache Kafka 3.6 to 3.9 finalized it and relies on it. KRaft has no record that would be right: stock "
    "controllers end on a feature that they do not know.",
    remedy="Find out which software finalized it. If the cluster does not need it, disable it with that software's own "
    "tool; else ask its vendor for a migration.",
)

DELETION_PENDING = Finding(
    code="Z2K-1005",
    says="{count} topics wait for deletion, the first is {first}.",
    means="A topic that is half deleted can be neither copied nor left out: its files would become stray directories.",
    remedy="Bring back the brokers that hold its replicas until /admin/delete_topics is empty. An entry of a topic "
    "that does not exist is removed by the next controller: restart the broker that is controller.",
    cases=("F-27",),
)

REASSIGNMENT_RUNNING = Finding(
    code="Z2K-1006",
    says="{count} partitions are being reassigned, the first is {first}.",
    means="The takeover keeps these reassignments, and they go on under the new controller. A rollback returns them to "
    "the ZooKeeper controller.",
    remedy="None needed. A takeover is smaller after they have ended: kafka-reassign-partitions --list shows what "
    "moves, --cancel stops it.",
    severity=Severity.WARNS,
    cases=("F-47",),
)

BROKER_ABSENT = Finding(
    code="Z2K-1007",
    says="Broker {broker} is not in /brokers/ids, but {topic} is assigned to it.",
    means="Kafka waits forever for such a broker, and a copied partition would start under-replicated.",
    remedy="Start the broker, or move its replicas away with kafka-reassign-partitions.",
    cases=("F-01",),
)

ISR_INCOMPLETE = Finding(
    code="Z2K-1008",
    says="{partition}: replicas {replicas}, in sync {isr}, leader {leader}.",
    means="While the cluster has no controller, a failed leader cannot be replaced. The takeover begins only on a "
    "healthy cluster.",
    remedy="Bring the missing replicas back into sync. You can accept partitions that must stay as they are, by name "
    "or pattern, in the controllers' files (zk2kraft.waive).",
)

IN_SYNC_WITHOUT_REPLICA = Finding(
    code="Z2K-1081",
    says="{partition}: {brokers} are in sync {isr} and no replicas {replicas}.",
    means="After one stop of the true replicas such a broker is the only one in sync, and the "
    "partition stays without a leader, even when they are back.",
    remedy="Let its leader write the list anew: restart the leader's broker, or elect another leader with "
    "kafka-leader-election. If that changes nothing, reassign the partition to the replicas that it has.",
)

LEADER_RECOVERING = Finding(
    code="Z2K-1009",
    says="{path}: the leader is recovering from an unclean election.",
    means="Records may be lost already. The state is copied. The leader reports to the new controller when it has "
    "recovered.",
    remedy="None needed for the migration. Find out which records the partition lost.",
    severity=Severity.WARNS,
)

PASSWORD_CONFIG = Finding(
    code="Z2K-1010",
    says="{path} holds the password {key}, and this controller has no password.encoder.secret.",
    means="Passwords are encrypted in ZooKeeper and in clear text in KRaft. Without the brokers' secret, the encrypted "
    "text would become the password.",
    remedy="Put the brokers' password.encoder.* settings into every controller's properties file (and give `rehearse` "
    "and `audit` that file with --controller). Then check again.",
    cases=("F-25",),
)

ORPHAN_CONFIG = Finding(
    code="Z2K-1011",
    says="{path} configures a topic that does not exist.",
    means="The configuration is not copied and stays in ZooKeeper. A topic created later under this name replaces it.",
    remedy="None needed. Remove the znode if you do not need it.",
    severity=Severity.WARNS,
)

REASSIGNMENT_MALFORMED = Finding(
    code="Z2K-1080",
    says="The reassignment of {partition} cannot be understood: {reason}.",
    means="The topic's znode adds or removes replicas in a way that no controller writes, so this reassignment could "
    "never end. A copy would carry it into KRaft forever.",
    remedy="Assign the replicas that the partition needs with kafka-reassign-partitions and wait until that has ended. "
    "Then run `zk2kraft check` again.",
)

TOO_BIG_FOR_ONE_REQUEST = Finding(
    code="Z2K-1012",
    says="The full UpdateMetadata takes about {bytes} bytes; broker {broker} accepts {limit} and needs at least "
    "socket.request.max.bytes={needed}.",
    means="A full request carries all metadata at once. This broker would close the connection on it again and again, "
    "during the time without controller.",
    remedy="Raise socket.request.max.bytes in every broker's file and restart the brokers one by one, or delete topics "
    "that you do not need. Then run `zk2kraft gates` again.",
    cases=("F-54",),
)

CLUSTER_ID_DIFFERS = Finding(
    code="Z2K-1013",
    says="ZooKeeper's cluster id is {zookeeper}; the controllers are formatted for {controllers}.",
    means="Brokers refuse to register with controllers of another cluster.",
    remedy="Format fresh controller directories with the id of /cluster/id.",
    cases=("F-15",),
)

PASSWORD_UNDECODABLE = Finding(
    code="Z2K-1070",
    says="{path}: the password {key} cannot be decoded: {reason}.",
    means="The value would be wrong in KRaft, and a listener of the broker would not start with it. Nothing is copied. "
    "In dual-write this broker's configuration stays in ZooKeeper as it is.",
    remedy="Give the controllers the password.encoder.secret that this broker uses. If the broker cannot read the "
    "value either (its log says `could not be decoded`), set the value again through that broker. Then check again.",
    cases=("F-25",),
)

PASSWORD_ALGORITHM_UNKNOWN = Finding(
    code="Z2K-1071",
    says="{path}: the password {key} is encoded with {algorithm}, which this release does not know.",
    means="The value cannot be decoded, so nothing is copied. In dual-write this broker's configuration stays in "
    "ZooKeeper as it is.",
    remedy="Before the takeover: give this broker a supported algorithm (Kafka's own choice is AES/CBC/PKCS5Padding "
    "and PBKDF2WithHmacSHA512), with its secret as old.secret too, and restart it. In dual-write restart nothing: see "
    "the runbook.",
    cases=("F-25",),
)

PASSWORD_OF_OLD_SECRET = Finding(
    code="Z2K-1072",
    says="{path}: the password {key} is still encoded with password.encoder.old.secret.",
    means="This broker was not restarted with the new secret, so it could not read what dual-write writes to "
    "ZooKeeper.",
    remedy="Restart the broker with both secrets in its properties file: the broker then encodes its values again. "
    "Then check again.",
    cases=("F-25",),
)

PASSWORD_CIPHERS_DIFFER = Finding(
    code="Z2K-1073",
    says="{path}: the password {key} is encoded with {brokers}, and the controllers would write {controllers}.",
    means="A broker with AES/GCM reads only AES/GCM, and a broker with another cipher cannot read AES/GCM. It could "
    "not read what dual-write writes to ZooKeeper.",
    remedy="Give the controllers the brokers' password.encoder.cipher.algorithm, then check again.",
    cases=("F-25",),
)

PASSWORD_UNCERTAIN = Finding(
    code="Z2K-1074",
    says="{path}: the password {key} is encoded with {algorithm}, which does not show whether the secret is right.",
    means="With this algorithm a wrong secret gives a wrong text and no error, so a wrong password would stay "
    "unnoticed.",
    remedy="Give the broker a cipher with a padding or a tag (Kafka's own choice is AES/CBC/PKCS5Padding), and its "
    "secret also as password.encoder.old.secret. At its restart the broker encodes the value again. Then check again.",
    cases=("F-25",),
)

OLD_SECRET_LEFT = Finding(
    code="Z2K-1075",
    says="password.encoder.old.secret is set, and {count} brokers have passwords in ZooKeeper, the first at {path}.",
    means="A broker with this line writes its passwords again at every start. Kafka refuses that while a KRaft "
    "controller is active, so such a broker could not start in dual-write.",
    remedy="Remove password.encoder.old.secret from the brokers' files before the takeover (this needs no restart), "
    "then from the controllers' files.",
    severity=Severity.WARNS,
    cases=("F-25",),
)

CONTROLLER_FILES_DISAGREE = Finding(
    code="Z2K-1014",
    says="{file}: {reason}.",
    means="The controllers' files do not fit each other or the brokers, so the quorum or the takeover would not work.",
    remedy="Render all controller files from one source, then run `zk2kraft check` again.",
    cases=("F-14", "F-16"),
)

ACLS_UNHEEDED = Finding(
    code="Z2K-1020",
    says="ZooKeeper holds ACLs of {count} resources, the first of {first}, and the controllers have no authorizer.",
    means="Brokers forward administrative requests without a check of permissions. In dual-write every client could "
    "then create, change and delete topics.",
    remedy="Set authorizer.class.name and super.users in every controller's file (docs/requests.md, Permissions).",
)

TOPIC_CONFIG_REFUSED = Finding(
    code="Z2K-1030",
    says="{path}: {reason}.",
    means="Kafka's own rules refuse this value. After a copy, a broker may be unable to open the topic's logs, and "
    "Kafka refuses every later change of the topic's configuration.",
    remedy="Delete or correct the key with kafka-configs --entity-type topics, then run `zk2kraft check` again.",
    cases=("F-39",),
)

MIN_ISR_ABOVE_REPLICAS = Finding(
    code="Z2K-1015",
    says="{path} sets min.insync.replicas={minimum}, and {count} partitions have fewer replicas, the first is {first}.",
    means="Brokers of Kafka 3.6 refuse every write with acks=all to such a partition. Later brokers require all of its "
    "replicas instead, so that these writes stop while one replica is away. The setting is copied as it is.",
    remedy="None needed for the migration. Lower min.insync.replicas of the topic with kafka-configs --entity-type "
    "topics, or add replicas with kafka-reassign-partitions.",
    severity=Severity.WARNS,
)

REPLICAS_IN_ONE_RACK = Finding(
    code="Z2K-1016",
    says="{path} has {count} partitions with all of their replicas in one rack, the first is {first} in rack {rack}.",
    means="The brokers are in two or more racks. An outage of that one rack takes such a partition offline, with "
    "ZooKeeper as in KRaft mode. The assignment is copied as it is.",
    remedy="None needed for the migration. Move a replica of each such partition to another rack with "
    "kafka-reassign-partitions, and wait for the end of the move before the takeover.",
    severity=Severity.WARNS,
)

INTERNAL_TOPIC_NOT_COMPACTED = Finding(
    code="Z2K-1017",
    says="{path} does not have compact in cleanup.policy, which Kafka gives to {topic} when it creates the topic.",
    means="Brokers that run may still use the lost setting from memory. After their next restart they delete records "
    "of this topic by time, and with them the offsets of consumer groups or the states of transactions.",
    remedy="Set it with kafka-configs before any broker restarts: --entity-type topics, --add-config "
    "cleanup.policy=compact. Then check again.",
)

TOPIC_CONFIG_UNKNOWN = Finding(
    code="Z2K-1031",
    says="{path} has keys that Kafka 3.9 does not know: {keys}.",
    means="The keys are copied and have no effect. While they exist, every change of the topic's configuration is "
    "refused (INVALID_CONFIG), in KRaft as with ZooKeeper.",
    remedy="If you do not need the keys, delete them with kafka-configs --entity-type topics --delete-config.",
    severity=Severity.WARNS,
    cases=("F-39",),
)

TOPIC_CONFIG_DROPPED = Finding(
    code="Z2K-1049",
    says="{path} has keys that Kafka 4.0 has dropped: {keys}.",
    means="The keys are copied and are harmless up to 3.9. In 4.0, 4.1 and 4.2 every change of such a topic's "
    "configuration is refused (INVALID_CONFIG) while they exist. From 4.0 on message.timestamp.difference.max.ms has "
    "no effect: records of any age are taken, and records more than an hour ahead are refused.",
    remedy="Delete them with kafka-configs --entity-type topics --delete-config, at the latest before Kafka 4. In "
    "place of message.timestamp.difference.max.ms set message.timestamp.before.max.ms and .after.max.ms.",
    severity=Severity.WARNS,
)

MIN_ISR_IN_FILES_ALONE = Finding(
    code="Z2K-1068",
    says="Brokers have min.insync.replicas={value} from their own files or settings, and nothing is set for all of "
    "them. Topics that set none rest on it.",
    means="Kafka 4.0 and later can switch on eligible.leader.replicas.version, and `kafka-features upgrade "
    "--release-version` does. The controller then sets min.insync.replicas for all brokers to what its own file has, "
    "which is 1 where it has none: writes with acks=all are accepted with one replica in sync.",
    remedy="Before a later Kafka set it once for all brokers: kafka-configs --entity-type brokers --entity-default "
    "--alter --add-config min.insync.replicas={value}.",
    severity=Severity.WARNS,
)

REFUSED_BY_LATER_KAFKA = Finding(
    code="Z2K-1067",
    says="{where} has {key}={value}, and Kafka {since} and later take no less than {low}.",
    means="A broker of such a release that has a replica of the topic ends at its start, and its controllers refuse "
    "every other change of the topic's configuration. As a setting of brokers it is passed over there.",
    remedy="Set it to {low} or more with kafka-configs, or delete it, before the first node gets such a release. "
    "Controllers of that release take it with --bootstrap-controller, also while no broker runs.",
    severity=Severity.WARNS,
)

BROKER_CONFIG_REFUSED = Finding(
    code="Z2K-1032",
    says="{path}: {reason}.",
    means="Brokers ignore a dynamic value that they cannot read and use the value in their file. Kafka refuses every "
    "later change of this configuration. The value is copied as it is.",
    remedy="Delete or correct the key with kafka-configs --entity-type brokers, then run `zk2kraft check` again.",
    severity=Severity.WARNS,
    cases=("F-39",),
)

LISTENERS_DYNAMIC = Finding(
    code="Z2K-1033",
    says="{path} sets {key} dynamically.",
    means="A broker in KRaft mode does not change its listeners while it runs. It ignores all of its dynamic "
    "configuration, and clients get the addresses from its file.",
    remedy="Put the value into the broker's properties file, delete the key with kafka-configs --entity-type brokers, "
    "restart the broker, then run `zk2kraft check` again.",
    cases=("F-58",),
)

TOPIC_NAME_IMPOSSIBLE = Finding(
    code="Z2K-1034",
    says="{path} is a topic, and KRaft does not accept its name: {reason}.",
    means="Kafka's tools cannot create such a topic. After a copy it could be neither changed nor deleted.",
    remedy="Find out who wrote the znode. If you do not need the topic, remove its znodes while no takeover is "
    "planned. Then run `zk2kraft check` again.",
)

ASSIGNMENT_IMPOSSIBLE = Finding(
    code="Z2K-1035",
    says="{path} is not a valid assignment: {reason}.",
    means="Controllers and brokers treat replicas as a set of brokers. A copy of such a list makes partitions that can "
    "never be in sync.",
    remedy="Correct the assignment with kafka-reassign-partitions, or delete the topic. Then run `zk2kraft check` "
    "again.",
)

EPOCH_BEHIND_STATES = Finding(
    code="Z2K-1036",
    says="{path} is {epoch}, but controller epoch {highest} wrote states of {topic}.",
    means="The znode was set back, by a restored backup or by a rollback that kept the epoch of a KRaft controller. "
    "Brokers ignore a controller with a lower epoch, so such partitions have no controller.",
    remedy="Follow this code's runbook: raise the epoch above the highest one and let another broker become "
    "controller. Then run `zk2kraft check` again.",
    cases=("F-40",),
)

KRAFT_RULES_ALREADY = Finding(
    code="Z2K-1037",
    says="/controller is held by node {node} under KRaft epoch {epoch}, and /migration {migration}.",
    means="A KRaft controller is the active controller of this cluster, or it was removed without a rollback. "
    "ZooKeeper brokers elect no controller while this znode exists.",
    remedy="If those controllers run, this is their migration: leave it. If none runs, `zk2kraft rollback "
    "--without-controllers -z ...` shows what is left and rolls the cluster back.",
    cases=("F-43", "F-49"),
)

TOPIC_NAMES_COLLIDE = Finding(
    code="Z2K-1038",
    says="{path} is a topic, and its name differs only in '.' and '_' from: {others}.",
    means="Some of Kafka's metrics write '_' for '.', so these topics share them. All are copied. If you delete one, "
    "Kafka refuses to create it again while another exists, in KRaft as with ZooKeeper.",
    remedy="None needed for the migration. Delete none of these topics with the intention to create it again. To "
    "separate their metrics, move one to a topic with another name.",
    severity=Severity.WARNS,
)

BROKER_IDS_ABOVE_RESERVED = Finding(
    code="Z2K-1039",
    says="Brokers {brokers} have ids above 1000.",
    means="ZooKeeper generates ids above 1000. KRaft generates no ids, and a broker with migration enabled does not "
    "start while its file leaves the id to ZooKeeper.",
    remedy="In each broker's file set broker.id to its present id and broker.id.generation.enable=false (or raise "
    "reserved.broker.max.id). Do this before you enable the migration there.",
    severity=Severity.WARNS,
    cases=("F-13",),
)

BROKER_TOO_OLD = Finding(
    code="Z2K-1040",
    says="{path} is a registration of version {version}; brokers that can migrate write version 5.",
    means="The broker runs with an inter.broker.protocol.version below 2.7. Such a broker cannot talk to KRaft.",
    remedy="Upgrade the broker and every broker's inter.broker.protocol.version to 3.6 or later, then run "
    "`zk2kraft check` again.",
    cases=("F-11", "F-12"),
)

BROKER_CONFIG_UNUSED = Finding(
    code="Z2K-1041",
    says="{path} configures broker {broker}, which is not alive and has no replica.",
    means="The configuration is copied. If its broker was removed earlier, the next broker with that id gets it.",
    remedy="None needed. If you do not need it, delete it with kafka-configs --entity-type brokers.",
    severity=Severity.WARNS,
)

CONFIG_FAMILY_NOT_COPIED = Finding(
    code="Z2K-1042",
    says="{path} is configuration of a kind that ZooKeeper-mode brokers do not have.",
    means="Neither stock Kafka nor zk2kraft copies it, so it would be missing after the takeover.",
    remedy="Find out who wrote it. Keep its value in your notes, remove the znode, and set it again when the cluster "
    "runs in KRaft mode.",
    cases=("F-51",),
)

AUTHORIZER_ABSENT = Finding(
    code="Z2K-1043",
    says="Brokers have or had an authorizer ({path} exists, without entries), and {file} sets none.",
    means="Brokers forward administrative requests without a check of permissions. With an authorizer on brokers and "
    "none on controllers, every client could change the cluster in dual-write.",
    remedy="If brokers still have an authorizer, set authorizer.class.name and super.users in every controller's file "
    "(docs/requests.md, Permissions).",
    severity=Severity.WARNS,
    cases=("F-09", "F-37"),
)

TOKENS_WITHOUT_KEY = Finding(
    code="Z2K-1044",
    says="ZooKeeper holds {count} delegation tokens, and the controllers have no delegation.token.secret.key.",
    means="A token's secret is made from its id and that key. Without the brokers' key, controllers refuse to create, "
    "renew or expire tokens in dual-write, and brokers in KRaft mode refuse to check tokens.",
    remedy="Set delegation.token.secret.key in every controller's file to the brokers' value.",
    cases=("F-38",),
)

ZNODE_GUARDED = Finding(
    code="Z2K-1045",
    says="{path} has an access list ({acl}) that does not let this process write.",
    means="The controller could read this znode but not write it, and would notice that only during the time without "
    "controller.",
    remedy="Log in to ZooKeeper as the brokers do (KAFKA_OPTS, docs/drop-in.md). Otherwise follow this code's page: "
    "lift the access lists with Kafka's zookeeper-security-migration tool.",
    cases=("F-18",),
)

PRODUCER_IDS_EMPTY = Finding(
    code="Z2K-1065",
    says="{path} has a text of no bytes.",
    means="Kafka makes this znode without data, and throws where it finds a text without a block in it. Brokers in "
    "ZooKeeper mode get no producer ids then: idempotent and transactional producers do not start.",
    remedy="Delete the znode in ZooKeeper's shell and create it again without data. Then run `zk2kraft check` again.",
)

FOREIGN_SESSIONS = Finding(
    code="Z2K-1046",
    says="{count} ZooKeeper sessions belong to no broker: {clients}.",
    means="Tools that use ZooKeeper directly do not see what a KRaft controller does. What they write is set back, or "
    "leads to a rollback of the cluster.",
    remedy="Find the programs at these addresses (old consumers, Cruise Control, --zookeeper scripts, exporters) and "
    "switch them to bootstrap servers before the takeover.",
    severity=Severity.WARNS,
    cases=("F-57",),
)

SESSIONS_NOT_READ = Finding(
    code="Z2K-1047",
    says="{server} does not show its sessions: {reason}.",
    means="It is unknown whether other programs use this ZooKeeper.",
    remedy="Add cons to 4lw.commands.whitelist of every ZooKeeper server, or check its connections by hand.",
    severity=Severity.WARNS,
    cases=("F-57",),
)

GROUPS_IN_ZOOKEEPER = Finding(
    code="Z2K-1048",
    says="{count} consumer groups store their offsets in ZooKeeper, the first is {path}.",
    means="They belong to consumers from before Kafka 0.9, or are left over from them. They are neither copied nor "
    "changed. Such a consumer stops working when ZooKeeper is removed.",
    remedy="Make sure that no such consumer runs any more. The znodes do no harm.",
    severity=Severity.WARNS,
    cases=("F-57",),
)
