"""Models in folders beside the recipe: which of their files are the model, each held to its digest."""

import json
import posixpath

from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.diagnosis.minimal_recipe import minimal_recipe
from posttrain.compiler.facts.model_shapes import Shape
from posttrain.compiler.text.compile_request import CompileRequest
from posttrain.compiler.text.yaml_tree import KeyPath
from posttrain.compiler.user_files import user_file
from posttrain.spec.diagnostic import Code
from posttrain.spec.plan import UserFile

_EXAMPLE_INIT = (
    "    init: {model_type: qwen2, num_hidden_layers: 2, hidden_size: 64, num_attention_heads: 4}\n"
)
NO_WEIGHTS = Code(
    "PT0806",
    "a folder that holds no model",
    "error",
    "A model's folder beside the recipe holds `config.json` and its weights as safetensors: in"
    " `model.safetensors`, or in the files that `model.safetensors.index.json` names. Other formats of"
    " weights can run code when they are loaded, and are not taken.",
    wrong=minimal_recipe((_EXAMPLE_INIT, "    from: ./mine\n")),
    right=minimal_recipe((_EXAMPLE_INIT, "    from: ./whole\n")),
    files=(
        ("mine/config.json", "{}"),
        ("whole/config.json", "{}"),
        ("whole/model.safetensors", "(weights)"),
    ),
)
AMBIGUOUS_HUB_NAME = Code(
    "PT0815",
    "a hub name that is a folder here too",
    "warning",
    "`from: models/mine` is the repository `mine` of `models` on the hub. A folder beside the recipe begins"
    " with `./`, so that the same words never mean another thing on another machine.",
    wrong=minimal_recipe((_EXAMPLE_INIT, "    from: models/mine\n")),
    right=minimal_recipe((_EXAMPLE_INIT, "    from: ./models/mine\n")),
    files=(("models/mine/config.json", "{}"), ("models/mine/model.safetensors", "(weights)")),
)
CODES = (NO_WEIGHTS, AMBIGUOUS_HUB_NAME)
# The part of a step's roles for files under which they stand.
ROLE_PREFIX = "model/"
_INDEX_FILE, _SINGLE_FILE = "model.safetensors.index.json", "model.safetensors"
_OPTIONAL_FILES = (
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "tokenizer.model",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "chat_template.jinja",
)


def is_folder(origin: str) -> bool:
    """Whether a model's origin is a folder beside the recipe, and no name on the hub."""
    return origin.startswith((".", "/"))


def check_hub_name(origin: str, path: KeyPath, request: CompileRequest, diagnostics: Diagnostics) -> None:
    """Whether a folder of this name stands beside the recipe, and may have been meant."""
    if request.read(posixpath.join(origin, "config.json")) is not None:
        message = f"`{origin}` is a name on the hub, and beside the recipe stands a folder of that name"
        diagnostics.add(
            AMBIGUOUS_HUB_NAME, path, message, help=f"the folder is ./{origin}", replace=f"./{origin}"
        )


def model_folder_files(
    origin: str, path: KeyPath, request: CompileRequest, diagnostics: Diagnostics
) -> dict[str, UserFile]:
    """The files of the model, by role; what is missing is reported."""
    found: dict[str, UserFile] = {}
    config = user_file(posixpath.join(origin, "config.json"), path, request.read, diagnostics)
    if config is None:
        return {}
    found[f"{ROLE_PREFIX}config.json"] = config[0]
    weights = _weight_files(origin, request)
    for name in (*(weights or ()), *_OPTIONAL_FILES):
        where = posixpath.normpath(posixpath.join(origin, name))
        digest = request.file_digest(where)
        if digest is not None:
            found[f"{ROLE_PREFIX}{name}"] = UserFile(path=where, sha256=digest)
    missing = [name for name in weights or (_SINGLE_FILE,) if f"{ROLE_PREFIX}{name}" not in found]
    if missing:
        message = f"`{origin}` holds no `{missing[0]}`"
        diagnostics.add(NO_WEIGHTS, path, message, help="save the model with safetensors' format")
    return found


def folder_model_shape(origin: str, request: CompileRequest) -> Shape | None:
    """The shape of the model, by its configuration."""
    from posttrain.compiler.facts.shape_from_config import shape_from_config

    config = request.read(posixpath.normpath(posixpath.join(origin, "config.json")))
    return None if config is None else shape_from_config(origin, config)


def _weight_files(origin: str, request: CompileRequest) -> list[str] | None:
    """The files of the weights: those of the index where there is one."""
    index = request.read(posixpath.normpath(posixpath.join(origin, _INDEX_FILE)))
    if index is None:
        return [_SINGLE_FILE]
    try:
        shards = {str(name) for name in json.loads(index)["weight_map"].values()}
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    plain = all(posixpath.basename(name) == name and name.endswith(".safetensors") for name in shards)
    return [_INDEX_FILE, *sorted(shards)] if plain and shards else None
