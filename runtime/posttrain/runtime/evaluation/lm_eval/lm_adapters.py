"""Models as lm-eval asks them. Each tells its progress, and ends where the step is asked to stop."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from posttrain.runtime.engines.engine_factory import generate_completions
from posttrain.runtime.errors import Interrupted, StepError
from posttrain.runtime.prompts import uses_chat_template
from posttrain.runtime.step_context import StepContext


class ProgressHook:
    """Stands where lm-eval has the hook of its cache: it hears of every answer."""

    def __init__(self, context: StepContext) -> None:
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


def transformers_lm(context: StepContext, model: Any, tokenizer: Any) -> Any:
    """lm-eval's own way with a model of transformers."""
    from lm_eval.models import huggingface

    base: Any = huggingface.HFLM  # typed in part

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

    adapter: Any = InMemory(
        pretrained=model, tokenizer=tokenizer, backend="causal", batch_size=context.params["batch_size"]
    )
    adapter.conversational = uses_chat_template(context, tokenizer)
    adapter.progress = ProgressHook(context)
    adapter.set_cache_hook(adapter.progress)
    return adapter


def endpoint_lm(context: StepContext, subject: Mapping[str, Any], writer: Any) -> Any:
    """An endpoint, which writes and gives no likelihoods: the compiler puts only such tasks to it."""
    from lm_eval.api import model as models

    base: Any = models.LM

    class OverHttp(base):
        progress = ProgressHook(context)
        conversational = uses_chat_template(context, writer)
        tokenizer_name = subject["name"]

        def generate_until(self, requests: Any) -> list[str]:
            return _generate_answers(
                context, subject, writer, [one.args for one in requests], self.conversational
            )

        def loglikelihood(self, requests: Any) -> Any:
            message = f"{subject['name']} gives no likelihoods"
            raise StepError(message, "name tasks whose answers are written")

        loglikelihood_rolling = loglikelihood

        def apply_chat_template(self, chat_history: Any, add_generation_prompt: bool = True) -> str:
            return json.dumps(chat_history)

    return OverHttp()


def _generate_answers(
    context: StepContext, subject: Mapping[str, Any], writer: Any, requests: Sequence[Any], chat: bool
) -> list[str]:
    """The answers, kept row by row: requests of one manner are asked together."""
    by_sampling: dict[str, list[int]] = {}
    for place, (_, how) in enumerate(requests):
        by_sampling.setdefault(json.dumps(_sampling_for(how)), []).append(place)
    found: dict[int, str] = {}
    for manner, places in by_sampling.items():
        sampling = json.loads(manner)
        prompts = [json.loads(requests[place][0]) if chat else requests[place][0] for place in places]
        replies = generate_completions(
            context, subject, writer, prompts, sampling, seed=context.params["seed"], name=_log_suffix(manner)
        )
        missing = sum(reply.text is None for (reply,) in replies)
        if missing:
            message = f"{missing} of {len(replies)} requests to {subject['name']} had no reply"
            raise StepError(
                message, "run again: what came is kept, and these alone are asked", retriable=True
            )
        for place, (reply,) in zip(places, replies, strict=True):
            found[place] = _truncate_at_stop(reply.text or "", requests[place][1])
    return [found[place] for place in range(len(requests))]


def _sampling_for(how: Mapping[str, Any]) -> dict[str, Any]:
    """What a task says of its generation, as our engines are told it."""
    drawn = bool(how.get("do_sample", how.get("temperature", 0.0)))
    return {
        "temperature": float(how.get("temperature", 1.0)) if drawn else 0.0,
        "top_p": float(how.get("top_p", 1.0)),
        "top_k": int(how.get("top_k", 0)),
        "min_p": float(how.get("min_p", 0.0)),
        "repetition_penalty": float(how.get("repetition_penalty", 1.0)),
        "max_tokens": int(how.get("max_gen_toks", how.get("max_tokens", 256))),
        "n": 1,
        "batch_size": 1,
        "stop": [],
        "continuous_batching": False,
    }


def _log_suffix(manner: str) -> str:
    from posttrain.spec.keys import digest

    return f"-{digest(manner)[:12]}"


def _truncate_at_stop(text: str, how: Mapping[str, Any]) -> str:
    """The text up to where the task says that it ends: servers differ in whether they heed that."""
    ends = how.get("until") or []
    for end in [ends] if isinstance(ends, str) else ends:
        if end:
            text = text.split(end)[0]
    return text
