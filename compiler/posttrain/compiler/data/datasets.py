"""Fifth pass: infers the columns, parts and row counts of every dataset, and lowers its steps to
operations."""

from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any, cast

from posttrain.compiler.data import data_codes
from posttrain.compiler.data.data_steps import check_part, check_step_names, lower_step, table_after_error
from posttrain.compiler.data.generated_columns import generated_columns
from posttrain.compiler.data.table_schema import TableSchema
from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.parsing.validation_diagnostics import validate
from posttrain.compiler.resolution.name_resolution import Ref, ResolvedRecipe
from posttrain.compiler.seeds import seed_for
from posttrain.compiler.text.compile_request import CompileRequest
from posttrain.compiler.text.yaml_tree import KeyPath, node_at
from posttrain.compiler.user_files import large_user_file
from posttrain.spec.artifact_stages import Generate, Script, ScriptOutput
from posttrain.spec.declaration_fields import dump_declaration
from posttrain.spec.extension import Extension, Params, Source
from posttrain.spec.plan import UserFile
from posttrain.spec.record import record
from posttrain.spec.step_params.data_params import Operation
from posttrain.spec.suggestions import hint

_ALL = frozenset({"all"})


@record(kw_only=True)
class CompiledDataset:
    """A dataset after compilation."""

    table: TableSchema
    # The source with its parameters; None if the rows come from another dataset or stage.
    source: Source | None
    params: Mapping[str, Any]
    operations: tuple[Operation, ...]
    # The extensions that the operations use; their versions and environment are part of the key.
    extensions: tuple[Extension, ...] = ()
    files: Mapping[str, UserFile] = field(default_factory=dict[str, UserFile])
    # Whether the rows of the source cannot change.
    pinned: bool = True
    # The rows of a window, if a training stage reads the rows window by window.
    window_rows: int | None = None


def check_datasets(
    resolved: ResolvedRecipe, request: CompileRequest, diagnostics: Diagnostics
) -> dict[str, CompiledDataset]:
    """Return every valid dataset, in dependency order."""
    done: dict[str, CompiledDataset] = {}
    for node in resolved.order:
        thing, _, name = node.partition(":")
        if thing == "dataset":
            rows = _compile_dataset(name, resolved, request, diagnostics, done)
            if rows is not None:
                done[name] = rows
    return done


def table_of(ref: Ref, done: Mapping[str, CompiledDataset], resolved: ResolvedRecipe) -> TableSchema | None:
    """Return the schema of the rows that a reference names."""
    if ref.kind == "dataset":
        return done[ref.name].table if ref.name in done else None
    return generated_table(ref, done, resolved)


def generated_table(
    ref: Ref, done: Mapping[str, CompiledDataset], resolved: ResolvedRecipe
) -> TableSchema | None:
    """Return the schema of the rows of a stage: the declared columns of a script, or the input columns of a
    generate stage and the generated columns."""
    stage = resolved.recipe.stages.get(ref.name)
    if isinstance(stage, Script):
        return _script_table(stage, ref.output)
    source = resolved.refs.get((f"stage:{ref.name}", "data"))
    below = table_of(source, done, resolved) if source else None
    if below is None or not isinstance(stage, Generate):
        return None
    columns = generated_columns(stage, below.columns)
    prompts = below.expected_rows(source.part if source else None)
    if prompts is None:
        return TableSchema(columns=columns, exact=False)
    generated = prompts * (stage.sampling.n if stage.keep == "all" else 1)
    note = below.estimate_source or "one for each prompt"
    return TableSchema(
        columns=columns, parts={"all": generated}, exact=False, estimated_parts=_ALL, estimate_source=note
    )


def _script_table(stage: Script, name: str | None) -> TableSchema | None:
    """Return the schema of the rows that a script declares. Their number is known after its run."""
    output = stage.outputs.get(name or "")
    if not isinstance(output, ScriptOutput) or output.rows is None:
        return None
    return TableSchema(columns=output.rows, exact=False)


def _compile_dataset(
    name: str,
    resolved: ResolvedRecipe,
    request: CompileRequest,
    diagnostics: Diagnostics,
    done: Mapping[str, CompiledDataset],
) -> CompiledDataset | None:
    start = _initial_dataset(name, resolved, request, diagnostics, done)
    if start is None:
        check_step_names(
            resolved.recipe.datasets[name].steps, 0, ("datasets", name, "steps"), request, diagnostics
        )
        return None
    others = _other_tables(name, resolved, done, diagnostics)
    table, operations, used = start.table, list(start.operations), list(start.extensions)
    files = dict(start.files)
    steps, has_errors = resolved.recipe.datasets[name].steps, False
    path: KeyPath = ("datasets", name, "steps")
    for index, step in enumerate(steps):
        seed = seed_for(resolved.recipe.seed, f"dataset:{name}:{index}")
        lowered = lower_step(step, (*path, index), table, seed, others, request, diagnostics)
        if lowered is None:
            has_errors, remaining = True, table_after_error(step, table)
            if remaining is None:
                check_step_names(steps, index + 1, path, request, diagnostics)
                return None
            table = remaining
            continue
        table = lowered.table
        operations += lowered.operations
        used += [lowered.extension] if lowered.extension else []
        files |= lowered.files
    if has_errors:
        return None
    return CompiledDataset(
        table=table,
        source=start.source,
        params=start.params,
        operations=tuple(operations),
        extensions=tuple(used),
        files=files,
        pinned=start.pinned,
        window_rows=start.window_rows,
    )


def _initial_dataset(
    name: str,
    resolved: ResolvedRecipe,
    request: CompileRequest,
    diagnostics: Diagnostics,
    done: Mapping[str, CompiledDataset],
) -> CompiledDataset | None:
    """Return the dataset before its first step."""
    given = resolved.recipe.datasets[name].from_
    path: KeyPath = ("datasets", name, "from")
    if isinstance(given, str):
        ref = resolved.refs.get((f"dataset:{name}", "from"))
        table = table_of(ref, done, resolved) if ref else None
        if ref is None or table is None or not check_part(ref, table, path, diagnostics):
            return None
        rows = table.expected_rows(ref.part)
        return CompiledDataset(
            table=TableSchema(
                columns=table.columns,
                parts={"all": rows},
                exact=table.exact,
                estimated_parts=_ALL if table.is_estimated(ref.part) else frozenset(),
                estimate_source=table.estimate_source,
                null_counts=table.null_counts,
                all_rows_kept=table.all_rows_kept and ref.part is None,
            ),
            source=None,
            params={},
            operations=(),
        )
    found = _from_source(given, path, request, diagnostics)
    if found is None or found.source is None or found.table.rows is not None:
        return found
    return replace(found, table=_estimated_table(found, resolved.recipe.datasets[name].size))


def _estimated_table(found: CompiledDataset, size: int | None) -> TableSchema:
    """Return the table with an estimated number of rows, from `size` or as published."""
    count, note = size, "from `size`"
    if count is None and found.source is not None and found.source.name == "hub":
        from posttrain.compiler.facts.published_rows import published_row_count

        count, note = published_row_count(found.params), "as published"
    if count is None:
        return found.table
    return replace(found.table, parts={"all": count}, estimated_parts=_ALL, estimate_source=note)


def _from_source(
    given: Any, path: KeyPath, request: CompileRequest, diagnostics: Diagnostics
) -> CompiledDataset | None:
    catalog = request.catalog
    if not isinstance(given, dict) or len(cast(dict[str, Any], given)) != 1:
        message = "`from` takes a name, or one source with its parameters"
        diagnostics.add(data_codes.UNKNOWN_SOURCE, path, message, help="for example {files: rows.jsonl}")
        return None
    kind = str(next(iter(cast(dict[str, Any], given))))
    source = catalog.find("source", kind)
    if not isinstance(source, Source):
        help, meant = hint(kind, catalog.names("source"), what="sources")
        message = f"there is no source `{kind}`"
        diagnostics.add(data_codes.UNKNOWN_SOURCE, (*path, kind), message, key=True, help=help, replace=meant)
        return None
    params = validate(source.params, node_at(diagnostics.root, (*path, kind))[0], (*path, kind), diagnostics)
    if params is None:
        return None
    files: dict[str, UserFile] = {}
    contents: list[bytes] = []
    for index, file in enumerate(source.files(params)):
        found = large_user_file(
            file, (*path, kind), request, diagnostics, whole=not source.infers_from_prefix
        )
        if found is None:
            return None
        files[f"rows{index}"], content = found
        contents.append(content)
    table = _source_table(source, params, contents, (*path, kind), diagnostics)
    if table is None:
        return None
    return CompiledDataset(
        table=table,
        source=source,
        params=dump_declaration(params),
        operations=(),
        extensions=(source,),
        files=files,
        pinned=source.pinned(params),
        window_rows=source.window_rows(params),
    )


def _source_table(
    source: Source, params: Params, contents: list[bytes], path: KeyPath, diagnostics: Diagnostics
) -> TableSchema | None:
    """Return the schema of the rows of a source, from its parameters or the content of its files."""
    if source.infer is None:
        return TableSchema(columns=source.columns(params) or {}, parts={"all": source.rows(params)})
    try:
        inferred = source.infer(params, contents)
    except ValueError as error:
        diagnostics.add(data_codes.UNSUITABLE_ROWS, path, str(error))
        return None
    return TableSchema(
        columns=inferred.columns,
        parts={"all": inferred.rows},
        null_counts=inferred.nulls,
        turn_fields=inferred.turn_fields,
    )


def _other_tables(
    name: str, resolved: ResolvedRecipe, done: Mapping[str, CompiledDataset], diagnostics: Diagnostics
) -> dict[str, TableSchema]:
    """Return the other datasets that the steps read. Report unknown parts in `join` and `mix`."""
    others: dict[str, TableSchema] = {}
    for role, ref in resolved.by_owner.get(f"dataset:{name}", {}).items():
        table = table_of(ref, done, resolved)
        if table is None:
            continue
        index, _, key = role.partition(".")
        path: KeyPath = ("datasets", name, "steps", int(index)) if index.isdigit() else ()
        step = resolved.recipe.datasets[name].steps[int(index)] if path else {}
        if "join" in step and not check_part(ref, table, (*path, "join", "with"), diagnostics):
            continue
        if "mix" in step and not check_part(ref, table, (*path, "mix", key), diagnostics, key=True):
            continue
        others[ref.text] = table
    return others
