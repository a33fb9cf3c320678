"""What else keeps a takeover from beginning: settings, levels, permissions, waivers. Z2K-1050 to 1069, 1090 to 1199."""

from __future__ import annotations

from migrator.findings.finding import Finding, Severity

PATH_MISSING = Finding(
    code="Z2K-1111",
    says="{path} does not exist in ZooKeeper: {lost}.",
    means="Every broker creates this znode at its start, so somebody deleted it. The takeover writes into or below it "
    "and would fail after the commit. Nothing is claimed before it exists again.",
    remedy="Follow this code's page for the path: most are created again by restarting the brokers one by one; "
    "/latest_producer_id_block needs a value first.",
)

PATH_WILL_BE_CREATED = Finding(
    code="Z2K-1112",
    says="{path} does not exist in ZooKeeper; the takeover creates it, empty, before it claims anything.",
    means="Every broker creates this znode at its start, so somebody deleted it, with all that was below it.",
    remedy="Find out who deleted it and whether configuration below it was lost; an export tells what there was.",
    severity=Severity.WARNS,
)

PERMISSION_MISSING = Finding(
    code="Z2K-1113",
    says="Broker {broker} denies this controller's principal {operations} on the cluster.",
    means="With an authorizer, brokers take UpdateMetadata, LeaderAndIsr and StopReplica only from a principal with "
    "ClusterAction, and show what they have and how they are set only with Describe and DescribeConfigs.",
    remedy="Grant the operations to the principal of the controllers with kafka-acls.sh, or name it in the brokers' "
    "super.users. Follow this code's page.",
)

ZOOKEEPER_TAKES_LESS = Finding(
    code="Z2K-1115",
    says="ZooKeeper server {server} takes requests of up to {passed} bytes, and the controllers may send {limit}.",
    means="A server closes the connection at a request above its jute.maxbuffer. After a takeover such a change would "
    "be committed and would never reach ZooKeeper.",
    remedy="Set `zk2kraft.zookeeper.jute.maxbuffer` in every controller's file to the smallest size that a server "
    "takes, and restart the controllers one by one; or raise that server's jute.maxbuffer.",
)

ZOOKEEPER_LIMIT_UNKNOWN = Finding(
    code="Z2K-1116",
    says="It is not known how large a request ZooKeeper server {server} takes: {reason}.",
    means="Every server of zookeeper.connect is asked. One that takes less than the others would close the connection "
    "at a large write as soon as the controllers' session moves there.",
    remedy="Bring the server back, or take it out of `zookeeper.connect`, then look again.",
    severity=Severity.WARNS,
)

CONTROLLERS_RUN = Finding(
    code="Z2K-1118",
    says="Controllers of ours run: {controllers}.",
    means="They lead the cluster. A rollback without controllers would take it away from them while they answer "
    "brokers, and what they have not written to ZooKeeper yet would be lost. Nothing was changed.",
    remedy="Better: go back with them, by `zk2kraft rollback`. Otherwise stop the processes that are named, and keep "
    "their supervisor (systemd, the service) from starting them again. A session of a killed process ends within its "
    "time-out (zookeeper.session.timeout.ms, 18 s unless set); then run the command again.",
)

PEER_DENIED = Finding(
    code="Z2K-1119",
    says="Controllers deny requests of {principal}: it lacks {operation} on the cluster.",
    means="Only brokers and controllers ask for this. A controller that is denied elects no leader and follows none; a "
    "broker that is denied is not registered, or is fenced.",
    remedy="Add the principal to super.users in the properties file of every controller and restart them one by one, "
    "or grant the operation with kafka-acls.sh where ACLs are known already. Follow this code's page.",
    severity=Severity.WARNS,
)

WAIVED = Finding(
    code="Z2K-1120",
    says="The waiver {waiver} lifts Z2K-1008 from {count} partitions, the first {first}.",
    means="They are not whole, and the controllers' files accept it. Their leaders cannot be replaced in the seconds "
    "of the takeover.",
    remedy="None needed. When the replicas are in sync again, take the waiver out of the files (zk2kraft.waive).",
    severity=Severity.WARNS,
)

WAIVER_EXCEEDED = Finding(
    code="Z2K-1121",
    says="The waiver {waiver} lifts nothing: {count} of the {total} partitions that it matches are not whole.",
    means="That is more than its share, so each of these partitions blocks as if there were no waiver.",
    remedy="Find out why there are more of them than was accepted; bring replicas back into sync, or accept a larger "
    "share in the controllers' files (zk2kraft.waive).",
    severity=Severity.WARNS,
)

BROKER_SETTING_FORBIDS = Finding(
    code="Z2K-1050",
    says="Broker {broker} runs with {key}={value}: {reason}.",
    means="The broker's own setting and the controllers' do not go together; in dual-write or after it requests would "
    "be judged, sent or stored differently from now.",
    remedy="Follow this code's page for the key: change the broker's file and restart it, or the controllers' files.",
    cases=("F-09", "F-18", "F-37", "F-38", "F-39", "F-50"),
)

BROKER_SETTING_FOR_LATER = Finding(
    code="Z2K-1051",
    says="Broker {broker} runs with {key}={value}: {reason}.",
    means="It does no harm now. It has to be changed before this broker is restarted in KRaft mode.",
    remedy="Follow this code's page for the key when the broker's file for KRaft mode is written.",
    severity=Severity.WARNS,
    cases=("F-37", "F-53"),
)

IBP_DIFFERS = Finding(
    code="Z2K-1090",
    says="Broker {broker} runs at inter.broker.protocol.version {ibp}; this quorum began with metadata.version "
    "{level}.",
    means="A broker is registered at exactly the level of the quorum, or not at all, so this one stays outside and the "
    "takeover stays closed. The level of a log cannot be changed during a migration.",
    remedy="If every broker runs at that inter.broker.protocol.version: format the controllers anew with it (`zk2kraft "
    "storage format -r`). If only this one does: give it the others' and restart it.",
    cases=("F-12",),
)

LEVEL_WITHOUT_TOKENS = Finding(
    code="Z2K-1091",
    says="{count} delegation tokens are in ZooKeeper, and metadata.version {level} has none; 3.6-IV2 has.",
    means="In dual-write tokens could not be made, renewed or ended, and a snapshot of Kafka's own controllers would "
    "leave them out. Below that level ZooKeeper serves them and KRaft does not.",
    remedy="Raise the brokers' inter.broker.protocol.version to 3.6-IV2 or later and format the controllers with the "
    "same, or end the tokens with kafka-delegation-tokens.",
    cases=("F-38",),
)

ZOOKEEPER_LOGIN_UNUSABLE = Finding(
    code="Z2K-1092",
    says="The login for ZooKeeper in {file} cannot be used: {reason}.",
    means="KAFKA_OPTS names a JAAS file, as for Kafka's own processes, and without the login in it this process would "
    "be nobody for ZooKeeper. It does not begin.",
    remedy="Correct the file (section Client, ZooKeeper's DigestLoginModule, username and password as the brokers have "
    "them), or take -Djava.security.auth.login.config from KAFKA_OPTS where ZooKeeper wants no login.",
    cases=("F-18",),
)
