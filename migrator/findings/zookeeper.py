"""ZooKeeper does not answer, does not take a write, or has something else: Z2K-20xx, 212x and 215x."""

from __future__ import annotations

from migrator.findings.finding import Finding, Severity

ZOOKEEPER_UNREACHABLE = Finding(
    code="Z2K-2001",
    says="ZooKeeper at {connect} does not answer: {reason}.",
    means="Nothing could be read or written. The cluster itself is not affected by this.",
    remedy="Check the address (with its chroot), that the ensemble has a leader, and that no firewall or TLS setting "
    "stands between; then run the command again.",
)

ZOOKEEPER_LOST = Finding(
    code="Z2K-2002",
    says="The connection to ZooKeeper was lost during {path} ({reason}).",
    means="A read can be repeated; whether a write was applied is unknown until the znodes were read again.",
    remedy="None needed while the controller runs: it reconnects, reads again and reconciles. If it lasts, look at "
    "the ensemble's health.",
)

ZOOKEEPER_REFUSES = Finding(
    code="Z2K-2004",
    says="ZooKeeper refuses {path}: {reason}.",
    means="The session lacks the right to read or write this znode, or the server is read-only.",
    remedy="Look at the access list of that path with ZooKeeper's shell (getAcl), and log in to ZooKeeper as the "
    "brokers do (KAFKA_OPTS, docs/drop-in.md).",
)

WRITE_REFUSED = Finding(
    code="Z2K-2121",
    says="ZooKeeper answered {error} to a write on {path}; everything is read and compared again.",
    means="The connection works. The znode is not as the controller expected: somebody else changed, created or "
    "deleted it. The whole multi was refused; nothing of it was applied.",
    remedy="None needed when it comes once: the controller reads again and writes what differs. When it repeats, look "
    "at that path and find out who writes there.",
)

PATH_RECREATED = Finding(
    code="Z2K-2122",
    says="{paths} did not exist in ZooKeeper any more and was created again from the log.",
    means="Somebody deleted it after the takeover. Its content was written again. After /config/changes was deleted, "
    "ZooKeeper-mode brokers do not hear of changed configuration until they are restarted.",
    remedy="Find out who deletes znodes and stop it. If /config/changes is named, restart the ZooKeeper-mode brokers "
    "one by one.",
    severity=Severity.WARNS,
)

MIRROR_BROKE = Finding(
    code="Z2K-2123",
    says="A write to ZooKeeper did not succeed: {reason}.",
    means="Whether it was applied is not assumed: everything is read, compared and written again.",
    remedy="None needed when it comes once. When it repeats, follow the code or the path that the reason names.",
)

ZNODE_NOT_WRITTEN = Finding(
    code="Z2K-2124",
    says="{path} would be {bytes} bytes; ZooKeeper takes {limit}.",
    means="ZooKeeper breaks the connection at a request above its jute.maxbuffer, and each repetition would break it "
    "again. This znode stays as it is; everything else is written.",
    remedy="Make it smaller with Kafka's tools: delete ACLs of that resource, shorten the configuration, or delete the "
    "topic. Such requests are taken also while other changes are refused.",
)

TOPIC_NOT_WHOLE = Finding(
    code="Z2K-2125",
    says="Topic {topic} is not whole in ZooKeeper, so its later changes are not written there one by one.",
    means="An earlier change of it could not be written. ZooKeeper keeps what it has of the topic; brokers are served "
    "from the log.",
    remedy="Make the earlier change possible (`zk2kraft status` names it), then restart the leading controller: the "
    "next one compares everything and writes what differs.",
)

ODD_HOST = Finding(
    code="Z2K-2151",
    says="Broker {broker} is not registered: listener {listener} advertises the host {host!r}, and {reason}.",
    means="No controller could connect to that host, so the registration is refused (INVALID_REGISTRATION). The broker "
    "asks again until it is restarted. The cluster is served without it.",
    remedy="Correct `advertised.listeners` in the broker's server.properties and restart the broker.",
)

ZNODE_TOO_LARGE = Finding(
    code="Z2K-2152",
    says="{what} would take up to {bytes} bytes in ZooKeeper, and {limit} fit into one znode there.",
    means="While the cluster is in ZooKeeper too, a change that ZooKeeper cannot hold is refused. Nothing was changed.",
    remedy="Ask for less, or ask again after the migration is finalized. If every ZooKeeper server and broker runs "
    "with a larger `jute.maxbuffer`: set `zk2kraft.zookeeper.jute.maxbuffer` in every controller's file.",
)

WRITE_NOT_ALLOWED = Finding(
    code="Z2K-2050",
    says="ZooKeeper does not let this controller change {path}: its access list, or that of the znode above it, "
    "forbids it.",
    means="Somebody set an access list after the gate was passed. In dual-write ZooKeeper is behind the log from here "
    "on; leaders and in-sync sets go on changing, new topics and moved replicas reach brokers only after it.",
    remedy="Open the path again for everybody (setAcl with ZooKeeper's shell, by the identity that closed it). The "
    "controller tries again by itself and writes everything that is missing.",
    cases=("F-18",),
)
