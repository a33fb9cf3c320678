"""Controllers on other hosts: what the service shows them, whom it asks, what it reads and what it leaves alone."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import replace
from pathlib import Path

import httpx
import msgspec
import pytest

from migrator.findings.finding import FindingError
from state_machine.children.supervisor import Supervisor
from state_machine.clusters import remote_ports
from state_machine.clusters.bounds import Bounds
from state_machine.clusters.control import ControlClient
from state_machine.clusters.inventory import ClusterInventory, ControllerEntry, file_faults
from state_machine.clusters.observe import ControllerObservation
from state_machine.clusters.remote_ports import RemoteAccess, RemotePorts, accepts
from state_machine.policy.gates import Evidence, Holder, zookeeper_is_controller
from state_machine.rolling import our_processes
from state_machine.rows.store import Snapshot
from state_machine.settings import read_settings
from tests.support.certificates import Authority
from tests.support.statuses import a_status
from tests.unit.state_machine.world import NODE, World, properties

TOKEN = "t0ken-of-the-company"


def a_remote(directory: Path, control: str = "https://controller-1:9643", data: str = "/over/there") -> ControllerEntry:
    """Its directory is nowhere on this host."""
    file = directory / "copy.properties"
    file.write_text(properties(Path("/over/there")))
    return ControllerEntry(NODE, str(file), data, control)


def why(entry: ControllerEntry, bounds: Bounds, remote: RemotePorts | None = None, code: str = "Z2K-4119") -> str:
    """Why it was not asked. Z2K-4119: nobody knows whether it runs; Z2K-4021: nothing listens there."""

    async def story() -> None:
        async with httpx.AsyncClient() as http:
            await ControlClient(http, bounds, remote).status(entry)

    with pytest.raises(FindingError) as raised:
        asyncio.run(story())
    assert raised.value.code == code
    return str(raised.value)


def access(directory: Path) -> RemoteAccess:
    authority = Authority(directory / "authority")
    token = directory / "token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    return RemoteAccess(authority.trusted, authority.sign("service").pem, f"file:{token}")


@pytest.mark.parametrize(
    "control",
    ["https://169.254.169.254:80", "http://controller-1:9643", "https://controller-1", "https://u@controller-1:1"],
)
def test_only_declared_hosts_are_asked_and_only_by_https(tmp_path: Path, control: str) -> None:
    assert "is not used" in why(a_remote(tmp_path, control), Bounds((tmp_path,), {"controller-1:9643"}))


def test_without_certificates_of_the_service_nobody_is_asked(tmp_path: Path) -> None:
    bounds = Bounds((tmp_path,), {"controller-1:9643"})
    assert "control_certificate and control_token of the service are not set" in why(a_remote(tmp_path), bounds)


def test_only_a_refused_connection_shows_that_nothing_runs_there(tmp_path: Path) -> None:
    """A listener that says nothing, and a name that is not known, leave it open."""
    remote = RemotePorts(access(tmp_path))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        bounds = Bounds((tmp_path,), {address, "nosuch.invalid:9"})
        assert "no answer" in why(a_remote(tmp_path, f"https://{address}"), bounds, remote)
    assert "nothing listens" in why(a_remote(tmp_path, f"https://{address}"), bounds, remote, "Z2K-4021")
    assert why(a_remote(tmp_path, "https://nosuch.invalid:9"), bounds, remote)


def test_a_token_that_cannot_be_read_is_named_and_never_shown(tmp_path: Path) -> None:
    given = access(tmp_path)

    async def story() -> str:
        remote = RemotePorts(given)
        (tmp_path / "token").chmod(0o644)
        try:
            async with httpx.AsyncClient() as http:
                await ControlClient(http, Bounds((tmp_path,), {"controller-1:9643"}), remote).status(a_remote(tmp_path))
        except FindingError as error:
            return str(error)
        finally:
            await remote.close()
        return "nothing was refused"

    said = asyncio.run(story())
    assert "every user may read it" in said
    assert TOKEN not in said


@pytest.mark.parametrize("spoiled", [f"{TOKEN}\n\n", f"{TOKEN} ", f"{TOKEN}\nmore", f"{TOKEN}\u00e9", "short"])
def test_a_token_that_no_header_can_hold_is_refused_and_never_shown(tmp_path: Path, spoiled: str) -> None:
    """The HTTP library names the header that it refuses, with its value."""
    given = access(tmp_path)
    (tmp_path / "token").write_text(spoiled)

    async def story() -> str:
        remote = RemotePorts(given)
        try:
            async with httpx.AsyncClient() as http:
                client = ControlClient(http, Bounds((tmp_path,), {"controller-1:9643"}), remote)
                with pytest.raises(FindingError) as raised:
                    await client.status(a_remote(tmp_path))
            return str(raised.value)
        finally:
            await remote.close()

    said = asyncio.run(story())
    assert "holds no token" in said
    assert spoiled.split()[0] not in said


def test_a_token_that_was_replaced_is_read_again_once_it_is_refused(tmp_path: Path) -> None:
    given = access(tmp_path)

    async def story() -> list[str]:
        remote = RemotePorts(given)
        first = await remote.token()
        (tmp_path / "token").write_text("the-next-t0ken-of-the-company")
        kept = await remote.token()
        remote.forget_token()
        try:
            return [first, kept, await remote.token()]
        finally:
            await remote.close()

    assert asyncio.run(story()) == [TOKEN, TOKEN, "the-next-t0ken-of-the-company"]


def test_a_token_that_cannot_be_read_again_is_used_on_until_it_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A vault that is away for a moment must not make every controller silent at once."""
    monkeypatch.setattr(remote_ports, "LOOK_EVERY_S", 0.0)
    given = access(tmp_path)

    async def story() -> None:
        remote = RemotePorts(given)
        try:
            assert await remote.token() == TOKEN
            (tmp_path / "token").unlink()
            assert await remote.token() == TOKEN
            remote.forget_token()
            with pytest.raises(FindingError, match="Z2K-7010"):
                await remote.token()
        finally:
            await remote.close()

    asyncio.run(story())


def test_what_is_wrong_with_the_certificates_stops_the_service_at_its_start(tmp_path: Path) -> None:
    given = access(tmp_path)
    given.certificate.write_text("nothing")
    with pytest.raises(FindingError, match=r"Z2K-4001.*control_certificate"):
        RemotePorts(given)


def test_the_three_settings_are_given_together(tmp_path: Path) -> None:
    file = tmp_path / "serve.toml"
    assert read_settings(None).remote_access is None
    file.write_text('control_ca = "/ca.pem"\n')
    with pytest.raises(FindingError, match=r"Z2K-4001.*control_certificate.*are given together"):
        assert read_settings(file).remote_access
    file.write_text('control_ca = "/ca.pem"\ncontrol_certificate = "/me.pem"\ncontrol_token = "systemd:token"\n')
    assert read_settings(file).remote_access == RemoteAccess(Path("/ca.pem"), Path("/me.pem"), "systemd:token")


def test_a_directory_on_another_host_is_not_looked_for_here(tmp_path: Path) -> None:
    def faults(entry: ControllerEntry) -> dict[int, str]:
        inventory = ClusterInventory("orders", "zk:2181/kafka", "kafka:9092", (entry,))
        bounds = Bounds((tmp_path,))
        return {node: each.code for node, each in file_faults(inventory, bounds.outside(inventory)).items()}

    assert faults(a_remote(tmp_path)) == {}
    assert faults(a_remote(tmp_path, data="/elsewhere")) == {NODE: "Z2K-1014"}
    entry = a_remote(tmp_path)
    Path(entry.properties).write_text(properties(Path("/over/there"), gates="auto"))
    assert faults(entry).keys() == {NODE}
    outside = ControllerEntry(NODE, "/proc/self/environ", "/over/there", entry.control)
    assert faults(outside) == {NODE: "Z2K-4112"}


def test_it_is_neither_started_nor_stopped(tmp_path: Path) -> None:
    """Silent: somebody has to start it. Answering when it should not run any more: somebody has to stop it."""

    async def story() -> list[str]:
        world = World(tmp_path)
        await world.rounds(1)
        found = world.store.snapshot(world.id)
        assert found.observation is not None
        inventory = msgspec.structs.replace(found.inventory, controllers=(a_remote(tmp_path),))
        supervisor = Supervisor(world.store, world.launcher, clock=world.clock, steady=world.clock_steady)

        def seen(controller: ControllerObservation) -> Snapshot:
            assert found.observation is not None
            look = msgspec.structs.replace(found.observation, controllers=(controller,))
            return replace(found, inventory=inventory, observation=look)

        gone, unknown = (ControllerObservation(NODE, problem="a reason", unreached=each) for each in (False, True))
        silent = await supervisor.keep_running(seen(gone))
        unreached = await supervisor.keep_running(seen(unknown))
        runs = await supervisor.stop_all(seen(ControllerObservation(NODE, None, a_status())))
        unknown_still = await supervisor.stop_all(seen(unknown))
        assert world.launcher.launched == []
        assert silent is not None
        assert unreached is not None
        said = [each.code for told in (silent, unreached, runs, unknown_still) for each in told.problems]
        return [*said, (await supervisor.stop_all(seen(gone))).text]

    codes = ["Z2K-4199", "Z2K-4119", "Z2K-4116", "Z2K-4119"]
    assert asyncio.run(story()) == [*codes, "none of our controllers runs"]


def test_one_that_cannot_be_asked_is_not_taken_for_one_that_does_not_run() -> None:
    """The end of a rollback: the certificate of the service has expired, and all of them are silent at once."""
    back = Evidence(
        observation_age_s=0.0,
        controllers=(NODE,),
        silent={NODE: "TLS: certificate has expired"},
        holder=Holder.ZOOKEEPER_BROKER,
        committed_migration=False,
    )
    assert zookeeper_is_controller(back).holds
    verdict = zookeeper_is_controller(replace(back, unreached=back.silent))
    assert [each.codes for each in verdict.conditions if not each.holds] == [("Z2K-4119",)]


def test_a_file_of_stock_waits_until_nothing_accepts_at_its_control_port(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """REPLACING_CONTROLLERS: the actuator's stop has ended the unit, or it has not, and then the step fails by name."""
    monkeypatch.setattr(our_processes, "LEAVE_S", 0.0)
    world = World(tmp_path)
    found = world.store.snapshot(world.id)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        entry = a_remote(tmp_path, f"https://127.0.0.1:{listening.getsockname()[1]}")
        snapshot = replace(found, inventory=msgspec.structs.replace(found.inventory, controllers=(entry,)))
        assert accepts(entry.control)
        with pytest.raises(FindingError, match=r"Z2K-4116.*3000"):
            our_processes.wait_until_left(snapshot, NODE)
    unknown = msgspec.structs.replace(entry, control="https://nosuch.invalid:9")
    with pytest.raises(FindingError, match=r"Z2K-4119.*3000"):
        our_processes.wait_until_left(
            replace(found, inventory=msgspec.structs.replace(found.inventory, controllers=(unknown,))), NODE
        )
    assert not accepts(entry.control)
    our_processes.wait_until_left(snapshot, NODE)
    our_processes.wait_until_left(found, NODE)
