"""A connect string is read as ZooKeeper's own client reads it."""

from __future__ import annotations

import pytest

from migrator.model.connect_string import chroot_of, places_of, plain_form, servers_of


@pytest.mark.parametrize(
    ("connect", "servers", "chroot"),
    [
        ("127.0.0.1:31001, localhost:31001/kafka", ("127.0.0.1:31001", "localhost:31001"), "/kafka"),  # as met
        ("a:2181,/kafka", ("a:2181",), "/kafka"),
        (" a:2181 ,, b:2182 /kafka/one ", ("a:2181", "b:2182"), "/kafka/one"),
        ("a:2181\t,\tb/", ("a:2181", "b"), ""),
        ("a", ("a",), ""),
    ],
)
def test_spaces_and_empty_servers_mean_nothing(connect: str, servers: tuple[str, ...], chroot: str) -> None:
    assert (servers_of(connect), chroot_of(connect)) == (servers, chroot)


@pytest.mark.parametrize(
    ("connect", "places", "plain"),
    [
        ("a, b:2182/kafka", (("a", 2181), ("b", 2182)), "a:2181,b:2182/kafka"),
        ("[::1], [fe80::2]:2182,", (("::1", 2181), ("fe80::2", 2182)), "[::1]:2181,[fe80::2]:2182"),
        ("a:", (("a", 2181),), "a:2181"),
    ],
)
def test_a_server_without_a_port_has_the_usual_one(connect: str, places: object, plain: str) -> None:
    assert (places_of(connect), plain_form(connect)) == (places, plain)


@pytest.mark.parametrize("connect", ["", " , ", "/kafka", "a:port", ":2181", "a:123456"])
def test_what_names_no_server_is_refused(connect: str) -> None:
    with pytest.raises(ValueError, match=r"server|HOST:PORT"):
        plain_form(connect)
