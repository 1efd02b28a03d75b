"""Declarations of extensions, which the compiler reads without importing the runtime's dependencies.

An extension is one file. It defines `EXTENSION`, an instance of one of the classes below, and a function
`run` that does the work and imports heavy dependencies in its body. The catalog finds extensions by kind
and name.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, Literal, Protocol, cast

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from posttrain.spec.column_types import Columns, Interval, Type
from posttrain.spec.declaration_fields import Declaration
from posttrain.spec.field_types import check_finite
from posttrain.spec.record import record

ExtensionKind = Literal[
    "verb", "method", "reward", "data", "source", "engine", "runner", "environment", "tracker"
]
EXTENSION_KINDS: tuple[ExtensionKind, ...] = (
    "verb",
    "method",
    "reward",
    "data",
    "source",
    "engine",
    "runner",
    "environment",
    "tracker",
)


class ExtensionError(Exception):
    """An extension of another distribution does not load, or its parameters cannot be checked."""


class Params(Declaration):
    """Base of every extension's parameters. Their types are those of YAML: numbers, texts, booleans, Literal,
    tuples, dicts, unions of these, and models derived from Params."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return _for_yaml(super().__get_pydantic_core_schema__(source, handler))


def _for_yaml(schema: Any) -> Any:
    """Accept a list for every tuple, because YAML and plans have no tuples; items stay strict. Reject numbers
    that JSON cannot hold also where any value is accepted: a plan would have null in their place."""
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            found = cast(dict[str, Any], part)
            if found.get("type") == "any":
                checked = core_schema.no_info_after_validator_function(check_finite, {"type": "any"})
                found.update(cast(dict[str, Any], checked))
                continue
            if found.get("type") == "tuple":
                found["strict"] = False
            waiting += (value for key, value in found.items() if key not in _PLAIN_PARTS)
        elif isinstance(part, list):
            waiting += cast(list[Any], part)
    return schema


# Parts of a schema that contain no schemas.
_PLAIN_PARTS = frozenset({"metadata", "config", "default", "expected", "cls", "serialization"})


class NoParams(Params):
    """For extensions without parameters."""


@record(kw_only=True)
class Extension:
    name: str
    summary: str
    params: type[Params] = NoParams
    # Increment it when the same parameters produce a different result: it is part of every key.
    version: int = 1
    # Distributions whose version can change the result: the environment part of the key.
    stack: tuple[str, ...] = ()
    # Slow imports of `run`: a fork server imports them once for all steps.
    preload: tuple[str, ...] = ()


@record(kw_only=True)
class Verb(Extension):
    """Runs a stage other than training: eval, gate, export and others."""


@record(kw_only=True)
class Schedule:
    """The number of optimizer steps of a training stage. The worker checks its run against it."""

    steps: int
    # Checkpoints are possible only at multiples of this many optimizer steps.
    checkpoint_alignment: int = 1
    rows_per_step: int = 0
    # Whether `steps` is an upper bound: the exact number is known after the rows are prepared.
    is_upper_bound: bool = False


def _batch_size(params: Any) -> int:
    return params.batch_size


@record(kw_only=True)
class Footprint:
    """The properties of a training method that determine its memory use."""

    # Examples of an optimizer step, over all processes.
    examples: Callable[[Any], int] = _batch_size
    # Sequences per example in the forward pass: two for a preference pair.
    sequences: int = 1
    # Memory layout of the logits in the loss: chunk by chunk, all at once, or one score per sequence.
    loss: Literal["chunked", "full", "scores"] = "full"
    # Whether a frozen copy of the starting weights is in memory during training.
    has_reference_model: Callable[[Any], bool] = lambda _: False
    # Completions generated at once, over all processes; None for methods that do not generate.
    completions: Callable[[Any], int] | None = None
    # Whether a value model is trained in the same step.
    has_value_model: Callable[[Any], bool] = lambda _: False
    # Supported generation engines and parallelism strategies.
    engines: tuple[str, ...] = ("transformers", "vllm")
    strategies: tuple[str, ...] = ("single", "ddp", "zero1", "zero2", "zero3", "fsdp")


@record
class EvalMetric:
    """A metric of the evaluation of a method on held-out rows, with TRL's name."""

    name: str
    # None: not a mean over rows, so that gates cannot use it.
    kind: Literal["mean", "rate"] | None = "mean"
    lower_is_better: bool = False


@record(kw_only=True)
class Method(Extension):
    """A training method. `accepts` lists the supported column sets, the preferred one first."""

    accepts: tuple[Columns, ...]
    schedule: Callable[[Any, int], Schedule]
    # Parameters that change speed, memory or reports but never the result. They are not part of the key.
    # The compiler decides about the micro-batch size, by `batch_level_loss` among others.
    neutral: Callable[[Any], tuple[str, ...]] = lambda _: ()
    # Whether the loss is not a sum over the rows or tokens of an optimizer step, so that the result depends
    # on its division into micro-batches and processes. These are then part of the key.
    batch_level_loss: Callable[[Any], bool] = lambda _: True
    needs_reward: bool = False
    needs_reference: bool = False
    # The TRL configuration class whose arguments `trl:` accepts; None for methods without TRL.
    trl: str | None = None
    footprint: Footprint = field(default_factory=Footprint)
    # The kind of model that it produces, which determines the stages that can use it.
    product: Literal["policy", "scorer"] = "policy"
    # Whether it supports multi-turn episodes in addition to single completions.
    multi_turn: bool = False
    # The metrics of its evaluation on held-out rows; none if it cannot evaluate rows.
    eval_metrics: tuple[EvalMetric, ...] = ()
    # Whether its loss can leave out single turns of the assistant.
    turn_weights: bool = False
    # Whether it can train on a streamed dataset, of which it has one window of rows at a time.
    streams_rows: bool = False
    # Whether such an evaluation computes a micro-batch of rows at a time, and not each row alone.
    batched_evaluation: Callable[[Any], bool] = lambda _: False


@record(kw_only=True)
class NullStats:
    """Rows with a null in a column: the first such row, their number, and the number of rows checked."""

    first_row: str
    null_rows: int
    rows_checked: int


@record(kw_only=True)
class InferredSchema:
    """Columns and row count, inferred from the content of files."""

    columns: Columns
    # The number of rows; None if not all were counted.
    rows: int | None
    # The columns with nulls in the rows that were checked.
    nulls: Mapping[str, NullStats] = field(default_factory=dict[str, NullStats])
    # The fields of the turns in columns of conversations, each with the first row that has a value for it.
    turn_fields: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])


@record(kw_only=True)
class Source(Extension):
    """A source of rows. `columns` and `rows` return what is known before the run."""

    columns: Callable[[Any], Columns | None]
    rows: Callable[[Any], int | None] = lambda _: None
    # The user files with the rows; their content is part of the key.
    files: Callable[[Any], Sequence[str]] = lambda _: ()
    # Infers the schema from the content of the files. Raises ValueError if the content contradicts the
    # parameters, or if the parameters are incomplete.
    infer: Callable[[Any, Sequence[bytes]], InferredSchema] | None = None
    # Whether `infer` accepts the first bytes of a file that is too large to load.
    infers_from_prefix: bool = False
    # Whether the parameters identify fixed content; if not, every run reads the rows again.
    pinned: Callable[[Any], bool] = lambda _: True
    network: bool = False
    # Environment variables with secrets that it reads, such as the token of the hub.
    secrets: tuple[str, ...] = ()
    # The number of rows of a window if a training stage reads the files itself, window after window; None if
    # the dataset has all rows. `hub` is the only source with it.
    window_rows: Callable[[Any], int | None] = lambda _: None


@record(kw_only=True)
class DataOp(Extension):
    """A data step that is not relational. `columns` maps the input columns to the output columns.

    `columns` raises ValueError for unsuitable input columns.
    """

    columns: Callable[[Any, Columns], Columns]
    # Maps the number of input rows to the number of output rows: the exact number if `exact`, else an
    # upper bound.
    rows: Callable[[Any, int | None], int | None] = lambda _params, rows: rows
    exact: bool = False
    # Whether what becomes of a row does not depend on other rows, so that a window of a streamed dataset is
    # enough.
    row_by_row: bool = False
    # User files that the rows depend on. If there are any, `run` gets their paths by name as last argument.
    files: Callable[[Any], Sequence[str]] = lambda _: ()
    # The name of another dataset that the step reads, and the check of that dataset's columns.
    other_dataset: Callable[[Any], str | None] = lambda _: None
    check_other_columns: Callable[[Any, Columns], None] = lambda _params, _columns: None
    # Raises ValueError for fields of turns that the step would lose. It gets those that are known before the
    # run, by column, each with the first row that has it; the run checks every row.
    check_turn_fields: Callable[[Any, Mapping[str, Mapping[str, str]]], None] = lambda _params, _fields: None


@record(kw_only=True)
class Operand:
    """An operand of a reward op, which takes a node: a name, a literal or a nested expression."""

    type: Type = "any"
    # Takes a list of nodes.
    many: bool = False
    # Takes a mapping from user-defined names to nodes, passed as operands `with.NAME`.
    named: bool = False
    # Takes a list of mappings with these keys; the operand `of.KEY` is the list of the values under KEY.
    fields: Mapping[str, "Operand"] = field(default_factory=dict[str, "Operand"])
    default: float | bool | str | None = None
    required: bool = True
    # One sentence about the meaning of the operand.
    description: str = ""


Ranges = Mapping[str, Sequence[Interval]]


@record(kw_only=True)
class Remark:
    """A finding of an op about its operands, at a path below the node."""

    kind: Literal["refused", "unreachable", "dominated"]
    message: str
    at: tuple[str | int, ...] = ()
    help: str = ""


@record(kw_only=True)
class RewardOp(Extension):
    """An op of reward graphs. `shorthand` names the operand that a bare value sets."""

    operands: Mapping[str, Operand] = field(default_factory=dict[str, Operand])
    yields: Type
    # The result type, for ops whose parameters determine it.
    infer_type: Callable[[Any], Type] | None = None
    shorthand: str = "of"
    # The smallest interval that contains every value; for a condition, 0 is false and 1 is true.
    range: Callable[[Any, Ranges], Interval] = lambda _params, _operands: Interval.unbounded()
    remarks: Callable[[Any, Ranges], Sequence[Remark]] = lambda _params, _operands: ()
    # Slow nodes (judges, programs) run concurrently, up to a limit; the others run in one batch.
    slow: bool = False
    # Parameters that name a model: a declared one, or a stage that produces one.
    models: tuple[str, ...] = ()
    # User files that the value depends on, and endpoints that the op calls.
    files: Callable[[Any], Sequence[str]] = lambda _: ()
    endpoints: Callable[[Any], Sequence[str]] = lambda _: ()


@record(kw_only=True)
class Engine(Extension):
    """A generation engine: transformers, vLLM or an HTTP endpoint."""

    needs_gpu: bool = False


@record(kw_only=True)
class Runner(Extension):
    """A runner of steps: a local process or a container."""


@record(kw_only=True)
class Environment(Extension):
    """An environment for multi-turn episodes; `run(params, site)` opens it."""

    # How it interprets a model turn: as plain text, or as tool calls.
    action_format: Callable[[Any], Literal["text", "tools"]] = lambda _: "text"
    # The columns that a row needs to start an episode.
    columns: Callable[[Any], Columns] = lambda _: {}
    # The smallest interval that contains every score of an episode.
    range: Callable[[Any], Interval] = lambda _: Interval(0.0, 1.0)
    # User files that the episodes depend on.
    files: Callable[[Any], Sequence[str]] = lambda _: ()
    # Parameters that change speed or memory but never the result. They are not part of the key.
    neutral: tuple[str, ...] = ()
    # The interpreter that runs the episodes (None: that of the step), and the modules that it must have.
    interpreter: Callable[[Any], tuple[str | None, tuple[str, ...]]] = lambda _: (None, ())


@record(kw_only=True)
class Tracker(Extension):
    """A tracker of live metrics; `run(topic)` returns the sink for the metrics of a step."""

    # The module that it requires, and the extra of this package that installs it.
    module: str
    extra: str
    # The environment variables that its process gets, also secrets: names, or prefixes with a final `*`.
    variables: tuple[str, ...] = ()


class Catalog(Protocol):
    """The extensions that are available to a compilation. The runtime provides it."""

    def find(self, kind: ExtensionKind, name: str) -> Extension | None: ...

    def has(self, kind: ExtensionKind, name: str) -> bool:
        """Whether the extension exists. Unlike `find` it does not import it."""
        ...

    def names(self, kind: ExtensionKind) -> Sequence[str]: ...

    def entry(self, kind: ExtensionKind, name: str) -> str:
        """The function that runs this extension, as `module:function`."""
        ...
