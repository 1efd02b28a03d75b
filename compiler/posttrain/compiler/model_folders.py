"""Models in local folders: selects the files of a model and computes their digests."""

import posixpath
from collections.abc import Iterable
from typing import Any, cast

from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.diagnosis.minimal_recipe import MINIMAL_INIT, minimal_recipe
from posttrain.compiler.model_json import model_file, read_model_json
from posttrain.compiler.text.compile_request import CompileRequest
from posttrain.compiler.text.yaml_tree import KeyPath
from posttrain.compiler.user_files import FILE_NOT_FOUND, describe_missing_file, user_file
from posttrain.spec.architectures.model_shapes import Shape
from posttrain.spec.diagnostic import Code
from posttrain.spec.model_files import MAX_FILE_BYTES
from posttrain.spec.plan import UserFile

NO_WEIGHTS = Code(
    "PT0806",
    "incomplete model folder",
    "error",
    "A local model folder contains `config.json` and the weights as safetensors: in `model.safetensors`,"
    " or in the files that `model.safetensors.index.json` lists. Other weight formats can execute code when"
    " they are loaded, so they are not accepted.",
    wrong=minimal_recipe((MINIMAL_INIT, "    from: ./mine\n")),
    right=minimal_recipe((MINIMAL_INIT, "    from: ./whole\n")),
    files=(
        ("mine/config.json", "{}"),
        ("whole/config.json", "{}"),
        ("whole/model.safetensors", "(weights)"),
    ),
)
AMBIGUOUS_HUB_NAME = Code(
    "PT0815",
    "ambiguous hub name",
    "warning",
    "`from: models/mine` is the repository `mine` of `models` on the hub, even if a local folder has the same"
    " path. The path of a local folder starts with `./`, so that a recipe means the same on every machine.",
    wrong=minimal_recipe((MINIMAL_INIT, "    from: models/mine\n")),
    right=minimal_recipe((MINIMAL_INIT, "    from: ./models/mine\n")),
    files=(("models/mine/config.json", "{}"), ("models/mine/model.safetensors", "(weights)")),
)
CODES = (NO_WEIGHTS, AMBIGUOUS_HUB_NAME)
# The prefixes of the roles of these files in a step.
ROLE_PREFIX, TOKENIZER_PREFIX = "model/", "tokenizer/"
_INDEX_FILE, _SINGLE_FILE = "model.safetensors.index.json", "model.safetensors"
_VOCABULARY_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json")
_TOKENIZER_FILES = (
    *_VOCABULARY_FILES,
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "merges.txt",
    "chat_template.jinja",
)
_OPTIONAL_FILES = ("generation_config.json", *_TOKENIZER_FILES)


def check_hub_name(origin: str, path: KeyPath, request: CompileRequest, diagnostics: Diagnostics) -> None:
    """Warn if a hub name is also the path of a local model folder."""
    names = ("config.json", "tokenizer.json")
    if any(request.file_prefix(model_file(origin, name), 1) is not None for name in names):
        message = f"`{origin}` is a name on the hub, but a local folder has the same path"
        help = f"write ./{origin} for the local folder"
        diagnostics.add(AMBIGUOUS_HUB_NAME, path, message, help=help, replace=f"./{origin}")


def model_folder_files(
    origin: str, path: KeyPath, request: CompileRequest, diagnostics: Diagnostics
) -> dict[str, UserFile]:
    """The files of the model, by role; missing files are reported."""
    files: dict[str, UserFile] = {}
    for name in ("config.json", _INDEX_FILE):
        most = MAX_FILE_BYTES[name]
        where = posixpath.normpath(posixpath.join(origin, name))
        if len(request.file_prefix(where, most + 1) or b"") > most:
            message = f"`{where}` has more than {most // 2**20} MiB, so it is not a file of a model"
            diagnostics.add(NO_WEIGHTS, path, message, help="check what the file contains")
            return {}
    config = user_file(posixpath.join(origin, "config.json"), path, request, diagnostics)
    if config is None:
        return {}
    files[f"{ROLE_PREFIX}config.json"] = config[0]
    weights = _weight_files(origin, request)
    others = _files_of(origin, (*(weights or ()), *_OPTIONAL_FILES), path, request, diagnostics)
    if others is None:
        return {}
    files |= {f"{ROLE_PREFIX}{name}": file for name, file in others.items()}
    missing = [name for name in weights or (_SINGLE_FILE,) if f"{ROLE_PREFIX}{name}" not in files]
    if missing:
        message = f"the folder `{origin}` has no file `{missing[0]}`"
        diagnostics.add(NO_WEIGHTS, path, message, help="save the model in the safetensors format")
    return files


def tokenizer_folder_files(
    origin: str, path: KeyPath, request: CompileRequest, diagnostics: Diagnostics
) -> dict[str, UserFile]:
    """The files of the tokenizer, by role; missing files are reported."""
    files = _files_of(origin, _TOKENIZER_FILES, path, request, diagnostics)
    if files is None:
        return {}
    if not files.keys() & set(_VOCABULARY_FILES):
        message = f"the folder `{origin}` has no file `tokenizer.json`"
        diagnostics.add(
            FILE_NOT_FOUND, path, message, help="save the tokenizer there, with `save_pretrained`"
        )
    return {f"{TOKENIZER_PREFIX}{name}": file for name, file in files.items()}


def _files_of(
    origin: str, names: Iterable[str], path: KeyPath, request: CompileRequest, diagnostics: Diagnostics
) -> dict[str, UserFile] | None:
    """The files of these names that a folder has; None after an error."""
    files: dict[str, UserFile] = {}
    for name in names:
        where = model_file(origin, name)
        digest = request.file_digest(where)
        if digest is not None:
            files[name] = UserFile(path=where, sha256=digest)
        elif request.problem_with(where) is not None:  # as in the cache of the hub, whose files are links
            message, help = describe_missing_file(where, where, request)
            diagnostics.add(FILE_NOT_FOUND, path, message, help=help)
            return None
    return files


def folder_model_shape(origin: str, request: CompileRequest) -> Shape | None:
    """The shape of the model, from its `config.json`."""
    from posttrain.compiler.facts.shape_from_config import shape_from_config

    return shape_from_config(origin, read_model_json(origin, "config.json", request))


def _weight_files(origin: str, request: CompileRequest) -> list[str] | None:
    """The weight files: those of the index if there is one; None if the index is invalid."""
    if request.file_prefix(model_file(origin, _INDEX_FILE), 1) is None:
        return [_SINGLE_FILE]
    index = read_model_json(origin, _INDEX_FILE, request)
    weights: Any = index.get("weight_map")
    if not isinstance(weights, dict):
        return None
    shards = {str(name) for name in cast("dict[str, Any]", weights).values()}
    plain = all(posixpath.basename(name) == name and name.endswith(".safetensors") for name in shards)
    return [_INDEX_FILE, *sorted(shards)] if plain and shards else None
