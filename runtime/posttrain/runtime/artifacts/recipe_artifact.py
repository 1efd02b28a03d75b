"""A recipe as an artifact: its files, its lock and its plan, one layer each.

The manifest depends on the contents and the relative paths only, so equal folders have equal digests.
"""

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from posttrain.runtime.artifacts import media_types
from posttrain.runtime.artifacts.artifact_paths import check_paths, shown
from posttrain.runtime.artifacts.packed_artifact import (
    PackedArtifact,
    bytes_blob,
    file_blob,
    file_layer,
)
from posttrain.runtime.registry.oci_manifest import (
    TITLE,
    ArtifactManifest,
    Descriptor,
    describe,
    parse_manifest,
)
from posttrain.runtime.registry.registry_errors import ContentError
from posttrain.spec.canonical_json import canonical_json
from posttrain.spec.document_json import DocumentError, parse_json_object
from posttrain.spec.record import record

PLAN_FILE = "plan.json"
# A repository of the Hub has the manifest there.
HUB_FOLDER = ".posttrain"
FORMAT = 1
MAX_FILES = 2000
MAX_CONFIG_BYTES = 1 << 16
# Of the text of a recipe, as in the compiler.
MAX_RECIPE_BYTES = 4 << 20
DEFAULT_MAX_MB = 256
_LAYER_TYPES = (media_types.RECIPE_FILE, media_types.RECIPE_LOCK, media_types.RECIPE_PLAN)
_PUBLISHER_ADVICE = "publish fewer or smaller files; large data belongs on the hub, named by the recipe"
_ADVICE = "do not use this artifact, or ask its publisher for another one"


@record(kw_only=True)
class RecipeContents:
    """What the manifest of a recipe says, after its check."""

    # The path of the recipe among the files.
    recipe: str
    files: Mapping[str, Descriptor]


def pack_recipe(
    folder: Path, recipe: str, files: Iterable[str], lock: str | None, plan: str
) -> PackedArtifact:
    """Pack the files of a recipe, by their paths below the folder, with its lock and its plan.

    Raises `ContentError` for a file that cannot be published.
    """
    names = sorted({recipe, *files} | ({lock} if lock else set()))
    if PLAN_FILE in names:
        raise ContentError(f"the recipe reads `{PLAN_FILE}`, the name of its plan", "rename the file")
    _check_names([*names, PLAN_FILE])
    blobs = {name: file_blob(folder / name) for name in names} | {PLAN_FILE: bytes_blob(plan.encode())}
    config = canonical_json({"format": FORMAT, "recipe": recipe}).encode()
    manifest = ArtifactManifest(
        artifact_type=media_types.RECIPE_ARTIFACT,
        config=describe(config, media_types.RECIPE_CONFIG),
        layers=tuple(file_layer(blob, _layer_type(name, lock), name) for name, blob in sorted(blobs.items())),
    )
    packed = PackedArtifact(manifest=manifest.to_bytes(), blobs=(bytes_blob(config), *blobs.values()))
    _check_limits(packed.manifest)
    return packed


def _check_limits(manifest: bytes) -> None:
    """Refuse what `recipe pull` would refuse."""
    try:
        parse_recipe_manifest(manifest, sys.maxsize)
    except ContentError as error:
        raise ContentError(f"it could not be pulled: {error}", _PUBLISHER_ADVICE) from None


def _check_names(names: list[str]) -> None:
    try:
        check_paths(names)
    except ContentError as error:
        raise ContentError(f"it could not be pulled: {error}", "rename the file") from None


def _layer_type(name: str, lock: str | None) -> str:
    if name == PLAN_FILE:
        return media_types.RECIPE_PLAN
    return media_types.RECIPE_LOCK if name == lock else media_types.RECIPE_FILE


def parse_recipe_manifest(data: bytes, max_bytes: int) -> tuple[RecipeContents, ArtifactManifest]:
    """Check the manifest of a recipe, without its configuration. Raises `ContentError`."""
    manifest = parse_manifest(data)
    if manifest.artifact_type != media_types.RECIPE_ARTIFACT:
        message = f"the artifact is no recipe: its type is {shown(manifest.artifact_type)}"
        raise ContentError(message, "check the address")
    if len(manifest.layers) > MAX_FILES:
        raise ContentError(f"the artifact has {len(manifest.layers)} files, more than {MAX_FILES}", _ADVICE)
    titles = [layer.annotations.get(TITLE, "") for layer in manifest.layers]
    check_paths(titles)
    if reserved := next((title for title in titles if title.partition("/")[0] == HUB_FOLDER), None):
        raise ContentError(f"the artifact has a file `{shown(reserved)}`, which has a reserved name", _ADVICE)
    for title, layer in zip(titles, manifest.layers, strict=True):
        if layer.media_type not in _LAYER_TYPES:
            what = f"`{shown(title)}` has the type {shown(layer.media_type)}"
            raise ContentError(f"{what}, which no file of a recipe has", _ADVICE)
        if Path(title).suffix in (".yaml", ".yml") and layer.size > MAX_RECIPE_BYTES:
            limit = f"{MAX_RECIPE_BYTES >> 20} MiB, the maximum for a recipe"
            raise ContentError(f"`{shown(title)}` is larger than {limit}", _ADVICE)
    total = sum(layer.size for layer in manifest.layers)
    if total > max_bytes:
        what = f"the files of the artifact have {total >> 20} MiB, more than {max_bytes >> 20} MiB"
        raise ContentError(what, "raise the limit with --max-mb if you expect this size")
    if manifest.config.media_type != media_types.RECIPE_CONFIG or manifest.config.size > MAX_CONFIG_BYTES:
        raise ContentError("the configuration of the artifact is not that of a recipe", _ADVICE)
    return RecipeContents(recipe="", files=dict(zip(titles, manifest.layers, strict=True))), manifest


def with_config(contents: RecipeContents, config: bytes) -> RecipeContents:
    """The contents with the path of the recipe, from the configuration of the artifact."""
    try:
        fields = parse_json_object(config)
    except DocumentError as error:
        raise ContentError(f"the configuration of the artifact is not valid: {error}", _ADVICE) from None
    if isinstance(fields.get("format"), int) and fields["format"] > FORMAT:
        raise ContentError("a newer release of posttrain has published the artifact", "upgrade posttrain")
    recipe = fields.get("recipe")
    if fields.get("format") != FORMAT or not isinstance(recipe, str) or recipe not in contents.files:
        raise ContentError("the configuration of the artifact names no recipe among its files", _ADVICE)
    return RecipeContents(recipe=recipe, files=contents.files)
