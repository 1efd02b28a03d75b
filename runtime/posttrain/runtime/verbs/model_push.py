"""Pushes an exported model to a local folder or to a hub repository.

A push is atomic: a folder is replaced by a rename, and a hub repository is updated in a single commit.
Pushing the same files again changes nothing.
"""

import os
import shutil
from pathlib import Path
from typing import Any

from posttrain.runtime import atomic_io
from posttrain.runtime.errors import StepError
from posttrain.runtime.step_context import StepContext
from posttrain.spec.step_params.artifact_params import ExportStepParams, PushTarget

# Marks a folder as an export, which a later export may replace.
MARKER_FILE = "posttrain.json"


def check_target(context: StepContext[ExportStepParams]) -> None:
    """Check the target before the expensive merge."""
    push = context.params.push
    if push is None:
        return
    if push.folder is not None:
        check_replaceable(_target_folder(context, push.folder))
    else:
        _read_token(context)


def push_model(context: StepContext[ExportStepParams]) -> None:
    """Push the exported files to the stage's target, if it has one."""
    push = context.params.push
    if push is None:
        return
    context.events.emit("phase", name="pushing")
    if push.folder is not None:
        _to_folder(context, _target_folder(context, push.folder))
    elif push.hub is not None:
        context.facts["pushed"] = {"hub": push.hub, "commit": _to_hub(context, push, push.hub)}


def _target_folder(context: StepContext[ExportStepParams], folder: str) -> Path:
    """Resolve the target folder. A relative path starts at the parent of the home, which has `work/KEY`."""
    return target_folder(context.work.resolve().parents[1], folder)


def target_folder(home: Path, folder: str) -> Path:
    return home.absolute().parent / Path(folder).expanduser()


def check_replaceable(place: Path) -> None:
    """Raise StepError for a folder with other content."""
    if place.exists() and not (
        place.is_dir() and ((place / MARKER_FILE).exists() or not any(place.iterdir()))
    ):
        raise StepError(
            f"{place} exists and is not an earlier export",
            "choose another folder, or move the existing one",
        )


def _to_folder(context: StepContext[ExportStepParams], place: Path) -> None:
    check_replaceable(place)
    new, old = (place.with_name(f".{place.name}.{end}") for end in ("new", "old"))
    try:
        for leftover in (new, old):
            shutil.rmtree(leftover, ignore_errors=True)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(context.out, new)
        atomic_io.write_json(new / MARKER_FILE, {"key": context.step.key})
        if place.exists():
            place.rename(old)
        new.rename(place)
    except OSError as error:
        raise StepError(
            f"cannot write the model to {place}: {error.strerror}",
            "check the free disk space and the permissions",
        ) from None
    shutil.rmtree(old, ignore_errors=True)


def _read_token(context: StepContext[ExportStepParams]) -> str:
    access = context.params.access
    assert access is not None, "a push has the name of its token"
    name = access.token
    token = os.environ.get(name)
    if not token:
        raise StepError(
            f"the environment variable `{name}` with the hub token is not set",
            f"set it to a token with write access, or set another variable in `token: {{env: {name}}}`",
        )
    return token


def _to_hub(context: StepContext[ExportStepParams], push: PushTarget, name: str) -> str:
    """Upload all files in one commit. Returns the commit."""
    from httpx import HTTPError
    from huggingface_hub import CommitOperationAdd, HfApi, constants
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    revision = push.revision
    if "HF_ENDPOINT" in os.environ:
        # Custom hubs do not support Xet, only Git LFS.
        constants.HF_HUB_DISABLE_XET = True
    api = HfApi(token=_read_token(context))
    try:
        api.create_repo(name, private=push.private, exist_ok=True)
        if revision is not None:
            api.create_branch(name, branch=revision, exist_ok=True)
        files = [CommitOperationAdd(path.name, path) for path in sorted(context.out.iterdir())]
        commit = api.create_commit(name, files, revision=revision, commit_message="Export")
    except HFValidationError as error:
        raise StepError(f"invalid repository name `{name}`: {error}", "write ORG/NAME") from None
    except HfHubHTTPError as error:
        refused = error.response.status_code in (401, 403)
        raise StepError(
            f"the hub rejected the push to `{name}`: {_hub_message(error)}",
            "use a token with write access" if refused else "check the status of the hub, and run again",
            retriable=not refused,
        ) from None
    except (HTTPError, OSError) as error:
        message = f"cannot push `{name}` to the hub: {error}"
        raise StepError(message, "check the network and run again", retriable=True) from None
    return str(commit.oid)


def _hub_message(error: Any) -> str:
    """The hub's error message, or the status code."""
    return error.server_message or f"status {error.response.status_code}"
