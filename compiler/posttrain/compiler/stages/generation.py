"""Generate stages: how they ask, what they keep of the samples, and the conversations they write."""

import re
from collections.abc import Mapping
from typing import Any

from posttrain.compiler.data.datasets import Rows, part_of, table_of
from posttrain.compiler.diagnosis.findings import Findings
from posttrain.compiler.diagnosis.suggest import hint
from posttrain.compiler.resolution.names import Named
from posttrain.compiler.rewards.graph import Graph
from posttrain.compiler.stages.asking import Asking, check_asking
from posttrain.compiler.stages.asking_codes import BAD_DIALOGUE, BAD_KEEP, NOT_DRAWN
from posttrain.compiler.stages.training import check_reads, graph_of
from posttrain.compiler.text.source import Request
from posttrain.compiler.text.tree import Path
from posttrain.spec.asking import Above, Dialogue
from posttrain.spec.declared import written
from posttrain.spec.making import Generate
from posttrain.spec.record import record
from posttrain.spec.types import SCALARS, Columns

_PLACE = re.compile(r"\{([A-Za-z_]\w*)\}")


@record(kw_only=True)
class Generation:
    """A checked generate stage."""

    stage: Generate
    asking: Asking
    graph: Graph | None

    def plan(self) -> dict[str, Any]:
        """What is kept, and how a conversation is held, as the step's parameters have it."""
        stage = self.stage
        keep = {"above": stage.keep.above} if isinstance(stage.keep, Above) else stage.keep
        dialogue = stage.dialogue
        if dialogue is None:
            return {"keep": keep, "may_lose": stage.may_lose, "dialogue": None}
        sampling = dialogue.with_sampling or stage.sampling
        held = written(dialogue, without=("with_", "with_sampling"))
        other = {**held, "sampling": written(sampling)}
        return {"keep": keep, "may_lose": stage.may_lose, "dialogue": other}


def check_generate(
    name: str,
    stage: Generate,
    named: Named,
    rows: Mapping[str, Rows],
    graphs: Mapping[str, Graph],
    request: Request,
    findings: Findings,
) -> Generation | None:
    path: Path = ("stages", name)
    ref = named.refs.get((f"stage:{name}", "data"))
    table = table_of(ref, rows, named) if ref else None
    graph = None
    if stage.reward is not None:
        graph = graph_of(stage.reward, (*path, "reward"), named, graphs, findings)
    if ref is None or table is None or not part_of(ref, table, (*path, "data"), findings):
        return None
    if graph is not None:
        check_reads(graph, table.columns, (*path, "data"), findings)
    _check_keep(stage, graph, path, findings)
    if stage.dialogue is not None:
        _check_dialogue(stage, stage.dialogue, table.columns, (*path, "dialogue"), findings)
    asking = check_asking(name, stage, table.columns, named, rows, request, findings)
    if asking is None or (stage.reward is not None and graph is None):
        return None
    return Generation(stage=stage, asking=asking, graph=graph)


def _check_keep(stage: Generate, graph: Graph | None, path: Path, findings: Findings) -> None:
    if stage.keep == "all":
        return
    where = (*path, "keep")
    if stage.reward is None:
        message = "a choice among samples needs a reward that scores them"
        findings.add(BAD_KEEP, where, message, help="add `reward: NAME`")
    if not isinstance(stage.keep, Above):
        if stage.sampling.samples < 2:
            message = f"`keep: {stage.keep}` chooses among several samples, and there is one"
            help = "write `sampling: {samples: 4, temperature: 1.0}`, say"
            findings.add(NOT_DRAWN, where, message, help=help)
    elif graph is not None and not graph.range.low < stage.keep.above <= graph.range.high:
        kept = "nothing" if stage.keep.above > graph.range.high else "everything"
        message = f"the reward lies in {graph.range}, so {stage.keep.above:g} keeps {kept}"
        findings.add(BAD_KEEP, (*where, "above"), message)


def _check_dialogue(
    stage: Generate, dialogue: Dialogue, columns: Columns, path: Path, findings: Findings
) -> None:
    for key, given in (("template", stage.template), ("shots", stage.shots), ("reward", stage.reward)):
        if given is not None:
            findings.add(BAD_DIALOGUE, (*path[:-1], key), f"a dialogue takes no `{key}`")
    if stage.prompts == "plain":
        findings.add(BAD_DIALOGUE, (*path[:-1], "prompts"), "a dialogue is written through chat templates")
    for key in ("opening", "system", "with_system"):
        for column in _PLACE.findall(getattr(dialogue, key)) if columns else ():
            if columns.get(column) not in (*SCALARS, "any"):
                help, _ = hint(column, columns, what="columns")
                message = f"`{{{column}}}` is no column of single values in the data"
                findings.add(BAD_DIALOGUE, (*path, key), message, help=help)
