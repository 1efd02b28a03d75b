"""Checks that chat templates read the tools of the rows, and the arguments of stages and models."""

import re
from collections.abc import Iterable, Iterator, Mapping

from posttrain.compiler.data.datasets import CompiledDataset
from posttrain.compiler.data.table_schema import TableSchema
from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.diagnosis.minimal_recipe import minimal_recipe
from posttrain.compiler.model_templates import ChosenTemplate, template_text
from posttrain.compiler.resolution.lineage import Lineage
from posttrain.compiler.resolution.name_resolution import ResolvedRecipe
from posttrain.compiler.stages.read_tables import read_tables
from posttrain.compiler.text.compile_request import ReadFile
from posttrain.spec.artifact_stages import Generate
from posttrain.spec.diagnostic import Code
from posttrain.spec.eval_stages import Evaluate
from posttrain.spec.model_declaration import Model
from posttrain.spec.record import record
from posttrain.spec.suggestions import hint
from posttrain.spec.train_stage import Train

_MODEL = "tokenizer: {init: characters}"
_TOOLS = ("- split:", "- derive: {tools: \"'[]'\"}\n      - split:")
IGNORED_TEMPLATE_ARGUMENT = Code(
    "PT0819",
    "argument that the chat template ignores",
    "error",
    "A chat template gets the functions in the column `tools`, and the arguments in `chat_template_kwargs` of"
    " stages and models. A"
    " template that does not read one of them ignores it in silence: the model would never see the tools, or"
    " think although the recipe turns it off. The templates `chatml`, `qwen`, `llama3` and `mistral` render"
    " tools. The template of a pretrained model is checked when the step has loaded it.",
    wrong=minimal_recipe((_MODEL, _MODEL + "\n    chat_template: zephyr"), _TOOLS),
    right=minimal_recipe((_MODEL, _MODEL + "\n    chat_template: chatml"), _TOOLS),
)
CODES = (IGNORED_TEMPLATE_ARGUMENT,)
_COMMENT = re.compile(r"\{#.*?#\}", re.DOTALL)
_WORD = re.compile(r"[A-Za-z_]\w*")
_Stage = Train | Evaluate | Generate


@record
class KnownTemplate:
    """A template whose text the recipe determines."""

    model: str
    # What a message calls it.
    label: str
    names: frozenset[str]
    renders_tools: bool


def known_templates(
    resolved: ResolvedRecipe, chosen: Mapping[str, ChosenTemplate], read: ReadFile
) -> dict[str, KnownTemplate]:
    """The templates that the recipe determines, by model."""
    found = (
        _known_template(name, model, chosen.get(name), read) for name, model in resolved.recipe.models.items()
    )
    return {one.model: one for one in found if one is not None}


def check_ignored_template_arguments(
    resolved: ResolvedRecipe,
    rows: Mapping[str, CompiledDataset],
    lineages: Mapping[str, Lineage],
    known: Mapping[str, KnownTemplate],
    diagnostics: Diagnostics,
) -> None:
    for name, template in known.items():
        arguments = resolved.recipe.models[name].chat_template_kwargs
        _check_arguments(("models", name), arguments, template, diagnostics)
    for name, stage in resolved.recipe.stages.items():
        if not isinstance(stage, _Stage) or stage.prompts == "plain":
            continue
        for template in _templates(f"stage:{name}", resolved, lineages, known):
            _check_tools(name, template, resolved, rows, diagnostics)
            _check_arguments(("stages", name), stage.chat_template_kwargs, template, diagnostics)


def _templates(
    owner: str,
    resolved: ResolvedRecipe,
    lineages: Mapping[str, Lineage],
    known: Mapping[str, KnownTemplate],
) -> Iterator[KnownTemplate]:
    """Yield the known templates of the models that a stage trains or asks."""
    for (node, role), ref in resolved.refs.items():
        line = lineages.get(ref.product)
        if node != owner or role.partition(":")[0] != "model" or line is None or line.origin is None:
            continue
        if line.origin in known:
            yield known[line.origin]


def _known_template(
    name: str, model: Model, chosen: ChosenTemplate | None, read: ReadFile
) -> KnownTemplate | None:
    if model.tags is not None:
        return KnownTemplate(name, "the template of `tags`", frozenset(), renders_tools=False)
    # The template of a tokenizer takes precedence over a fallback, and is not known here.
    builtin = chosen.template if chosen is not None and not chosen.fallback else None
    text = builtin.text if builtin is not None else template_text(model, read)
    if text is None:
        return None
    names = frozenset(_WORD.findall(_COMMENT.sub("", text)))
    tools = builtin.renders_tools if builtin is not None else "tools" in names
    label = f"the template `{builtin.name if builtin is not None else model.chat_template}`"
    return KnownTemplate(name, label, names, renders_tools=tools)


def _check_tools(
    name: str,
    template: KnownTemplate,
    resolved: ResolvedRecipe,
    rows: Mapping[str, CompiledDataset],
    diagnostics: Diagnostics,
) -> None:
    if template.renders_tools:
        return
    for _, table, path in read_tables(name, resolved, rows):
        if "tools" in table.columns and not _is_always_null(table, "tools"):
            message = f"{template.label} of `{template.model}` does not render the column `tools`"
            help = (
                "use the template of a family with tools (chatml, qwen, llama3, mistral), render `tools` in"
                " the template, or remove the column with the data step `select`"
            )
            diagnostics.add(IGNORED_TEMPLATE_ARGUMENT, path, message, help=help)


def _check_arguments(
    owner: tuple[str, str], arguments: Iterable[str], template: KnownTemplate, diagnostics: Diagnostics
) -> None:
    for argument in arguments:
        if argument not in template.names:
            message = f"{template.label} of `{template.model}` does not read `{argument}`"
            help, meant = hint(argument, sorted(template.names), what="names in it")
            if meant is None:
                help = "remove the argument, or read it in the template"
            path = (*owner, "chat_template_kwargs", argument)
            diagnostics.add(IGNORED_TEMPLATE_ARGUMENT, path, message, help=help)


def _is_always_null(table: TableSchema, column: str) -> bool:
    nulls = table.null_counts.get(column)
    return nulls is not None and nulls.null_rows >= nulls.rows_checked and table.rows is not None
