"""Runs the steps of small recipes like the executor, with control over each worker.

Workers are forks of one process that has imported the stack, so a run takes a second or two.
"""

import json
import os
import shutil
import signal
import time
from collections.abc import Mapping
from math import inf
from pathlib import Path
from typing import Any

from posttrain.compiler.pipeline import compile_recipe
from posttrain.compiler.text.compile_request import CompileRequest, SourceFile
from posttrain.runtime.catalog import CATALOG
from posttrain.runtime.events import read_events
from posttrain.runtime.installed_stack import installed_stack
from posttrain.runtime.runners.process import ProcessRunner
from posttrain.runtime.store import workdir
from posttrain.runtime.store.file_locks import try_lock
from posttrain.runtime.store.home import Home
from posttrain.runtime.store.products import Product
from posttrain.runtime.store.runs import run_key
from posttrain.spec.plan import Plan, Step

# Each turn verbatim; assistant turns have generation markers and an end token.
TEMPLATE = (Path(__file__).parents[2] / "recipes/tiny/chat.jinja").read_text()
RECIPE = """\
recipe: 1
name: tiny
seed: 3
models:
  base:
    init: {model_type: FAMILY, num_hidden_layers: 1, hidden_size: 32, num_attention_heads: 2,
        max_position_embeddings: 64, initializer_range: 0.06, tie_word_embeddings: false}
    tokenizer: {init: characters, alphabet: "0123456789+=?", added_tokens: [<answer>, </answer>]}
    chat_template: chat.jinja
datasets:
  sums:
    from: {arithmetic: {digits: 1, count: 81, seed: 1}}
    steps:
      - derive: {chosen: completion, rejected: "'<answer>?</answer>'"}
      - derive: {label: "length(answer) = 1"}
      - split: {test: 17}
rewards:
  solution:
    reads: {completion: text, answer: text}
    nodes:
      tagged: {between: {of: completion, open: <answer>, close: </answer>}}
      format: {score: {when: {present: tagged}, then: 1.0, else: -1.0}}
      right: {score: {when: {equal: {of: tagged, to: answer}}, then: 3.0}}
    returns: {sum: [format, right]}
stages:
  sft: {train: sft, model: base, data: sums.train, params: {max_steps: 12, learning_rate: 1.0e-2,
      batch_size: 16}}
STAGES
"""


def recipe(*stages: str, family: str = "qwen2") -> str:
    lines = "\n".join(f"  {stage}" for stage in stages)
    return RECIPE.replace("STAGES", lines).replace("FAMILY", family)


def compile_plan(text: str, extra_files: Mapping[str, Any] | None = None) -> Plan:
    """Plan a recipe; `extra_files` holds files that it reads, and can replace the chat template."""
    plan, errors = compile_or_errors(text, extra_files)
    assert plan is not None, errors
    return plan


def compile_or_errors(
    text: str, extra_files: Mapping[str, Any] | None = None
) -> tuple[Plan | None, list[str]]:
    """Plan a recipe; raises the diagnostics of the compiler."""
    files = {name: _as_bytes(content) for name, content in _files(extra_files).items()}
    request = CompileRequest(
        source=SourceFile("recipe.yaml", text.encode()),
        catalog=CATALOG,
        read=files.get,
        stack=installed_stack(),
    )
    outcome = compile_recipe(request)
    return outcome.plan, [d.message for d in outcome.diagnostics if d.severity == "error"]


def _files(extra: Mapping[str, Any] | None) -> Mapping[str, Any]:
    return {"chat.jinja": TEMPLATE, **(extra or {})}


def _as_bytes(content: str | bytes) -> bytes:
    return content if isinstance(content, bytes) else content.encode()


class StageHarness:
    """A store, and workers that fill it."""

    def __init__(self, root: Path, runner: ProcessRunner) -> None:
        self.root = root
        self.runner = runner
        self.home = Home(root / "home")
        self.home.prepare()
        (root / "chat.jinja").write_text(TEMPLATE)

    def run(self, text: str, extra_files: Mapping[str, Any] | None = None) -> dict[str, Product]:
        """Run every step of a recipe whose product is not in the store."""
        plan = compile_plan(text, extra_files)
        for name, content in _files(extra_files).items():
            (self.root / name).parent.mkdir(exist_ok=True)
            (self.root / name).write_bytes(_as_bytes(content))
        return {step.id: self.run_step(plan, step) for step in plan.steps}

    def run_step(self, plan: Plan, step: Step) -> Product:
        key = run_key(step, "test")
        found = self.home.store.find(key)
        if found is None:
            self.prepare_step(plan, step)
            status = self.wait(step)
            assert status == 0, self.failure(step)
            found = self.commit(step)
        return found

    def work(self, step: Step) -> Path:
        return self.home.workdir(run_key(step, "test"))

    def prepare_step(self, plan: Plan, step: Step) -> None:
        """Run the inputs of a step, then prepare its working directory."""
        inputs = {
            role: self.run_step(plan, plan.step(source.step)).files for role, source in step.inputs.items()
        }
        workdir.prepare(self.work(step), step, inputs, self.root)

    def wait(self, step: Step, kill_at: int | None = None, after: float = 0.0, patience: float = inf) -> int:
        """Run a worker to its end, or kill it once it has sealed a checkpoint of this step or later, and so
        many seconds after. One that outlasts `patience` is killed too."""
        work = self.work(step)
        lock = try_lock(self.home.step_lock(run_key(step, "test")))
        assert lock is not None, "somebody else runs this step"
        began = len(self.events(step))
        secrets = {name: os.environ[name] for name in step.secrets if name in os.environ}
        handle = self.runner.start(work, step, secrets, lock.descriptor)
        latest = time.monotonic() + patience
        try:
            while (status := self.runner.poll(handle)) is None:
                if kill_at is not None and _has_checkpoint(self.events(step)[began:], kill_at):
                    latest, kill_at = time.monotonic() + after, None
                if time.monotonic() >= latest:
                    self.runner.stop(handle, now=True)
                    latest = inf
                time.sleep(0.002)
        finally:
            lock.release()
        return status

    def kill_after_checkpoint(self, step: Step, at: int) -> None:
        """Run a worker and kill it after its checkpoint at this step."""
        status = self.wait(step, kill_at=at)
        assert status == -signal.SIGKILL, f"it was to be killed, and ended with {status}"

    def commit(self, step: Step) -> Product:
        work = self.work(step)
        receipt = workdir.load_receipt(work)
        assert receipt is not None, "the worker left no receipt"
        return workdir.commit(work, step, run_key(step, "test"), receipt, self.home.store)

    def events(self, step: Step) -> list[dict[str, Any]]:
        path = self.work(step) / "record" / "events.jsonl"
        if not path.exists():
            return []
        lines = path.read_text().splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def failure(self, step: Step) -> Mapping[str, Any]:
        failure = self.work(step) / "failure.json"
        log = self.work(step) / "record" / "log"
        found = json.loads(failure.read_text()) if failure.exists() else {"message": "no failure.json"}
        return {**found, "log": log.read_text()[-3000:] if log.exists() else ""}

    def reset_step(self, step: Step) -> None:
        """Delete the working directory and the product of a step, so that it can run from scratch."""
        workdir.clear(self.work(step))
        shutil.rmtree(self.home.root / "store" / run_key(step, "test"), ignore_errors=True)


def _has_checkpoint(events: list[dict[str, Any]], step: int) -> bool:
    """Whether these events include a checkpoint at this step or later."""
    return any(e["kind"] == "checkpoint" and e["step"] >= step for e in events)


def metrics(product: Product, name: str) -> list[float]:
    """Return a metric of every step of a training stage, in order."""
    events = read_events(product.record / "events.jsonl")
    return [e["values"][name] for e in events if e["kind"] == "metrics" and name in e["values"]]


def warnings(product: Product) -> list[str]:
    events = read_events(product.record / "events.jsonl")
    return [event["message"] for event in events if event["kind"] == "warning"]
