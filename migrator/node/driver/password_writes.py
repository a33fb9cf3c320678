"""Passwords of a requested configuration are encoded before it is decided on, off the loop.

In:   an AlterConfigs or IncrementalAlterConfigs for brokers, the configuration that they have.
Out:  brokers whose configuration could not follow into ZooKeeper, with the finding. For all others the mirror finds
      every text made already: a key takes milliseconds to derive, or seconds where many iterations are set.
Elsewhere: refusing (controller.configs), writing (driver.mirror), which texts of ZooKeeper cannot be read (driver.tree)
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from migrator.findings.finding import Occurrence
from migrator.model.image import NO_CONFIG, Image
from migrator.model.values import ConfigKey, ConfigType, MigrationState, is_password
from migrator.wire.messages.configs import AlterConfigsRequest, IncrementalAlterConfigsRequest
from migrator.wire.schema import Message
from migrator.zk import paths
from migrator.zk.passwords import PasswordEncoder, why_not_kept


async def unmirrored(
    request: Message, image: Image, encoder: PasswordEncoder | None, unreadable: Mapping[str, Occurrence]
) -> Mapping[str, Occurrence]:
    """Why a broker's configuration could not follow, by broker ("" for all).

    unreadable: brokers of which ZooKeeper has passwords that cannot be decoded.
    """
    if not isinstance(request, (AlterConfigsRequest, IncrementalAlterConfigsRequest)):
        return {}
    if image.migration is not MigrationState.MIGRATION:
        return {}
    wanted = _passwords_after(request, image)
    found = {broker: unreadable[broker] for broker in wanted if broker in unreadable}
    for broker, values in wanted.items():
        if encoder is not None and values and broker not in found:
            problem = await asyncio.to_thread(why_not_kept, paths.broker_config(broker), values, encoder)
            if problem is not None:
                found[broker] = problem
    return found


def _passwords_after(
    request: AlterConfigsRequest | IncrementalAlterConfigsRequest, image: Image
) -> dict[str, dict[str, str]]:
    """By broker that is named: its passwords as they would be, those that are taken away included."""
    found = {}
    for resource in request.resources:
        if resource.resource_type == ConfigType.BROKER:
            now = image.configs.get(ConfigKey(ConfigType.BROKER, resource.resource_name), NO_CONFIG)
            asked = {each.name: each.value for each in resource.configs if each.value is not None}
            after = {**now, **asked}
            found[resource.resource_name] = {key: value for key, value in after.items() if is_password(key)}
    return found
