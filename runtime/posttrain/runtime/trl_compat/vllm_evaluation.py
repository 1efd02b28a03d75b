"""Generates the completions of in-loop evaluations with the vLLM engine of a TRL trainer.

TRL's own `generate` of the engine has one set of sampling parameters, those of the training. Here the engine
below it is called, with the parameters of the eval and a seed for each prompt. The weights are synchronized
as before a rollout, and the trainer does not repeat this for the rollout after the evaluation. The random
state of the rollouts is not used.

    trl/trainer/grpo_trainer.py:1769 `GRPOTrainer._generate_single_turn`: `self._last_loaded_step`
    trl/trainer/rloo_trainer.py:1301 `RLOOTrainer._generate_single_turn`: `self._last_loaded_step`
    trl/generation/vllm_generation.py:589 `VLLMGeneration.generate`: `self._llm_weights_sleeping`
    trl/generation/vllm_generation.py:705 `VLLMGeneration.generate`: `self.llm.wake_up(tags=["kv_cache"])`
"""

from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from posttrain.runtime.engines.completion_decoding import decode_completion
from posttrain.runtime.engines.engine_protocol import GenerationRequest
from posttrain.runtime.engines.vllm import VllmGenerator
from posttrain.runtime.models.eos_tokens import merge_eos_token_ids
from posttrain.runtime.models.recipe_decoding import fill_sampling
from posttrain.runtime.prompt_tokenization import tokenize_nonempty_prompts

# The number of prompts in one request to the server.
_PROMPTS_PER_CALL = 1024


@contextmanager
def open_rollout_engine(trainer: Any, tokenizer: Any) -> Generator["VllmGenerator | ServerGenerator"]:
    """Open the trainer's engine with the current weights. Collective: all processes must call this."""
    engine, settings = trainer.vllm_generation, trainer.model.generation_config.to_dict()
    _sync_weights(trainer, engine)
    if engine.mode == "server":
        yield ServerGenerator(engine, tokenizer, settings)
        return
    if engine.enable_sleep_mode:
        engine.llm.wake_up(tags=["kv_cache"])
    try:
        yield VllmGenerator(import_module("vllm"), engine.llm, tokenizer, settings)
    finally:
        if engine.enable_sleep_mode:
            engine.llm.sleep(level=2)
            engine._llm_weights_sleeping = True


def _sync_weights(trainer: Any, engine: Any) -> None:
    """Send the engine the weights of this step, if it does not have them."""
    asleep = engine.mode == "colocate" and engine.enable_sleep_mode and engine._llm_weights_sleeping
    if asleep or trainer.state.global_step != trainer._last_loaded_step:
        engine.sync_weights()
        trainer._last_loaded_step = trainer.state.global_step


class ServerGenerator:
    """Generates with the server of a stage, through TRL's client, which only rank 0 has."""

    def __init__(self, engine: Any, tokenizer: Any, generation_config: dict[str, Any]) -> None:
        self._engine = engine
        self._tokenizer = tokenizer
        self._generation_config = generation_config

    def fill_log(self, request: GenerationRequest) -> None:
        """Add the completions of all prompts to the log."""
        for start in range(0, len(request.prompts), _PROMPTS_PER_CALL):
            self._fill_places(request, range(start, min(start + _PROMPTS_PER_CALL, len(request.prompts))))

    def _fill_places(self, request: GenerationRequest, places: range) -> None:
        sampling = fill_sampling(request.sampling, self._generation_config)
        ends = merge_eos_token_ids(self._generation_config.get("eos_token_id"), self._tokenizer)
        answer = self._engine.vllm_client.generate(
            prompts=tokenize_nonempty_prompts((request.prompts[place] for place in places), self._tokenizer),
            n=sampling.n,
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            top_k=sampling.top_k,
            min_p=sampling.min_p,
            repetition_penalty=sampling.repetition_penalty,
            max_tokens=sampling.max_tokens,
            generation_kwargs={
                # One seed for all prompts: a request has one set of sampling parameters. Without a seed, the
                # evaluation would advance the random state that the rollouts are sampled from.
                "seed": request.seed % 2**31,
                "stop": list(sampling.stop) or None,
                "include_stop_str_in_output": True,
                "stop_token_ids": list(ends),
            },
        )
        rows = answer["completion_ids"]
        for number, place in enumerate(places):
            for draw in range(sampling.n):
                tokens = rows[number * sampling.n + draw]
                completion = decode_completion(tokens, self._tokenizer, set(ends), sampling.stop)
                request.log.add(place, draw, completion)
