"""The placement of a stage on the target."""

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from posttrain.spec.plan import Launch
from posttrain.spec.record import record


@record(kw_only=True)
class StagePlacement:
    """The launch settings, GPUs, parameters and estimate that placement adds to a stage."""

    launch: Launch = field(default_factory=Launch)
    gpus: int = 0
    # The parameters of the method that the placement sets.
    params: Mapping[str, Any] = field(default_factory=dict[str, Any])
    estimate: Mapping[str, Any] | None = None
