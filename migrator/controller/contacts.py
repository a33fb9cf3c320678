"""When did each broker last report, and how far had it read? Known to the active controller only, never in the log.

In:   contacts with their time (milliseconds of any steady clock).
Out:  who is silent for too long, whose session stands, how far the slowest active broker is, who was kept out.
Elsewhere: what follows from silence (brokers.py).
Source: Kafka 3.9 `BrokerHeartbeatManager`. A new active controller starts empty and gives everybody a fresh session.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from migrator.findings.finding import Occurrence

NAMED_MAX: Final = 100
"""Brokers that are named for one kind of refusal: without an authorizer anybody may claim any id."""


@dataclass(slots=True)
class Contact:
    """last_ms: time of the last heartbeat or registration. controlled_shutdown_offset: -1 unless it is leaving.

    offline_dirs: directories that its last heartbeat reports as failed.
    """

    last_ms: int
    metadata_offset: int = -1
    controlled_shutdown_offset: int = -1
    register_offset: int = -1
    offline_dirs: frozenset[bytes] = frozenset()


class Contacts:
    """One `Contact` per broker id."""

    def __init__(self) -> None:
        self._contacts: dict[int, Contact] = {}
        self.kept_out: dict[int, tuple[int, int]] = {}
        """Brokers whose latest registration was refused for their levels of metadata.version, with these levels."""
        self.odd_hosts: dict[int, Occurrence] = {}
        """Brokers whose latest registration was refused for a host that nobody can connect to (Z2K-2151)."""
        self.too_old: dict[int, Occurrence] = {}
        """Brokers whose latest fetch was refused, for their release (Z2K-1053, Z2K-1054)."""
        self.earlier_logs: dict[int, Occurrence] = {}
        """Brokers whose latest fetch was refused, for the log that they follow (Z2K-1055); registered or not."""
        self.reading: set[int] = set()
        """Brokers that this leadership gave what they asked for of the log."""

    def clear(self, brokers: Iterable[int], now_ms: int) -> None:
        """A new leadership: every registered broker gets a fresh session."""
        self._contacts = {broker: Contact(now_ms) for broker in brokers}
        self.kept_out = {}
        self.odd_hosts = {}
        self.too_old = {}
        self.earlier_logs = {}
        self.reading = set()

    @property
    def refused(self) -> tuple[Occurrence, ...]:
        """Why brokers are kept out, the first ones of each kind."""
        kinds = (self.too_old, self.earlier_logs, self.odd_hosts)
        return tuple(found for kind in kinds for found in islice(kind.values(), NAMED_MAX))

    def why_refused(self, broker: int) -> Occurrence | None:
        return self.too_old.get(broker) or self.earlier_logs.get(broker) or self.odd_hosts.get(broker)

    def get(self, broker: int) -> Contact | None:
        return self._contacts.get(broker)

    def kept(self, broker: int) -> Contact | None:
        """The broker's contact as it is now, for `put_back`."""
        contact = self._contacts.get(broker)
        return None if contact is None else replace(contact)

    def put_back(self, broker: int, kept: Contact | None) -> None:
        """What was decided about this broker was not appended. It was heard all the same."""
        if kept is not None:
            now = self._contacts.get(broker)
            self._contacts[broker] = replace(kept, last_ms=kept.last_ms if now is None else now.last_ms)

    def registered(self, broker: int, register_offset: int, now_ms: int, *, new_incarnation: bool) -> None:
        self.kept_out.pop(broker, None)
        self.odd_hosts.pop(broker, None)
        self.too_old.pop(broker, None)
        if new_incarnation or broker not in self._contacts:
            self._contacts[broker] = Contact(now_ms)
        contact = self._contacts[broker]
        contact.last_ms = now_ms
        contact.register_offset = register_offset

    def touch(
        self, broker: int, metadata_offset: int, now_ms: int, *, fenced: bool, offline_dirs: Iterable[bytes] = ()
    ) -> None:
        contact = self._contacts.setdefault(broker, Contact(now_ms))
        contact.offline_dirs = frozenset(offline_dirs)
        contact.last_ms = now_ms
        contact.metadata_offset = metadata_offset
        if fenced:
            contact.controlled_shutdown_offset = -1

    def leaves_at(self, broker: int, offset: int) -> None:
        """Note the offset of the batch that began a controlled shutdown; only the first one counts."""
        contact = self._contacts[broker]
        if contact.controlled_shutdown_offset < 0:
            contact.controlled_shutdown_offset = offset

    def remove(self, broker: int) -> None:
        self._contacts.pop(broker, None)
        self.kept_out.pop(broker, None)
        self.odd_hosts.pop(broker, None)
        self.too_old.pop(broker, None)
        self.earlier_logs.pop(broker, None)
        self.reading.discard(broker)

    def any_reported(self, brokers: Iterable[int]) -> bool:
        """Whether one of these sent a heartbeat to this leadership, under its registration in this log."""
        found = map(self._contacts.get, brokers)
        return any(contact is not None and contact.metadata_offset >= 0 for contact in found)

    def age_ms(self, broker: int, now_ms: int) -> int | None:
        contact = self._contacts.get(broker)
        return None if contact is None else now_ms - contact.last_ms

    def session_stands(self, broker: int, now_ms: int, timeout_ms: int) -> bool:
        age = self.age_ms(broker, now_ms)
        return age is not None and age <= timeout_ms

    def lowest_offset(self, brokers: Iterable[int]) -> int | None:
        """How far the slowest of these has read; those that are leaving are not waited for. None: nobody is left."""
        offsets = [
            contact.metadata_offset
            for broker in brokers
            if (contact := self._contacts.get(broker)) is not None and contact.controlled_shutdown_offset < 0
        ]
        return min(offsets, default=None)

    def longest_silent(self, brokers: Iterable[int], now_ms: int, timeout_ms: int) -> int | None:
        """The broker that is silent for the longest beyond the time-out, or None. One never heard of has no session."""
        silent = [
            (contact.last_ms, broker)
            for broker in brokers
            if (contact := self._contacts.get(broker)) is not None and now_ms - contact.last_ms > timeout_ms
        ]
        return min(silent)[1] if silent else None
