"""Looks up models and datasets on the Hugging Face Hub: the commit of a branch or tag, and the access."""

import os
from importlib.util import find_spec
from typing import Any, Literal

from posttrain.runtime.errors import StepError

RepositoryKind = Literal["model", "dataset"]


class HubUnavailable(StepError):
    """The hub cannot be reached, or cannot answer now."""

    def __init__(self, message: str, *, is_reachable: bool) -> None:
        super().__init__(message, "check the network and try again", retriable=True)
        # Whether a server answered: then another attempt can succeed soon.
        self.is_reachable = is_reachable


def resolve_commit(kind: str, reference: str) -> str:
    """The commit of ORG/NAME@REVISION, for a model or a dataset."""
    name, _, revision = reference.rpartition("@")
    if find_spec("huggingface_hub") is None:
        raise StepError(
            f"resolving the revision of the {kind} `{name}` requires huggingface_hub, which is not installed",
            "install posttrain[train], or use a full commit hash as the revision",
        )
    sha = find_repository(kind, name, revision).sha
    if not sha:
        raise StepError(f"the Hub returned no commit for `{reference}`", "use a commit hash as the revision")
    return sha


def find_repository(
    kind: str,
    name: str,
    revision: str | None,
    *,
    token: str | bool | None = None,
    seconds: float | None = None,
) -> Any:
    """The hub's description of a repository at a revision. Raises StepError if it is not readable.

    `token` is that of huggingface_hub: None for the stored one, False for none.
    """
    from httpx import HTTPError
    from huggingface_hub import HfApi
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError, RevisionNotFoundError

    api = HfApi(endpoint=os.environ.get("HF_ENDPOINT") or None, token=token)
    try:
        found = api.repo_info(name, repo_type=kind, revision=revision, timeout=seconds)
        if getattr(found, "gated", False):
            api.auth_check(name, repo_type=kind)
    except RevisionNotFoundError:
        raise StepError(
            f"the {kind} `{name}` has no revision `{revision}`", "check its branches and tags on the Hub"
        ) from None
    except GatedRepoError:
        raise StepError(
            f"the {kind} `{name}` is gated, and the token does not permit access to it",
            "request access at its page on the Hub, and set HF_TOKEN to a token of that account",
        ) from None
    except RepositoryNotFoundError:
        raise StepError(
            f"the {kind} `{name}` is not on the Hub",
            "check the name; a private or gated repository needs HF_TOKEN",
        ) from None
    except (HTTPError, OSError, ValueError) as error:  # connection error, invalid JSON, or rejected
        at = f"{name}@{revision}" if revision else name
        message = f"cannot resolve the commit of `{at}` on the Hub: {first_line(error)}"
        raise HubUnavailable(message, is_reachable=getattr(error, "response", None) is not None) from None
    return found


def first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:200] if lines else type(error).__name__
