"""What a tap saw: Kafka's requests and responses as frames, in order of arrival.

In:   the bytes of both directions of a connection, in pieces of any size.
Out:  `Frame`s in a `Recorder`: to look at, to wait for, to save and to load.
Elsewhere: carrying the bytes (tap.py); decoding a body (whoever reads the frames; only the message type of the three
controller requests is read here).
Source: Kafka's protocol guide: a frame is a 4-byte length and that many bytes; a request begins with api key, version
and correlation id, its response with the same correlation id.
"""

from __future__ import annotations

import json
import struct
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from pathlib import Path
from typing import Any, Final

from migrator.findings.laboratory import PROCESS_NOT_READY

LEADER_AND_ISR: Final = 4
STOP_REPLICA: Final = 5
UPDATE_METADATA: Final = 6
CONTROLLER_REQUESTS: Final = frozenset({LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA})

FRAME_BYTES_MAX: Final = 512 * 1024 * 1024
"""A longer length is no length: the connection does not speak Kafka (or speaks TLS). Kafka itself stops at 100 MiB."""

REQUEST_HEAD: Final = struct.Struct(">hhi")
RESPONSE_HEAD: Final = struct.Struct(">i")
INDEX: Final = "index.json"


class Direction(StrEnum):
    REQUEST = "request"
    RESPONSE = "response"


class ControlType(IntEnum):
    """Field `Type` of LeaderAndIsr and UpdateMetadata."""

    UNKNOWN = 0
    INCREMENTAL = 1
    FULL = 2


@dataclass(frozen=True, slots=True)
class Frame:
    """One request or response.

    at:      seconds since 1970, when its last byte passed.
    tap:     whose tap, and `connection` which of its connections, counted from 1.
    label:   what the recorder was told was going on.
    payload: everything after the 4-byte length, header included.
    """

    at: float
    tap: str
    connection: int
    direction: Direction
    api_key: int
    version: int
    correlation_id: int
    label: str
    payload: bytes

    @property
    def control_type(self) -> ControlType | None:
        """The type of a LeaderAndIsr (version 5 on) or UpdateMetadata (version 8) request; None for others."""
        if self.direction is Direction.RESPONSE:
            return None
        if self.api_key == LEADER_AND_ISR and self.version >= 5:
            return ControlType(self.payload[_after_header(self) + (17 if self.version >= 7 else 16)])
        if self.api_key == UPDATE_METADATA and self.version >= 8:
            # the body ends with its tagged fields: none is one zero byte; the type is tag 0 of 1 byte
            return ControlType(self.payload[-1])
        return None

    def names(self, text: str) -> bool:
        """Whether a string occurs in it; names of topics are written as they are."""
        return text.encode() in self.payload


class FrameSplitter:
    """Cuts one direction of one connection into frames, keeping only what `wants` lets through.

    wants(head): given the first 8 bytes of a frame (or fewer when it is shorter): keep it?
    """

    def __init__(self, wants: Callable[[bytes], bool]) -> None:
        self._wants = wants
        self._held = bytearray()
        self._skip = 0
        self.is_readable = True

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Payloads of the frames that end in this chunk. Yields nothing more once the stream is no Kafka stream."""
        if self._skip >= len(chunk):
            self._skip -= len(chunk)
            return
        self._held += memoryview(chunk)[self._skip :]
        self._skip = 0
        while self.is_readable and len(self._held) >= 4:
            length = int.from_bytes(self._held[:4], signed=True)
            if not 0 < length <= FRAME_BYTES_MAX:
                self.is_readable = False
                self._held.clear()
                return
            if len(self._held) < 4 + min(8, length):
                return
            if not self._wants(bytes(self._held[4 : 4 + min(8, length)])):
                self._drop(4 + length)
            elif len(self._held) >= 4 + length:
                yield bytes(self._held[4 : 4 + length])
                del self._held[: 4 + length]
            else:
                return

    def _drop(self, size: int) -> None:
        self._skip = max(0, size - len(self._held))
        del self._held[:size]


class ConversationRecorder:
    """Reads along on one connection and tells the recorder; made by `Recorder.conversation`."""

    def __init__(self, recorder: Recorder, tap: str, connection: int) -> None:
        self._recorder = recorder
        self._tap = tap
        self._connection = connection
        self._accepted: dict[int, tuple[int, int]] = {}
        self._requests = FrameSplitter(self._wants_request)
        self._responses = FrameSplitter(self._wants_response)

    def request_bytes(self, chunk: bytes) -> None:
        if not self._requests.is_readable:
            return
        for payload in self._requests.feed(chunk):
            api_key, version, correlation_id = REQUEST_HEAD.unpack_from(payload)
            self._accepted[correlation_id] = (api_key, version)
            self._keep(Direction.REQUEST, api_key, version, correlation_id, payload)

    def response_bytes(self, chunk: bytes) -> None:
        if not self._responses.is_readable:
            return
        for payload in self._responses.feed(chunk):
            (correlation_id,) = RESPONSE_HEAD.unpack_from(payload)
            api_key, version = self._accepted.pop(correlation_id)
            self._keep(Direction.RESPONSE, api_key, version, correlation_id, payload)

    def _wants_request(self, head: bytes) -> bool:
        keep = self._recorder.keep
        return len(head) == 8 and (keep is None or REQUEST_HEAD.unpack(head)[0] in keep)

    def _wants_response(self, head: bytes) -> bool:
        return len(head) >= 4 and RESPONSE_HEAD.unpack_from(head)[0] in self._accepted

    def _keep(self, direction: Direction, api_key: int, version: int, correlation_id: int, payload: bytes) -> None:
        self._recorder.add(
            Frame(
                at=time.time(),
                tap=self._tap,
                connection=self._connection,
                direction=direction,
                api_key=api_key,
                version=version,
                correlation_id=correlation_id,
                label=self._recorder.label,
                payload=payload,
            )
        )


class Recorder:
    """All frames of one or more taps. Safe to use from several threads.

    keep:  api keys to keep, None for all (produce requests without acknowledgement then leave a few bytes each).
    label: set it to what is going on; frames carry the label of their moment.
    """

    def __init__(self, keep: Collection[int] | None = CONTROLLER_REQUESTS) -> None:
        self.keep = None if keep is None else frozenset(keep)
        self.label = ""
        self._frames: list[Frame] = []
        self._changed = threading.Condition()

    def conversation(self, tap: str, connection: int) -> ConversationRecorder:
        return ConversationRecorder(self, tap, connection)

    def add(self, frame: Frame) -> None:
        with self._changed:
            self._frames.append(frame)
            self._changed.notify_all()

    def frames(
        self,
        *,
        api_key: int | None = None,
        direction: Direction | None = None,
        tap: str | None = None,
        label: str | None = None,
    ) -> list[Frame]:
        """The frames so far, in order of arrival; each argument that is given narrows the choice."""
        with self._changed:
            everything = list(self._frames)
        return [
            frame
            for frame in everything
            if (api_key is None or frame.api_key == api_key)
            and (direction is None or frame.direction is direction)
            and (tap is None or frame.tap == tap)
            and (label is None or frame.label == label)
        ]

    def wait_for(self, wanted: Callable[[Frame], bool], *, what: str, deadline_s: float = 120.0) -> Frame:
        """The first frame, past or still to come, that is wanted. Raises Z2K-6003 when none comes."""
        seen = 0
        ends = time.monotonic() + deadline_s
        with self._changed:
            while True:
                for frame in self._frames[seen:]:
                    if wanted(frame):
                        return frame
                seen = len(self._frames)
                if not self._changed.wait(max(0.0, ends - time.monotonic())) and time.monotonic() >= ends:
                    reason = f"none of {seen} frames is {what}"
                    raise PROCESS_NOT_READY.error(name="the tap", seconds=deadline_s, reason=reason, log="none")

    def save(self, directory: Path, about: Mapping[str, Any]) -> Path:
        """Write each payload to `<n>.bin` and everything else to `index.json`, whose path is returned.

        about: what else a reader should know; it becomes the head of the index.
        """
        directory.mkdir(parents=True, exist_ok=True)
        entries = []
        for number, frame in enumerate(self.frames(), 1):
            (directory / f"{number}.bin").write_bytes(frame.payload)
            entries.append(_entry(number, frame))
        index = directory / INDEX
        index.write_text(json.dumps({**about, "frames": entries}, indent=1) + "\n")
        return index


def load(directory: Path) -> list[Frame]:
    """The frames that `Recorder.save` wrote."""
    entries = json.loads((directory / INDEX).read_text())["frames"]
    return [
        Frame(
            at=entry["at"],
            tap=entry["tap"],
            connection=entry["connection"],
            direction=Direction(entry["direction"]),
            api_key=entry["api_key"],
            version=entry["version"],
            correlation_id=entry["correlation_id"],
            label=entry["label"],
            payload=(directory / entry["file"]).read_bytes(),
        )
        for entry in entries
    ]


def _entry(number: int, frame: Frame) -> dict[str, Any]:
    return {
        "file": f"{number}.bin",
        "at": frame.at,
        "label": frame.label,
        "tap": frame.tap,
        "connection": frame.connection,
        "direction": frame.direction.value,
        "api_key": frame.api_key,
        "version": frame.version,
        "correlation_id": frame.correlation_id,
        "type": None if frame.control_type is None else frame.control_type.name,
        "bytes": len(frame.payload),
    }


def _after_header(frame: Frame) -> int:
    """Where the body of a request begins: after the client id and, from header version 2 on, no tagged fields."""
    at = REQUEST_HEAD.size
    client_id_length = int.from_bytes(frame.payload[at : at + 2], signed=True)  # -1 when there is none
    position = at + 2 + max(0, client_id_length)
    is_flexible = frame.version >= (4 if frame.api_key == LEADER_AND_ISR else 6)
    return position + 1 if is_flexible else position
