"""Checks the prompts of eval and generate stages: the column, the template and the few-shot examples."""

from collections.abc import Mapping
from dataclasses import field

from posttrain.compiler.data import data_codes
from posttrain.compiler.data.datasets import CompiledDataset, check_part, table_of
from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.resolution.name_resolution import ResolvedRecipe
from posttrain.compiler.seeds import seed_for
from posttrain.compiler.stages.inference_codes import BAD_FEW_SHOT, BAD_PROMPT_TEMPLATE
from posttrain.compiler.text.compile_request import CompileRequest
from posttrain.compiler.text.yaml_tree import KeyPath
from posttrain.compiler.user_files import user_file
from posttrain.spec.artifact_stages import Generate
from posttrain.spec.column_types import Columns
from posttrain.spec.eval_stages import Evaluate
from posttrain.spec.inference import FewShot, PromptFormat
from posttrain.spec.plan import UserFile
from posttrain.spec.record import record
from posttrain.spec.step_params.generation_params import FewShotOptions
from posttrain.spec.suggestions import hint

PROMPT_PLACEHOLDER = "{prompt}"
_ANSWER_TYPES = ("text", "integer", "number", "any")


@record(kw_only=True)
class PromptConfig:
    """The prompt configuration of a stage."""

    prompts: PromptFormat
    shots: FewShotOptions | None = None
    files: Mapping[str, UserFile] = field(default_factory=dict[str, UserFile])


def check_prompting(
    name: str,
    stage: Evaluate | Generate,
    columns: Columns,
    resolved: ResolvedRecipe,
    rows: Mapping[str, CompiledDataset],
    request: CompileRequest,
    diagnostics: Diagnostics,
) -> PromptConfig | None:
    path: KeyPath = ("stages", name)
    dialogue = isinstance(stage, Generate) and stage.dialogue is not None
    if columns and not dialogue and not _check_prompt_column(columns, (*path, "data"), diagnostics):
        return None
    plain = columns.get("prompt", "text") in ("text", "any")
    files = _template_files(stage, (*path, "template"), request, diagnostics, plain=plain)
    if stage.few_shot is not None:
        if not plain:
            diagnostics.add(
                BAD_FEW_SHOT, (*path, "few_shot"), "conversations do not support few-shot examples"
            )
        _check_few_shot(stage.few_shot, name, resolved, rows, diagnostics)
    if files is None:
        return None
    return PromptConfig(prompts=stage.prompts, files=files, shots=_few_shot_params(stage.few_shot, resolved))


def _check_prompt_column(columns: Columns, path: KeyPath, diagnostics: Diagnostics) -> bool:
    kind = columns.get("prompt")
    if kind in ("text", "messages", "any"):
        return True
    help, _ = hint("prompt", columns, what="columns")
    message = "the data has no column `prompt`" if kind is None else f"the column `prompt` is {kind}"
    diagnostics.add(
        data_codes.MISSING_COLUMN, path, message, help=help or "derive it in the steps of the dataset"
    )
    return False


def _template_files(
    stage: Evaluate | Generate,
    path: KeyPath,
    request: CompileRequest,
    diagnostics: Diagnostics,
    *,
    plain: bool,
) -> dict[str, UserFile] | None:
    """Return the file of the template by its role, or None if it is missing or invalid."""
    if stage.template is None:
        return {}
    read = user_file(stage.template, path, request, diagnostics)
    if read is None:
        return None
    if PROMPT_PLACEHOLDER.encode() not in read[1]:
        message = f"`{stage.template}` has no {PROMPT_PLACEHOLDER}"
        diagnostics.add(
            BAD_PROMPT_TEMPLATE,
            path,
            message,
            help=f"add {PROMPT_PLACEHOLDER} where the prompt of the row goes",
        )
        return None
    if not plain:
        diagnostics.add(BAD_PROMPT_TEMPLATE, path, "a template does not support conversations")
        return None
    return {"template": read[0]}


def _few_shot_params(shots: FewShot | None, resolved: ResolvedRecipe) -> FewShotOptions | None:
    if shots is None:
        return None
    return FewShotOptions(
        num_fewshot=shots.num_fewshot,
        answer=shots.answer,
        target_delimiter=shots.target_delimiter,
        fewshot_delimiter=shots.fewshot_delimiter,
        seed=seed_for(resolved.recipe.seed, f"few_shot:{shots.data}"),
    )


def _check_few_shot(
    shots: FewShot,
    name: str,
    resolved: ResolvedRecipe,
    rows: Mapping[str, CompiledDataset],
    diagnostics: Diagnostics,
) -> None:
    """Check that the dataset of the few-shot examples has enough rows and the right columns."""
    path: KeyPath = ("stages", name, "few_shot")
    ref = resolved.refs.get((f"stage:{name}", "few_shot"))
    table = table_of(ref, rows, resolved) if ref else None
    if ref is None or table is None or not check_part(ref, table, (*path, "data"), diagnostics):
        return
    count = table.max_rows(ref.part)
    if count is not None and count < shots.num_fewshot:
        message = f"`num_fewshot` is {shots.num_fewshot}, but `{shots.data}` has {count} rows"
        diagnostics.add(BAD_FEW_SHOT, (*path, "num_fewshot"), message)
    if table.columns and table.columns.get("prompt") not in ("text", "any"):
        diagnostics.add(BAD_FEW_SHOT, (*path, "data"), f"`{shots.data}` has no text column `prompt`")
    if table.columns and table.columns.get(shots.answer) not in _ANSWER_TYPES:
        help, meant = hint(shots.answer, table.columns, what="columns")
        message = f"`{shots.data}` has no answer column `{shots.answer}`"
        diagnostics.add(BAD_FEW_SHOT, (*path, "answer"), message, help=help, replace=meant)
