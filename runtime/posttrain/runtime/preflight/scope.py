"""What the preflight checks: the steps that a run would start, and where it would run them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from posttrain.runtime.machine import Machine
from posttrain.runtime.preflight.finding import Finding
from posttrain.runtime.store.home import Home
from posttrain.spec.place import Place
from posttrain.spec.plan import Plan, Step
from posttrain.spec.record import record

if TYPE_CHECKING:
    from posttrain.runtime.runners.cluster.scheduler import Scheduler


@record(kw_only=True)
class Scope:
    plan: Plan
    # The selected steps without a product: a cached step needs no endpoint and no secret.
    steps: tuple[Step, ...]
    home: Home
    # The folder of the recipe, with the user's files.
    recipe_dir: Path
    machine: Machine
    # The cluster on which the steps run, and not `machine`.
    place: Place | None = None
    # The connection of the run to it.
    scheduler: "Scheduler | None" = None
    # The environment of the client.
    variables: Mapping[str, str]


# One check of one thing, such as an endpoint. It takes a bounded time.
Probe = Callable[[], Sequence[Finding]]
# The probes of one kind of check. It does no work that takes long: probes run concurrently.
Check = Callable[[Scope], Iterator[Probe]]
