"""A properties file is read as Java reads it, and only the lines that change are written anew."""

from __future__ import annotations

import javaproperties
import pytest
from hypothesis import given
from hypothesis import strategies as st

from migrator.findings.finding import FindingError
from migrator.fleet.properties_file import has_placeholder, parse_properties

ODD = rb"""# a comment
! another
key=value
  indented : with colon
spaced    by space
long = one,\
       two,\
  three
k\:e\=y\ s=escaped
unicode=\u00e4\u20ac
twice=1
empty
=no key
twice=2
trailing=x  """


def test_every_form_that_java_reads_is_read() -> None:
    values = parse_properties(ODD, "f").values
    assert values["indented"] == "with colon"
    assert values["spaced"] == "by space"
    assert values["long"] == "one,two,three"
    assert values["k:e=y s"] == "escaped"
    assert values["unicode"] == "ä€"
    assert values["twice"] == "2"
    assert values["empty"] == ""
    assert values["trailing"] == "x"  # Kafka trims


def test_a_file_that_nobody_changed_is_the_same_to_the_byte() -> None:
    assert parse_properties(ODD, "f").content == ODD
    assert parse_properties(ODD, "f").repeated() == {"twice": 2}


@given(st.binary(max_size=200).filter(lambda content: b"\0" not in content))
def test_any_bytes_come_out_as_they_went_in_or_are_refused(content: bytes) -> None:
    try:
        written = parse_properties(content, "f").content
    except FindingError as error:
        written = content if error.code == "Z2K-7030" else b""
    assert written == content


KEYS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=8)
VALUES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
FILES = (
    st.text(st.sampled_from("ab#!=: \\\t\r\n"), max_size=40).map(str.encode).filter(lambda content: is_read(content))
)


def is_read(content: bytes) -> bool:
    try:
        parse_properties(content, "f")
    except FindingError:
        return False
    return True


@given(FILES, KEYS, VALUES)
def test_a_value_that_was_set_is_read_back_by_another_reader_and_nothing_else_moves(
    content: bytes, key: str, value: str
) -> None:
    before = parse_properties(content, "f")
    after = before.with_values({key: value.strip()})
    read = javaproperties.loads(after.content)
    assert read[key].strip() == value.strip()
    assert {name: text.strip() for name, text in read.items() if name != key} == {
        name: text for name, text in before.values.items() if name != key
    }
    assert after.with_values({key: value.strip()}).content == after.content


@given(FILES)
def test_a_removed_key_is_gone_and_the_others_stay(content: bytes) -> None:
    document = parse_properties(content, "f")
    for key in document.values:
        left = parse_properties(document.without(lambda name, key=key: name == key).content, "f")  # type: ignore[misc]
        assert left.values == {name: value for name, value in document.values.items() if name != key}


def test_a_key_that_occurs_twice_is_set_once_where_it_counted() -> None:
    document = parse_properties(b"a=1\nb=2\na=3\nc=4\n", "f")
    assert document.with_values({"a": "5"}).content == b"b=2\na=5\nc=4\n"


def test_a_last_line_without_its_end_does_not_swallow_what_follows() -> None:
    assert parse_properties(b"a=1", "f").with_values({"b": "2"}).content == b"a=1\nb=2\n"
    assert parse_properties(b"a=1\\", "f").with_values({"b": "2"}).content == b"a=1\nb=2\n"
    assert parse_properties(b"a=1\\\n", "f").with_values({"b": "2"}).content == b"a=1\nb=2\n"
    assert parse_properties(b"# a comment \\", "f").with_values({"b": "2"}).content == b"# a comment \\\nb=2\n"


def test_lines_of_a_file_from_windows_end_as_its_own_do() -> None:
    assert parse_properties(b"a=1\r\n", "f").with_values({"b": "2"}).content == b"a=1\r\nb=2\r\n"


@pytest.mark.parametrize("content", [b"a=\\u12", b"a=b\0c", b"\\\n# c\\\na=1", b"a" * (1 << 21)])
def test_what_is_no_properties_file_is_refused_by_name(content: bytes) -> None:
    with pytest.raises(FindingError) as refused:
        parse_properties(content, "server.properties")
    assert refused.value.code == "Z2K-7030"


def test_a_secret_is_shown_neither_as_value_nor_in_a_comment() -> None:
    document = parse_properties(
        b"num.io.threads=8\nssl.key.password=hunter2\n#ssl.key.password=hunter2\n# the Password: hunter2\n"
        b"my.plugin.token=hunter2\nlistener.name.x.my.plugin=hunter2\n# plain words\n",
        "f",
    )
    shown = document.shown()
    assert "hunter2" not in "\n".join(shown)
    assert "num.io.threads=8" in shown
    assert "# plain words" in shown


def test_a_placeholder_is_recognised() -> None:
    assert has_placeholder("${file:/etc/kafka/secrets:key}")
    assert not has_placeholder("$1")
