"""Checks what chat templates get besides messages: the columns `tools` and `chat_template_kwargs`, and the
`chat_template_kwargs` of a stage."""

from collections.abc import Iterator, Mapping

from posttrain.compiler.checks.reserved_trl_nested_args import nested_recipe_equivalent
from posttrain.compiler.data.datasets import CompiledDataset, table_of
from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.diagnosis.minimal_recipe import MINIMAL_RECIPE, minimal_recipe
from posttrain.compiler.resolution.name_resolution import ResolvedRecipe
from posttrain.spec.artifact_stages import Generate
from posttrain.spec.chat_templates.reserved_arguments import SPECIAL_TOKENS
from posttrain.spec.column_types import Columns
from posttrain.spec.diagnostic import Code
from posttrain.spec.eval_stages import Evaluate
from posttrain.spec.train_stage import Train

BAD_TEMPLATE_ARGUMENT = Code(
    "PT0422",
    "invalid argument of the chat template",
    "error",
    "Chat templates get the messages of a row, the functions in its column `tools` (JSON text, or a list of"
    " JSON schemas), and the arguments in its column `chat_template_kwargs` and in `chat_template_kwargs` of"
    " the stage. posttrain sets the arguments that determine what is rendered. Plain text and dialogues have"
    " no such arguments.",
    wrong=minimal_recipe(("- split:", '- derive: {tools: "1"}\n      - split:')),
    right=MINIMAL_RECIPE,
)
CODES = (BAD_TEMPLATE_ARGUMENT,)
_COLUMN_TYPES: Mapping[str, tuple[str, ...]] = {
    "tools": ("text", "any", "list<any>", "list<text>"),
    "chat_template_kwargs": ("text", "any"),
}
_FORMS = {
    "tools": "a list of JSON schemas of functions, or its JSON text",
    "chat_template_kwargs": "a mapping, or its JSON text",
}
_OWN_PLACES = {
    "messages": "the rows have the messages",
    **dict.fromkeys(SPECIAL_TOKENS, "the tokenizer defines it"),
    "tools": "put the functions into the column `tools` of the data",
    "documents": "posttrain does not render documents: put them into the messages",
}


def check_template_arguments(
    resolved: ResolvedRecipe, rows: Mapping[str, CompiledDataset], diagnostics: Diagnostics
) -> None:
    for name, stage in resolved.recipe.stages.items():
        if not isinstance(stage, Train | Evaluate | Generate):
            continue
        ref = resolved.refs.get((f"stage:{name}", "data"))
        table = table_of(ref, rows, resolved) if ref else None
        columns = table.columns if table is not None else {}
        plain = stage.prompts == "plain" and "messages" not in columns.values()
        problems = (*_stage_problems(stage, plain=plain), *_column_problems(stage, columns, plain=plain))
        for path, message, help in problems:
            diagnostics.add(BAD_TEMPLATE_ARGUMENT, ("stages", name, *path), message, help=help)


_Problem = tuple[tuple[str, ...], str, str]


def _stage_problems(stage: Train | Evaluate | Generate, *, plain: bool) -> Iterator[_Problem]:
    key = "chat_template_kwargs"
    for argument in stage.chat_template_kwargs:
        instead = _OWN_PLACES.get(argument) or nested_recipe_equivalent(key, argument)
        if instead is not None:
            yield (key, argument), f"`{argument}` cannot be set here", instead
    if stage.chat_template_kwargs and plain:
        yield (key,), "plain prompts have no chat template", "remove the key, or set `prompts: chat`"
    if stage.chat_template_kwargs and isinstance(stage, Generate) and stage.dialogue is not None:
        yield (key,), "a dialogue has no arguments of the chat template", "remove the key"


def _column_problems(
    stage: Train | Evaluate | Generate, columns: Columns, *, plain: bool
) -> Iterator[_Problem]:
    dialogue = isinstance(stage, Generate) and stage.dialogue is not None
    for column, types in _COLUMN_TYPES.items():
        if column not in columns:
            continue
        if columns[column] not in types:
            message = f"the column `{column}` is {columns[column]}, not {_FORMS[column]}"
            yield ("data",), message, "correct the column, or rename it if it means something else"
        elif dialogue:
            message = f"a dialogue would ignore the column `{column}`"
            yield ("data",), message, "remove it with the data step `select`"
        elif plain:
            message = f"`prompts: plain` would ignore the column `{column}`, which only chat templates read"
            yield ("data",), message, "remove it with the data step `select`, or set `prompts: chat`"
