"""Holds a piece of the tree to a pydantic model, and turns what pydantic says into diagnostics."""

from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from posttrain.compiler.examples import MINIMAL, minimal
from posttrain.compiler.findings import Findings
from posttrain.compiler.scalars import almost_number
from posttrain.compiler.suggest import hint, nearest
from posttrain.compiler.tree import Leaf, Listed, Mapped, Node, Path, at, plain
from posttrain.spec.diagnostic import Code
from posttrain.spec.recipe import Secret

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
Model = TypeVar("Model", bound=BaseModel)


def validate(model: type[Model], node: Node, path: Path, findings: Findings) -> Model | None:
    """The model's instance, or None when the tree does not fit; then every reason is reported."""
    try:
        return model.model_validate(plain(node))
    except ValidationError as error:
        problems = error.errors(include_url=False)
        places = [_existing(node, problem["loc"], problem["type"]) for problem in problems]
        # A misspelt key is also a missing one: only the first is the mistake.
        seen = {m for p, w in zip(problems, places, strict=True) for m in _meant(model, dict(p), w)}
        for problem, where in zip(problems, places, strict=True):
            if problem["type"] == "literal_error" and any(w[: len(where)] == where != w for w in places):
                continue  # a mapping where a word may stand too: what is wrong inside it is the matter
            if where not in seen:  # a union reports once for each of its members
                seen.add(where)
                _report(model, node, path, where, dict(problem), findings)
        return None


def _meant(model: type[BaseModel], problem: dict[str, Any], where: Path) -> list[Path]:
    """The key that an unknown one was meant for."""
    inner = _model_at(model, where[:-1]) if problem["type"] == "extra_forbidden" else None
    meant = nearest(str(where[-1]), keys_of(inner)) if inner else None
    return [(*where[:-1], meant)] if meant else []


def keys_of(model: type[BaseModel]) -> list[str]:
    """The keys that a mapping of this model may hold."""
    return [field.alias or name for name, field in model.model_fields.items()]


def _existing(node: Node, loc: tuple[str | int, ...], kind: str) -> Path:
    """The part of pydantic's location that the tree has; names of union members fall away."""
    path: Path = ()
    for step in loc:
        if at(node, (*path, step))[1] == len(path) + 1:
            path = (*path, step)
    return (*path, loc[-1]) if kind == "missing" else path


def _report(
    model: type[BaseModel],
    node: Node,
    base: Path,
    where: Path,
    problem: dict[str, Any],
    out: Findings,
) -> None:
    path = (*base, *where)
    match problem["type"]:
        case "extra_forbidden":
            key = str(where[-1])
            inner = _model_at(model, where[:-1])
            help, meant = hint(key, keys_of(inner) if inner else [], what="keys here")
            out.add(UNKNOWN_KEY, path, f"unknown key `{key}`", key=True, help=help, replace=meant)
        case "missing":
            inner = _model_at(model, where[:-1])
            field = _field(inner, str(where[-1])) if inner else None
            help = (field.description or "") if field else ""
            out.add(MISSING_KEY, path, f"the key `{where[-1]}` is missing", help=help)
        case kind if kind.endswith(("_type", "_parsing")) or kind in (
            "int_from_float",
            "is_instance_of",
        ):
            if _model_at(model, where) is Secret:
                out.add(WRONG_TYPE, path, "a secret is named here, and never written", help=_NAMED)
            else:
                _wrong_type(node, path, where, problem, out)
        case _:
            _wrong_value(node, path, where, problem, out)


_NAMED = "write {env: NAME}, with the name of the environment variable that holds it"
_WANTED = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "string": "text",
    "list": "a list",
    "dict": "a mapping",
    "model": "a mapping",
    "tuple": "a list",
    "none": "nothing",
}


def _wrong_type(node: Node, path: Path, where: Path, problem: dict[str, Any], out: Findings) -> None:
    found = at(node, where)[0]
    wanted = _WANTED.get(problem["type"].split("_")[0], "another type")
    help, replace = "", None
    if isinstance(found, Leaf) and isinstance(found.value, str) and wanted in ("a number", "a whole number"):
        replace = almost_number(found.value)
        if replace is not None and found.plain:
            help = f"YAML reads `{found.value}` as text; write {replace}"
        elif replace is not None:
            help = f"the quotes make it text; write {replace}"
    out.add(WRONG_TYPE, path, f"expected {wanted}, found {describe(found)}", help=help, replace=replace)


def _wrong_value(node: Node, path: Path, where: Path, problem: dict[str, Any], out: Findings) -> None:
    found = at(node, where)[0]
    message = problem["msg"][:1].lower() + problem["msg"][1:]
    message = message.removeprefix("value error, ").replace("input should", "must")
    help, replace = "", None
    if problem["type"] == "literal_error" and isinstance(found, Leaf):
        legal = [part.strip("' ") for part in problem["ctx"]["expected"].replace(" or ", ",").split(",")]
        help, replace = hint(found.text, legal, what="values here")
        message = f"`{found.text}` is none of the values that this field takes"
    elif problem["type"] == "string_pattern_mismatch" and isinstance(found, Leaf):
        message = f"`{found.text}` does not have the form that this field takes"
        help = f"it must match {problem['ctx']['pattern']}"
    elif isinstance(found, Leaf):
        message = f"`{found.text}`: {message}"
    out.add(WRONG_VALUE, path, message, help=help, replace=replace)


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
            shown = node.text if len(node.text) <= 40 else node.text[:37] + "..."
            return f"the text `{shown}`"
        case Leaf():
            return f"the number `{node.text}`"


def _field(model: type[BaseModel], key: str) -> Any:
    for name, field in model.model_fields.items():
        if key in (name, field.alias):
            return field
    return None


def _model_at(model: type[BaseModel], where: Path) -> type[BaseModel] | None:
    """The model that governs a nested mapping."""
    current: type[BaseModel] | None = model
    for step in where:
        if current is None:
            return None
        if isinstance(step, int):
            continue
        field = _field(current, step)
        current = _inner(field.annotation) if field else None
    return current


def _inner(annotation: Any) -> type[BaseModel] | None:
    """The model within an annotation: itself, or inside a union, list or dict."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for part in get_args(annotation):
        inner = _inner(part)
        if inner is not None:
            return inner
    return None
