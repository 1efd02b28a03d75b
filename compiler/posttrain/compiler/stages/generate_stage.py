"""Checks generate stages: inference, the selection of samples, and dialogues."""

import re
from collections.abc import Mapping

from posttrain.compiler.data.datasets import CompiledDataset, check_part, table_of
from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.resolution.name_resolution import ResolvedRecipe
from posttrain.compiler.rewards.graph import RewardGraph
from posttrain.compiler.stages.inference import InferenceConfig, check_inference
from posttrain.compiler.stages.inference_codes import BAD_DIALOGUE, BAD_KEEP, INVALID_SAMPLING
from posttrain.compiler.stages.train_stage import check_reward_columns, resolve_reward
from posttrain.compiler.text.compile_request import CompileRequest
from posttrain.compiler.text.yaml_tree import KeyPath
from posttrain.spec.artifact_stages import Generate
from posttrain.spec.column_types import SCALAR_TYPES, Columns
from posttrain.spec.inference import Dialogue, MinScore
from posttrain.spec.record import record
from posttrain.spec.step_params.artifact_params import DialogueOptions, UserSampling
from posttrain.spec.suggestions import hint

_PLACEHOLDER = re.compile(r"\{([A-Za-z_]\w*)\}")


@record(kw_only=True)
class CheckedGeneration:
    """A checked generate stage."""

    stage: Generate
    inference: InferenceConfig
    graph: RewardGraph | None

    def dialogue_params(self) -> DialogueOptions | None:
        """The dialogue as parameters of the step."""
        dialogue = self.stage.dialogue
        if dialogue is None:
            return None
        sampling = dialogue.with_sampling or self.stage.sampling
        # Without a seed the other side derives its own: both sides must not sample the same tokens.
        seed = dialogue.with_sampling.seed if dialogue.with_sampling else None
        return DialogueOptions(
            max_turns=dialogue.max_turns,
            opening=dialogue.opening,
            system=dialogue.system,
            with_system=dialogue.with_system,
            begin=dialogue.begin,
            stop=dialogue.stop,
            sampling=UserSampling.model_validate({**dict(sampling), "seed": seed}),
        )


def check_generate(
    name: str,
    stage: Generate,
    resolved: ResolvedRecipe,
    rows: Mapping[str, CompiledDataset],
    graphs: Mapping[str, RewardGraph],
    request: CompileRequest,
    diagnostics: Diagnostics,
) -> CheckedGeneration | None:
    path: KeyPath = ("stages", name)
    ref = resolved.refs.get((f"stage:{name}", "data"))
    table = table_of(ref, rows, resolved) if ref else None
    graph = None
    if stage.reward is not None:
        graph = resolve_reward(stage.reward, (*path, "reward"), resolved, graphs, diagnostics)
    if ref is None or table is None or not check_part(ref, table, (*path, "data"), diagnostics):
        return None
    if graph is not None:
        check_reward_columns(graph, table.columns, (*path, "data"), diagnostics)
    _check_keep(stage, graph, path, diagnostics)
    if stage.dialogue is not None:
        _check_dialogue(stage, stage.dialogue, table.columns, (*path, "dialogue"), diagnostics)
    inference = check_inference(name, stage, table.columns, resolved, rows, request, diagnostics)
    if inference is None or (stage.reward is not None and graph is None):
        return None
    return CheckedGeneration(stage=stage, inference=inference, graph=graph)


def _check_keep(stage: Generate, graph: RewardGraph | None, path: KeyPath, diagnostics: Diagnostics) -> None:
    if stage.keep == "all":
        return
    where = (*path, "keep")
    if stage.reward is None:
        message = "`keep` needs a reward that scores the samples"
        diagnostics.add(BAD_KEEP, where, message, help="add `reward: NAME`")
    if not isinstance(stage.keep, MinScore):
        if stage.sampling.n < 2:
            message = f"`keep: {stage.keep}` needs at least two samples, but `sampling.n` is 1"
            help = "set it, for example `sampling: {n: 4, temperature: 1.0}`"
            diagnostics.add(INVALID_SAMPLING, where, message, help=help)
    elif graph is not None and not graph.range.low < stage.keep.min_score <= graph.range.high:
        outcome = "nothing" if stage.keep.min_score > graph.range.high else "everything"
        message = f"the range of the reward is {graph.range}, so {stage.keep.min_score:g} keeps {outcome}"
        diagnostics.add(BAD_KEEP, (*where, "min_score"), message)


def _check_dialogue(
    stage: Generate, dialogue: Dialogue, columns: Columns, path: KeyPath, diagnostics: Diagnostics
) -> None:
    for key, given in (("template", stage.template), ("few_shot", stage.few_shot), ("reward", stage.reward)):
        if given is not None:
            diagnostics.add(BAD_DIALOGUE, (*path[:-1], key), f"a dialogue does not support `{key}`")
    if stage.prompts == "plain":
        diagnostics.add(BAD_DIALOGUE, (*path[:-1], "prompts"), "a dialogue needs chat templates")
    for key in ("opening", "system", "with_system"):
        for column in _PLACEHOLDER.findall(getattr(dialogue, key)) if columns else ():
            if columns.get(column) not in (*SCALAR_TYPES, "any"):
                help, _ = hint(column, columns, what="columns")
                message = f"`{{{column}}}` is not a column of single values in the data"
                diagnostics.add(BAD_DIALOGUE, (*path, key), message, help=help)
