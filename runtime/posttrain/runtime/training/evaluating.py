"""Measures a model while it is trained, by evals of the recipe, and leaves no trace in the training.

The completions are drawn as the eval stage itself would draw them; every generator of random
numbers is put back to where it was.
"""

import random
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from posttrain.runtime.context import Context
from posttrain.runtime.engines.kept import Prompt
from posttrain.runtime.engines.local import generate
from posttrain.runtime.evals import tables
from posttrain.runtime.evals.scoring import beside, score
from posttrain.runtime.faults import StepFault
from posttrain.runtime.products import read_rows
from posttrain.runtime.prompts import prompts_of
from posttrain.runtime.rewards.graph import Graph


@dataclass(frozen=True, kw_only=True)
class Eval:
    """An eval, ready to be made on any model."""

    name: str
    context: Context
    rows: list[dict[str, Any]]
    prompts: list[Prompt]
    graph: Graph

    def make(self, model: Any, tokenizer: Any) -> dict[str, float]:
        """The metrics of a model as it is now, by EVAL.METRIC; those without a value are left out."""
        params = self.context.params
        with undisturbed(model):
            flat = self._written(model, tokenizer)
        score(flat, self.graph)
        tables.add_rates(flat, self.graph.returns)
        wanted = tables.add_passes(flat, {**tables.RATES, **params["metrics"]})
        found = tables.measured(flat, wanted, params["seed"])
        return {
            f"{self.name}.{name}": metric["value"]
            for name, metric in found.items()
            if metric["value"] is not None
        }

    def _written(self, model: Any, tokenizer: Any) -> list[dict[str, Any]]:
        """A row for each completion, or for each episode where the eval acts in an environment."""
        params = self.context.params
        if params.get("environment") is None:
            made = _generated(model, tokenizer, self.prompts, params["sampling"], params["seed"])
            return beside(self.rows, made)
        from posttrain.runtime.environments.episodes import Reader, played
        from posttrain.runtime.models.length import context_of

        def write(prompts: Sequence[Prompt], sampling: Mapping[str, Any], seed: int, _name: str) -> Any:
            return _generated(model, tokenizer, prompts, sampling, seed)

        reader = Reader(tokenizer, context_of(model))
        return played(self.context, self.rows, self.prompts, write, reader)


def _generated(
    model: Any, tokenizer: Any, prompts: Sequence[Prompt], sampling: Mapping[str, Any], seed: int
) -> Any:
    return generate(model, tokenizer, prompts, sampling, seed, lambda _done, _total: None)


def evals_of(context: Context, tokenizer: Any) -> list[Eval]:
    """The evals that a training stage makes on its way."""
    wanted = context.params.get("evaluate") or {"evals": {}}
    return [
        _eval(name, part_of(context, name, params), tokenizer) for name, params in wanted["evals"].items()
    ]


def part_of(context: Context, name: str, params: Mapping[str, Any]) -> Context:
    """The context that an eval would have as a stage of its own."""
    inputs = {role: given for role, given in context.step.inputs.items() if role.startswith(f"{name}.")}
    step = replace(context.step, params=params, inputs={_own(role): one for role, one in inputs.items()})
    return replace(
        context,
        step=step,
        inputs={_own(role): context.inputs[role] for role in inputs},
        files={_own(r): path for r, path in context.files.items() if r.startswith(f"{name}.")},
    )


def _own(role: str) -> str:
    return role.partition(".")[2]


def _eval(name: str, context: Context, tokenizer: Any) -> Eval:
    rows = read_rows(context.inputs["data"], context.part("data"))
    if not rows:
        raise StepFault(f"there are no rows for the eval `{name}`", "look at the dataset's steps")
    return Eval(
        name=name,
        context=context,
        rows=rows,
        prompts=prompts_of(context, tokenizer, rows),
        graph=Graph.of_step(context),
    )


@contextmanager
def undisturbed(model: Any) -> Generator[None]:
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
