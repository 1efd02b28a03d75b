"""A checked environment, and what the steps that act in it get from it."""

from collections.abc import Mapping
from typing import Any

from posttrain.spec.column_types import Columns, Interval
from posttrain.spec.declaration_fields import dump_declaration
from posttrain.spec.declarations import Environment
from posttrain.spec.extension import Environment as Kind
from posttrain.spec.extension import Params
from posttrain.spec.plan import UserFile
from posttrain.spec.record import record


@record(kw_only=True)
class CheckedEnvironment:
    declared: Environment
    kind: Kind
    params: Params
    files: Mapping[str, UserFile]

    @property
    def columns(self) -> Columns:
        """The columns that rows must have for its episodes to begin."""
        return self.kind.columns(self.params)

    @property
    def range(self) -> Interval:
        """Where the scores lie, whatever an episode without an end of its own counts for."""
        own, stands_in = self.kind.range(self.params), self.declared.on_error
        return own if isinstance(stands_in, str) else own.join(Interval(float(stands_in), float(stands_in)))

    def step_params(self) -> dict[str, Any]:
        """The environment as a step's parameters have it: all that its episodes depend on."""
        own = self.kind.range(self.params)
        given = dump_declaration(self.params)
        declared = dump_declaration(self.declared)
        return {
            **declared,
            "params": {name: value for name, value in given.items() if name not in self.kind.neutral},
            "columns": list(self.columns),
            "range": [own.low, own.high],
        }

    def neutral_params(self) -> dict[str, Any]:
        """The parameters that change no episode."""
        given = dump_declaration(self.params)
        return {name: value for name, value in given.items() if name in self.kind.neutral}
