"""Checks that a model keeps packed rows apart, and that rows without padding are packed."""

from posttrain.compiler.checks.trained_model import TrainedModel
from posttrain.compiler.checks.training_examples import training_example
from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.spec.diagnostic import Code

_STAGE = "{train: sft, model: base, data: sums.train, params: {epochs: 1, batch_size: 4, packing: true}}"
_ISOLATING = "init: {model_type: qwen2,"
PACKING_LEAKS = Code(
    "PT0648",
    "the model does not keep packed rows apart",
    "error",
    "With packing, several rows are one sequence without an attention mask."
    " The attention of most architectures starts again where the positions start again. Linear attention and"
    " convolutions without their GPU kernels, ALiBi, and the attention of Falcon do not: tokens of a row"
    " would change the outputs of the next row. Train without packing, or use another model."
    " `perf/row_isolation.md` has the table. For a model that the compiler does not know, the stage measures"
    " it before the first step.",
    wrong=training_example(_STAGE).replace(_ISOLATING, "init: {model_type: bloom,"),
    right=training_example(_STAGE),
)
PADDING_FREE_ALONE = Code(
    "PT0649",
    "rows without padding need packing",
    "error",
    "TRL's `padding_free` puts the rows of a micro-batch into one sequence. Without packing, TRL's SFT does"
    " not enforce `max_length` then, and refuses to train. Packing fills sequences up to `max_length`.",
    wrong=training_example(_STAGE).replace(", packing: true}", "}, trl: {padding_free: true}"),
    right=training_example(_STAGE),
)
CODES = (PACKING_LEAKS, PADDING_FREE_ALONE)


def check_packing(trained_model: TrainedModel, diagnostics: Diagnostics) -> None:
    if trained_model.param_value("packing"):
        _check_isolation(trained_model, diagnostics)
    elif trained_model.method.trl == "SFTConfig" and trained_model.stage.trl.get("padding_free") is True:
        path = (*trained_model.path, "trl", "padding_free")
        message = "`padding_free` without packing ignores `max_length`, which TRL refuses"
        help = "set `packing: true` under `params`, or remove the argument"
        diagnostics.add(PADDING_FREE_ALONE, path, message, help=help)


def _check_isolation(trained_model: TrainedModel, diagnostics: Diagnostics) -> None:
    shape = trained_model.shape
    if shape is None or shape.architecture.isolates_rows:
        return
    message = f"`{shape.architecture.model_type}` models do not keep the rows of a packed sequence apart"
    path = trained_model.param_path("packing")
    diagnostics.add(PACKING_LEAKS, path, message, help="remove `packing: true`")
