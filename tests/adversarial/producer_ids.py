"""Producer ids as clients get them, by the thousand: InitProducerId in bursts, and a book in which none stands twice.

In:   a broker's port.
Out:  the ids of one burst, or of one transactional id; `Handed` keeps every id of a run.
Elsewhere: blocks of ids, which brokers ask of the controller as these requests use them up.
Source: Kafka 3.9's schema of InitProducerId (api key 22), version 1, which is of fixed size but for the name.
"""

from __future__ import annotations

import asyncio
import struct
from dataclasses import dataclass, field
from typing import Final

from migrator.lab.servers.ports import HOST

API_KEY: Final = 22
VERSION: Final = 1
CLIENT: Final = b"producers"
TRANSACTION_TIMEOUT_MS: Final = 60_000
BLOCK: Final = 1_000
"""What a broker asks for at a time; blocks begin at multiples of it."""

_HEADER: Final = struct.Struct(f">hhih{len(CLIENT)}s")
_ANSWER: Final = struct.Struct(">iiihqh")
"""Size, correlation id, throttle time, error, producer id, producer epoch."""

_NO_NAME: Final = struct.pack(">h", -1)


def _frame(correlation: int, name: bytes | None) -> bytes:
    named = _NO_NAME if name is None else struct.pack(">h", len(name)) + name
    header = _HEADER.pack(API_KEY, VERSION, correlation, len(CLIENT), CLIENT)
    body = header + named + struct.pack(">i", TRANSACTION_TIMEOUT_MS)
    return struct.pack(">i", len(body)) + body


class ProducerIdClient:
    """One connection to a broker; broken by any failure, then opened anew."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, names: list[bytes | None], timeout_s: float) -> list[tuple[int, int]]:
        """An error code and a producer id for each transactional id, None standing for a producer without one.

        Raises OSError or EOFError when the broker cannot be reached or does not answer in time.
        """
        try:
            async with asyncio.timeout(timeout_s):
                if self._streams is None:
                    self._streams = await asyncio.open_connection(HOST, self._port)
                reader, writer = self._streams
                writer.write(b"".join(_frame(number, name) for number, name in enumerate(names)))
                answers = [_ANSWER.unpack(await reader.readexactly(_ANSWER.size)) for _ in names]
        except BaseException:
            self.close()
            raise
        assert [answer[1] for answer in answers] == list(range(len(names))), "answers come in the requests' order"
        return [(error, producer_id) for _, _, _, error, producer_id, _ in answers]

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
        self._streams = None


@dataclass(slots=True)
class Handed:
    """Every id that a client was given, and by which broker; `violations` says what was given twice."""

    count: int = 0
    highest: int = -1
    violations: list[str] = field(default_factory=list)
    _blocks: dict[int, bytearray] = field(default_factory=dict)
    _owners: dict[int, int] = field(default_factory=dict)

    @property
    def blocks(self) -> int:
        return len(self._blocks)

    def note(self, producer_id: int, broker: int) -> None:
        number, place = divmod(producer_id, BLOCK)
        taken = self._blocks.setdefault(number, bytearray(BLOCK))
        owner = self._owners.setdefault(number, broker)
        if taken[place]:
            self.violations.append(f"producer id {producer_id} was handed out by {owner} and again by {broker}")
        elif owner != broker:
            self.violations.append(f"brokers {owner} and {broker} both have the block of producer id {producer_id}")
        taken[place] = 1
        self.count += 1
        self.highest = max(self.highest, producer_id)
