"""What is wrong within an argument of TRL that is a mapping: its keys are those of whatever it is handed to.

The table says for each of these arguments what that is. Where it depends, it says on what, and the stage
tells which: what writes the completions, the optimizer, the architecture, the method.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, cast

from posttrain.compiler.checks.reserved_trl_nested_args import nested_recipe_equivalent
from posttrain.compiler.checks.trained_model import TrainedModel
from posttrain.compiler.checks.trl_arg_values import Problem, value_problems
from posttrain.compiler.diagnosis.suggest import hint
from posttrain.compiler.facts.fact_tables import load_table
from posttrain.compiler.text.yaml_tree import KeyPath, Node, ScalarNode, node_at
from posttrain.spec.record import record

Keys = Mapping[str, Mapping[str, Any]]


def _optimizer(trained_model: TrainedModel) -> str | None:
    entry = load_table("trl")["shared"]["optim"]
    named = trained_model.stage.trl.get("optim", entry["default"])
    return named if named in entry["choices"] else None


# Which of an argument's sets of keys counts for a stage; None where that is not known.
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
    """An argument, or a key within one, and the keys that it takes."""

    name: str
    # What it takes these keys for, as far as that depends on the stage.
    case: str = ""
    known: Keys
    # The cases in which it takes others, with what decides.
    other_cases: Mapping[str, Keys]
    selector: str = ""
    accepts_any: bool = False
    # Written in one text, so that all of it stands in one place.
    pairs: bool = False


def find_nested_problems(
    trained_model: TrainedModel, name: str, value: Any, path: KeyPath, root: Node
) -> Iterator[Problem]:
    """What is wrong within an argument that the table looks into."""
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
    """An argument that is looked at only if another one is true."""
    where, switch = entry.get("read_if", ("", ""))
    on = trained_model.param_value(switch) if where == "params" else trained_model.stage.trl.get(switch)
    if switch and not on:
        message = f"`{name}` has no effect: nothing reads it while `{switch}` is not true"
        help = f"set `{where}.{switch}`, or take it out"
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
    """The cases, by the names of their sets; or those of a library that stands apart."""
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
    """A key that is posttrain's own, or that is none."""
    owner = nested_recipe_equivalent(scope.name, key)
    if owner is not None:
        message = f"`{key}` is not given under `{scope.name}`"
        return Problem(kind="reserved", path=path, message=message, help=owner)
    if key in scope.known or scope.accepts_any:
        return None
    help, meant = _suggest_key(scope, key)
    message = f"`{scope.name}`{f' for `{scope.case}`' if scope.case else ''} has no key `{key}`"
    return Problem(kind="unknown", path=path, message=message, help=help, replace=meant)


def _suggest_key(scope: KeyScope, key: str) -> tuple[str, str | None]:
    others = [f"`{case}`" for case, keys in scope.other_cases.items() if key in keys]
    if others:
        return f"it has one for {', '.join(others[:3])}: {scope.selector} decides", None
    if not scope.known:
        return "it takes none here", None
    help, meant = hint(key, scope.known, what="keys here")
    owner = nested_recipe_equivalent(scope.name, meant) if meant else None
    return (f"{help} {owner}", None) if owner is not None else (help, meant)


def _check_pairs(scope: KeyScope, value: str, path: KeyPath, root: Node) -> Iterator[Problem]:
    """`key=value,key=value`, told at the place of the whole text."""
    for pair in value.replace(" ", "").split(",") if value else ():
        key, equals, item = pair.partition("=")
        if not equals or "=" in item:
            message = f"`{pair}` is no pair of a key and a value"
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
    assert isinstance(node, ScalarNode), "a text stands in one place"
    return node


def _parse_value(text: str, kinds: list[str]) -> Any:
    """A value within a text, as what it is read as; the text where it cannot be."""
    if "boolean" in kinds:
        return text.lower() in _BOOLEAN_WORDS or text
    try:
        return int(text) if "integer" in kinds else float(text) if "number" in kinds else text
    except ValueError:
        return text
