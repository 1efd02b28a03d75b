"""Tests the diagnostics about environments and the stages that use them."""

from collections.abc import Mapping
from typing import Any

import pytest

from posttrain.compiler.environments.environment_codes import ENVIRONMENT_EXAMPLE
from posttrain.compiler.pipeline import CompileResult, compile_recipe
from posttrain.compiler.text.compile_request import CompileRequest, SourceFile
from posttrain.runtime.catalog import CATALOG
from posttrain.spec.plan import Step

_GUESS = "{type: guess, params: {low: 1, high: 9}}"
_OWN = "{type: python, params: {call: 'game.py:Game', columns: {target: integer}}}"
_FILE = {"game.py": "class Game: ..."}


def compiled(text: str, user_files: Mapping[str, str] | None = None) -> CompileResult:
    files = {name: content.encode() for name, content in (user_files or {}).items()}
    request = CompileRequest(source=SourceFile("recipe.yaml", text.encode()), catalog=CATALOG, read=files.get)
    return compile_recipe(request)


def only_diagnostic(text: str, user_files: Mapping[str, str] | None = None) -> tuple[str, str, str, int, int]:
    """Return the code, message, help and place of the only diagnostic."""
    (found,) = compiled(text, user_files).diagnostics
    return found.code, found.message, found.help, found.span.line, found.span.column


def step_of(text: str, name: str = "check", user_files: Mapping[str, str] | None = None) -> Step:
    outcome = compiled(text, user_files)
    assert outcome.plan is not None, outcome.diagnostics
    return outcome.plan.step(name)


def position_of(text: str, what: str) -> tuple[int, int]:
    before, _, _ = text.partition(what)
    return before.count("\n") + 1, len(before) - before.rfind("\n")


def test_an_environment_that_nobody_declared_is_suggested_where_it_stands() -> None:
    text = ENVIRONMENT_EXAMPLE.replace("environment: place", "environment: plaec")
    code, message, help, line, column = only_diagnostic(text)
    assert (code, message) == ("PT0681", "there is no environment `plaec`")
    assert help == "did you mean `place`?"
    assert (line, column) == position_of(text, "plaec")


def test_a_kind_that_does_not_exist_is_suggested() -> None:
    code, message, help, *_ = only_diagnostic(ENVIRONMENT_EXAMPLE.replace("type: guess", "type: textarea"))
    assert (code, message) == ("PT0682", "there is no environment type `textarea`")
    assert help.startswith("did you mean `textarena`? environment types: ")


def test_parameters_are_held_to_their_kind_with_line_and_column() -> None:
    text = ENVIRONMENT_EXAMPLE.replace("high: 9", "hihg: 9")
    code, message, help, line, column = only_diagnostic(text)
    help_wanted = "did you mean `high`? keys here: above, below, high, invalid_message, low"
    assert (code, message, help) == ("PT0201", "unknown key `hihg`", help_wanted)
    assert (line, column) == position_of(text, "hihg")
    code, message, *_ = only_diagnostic(ENVIRONMENT_EXAMPLE.replace("high: 9", "high: 1"))
    assert code == "PT0204"
    assert "`low` must be less than `high`" in message


def test_a_kind_with_a_parameter_that_must_be_given_says_so() -> None:
    code, message, *_ = only_diagnostic(ENVIRONMENT_EXAMPLE.replace(_GUESS, "{type: textarena}"))
    assert (code, message) == ("PT0202", "missing key `game`")


def test_fields_of_the_declaration_are_held_to_their_bounds() -> None:
    for field, code in (
        ("max_turns: 0", "PT0204"),
        ("observation_template: again", "PT0204"),
        ("on_error: skip", "PT0204"),
    ):
        assert only_diagnostic(ENVIRONMENT_EXAMPLE.replace("type: guess", f"type: guess, {field}"))[0] == code


def test_the_data_has_the_columns_that_an_episode_begins_with() -> None:
    bare = ENVIRONMENT_EXAMPLE.replace("      - derive: {target: length(answer)}\n", "")
    code, message, *_ = only_diagnostic(bare)
    assert code == "PT0408"
    assert message == "the environment reads the column `target` (integer), which the data does not have"
    code, message, *_ = only_diagnostic(
        ENVIRONMENT_EXAMPLE.replace("target: length(answer)", "target: answer || ''")
    )
    assert (code, "whose type in the data is text" in message) == ("PT0408", True)


def test_methods_that_do_not_act_over_turns_say_which_do() -> None:
    for method, params in (
        ("sft", "params: {epochs: 1, batch_size: 4}"),
        ("kto", "params: {epochs: 1, batch_size: 4}"),
    ):
        act = f"act: {{train: {method}, model: sft, environment: place, data: sums.train, {params}}}"
        found = compiled(ENVIRONMENT_EXAMPLE.replace("  check:", f"  {act}\n  check:")).diagnostics
        said = [(d.code, d.message, d.help) for d in found if d.code == "PT0683"]
        message = f"`{method}` does not support environments"
        assert said == [("PT0683", message, "methods with support: grpo, ppo, rloo")]


def test_what_a_reward_says_of_the_score_holds_for_the_environment() -> None:
    text = ENVIRONMENT_EXAMPLE.replace(_GUESS, "{type: textarena, params: {game: Sudoku-v0}}").replace(
        "target:", "seed:"
    )
    code, message, help, *_ = only_diagnostic(text)
    assert code == "PT0684"
    assert "declares the score range 0 .. +1; the range of `place` is -1 .. +1" in message
    assert help == "set `low: -1` and `high: 1` in that node"
    assert compiled(text.replace("{metric: score}", "{metric: score, low: -1}")).diagnostics == ()
    assert (
        only_diagnostic(ENVIRONMENT_EXAMPLE.replace("type: guess,", "type: guess, on_error: -3.0,"))[0]
        == "PT0684"
    )


def test_a_bare_value_of_the_op_is_not_passed_over() -> None:
    assert (
        only_diagnostic(
            ENVIRONMENT_EXAMPLE.replace("{environment: {metric: score}}", "{environment: completion}")
        )[0]
        == "PT0504"
    )


def test_an_environment_that_nothing_uses_is_told_like_other_declarations() -> None:
    text = ENVIRONMENT_EXAMPLE.replace("environments:\n", "environments:\n  spare: {type: guess}\n")
    assert only_diagnostic(text)[:2] == ("PT0304", "nothing uses the environment `spare`")


def test_a_user_file_that_is_not_there_is_told() -> None:
    code, message, *_ = only_diagnostic(ENVIRONMENT_EXAMPLE.replace(_GUESS, _OWN))
    assert (code, message) == ("PT0409", "there is no file `game.py` in the recipe's folder")


@pytest.mark.parametrize(
    ("before", "after", "part"),
    [
        ("high: 9", "high: 8", "params.environment"),
        ("type: guess,", "type: guess, max_turns: 3,", "params.environment"),
        ("type: guess,", "type: guess, on_error: abstain,", "params.environment"),
    ],
)
def test_what_an_episode_depends_on_is_part_of_the_key(before: str, after: str, part: str) -> None:
    first, second = step_of(ENVIRONMENT_EXAMPLE), step_of(ENVIRONMENT_EXAMPLE.replace(before, after))
    assert changed_params(first, second) == {part}


def test_the_file_of_an_environment_is_part_of_the_key_and_the_count_of_processes_is_not() -> None:
    text = ENVIRONMENT_EXAMPLE.replace(_GUESS, _OWN)
    first = step_of(text, user_files=_FILE)
    assert first.files["environment:game.py"].path == "game.py"
    assert changed_params(first, step_of(text, user_files={"game.py": "class Game: pass"})) == {
        "file.environment:game.py"
    }
    more = text.replace("columns: {target: integer}", "columns: {target: integer}, processes: 4")
    assert step_of(more, user_files=_FILE).key == first.key


def test_the_name_of_an_environment_changes_nothing() -> None:
    other = ENVIRONMENT_EXAMPLE.replace("environment: place", "environment: elsewhere").replace(
        "  place: {", "  elsewhere: {"
    )
    assert step_of(other).key == step_of(ENVIRONMENT_EXAMPLE).key


def test_a_stage_that_does_not_act_has_nothing_of_it() -> None:
    params: Any = step_of(ENVIRONMENT_EXAMPLE, "sft").params
    assert "environment" not in params
    assert "hosting" not in params


def changed_params(first: Step, second: Step) -> set[str]:
    names = {*first.key_parts, *second.key_parts}
    return {name for name in names if first.key_parts.get(name) != second.key_parts.get(name)}
