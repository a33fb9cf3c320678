"""Values that a controller's file takes from elsewhere: as Kafka takes them, or a refusal; none of them is shown."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from migrator.findings.finding import FindingError
from migrator.node.config.properties import parse_config
from migrator.node.config.providers import resolve
from migrator.node.process.startup import settings_of

PACKAGE: Final = "org.apache.kafka.common.config.provider."
SECRET: Final = "the-s3cret"
OTHER: Final = "an0ther"
BASE: Final = {
    "process.roles": "controller",
    "node.id": "3000",
    "controller.quorum.voters": "3000@h:9093",
    "listeners": "CONTROLLER://:9093",
    "controller.listener.names": "CONTROLLER",
}


def providers(**classes: str) -> dict[str, str]:
    given = {"config.providers": ",".join(classes)}
    return given | {f"config.providers.{name}.class": PACKAGE + each for name, each in classes.items()}


FILES: Final = providers(f="FileConfigProvider", d="DirectoryConfigProvider", e="EnvVarConfigProvider")


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    file = tmp_path / "secrets.properties"
    file.write_bytes(
        f"encoder={SECRET}\nwith\\ space : {OTHER}\ngerman=gr\u00fcn\nnested=${{e:NAME}}\nempty=\n".encode()
    )
    (tmp_path / "one").write_text(f"{SECRET}\n")
    (tmp_path / "folder").mkdir()
    return file


def value(text: str, given: dict[str, str] = FILES, **environment: str) -> str:
    return resolve("c.properties", {**given, "a.key": text}, environment).values["a.key"]


def why_not(text: str, given: dict[str, str] = FILES, **environment: str) -> tuple[str, str]:
    """The name of the provider, and the reason."""
    with pytest.raises(FindingError) as raised:
        value(text, given, **environment)
    found = raised.value.occurrence.values
    assert (raised.value.code, found["file"], found["key"]) == ("Z2K-3023", "c.properties", "a.key")
    assert not [each for each in (SECRET, OTHER) if each in str(raised.value)]
    return found["provider"], found["reason"]


def test_values_come_from_files_directories_and_variables(secrets: Path) -> None:
    assert value(f"${{f:{secrets}:encoder}}") == SECRET
    assert value(f"${{d:{secrets.parent}:one}}") == f"{SECRET}\n"
    assert value("${e:NAME}", NAME=SECRET) == SECRET
    assert value(f"${{f:{secrets}:german}}") == "gr\u00fcn"
    assert value(f"${{f:{secrets}:with space}}") == OTHER
    assert value(f"${{f:{secrets}:empty}}") == ""


def test_a_value_may_have_several_placeholders_with_text_around_them(secrets: Path) -> None:
    assert value(f"<${{f:{secrets}:encoder}}|${{e:NAME}}>", NAME="x") == f"<{SECRET}|x>"


def test_what_a_provider_gives_is_not_looked_through_again(secrets: Path) -> None:
    assert value(f"${{f:{secrets}:nested}}", NAME="x") == "${e:NAME}"


def test_text_that_is_no_placeholder_stays() -> None:
    for text in ("${}", "$e:NAME", "{e:NAME}", "${NAME}", "RULE:[1:$1@$0](.*)s/@.*//"):
        assert value(text, NAME="x") == text


def test_a_file_without_providers_is_taken_as_it_stands() -> None:
    found = resolve("c.properties", {"a.key": "${e:NAME}"}, {"NAME": "x"})
    assert (found.values, found.provided) == ({"a.key": "${e:NAME}"}, frozenset())


def test_the_keys_of_the_providers_themselves_are_taken_as_they_stand(secrets: Path) -> None:
    given = {**FILES, "config.providers.e.param.allowlist.pattern": "${e:NAME}|NAME"}
    assert value("${e:NAME}", given, NAME="x") == "x"


@pytest.mark.parametrize(
    ("text", "provider", "reason"),
    [
        ("${f:SECRETS:nothing}", "f", "has no key nothing"),
        ("${f:/nowhere/x:y}", "f", "/nowhere/x does not exist"),
        ("${f:DIRECTORY:y}", "f", "is not a file"),
        ("${f:y}", "f", "no path"),
        ("${d:DIRECTORY:two}", "d", "two does not exist"),
        ("${d:DIRECTORY:folder}", "d", "is not a file"),
        ("${d:DIRECTORY/folder:../one}", "d", "no file of that name"),
        ("${d:y}", "d", "no path"),
        ("${e:GONE}", "e", "the variable GONE is not set"),
        ("${e:/path:NAME}", "e", "variables have no path"),
        ("${vault:x:y}", "vault", "config.providers does not name it"),
    ],
)
def test_a_value_that_a_provider_does_not_have_ends_the_start(
    secrets: Path, text: str, provider: str, reason: str
) -> None:
    text = text.replace("SECRETS", str(secrets)).replace("DIRECTORY", str(secrets.parent))
    found = why_not(text, NAME=SECRET)
    assert found[0] == provider
    assert reason in found[1]


def test_only_allowed_paths_are_read(secrets: Path, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    for allowed in (str(folder), f" {folder}/ , {folder}"):
        given = {**FILES, **{f"config.providers.{each}.param.allowed.paths": allowed for each in "fd"}}
        (folder / "in.properties").write_text(f"x={SECRET}\n")
        assert value(f"${{f:{folder}/in.properties:x}}", given) == SECRET
        for text in (
            f"${{f:{secrets}:encoder}}",
            f"${{f:{folder}/../{secrets.name}:encoder}}",
            f"${{d:{tmp_path}:one}}",
        ):
            assert "not below allowed.paths" in why_not(text, given)[1]


def test_only_variables_that_the_pattern_finds_are_taken() -> None:
    given = {**FILES, "config.providers.e.param.allowlist.pattern": "^KAFKA_"}
    assert value("${e:KAFKA_X}", given, KAFKA_X="x") == "x"
    assert "allowlist.pattern" in why_not("${e:OTHER}", given, OTHER=SECRET)[1]


@pytest.mark.parametrize(
    ("changes", "key", "reason"),
    [
        ({"config.providers": "f,x"}, "config.providers", "config.providers.x.class is missing"),
        ({"config.providers.f.class": "x.FileConfigProvider"}, "config.providers.f.class", "Java and not run here"),
        ({"config.providers.f.class": "FileConfigProvider"}, "config.providers.f.class", "FileConfigProvider"),
        ({"config.providers.f.param.allowed.paths": "etc"}, "config.providers.f.param.allowed.paths", "absolute"),
        ({"config.providers.f.param.allowed.paths": "/no/x"}, "config.providers.f.param.allowed.paths", "not exist"),
        ({"config.providers.e.param.allowlist.pattern": "("}, "config.providers.e.param.allowlist.pattern", "regular"),
    ],
)
def test_a_provider_that_cannot_be_honoured_is_refused_by_its_key(
    changes: dict[str, str], key: str, reason: str
) -> None:
    with pytest.raises(FindingError) as raised:
        resolve("c.properties", {**FILES, **changes}, {})
    found = raised.value.occurrence.values
    assert (raised.value.code, found["key"]) == ("Z2K-3010", key)
    assert reason in found["reason"]


def a_file(**changes: str) -> str:
    keys = {**BASE, **FILES, **{name.replace("__", "."): each for name, each in changes.items()}}
    return "\n".join(f"{key}={each}" for key, each in keys.items())


def test_a_controller_runs_with_what_the_providers_have_and_shows_none_of_it(secrets: Path) -> None:
    text = a_file(
        password__encoder__secret=f"${{f:{secrets}:encoder}}", log__dirs="${e:DIR}", log__retention__ms="${e:MS}"
    )
    config = parse_config(text, "c.properties", {"DIR": "/data ", "MS": "7001"})
    assert config.passwords is not None
    assert (config.passwords.secret, config.metadata_log_dir) == (SECRET, Path("/data"))
    assert config.provided == {"password.encoder.secret", "log.dirs", "log.retention.ms"}
    assert config.unknown == ()
    assert SECRET not in repr(config)
    assert settings_of(config, "c").hidden == config.provided


@pytest.mark.parametrize(
    "key", ["node.id", "controller.quorum.voters", "listeners", "zk2kraft.gates", "num.partitions"]
)
def test_a_provided_value_that_a_key_cannot_have_is_not_shown(key: str) -> None:
    with pytest.raises(FindingError) as raised:
        parse_config(a_file(**{key.replace(".", "__"): "${e:NAME}"}), "c.properties", {"NAME": f"x@{SECRET}"})
    assert (raised.value.code, raised.value.occurrence.values["key"]) == ("Z2K-3010", key)
    assert SECRET not in str(raised.value)
    assert SECRET not in str(raised.value.occurrence.as_json())


def test_a_path_of_a_store_that_a_provider_has_is_not_shown() -> None:
    text = a_file(
        listener__security__protocol__map="CONTROLLER:SSL",
        ssl__keystore__location="${e:NAME}",
        ssl__keystore__type="${e:KIND}",
        ssl__keystore__password="${e:PASSWORD}",
    )
    found = parse_config(text, "c.properties", {"NAME": SECRET, "KIND": "JKS", "PASSWORD": OTHER})
    tls = found.security["CONTROLLER"].tls
    assert tls is not None
    assert tls.identity is not None
    assert not tls.identity.shown
    with pytest.raises(FindingError) as raised:
        parse_config(text, "c.properties", {"NAME": "x", "KIND": SECRET, "PASSWORD": OTHER})
    assert SECRET.upper() not in str(raised.value)


def test_a_provided_value_is_not_shown_where_its_key_is_refused() -> None:
    text = a_file(security__inter__broker__protocol="${e:NAME}")
    with pytest.raises(FindingError) as raised:
        parse_config(text, "c.properties", {"NAME": SECRET})
    assert raised.value.occurrence.values["key"] == "security.inter.broker.protocol"
    assert SECRET not in str(raised.value)
