"""The types of the policy for the environment variables of a step's processes.

The rules are in `variable_rules.py`. A variable without a rule does not reach a step. A secret that the
recipe names (`{env: NAME}`) reaches the steps that use it, whatever the rules are.
"""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from posttrain.spec.record import record

if TYPE_CHECKING:
    from posttrain.spec.plan import Step

# pass: the user's value. set: the value of the rule. drop: no value. secret: see `HUB_CREDENTIAL`.
Action = Literal["pass", "set", "drop", "secret"]
# The steps that receive the variable. hub: they read from or write to the Hugging Face Hub.
Scope = Literal["every", "network", "hub", "gpus", "processes"]
# In a container. same: as in a local process. image: the image's own value, if it has one.
InContainer = Literal["same", "image", "set"]

# The token of the hub. The client finds it where huggingface_hub does, and the compiler lists it in the
# secrets of each step that reads from the hub.
HUB_CREDENTIAL = "HF_TOKEN"
# Names of secrets, which no rule for a prefix covers.
_CREDENTIAL = re.compile(r"TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|API_?KEY|ACCESS_KEY", re.IGNORECASE)


@record(kw_only=True)
class VariableRule:
    """The rule of one variable, or of all variables with a prefix."""

    # A name, or a prefix with a final `*`. A longer one takes precedence over a shorter one.
    name: str
    action: Action
    # One line for the documentation and for the step's log.
    reason: str
    scope: Scope = "every"
    # Of action `set`. `{work}`, `{cpus}`, `{secrets}` and `{user}` stand for properties of the step.
    value: str = ""
    # Whether the variable can change the product. Then it is dropped, or its value is constant and part of
    # the key.
    changes_results: bool = False
    in_container: InContainer = "same"
    # The value if `in_container` is `set`.
    container_value: str = ""
    # Whether a user's value that has no effect goes unreported, because most shells set the variable.
    unreported: bool = False

    @property
    def is_prefix(self) -> bool:
        return self.name.endswith("*")

    def matches(self, name: str) -> bool:
        if not self.is_prefix:
            return name == self.name
        return name.startswith(self.name[:-1]) and _CREDENTIAL.search(name) is None

    def applies_to(self, step: "Step") -> bool:
        """Whether the step is in the scope of the rule."""
        match self.scope:
            case "every":
                return True
            case "network":
                return step.resources.network
            case "hub":
                return HUB_CREDENTIAL in step.secrets
            case "gpus":
                return step.resources.gpus > 0
            case "processes":
                return step.launch.processes > 1


Rules = tuple[VariableRule, ...]
# A path on the machine of the client means nothing in a container.
HOST_PATH: Mapping[str, Any] = {"in_container": "image"}


def rules_of(action: Action, names: str, reason: str, **options: Any) -> Rules:
    """One rule for each of the names, which have a common reason."""
    return tuple(VariableRule(name=name, action=action, reason=reason, **options) for name in names.split())


def find_rule(name: str, rules: Mapping[str, VariableRule]) -> VariableRule | None:
    """The rule of a variable: that of its name, or of its longest prefix."""
    if name in rules:
        return rules[name]
    matching = [rule for rule in rules.values() if rule.is_prefix and rule.matches(name)]
    return max(matching, key=lambda rule: len(rule.name), default=None)
