"""Generation in this process: batches, stop strings, seeds, and resuming from the log."""

from pathlib import Path
from typing import Any

import pytest
from tests.runtime.engines.sampling_values import greedy_sampling

from posttrain.runtime.chat_prompts import Prompt
from posttrain.runtime.engines.completion_decoding import find_stop
from posttrain.runtime.engines.completion_log import Completion, CompletionLog
from posttrain.runtime.engines.engine_protocol import GenerationRequest
from posttrain.runtime.engines.transformers_generator import TransformersGenerator
from posttrain.runtime.errors import Interrupted
from posttrain.runtime.step_context import StopRequest
from posttrain.spec.step_params.generation_params import SamplingOptions

GREEDY = greedy_sampling(max_tokens=12, batch_size=4)
DRAWN = {**GREEDY, "temperature": 1.0, "n": 2}
TEXTS: list[Prompt] = [f"{n}+{n * 7 % 13}=" for n in range(14)]


@pytest.fixture(scope="module")
def writer(tiny_model: Path) -> TransformersGenerator:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    return TransformersGenerator(AutoModelForCausalLM.from_pretrained(tiny_model), tokenizer)


def written(
    writer: TransformersGenerator,
    sampling: dict[str, Any],
    path: Path | None = None,
    stop: StopRequest | None = None,
    seed: int = 5,
) -> list[list[Completion]]:
    kept = CompletionLog(path, TEXTS, sampling["n"])
    order = GenerationRequest(
        prompts=TEXTS,
        sampling=SamplingOptions(**sampling),
        seed=seed,
        log=kept,
        progress=lambda _done, _total: None,
        stop=stop or StopRequest(),
    )
    try:
        return writer.generate(order)
    finally:
        kept.close()


def test_the_size_of_a_batch_changes_no_greedy_text(writer: TransformersGenerator):
    assert written(writer, GREEDY) == written(writer, {**GREEDY, "batch_size": 1})


def test_the_same_seed_draws_the_same_and_another_does_not(writer: TransformersGenerator):
    first = written(writer, DRAWN)
    assert first == written(writer, DRAWN)
    assert first != written(writer, DRAWN, seed=6)
    assert any(one.text != other.text for one, other in first)


def test_interrupted_at_any_batch_it_ends_with_the_same_completions(
    writer: TransformersGenerator, tmp_path: Path
):
    whole = written(writer, DRAWN)
    for after in range(1, 4):
        path, stop, asked = tmp_path / f"{after}.jsonl", StopRequest(), 0
        generated = writer._generate_tokens

        def counting(*given: Any, of: Any = generated, last: int = after, stop: StopRequest = stop) -> Any:
            nonlocal asked
            asked += 1
            stop.requested = asked >= last
            return of(*given)

        writer._generate_tokens = counting
        with pytest.raises(Interrupted):
            written(writer, DRAWN, path, stop)
        assert asked == after
        # The last line is incomplete, as after a power failure. Its batch is sampled again, identically.
        path.write_bytes(path.read_bytes()[:-20])
        stop.requested = False
        writer._generate_tokens = lambda *given, of=generated: of(*given)
        assert written(writer, DRAWN, path) == whole
        writer._generate_tokens = generated


def test_what_is_kept_is_not_generated_again(writer: TransformersGenerator, tmp_path: Path):
    path = tmp_path / "replies.jsonl"
    first = written(writer, DRAWN, path)
    generated = writer._generate_tokens
    writer._generate_tokens = None
    try:
        assert written(writer, DRAWN, path) == first
    finally:
        writer._generate_tokens = generated


def test_a_completion_ends_after_the_first_text_that_ends_it(writer: TransformersGenerator):
    free = [one.text or "" for (one,) in written(writer, GREEDY)]
    word = max(free, key=len)[2:4]
    assert len(word) == 2
    stopped = [one for (one,) in written(writer, {**GREEDY, "stop": [word, "never"]})]
    for text, one in zip(free, stopped, strict=True):
        if word in text:
            assert (one.text, one.finish) == (text[: text.index(word) + len(word)], "stop")
        else:
            assert one.text == text
    assert "stop" in [one.finish for one in stopped]


def test_continuous_batching_writes_the_same_greedy_text(writer: TransformersGenerator):
    several = {**GREEDY, "continuous_batching": True}
    assert written(writer, several) == written(writer, GREEDY)
    drawn = {**DRAWN, "continuous_batching": True}
    assert written(writer, drawn) == written(writer, drawn)


@pytest.mark.parametrize(
    ("text", "stop", "end"),
    [("abcabc", ["c"], 3), ("abc", ["bc", "b"], 2), ("abc", ["x"], None), ("", [], None)],
)
def test_the_earliest_stop_counts(text: str, stop: list[str], end: int | None):
    assert find_stop(text, stop) == end
