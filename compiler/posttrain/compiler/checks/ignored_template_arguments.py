"""Checks that chat templates read the tools of the rows, and the arguments that a stage gives them."""

import re
from collections.abc import Iterator, Mapping

from posttrain.compiler.data.datasets import CompiledDataset
from posttrain.compiler.data.table_schema import TableSchema
from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.diagnosis.minimal_recipe import minimal_recipe
from posttrain.compiler.model_templates import template_text
from posttrain.compiler.resolution.lineage import Lineage
from posttrain.compiler.resolution.name_resolution import ResolvedRecipe
from posttrain.compiler.stages.read_tables import read_tables
from posttrain.compiler.text.compile_request import ReadFile
from posttrain.spec.artifact_stages import Generate
from posttrain.spec.chat_templates.builtin_templates import BUILTIN_TEMPLATES
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
    "A chat template gets the functions in the column `tools`, and the arguments in `chat_template_kwargs`. A"
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
class _KnownTemplate:
    """A template whose text the recipe determines."""

    model: str
    # What a message calls it.
    label: str
    names: frozenset[str]
    renders_tools: bool


def check_ignored_template_arguments(
    resolved: ResolvedRecipe,
    rows: Mapping[str, CompiledDataset],
    lineages: Mapping[str, Lineage],
    read: ReadFile,
    diagnostics: Diagnostics,
) -> None:
    for name, stage in resolved.recipe.stages.items():
        if not isinstance(stage, _Stage) or stage.prompts == "plain":
            continue
        for template in _templates(f"stage:{name}", resolved, lineages, read):
            _check_tools(name, template, resolved, rows, diagnostics)
            _check_arguments(name, stage, template, diagnostics)


def _templates(
    owner: str, resolved: ResolvedRecipe, lineages: Mapping[str, Lineage], read: ReadFile
) -> Iterator[_KnownTemplate]:
    """Yield the known templates of the models that a stage trains or asks."""
    for (node, role), ref in resolved.refs.items():
        line = lineages.get(ref.product)
        if node != owner or role.partition(":")[0] != "model" or line is None or line.origin is None:
            continue
        known = _known_template(line.origin, resolved.recipe.models[line.origin], read)
        if known is not None:
            yield known


def _known_template(name: str, model: Model, read: ReadFile) -> _KnownTemplate | None:
    if model.tags is not None:
        return _KnownTemplate(name, "the template of `tags`", frozenset(), renders_tools=False)
    builtin = BUILTIN_TEMPLATES.get(model.chat_template or "")
    text = template_text(model, read)
    if text is None:
        return None
    names = frozenset(_WORD.findall(_COMMENT.sub("", text)))
    tools = builtin.renders_tools if builtin is not None else "tools" in names
    return _KnownTemplate(name, f"the template `{model.chat_template}`", names, renders_tools=tools)


def _check_tools(
    name: str,
    template: _KnownTemplate,
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


def _check_arguments(name: str, stage: _Stage, template: _KnownTemplate, diagnostics: Diagnostics) -> None:
    for argument in stage.chat_template_kwargs:
        if argument not in template.names:
            message = f"{template.label} of `{template.model}` does not read `{argument}`"
            help, meant = hint(argument, sorted(template.names), what="names in it")
            if meant is None:
                help = "remove the argument, or read it in the template"
            path = ("stages", name, "chat_template_kwargs", argument)
            diagnostics.add(IGNORED_TEMPLATE_ARGUMENT, path, message, help=help)


def _is_always_null(table: TableSchema, column: str) -> bool:
    nulls = table.null_counts.get(column)
    return nulls is not None and nulls.null_rows >= nulls.rows_checked and table.rows is not None
