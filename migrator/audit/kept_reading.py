"""What a rehearsal read, kept as fingerprints: so that a copy is judged by it where ZooKeeper has moved on since.

In:   every znode that the rehearsal reads (`KeptReading.session` hands them over on their way).
Out:  a file beside the copy; whether the log says of a key what was read.
Elsewhere: the copy, whose reader shares no code with these facts (node.tools.rehearsal, driver.tree), the rule
(compare.py).
Without it a topic that was copied wrongly and whose znodes were written again since, with the very same bytes, would
pass: "ZooKeeper changed it afterwards".
Form: 32 bytes of the key of the secret fingerprints, then pairs of 8 bytes, sorted: a hash of family and key, and of
the facts.
"""

from __future__ import annotations

import mmap
import os
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from functools import lru_cache
from hashlib import blake2b
from itertools import tee
from pathlib import Path
from typing import Any, Final, cast

from migrator.audit.fingerprints import KEY_BYTES, SecretFingerprints
from migrator.audit.normalise import (
    BROKER_CONFIGS,
    NEXT_ID,
    PARTITIONS,
    PRODUCER_IDS,
    PRODUCER_IDS_KEY,
    TOPIC_CONFIGS,
    TOPICS,
    Facts,
    partition_key,
    zk_config,
    zk_producer_ids,
    zk_state,
    zk_topic,
)
from migrator.audit.passwords import PasswordReader, clear_facts
from migrator.audit.rows import HOLD_SECRETS, facts_text
from migrator.audit.security_facts import ENTITY_ROOTS, TOKEN_ROOT, zk_facts
from migrator.findings.audit import AUDIT_CANNOT_READ
from migrator.findings.finding import FindingError, words_of
from migrator.zk import paths
from migrator.zk.acl_znodes import ACL_ROOTS
from migrator.zk.bulk_read import Znode
from migrator.zk.pipeline import UNLIMITED, ReadLimits
from migrator.zk.session import ZkSession

KEPT: Final = "zk2kraft-rehearsal-read"
"""The file, in the rehearsal's directory."""

_BYTES: Final = 8
_ZNODES: Final = (
    *(f"/config/{each}/" for each in ENTITY_ROOTS.values()),
    *(f"{root}/" for root in (TOKEN_ROOT, *ACL_ROOTS.values())),
)


def _hash(text: str) -> bytes:
    return blake2b(text.encode(errors="surrogatepass"), digest_size=_BYTES).digest()


def _place(family: str, key: str) -> bytes:
    return _hash(f"{family}\0{key}")


def _fingerprinted(fingerprints: SecretFingerprints, family: str, facts: Facts) -> Facts:
    return fingerprints.facts(facts) if family in HOLD_SECRETS else facts


class KeptReading:
    """Notes what is read. What cannot be read has no facts: the rehearsal itself refuses it."""

    def __init__(self, passwords: PasswordReader | None = None) -> None:
        self._passwords = passwords
        self._fingerprints = SecretFingerprints()
        self._topics: dict[str, bytes | None] = {}
        self._assigned: tuple[str, dict[int, Facts]] = ("", {})
        self._found: dict[bytes, bytes] = {}

    def session(self, session: ZkSession) -> ZkSession:
        """The same session, whose znodes are noted on their way."""
        return cast(ZkSession, _Noting(session, self))

    def note(self, path: str, znode: Znode) -> None:
        try:
            for family, key, facts in self._facts(path, znode):
                self._found[_place(family, key)] = _hash(facts_text(_fingerprinted(self._fingerprints, family, facts)))
        except FindingError:
            return

    def _facts(self, path: str, znode: Znode) -> Iterator[tuple[str, str, Facts]]:
        if path.startswith(paths.TOPICS + "/"):
            yield from self._topic_facts(path, znode)
        elif path.startswith(paths.TOPIC_CONFIGS + "/"):
            yield from _told(TOPIC_CONFIGS, path.rpartition("/")[2], zk_config(path, znode.data))
        elif path.startswith(paths.BROKER_CONFIGS + "/"):
            name = path.rpartition("/")[2]
            facts = clear_facts(path, zk_config(path, znode.data), self._passwords)
            yield from _told(BROKER_CONFIGS, "" if name == paths.DEFAULT_ENTITY else name, facts)
        elif path == paths.PRODUCER_IDS and znode.data:
            yield PRODUCER_IDS, PRODUCER_IDS_KEY, {NEXT_ID: zk_producer_ids(path, znode.data)[NEXT_ID]}
        elif path.startswith(_ZNODES):
            for family, facts in zk_facts(path, znode.data).items():
                yield from _told(family, path, facts)

    def _topic_facts(self, path: str, znode: Znode) -> Iterator[tuple[str, str, Facts]]:
        """A topic's znode is read before the states of its partitions, which come topic by topic."""
        name, _, below = path[len(paths.TOPICS) + 1 :].partition("/partitions/")
        if not below:
            self._topics[name] = znode.data
            yield TOPICS, name, zk_topic(path, znode.data)[0]
            return
        partition = int(below.partition("/")[0])
        if self._assigned[0] != name:
            self._assigned = name, zk_topic(paths.topic(name), self._topics.get(name))[1]
        state = zk_state(path, znode.data, znode.version)
        yield PARTITIONS, partition_key(name, partition), {**self._assigned[1].get(partition, {}), **state}

    def content(self) -> bytes:
        return bytes.fromhex(self._fingerprints.key_hex) + b"".join(
            place + self._found[place] for place in sorted(self._found)
        )


def _told(family: str, key: str, facts: Facts) -> Iterator[tuple[str, str, Facts]]:
    """A znode without values says nothing, as in zk_source.py."""
    if facts:
        yield family, key, facts


class _Noting:
    """A session of which only the reading of data is looked at."""

    def __init__(self, session: ZkSession, kept: KeptReading) -> None:
        self._session = session
        self._kept = kept

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def get(self, path: str) -> Znode | None:
        znode = self._session.get(path)
        if znode is not None:
            self._kept.note(path, znode)
        return znode

    def get_many(self, wanted: Iterable[str], limits: ReadLimits = UNLIMITED) -> Iterator[Znode | None]:
        names, asked = tee(wanted)
        for path, znode in zip(names, self._session.get_many(asked, limits), strict=True):
            if znode is not None:
                self._kept.note(path, znode)
            yield znode


# --- reading it --------------------------------------------------------------------------------------------


class KeptFacts:
    """The file of a rehearsal. Raises Z2K-5001 where it is missing or is none."""

    def __init__(self, path: Path) -> None:
        try:
            with path.open("rb") as file:
                self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            raise AUDIT_CANNOT_READ.error(what=str(path), reason=words_of(error)) from error
        self._count, rest = divmod(len(self._data) - KEY_BYTES, 2 * _BYTES)
        if self._count < 0 or rest:
            raise AUDIT_CANNOT_READ.error(what=str(path), reason="it is not whole")
        self.fingerprints = SecretFingerprints(self._data[:KEY_BYTES])

    def says(self, family: str, key: str, log: Facts | None) -> bool:
        """Whether these are the facts that were read. log: as the log has them, with secret fingerprints of
        `fingerprints`; None: the log has no such key, which is right where nothing was read under it.
        """
        place = _place(family, key)
        nth = bisect_left(range(self._count), place, key=self._place_at)
        found = self._at(nth) if nth < self._count and self._place_at(nth) == place else None
        return found == (None if log is None else _hash(facts_text(log)))

    def _place_at(self, nth: int) -> bytes:
        begin = KEY_BYTES + 2 * _BYTES * nth
        return self._data[begin : begin + _BYTES]

    def _at(self, nth: int) -> bytes:
        begin = KEY_BYTES + 2 * _BYTES * nth + _BYTES
        return self._data[begin : begin + _BYTES]


def kept_facts(path: str) -> KeptFacts:
    """Open a kept reading once: an audit asks it for every key that differs. A file made again is another one."""
    try:
        state = os.stat(path)
    except OSError as error:
        raise AUDIT_CANNOT_READ.error(what=path, reason=str(error)) from error
    return _kept_facts(path, (state.st_dev, state.st_ino, state.st_mtime_ns, state.st_size))


@lru_cache(maxsize=4)
def _kept_facts(path: str, _identity: tuple[int, int, int, int]) -> KeptFacts:
    return KeptFacts(Path(path))
