"""Under which names the service is reached beyond loopback, and what such a setting may say."""

from __future__ import annotations

from pathlib import Path

import pytest

from migrator.findings.finding import FindingError
from state_machine.origins import Origins, parse_origin
from state_machine.settings import read_settings


def settings_file(path: Path, text: str) -> Path:
    file = path / "serve.toml"
    file.write_text(text)
    return file


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.7", "::", "kafka.example"])
def test_beyond_loopback_is_allowed_only_under_declared_names(tmp_path: Path, host: str) -> None:
    declared = 'origins = ["https://zk2kraft.example"]\n'
    assert read_settings(settings_file(tmp_path, f'host = "{host}"\n{declared}')).host == host
    for none in ("", "origins = []\n"):
        with pytest.raises(FindingError, match=r"Z2K-4010.*origins"):
            read_settings(settings_file(tmp_path, f'host = "{host}"\n{none}'))


def test_the_environment_may_declare_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZK2KRAFT_SERVE_HOST", "0.0.0.0")
    monkeypatch.setenv("ZK2KRAFT_SERVE_ORIGINS", '["https://zk2kraft.example:8443", "http://127.0.0.1:8085"]')
    settings = read_settings(None)
    assert [str(each) for each in settings.reached_as.declared] == [
        "https://zk2kraft.example:8443",
        "http://127.0.0.1:8085",
    ]


@pytest.mark.parametrize(
    "origin",
    [
        "zk2kraft.example",
        "ftp://zk2kraft.example",
        "https://",
        "https://*",
        "https://zk2kraft.example/page",
        "https://zk2kraft.example/",
        "https://zk2kraft.example?x",
        "https://user@zk2kraft.example",
        "https://zk2kraft.example:0",
        "https://zk2kraft.example:99999",
        "https://a b",
        "null",
        "",
        "http://zk2kraft.example",  # the token in clear
        "http://192.0.2.7:8085",
    ],
)
def test_what_is_no_origin_is_refused_with_its_key(tmp_path: Path, origin: str) -> None:
    with pytest.raises(FindingError, match=r"Z2K-4001.*origins"):
        read_settings(settings_file(tmp_path, f'host = "0.0.0.0"\norigins = ["{origin}"]\n'))


@pytest.mark.parametrize(
    ("origin", "host", "means"),
    [
        ("https://zk2kraft.example", "zk2kraft.example", True),
        ("https://zk2kraft.example", "ZK2KRAFT.example:443", True),
        ("https://zk2kraft.example", "zk2kraft.example:80", False),
        ("https://zk2kraft.example", "zk2kraft.example:8085", False),
        ("https://zk2kraft.example:8443", "zk2kraft.example:8443", True),
        ("https://zk2kraft.example:8443", "zk2kraft.example", False),
        ("https://zk2kraft.example", "evil.zk2kraft.example", False),
        ("https://zk2kraft.example", "zk2kraft.example.evil", False),
        ("https://zk2kraft.example", "user@zk2kraft.example", False),
        ("https://zk2kraft.example", "zk2kraft.example/x", False),
        ("https://zk2kraft.example", "", False),
        ("https://zk2kraft.example", "zk2kraft.example:x", False),
        ("http://[::1]:8085", "[::1]:8085", True),
        ("http://127.0.0.1:8085", "localhost:8085", False),
    ],
)
def test_a_host_header_means_an_origin_exactly(origin: str, host: str, means: bool) -> None:
    assert bool(Origins((parse_origin(origin),)).named(host)) is means
