"""The engine that generates with vLLM in this process. vLLM schedules the prompts by itself."""

import os
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from posttrain.runtime.distributed.vllm_rollouts import NO_USAGE_STATS
from posttrain.runtime.engines.completion_decoding import render_prompt
from posttrain.runtime.engines.completion_log import Completion
from posttrain.runtime.engines.engine_protocol import GenerationRequest
from posttrain.runtime.errors import Interrupted, StepError
from posttrain.runtime.step_context import StepContext
from posttrain.spec.extension import Engine
from posttrain.spec.keys import digest
from posttrain.spec.step_params.generation_params import GenerationParams, ModelTarget

EXTENSION = Engine(
    name="vllm",
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
    model = vllm.LLM(
        model=str(full_weights_dir(context, folder, f"whole-{model_spec.role.replace(':', '-')}")),
        tokenizer=str(folder),
        seed=context.params.seed % 2**31,
        tensor_parallel_size=options.get("tensor_parallel_size", max(1, context.step.resources.gpus)),
        gpu_memory_utilization=options.get("gpu_memory_utilization", _GPU_MEMORY_UTILIZATION),
        max_model_len=-1,  # the model's context length, or what fits in memory
        trust_remote_code=False,
        # Compilation takes minutes, and pays off only on a GPU.
        enforce_eager=not torch.cuda.is_available(),
    )
    return VllmGenerator(vllm, model, load_tokenizer(folder))


class VllmGenerator:
    def __init__(self, vllm: Any, model: Any, tokenizer: Any) -> None:
        self._vllm = vllm
        self._model = model
        self._tokenizer = tokenizer

    @property
    def chat_template(self) -> str | None:
        return self._tokenizer.chat_template

    def generate(self, request: GenerationRequest) -> list[list[Completion]]:
        log = request.log
        request.progress(log.count, log.total)
        missing = [place for place in range(len(request.prompts)) if not log.is_complete(place)]
        for start in range(0, len(missing), _PROMPTS_PER_CALL):
            if request.stop.requested:
                raise Interrupted
            places = missing[start : start + _PROMPTS_PER_CALL]
            for place, completions in zip(places, self._generate_prompts(request, places), strict=True):
                for draw, completion in enumerate(completions):
                    log.add(place, draw, completion)
            log.sync()
            request.progress(log.count, log.total)
        return log.all()

    def close(self) -> None:
        import gc

        del self._model
        gc.collect()

    def _generate_prompts(self, request: GenerationRequest, places: Sequence[int]) -> list[list[Completion]]:
        # Token ids, because vLLM would add a second BOS token to rendered text.
        prompts = [
            self._vllm.TokensPrompt(
                prompt_token_ids=self._tokenizer.encode(
                    render_prompt(request.prompts[place], self._tokenizer), add_special_tokens=False
                )
            )
            for place in places
        ]
        sampling = [self._vllm.SamplingParams(**sampling_kwargs(request, place)) for place in places]
        try:
            results = self._model.generate(prompts, sampling, use_tqdm=False)
        except ValueError as error:  # usually a prompt that is too long
            message = f"vLLM rejected the prompts: {error}"
            raise StepError(message, "filter long prompts in the dataset's steps") from None
        return [[_to_completion(output) for output in result.outputs] for result in results]


def _to_completion(output: Any) -> Completion:
    """Convert vLLM's output. The end-of-sequence token is not counted."""
    ended = output.finish_reason == "stop" and output.stop_reason is None
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
