"""How many partitions a user or client may create and delete per second (`controller_mutation_rate`).

In:   who asks, how many partitions, the time.
Out:  `Throttled` where a newer request has to wait; for how long the asker should be silent.
Elsewhere: setting the quota (quotas.py), what a request creates or deletes (topics.py).
Rules: a bucket of tokens per user and client, whichever of them the quota that applies is about. It holds what comes
together in all windows, and is full at first. Strict: nothing is begun while the bucket is overdrawn; what is begun
may overdraw it. Permissive (older versions of the requests): everything is done, and the asker is told to wait.
Source: Kafka 3.9 `ControllerMutationQuotaManager`, `ClientQuotaManager`, `TokenBucket`; KIP-599. A new active
controller begins with full buckets, as stock. Stock deducts from the wait what the answer itself took; we do not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from migrator.controller.authorizer import Asker
from migrator.model.image import NO_QUOTAS, Image
from migrator.model.values import QuotaEntity

MUTATION_RATE: Final = "controller_mutation_rate"
WINDOWS: Final = 11
WINDOW_S: Final = 1
BUCKETS_MAX: Final = 10_000
"""Client ids are anybody's to choose. Beyond this, buckets that are full again are forgotten: a new one is the same."""

WAIT_MS_MAX: Final = 2**31 - 1
"""What Kafka's field holds."""

Key = tuple[str, str]
"""User and client; "" where the quota that applies is not about it."""


class Throttled(Exception):
    """THROTTLING_QUOTA_EXCEEDED."""


@dataclass(slots=True)
class Bucket:
    """tokens: partitions that may still be changed; below 0 it is overdrawn."""

    tokens: float
    at_ms: int
    rate: float


class MutationBuckets:
    """The buckets of one leadership. Times are those of any steady clock."""

    def __init__(self, windows_s: int = WINDOWS * WINDOW_S) -> None:
        self._windows_s = windows_s
        self._buckets: dict[Key, Bucket] = {}

    def __len__(self) -> int:
        return len(self._buckets)

    def clear(self) -> None:
        self._buckets.clear()

    def bucket(self, key: Key, rate: float, now_ms: int) -> Bucket:
        """The bucket of a key, refilled up to now; another rate counts from now on."""
        bucket = self._buckets.get(key)
        if bucket is None:
            self._forget_full(now_ms)
            bucket = self._buckets[key] = Bucket(self._windows_s * rate, now_ms, rate)
        bucket.rate = rate
        self._refill(bucket, now_ms)
        return bucket

    def _refill(self, bucket: Bucket, now_ms: int) -> None:
        more = bucket.rate * (now_ms - bucket.at_ms) / 1000
        bucket.tokens = min(self._windows_s * bucket.rate, bucket.tokens + more)
        bucket.at_ms = now_ms

    def _forget_full(self, now_ms: int) -> None:
        if len(self._buckets) < BUCKETS_MAX:
            return
        for bucket in self._buckets.values():
            self._refill(bucket, now_ms)
        kept = {key: each for key, each in self._buckets.items() if each.tokens < self._windows_s * each.rate}
        self._buckets = kept if len(kept) < BUCKETS_MAX else {}


class MutationQuota:
    """What one request may still change. Without a quota: everything."""

    def __init__(self, bucket: Bucket | None, *, strict: bool) -> None:
        self._bucket = bucket
        self._strict = strict
        self.throttle_ms = 0
        """For how long the asker should be silent."""

    def take(self, partitions: int) -> None:
        """Raises `Throttled` when the bucket was overdrawn before."""
        bucket = self._bucket
        if bucket is None:
            return
        if self._strict and bucket.tokens < 0:
            self.throttle_ms = _wait_ms(bucket)
            raise Throttled("The throttling quota has been exceeded.")
        bucket.tokens = min(bucket.tokens - partitions, bucket.tokens)
        if not self._strict and bucket.tokens < 0:
            self.throttle_ms = _wait_ms(bucket)


def _wait_ms(bucket: Bucket) -> int:
    """Until nothing is overdrawn any more. A quota of nothing, which may stand in ZooKeeper, is never filled again."""
    return WAIT_MS_MAX if bucket.rate <= 0 else round(min(-bucket.tokens / bucket.rate * 1000, WAIT_MS_MAX))


def quota_for(
    image: Image, asker: Asker | None, buckets: MutationBuckets, now_ms: int, *, strict: bool
) -> MutationQuota:
    """asker: None: this node itself, which has no quota."""
    found = None if asker is None else _applies(image.quotas, asker)
    bucket = None if found is None else buckets.bucket(*found, now_ms)
    return MutationQuota(bucket, strict=strict)


def _applies(quotas: Mapping[QuotaEntity, Mapping[str, float]], asker: Asker) -> tuple[Key, float] | None:
    """The nearest quota, and whose bucket it fills: a default counts for everybody by themselves."""
    if not quotas:
        return None
    user, client = asker.principal.partition(":")[2], asker.client_id
    for names in (
        {"user": user, "client-id": client},
        {"user": user, "client-id": None},
        {"user": user},
        {"user": None, "client-id": client},
        {"user": None, "client-id": None},
        {"user": None},
        {"client-id": client},
        {"client-id": None},
    ):
        rate = quotas.get(QuotaEntity.of(names.items()), NO_QUOTAS).get(MUTATION_RATE)
        if rate is not None:
            return (user if "user" in names else "", client if "client-id" in names else ""), rate
    return None
