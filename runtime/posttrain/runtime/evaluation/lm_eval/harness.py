"""The one place that runs lm-eval: a model opened for it, and a task put to that model."""

import logging
import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

from posttrain.runtime.errors import Interrupted, StepError
from posttrain.runtime.evaluation.lm_eval import task_results
from posttrain.runtime.step_context import StepContext

_BOOTSTRAP_ITERS = 1000  # times, for the error of a figure that is no mean


@contextmanager
def open_lm(context: StepContext, subject: Mapping[str, Any]) -> Generator[Any]:
    """A model as lm-eval asks it: its own for transformers, ours over HTTP for an endpoint."""
    from posttrain.runtime.evaluation.lm_eval import lm_adapters

    if "endpoint" in subject:
        from posttrain.runtime.engines.engine_factory import open_engine as opened_writer

        with opened_writer(context, subject) as writer:
            yield lm_adapters.endpoint_lm(context, subject, writer)
        return
    import torch

    from posttrain.runtime.models.model_loader import load_model, load_tokenizer

    context.events.emit("phase", name=f"loading {subject['name']}")
    folder = context.inputs[subject["role"]]
    model = load_model(folder)
    if context.step.resources.gpus and torch.cuda.is_available():
        model = model.to("cuda")
    yield lm_adapters.transformers_lm(context, model.eval(), load_tokenizer(folder))


def run_task(context: StepContext, model: Any, task: Any, name: str) -> dict[str, Any]:
    """A task as a model answers it: every item with the values of its metrics, and figures of the whole."""
    from lm_eval.evaluator import evaluate

    params = context.params
    if params["confirm_run_unsafe_code"]:
        os.environ["HF_ALLOW_CODE_EVAL"] = "1"
    _seed_and_configure(task, params["num_fewshot"])
    model.progress.begin()
    with _forward_warnings(context, name):
        try:
            result = evaluate(
                lm=model,
                task_dict={"tasks": {task.config.task: task}},
                limit=params["limit"],
                apply_chat_template=model.conversational,
                fewshot_as_multiturn=model.conversational,
                bootstrap_iters=_BOOTSTRAP_ITERS if task_results.has_aggregate_metric(task) else 0,
                confirm_run_unsafe_code=params["confirm_run_unsafe_code"],
            )
        except (Interrupted, StepError):
            raise
        except Exception as error:  # a task's own code, or what it does not find in its data
            message = f"the task {name} failed: {type(error).__name__}: {error}"
            raise StepError(message, "the step's log has the rest") from error
    assert result is not None, "one process has all the results"
    found = task_results.task_result(result, task, name)
    if params["num_fewshot"] is not None and found["shots"] != params["num_fewshot"]:
        message = (
            f"{name} takes {found['shots']} worked examples, whatever `num_fewshot` says: it is defined so"
        )
        context.events.emit("warning", message=message, advice="name a variant of the task that takes them")
    return found


def _seed_and_configure(task: Any, shots: int | None) -> None:
    """As lm-eval's own command does: what is drawn is drawn by its seeds, whatever the recipe's is, so that
    figures can be held beside those that others have published."""
    import random

    import numpy
    import torch
    from lm_eval.defaults import DEFAULT_OTHER_SEED, DEFAULT_RANDOM_SEED

    random.seed(DEFAULT_RANDOM_SEED)
    numpy.random.seed(DEFAULT_OTHER_SEED)
    torch.manual_seed(DEFAULT_OTHER_SEED)
    own = task.get_config("num_fewshot")
    if own is None or (shots is not None and own != 0):
        task.set_config("num_fewshot", shots or 0)
    task.set_fewshot_seed(seed=DEFAULT_OTHER_SEED)


@contextmanager
def _forward_warnings(context: StepContext, name: str) -> Generator[None]:
    """What lm-eval warns of during a task, each kind once, for those who watch."""
    heard = _WarningForwarder(context, name)
    logger = logging.getLogger("lm_eval")
    logger.addHandler(heard)
    try:
        yield
    finally:
        logger.removeHandler(heard)


class _WarningForwarder(logging.Handler):
    # Said of every task that is run from here, and no matter.
    _IGNORED = ("Overwriting default num_fewshot", "pretrained=", "num_fewshot > 0 but")

    def __init__(self, context: StepContext, name: str) -> None:
        super().__init__(logging.WARNING)
        self._context, self._name, self._said = context, name, set[str]()

    def emit(self, record: logging.LogRecord) -> None:
        kind = f"{record.name}:{record.lineno}"
        message = record.getMessage()
        if kind not in self._said and not any(words in message for words in self._IGNORED):
            self._said.add(kind)
            self._context.events.emit("warning", message=f"lm-eval, {self._name}: {message}", advice="")
