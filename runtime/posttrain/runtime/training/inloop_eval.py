"""Evals of the recipe that run during training, without any effect on the training.

Completions are sampled with the settings and seed of the eval stage. All random states are restored
afterwards.
"""

import random
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from posttrain.runtime.chat_prompts import Prompt
from posttrain.runtime.environments.eval_episodes import TokenCounter, run_episodes
from posttrain.runtime.errors import StepError
from posttrain.runtime.evaluation import metric_tables
from posttrain.runtime.evaluation.score_completions import completion_rows, score_rows
from posttrain.runtime.prompt_tokenization import tokenize_prompts
from posttrain.runtime.prompts import build_prompts
from posttrain.runtime.rewards.engine.graph import Graph
from posttrain.runtime.rows_io import read_rows
from posttrain.runtime.step_context import StepContext
from posttrain.runtime.training.inloop_generation import InLoopGenerator
from posttrain.spec.step_params.eval_params import EvalStepParams
from posttrain.spec.step_params.generation_params import SamplingOptions
from posttrain.spec.step_params.train_params import TrainStepParams


@dataclass(frozen=True, kw_only=True)
class InLoopEval:
    """An eval with its prompts and reward graph, ready to run on a model."""

    name: str
    context: StepContext[EvalStepParams]
    rows: list[dict[str, Any]]
    prompts: list[Prompt]
    graph: Graph

    def evaluate(self, generator: InLoopGenerator, counter: TokenCounter) -> dict[str, float]:
        """Evaluate a model. Returns its metrics as EVAL.METRIC; metrics without a value are left out."""
        params = self.context.params
        flat = self._generate_rows(generator, counter)
        score_rows(flat, self.graph)
        metric_tables.add_rates(flat, self.graph.returns)
        declared = metric_tables.metric_records(params.metrics)
        metrics = metric_tables.add_pass_at_k(flat, {**metric_tables.COMPLETION_RATES, **declared})
        measured = metric_tables.measure_metrics(flat, metrics, params.seed)
        return {
            f"{self.name}.{name}": metric["value"]
            for name, metric in measured.items()
            if metric["value"] is not None
        }

    def longest_sequence(self, tokenizer: Any) -> int:
        """Return the tokens of the longest prompt with its completion."""
        lengths = (len(ids) for ids in tokenize_prompts(self.prompts, tokenizer))
        return max(lengths) + self.context.params.sampling.max_tokens

    def _generate_rows(self, generator: InLoopGenerator, counter: TokenCounter) -> list[dict[str, Any]]:
        """Generate a row for each completion, or for each episode if the eval has an environment."""
        params = self.context.params
        if params.environment is None:
            completions = generator.generate(self.prompts, params.sampling, params.seed)
            return completion_rows(self.rows, completions)

        def generate_turns(
            prompts: Sequence[Prompt], sampling: SamplingOptions, seed: int, _name: str
        ) -> Any:
            return generator.generate(prompts, sampling, seed)

        return run_episodes(self.context, self.rows, self.prompts, generate_turns, counter)


def build_evals(context: StepContext[TrainStepParams], tokenizer: Any) -> list[InLoopEval]:
    """Build the in-loop evals of a training stage."""
    options = context.params.evaluate
    return [
        _build_eval(name, eval_context(context, name, params), tokenizer)
        for name, params in (options.evals if options else {}).items()
    ]


def eval_context(
    context: StepContext[TrainStepParams], name: str, params: EvalStepParams
) -> StepContext[EvalStepParams]:
    """Return the context that the eval would have as its own stage."""
    inputs = {role: value for role, value in context.step.inputs.items() if role.startswith(f"{name}.")}
    renamed = {_strip_eval_name(role): one for role, one in inputs.items()}
    return StepContext(
        step=context.step.model_copy(update={"params": params.dump(), "inputs": renamed}),
        params=params,
        inputs={_strip_eval_name(role): context.inputs[role] for role in inputs},
        files={_strip_eval_name(r): path for r, path in context.files.items() if r.startswith(f"{name}.")},
        out=context.out,
        work=context.work,
        events=context.events,
        stop=context.stop,
        facts=context.facts,
    )


def _strip_eval_name(role: str) -> str:
    return role.partition(".")[2]


def _build_eval(name: str, context: StepContext[EvalStepParams], tokenizer: Any) -> InLoopEval:
    rows = read_rows(context.inputs["data"], context.part("data"))
    if not rows:
        raise StepError(
            f"the dataset of the eval `{name}` has no rows",
            "check the dataset's source and steps: one of them may drop every row",
        )
    return InLoopEval(
        name=name,
        context=context,
        rows=rows,
        prompts=build_prompts(context, tokenizer, rows),
        graph=Graph.from_step(context),
    )


@contextmanager
def preserve_training_state(model: Any) -> Generator[None]:
    """Restore all random states and the model's training mode on exit."""
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
