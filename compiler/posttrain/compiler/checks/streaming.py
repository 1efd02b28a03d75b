"""Checks that a streamed dataset is only used where one window of its rows at a time is enough."""

from collections.abc import Mapping, Sequence

from posttrain.compiler.checks.trained_model import TrainedModel
from posttrain.compiler.data.datasets import CompiledDataset
from posttrain.compiler.data.relational_steps import ROW_STEPS
from posttrain.compiler.data.sql import reads_other_rows
from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.diagnosis.minimal_recipe import minimal_recipe
from posttrain.compiler.resolution.name_resolution import Ref, ResolvedRecipe
from posttrain.compiler.resolution.references import ReferenceSite, find_references
from posttrain.compiler.text.yaml_tree import KeyPath
from posttrain.spec.diagnostic import Code
from posttrain.spec.extension import Catalog, DataOp, Method
from posttrain.spec.train_stage import Train

_BY_LENGTH = "group_by_length"

_PAGES = """\
  pages:
    from:
      hub:
        name: example/pages
        revision: 7ae557604adf67be50417f59c2c2f167def9a775
        columns: {page: text}
        streaming: true
    steps:
      - rename: {page: text}
"""
_STREAMED = (
    ("rewards:\n", f"{_PAGES}rewards:\n"),
    ("data: sums.train, params: {epochs: 1,", "data: pages, params: {max_steps: 100,"),
)
_RIGHT = minimal_recipe(*_STREAMED)
STREAMED_STEP = Code(
    "PT0414",
    "step that needs all rows of a streamed dataset",
    "error",
    "The rows of a streamed dataset are read window by window, and never stored whole. Its steps can compute"
    " each row from that row only: `where`, `derive`, `select`, `rename`, and the others whose description in"
    " the reference says so. Steps such as `sort`, `dedup`, `sample` and `split` need all rows.",
    wrong=_RIGHT.replace("- rename: {page: text}", "- rename: {page: text}\n      - dedup: text"),
    right=_RIGHT,
)
STREAMED_USE = Code(
    "PT0415",
    "use of a streamed dataset that needs all of its rows",
    "error",
    "Only the `data` of a training stage whose method trains on the rows in one pass, such as `sft`, can be a"
    " streamed dataset. The number of its rows is unknown, so the stage needs `max_steps`. Evals, held-out"
    " rows, other datasets and other methods read all rows.",
    wrong=_RIGHT.replace("max_steps: 100", "epochs: 1"),
    right=_RIGHT,
)
CODES = (STREAMED_STEP, STREAMED_USE)
_WHOLE = "remove `streaming: true` from its source, or declare another dataset without it"


def check_streaming(
    resolved: ResolvedRecipe,
    rows: Mapping[str, CompiledDataset],
    trained: Sequence[TrainedModel],
    catalog: Catalog,
    diagnostics: Diagnostics,
) -> None:
    """Check the steps and the uses of streamed datasets."""
    streamed = [name for name, one in rows.items() if one.window_rows is not None]
    for name in streamed:
        _check_steps(name, resolved, catalog, diagnostics)
    for site in find_references(resolved.recipe):
        ref = resolved.refs.get((site.owner, site.role))
        if ref is not None and ref.kind == "dataset" and ref.name in streamed:
            _check_use(ref, site, resolved, catalog, diagnostics)
    for one in trained:
        data = resolved.refs.get((f"stage:{one.name}", "data"))
        if data is not None and data.name in streamed and one.method.streams_rows:
            _check_training(one, diagnostics)


def _check_steps(name: str, resolved: ResolvedRecipe, catalog: Catalog, diagnostics: Diagnostics) -> None:
    for index, step in enumerate(resolved.recipe.datasets[name].steps):
        kind, value = next(iter(step.items()))
        path: KeyPath = ("datasets", name, "steps", index, kind)
        op = catalog.find("data", kind)
        if kind not in ROW_STEPS and not (isinstance(op, DataOp) and op.row_by_row):
            message = f"`{kind}` needs all rows, but `{name}` is streamed"
            diagnostics.add(STREAMED_STEP, path, message, key=True, help=_WHOLE)
        for place, expression in _expressions(kind, value):
            found = reads_other_rows(expression)
            if found is not None:
                message = f"{found} depends on other rows, but `{name}` is streamed"
                diagnostics.add(STREAMED_STEP, (*path, *place), message, help=_WHOLE)


def _expressions(kind: str, value: object) -> list[tuple[tuple[str, ...], str]]:
    """The SQL expressions of a step, with their places below it."""
    if kind == "where" and isinstance(value, str):
        return [((), value)]
    if kind == "derive" and isinstance(value, Mapping):
        return [((str(name),), str(one)) for name, one in value.items()]
    return []


def _check_use(
    ref: Ref,
    site: ReferenceSite,
    resolved: ResolvedRecipe,
    catalog: Catalog,
    diagnostics: Diagnostics,
) -> None:
    thing, _, name = site.owner.partition(":")
    stage = resolved.recipe.stages.get(name) if thing == "stage" else None
    if isinstance(stage, Train) and site.role == "data":
        if not catalog.has("method", stage.train) or _streams(stage.train, catalog):
            return
        able = ", ".join(f"`{each}`" for each in catalog.names("method") if _streams(each, catalog))
        message = f"`{stage.train}` reads all rows of its data, but `{ref.name}` is streamed"
        diagnostics.add(
            STREAMED_USE, site.path, message, help=f"methods that can stream: {able}; or {_WHOLE}"
        )
        return
    reader = "the dataset" if thing == "dataset" else "the stage"
    message = f"{reader} `{name}` reads all rows of `{ref.name}`, which is streamed"
    help = "write its steps in the streamed dataset itself" if site.role == "from" else _WHOLE
    diagnostics.add(STREAMED_USE, site.path, message, help=help)


def _streams(method: str, catalog: Catalog) -> bool:
    found = catalog.find("method", method)
    return isinstance(found, Method) and found.streams_rows


def _check_training(trained: TrainedModel, diagnostics: Diagnostics) -> None:
    """Check that a stage says how long it trains, and in a possible order."""
    if trained.param_value("max_steps") is None:
        message = "the number of rows of a streamed dataset is unknown, so the number of steps is"
        path = trained.param_path("epochs") if trained.is_param_given("epochs") else trained.path
        diagnostics.add(STREAMED_USE, path, message, help="set `max_steps` under `params`")
    order = trained.stage.trl.get("train_sampling_strategy")
    if order == _BY_LENGTH:
        path = (*trained.path, "trl", "train_sampling_strategy")
        message = f"`{order}` needs all rows, but the data is streamed"
        diagnostics.add(STREAMED_USE, path, message, help="use random or sequential, or remove the argument")
    if trained.stage.trl.get("dataloader_num_workers"):
        path = (*trained.path, "trl", "dataloader_num_workers")
        message = "the process of the training itself reads the rows of a stream"
        diagnostics.add(STREAMED_USE, path, message, help="remove the argument")
