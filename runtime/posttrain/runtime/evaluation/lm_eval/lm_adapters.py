"""Adapters of models for lm-eval. They report progress, and stop at a stop request."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from posttrain.runtime.engines.engine_factory import generate_completions
from posttrain.runtime.errors import Interrupted, StepError
from posttrain.runtime.models.left_padding import reads_padding
from posttrain.runtime.prompts import uses_chat_template
from posttrain.runtime.step_context import StepContext
from posttrain.spec.step_params.eval_params import BenchmarkStepParams
from posttrain.spec.step_params.generation_params import ModelTarget, SamplingOptions


class ProgressHook:
    """Replaces lm-eval's cache hook, which is called with every response."""

    def __init__(self, context: StepContext[BenchmarkStepParams]) -> None:
        self._context = context
        self._done = self._total = 0

    def begin(self) -> None:
        self._done = self._total = 0

    def expect(self, count: int) -> None:
        self._total += count

    def add_partial(self, attr: str, req: Any, res: Any) -> None:
        self._done += 1
        self._context.events.progress(self._done, max(self._done, self._total), "requests")
        if self._context.stop.requested:
            raise Interrupted


def transformers_lm(context: StepContext[BenchmarkStepParams], model: Any, tokenizer: Any) -> Any:
    """lm-eval's adapter for transformers, with a model in memory."""
    from lm_eval.models import huggingface

    base: Any = huggingface.HFLM  # partially typed

    class InMemory(base):
        progress: ProgressHook
        conversational: bool

        def loglikelihood(self, requests: Any, disable_tqdm: bool = False) -> Any:
            self.progress.expect(len(requests))
            return super().loglikelihood(requests, disable_tqdm=True)

        def loglikelihood_rolling(self, requests: Any, disable_tqdm: bool = False) -> Any:
            self.progress.expect(len(requests))
            return super().loglikelihood_rolling(requests, disable_tqdm=True)

        def generate_until(self, requests: Any, disable_tqdm: bool = False) -> Any:
            self.progress.expect(len(requests))
            return super().generate_until(requests, disable_tqdm=True)

    conversational = uses_chat_template(context, tokenizer)
    adapter: Any = InMemory(
        pretrained=model,
        tokenizer=tokenizer,
        backend="causal",
        # lm-eval pads prompts on the left to generate.
        batch_size=1 if reads_padding(model, tokenizer) else context.params.batch_size,
        # As in training: a rendered conversation has only the special tokens of its chat template.
        add_bos_token=False if conversational else None,
    )
    adapter.conversational = conversational
    adapter.progress = ProgressHook(context)
    adapter.set_cache_hook(adapter.progress)
    return adapter


def endpoint_lm(context: StepContext[BenchmarkStepParams], model_spec: ModelTarget, generator: Any) -> Any:
    """An adapter for an endpoint, which generates text but has no log-likelihoods. The compiler checks that
    the tasks need none."""
    from lm_eval.api import model as models

    base: Any = models.LM

    class OverHttp(base):
        progress = ProgressHook(context)
        conversational = uses_chat_template(context, generator)
        tokenizer_name = model_spec.name

        def generate_until(self, requests: Any) -> list[str]:
            return _generate_answers(
                context, model_spec, generator, [one.args for one in requests], self.conversational
            )

        def loglikelihood(self, requests: Any) -> Any:
            message = f"{model_spec.name} does not provide log-likelihoods"
            raise StepError(message, "use tasks with generated answers (generate_until)")

        loglikelihood_rolling = loglikelihood

        def apply_chat_template(self, chat_history: Any, add_generation_prompt: bool = True) -> str:
            return json.dumps(chat_history)

    return OverHttp()


def _generate_answers(
    context: StepContext[BenchmarkStepParams],
    model_spec: ModelTarget,
    generator: Any,
    requests: Sequence[Any],
    chat: bool,
) -> list[str]:
    """Generate the answers. Requests with the same sampling parameters form one batch, and are logged."""
    by_sampling: dict[str, list[int]] = {}
    for place, (_, options) in enumerate(requests):
        by_sampling.setdefault(_sampling_for(options).model_dump_json(), []).append(place)
    answers: dict[int, str] = {}
    for sampling_json, places in by_sampling.items():
        sampling = SamplingOptions.model_validate_json(sampling_json)
        prompts = [json.loads(requests[place][0]) if chat else requests[place][0] for place in places]
        replies = generate_completions(
            context,
            model_spec,
            generator,
            prompts,
            sampling,
            seed=context.params.seed,
            name=_log_suffix(sampling_json),
        )
        missing = sum(reply.text is None for (reply,) in replies)
        if missing:
            message = f"{missing} of {len(replies)} requests to {model_spec.name} failed"
            raise StepError(message, "run again: only the failed requests are retried", retriable=True)
        for place, (reply,) in zip(places, replies, strict=True):
            answers[place] = _truncate_at_stop(reply.text or "", requests[place][1])
    return [answers[place] for place in range(len(requests))]


def _sampling_for(options: Mapping[str, Any]) -> SamplingOptions:
    """Convert a task's generation options to a stage's sampling parameters."""
    do_sample = bool(options.get("do_sample", options.get("temperature", 0.0)))
    return SamplingOptions(
        temperature=float(options.get("temperature", 1.0)) if do_sample else 0.0,
        top_p=float(options.get("top_p", 1.0)),
        top_k=int(options.get("top_k", 0)),
        min_p=float(options.get("min_p", 0.0)),
        repetition_penalty=float(options.get("repetition_penalty", 1.0)),
        max_tokens=int(options.get("max_gen_toks", options.get("max_tokens", 256))),
        n=1,
        batch_size=1,
        stop=(),
        continuous_batching=False,
    )


def _log_suffix(sampling_json: str) -> str:
    from posttrain.spec.keys import digest

    return f"-{digest(sampling_json)[:12]}"


def _truncate_at_stop(text: str, options: Mapping[str, Any]) -> str:
    """Truncate a text at the task's stop strings, which are not sent to the server."""
    until = options.get("until") or []
    for stop in [until] if isinstance(until, str) else until:
        if stop:
            text = text.split(stop)[0]
    return text
