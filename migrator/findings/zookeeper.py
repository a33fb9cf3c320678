"""ZooKeeper does not answer, does not take a write, or has something else: Z2K-20xx, 212x and 215x."""

from __future__ import annotations

from migrator.findings.finding import Finding, Severity

ZOOKEEPER_UNREACHABLE = Finding(
    code="Z2K-2001",
    says="ZooKeeper at {connect} does not answer: {reason}.",
    means="Nothing could be read or written. This does not affect the cluster itself.",
    remedy="Check the address (with its chroot), that the ensemble has a leader, and that no firewall or TLS setting "
    "stands between; then run the command again.",
)

ZOOKEEPER_LOST = Finding(
    code="Z2K-2002",
    says="The connection to ZooKeeper was lost during {path} ({reason}).",
    means="A read can be repeated. Whether a write was applied is unknown until the znodes are read again.",
    remedy="None needed while the controller runs: it reconnects, reads again and reconciles. If it lasts, check the "
    "health of the ensemble.",
)

ZOOKEEPER_REFUSES = Finding(
    code="Z2K-2004",
    says="ZooKeeper refuses {path}: {reason}.",
    means="The session lacks the right to read or write this znode, or the server is read-only.",
    remedy="Read the access list of that path with ZooKeeper's shell (getAcl), and log in to ZooKeeper as the brokers "
    "do (KAFKA_OPTS, docs/drop-in.md).",
)

WRITE_REFUSED = Finding(
    code="Z2K-2121",
    says="ZooKeeper answered {error} to a write on {path}; everything is read and compared again.",
    means="The connection works. The znode is not as the controller expected: another program changed, created or "
    "deleted it. The whole multi was refused and nothing of it was applied.",
    remedy="None needed when it happens once: the controller reads again and writes what differs. When it repeats, "
    "find out who writes to that path.",
)

PATH_RECREATED = Finding(
    code="Z2K-2122",
    says="{paths} was missing in ZooKeeper and was created again from the log.",
    means="It was deleted after the takeover. Its content was written again. After /config/changes was deleted, "
    "ZooKeeper-mode brokers do not notice changed configuration until they are restarted.",
    remedy="Find out who deletes znodes and stop it. If /config/changes is named, restart the ZooKeeper-mode brokers "
    "one by one.",
    severity=Severity.WARNS,
)

MIRROR_BROKE = Finding(
    code="Z2K-2123",
    says="A write to ZooKeeper did not succeed: {reason}.",
    means="It is unknown whether the write was applied, so the controller reads, compares and writes everything again.",
    remedy="None needed when it happens once. When it repeats, follow the code or the path in the reason.",
)

ZNODE_NOT_WRITTEN = Finding(
    code="Z2K-2124",
    says="{path} would have {bytes} bytes; ZooKeeper accepts {limit}.",
    means="ZooKeeper closes the connection at a request above its jute.maxbuffer, at each attempt again. This znode "
    "stays as it is; everything else is written.",
    remedy="Make it smaller with Kafka's tools: delete ACLs of that resource, shorten the configuration, or delete the "
    "topic. Such requests are accepted even while other changes are refused.",
)

TOPIC_NOT_WHOLE = Finding(
    code="Z2K-2125",
    says="Topic {topic} is incomplete in ZooKeeper, so its later changes are not written there one by one.",
    means="An earlier change of it could not be written. ZooKeeper keeps what it has of the topic; brokers get their "
    "metadata from the log.",
    remedy="Make the earlier change possible (`zk2kraft status` names it), then restart the active controller. The "
    "next active controller compares everything and writes what differs.",
)

ODD_HOST = Finding(
    code="Z2K-2151",
    says="Broker {broker} is not registered: listener {listener} advertises the host {host!r}, and {reason}.",
    means="No controller could connect to that host, so the registration is refused (INVALID_REGISTRATION). The broker "
    "tries again until it is restarted. The rest of the cluster works without it.",
    remedy="Correct `advertised.listeners` in the broker's server.properties and restart the broker.",
)

ZNODE_TOO_LARGE = Finding(
    code="Z2K-2152",
    says="{what} would take up to {bytes} bytes in ZooKeeper; one znode there holds at most {limit}.",
    means="While the cluster is in dual-write, a change that does not fit into ZooKeeper is refused. Nothing was "
    "changed.",
    remedy="Make a smaller change, or repeat it after the migration is finalized. If every ZooKeeper server and broker "
    "runs with a larger `jute.maxbuffer`, set `zk2kraft.zookeeper.jute.maxbuffer` in every controller's file.",
)

WRITE_NOT_ALLOWED = Finding(
    code="Z2K-2050",
    says="ZooKeeper does not let this controller change {path}: an access list, there or on the znode above, forbids "
    "it.",
    means="An access list was set after the gate passed. In dual-write ZooKeeper stays behind the log from here on. "
    "Leaders and in-sync replicas still change; new topics and moved replicas reach brokers only after this is solved.",
    remedy="Remove the restriction with the identity that set it (setAcl in ZooKeeper's shell). The controller then "
    "tries again by itself and writes everything that is missing.",
    cases=("F-18",),
)
