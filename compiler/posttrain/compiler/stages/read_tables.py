"""The tables whose rows a stage reads: its data, and the held-out rows that it evaluates."""

from collections.abc import Iterator, Mapping

from posttrain.compiler.data.datasets import CompiledDataset, table_of
from posttrain.compiler.data.table_schema import TableSchema
from posttrain.compiler.resolution.name_resolution import Ref, ResolvedRecipe
from posttrain.compiler.text.yaml_tree import KeyPath
from posttrain.spec.step_params.train_params import HELD_OUT_ROLE

_KEYS: Mapping[str, KeyPath] = {"data": ("data",), HELD_OUT_ROLE: ("evaluate", "data")}


def read_tables(
    stage: str, resolved: ResolvedRecipe, rows: Mapping[str, CompiledDataset]
) -> Iterator[tuple[Ref, TableSchema, KeyPath]]:
    """Yield the reference, the table and the path in the recipe of each."""
    for role, key in _KEYS.items():
        ref = resolved.refs.get((f"stage:{stage}", role))
        table = table_of(ref, rows, resolved) if ref else None
        if ref is not None and table is not None:
            yield ref, table, ("stages", stage, *key)
