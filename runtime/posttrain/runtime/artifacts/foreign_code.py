"""What a recipe of someone else would do on this machine: programs, Python code, secrets, uploads."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, cast

from posttrain.spec.url_passwords import mask_url_passwords

if TYPE_CHECKING:
    from posttrain.spec.plan import Plan, Step

_MAX_TEXT = 200
_MAX_STAGES = 3
_CODE_ENDINGS = (".py", ".pyc", ".so")
# Files of a script stage that its program can run; one without an ending is often executable.
_SCRIPT_ENDINGS = frozenset(("", ".sh", ".bash", ".zsh", ".pl", ".rb", ".js", ".mjs", ".lua", ".r", ".jl"))
# Steps read it to download models. An endpoint gets it only if the recipe names it as the key.
_HUB_VARIABLE = "HF_TOKEN"


def foreign_actions(plan: "Plan") -> list[str]:
    """What the steps of a plan do beyond the code of this program, one line each."""
    stages: dict[str, list[str]] = {}
    for step in plan.steps:
        for action in _step_actions(step):
            names = stages.setdefault(action, [])
            name = step.id.partition("@")[0]  # without the leg of the matrix
            if name not in names:
                names.append(name)
    return [f"{action} ({_join(names)})" for action, names in stages.items()]


def _join(stages: list[str]) -> str:
    rest = len(stages) - _MAX_STAGES
    return ", ".join(stages[:_MAX_STAGES]) + (f" and {rest} more" if rest > 0 else "")


def _step_actions(step: "Step") -> Iterator[str]:
    params = cast(Mapping[str, Any], step.params) if isinstance(step.params, dict) else {}
    if step.image:
        yield f"runs in the container {_shown(step.image)}"
    if step.kind == "script":
        yield f"runs the program {_shown(params.get('command'))}"
    for file in step.files.values():
        if file.path.endswith(_CODE_ENDINGS):
            yield f"runs the Python code in {_shown(file.path)}"
        elif step.kind == "script" and PurePosixPath(file.path).suffix.lower() in _SCRIPT_ENDINGS:
            yield f"runs the code in {_shown(file.path)}"
    for interpreter in _values(params, "python"):
        yield f"runs the program {_shown(interpreter)}"
    yield from _network_actions(step, params)
    push = params.get("push")
    if isinstance(push, dict):
        targets = cast(Mapping[str, Any], push)
        yield f"writes its product to {_shown(targets.get('folder') or targets.get('hub'))}"


def _network_actions(step: "Step", params: Mapping[str, Any]) -> Iterator[str]:
    """Endpoints get rows, which can be those of a private dataset, and the secrets that the recipe names."""
    keys = {*_values(params, "api_key")}
    is_program = step.kind == "script"
    secrets = [name for name in step.secrets if name != _HUB_VARIABLE or name in keys or is_program]
    hosts = {*_values(params, "base_url")} or {*_values(params, "provider")}
    if secrets or hosts:
        yield network_action(hosts, secrets)


def network_action(hosts: Iterable[str], secrets: Sequence[str]) -> str:
    """What endpoints get."""
    receivers = ", ".join(sorted(_shown(mask_url_passwords(host)) for host in hosts))
    if secrets:
        return f"uses {', '.join(secrets)}" + (f" at {receivers}" if receivers else "")
    return f"sends its rows to {receivers}"


def _values(value: Any, key: str) -> Iterator[str]:
    """The texts under a key, at any depth."""
    if isinstance(value, list | tuple):
        for item in cast(list[Any], value):
            yield from _values(item, key)
    elif isinstance(value, Mapping):
        for name, inner in cast(Mapping[str, Any], value).items():
            if name == key and isinstance(inner, str):
                yield inner
            yield from _values(inner, key)


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    text = "".join(char if char.isprintable() else "?" for char in text)
    return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}..."
