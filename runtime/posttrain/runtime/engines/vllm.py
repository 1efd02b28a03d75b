"""Generates with vLLM in this process: all prompts are handed over, and it fills the GPU by itself."""

import os
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from posttrain.runtime.context import Context
from posttrain.runtime.engines.kept import Completion
from posttrain.runtime.engines.texts import as_text
from posttrain.runtime.engines.writing import Order
from posttrain.runtime.faults import Interrupted, StepFault
from posttrain.runtime.launch.rollouts import SILENT
from posttrain.spec.extension import Engine
from posttrain.spec.keys import digest

EXTENSION = Engine(
    name="vllm",
    summary="Generation with vLLM on the step's GPUs.",
    stack=("torch", "transformers", "tokenizers", "vllm"),
    needs_gpu=True,
)
# Prompts handed over together: between them, completions are kept.
_AT_ONCE = 1024
_SHARE = 0.9  # of a GPU's memory


def run(context: Context, subject: Mapping[str, Any]) -> "VllmWriter":
    import torch

    from posttrain.runtime.models.load import load_tokenizer, whole

    os.environ |= SILENT
    try:
        vllm: Any = import_module("vllm")
    except ImportError as error:
        advice = "install posttrain[cuda], name an image that has it, or write `engine: transformers`"
        raise StepFault(f"vLLM cannot be imported: {error}", advice) from None
    folder, laid = context.inputs[subject["role"]], context.step.launch.rollouts
    model = vllm.LLM(
        model=str(whole(context, folder, f"whole-{subject['role'].replace(':', '-')}")),
        tokenizer=str(folder),
        seed=context.params["seed"] % 2**31,
        tensor_parallel_size=laid.get("tensor_parallel", max(1, context.step.resources.gpus)),
        gpu_memory_utilization=laid.get("utilisation", _SHARE),
        max_model_len=-1,  # the model's own, or what the memory allows
        trust_remote_code=False,
        # Compiling takes minutes, and pays only on a GPU.
        enforce_eager=not torch.cuda.is_available(),
    )
    return VllmWriter(vllm, model, load_tokenizer(folder))


class VllmWriter:
    def __init__(self, vllm: Any, model: Any, tokenizer: Any) -> None:
        self._vllm = vllm
        self._model = model
        self._tokenizer = tokenizer

    @property
    def chat_template(self) -> str | None:
        return self._tokenizer.chat_template

    def write(self, order: Order) -> list[list[Completion]]:
        kept = order.kept
        order.progress(kept.count, kept.total)
        missing = [place for place in range(len(order.prompts)) if not kept.whole(place)]
        for start in range(0, len(missing), _AT_ONCE):
            if order.stop.asked:
                raise Interrupted
            places = missing[start : start + _AT_ONCE]
            for place, completions in zip(places, self._generated(order, places), strict=True):
                for draw, completion in enumerate(completions):
                    kept.add(place, draw, completion)
            kept.sync()
            order.progress(kept.count, kept.total)
        return kept.all()

    def close(self) -> None:
        import gc

        del self._model
        gc.collect()

    def _generated(self, order: Order, places: Sequence[int]) -> list[list[Completion]]:
        # As token ids: vLLM would put a second token for the beginning before rendered text.
        prompts = [
            self._vllm.TokensPrompt(
                prompt_token_ids=self._tokenizer.encode(
                    as_text(order.prompts[place], self._tokenizer), add_special_tokens=False
                )
            )
            for place in places
        ]
        sampling = [self._vllm.SamplingParams(**arguments(order, place)) for place in places]
        try:
            found = self._model.generate(prompts, sampling, use_tqdm=False)
        except ValueError as error:  # a prompt that is too long, above all
            raise StepFault(f"vLLM refuses the prompts: {error}", "drop long rows in the dataset") from None
        return [[_completion(one) for one in each.outputs] for each in found]


def _completion(one: Any) -> Completion:
    """A completion's text, and its tokens without the one that ended it."""
    ended = one.finish_reason == "stop" and one.stop_reason is None
    return Completion(one.text, len(one.token_ids) - ended, one.finish_reason or "stop")


def arguments(order: Order, place: int) -> dict[str, Any]:
    """What vLLM's SamplingParams are given: each prompt is drawn by a seed of its own."""
    sampling = order.sampling
    return {
        "n": sampling["samples"],
        "temperature": sampling["temperature"],
        "top_p": sampling["top_p"],
        "max_tokens": sampling["max_tokens"],
        "stop": sampling["stop"] or None,
        "include_stop_str_in_output": True,
        "skip_special_tokens": True,
        "seed": int(digest([order.seed, order.kept.name(place)])[:7], 16),
    }
