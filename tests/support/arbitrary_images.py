"""Images for hypothesis: few names, few brokers, so that two of them have much in common and differ in little."""

from __future__ import annotations

from hypothesis import strategies as st

from migrator.model.image import Image
from migrator.model.values import Partition, Recovery, ScramCredential, ScramKey
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
    keys = st.builds(ScramKey, st.sampled_from(["controller", "broker"]), st.sampled_from([1, 2]))
    some = st.binary(max_size=3)
    credentials = st.builds(ScramCredential, some, some, some, st.sampled_from([4096, 8192]))
    return an_image(
        *topics,
        topic_configs={name: config for name in names if (config := draw(values))},
        broker_configs={name: config for name in ("", "1") if (config := draw(values))},
        next_producer_id=draw(st.none() | st.sampled_from([1000, 2000])),
        scram=draw(st.dictionaries(keys, credentials, max_size=2)),
    )
