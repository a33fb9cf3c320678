"""What stands in ZooKeeper and cannot be copied as it is, or needs a look: codes Z2K-1001 to 1049 and 1070 to 1089."""

from __future__ import annotations

from migrator.findings.finding import Finding, Severity

MALFORMED_ZNODE = Finding(
    code="Z2K-1001",
    says="{path} cannot be read: {reason}.",
    means="This znode does not hold what Kafka writes there. Copying it would mean guessing, so nothing is copied.",
    remedy="Look at the znode with `zk2kraft export` or ZooKeeper's shell, find out who wrote it, and repair or "
    "remove it with Kafka's own tools; then run `zk2kraft check` again.",
)

TOPIC_ID_MISSING = Finding(
    code="Z2K-1002",
    says="{path} has no topic_id.",
    means="The topic was written by hand or by a broker below IBP 2.8. Its identity in KRaft would be a guess, and "
    "brokers move logs of a wrong identity aside.",
    remedy="Restart the ZooKeeper controller (delete nothing): at IBP 2.8 or later it gives an id to every topic that "
    "lacks one. Then run `zk2kraft check` again.",
    cases=("F-23",),
)

STATE_MISSING = Finding(
    code="Z2K-1003",
    says="{path} does not exist.",
    means="The partition was assigned but never got a leader, or its state was deleted. Stock would invent a full ISR "
    "at leader epoch 0; nothing is invented here.",
    remedy="Let the ZooKeeper controller elect a leader for it (start its replicas), or delete the topic; then run "
    "`zk2kraft check` again.",
    cases=("F-26",),
)

NOT_MIGRATED_YET = Finding(
    code="Z2K-1004",
    says="{count} {family} in ZooKeeper, the first at {first}.",
    means="This release does not copy this family, so after a takeover it would be missing from KRaft.",
    remedy="Wait for a release that copies it (docs/families.md), or disable the features with Kafka's own tool if the "
    "cluster does not need them.",
)

DELETION_PENDING = Finding(
    code="Z2K-1005",
    says="{count} topics wait for deletion, the first is {first}.",
    means="A topic that is half deleted is neither copied nor left; its files would become stray directories.",
    remedy="Bring back the brokers that hold its replicas until /admin/delete_topics is empty.",
    cases=("F-27",),
)

REASSIGNMENT_RUNNING = Finding(
    code="Z2K-1006",
    says="{count} partitions are being reassigned, the first is {first}.",
    means="The moves are taken over as they are and go on under the new controller; a rollback gives them back.",
    remedy="None needed. A takeover has less to carry when they have ended: kafka-reassign-partitions --list names "
    "what moves, --cancel takes it back.",
    severity=Severity.WARNS,
    cases=("F-47",),
)

BROKER_ABSENT = Finding(
    code="Z2K-1007",
    says="Broker {broker} is not in /brokers/ids, but {topic} is assigned to it.",
    means="Kafka waits for ever for such a broker, and a copied partition would start under-replicated.",
    remedy="Start the broker, or move its replicas away with kafka-reassign-partitions.",
    cases=("F-01",),
)

ISR_INCOMPLETE = Finding(
    code="Z2K-1008",
    says="{partition}: replicas {replicas}, in sync {isr}, leader {leader}.",
    means="While there is no controller no leader can be replaced; the takeover begins only on a healthy cluster.",
    remedy="Bring the missing replicas back into sync. Partitions that must stay as they are can be waived by name or "
    "pattern in the controllers' files (zk2kraft.waive).",
)

LEADER_RECOVERING = Finding(
    code="Z2K-1009",
    says="{path}: the leader is recovering from an unclean election.",
    means="Records may be lost already. The state is copied, and its leader reports to the new controller when it has "
    "recovered.",
    remedy="None needed for the migration; find out which records the partition lost.",
    severity=Severity.WARNS,
)

PASSWORD_CONFIG = Finding(
    code="Z2K-1010",
    says="{path} holds the password {key}, and no password.encoder.secret is known here.",
    means="Passwords are encrypted in ZooKeeper and clear in KRaft. Without the brokers' secret the encrypted text "
    "would become the password.",
    remedy="Give every controller's properties file the password.encoder.* settings of the brokers (and `rehearse` and "
    "`audit` that file, with --controller); then check again.",
    cases=("F-25",),
)

ORPHAN_CONFIG = Finding(
    code="Z2K-1011",
    says="{path} configures a topic that does not exist.",
    means="It is not copied and stays in ZooKeeper. A topic created later under this name replaces it.",
    remedy="None needed; remove the znode if nobody wants it.",
    severity=Severity.WARNS,
)

REASSIGNMENT_MALFORMED = Finding(
    code="Z2K-1080",
    says="The reassignment of {partition} cannot be understood: {reason}.",
    means="The topic's znode names replicas as being added or removed in a way that no controller writes, so nobody "
    "could end this move. Copying it would carry it into KRaft for ever.",
    remedy="Order the replicas that the partition shall have with kafka-reassign-partitions, wait until that has "
    "ended, then run `zk2kraft check` again.",
)

TOO_BIG_FOR_ONE_REQUEST = Finding(
    code="Z2K-1012",
    says="The full UpdateMetadata would take about {bytes} bytes; broker {broker} accepts {limit}, and needs "
    "socket.request.max.bytes={needed} at least.",
    means="A full request must hold everything at once, and this broker would close the connection on it, again and "
    "again, inside the window.",
    remedy="Raise socket.request.max.bytes in every broker's file and restart them one by one, or delete topics that "
    "nobody needs; then look at the gate again.",
    cases=("F-54",),
)

CLUSTER_ID_DIFFERS = Finding(
    code="Z2K-1013",
    says="ZooKeeper's cluster id is {zookeeper}, the controllers are formatted for {controllers}.",
    means="Brokers refuse to register with controllers of another cluster.",
    remedy="Format fresh controller directories with the id of /cluster/id.",
    cases=("F-15",),
)

PASSWORD_UNDECODABLE = Finding(
    code="Z2K-1070",
    says="{path}: the password {key} cannot be decoded: {reason}.",
    means="It would be garbled in KRaft, and a broker's listener would not start with it. Nothing is copied. In "
    "dual-write this broker's configuration stays in ZooKeeper as it is.",
    remedy="Give the controllers the password.encoder.secret with which this broker runs. If the broker cannot read "
    "the value either (its log says `could not be decoded`), set it once more through that broker; then check again.",
    cases=("F-25",),
)

PASSWORD_ALGORITHM_UNKNOWN = Finding(
    code="Z2K-1071",
    says="{path}: the password {key} is encoded with {algorithm}, which this release does not know.",
    means="It cannot be decoded, so nothing is copied. In dual-write this broker's configuration stays in ZooKeeper as "
    "it is.",
    remedy="Give this broker an algorithm that is known (AES/CBC/PKCS5Padding and PBKDF2WithHmacSHA512 are Kafka's own "
    "choice), restart it, and set the value once more through it; then check again.",
    cases=("F-25",),
)

PASSWORD_OF_OLD_SECRET = Finding(
    code="Z2K-1072",
    says="{path}: the password {key} is still encoded under password.encoder.old.secret.",
    means="This broker was not restarted with the new secret, so it could not read what dual-write puts into "
    "ZooKeeper.",
    remedy="Restart the broker with both secrets in its properties file: it encodes its values again by itself. Then "
    "check again.",
    cases=("F-25",),
)

PASSWORD_CIPHERS_DIFFER = Finding(
    code="Z2K-1073",
    says="{path}: the password {key} is encoded with {brokers}, and the controllers would write {controllers}.",
    means="A broker that is set to AES/GCM reads nothing else, and one that is not cannot read AES/GCM, whatever the "
    "text says of itself. It could not read what dual-write puts into ZooKeeper.",
    remedy="Give the controllers the brokers' password.encoder.cipher.algorithm, then check again.",
    cases=("F-25",),
)

PASSWORD_UNCERTAIN = Finding(
    code="Z2K-1074",
    says="{path}: the password {key} is encoded with {algorithm}, which does not tell whether the secret is right.",
    means="A wrong secret would give another short text instead of an error, and nobody could see that it is garbled.",
    remedy="Set the broker to a cipher with a padding or a tag (AES/CBC/PKCS5Padding is Kafka's own choice) and give "
    "it its secret as password.encoder.old.secret too: at its restart it encodes the value again. Then check again.",
    cases=("F-25",),
)

OLD_SECRET_LEFT = Finding(
    code="Z2K-1075",
    says="password.encoder.old.secret is set, and {count} brokers keep passwords in ZooKeeper, the first at {path}.",
    means="A broker with this line writes its passwords again at every start, which Kafka refuses while a KRaft "
    "controller rules: in dual-write such a broker would not start any more.",
    remedy="Take password.encoder.old.secret out of the brokers' files before the takeover (no restart is needed for "
    "that), then out of the controllers'.",
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
    means="Brokers pass administrative requests on before they look at permissions. In dual-write everybody could then "
    "create, change and delete topics.",
    remedy="Set authorizer.class.name and super.users in every controller's file (docs/requests.md, Permissions).",
)

TOPIC_CONFIG_REFUSED = Finding(
    code="Z2K-1030",
    says="{path}: {reason}.",
    means="Kafka's own rules refuse this value. It would be copied as it is; then a broker may not be able to open the "
    "topic's logs, and every later change of the topic's configuration is refused.",
    remedy="Delete or correct the key with kafka-configs --entity-type topics, then run `zk2kraft check` again.",
    cases=("F-39",),
)

TOPIC_CONFIG_UNKNOWN = Finding(
    code="Z2K-1031",
    says="{path} has keys that Kafka 3.9 does not know: {keys}.",
    means="They are copied and do nothing. As long as they are there, every change of the topic's configuration is "
    "refused (INVALID_CONFIG), with KRaft as with ZooKeeper.",
    remedy="Delete the keys with kafka-configs --entity-type topics --delete-config, if nobody needs them.",
    severity=Severity.WARNS,
    cases=("F-39",),
)

BROKER_CONFIG_REFUSED = Finding(
    code="Z2K-1032",
    says="{path}: {reason}.",
    means="Brokers pass over a dynamic value that they cannot read and run with their file's; every later change of "
    "this configuration is refused. It is copied as it is.",
    remedy="Delete or correct the key with kafka-configs --entity-type brokers, then run `zk2kraft check` again.",
    severity=Severity.WARNS,
    cases=("F-39",),
)

LISTENERS_DYNAMIC = Finding(
    code="Z2K-1033",
    says="{path} sets {key} dynamically.",
    means="A broker in KRaft mode does not change its listeners while it runs: it passes over everything that its "
    "dynamic configuration says, and clients are sent to the addresses of its file.",
    remedy="Put the value into the broker's properties file, delete the key with kafka-configs --entity-type brokers, "
    "restart the broker, then run `zk2kraft check` again.",
    cases=("F-58",),
)

TOPIC_NAME_IMPOSSIBLE = Finding(
    code="Z2K-1034",
    says="{path} is a topic whose name KRaft does not take: {reason}.",
    means="No tool of Kafka can have made it. It could be copied, and after that neither changed nor deleted.",
    remedy="Find out who wrote the znode. If nobody needs the topic, remove its znodes while no takeover is wanted, "
    "then run `zk2kraft check` again.",
)

ASSIGNMENT_IMPOSSIBLE = Finding(
    code="Z2K-1035",
    says="{path} cannot be an assignment: {reason}.",
    means="Controllers and brokers count replicas as a set of brokers. Copied, such a list makes partitions that can "
    "never be in sync.",
    remedy="Set the assignment right with kafka-reassign-partitions, or delete the topic; then run `zk2kraft check` "
    "again.",
)

EPOCH_BEHIND_STATES = Finding(
    code="Z2K-1036",
    says="{path} is {epoch}, but states of {topic} were written by controller epoch {highest}.",
    means="The znode was set back: by a restored backup, or a rollback that left the epoch of a KRaft controller "
    "behind. Brokers ignore a controller of a lower epoch, so such partitions have none.",
    remedy="Follow this code's page: raise the epoch above the highest one, let another broker become controller, then "
    "run `zk2kraft check` again.",
    cases=("F-40",),
)

KRAFT_RULES_ALREADY = Finding(
    code="Z2K-1037",
    says="/controller is held by node {node} under KRaft epoch {epoch}, and /migration {migration}.",
    means="A KRaft controller rules this cluster, or was taken away without giving it back. ZooKeeper brokers do not "
    "elect a controller while this znode is there.",
    remedy="If those controllers run, this is their migration: leave it. If none runs, `zk2kraft rollback "
    "--without-controllers -z ...` shows "
    "what stands and rolls the cluster back.",
    cases=("F-43", "F-49"),
)

BROKER_IDS_ABOVE_RESERVED = Finding(
    code="Z2K-1039",
    says="Brokers {brokers} have ids above 1000.",
    means="Ids above 1000 are those that ZooKeeper generates. KRaft generates none, and a broker with migration "
    "enabled does not start while its file leaves the id to ZooKeeper.",
    remedy="In each of their files set broker.id to this number and broker.id.generation.enable=false (or raise "
    "reserved.broker.max.id), before the migration is enabled there.",
    severity=Severity.WARNS,
    cases=("F-13",),
)

BROKER_TOO_OLD = Finding(
    code="Z2K-1040",
    says="{path} is a registration of version {version}; brokers that can be migrated write 5.",
    means="The broker runs with an inter.broker.protocol.version below 2.7. Such a broker does not talk to KRaft.",
    remedy="Upgrade the broker and every broker's inter.broker.protocol.version to 3.6 or later, then run "
    "`zk2kraft check` again.",
    cases=("F-11", "F-12"),
)

BROKER_CONFIG_UNUSED = Finding(
    code="Z2K-1041",
    says="{path} configures broker {broker}, which is not alive and has no replica.",
    means="It is copied. If it is left from a broker that was taken away, the next broker of that id gets it.",
    remedy="None needed; delete it with kafka-configs --entity-type brokers if nobody wants it.",
    severity=Severity.WARNS,
)

CONFIG_FAMILY_NOT_COPIED = Finding(
    code="Z2K-1042",
    says="{path} is configuration of a kind that brokers in ZooKeeper mode do not have.",
    means="Neither stock nor this program copies it, so it would be missing after the takeover.",
    remedy="Find out who wrote it. Keep its value in your notes, remove the znode, and set it again when the cluster "
    "runs in KRaft mode.",
    cases=("F-51",),
)

AUTHORIZER_ABSENT = Finding(
    code="Z2K-1043",
    says="Brokers have or had an authorizer ({path} exists, without entries), and {file} sets none.",
    means="Brokers pass administrative requests on before they look at permissions. With an authorizer on brokers and "
    "none on controllers everybody may change the cluster in dual-write.",
    remedy="If brokers still have an authorizer, set authorizer.class.name and super.users in every controller's file "
    "(docs/requests.md, Permissions).",
    severity=Severity.WARNS,
    cases=("F-09", "F-37"),
)

TOKENS_WITHOUT_KEY = Finding(
    code="Z2K-1044",
    says="ZooKeeper holds {count} delegation tokens, and the controllers have no delegation.token.secret.key.",
    means="A token's secret is made of its id and that key. Without the brokers' key controllers refuse to make, renew "
    "or end tokens in dual-write, and brokers in KRaft mode refuse to check them.",
    remedy="Set delegation.token.secret.key in every controller's file to what the brokers have.",
    cases=("F-38",),
)

ZNODE_GUARDED = Finding(
    code="Z2K-1045",
    says="{path} has an access list ({acl}) that does not let this process write.",
    means="It could read this znode and then not write it, which would be seen only inside the window.",
    remedy="Log in to ZooKeeper as the brokers do (KAFKA_OPTS, docs/drop-in.md). Otherwise follow this code's page: "
    "lift the access lists with Kafka's zookeeper-security-migration tool.",
    cases=("F-18",),
)

FOREIGN_SESSIONS = Finding(
    code="Z2K-1046",
    says="{count} sessions of ZooKeeper are of no broker: {clients}.",
    means="Tools that speak to ZooKeeper and not to Kafka do not see what a KRaft controller does, and what they write "
    "is set back or rolls the cluster back.",
    remedy="Find the programs at these addresses (old consumers, Cruise Control, --zookeeper scripts, exporters) and "
    "switch them to bootstrap servers before the takeover.",
    severity=Severity.WARNS,
    cases=("F-57",),
)

SESSIONS_NOT_READ = Finding(
    code="Z2K-1047",
    says="{server} does not tell its sessions: {reason}.",
    means="Nobody looked whether other programs use this ZooKeeper.",
    remedy="Add cons to 4lw.commands.whitelist of every ZooKeeper server, or look at its connections yourself.",
    severity=Severity.WARNS,
    cases=("F-57",),
)

GROUPS_IN_ZOOKEEPER = Finding(
    code="Z2K-1048",
    says="{count} consumer groups keep their offsets in ZooKeeper, the first is {path}.",
    means="They are of consumers from before Kafka 0.9, or left of them. They are neither copied nor touched; such a "
    "consumer ends with ZooKeeper.",
    remedy="Make sure that no such consumer runs any more; the znodes do no harm.",
    severity=Severity.WARNS,
    cases=("F-57",),
)
