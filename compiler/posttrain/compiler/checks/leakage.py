"""Checks that no model is evaluated on rows that it was trained, prompted or selected on."""

from collections.abc import Iterator, Mapping

from posttrain.compiler.checks.inloop_eval import RECIPE_WITH_BEST
from posttrain.compiler.data.datasets import CompiledDataset
from posttrain.compiler.data.row_origins import shared_origin
from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.diagnosis.minimal_recipe import MINIMAL_RECIPE, minimal_recipe
from posttrain.compiler.resolution.name_resolution import Ref, ResolvedRecipe
from posttrain.compiler.stages.gate_stage import CheckedGate
from posttrain.compiler.stages.statistical_power import GATE_EXAMPLE
from posttrain.compiler.text.yaml_tree import KeyPath
from posttrain.spec.artifact_stages import Script
from posttrain.spec.diagnostic import Code
from posttrain.spec.eval_stages import Evaluate
from posttrain.spec.step_params.train_params import HELD_OUT_ROLE
from posttrain.spec.train_stage import Train

UNNAMED_PART = Code(
    "PT0412",
    "split dataset without a part",
    "error",
    "The dataset is split, and a name without a part would read all parts: a training would include the test"
    " rows. Write NAME.train or the name of another part. To read all rows, declare a dataset without the"
    " step `split`, and derive the split one from it.",
    wrong=minimal_recipe(("{eval: sft, data: sums.test", "{eval: base, data: sums")),
    right=MINIMAL_RECIPE,
)
EVALUATED_TRAINING_ROWS = Code(
    "PT0413",
    "evaluation on training rows",
    "warning",
    "The model was trained on these rows, or its few-shot examples are among them, so the metric does not"
    " measure how it handles new rows. Split the dataset once, before other datasets are derived from it, and"
    " train and evaluate on different parts. Two datasets that are split on their own have overlapping"
    " parts.",
    wrong=minimal_recipe(("{eval: sft, data: sums.test", "{eval: sft, data: sums.train")),
    right=MINIMAL_RECIPE,
)
SELECTED_ON_GATE_ROWS = Code(
    "PT0664",
    "checkpoint selected on the rows of a gate",
    "warning",
    "`keep: best` and early stopping select a checkpoint by its metric on the rows of an eval. The best of"
    " several checkpoints has a metric that is too high on these rows, so a gate on them passes too easily."
    " Select on a part of its own: `split: {test: 500, validation: 200}`, an eval stage on NAME.validation,"
    " and its name in `evals`.",
    wrong=minimal_recipe(*RECIPE_WITH_BEST, GATE_EXAMPLE),
    right=minimal_recipe(GATE_EXAMPLE),
)
CODES = (UNNAMED_PART, EVALUATED_TRAINING_ROWS, SELECTED_ON_GATE_ROWS)


def check_named_parts(
    resolved: ResolvedRecipe, rows: Mapping[str, CompiledDataset], diagnostics: Diagnostics
) -> None:
    """Report references to all parts of a split dataset that mean its rows."""
    for (owner, role), ref in resolved.refs.items():
        path = _path_of(owner, role, resolved)
        if path is None or ref.kind != "dataset" or ref.part is not None or ref.name not in rows:
            continue
        parts = [part for part in rows[ref.name].table.parts if part != "all"]
        if parts:
            message = f"`{ref.name}` is split: without a part, its {' and '.join(parts)} rows would be read"
            named = " or ".join(f"{ref.name}.{part}" for part in parts)
            help = f"write {named}"
            diagnostics.add(UNNAMED_PART, path, message, help=help, key=path[-2] == "mix")


def _path_of(owner: str, role: str, resolved: ResolvedRecipe) -> KeyPath | None:
    """The path of a reference that reads rows, or None for references to something else."""
    thing, _, name = owner.partition(":")
    if thing == "stage":
        paths: dict[str, KeyPath] = {
            "data": ("data",),
            "few_shot": ("few_shot", "data"),
            HELD_OUT_ROLE: ("evaluate", "data"),
        }
        return ("stages", name, *paths[role]) if role in paths else None
    if thing != "dataset":
        return None
    if role == "from":
        return ("datasets", name, "from")
    index, _, other = role.partition(".")
    is_mix = index.isdigit() and "mix" in resolved.recipe.datasets[name].steps[int(index)]
    return ("datasets", name, "steps", int(index), "mix", other) if is_mix else None


def check_leakage(
    resolved: ResolvedRecipe, gates: Mapping[str, CheckedGate], diagnostics: Diagnostics
) -> None:
    for name, stage in resolved.recipe.stages.items():
        if isinstance(stage, Evaluate):
            _check_eval(name, resolved, diagnostics)
        if isinstance(stage, Train) and stage.evaluate is not None:
            _check_inloop(name, stage, resolved, diagnostics)
    for name, gate in gates.items():
        _check_selection(name, gate, resolved, diagnostics)


def _check_eval(name: str, resolved: ResolvedRecipe, diagnostics: Diagnostics) -> None:
    data, shots = (resolved.refs.get((f"stage:{name}", role)) for role in ("data", "few_shot"))
    if data is None:
        return
    if shots is not None and (origin := shared_origin(shots, data, resolved)) is not None:
        message = f"the few-shot examples of `{name}` are among the rows that it evaluates, from `{origin}`"
        path: KeyPath = ("stages", name, "few_shot", "data")
        diagnostics.add(EVALUATED_TRAINING_ROWS, path, message, help="take the examples from another part")
    for training, trained in _trainings_of(name, resolved):
        origin = shared_origin(trained, data, resolved)
        if origin is not None:
            message = f"`{name}` evaluates on rows that `{training}` trains on, from `{origin}`"
            path = ("stages", name, "data")
            diagnostics.add(EVALUATED_TRAINING_ROWS, path, message, help="evaluate on another part")
            return


def _check_inloop(name: str, stage: Train, resolved: ResolvedRecipe, diagnostics: Diagnostics) -> None:
    """Report in-loop evals on the rows of the training, unless the eval stage itself is reported."""
    trained = resolved.refs.get((f"stage:{name}", "data"))
    held_out = resolved.refs.get((f"stage:{name}", HELD_OUT_ROLE))
    origin = shared_origin(trained, held_out, resolved) if trained and held_out else None
    if origin is not None:
        message = f"`{name}` evaluates rows that it trains on, from `{origin}`"
        where: KeyPath = ("stages", name, "evaluate", "data")
        diagnostics.add(EVALUATED_TRAINING_ROWS, where, message, help="hold out a part with `split`")
    for index, other in enumerate(stage.evaluate.evals if stage.evaluate else ()):
        data = resolved.refs.get((f"stage:{other}", "data"))
        known = any(training == name for training, _ in _trainings_of(other, resolved))
        if trained is None or data is None or known:
            continue
        if (origin := shared_origin(trained, data, resolved)) is not None:
            message = f"`{other}` evaluates `{name}` on rows that it trains on, from `{origin}`"
            path: KeyPath = ("stages", name, "evaluate", "evals", index)
            diagnostics.add(EVALUATED_TRAINING_ROWS, path, message, help="name an eval on another part")


def _trainings_of(name: str, resolved: ResolvedRecipe) -> Iterator[tuple[str, Ref]]:
    """The trainings that the models of a stage come from, with their rows, the last training first."""
    owner = f"stage:{name}"
    refs = resolved.by_owner.get(owner, {})
    for role, ref in refs.items():
        if role == "model" or role.startswith("model:"):
            yield from _lineage(ref, resolved)


def _lineage(ref: Ref, resolved: ResolvedRecipe) -> Iterator[tuple[str, Ref]]:
    seen: set[str] = set()
    following = [ref]
    while following:
        ref = following.pop(0)
        if ref.kind != "stage" or ref.node in seen:
            continue
        seen.add(ref.node)
        stage, refs = resolved.recipe.stages.get(ref.name), resolved.by_owner.get(ref.node, {})
        if isinstance(stage, Train) and "data" in refs:
            yield ref.name, refs["data"]
        # A script can make its model from several others.
        following += [one for role, one in refs.items() if role == "model" or isinstance(stage, Script)]


def _check_selection(
    name: str, gate: CheckedGate, resolved: ResolvedRecipe, diagnostics: Diagnostics
) -> None:
    for judged in gate.evals:
        trains = isinstance(resolved.recipe.stages[judged], Train)
        data = resolved.refs.get((f"stage:{judged}", HELD_OUT_ROLE if trains else "data"))
        trainings = [name for name, _ in _trainings_of(judged, resolved)]
        for training in [*([judged] if trains else ()), *trainings] if data is not None else ():
            stage = resolved.recipe.stages[training]
            inloop = stage.evaluate if isinstance(stage, Train) else None
            if inloop is None or inloop.metric_for_best_model is None:
                continue
            selecting, generates, _ = inloop.metric_for_best_model.partition(".")
            owner = (selecting, "data") if generates else (training, HELD_OUT_ROLE)
            selected_on = resolved.refs.get((f"stage:{owner[0]}", owner[1]))
            if selected_on is None or data is None:
                continue
            if shared_origin(selected_on, data, resolved) is not None:
                message = (
                    f"`{training}` selects its checkpoint on the rows of `{selecting}`, on which the gate"
                    f" `{name}` judges it"
                )
                help = "split off a validation part, and select by an eval stage on it"
                path: KeyPath = ("stages", training, "evaluate", "metric_for_best_model")
                diagnostics.add(SELECTED_ON_GATE_ROWS, path, message, help=help)
                return
