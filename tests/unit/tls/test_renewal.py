"""Keys and certificates that are replaced on disk: the next connection has them, and what is spoiled ends nothing."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from migrator.findings.finding import FindingError
from migrator.findings.quorum import TLS_NOT_USABLE
from migrator.model.values import SecurityProtocol
from migrator.node.process.status import not_renewed
from migrator.node.transport.security import ClientAuth, ListenerSecurity, TlsSettings
from migrator.node.transport.tls import client_context, server_context
from migrator.tls.renewal import LOOK_EVERY_S, RenewedContext
from migrator.tls.sources import PemSource
from tests.support.certificates import Authority


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def first(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "first")


@pytest.fixture
def second(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "second")


def a_side(identity: Path, trusted: Path) -> ListenerSecurity:
    tls = TlsSettings(
        PemSource("ssl.keystore.location", identity),
        None,
        PemSource("ssl.truststore.location", trusted),
        ClientAuth.REQUIRED,
        True,
        ("TLSv1.2", "TLSv1.3"),
    )
    return ListenerSecurity("c.properties", "CONTROLLER", SecurityProtocol.SSL, tls)


def context_of(make: object, clock: Clock) -> RenewedContext:
    """The same context with a clock of the test's."""
    assert isinstance(make, RenewedContext)
    return RenewedContext(make._make, make._files, clock)


@asynccontextmanager
async def serving(context: RenewedContext) -> AsyncIterator[int]:
    """Accepts as the listener does: TLS begins with the context of this moment."""

    tasks = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.pause_reading()  # type: ignore[attr-defined]  # nothing is read before TLS reads it
        tasks.add(asyncio.create_task(answer(reader, writer)))

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await writer.start_tls(await context.on_loop())
            writer.write(await reader.readline())
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def greet(port: int, context: RenewedContext) -> str:
    """ "hello" when both sides trust each other; else why not."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=await context.on_loop())
        writer.write(b"hello\n")
        await writer.drain()
        answer = (await reader.readline()).decode().strip()
        writer.close()
    except (OSError, ssl.SSLError) as error:
        return type(error).__name__
    return answer or "closed"


def test_a_new_authority_is_shown_and_trusted_without_a_restart(
    tmp_path: Path, first: Authority, second: Authority, clock: Clock
) -> None:
    """Both directions: the server's certificate, and the client's that it asks for."""
    identity, trusted = tmp_path / "identity.pem", tmp_path / "trusted.pem"
    identity.write_text(first.sign("server").pem.read_text())
    trusted.write_text(first.trusted.read_text())
    old_client = a_side(first.sign("client").pem, first.trusted)
    new_client = a_side(second.sign("client").pem, second.trusted)

    async def story() -> list[str]:
        server = context_of(server_context(a_side(identity, trusted)), clock)
        old, new = client_context(old_client), client_context(new_client)
        assert old is not None
        assert new is not None
        async with serving(server) as port:
            before = [await greet(port, old), await greet(port, new)]
            identity.write_text(second.sign("server").pem.read_text())
            trusted.write_text(second.trusted.read_text())
            too_soon = [await greet(port, old), await greet(port, new)]
            clock.now += LOOK_EVERY_S
            return [*before, *too_soon, await greet(port, old), await greet(port, new)]

    with capture_logs() as logged:
        said = asyncio.run(asyncio.wait_for(story(), 60))
    assert [each == "hello" for each in said] == [True, False, True, False, False, True]
    assert [each["event"] for each in logged] == ["certificates.renewed"]


def test_a_client_shows_its_new_certificate(tmp_path: Path, first: Authority, second: Authority, clock: Clock) -> None:
    identity = tmp_path / "client.pem"
    identity.write_text(first.sign("client").pem.read_text())

    async def story() -> list[str]:
        server = server_context(a_side(first.sign("server").pem, second.trusted))
        client = context_of(client_context(a_side(identity, first.trusted)), clock)
        assert server is not None
        async with serving(server) as port:
            before = await greet(port, client)
            identity.write_text(second.sign("client").pem.read_text())
            clock.now += LOOK_EVERY_S
            return [before, await greet(port, client)]

    said = asyncio.run(asyncio.wait_for(story(), 60))
    assert [each == "hello" for each in said] == [False, True]


def test_a_spoiled_file_ends_nothing_and_is_named_until_it_is_mended(
    tmp_path: Path, first: Authority, clock: Clock
) -> None:
    """A link that is turned to a file that is cut off, and back, as Kubernetes and certbot do it."""
    whole, cut, link = tmp_path / "whole.pem", tmp_path / "cut.pem", tmp_path / "identity.pem"
    whole.write_text(first.sign("server").pem.read_text())
    cut.write_text(whole.read_text()[:200])
    link.symlink_to(whole)
    context = context_of(server_context(a_side(link, first.trusted)), clock)
    before = context.now()

    link.unlink()
    link.symlink_to(cut)
    with capture_logs() as logged:
        for _ in range(3):
            clock.now += LOOK_EVERY_S
            assert context.now() is before
    assert "ssl.keystore.location" in context.problem
    (named,) = not_renewed([context, context])
    assert (named.code, "ssl.keystore.location" in named.text) == ("Z2K-3125", True)
    assert [each["event"] for each in logged] == ["certificates.not_renewed"]

    cut.unlink()
    clock.now += LOOK_EVERY_S
    assert context.now() is before
    assert context.problem

    cut.write_text(first.sign("another").pem.read_text())
    clock.now += LOOK_EVERY_S
    assert context.now() is not before
    assert not context.problem


def test_files_as_they_were_read_clear_the_finding(tmp_path: Path, clock: Clock) -> None:
    file = tmp_path / "node.pem"
    file.write_text("good")

    def make() -> ssl.SSLContext:
        if file.read_text() != "good":
            raise TLS_NOT_USABLE.error(file="c.properties", key="ssl.keystore.location", reason="it is spoiled")
        return ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)

    context = RenewedContext(make, [file], clock)
    file.unlink()
    file.write_text("spoiled")
    clock.now += LOOK_EVERY_S
    context.now()
    assert context.problem
    file.unlink()
    file.write_text("good")
    clock.now += LOOK_EVERY_S
    context.now()
    assert not context.problem


def test_the_first_reading_says_what_is_wrong() -> None:
    def make() -> ssl.SSLContext:
        raise TLS_NOT_USABLE.error(file="c.properties", key="ssl.keystore.location", reason="it is spoiled")

    with pytest.raises(FindingError, match="it is spoiled"):
        RenewedContext(make, [])
