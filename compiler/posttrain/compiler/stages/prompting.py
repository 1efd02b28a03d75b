"""The prompts of eval and generate stages: the column, a template around it, worked examples before it."""

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from posttrain.compiler.data import codes as data_codes
from posttrain.compiler.data.datasets import Rows, part_of, table_of
from posttrain.compiler.diagnosis.findings import Findings
from posttrain.compiler.diagnosis.suggest import hint
from posttrain.compiler.files import user_file
from posttrain.compiler.resolution.names import Named
from posttrain.compiler.seeds import seed_for
from posttrain.compiler.stages.asking_codes import BAD_SHOTS, BAD_TEMPLATE
from posttrain.compiler.text.source import Request
from posttrain.compiler.text.tree import Path
from posttrain.spec.asking import Shots
from posttrain.spec.making import Generate
from posttrain.spec.measuring import Evaluate
from posttrain.spec.plan import UserFile
from posttrain.spec.record import record
from posttrain.spec.types import Columns

PLACE = "{prompt}"
_ANSWERS = ("text", "integer", "number", "any")


@record(kw_only=True)
class Prompting:
    """What a stage's prompts are made with."""

    prompts: str
    shots: Mapping[str, Any] | None = None
    files: Mapping[str, UserFile] = field(default_factory=dict[str, UserFile])

    def plan(self) -> dict[str, Any]:
        return {"prompts": self.prompts, "shots": self.shots}


def check_prompting(
    name: str,
    stage: Evaluate | Generate,
    columns: Columns,
    named: Named,
    rows: Mapping[str, Rows],
    request: Request,
    findings: Findings,
) -> Prompting | None:
    path: Path = ("stages", name)
    dialogue = isinstance(stage, Generate) and stage.dialogue is not None
    if columns and not dialogue and not _has_prompt(columns, (*path, "data"), findings):
        return None
    plain = columns.get("prompt", "text") in ("text", "any")
    files = _template(stage, (*path, "template"), request, findings, plain=plain)
    if stage.shots is not None:
        if not plain:
            findings.add(BAD_SHOTS, (*path, "shots"), "the prompts are conversations, which take no shots")
        _check_shots(stage.shots, name, named, rows, findings)
    if files is None:
        return None
    return Prompting(prompts=stage.prompts, files=files, shots=_shots(stage.shots, named))


def _has_prompt(columns: Columns, path: Path, findings: Findings) -> bool:
    kind = columns.get("prompt")
    if kind in ("text", "messages", "any"):
        return True
    help, _ = hint("prompt", columns, what="columns")
    message = "the data has no column `prompt`" if kind is None else f"the column `prompt` is {kind}"
    findings.add(data_codes.MISSING_COLUMN, path, message, help=help or "derive one in the dataset's steps")
    return False


def _template(
    stage: Evaluate | Generate, path: Path, request: Request, findings: Findings, *, plain: bool
) -> dict[str, UserFile] | None:
    """The template's file by its role; None when it is missing or cannot serve."""
    if stage.template is None:
        return {}
    read = user_file(stage.template, path, request.read, findings)
    if read is None:
        return None
    if PLACE.encode() not in read[1]:
        message = f"`{stage.template}` has no {PLACE}"
        findings.add(BAD_TEMPLATE, path, message, help=f"write {PLACE} where the row's prompt goes")
        return None
    if not plain:
        findings.add(BAD_TEMPLATE, path, "the prompts are conversations, which a text cannot hold")
        return None
    return {"template": read[0]}


def _shots(shots: Shots | None, named: Named) -> dict[str, Any] | None:
    if shots is None:
        return None
    return {
        "count": shots.count,
        "answer": shots.answer,
        "joint": shots.joint,
        "between": shots.between,
        "seed": seed_for(named.recipe.seed, f"shots:{shots.data}"),
    }


def _check_shots(shots: Shots, name: str, named: Named, rows: Mapping[str, Rows], findings: Findings) -> None:
    """Whether the rows that shots come from have what they are made of."""
    path: Path = ("stages", name, "shots")
    ref = named.refs.get((f"stage:{name}", "shots"))
    table = table_of(ref, rows, named) if ref else None
    if ref is None or table is None or not part_of(ref, table, (*path, "data"), findings):
        return
    count = table.bound(ref.part)
    if count is not None and count < shots.count:
        message = f"{shots.count} shots are wanted, and `{shots.data}` has {count} rows"
        findings.add(BAD_SHOTS, (*path, "count"), message)
    if table.columns and table.columns.get("prompt") not in ("text", "any"):
        findings.add(BAD_SHOTS, (*path, "data"), f"`{shots.data}` has no text column `prompt`")
    if table.columns and table.columns.get(shots.answer) not in _ANSWERS:
        help, meant = hint(shots.answer, table.columns, what="columns")
        message = f"`{shots.data}` has no column of answers `{shots.answer}`"
        findings.add(BAD_SHOTS, (*path, "answer"), message, help=help, replace=meant)
