"""The engine that generates with vLLM in this process. vLLM schedules the prompts by itself."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any

from posttrain.runtime import atomic_io
from posttrain.runtime.distributed.vllm_rollouts import NO_USAGE_STATS
from posttrain.runtime.engines.completion_log import Completion
from posttrain.runtime.engines.engine_protocol import GenerationRequest
from posttrain.runtime.errors import Interrupted, StepError
from posttrain.runtime.models.eos_tokens import merge_eos_token_ids
from posttrain.runtime.models.recipe_decoding import fill_sampling, model_defaults, report_settings
from posttrain.runtime.prompt_tokenization import tokenize_nonempty_prompts
from posttrain.runtime.step_context import StepContext
from posttrain.spec.extension import Engine
from posttrain.spec.generation_config import decoding_settings
from posttrain.spec.keys import digest
from posttrain.spec.step_params.generation_params import GenerationParams, ModelTarget

EXTENSION = Engine(
    name="vllm",
    version=2,
    summary="Generation with vLLM on the step's GPUs.",
    stack=("torch", "transformers", "tokenizers", "vllm"),
    needs_gpu=True,
)
# The number of prompts in one call. Completions are logged after each call.
_PROMPTS_PER_CALL = 1024
_GPU_MEMORY_UTILIZATION = 0.9  # share of a GPU's memory


def run(context: StepContext[GenerationParams], model_spec: ModelTarget) -> "VllmGenerator":
    import torch

    from posttrain.runtime.models.model_loader import full_weights_dir, load_tokenizer

    os.environ |= NO_USAGE_STATS
    try:
        vllm: Any = import_module("vllm")
    except ImportError as error:
        advice = "install posttrain[cuda], use an image that has vLLM, or set `engine: transformers`"
        raise StepError(f"vLLM cannot be imported: {error}", advice) from None
    folder, options = context.inputs[model_spec.role], context.step.launch.rollouts
    weights = full_weights_dir(context, folder, f"whole-{model_spec.role.replace(':', '-')}")
    generation_config = atomic_io.read_json(weights / "generation_config.json") or {}
    applied = model_defaults(context.params)
    report_settings(context, model_spec.name, decoding_settings(generation_config), applied)
    model = vllm.LLM(
        model=str(weights),
        tokenizer=str(folder),
        seed=context.params.seed % 2**31,
        tensor_parallel_size=options.get("tensor_parallel_size", max(1, context.step.resources.gpus)),
        gpu_memory_utilization=options.get("gpu_memory_utilization", _GPU_MEMORY_UTILIZATION),
        max_model_len=-1,  # the model's context length, or what fits in memory
        trust_remote_code=False,
        generation_config="vllm",  # not the model's file: the recipe alone determines decoding
        # Compilation takes minutes, and pays off only on a GPU.
        enforce_eager=not torch.cuda.is_available(),
    )
    return VllmGenerator(vllm, model, load_tokenizer(folder), generation_config)


class VllmGenerator:
    def __init__(self, vllm: Any, model: Any, tokenizer: Any, generation_config: Mapping[str, Any]) -> None:
        self._vllm = vllm
        self._model = model
        self._tokenizer = tokenizer
        self._generation_config = generation_config

    @property
    def chat_template(self) -> str | None:
        return self._tokenizer.chat_template

    def generate(self, request: GenerationRequest) -> list[list[Completion]]:
        self.fill_log(request)
        return request.log.all()

    def fill_log(self, request: GenerationRequest) -> None:
        """Add the completions of the request's share to its log. The unit of a share is a prompt, and each
        prompt has its own seed."""
        request = replace(request, sampling=fill_sampling(request.sampling, self._generation_config))
        log = request.log
        request.progress(log.count, log.total)
        places = filter(request.share.has, range(len(request.prompts)))
        missing = [place for place in places if not log.is_complete(place)]
        for start in range(0, len(missing), _PROMPTS_PER_CALL):
            if request.stop.requested:
                raise Interrupted
            places = missing[start : start + _PROMPTS_PER_CALL]
            for place, completions in zip(places, self._generate_prompts(request, places), strict=True):
                for draw, completion in enumerate(completions):
                    log.add(place, draw, completion)
            log.sync()
            request.progress(log.count, log.total)

    def close(self) -> None:
        import gc

        del self._model
        gc.collect()

    def _generate_prompts(self, request: GenerationRequest, places: Sequence[int]) -> list[list[Completion]]:
        # Token ids, because vLLM would add a second BOS token to rendered text.
        tokenized = tokenize_nonempty_prompts((request.prompts[place] for place in places), self._tokenizer)
        prompts = [self._vllm.TokensPrompt(prompt_token_ids=tokens) for tokens in tokenized]
        ends = {
            "stop_token_ids": merge_eos_token_ids(
                self._generation_config.get("eos_token_id"), self._tokenizer
            )
        }
        sampling = [self._vllm.SamplingParams(**sampling_kwargs(request, place), **ends) for place in places]
        try:
            results = self._model.generate(prompts, sampling, use_tqdm=False)
        except ValueError as error:  # usually a prompt that is too long
            message = f"vLLM rejected the prompts: {error}"
            raise StepError(message, "filter long prompts in the dataset's steps") from None
        return [[_to_completion(output) for output in result.outputs] for result in results]


def _to_completion(output: Any) -> Completion:
    """Convert vLLM's output. An end token is not counted: the stop reason is a text for stop strings only."""
    ended = output.finish_reason == "stop" and not isinstance(output.stop_reason, str)
    return Completion(output.text, len(output.token_ids) - ended, output.finish_reason or "stop")


def sampling_kwargs(request: GenerationRequest, place: int) -> dict[str, Any]:
    """The arguments of vLLM's SamplingParams, with a separate seed for each prompt."""
    sampling = request.sampling
    return {
        "n": sampling.n,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
        "min_p": sampling.min_p,
        "repetition_penalty": sampling.repetition_penalty,
        "max_tokens": sampling.max_tokens,
        "stop": list(sampling.stop) or None,
        "include_stop_str_in_output": True,
        "skip_special_tokens": True,
        "seed": int(digest([request.seed, request.log.prompt_id(place)])[:7], 16),
    }
