"""Measures the time and the memory of a training stage before its first optimizer step, on many rows.

Next to it, in the same run, `datasets.map(num_proc=2)` renders, tokenizes and masks the same rows with the
same tokenizer. Run it on an idle machine, with a folder that has room for about 15 KB for each row:

    .venv/bin/python perf/large_data.py --rows 1000000 4000000 --rounds 1 --folder DIR
"""

import argparse
import json
import random
import shutil
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from process_memory import MemoryPeak, MemorySampler

from posttrain.runtime.store.home import Home
from posttrain.runtime.store.runs import find_step_product, last_run

_IDLE_ROWS = 64  # of the stage whose memory is that of an idle worker
_WORDS, _VOCABULARY = 4000, 8000
_MAX_LENGTH = 1024
_RECIPE = """\
recipe: 1
name: large-data
seed: 3
models:
  base:
    from: ./model
    chat_template: chatml
datasets:
  talks:
    from: {files: {path: rows.parquet, columns: {messages: messages}}}
stages:
  sft: {train: sft, model: base, data: talks, params: {max_steps: 1, batch_size: 2, max_length: 1024}}
"""


@dataclass(frozen=True)
class Measured:
    seconds: float
    peak: MemoryPeak


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", required=True)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--folder", type=Path, required=True)
    options = parser.parse_args()
    # A stage whose product is in the home would not run.
    for home in options.folder.glob("*/home"):
        shutil.rmtree(home)
    idle = measure_stage(write_recipe(options.folder / "idle", _IDLE_ROWS))
    print(
        f"idle worker: PSS {idle.peak.pss:.0f} MB, without mapped files {idle.peak.private:.0f} MB",
        flush=True,
    )
    print("| rows | Parquet | stage | again | map | ratio | stage: PSS, own | map: PSS, own | above idle |")
    print("|---|---|---|---|---|---|---|---|---|")
    for rows in options.rows:
        print(measure_rows(options.folder / str(rows), rows, options.rounds, idle), flush=True)


def measure_rows(folder: Path, rows: int, rounds: int, idle: Measured) -> str:
    """A row of the table: medians of rounds in which stage and map alternate."""
    recipe = write_recipe(folder, rows)
    stages, again, maps = list[Measured](), list[Measured](), list[Measured]()
    for number in range(rounds):
        shutil.rmtree(folder / "home" / "row-cache", ignore_errors=True)
        stages.append(measure_stage(recipe, seed=10 + 2 * number))
        again.append(measure_stage(recipe, seed=11 + 2 * number))
        maps.append(measure_map(recipe))
    ratio = statistics.median(s.seconds / m.seconds for s, m in zip(stages, maps, strict=True))
    size = (folder / "rows.parquet").stat().st_size / 1e6
    above = max(one.peak.private for one in stages) - idle.peak.private
    cells = (
        f"{rows:,}",
        f"{size:.0f} MB",
        *map(_seconds, (stages, again, maps)),
        f"{ratio:.2f}",
        *map(_memory, (stages, maps)),
        f"{above:.0f} MB",
    )
    return f"| {' | '.join(cells)} |"


def write_recipe(folder: Path, rows: int) -> Path:
    """A recipe with conversations of random words, in its own folder."""
    import pyarrow
    import pyarrow.parquet as parquet

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "recipe.yaml").write_text(_RECIPE)
    file = folder / "rows.parquet"
    if not file.exists():
        drawn = random.Random(1)
        words = [
            "".join(drawn.choices("abcdefghijklmnopqrstuvwxyz", k=drawn.randint(2, 9))) for _ in range(_WORDS)
        ]
        writer = None
        for start in range(0, rows, 10_000):
            talks = [conversation(words, drawn) for _ in range(min(10_000, rows - start))]
            table = pyarrow.table({"messages": talks})
            writer = writer or parquet.ParquetWriter(file, table.schema, compression="zstd")
            writer.write_table(table)
        assert writer is not None, "there are rows"
        writer.close()
        save_model(words, folder / "model")
    return folder


def conversation(words: list[str], drawn: random.Random) -> list[dict[str, str]]:
    roles = ("user", "assistant") * drawn.randint(1, 3)
    return [
        {"role": role, "content": " ".join(drawn.choices(words, k=drawn.randint(8, 60)))} for role in roles
    ]


def save_model(words: list[str], folder: Path) -> None:
    """A small model, with a tokenizer that is trained on the words."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

    built: Any = Tokenizer(models.BPE())
    built.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    built.decoder = decoders.ByteLevel()
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    trainer = trainers.BpeTrainer(
        vocab_size=_VOCABULARY, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )
    built.train_from_iterator(words, trainer)
    pad, _, end = special
    PreTrainedTokenizerFast(tokenizer_object=built, eos_token=end, pad_token=pad).save_pretrained(folder)
    config = Qwen2Config(
        vocab_size=_VOCABULARY,
        num_hidden_layers=1,
        hidden_size=32,
        num_attention_heads=2,
        num_key_value_heads=2,
        intermediate_size=64,
        max_position_embeddings=_MAX_LENGTH,
    )
    Qwen2ForCausalLM(config).save_pretrained(folder)


def measure_stage(folder: Path, seed: int = 3) -> Measured:
    """Run the recipe; the time and memory of its training before the first step. Its data is made before."""
    home = folder / "home"
    command = [sys.executable, "-m", "posttrain.cli.main", "run", str(folder), "--home", str(home)]
    command += ["--set", f"seed={seed}"]
    with MemorySampler() as sampler:
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    product = find_step_product(Home(home), last_run(Home(home)), "sft")
    events = [json.loads(line) for line in (product.record / "events.jsonl").read_text().splitlines()]
    started = next(event["at"] for event in events if event["kind"] == "started")
    stepped = next(event["at"] for event in events if event["kind"] == "progress")
    return Measured(stepped - started, sampler.peak(started, stepped))


def measure_map(folder: Path) -> Measured:
    """The same rows by `datasets.map`, in a process that has imported what a stage imports."""
    cache = folder / "map-cache"
    shutil.rmtree(cache, ignore_errors=True)
    with MemorySampler() as sampler:
        command = [
            sys.executable,
            str(Path(__file__).with_name("large_data_map.py")),
            str(folder),
            str(cache),
        ]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    started, ended = json.loads(output.splitlines()[-1])
    shutil.rmtree(cache)
    return Measured(ended - started, sampler.peak(started, ended))


def _seconds(measured: list[Measured]) -> str:
    return f"{statistics.median(one.seconds for one in measured):.1f} s"


def _memory(measured: list[Measured]) -> str:
    peaks = [one.peak for one in measured]
    return f"{max(peak.pss for peak in peaks):.0f}, {max(peak.private for peak in peaks):.0f} MB"


if __name__ == "__main__":
    main()
