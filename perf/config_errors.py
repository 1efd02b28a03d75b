r"""Compares how fast and how precisely several tools report an error in their configuration.

    python perf/config_errors.py --env axolotl=FOLDER --env llamafactory=FOLDER --env oumi=FOLDER \
        --env swift=FOLDER

Each folder is a virtual environment with that tool; TRL is in ours. Every tool gets an equivalent
configuration: a small model with random weights, 100 rows, two steps on a CPU. It must train without
errors first. The same rules classify the output of every tool. The script writes perf/config_errors.md.
"""

import argparse
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sums_recipe import SFT_TRAINING, load_products, run_stages, train_from

_RECIPE = """\
recipe: 1
name: sums
models:
  base: {from: ./model}
datasets:
  sums: {from: {files: rows.jsonl}}
stages:
  sft:
    train: sft
    model: base
    data: sums
    params: {max_steps: 2, batch_size: 4, learning_rate: 1.0e-3}
"""
_TRL = """\
model_name_or_path: model
datasets:
  - path: json
    data_files: rows.jsonl
learning_rate: 1.0e-3
max_steps: 2
output_dir: out
report_to: none
use_cpu: true
bf16: false
"""
_AXOLOTL = """\
base_model: model
datasets:
  - path: rows.jsonl
    ds_type: json
    type: {field_instruction: prompt, field_output: completion, format: "{instruction}"}
sequence_len: 128
micro_batch_size: 4
gradient_accumulation_steps: 1
num_epochs: 1
max_steps: 2
learning_rate: 1.0e-3
output_dir: out
bf16: false
fp16: false
"""
_LLAMA_FACTORY = """\
model_name_or_path: model
stage: sft
do_train: true
finetuning_type: full
dataset: sums
dataset_dir: .
template: empty
learning_rate: 1.0e-3
max_steps: 2
output_dir: out
report_to: none
use_cpu: true
"""
_DATASETS = (
    '{"sums": {"file_name": "rows.jsonl", "columns": {"prompt": "prompt", "response": "completion"}}}\n'
)
_OUMI = """\
model:
  model_name: model
data:
  train:
    datasets:
      - dataset_name: text_sft
        dataset_path: chat.jsonl
training:
  trainer_type: TRL_SFT
  learning_rate: 1.0e-3
  max_steps: 2
  output_dir: out
"""
_SWIFT = """\
model: model
model_type: qwen2
template: qwen2_5
dataset: rows.jsonl
learning_rate: 1.0e-3
max_steps: 2
output_dir: out
"""


@dataclass(frozen=True)
class Tool:
    name: str
    package: str
    # The name of its environment; None for the environment of this script.
    env: str | None
    command: Sequence[str]
    files: dict[str, str]


TOOLS = (
    Tool("posttrain", "posttrain", None, ("recipe", "run", "."), {"recipe.yaml": _RECIPE}),
    Tool("TRL", "trl", None, ("trl", "sft", "--config", "c.yaml"), {"c.yaml": _TRL}),
    Tool(
        "axolotl", "axolotl", "axolotl",
        ("axolotl", "train", "c.yaml", "--launcher", "python"), {"c.yaml": _AXOLOTL},
    ),
    Tool(
        "LLaMA-Factory", "llamafactory", "llamafactory",
        ("llamafactory-cli", "train", "c.yaml"), {"c.yaml": _LLAMA_FACTORY, "dataset_info.json": _DATASETS},
    ),
    Tool("oumi", "oumi", "oumi", ("oumi", "train", "-c", "c.yaml"), {"c.yaml": _OUMI}),
    Tool("ms-swift", "ms-swift", "swift", ("swift", "sft", "c.yaml"), {"c.yaml": _SWIFT}),
)  # fmt: skip
# Without network, GPU or telemetry.
_OFFLINE_ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "CUDA_VISIBLE_DEVICES": "",
    "DO_NOT_TRACK": "1",
    "AXOLOTL_DO_NOT_TRACK": "1",
}
_TABLE_HEADER = "| tool | error | outcome | CPU s | named | with line | traceback |"
# Each error: the pattern to replace, the replacement, and the pattern that counts as naming it.
INSERTED_ERRORS = {
    "a misspelled key": (r"learning_rate:", "learning_rat:", r"learning_rat\b"),
    "a word for a number": (
        r"learning_rate: 1.0e-3",
        "learning_rate: fast",
        r"learning_rate|\bfast\b",
    ),
    "a missing file": (r"(rows|chat)\.jsonl", r"missing.jsonl", r"missing\.jsonl"),
}


@dataclass(frozen=True)
class ToolRun:
    status: int
    cpu: float
    text: str

    def mentions(self, word: str) -> bool:
        return re.search(word, self.text) is not None

    def has_line_number(self, line: int) -> bool:
        """Whether the output contains the line number of the error after the file name."""
        return re.search(rf"\.(yaml|json)\W+(line )?{line}\b", self.text) is not None

    @property
    def has_traceback(self) -> bool:
        return "Traceback (most recent call last)" in self.text


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--env", action="append", default=[], metavar="NAME=FOLDER")
    envs = dict(pair.split("=", 1) for pair in parser.parse_args().env)
    model = load_products(run_stages({"sft": train_from("base", SFT_TRAINING)}), iter(("sft",)))["sft"].files
    installed = [tool for tool in TOOLS if tool.env is None or tool.env in envs]
    target = Path(__file__).with_suffix(".md")
    lines = [target.read_text().partition("| tool |")[0] + _TABLE_HEADER, "|---|---|---|---|---|---|---|"]
    for tool in installed:
        lines += table_rows(tool, envs, model)
        target.write_text("\n".join([*lines, ""]))


def table_rows(tool: Tool, envs: dict[str, str], model: Path) -> Iterator[str]:
    programs = Path(envs[tool.env] if tool.env else sys.prefix) / "bin"
    right = run_tool(tool, programs, model, {})
    version = _version(programs / "python", tool.package)
    assert right.status == 0, f"{tool.name} does not train here:\n{right.text[-2000:]}"
    yield f"| {tool.name} {version} | none | trains | {right.cpu:.1f} | | | |"
    for name, (found, put, word) in INSERTED_ERRORS.items():
        wrong = {file: re.sub(found, put, text) for file, text in tool.files.items()}
        file, line = _first_change(tool.files, wrong)
        got = run_tool(tool, programs, model, wrong)
        outcome = "trains anyway" if got.status == 0 else "rejected"
        answers = [
            _yes_no(got.mentions(word)),
            _yes_no(got.has_line_number(line)),
            _yes_no(got.has_traceback),
        ]
        shown = [tool.name, name, outcome, f"{got.cpu:.1f}", *answers]
        print(" | ".join(shown), f"({file}:{line})", flush=True)
        yield f"| {' | '.join(shown)} |"


def run_tool(tool: Tool, programs: Path, model: Path, wrong: dict[str, str]) -> ToolRun:
    """Run the tool on its files in a temporary folder, without network or GPU."""
    with tempfile.TemporaryDirectory(prefix="peers-") as folder:
        made = Path(folder)
        for name, text in {**tool.files, **wrong}.items():
            (made / name).write_text(text)
        rows = [{"prompt": f"{a}+{b}=", "completion": f"{a + b}"} for a in range(10) for b in range(10)]
        (made / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        (made / "chat.jsonl").write_text("".join(json.dumps(_chat(row)) + "\n" for row in rows))
        shutil.copytree(model, made / "model")
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        path = f"{programs}:{os.environ['PATH']}"
        done = subprocess.run(
            [str(programs / tool.command[0]), *tool.command[1:]],
            cwd=made, env={**os.environ, **_OFFLINE_ENVIRONMENT, "PATH": path},
            capture_output=True, text=True, check=False, timeout=600,
        )  # fmt: skip
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return ToolRun(done.returncode, cpu, done.stdout + done.stderr)


def _chat(row: dict[str, str]) -> dict[str, list[dict[str, str]]]:
    roles = {"prompt": "user", "completion": "assistant"}
    return {"messages": [{"role": roles[name], "content": text} for name, text in row.items()]}


def _first_change(right: dict[str, str], wrong: dict[str, str]) -> tuple[str, int]:
    """The file and the line of the error."""
    for name, text in right.items():
        pairs = zip(text.splitlines(), wrong[name].splitlines(), strict=True)
        for number, (old, new) in enumerate(pairs, start=1):
            if old != new:
                return name, number
    raise AssertionError("the error changes no file")


def _version(python: Path, package: str) -> str:
    code = f"from importlib.metadata import version; print(version({package!r}))"
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def _yes_no(value: bool) -> str:
    return "yes" if value else "no"


if __name__ == "__main__":
    main()
