"""How an extension declares itself: light values that the compiler reads without importing the runtime.

An extension is one file. It holds `EXTENSION`, one of the classes below, and a function `run` that
does the work and imports the heavy stack in its body. The catalog knows extensions by kind and name.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, Literal, Protocol

from posttrain.spec.column_types import Columns, Interval, Type
from posttrain.spec.declaration_fields import Declaration
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


class Params(Declaration):
    """Base of every extension's parameters."""


class NoParams(Params):
    """For extensions that take none."""


@record(kw_only=True)
class Extension:
    name: str
    summary: str
    params: type[Params] = NoParams
    # Raised when the same parameters come to mean another result: it is part of every key.
    version: int = 1
    # Distributions whose version changes the result: they are the environment part of the key.
    stack: tuple[str, ...] = ()
    # Modules that `run` imports and that take long: a warm process imports them once for all steps.
    preload: tuple[str, ...] = ()


@record(kw_only=True)
class Verb(Extension):
    """What runs a stage that is not training: eval, gate, export and so on."""


@record(kw_only=True)
class Schedule:
    """The arithmetic of a training stage: what the compiler plans and the worker is held to."""

    steps: int
    # Checkpoints land only on multiples of this many optimizer steps.
    checkpoint_alignment: int = 1
    rows_per_step: int = 0
    # Whether these are the most there can be: how many there are is known when the rows are prepared.
    is_upper_bound: bool = False


def _batch_size(params: Any) -> int:
    return params.batch_size


@record(kw_only=True)
class Footprint:
    """What a training method holds in memory, as far as it is the method that decides it."""

    # The examples of an optimizer step, over all processes.
    examples: Callable[[Any], int] = _batch_size
    # The sequences that one example sends through the model: two for a pair.
    sequences: int = 1
    # How the loss reads the logits: chunk by chunk, all at once, or one score for a sequence.
    loss: Literal["chunked", "full", "scores"] = "full"
    # Whether a frozen copy of the starting weights stands beside the trained ones.
    has_reference_model: Callable[[Any], bool] = lambda _: False
    # Completions that are written at once, over all processes; none for methods that write none.
    completions: Callable[[Any], int] | None = None
    # Whether a second model, of values, is trained in the same step.
    has_value_model: Callable[[Any], bool] = lambda _: False
    # What can write its completions, and how its models can be divided over processes.
    engines: tuple[str, ...] = ("transformers", "vllm")
    strategies: tuple[str, ...] = ("single", "ddp", "zero1", "zero2", "zero3", "fsdp")


@record(kw_only=True)
class Method(Extension):
    """A training method. `accepts` lists the column sets it can read, the preferred one first."""

    accepts: tuple[Columns, ...]
    schedule: Callable[[Any, int], Schedule]
    # Of these parameters, those that change speed, memory or reports, but never the result: left out of
    # the key.
    neutral: Callable[[Any], tuple[str, ...]] = lambda _: ()
    needs_reward: bool = False
    needs_reference: bool = False
    # The TRL configuration class whose arguments `trl:` may name, if the method stands on TRL.
    trl: str | None = None
    footprint: Footprint = field(default_factory=Footprint)
    # The class in the product: what a later stage may do with it.
    product: Literal["policy", "scorer"] = "policy"
    # Whether it learns from episodes of several turns, and not only from single completions.
    multi_turn: bool = False


@record(kw_only=True)
class NullStats:
    """Rows that have nothing in a column: where the first stands, and how many of how many looked at."""

    first_row: str
    null_rows: int
    rows_checked: int


@record(kw_only=True)
class InferredSchema:
    """What the content of files tells of the rows in it."""

    columns: Columns
    # The number of rows, where all were counted.
    rows: int | None
    # The columns that are not filled in every row, as far as rows were looked at.
    nulls: Mapping[str, NullStats] = field(default_factory=dict[str, NullStats])


@record(kw_only=True)
class Source(Extension):
    """Where rows come from. `columns` and `rows` tell what is known before anything runs."""

    columns: Callable[[Any], Columns | None]
    rows: Callable[[Any], int | None] = lambda _: None
    # The user files that the rows are read from; their content is part of the key.
    files: Callable[[Any], Sequence[str]] = lambda _: ()
    # What can be told from the content of the files. Raises ValueError when they are not as the
    # parameters say, or when these must say more.
    infer: Callable[[Any, Sequence[bytes]], InferredSchema] | None = None
    # Whether it is content with the beginning of a file that is too large to be held.
    infers_from_prefix: bool = False
    # Whether the parameters name one content for good; otherwise the rows are never taken as known.
    pinned: Callable[[Any], bool] = lambda _: True
    network: bool = False


@record(kw_only=True)
class DataOp(Extension):
    """A data step that is no relational one. `columns` maps the columns before to those after.

    `columns` raises ValueError when the columns before do not suit.
    """

    columns: Callable[[Any, Columns], Columns]
    # The rows after, from the rows before; `exact` when it is that many, not at most that many.
    rows: Callable[[Any, int | None], int | None] = lambda _params, rows: rows
    exact: bool = False
    # The other dataset that it reads, by its name, and what must hold of that one's columns.
    other_dataset: Callable[[Any], str | None] = lambda _: None
    check_other_columns: Callable[[Any, Columns], None] = lambda _params, _columns: None


@record(kw_only=True)
class Operand:
    """A place in a reward op that takes a node: a name, a literal or a nested expression."""

    type: Type = "any"
    # A list of nodes.
    many: bool = False
    # A mapping from names of the user's own to nodes: the operand `with.NAME` for each.
    named: bool = False
    # A list of mappings with these keys: the operand `of.KEY` is the list of what stands under KEY.
    fields: Mapping[str, "Operand"] = field(default_factory=dict[str, "Operand"])
    default: float | bool | str | None = None
    required: bool = True
    # One sentence that says what is given here.
    description: str = ""


Ranges = Mapping[str, Sequence[Interval]]


@record(kw_only=True)
class Remark:
    """What an op has to say about the operands it was given, by a path below the node."""

    kind: Literal["refused", "unreachable", "dominated"]
    message: str
    at: tuple[str | int, ...] = ()
    help: str = ""


@record(kw_only=True)
class RewardOp(Extension):
    """A node of a reward graph. `shorthand` names the operand that a bare value stands for."""

    operands: Mapping[str, Operand] = field(default_factory=dict[str, Operand])
    yields: Type
    # The type by the parameters, for ops that yield what they are told to.
    infer_type: Callable[[Any], Type] | None = None
    shorthand: str = "of"
    # The smallest interval that holds every value; for a condition, 0 is false and 1 is true.
    range: Callable[[Any, Ranges], Interval] = lambda _params, _operands: Interval.unbounded()
    remarks: Callable[[Any, Ranges], Sequence[Remark]] = lambda _params, _operands: ()
    # Slow nodes (judges, programs) run side by side, within bounds; the others in one batch.
    slow: bool = False
    # Parameters that each name a model: a declared one, or a stage that makes one.
    models: tuple[str, ...] = ()
    # User files that the value depends on, and endpoints that are asked.
    files: Callable[[Any], Sequence[str]] = lambda _: ()
    endpoints: Callable[[Any], Sequence[str]] = lambda _: ()


@record(kw_only=True)
class Engine(Extension):
    """What generates text from a model: transformers, vLLM, an HTTP endpoint."""

    needs_gpu: bool = False


@record(kw_only=True)
class Runner(Extension):
    """Where a step runs: a local process, a container."""


@record(kw_only=True)
class Environment(Extension):
    """A place in which a model acts over several turns; `run(params, site)` opens it."""

    # What a turn of the model is to it: text as it stands, or calls of its tools.
    action_format: Callable[[Any], Literal["text", "tools"]] = lambda _: "text"
    # The columns that a row must have for an episode to begin with it.
    columns: Callable[[Any], Columns] = lambda _: {}
    # The smallest interval that holds every score of an episode.
    range: Callable[[Any], Interval] = lambda _: Interval(0.0, 1.0)
    # User files that the episodes depend on.
    files: Callable[[Any], Sequence[str]] = lambda _: ()
    # Parameters that change speed or memory, but never the result: left out of the key.
    neutral: tuple[str, ...] = ()


@record(kw_only=True)
class Tracker(Extension):
    """Where figures of a run are sent while it goes on; `run(topic)` gives what takes those of a step."""

    # The module that it stands on, and the extra of ours that installs it.
    module: str
    extra: str


class Catalog(Protocol):
    """The extensions that a compilation can name. The runtime gives one; the compiler reads it."""

    def find(self, kind: ExtensionKind, name: str) -> Extension | None: ...

    def names(self, kind: ExtensionKind) -> Sequence[str]: ...

    def entry(self, kind: ExtensionKind, name: str) -> str:
        """`module:function` of what runs this extension."""
        ...
