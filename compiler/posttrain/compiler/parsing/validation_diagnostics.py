"""Validates a part of the tree against a declaration, and converts validation errors to diagnostics."""

import re
from collections.abc import Sequence
from typing import Any, Literal, TypeVar, get_args, get_origin

from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.diagnosis.minimal_recipe import MINIMAL_RECIPE, minimal_recipe
from posttrain.compiler.text.yaml_tree import (
    KeyPath,
    MappingNode,
    Node,
    ScalarNode,
    SequenceNode,
    node_at,
    node_to_builtins,
)
from posttrain.spec.declaration_fields import Declaration, keys_of
from posttrain.spec.declarations import Secret
from posttrain.spec.diagnostic import Code
from posttrain.spec.field_types import NAME_PATTERN
from posttrain.spec.suggestions import did_you_mean, format_choices
from posttrain.spec.url_passwords import mask_url_passwords
from posttrain.spec.validation import DeclarationError, FieldError, parse_declaration

UNKNOWN_KEY = Code(
    "PT0201",
    "unknown key",
    "error",
    "The mapping has no such key. Unknown keys are errors, because a misspelled option without effect can"
    " waste a training run. `recipe explain` lists the keys of every section.",
    wrong=minimal_recipe(("epochs: 1", "epoch: 1")),
    right=MINIMAL_RECIPE,
)
MISSING_KEY = Code(
    "PT0202",
    "missing key",
    "error",
    "The key is required, because it has no default. Add it.",
    wrong=minimal_recipe(("num_hidden_layers: 2, ", "")),
    right=MINIMAL_RECIPE,
)
WRONG_TYPE = Code(
    "PT0203",
    "wrong type",
    "error",
    "The value does not have the type of its field. YAML reads spellings such as 1_000 and 10k as text, not"
    " as numbers.",
    wrong=minimal_recipe(("batch_size: 4", "batch_size: 1_000")),
    right=MINIMAL_RECIPE,
)
WRONG_VALUE = Code(
    "PT0204",
    "invalid value",
    "error",
    "The value has the right type, but the field does not accept it: it is out of bounds, does not match a"
    " pattern, or is not one of the legal values.",
    wrong=minimal_recipe(("num_hidden_layers: 2", "num_hidden_layers: 0")),
    right=MINIMAL_RECIPE,
)
CODES = (UNKNOWN_KEY, MISSING_KEY, WRONG_TYPE, WRONG_VALUE)
DeclarationT = TypeVar("DeclarationT", bound=Declaration)


def validate(
    model: type[DeclarationT], node: Node, path: KeyPath, diagnostics: Diagnostics
) -> DeclarationT | None:
    """The declaration, or None after reported errors."""
    try:
        return parse_declaration(model, node_to_builtins(node))
    except DeclarationError as error:
        return _revalidate_corrected(model, error.errors, node, path, diagnostics)


def _revalidate_corrected(
    model: type[DeclarationT],
    problems: Sequence[FieldError],
    node: Node,
    path: KeyPath,
    diagnostics: Diagnostics,
) -> DeclarationT | None:
    """Report the errors. If they can be corrected or isolated, return the declaration for later checks."""
    from posttrain.compiler.diagnosis.key_correction import correct_keys, drop_independent_fields

    unknown = [problem for problem in problems if problem.kind == "unknown"]
    if unknown:
        _report_all(unknown, node, path, diagnostics)
        node = correct_keys(unknown, node, path, diagnostics)
        return validate(model, node, path, diagnostics)
    _report_all(problems, node, path, diagnostics)
    rest = drop_independent_fields(problems, node)
    return None if rest is None else validate(model, rest, path, diagnostics)


def _report_all(problems: Sequence[FieldError], node: Node, path: KeyPath, diagnostics: Diagnostics) -> None:
    for problem in problems:
        _report(problem, node_at(node, problem.path)[0], (*path, *problem.path), diagnostics)


def _report(problem: FieldError, found: Node, path: KeyPath, out: Diagnostics) -> None:
    key = str(path[-1]) if path else ""
    match problem.kind:
        case "unknown":
            from posttrain.compiler.diagnosis.key_suggestions import key_hint

            help, meant = key_hint(key, problem.legal, what="keys here")
            message, secret = f"unknown key `{key}`", problem.legal == tuple(keys_of(Secret))
            out.add(UNKNOWN_KEY, path, message, key=True, help=help, replace=meant, secret=secret)
        case "missing":
            out.add(MISSING_KEY, path, f"missing key `{key}`", help=problem.message)
        case "key":
            out.add(
                WRONG_VALUE,
                path,
                f"the name `{key}` {problem.message}",
                key=True,
                help=_pattern_help(problem, found),
            )
        case "type" if problem.expected == (Secret,):
            out.add(
                WRONG_TYPE,
                path,
                "a recipe must not contain a secret, only its name",
                help=_ENV_VARIABLE_HELP,
                secret=True,
            )
        case "type":
            _report_wrong_type(problem.expected, found, path, out)
        case "value":
            _report_wrong_value(problem, found, path, out)


_ENV_VARIABLE_HELP = "write {env: NAME}, with the name of the environment variable that contains it"
_TYPE_NAMES = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text",
    list: "a list",
    tuple: "a list",
    dict: "a mapping",
}


def _type_name(kind: Any) -> str:
    """A type, in words."""
    if get_origin(kind) is Literal:
        return " or ".join(f"`{word}`" for word in get_args(kind))
    if isinstance(kind, type) and issubclass(kind, Declaration):
        return "a mapping"
    return _TYPE_NAMES.get(get_origin(kind) or kind, "another type")


def _report_wrong_type(types: Sequence[Any], found: Node, path: KeyPath, out: Diagnostics) -> None:
    from posttrain.compiler.diagnosis.type_fixes import suggest_fix

    key = next((step for step in reversed(path) if isinstance(step, str)), "")
    help, replace = _foreign_value_help(found, path)
    if not help:
        help, replace = suggest_fix(types, found, key)
    kinds = [kind for kind in types if kind is not int or float not in types]
    expected = " or ".join(dict.fromkeys(_type_name(kind) for kind in kinds))
    out.add(
        WRONG_TYPE, path, f"expected {expected}, found {describe_node(found)}", help=help, replace=replace
    )


def _report_wrong_value(problem: FieldError, found: Node, path: KeyPath, out: Diagnostics) -> None:
    help, replace = _pattern_help(problem, found), None
    message, (foreign, ours) = problem.message, _foreign_value_help(found, path)
    if foreign:
        help, replace = foreign, ours
    elif isinstance(found, ScalarNode) and found.text in problem.legal:
        help, replace = f"the quotes make it text: write {found.text}", found.text
    elif isinstance(found, ScalarNode) and problem.legal:
        from posttrain.compiler.diagnosis.key_suggestions import suggest_key

        known = sorted(set(problem.legal))
        replace = suggest_key(found.text, known)
        help = (
            did_you_mean(replace, known, "values here") if replace else format_choices(known, "values here")
        )
    elif isinstance(found, ScalarNode) and message in _FRACTION_MESSAGES:
        help, replace = _fraction_help(found)
    path = named_key_path(path, found, message)
    if isinstance(found, ScalarNode) and message.startswith(("must", "does", "is ")):
        message = f"`{abbreviated_text(found)}` {message}"
    elif isinstance(found, ScalarNode):
        message = f"`{abbreviated_text(found)}`: {message}"
    out.add(WRONG_VALUE, path, message, help=help, replace=replace)


def _foreign_value_help(found: Node, path: KeyPath) -> tuple[str, str | None]:
    from posttrain.compiler.diagnosis.key_suggestions import value_hint

    if not isinstance(found, ScalarNode) or not path or not isinstance(path[-1], str):
        return "", None
    return value_hint(path[-1], found.text)


_FRACTION_MESSAGES = ("must be below 1", "must be at most 1")


def _fraction_help(found: ScalarNode) -> tuple[str, str | None]:
    """The fix for a percentage in place of a fraction: 0.95 for 95."""
    if isinstance(found.value, int | float) and 1 < found.value <= 100:
        meant = f"{found.value / 100:g}"
        return f"the value is a fraction, not a percentage: write {meant}", meant
    return "", None


def _pattern_help(problem: FieldError, found: Node) -> str:
    if not problem.expected:
        return ""
    if problem.expected[0] != NAME_PATTERN:
        return f"it must match {problem.expected[0]}"
    written = found.text if isinstance(found, ScalarNode) and problem.kind != "key" else str(problem.path[-1])
    meant = re.sub(r"[^A-Za-z0-9_-]+", "-", mask_url_passwords(written)).strip("-0123456789_")[:64]
    return "a name starts with a letter and has at most 64 letters, digits, `-` and `_`" + (
        f", such as {meant}" if meant else ""
    )


def describe_node(node: Node) -> str:
    """A description of a value for messages."""
    match node:
        case MappingNode():
            return "a mapping"
        case SequenceNode():
            return "a list"
        case ScalarNode(value=None):
            return "nothing"
        case ScalarNode(value=bool()):
            return f"`{node.text}`"
        case ScalarNode(value=str()):
            return f"the text `{abbreviated_text(node)}`"
        case ScalarNode():
            return f"the number `{abbreviated_text(node)}`"


def abbreviated_text(leaf: ScalarNode) -> str:
    """The text of a value, truncated. A password is masked before, because its end can be cut off."""
    text = mask_url_passwords(leaf.text)
    return text if len(text) <= 40 else text[:37] + "..."


def named_key_path(path: KeyPath, node: Node | None, message: str) -> KeyPath:
    """The path of the first key that a message about a mapping names; else that of the mapping.

    The checks of declarations and the schedules of methods know values, but no places.
    """
    keys = node.entries if isinstance(node, MappingNode) else {}
    named = next((word for word in re.findall(r"\w+", message) if word in keys), None)
    return path if named is None else (*path, named)
