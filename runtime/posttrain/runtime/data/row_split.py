"""Splits the rows of the table `rows` into parts, without separating equal rows."""

from collections.abc import Mapping, Sequence
from typing import Any

from posttrain.runtime.data.group_assignment import assign_groups
from posttrain.runtime.errors import StepError
from posttrain.runtime.events import EventWriter
from posttrain.spec.row_amounts import parse_amount, part_sizes
from posttrain.spec.sql_types import quote_identifier
from posttrain.spec.step_params.data_params import SplitOperation

_REST = "train"
_HIDDEN = ("__row", "__part")
# A part of whole groups can miss its size by this share without a warning.
_TOLERANCE = 0.01


def split_rows(connection: Any, operation: SplitOperation, events: EventWriter) -> dict[str, Any]:
    """Set the part of each row. Return the facts: the groups, the rows that repeat another, the sizes."""
    group_by: Sequence[str] = operation.group_by
    _find_groups(connection, group_by)
    seed = operation.seed
    groups = connection.execute(
        "SELECT __group, count(*) FROM grouped GROUP BY __group"
        f" ORDER BY md5(concat('{seed}:', __group)), __group"
    ).fetchall()
    total = sum(rows for _, rows in groups)
    amounts = {part: parse_amount(amount) for part, amount in operation.parts.items()}
    try:
        targets = part_sizes(amounts, total, rest=_REST)
        del targets[_REST]
        assigned = assign_groups([rows for _, rows in groups], targets)
    except ValueError as error:
        raise StepError(
            f"cannot split {total} rows: {error}",
            "request fewer rows, or make earlier steps keep more distinct rows or groups",
        ) from None
    _set_parts(connection, {part: [groups[one][0] for one in chosen] for part, chosen in assigned.items()})
    sizes = {part: sum(groups[one][1] for one in chosen) for part, chosen in assigned.items()}
    _warn_about_sizes(sizes, targets, group_by, events)
    facts = {
        "split.groups": len(groups),
        "split.rows_in_shared_groups": total - sum(n == 1 for _, n in groups),
    }
    facts |= {f"split.requested.{part}": target for part, target in targets.items()}
    return facts | ({"split.group_by": list(group_by)} if group_by else {})


def _find_groups(connection: Any, group_by: Sequence[str]) -> None:
    """Create the table `grouped`: the rows with the first row of their group.

    Rows are grouped by `group_by`, and by all columns where it is not set or null.
    """
    described = connection.execute("DESCRIBE rows").fetchall()
    columns = [quote_identifier(str(row[0])) for row in described if row[0] not in _HIDDEN]
    group = f"min(__row) OVER (PARTITION BY {', '.join(columns)})"
    if group_by:
        keys = [quote_identifier(name) for name in group_by]
        is_null = " OR ".join(f"{key} IS NULL" for key in keys)
        group = f"CASE WHEN {is_null} THEN {group} ELSE min(__row) OVER (PARTITION BY {', '.join(keys)}) END"
    connection.execute(f"CREATE OR REPLACE TEMP TABLE grouped AS SELECT __row, {group} AS __group FROM rows")


def _set_parts(connection: Any, groups: Mapping[str, Sequence[int]]) -> None:
    import pyarrow

    pairs = [(group, part) for part, chosen in groups.items() for group in chosen]
    table = pyarrow.table(
        {
            "__group": pyarrow.array([group for group, _ in pairs], type=pyarrow.int64()),
            "part": pyarrow.array([part for _, part in pairs], type=pyarrow.string()),
        }
    )
    connection.register("assigned", table)
    connection.execute(
        "CREATE TABLE following AS SELECT rows.* REPLACE (coalesce(assigned.part, ?) AS __part) FROM rows"
        " JOIN grouped ON rows.__row = grouped.__row"
        " LEFT JOIN assigned ON grouped.__group = assigned.__group",
        [_REST],
    )
    connection.unregister("assigned")
    connection.execute("DROP TABLE grouped")
    connection.execute("DROP TABLE rows")
    connection.execute("ALTER TABLE following RENAME TO rows")


def _warn_about_sizes(
    sizes: Mapping[str, int], targets: Mapping[str, int], group_by: Sequence[str], events: EventWriter
) -> None:
    for part, target in targets.items():
        if abs(sizes[part] - target) > _TOLERANCE * target:
            reason = f"equal in {', '.join(group_by)}" if group_by else "identical"
            message = f"the part `{part}` has {sizes[part]} rows instead of {target}"
            advice = f"rows that are {reason} stay together; no other set of them is closer to this size"
            events.emit("warning", message=message, advice=advice)
