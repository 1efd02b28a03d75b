"""One data step of a dataset: held to the columns before it, and lowered to operations."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from posttrain.compiler.data import codes
from posttrain.compiler.data.relational import RELATIONAL
from posttrain.compiler.data.tables import StepError, Table
from posttrain.compiler.diagnosis.findings import Findings
from posttrain.compiler.diagnosis.suggest import hint
from posttrain.compiler.reading.validate import validate
from posttrain.compiler.resolution.uses import Ref
from posttrain.compiler.text.source import Request
from posttrain.compiler.text.tree import Leaf, Path, at
from posttrain.spec.declared import written
from posttrain.spec.diagnostic import Label, Span
from posttrain.spec.extension import DataOp, Extension
from posttrain.spec.types import Columns

_CODES = {
    "column": codes.NO_COLUMN,
    "form": codes.BAD_STEP,
    "sql": codes.BAD_SQL,
    "rows": codes.TOO_FEW_ROWS,
}
# Steps that leave the columns as they are: what comes after a mistaken one can still be checked.
_KEEPING = ("where", "sort", "dedup", "sample", "split")
Lowered = tuple[list[dict[str, Any]], Table, Extension | None]


def lowered_step(
    step: Mapping[str, Any],
    path: Path,
    table: Table,
    seed: int,
    others: Mapping[str, Table],
    request: Request,
    findings: Findings,
) -> Lowered | None:
    """The operations of a step with what comes of it; None when it is mistaken, which is reported."""
    if len(step) != 1:
        findings.add(codes.UNKNOWN_STEP, path, "a data step is one key, its name, with its value")
        return None
    name, value = next(iter(step.items()))
    relational = RELATIONAL.get(name)
    if relational is not None:
        try:
            operations, after = relational(value, table, seed, others)
            return operations, _with_gaps(name, value, table, after), None
        except StepError as error:
            _report(error, (*path, name, *error.at), findings)
            return None
    op = request.catalog.find("data", name)
    if not isinstance(op, DataOp):
        _unknown(name, (*path, name), request, findings)
        return None
    return _extension_step(op, (*path, name), table, seed, others, request, findings)


def _with_gaps(name: str, value: Any, before: Table, after: Table) -> Table:
    """The table after a relational step, with the empty places that can still be spoken of."""
    if not before.gaps:
        return after
    from posttrain.compiler.data.gaps import gaps_after

    return gaps_after(name, value, before, after)


def after_mistake(step: Mapping[str, Any], table: Table) -> Table | None:
    """What later steps can be held to after a mistaken one; None when that is not known."""
    name = next(iter(step), "") if len(step) == 1 else ""
    if name not in _KEEPING:
        return None
    parts: dict[str, int | None] = dict.fromkeys(table.parts)
    if name == "split" and isinstance(step[name], dict):
        parts = dict.fromkeys(["train", *(str(part) for part in step[name])])
    return replace(table, parts=parts, exact=False)


def check_step_names(
    steps: Sequence[Mapping[str, Any]], first: int, path: Path, request: Request, findings: Findings
) -> None:
    """Report the unknown ones of steps that cannot be held to columns, since those are not known."""
    for index, step in enumerate(steps[first:], first):
        for name in step:
            if name not in RELATIONAL and not isinstance(request.catalog.find("data", name), DataOp):
                _unknown(name, (*path, index, name), request, findings)


def _unknown(name: str, path: Path, request: Request, findings: Findings) -> None:
    from posttrain.compiler.diagnosis.synonyms import key_hint

    help, meant = key_hint(name, (*RELATIONAL, *request.catalog.names("data")), what="data steps")
    message = f"there is no data step `{name}`"
    findings.add(codes.UNKNOWN_STEP, path, message, key=True, help=help, replace=meant)


def _report(error: StepError, path: Path, findings: Findings) -> None:
    code = _CODES.get(error.code)
    if code is None:  # reported where the other dataset is
        return
    leaf, taken = at(findings.root, path)
    span = _word(leaf, error.word) if taken == len(path) and isinstance(leaf, Leaf) and error.word else None
    if span is None:
        findings.add(code, path, str(error), help=error.help)
    else:
        labels: tuple[Label, ...] = leaf.via
        findings.at_span(code, span, str(error), help=error.help, labels=labels)


def _word(leaf: Leaf, word: str) -> Span | None:
    """Where a word stands in a text, if the text stands in one line just as it is."""
    span, found = leaf.span, re.search(rf"(?<!\w){re.escape(word)}(?!\w)", leaf.text)
    quotes = span.end_column - span.column - len(leaf.text)
    if found is None or span.line != span.end_line or quotes != (0 if leaf.plain else 2):
        return None
    start = span.column + quotes // 2 + found.start()
    return Span(span.file, span.line, start, span.line, start + len(word))


def _extension_step(
    op: DataOp,
    path: Path,
    table: Table,
    seed: int,
    others: Mapping[str, Table],
    request: Request,
    findings: Findings,
) -> tuple[list[dict[str, Any]], Table, Extension | None] | None:
    params = validate(op.params, at(findings.root, path)[0], path, findings)
    other = op.other(params) if params is not None else None
    if params is None or (other is not None and not _other_there(other, others, path, findings)):
        return None
    try:
        columns: Columns = op.columns(params, table.columns)
        if other is not None:
            op.needs(params, others[other].columns)
    except ValueError as error:
        findings.add(codes.BAD_STEP, path, str(error))
        return None
    operation = {
        "op": op.name,
        "entry": request.catalog.entry("data", op.name),
        "params": written(params),
        "seed": seed,
        **({"other": other} if other is not None else {}),
    }
    parts = {part: op.rows(params, rows) for part, rows in table.parts.items()}
    exact = table.exact and op.exact
    return [operation], replace(table, columns=columns, parts=parts, exact=exact, gaps={}), op


def part_of(ref: Ref, table: Table, path: Path, findings: Findings, *, key: bool = False) -> bool:
    """Whether the part that a reference names is there."""
    if ref.part is None or ref.part in table.parts:
        return True
    parts = [part for part in table.parts if part != "all"]
    help, meant = hint(ref.part, parts, what="parts")
    replace = f"{ref.name}.{meant}" if meant else None
    message = f"`{ref.name}` has no part `{ref.part}`"
    help = help if parts else "the data is not split; add a step `split`"
    findings.add(codes.NO_PART, path, message, key=key, help=help, replace=replace)
    return False


def _other_there(other: str, others: Mapping[str, Table], path: Path, findings: Findings) -> bool:
    """Whether the rows that a step looks against are known, and have the part that is named."""
    name, _, part = other.partition(".")
    ref = Ref("dataset", name, part or None)
    return other in others and part_of(ref, others[other], (*path, "against"), findings)
