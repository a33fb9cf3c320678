"""GSSAPI as a client: words of a process, in bounded time, and none of it is left behind."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from migrator.kerberos import tickets
from migrator.model.jaas import KerberosLogin
from migrator.node.transport.kerberos_side import AT_ONCE, KerberosSide

LOGIN = KerberosLogin("zk2kraft@REALM", "/k.keytab", service="kafka")


def program_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    """In the place of the one that speaks with the key server."""
    file = tmp_path / "program.py"
    says = "say = lambda word, text: print(word, base64.b64encode(text.encode()).decode(), flush=True)"
    hears = "hear = lambda: base64.b64decode(sys.stdin.readline()).decode()"
    pid = f"open({str(tmp_path)!r} + '/pid-' + str(os.getpid()), 'w').close()"
    file.write_text(f"import base64, os, sys, time\n{says}\n{hears}\n{pid}\n{program}\n")
    monkeypatch.setattr(tickets, "PROGRAM", file)


def left(tmp_path: Path) -> list[str]:
    """Processes of it that are still there, or that nobody waited for."""
    pids = [each.name.removeprefix("pid-") for each in tmp_path.glob("pid-*")]
    assert pids
    return [each for each in pids if Path("/proc", each).exists()]


def test_a_login_is_three_tokens_and_then_the_servers_silence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = """
say("token", " ".join([*sys.argv[1:], os.environ["KRB5_CLIENT_KTNAME"]]))
say("token", "after " + hear())
say("done", "at last " + hear())
"""
    program_of(tmp_path, monkeypatch, program)

    async def talk() -> list[bytes | None]:
        side = KerberosSide(LOGIN, "broker-1")
        said = [await side.first(), *[await side.answer(token) for token in (b"challenge", b"offer", b"")]]
        await side.end()
        return said

    assert asyncio.run(talk()) == [
        b"kafka broker-1 zk2kraft@REALM FILE:/k.keytab",
        b"after challenge",
        b"at last offer",
        None,
    ]


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("print('fault Cannot contact any KDC', flush=True)", "no Kerberos ticket: Cannot contact any KDC"),
        ("time.sleep(60)", "the key server does not answer"),
        ("sys.exit(3)", "its process ended with exit code 3"),
    ],
)
def test_no_ticket_is_told_in_bounded_time_and_leaves_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, reason: str
) -> None:
    """As many logins as there are places, and one more: each has given its place back."""
    program_of(tmp_path, monkeypatch, program)
    monkeypatch.setattr(tickets, "TICKET_S", 0.5 if "sleep" in program else 60.0)

    async def one() -> str:
        side = KerberosSide(LOGIN, "broker-1")
        try:
            await side.first()
        except OSError as error:
            return str(error)
        finally:
            await side.end()
        return "a ticket"

    async def all_of_them() -> list[str]:
        return await asyncio.gather(*(one() for _ in range(AT_ONCE + 1)))

    assert all(reason in each for each in asyncio.run(all_of_them()))
    assert not left(tmp_path)


def test_a_login_that_nobody_waits_for_any_more_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program_of(tmp_path, monkeypatch, "time.sleep(60)")

    async def given_up() -> None:
        side = KerberosSide(LOGIN, "broker-1")
        try:
            begun = asyncio.create_task(side.first())
            while not list(tmp_path.glob("pid-*")):
                await asyncio.sleep(0.01)
            begun.cancel()
            await begun
        finally:
            await side.end()

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(given_up())
    assert not left(tmp_path)


def test_logins_that_wait_for_silent_servers_keep_no_other_one_from_its_ticket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program_of(tmp_path, monkeypatch, 'say("token", "first")\nhear()')

    async def one_more() -> bytes:
        sides = [KerberosSide(LOGIN, f"broker-{number}") for number in range(AT_ONCE + 1)]
        try:
            *_, said = [await each.first() for each in sides]  # none of their servers has answered yet
        finally:
            await asyncio.gather(*(each.end() for each in sides))
        return said

    assert asyncio.run(one_more()) == b"first"
    assert not left(tmp_path)


def test_a_ticket_without_an_end_is_trouble_of_the_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program_of(tmp_path, monkeypatch, 'print("token " + "A" * 3_000_000, flush=True)')

    async def begun() -> None:
        side = KerberosSide(LOGIN, "broker-1")
        try:
            await side.first()
        finally:
            await side.end()

    with pytest.raises(OSError, match="a ticket has more than"):
        asyncio.run(begun())
    assert not left(tmp_path)
