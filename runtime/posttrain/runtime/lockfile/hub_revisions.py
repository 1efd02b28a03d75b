"""Asks the hub which commit a branch or a tag stands for."""

from posttrain.runtime.errors import StepError


def resolve_commit(kind: str, reference: str) -> str:
    """The commit of ORG/NAME@REVISION, a model or a dataset."""
    name, _, revision = reference.rpartition("@")
    try:
        from huggingface_hub import HfApi
    except ImportError:
        raise StepError(
            f"asking the hub for the {kind} `{name}` takes huggingface_hub, which is not installed here",
            "install posttrain[train], or write a full commit hash as its revision",
        ) from None
    from httpx import HTTPError
    from huggingface_hub.errors import RepositoryNotFoundError, RevisionNotFoundError

    try:
        sha = HfApi().repo_info(name, repo_type=kind, revision=revision).sha
    except RevisionNotFoundError:
        raise StepError(
            f"the {kind} `{name}` has no revision `{revision}`", "look at its branches and tags on the hub"
        ) from None
    except RepositoryNotFoundError:
        raise StepError(
            f"the hub has no {kind} `{name}`", "check its name, and whether a token is needed"
        ) from None
    except (HTTPError, OSError, ValueError) as error:  # no answer, another than JSON, or one that refuses
        message = f"the hub does not tell the commit of `{reference}`: {_first_line(error)}"
        raise StepError(message, "check the network and try again", retriable=True) from None
    if not sha:
        raise StepError(f"the hub names no commit for `{reference}`", "write one as its revision")
    return sha


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:200] if lines else type(error).__name__
