"""Checks that a model keeps packed rows apart."""

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
    "With packing, and with TRL's `padding_free`, several rows are one sequence without an attention mask."
    " The attention of most architectures starts again where the positions start again. Linear attention and"
    " convolutions without their GPU kernels, ALiBi, and the attention of Falcon do not: tokens of a row"
    " would change the outputs of the next row. Train without packing, or use another model."
    " `perf/row_isolation.md` has the table. For a model that the compiler does not know, the stage measures"
    " it before the first step.",
    wrong=training_example(_STAGE).replace(_ISOLATING, "init: {model_type: bloom,"),
    right=training_example(_STAGE),
)
CODES = (PACKING_LEAKS,)


def check_packing(trained_model: TrainedModel, diagnostics: Diagnostics) -> None:
    shape = trained_model.shape
    if shape is None or shape.architecture.isolates_rows:
        return
    if trained_model.param_value("packing"):
        path, key = trained_model.param_path("packing"), "packing"
    elif trained_model.method.trl == "SFTConfig" and trained_model.stage.trl.get("padding_free") is True:
        path, key = (*trained_model.path, "trl", "padding_free"), "padding_free"
    else:
        return
    message = f"`{shape.architecture.model_type}` models do not keep the rows of a packed sequence apart"
    diagnostics.add(PACKING_LEAKS, path, message, help=f"remove `{key}: true`")
