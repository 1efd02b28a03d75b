"""Brings an exported model to where others find it: a folder beside the home, or a repository of the hub.

What it brings is whole or not there: a folder is put in its place in one move, the hub takes all
files in one commit. The same files brought again change nothing there.
"""

import os
import shutil
from pathlib import Path
from typing import Any

from posttrain.runtime import atomic_io
from posttrain.runtime.errors import StepError
from posttrain.runtime.step_context import StepContext

# What says that a folder holds an export that was brought there, and nothing of the user's own.
MARKER_FILE = "posttrain.json"


def check_target(context: StepContext) -> None:
    """Say what is in the way before anything is merged."""
    wanted = context.params.get("push")
    if wanted is None:
        return
    if wanted["folder"] is not None:
        _check_replaceable(_target_folder(context, wanted["folder"]))
    else:
        _read_token(context)


def push_model(context: StepContext) -> None:
    """Bring the files of the product to where the stage says, if it does."""
    wanted = context.params.get("push")
    if wanted is None:
        return
    context.events.emit("phase", name="pushing")
    if wanted["folder"] is not None:
        _to_folder(context, _target_folder(context, wanted["folder"]))
    else:
        context.facts["pushed"] = {"hub": wanted["hub"], "commit": _to_hub(context, wanted)}


def _target_folder(context: StepContext, folder: str) -> Path:
    """A folder as written; what is not absolute lies beside the home, which holds `work/KEY`."""
    home = context.work.resolve().parents[1]
    return home.parent / Path(folder).expanduser()


def _check_replaceable(place: Path) -> None:
    if place.exists() and not (
        place.is_dir() and ((place / MARKER_FILE).exists() or not any(place.iterdir()))
    ):
        raise StepError(
            f"there is something at {place} that was not brought there by an export",
            "name another folder, or move away what is there",
        )


def _to_folder(context: StepContext, place: Path) -> None:
    _check_replaceable(place)
    new, old = (place.with_name(f".{place.name}.{end}") for end in ("new", "old"))
    try:
        for left in (new, old):
            shutil.rmtree(left, ignore_errors=True)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(context.out, new)
        atomic_io.write_json(new / MARKER_FILE, {"key": context.step.key})
        if place.exists():
            place.rename(old)
        new.rename(place)
    except OSError as error:
        raise StepError(
            f"the model could not be brought to {place}: {error.strerror}",
            "make room there, or allow writing to it",
        ) from None
    shutil.rmtree(old, ignore_errors=True)


def _read_token(context: StepContext) -> str:
    name = context.params["access"]["token"]
    found = os.environ.get(name)
    if not found:
        raise StepError(
            f"the environment variable `{name}` with the token of the hub is not set",
            f"set it to a token that may write, or name another under `token: {{env: {name}}}`",
        )
    return found


def _to_hub(context: StepContext, wanted: Any) -> str:
    """Upload in one commit; gives the commit."""
    from httpx import HTTPError
    from huggingface_hub import CommitOperationAdd, HfApi, constants
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    name, revision = wanted["hub"], wanted["revision"]
    # The library reads its endpoint when it is imported, which a warm process does before it knows it.
    endpoint = os.environ.get("HF_ENDPOINT")
    if endpoint is not None:
        # It sends large files by Xet to whatever hub; one that is not the public one takes them by Git LFS.
        constants.HF_HUB_DISABLE_XET = True
    api = HfApi(endpoint=endpoint, token=_read_token(context))
    try:
        api.create_repo(name, private=wanted["private"], exist_ok=True)
        if revision is not None:
            api.create_branch(name, branch=revision, exist_ok=True)
        files = [CommitOperationAdd(path.name, path) for path in sorted(context.out.iterdir())]
        made = api.create_commit(name, files, revision=revision, commit_message="Export")
    except HFValidationError as error:
        raise StepError(f"`{name}` is no name of a repository: {error}", "write ORG/NAME") from None
    except HfHubHTTPError as error:
        refused = error.response.status_code in (401, 403)
        raise StepError(
            f"the hub did not take `{name}`: {_hub_message(error)}",
            "take a token that may write there" if refused else "look whether the hub works, and run again",
            retriable=not refused,
        ) from None
    except (HTTPError, OSError) as error:
        message = f"`{name}` could not be brought to the hub: {error}"
        raise StepError(message, "check the network and run again", retriable=True) from None
    return str(made.oid)


def _hub_message(error: Any) -> str:
    """The hub's own words where it has some, else its status."""
    return error.server_message or f"status {error.response.status_code}"
