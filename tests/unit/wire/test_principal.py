"""The principal inside Envelope."""

from __future__ import annotations

import pytest

from migrator.findings.finding import FindingError
from migrator.wire.messages.security import DefaultPrincipalData
from migrator.wire.principal import decode_principal, encode_principal


def test_a_principal_has_its_version_in_front() -> None:
    alice = DefaultPrincipalData("User", "alice", True)
    assert encode_principal(alice) == b"\x00\x00" + b"\x05User" + b"\x06alice" + b"\x01" + b"\x00"
    assert decode_principal(encode_principal(alice)) == alice


@pytest.mark.parametrize("data", ["", "00", "0001" + "0101" + "0000", "0000", "00000101", "000001010000" + "00"])
def test_what_another_builder_wrote_is_refused(data: str) -> None:
    with pytest.raises(FindingError, match="Z2K-3001"):
        decode_principal(bytes.fromhex(data))
