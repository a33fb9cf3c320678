"""Config providers of other classes: an executable of the operator answers for them, within bounds, or is refused."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from migrator.findings.finding import FindingError
from migrator.node.config import helpers
from migrator.node.config.properties import is_known, parse_config, read_config
from migrator.node.config.providers import resolve
from migrator.node.process.startup import settings_of
from tests.unit.node.config.test_config_providers import BASE

SECRET: Final = "the-s3cret"
PAGE: Final = Path(__file__).resolve().parents[4] / "docs" / "drop-in.md"
KEY: Final = "zk2kraft.config.providers.vault.exec"
VAULT: Final = {"config.providers": "vault", "config.providers.vault.class": "com.example.VaultConfigProvider"}
NOBODY: Final = 65_534
OF_A_SHELL: Final = {"PWD", "OLDPWD", "SHLVL", "_"}
"""Variables that a shell makes for itself."""

Scripts = Callable[..., Path]


@pytest.fixture(autouse=True)
def kept_for_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(helpers, "KEPT_S", 0.0)


@pytest.fixture
def script(tmp_path: Path) -> Scripts:
    """Makes an executable of a shell's text, in a directory of its own."""

    def made(text: str, name: str = "helper") -> Path:
        directory = tmp_path / "bin"
        directory.mkdir(exist_ok=True)
        directory.chmod(0o755)
        file = directory / name
        file.write_text(f"#!/bin/sh\n{text}\n")
        file.chmod(0o755)
        return file

    return made


def answering(**values: object) -> str:
    return f"cat <<'END'\n{json.dumps(values)}\nEND"


def file_with(helper: Path | str, **values: str) -> dict[str, str]:
    return {**VAULT, KEY: str(helper), **values}


def resolved(given: dict[str, str], **environment: str) -> dict[str, str]:
    return resolve("c.properties", given, {"PATH": os.environ["PATH"], **environment}).values


def refusal(given: dict[str, str], foreign: str | None = None) -> str:
    """The reason, of a helper that is refused by its key."""
    with pytest.raises(FindingError) as raised:
        resolve("c.properties", given, {"PATH": os.environ["PATH"]}, foreign)
    found = raised.value.occurrence.values
    assert (raised.value.code, found["file"], found["key"]) == ("Z2K-3024", "c.properties", KEY)
    everything = f"{raised.value} {raised.value!r} {raised.value.occurrence.as_json()}"
    chain: BaseException | None = raised.value
    while (chain := (chain.__cause__ or chain.__context__) if chain is not None else None) is not None:
        everything += f"{chain} {chain!r}"
    assert SECRET not in everything
    return str(found["reason"])


def test_a_helper_gives_the_values_of_a_provider_whose_class_is_java(script: Scripts) -> None:
    helper = script(answering(password=SECRET, user="kafka", more="ignored"))
    given = file_with(helper, a="${vault:secret/kafka:password}", b="<${vault:secret/kafka:user}>", c="plain")
    found = resolved(given)
    assert (found["a"], found["b"], found["c"]) == (SECRET, "<kafka>", "plain")
    assert resolve("c.properties", given, {}).provided == {"a", "b"}


def test_a_helper_runs_once_for_each_path_with_path_and_keys_as_words_and_no_shell(
    script: Scripts, tmp_path: Path
) -> None:
    words = tmp_path / "words"
    nasty = f"x; touch {tmp_path}/made $(touch {tmp_path}/made)"
    helper = script(
        f'{{ printf "<%s>" "$@"; echo; }} >> "{words}"\n' + answering(**{"one": "1", "two": "2", nasty: "3", "": "4"})
    )
    given = file_with(helper, a="${vault:p q:two}${vault:p q:one}", b="${vault:p q:two}", c=f"${{vault:{nasty}}}")
    found = resolved({**given, "d": "${vault:-other:}"})
    assert (found["a"], found["b"], found["c"], found["d"]) == ("21", "2", "3", "4")
    assert words.read_text().splitlines() == ["<p q><two><one>", f"<><{nasty}>", "<-other><>"]
    assert not (tmp_path / "made").exists()


def test_a_helper_gets_the_parameters_three_variables_and_an_input_that_is_at_its_end(
    script: Scripts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZK2KRAFT_TOKEN", SECRET)
    seen = tmp_path / "seen"
    helper = script(f'cat > "{seen}.input"\nenv > "{seen}"\n' + answering(k="v"))
    parameters = {
        "config.providers.vault.param.addr": "https://vault:8200 ",
        "config.providers.vault.param.kv-mount.Path": "${vault:p:k}",
    }
    found = resolved(file_with(helper, a="${vault:p:k}", **parameters), HOME="/h", LANG="C", OTHER="x", LD_PRELOAD="x")
    assert found["a"] == "v"
    variables = dict(line.split("=", 1) for line in seen.read_text().splitlines())
    assert {name: each for name, each in variables.items() if name not in OF_A_SHELL | {"PATH"}} == {
        "HOME": "/h",
        "LANG": "C",
        "PARAM_ADDR": "https://vault:8200",
        "PARAM_KV_MOUNT_PATH": "${vault:p:k}",
    }
    assert Path(f"{seen}.input").read_text() == ""


def test_a_helper_whose_values_nothing_takes_is_looked_at_and_not_run(script: Scripts, tmp_path: Path) -> None:
    helper = script(f"touch {tmp_path}/run")
    assert resolved(file_with(helper, a="plain"))["a"] == "plain"
    assert not (tmp_path / "run").exists()
    helper.chmod(0o777)
    assert "may write" in refusal(file_with(helper, a="plain"))


def made_wrong(helper: Path, how: str) -> str:
    """What the key then says."""
    match how:
        case "relative":
            return helper.name
        case "with arguments":
            return f"{helper} --all"
        case "a placeholder":
            return "${vault:x:y}"
        case "a directory":
            return str(helper.parent)
        case "not executable":
            helper.chmod(0o644)
        case "for its group":
            helper.chmod(0o775)
        case "for others":
            helper.chmod(0o757)
        case "its directory":
            helper.parent.chmod(0o777)
        case "the directory of a link":
            open_to_all = helper.parent.parent / "open"
            open_to_all.mkdir()
            open_to_all.chmod(0o777)
            (open_to_all / "link").symlink_to(helper)
            return str(open_to_all / "link")
        case "gone":
            helper.unlink()
        case "empty":
            return ""
    return str(helper)


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("relative", "not an absolute path"),
        ("empty", "not an absolute path"),
        ("a placeholder", "not an absolute path"),
        ("with arguments", "no such file (it is a path, without arguments)"),
        ("gone", "no such file"),
        ("a directory", "no regular file"),
        ("not executable", "may not execute it"),
        ("for its group", "helper (mode 0775)"),
        ("for others", "helper (mode 0757)"),
        ("its directory", "bin (mode 0777)"),
        ("the directory of a link", "open (mode 0777)"),
    ],
)
def test_a_helper_that_may_not_be_run_is_refused_and_not_run(
    script: Scripts, tmp_path: Path, how: str, reason: str
) -> None:
    helper = made_wrong(script(f"touch {tmp_path}/run\n" + answering(y=SECRET)), how)
    assert reason in refusal(file_with(helper, a="${vault:x:y}"))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("what", ["file", "directory"])
def test_a_helper_of_another_user_is_refused(script: Scripts, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    helper = script(answering(y=SECRET))
    place = helper if what == "file" else helper.parent
    owner = place.stat().st_uid
    if os.geteuid() == 0:
        os.chown(place, NOBODY, -1)
        owner = NOBODY
    else:
        monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    assert f"belongs to user {owner}" in refusal(file_with(helper, a="${vault:x:y}"))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            f"echo {SECRET}; echo ' no\tsuch secret \033[2K'  >&2; echo {SECRET} >&2; exit 2",
            "exit code 2: no such secret",
        ),
        (f"echo {SECRET}; exit 1", "exit code 1"),
        (f"echo {SECRET}; kill -9 $$", "exit code -9"),
        (f"echo {SECRET}", "one JSON object"),
        (f"echo '\"{SECRET}\"'", "one JSON object"),
        (f"echo '[\"{SECRET}\"]'", "one JSON object"),
        (f'echo \'{{"y": {{"x": "{SECRET}"}}}}\'', "one JSON object"),
        (f'echo \'{{"y": "{SECRET}"}} {{}}\'', "one JSON object"),
        (f'printf \'{{"y": "{SECRET}\\377"}}\'', "one JSON object"),
        ("echo '{\"y\": 7}'", "one JSON object"),
        ("echo '{\"y\": null}'", "one JSON object"),
        ("true", "one JSON object"),
        ("head -c 1048577 /dev/zero", "more than 1048576 bytes"),
    ],
)
def test_an_answer_that_breaks_the_contract_is_refused_and_none_of_it_is_shown(
    script: Scripts, text: str, reason: str
) -> None:
    given = file_with(script(text), a="${vault:x:y}")
    said = refusal(given)
    assert said.startswith("run for x: ")
    assert reason in said
    assert "\033" not in said


def test_a_helper_that_does_not_end_is_ended(script: Scripts, monkeypatch: pytest.MonkeyPatch) -> None:
    assert helpers.LIMIT_S == 10
    monkeypatch.setattr(helpers, "LIMIT_S", 0.3)
    given = file_with(script(f"echo {SECRET}; sleep 60"), a="${vault:x:y}")
    assert refusal(given) == "run for x: it did not end in 0.3 s"


def test_a_helper_that_cannot_be_started_is_named(script: Scripts) -> None:
    helper = script("")
    helper.write_text("#!/nowhere/sh\n")
    assert "cannot be started: No such file" in refusal(file_with(helper, a="${vault:x:y}"))


def test_a_key_that_an_answer_lacks_is_a_value_that_the_provider_does_not_have(script: Scripts) -> None:
    helper = script(answering(other=SECRET))
    with pytest.raises(FindingError) as raised:
        resolved(file_with(helper, a="${vault:x:y}"))
    found = raised.value.occurrence.values
    assert (raised.value.code, found["key"], found["provider"]) == ("Z2K-3023", "a", "vault")
    assert found["reason"] == f"the answer of {helper} for x has no key y"
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"config.providers": "volt"}, "config.providers does not name vault"),
        ({"config.providers": ""}, "config.providers does not name vault"),
        (
            {"config.providers.vault.class": "org.apache.kafka.common.config.provider.FileConfigProvider"},
            "is FileConfigProvider, which needs none",
        ),
        (
            {"config.providers.vault.param.a.b": "1", "config.providers.vault.param.a-b": "2"},
            "two parameters of the provider would be the variable PARAM_A_B",
        ),
    ],
)
def test_a_helper_that_would_mean_nothing_or_something_else_is_refused(
    script: Scripts, changes: dict[str, str], reason: str
) -> None:
    given = file_with(script(answering(y=SECRET)), a="${vault:x:y}", **changes)
    assert reason in refusal({**given, "config.providers.volt.class": "org.x.Y"} if "volt" in reason else given)


def test_a_class_without_a_helper_is_refused_and_the_key_of_a_helper_is_named() -> None:
    with pytest.raises(FindingError, match=r"Z2K-3010.*not run here.*or set zk2kraft\.config\.providers\.vault\.exec"):
        resolved(VAULT)


def test_an_answer_is_kept_for_some_seconds_also_a_failed_one(
    script: Scripts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The service reads the files of all controllers again and again while one of them does not answer."""
    runs = tmp_path / "runs"
    good = file_with(script(f'echo "$@" >> {runs}\n' + answering(y="1")), a="${vault:x:y}")
    bad = file_with(script(f'echo "$@" >> {runs}\nexit 3', "bad"), a="${vault:x:y}")
    monkeypatch.setattr(helpers, "KEPT_S", 60.0)
    for _ in range(3):
        assert resolved(good)["a"] == "1"
        assert "exit code 3" in refusal(bad)
    assert len(runs.read_text().splitlines()) == 2
    resolved({**good, "config.providers.vault.param.addr": "another"})
    resolved({**good, "b": "${vault:x2:y}"})
    assert len(runs.read_text().splitlines()) == 4
    monkeypatch.setattr(helpers, "KEPT_S", 0.0)
    resolved(good)
    assert len(runs.read_text().splitlines()) == 5


def a_controllers_file(tmp_path: Path, helper: Path) -> Path:
    given = {**BASE, **file_with(helper, password__encoder__secret="${vault:secret/kafka:encoder}")}
    file = tmp_path / "controller.properties"
    file.write_text("".join(f"{key.replace('__', '.')}={value}\n" for key, value in given.items()))
    file.chmod(0o644)
    return file


def test_a_controller_runs_with_what_a_helper_answers_and_shows_none_of_it(script: Scripts, tmp_path: Path) -> None:
    config = read_config(a_controllers_file(tmp_path, script(answering(encoder=SECRET))))
    assert config.passwords is not None
    assert config.passwords.secret == SECRET
    assert config.provided == {"password.encoder.secret"}
    assert config.unknown == ()
    assert SECRET not in repr(config)
    assert settings_of(config, "c").hidden == config.provided


def test_a_file_that_others_may_write_names_no_executable(script: Scripts, tmp_path: Path) -> None:
    file = a_controllers_file(tmp_path, script(f"touch {tmp_path}/run\n" + answering(encoder=SECRET)))
    file.chmod(0o664)
    with pytest.raises(FindingError, match=r"Z2K-3024.*names a command, and users other than its owner may write"):
        read_config(file)
    assert not (tmp_path / "run").exists()
    file.write_text(re.sub(r"(?m)^.*(config\.providers|\$\{).*\n", "", file.read_text()))
    assert read_config(file).node_id == 3000, "a file without a helper may have any owner and mode"


def test_only_the_key_of_a_helper_is_known_to_us() -> None:
    assert is_known(KEY)
    unknown = ("zk2kraft.config.providers.exec", "zk2kraft.config.providers.vault.exe", "zk2kraft.config.providers")
    assert not [key for key in unknown if is_known(key)]
    text = "\n".join(f"{key}={value}" for key, value in {**BASE, "zk2kraft.config.providers.vault.exe": "/x"}.items())
    assert parse_config(text).unknown == ("zk2kraft.config.providers.vault.exe",)


def test_the_example_of_the_page_works(script: Scripts, tmp_path: Path) -> None:
    blocks = re.findall(r"```\n(.*?)```", PAGE.read_text(), re.DOTALL)
    properties = next(each for each in blocks if "zk2kraft.config.providers.vault.exec=" in each)
    helper = script(next(each for each in blocks if each.startswith("#!/bin/sh\n")).removeprefix("#!/bin/sh\n"))
    data = json.dumps({"key.password": SECRET})
    script(f'test "$VAULT_ADDR $*" = "$(cat {tmp_path}/expected)" && echo \'{data}\'', "vault")
    (tmp_path / "expected").write_text("https://vault.example:8200 kv get -format=json -field=data secret/kafka\n")
    given = dict(line.split("=", 1) for line in properties.splitlines())
    found = resolved({**given, KEY: str(helper)}, PATH=f"{helper.parent}:{os.environ['PATH']}")
    assert found["listener.name.controller.ssl.key.password"] == SECRET
