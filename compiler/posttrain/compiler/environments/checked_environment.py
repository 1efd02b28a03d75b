"""A checked environment, and the parameters of the steps that use it."""

from collections.abc import Mapping
from typing import Any

from posttrain.spec.column_types import Columns, Interval
from posttrain.spec.declaration_fields import dump_declaration
from posttrain.spec.declarations import Environment
from posttrain.spec.extension import Environment as Kind
from posttrain.spec.extension import Params
from posttrain.spec.plan import UserFile
from posttrain.spec.record import record
from posttrain.spec.step_params.reward_params import EnvironmentParams


@record(kw_only=True)
class CheckedEnvironment:
    declared: Environment
    kind: Kind
    params: Params
    files: Mapping[str, UserFile]

    @property
    def columns(self) -> Columns:
        """The columns that the rows of its episodes need."""
        return self.kind.columns(self.params)

    @property
    def range(self) -> Interval:
        """The range of the scores, including the score of failed episodes (`on_error`)."""
        own, on_error = self.kind.range(self.params), self.declared.on_error
        return own if isinstance(on_error, str) else own.join(Interval(float(on_error), float(on_error)))

    @property
    def _has_tools(self) -> bool:
        return self.kind.action_format(self.params) == "tools"

    def step_params(self) -> EnvironmentParams:
        """The environment as step parameters: everything that its episodes depend on."""
        own, declared = self.kind.range(self.params), self.declared
        params = dump_declaration(self.params)
        return EnvironmentParams(
            type=declared.type,
            params={name: value for name, value in params.items() if name not in self.kind.neutral},
            max_turns=declared.max_turns,
            max_turn_tokens=declared.max_turn_tokens,
            observation_template=declared.observation_template,
            observation_role=declared.observation_role if self._has_tools else None,
            timeout_seconds=declared.timeout_seconds,
            on_error=declared.on_error,
            columns=tuple(self.columns),
            range=(own.low, own.high),
        )

    def neutral_params(self) -> dict[str, Any]:
        """Return the parameters that do not affect the episodes."""
        params = dump_declaration(self.params)
        return {name: value for name, value in params.items() if name in self.kind.neutral}
