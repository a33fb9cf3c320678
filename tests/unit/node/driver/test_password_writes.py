"""A password is encoded before its change is decided on, and never on the loop; what cannot be is told of."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from typing import Any

import pytest

from migrator.findings.content import PASSWORD_CONFIG
from migrator.findings.finding import Occurrence
from migrator.model.image import Image
from migrator.model.values import ConfigType, MigrationState
from migrator.node.driver.password_writes import unmirrored
from migrator.wire.messages.configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from migrator.wire.messages.topics import CreateTopicsRequest
from migrator.wire.schema import Message
from migrator.zk import paths
from migrator.zk.passwords import EncoderSettings, PasswordEncoder, encoded_config
from tests.support.builders import an_image
from tests.support.passwords import CLEAR, KEY, SECRET

OTHER_KEY = "ssl.keystore.password"
UNREADABLE = {"2": PASSWORD_CONFIG.found(path=paths.broker_config("2"), key=KEY)}


class Chance:
    """Zeros; notes on which thread somebody wanted them, and how often."""

    def __init__(self) -> None:
        self.threads: list[int] = []

    def __call__(self, size: int) -> bytes:
        self.threads.append(threading.get_ident())
        return bytes(size)


def incremental(broker: str, **values: str | None) -> Message:
    changes = tuple(IncrementalAlterableConfig(key.replace("_", "."), 0, value) for key, value in values.items())
    return IncrementalAlterConfigsRequest((IncrementalAlterConfigsResource(ConfigType.BROKER, broker, changes),))


def in_migration(configs: Mapping[str, Mapping[str, str]] | None = None) -> Image:
    return an_image(migration=MigrationState.MIGRATION, broker_configs=configs or {})


def found(request: Message, image: Image, encoder: PasswordEncoder | None) -> Mapping[str, Occurrence]:
    return asyncio.run(unmirrored(request, image, encoder, UNREADABLE))


def an_encoder(chance: Chance, **settings: Any) -> PasswordEncoder:
    return PasswordEncoder(EncoderSettings(SECRET, iterations=1_024, **settings), chance)


def test_the_mirror_finds_every_password_of_the_broker_encoded_by_another_thread() -> None:
    chance = Chance()
    encoder = an_encoder(chance)
    image = in_migration({"1": {KEY: CLEAR, "log.cleaner.threads": "2"}})
    assert found(incremental("1", ssl_keystore_password="new"), image, encoder) == {}
    assert chance.threads
    assert threading.get_ident() not in chance.threads
    encoded_so_far = len(chance.threads)
    encoded_config(paths.broker_config("1"), {KEY: CLEAR, OTHER_KEY: "new", "log.cleaner.threads": "2"}, encoder)
    assert len(chance.threads) == encoded_so_far, "nothing was left to be encoded"


def test_the_old_form_is_looked_at_too() -> None:
    chance = Chance()
    asked = AlterConfigsResource(ConfigType.BROKER, "1", (AlterableConfig(KEY, CLEAR),))
    assert found(AlterConfigsRequest((asked,)), in_migration(), an_encoder(chance)) == {}
    assert chance.threads


def test_a_broker_whose_passwords_cannot_be_decoded_is_named_whatever_is_asked_of_it() -> None:
    for encoder in (None, an_encoder(Chance())):
        assert found(incremental("2", log_cleaner_threads="2"), in_migration(), encoder) == UNREADABLE
        assert found(incremental("1", log_cleaner_threads="2"), in_migration(), encoder) == {}


def test_a_password_that_could_not_be_read_back_is_named_without_its_value() -> None:
    encoder = an_encoder(Chance(), cipher="AES/CTR/NoPadding")
    problems = found(incremental("1", ssl_keystore_password="bell\x07"), in_migration(), encoder)
    assert problems["1"].code == "Z2K-1070"
    assert "bell" not in problems["1"].in_full


@pytest.mark.parametrize(
    ("request_", "image"),
    [
        (CreateTopicsRequest(), in_migration()),
        (incremental("2", log_cleaner_threads="2"), an_image(migration=MigrationState.POST_MIGRATION)),
    ],
)
def test_what_does_not_go_into_zookeeper_is_not_looked_at(request_: Message, image: Image) -> None:
    assert found(request_, image, None) == {}
