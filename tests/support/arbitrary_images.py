"""Images for hypothesis: few names, few brokers, so that two of them have much in common and differ in little."""

from __future__ import annotations

from hypothesis import strategies as st

from migrator.model.image import Image
from migrator.model.values import (
    Acl,
    AclEntry,
    AclOperation,
    AclPattern,
    AclPermission,
    AclResource,
    AclResourceType,
    DelegationToken,
    Partition,
    QuotaEntity,
    Recovery,
    ScramCredential,
    ScramKey,
    ScramMechanism,
)
from tests.support.builders import a_topic, an_id, an_image

BROKERS = (1, 2, 3, 4)

replica_lists = st.lists(st.sampled_from(BROKERS), min_size=1, max_size=4, unique=True).map(tuple)


@st.composite
def partitions(draw: st.DrawFn, number: int) -> Partition:
    replicas = draw(replica_lists)
    isr = tuple(draw(st.lists(st.sampled_from(replicas), min_size=1, unique=True)))
    return Partition(
        number,
        replicas,
        isr,
        draw(st.sampled_from([*isr, -1])),
        draw(st.integers(0, 9)),
        draw(st.integers(0, 4)),
        draw(st.sampled_from([(), replicas[:1]])),
        draw(st.sampled_from([(), replicas[-1:]])),
        draw(st.sampled_from([Recovery.RECOVERED, Recovery.RECOVERING])),
    )


NAMES = ("alice", "b@b c", "ü/*+%~", "<default>", "x.y-z_1")
"""Of users, clients and addresses: with signs that no znode name may have, and one that would be everybody."""

names_or_all = st.sampled_from([None, *NAMES])
rates = st.sampled_from([0.0, 1.0, 1024.0, 2.0**53])
shares = st.floats(0, 1e12, allow_nan=False, allow_infinity=False)
client_quotas = st.dictionaries(
    st.sampled_from(["producer_byte_rate", "consumer_byte_rate"]), rates, min_size=1
) | st.dictionaries(st.sampled_from(["request_percentage", "controller_mutation_rate"]), shares, min_size=1)


@st.composite
def quotas(draw: st.DrawFn) -> tuple[QuotaEntity, dict[str, float]]:
    types = draw(st.sampled_from([("user",), ("client-id",), ("user", "client-id"), ("ip",)]))
    entity = QuotaEntity(tuple((type_, draw(names_or_all)) for type_ in types))
    if types == ("ip",):
        return entity, {"connection_creation_rate": float(draw(st.integers(0, 2**31 - 1)))}
    return entity, draw(client_quotas)


scram_keys = st.builds(
    ScramKey, st.sampled_from([name for name in NAMES if name != "<default>"]), st.sampled_from(ScramMechanism)
)
scram_credentials = st.builds(
    ScramCredential, st.binary(max_size=9), st.binary(max_size=9), st.binary(max_size=9), st.integers(4096, 16384)
)
acls = st.builds(
    Acl,
    st.builds(
        AclResource,
        st.sampled_from(AclResourceType),
        st.sampled_from(AclPattern),
        st.sampled_from(["*", "orders", "a:b", "ü (all)"]),
    ),
    st.builds(
        AclEntry,
        st.sampled_from(["User:alice", "User:*", "User:CN=a,O=b:c", "Group:ops"]),
        st.sampled_from(["*", "10.0.0.1"]),
        st.sampled_from(AclOperation),
        st.sampled_from(AclPermission),
    ),
)
moments = st.integers(0, 2**53)
principals = st.sampled_from(["User:alice", "User:b@b c", "Service:x/y", "User:ü:1"])
tokens = st.builds(
    DelegationToken,
    st.sampled_from(["aB3-_x", "token-2"]),
    principals,
    principals,
    st.lists(principals, max_size=2).map(tuple),
    moments,
    moments,
    moments,
)


@st.composite
def images(draw: st.DrawFn) -> Image:
    names = draw(st.lists(st.sampled_from("abcd"), unique=True))
    topics = [
        a_topic(
            name,
            [draw(partitions(number)) for number in range(draw(st.integers(1, 3)))],
            an_id(name + draw(st.sampled_from(["", "'"]))),
        )
        for name in names
    ]
    values = st.dictionaries(st.sampled_from(["retention.ms", "cleanup.policy"]), st.sampled_from(["1", "2"]))
    return an_image(
        *topics,
        topic_configs={name: config for name in names if (config := draw(values))},
        broker_configs={name: config for name in ("", "1") if (config := draw(values))},
        next_producer_id=draw(st.none() | st.sampled_from([1000, 2000])),
        quotas=dict(draw(st.lists(quotas(), max_size=3))),
        scram=draw(st.dictionaries(scram_keys, scram_credentials, max_size=2)),
        acls=draw(st.lists(acls, max_size=4, unique=True)),
        tokens=draw(st.lists(tokens, max_size=2, unique_by=lambda token: token.id)),
    )
