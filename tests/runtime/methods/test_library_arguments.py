"""Recipe keys have the names and values of the library arguments, or a documented reason not to."""

import dataclasses
import inspect
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Literal, get_args, get_origin

import pytest
import torch
from tests.runtime.methods.stage_harness import StageHarness, compile_plan, recipe
from transformers import Qwen2Config

from posttrain.compiler.facts.fact_tables import load_table
from posttrain.compiler.stages.inference import sampling_params
from posttrain.runtime.catalog import CATALOG, load_entry
from posttrain.runtime.distributed.vllm_rollouts import vllm_engine_arguments
from posttrain.runtime.engines.completion_decoding import generation_kwargs
from posttrain.runtime.engines.completion_log import CompletionLog
from posttrain.runtime.engines.engine_protocol import GenerationRequest
from posttrain.runtime.engines.vllm import sampling_kwargs
from posttrain.runtime.library_arguments import LIBRARY_ARGUMENTS, Argument
from posttrain.runtime.models.peft_config import new_adapter_config
from posttrain.runtime.models.random_init import random_model
from posttrain.runtime.step_context import StopRequest
from posttrain.runtime.training.training_loop import TrainingLoop
from posttrain.runtime.worker import create_context
from posttrain.spec.adapter_declaration import FIELD_TYPES, Adapter
from posttrain.spec.declaration_fields import Declaration, dump_declaration, fields_of
from posttrain.spec.eval_stages import Benchmark
from posttrain.spec.extension import Method, Params
from posttrain.spec.hardware import Placement, Rollouts
from posttrain.spec.inference import FewShot, Sampling
from posttrain.spec.model_declaration import RandomInit
from posttrain.spec.plan import Launch
from posttrain.spec.step_params.adapter_options import adapter_options
from posttrain.spec.train_stage import InLoopEval

SECTIONS = (Adapter, RandomInit, Sampling, Rollouts, Placement, InLoopEval, FewShot, Benchmark)
ENTRIES = [
    pytest.param(section, key, argument, id=f"{section}.{key}")
    for section, keys in LIBRARY_ARGUMENTS.items()
    for key, argument in keys.items()
]
# The fields of TRL 1.12's PPOConfig, the last release that has one.
TRL_PPO = frozenset(
    [
        "num_ppo_epochs",
        "whiten_rewards",
        "kl_coef",
        "kl_estimator",
        "cliprange",
        "vf_coef",
        "cliprange_value",
        "gamma",
        "lam",
        "num_mini_batches",
        "response_length",
        "temperature",
        "missing_eos_penalty",
    ]
)

# Of the arguments of vLLM 0.31's SamplingParams.
VLLM_SAMPLING = frozenset(
    [
        "n",
        "presence_penalty",
        "frequency_penalty",
        "repetition_penalty",
        "temperature",
        "top_p",
        "top_k",
        "min_p",
        "seed",
        "stop",
        "stop_token_ids",
        "ignore_eos",
        "max_tokens",
        "min_tokens",
        "logprobs",
    ]
)


def methods() -> list[Method]:
    found = (CATALOG.find("method", name) for name in CATALOG.names("method"))
    return [method for method in found if isinstance(method, Method)]


def method_declarations() -> dict[str, type[Declaration]]:
    """The parameters of every method, and the classes that they share."""
    found: dict[str, type[Declaration]] = {}
    for method in methods():
        for base in method.params.__mro__:
            if issubclass(base, Params) and base is not Params:
                found[base.__name__] = base
    return found


def declarations() -> dict[str, type[Declaration]]:
    return {**method_declarations(), **{section.__name__: section for section in SECTIONS}}


def own_fields(declaration: type[Declaration]) -> list[str]:
    return [name for name in fields_of(declaration) if name in declaration.__annotations__]


def test_the_table_has_every_key() -> None:
    """Every key of a method or a section is classified: same, differs, or own."""
    expected = {name: own_fields(one) for name, one in declarations().items()}
    assert {name: sorted(keys) for name, keys in LIBRARY_ARGUMENTS.items()} == {
        name: sorted(keys) for name, keys in expected.items() if keys
    }


def argument_names(target: str) -> set[str]:
    """Return the arguments of a class or function: fields, parameters or options."""
    module, _, name = target.partition(":")
    if module == "trl-1.12":
        return set(TRL_PPO)
    if module == "vllm" and name == "EngineArgs":  # TRL passes these on, with a prefix
        return {one.removeprefix("vllm_") for one in argument_names("trl:GRPOConfig")}
    if module == "vllm":  # vLLM is only installed on machines with GPUs
        return set(VLLM_SAMPLING) if find_spec("vllm") is None else signature(target)
    found = getattr(import_module(module), name)
    if name == "launch_command_parser":
        return {action.dest for action in found()._actions}
    if name == "GenerationConfig":
        return set(vars(found()))
    if name == "Qwen2Config":
        return {*vars(found()), "model_type"}
    if dataclasses.is_dataclass(found):
        return {one.name for one in dataclasses.fields(found)}
    return signature(target)


def signature(target: str) -> set[str]:
    module, _, name = target.partition(":")
    return set(inspect.signature(getattr(import_module(module), name)).parameters)


@pytest.mark.parametrize(("section", "key", "argument"), ENTRIES)
def test_the_arguments_exist(section: str, key: str, argument: Argument) -> None:
    for target in argument.targets:
        owner, _, name = (target, "", key) if argument.same_name else target.rpartition(".")
        assert name in argument_names(owner), f"{owner} has no {name}"
        if not argument.same_name:
            assert key != name or len(argument.reason) > 10
    assert argument.same_name or argument.reason


def literals(annotation: Any) -> set[Any]:
    if get_origin(annotation) is Literal:
        return set(get_args(annotation))
    return {value for part in get_args(annotation) for value in literals(part)}


def test_schedules_are_those_of_transformers() -> None:
    ours = literals(fields_of(method_declarations()["TrainingParams"])["lr_scheduler_type"].annotation)
    assert ours
    assert ours <= {one.value for one in import_module("transformers").SchedulerType}


def test_choices_are_those_of_trl() -> None:
    """If TRL lists the values of an argument, our values are among them."""
    table, held = load_table("trl"), 0
    for method in (one for one in methods() if one.trl is not None):
        arguments = {**table["shared"], **table["classes"][method.trl]}
        for key, info in fields_of(method.params).items():
            choices = arguments.get(key, {}).get("choices")
            if choices and key != "lr_scheduler_type":
                held += 1
                assert literals(info.annotation) <= set(choices), (method.name, key)
    assert held


# A non-default value for each key, in a recipe of each method.
VALUES: dict[str, str] = {
    "learning_rate": "3.0e-3",
    "lr_scheduler_type": "cosine",
    "warmup_steps": "1",
    "weight_decay": "0.25",
    "max_grad_norm": "0.75",
    "gradient_checkpointing": "true",
    "save_steps": "2",
    "max_steps": "4",
    "max_length": "48",
    "packing": "true",
    "center_rewards_coefficient": "0.01",
    "loss_weights": "[1.0, 0.5]",
    "desirable_weight": "1.25",
    "undesirable_weight": "0.75",
    "cpo_alpha": "0.5",
    "simpo_gamma": "0.7",
    "num_generations": "4",
    "max_completion_length": "6",
    "temperature": "0.9",
    "top_p": "0.95",
    "top_k": "7",
    "min_p": "0.05",
    "epsilon": "0.15",
    "epsilon_high": "0.25",
    "num_iterations": "2",
    "mask_truncated_completions": "true",
    "delta": "2.5",
    "scale_rewards": "batch",
    "entropy_coef": "0.01",
    "normalize_advantages": "true",
    "reward_clip_range": "[-1.0, 2.0]",
    "ref_model_sync_steps": "2",
    "ref_model_mixup_alpha": "0.5",
}
# Every value that a method accepts for these keys is passed, one recipe for each value.
OF_METHOD: dict[str, dict[str, str]] = {
    "dpo": {"beta": "0.3", "loss_type": "[robust, sft]", "label_smoothing": "0.1"},
    "ipo": {"beta": "0.3"},
    "kto": {"beta": "0.3", "loss_type": "apo_zero_unpaired"},
    "orpo": {"beta": "0.3"},
    "cpo": {"beta": "0.3", "loss_type": "sigmoid", "label_smoothing": "0.1"},
    "simpo": {"beta": "2.5"},
    "grpo": {"beta": "0.3", "loss_type": "grpo", "importance_sampling_level": "sequence"},
    "rloo": {"beta": "0.3"},
}
# cpo accepts label_smoothing only with its default loss.
AT_DEFAULT = {"cpo": {"loss_type"}}
# Not passed: Liger needs a GPU, and torch.compile takes minutes (test_kernels.py covers both);
# save_total_limit is applied by our loop, not by the trainer.
ELSEWHERE = {"use_liger_kernel", "torch_compile"}


class Passed(Exception):
    pass


@pytest.mark.slow
@pytest.mark.parametrize(
    "method", [one for one in methods() if one.trl is not None], ids=lambda one: one.name
)
def test_values_reach_trl_as_they_are(
    method: Method, bench: StageHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = {
        key: argument
        for base in method.params.__mro__
        for key, argument in LIBRARY_ARGUMENTS.get(base.__name__, {}).items()
        if argument.same_name and key not in ELSEWHERE
    }
    given = {key: {**VALUES, **OF_METHOD.get(method.name, {})}[key] for key in keys}
    reward = "reward: solution, " if method.needs_reward else ""
    pairs = ", ".join(f"{key}: {value}" for key, value in given.items())
    stage = f"it: {{train: {method.name}, model: sft, data: sums.train, {reward}params: {{{pairs}}}}}"
    plan = compile_plan(recipe(stage))
    step = plan.step("it")
    bench.prepare_step(plan, step)
    seen: dict[str, Any] = {}
    real = TrainingLoop.arguments

    def spied(loop: TrainingLoop, own: dict[str, Any]) -> dict[str, Any]:
        seen.update(real(loop, own))
        raise Passed

    monkeypatch.setattr(TrainingLoop, "arguments", spied)
    with pytest.raises(Passed):
        load_entry(step.entry)(create_context(bench.work(step)))
    params = step.params["params"]
    fields = fields_of(method.params)
    defaults = {key: dump_declaration(fields[key].default) for key in keys if not fields[key].required}
    unset = {key for key in defaults if params[key] == defaults[key]}
    assert unset == AT_DEFAULT.get(method.name, set()), "each value differs from the default"
    assert {key: listed(seen[key]) for key in keys} == {key: listed(params[key]) for key in keys}


def listed(value: Any) -> Any:
    """Normalize a value: a list of one is its element, and a tuple is a list."""
    if isinstance(value, list | tuple):
        return value[0] if len(value) == 1 else list(value)
    return value


class TinyAttention(torch.nn.Module):
    """Two linear modules in a layer, with the parts of a model that an adapter's configuration reads."""

    def __init__(self) -> None:
        super().__init__()
        layer = torch.nn.ModuleDict({"q_proj": torch.nn.Linear(4, 4), "v_proj": torch.nn.Linear(4, 4)})
        self.layers = torch.nn.ModuleList([layer])
        self.norm = torch.nn.LayerNorm(4)
        self.embed_tokens = torch.nn.Embedding(9, 4)
        self.config = Qwen2Config(num_hidden_layers=1, tie_word_embeddings=True)

    def get_input_embeddings(self) -> torch.nn.Module:
        return self.embed_tokens

    def get_output_embeddings(self) -> None:
        return None


_SHARED: dict[str, Any] = {"target_modules": ("v_proj",), "modules_to_save": ("norm",)}
_LAYERS: dict[str, Any] = {"layers_to_transform": (0,), "layers_pattern": "layers"}
ADAPTERS = {
    "lora": Adapter(
        r=4,
        lora_alpha=12.0,
        use_rslora=True,
        use_dora=True,
        lora_dropout=0.25,
        init_lora_weights="orthogonal",
        bias="lora_only",
        rank_pattern={"v_proj": 2},
        alpha_pattern={"v_proj": 3.0},
        trainable_token_indices=(3,),
        **_SHARED,
        **_LAYERS,
    ),
    "ia3": Adapter(type="ia3", feedforward_modules=("v_proj",), **_SHARED),
    "oft": Adapter(
        type="oft", oft_block_size=2, use_cayley_neumann=False, module_dropout=0.25, **_SHARED, **_LAYERS
    ),
    "vera": Adapter(
        type="vera", r=4, vera_dropout=0.25, d_initial=0.5, projection_prng_key=7, **_SHARED, **_LAYERS
    ),
}


@pytest.mark.parametrize("type_", ADAPTERS)
def test_an_adapter_becomes_pefts_configuration(type_: str) -> None:
    adapter = ADAPTERS[type_]
    made = new_adapter_config(adapter_options(adapter), TinyAttention(), None, "CAUSAL_LM")
    same = {key for key, argument in LIBRARY_ARGUMENTS["Adapter"].items() if argument.same_name}
    own = {key for key, types in FIELD_TYPES.items() if type_ in types} & same
    fields = fields_of(Adapter)
    assert own - {"trainable_token_indices"} <= {k for k in own if getattr(adapter, k) != fields[k].default}
    for key in own - {"trainable_token_indices"}:
        found, expected = getattr(made, key), getattr(adapter, key)
        assert (tuple(sorted(found)) if isinstance(expected, tuple) else found) == expected, key
    if type_ == "lora":
        assert made.trainable_token_indices == {"embed_tokens": [3]}


def test_a_shape_becomes_the_configuration_of_transformers() -> None:
    shape = RandomInit(
        model_type="qwen2",
        num_hidden_layers=3,
        hidden_size=48,
        num_attention_heads=6,
        num_key_value_heads=2,
        intermediate_size=56,
        max_position_embeddings=96,
        initializer_range=0.03,
        tie_word_embeddings=False,
    )
    config = random_model(shape, Tokenizer(), 20, 1).config
    for key in (key for key, argument in LIBRARY_ARGUMENTS["RandomInit"].items() if argument.same_name):
        assert getattr(config, key) == getattr(shape, key), key


class Tokenizer:
    """The part of a tokenizer that the shape of a model depends on."""

    pad_token_id, eos_token_id, bos_token_id = 0, 1, None

    def __len__(self) -> int:
        return 20


def test_sampling_is_passed_to_vllm_and_transformers() -> None:
    sampling = Sampling(
        temperature=0.7,
        top_p=0.9,
        top_k=11,
        min_p=0.05,
        repetition_penalty=1.2,
        max_tokens=33,
        n=3,
        stop=["x"],
    )
    given = dump_declaration(sampling)
    options = sampling_params(sampling)
    order = GenerationRequest(
        prompts=["a"],
        sampling=options,
        seed=5,
        log=CompletionLog(None, ["a"], 3),
        progress=lambda _done, _total: None,
        stop=StopRequest(),
    )
    vllm, transformers = sampling_kwargs(order, 0), generation_kwargs(options)
    for key, argument in LIBRARY_ARGUMENTS["Sampling"].items():
        if argument.same_name and key != "seed":  # the seed of a prompt is derived from the stage's seed
            assert vllm[key] == given[key], key
            if len(argument.targets) > 1:
                assert transformers[key] == given[key], key


def test_rollouts_are_passed_to_vllm(monkeypatch: pytest.MonkeyPatch) -> None:
    module = "posttrain.runtime.distributed.vllm_rollouts"
    monkeypatch.setattr(f"{module}.find_spec", lambda _name: object())
    given = {"gpu_memory_utilization": 0.35, "tensor_parallel_size": 2, "enable_sleep_mode": True}
    launch = Launch(processes=2, strategy="ddp", engine="vllm", rollouts={"mode": "colocate", **given})
    passed = vllm_engine_arguments(launch)
    assert {key: passed[f"vllm_{key}"] for key in given} == given
