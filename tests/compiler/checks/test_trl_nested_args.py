"""Tests the keys inside the mapping arguments of TRL; test_trl_nested_args_table.py tests the table."""

import pytest
from tests.compiler.checks.stage_compilation import diagnostics_of, stage_recipe

from posttrain.compiler.checks.training_examples import training_example
from posttrain.spec.diagnostic import Diagnostic

REWARD_PARAMS = "reward: right, params: {max_steps: 9}"
VLLM = f"{REWARD_PARAMS}, placement: {{rollouts: {{engine: vllm}}}}"
SERVER = f"{REWARD_PARAMS}, placement: {{rollouts: {{engine: vllm, mode: server}}}}"


@pytest.mark.parametrize(
    ("method", "more", "argument", "code", "said"),
    [
        ("grpo", REWARD_PARAMS, "generation_kwargs: {temprature: 0.5}", "PT0621", "set `params.temperature`"),
        (
            "grpo",
            REWARD_PARAMS,
            "generation_kwargs: {temperature: 0.5}",
            "PT0623",
            "set `params.temperature`",
        ),
        (
            "grpo",
            REWARD_PARAMS,
            "generation_kwargs: {max_new_tokens: 5}",
            "PT0623",
            "set `params.max_completion_length`",
        ),
        (
            "rloo",
            REWARD_PARAMS,
            "generation_kwargs: {num_return_sequences: 5}",
            "PT0623",
            "`params.num_generations`",
        ),
        (
            "grpo",
            REWARD_PARAMS,
            "generation_kwargs: {repetition_penalty: 1.1}",
            "PT0623",
            "`trl: {repetition_penalty",
        ),
        (
            "grpo",
            REWARD_PARAMS,
            "generation_kwargs: {no_repeat_ngram_sizes: 3}",
            "PT0621",
            "`no_repeat_ngram_size`?",
        ),
        ("grpo", REWARD_PARAMS, "generation_kwargs: {typical_p: high}", "PT0622", "takes null or a number"),
        (
            "grpo",
            REWARD_PARAMS,
            "generation_kwargs: {bad_words_ids: [1]}",
            "PT0622",
            "a list of lists of integers",
        ),
        (
            "grpo",
            REWARD_PARAMS,
            "generation_kwargs: {min_tokens: 3}",
            "PT0621",
            "only for `vllm`, `server`: `placement",
        ),
        ("grpo", VLLM, "generation_kwargs: {no_repeat_ngram_size: 3}", "PT0621", "only for `transformers`"),
        ("grpo", VLLM, "generation_kwargs: {seed: 3}", "PT0623", "the recipe's `seed`"),
        (
            "grpo",
            VLLM,
            "generation_kwargs: {logit_bias: {5: 1.0}}",
            "PT0622",
            "no value that a recipe can express",
        ),
        ("grpo", VLLM, "generation_kwargs: {structured_outputs: {regx: a}}", "PT0621", "mean `regex`?"),
        (
            "grpo",
            SERVER,
            "generation_kwargs: {echo: true}",
            "PT0623",
            "needs exactly the tokens and their log-probabilities",
        ),
        (
            "grpo",
            REWARD_PARAMS,
            "chat_template_kwargs: {enable_thinking: false}",
            "PT0623",
            "set `chat_template_kwargs` of the stage",
        ),
        ("sft", "", "accelerator_config: {even_batch: true}", "PT0621", "did you mean `even_batches`?"),
        ("sft", "", "accelerator_config: {split_batches: true}", "PT0623", "`params.micro_batch_size`"),
        ("sft", "", "accelerator_config: {non_blocking: 1}", "PT0622", "takes true or false"),
        ("sft", "", "accelerator_config: '{}'", "PT0622", "write the mapping itself"),
        (
            "sft",
            "",
            "accelerator_config: {gradient_accumulation_kwargs: {num_steps: 2}}",
            "PT0623",
            "cannot be set under `gradient_accumulation_kwargs`",
        ),
        ("sft", "", "gradient_checkpointing_kwargs: {use_reentrent: true}", "PT0621", "`use_reentrant`?"),
        ("sft", "", "gradient_checkpointing_kwargs: {determinism_check: no}", "PT0622", "default, none"),
        (
            "dpo",
            "",
            "gradient_checkpointing_kwargs: {every_n_layers: 2}",
            "PT0621",
            "the method selects the case",
        ),
        ("sft", "", "optim_args: momentum=0.9", "PT0621", "for `sgd`, `rmsprop`: `trl: {optim"),
        ("sft", "", "optim: sgd, optim_args: 'momentum=fast'", "PT0622", "takes a number, not the text"),
        ("sft", "", "optim: sgd, optim_args: 'momentum'", "PT0622", "is not a `key=value` pair"),
        ("sft", "", "optim: sgd, optim_args: 'weight_decay=0.1'", "PT0623", "set `params.weight_decay`"),
        ("sft", "", "optim: stable_adamw, optim_args: 'decouple_lr=false'", "PT0622", "values here: true"),
        ("sft", "", "liger_kernel_config: {rope: false}", "PT0624", "unless `use_liger_kernel` is true"),
    ],
)
def test_a_mistake_is_told_with_its_mending(
    method: str, more: str, argument: str, code: str, said: str
) -> None:
    found = diagnostics_within(method, more, argument)
    assert [one.code for one in found] == [code]
    assert said in f"{found[0].message} {found[0].help}"


def diagnostics_within(method: str, more: str, argument: str) -> list[Diagnostic]:
    text = stage_recipe(method, ", ".join(filter(None, [more, f"trl: {{{argument}}}"])))
    return [one for one in diagnostics_of(text) if one.code.startswith("PT06")]


@pytest.mark.parametrize(
    ("method", "more", "argument"),
    [
        (
            "grpo",
            REWARD_PARAMS,
            "generation_kwargs: {no_repeat_ngram_size: 3, suppress_tokens: [1], typical_p: null}",
        ),
        ("grpo", REWARD_PARAMS, "generation_kwargs: {sequence_bias: [[[1, 2], -10.0]]}"),
        ("grpo", VLLM, "generation_kwargs: {min_tokens: 3, stop: [a], frequency_penalty: 1}"),
        ("grpo", VLLM, "generation_kwargs: {structured_outputs: {regex: '[ab]+'}}"),
        ("grpo", SERVER, "generation_kwargs: {logit_bias: {5: 1.0}, repetition_detection: {min_count: 2}}"),
        (
            "sft",
            "",
            "accelerator_config: {gradient_accumulation_kwargs: {sync_each_batch: true}}",
        ),
        ("sft", "", "accelerator_config: null"),
        ("sft", "", "gradient_checkpointing_kwargs: {every_n_layers: 2, selective: true}"),
        ("dpo", "", "gradient_checkpointing_kwargs: {use_reentrant: false, preserve_rng_state: true}"),
        ("sft", "", "optim: sgd, optim_args: 'momentum=0.9, nesterov=true'"),
        ("sft", "", "optim_args: ''"),
        ("sft", "params: {use_liger_kernel: true}", "liger_kernel_config: {rope: false, swiglu: true}"),
    ],
)
def test_what_is_right_passes(method: str, more: str, argument: str) -> None:
    assert diagnostics_within(method, more, argument) == []


@pytest.mark.parametrize("optimizer", ["[1]", "5", "sgdd"])
def test_a_mistaken_optimizer_is_told_once(optimizer: str) -> None:
    found = diagnostics_within("sft", "", f"optim: {optimizer}, optim_args: 'momentum=0.9'")
    assert [one.code for one in found] == ["PT0622"]


@pytest.mark.parametrize(("gpus", "codes"), [("", ["PT0621"]), ("hardware: {gpus: 1xH100-80GB}\n", [])])
def test_where_nothing_is_said_the_target_decides_what_writes(gpus: str, codes: list[str]) -> None:
    text = stage_recipe("grpo", f"{REWARD_PARAMS}, trl: {{generation_kwargs: {{min_tokens: 3}}}}")
    found = diagnostics_of(text.replace("recipe: 1\n", f"recipe: 1\n{gpus}"))
    assert [one.code for one in found if one.code.startswith("PT06")] == codes


def test_the_place_is_the_key_within() -> None:
    text = training_example(
        "\n    train: sft\n    model: base\n    data: sums.train\n    trl:\n"
        "      accelerator_config:\n        split_batch: true"
    )
    found = [one for one in diagnostics_of(text) if one.code == "PT0621"]
    line = text.splitlines()[found[0].span.line - 1]
    assert line[found[0].span.column - 1 :] == "split_batch: true"


def test_without_a_known_architecture_any_kernel_of_liger_may_be_named() -> None:
    def messages(model: str) -> list[str]:
        it = "{train: sft, model: base, data: sums.train, params: {use_liger_kernel: true}, trl: {%s}}"
        text = training_example(it % "liger_kernel_config: {geglu: true, swiglu: true}", hub=True)
        return [one.code for one in diagnostics_of(text.replace("Qwen/Qwen2.5-0.5B-Instruct", model))]

    assert "PT0621" in messages("Qwen/Qwen2.5-0.5B-Instruct")
    assert "PT0621" not in messages("someone/a-model")
