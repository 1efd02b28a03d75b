"""Tokens that a recipe adds to a pretrained model: their embeddings, their training, their products."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.methods.stage_harness import (
    TEMPLATE,
    StageHarness,
    compile_or_errors,
    compile_plan,
    metrics,
    recipe,
    warnings,
)
from tests.runtime.methods.test_adapter_training import lora, train_by_hand

from posttrain.compiler.pipeline import compile_recipe
from posttrain.compiler.text.compile_request import CompileRequest, SourceFile
from posttrain.runtime.catalog import CATALOG
from posttrain.runtime.errors import StepError
from posttrain.runtime.installed_stack import installed_stack
from posttrain.runtime.models.added_tokens import add_tokens
from posttrain.runtime.models.merge_check import probe_tokens
from posttrain.runtime.models.model_loader import load_model, load_tokenizer
from posttrain.runtime.trl_compat.token_wrapper_attributes import expose_wrapped_attributes
from posttrain.spec.tokenizer_declaration import Tokenizer

CONFIG = json.dumps(
    {
        "model_type": "qwen2",
        "num_hidden_layers": 1,
        "hidden_size": 32,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "intermediate_size": 64,
        "vocab_size": 20,
        "max_position_embeddings": 64,
        "tie_word_embeddings": False,
    }
)
_TIED = "tie_word_embeddings: false"
_BASE = """\
    init: {model_type: FAMILY, num_hidden_layers: 1, hidden_size: 32, num_attention_heads: 2,
        max_position_embeddings: 64, initializer_range: 0.06, tie_word_embeddings: false}
    tokenizer: {init: characters, alphabet: "0123456789+=?", added_tokens: [<answer>, </answer>]}
"""
_NEW = "added_tokens: [<think>, </think>], added_special_tokens: [<|tool|>]"


def pretrained(bench: StageHarness, *, tied: bool = False, rounded: int | None = None) -> Mapping[str, bytes]:
    """The files of a model with random weights, as a folder `mine`."""
    text = recipe().replace(_TIED, f"tie_word_embeddings: {str(tied).lower()}").replace("FAMILY", "qwen2")
    if rounded is not None:
        text = text.replace(
            "</answer>]}\n    chat", f"</answer>], resize_to_multiple_of: {rounded}}}\n    chat"
        )
    plan = compile_plan(text)
    folder = bench.run_step(plan, plan.step("models.base")).files
    return {
        f"mine/{path.name}": path.read_bytes() for path in folder.iterdir() if path.name != "manifest.json"
    }


def with_tokens(*stages: str, tokens: str = _NEW) -> str:
    """A recipe that adds tokens to this model."""
    text = recipe(*stages)
    assert _BASE.replace("FAMILY", "qwen2") in text
    return text.replace(
        _BASE.replace("FAMILY", "qwen2"), f"    from: ./mine\n    tokenizer: {{{tokens}}}\n"
    ).replace(
        "model: base, data: sums.train, params: {max_steps: 12",
        "model: base, data: sums.train, params: {max_steps: 2",
    )


def made_model(bench: StageHarness, files: Mapping[str, bytes], tokens: str) -> Any:
    text = with_tokens(tokens=tokens)
    plan = compile_plan(text, files)
    for name, content in files.items():
        (bench.root / name).parent.mkdir(exist_ok=True)
        (bench.root / name).write_bytes(content)
    return bench.run_step(plan, plan.step("models.base")), plan.step("models.base")


def by_hand(folder: Path, seed: int, multiple: int | None) -> Any:
    """The tokenizer and the model as a script of transformers adds the tokens."""
    from tokenizers import AddedToken
    from transformers import AutoModelForCausalLM, AutoTokenizer, set_seed

    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.add_tokens([AddedToken(one, normalized=False) for one in ("<think>", "</think>")])
    tokenizer.add_special_tokens(
        {"extra_special_tokens": [AddedToken("<|tool|>", special=True, normalized=False)]}
    )
    model = AutoModelForCausalLM.from_pretrained(folder)
    set_seed(seed)
    model.resize_token_embeddings(len(tokenizer), pad_to_multiple_of=multiple, mean_resizing=True)
    return tokenizer, model


def check_equal(found: Any, expected: Any) -> None:
    states = found.state_dict(), expected.state_dict()
    assert states[0].keys() == states[1].keys()
    assert [name for name in states[0] if not bool((states[0][name] == states[1][name]).all())] == []


@pytest.mark.slow
@pytest.mark.parametrize(("tied", "multiple"), [(False, None), (True, 16)])
def test_embeddings_grow_as_with_transformers_by_hand(
    tied: bool, multiple: int | None, bench: StageHarness
) -> None:
    files = pretrained(bench, tied=tied)
    more = f", resize_to_multiple_of: {multiple}" if multiple else ""
    product, step = made_model(bench, files, _NEW + more)
    tokenizer, model = by_hand(bench.root / "mine", step.params["seed"], multiple)
    found, made = load_tokenizer(product.files), load_model(product.files)
    assert found.get_vocab() == tokenizer.get_vocab()
    assert "<|tool|>" in found.all_special_tokens
    assert found.decode(found("<think>1<|tool|>")["input_ids"], skip_special_tokens=True) == "<think>1"
    check_equal(made, model)
    assert made.config.vocab_size == made.lm_head.out_features == model.config.vocab_size
    assert (made.lm_head.weight is made.model.embed_tokens.weight) == tied
    before = json.loads(files["mine/generation_config.json"])
    after = json.loads((product.files / "generation_config.json").read_text())
    assert {name: after[name] for name in before if name != "transformers_version"} == {
        name: value for name, value in before.items() if name != "transformers_version"
    }


@pytest.mark.slow
def test_free_rows_are_used_first_and_initialized(bench: StageHarness) -> None:
    files = pretrained(bench, rounded=32)
    rows = json.loads(files["mine/config.json"])["vocab_size"]
    for init in ("mean_resizing", "subtoken_mean"):
        product, _ = made_model(bench, files, f"added_tokens: [12+], new_embeddings: {init}")
        made, tokenizer = load_model(product.files), load_tokenizer(product.files)
        former, former_tokenizer = load_model(bench.root / "mine"), load_tokenizer(bench.root / "mine")
        assert made.config.vocab_size == rows
        used = (
            former_tokenizer("12+")["input_ids"]
            if init == "subtoken_mean"
            else list(range(len(former_tokenizer)))
        )
        token = tokenizer.convert_tokens_to_ids("12+")
        assert token == len(former_tokenizer) < rows
        for name in ("model.embed_tokens.weight", "lm_head.weight"):
            before, after = former.state_dict()[name], made.state_dict()[name]
            assert after[token].tolist() == before[used].mean(dim=0).tolist()
            others = [row for row in range(rows) if row != token]
            assert bool((after[others] == before[others]).all())


@pytest.mark.slow
def test_the_end_and_padding_token_are_in_every_file(bench: StageHarness) -> None:
    files = pretrained(bench)
    tokens = "added_special_tokens: [<|stop|>, <|fill|>], eos_token: <|stop|>, pad_token: <|fill|>"
    product, _ = made_model(bench, files, tokens)
    tokenizer, model = load_tokenizer(product.files), load_model(product.files)
    stop, fill = tokenizer.convert_tokens_to_ids(["<|stop|>", "<|fill|>"])
    assert (tokenizer.eos_token_id, tokenizer.pad_token_id) == (stop, fill)
    assert model.generation_config.eos_token_id[0] == stop
    assert model.generation_config.pad_token_id == model.config.pad_token_id == fill


WRONG = {
    "empty": ("added_tokens: ['']", "is empty"),
    "twice": ("added_tokens: [<a>, <a>]", "`<a>` is listed twice"),
    "in both lists": (
        "added_tokens: [<a>], added_special_tokens: [<a>]",
        "`<a>` is one of `added_tokens` too",
    ),
    "alphabet": ("init: characters, alphabet: ab, added_tokens: [b]", "`b` is a character of the `alphabet`"),
    "initialization without tokens": ("new_embeddings: subtoken_mean", "new_embeddings has no effect"),
    "end token of a built tokenizer": ("init: characters, eos_token: a", "eos_token has no effect"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_tokens_are_compile_errors(case: str) -> None:
    tokens, message = WRONG[case]
    _, errors = compile_or_errors(
        with_tokens(tokens=tokens), {"mine/config.json": "{}", "mine/model.safetensors": "x"}
    )
    assert any(message in each for each in errors), errors


def small_tokenizer() -> Any:
    from tests.runtime.small_tokenizers import small_tokenizer as build
    from tokenizers import normalizers

    tokenizer = build("has_bos_but_adds_none", merge=("1", "2"))
    tokenizer.backend_tokenizer.normalizer = normalizers.Lowercase()
    return tokenizer


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        (["12"], r"tokenizer.added_tokens\[0\]: `12` is already the token"),
        (["<a>", "</s>"], r"tokenizer.added_tokens\[1\]: `</s>` is already the token"),
        (["A"], r"`A` is already the token `a`"),
        (
            ["<a>", "<A>"],
            r"added_tokens\[1\]: the tokenizer normalizes `<A>` to `<a>`, as it does the token `<a>`",
        ),
    ],
)
def test_tokens_that_exist_are_errors_with_their_place(tokens: list[str], message: str) -> None:
    with pytest.raises(StepError, match=message):
        add_tokens(small_tokenizer(), Tokenizer(added_tokens=tuple(tokens)))


_SMALL = "r: 4, lora_alpha: 8"
_PARAMS = "params: {max_steps: 6, learning_rate: 1.0e-2, batch_size: 8, max_length: 64}"
_SHORT = "sampling: {max_tokens: 4}"
ADAPTERS = {
    "untied": (False, "trainable_token_indices: added", ["embed_tokens", "lm_head"], 2),
    "tied": (True, "trainable_token_indices: added", ["embed_tokens"], 1),
}


def token_stages(adapter: str) -> tuple[str, ...]:
    return (
        f"it: {{train: sft, model: base, data: sums.train, adapter: {{{_SMALL}, {adapter}}}, {_PARAMS}}}",
        f"more: {{train: sft, model: it, data: sums.train, {_PARAMS}}}",
        "whole: {export: more}",
        "alone: {export: more, merge: false}",
        f"tested: {{eval: more, data: sums.test, reward: solution, metrics: {{right: right}}, {_SHORT}}}",
    )


@pytest.mark.slow
@pytest.mark.parametrize("case", ADAPTERS)
def test_an_adapter_trains_the_rows_of_added_tokens(case: str, bench: StageHarness, tmp_path: Path) -> None:
    tied, adapter, modules, matrices = ADAPTERS[case]
    files = pretrained(bench, tied=tied)
    text = with_tokens(*token_stages(adapter)).replace(
        "- split: {test: 17}",
        "- derive: {completion: \"'<think>' || answer || '</think><|tool|>'\"}\n      - split: {test: 17}",
    )
    made = bench.run(text, files)
    tokenizer = load_tokenizer(made["models.base"].files)
    ids = tokenizer.convert_tokens_to_ids(["<think>", "</think>", "<|tool|>"])
    config = lora(trainable_token_indices=dict.fromkeys(modules, ids))
    expose_wrapped_attributes()  # without it TRL fails: it reads the bias of the output layer
    trained, losses = train_by_hand(bench, text, config, tmp_path, files=files)
    assert metrics(made["it"], "loss") == losses
    assert losses[-1] < losses[0]
    step = compile_plan(text, files).step("it")
    assert made["it"].facts["trained_parameters"] == step.expect["trained_parameters"]
    whole = compile_plan(text, files).step("sft")  # all weights, with the new rows
    assert made["sft"].facts["trained_parameters"] == whole.expect["trained_parameters"]
    plain = compile_plan(text.replace(f", {adapter}", ""), files).step("it").expect["trained_parameters"]
    assert step.expect["trained_parameters"] == plain + matrices * 3 * 32
    delta = {name: weight for name, weight in trained.named_parameters() if "trainable_tokens_delta" in name}
    found = {
        name: weight
        for name, weight in load_model(made["it"].files).named_parameters()
        if "trainable_tokens_delta" in name
    }
    assert found.keys() == delta.keys()
    assert all(bool((found[name] == delta[name]).all()) for name in delta)
    (warned,) = (each for each in warnings(made["alone"]) if "added tokens" in each)
    assert json.loads((made["alone"].files / "base.json").read_text())["embeddings"] == len(tokenizer), warned
    import torch

    tokens = probe_tokens(len(tokenizer))
    with torch.inference_mode():
        alone, whole = (load_model(made[name].files)(input_ids=tokens).logits for name in ("alone", "whole"))
    assert alone.numpy() == pytest.approx(whole.numpy(), abs=2e-5)


@pytest.mark.parametrize(
    ("adapter", "message"),
    [
        ("r: 4", "the embeddings and the output layer"),
        ("r: 4, modules_to_save: [lm_head]", "the embeddings of"),
        ("type: full, freeze: [lm_head.weight]", "the output layer of"),
        ("r: 4, modules_to_save: [embed_tokens, lm_head]", ""),
        ("r: 4, trainable_token_indices: added", ""),
        ("type: full", ""),
    ],
)
def test_an_adapter_that_leaves_added_tokens_untrained_is_a_warning(adapter: str, message: str) -> None:
    text = with_tokens(
        f"it: {{train: sft, model: base, data: sums.train, adapter: {{{adapter}}}, {_PARAMS}}}",
        f"more: {{train: sft, model: it, data: sums.train, adapter: {{{adapter}}}, {_PARAMS}}}",
    )
    files = {"chat.jinja": TEMPLATE, "mine/config.json": CONFIG, "mine/model.safetensors": "x"}
    read = {name: content.encode() for name, content in files.items()}
    found = compile_recipe(
        CompileRequest(
            source=SourceFile("recipe.yaml", text.encode()),
            catalog=CATALOG,
            read=read.get,
            stack=installed_stack(),
        )
    )
    warned = [each.message for each in found.diagnostics if each.code == "PT0695"]
    assert len(warned) == bool(message), found.diagnostics
    assert all(message in each and "<think>, </think>, <|tool|>" in each for each in warned)
