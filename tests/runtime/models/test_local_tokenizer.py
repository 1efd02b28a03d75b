"""Tokenizers of local folders: their files are inputs of the model's step."""

from pathlib import Path

import pytest
from tests.runtime.ppo.tiny_models import tiny_model
from tests.runtime.scripts_recipe import compile_text
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from posttrain.cli.compile import compile_file
from posttrain.runtime.execution.run_plan import run_plan
from posttrain.runtime.models.model_loader import load_model, load_tokenizer
from posttrain.runtime.store.home import Home

RECIPE = """\
recipe: 1
name: local
models:
  base:
    ORIGIN
    tokenizer: {from: ./tok, added_tokens: [<answer>]}
stages:
  out: {export: base}
"""
RANDOM = "init: {model_type: qwen2, num_hidden_layers: 1, hidden_size: 8, num_attention_heads: 1}"
TEXTS = ["twelve and thirty are forty-two", "thirty and two are thirty-two"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A recipe's folder with a byte-pair tokenizer that was trained on some texts."""
    save_tokenizer(tmp_path / "tok", 80)
    return tmp_path


def save_tokenizer(folder: Path, size: int) -> None:
    inner = Tokenizer(models.BPE(unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    special = ["<unk>", "<end>"]
    inner.train_from_iterator(TEXTS, trainers.BpeTrainer(vocab_size=size, special_tokens=special))
    PreTrainedTokenizerFast(tokenizer_object=inner, unk_token="<unk>", eos_token="<end>").save_pretrained(
        folder
    )


def errors(folder: Path, text: str) -> list[tuple[str, str]]:
    (folder / "recipe.yaml").write_text(text)
    found = compile_file(folder / "recipe.yaml", (), ())[0].diagnostics
    return [(one.code, one.message) for one in found]


@pytest.mark.parametrize("origin", [RANDOM, "from: ./mine"])
def test_a_model_gets_the_tokenizer_of_a_folder(origin: str, folder: Path) -> None:
    if origin != RANDOM:
        tiny_model().save_pretrained(folder / "mine")
    plan, options = compile_text(folder, RECIPE.replace("ORIGIN", origin))
    step = plan.step("models.base")
    assert {role for role in step.files if role.startswith("tokenizer/")} == {
        "tokenizer/tokenizer.json",
        "tokenizer/tokenizer_config.json",
    }
    assert step.pinned
    home = Home(folder / "home")
    assert run_plan(plan, home, options).succeeded
    product = home.store.read(step.key).files
    own, given = load_tokenizer(product), load_tokenizer(folder / "tok")
    for text in TEXTS:
        assert own(text)["input_ids"] == given(text)["input_ids"]
    assert own("<answer>")["input_ids"] == [len(given)]
    embeddings = load_model(product).get_input_embeddings().weight
    assert len(embeddings) >= len(given) + 1
    if origin == RANDOM:
        assert len(embeddings) == len(given) + 1


def test_another_tokenizer_is_another_model(folder: Path) -> None:
    keys = set[str]()
    for size in (80, 30):
        save_tokenizer(folder / "tok", size)
        keys.add(compile_text(folder, RECIPE.replace("ORIGIN", RANDOM))[0].step("models.base").key)
    assert len(keys) == 2


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"./tok": "./none"}, ("PT0409", "the folder `./none` has no file `tokenizer.json`")),
        ({"./tok": "./tok, revision: main"}, ("PT0204", "revision has no effect on a local folder")),
        ({"./tok": "tok"}, ("PT0815", "`tok` is a name on the hub, but a local folder has the same path")),
        ({RANDOM: "from: ./mine, revision: main"}, ("PT0204", "revision has no effect on a local folder")),
    ],
)
def test_what_is_wrong_is_told(changes: dict[str, str], expected: tuple[str, str], folder: Path) -> None:
    text = RECIPE.replace("ORIGIN", RANDOM)
    for old, new in changes.items():
        text = text.replace(old, new)
    assert expected in errors(folder, text.replace("from: ./mine, revision", "from: ./mine\n    revision"))
