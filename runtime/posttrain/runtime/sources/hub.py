"""Source `hub`: rows of a dataset on the Hugging Face Hub."""

import re
from operator import not_
from typing import Annotated, Any

from pydantic import Field

from posttrain.runtime.errors import StepError
from posttrain.runtime.sources.hub_errors import error_line, unknown_dataset, unreachable_hub
from posttrain.runtime.step_context import StepContext
from posttrain.spec.column_types import check_column_types
from posttrain.spec.extension import Params, Source
from posttrain.spec.field_types import checked_by
from posttrain.spec.process_variables import HUB_CREDENTIAL

_COMMIT = re.compile(r"[0-9a-f]{40}")
_WINDOW_ROWS = 50_000


def _is_none(value: Any) -> bool:
    return value is None


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
    streaming: bool = Field(
        default=False,
        exclude_if=not_,
        description="Download the files one after the other while a stage trains on their rows, for datasets"
        " that are larger than the disk. The stage needs `max_steps`.",
    )
    window_rows: int | None = Field(
        default=None,
        ge=1000,
        exclude_if=_is_none,
        description="With `streaming`: the number of consecutive rows that are prepared together, and in"
        " which the order is random. Default: 50,000.",
    )

    def check(self) -> None:
        if not self.streaming:
            self.refuse_without_effect("window_rows", "without `streaming: true`")
        if self.streaming and not re.fullmatch(r"[\w.-]+", self.split):
            raise ValueError("split must be the name of one split with `streaming: true`, without a slice")


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
    window_rows=lambda params: (params.window_rows or _WINDOW_ROWS) if params.streaming else None,
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
    from datasets.exceptions import DatasetsError

    try:
        return load_dataset(params.name, params.config, split=params.split, revision=params.revision)
    except (ConnectionError, TimeoutError) as error:
        raise unreachable_hub(error) from None
    except (ValueError, OSError) as error:  # no such dataset, revision, configuration or split
        raise unknown_dataset(params.name, error) from None
    except DatasetsError as error:  # a file that cannot be read
        cause = error.__cause__ if isinstance(error.__cause__, Exception) else error
        raise StepError(
            f"cannot read the files of the dataset `{params.name}`: {error_line(cause)}",
            "check its files on the Hub, or use another `revision`",
        ) from None
