"""Opens the environment of a step, if it names one."""

from typing import Any

from posttrain.runtime.catalog import CATALOG
from posttrain.runtime.context import Context
from posttrain.runtime.environments.playing import World
from posttrain.runtime.environments.protocol import Site
from posttrain.spec.extension import Environment
from posttrain.spec.reading import read

_ROLE = "environment:"


def declared(context: Context) -> Any:
    """What the step's parameters say of its environment; None where it has none."""
    return context.params.get("environment")


def columns(context: Context) -> list[str]:
    """The columns of the data that its episodes begin with."""
    found = declared(context)
    return [] if found is None else list(found["columns"])


def opened(context: Context) -> World:
    plan = declared(context)
    kind = CATALOG.find("environment", plan["kind"])
    assert isinstance(kind, Environment), f"the catalog lost the environment {plan['kind']}"
    params = read(kind.params, {**plan["params"], **context.params.get("hosting", {})})
    files = {role.removeprefix(_ROLE): path for role, path in context.files.items() if role.startswith(_ROLE)}
    low, high = plan["range"]
    return World(
        place=CATALOG.run("environment", plan["kind"])(params, Site(files=files, seconds=plan["seconds"])),
        kind=plan["kind"],
        acts=kind.acts(params),
        columns=plan["columns"],
        low=low,
        high=high,
        turns=plan["turns"],
        turn_tokens=plan["turn_tokens"],
        reply=plan["reply"],
        on_error=plan["on_error"],
        texts=frozenset(name for name, type in kind.columns(params).items() if type == "text"),
    )
