"""Checks one data step of a dataset against the columns before it, and lowers it to operations."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from posttrain.compiler.data import data_codes
from posttrain.compiler.data.relational_steps import RELATIONAL_STEPS
from posttrain.compiler.data.table_schema import StepError, TableSchema
from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.parsing.validation_diagnostics import validate
from posttrain.compiler.resolution.references import Ref
from posttrain.compiler.text.compile_request import CompileRequest
from posttrain.compiler.text.yaml_tree import KeyPath, ScalarNode, node_at
from posttrain.compiler.user_files import user_file
from posttrain.spec.column_types import Columns
from posttrain.spec.declaration_fields import dump_declaration
from posttrain.spec.diagnostic import Label, Span
from posttrain.spec.extension import DataOp, Extension
from posttrain.spec.plan import UserFile
from posttrain.spec.record import record
from posttrain.spec.step_params.data_params import STEP_FILE_PREFIX, ExtensionOperation, Operation
from posttrain.spec.suggestions import hint

_CODE_OF_ERROR = {
    "column": data_codes.UNKNOWN_COLUMN,
    "form": data_codes.BAD_STEP,
    "sql": data_codes.BAD_SQL,
    "rows": data_codes.TOO_FEW_ROWS,
}
# Steps that do not change the columns: the steps after an invalid one can still be checked.
_COLUMN_PRESERVING = ("where", "sort", "dedup", "sample", "split")


@record
class LoweredStep:
    """A data step after lowering: its operations, the table after it, its extension and its user files."""

    operations: list[Operation]
    table: TableSchema
    extension: Extension | None = None
    files: Mapping[str, UserFile] = field(default_factory=dict[str, UserFile])


def lower_step(
    step: Mapping[str, Any],
    path: KeyPath,
    table: TableSchema,
    seed: int,
    others: Mapping[str, TableSchema],
    request: CompileRequest,
    diagnostics: Diagnostics,
) -> LoweredStep | None:
    """Return the operations of a step and the resulting table, or None if the step is invalid."""
    if len(step) != 1:
        diagnostics.add(data_codes.UNKNOWN_STEP, path, "a data step has one key: its name, with its value")
        return None
    name, value = next(iter(step.items()))
    relational = RELATIONAL_STEPS.get(name)
    if relational is not None:
        try:
            operations, after = relational(value, table, seed, others)
            after = replace(_with_nulls(name, value, table, after), turn_fields={})
            return LoweredStep(operations, after)
        except StepError as error:
            _report(error, (*path, name, *error.path), diagnostics)
            return None
    op = request.catalog.find("data", name)
    if not isinstance(op, DataOp):
        _report_unknown_step(name, (*path, name), request, diagnostics)
        return None
    return _lower_extension_step(op, (*path, name), table, seed, others, request, diagnostics)


def _with_nulls(name: str, value: Any, before: TableSchema, after: TableSchema) -> TableSchema:
    """Return the table after a relational step, with the null counts that are still known."""
    if not before.null_counts:
        return after
    from posttrain.compiler.data.nullability import nulls_after_step

    return nulls_after_step(name, value, before, after)


def table_after_error(step: Mapping[str, Any], table: TableSchema) -> TableSchema | None:
    """Return the table that later steps are checked against after an invalid step, or None if unknown."""
    name = next(iter(step), "") if len(step) == 1 else ""
    if name not in _COLUMN_PRESERVING:
        return None
    parts: dict[str, int | None] = dict.fromkeys(table.parts)
    if name == "split" and isinstance(step[name], dict):
        parts = dict.fromkeys(["train", *(str(part) for part in step[name])])
    return replace(table, parts=parts, exact=False)


def check_step_names(
    steps: Sequence[Mapping[str, Any]],
    first: int,
    path: KeyPath,
    request: CompileRequest,
    diagnostics: Diagnostics,
) -> None:
    """Report unknown step names when the columns are not known."""
    for index, step in enumerate(steps[first:], first):
        for name in step:
            if name not in RELATIONAL_STEPS and not isinstance(request.catalog.find("data", name), DataOp):
                _report_unknown_step(name, (*path, index, name), request, diagnostics)


def _report_unknown_step(name: str, path: KeyPath, request: CompileRequest, diagnostics: Diagnostics) -> None:
    from posttrain.compiler.diagnosis.key_suggestions import key_hint

    help, meant = key_hint(name, (*RELATIONAL_STEPS, *request.catalog.names("data")), what="data steps")
    message = f"there is no data step `{name}`"
    diagnostics.add(data_codes.UNKNOWN_STEP, path, message, key=True, help=help, replace=meant)


def _report(error: StepError, path: KeyPath, diagnostics: Diagnostics) -> None:
    code = _CODE_OF_ERROR.get(error.kind)
    if code is None:  # reported with the other dataset
        return
    leaf, depth = node_at(diagnostics.root, path)
    span = (
        _word_span(leaf, error.word)
        if depth == len(path) and isinstance(leaf, ScalarNode) and error.word
        else None
    )
    if span is None:
        diagnostics.add(code, path, str(error), help=error.help)
    else:
        labels: tuple[Label, ...] = leaf.via
        diagnostics.add_at_span(code, span, str(error), help=error.help, labels=labels)


def _word_span(leaf: ScalarNode, word: str) -> Span | None:
    """Return the span of a word in a text, if the text is on one line without escapes."""
    span, found = leaf.span, re.search(rf"(?<!\w){re.escape(word)}(?!\w)", leaf.text)
    quotes = span.end_column - span.column - len(leaf.text)
    if found is None or span.line != span.end_line or quotes != (0 if leaf.plain else 2):
        return None
    start = span.column + quotes // 2 + found.start()
    return Span(span.file, span.line, start, span.line, start + len(word))


def _lower_extension_step(
    op: DataOp,
    path: KeyPath,
    table: TableSchema,
    seed: int,
    others: Mapping[str, TableSchema],
    request: CompileRequest,
    diagnostics: Diagnostics,
) -> LoweredStep | None:
    params = validate(op.params, node_at(diagnostics.root, path)[0], path, diagnostics)
    other = op.other_dataset(params) if params is not None else None
    if params is None or (other is not None and not _check_other_dataset(other, others, path, diagnostics)):
        return None
    try:
        columns: Columns = op.columns(params, table.columns)
        op.check_turn_fields(params, table.turn_fields)
        if other is not None:
            op.check_other_columns(params, others[other].columns)
    except ValueError as error:
        diagnostics.add(data_codes.BAD_STEP, path, str(error))
        return None
    files: dict[str, UserFile] = {}
    for name in op.files(params):
        read = user_file(name, path, request, diagnostics)
        if read is None:
            return None
        files[f"{STEP_FILE_PREFIX}{name}"] = read[0]
    operation = ExtensionOperation(
        op=op.name,
        entry=request.catalog.entry("data", op.name),
        params=dump_declaration(params),
        seed=seed,
        other=other,
    )
    parts = {part: op.rows(params, rows) for part, rows in table.parts.items()}
    exact = table.exact and op.exact
    after = replace(table, columns=columns, parts=parts, exact=exact, null_counts={}, turn_fields={})
    return LoweredStep([operation], after, op, files)


def check_part(
    ref: Ref, table: TableSchema, path: KeyPath, diagnostics: Diagnostics, *, key: bool = False
) -> bool:
    """Return whether the part that a reference names exists; report it otherwise."""
    if ref.part is None or ref.part in table.parts:
        return True
    parts = [part for part in table.parts if part != "all"]
    help, meant = hint(ref.part, parts, what="parts")
    replace = f"{ref.name}.{meant}" if meant else None
    message = f"`{ref.name}` has no part `{ref.part}`"
    help = help if parts else "the data is not split: add the step `split`"
    diagnostics.add(data_codes.UNKNOWN_PART, path, message, key=key, help=help, replace=replace)
    return False


def _check_other_dataset(
    other: str, others: Mapping[str, TableSchema], path: KeyPath, diagnostics: Diagnostics
) -> bool:
    """Return whether the other dataset of a step is known and has the named part."""
    name, _, part = other.partition(".")
    ref = Ref("dataset", name, part or None)
    return other in others and check_part(ref, others[other], (*path, "against"), diagnostics)
