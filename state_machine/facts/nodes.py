"""Something about one node, as it is stored, judged and shown."""

from __future__ import annotations

import msgspec


class AboutNode(msgspec.Struct, frozen=True):
    """said: in words, such as a path with what is wrong with it."""

    role: str
    node: int
    said: str

    @property
    def name(self) -> str:
        """As people read it: `broker 1`."""
        return f"{self.role} {self.node}"

    @property
    def words(self) -> str:
        return f"{self.name}: {self.said}"
