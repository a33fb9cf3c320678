"""Files of controllers with listeners of every kind, made from a seed; and how Kafka itself reads them.

In:   a seed, a certificate and who signed it, for those that speak TLS; a laboratory.
Out:  the keys of each file; Kafka's answers, by way of `ListenerReader.java`. Needs a JDK.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from migrator.lab.servers.laboratory import Laboratory
from migrator.model.values import SecurityProtocol

T = TypeVar("T")
PROGRAM = Path(__file__).with_name("ListenerReader.java")
PROTOCOLS = tuple(SecurityProtocol.__members__)
MODULES = {
    "plain": "plain.PlainLoginModule",
    "scram-sha-256": "scram.ScramLoginModule",
    "gssapi": "plain.PlainLoginModule",
}
PORTS = range(20_001, 20_009)
"""Nothing listens: parsers open no port."""


class Answer(NamedTuple):
    """by: who refused, the parser or the start, with the reason; "" where nobody did."""

    by: str
    reason: str = ""
    listeners: str = ""
    advertised: str = ""
    inter_broker: str = ""


def written(file: Path, keys: Mapping[str, str]) -> Path:
    file.write_text("".join(f"{key}={value}\n" for key, value in keys.items()))
    return file


def ask_kafka(laboratory: Laboratory, files: Iterable[Path]) -> list[Answer]:
    """Of all files by one JVM."""
    names = laboratory.directory / "listener-files"
    names.parent.mkdir(parents=True, exist_ok=True)
    names.write_text("".join(f"{file}\n" for file in files))
    said = laboratory.tool(str(PROGRAM), names).splitlines()
    answers = []
    for verdict, *rest in (line.split("\t") for line in said):
        answers.append(Answer("", "", *rest) if verdict == "ok" else Answer(*rest))
    return answers


def some_files(seed: int, count: int, certificate: Path, trusted: Path) -> Iterator[dict[str, str]]:
    """Keys of each file; no two are alike."""
    dice, known = random.Random(seed), set[str]()
    while len(known) < count:
        keys = _Maker(dice, certificate, trusted).keys()
        found = repr(keys)
        if found not in known:
            known.add(found)
            yield keys


class _Maker:
    """One file. Most of it is right most of the time, so that each oddity is met alone as well as with others."""

    def __init__(self, dice: random.Random, certificate: Path, trusted: Path) -> None:
        self._dice = dice
        self._trusted = trusted
        self._certificate = certificate

    def keys(self) -> dict[str, str]:
        names = self._pick(
            *[["CONTROLLER"]] * 6, *[["CONTROLLER", "SECOND"]] * 4, ["SSL"], ["PLAINTEXT"], ["SASL_SSL"],
            ["CONTROLLER", "SASL_PLAINTEXT"], ["CONTROLLER", "SSL"], ["PLAINTEXT", "CONTROLLER"],
        )  # fmt: skip
        keys = {
            "process.roles": "controller",
            "node.id": "3001",
            "controller.quorum.voters": "3001@127.0.0.1:20001,3002@127.0.0.1:20002,3003@127.0.0.1:20003",
            "controller.listener.names": self._controller_names(names),
            "listeners": self._joined([self._endpoint(name, PORTS[at]) for at, name in enumerate(self._some(names))]),
            "log.dirs": "/nowhere",
        }
        if self._chance(0.3):
            keys |= {"zookeeper.metadata.migration.enable": "true", "zookeeper.connect": "127.0.0.1:1"}
        if self._chance(0.75):
            keys["listener.security.protocol.map"] = self._map(names)
        keys |= self._inter_broker()
        if self._chance(0.25):
            told = [
                self._endpoint(name, PORTS[0], odd=0.1) for name in self._some([*names, *self._pick([], ["INTERNAL"])])
            ]
            keys["advertised.listeners"] = self._pick(self._joined(told), self._joined(told), "")
        if self._chance(0.04):
            keys["control.plane.listener.name"] = self._pick("", "PLAINTEXT", "internal")
        if self._chance(0.06):
            keys["early.start.listeners"] = self._pick("", names[0], self._recased(names[0]), f" {names[-1]} ,")
        keys |= self._sasl(names) | self._tls()
        if self._chance(0.1):
            del keys[self._pick("listeners", "controller.listener.names", *[key for key in keys if "sasl" in key])]
        return keys

    def _controller_names(self, names: Sequence[str]) -> str:
        odd = self._pick(", ".join(names), ",".join(names) + ",", "," + names[0], ",".join(map(self._recased, names)))
        return odd if self._chance(0.12) else ",".join(names)

    def _endpoint(self, name: str, port: int, odd: float = 0.05) -> str:
        host = self._pick("", "127.0.0.1", "127.0.0.1", "localhost", "[::1]", "k-1.example", "a_b")
        if self._chance(odd):
            host = self._pick("0.0.0.0", "::1", "k 1", "[::", "[::]")
        text = f"{self._recased(name)}://{host}:{port}"
        if not self._chance(odd):
            return text
        return self._pick(
            text.replace("://", " ://"), text.replace("://", ":/"), f"{name}://{host}:99999", f"{name}://{host}:-1",
            f"{name}://{host}:{PORTS[0]}", f"{name}://{host}", f"://{host}:{port}", f"{text} ", f"x{text}",
        )  # fmt: skip

    def _map(self, names: Sequence[str]) -> str:
        entries = []
        for name in dict.fromkeys([*names, "INTERNAL", *self._pick([], ["PLAINTEXT"], list(PROTOCOLS))]):
            entry = f"{self._recased(name)}{self._blank()}:{self._blank()}{self._recased(self._pick(*PROTOCOLS))}"
            if not self._chance(0.08):
                entries.append(entry)
            if self._chance(0.05):
                entries.append(
                    self._pick(entry.replace("O", "0"), f"{name}:PLAINTEXT", f"{name.lower()}:SASL_SSL", name)
                )
            if self._chance(0.02):
                entries.append(self._pick(":SSL", f"{name}:TLS", f"{name}:", f"a:{name}:SSL", ""))
        self._dice.shuffle(entries)
        return self._joined(entries) if not self._chance(0.03) else ""

    def _inter_broker(self) -> dict[str, str]:
        by_name = {"inter.broker.listener.name": self._recased(self._pick("INTERNAL", "INTERNAL", "PLAINTEXT"))}
        by_protocol = {"security.inter.broker.protocol": self._pick(*PROTOCOLS)}
        odd = self._pick(
            {"inter.broker.listener.name": ""}, by_name | by_protocol, {"inter.broker.listener.name": "UNKNOWN"},
            {"security.inter.broker.protocol": "ssl"}, {"security.inter.broker.protocol": ""},
        )  # fmt: skip
        return odd if self._chance(0.08) else self._pick({}, {}, by_name, by_name, by_protocol)

    def _sasl(self, names: Sequence[str]) -> dict[str, str]:
        keys = {"sasl.enabled.mechanisms": "PLAIN", "sasl.mechanism.controller.protocol": "PLAIN"}
        if self._chance(0.15):
            keys["sasl.enabled.mechanisms"] = self._pick("PLAIN , SCRAM-SHA-256", "GSSAPI", "", "PLAIN,", "plain", ",")
        if self._chance(0.1):
            keys["sasl.mechanism.controller.protocol"] = self._pick("SCRAM-SHA-256", "GSSAPI", "", "OTHER")
        if self._chance(0.8):
            keys["sasl.mechanism.inter.broker.protocol"] = self._pick(
                "PLAIN", "PLAIN", "PLAIN", "SCRAM-SHA-256", "GSSAPI"
            )
        for name in (*names, "INTERNAL", *PROTOCOLS):
            prefix = f"listener.name.{name.lower() if not self._chance(0.04) else name}."
            for mechanism, module in MODULES.items():
                if self._chance(0.93 if mechanism == "plain" else 0.5):
                    keys[f"{prefix}{mechanism}.sasl.jaas.config"] = self._login(module)
            if self._chance(0.08):
                keys[f"{prefix}sasl.enabled.mechanisms"] = self._pick("PLAIN", "SCRAM-SHA-256", "PLAIN,GSSAPI", "")
        return keys

    def _login(self, module: str) -> str:
        login = f'org.apache.kafka.common.security.{module} required username="c" password="p" user_c="p";'
        odd = self._pick(login.replace(";", ""), login.replace("required", ""), f"{login} {login}", "")
        return odd if self._chance(0.02) else login

    def _tls(self) -> dict[str, str]:
        """Trusted by its own node: stock looks at that where a listener has the name of the one between brokers."""
        trusted = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self._trusted)}
        own = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(self._certificate)}
        return trusted if self._chance(0.2) else trusted | own

    def _some(self, names: Sequence[str]) -> list[str]:
        """Nearly always all of them, in any order."""
        chosen = list(names)
        self._dice.shuffle(chosen)
        if self._chance(0.08):
            chosen.append(self._pick(names[0], "INTERNAL", "PLAINTEXT"))
        if self._chance(0.05):
            chosen.pop()
        return chosen

    def _joined(self, entries: Sequence[str]) -> str:
        separator = self._pick(",", ",", ",", ", ", " , ", "\\\n  ,")
        text = separator.join(entries)
        return (
            self._pick(f"{text},", f",{text}", text.replace(",", ",,"), f"  {text} ,, ") if self._chance(0.06) else text
        )

    def _recased(self, name: str) -> str:
        return self._pick(name, name, name, name.lower(), name.title(), name.swapcase())

    def _blank(self) -> str:
        return self._pick("", "", "", "", " ", "\\t")

    def _chance(self, share: float) -> bool:
        return self._dice.random() < share

    def _pick(self, *choices: T) -> T:
        return self._dice.choice(choices)
