"""Errors of the Hugging Face Hub, for users."""

from posttrain.runtime.errors import StepError


def unreachable_hub(error: Exception) -> StepError:
    """The error of a step that cannot reach the Hub now."""
    message = f"cannot reach the Hugging Face Hub: {error_line(error)}"
    return StepError(message, "try again later", retriable=True)


def unknown_dataset(name: str, error: Exception) -> StepError:
    """No such dataset, revision, configuration, split or file."""
    return StepError(
        f"cannot load the dataset `{name}`: {error_line(error)}",
        "check its `name`, `revision`, `config` and `split`",
    )


def error_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0][:300] if str(error) else ''}"
