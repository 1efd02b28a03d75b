"""Fifth pass: the columns, parts and row counts of every dataset, and the operations that make it."""

from collections.abc import Mapping
from dataclasses import field
from typing import Any, cast

from posttrain.compiler.data import codes
from posttrain.compiler.data.generated import written_columns
from posttrain.compiler.data.relational import RELATIONAL, StepError, Table
from posttrain.compiler.files import user_file
from posttrain.compiler.findings import Findings
from posttrain.compiler.names import Named, Ref
from posttrain.compiler.seeds import seed_for
from posttrain.compiler.source import Request
from posttrain.compiler.suggest import hint
from posttrain.compiler.tree import Path, at
from posttrain.compiler.validate import validate
from posttrain.spec.extension import DataOp, Extension, Params, Source
from posttrain.spec.plan import UserFile
from posttrain.spec.record import record
from posttrain.spec.stages import Generate
from posttrain.spec.types import Columns

_CODES = {
    "column": codes.NO_COLUMN,
    "form": codes.BAD_STEP,
    "sql": codes.BAD_SQL,
    "rows": codes.TOO_FEW_ROWS,
}


@record(kw_only=True)
class Rows:
    """A dataset as compiled."""

    table: Table
    # The source with its parameters; None when the rows come from another dataset or stage.
    source: Source | None
    params: Mapping[str, Any]
    operations: tuple[Mapping[str, Any], ...]
    # Extensions that the operations name, for versions and environment of the key.
    used: tuple[Extension, ...] = ()
    files: Mapping[str, UserFile] = field(default_factory=dict[str, UserFile])
    # Whether the source gives the same rows for good.
    pinned: bool = True


def check_datasets(named: Named, request: Request, findings: Findings) -> dict[str, Rows]:
    """Every dataset that could be understood, in the order of their making."""
    done: dict[str, Rows] = {}
    for node in named.order:
        thing, _, name = node.partition(":")
        if thing == "dataset":
            rows = _dataset(name, named, request, findings, done)
            if rows is not None:
                done[name] = rows
    return done


def table_of(ref: Ref, done: Mapping[str, Rows], named: Named) -> Table | None:
    """What is known of the rows that a reference names."""
    if ref.thing == "dataset":
        return done[ref.name].table if ref.name in done else None
    return generated(ref, done, named)


def generated(ref: Ref, done: Mapping[str, Rows], named: Named) -> Table | None:
    """The rows that a generate stage writes: those it reads, with what is written beside them."""
    source = named.refs.get((f"stage:{ref.name}", "data"))
    below = table_of(source, done, named) if source else None
    stage = named.recipe.stages.get(ref.name)
    if below is None or not isinstance(stage, Generate):
        return None
    return Table(columns=written_columns(stage, below.columns), exact=False)


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


def _dataset(
    name: str, named: Named, request: Request, findings: Findings, done: Mapping[str, Rows]
) -> Rows | None:
    start = _start(name, named, request, findings, done)
    if start is None:
        return None
    others = _others(name, named, done, findings)
    table, operations, used = start.table, list(start.operations), list(start.used)
    for index, step in enumerate(named.recipe.datasets[name].steps):
        path: Path = ("datasets", name, "steps", index)
        seed = seed_for(named.recipe.seed, f"dataset:{name}:{index}")
        lowered = _step(step, path, table, seed, others, request, findings)
        if lowered is None:
            return None
        more, table, op = lowered
        operations += more
        used += [op] if op else []
    return Rows(
        table=table,
        source=start.source,
        params=start.params,
        operations=tuple(operations),
        used=tuple(used),
        files=start.files,
        pinned=start.pinned,
    )


def _start(
    name: str, named: Named, request: Request, findings: Findings, done: Mapping[str, Rows]
) -> Rows | None:
    """The rows before the first step."""
    given = named.recipe.datasets[name].from_
    path: Path = ("datasets", name, "from")
    if isinstance(given, str):
        ref = named.refs.get((f"dataset:{name}", "from"))
        table = table_of(ref, done, named) if ref else None
        if ref is None or table is None or not part_of(ref, table, path, findings):
            return None
        rows = table.parts[ref.part] if ref.part else table.rows
        return Rows(
            table=Table(columns=table.columns, parts={"all": rows}, exact=table.exact),
            source=None,
            params={},
            operations=(),
        )
    return _from_source(given, path, request, findings)


def _from_source(given: Any, path: Path, request: Request, findings: Findings) -> Rows | None:
    catalog = request.catalog
    if not isinstance(given, dict) or len(cast(dict[str, Any], given)) != 1:
        message = "`from` is a name, or one source with its parameters"
        findings.add(codes.UNKNOWN_SOURCE, path, message, help="such as {files: rows.jsonl}")
        return None
    kind = str(next(iter(cast(dict[str, Any], given))))
    source = catalog.find("source", kind)
    if not isinstance(source, Source):
        help, meant = hint(kind, catalog.names("source"), what="sources")
        message = f"there is no source `{kind}`"
        findings.add(codes.UNKNOWN_SOURCE, (*path, kind), message, key=True, help=help, replace=meant)
        return None
    params = validate(source.params, at(findings.root, (*path, kind))[0], (*path, kind), findings)
    if params is None:
        return None
    files: dict[str, UserFile] = {}
    contents: list[bytes] = []
    for index, file in enumerate(source.files(params)):
        found = user_file(file, (*path, kind), request.read, findings)
        if found is None:
            return None
        files[f"rows{index}"], content = found
        contents.append(content)
    table = _source_table(source, params, contents, (*path, kind), findings)
    if table is None:
        return None
    return Rows(
        table=table,
        source=source,
        params=params.model_dump(mode="json", by_alias=True),
        operations=(),
        used=(source,),
        files=files,
        pinned=source.pinned(params),
    )


def _source_table(
    source: Source, params: Params, contents: list[bytes], path: Path, findings: Findings
) -> Table | None:
    """What is known of a source's rows, from its parameters or from its files' content."""
    if source.infer is None:
        return Table(columns=source.columns(params) or {}, parts={"all": source.rows(params)})
    try:
        columns, rows = source.infer(params, contents)
    except ValueError as error:
        findings.add(codes.UNSUITABLE_ROWS, path, str(error))
        return None
    return Table(columns=columns, parts={"all": rows})


def _others(name: str, named: Named, done: Mapping[str, Rows], findings: Findings) -> dict[str, Table]:
    """The other datasets that steps read. `join` and `mix` are reported here for parts that are not there."""
    others: dict[str, Table] = {}
    for role, ref in named.by_owner.get(f"dataset:{name}", {}).items():
        table = table_of(ref, done, named)
        if table is None:
            continue
        index, _, key = role.partition(".")
        path: Path = ("datasets", name, "steps", int(index)) if index.isdigit() else ()
        step = named.recipe.datasets[name].steps[int(index)] if path else {}
        if "join" in step and not part_of(ref, table, (*path, "join", "with"), findings):
            continue
        if "mix" in step and not part_of(ref, table, (*path, "mix", key), findings, key=True):
            continue
        others[f"{ref.name}.{ref.part}" if ref.part else ref.name] = table
    return others


def _step(
    step: Mapping[str, Any],
    path: Path,
    table: Table,
    seed: int,
    others: Mapping[str, Table],
    request: Request,
    findings: Findings,
) -> tuple[list[dict[str, Any]], Table, Extension | None] | None:
    if len(step) != 1:
        findings.add(codes.UNKNOWN_STEP, path, "a data step is one key, its name, with its value")
        return None
    name, value = next(iter(step.items()))
    relational = RELATIONAL.get(name)
    if relational is not None:
        try:
            return (*relational(value, table, seed, others), None)
        except StepError as error:
            if error.code in _CODES:
                where = (*path, name, *error.at)
                findings.add(_CODES[error.code], where, str(error), help=error.help)
            return None
    op = request.catalog.find("data", name)
    if not isinstance(op, DataOp):
        help, meant = hint(name, (*RELATIONAL, *request.catalog.names("data")), what="data steps")
        message = f"there is no data step `{name}`"
        findings.add(codes.UNKNOWN_STEP, (*path, name), message, key=True, help=help, replace=meant)
        return None
    return _extension_step(op, (*path, name), table, seed, others, request, findings)


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
        "params": params.model_dump(mode="json", by_alias=True),
        "seed": seed,
        **({"other": other} if other is not None else {}),
    }
    parts = {part: op.rows(params, rows) for part, rows in table.parts.items()}
    return [operation], Table(columns=columns, parts=parts, exact=table.exact and op.exact), op


def _other_there(other: str, others: Mapping[str, Table], path: Path, findings: Findings) -> bool:
    """Whether the rows that a step looks against are known, and have the part that is named."""
    name, _, part = other.partition(".")
    ref = Ref("dataset", name, part or None)
    return other in others and part_of(ref, others[other], (*path, "against"), findings)
