"""Applies the policy for environment variables (`spec/.../variable_rules.py`) to the processes of steps."""

import getpass
import os
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from posttrain.runtime.environment_proxies import exempt_loopback
from posttrain.spec.plan import Step
from posttrain.spec.process_variables import HUB_CREDENTIAL, VariableRule, find_rule
from posttrain.spec.variable_rules import RULES

_WITHHELD_NAMES = "POSTTRAIN_SECRETS"
# Of a step with several processes; a program that a process starts must not join their group.
_PROCESS_GROUP = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
# Where huggingface_hub reads the token, in this order.
_TOKEN_VARIABLES = (HUB_CREDENTIAL, "HUGGING_FACE_HUB_TOKEN", "HUGGINGFACE_HUB_TOKEN")
CONTAINER_TMP = "/".join(("", "tmp"))  # inside a container, which has no other users


def step_environment(
    step: Step, work: Path, caller: Mapping[str, str], *, container: bool = False
) -> dict[str, str]:
    """The variables of the step's processes, without its secrets. `caller` is the client's environment."""
    terms = {
        "work": str(work),
        "cpus": str(step.resources.cpus),
        "secrets": ",".join(step.secrets),
        "user": _user_name(),
        "tmp": CONTAINER_TMP,
    }
    found = {name: value for name, value in caller.items() if _is_passed(name, step, container)}
    fixed = {rule.name: _set_value(rule, container) for rule in RULES.values() if rule.applies_to(step)}
    return found | exempt_loopback(found) | _fill_in(fixed, terms)


def travelling_variables(step: Step, caller: Mapping[str, str]) -> dict[str, str]:
    """The client's variables that a step gets on another machine: those that do not describe the client's."""
    return {name: value for name, value in caller.items() if _is_passed(name, step, container=True)}


def forkserver_environment(caller: Mapping[str, str]) -> dict[str, str]:
    """The variables of the process that imports the modules of all steps: of every scope, without secrets.

    A library that reads a variable at its import finds the value that the steps get.
    """
    found = {name: value for name, value in caller.items() if _action(name) == "pass"}
    fixed = {rule.name: rule.value for rule in RULES.values() if "{work}" not in rule.value}
    return found | exempt_loopback(found) | _fill_in(fixed, {"cpus": "1", "secrets": ""})


def tracker_environment(patterns: Iterable[str], caller: Mapping[str, str]) -> dict[str, str]:
    """The variables of the trackers: those of the machine and of its network, and those in `patterns`."""
    exact = {pattern for pattern in patterns if not pattern.endswith("*")}
    prefixes = tuple(pattern[:-1] for pattern in patterns if pattern.endswith("*"))
    declared = {name: caller[name] for name in caller if name in exact or name.startswith(prefixes)}
    if HUB_CREDENTIAL in exact:
        declared |= resolve_secrets((HUB_CREDENTIAL,), caller)
    return forkserver_environment(caller) | declared


def resolve_secrets(names: tuple[str, ...], caller: Mapping[str, str]) -> dict[str, str]:
    """The values of secrets in the client's environment; the token of the hub also from its file."""
    found = {name: caller[name] for name in names if name in caller}
    if HUB_CREDENTIAL in names and (token := _find_hub_token(caller)):
        found[HUB_CREDENTIAL] = token
    return found


def subprocess_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables of a program that a step starts: those of the step, without its secrets."""
    withheld = {*environment.get(_WITHHELD_NAMES, "").split(","), *_PROCESS_GROUP, _WITHHELD_NAMES}
    return {name: value for name, value in environment.items() if name not in withheld}


@contextmanager
def without_secrets(keep: Sequence[str] = ()) -> Generator[None]:
    """Remove the step's secrets from this process while it runs code of others, except those in `keep`."""
    withheld = os.environ.get(_WITHHELD_NAMES, "").split(",")
    names = [name for name in withheld if name in os.environ and name not in keep]
    removed = {name: os.environ.pop(name) for name in names}
    try:
        yield
    finally:
        os.environ.update(removed)


def unused_variables(step: Step, caller: Mapping[str, str], *, container: bool) -> dict[str, str]:
    """The caller's variables that configure the stack and do not reach the step, each with the reason."""
    found: dict[str, str] = {}
    for name in sorted(set(caller) - set(step.secrets)):
        rule = find_rule(name, RULES)
        if rule is None or rule.unreported or not rule.applies_to(step):
            continue
        if rule.action == "pass" and container and rule.in_container == "image":
            found[name] = f"it belongs to this machine, not to the image. {rule.reason}"
        elif rule.action == "drop" or (rule.action == "set" and caller[name] != rule.value):
            found[name] = rule.reason
    return found


def log_unused_variables(step: Step, work: Path, caller: Mapping[str, str]) -> None:
    """Write the names of these variables to the step's log. A value can be confidential."""
    unused = unused_variables(step, caller, container=step.image is not None)
    if unused:
        with (work / "record" / "log").open("a", encoding="utf-8") as log:
            log.writelines(f"posttrain: {name} is set but not used: {why}\n" for name, why in unused.items())


def _is_passed(name: str, step: Step, container: bool) -> bool:
    rule = find_rule(name, RULES)
    if rule is None or rule.action != "pass" or not rule.applies_to(step) or name in step.secrets:
        return False
    return not container or rule.in_container == "same"


def _fill_in(templates: Mapping[str, str], terms: Mapping[str, str]) -> dict[str, str]:
    """The values of templates, without the empty ones."""
    filled = {name: template.format_map(terms) for name, template in templates.items()}
    return {name: value for name, value in filled.items() if value}


def _set_value(rule: VariableRule, container: bool) -> str:
    if container and rule.in_container == "set":
        return rule.container_value
    return rule.value


def _action(name: str) -> str | None:
    rule = find_rule(name, RULES)
    return None if rule is None else rule.action


def _find_hub_token(caller: Mapping[str, str]) -> str | None:
    for name in _TOKEN_VARIABLES:
        if token := caller.get(name, "").strip():
            return token
    try:
        return _token_file(caller).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return None


def _token_file(caller: Mapping[str, str]) -> Path:
    """The file that `hf auth login` writes."""
    home = Path(caller.get("HOME") or Path.home())
    cache = Path(caller.get("XDG_CACHE_HOME") or home / ".cache")
    hub_home = Path(caller.get("HF_HOME") or cache / "huggingface").expanduser()
    return Path(caller.get("HF_TOKEN_PATH") or hub_home / "token").expanduser()


def _user_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # the uid has no name
        return "posttrain"
