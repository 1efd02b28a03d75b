"""The page docs/environment-variables.md, from the rules for the variables of a step's processes."""

from itertools import groupby

from posttrain.spec.process_variables import HUB_CREDENTIAL, Action, VariableRule
from posttrain.spec.variable_rules import RULES, key_variables

_INTRODUCTION = f"""\
# Environment variables

The processes of a step receive the variables on this page and no others, in every runner: a local process, a
process that the forkserver forks, a container, a job of a cluster. The rule of a name takes precedence over
the rule of a prefix (`NCCL_*`), and a longer prefix over a shorter one. Generated from
`spec/posttrain/spec/variable_rules.py`.

- A variable that could change a product has one value for all users, or is dropped. So the key of a step does
  not depend on your shell, and a product made on another machine is a cache hit.
- These values are part of every key:
  {", ".join(f"`{name}={value}`" for name, value in key_variables().items())}.
- A variable on this page that you have set and that has no effect is named in the log of the step, with the
  reason. Variables that most shells set, such as `LANG`, are not.
- A recipe cannot set variables. What they would configure are keys of the recipe.
- An image can set variables. They are part of its digest, which is in the key. The values on this page take
  precedence.

## Secrets

A secret reaches only the steps that use it: `api_key: {{env: NAME}}` and `token: {{env: NAME}}` reach the
steps with that endpoint or push, `{HUB_CREDENTIAL}` the steps that read models or datasets from the hub.
`{HUB_CREDENTIAL}` comes from the variable, from its older names, or from the file that `hf auth login` writes
(`HF_TOKEN_PATH`, or `token` in `HF_HOME`). The libraries in a step do not find that file.

The process of the trackers gets the variables that are passed to steps, and those of its trackers: `WANDB_*`
and `NETRC` for wandb, `MLFLOW_*` and `DATABRICKS_*` for mlflow, `TRACKIO_*` and `HF_TOKEN` for trackio.

The programs that a step starts (reward functions, environments, the vLLM server) do not get its secrets, and
programs in the sandbox get no variable of this page. Plans, keys and records have the names of secrets, never
their values. If a library prints a value, it is masked in the log, the events and the failure when the step
ends. A prefix does not cover names of secrets (`TOKEN`, `SECRET`, `PASSWORD`, `API_KEY`).
"""

_SECTIONS: tuple[tuple[Action, str, str], ...] = (
    (
        "set",
        "Set by the policy",
        "Your own values have no effect. `{work}` is the work folder of the step, `{cpus}` its cores.",
    ),
    (
        "pass",
        "Passed from your environment",
        "They are not part of the key. `{tmp}` is the temporary folder of the container, `{user}` your name.",
    ),
    ("secret", "The token of the hub", "Passed as a secret."),
    (
        "drop",
        "Dropped",
        "A step never has your values. Other variables that are not on this page are dropped too.",
    ),
)
_SCOPES = {
    "every": "every step",
    "network": "steps with network",
    "hub": "steps that use the hub",
    "gpus": "steps on GPUs",
    "processes": "steps in several processes",
}


def environment_variables_page() -> str:
    return "\n".join([_INTRODUCTION, *(_section(*section) for section in _SECTIONS)]).rstrip() + "\n"


def _section(action: Action, title: str, note: str) -> str:
    rules = [rule for rule in RULES.values() if rule.action == action]
    rows = [_cells(list(group)) for _, group in groupby(rules, _shared)]
    titles = list(rows[0])
    lines = [titles, ["---"] * len(titles), *(list(row.values()) for row in rows)]
    return "\n".join([f"## {title}\n", note, "", *(f"| {' | '.join(line)} |" for line in lines), ""])


def _shared(rule: VariableRule) -> tuple[object, ...]:
    return rule.scope, rule.value, rule.reason, rule.changes_results, rule.in_container


def _cells(rules: list[VariableRule]) -> dict[str, str]:
    """A row of the table: the cells by the titles of their columns."""
    rule = rules[0]
    cells = {"variables": ", ".join(f"`{one.name}`" for one in rules)}
    changes = "yes" if rule.changes_results else "no"
    match rule.action:
        case "set":
            cells |= {"value": f"`{rule.value}`", "in the key": changes}
        case "drop":
            cells |= {"can change a product": changes}
        case "pass" | "secret":
            cells |= {"steps": _SCOPES[rule.scope], "in a container": _container(rule)}
    return {**cells, "reason": rule.reason}


def _container(rule: VariableRule) -> str:
    match rule.in_container:
        case "same":
            return "the same"
        case "image":
            return "that of the image"
        case "set":
            return f"`{rule.container_value}`"
