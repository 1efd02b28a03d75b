"""Generation with transformers in this process, in batches of prompts of similar length."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from posttrain.runtime.chat_prompts import Prompt, prompt_turns
from posttrain.runtime.engines.completion_decoding import decode_completion, generation_kwargs
from posttrain.runtime.engines.completion_log import Completion, CompletionLog
from posttrain.runtime.engines.engine_protocol import GenerationRequest
from posttrain.runtime.errors import Interrupted
from posttrain.runtime.models.context_length import context_length
from posttrain.runtime.models.eos_tokens import eos_token_ids
from posttrain.runtime.models.left_padding import reads_padding
from posttrain.runtime.models.recipe_decoding import fill_sampling, recipe_decoding
from posttrain.runtime.prompt_tokenization import pad_left, tokenize_nonempty_prompts, tokenize_prompts
from posttrain.runtime.step_context import StopRequest
from posttrain.spec.keys import digest
from posttrain.spec.messages import turn_text
from posttrain.spec.step_params.generation_params import SamplingOptions

# The number of batches in one call of continuous batching. Completions are logged after each call.
_BATCHES_PER_CALL = 16


def generate(
    model: Any,
    tokenizer: Any,
    prompts: Sequence[Prompt],
    sampling: SamplingOptions,
    seed: int,
    progress: Callable[[int, int], None],
) -> list[list[Completion]]:
    """Generate `n` completions of every prompt with a model in memory, in the order of the prompts."""
    log = CompletionLog(None, prompts, sampling.n)
    request = GenerationRequest(
        prompts=prompts, sampling=sampling, seed=seed, log=log, progress=progress, stop=StopRequest()
    )
    return TransformersGenerator(model, tokenizer).generate(request)


class TransformersGenerator:
    def __init__(self, model: Any, tokenizer: Any, warn: Callable[[str, str], None] | None = None) -> None:
        self._model = model.eval()
        self._tokenizer = tokenizer
        self._warn = warn  # called with a message and an advice

    @property
    def chat_template(self) -> str | None:
        return self._tokenizer.chat_template

    def generate(self, request: GenerationRequest) -> list[list[Completion]]:
        self.fill_log(request)
        return request.log.all()

    def fill_log(self, request: GenerationRequest) -> None:
        """Add the completions of the request's share to its log.

        The unit of a share is a batch. A batch has the same prompts, the same padding and the same seed in
        any process, so the completions do not depend on the number of processes.
        """
        request = replace(
            request, sampling=fill_sampling(request.sampling, self._model.generation_config.to_dict())
        )
        log, samples = request.log, request.samples
        self._warn_context_overflow(request)
        request.progress(log.count, log.total)
        for number, places in enumerate(_batch_indices(request)):
            if not request.share.has(number) or all(log.is_complete(place) for place in places):
                continue
            if request.stop.requested:
                raise Interrupted
            prompts = tokenize_nonempty_prompts((request.prompts[place] for place in places), self._tokenizer)
            batch = self._generate_batch(
                prompts, request.sampling, int(digest([request.seed, number])[:8], 16)
            )
            for place, completions in zip(places, batch, strict=True):
                for draw in range(samples):
                    log.add(place, draw, completions[draw])
            log.sync()
            request.progress(log.count, log.total)

    def close(self) -> None:
        import gc

        import torch

        del self._model
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    def _warn_context_overflow(self, request: GenerationRequest) -> None:
        """Warn once about prompts that, with their completions, exceed the model's context."""
        if self._warn is None or not request.prompts:
            return
        context, max_tokens = context_length(self._model), request.sampling.max_tokens
        lengths = [len(ids) for ids in tokenize_prompts(request.prompts, self._tokenizer)]
        overflowing = sum(length + max_tokens > context for length in lengths)
        if overflowing:
            self._warn(
                f"{overflowing} of {len(lengths)} prompts leave no room for {max_tokens} new tokens in the"
                f" model's context of {context}; the longest prompt has {max(lengths)} tokens",
                "lower max_tokens, or filter long prompts in the dataset's steps: text beyond the context is"
                " unreliable",
            )
            self._warn = None  # later turns of a conversation would repeat it

    def _generate_batch(
        self, prompts: list[list[int]], sampling: SamplingOptions, seed: int
    ) -> list[list[Completion]]:
        if sampling.continuous_batching:
            from posttrain.runtime.engines.continuous_batching import generate_continuous

            rows = generate_continuous(self._model, self._tokenizer, prompts, sampling, seed)
        else:
            rows = self._generate_tokens(prompts, sampling, seed)
        samples = sampling.n
        completions = [
            decode_completion(row, self._tokenizer, self._eos_token_ids, sampling.stop) for row in rows
        ]
        return [completions[i * samples : (i + 1) * samples] for i in range(len(prompts))]

    @property
    def _eos_token_ids(self) -> set[int]:
        """The tokens that end a completion."""
        return set(eos_token_ids(self._model, self._tokenizer))

    def _generate_tokens(
        self, prompts: list[list[int]], sampling: SamplingOptions, seed: int
    ) -> list[list[int]]:
        """The tokens of every completion. The samples of a prompt are consecutive."""
        alone = sampling.model_copy(update={"n": 1})
        if len(prompts) * sampling.n == 1 or not self._reads_padding:
            return self._generate_padded(prompts, sampling, seed)
        every = [prompt for prompt in prompts for _ in range(sampling.n)]
        return [
            self._generate_padded([prompt], alone, seed + number)[0] for number, prompt in enumerate(every)
        ]

    @cached_property
    def _reads_padding(self) -> bool:
        """Whether every completion is generated alone. The state of such models is recurrent; in
        transformers, that of RWKV also mixes the rows of a batch without padding."""
        return reads_padding(self._model, self._tokenizer)

    def _generate_padded(
        self, prompts: list[list[int]], sampling: SamplingOptions, seed: int
    ) -> list[list[int]]:
        import torch

        device = next(self._model.parameters()).device
        tokens, mask = pad_left(prompts, self._tokenizer.pad_token_id)
        torch.manual_seed(seed)
        stop = {"stop_strings": list(sampling.stop), "tokenizer": self._tokenizer} if sampling.stop else {}
        with torch.inference_mode(), recipe_decoding(self._model):
            output = self._model.generate(
                input_ids=tokens.to(device),
                attention_mask=mask.to(device),
                **generation_kwargs(sampling),
                **stop,
                eos_token_id=sorted(self._eos_token_ids),
                pad_token_id=self._tokenizer.pad_token_id,
                disable_compile=True,
                synced_gpus=False,  # under ZeRO-3 it would wait for the other processes to generate too
            )
        return [row[tokens.shape[1] :].tolist() for row in output]


def _batch_indices(request: GenerationRequest) -> Iterator[Sequence[int]]:
    """Yield the prompt indices of each batch. They do not depend on the log, so that a resumed step samples
    the same completions."""
    size = request.sampling.batch_size * (_BATCHES_PER_CALL if request.sampling.continuous_batching else 1)
    lengths = [_prompt_length(prompt) for prompt in request.prompts]
    places = sorted(range(len(lengths)), key=lambda place: (lengths[place], place))
    for start in range(0, len(places), size):
        yield places[start : start + size]


def _prompt_length(prompt: Prompt) -> int:
    return (
        len(prompt) if isinstance(prompt, str) else sum(len(turn_text(turn)) for turn in prompt_turns(prompt))
    )
