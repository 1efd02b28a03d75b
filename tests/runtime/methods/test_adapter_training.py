"""Adapters of every type train exactly as TRL and PEFT by hand, and their products are the trained models."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from perf.trl_baseline import conversations, shared_arguments
from tests.runtime.methods.stage_harness import StageHarness, compile_plan, metrics, recipe

from posttrain.runtime.errors import StepError
from posttrain.runtime.models.merge_check import probe_tokens
from posttrain.runtime.models.model_loader import load_model, load_tokenizer
from posttrain.runtime.models.parameter_freezing import check_gradients

pytestmark = pytest.mark.slow

# The state of torch's generator in a new process: a script draws the initial adapter from it.
_INITIAL_SEED = 67280421310721
_STEPS = 6
_ATTENTION = ["q_proj", "k_proj", "v_proj", "o_proj"]


def lora(**options: Any) -> Any:
    from peft import LoraConfig

    shared: dict[str, Any] = {"r": 4, "lora_alpha": 8, "target_modules": _ATTENTION, "task_type": "CAUSAL_LM"}
    return LoraConfig(**shared | options)


def ia3(**options: Any) -> Any:
    from peft import IA3Config

    targets = ["k_proj", "v_proj", "down_proj"]
    return IA3Config(
        target_modules=targets, feedforward_modules=["down_proj"], task_type="CAUSAL_LM", **options
    )


def oft(**options: Any) -> Any:
    from peft import OFTConfig

    return OFTConfig(oft_block_size=8, target_modules=_ATTENTION, task_type="CAUSAL_LM", **options)


def vera(**options: Any) -> Any:
    from peft import VeraConfig

    return VeraConfig(r=8, target_modules=_ATTENTION, task_type="CAUSAL_LM", **options)


_SMALL = "r: 4, lora_alpha: 8"
_PATTERNS = (
    "target_modules: all-linear, rank_pattern: {q_proj: 8, .*.mlp.up_proj: 2}, alpha_pattern: {q_proj: 32.0},"
    " layers_to_transform: [0]"
)
# The adapter of a recipe, and the same configuration of PEFT.
CASES: dict[str, tuple[str, Callable[[], Any]]] = {
    "lora": (_SMALL, lora),
    "dora": (f"{_SMALL}, use_dora: true", lambda: lora(use_dora=True)),
    "pissa": (f"{_SMALL}, init_lora_weights: pissa", lambda: lora(init_lora_weights="pissa")),
    "pissa_niter": (
        f"{_SMALL}, init_lora_weights: pissa_niter_4, use_rslora: true",
        lambda: lora(init_lora_weights="pissa_niter_4", use_rslora=True),
    ),
    "pissa, dora and whole modules": (
        f"{_SMALL}, init_lora_weights: pissa, use_dora: true, modules_to_save: [lm_head]",
        lambda: lora(init_lora_weights="pissa", use_dora=True, modules_to_save=["lm_head"]),
    ),
    "olora": (f"{_SMALL}, init_lora_weights: olora", lambda: lora(init_lora_weights="olora")),
    "gaussian": (f"{_SMALL}, init_lora_weights: gaussian", lambda: lora(init_lora_weights="gaussian")),
    "orthogonal": (f"{_SMALL}, init_lora_weights: orthogonal", lambda: lora(init_lora_weights="orthogonal")),
    "whole modules": (
        f"{_SMALL}, modules_to_save: [embed_tokens, lm_head]",
        lambda: lora(modules_to_save=["embed_tokens", "lm_head"]),
    ),
    "tokens": (
        f"{_SMALL}, trainable_token_indices: added, modules_to_save: [lm_head]",
        lambda: lora(trainable_token_indices={"embed_tokens": [16, 17]}, modules_to_save=["lm_head"]),
    ),
    "patterns": (
        f"{_SMALL}, {_PATTERNS}",
        lambda: lora(
            target_modules=[*_ATTENTION, "gate_proj", "up_proj", "down_proj"],
            rank_pattern={"q_proj": 8, ".*.mlp.up_proj": 2},
            alpha_pattern={"q_proj": 32.0},
            layers_to_transform=[0],
        ),
    ),
    "biases": (f"{_SMALL}, bias: all", lambda: lora(bias="all")),
    "biases of targets": (f"{_SMALL}, bias: lora_only", lambda: lora(bias="lora_only")),
    "ia3": ("type: ia3", ia3),
    "oft": ("type: oft, oft_block_size: 8", oft),
    "vera": ("type: vera, r: 8", vera),
}


def stage(adapter: str) -> str:
    params = f"max_steps: {_STEPS}, learning_rate: 1.0e-2, batch_size: 8, max_length: 64"
    return f"it: {{train: sft, model: base, data: sums.train, adapter: {{{adapter}}}, params: {{{params}}}}}"


def train_by_hand(
    bench: StageHarness,
    text: str,
    config: Any,
    folder: Path,
    trained_parts: tuple[str, ...] = (),
    ratio: float | None = None,
    files: Mapping[str, bytes] | None = None,
) -> tuple[Any, list[float]]:
    """Train the stage `it` as a TRL script would. Returns the model and the losses."""
    import torch
    from peft.optimizers import create_loraplus_optimizer
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from trl import SFTConfig, SFTTrainer

    step = compile_plan(text, files).step("it")
    made = bench.run(text, files)
    base, rows = made["models.base"].files, made["datasets.sums"].files
    model = AutoModelForCausalLM.from_pretrained(base)
    for name, weight in model.named_parameters() if trained_parts else ():
        weight.requires_grad_(any(part in name for part in trained_parts))
    torch.manual_seed(_INITIAL_SEED)
    arguments = shared_arguments(dict(step.params["params"]), step.params["seed"])
    trainer = SFTTrainer(
        model=model,
        args=SFTConfig(**{**arguments, "output_dir": str(folder), "save_strategy": "no"}, max_length=64),
        train_dataset=conversations(
            pyarrow.parquet.read_table(rows / "train.parquet").to_pylist(), ("prompt", "completion")
        ),
        processing_class=AutoTokenizer.from_pretrained(base),
        peft_config=config,
    )
    if ratio is not None:
        trainer.optimizer = create_loraplus_optimizer(
            trainer.model,
            torch.optim.AdamW,
            lr=trainer.args.learning_rate,
            betas=(0.9, 0.999),
            eps=1e-8,
            fused=True,
            loraplus_lr_ratio=ratio,
        )
    trainer.train()
    return trainer.model, [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


def logits(model: Any, tokens: Any) -> Any:
    import torch

    model.eval()
    with torch.inference_mode():
        return model(input_ids=tokens).logits


@pytest.mark.parametrize("case", CASES)
def test_it_trains_like_peft_by_hand(case: str, bench: StageHarness, tmp_path: Path) -> None:
    adapter, config = CASES[case]
    text = recipe(stage(adapter), "whole: {export: it}", "alone: {export: it, merge: false}")
    made = bench.run(text)
    trained, losses = train_by_hand(bench, text, config(), tmp_path)
    assert metrics(made["it"], "loss") == losses
    assert losses[-1] < losses[0]
    step = compile_plan(text).step("it")
    assert made["it"].facts["trained_parameters"] == step.expect["trained_parameters"]
    tokens = probe_tokens(len(load_tokenizer(made["it"].files)))
    expected = logits(trained, tokens)
    for name in ("it", "alone", "whole"):
        found = logits(load_model(made[name].files), tokens)
        assert found.detach().numpy() == pytest.approx(expected.numpy(), abs=2e-5), name


FROZEN = {
    "trainable": ("type: full, trainable: ['*.mlp.*', lm_head.weight]", ("mlp", "lm_head")),
    "freeze": (
        "type: full, freeze: ['model.embed_tokens.*', '*norm*', 'model.layers.0.self_attn.*']",
        ("mlp", "lm_head"),
    ),
}


@pytest.mark.parametrize("case", FROZEN)
def test_a_part_of_the_weights_trains_like_trl_by_hand(
    case: str, bench: StageHarness, tmp_path: Path
) -> None:
    adapter, parts = FROZEN[case]
    text = recipe(stage(adapter))
    made = bench.run(text)
    _, losses = train_by_hand(bench, text, None, tmp_path, trained_parts=parts)
    assert metrics(made["it"], "loss") == losses
    assert (
        made["it"].facts["trained_parameters"] == compile_plan(text).step("it").expect["trained_parameters"]
    )
    before, after = (load_model(made[name].files).state_dict() for name in ("models.base", "it"))
    moved = {name for name in before if bool((before[name] != after[name]).any())}
    assert moved == {name for name in before if any(part in name for part in parts)}


def test_lora_plus_trains_like_peft_by_hand(bench: StageHarness, tmp_path: Path) -> None:
    made, losses = {}, {}
    for ratio in (1.0, 16.0):
        text = recipe(stage(f"{_SMALL}, loraplus_lr_ratio: {ratio}"))
        made[ratio] = metrics(bench.run(text)["it"], "loss")
        _, losses[ratio] = train_by_hand(bench, text, lora(), tmp_path, ratio=ratio)
    assert made == losses
    assert made[1.0] != made[16.0]
    assert made[16.0][-1] < made[1.0][-1]


def test_weights_without_gradient_are_rejected() -> None:
    import torch

    model = torch.nn.ModuleDict({"used": torch.nn.Linear(2, 1), "unused": torch.nn.Linear(2, 1)})
    model["unused"].bias.requires_grad_(False)
    model["used"](torch.ones(2)).sum().backward()
    with pytest.raises(StepError, match=r"1 of 3 trained parameters receive no gradient: unused.weight"):
        check_gradients(model)
    model["unused"].requires_grad_(False)
    check_gradients(model)
