"""Ask each broker what it knows and has, in facts by family and key as the two other sides tell them.

In:   addresses of any brokers, how to speak to brokers, and the log's facts: leader epochs and topic ids are asked
      about, not told.
Out:  a `BrokerReading` of each broker that answers, one at a time, and by broker id why there is none.
Elsewhere: what is compared (audit/brokers), when a difference counts (node/tools/third_side.py), asking in tasks of
Spark (node/tools/asking_by_tasks.py).
Rules: a few brokers are asked beside each other, each over one connection, and nothing is changed. Of 100,000
partitions an answer takes 100 MB here, so none is kept. A broker in ZooKeeper mode
answers questions about configuration, quotas and credentials from ZooKeeper at each call, so it is not asked these: it
would be no side of its own. Nor is it asked for tokens: it reads them when it starts, and hears of no later one.
Source: Kafka 3.9 `KafkaApis`, `ReplicaManager.readFromLog` (a Fetch names a topic id; a log of another one refuses it),
`Partition.lastOffsetForLeaderEpoch`, `UpdateMetadataRequest.json` (only brokers in ZooKeeper mode have it),
`KafkaApis.handleDescribeTokensRequest`, `DelegationTokenManager.filterToken`.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from migrator.audit.brokers.answers import (
    LOGS,
    BrokerReading,
    acl_facts,
    broker_config_facts,
    partition_facts,
    quota_facts,
    scram_facts,
    token_facts,
    topic_config_facts,
)
from migrator.audit.normalise import (
    BROKER_CONFIGS,
    BROKER_RESOURCE,
    PARTITIONS,
    TOPIC_CONFIGS,
    TOPIC_RESOURCE,
    TOPICS,
    Facts,
    LogFacts,
    id_text,
    partition_key,
)
from migrator.audit.security_facts import ACLS, QUOTAS, SCRAM, TOKENS
from migrator.findings.finding import words_of
from migrator.node.transport.broker_client import BrokerConnection
from migrator.node.transport.client_security import ClientSecurity
from migrator.wire.messages.configs import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from migrator.wire.messages.control import UpdateMetadataRequest
from migrator.wire.messages.handshake import ApiVersionsRequest, ApiVersionsResponse
from migrator.wire.messages.offsets import (
    EpochPartition,
    EpochTopic,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from migrator.wire.messages.replication import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from migrator.wire.messages.security import (
    DescribeAclsRequest,
    DescribeAclsResponse,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from migrator.wire.messages.topics import MetadataRequest, MetadataRequestTopic, MetadataResponse
from migrator.wire.schema import declaration_of

CLIENT_ID: Final = "zk2kraft-audit"
ANSWER_S: Final = 30.0
BROKERS_AT_ONCE: Final = 4
"""Their answers are in memory beside each other."""
PARTITIONS_AT_ONCE: Final = 10_000
"""In one Fetch or OffsetForLeaderEpoch."""
TOPICS_AT_ONCE: Final = 500
"""In one DescribeConfigs: a topic's answer has about 1,300 bytes."""

API_VERSIONS: Final = 3
METADATA: Final = 12
LOG_DIRS: Final = 4
FETCH: Final = 13
EPOCHS: Final = 4
ACLS_VERSION: Final = 3
CONFIGS: Final = 4
QUOTAS_VERSION: Final = 1
SCRAM_VERSION: Final = 0
TOKENS_VERSION: Final = 3

UNKNOWN_TOPIC_OR_PARTITION: Final = 3
NOT_LEADER: Final = 6
REPLICA_NOT_AVAILABLE: Final = 9
TOPIC_AUTHORIZATION_FAILED: Final = 29
SECURITY_DISABLED: Final = 54
STORAGE_ERROR: Final = 56
TOKENS_DISABLED: Final = 61
TOKENS_NOT_HERE: Final = 64
"""Over a connection without a login, or one that a token made."""
FENCED_LEADER_EPOCH: Final = 74
UNKNOWN_LEADER_EPOCH: Final = 75
UNKNOWN_TOPIC_ID: Final = 100
INCONSISTENT_TOPIC_ID: Final = 103

ANY: Final = 1
"""Of resource types, patterns, operations and permissions."""
NO_OFFSET: Final = -1
"""No log has it: whatever answers to it sends no records."""

LEADS: Final = {NOT_LEADER: "it does not lead", FENCED_LEADER_EPOCH: "later", UNKNOWN_LEADER_EPOCH: "earlier"}
"""What a broker says of a partition that it should lead at an epoch: it leads at another one, or not at all."""
ANOTHER: Final = "another one"


Addresses = dict[int, tuple[str, int]]
"""Host and port by broker id."""


@dataclass(frozen=True, slots=True)
class WhomToAsk:
    """alive: whom to ask, and where. silent: why nobody else can be asked, by broker id."""

    alive: Addresses
    silent: dict[int, str]


async def whom_to_ask(
    bootstrap: Sequence[tuple[str, int]],
    log: LogFacts,
    security: ClientSecurity,
    *,
    only: Iterable[int] | None = None,
    without: Collection[int] = (),
) -> WhomToAsk:
    """Ask the addresses who is alive. A broker that the others do not name, as it is fenced, names itself at its own
    address.

    only: these; None: all that have replicas, are registered, or are alive, but those of `without`. Raises OSError when
    no address answers.
    """
    alive = await _alive(bootstrap, security)
    everybody = {*alive, *with_replicas(log), *log.registered}
    wanted = (everybody if only is None else set(only)) - set(without)
    return WhomToAsk(
        {broker: alive[broker] for broker in sorted(wanted & set(alive))},
        dict.fromkeys(wanted - set(alive), "no broker names it as alive"),
    )


async def read_brokers(
    bootstrap: Sequence[tuple[str, int]],
    log: LogFacts,
    security: ClientSecurity,
    take: Callable[[BrokerReading], None],
    *,
    only: Iterable[int] | None = None,
    without: Collection[int] = (),
    limit_s: float = ANSWER_S,
) -> dict[int, str]:
    """Ask them, hand each reading to `take`, and return why there is none, by broker id.

    only, without: as `whom_to_ask`, which raises OSError. limit_s: for all of them together.
    """
    ends = asyncio.get_running_loop().time() + limit_s
    asked = await whom_to_ask(bootstrap, log, security, only=only, without=without)
    silent = dict(asked.silent)
    limit = asyncio.Semaphore(BROKERS_AT_ONCE)

    async def one(broker: int, address: tuple[str, int]) -> None:
        async with limit:
            reading = await read_broker(broker, address, log, security, ends - asyncio.get_running_loop().time())
            if isinstance(reading, str):
                silent[broker] = reading
                return
            take(reading)

    await asyncio.gather(*(one(*each) for each in asked.alive.items()))
    return silent


async def read_broker(
    broker: int, address: tuple[str, int], log: LogFacts, security: ClientSecurity, limit_s: float
) -> BrokerReading | str:
    """Ask one broker at its address; a text says why it was not read."""
    connection = BrokerConnection(*address, CLIENT_ID, security)
    try:
        async with asyncio.timeout(limit_s):
            return await _Questions(broker, connection, log).reading()
    except Exception as error:
        return reason_of(error)
    finally:
        connection.close()


def reason_of(error: BaseException) -> str:
    return "no answer in time" if isinstance(error, TimeoutError) else words_of(error)


def with_replicas(log: LogFacts) -> set[int]:
    """Return the ids of brokers that any partition has a replica on."""
    found: set[int] = set()
    for name in log.topics():
        for facts in log.partitions(name).values():
            found.update(facts["replicas"])
    return found


async def _alive(bootstrap: Sequence[tuple[str, int]], security: ClientSecurity) -> dict[int, tuple[str, int]]:
    """By broker id, as any of these addresses names it; the first one that does counts."""

    async def named(host: str, port: int) -> dict[int, tuple[str, int]] | str:
        connection = BrokerConnection(host, port, CLIENT_ID, security)
        try:
            request = MetadataRequest(topics=(), allow_auto_topic_creation=False)
            answer = await connection.ask(request, METADATA, MetadataResponse, ANSWER_S)
        except (OSError, TimeoutError) as error:
            return f"{host}:{port}: {reason_of(error)}"
        finally:
            connection.close()
        return {each.node_id: (each.host, each.port) for each in answer.brokers}

    answers = await asyncio.gather(*(named(*each) for each in bootstrap))
    found = [each for each in answers if not isinstance(each, str)]
    if not found:
        raise OSError("no broker answers: " + "; ".join(each for each in answers if isinstance(each, str)))
    return {broker: address for each in reversed(found) for broker, address in each.items()}


class _Questions:
    """To one broker, one after the other. What it refuses is a problem of that family, and the others go on."""

    def __init__(self, broker: int, connection: BrokerConnection, log: LogFacts) -> None:
        self._broker = broker
        self._connection = connection
        self._log = log

    async def reading(self) -> BrokerReading:
        answer = await self._ask(ApiVersionsRequest("zk2kraft", "1"), API_VERSIONS, ApiVersionsResponse)
        served = {each.api_key for each in answer.api_keys}
        kraft = declaration_of(UpdateMetadataRequest).api_key not in served
        found = BrokerReading(self._broker, kraft)
        questions: list[tuple[tuple[str, ...], Callable[[], Any]]] = [
            ((TOPICS, PARTITIONS), self._topics),
            ((LOGS,), self._logs),
            ((ACLS,), self._acls),
        ]
        if kraft:
            questions += [
                ((TOPIC_CONFIGS,), self._topic_configs),
                ((BROKER_CONFIGS,), self._broker_configs),
                ((QUOTAS,), self._quotas),
                ((SCRAM,), self._scram),
            ]
            if declaration_of(DescribeDelegationTokenRequest).api_key in served:
                questions.append(((TOKENS,), self._tokens))
        for families, question in questions:
            try:
                found.facts.update(await question())
            except _Refused as refused:
                found.problems.update(dict.fromkeys(families, str(refused)))
        return found

    async def _ask(self, request: Any, version: int, response: Any) -> Any:
        return await self._connection.ask(request, version, response, ANSWER_S)

    # --- what it knows -------------------------------------------------------------------------------------

    async def _topics(self) -> dict[str, dict[str, Facts]]:
        request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
        answer = await self._ask(request, METADATA, MetadataResponse)
        told = [each for each in answer.topics if each.name]
        topics = {each.name: {"id": id_text(each.topic_id)} for each in told}
        partitions = {
            partition_key(topic.name, each.partition_index): partition_facts(each)
            for topic in told
            for each in topic.partitions
        }
        await self._refuse_hidden(name for name in self._log.topics() if name not in topics)
        return {TOPICS: topics, PARTITIONS: partitions}

    async def _refuse_hidden(self, names: Iterable[str]) -> None:
        """A topic that is not told is one that the broker does not know, or one that it does not show to us."""
        some = tuple(MetadataRequestTopic(name=name) for name in list(names)[:20])
        if not some:
            return
        request = MetadataRequest(topics=some, allow_auto_topic_creation=False)
        answer = await self._ask(request, METADATA, MetadataResponse)
        hidden = [each.name for each in answer.topics if each.error_code == TOPIC_AUTHORIZATION_FAILED]
        if hidden:
            raise _Refused(f"it denies Describe on the topic {hidden[0]}")

    async def _acls(self) -> dict[str, dict[str, Facts]]:
        request = DescribeAclsRequest(ANY, None, ANY, None, None, ANY, ANY)
        answer = await self._ask(request, ACLS_VERSION, DescribeAclsResponse)
        if answer.error_code == SECURITY_DISABLED:
            return {}
        _refuse("DescribeAcls", answer)
        return {ACLS: acl_facts(answer.resources)}

    # --- what it has on its disks ---------------------------------------------------------------------------

    async def _logs(self) -> dict[str, dict[str, Facts]]:
        answer = await self._ask(DescribeLogDirsRequest(topics=None), LOG_DIRS, DescribeLogDirsResponse)
        _refuse("DescribeLogDirs", answer)
        found: dict[str, Facts] = {}
        for directory in answer.results:
            if directory.error_code:  # it is offline: whatever it has is not had
                continue
            for topic in directory.topics:
                for each in topic.partitions:
                    if not each.is_future_key:
                        found[partition_key(topic.name, each.partition_index)] = {"log": True}
        mine = [(name, part, facts) for name, part, facts in self._replicas() if partition_key(name, part) in found]
        for key, other in (await self._ids(mine)).items():
            found[key]["topic_id"] = other
        for key, leads in (await self._leads()).items():
            found.setdefault(key, {"log": False})["leads at"] = leads
        return {LOGS: found}

    def _replicas(self) -> Iterator[tuple[str, int, Facts]]:
        """Topic, partition and facts of those that the log gives to this broker."""
        for name in self._log.topics():
            for part, facts in self._log.partitions(name).items():
                if self._broker in facts["replicas"]:
                    yield name, part, facts

    async def _ids(self, mine: Sequence[tuple[str, int, Facts]]) -> dict[str, str]:
        """The topic id that each log has: the log's side's one where a Fetch with it is not refused."""
        found = {}
        for piece in _pieces(mine):
            ids = {name: self._log.topic_id(name) for name in piece}
            names = {topic_id: name for name, topic_id in ids.items()}
            request = FetchRequest(
                max_bytes=1,
                topics=tuple(
                    FetchTopic(
                        topic_id=ids[name],
                        partitions=tuple(
                            FetchPartition(partition=each, fetch_offset=NO_OFFSET, partition_max_bytes=1)
                            for each, _ in parts
                        ),
                    )
                    for name, parts in piece.items()
                ),
            )
            answer = await self._ask(request, FETCH, FetchResponse)
            _refuse("Fetch", answer)
            for topic in answer.responses:
                name = names[topic.topic_id]
                for each in topic.partitions:
                    if each.error_code == TOPIC_AUTHORIZATION_FAILED:
                        raise _Refused(f"it denies Read on the topic {name}")
                    if each.error_code in (UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION, REPLICA_NOT_AVAILABLE):
                        continue  # told elsewhere: it does not know the topic, or has no log
                    known = id_text(topic.topic_id)
                    other = each.error_code == INCONSISTENT_TOPIC_ID
                    found[partition_key(name, each.partition_index)] = ANOTHER if other else known
        return found

    async def _leads(self) -> dict[str, Any]:
        """At which epoch it leads what the log lets it lead."""
        found: dict[str, Any] = {}
        led = [each for each in self._replicas() if each[2]["leader"] == self._broker]
        for piece in _pieces(led):
            epochs = {(name, part): facts["leader_epoch"] for name, parts in piece.items() for part, facts in parts}
            request = OffsetForLeaderEpochRequest(
                replica_id=-1,
                topics=tuple(
                    EpochTopic(name, tuple(EpochPartition(part, facts["leader_epoch"], 0) for part, facts in parts))
                    for name, parts in piece.items()
                ),
            )
            answer = await self._ask(request, EPOCHS, OffsetForLeaderEpochResponse)
            for topic in answer.topics:
                for each in topic.partitions:
                    if each.error_code == TOPIC_AUTHORIZATION_FAILED:
                        raise _Refused(f"it denies Describe on the topic {topic.topic}")
                    if each.error_code in (UNKNOWN_TOPIC_OR_PARTITION, REPLICA_NOT_AVAILABLE, STORAGE_ERROR):
                        continue  # it has no log of it, which is told
                    epoch = epochs[topic.topic, each.partition]
                    said = epoch if not each.error_code else LEADS.get(each.error_code, f"error {each.error_code}")
                    found[partition_key(topic.topic, each.partition)] = said
        return found

    # --- in KRaft mode only --------------------------------------------------------------------------------

    async def _topic_configs(self) -> dict[str, dict[str, Facts]]:
        found: dict[str, Facts] = {}
        names = self._log.topics()
        for at in range(0, len(names), TOPICS_AT_ONCE):
            wanted = [DescribeConfigsResource(TOPIC_RESOURCE, name, None) for name in names[at : at + TOPICS_AT_ONCE]]
            for each in await self._configs(wanted):
                if each.error_code == UNKNOWN_TOPIC_OR_PARTITION:
                    continue  # it does not know the topic, which is told
                _refuse(f"DescribeConfigs of the topic {each.resource_name}", each)
                facts = topic_config_facts(each)
                if facts:
                    found[each.resource_name] = facts
        return {TOPIC_CONFIGS: found}

    async def _broker_configs(self) -> dict[str, dict[str, Facts]]:
        wanted = DescribeConfigsResource(BROKER_RESOURCE, str(self._broker), None)
        (result,) = await self._configs([wanted], synonyms=True)
        _refuse("DescribeConfigs", result)
        return {BROKER_CONFIGS: broker_config_facts(self._broker, result)}

    async def _configs(
        self, wanted: Sequence[DescribeConfigsResource], *, synonyms: bool = False
    ) -> Sequence[DescribeConfigsResult]:
        request = DescribeConfigsRequest(tuple(wanted), include_synonyms=synonyms)
        answer: DescribeConfigsResponse = await self._ask(request, CONFIGS, DescribeConfigsResponse)
        return answer.results

    async def _quotas(self) -> dict[str, dict[str, Facts]]:
        answer = await self._ask(DescribeClientQuotasRequest(), QUOTAS_VERSION, DescribeClientQuotasResponse)
        _refuse("DescribeClientQuotas", answer)
        return {QUOTAS: quota_facts(answer.entries or ())}

    async def _scram(self) -> dict[str, dict[str, Facts]]:
        request = DescribeUserScramCredentialsRequest(None)
        answer = await self._ask(request, SCRAM_VERSION, DescribeUserScramCredentialsResponse)
        _refuse("DescribeUserScramCredentials", answer)
        return {SCRAM: scram_facts(answer.results)}

    async def _tokens(self) -> dict[str, dict[str, Facts]]:
        """Of a broker that has no `delegation.token.secret.key`, and where it may not be asked, nothing is compared."""
        request = DescribeDelegationTokenRequest(None)
        answer = await self._ask(request, TOKENS_VERSION, DescribeDelegationTokenResponse)
        if answer.error_code in (TOKENS_DISABLED, TOKENS_NOT_HERE):
            return {}
        _refuse("DescribeDelegationToken", answer)
        return {TOKENS: token_facts(answer.tokens)}


class _Refused(Exception):
    """A broker answers with an error where an answer is needed."""


def _refuse(what: str, answer: Any) -> None:
    if answer.error_code:
        words = getattr(answer, "error_message", None)
        raise _Refused(f"{what} answered error {answer.error_code}" + (f" ({words})" if words else ""))


def _pieces(
    partitions: Sequence[tuple[str, int, Facts]],
) -> Iterator[Mapping[str, list[tuple[int, Facts]]]]:
    """By topic, at most `PARTITIONS_AT_ONCE` in each."""
    for at in range(0, len(partitions), PARTITIONS_AT_ONCE):
        piece = defaultdict(list)
        for name, part, facts in partitions[at : at + PARTITIONS_AT_ONCE]:
            piece[name].append((part, facts))
        yield piece
