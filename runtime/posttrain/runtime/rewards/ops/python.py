"""What a Python function of the user's gives."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from posttrain.runtime.rewards.engine.batch import Batch, Operands, OpResult
from posttrain.runtime.rewards.engine.fallbacks import FALLBACK_DESCRIPTION, AnyFallback, fallback_value
from posttrain.runtime.rewards.engine.user_function_pool import CallResult, UserFunction, call_many
from posttrain.spec.column_types import Interval
from posttrain.spec.declaration_fields import field
from posttrain.spec.extension import Operand, Params, Ranges, Remark, RewardOp


class Python(Params):
    call: str = field(
        pattern=r"^[^:]+\.py:[A-Za-z_]\w*$", description="FILE.py:FUNCTION, the file beside the recipe."
    )
    returns: Literal["number", "boolean", "text"] = field(
        default="number", description="What it returns; with a reason beside it if it likes; None to abstain."
    )
    low: float | None = field(default=None, description="The least number that it may return.")
    high: float | None = field(default=None, description="The greatest number that it may return.")
    modules: list[str] = field(default=[], description="Further files beside the recipe that it imports.")
    processes: int = field(default=1, ge=1, le=64, description="Calls at the same time, each in a process.")
    timeout_seconds: float = field(default=10.0, gt=0, description="The longest that a call may take.")
    on_error: AnyFallback = field(
        default="fail",
        description=f"For a call that raises or returns something else: {FALLBACK_DESCRIPTION}",
    )
    on_timeout: AnyFallback = field(
        default="abstain", description=f"For a call out of time: {FALLBACK_DESCRIPTION}"
    )

    @property
    def file(self) -> str:
        return self.call.rpartition(":")[0]


def declared_range(params: Python) -> Interval:
    """What the function itself may return."""
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
            Remark(kind="refused", message=f"`low` and `high` bound numbers; this gives {params.returns}"),
        )
    if params.low is not None and params.high is not None and params.low > params.high:
        return (Remark(kind="refused", message="`low` lies above `high`", at=("low",)),)
    for name in ("on_error", "on_timeout"):
        otherwise = getattr(params, name)
        fits = {
            "number": not isinstance(otherwise, bool),
            "boolean": isinstance(otherwise, bool),
            "text": False,
        }
        if not isinstance(otherwise, str) and not fits[params.returns]:
            return (Remark(kind="refused", message=f"this is no {params.returns}", at=(name,)),)
    return ()


def files(params: Python) -> Sequence[str]:
    return (params.file, *params.modules)


EXTENSION = RewardOp(
    name="python",
    summary="What a function of yours returns; it runs in a process of its own, and is killed when it hangs.",
    params=Python,
    operands={"with": Operand(named=True, description="The function's arguments, each under its name.")},
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
        value, reason, failed = _read_result(one, params)
        values.append(value)
        reasons.append(reason)
        if failed and value is None:
            unknown.add(row)
    return OpResult(values=values, reasons=reasons, unknown=frozenset(unknown))


def _user_function(params: Python, batch: Batch) -> UserFunction:
    paths = [Path(batch.files[f"reward:{name}"]) for name in files(params)]
    folders = dict.fromkeys(str(path.parent) for path in paths)
    return UserFunction(paths[0], params.call.rpartition(":")[2], tuple(folders))


def _read_result(called: CallResult, params: Python) -> tuple[Any, str | None, bool]:
    """Value and reason of one call, and whether it did not end as it should."""
    if called.timed_out:
        reason = f"`{params.call}` took longer than {params.timeout_seconds:g} s"
        return fallback_value(params.on_timeout, reason), reason, True
    fault = called.error or _type_mismatch(called.value, params)
    if fault:
        reason = f"`{params.call}`: {fault}"
        return fallback_value(params.on_error, reason), reason, True
    value = called.value
    if params.returns == "number" and value is not None:
        value = float(value)
    return value, called.reason, False


def _type_mismatch(value: Any, params: Python) -> str | None:
    """Why a returned value cannot be taken; None when it can."""
    kinds = {"number": int | float, "boolean": bool, "text": str}
    if value is None:
        return None
    if not isinstance(value, kinds[params.returns]):
        return f"it returned {str(value)[:80]!r}, which is no {params.returns}"
    if params.returns != "number":
        return None
    inside = declared_range(params)
    if not math.isfinite(value) or not inside.low <= value <= inside.high:
        return f"it returned {value}, which does not lie in {inside}"
    return None
