"""Prompts have the same tokens in training, generation, scoring and evaluation, with every engine."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tests.runtime.engines.sampling_values import greedy_sampling
from tests.runtime.small_tokenizers import BOS, EOS, KINDS, TEMPLATES, small_tokenizer

from posttrain.runtime.engines.completion_log import CompletionLog
from posttrain.runtime.engines.engine_protocol import GenerationRequest
from posttrain.runtime.engines.transformers_generator import TransformersGenerator
from posttrain.runtime.engines.vllm import VllmGenerator
from posttrain.runtime.environments.eval_episodes import TokenCounter
from posttrain.runtime.environments.tokenization import EpisodeTokenizer
from posttrain.runtime.errors import StepError
from posttrain.runtime.ppo.rollout_generation import generate_completions
from posttrain.runtime.prompt_tokenization import tokenize_nonempty_prompts, tokenize_prompt, tokenize_prompts
from posttrain.runtime.rewards.engine.reward_model_inference import RewardModelScorer
from posttrain.runtime.step_context import StopRequest
from posttrain.runtime.training.preference_training import import_experimental
from posttrain.runtime.training.validate_tokenized import check_prompts
from posttrain.runtime.trl_compat.pair_tokenization import pair_tokenizing_trainer
from posttrain.spec.step_params.generation_params import SamplingOptions

PLAIN = "1+2="
TURNS = [{"role": "system", "content": "add"}, {"role": "user", "content": PLAIN}]
SAMPLING = SamplingOptions(**greedy_sampling(max_tokens=2, batch_size=4, stop=()))
CASES = [
    (kind, template)
    for kind in KINDS
    for template in TEMPLATES
    if (kind, template) != ("has_no_bos", "with_bos")  # such a template would be text to the tokenizer
]
every_tokenizer = pytest.mark.parametrize(("kind", "template"), CASES)
# Those whose prompts differ between a trainer that always adds BOS, one that never does, and TRL's.
TELLING = [
    ("adds_bos", "none"),
    ("has_bos_but_adds_none", "none"),
    ("adds_bos_and_eos", "none"),
    ("adds_bos", "without_bos"),
    ("adds_bos", "with_bos"),
]


def prompt_for(template: str) -> Any:
    return PLAIN if template == "none" else TURNS


def answer_for(template: str, text: str) -> Any:
    return text if template == "none" else [{"role": "assistant", "content": text}]


def tiny_model(tokenizer: Any, scorer: bool = False) -> Any:
    from transformers import Qwen2Config, Qwen2ForCausalLM, Qwen2ForSequenceClassification

    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=64,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        num_labels=1,
    )
    torch.manual_seed(0)
    return (Qwen2ForSequenceClassification if scorer else Qwen2ForCausalLM)(config)


def request(prompts: list[Any]) -> GenerationRequest:
    return GenerationRequest(
        prompts=prompts,
        sampling=SAMPLING,
        seed=1,
        log=CompletionLog(None, prompts, 1),
        progress=lambda _done, _total: None,
        stop=StopRequest(),
    )


def transformers_ids(tokenizer: Any, prompt: Any) -> list[int]:
    model, seen = tiny_model(tokenizer), list[Any]()
    original = model.generate

    def generate(**arguments: Any) -> Any:
        seen.append(arguments["input_ids"][arguments["attention_mask"].bool()].tolist())
        return original(**arguments)

    model.generate = generate
    TransformersGenerator(model, tokenizer).generate(request([prompt]))
    return seen[0]


def continuous_ids(tokenizer: Any, prompt: Any) -> list[int]:
    from posttrain.runtime.engines import transformers_generator

    seen: list[Any] = []
    model = tiny_model(tokenizer)

    def generate_batch(prompts: Any, **_: Any) -> dict[str, Any]:
        seen.extend(prompts)
        return {"0": SimpleNamespace(error=None, generated_tokens=[tokenizer.eos_token_id])}

    model.generate_batch = generate_batch
    sampling = SAMPLING.model_copy(update={"continuous_batching": True})
    transformers_generator.generate(model, tokenizer, [prompt], sampling, 1, lambda _done, _total: None)
    return seen[0]


def vllm_ids(tokenizer: Any, prompt: Any) -> list[int]:
    seen: list[Any] = []

    def generate(prompts: Any, *_: Any, **__: Any) -> Any:
        seen.extend(one.prompt_token_ids for one in prompts)
        output = SimpleNamespace(text="", token_ids=[2], finish_reason="stop", stop_reason=None)
        return [SimpleNamespace(outputs=[output]) for _ in prompts]

    vllm = SimpleNamespace(TokensPrompt=SimpleNamespace, SamplingParams=SimpleNamespace)
    VllmGenerator(vllm, SimpleNamespace(generate=generate), tokenizer, {}).generate(request([prompt]))
    return seen[0]


def ppo_ids(tokenizer: Any, prompt: Any) -> list[int]:
    sampling = {"temperature": 1.0, "top_p": 1.0, "max_new_tokens": 2}
    made = generate_completions(tiny_model(tokenizer), tokenizer, [prompt], sampling, 1, torch.device("cpu"))
    return made.tokens[0, : -made.completion_length].tolist()


def episode_ids(tokenizer: Any, prompt: Any) -> list[int]:
    session: Any = SimpleNamespace(format_observation=lambda text: text)
    return EpisodeTokenizer(tokenizer, [], session).encode_opening(prompt, "")


READERS: dict[str, Callable[[Any, Any], list[int]]] = {
    "transformers": transformers_ids,
    "continuous": continuous_ids,
    "vllm": vllm_ids,
    "ppo": ppo_ids,
    "episode": episode_ids,
}


@every_tokenizer
@pytest.mark.parametrize("reader", READERS)
def test_every_engine_gets_the_same_tokens(kind: str, template: str, reader: str) -> None:
    tokenizer, prompt = small_tokenizer(kind, template), prompt_for(template)
    assert READERS[reader](tokenizer, prompt) == tokenize_prompt(prompt, tokenizer)


@every_tokenizer
def test_a_prompt_has_the_special_tokens_of_the_tokenizer_or_of_the_template(
    kind: str, template: str
) -> None:
    tokenizer = small_tokenizer(kind, template)
    text = tokenizer.decode(tokenize_prompt(prompt_for(template), tokenizer))
    start = BOS if template == "with_bos" or (template == "none" and KINDS[kind][0]) else ""
    assert text == start + ("s:addu:1+2=a:" if template != "none" else PLAIN)


@every_tokenizer
def test_lengths_count_the_tokens_that_are_generated_from(kind: str, template: str) -> None:
    tokenizer, prompt = small_tokenizer(kind, template), prompt_for(template)
    length = len(tokenize_prompt(prompt, tokenizer))
    assert TokenCounter(tokenizer, 64).count(prompt) == length
    monitor: Any = SimpleNamespace(warn_once=lambda *_: None)
    assert check_prompts([prompt], tokenizer, tiny_model(tokenizer), 4, monitor) == length


@pytest.mark.parametrize("kind", ["adds_bos", "adds_bos_and_eos"])
def test_an_empty_prompt_is_its_first_special_token(kind: str) -> None:
    tokenizer = small_tokenizer(kind)
    assert tokenize_prompts(["", PLAIN], tokenizer)[0] == [tokenizer.bos_token_id]


def test_generation_from_no_tokens_is_an_error() -> None:
    with pytest.raises(StepError, match="1 of 2 prompts have no tokens"):
        tokenize_nonempty_prompts([PLAIN, ""], small_tokenizer("has_no_bos"))


def test_text_and_messages_of_one_batch_keep_their_order() -> None:
    tokenizer = small_tokenizer("adds_bos", "without_bos")
    prompts = [TURNS, PLAIN, TURNS, "3"]
    assert tokenize_prompts(prompts, tokenizer) == [tokenize_prompt(one, tokenizer) for one in prompts]


def tokenized(method: str, tokenizer: Any, template: str, folder: Path, completion: str = "3") -> Any:
    """The tokens of a prompt in training, and of the whole sequence."""
    from datasets import Dataset

    prompt = prompt_for(template)
    good, bad = answer_for(template, completion), answer_for(template, "4")
    columns = {
        "sft": {"prompt": prompt, "completion": good},
        "kto": {"prompt": prompt, "completion": good, "label": True},
    }.get(method, {"prompt": prompt, "chosen": good, "rejected": bad})
    rows = Dataset.from_list([columns, {**columns, "label": False} if method == "kto" else columns])
    trainer = _trainer(method, tokenizer, template, rows, folder)
    row = trainer.train_dataset[0]
    if method == "sft":
        return row["input_ids"][: row["labels"].count(-100)], row["input_ids"]
    if method in ("orpo", "cpo"):
        masked = row["chosen_labels"].count(-100)
        assert row["prompt_input_ids"] == row["chosen_input_ids"][:masked]
        assert len(row["chosen_attention_mask"]) == len(row["chosen_input_ids"])
        return row["chosen_input_ids"][:masked], row["chosen_input_ids"]
    if method == "reward":
        return None, row["chosen_ids"]
    return row["prompt_ids"], row["prompt_ids"] + row.get("chosen_ids", row.get("completion_ids"))


def _trainer(method: str, tokenizer: Any, template: str, rows: Any, folder: Path) -> Any:
    import trl

    kinds: dict[str, Any] = {
        "sft": lambda: (trl.SFTTrainer, trl.SFTConfig),
        "dpo": lambda: (trl.DPOTrainer, trl.DPOConfig),
        "kto": lambda: (trl.KTOTrainer, trl.KTOConfig),
        "reward": lambda: (trl.RewardTrainer, trl.RewardConfig),
        "orpo": lambda: (import_experimental("orpo").ORPOTrainer, import_experimental("orpo").ORPOConfig),
        "cpo": lambda: (import_experimental("cpo").CPOTrainer, import_experimental("cpo").CPOConfig),
    }
    kind, config = kinds[method]()
    if hasattr(kind, "tokenize_row"):
        kind = pair_tokenizing_trainer(kind, rendered=template != "none")
    arguments = {"completion_only_loss": True} if method == "sft" else {}
    args = config(
        output_dir=str(folder),
        report_to=[],
        use_cpu=True,
        bf16=False,
        per_device_train_batch_size=2,
        **arguments,
    )
    model = tiny_model(tokenizer, method == "reward")
    reference = {"ref_model": tiny_model(tokenizer)} if method in ("dpo", "kto") else {}
    return kind(model=model, args=args, train_dataset=rows, processing_class=tokenizer, **reference)


@pytest.mark.parametrize(("kind", "template"), TELLING)
@pytest.mark.parametrize("method", ["sft", "dpo", "kto", "orpo", "cpo"])
def test_training_reads_the_prompt_that_generation_starts_from(
    kind: str, template: str, method: str, tmp_path: Path
) -> None:
    tokenizer = small_tokenizer(kind, template)
    prompt, whole = tokenized(method, tokenizer, template, tmp_path)
    assert prompt == tokenize_prompt(prompt_for(template), tokenizer)
    assert tokenizer.decode(whole[len(prompt) :]).startswith(f"3{EOS}")


@pytest.mark.parametrize(("kind", "template"), TELLING)
def test_a_reward_model_scores_what_it_is_trained_on(kind: str, template: str, tmp_path: Path) -> None:
    tokenizer = small_tokenizer(kind, template)
    _, trained = tokenized("reward", tokenizer, template, tmp_path)
    scorer = RewardModelScorer(None, tokenizer, 64)
    assert scorer.tokenize(prompt_for(template), "3", "auto") == trained


@pytest.mark.parametrize("method", ["sft", "dpo", "kto", "orpo", "cpo"])
def test_a_merge_across_the_boundary_never_trains_on_other_prompt_tokens(method: str, tmp_path: Path) -> None:
    """`=3` is one token, so the completion starts before the end of the prompt."""
    tokenizer = small_tokenizer("adds_bos", merge=("=", "3"))
    prompt, whole = tokenized(method, tokenizer, "none", tmp_path)
    generated_from = tokenize_prompt(PLAIN, tokenizer)
    assert prompt == generated_from[:-1]
    assert tokenizer.decode(whole[len(prompt) :]) in (f"=3{EOS}", f"=3{EOS}{EOS}")


@pytest.mark.parametrize("template", TEMPLATES)
@pytest.mark.parametrize("kind", [kind for kind, (_, after) in KINDS.items() if not after])
def test_lm_eval_encodes_conversations_without_further_special_tokens(kind: str, template: str) -> None:
    """Except those of tokenizers that append a special token: lm-eval keeps it."""
    from posttrain.runtime.evaluation.lm_eval.lm_adapters import transformers_lm

    tokenizer, prompt = small_tokenizer(kind, template), prompt_for(template)
    context: Any = SimpleNamespace(params=SimpleNamespace(batch_size=1, prompts="auto"))
    adapter = transformers_lm(context, tiny_model(tokenizer), tokenizer)
    text = prompt if template == "none" else adapter.apply_chat_template(prompt)
    expected = tokenize_prompt(prompt, tokenizer)
    assert adapter.tok_encode(text) == expected
    assert adapter.tok_batch_encode([text])[0][0].tolist() == expected
