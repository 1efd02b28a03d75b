"""The result of a user-defined Python function."""

import math
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from posttrain.runtime.rewards.engine.batch import Batch, Operands, OpResult
from posttrain.runtime.rewards.engine.fallbacks import FALLBACK_DESCRIPTION, AnyFallback, fallback_value
from posttrain.runtime.rewards.engine.user_function_pool import CallResult, UserFunction, call_many
from posttrain.runtime.user_errors import FirstErrors, describe_values
from posttrain.spec.column_types import Interval
from posttrain.spec.extension import Operand, Params, Ranges, Remark, RewardOp
from posttrain.spec.field_types import Items

_ADVICE = (
    "fix the function, and test it with `recipe reward`; `on_error: abstain` leaves such rows without a value"
)


class Python(Params):
    call: str = Field(
        pattern=r"^[^:]+\.py:[A-Za-z_]\w*$",
        description="The function, as FILE.py:FUNCTION. The path is relative to the recipe.",
    )
    returns: Literal["number", "boolean", "text"] = Field(
        default="number",
        description="The type of the result. The function may also return (result, reason), or None to"
        " abstain.",
    )
    low: float | None = Field(default=None, description="The lowest number that the function can return.")
    high: float | None = Field(default=None, description="The highest number that the function can return.")
    modules: Items[str] = Field(
        default=(), description="Other files that the function imports, relative to the recipe."
    )
    processes: int = Field(default=1, ge=1, le=64, description="The number of worker processes for calls.")
    timeout_seconds: float = Field(default=10.0, gt=0, description="Time limit of one call, in seconds.")
    on_error: AnyFallback = Field(
        default="fail",
        description=f"For a call that raises or returns an invalid result: {FALLBACK_DESCRIPTION}",
    )
    on_timeout: AnyFallback = Field(
        default="abstain", description=f"For a call that exceeds `timeout_seconds`: {FALLBACK_DESCRIPTION}"
    )

    @property
    def file(self) -> str:
        return self.call.rpartition(":")[0]


def declared_range(params: Python) -> Interval:
    """The range of the function's results, without fallbacks."""
    low = -math.inf if params.low is None else params.low
    return Interval(low, math.inf if params.high is None else params.high)


def value_range(params: Python, operands: Ranges) -> Interval:
    whole = declared_range(params)
    for otherwise in (params.on_error, params.on_timeout):
        if not isinstance(otherwise, str):
            whole = whole.join(Interval(float(otherwise), float(otherwise)))
    return whole


def remarks(params: Python, operands: Ranges) -> Sequence[Remark]:
    if params.returns != "number" and (params.low is not None or params.high is not None):
        return (
            Remark(
                kind="refused", message=f"`low` and `high` require `returns: number`, not `{params.returns}`"
            ),
        )
    if params.low is not None and params.high is not None and params.low > params.high:
        return (Remark(kind="refused", message="`low` is greater than `high`", at=("low",)),)
    for name in ("on_error", "on_timeout"):
        otherwise = getattr(params, name)
        fits = {
            "number": not isinstance(otherwise, bool),
            "boolean": isinstance(otherwise, bool),
            "text": False,
        }
        if not isinstance(otherwise, str) and not fits[params.returns]:
            return (Remark(kind="refused", message=f"the fallback is not a {params.returns}", at=(name,)),)
    return ()


def files(params: Python) -> Sequence[str]:
    return (params.file, *params.modules)


EXTENSION = RewardOp(
    name="python",
    summary="The result of your own Python function. It runs in a separate process that is killed at a"
    " timeout.",
    params=Python,
    operands={"with": Operand(named=True, description="The arguments of the function, each under its name.")},
    yields="number",
    infer_type=lambda params: params.returns,
    shorthand="with",
    range=value_range,
    remarks=remarks,
    slow=True,
    files=files,
)


def run(params: Python, operands: Operands, batch: Batch) -> OpResult:
    names = [name.removeprefix("with.") for name in operands]
    rows = [dict(zip(names, values, strict=True)) for values in zip(*operands.values(), strict=True)]
    called = call_many(_user_function(params, batch), rows, params.timeout_seconds, params.processes)
    values: list[Any] = []
    reasons: list[str | None] = []
    unknown: set[int] = set()
    for row, one in enumerate(called):
        place = row if batch.places is None else batch.places[row]
        details = _failed_call(one, rows[row], place)
        value, reason, failed = _read_result(one, params, details)
        if failed and reason:
            _first_errors(params.call).print(reason, details)
        values.append(value)
        reasons.append(reason)
        if failed and value is None:
            unknown.add(row)
    return OpResult(values=values, reasons=reasons, unknown=frozenset(unknown))


def _user_function(params: Python, batch: Batch) -> UserFunction:
    paths = [Path(batch.files[f"reward:{name}"]) for name in files(params)]
    folders = dict.fromkeys(str(path.parent) for path in paths)
    return UserFunction(paths[0], params.call.rpartition(":")[2], tuple(folders))


@cache
def _first_errors(call: str) -> FirstErrors:
    """The errors of one function in this process, of all batches."""
    return FirstErrors()


def _failed_call(called: CallResult, arguments: Mapping[str, Any], row: int) -> str:
    """What to show of a call that fails: the row, its values, and the user's part of the traceback."""
    values = f"row {row}:\n{describe_values(arguments)}"
    return f"{values}\n{called.traceback}" if called.traceback else values


def _read_result(called: CallResult, params: Python, details: str) -> tuple[Any, str | None, bool]:
    """The value and the reason of one call, and whether the call failed."""
    if called.timed_out:
        reason = f"`{params.call}` took longer than {params.timeout_seconds:g} s"
        return fallback_value(params.on_timeout, reason, details=details), reason, True
    fault = called.error or _type_mismatch(called.value, params)
    if fault:
        reason = f"`{params.call}`: {fault}"
        return fallback_value(params.on_error, reason, _ADVICE, details), reason, True
    value = called.value
    if params.returns == "number" and value is not None:
        value = float(value)
    return value, called.reason, False


def _type_mismatch(value: Any, params: Python) -> str | None:
    """Why a returned value is invalid, or None if it is valid."""
    kinds = {"number": int | float, "boolean": bool, "text": str}
    if value is None:
        return None
    if not isinstance(value, kinds[params.returns]):
        return f"it returned {str(value)[:80]!r}, which is not a {params.returns}"
    if params.returns != "number":
        return None
    bounds = declared_range(params)
    if not math.isfinite(value) or not bounds.low <= value <= bounds.high:
        return f"it returned {value}, which is outside {bounds}"
    return None
