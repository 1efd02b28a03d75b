"""Resolves a branch or a tag on the Hugging Face Hub to a commit."""

from posttrain.runtime.errors import StepError


def resolve_commit(kind: str, reference: str) -> str:
    """The commit of ORG/NAME@REVISION, for a model or a dataset."""
    name, _, revision = reference.rpartition("@")
    try:
        from huggingface_hub import HfApi
    except ImportError:
        raise StepError(
            f"resolving the revision of the {kind} `{name}` requires huggingface_hub, which is not installed",
            "install posttrain[train], or use a full commit hash as the revision",
        ) from None
    from httpx import HTTPError
    from huggingface_hub.errors import RepositoryNotFoundError, RevisionNotFoundError

    try:
        sha = HfApi().repo_info(name, repo_type=kind, revision=revision).sha
    except RevisionNotFoundError:
        raise StepError(
            f"the {kind} `{name}` has no revision `{revision}`", "check its branches and tags on the Hub"
        ) from None
    except RepositoryNotFoundError:
        raise StepError(
            f"the {kind} `{name}` is not on the Hub",
            "check the name; a private or gated repository needs HF_TOKEN",
        ) from None
    except (HTTPError, OSError, ValueError) as error:  # connection error, invalid JSON, or rejected
        message = f"cannot resolve the commit of `{reference}` on the Hub: {_first_line(error)}"
        raise StepError(message, "check the network and try again", retriable=True) from None
    if not sha:
        raise StepError(f"the Hub returned no commit for `{reference}`", "use a commit hash as the revision")
    return sha


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:200] if lines else type(error).__name__
