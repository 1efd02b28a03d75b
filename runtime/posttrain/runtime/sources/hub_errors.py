"""Errors of the Hugging Face Hub, for users."""

from posttrain.runtime.errors import StepError
from posttrain.spec.process_variables import HUB_CREDENTIAL

_REFUSED = (401, 403, 404)


def unreachable_hub(error: Exception) -> StepError:
    """The error of a step that cannot reach the Hub now."""
    message = f"cannot reach the Hugging Face Hub: {error_line(error)}"
    return StepError(message, "try again later", retriable=True)


def request_error(what: str, error: Exception) -> StepError:
    """The error of a request for a dataset or a file. It is transient unless the Hub refuses the request."""
    response = getattr(error, "response", None)
    if response is None or response.status_code not in _REFUSED:
        return unreachable_hub(error)
    return StepError(
        f"the Hugging Face Hub refuses a request for {what}: {error_line(error)}",
        f"check the `name` and `revision`, and whether the token in {HUB_CREDENTIAL} gives access to them",
    )


def unknown_dataset(name: str, error: Exception) -> StepError:
    """No such dataset, revision, configuration, split or file."""
    return StepError(
        f"cannot load the dataset `{name}`: {error_line(error)}",
        "check its `name`, `revision`, `config` and `split`",
    )


def error_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0][:300] if str(error) else ''}"
