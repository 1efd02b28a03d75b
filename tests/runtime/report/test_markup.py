import json
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.runtime.report.markup import Markup, escape_text, join_markup, preformatted, script_json, tag

HOSTILE = [
    "</script><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "<!-- --><![CDATA[ ]]>",
    "&lt;b&gt; &amp; &#x3c;",
    "\U0001f600 שלום مرحبا",
]


class Reader(HTMLParser):
    """The opened elements and the text, as an HTML parser reads them."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.opened: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.opened.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data


@pytest.mark.parametrize("words", HOSTILE)
def test_text_is_read_back_as_it_was(words):
    found = Reader(tag("p", words, title=words))
    assert found.opened == [("p", {"title": words})]
    assert found.text == words


@given(
    st.text(
        st.characters(
            exclude_categories=["Cs", "Cc"],
            exclude_characters="\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufffe\uffff",
        )
    )
)
def test_any_text_is_read_back_as_it_was(words):
    found = Reader(tag("p", words, title=words))
    assert found.opened == [("p", {"title": words})]
    assert found.text == words


@given(st.text())
def test_any_text_at_all_can_be_written_as_utf8(words):
    escape_text(words).encode("utf-8")


def test_characters_that_would_not_be_seen_are_shown():
    assert escape_text("a\x00b\x1bc\x7fd\r\n\te") == "a\u2400b\u241bc\u2421d\u240d\n\te"
    assert escape_text("\u202eabc\ud800\x85") == "\u27e8U+202E\u27e9abc\u27e8U+D800\u27e9\u27e8U+0085\u27e9"


def test_attributes():
    made = tag("rect", x=1.50, y=2, class_="a b", aria_label="<", hidden=True, title=None, open=False)
    assert made == '<rect x="1.5" y="2" class="a b" aria-label="&lt;" hidden></rect>'


def test_children_are_escaped_unless_they_are_markup():
    assert join_markup(["<", Markup("<b></b>"), None, 3, [0.5]]) == "&lt;<b></b>30.5"
    assert tag("br") == "<br>"


def test_text_in_a_pre_element_keeps_its_first_line_feed():
    assert preformatted("\n x", reached=False) == '<pre dir="auto">\n\n x</pre>'


@pytest.mark.parametrize("words", HOSTILE)
def test_data_in_a_script_cannot_end_it(words):
    packed = script_json({words: [words]})
    assert json.loads(packed) == {words: [words]}
    assert not set(packed) & set("<>&")


def test_data_that_is_no_json_is_refused():
    with pytest.raises(ValueError, match="JSON"):
        script_json([float("nan")])
