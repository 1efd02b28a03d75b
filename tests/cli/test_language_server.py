"""The YAML language server completes, documents and checks recipes with the schema."""

import pytest
from tests.cli.lsp_session import CURSOR, LanguageServer
from tests.recipe_command import ROOT

from posttrain.runtime.catalog import CATALOG
from posttrain.spec.declaration_fields import fields_of
from posttrain.spec.recipe import VERBS, Recipe
from posttrain.spec.train_stage import Train

HEAD = "recipe: 1\nname: demo\n"
STAGE = f"{HEAD}stages:\n  grpo:\n    train: grpo\n    model: base\n    data: sums\n    reward: right\n"
REWARD = f"{HEAD}rewards:\n  right:\n    reads: {{completion: text}}\n    returns: a\n    nodes:\n      a:\n"
COMPLETIONS = {
    "a section": (f"{HEAD}{CURSOR}\n", {"models", "datasets", "stages", "profiles", "extends"}),
    "the verbs of a stage": (f"{HEAD}stages:\n  sft:\n    {CURSOR}\n", set(VERBS)),
    "the keys of a train stage": (
        f"{HEAD}stages:\n  sft:\n    train: sft\n    {CURSOR}\n",
        {"model", "data", "params"},
    ),
    "the methods": (f"{HEAD}stages:\n  sft:\n    train: {CURSOR}\n", set(CATALOG.names("method"))),
    "the parameters of grpo": (
        f"{STAGE}    params:\n      {CURSOR}\n",
        {"num_generations", "beta", "temperature"},
    ),
    "the words of a parameter": (
        f"{STAGE}    params:\n      max_steps: 1\n      loss_type: {CURSOR}\n",
        {"dapo", "dr_grpo"},
    ),
    "the sources": (f"{HEAD}datasets:\n  a:\n    from:\n      {CURSOR}\n", {"arithmetic", "files"}),
    "the data steps": (
        f"{HEAD}datasets:\n  a:\n    from: b\n    steps:\n      - {CURSOR}\n",
        {"where", "split"},
    ),
    "the ops of a node": (f"{REWARD}        {CURSOR}\n", {"between", "score", "sum"}),
    "the ops of a condition": (
        f"{REWARD}        score:\n          when:\n            {CURSOR}\n",
        {"equal", "present"},
    ),
    "parameters in a profile": (
        f"{HEAD}profiles:\n  smoke:\n    stages:\n      a:\n        params:\n          {CURSOR}\n",
        {"epochs", "num_generations"},
    ),
}


def test_a_whole_recipe_has_no_complaint(editor: LanguageServer) -> None:
    text = (ROOT / "recipes" / "quickstart" / "recipe.yaml").read_text()
    assert editor.open(text).messages == []


@pytest.mark.parametrize("what", COMPLETIONS)
def test_it_is_offered(editor: LanguageServer, what: str) -> None:
    text, expected = COMPLETIONS[what]
    assert expected <= set(editor.open(text).completions())


def test_only_what_fits_is_offered(editor: LanguageServer) -> None:
    params = set(editor.open(COMPLETIONS["the parameters of grpo"][0]).completions())
    assert not params & {"loss_on", "packing"}  # the parameters of sft
    ops = set(editor.open(COMPLETIONS["the ops of a condition"][0]).completions())
    assert not ops & {"between", "sum"}  # no conditions


def test_a_parameter_is_offered_with_its_default(editor: LanguageServer) -> None:
    offered = editor.open(COMPLETIONS["the parameters of grpo"][0]).completions()
    assert "8" in offered["num_generations"]["insertText"]
    assert "The number of completions sampled for each prompt" in str(
        offered["num_generations"]["documentation"]
    )


def test_hovering_explains(editor: LanguageServer) -> None:
    opened = editor.open(f"{STAGE}    params: {{max_steps: 1, beta: 0.1}}\ntracking: [tensorboard]\n")
    assert plain_text(fields_of(Train)["reward"].description) in opened.hover("reward: right")
    assert "The KL coefficient" in opened.hover("beta")
    assert plain_text(fields_of(Recipe)["tracking"].description) in opened.hover("tracking")
    assert "Train a model with one of the training methods" in opened.hover("grpo:")


def plain_text(description: str | None) -> str:
    assert description
    return description.rstrip(".")


WRONG = {
    "a misspelt parameter": (f"{STAGE}    params: {{max_steps: 1, generation: 8}}\n", "generation", 9),
    "a misspelt section": (f"{STAGE}    params: {{max_steps: 1}}\ndataset: {{}}\n", "dataset", 10),
    "text for a number": (
        f"{STAGE}    params: {{max_steps: 1_000}}\n",
        "expected a whole number, at least 1",
        9,
    ),
    "an unknown method": (f"{HEAD}stages:\n  a: {{train: gprot, model: b, data: c}}\n", "grpo", 4),
    "unknown data source": (
        f"{HEAD}datasets: {{a: {{from: {{arithmetics: {{}}}}}}}}\nstages: {{}}\n",
        "arithmetics",
        3,
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_mistake_is_shown_in_its_place(editor: LanguageServer, what: str) -> None:
    text, word, line = WRONG[what]
    opened = editor.open(text)
    found = [
        message
        for message, place in zip(opened.messages, opened.positions, strict=True)
        if place["line"] == line
    ]
    assert any(word in message for message in found), opened.messages
