"""Models in folders beside the recipe: which of their files are the model, each held to its digest."""

import json
import posixpath

from posttrain.compiler.diagnosis.examples import minimal
from posttrain.compiler.diagnosis.findings import Findings
from posttrain.compiler.facts.shapes import Shape
from posttrain.compiler.files import user_file
from posttrain.compiler.text.source import Request
from posttrain.compiler.text.tree import Path
from posttrain.spec.diagnostic import Code
from posttrain.spec.plan import UserFile

_INIT = "    init: {family: qwen2, layers: 2, hidden: 64, heads: 4}\n"
NO_WEIGHTS = Code(
    "PT0806",
    "a folder that holds no model",
    "error",
    "A model's folder beside the recipe holds `config.json` and its weights as safetensors: in"
    " `model.safetensors`, or in the files that `model.safetensors.index.json` names. Other formats of"
    " weights can run code when they are loaded, and are not taken.",
    wrong=minimal((_INIT, "    from: ./mine\n")),
    right=minimal((_INIT, "    from: ./whole\n")),
    beside=(
        ("mine/config.json", "{}"),
        ("whole/config.json", "{}"),
        ("whole/model.safetensors", "(weights)"),
    ),
)
ALSO_HERE = Code(
    "PT0815",
    "a hub name that is a folder here too",
    "warning",
    "`from: models/mine` is the repository `mine` of `models` on the hub. A folder beside the recipe begins"
    " with `./`, so that the same words never mean another thing on another machine.",
    wrong=minimal((_INIT, "    from: models/mine\n")),
    right=minimal((_INIT, "    from: ./models/mine\n")),
    beside=(("models/mine/config.json", "{}"), ("models/mine/model.safetensors", "(weights)")),
)
CODES = (NO_WEIGHTS, ALSO_HERE)
# The part of a step's roles for files under which they stand.
ROLE = "model/"
_INDEX, _WHOLE = "model.safetensors.index.json", "model.safetensors"
_MAY_BE_THERE = (
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


def check_hub_name(origin: str, path: Path, request: Request, findings: Findings) -> None:
    """Whether a folder of this name stands beside the recipe, and may have been meant."""
    if request.read(posixpath.join(origin, "config.json")) is not None:
        message = f"`{origin}` is a name on the hub, and beside the recipe stands a folder of that name"
        findings.add(ALSO_HERE, path, message, help=f"the folder is ./{origin}", replace=f"./{origin}")


def model_folder(origin: str, path: Path, request: Request, findings: Findings) -> dict[str, UserFile]:
    """The files of the model, by role; what is missing is reported."""
    found: dict[str, UserFile] = {}
    config = user_file(posixpath.join(origin, "config.json"), path, request.read, findings)
    if config is None:
        return {}
    found[f"{ROLE}config.json"] = config[0]
    weights = _weights(origin, request)
    for name in (*(weights or ()), *_MAY_BE_THERE):
        where = posixpath.normpath(posixpath.join(origin, name))
        digest = request.digest_of(where)
        if digest is not None:
            found[f"{ROLE}{name}"] = UserFile(path=where, sha256=digest)
    missing = [name for name in weights or (_WHOLE,) if f"{ROLE}{name}" not in found]
    if missing:
        message = f"`{origin}` holds no `{missing[0]}`"
        findings.add(NO_WEIGHTS, path, message, help="save the model with safetensors' format")
    return found


def shape(origin: str, request: Request) -> Shape | None:
    """The shape of the model, by its configuration."""
    from posttrain.compiler.facts.published import shape_of_config

    config = request.read(posixpath.normpath(posixpath.join(origin, "config.json")))
    return None if config is None else shape_of_config(origin, config)


def _weights(origin: str, request: Request) -> list[str] | None:
    """The files of the weights: those of the index where there is one."""
    index = request.read(posixpath.normpath(posixpath.join(origin, _INDEX)))
    if index is None:
        return [_WHOLE]
    try:
        shards = {str(name) for name in json.loads(index)["weight_map"].values()}
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    plain = all(posixpath.basename(name) == name and name.endswith(".safetensors") for name in shards)
    return [_INDEX, *sorted(shards)] if plain and shards else None
