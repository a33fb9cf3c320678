"""Which keys of a Kafka configuration may be shown with their values: those that are known to be harmless.

In:   a key, or a comment of a file. Out: whether its value, or the comment, has to stay hidden.
Rules: a list of names, not of beginnings: plug-ins begin theirs as Kafka does (`authorizer.ldap.bind.pwd`). What
nobody knows is hidden. A listener's key (`listener.name.<name>.<key>`) counts as the key behind its prefix. Addresses
(`...url`) may contain a login and are hidden.
Source: names of Kafka 3.9 `KafkaConfig` whose type is no password; `KafkaConfig.maybeSensitive` hides unknown ones too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from migrator.model.broker_configs import BROKER_CONFIGS

SECRET_WORDS: Final = ("password", "secret", "jaas", "keystore.key", "master.key", "credential")
_WORDS_OF_COMMENTS: Final = (*SECRET_WORDS, "passwd", "pwd", "passphrase", "token", "bearer", "api key", "apikey")

_ENDINGS: Final = {
    "": "advertised.listeners listeners process.roles node.id broker.id broker.rack super.users background.threads",
    "authorizer.": "class.name",
    "early.": "start.listeners",
    "control.": "plane.listener.name",
    "auto.": "create.topics.enable leader.rebalance.enable include.jmx.reporter",
    "broker.": "heartbeat.interval.ms id.generation.enable session.timeout.ms",
    "client.": "quota.callback.class",
    "config.": "providers",
    "connection.": "failed.authentication.delay.ms failures.before.failed.authentication.delay",
    "connections.": "max.idle.ms max.reauth.ms",
    "controlled.": "shutdown.enable shutdown.max.retries shutdown.retry.backoff.ms",
    "controller.": "listener.names quorum.append.linger.ms quorum.bootstrap.servers quorum.election.backoff.max.ms "
    "quorum.election.timeout.ms quorum.fetch.timeout.ms quorum.request.timeout.ms quorum.retry.backoff.ms "
    "quorum.voters quota.window.num quota.window.size.seconds socket.timeout.ms",
    "create.topic.": "policy.class.name",
    "alter.config.": "policy.class.name",
    "default.": "replication.factor",
    "delegation.token.": "expiry.check.interval.ms expiry.time.ms max.lifetime.ms",
    "delete.": "records.purgatory.purge.interval.requests topic.enable",
    "fetch.": "max.bytes purgatory.purge.interval.requests",
    "group.": "consumer.assignors consumer.heartbeat.interval.ms consumer.max.heartbeat.interval.ms "
    "consumer.max.session.timeout.ms consumer.max.size consumer.migration.policy consumer.min.heartbeat.interval.ms "
    "consumer.min.session.timeout.ms consumer.session.timeout.ms coordinator.append.linger.ms "
    "coordinator.new.enable coordinator.rebalance.protocols coordinator.threads initial.rebalance.delay.ms "
    "max.session.timeout.ms max.size min.session.timeout.ms share.delivery.count.limit share.enable "
    "share.max.groups share.max.size share.partition.max.record.locks share.record.lock.duration.ms",
    "initial.": "broker.registration.timeout.ms",
    "inter.broker.": "listener.name protocol.version",
    "kafka.": "metrics.polling.interval.secs metrics.reporters",
    "leader.": "imbalance.check.interval.seconds imbalance.per.broker.percentage",
    "listener.": "security.protocol.map",
    "log.": "cleaner.enable dir dir.failure.timeout.ms dirs flush.offset.checkpoint.interval.ms "
    "flush.scheduler.interval.ms flush.start.offset.checkpoint.interval.ms initial.task.delay.ms "
    "retention.check.interval.ms retention.hours retention.minutes roll.hours roll.jitter.hours",
    "max.": "connections.per.ip.overrides incremental.fetch.session.cache.slots request.partition.size.limit",
    "metadata.": "log.dir log.max.record.bytes.between.snapshots log.max.snapshot.interval.ms log.segment.bytes "
    "log.segment.min.bytes log.segment.ms max.idle.interval.ms max.retention.bytes max.retention.ms",
    "metric.": "reporters",
    "metrics.": "num.samples recording.level sample.window.ms",
    "num.": "partitions quota.samples replica.alter.log.dirs.threads",
    "offset.": "metadata.max.bytes",
    "offsets.": "commit.required.acks commit.timeout.ms load.buffer.size retention.check.interval.ms "
    "retention.minutes topic.compression.codec topic.num.partitions topic.replication.factor topic.segment.bytes",
    "password.encoder.": "cipher.algorithm iterations key.length keyfactory.algorithm",
    "principal.builder.": "class",
    "producer.": "id.expiration.check.interval.ms purgatory.purge.interval.requests",
    "queued.": "max.request.bytes max.requests",
    "quota.": "window.num window.size.seconds",
    "remote.": "fetch.max.wait.ms log.index.file.cache.total.size.bytes log.manager.copier.thread.pool.size "
    "log.manager.copy.max.bytes.per.second log.manager.copy.quota.window.num "
    "log.manager.copy.quota.window.size.seconds log.manager.expiration.thread.pool.size "
    "log.manager.fetch.max.bytes.per.second log.manager.fetch.quota.window.num "
    "log.manager.fetch.quota.window.size.seconds log.manager.task.interval.ms log.manager.task.retry.backoff.max.ms "
    "log.manager.task.retry.backoff.ms log.manager.task.retry.jitter log.manager.thread.pool.size "
    "log.metadata.custom.metadata.max.bytes log.metadata.manager.class.name log.metadata.manager.impl.prefix "
    "log.metadata.manager.listener.name log.reader.max.pending.tasks log.reader.threads "
    "log.storage.manager.class.name log.storage.manager.impl.prefix log.storage.system.enable",
    "replica.": "fetch.backoff.ms fetch.max.bytes fetch.min.bytes fetch.response.max.bytes fetch.wait.max.ms "
    "high.watermark.checkpoint.interval.ms lag.time.max.ms selector.class socket.receive.buffer.bytes "
    "socket.timeout.ms",
    "request.": "timeout.ms",
    "reserved.": "broker.max.id",
    "sasl.": "client.callback.handler.class enabled.mechanisms kerberos.kinit.cmd "
    "kerberos.min.time.before.relogin kerberos.principal.to.local.rules kerberos.service.name "
    "kerberos.ticket.renew.jitter kerberos.ticket.renew.window.factor login.callback.handler.class login.class "
    "login.connect.timeout.ms login.read.timeout.ms login.refresh.buffer.seconds login.refresh.min.period.seconds "
    "login.refresh.window.factor login.refresh.window.jitter login.retry.backoff.max.ms login.retry.backoff.ms "
    "mechanism.controller.protocol mechanism.inter.broker.protocol oauthbearer.clock.skew.seconds "
    "oauthbearer.expected.audience oauthbearer.expected.issuer oauthbearer.jwks.endpoint.refresh.ms "
    "oauthbearer.jwks.endpoint.retry.backoff.max.ms oauthbearer.jwks.endpoint.retry.backoff.ms "
    "oauthbearer.scope.claim.name oauthbearer.sub.claim.name server.callback.handler.class server.max.receive.size",
    "security.": "inter.broker.protocol providers",
    "server.": "max.startup.time.ms",
    "socket.": "connection.setup.timeout.max.ms connection.setup.timeout.ms listen.backlog.size "
    "receive.buffer.bytes request.max.bytes send.buffer.bytes",
    "ssl.": "allow.dn.changes allow.san.changes cipher.suites client.auth enabled.protocols "
    "endpoint.identification.algorithm engine.factory.class keymanager.algorithm keystore.location keystore.type "
    "principal.mapping.rules protocol provider secure.random.implementation trustmanager.algorithm "
    "truststore.location truststore.type",
    "telemetry.": "max.bytes",
    "transaction.": "abort.timed.out.transaction.cleanup.interval.ms max.timeout.ms "
    "remove.expired.transaction.cleanup.interval.ms state.log.load.buffer.size state.log.min.isr "
    "state.log.num.partitions state.log.replication.factor state.log.segment.bytes",
    "transactional.": "id.expiration.ms",
    "unclean.": "leader.election.interval.ms",
    "unstable.": "api.versions.enable feature.versions.enable",
    "zookeeper.": "clientCnxnSocket connect connection.timeout.ms max.in.flight.requests metadata.migration.enable "
    "metadata.migration.min.batch.size session.timeout.ms set.acl ssl.cipher.suites ssl.client.enable ssl.crl.enable "
    "ssl.enabled.protocols ssl.endpoint.identification.algorithm ssl.keystore.location ssl.keystore.type "
    "ssl.ocsp.enable ssl.protocol ssl.truststore.location ssl.truststore.type sync.time.ms",
    "zk2kraft.": "control.address divergence.max.records divergence.max.seconds divergence.policy export.dir gates "
    "takeover.max.ms waive zookeeper.jute.maxbuffer",
}
"""By beginning, so that the list stays readable; together they are whole names."""


def _names() -> Iterator[str]:
    for begin, ends in _ENDINGS.items():
        yield from (begin + end for end in ends.split())


SHOWN: Final = frozenset((*_names(), *BROKER_CONFIGS))
"""Names of Kafka's and of ours whose values are no secret."""

_OF_ONE_LISTENER: Final = re.compile(r"listener\.name\.[^.]*\.")
_SETTING: Final = re.compile(r"[#!\s]*([^\s=:]+)\s*[=:]")


def is_hidden(key: str) -> bool:
    """Whether the value may not be shown."""
    return _OF_ONE_LISTENER.sub("", key, count=1) not in SHOWN


def is_hidden_comment(text: str) -> bool:
    """Whether a comment may not be shown: it may be a setting of before, or name a secret in words."""
    setting = _SETTING.match(text)
    if setting is not None and is_hidden(setting[1]):
        return True
    return any(word in text.lower() for word in _WORDS_OF_COMMENTS)
