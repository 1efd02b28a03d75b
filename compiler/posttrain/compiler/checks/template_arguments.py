"""Checks what chat templates get besides messages: the columns `tools` and `chat_template_kwargs`, and the
`chat_template_kwargs` of a stage or a model."""

from collections.abc import Iterable, Iterator, Mapping
from keyword import iskeyword

from posttrain.compiler.checks.reserved_trl_nested_args import nested_recipe_equivalent
from posttrain.compiler.data.datasets import CompiledDataset, table_of
from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.diagnosis.minimal_recipe import MINIMAL_RECIPE, minimal_recipe
from posttrain.compiler.model_templates import ChosenTemplate
from posttrain.compiler.resolution.name_resolution import ResolvedRecipe
from posttrain.spec.artifact_stages import Generate
from posttrain.spec.chat_templates.reserved_arguments import SPECIAL_TOKENS
from posttrain.spec.column_types import Columns
from posttrain.spec.diagnostic import Code
from posttrain.spec.eval_stages import Evaluate
from posttrain.spec.model_declaration import Model
from posttrain.spec.train_stage import Train

BAD_TEMPLATE_ARGUMENT = Code(
    "PT0422",
    "invalid argument of the chat template",
    "error",
    "Chat templates get the messages of a row, the functions in its column `tools` (JSON text, or a list of"
    " JSON schemas), and the arguments in its column `chat_template_kwargs` and in `chat_template_kwargs` of"
    " the stage and of the model. posttrain sets the arguments that determine what is rendered. Plain text"
    " has no such arguments, and dialogues have only those of the models.",
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


_KEY = "chat_template_kwargs"
_LITERALS = ("true", "false", "none")
_Problem = tuple[tuple[str, ...], str, str]


def check_template_arguments(
    resolved: ResolvedRecipe,
    rows: Mapping[str, CompiledDataset],
    templates: Mapping[str, ChosenTemplate],
    diagnostics: Diagnostics,
) -> None:
    for name, model in resolved.recipe.models.items():
        for path, message, help in _model_problems(model, has_builtin=name in templates):
            diagnostics.add(BAD_TEMPLATE_ARGUMENT, ("models", name, *path), message, help=help)
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


def _model_problems(model: Model, *, has_builtin: bool) -> Iterator[_Problem]:
    yield from _argument_problems(model.chat_template_kwargs)
    for argument in model.chat_template_kwargs:
        if not argument.isidentifier() or iskeyword(argument) or argument in _LITERALS:
            message = f"`{argument}` is no variable of a chat template"
            yield (_KEY, argument), message, "correct the name of the argument"
    declared = has_builtin or model.chat_template is not None or model.tags is not None
    own = model.init is None or (model.tokenizer is not None and model.tokenizer.from_ is not None)
    if model.chat_template_kwargs and not declared and not own:
        message = "the model has no chat template, because no stage uses it for conversations"
        yield (_KEY,), message, "set `chat_template` of the model, such as chatml, or remove the key"


def _argument_problems(arguments: Iterable[str]) -> Iterator[_Problem]:
    for argument in arguments:
        instead = _OWN_PLACES.get(argument) or nested_recipe_equivalent(_KEY, argument)
        if instead is not None:
            yield (_KEY, argument), f"`{argument}` cannot be set here", instead


def _stage_problems(stage: Train | Evaluate | Generate, *, plain: bool) -> Iterator[_Problem]:
    yield from _argument_problems(stage.chat_template_kwargs)
    if stage.chat_template_kwargs and plain:
        yield (_KEY,), "plain prompts have no chat template", "remove the key, or set `prompts: chat`"
    if stage.chat_template_kwargs and isinstance(stage, Generate) and stage.dialogue is not None:
        message = "a dialogue has no arguments of the chat template of its own"
        yield (_KEY,), message, f"set `{_KEY}` of the models"


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
