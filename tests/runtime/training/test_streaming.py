"""Training on a streamed dataset of a local hub server."""

import gzip
import io
import json
import lzma
import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
from huggingface_hub.errors import HfHubHTTPError
from tests.recipe_command import RECIPE_COMMAND
from tests.runtime.data.fake_dataset_hub import serve_hub, serve_repositories
from tests.runtime.methods.stage_harness import StageHarness, compile_plan, metrics

from posttrain.runtime.errors import StepError
from posttrain.runtime.runners.process import ProcessRunner
from posttrain.runtime.sources.hub_errors import request_error
from posttrain.runtime.streams import stream_files
from posttrain.runtime.streams.hub_files import download_file
from posttrain.runtime.streams.prefetch import start_prefetch
from posttrain.runtime.streams.row_stream import RowStream, StreamFile, read_stream
from posttrain.runtime.streams.stream_files import delete_folder, open_file, use_folder
from posttrain.runtime.streams.stream_order import StreamOrder, Window, WindowLengths
from posttrain.spec.plan import Launch, Plan, Step

pytestmark = pytest.mark.slow

RECIPE = """\
recipe: 1
name: pages
seed: 5
models:
  base:
    init: {model_type: qwen2, num_hidden_layers: 1, hidden_size: 16, num_attention_heads: 2}
    tokenizer: {init: characters}
datasets:
  pages:
    from: {hub: {name: org/pages, columns: {page: text}, streaming: true, window_rows: 1000}}
    steps:
      - rename: {page: text}
stages:
  sft:
    train: sft
    model: base
    data: pages
    params: {max_steps: 50, batch_size: 100, micro_batch_size: 50, max_length: 64, save_steps: 5,
      learning_rate: 1.0e-2}
"""


def texts(first: int, count: int) -> list[str]:
    return [f"{number}+{number}={2 * number}" for number in range(first, first + count)]


def parquet_file(pages: Sequence[Any], name: str = "page", other: str = "id") -> bytes:
    import pyarrow
    import pyarrow.parquet as parquet

    sink = io.BytesIO()
    table = pyarrow.table([list(pages), list(range(len(pages)))], names=[name, other])
    parquet.write_table(table, sink, row_group_size=300)
    return sink.getvalue()


def json_lines(pages: Sequence[Any]) -> bytes:
    return "".join(json.dumps({"page": page, "other": [1]}) + "\n" for page in pages).encode()


PAGES = [texts(1000, 2500), texts(4000, 1200), [], texts(6000, 700)]


TALKS = [
    [{"from": "human", "value": f"{n}+{n}?"}, {"from": "gpt", "value": f"it is {2 * n}"}] for n in range(2100)
]


NAMES = ["a b", "ü", "a%20c", "100%", "x#y", "q?z", "[1]", "a@b"]


class Files(dict[str, bytes]):
    """The files of a repository, which notes those that a client asks for."""

    def __init__(self, files: dict[str, bytes]) -> None:
        super().__init__({"README.md": b"# pages\n", **files})
        self.asked: list[str] = []
        # How often the server still answers with one bit changed.
        self.damaged = 0

    def get(self, name: str, default: Any = None) -> Any:
        self.asked.append(name)
        found = super().get(name, default)
        if found and self.damaged > 0 and name.startswith("data/"):
            self.damaged -= 1
            return bytes([found[0] ^ 1]) + found[1:]
        return found


REPOSITORIES = {
    "org/pages": Files({f"data/train-{n}.parquet": parquet_file(rows) for n, rows in enumerate(PAGES)}),
    # Without the empty file, which the library `datasets` does not read.
    "org/full": Files({f"data/train-{n}.parquet": parquet_file(PAGES[n]) for n in (0, 1, 3)}),
    "org/lines": Files(
        {
            "data/train-0.jsonl": json_lines(PAGES[0]),
            "data/train-1.jsonl.gz": gzip.compress(json_lines(PAGES[1])),
            "data/train-3.jsonl": json_lines(PAGES[3]),
        }
    ),
    "org/talks": Files({"data/train.jsonl": json_lines(TALKS)}),
    "org/gaps": Files({"data/train.jsonl": b'{"page": "1+1=2"}\n', "data/train-2.jsonl": b'{"text": "2"}\n'}),
    "org/scalars": Files({"data/train.jsonl": b"1\n2\n"}),
    "org/damaged": Files({"data/train.parquet": parquet_file(PAGES[3])}),
    "org/ones": Files({f"data/train-{n:02}.parquet": parquet_file([str(n)]) for n in range(20)}),
    # Names that an address escapes.
    "org/names": Files({f"data/train-{name}.parquet": parquet_file([name]) for name in NAMES}),
    "org/twice": Files({"data/train.parquet": parquet_file(["x"], other="page")}),
    "org/packed": Files({"data/train.jsonl.xz": lzma.compress(json_lines(["x"]))}),
    "org/table": Files({"data/train.csv": b"page\nx\n"}),
    "org/late": Files({"data/train.jsonl": json_lines([*texts(0, 1500), [7], *texts(0, 10)])}),
}


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StageHarness]:
    """Workers whose hub is a local server."""
    repositories = {("datasets", name): files for name, files in REPOSITORIES.items()}
    with serve_repositories(repositories) as address, pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_ENDPOINT", address)
        patch.setenv("HF_HOME", str(tmp_path_factory.mktemp("hub")))
        runner = ProcessRunner()
        runner.prepare(compile_plan(RECIPE), ["sft"], tmp_path_factory.mktemp("warm"))
        yield StageHarness(tmp_path_factory.mktemp("bench"), runner)
        runner.close()


def changed(*changes: tuple[str, str]) -> tuple[Plan, Step]:
    text = RECIPE
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    plan = compile_plan(text)
    return plan, plan.step("sft")


def stream_order(pages: Sequence[Sequence[str]], seed: int, rows: int) -> list[str]:
    """The texts in the order of a training, from the sizes of the windows alone."""
    sizes = {
        Window(file, number): len(rows[start : start + 1000])
        for file, rows in enumerate(pages)
        for number, start in enumerate(range(0, len(rows), 1000))
    }
    order = StreamOrder(len(pages), seed, shuffle=True)
    count = {file: -(-len(rows) // 1000) for file, rows in enumerate(pages)}
    found: list[str] = []
    for turn, window, size in order.windows(WindowLengths(), count.__getitem__, sizes.__getitem__):
        start = window.number * 1000
        found += [pages[window.file][start + row] for row in order.rows(turn, window, size)]
        if len(found) >= rows:
            return found[:rows]
    raise AssertionError("the order has no end")


def test_losses_are_those_of_trl_on_the_same_rows(bench: StageHarness, tmp_path: Path) -> None:
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from trl.trainer.sft_config import SFTConfig
    from trl.trainer.sft_trainer import SFTTrainer

    plan, step = changed()
    product = bench.run_step(plan, step)
    base = bench.run_step(plan, plan.step("models.base")).files
    seed = step.params["seed"]
    model: Any = AutoModelForCausalLM.from_pretrained(base)
    for weight in model.parameters():
        weight.data = weight.data.clone()
    args = SFTConfig(
        output_dir=str(tmp_path),
        per_device_train_batch_size=50,
        gradient_accumulation_steps=2,
        max_steps=50,
        max_length=64,
        learning_rate=1.0e-2,
        seed=seed,
        use_cpu=True,
        bf16=False,
        logging_steps=1,
        train_sampling_strategy="sequential",
        report_to="none",
        disable_tqdm=True,
        save_strategy="no",
    )
    trainer = SFTTrainer(
        model=model,
        args=args,
        train_dataset=Dataset.from_dict({"text": stream_order(PAGES, seed, 5000)}),
        processing_class=AutoTokenizer.from_pretrained(base),
    )
    trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert metrics(product, "loss") == losses


@pytest.mark.parametrize("packing", [False, True])
@pytest.mark.parametrize("at", [10, 25, 45])
def test_a_killed_training_ends_with_the_same_bytes(at: int, packing: bool, bench: StageHarness) -> None:
    """Also in the second pass over the stream, and without the files before its place."""
    how = ("learning_rate: 1.0e-2", f"learning_rate: 1.0e-2, packing: {str(packing).lower()}")
    sizes = ("batch_size: 100, micro_batch_size: 50", "batch_size: 4, micro_batch_size: 2")
    plan, step = changed(how, sizes) if packing else changed(how)
    undisturbed = bench.run_step(plan, step)
    bench.reset_step(step)
    bench.prepare_step(plan, step)
    bench.kill_after_checkpoint(step, at=at)
    shutil.rmtree(bench.work(step) / "scratch")
    bench.prepare_step(plan, step)
    assert bench.wait(step) == 0, bench.failure(step)
    assert [event["step"] for event in bench.events(step) if event["kind"] == "resumed"] >= [at]
    assert bench.commit(step).content_digest == undisturbed.content_digest


def test_a_resumed_training_skips_the_files_before_its_place(bench: StageHarness) -> None:
    plan, step = changed(("max_steps: 50", "max_steps: 44"))
    bench.prepare_step(plan, step)
    bench.kill_after_checkpoint(step, at=35)
    shutil.rmtree(bench.work(step) / "scratch")
    asked = REPOSITORIES["org/pages"].asked
    asked.clear()
    bench.prepare_step(plan, step)
    assert bench.wait(step) == 0, bench.failure(step)
    windows = passed(StreamOrder(len(PAGES), step.params["seed"], shuffle=True), 3500)
    used = Counter(window.file for _, window, _ in windows)
    finished = {file for file, count in used.items() if count == -(-len(PAGES[file]) // 1000) > 0}
    assert finished
    assert not finished & {int(name[len("data/train-")]) for name in asked if name.endswith(".parquet")}


def passed(order: StreamOrder, rows: int) -> Iterator[tuple[int, Window, int]]:
    """The windows that are used up after so many rows."""
    count = {file: -(-len(pages) // 1000) for file, pages in enumerate(PAGES)}
    for turn, window, size in order.windows(WindowLengths(), count.__getitem__, window_size):
        rows -= size
        if rows < 0:
            return
        yield turn, window, size


def window_size(window: Window) -> int:
    return min(1000, len(PAGES[window.file]) - 1000 * window.number)


def test_two_processes_train_as_one_does(bench: StageHarness) -> None:
    plan, step = changed(("max_steps: 50", "max_steps: 46"))
    alone = bench.run_step(plan, step)
    bench.reset_step(step)
    together = bench.run_step(plan, step.model_copy(update={"launch": Launch(processes=2, strategy="ddp")}))
    assert metrics(together, "loss") == pytest.approx(metrics(alone, "loss"), rel=2e-3)


def test_processes_share_files_of_fewer_rows_than_a_batch(bench: StageHarness) -> None:
    """In the second pass, a process prepares only the windows with its rows."""
    short = ("max_steps: 50, batch_size: 100, micro_batch_size: 50", "max_steps: 60, batch_size: 2")
    plan, step = changed(("org/pages", "org/ones"), short)
    together = bench.run_step(plan, step.model_copy(update={"launch": Launch(processes=2, strategy="ddp")}))
    assert len(metrics(together, "loss")) == 60


def test_folders_in_use_are_not_deleted(tmp_path: Path) -> None:
    folder = tmp_path / "window-0-0"
    folder.mkdir()
    with use_folder(folder):
        delete_folder(folder)
        assert folder.exists()
    delete_folder(folder)
    assert list(tmp_path.iterdir()) == []


def test_files_are_found_by_their_names(bench: StageHarness) -> None:
    plan, step = changed(("org/pages", "org/names"), ("max_steps: 50", "max_steps: 1"))
    assert len(metrics(bench.run_step(plan, step), "loss")) == 1


def test_only_the_files_of_the_last_windows_are_kept(bench: StageHarness) -> None:
    """Also if a batch has the rows of many files."""
    plan, step = changed(("org/pages", "org/ones"), ("max_steps: 50", "max_steps: 9"))
    bench.prepare_step(plan, step)
    bench.kill_after_checkpoint(step, at=5)
    names = [path.name for path in (bench.work(step) / "scratch" / "stream").iterdir() if path.is_dir()]
    assert 0 < len([name for name in names if name.startswith("file-")]) <= 3
    bench.reset_step(step)


def test_json_lines_have_the_rows_of_parquet(bench: StageHarness) -> None:
    """The order is that of the files, of which the empty one has no counterpart."""
    in_order = (
        "learning_rate: 1.0e-2}",
        "learning_rate: 1.0e-2}\n    trl: {train_sampling_strategy: sequential}",
    )
    products = [
        bench.run_step(*changed(in_order, ("org/pages", name), ("max_steps: 50", "max_steps: 46")))
        for name in ("org/pages", "org/lines")
    ]
    losses = [metrics(product, "loss") for product in products]
    assert losses[0] == losses[1]


def test_steps_apply_to_each_window(bench: StageHarness) -> None:
    """A dataset that is stored whole has the same rows in the same order."""
    more = "      - where: length(text) = 14\n      - derive: {text: \"text || '!'\"}\n"
    steps = ("      - rename: {page: text}\n", f"      - rename: {{page: text}}\n{more}")
    in_order = (
        "learning_rate: 1.0e-2}",
        "learning_rate: 1.0e-2}\n    trl: {train_sampling_strategy: sequential}",
    )
    short = ("max_steps: 50", "max_steps: 9")
    streamed = bench.run_step(*changed(steps, in_order, short))
    stored = (", streaming: true, window_rows: 1000", "")
    whole = bench.run_step(*changed(steps, in_order, short, stored, ("org/pages", "org/full")))
    assert metrics(streamed, "loss") == metrics(whole, "loss")


def test_conversations_become_messages_in_each_window(bench: StageHarness) -> None:
    changes = (
        ("    tokenizer: {init: characters}", "    tokenizer: {init: characters}\n    chat_template: chatml"),
        ("columns: {page: text}", "columns: {page: any}"),
        ("- rename: {page: text}", "- conversations: {column: page}"),
        ("learning_rate: 1.0e-2}", "learning_rate: 1.0e-2}\n    trl: {train_sampling_strategy: sequential}"),
        ("max_steps: 50", "max_steps: 21"),
        ("org/pages", "org/talks"),
    )
    streamed = bench.run_step(*changed(*changes))
    whole = bench.run_step(*changed(*changes, (", streaming: true, window_rows: 1000", "")))
    assert metrics(streamed, "loss") == metrics(whole, "loss")


def test_held_out_rows_are_evaluated_next_to_streamed_ones(bench: StageHarness) -> None:
    plan = changed(
        ("datasets:\n", "datasets:\n  few: {from: {rows: [{text: 1+1=2}, {text: 21+3=24}]}}\n"),
        ("    data: pages\n", "    data: pages\n    evaluate: {eval_steps: 5, data: few}\n"),
        ("max_steps: 50", "max_steps: 10"),
    )
    losses = metrics(bench.run_step(*plan), "eval/loss")
    assert len(losses) == 2
    assert losses[1] < losses[0]


def test_files_are_deleted_after_their_use(bench: StageHarness) -> None:
    plan, step = changed()
    bench.run_step(plan, step)
    bench.reset_step(step)
    bench.prepare_step(plan, step)
    bench.kill_after_checkpoint(step, at=45)
    names = sorted(path.name for path in (bench.work(step) / "scratch" / "stream").iterdir() if path.is_dir())
    assert len([name for name in names if name.startswith("file-")]) <= 3
    assert len([name for name in names if name.startswith("window-")]) <= 3
    bench.reset_step(step)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("org/pages", "org/table"), "has csv files that cannot be streamed"),
        (("org/pages", "org/packed"), "`data/train.jsonl.xz` of `org/packed` cannot be streamed"),
        (("org/pages", "org/twice"), "several columns `page` in `train.parquet`"),
        (("org/pages", "org/gaps"), "no row of `train-2.jsonl` of `org/gaps` has the column `page`"),
        (("org/pages", "org/scalars"), "cannot read `train.jsonl` of `org/scalars`"),
        (("org/pages", "org/none"), "cannot load the dataset `org/none`"),
        (
            ("streaming: true", "streaming: true, split: nowhere"),
            "has no split `nowhere`; its splits are train",
        ),
        (("columns: {page: text}", "columns: {pages: text, page: text}"), "missing column `pages`"),
        (("org/pages", "org/late"), "rows 1001 to 1511 of `data/train.jsonl`: row 501: "),
        (
            ("- rename: {page: text}", "- rename: {page: text}\n      - where: length(text) > 99"),
            "no row of the streamed dataset is left to train on",
        ),
    ],
)
def test_errors_name_the_place(change: tuple[str, str], message: str, bench: StageHarness) -> None:
    plan, step = changed(change)
    try:
        bench.prepare_step(plan, step)
        status, failure = bench.wait(step), bench.failure(step)
    except AssertionError as error:  # of the step that lists the files
        status, failure = 1, error.args[0]
    assert status != 0
    assert message in (failure["message"] if isinstance(failure, dict) else str(failure))


def test_a_download_without_its_checksum_is_repeated(bench: StageHarness) -> None:
    plan, step = changed(("org/pages", "org/damaged"), ("max_steps: 50", "max_steps: 5"))
    bench.run_step(plan, plan.step("datasets.pages"))
    files = REPOSITORIES["org/damaged"]
    files.damaged = 2  # its description and its content
    product = bench.run_step(plan, step)
    assert files.damaged == 0
    assert len(metrics(product, "loss")) == 5


@pytest.mark.parametrize(("status", "retriable"), [(403, False), (404, False), (503, True)])
def test_refused_requests_are_not_repeated(status: int, retriable: bool) -> None:
    request = httpx.Request("GET", "https://example.org/file")
    error = request_error(
        "the file `x`", HfHubHTTPError("no", response=httpx.Response(status, request=request))
    )
    assert error.retriable == retriable


def test_files_outside_of_the_folder_are_refused(bench: StageHarness, tmp_path: Path) -> None:
    file = StreamFile(path="../outside.parquet", size=1, checksum="git:0")
    stream = RowStream(
        repository="org/pages",
        commit="a" * 40,
        reader="parquet",
        files=(file,),
        columns={"page": "text"},
        operations=(),
        window_rows=1000,
    )
    with pytest.raises(StepError, match=r"cannot download `\.\./outside\.parquet`"):
        download_file(stream, file, tmp_path / "folder")


def test_the_token_reaches_the_training(tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_text(RECIPE.replace("max_steps: 50", "max_steps: 5"))
    command = [*RECIPE_COMMAND, "run", str(tmp_path), "--home", str(tmp_path / "home")]
    token = "hf_" + "q8W" * 9
    with serve_hub("org/pages", REPOSITORIES["org/pages"], token) as address:
        given = {"HF_ENDPOINT": address, "HF_HOME": str(tmp_path / "hub"), "HF_TOKEN": token}
        done = subprocess.run(
            command, env={**os.environ, **given}, capture_output=True, text=True, check=False
        )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_file_is_downloaded_ahead_by_another_process(bench: StageHarness, tmp_path: Path) -> None:
    plan, _ = changed()
    product = bench.run_step(plan, plan.step("datasets.pages")).files
    assert start_prefetch(product, 1, tmp_path).wait(120) == 0
    asked = REPOSITORIES["org/pages"].asked
    asked.clear()
    opened = open_file(read_stream(product), 1, tmp_path)
    assert opened.table["page"].to_pylist() == PAGES[1]
    assert list(opened.windows) == [(0, 1000), (1000, 1200)]
    assert asked == []


def test_windows_of_long_rows_have_fewer_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    import pyarrow

    monkeypatch.setattr(stream_files, "_WINDOW_BYTES", 10_000)
    table = pyarrow.table({"page": ["x" * 4000] * 10 + ["y"] * 3000})
    windows = list(stream_files._split(table, 1000))
    assert all(table.slice(start, stop - start).nbytes <= 10_000 for start, stop in windows)
    assert [start for start, _ in windows[1:]] == [stop for _, stop in windows[:-1]]
    assert (windows[0][0], windows[-1][1]) == (0, 3010)
    assert max(stop - start for start, stop in windows) == 1000
