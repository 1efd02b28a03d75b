"""Checks of declared models: their origin, architecture, tokenizer and user files."""

from collections.abc import Mapping

from posttrain.compiler import model_decoding, model_folders, model_support, model_vocabulary
from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.diagnosis.minimal_recipe import MINIMAL_INIT, MINIMAL_RECIPE, minimal_recipe
from posttrain.compiler.facts.published_shapes import find_shape
from posttrain.compiler.model_templates import ChosenTemplate, template_file
from posttrain.compiler.resolution.name_resolution import ResolvedRecipe
from posttrain.compiler.text.compile_request import CompileRequest
from posttrain.compiler.text.yaml_tree import KeyPath
from posttrain.spec.architectures.model_shapes import Shape
from posttrain.spec.architectures.shape_from_init import init_model_types, shape_from_init
from posttrain.spec.diagnostic import Code
from posttrain.spec.model_declaration import Model
from posttrain.spec.origin_names import is_folder
from posttrain.spec.plan import UserFile
from posttrain.spec.suggestions import hint

NO_ORIGIN = Code(
    "PT0801",
    "missing or ambiguous model origin",
    "error",
    "A model either starts from random weights (`init`) or is loaded from the hub or a folder (`from`)."
    " Set exactly one of the two keys.",
    wrong=minimal_recipe((MINIMAL_INIT, "")),
    right=MINIMAL_RECIPE,
)
NO_TOKENIZER = Code(
    "PT0802",
    "missing tokenizer",
    "error",
    "A model with random weights has no tokenizer of its own. Build one with `tokenizer: {init:"
    " characters}`, or load one with `tokenizer: {from: ORG/NAME}`.",
    wrong=minimal_recipe(("    tokenizer: {init: characters}\n", "")),
    right=MINIMAL_RECIPE,
)
BAD_SHAPE = Code(
    "PT0803",
    "invalid model dimensions",
    "error",
    "`hidden_size` must be a multiple of `num_attention_heads`, and `num_attention_heads` a multiple of"
    " `num_key_value_heads`.",
    wrong=minimal_recipe(("heads: 4}", "heads: 5}")),
    right=MINIMAL_RECIPE,
)
UNKNOWN_FAMILY = Code(
    "PT0804",
    "unknown architecture",
    "error",
    "`model_type` names the architecture of a model with random weights, as transformers does.",
    wrong=minimal_recipe(("model_type: qwen2", "model_type: qwen22")),
    right=MINIMAL_RECIPE,
)
TWO_TEMPLATES = Code(
    "PT0805",
    "conflicting chat templates",
    "error",
    "`chat_template` names a template, and `tags` generates one. A model takes one of them.",
    wrong=minimal_recipe(
        (
            "tokenizer: {init: characters}",
            "tokenizer: {init: characters}\n    chat_template: chat.jinja\n    tags: {answer: [<a>, </a>]}",
        )
    ),
    right=minimal_recipe(
        ("tokenizer: {init: characters}", "tokenizer: {init: characters}\n    tags: {answer: [<a>, </a>]}")
    ),
    files=(("chat.jinja", "{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}"),),
)
CODES = (
    NO_ORIGIN,
    NO_TOKENIZER,
    BAD_SHAPE,
    UNKNOWN_FAMILY,
    TWO_TEMPLATES,
    *model_folders.CODES,
    *model_decoding.CODES,
    *model_support.CODES,
)
ModelFiles = Mapping[str, UserFile]


def model_shapes(
    resolved: ResolvedRecipe, templates: Mapping[str, ChosenTemplate], request: CompileRequest
) -> dict[str, Shape]:
    """The model shapes that are known before the run."""
    shapes = {
        name: _model_shape(model, templates.get(name), request)
        for name, model in resolved.recipe.models.items()
    }
    return {name: shape for name, shape in shapes.items() if shape is not None}


def _model_shape(model: Model, chosen: ChosenTemplate | None, request: CompileRequest) -> Shape | None:
    if model.from_ is not None:
        return model_vocabulary.with_added_tokens(_published_shape(model.from_, request), model, request)
    init, tokenizer = model.init, model.tokenizer
    if init is None or tokenizer is None:
        return None
    template = chosen.template if chosen is not None else None
    vocabulary = model_vocabulary.tokenizer_size(tokenizer, template, request)
    if vocabulary is None:
        return None
    return shape_from_init(
        init.model_type,
        layers=init.num_hidden_layers,
        hidden=init.hidden_size,
        heads=init.num_attention_heads,
        kv_heads=init.num_key_value_heads,
        intermediate=init.intermediate_size,
        context=init.max_position_embeddings,
        tied=init.tie_word_embeddings,
        vocab=vocabulary,
    )


def _published_shape(origin: str, request: CompileRequest) -> Shape | None:
    if is_folder(origin):
        return model_folders.folder_model_shape(origin, request)
    return find_shape(origin)


def check_models(
    resolved: ResolvedRecipe, request: CompileRequest, diagnostics: Diagnostics
) -> dict[str, ModelFiles]:
    """The user files of every model, by role."""
    found: dict[str, ModelFiles] = {}
    for name, model in resolved.recipe.models.items():
        path = ("models", name)
        if (model.init is None) == (model.from_ is None):
            message = f"the model `{name}` needs exactly one of `init` and `from`"
            diagnostics.add(NO_ORIGIN, path, message, key=True)
        elif model.init is not None and not _has_tokenizer(model):
            message = f"the model `{name}` has random weights and no tokenizer"
            diagnostics.add(NO_TOKENIZER, path, message, key=True, help="add `tokenizer: {init: characters}`")
        if model.init is not None:
            _check_shape(name, resolved, diagnostics)
        files: dict[str, UserFile] = {}
        if model.chat_template is not None:
            template = template_file(model.chat_template, (*path, "chat_template"), request, diagnostics)
            if template is not None:
                files["chat_template"] = template
        if model.chat_template is not None and model.tags is not None:
            message = f"the model `{name}` has both `chat_template` and `tags`"
            diagnostics.add(TWO_TEMPLATES, (*path, "tags"), message, key=True, help="remove one of them")
        if model.from_ is not None:
            files |= _check_origin(model.from_, (*path, "from"), request, diagnostics)
        if model.tokenizer is not None and model.tokenizer.from_ is not None:
            where = (*path, "tokenizer", "from")
            files |= _check_tokenizer_origin(model.tokenizer.from_, where, request, diagnostics)
        found[name] = files
    return found


def _has_tokenizer(model: Model) -> bool:
    tokenizer = model.tokenizer
    return tokenizer is not None and (tokenizer.init is not None or tokenizer.from_ is not None)


def _check_origin(
    origin: str, path: KeyPath, request: CompileRequest, diagnostics: Diagnostics
) -> ModelFiles:
    """Check a model of the hub or of a folder. Return its user files by role."""
    model_support.check_supported(origin, path, request, diagnostics)
    if not is_folder(origin):
        model_folders.check_hub_name(origin, path, request, diagnostics)
        return {}
    model_decoding.check_generation_config(origin, path, request, diagnostics)
    return model_folders.model_folder_files(origin, path, request, diagnostics)


def _check_tokenizer_origin(
    origin: str, path: KeyPath, request: CompileRequest, diagnostics: Diagnostics
) -> ModelFiles:
    """Check a tokenizer of the hub or of a folder. Return its user files by role."""
    if not is_folder(origin):
        model_folders.check_hub_name(origin, path, request, diagnostics)
        return {}
    return model_folders.tokenizer_folder_files(origin, path, request, diagnostics)


def _check_shape(name: str, resolved: ResolvedRecipe, diagnostics: Diagnostics) -> None:
    shape = resolved.recipe.models[name].init
    assert shape is not None, "the model has `init`"
    path = ("models", name, "init")
    if shape.model_type not in init_model_types():
        help, meant = hint(shape.model_type, init_model_types(), what="architectures")
        message = f"unknown architecture `{shape.model_type}`"
        diagnostics.add(UNKNOWN_FAMILY, (*path, "model_type"), message, help=help, replace=meant)
    if shape.hidden_size % shape.num_attention_heads:
        message = (
            f"hidden_size ({shape.hidden_size}) is not a multiple of num_attention_heads"
            f" ({shape.num_attention_heads})"
        )
        diagnostics.add(BAD_SHAPE, (*path, "num_attention_heads"), message)
    if shape.num_key_value_heads is not None and shape.num_attention_heads % shape.num_key_value_heads:
        message = (
            f"num_attention_heads ({shape.num_attention_heads}) is not a multiple of"
            f" num_key_value_heads ({shape.num_key_value_heads})"
        )
        diagnostics.add(BAD_SHAPE, (*path, "num_key_value_heads"), message)
