"""Runs lm-eval: opens a model for it, and evaluates a task."""

import logging
import os
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from posttrain.runtime.errors import Interrupted, StepError
from posttrain.runtime.evaluation.lm_eval import task_results
from posttrain.runtime.process_environment import without_secrets
from posttrain.runtime.step_context import StepContext
from posttrain.runtime.user_errors import foreign_traceback
from posttrain.spec.step_params.eval_params import BenchmarkStepParams
from posttrain.spec.step_params.generation_params import ModelTarget

_BOOTSTRAP_ITERS = 1000  # for the standard error of metrics that are not means


@contextmanager
def open_lm(context: StepContext[BenchmarkStepParams], model_spec: ModelTarget) -> Generator[Any]:
    """Open a model for lm-eval: lm-eval's class for transformers, or an adapter for an endpoint."""
    from posttrain.runtime.evaluation.lm_eval import lm_adapters

    if model_spec.endpoint is not None:
        from posttrain.runtime.engines.engine_factory import open_engine

        with open_engine(context, model_spec) as generator:
            yield lm_adapters.endpoint_lm(context, model_spec, generator)
        return
    import torch

    from posttrain.runtime.models.model_loader import load_model, load_tokenizer
    from posttrain.runtime.models.recipe_decoding import discard_decoding, model_settings, report_settings

    context.events.emit("phase", name=f"loading {model_spec.name}")
    folder = context.inputs[model_spec.role]
    model = load_model(folder)
    report_settings(context, model_spec.name, model_settings(model))
    discard_decoding(model)  # the task alone determines decoding
    if context.step.resources.gpus and torch.cuda.is_available():
        model = model.to("cuda")
    yield lm_adapters.transformers_lm(context, model.eval(), load_tokenizer(folder))


def run_task(context: StepContext[BenchmarkStepParams], model: Any, task: Any, name: str) -> dict[str, Any]:
    """Run a task. Returns every item with its metric values, and the aggregate metrics."""
    from lm_eval.evaluator import evaluate

    params = context.params
    if params.confirm_run_unsafe_code:
        os.environ["HF_ALLOW_CODE_EVAL"] = "1"
    _seed_and_configure(task, params.num_fewshot)
    model.progress.begin()
    with _forward_warnings(context, name), without_secrets():  # a task can run code that the model wrote
        try:
            result = evaluate(
                lm=model,
                task_dict={"tasks": {task.config.task: task}},
                limit=params.limit,
                apply_chat_template=model.conversational,
                fewshot_as_multiturn=model.conversational,
                bootstrap_iters=_BOOTSTRAP_ITERS if task_results.has_aggregate_metric(task) else 0,
                confirm_run_unsafe_code=params.confirm_run_unsafe_code,
            )
        except (Interrupted, StepError):
            raise
        except Exception as error:  # from the task's code, or its data
            message = f"the task {name} failed: {type(error).__name__}: {error}"
            advice = "fix the task, or leave it out; the traceback is in the log of the step"
            raise StepError(message, advice, details=foreign_traceback(error)) from error
    assert result is not None, "lm-eval returns no result outside of rank 0"
    record = task_results.task_result(result, task, name)
    if params.num_fewshot is not None and record["shots"] != params.num_fewshot:
        message = f"{name} ignores `num_fewshot`: its definition has {record['shots']} few-shot examples"
        context.events.emit("warning", message=message, advice="use a variant of the task that accepts it")
    return record


def _seed_and_configure(task: Any, shots: int | None) -> None:
    """Seed and configure a task as lm-eval's command does. The recipe's seed is not used, so that results are
    comparable with published ones."""
    import random

    import numpy
    import torch
    from lm_eval.defaults import DEFAULT_OTHER_SEED, DEFAULT_RANDOM_SEED

    random.seed(DEFAULT_RANDOM_SEED)
    numpy.random.seed(DEFAULT_OTHER_SEED)
    torch.manual_seed(DEFAULT_OTHER_SEED)
    default = task.get_config("num_fewshot")
    if default is None or (shots is not None and default != 0):
        task.set_config("num_fewshot", shots or 0)
    task.set_fewshot_seed(seed=DEFAULT_OTHER_SEED)


@contextmanager
def _forward_warnings(context: StepContext[BenchmarkStepParams], name: str) -> Generator[None]:
    """Forward lm-eval's warnings during a task as events, each kind once."""
    forwarder = _WarningForwarder(context, name)
    logger = logging.getLogger("lm_eval")
    logger.addHandler(forwarder)
    try:
        yield
    finally:
        logger.removeHandler(forwarder)


class _WarningForwarder(logging.Handler):
    # Harmless warnings that every task emits when it runs from here.
    _IGNORED = ("Overwriting default num_fewshot", "pretrained=", "num_fewshot > 0 but")

    def __init__(self, context: StepContext[BenchmarkStepParams], name: str) -> None:
        super().__init__(logging.WARNING)
        self._context, self._name, self._forwarded = context, name, set[str]()

    def emit(self, record: logging.LogRecord) -> None:
        kind = f"{record.name}:{record.lineno}"
        message = record.getMessage()
        if kind not in self._forwarded and not any(words in message for words in self._IGNORED):
            self._forwarded.add(kind)
            self._context.events.emit("warning", message=f"lm-eval, {self._name}: {message}", advice="")
