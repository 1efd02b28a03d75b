"""The recipes of the measurements: small YAML texts around models with random weights, and their runs."""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from perf.cuda.scale import Scale

from posttrain.cli.compile import compile_file
from posttrain.runtime import atomic_io
from posttrain.runtime.child_process import supervised_command
from posttrain.runtime.events import read_events
from posttrain.runtime.store.home import Home
from posttrain.runtime.store.products import Product
from posttrain.runtime.store.runs import find_step_product, find_step_record, last_run
from posttrain.spec.plan import Plan

ALPHABET = "0123456789+= abcdefghijklmnopqrstuvwxyz."
TAGS = ("<answer>", "</answer>")
# Each turn verbatim; assistant turns have generation markers and an end token.
TEMPLATE = """\
{%- for message in messages -%}
{%- if message.role == 'assistant' -%}
{%- generation -%}{{ message.content }}{{ eos_token }}{%- endgeneration -%}
{%- else -%}{{ message.content }}{%- endif -%}
{%- endfor -%}
"""
_RECIPE = """\
recipe: 1
name: cuda
seed: 5
{hardware}models:
{models}datasets:
  sums:
    from: {{arithmetic: {{digits: 1, count: 81, seed: 1}}}}
    steps:
      - derive: {{chosen: completion, rejected: "'<answer>' || (answer::integer + 1) || '</answer>'"}}
  slips:
    from: sums
    steps:
      - derive: {{completion: rejected}}
  both:
    from: sums
    steps:
      - mix: {{slips: 1.0}}
{datasets}rewards:
  solution:
    reads: {{completion: text, answer: text}}
    nodes:
      tagged: {{between: {{of: completion, open: <answer>, close: </answer>}}}}
      format: {{score: {{when: {{present: tagged}}, then: 0.5}}}}
      right: {{score: {{when: {{equal: {{of: tagged, to: answer}}}}, then: 1.0}}}}
    returns: {{sum: [format, right]}}
stages:
{stages}
"""


def write_model(folder: Path, scale: Scale, name: str) -> None:
    """Write a model with random weights. Its vocabulary is larger than its tokenizer's, as is common."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, set_seed

    from posttrain.runtime.models.character_tokenizer import build_character_tokenizer

    tokenizer = build_character_tokenizer(ALPHABET, TAGS)
    set_seed(1)
    shape = {"max_position_embeddings": 4096, "initializer_range": 0.04, **scale.models[name]}
    config: Any = AutoConfig.for_model("qwen2", **shape, tie_word_embeddings=True)
    config.pad_token_id, config.eos_token_id = tokenizer.pad_token_id, tokenizer.eos_token_id
    config.bos_token_id = None
    model: Any = AutoModelForCausalLM.from_config(config, dtype=getattr(torch, scale.stored_dtype))
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    tokenizer.chat_template = TEMPLATE
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def write_recipe(
    folder: Path,
    scale: Scale,
    stages: Mapping[str, str],
    *,
    models: Mapping[str, Path],
    datasets: str = "",
    gpus: int = 1,
) -> Path:
    """Write a recipe. Its models have hard links to the files of model folders."""
    for name, model in models.items():
        (folder / name).mkdir(parents=True)
        for file in model.iterdir():
            os.link(file, folder / name / file.name)
    text = _RECIPE.format(
        hardware=scale.hardware(gpus),
        models="".join(f"  {name}: {{from: ./{name}, chat_template: chat.jinja}}\n" for name in models),
        datasets=datasets,
        stages="\n".join(f"  {name}: {{{what}}}" for name, what in stages.items()),
    )
    (folder / "recipe.yaml").write_text(text, encoding="utf-8")
    (folder / "chat.jinja").write_text(TEMPLATE, encoding="utf-8")
    return folder


def compile_recipe(folder: Path) -> Plan:
    result, _ = compile_file(folder / "recipe.yaml", (), ())
    errors = [one.message for one in result.diagnostics if one.severity == "error"]
    if result.plan is None:
        raise ValueError(f"{folder}/recipe.yaml does not compile: {'; '.join(errors)}")
    return result.plan


def recipe_command(folder: Path, home: Path) -> list[str]:
    """The command that runs a recipe. It ends with this process."""
    arguments = ("run", str(folder), "--home", str(home))
    return supervised_command("posttrain.cli.main", *arguments, end_signal=signal.SIGKILL)


@dataclass(frozen=True)
class RecipeRun:
    """The last run of a home."""

    home: Home
    folder: Path
    output: str
    stopped: str = ""  # why the run was ended from outside

    @classmethod
    def of(cls, home: Path, output: str = "", stopped: str = "") -> "RecipeRun":
        found = last_run(Home(home))
        if found is None:
            raise ValueError(f"`recipe run` has not started a run: {stopped}\n{output[-3000:]}")
        return cls(Home(home), found, output, stopped)

    def product(self, step: str) -> Product | None:
        return find_step_product(self.home, self.folder, step)

    def record(self, step: str) -> Path | None:
        return find_step_record(self.home, self.folder, step)

    def metrics(self, step: str, name: str) -> list[float]:
        """A metric of every optimizer step; of one that a resumed run repeats, the last value."""
        record = self.record(step)
        if record is None or not (record / "events.jsonl").exists():
            return []
        events = read_events(record / "events.jsonl")
        found = {e["step"]: e["values"] for e in events if e["kind"] == "metrics" and name in e["values"]}
        return [found[number][name] for number in sorted(found)]

    def failure(self, step: str) -> str:
        """Why a step has no product."""
        record = self.record(step)
        failed = atomic_io.read_json(record.parent / "failure.json") if record is not None else None
        if failed is not None:
            return f"{failed['message']}; {failed['advice']}"
        if self.stopped:
            return self.stopped
        named = [line for line in self.output.splitlines() if step in line.split()]
        return named[-1] if named else "the run ended before this step"


def run_recipe(folder: Path, home: Path, seconds: float, *options: str) -> RecipeRun:
    """Run a recipe with the `recipe` command. A stage that fails leaves the independent ones running."""
    command = [*recipe_command(folder, home), *options]
    log, stopped = folder / "run.log", ""
    with log.open("wb") as output:
        process = start_recipe(command, output)
        try:
            process.wait(timeout=max(1.0, seconds))
        except subprocess.TimeoutExpired:
            process.kill()  # its steps end with it
            process.wait()
            stopped = out_of_time(seconds)
    return RecipeRun.of(home, log.read_text(encoding="utf-8", errors="replace"), stopped)


def start_recipe(command: Sequence[str], output: BinaryIO) -> subprocess.Popen[bytes]:
    """Start a command of `recipe_command` in a session of its own."""
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def out_of_time(seconds: float) -> str:
    return f"`recipe run` was stopped after {seconds:.0f} s, its share of the time"
