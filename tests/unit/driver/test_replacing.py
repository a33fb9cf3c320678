"""Stock controllers take our places only where they can go on from what stands."""

from __future__ import annotations

from dataclasses import replace

import pytest

from migrator.driver.checks.replacing import against_stock
from migrator.driver.claim import ClaimObservation
from migrator.driver.orders import NO_ORDERS, Orders
from migrator.model.draft import Draft
from migrator.model.image import Image, Position
from migrator.model.values import ConfigKey, ConfigType, MigrationState
from migrator.zk.znodes import ControllerZnode, MigrationZnode
from tests.support.builders import a_claim, a_topic, an_image

CLAIM = a_claim()
OBSERVED = ClaimObservation(
    epoch=CLAIM.zk_epoch,
    epoch_version=CLAIM.epoch_version,
    controller=ControllerZnode(brokerid=CLAIM.node, kraft_epoch=CLAIM.kraft_epoch),
    controller_version=0,
    migration=MigrationZnode(CLAIM.node, CLAIM.kraft_epoch, 900, 5),
    migration_version=7,
)


def with_config(type_: int, name: str, key: str) -> Image:
    draft = Draft(an_image(a_topic()))
    draft.set_config(ConfigKey(type_, name), key, "x")
    return draft.finish(Position(1, 1001)).after


def codes(image: Image, observed: ClaimObservation = OBSERVED, orders: Orders = NO_ORDERS, **more: bool) -> list[str]:
    transaction_open, encodes = more.get("transaction_open", False), more.get("encodes", False)
    found = against_stock(image, observed, CLAIM, orders, encodes=encodes, transaction_open=transaction_open)
    return [each.code for each in found]


def test_nothing_speaks_against_stock_in_dual_write_with_a_persistent_claim() -> None:
    assert codes(an_image(a_topic(), topic_configs={"orders": {"retention.ms": "1"}})) == []


@pytest.mark.parametrize(("type_", "name"), [(ConfigType.CLIENT_METRICS, "m"), (ConfigType.GROUP, "g")])
def test_configuration_without_a_znode_keeps_stock_out(type_: ConfigType, name: str) -> None:
    assert codes(with_config(type_, name, "interval.ms")) == ["Z2K-2071"]


def test_passwords_need_the_secret_in_the_files_of_stock() -> None:
    with_password = with_config(ConfigType.BROKER, "1", "listener.name.x.ssl.keystore.password")
    assert codes(with_password) == ["Z2K-2073"]
    assert codes(with_password, encodes=True) == [], "stock's file is made of the file that has the secret"
    assert codes(with_config(ConfigType.BROKER, "1", "log.cleaner.threads")) == []


@pytest.mark.parametrize(
    "observed",
    [
        replace(OBSERVED, controller_owner=77),
        replace(OBSERVED, migration=MigrationZnode(CLAIM.node, CLAIM.kraft_epoch, 0, 5)),
        replace(OBSERVED, migration=MigrationZnode(CLAIM.node, CLAIM.kraft_epoch, -1, -1)),
        replace(OBSERVED, epoch_version=CLAIM.epoch_version + 1),
        replace(OBSERVED, controller=None),
    ],
    ids=["ends with a session", "offset 0", "no offset", "another epoch", "nobody"],
)
def test_a_claim_that_stock_would_not_take_over_keeps_it_out(observed: ClaimObservation) -> None:
    assert codes(an_image(), observed) == ["Z2K-2072"]


def test_orders_an_open_transaction_and_another_state_of_the_log_keep_stock_out() -> None:
    assert codes(an_image(), orders=Orders(("/admin/delete_topics/t",))) == ["Z2K-2072"]
    assert codes(an_image(), transaction_open=True) == ["Z2K-2072"]
    assert codes(an_image(migration=MigrationState.PRE_MIGRATION)) == ["Z2K-2072"]
