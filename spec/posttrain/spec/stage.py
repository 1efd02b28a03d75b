"""What every stage may say, whatever its verb."""

from typing import Literal

from posttrain.spec.declaration_fields import Declaration, field
from posttrain.spec.hardware import Container, Retry


class Stage(Declaration):
    """What every stage may say."""

    retry: Retry = field(default_factory=Retry, description="Retries after passing failures.")
    timeout_minutes: float | None = field(default=None, gt=0, description="The longest it may take.")
    memory_gb: float | None = field(
        default=None,
        gt=0,
        le=1e6,
        description="Main memory in GB that it may take: what it is counted for beside other stages, and the"
        " limit of its container.",
    )
    on_failure: Literal["stop", "continue"] = field(
        default="stop", description="Whether independent stages go on when this one fails."
    )
    container: Container | None = field(default=None, description="An image for this stage alone.")
