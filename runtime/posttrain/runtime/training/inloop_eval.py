"""Measures a model while it is trained, by evals of the recipe, and leaves no trace in the training.

The completions are drawn as the eval stage itself would draw them; every generator of random
numbers is put back to where it was.
"""

import random
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from posttrain.runtime.engines.completion_log import Prompt
from posttrain.runtime.engines.transformers_generator import generate
from posttrain.runtime.errors import StepError
from posttrain.runtime.evaluation import metric_tables
from posttrain.runtime.evaluation.score_completions import completion_rows, score_rows
from posttrain.runtime.prompts import build_prompts
from posttrain.runtime.rewards.engine.graph import Graph
from posttrain.runtime.rows_io import read_rows
from posttrain.runtime.step_context import StepContext


@dataclass(frozen=True, kw_only=True)
class InLoopEval:
    """An eval, ready to be made on any model."""

    name: str
    context: StepContext
    rows: list[dict[str, Any]]
    prompts: list[Prompt]
    graph: Graph

    def evaluate(self, model: Any, tokenizer: Any) -> dict[str, float]:
        """The metrics of a model as it is now, by EVAL.METRIC; those without a value are left out."""
        params = self.context.params
        with preserve_training_state(model):
            flat = self._generate_rows(model, tokenizer)
        score_rows(flat, self.graph)
        metric_tables.add_rates(flat, self.graph.returns)
        wanted = metric_tables.add_pass_at_k(flat, {**metric_tables.COMPLETION_RATES, **params["metrics"]})
        found = metric_tables.measure_metrics(flat, wanted, params["seed"])
        return {
            f"{self.name}.{name}": metric["value"]
            for name, metric in found.items()
            if metric["value"] is not None
        }

    def _generate_rows(self, model: Any, tokenizer: Any) -> list[dict[str, Any]]:
        """A row for each completion, or for each episode where the eval acts in an environment."""
        params = self.context.params
        if params.get("environment") is None:
            made = _generate(model, tokenizer, self.prompts, params["sampling"], params["seed"])
            return completion_rows(self.rows, made)
        from posttrain.runtime.environments.eval_episodes import TokenCounter, run_episodes
        from posttrain.runtime.models.context_length import context_length

        def write(prompts: Sequence[Prompt], sampling: Mapping[str, Any], seed: int, _name: str) -> Any:
            return _generate(model, tokenizer, prompts, sampling, seed)

        reader = TokenCounter(tokenizer, context_length(model))
        return run_episodes(self.context, self.rows, self.prompts, write, reader)


def _generate(
    model: Any, tokenizer: Any, prompts: Sequence[Prompt], sampling: Mapping[str, Any], seed: int
) -> Any:
    return generate(model, tokenizer, prompts, sampling, seed, lambda _done, _total: None)


def build_evals(context: StepContext, tokenizer: Any) -> list[InLoopEval]:
    """The evals that a training stage makes on its way."""
    wanted = context.params.get("evaluate") or {"evals": {}}
    return [
        _build_eval(name, eval_context(context, name, params), tokenizer)
        for name, params in wanted["evals"].items()
    ]


def eval_context(context: StepContext, name: str, params: Mapping[str, Any]) -> StepContext:
    """The context that an eval would have as a stage of its own."""
    inputs = {role: given for role, given in context.step.inputs.items() if role.startswith(f"{name}.")}
    step = replace(
        context.step, params=params, inputs={_strip_eval_name(role): one for role, one in inputs.items()}
    )
    return replace(
        context,
        step=step,
        inputs={_strip_eval_name(role): context.inputs[role] for role in inputs},
        files={_strip_eval_name(r): path for r, path in context.files.items() if r.startswith(f"{name}.")},
    )


def _strip_eval_name(role: str) -> str:
    return role.partition(".")[2]


def _build_eval(name: str, context: StepContext, tokenizer: Any) -> InLoopEval:
    rows = read_rows(context.inputs["data"], context.part("data"))
    if not rows:
        raise StepError(f"there are no rows for the eval `{name}`", "look at the dataset's steps")
    return InLoopEval(
        name=name,
        context=context,
        rows=rows,
        prompts=build_prompts(context, tokenizer, rows),
        graph=Graph.from_step(context),
    )


@contextmanager
def preserve_training_state(model: Any) -> Generator[None]:
    """What is done within draws no random number from the training, and leaves the model training."""
    import numpy
    import torch

    python, arrays, training = random.getstate(), numpy.random.get_state(), model.training
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    with torch.random.fork_rng(devices=devices):
        try:
            yield
        finally:
            random.setstate(python)
            numpy.random.set_state(arrays)
            model.train(training)
