"""Opens what a stage asks: the engine of each subject, with what was kept of its completions."""

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from posttrain.runtime import atomic_io
from posttrain.runtime.catalog import CATALOG
from posttrain.runtime.engines.completion_log import Completion, CompletionLog, Prompt
from posttrain.runtime.engines.engine_protocol import GenerationRequest, TextGenerator
from posttrain.runtime.step_context import StepContext


@contextmanager
def open_engine(context: StepContext, subject: Mapping[str, Any]) -> Generator[TextGenerator]:
    """The subject ready to write; its memory is given back in the end."""
    if "endpoint" not in subject:
        context.events.emit("phase", name=f"loading {subject['name']}")
    writer: TextGenerator = CATALOG.run("engine", subject["engine"])(context, subject)
    try:
        yield writer
    finally:
        writer.close()


def generate_completions(
    context: StepContext,
    subject: Mapping[str, Any],
    writer: TextGenerator,
    prompts: Sequence[Prompt],
    sampling: Mapping[str, Any],
    *,
    seed: int,
    name: str = "",
) -> list[list[Completion]]:
    """The completions of every prompt. What an earlier attempt has kept is not asked for again."""
    file = f"{subject['role'].replace(':', '-')}{name}.jsonl"
    log = CompletionLog(context.work / "replies" / file, prompts, sampling["n"])
    if "endpoint" in subject and not context.step.pinned:
        for earlier in _earlier_workdirs(context):
            log.adopt(earlier / "replies" / file)
    try:
        return writer.generate(
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
    """Work directories of the same step that earlier runs left unfinished.

    A step that is not pinned has its own work directory in every run. What it had from an endpoint
    when its run was killed is still its own: nobody has to pay for it twice.
    """
    for work in sorted(context.work.parent.iterdir()):
        if work != context.work and (work / "replies").is_dir():
            step = atomic_io.read_json(work / "record" / "step.json")
            if isinstance(step, dict) and step.get("key") == context.step.key:
                yield work
