"""Opens the environment of a step, if it has one."""

from typing import Any

from posttrain.runtime.catalog import CATALOG
from posttrain.runtime.environments.environment_protocol import EpisodeResources
from posttrain.runtime.environments.episode_runner import EnvironmentSession
from posttrain.runtime.step_context import StepContext
from posttrain.spec.extension import Environment
from posttrain.spec.validation import parse_declaration

_FILE_ROLE_PREFIX = "environment:"


def environment_config(context: StepContext) -> Any:
    """The environment section of the step's parameters, or None."""
    return context.params.get("environment")


def environment_columns(context: StepContext) -> list[str]:
    """The data columns that episodes read."""
    config = environment_config(context)
    return [] if config is None else list(config["columns"])


def open_environment(context: StepContext) -> EnvironmentSession:
    plan = environment_config(context)
    kind = CATALOG.find("environment", plan["type"])
    assert isinstance(kind, Environment), f"the catalog has no environment {plan['type']}"
    params = parse_declaration(kind.params, {**plan["params"], **context.params.get("hosting", {})})
    files = {
        role.removeprefix(_FILE_ROLE_PREFIX): path
        for role, path in context.files.items()
        if role.startswith(_FILE_ROLE_PREFIX)
    }
    low, high = plan["range"]
    return EnvironmentSession(
        factory=CATALOG.run("environment", plan["type"])(
            params, EpisodeResources(files=files, seconds=plan["timeout_seconds"])
        ),
        kind=plan["type"],
        acts=kind.action_format(params),
        columns=plan["columns"],
        low=low,
        high=high,
        turns=plan["max_turns"],
        turn_tokens=plan["max_turn_tokens"],
        reply=plan["observation_template"],
        on_error=plan["on_error"],
        text_columns=frozenset(name for name, type in kind.columns(params).items() if type == "text"),
    )
