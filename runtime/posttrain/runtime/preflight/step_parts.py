"""What a step uses, read from its parameters: endpoints, and the code of the user.

The in-loop evals of a training are parts of it. The roles of their files start with the name of the eval.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from posttrain.runtime.engines.endpoint_client import connect_endpoint
from posttrain.runtime.plan_params import read_step_params
from posttrain.spec.plan import Step
from posttrain.spec.record import record
from posttrain.spec.step_params.data_params import DataStepParams, ExtensionOperation
from posttrain.spec.step_params.generation_params import GenerationParams
from posttrain.spec.step_params.reward_params import EnvironmentParams, RewardGraphParams
from posttrain.spec.step_params.step_parameters import StepParams
from posttrain.spec.step_params.train_params import TrainStepParams


@record
class StepPart:
    """The parameters of a step or of one of its in-loop evals, and the prefix of the roles of its files."""

    step: Step
    prefix: str
    params: StepParams

    @property
    def reward(self) -> RewardGraphParams | None:
        return getattr(self.params, "reward", None)

    @property
    def environment(self) -> EnvironmentParams | None:
        return getattr(self.params, "environment", None)

    @property
    def hosting(self) -> Mapping[str, Any]:
        """Parameters of the environment that do not affect the episodes."""
        return getattr(self.params, "hosting", None) or {}

    @property
    def environment_place(self) -> str:
        """The place of the environment, as a key of the step's `places`."""
        return next((name for name in self.step.places if name.startswith("environments.")), "")


@record(kw_only=True)
class EndpointUse:
    """An endpoint that a step needs, with its connection settings."""

    name: str
    step: Step
    endpoint: Mapping[str, Any]

    @property
    def declaration(self) -> str:
        return f"endpoints.{self.name}"


@record(kw_only=True)
class UserCode:
    """A function or a class in a file of the user, and how it is called."""

    step: Step
    # A key of the step's `places`.
    declaration: str
    kind: str  # function, row function or class
    # FILE.py:NAME, and the other files that it may import, as paths relative to the recipe.
    call: str
    modules: tuple[str, ...]
    # The names of the keyword arguments.
    arguments: tuple[str, ...]

    @property
    def file(self) -> str:
        return self.call.rpartition(":")[0]

    @property
    def name(self) -> str:
        return self.call.rpartition(":")[2]


def step_parts(step: Step) -> Iterator[StepPart]:
    params = read_step_params(step)
    yield StepPart(step, "", params)
    if isinstance(params, TrainStepParams) and params.evaluate is not None:
        for name, one in params.evaluate.evals.items():
            yield StepPart(step, f"{name}.", one)


def endpoint_uses(step: Step) -> Iterator[EndpointUse]:
    """The endpoints of a step: of its models, and of the judges in its rewards."""
    for part in step_parts(step):
        params = part.params
        access = getattr(params, "access", None) or {}
        found = dict(part.reward.endpoints) if part.reward else {}
        if isinstance(params, GenerationParams):
            found |= {model.name: model.endpoint for model in params.models if model.endpoint is not None}
        for name, identity in found.items():
            yield EndpointUse(
                name=name, step=step, endpoint=connect_endpoint(name, identity, access.get(name))
            )


def user_code(step: Step) -> Iterator[UserCode]:
    """The functions of the rewards and data steps of a step, and the classes of its environments."""
    for part in step_parts(step):
        if isinstance(part.params, DataStepParams):
            yield from _data_step_code(step, part.params)
        for node in part.reward.nodes if part.reward else ():
            if node.op == "python":
                yield UserCode(
                    step=step,
                    declaration=_node_place(step, node.id),
                    kind="function",
                    call=str(node.params["call"]),
                    modules=_names(node.params.get("modules")),
                    arguments=tuple(name.removeprefix("with.") for name in node.operands),
                )
        environment = part.environment
        if environment is not None and environment.type == "python":
            params = {**environment.params, **part.hosting}
            yield UserCode(
                step=step,
                declaration=part.environment_place,
                kind="class",
                call=str(params["call"]),
                modules=_names(params.get("modules")),
                arguments=_names(params.get("with")),
            )


def _data_step_code(step: Step, params: DataStepParams) -> Iterator[UserCode]:
    for operation in params.operations:
        if isinstance(operation, ExtensionOperation) and operation.op == "python":
            yield UserCode(
                step=step,
                declaration="",
                kind="row function",
                call=str(operation.params["call"]),
                modules=_names(operation.params.get("modules")),
                arguments=_names(operation.params.get("with")),
            )


def _node_place(step: Step, node: str) -> str:
    """The place of a node. In-loop evals can have other rewards, with nodes of the same name."""
    ending = f".nodes.{node}"
    return next((name for name in step.places if name.endswith(ending)), "")


def _names(value: Any) -> tuple[str, ...]:
    return tuple(value or ())
