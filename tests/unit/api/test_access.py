"""Closed by default: who may read the token file uses the service, nobody else does, on loopback too."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from api.app import guarded
from api.rest.guard import COOKIE
from migrator.findings.finding import FindingError
from state_machine.access import (
    SERVE_FILE,
    page_key,
    read_token,
    service_token,
    tell_clients,
    tell_clients_no_more,
    token_for,
    url_here,
)
from state_machine.clusters.private_files import close_to_others, read_regular, write_private
from tests.unit.api.service import TOKEN, InProcess, Served

URL = "http://127.0.0.1:8085"
CLOSED = [
    ("GET", "/api/v1/migrations"),
    ("GET", "/api/v1/migrations/1"),
    ("POST", "/api/v1/migrations"),
    ("POST", "/api/v1/migrations/1/advance"),
    ("POST", "/api/v1/migrations/1/rollback"),
    ("PATCH", "/api/v1/migrations/1"),
    ("DELETE", "/api/v1/migrations/1"),
    ("GET", "/api/v1/openapi.json"),
    ("GET", "/metrics"),
    ("GET", "/"),
    ("GET", "/migrations/1"),
    ("POST", "/migrations/1/steps/advance"),
]


@pytest.mark.parametrize(("method", "path"), CLOSED)
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer"},
        {"Authorization": f"Bearer {TOKEN}x"},
        {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": "Bearer \xe4"},
        {"Cookie": f"{COOKIE}={TOKEN}"},
        {"Cookie": f"{COOKIE}=; other=1"},
        {"Cookie": f"{COOKIE}={page_key(TOKEN + 'x')}"},
    ],
    ids=["none", "empty", "wrong", "basic", "no ascii", "token as cookie", "empty cookie", "foreign cookie"],
)
def test_without_the_token_nothing_is_told_or_done(
    served: Served, method: str, path: str, headers: dict[str, str]
) -> None:
    encoded = {key: value.encode("latin-1") for key, value in headers.items()}
    answer = served.foreign_request.request(method, path, headers=encoded)
    assert (answer.status_code, answer.json()["code"]) == (401, "Z2K-4111")
    assert answer.headers["www-authenticate"] == "Bearer"
    assert "orders" not in answer.text
    assert served.world.store.operations(served.world.id) == []
    assert served.woken == 0


@pytest.mark.parametrize("path", ["/healthz", "/style.css"])
def test_what_tells_nothing_of_a_cluster_is_open(served: Served, path: str) -> None:
    assert served.foreign_request.get(path).status_code == 200


def test_a_browser_types_the_token_once_and_then_has_a_cookie(served: Served) -> None:
    page = served.foreign_request.get("/migrations/1", headers={"Accept": "text/html"})
    assert (page.status_code, 'type="password"' in page.text) == (401, True)
    assert served.foreign_request.post("/login", data={"token": "a guess"}).status_code == 401
    let_in = served.foreign_request.post("/login", data={"token": TOKEN})
    assert (let_in.status_code, let_in.headers["location"]) == (303, "/")
    cookie = let_in.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert TOKEN not in cookie
    shown = served.foreign_request.get("/migrations/1", headers={"Cookie": cookie.partition(";")[0]})
    assert shown.status_code == 200


# --- from beyond loopback ---------------------------------------------------------------------------------

OUTSIDE = "172.17.0.1"
REFUSED = (403, "Z2K-4023")
POST = "/api/v1/migrations/1/advance"


def outcome(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json().get("code", "") if answer.is_error else ""


@pytest.fixture
def declared(tmp_path: Path) -> Iterator[Served]:
    made = Served(tmp_path, origins=("https://zk2kraft.example", "http://127.0.0.1:8085"))
    yield made
    made.world.store.close()


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("zk2kraft.example", (200, "")),
        ("zk2kraft.example:443", (200, "")),
        ("127.0.0.1:8085", (200, "")),
        ("zk2kraft.example:8085", REFUSED),
        ("127.0.0.1:9000", REFUSED),  # a name of loopback that was not declared, from elsewhere
        ("localhost:8085", REFUSED),
        ("evil.example", REFUSED),
        ("172.17.0.2:8085", REFUSED),
        ("", REFUSED),
    ],
)
def test_from_beyond_loopback_only_a_declared_name_is_answered(
    declared: Served, host: str, expected: tuple[int, str]
) -> None:
    outside = InProcess(guarded(declared.app, TOKEN), peer=OUTSIDE)
    assert outcome(outside.get("/api/v1/migrations", headers={"host": host})) == expected
    stranger = InProcess(guarded(declared.app, TOKEN), token="", peer=OUTSIDE)
    closed = outcome(stranger.get("/api/v1/migrations", headers={"host": host}))
    assert closed == (REFUSED if expected == REFUSED else (401, "Z2K-4111"))


def test_without_declared_names_nothing_from_beyond_loopback_is_answered(served: Served) -> None:
    outside = InProcess(guarded(served.app, TOKEN), peer=OUTSIDE)
    for path in ("/api/v1/migrations", "/healthz"):
        assert outcome(outside.get(path, headers={"host": "127.0.0.1:8085"})) == REFUSED


@pytest.mark.parametrize("peer", ["127.0.0.1", "::1", "::ffff:127.0.0.1"])
def test_a_health_check_beside_the_service_needs_no_declared_name(declared: Served, peer: str) -> None:
    beside = InProcess(guarded(declared.app, TOKEN), token="", peer=peer)
    assert beside.get("/healthz", headers={"host": "localhost:8085"}).status_code == 200


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("https://zk2kraft.example", 202),
        ("http://zk2kraft.example", 403),
        ("https://zk2kraft.example:8443", 403),
        ("http://127.0.0.1:8085", 403),  # declared as well, but not the name of this request
        ("https://evil.example", 403),
        ("null", 403),
    ],
)
def test_a_page_under_a_declared_name_may_send_its_forms(declared: Served, origin: str, status: int) -> None:
    outside = InProcess(guarded(declared.app, TOKEN), peer=OUTSIDE)
    headers = {"host": "zk2kraft.example", "origin": origin}
    assert outside.post(POST, json={}, headers=headers).status_code == status
    assert len(declared.world.store.operations(declared.world.id)) == (1 if status == 202 else 0)


def test_the_cookie_of_a_page_behind_tls_never_leaves_it(declared: Served) -> None:
    outside = InProcess(guarded(declared.app, TOKEN), token="", peer=OUTSIDE)
    for host, secure in (("zk2kraft.example", True), ("127.0.0.1:8085", False)):
        answer = outside.post("/login", data={"token": TOKEN}, headers={"host": host})
        assert answer.status_code == 303
        assert ("Secure" in answer.headers["set-cookie"]) is secure


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:8085"),
        ("0.0.0.0", "http://127.0.0.1:8085"),
        ("::", "http://[::1]:8085"),
        ("::1", "http://[::1]:8085"),
        ("192.0.2.7", "http://192.0.2.7:8085"),
    ],
)
def test_clients_on_this_machine_are_told_an_address_that_they_reach(host: str, url: str) -> None:
    assert url_here(host, 8085) == url


def test_a_link_with_the_token_opens_the_page(served: Served) -> None:
    assert served.foreign_request.get(f"/login?token={TOKEN}").status_code == 303
    assert served.foreign_request.get("/login?token=wrong").status_code == 401
    assert served.foreign_request.get("/login").status_code == 200


def test_a_form_with_too_many_fields_is_refused_and_no_fault_of_ours(served: Served) -> None:
    many = {f"field{number}": "x" for number in range(30)}
    for path in ("/login", "/migrations/1/steps/advance"):
        answer = served.http.post(path, data=many)
        assert (answer.status_code, answer.json()["code"]) == (422, "Z2K-4002")


# --- the files --------------------------------------------------------------------------------------------


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_token_is_made_once_and_private_whatever_was_there(tmp_path: Path) -> None:
    token = service_token(tmp_path)
    assert len(token) >= 24
    assert mode(tmp_path / "token") == 0o600
    (tmp_path / "token").chmod(0o644)
    assert service_token(tmp_path) == token
    assert mode(tmp_path / "token") == 0o600


@pytest.mark.parametrize("content", ["", "short", "\xff" * 30])
def test_a_token_that_could_be_guessed_starts_no_service(tmp_path: Path, content: str) -> None:
    (tmp_path / "token").write_bytes(content.encode("latin-1"))
    with pytest.raises(FindingError, match="Z2K-4110"):
        service_token(tmp_path)


def test_a_client_of_the_same_user_finds_the_token_and_sends_it_to_no_other_port(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path / "home")}
    service = tmp_path / "service"
    service.mkdir()
    token = service_token(service)
    tell_clients(service, URL, home)
    assert token_for(URL, home) == token
    assert token_for("http://localhost:8085", home) == token
    assert token_for("http://127.0.0.1:8086", home) is None
    assert token_for("http://elsewhere:8085", home) is None
    assert token_for("http://elsewhere:1", {"ZK2KRAFT_TOKEN_FILE": str(service / "token")}) == token
    assert mode(service / SERVE_FILE) == mode(tmp_path / "home" / ".zk2kraft" / "serve-8085.json") == 0o600
    tell_clients_no_more(URL, home)
    assert token_for(URL, home) is None


def test_a_token_file_that_is_named_and_does_not_exist_is_said(tmp_path: Path) -> None:
    with pytest.raises(FindingError, match="Z2K-4110"):
        token_for(URL, {"ZK2KRAFT_TOKEN_FILE": str(tmp_path / "none")})


def test_a_pipe_or_a_large_file_is_refused_and_never_waited_for(tmp_path: Path) -> None:
    pipe, large = tmp_path / "pipe", tmp_path / "large"
    os.mkfifo(pipe)
    large.write_bytes(b"x" * 101)
    for path in (pipe, large, tmp_path, Path("/dev/zero")):
        with pytest.raises(OSError, match=r"."):
            read_regular(path, 100)
    with pytest.raises(FindingError, match="Z2K-4110"):
        read_token(pipe)


def test_what_is_ours_is_private_whatever_was_there(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "zk2kraft.db").write_bytes(b"")
    (tmp_path / "zk2kraft.db").chmod(0o644)
    close_to_others(tmp_path, "zk2kraft.db", "zk2kraft.db-wal")
    assert (mode(tmp_path), mode(tmp_path / "zk2kraft.db")) == (0o700, 0o600)
    target = tmp_path / "somewhere"
    target.write_bytes(b"kept")
    (tmp_path / "link").symlink_to(target)
    write_private(tmp_path / "link", b"new")
    assert target.read_bytes() == b"kept"
