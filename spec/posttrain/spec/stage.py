"""The options of every stage, whatever its verb."""

from typing import Literal

from pydantic import Field

from posttrain.spec.declaration_fields import Declaration
from posttrain.spec.hardware import Container, Retry


class Stage(Declaration):
    """The options of every stage."""

    retry: Retry = Field(default_factory=Retry, description="Retries after transient failures.")
    timeout_minutes: float | None = Field(
        default=None, gt=0, description="Time limit of the stage, in minutes. Default: none."
    )
    memory_gb: float | None = Field(
        default=None,
        gt=0,
        le=1e6,
        description="Main memory of the stage, in GB. The scheduler reserves it when stages run in"
        " parallel, and the stage's container is limited to it.",
    )
    on_failure: Literal["stop", "continue"] = Field(
        default="stop", description="Whether independent stages stop or continue if this stage fails."
    )
    container: Container | None = Field(
        default=None, description="Container image for this stage. Default: the recipe's `container`."
    )
