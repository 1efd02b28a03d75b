"""Adapters: whether their modules exist, and whether what is written about them has an effect."""

from posttrain.compiler.checks.trained_model import TrainedModel
from posttrain.compiler.checks.training_examples import MINIMAL_RECIPE, training_example
from posttrain.compiler.checks.trl_args import config_arguments
from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.diagnosis.suggest import hint
from posttrain.compiler.facts.parameter_counts import linear_module_names
from posttrain.spec.diagnostic import Code

_STAGE = "{train: sft, model: base, data: sums.train, adapter: {%s}}"
_QUANTIZE = ("tokenizer: {init: characters}", "tokenizer: {init: characters}\n    quantize: nf4")
UNKNOWN_TARGET_MODULE = Code(
    "PT0641",
    "an adapter on modules that the model does not have",
    "error",
    "An adapter goes on linear modules by the last part of their name, and these differ by architecture:"
    " q_proj, k_proj, v_proj and o_proj in Llama, Mistral, Qwen and Gemma; c_attn in GPT-2;"
    " query_key_value in Pythia, BLOOM and Falcon. `target_modules: auto` knows them.",
    wrong=training_example(_STAGE % "target_modules: [c_attn]"),
    right=training_example(_STAGE % "target_modules: auto"),
)
LORA_SCALE = Code(
    "PT0636",
    "an adapter's scale far from practice",
    "warning",
    "What an adapter adds is multiplied by alpha / rank. One to two is common; far above it, training is"
    " as unstable as with too high a learning rate, and far below as slow as with too low a one.",
    wrong=training_example(_STAGE % "r: 4, lora_alpha: 512"),
    right=training_example(_STAGE % "r: 16, lora_alpha: 32"),
)
DISABLED_DROPOUT = Code(
    "PT0645",
    "a dropout that is turned off",
    "warning",
    "Methods that compare log-probabilities turn every dropout off, that of the adapter too: with it, the"
    " same text would have another probability each time. `trl: {disable_dropout: false}` keeps it.",
    wrong=training_example("{train: dpo, model: base, data: sums.train, adapter: {lora_dropout: 0.1}}"),
    right=training_example("{train: dpo, model: base, data: sums.train, adapter: {lora_dropout: 0.0}}"),
)
QUANTIZED_TRAINING = Code(
    "PT0644",
    "quantized weights that are to be trained",
    "error",
    "Weights in 8 or 4 bits are frozen: an adapter over them can be trained, they cannot.",
    wrong=MINIMAL_RECIPE.replace(
        "tokenizer: {init: characters}", "tokenizer: {init: characters}\n    quantize: nf4"
    ),
    right=training_example(_STAGE % "type: lora")
    .replace("tokenizer: {init: characters}", "tokenizer: {init: characters}\n    quantize: nf4")
    .replace("recipe: 1\n", "recipe: 1\nhardware: {gpus: 1xH100-80GB}\n"),
)
CODES = (LORA_SCALE, UNKNOWN_TARGET_MODULE, QUANTIZED_TRAINING, DISABLED_DROPOUT)
_MIN_SCALE, _MAX_SCALE = 0.25, 8.0


def check_target_modules(trained_model: TrainedModel, diagnostics: Diagnostics) -> None:
    adapter = trained_model.adapter
    if adapter is None or not trained_model.has_adapter:
        return
    path = (*trained_model.adapter_path, "target_modules")
    if isinstance(adapter.target_modules, str) or trained_model.shape is None:
        return
    names = linear_module_names(trained_model.shape)
    for index, target in enumerate(adapter.target_modules):
        if target.rpartition(".")[2] not in names:
            help, meant = hint(target, names, what="modules of this model")
            message = f"{trained_model.shape.architecture.model_type} has no linear modules named `{target}`"
            diagnostics.add(UNKNOWN_TARGET_MODULE, (*path, index), message, help=help, replace=meant)


def check_lora_scale(trained_model: TrainedModel, diagnostics: Diagnostics) -> None:
    adapter = trained_model.adapter
    if adapter is None or not trained_model.has_adapter:
        return
    scale = adapter.lora_alpha / (adapter.r**0.5 if adapter.use_rslora else adapter.r)
    if not _MIN_SCALE <= scale <= _MAX_SCALE:
        over = "the square root of rank" if adapter.use_rslora else "rank"
        message = f"alpha / {over} is {scale:g}: what the adapter adds is multiplied by it"
        usual = 2 * round(adapter.r**0.5) if adapter.use_rslora else 2 * adapter.r
        help = f"alpha: {usual} is a common choice for rank {adapter.r}"
        diagnostics.add(LORA_SCALE, (*trained_model.adapter_path, "lora_alpha"), message, help=help)


def check_lora_dropout(trained_model: TrainedModel, diagnostics: Diagnostics) -> None:
    adapter, kind = trained_model.adapter, trained_model.method.trl
    if adapter is None or kind is None or not trained_model.has_adapter or adapter.lora_dropout == 0:
        return
    off = config_arguments(kind).get("disable_dropout", {}).get("default", False)
    if trained_model.stage.trl.get("disable_dropout", off):
        message = f"{trained_model.method.name} turns dropout off, so the adapter's has no effect"
        diagnostics.add(
            DISABLED_DROPOUT, (*trained_model.adapter_path, "lora_dropout"), message, help="remove it"
        )


def check_quantized_training(trained_model: TrainedModel, diagnostics: Diagnostics) -> None:
    if (
        trained_model.base_model is None
        or trained_model.base_model.quantize == "none"
        or trained_model.has_adapter
    ):
        return
    message = (
        f"the weights are loaded as {trained_model.base_model.quantize}, and cannot be trained themselves"
    )
    help = "add `adapter: {type: lora}`, or remove `quantize`"
    diagnostics.add(QUANTIZED_TRAINING, (*trained_model.path, "train"), message, help=help)
