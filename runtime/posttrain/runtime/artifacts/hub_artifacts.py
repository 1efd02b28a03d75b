"""Recipes and products in repositories of the Hugging Face Hub: `hf://ORG/NAME[@REVISION]`.

A repository has the files at their paths, and the manifest of the artifact in `.posttrain/`, so that a
recipe has the same digest on the Hub and in a registry.
"""

import hashlib
import os
import re
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

from posttrain.runtime.artifacts.artifact_cache import (
    blob_path,
    is_cached,
    read_cached,
    temporary_file,
    write_cached,
)
from posttrain.runtime.artifacts.media_types import RECIPE_ARTIFACT
from posttrain.runtime.artifacts.packed_artifact import PackedArtifact
from posttrain.runtime.artifacts.recipe_artifact import HUB_FOLDER, parse_recipe_manifest
from posttrain.runtime.errors import StepError
from posttrain.runtime.lockfile.hub_revisions import find_repository, first_line
from posttrain.runtime.registry.oci_manifest import (
    MAX_MANIFEST_BYTES,
    TITLE,
    Descriptor,
    digest_of,
    parse_manifest,
)
from posttrain.runtime.registry.oci_reference import InvalidReference
from posttrain.runtime.registry.registry_errors import ContentError
from posttrain.runtime.user_cache import cache_folder
from posttrain.spec.record import record
from posttrain.spec.url_passwords import mask_url_passwords

SCHEME = "hf://"
MANIFEST_FILE = f"{HUB_FOLDER}/artifact.json"
CONFIG_FILE = f"{HUB_FOLDER}/config.json"
CARD_FILE = "README.md"
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_ADVICE = "do not use this repository"
_COMMIT = re.compile(r"[0-9a-f]{40}")


@record(kw_only=True)
class HubReference:
    """A repository of the Hub, at a branch, a tag or a commit."""

    name: str
    revision: str | None = None

    def __str__(self) -> str:
        return f"{SCHEME}{self.name}" + (f"@{self.revision}" if self.revision else "")


def parse_hub_reference(text: str) -> HubReference:
    name, at, revision = text.removeprefix(SCHEME).partition("@")
    if not _NAME.fullmatch(name) or (at and not revision):
        shown = mask_url_passwords(text[:300])
        raise InvalidReference(f"`{shown}` is not a repository of the Hub: write hf://ORG/NAME@REVISION")
    return HubReference(name=name, revision=revision or None)


def push_to_hub(target: HubReference, packed: PackedArtifact, card: str) -> HubReference:
    """Commit an artifact to a repository, which is created if it does not exist. Returns its commit."""
    from huggingface_hub import CommitOperationAdd, HfApi, constants

    manifest = parse_manifest(packed.manifest)
    blobs = {blob.digest: blob for blob in packed.blobs}
    if "HF_ENDPOINT" in os.environ:
        constants.HF_HUB_DISABLE_XET = True  # other hubs support only Git LFS
    files: dict[str, str | bytes] = {MANIFEST_FILE: packed.manifest}
    for title, digest in [
        (CONFIG_FILE, manifest.config.digest),
        *((layer.annotations[TITLE], layer.digest) for layer in manifest.layers),
    ]:
        blob = blobs[digest]
        files[title] = blob.data if blob.path is None else str(blob.path)
    if CARD_FILE not in files or manifest.artifact_type != RECIPE_ARTIFACT:
        files[CARD_FILE] = card.encode()  # instead of the card of an export, which has no evals
    api = HfApi(endpoint=os.environ.get("HF_ENDPOINT") or None)
    with _hub_errors(target):
        api.create_repo(target.name, private=True, exist_ok=True)
        if target.revision is not None:
            api.create_branch(target.name, branch=target.revision, exist_ok=True)
        added = [CommitOperationAdd(name, content) for name, content in sorted(files.items())]
        commit = api.create_commit(
            target.name, added, revision=target.revision, commit_message="Publish with posttrain"
        )
    return HubReference(name=target.name, revision=str(commit.oid))


def fetch_from_hub(reference: HubReference, max_bytes: int) -> tuple[HubReference, str]:
    """Put a recipe into the cache. Returns its commit and the digest of its manifest.

    A commit that was fetched before needs no network.
    """
    known = _known_digest(reference, max_bytes)
    if known is not None:
        return reference, known
    commit = str(find_repository("model", reference.name, reference.revision).sha)
    pinned = HubReference(name=reference.name, revision=commit)
    data = b"".join(_read(pinned, MANIFEST_FILE, MAX_MANIFEST_BYTES))
    contents, manifest = parse_recipe_manifest(data, max_bytes)
    for name, blob in {CONFIG_FILE: manifest.config, **contents.files}.items():
        if not is_cached(blob.digest):
            _download(pinned, name, blob)
    write_cached(data)
    digest = digest_of(data)
    _record_of(pinned).parent.mkdir(parents=True, exist_ok=True)
    _record_of(pinned).write_text(digest, encoding="utf-8")
    return pinned, digest


def _known_digest(reference: HubReference, max_bytes: int) -> str | None:
    """The digest of a commit that was fetched before, if all of it is in the cache."""
    if reference.revision is None or not _COMMIT.fullmatch(reference.revision):
        return None
    try:
        digest = _record_of(reference).read_text(encoding="utf-8")
    except OSError:
        return None
    data = read_cached(digest)
    if data is None:
        return None
    contents, manifest = parse_recipe_manifest(data, max_bytes)
    blobs = (manifest.config, *contents.files.values())
    return digest if all(is_cached(blob.digest) for blob in blobs) else None


def _record_of(reference: HubReference) -> Path:
    return cache_folder() / "hub" / f"{reference.name.replace('/', '--')}@{reference.revision}"


def _download(reference: HubReference, name: str, blob: Descriptor) -> None:
    """Put a file into the cache. Raises `ContentError` for other content than the manifest says."""
    path = blob_path(blob.digest)
    path.parent.mkdir(parents=True, exist_ok=True)
    hasher = hashlib.sha256()
    with temporary_file(path) as temporary:
        with temporary.open("wb") as file:
            for piece in _read(reference, name, blob.size):
                hasher.update(piece)
                file.write(piece)
        if f"sha256:{hasher.hexdigest()}" != blob.digest:
            raise ContentError(f"digest mismatch: {reference} returned other content for {name}", _ADVICE)


def _read(reference: HubReference, name: str, max_bytes: int) -> Iterator[bytes]:
    """The content of a file. Raises `ContentError` once it is larger than `max_bytes`."""
    from huggingface_hub import hf_hub_url
    from huggingface_hub.utils import build_hf_headers, hf_raise_for_status, http_stream_backoff

    endpoint = os.environ.get("HF_ENDPOINT") or None
    url = hf_hub_url(reference.name, name, revision=reference.revision, endpoint=endpoint)
    headers = {**build_hf_headers(), "Accept-Encoding": "identity"}
    size = 0
    with _hub_errors(reference), http_stream_backoff("GET", url, headers=headers) as response:
        hf_raise_for_status(response)
        for piece in response.iter_raw():
            size += len(piece)
            if size > max_bytes:
                message = f"{reference} has a file {name} of more than the {max_bytes} bytes that it declares"
                raise ContentError(message, _ADVICE)
            yield piece


@contextmanager
def _hub_errors(reference: HubReference) -> Generator[None]:
    """Report the errors of the Hub in its words."""
    from httpx import HTTPError
    from huggingface_hub.errors import EntryNotFoundError, HfHubHTTPError, HFValidationError

    try:
        yield
    except EntryNotFoundError:
        advice = "publish one with `recipe push PATH hf://ORG/NAME`"
        raise StepError(f"{reference} is no recipe", advice) from None
    except HfHubHTTPError as error:
        words = error.server_message or f"status {error.response.status_code}"
        refused = error.response.status_code in (401, 403)
        advice = "log in with `hf auth login`" if refused else "check the status of the hub, and try again"
        raise StepError(f"the hub rejected {reference}: {words}", advice, retriable=not refused) from None
    except (HFValidationError, HTTPError, OSError, ValueError) as error:
        message = f"cannot reach {reference}: {first_line(error)}"
        raise StepError(message, "check the network and try again", retriable=True) from None


def recipe_card(name: str, description: str, digest: str) -> str:
    """The page of a recipe on the Hub."""
    front = ["---", 'tags: ["posttrain", "recipe"]', "---", ""]
    usage = ["```", "recipe plan hf://ORG/NAME@COMMIT", "recipe pull hf://ORG/NAME@COMMIT", "```", ""]
    return "\n".join([*front, f"# {name}", "", description, "", *usage, f"Digest: `{digest}`", ""])
