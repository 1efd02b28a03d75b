"""Opens the engines of a stage's models, and generates completions with a resumable log."""

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from posttrain.runtime import atomic_io
from posttrain.runtime.catalog import CATALOG
from posttrain.runtime.chat_prompts import Prompt
from posttrain.runtime.engines.completion_log import Completion, CompletionLog
from posttrain.runtime.engines.engine_protocol import GenerationRequest, TextGenerator
from posttrain.runtime.step_context import StepContext
from posttrain.spec.step_params.generation_params import ModelTarget, SamplingOptions


@contextmanager
def open_engine(context: StepContext, model_spec: ModelTarget) -> Generator[TextGenerator]:
    """Load a model with its engine, and release its memory at exit."""
    if model_spec.endpoint is None:
        context.events.emit("phase", name=f"loading {model_spec.name}")
    generator: TextGenerator = CATALOG.run("engine", model_spec.engine)(context, model_spec)
    try:
        yield generator
    finally:
        generator.close()


def generate_completions(
    context: StepContext,
    model_spec: ModelTarget,
    generator: TextGenerator,
    prompts: Sequence[Prompt],
    sampling: SamplingOptions,
    *,
    seed: int,
    name: str = "",
) -> list[list[Completion]]:
    """The completions of every prompt. Completions in the log of an earlier attempt are reused."""
    file = f"{model_spec.role.replace(':', '-')}{name}.jsonl"
    log = CompletionLog(context.work / "replies" / file, prompts, sampling.n)
    if model_spec.endpoint is not None and not context.step.pinned:
        for earlier in _earlier_workdirs(context):
            log.adopt(earlier / "replies" / file)
    try:
        return generator.generate(
            GenerationRequest(
                prompts=prompts,
                sampling=sampling,
                seed=seed,
                log=log,
                progress=lambda done, total: context.events.progress(done, total, "completions"),
                stop=context.stop,
            )
        )
    finally:
        log.close()


def _earlier_workdirs(context: StepContext) -> Iterator[Path]:
    """Work directories of the same step from earlier, unfinished runs.

    A step that is not pinned has a separate work directory in every run. Completions that a killed run got
    from an endpoint are reused, so that nobody pays for them twice.
    """
    for work in sorted(context.work.parent.iterdir()):
        if work != context.work and (work / "replies").is_dir():
            step = atomic_io.read_json(work / "record" / "step.json")
            if isinstance(step, dict) and step.get("key") == context.step.key:
                yield work
