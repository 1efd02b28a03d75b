"""Holds a piece of the tree to a declaration, and turns what does not fit into diagnostics."""

import re
from collections.abc import Sequence
from typing import Any, Literal, TypeVar, get_args, get_origin

from posttrain.compiler.diagnosis.examples import MINIMAL, minimal
from posttrain.compiler.diagnosis.findings import Findings
from posttrain.compiler.diagnosis.suggest import listed, proposed
from posttrain.compiler.text.tree import Leaf, Listed, Mapped, Node, Path, at, plain
from posttrain.spec.declared import Declaration, keys_of
from posttrain.spec.diagnostic import Code
from posttrain.spec.forms import NAME_FORM
from posttrain.spec.materials import Secret
from posttrain.spec.reading import Problem, Unreadable, read

UNKNOWN_KEY = Code(
    "PT0201",
    "an unknown key",
    "error",
    "The key has no meaning here. Nothing is ignored in silence: a misspelt option that has no effect"
    " costs a training run.",
    wrong=minimal(("epochs: 1", "epoch: 1")),
    right=MINIMAL,
)
MISSING_KEY = Code(
    "PT0202",
    "a key is missing",
    "error",
    "The mapping needs this key: it has no default.",
    wrong=minimal(("layers: 2, ", "")),
    right=MINIMAL,
)
WRONG_TYPE = Code(
    "PT0203",
    "a value of the wrong type",
    "error",
    "The field takes another type. Text that looks like a number, such as 1_000 or 10k, is text in YAML.",
    wrong=minimal(("batch: 4", "batch: 1_000")),
    right=MINIMAL,
)
WRONG_VALUE = Code(
    "PT0204",
    "a value that the field does not take",
    "error",
    "The value has the right type, but lies outside what the field takes.",
    wrong=minimal(("layers: 2", "layers: 0")),
    right=MINIMAL,
)
CODES = (UNKNOWN_KEY, MISSING_KEY, WRONG_TYPE, WRONG_VALUE)
Model = TypeVar("Model", bound=Declaration)


def validate(model: type[Model], node: Node, path: Path, findings: Findings) -> Model | None:
    """The declaration, or None when the tree does not fit; then every reason is reported."""
    try:
        return read(model, plain(node))
    except Unreadable as error:
        return _as_meant(model, error.problems, node, path, findings)


def _as_meant(
    model: type[Model], problems: Sequence[Problem], node: Node, path: Path, findings: Findings
) -> Model | None:
    """Report what is wrong. What can be told apart from that is given nonetheless, for later checks."""
    from posttrain.compiler.diagnosis.mending import with_keys_meant, without_consequence

    unknown = [problem for problem in problems if problem.what == "unknown"]
    if unknown:
        _report_all(unknown, node, path, findings)
        node = with_keys_meant(unknown, node, path, findings)
        return validate(model, node, path, findings)
    _report_all(problems, node, path, findings)
    rest = without_consequence(problems, node)
    return None if rest is None else validate(model, rest, path, findings)


def _report_all(problems: Sequence[Problem], node: Node, path: Path, findings: Findings) -> None:
    for problem in problems:
        _report(problem, at(node, problem.at)[0], (*path, *problem.at), findings)


def _report(problem: Problem, found: Node, path: Path, out: Findings) -> None:
    key = str(path[-1]) if path else ""
    match problem.what:
        case "unknown":
            from posttrain.compiler.diagnosis.synonyms import key_hint

            help, meant = key_hint(key, problem.legal, what="keys here")
            said, secret = f"unknown key `{key}`", problem.legal == tuple(keys_of(Secret))
            out.add(UNKNOWN_KEY, path, said, key=True, help=help, replace=meant, secret=secret)
        case "missing":
            out.add(MISSING_KEY, path, f"the key `{key}` is missing", help=problem.message)
        case "key":
            out.add(
                WRONG_VALUE,
                path,
                f"the name `{key}` {problem.message}",
                key=True,
                help=_matching(problem, found),
            )
        case "type" if problem.wanted == (Secret,):
            out.add(WRONG_TYPE, path, "a secret is named here, and never written", help=_NAMED, secret=True)
        case "type":
            _wrong_type(problem.wanted, found, path, out)
        case "value":
            _wrong_value(problem, found, path, out)


_NAMED = "write {env: NAME}, with the name of the environment variable that holds it"
_WANTED = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text",
    list: "a list",
    tuple: "a list",
    dict: "a mapping",
}


def _wanted(kind: Any) -> str:
    """A type, in words."""
    if get_origin(kind) is Literal:
        return " or ".join(f"`{word}`" for word in get_args(kind))
    if isinstance(kind, type) and issubclass(kind, Declaration):
        return "a mapping"
    return _WANTED.get(get_origin(kind) or kind, "another type")


def _wrong_type(wanted: Sequence[Any], found: Node, path: Path, out: Findings) -> None:
    from posttrain.compiler.diagnosis.advice import advise

    key = next((step for step in reversed(path) if isinstance(step, str)), "")
    help, replace = advise(wanted, found, key)
    kinds = [kind for kind in wanted if kind is not int or float not in wanted]
    expected = " or ".join(dict.fromkeys(_wanted(kind) for kind in kinds))
    out.add(WRONG_TYPE, path, f"expected {expected}, found {describe(found)}", help=help, replace=replace)


def _wrong_value(problem: Problem, found: Node, path: Path, out: Findings) -> None:
    help, replace = _matching(problem, found), None
    message = problem.message
    if isinstance(found, Leaf) and found.text in problem.legal:
        help, replace = f"the quotes make it text; write {found.text}", found.text
    elif isinstance(found, Leaf) and problem.legal:
        from posttrain.compiler.diagnosis.synonyms import key_meant

        known = sorted(set(problem.legal))
        replace = key_meant(found.text, known)
        help = proposed(replace, known, "values here") if replace else listed(known, "values here")
    elif isinstance(found, Leaf) and message.startswith(_SHARES):
        help, replace = _share(found)
    if isinstance(found, Leaf) and message.startswith(("must", "does", "is ")):
        message = f"`{describe_text(found)}` {message}"
    elif isinstance(found, Leaf):
        message = f"`{describe_text(found)}`: {message}"
    out.add(WRONG_VALUE, path, message, help=help, replace=replace)


_SHARES = ("must be below 1", "must be at most 1")


def _share(found: Leaf) -> tuple[str, str | None]:
    """A share is below 1: 95 was meant as 0.95."""
    if isinstance(found.value, int | float) and 1 < found.value <= 100:
        meant = f"{found.value / 100:g}"
        return f"this is a share, not per cent: write {meant}", meant
    return "", None


def _matching(problem: Problem, found: Node) -> str:
    if not problem.wanted:
        return ""
    if problem.wanted[0] != NAME_FORM:
        return f"it must match {problem.wanted[0]}"
    written = found.text if isinstance(found, Leaf) and problem.what != "key" else str(problem.at[-1])
    meant = re.sub(r"[^A-Za-z0-9_-]+", "-", written).strip("-0123456789_")[:64]
    return "a name begins with a letter and holds letters, digits, `-` and `_`, 64 at most" + (
        f": {meant}, say" if meant else ""
    )


def describe(node: Node) -> str:
    """What a value is, in words for a message."""
    match node:
        case Mapped():
            return "a mapping"
        case Listed():
            return "a list"
        case Leaf(value=None):
            return "nothing"
        case Leaf(value=bool()):
            return f"`{node.text}`"
        case Leaf(value=str()):
            return f"the text `{describe_text(node)}`"
        case Leaf():
            return f"the number `{describe_text(node)}`"


def describe_text(leaf: Leaf) -> str:
    """A value as written, or its beginning."""
    return leaf.text if len(leaf.text) <= 40 else leaf.text[:37] + "..."
