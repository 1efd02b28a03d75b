"""Opens the environment of a step, if it has one."""

from posttrain.runtime.catalog import CATALOG
from posttrain.runtime.environments.environment_protocol import EpisodeResources
from posttrain.runtime.environments.episode_runner import EnvironmentSession
from posttrain.runtime.plan_params import read_extension_params
from posttrain.runtime.step_context import StepContext
from posttrain.spec.extension import Environment
from posttrain.spec.step_params.eval_params import EvalStepParams
from posttrain.spec.step_params.train_params import TrainStepParams

# Parameters that can have an environment.
ActingParams = TrainStepParams | EvalStepParams

_FILE_ROLE_PREFIX = "environment:"


def environment_columns(context: StepContext[ActingParams]) -> list[str]:
    """The data columns that episodes read."""
    config = context.params.environment
    return [] if config is None else list(config.columns)


def open_environment(context: StepContext[ActingParams]) -> EnvironmentSession:
    plan = context.params.environment
    assert plan is not None, "the step has no environment"
    kind = CATALOG.find("environment", plan.type)
    assert isinstance(kind, Environment), f"the catalog has no environment {plan.type}"
    params = read_extension_params(kind.params, {**plan.params, **(context.params.hosting or {})})
    files = {
        role.removeprefix(_FILE_ROLE_PREFIX): path
        for role, path in context.files.items()
        if role.startswith(_FILE_ROLE_PREFIX)
    }
    low, high = plan.range
    return EnvironmentSession(
        factory=CATALOG.run("environment", plan.type)(
            params, EpisodeResources(files=files, seconds=plan.timeout_seconds)
        ),
        kind=plan.type,
        acts=kind.action_format(params),
        columns=plan.columns,
        low=low,
        high=high,
        turns=plan.max_turns,
        turn_tokens=plan.max_turn_tokens,
        tool_role=plan.observation_role or "user",
        reply=plan.observation_template,
        on_error=plan.on_error,
        text_columns=frozenset(name for name, type in kind.columns(params).items() if type == "text"),
    )
