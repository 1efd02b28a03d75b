"""User errors: the command reports the cause, the place and advice before the first optimizer step."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.recipe_command import TINY_RECIPE, run_command

pytestmark = pytest.mark.slow

Rows = list[dict[str, Any]]
_BASE = """\
    init: {model_type: FAMILY, num_hidden_layers: 1, hidden_size: 16, num_attention_heads: 2,
        max_position_embeddings: 32, tie_word_embeddings: false}
    tokenizer: {init: characters, alphabet: "0123456789+=? abcdef"}
"""
_MODELS = f"""\
  base:
{_BASE.replace("FAMILY", "qwen2")}    chat_template: chat.jinja
  plain:
{_BASE.replace("FAMILY", "qwen2")}
  strict:
{_BASE.replace("FAMILY", "qwen2")}    chat_template: strict.jinja
"""
_STRICT = """\
{% for m in messages %}{% if m.role == 'assistant' %}{{ raise_exception('no assistants here') }}{% endif %}
{{ m.content }}{{ eos_token }}{% endfor %}"""
_REWARDS = """\
  ones:
    reads: {completion: text}
    returns: {score: {when: {contains: {of: completion, part: {text: "1"}}}, then: 1.0, else: 0.0}}
"""
_CALLED = """\
  %s:
    reads: {completion: text}
    returns: {python: {call: "mine.py:%s", low: 0, high: 1, with: {completion: completion}}}
"""
_MINE = """\
def nothing(completion):
    return None

def wrong(completion):
    raise ValueError("row boom")
"""
_FEW = "params: {max_steps: 2, batch_size: 4, max_length: 24}"
_FAST = "max_steps: 3, batch_size: 4, max_length: 24, learning_rate: 1.0e+30, max_grad_norm: 1.0e+30"
_WRITTEN = (
    "params: {max_steps: 2, num_prompts: 2, num_generations: 4, max_completion_length: 4, on_constant_reward:"
    " warn}"
)


def turns(*roles: str) -> list[dict[str, str]]:
    return [{"role": role, "content": f"{place}+1="} for place, role in enumerate(roles)]


def pairs(**other: Any) -> Rows:
    return [{"prompt": f"{n}+1=", "chosen": f"{n}", "rejected": "?", **other} for n in range(8)]


def answered(**other: Any) -> Rows:
    return [{"prompt": f"{n}+1=", "completion": f"{n}", **other} for n in range(8)]


@dataclass(frozen=True)
class Case:
    """A stage on these rows; the first word is the method."""

    stage: str
    rows: Rows
    # The expected failure and its advice, or a warning, as patterns.
    message: str
    advice: str = ""
    warned: bool = False


CASES: Mapping[str, Case] = {
    "nobody_answers": Case(
        f"sft, {_FEW}",
        [{"messages": turns("human", "gpt")}] * 8,
        "8 of 8 rows have no assistant turn in `messages`; the first is row 1",
        "the roles are `gpt`, `human`: rename them with the data step `conversations`",
    ),
    "one_is_empty": Case(
        f"sft, {_FEW}",
        [{"messages": turns("user", "assistant")}] * 7 + [{"messages": []}],
        "1 of 8 rows have no turns in `messages`; the first is row 8",
    ),
    "asked_last": Case(
        f"sft, {_FEW}",
        [{"messages": turns("user", "assistant", "user")}] * 8,
        "8 of 8 conversations do not end with an assistant turn",
        warned=True,
    ),
    "says_nothing": Case(f"simpo, {_FEW}", pairs(chosen=" "), "`chosen` is empty in all 8 rows"),
    "says_little": Case(
        f"sft, {_FEW}",
        [*answered()[:6], *answered(completion="")[:2]],
        "2 of 8 rows have an empty `completion`: the model learns to generate nothing",
        warned=True,
    ),
    "in_other_letters": Case(
        f"sft, {_FEW}",
        [*answered()[:6], *answered(completion="\u00e9")[:2]],
        "2 of 8 rows contain characters that are not in the tokenizer's vocabulary",
        warned=True,
    ),
    "all_alike": Case(f"orpo, {_FEW}", pairs(chosen="?"), "`chosen` and `rejected` are equal in all 8 rows"),
    "some_alike": Case(
        f"reward_model, {_FEW}",
        [*pairs()[:4], *pairs(chosen="?")[:4]],
        "`chosen` and `rejected` are equal in 4 of 8 rows",
        warned=True,
    ),
    "no_beginning": Case(
        f"dpo, {_FEW}",
        [{"chosen": turns("assistant"), "rejected": [{"role": "assistant", "content": "?"}]}] * 8,
        "8 of 8 rows have no prompt: `chosen` and `rejected` start with different turns",
    ),
    "user_last": Case(
        f"cpo, {_FEW}",
        [{"prompt": turns("user"), "chosen": turns("user"), "rejected": turns("user")}] * 8,
        "8 of 8 rows have a `chosen` that does not end with an assistant turn",
    ),
    "one_kind": Case(f"kto, {_FEW}", answered(label=True), "`label` is true in all 8 rows", warned=True),
    "refused": Case(
        f"ipo, model: strict, {_FEW}",
        pairs(),
        "row 1 of the data: the chat template rejects the conversation: no assistants here",
        "use a chat template that renders such rows",
    ),
    "no_prompt": Case(
        f"grpo, model: plain, reward: ones, {_WRITTEN}",
        [*answered()[:7], *answered(prompt="")[:1]],
        "1 of 8 prompts are empty; the first is row 8",
    ),
    "past_the_context": Case(
        f"rloo, reward: ones, {_WRITTEN}",
        [*answered()[:7], *answered(prompt="1" * 40)[:1]],
        "1 of 8 prompts are as long as the model's context of 32 tokens, or longer; the first is row 8",
    ),
    "no_score": Case(
        f"grpo, reward: nothing, {_WRITTEN}", answered(), "no completion of the last 2 batches has a score"
    ),
    "raises": Case(
        "ppo, reward: wrong, params: {max_steps: 2, batch_size: 4, max_completion_length: 4}",
        answered(),
        "the reward node `returns`: `mine.py:wrong`: ValueError: row boom",
        "fix the function, and test it with `recipe reward`",
    ),
    "broken_at_the_end": Case(
        "dpo, params: {max_steps: 1, batch_size: 4, max_length: 24, learning_rate: 1.0e+39, max_grad_norm:"
        " 1.0e+30}",
        pairs(),
        "the trained weights contain NaN or infinity",
        "lower the learning rate",
    ),
    "too_fast": Case(
        f"sft, params: {{{_FAST}}}",
        answered(),
        "at step 2 the loss is nan",
        "lower the learning rate",
    ),
}


@dataclass
class Said:
    """The command's output about a step."""

    state: str = ""
    message: str = ""
    advice: str = ""
    warnings: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recipe with all cases, and a stage that continues from a successful one."""
    folder = tmp_path_factory.mktemp("bad")
    lay_out(folder, CASES)
    with (folder / "recipe.yaml").open("a") as recipe:
        recipe.write(f"  after: {{data: d_one_kind, model: one_kind, train: sft, params: {{{_FAST}}}}}\n")
    return folder


@pytest.fixture(scope="module")
def said(folder: Path) -> dict[str, Said]:
    """Run the recipe once and return its output for each case."""
    ended = run_command("run", folder, "--home", folder / "home")
    assert ended.returncode == 1, ended.stderr
    assert "posttrain/" not in ended.stdout + ended.stderr, "a traceback has frames of user code only"
    return parse_diagnostics(ended.stdout)


def lay_out(folder: Path, cases: Mapping[str, Case]) -> None:
    (folder / "chat.jinja").write_text((TINY_RECIPE / "chat.jinja").read_text())
    (folder / "strict.jinja").write_text(_STRICT)
    (folder / "mine.py").write_text(_MINE)
    for name, case in cases.items():
        (folder / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in case.rows))
    rewards = _REWARDS + "".join(_CALLED % (name, name) for name in ("nothing", "wrong"))
    stages = "".join(stage(name, case) for name, case in cases.items())
    data = "".join(f"  d_{name}: {{from: {{files: {name}.jsonl}}}}\n" for name in cases)
    text = f"recipe: 1\nname: bad\nmodels:\n{_MODELS}datasets:\n{data}rewards:\n{rewards}stages:\n{stages}"
    (folder / "recipe.yaml").write_text(text)


def stage(name: str, case: Case) -> str:
    model = "" if "model: " in case.stage else "model: base, "
    return f"  {name}: {{data: d_{name}, on_failure: continue, {model}train: {case.stage}}}\n"


def parse_diagnostics(printed: str) -> dict[str, Said]:
    """Parse the lines of each step: its status, its warnings, and the advice under them."""
    found: dict[str, Said] = {}
    last = Said()
    for line in printed.splitlines():
        match = re.match(r"([x+!-]) (\S+) +(failed|done|warning|blocked)  ?(.*)", line)
        if match is None:
            last.advice = last.advice or line.strip() if line.startswith("    ") else last.advice
            continue
        last = found.setdefault(match[2], Said())
        if match[3] == "warning":
            last.warnings.append(match[4])
            last = Said()  # the advice under it belongs to the warning
        else:
            last.state, last.message = match[3], match[4]
    return found


@pytest.mark.parametrize("name", CASES)
def test_what_is_wrong_is_told(name: str, said: dict[str, Said]) -> None:
    case, output = CASES[name], said[name]
    if case.warned:
        assert output.state == "done"
        assert [message for message in output.warnings if case.message in message], output.warnings
        return
    assert output.state == "failed"
    assert case.message in output.message
    assert case.advice in output.advice
    assert output.advice


def test_what_stands_before_a_failure_is_kept(folder: Path, said: dict[str, Said]) -> None:
    """The next run starts at the failed stage."""
    assert said["after"].state == "failed"
    fixed = ("--set", "stages.after.params.learning_rate=1.0e-3")
    ended = run_command("run", folder, "--home", folder / "home", "--only", "one_kind,after", *fixed)
    assert ended.returncode == 0, ended.stdout
    assert "= one_kind " in ended.stdout
    assert parse_diagnostics(ended.stdout)["after"].state == "done"


def test_what_cannot_be_probed_says_why(folder: Path, said: dict[str, Said]) -> None:
    assert said["some_alike"].state == "done"
    ended = run_command("probe", "some_alike", "--home", folder / "home")
    assert ended.returncode == 1
    assert "`reward_model` trains a scorer, which does not generate completions" in ended.stderr


_WRONG_BEFORE: Mapping[str, tuple[Case, str, str]] = {
    "misspelt": (
        Case(f"dpo, {_FEW}", [{"promt": "1", "chosen": "1", "rejected": "2"}] * 8, ""),
        "PT0408",
        "add the step `rename: {promt: prompt}`",
    ),
    "nested": (
        Case(f"sft, {_FEW}", answered(completion={"text": "1"}), ""),
        "PT0408",
        "declare their types in the source",
    ),
    "of_two_kinds": (
        Case(f"sft, {_FEW}", [*answered()[:4], *answered(completion=7)[4:]], ""),
        "PT0408",
        "declare their types in the source",
    ),
    "columns_kept": (
        Case(f"grpo, reward: ones, trl: {{remove_unused_columns: true}}, {_WRITTEN}", answered(), ""),
        "PT0623",
        "the trainer gets the columns that the method and its reward read",
    ),
}


@pytest.mark.parametrize("name", _WRONG_BEFORE)
def test_what_the_files_show_is_told_before_anything_runs(name: str, tmp_path: Path) -> None:
    case, code, help = _WRONG_BEFORE[name]
    lay_out(tmp_path, {name: case})
    ended = run_command("validate", tmp_path)
    assert ended.returncode == 1
    assert f"error[{code}]" in ended.stderr
    assert help in ended.stderr
