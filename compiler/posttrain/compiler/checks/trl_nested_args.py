"""Checks the keys inside TRL arguments that are mappings.

The table lists the valid keys of each argument. Some depend on the stage: on the engine that generates
completions, the optimizer, the architecture or the method.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, cast

from posttrain.compiler.checks.reserved_trl_nested_args import nested_recipe_equivalent
from posttrain.compiler.checks.trained_model import TrainedModel
from posttrain.compiler.checks.trl_arg_values import Problem, value_problems
from posttrain.compiler.facts.fact_tables import load_table
from posttrain.compiler.text.yaml_tree import KeyPath, Node, ScalarNode, node_at
from posttrain.spec.record import record
from posttrain.spec.suggestions import hint

Keys = Mapping[str, Mapping[str, Any]]


def _optimizer(trained_model: TrainedModel) -> str | None:
    entry = load_table("trl")["shared"]["optim"]
    named = trained_model.stage.trl.get("optim", entry["default"])
    return named if named in entry["choices"] else None


# Return which key set of an argument applies to a stage, or None if that is unknown.
_SELECTORS: Mapping[str, Callable[[TrainedModel], str | None]] = {
    "architecture": lambda subject: subject.shape.architecture.model_type if subject.shape else None,
    "method": lambda subject: subject.method.trl,
    "optim": _optimizer,
    "writer": lambda subject: subject.rollout_engine,
}
_SELECTOR_TEXT = {
    "architecture": "the model's architecture",
    "method": "the method",
    "optim": "`trl: {optim: ...}`",
    "writer": "`placement: {rollouts: ...}`",
}
_PAIR_HELP = "write `key=value,key=value`"
_BOOLEAN_WORDS = ("true", "false", "1", "0", "yes", "no")


@record(kw_only=True)
class KeyScope:
    """An argument, or a key inside one, with the keys that it takes."""

    name: str
    # The case that applies to the stage, if the keys depend on it.
    case: str = ""
    known: Keys
    # The keys of the other cases, and the setting that selects the case.
    other_cases: Mapping[str, Keys]
    selector: str = ""
    accepts_any: bool = False
    # Whether the value is text of `key=value` pairs, which has a single source span.
    pairs: bool = False


def find_nested_problems(
    trained_model: TrainedModel, name: str, value: Any, path: KeyPath, root: Node
) -> Iterator[Problem]:
    """Yield the problems inside an argument that the table describes."""
    argument = load_table("trl_nested")["arguments"].get(name)
    if argument is None:
        return
    yield from _check_used(trained_model, name, argument, path)
    scope = _scope(name, argument, trained_model)
    if scope.pairs and isinstance(value, str):
        yield from _check_pairs(scope, value, path, root)
    elif isinstance(value, dict):
        yield from _check_mapping(scope, cast("Mapping[str, Any]", value), path, root)


def _check_used(
    trained_model: TrainedModel, name: str, entry: Mapping[str, Any], path: KeyPath
) -> Iterator[Problem]:
    """Report an argument that has an effect only if another argument is true."""
    where, switch = entry.get("read_if", ("", ""))
    on = trained_model.param_value(switch) if where == "params" else trained_model.stage.trl.get(switch)
    if switch and not on:
        message = f"`{name}` has no effect unless `{switch}` is true"
        help = f"set `{where}.{switch}: true`, or remove the argument"
        yield Problem(kind="unread", path=path, message=message, help=help)


def _scope(name: str, argument: Mapping[str, Any], trained_model: TrainedModel) -> KeyScope:
    scope = KeyScope(
        name=name, known={}, other_cases={}, accepts_any="open" in argument, pairs="written" in argument
    )
    if "by" not in argument:
        return replace(scope, known=_key_set(argument["set"]))
    sets = {case: _key_set(one) for case, one in _cases(argument["sets"]).items()}
    case = _SELECTORS[argument["by"]](trained_model)
    if case is None:
        every = {key: entry for keys in sets.values() for key, entry in keys.items()}
        return replace(scope, known=every)
    others = {other: keys for other, keys in sets.items() if other != case}
    return replace(
        scope,
        case=case,
        known=sets.get(case, {}),
        other_cases=others,
        selector=_SELECTOR_TEXT[argument["by"]],
    )


def _cases(sets: Mapping[str, str] | str) -> Mapping[str, str]:
    """Return the names of the key sets by case. A separate library has its own cases."""
    return load_table("trl_nested")["apart"][sets]["cases"] if isinstance(sets, str) else sets


def _key_set(name: str) -> Keys:
    facts = load_table("trl_nested")
    found = [part["sets"][name] for part in (facts, *facts["apart"].values()) if name in part["sets"]]
    return found[0]


def _check_mapping(scope: KeyScope, value: Mapping[str, Any], path: KeyPath, root: Node) -> Iterator[Problem]:
    for key, item in value.items():
        below = (*path, key)
        problem = _check_key(scope, key, below)
        if problem is not None:
            yield problem
        elif key in scope.known:
            entry = scope.known[key]
            wrong = list(value_problems(key, item, entry, below, node_at(root, below)[0]))
            yield from wrong
            if "set" in entry and isinstance(item, dict) and not wrong:
                inner = KeyScope(name=key, known=_key_set(entry["set"]), other_cases={})
                yield from _check_mapping(inner, cast("Mapping[str, Any]", item), below, root)


def _check_key(scope: KeyScope, key: str, path: KeyPath) -> Problem | None:
    """Report a key that is reserved or unknown."""
    owner = nested_recipe_equivalent(scope.name, key)
    if owner is not None:
        message = f"`{key}` cannot be set under `{scope.name}`"
        return Problem(kind="reserved", path=path, message=message, help=owner)
    if key in scope.known or scope.accepts_any:
        return None
    help, meant = _suggest_key(scope, key)
    message = f"`{scope.name}`{f' for `{scope.case}`' if scope.case else ''} has no key `{key}`"
    return Problem(kind="unknown", path=path, message=message, help=help, replace=meant)


def _suggest_key(scope: KeyScope, key: str) -> tuple[str, str | None]:
    others = [f"`{case}`" for case, keys in scope.other_cases.items() if key in keys]
    if others:
        return f"supported only for {', '.join(others[:3])}: {scope.selector} selects the case", None
    if not scope.known:
        return "it takes no keys here", None
    help, meant = hint(key, scope.known, what="keys here")
    owner = nested_recipe_equivalent(scope.name, meant) if meant else None
    return (f"{help} {owner}", None) if owner is not None else (help, meant)


def _check_pairs(scope: KeyScope, value: str, path: KeyPath, root: Node) -> Iterator[Problem]:
    """Check `key=value,key=value`. Every problem is reported at the whole text."""
    for pair in value.replace(" ", "").split(",") if value else ():
        key, equals, item = pair.partition("=")
        if not equals or "=" in item:
            message = f"`{pair}` is not a `key=value` pair"
            yield Problem(kind="wrong", path=path, message=message, help=_PAIR_HELP, key=False)
            continue
        problem = _check_key(scope, key, path)
        if problem is not None:
            yield replace(problem, key=False, replace=None)
            continue
        found = replace(_leaf(node_at(root, path)[0]), value=item, text=item)
        entry = scope.known[key]
        read = _parse_value(item, entry["type"])
        yield from (replace(one, replace=None) for one in value_problems(key, read, entry, path, found))


def _leaf(node: Node) -> ScalarNode:
    assert isinstance(node, ScalarNode), "text is a scalar node"
    return node


def _parse_value(text: str, kinds: list[str]) -> Any:
    """Parse a value inside a text as one of the types; return the text if that fails."""
    if "boolean" in kinds:
        return text.lower() in _BOOLEAN_WORDS or text
    try:
        return int(text) if "integer" in kinds else float(text) if "number" in kinds else text
    except ValueError:
        return text
