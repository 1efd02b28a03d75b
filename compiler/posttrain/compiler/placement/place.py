"""The pass that lays every stage of a checked recipe on its target."""

from collections.abc import Mapping

from posttrain.compiler.check import Checked
from posttrain.compiler.checks.subject import Subject, subjects
from posttrain.compiler.data.datasets import table_of
from posttrain.compiler.data.tables import Table
from posttrain.compiler.diagnosis.findings import Findings
from posttrain.compiler.placement.generating import place_generation, together
from posttrain.compiler.placement.placed import Placed
from posttrain.compiler.placement.target import Target, target_of
from posttrain.compiler.placement.training import place_training
from posttrain.compiler.placement.workloads import Beside, Reference
from posttrain.compiler.stages.asking import Subject as Asked
from posttrain.spec.making import Generate
from posttrain.spec.measuring import Benchmark, Evaluate


def place(checked: Checked, findings: Findings) -> Mapping[str, Placed]:
    """What placement adds, by stage. Stages that are mistaken elsewhere are left out."""
    target = target_of(checked.named.recipe.hardware, findings)
    if target is None:
        return {}
    found: dict[str, Placed] = {}
    for subject in subjects(checked.named, checked.trainings, checked.lines, checked.shapes):
        rows = _rows(subject.name, checked)[0]
        placed = place_training(subject, target, _beside(subject, checked), rows, findings)
        if placed is not None:
            found[subject.name] = placed
    asking = {name: (found.stage, found.asking) for name, found in checked.evals.items()}
    asking |= {name: (found.stage, found.asking) for name, found in checked.benchmarks.items()}
    asking |= {name: (found.stage, found.asking) for name, found in checked.generations.items()}
    for name, (stage, how) in asking.items():
        laid = [_asked(name, stage, one, target, checked) for one in how.subjects if one.endpoint is None]
        if laid:
            found[name] = together(laid)
    return found


def _rows(name: str, checked: Checked) -> tuple[Table | None, str | None]:
    """What is known of the rows that a stage reads, and the part of them that it does."""
    ref = checked.named.refs.get((f"stage:{name}", "data"))
    return (table_of(ref, checked.rows, checked.named), ref.part) if ref is not None else (None, None)


def _beside(subject: Subject, checked: Checked) -> Beside:
    """What the lines of the reference and of the models that score begin with, where there are some; an
    eval on the way has its own that score."""
    owner = f"stage:{subject.name}"
    found = {role: _other(owner, role, checked) for role in checked.named.by_owner.get(owner, ())}
    scorers = {
        role.partition(":")[2]: other
        for role, other in found.items()
        if "reward:" in role and other is not None
    }
    during = subject.stage.evaluate
    stages = [checked.named.recipe.stages.get(name) for name in during.evals] if during else []
    evals = tuple(one.sampling for one in stages if isinstance(one, Evaluate))
    return Beside(found.get("reference"), scorers, evals)


def _other(owner: str, role: str, checked: Checked) -> Reference | None:
    origin = _origin(owner, role, checked)
    if origin is None:
        return None
    return Reference(checked.named.recipe.models[origin], checked.shapes.get(origin))


def _origin(owner: str, role: str, checked: Checked) -> str | None:
    ref = checked.named.refs.get((owner, role))
    line = checked.lines.get(ref.node) if ref is not None else None
    return line.origin if line is not None and line.origin in checked.named.recipe.models else None


def _asked(
    name: str, stage: Evaluate | Generate | Benchmark, subject: Asked, target: Target, checked: Checked
) -> Placed:
    table, part = _rows(name, checked)
    rows = table.expected(part) if table is not None else None
    about = f"about {rows} rows, {table.about}" if table is not None and table.guesses(part) else ""
    origin = _origin(f"stage:{name}", subject.role, checked) or ""
    model, shape = checked.named.recipe.models.get(origin), checked.shapes.get(origin)
    return place_generation(model, shape, stage.sampling, rows, subject.engine, target, about)
