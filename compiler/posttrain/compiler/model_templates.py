"""The chat template of each model: a file, a built-in one, or the default of a model with random weights."""

from collections.abc import Iterator, Mapping

from posttrain.compiler.data.datasets import CompiledDataset, table_of
from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.diagnosis.minimal_recipe import minimal_recipe
from posttrain.compiler.resolution.lineage import Lineage
from posttrain.compiler.resolution.name_resolution import ResolvedRecipe
from posttrain.compiler.text.compile_request import CompileRequest, ReadFile
from posttrain.compiler.text.yaml_tree import KeyPath
from posttrain.compiler.user_files import user_file
from posttrain.spec.artifact_stages import Generate
from posttrain.spec.chat_templates.builtin_templates import (
    BUILTIN_TEMPLATES,
    DEFAULT_TEMPLATE,
    BuiltinTemplate,
    is_template_file,
)
from posttrain.spec.diagnostic import Code
from posttrain.spec.eval_stages import Evaluate
from posttrain.spec.model_declaration import Model
from posttrain.spec.plan import UserFile
from posttrain.spec.record import record
from posttrain.spec.suggestions import hint
from posttrain.spec.train_stage import Train

_TOKENIZER = "tokenizer: {init: characters}"
UNKNOWN_TEMPLATE = Code(
    "PT0818",
    "unknown chat template",
    "error",
    "`chat_template` is the name of a built-in template, or a file of the recipe's folder that ends in"
    " `.jinja`. Without the key, a pretrained model has its own template.",
    wrong=minimal_recipe((_TOKENIZER, _TOKENIZER + "\n    chat_template: chat-ml")),
    right=minimal_recipe((_TOKENIZER, _TOKENIZER + "\n    chat_template: chatml")),
)
CODES = (UNKNOWN_TEMPLATE,)
# Names by which other tools mean the template of the model itself.
_OWN_TEMPLATE = ("default", "empty", "none", "auto", "tokenizer_default")


@record
class ChosenTemplate:
    """A built-in template, which the recipe names or the compiler chooses."""

    template: BuiltinTemplate
    # Whether the tokenizer's own template takes precedence.
    fallback: bool


def template_file(
    name: str, path: KeyPath, request: CompileRequest, diagnostics: Diagnostics
) -> UserFile | None:
    """The file of a chat template; None for a built-in one, or after a reported error."""
    if name in BUILTIN_TEMPLATES:
        return None
    if is_template_file(name):
        found = user_file(name, path, request, diagnostics)
        return found[0] if found is not None else None
    message, help, meant = _describe_unknown(name)
    diagnostics.add(UNKNOWN_TEMPLATE, path, message, help=help, replace=meant)
    return None


def _describe_unknown(name: str) -> tuple[str, str, str | None]:
    """The message, the help and the suggested value for a name that is neither a template nor a file."""
    if "{%" in name or "{{" in name:
        help = "save the template in a file in the recipe's folder, such as chat.jinja, and name the file"
        return "`chat_template` is the text of a template", help, None
    if "." in name or "/" in name:
        return f"`{name}` is not a chat template", "the file of a template ends in .jinja", None
    if name.lower().startswith(_OWN_TEMPLATE):
        help = "remove `chat_template`: a pretrained model has its own template"
        return f"there is no chat template `{name}`", help, None
    help, meant = hint(name, BUILTIN_TEMPLATES, what="built-in templates")
    return f"there is no chat template `{name}`", help, meant


def template_text(model: Model, read: ReadFile) -> str | None:
    """The text of the template that a model declares; None without one, or if its file cannot be read."""
    if model.chat_template is None:
        return None
    builtin = BUILTIN_TEMPLATES.get(model.chat_template)
    if builtin is not None:
        return builtin.text
    data = read(model.chat_template) if is_template_file(model.chat_template) else None
    return None if data is None else data.decode("utf-8", "replace")


def builtin_templates(
    resolved: ResolvedRecipe, rows: Mapping[str, CompiledDataset], lineages: Mapping[str, Lineage]
) -> dict[str, ChosenTemplate]:
    """The built-in templates of models, by model.

    A model with random weights that some stage uses for conversations has one by default.
    """
    found: dict[str, ChosenTemplate] = {}
    conversational = set(_conversational_models(resolved, rows, lineages))
    for name, model in resolved.recipe.models.items():
        builtin = BUILTIN_TEMPLATES.get(model.chat_template or "")
        if builtin is not None:
            found[name] = ChosenTemplate(builtin, False)
        elif model.init is not None and _has_no_template(model) and name in conversational:
            own = model.tokenizer is not None and model.tokenizer.init is None
            found[name] = ChosenTemplate(BUILTIN_TEMPLATES[DEFAULT_TEMPLATE], own)
    return found


def _has_no_template(model: Model) -> bool:
    return model.chat_template is None and model.tags is None


def _conversational_models(
    resolved: ResolvedRecipe, rows: Mapping[str, CompiledDataset], lineages: Mapping[str, Lineage]
) -> Iterator[str]:
    """The declared models from which a stage starts that reads conversations."""
    for (owner, role), ref in resolved.refs.items():
        thing, _, name = owner.partition(":")
        line = lineages.get(ref.node)
        if thing != "stage" or role.partition(":")[0] != "model" or line is None or line.origin is None:
            continue
        if _reads_conversations(name, owner, resolved, rows):
            yield line.origin


def _reads_conversations(
    name: str, owner: str, resolved: ResolvedRecipe, rows: Mapping[str, CompiledDataset]
) -> bool:
    stage = resolved.recipe.stages.get(name)
    if not isinstance(stage, Train | Evaluate | Generate):
        return False
    if stage.prompts == "chat" or (isinstance(stage, Generate) and stage.dialogue is not None):
        return True
    ref = resolved.refs.get((owner, "data"))
    table = table_of(ref, rows, resolved) if ref is not None else None
    if table is None:
        return False
    return any(table.columns.get(column) == "messages" for column in _read_columns(stage))


def _read_columns(stage: Train | Evaluate | Generate) -> tuple[str, ...]:
    """The columns that a stage may read as conversations."""
    return (
        ("prompt", "messages", "completion", "chosen", "rejected")
        if isinstance(stage, Train)
        else ("prompt",)
    )
