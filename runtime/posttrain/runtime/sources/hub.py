"""Source `hub`: rows of a dataset on the Hugging Face Hub."""

import re
from typing import Annotated, Any

from pydantic import Field

from posttrain.runtime.errors import StepError
from posttrain.runtime.step_context import StepContext
from posttrain.spec.column_types import check_column_types
from posttrain.spec.extension import Params, Source
from posttrain.spec.field_types import checked_by
from posttrain.spec.process_variables import HUB_CREDENTIAL

_COMMIT = re.compile(r"[0-9a-f]{40}")


class Hub(Params):
    name: str = Field(
        pattern=r"^[\w.-]+(/[\w.-]+)?$", description="The dataset's name on the Hub, as ORG/NAME."
    )
    revision: str = Field(
        default="main",
        description="A branch, a tag, or a full commit hash. Only a full commit hash makes the rows"
        " reproducible.",
    )
    config: str | None = Field(default=None, description="The configuration, for a dataset that has several.")
    split: str = Field(default="train", description="The split, such as train or test[:500].")
    columns: Annotated[dict[str, str], Field(min_length=1), checked_by(check_column_types)] = Field(
        description="The columns to read, with their types. A column that does not fit its type is an error.",
    )


EXTENSION = Source(
    name="hub",
    summary="Read the rows of a dataset on the Hugging Face Hub.",
    params=Hub,
    columns=lambda params: params.columns,
    pinned=lambda params: _COMMIT.fullmatch(params.revision) is not None,
    network=True,
    secrets=(HUB_CREDENTIAL,),
    stack=("datasets", "duckdb"),
    version=2,
)


def run(params: Hub, context: StepContext, connection: Any) -> None:
    """Create the table `source`."""
    from posttrain.runtime.sources.column_casting import load_typed_columns

    context.events.emit("phase", name="downloading")
    data = _load_dataset(params)
    missing = [name for name in params.columns if name not in data.column_names]
    if missing:
        listed = ", ".join(data.column_names)
        raise StepError(
            f"missing column `{missing[0]}` in `{params.name}`; its columns are {listed}", "correct `columns`"
        )
    chosen = data.select_columns(list(params.columns))
    connection.register("input_rows", chosen.with_format("arrow")[:])
    load_typed_columns(connection, "input_rows", params.columns)
    connection.unregister("input_rows")


def _load_dataset(params: Hub) -> Any:
    from datasets import load_dataset

    try:
        return load_dataset(params.name, params.config, split=params.split, revision=params.revision)
    except (ConnectionError, TimeoutError) as error:
        raise StepError(
            f"cannot reach the Hugging Face Hub: {_error_line(error)}", "try again later", retriable=True
        ) from None
    except (ValueError, OSError) as error:  # no such dataset, revision, configuration or split
        raise StepError(
            f"cannot load the dataset `{params.name}`: {_error_line(error)}",
            "check its `name`, `revision`, `config` and `split`",
        ) from None


def _error_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0][:300] if str(error) else ''}"
