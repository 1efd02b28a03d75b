"""Training on tool calls: token ids, masks and losses are those of the chat template and of TRL by hand."""

import itertools
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.runtime.small_tokenizers import small_tokenizer

from posttrain.runtime.errors import StepError
from posttrain.runtime.rows_io import write_rows
from posttrain.runtime.step_context import StopRequest
from posttrain.runtime.training.sft_rows import SftRows, load_sft_rows
from posttrain.spec.chat_templates.builtin_templates import BUILTIN_TEMPLATES

TOOL = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "add numbers",
        "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
    },
}
# Templates of TRL that render tools and reasoning, and mark the assistant's tokens.
TEMPLATES = ("qwen3_training", "qwen3_8_training", "glm4moe_training", "qwen3_6_training")


def template(name: str) -> str:
    from importlib.resources import files

    return (files("trl") / "chat_templates" / f"{name}.jinja").read_text()


def character_tokenizer() -> Any:
    """A tokenizer with a token for every character of the templates."""
    from tokenizers import Tokenizer, decoders, models
    from transformers import PreTrainedTokenizerFast

    vocabulary = ["<pad>", "</s>", "\n", *map(chr, range(32, 127))]
    model = models.BPE(vocab={one: place for place, one in enumerate(vocabulary)}, merges=[])
    built: Any = Tokenizer(model)
    built.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(tokenizer_object=built, eos_token="</s>", pad_token="<pad>")


def talk(number: int, *, text: bool) -> list[dict[str, Any]]:
    """A conversation with a call; `text`: as stored, with arguments as JSON text, and null for no content."""
    arguments = {"a": number} if number % 2 else {"words": ["x", None], "deep": {"b": 1.5}}
    call = {"name": "add", "arguments": json.dumps(arguments) if text else arguments}
    content = {"content": None} if text else {}
    return [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": f"what is {number}"},
        {"role": "assistant", **content, "tool_calls": [{"type": "function", "function": call}]},
        {"role": "tool", "name": "add", "content": str(number)},
        {"role": "assistant", "reasoning_content": "easy", "content": f"it is {number}"},
    ]


def rows_for(tmp_path: Path, rows: list[dict[str, Any]], tokenizer: Any, **options: Any) -> SftRows:
    tmp_path.mkdir(parents=True, exist_ok=True)
    write_rows(tmp_path / "all.parquet", rows)
    (tmp_path / "parts.txt").write_text("all\n")
    params = SimpleNamespace(method="sft", prompts="auto", chat_template_kwargs=options.get("kwargs", {}))
    work = tmp_path / "home" / "work" / "key"
    work.mkdir(parents=True, exist_ok=True)
    context: Any = SimpleNamespace(
        inputs={"data": tmp_path}, params=params, part=lambda _: None, work=work, stop=StopRequest()
    )
    return load_sft_rows(context, tokenizer, loss_on_all=options.get("loss_on_all", False))


def tokenized(rows: SftRows, tokenizer: Any, folder: Path) -> list[dict[str, list[int]]]:
    """The token ids and labels of the rows, which are those of TRL's trainer unless turns have weights."""
    from transformers import Qwen2Config, Qwen2ForCausalLM
    from trl.trainer.sft_config import SFTConfig
    from trl.trainer.sft_trainer import SFTTrainer

    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=1,
        intermediate_size=8,
    )
    arguments = SFTConfig(
        output_dir=str(folder),
        use_cpu=True,
        bf16=False,
        max_length=None,
        report_to="none",
        completion_only_loss=rows.completion_only_loss,
        assistant_only_loss=rows.assistant_only_loss,
    )
    ours = [dict(row) for row in rows.tokenize(rows.training, "the data", arguments)]
    if rows.by_turn:
        return ours
    trainer = SFTTrainer(
        model=Qwen2ForCausalLM(config),
        args=arguments,
        train_dataset=rows.training.data,
        processing_class=tokenizer,
    )
    assert ours == [dict(row) for row in trainer.train_dataset.select_columns(["input_ids", "labels"])]
    return ours


def by_hand(tokenizer: Any, turns: Any, tools: Any, **template_kwargs: Any) -> tuple[list[int], list[int]]:
    found = tokenizer.apply_chat_template(
        turns, tools=tools, return_assistant_tokens_mask=True, return_dict=True, **template_kwargs
    )
    return found["input_ids"], found["assistant_masks"]


def masked(ids: list[int], mask: list[int]) -> list[int]:
    return [token if kept else -100 for token, kept in zip(ids, mask, strict=True)]


@pytest.fixture
def tokenizer(request: pytest.FixtureRequest) -> Any:
    made = character_tokenizer()
    made.chat_template = template(getattr(request, "param", "qwen3_training"))
    return made


@pytest.mark.parametrize("tokenizer", TEMPLATES, indirect=True)
def test_tokens_and_labels_are_those_of_the_template(tokenizer: Any, tmp_path: Path) -> None:
    """With tools in every other row, and template arguments of the stage and of rows."""
    rows: list[dict[str, Any]] = [
        {
            "messages": talk(number, text=True),
            "tools": json.dumps([TOOL]) if number % 2 else None,
            "chat_template_kwargs": json.dumps({"enable_thinking": True}) if number == 3 else None,
        }
        for number in range(4)
    ]
    found = tokenized(
        rows_for(tmp_path / "rows", rows, tokenizer, kwargs={"enable_thinking": False}), tokenizer, tmp_path
    )
    for number, row in enumerate(found):
        ids, mask = by_hand(
            tokenizer,
            talk(number, text=False),
            [TOOL] if number % 2 else None,
            enable_thinking=number == 3,
        )
        assert (row["input_ids"], row["labels"]) == (ids, masked(ids, mask))
        assert 0 < sum(mask) < len(mask)


def assistant_runs(mask: list[int]) -> list[tuple[int, int]]:
    """The start and end of each run of the assistant's tokens."""
    starts = itertools.accumulate([0, *(len(list(run)) for _, run in itertools.groupby(mask))])
    bounds = itertools.pairwise(starts)
    return [(start, end) for start, end in bounds if mask[start]]


@pytest.mark.parametrize("loss_on_all", [False, True])
@pytest.mark.parametrize("tokenizer", TEMPLATES[:3], indirect=True)
@pytest.mark.parametrize("skipped", [{2}, {4}])
def test_turns_without_a_loss_have_no_labels(
    tokenizer: Any, tmp_path: Path, skipped: set[int], loss_on_all: bool
) -> None:
    turns = [
        {**turn, **({"weight": 0.0} if place in skipped else {})}
        for place, turn in enumerate(talk(1, text=True))
    ]
    plain = talk(2, text=True)
    rows = [{"messages": one, "tools": json.dumps([TOOL])} for one in (turns, plain)]
    read = rows_for(tmp_path / "rows", rows, tokenizer, loss_on_all=loss_on_all)
    found = tokenized(read, tokenizer, tmp_path)
    for row, number, without in zip(found, (1, 2), (skipped, set[int]()), strict=True):
        ids, mask = by_hand(tokenizer, talk(number, text=False), [TOOL])
        runs = assistant_runs(mask)
        assert len(runs) == 2
        expected = [1] * len(ids) if loss_on_all else list(mask)
        for place, (start, end) in zip((2, 4), runs, strict=True):
            if place in without:
                expected[start:end] = [0] * (end - start)
        assert (row["input_ids"], row["labels"]) == (ids, masked(ids, expected))


def test_the_weights_of_completions_apply_after_their_prompt(tokenizer: Any, tmp_path: Path) -> None:
    turns = talk(1, text=True)
    completion = [{**turns[2], "weight": 0.0}, *turns[3:]]
    rows = [{"prompt": turns[:2], "completion": completion, "tools": json.dumps([TOOL])}]
    (row,) = tokenized(rows_for(tmp_path / "rows", rows, tokenizer), tokenizer, tmp_path)
    ids, mask = by_hand(tokenizer, talk(1, text=False), [TOOL])
    (start, end), last = assistant_runs(mask)
    first = tokenizer.apply_chat_template(
        talk(1, text=False)[:2], tools=[TOOL], add_generation_prompt=True, return_dict=True
    )["input_ids"]
    assert ids[: len(first)] == first
    # TRL's loss on completions covers all of their text; results of tools and the skipped turn have none.
    expected = [0] * len(first) + [1] * (len(ids) - len(first))
    expected[start : last[0]] = [0] * (last[0] - start)
    assert end <= last[0]
    assert row["labels"][last[0] :] == masked(ids, expected)[last[0] :]
    assert row["labels"][: last[0]] == [-100] * last[0]


def test_results_of_tools_in_a_completion_have_no_loss(tokenizer: Any, tmp_path: Path) -> None:
    turns = talk(1, text=True)
    rows = [{"prompt": turns[:2], "completion": turns[2:], "tools": json.dumps([TOOL])}]
    read = rows_for(tmp_path / "rows", rows, tokenizer)
    assert (read.completion_only_loss, read.assistant_only_loss) == (True, True)
    (row,) = tokenized(read, tokenizer, tmp_path)
    ids, mask = by_hand(tokenizer, talk(1, text=False), [TOOL])
    assert (row["input_ids"], row["labels"]) == (ids, masked(ids, mask))


def test_turns_of_the_user_in_a_completion_have_no_loss(tokenizer: Any, tmp_path: Path) -> None:
    more = [{"role": "user", "content": "sure"}, {"role": "assistant", "content": "yes"}]
    turns = [*talk(1, text=False)[:2], {"role": "assistant", "content": "1"}, *more]
    row = {"prompt": turns[:2], "completion": turns[2:]}
    (found,) = tokenized(rows_for(tmp_path / "rows", [row], tokenizer), tokenizer, tmp_path)
    ids, mask = by_hand(tokenizer, turns, None)
    assert (found["input_ids"], found["labels"]) == (ids, masked(ids, mask))


@pytest.mark.parametrize("weight", [None, 0.0])
def test_an_answer_of_the_prompt_has_no_loss_if_the_completion_changes_it(
    weight: float | None, tmp_path: Path
) -> None:
    """With a question in the completion, Qwen 3 renders the earlier answers without their reasoning."""
    tokenizer = character_tokenizer()
    tokenizer.chat_template = BUILTIN_TEMPLATES["qwen"].text
    ask = {"role": "user", "content": "sure"}
    prompt = talk(1, text=True)[:4]
    middle = {"role": "assistant", "content": "8"} | ({} if weight is None else {"weight": weight})
    first, last = ({"role": "assistant", "content": text} for text in ("x", "9"))
    completion = [first, ask, middle, ask, last]
    row = {"prompt": prompt, "completion": completion}
    (found,) = tokenized(rows_for(tmp_path / "rows", [row], tokenizer), tokenizer, tmp_path)
    learned = tokenizer.decode([token for token in found["labels"] if token != -100])
    ends = "<|im_end|>\n"
    second = "" if weight == 0.0 else f"8{ends}"
    assert learned == f"x{ends}{second}<think>\n\n</think>\n\n9{ends}"


def test_rows_without_tools_get_the_dataset_that_they_had(tokenizer: Any, tmp_path: Path) -> None:
    from datasets import Dataset

    plain = [{"role": "user", "content": "1+1"}, {"role": "assistant", "content": "2"}]
    read = rows_for(tmp_path / "rows", [{"messages": plain}] * 3, tokenizer)
    assert read.training.data.features == Dataset.from_dict({"messages": [plain]}).features
    assert read.training.data.to_list() == [{"messages": plain}] * 3


REFUSED = {
    "a fraction": ([{"weight": 0.5}, {}], "a turn of `assistant` has the weight 0.5"),
    "a loss on the user": ([{}, {"role": "user", "weight": 1.0}], "covers the turns of the assistant only"),
    "no loss at all": ([{"weight": 0.0}, {"weight": 0.0}], "no turn of the assistant has a loss"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_weights_that_the_loss_cannot_have_are_refused(name: str, tokenizer: Any, tmp_path: Path) -> None:
    changes, message = REFUSED[name]
    turns = [{"role": "assistant", "content": "a", **change} for change in changes]
    rows = [{"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "b"}]}]
    rows.append({"messages": [{"role": "user", "content": "q"}, *turns]})
    with pytest.raises(StepError, match="row 2") as caught:
        rows_for(tmp_path, rows, tokenizer)
    assert message in str(caught.value)
    assert caught.value.advice


def test_tools_of_plain_text_are_refused(tmp_path: Path) -> None:
    rows = [{"prompt": "1+1", "completion": "2", "tools": json.dumps([TOOL])}]
    with pytest.raises(StepError, match="row 1 has `tools`"):
        rows_for(tmp_path, rows, small_tokenizer("has_no_bos"))


@pytest.mark.parametrize("weighted", [False, True])
def test_a_rejected_conversation_is_named(weighted: bool, tokenizer: Any, tmp_path: Path) -> None:
    tokenizer.chat_template = BUILTIN_TEMPLATES["gemma"].text
    ask, answer = {"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}
    skipped = {**answer, "weight": 0.0} if weighted else answer
    rows = [{"messages": turns} for turns in ([ask, skipped, ask, answer], [ask, answer], [ask, ask, answer])]

    read = rows_for(tmp_path / "rows", rows, tokenizer)
    with pytest.raises(StepError, match=r"row 3 of the data: the chat template rejects .* that alternate"):
        tokenized(read, tokenizer, tmp_path)


def test_a_template_with_several_marks_in_a_turn_is_refused(tmp_path: Path) -> None:
    tokenizer = small_tokenizer("has_no_bos")
    tokenizer.chat_template = (
        "{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}a{% endgeneration %}"
        "{% generation %}{{ m.content }}{% endgeneration %}{% else %}{{ m.content }}{% endif %}{% endfor %}"
    )
    turns = [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": "a", "weight": 0.0},
        {"role": "assistant", "content": "b"},
    ]
    read = rows_for(tmp_path, [{"messages": turns}], tokenizer)
    with pytest.raises(StepError, match="marks 4 texts for 2 turns"):
        tokenized(read, tokenizer, tmp_path)
