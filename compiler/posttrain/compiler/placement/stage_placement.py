"""A stage that lies on the target: what placement adds to it."""

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from posttrain.spec.plan import Launch
from posttrain.spec.record import record


@record(kw_only=True)
class StagePlacement:
    """What placement adds to a stage."""

    launch: Launch = field(default_factory=Launch)
    gpus: int = 0
    # Parameters of the method that the placement decides.
    params: Mapping[str, Any] = field(default_factory=dict[str, Any])
    estimate: Mapping[str, Any] | None = None
