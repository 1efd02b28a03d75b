"""Language identification: certain results, uncertain results, and texts without a language."""

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import require_service
from tests.runtime.rewards.reward_compilation import compiled_graph, evaluate_graph

from posttrain.runtime.rewards.engine.graph import Scores
from posttrain.runtime.rewards.ops.language import LANGUAGES, strip_non_prose
from posttrain.spec.column_types import Interval

# By language. All but the Russian one are identified without `languages`.
SENTENCES: dict[str, str] = json.loads(Path(__file__).with_name("sentences.json").read_text("utf-8"))
RUSSIAN = SENTENCES.pop("ru")


@pytest.fixture(autouse=True, scope="module")
def package() -> None:
    require_service("py3langid", find_spec("py3langid"), "pip install 'posttrain[train]'")


def result(texts: list[str | None], **params: Any) -> Scores:
    """The node, and a test for English."""
    return evaluate_graph(
        compiled_graph(
            {
                "reads": {"completion": "text"},
                "nodes": {"node": {"language": {"of": "completion", **params}}},
                "returns": {"score": {"when": {"equal": {"of": "node", "to": {"text": "en"}}}}},
            }
        ),
        {"completion": texts},
    )


def test_sentences_are_told_by_their_codes():
    found = result(list(SENTENCES.values()))
    assert found.values["node"] == list(SENTENCES)
    assert found.values["returns"] == [1.0] + [0.0] * (len(SENTENCES) - 1)
    assert found.reasons["node"][0] == "en with a probability of 1.00"


def test_the_same_texts_get_the_same_whatever_stands_beside_them():
    texts: list[str | None] = list(SENTENCES.values())
    assert result(texts[::-1]).reasons["node"] == result(texts).reasons["node"][::-1]


@pytest.mark.parametrize("text", ["ok", "Yes", "Hello there", "x", "The answer is 42."])
def test_what_cannot_be_told_leaves_open_what_is_computed_from_it(text: str):
    found = result([text, SENTENCES["en"]])
    assert found.values["node"] == [None, "en"]
    assert found.values["returns"] == [None, 1.0]
    assert " with a probability of only 0." in str(found.reasons["node"][0])


@pytest.mark.parametrize("text", ["", "42", "\\frac{1}{2}", "```python\nfor i in x: print(i)\n```", None])
def test_where_there_are_no_words_there_is_no_language(text: str | None):
    found = result([text])
    assert found.values == {**found.values, "node": [None], "returns": [0.0]}


def test_letters_that_are_no_language_are_in_none():
    found = result(["qwrtz zxcvb nmlkp fdsqq"])
    assert (found.values["node"], found.values["returns"]) == ([None], [0.0])
    assert str(found.reasons["node"][0]).startswith("no language, ")


def test_expected_languages_settle_what_may_be_several_and_nothing_else():
    texts: list[str | None] = [RUSSIAN, SENTENCES["uk"], SENTENCES["ar"], "The answer is 42."]
    assert result(texts).values["node"] == [None, "uk", "ar", None]
    assert result(texts, languages=["en", "ru"]).values["node"] == ["ru", "uk", "ar", "en"]


def test_how_sure_it_has_to_be_is_the_recipe_s_to_say():
    portuguese = "Primeiro somamos os do"
    assert result([portuguese]).values["node"] == [None]
    assert result([portuguese], min_probability=0.5).values["node"] == ["pt"]


def test_formulas_code_tags_and_addresses_do_not_count():
    text = "The sum <b>is</b> $\\frac{a}{b}$ `x = 1` and \\(c\\), see https://example.org/Zusammenfassung."
    assert strip_non_prose(text).split() == ["The", "sum", "is", "and", ",", "see"]
    german = "Die Summe ist gerade.\n```\nreturn the value of the first element of the list, if any\n```\n"
    assert result([german * 3]).values["node"] == ["de"]
    assert strip_non_prose("It costs $5, and $10 for a child") == "It costs $5, and $10 for a child"


@pytest.mark.parametrize("piece", ["\\(", "\\[", "$", "`", "<a", "$$a", "~", "http://", "\ud800", "\0"])
def test_no_text_is_too_strange(piece: str):
    found = result([piece * 20_000])
    assert found.values["returns"] in ([0.0], [None])


def test_the_declared_codes_are_those_of_the_model():
    from posttrain.runtime.rewards.ops.language import _MACROLANGUAGES, _load_identifier

    labels = set(_load_identifier().labels)
    assert set(LANGUAGES) == labels - set(_MACROLANGUAGES) - {"zxx"}
    assert set(_MACROLANGUAGES) <= labels
    assert set(_MACROLANGUAGES.values()) <= LANGUAGES


def test_it_is_text_that_other_ops_take():
    reward = {
        "reads": {"completion": "text", "locale": "text"},
        "nodes": {"spoken": {"language": "completion"}},
        "returns": {
            "sum": [
                {"score": {"when": {"one_of": {"of": "spoken", "values": ["de", "fr"]}}}},
                {"score": {"when": {"equal": {"of": "spoken", "to": "locale"}}, "then": 2}},
            ]
        },
    }
    graph = compiled_graph(reward)
    assert (graph.types["spoken"], graph.range) == ("text", Interval(0.0, 3.0))
    texts = [SENTENCES["de"], SENTENCES["fr"], SENTENCES["en"]]
    found = evaluate_graph(graph, {"completion": texts, "locale": ["de", "de", "en"]})
    assert found.values["returns"] == [3.0, 1.0, 2.0]
