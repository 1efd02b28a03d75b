"""Checks the target modules, scale and dropout of an adapter, and the training of quantized weights."""

from posttrain.compiler.checks.trained_model import TrainedModel
from posttrain.compiler.checks.training_examples import MINIMAL_RECIPE, training_example
from posttrain.compiler.checks.trl_args import config_arguments
from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.facts.parameter_counts import linear_module_names
from posttrain.spec.adapter_declaration import FIELD_TYPES
from posttrain.spec.diagnostic import Code
from posttrain.spec.suggestions import hint

_STAGE = "{train: sft, model: base, data: sums.train, adapter: {%s}}"
_QUANTIZE = ("tokenizer: {init: characters}", "tokenizer: {init: characters}\n    quantize: nf4")
UNKNOWN_TARGET_MODULE = Code(
    "PT0641",
    "unknown target module",
    "error",
    "`target_modules` lists linear modules by the last part of their name, which depends on the"
    " architecture: q_proj, k_proj, v_proj and o_proj in Llama, Mistral, Qwen and Gemma; c_attn in GPT-2;"
    " query_key_value in Pythia, BLOOM and Falcon. `target_modules: auto` selects the attention modules of"
    " the architecture.",
    wrong=training_example(_STAGE % "target_modules: [c_attn]"),
    right=training_example(_STAGE % "target_modules: auto"),
)
LORA_SCALE = Code(
    "PT0636",
    "unusual LoRA scale",
    "warning",
    "The output of an adapter is multiplied by lora_alpha / r. Values from 1 to 2 are common. A much higher"
    " scale makes training unstable, like a high learning rate; a much lower scale makes it slow, like a low"
    " learning rate.",
    wrong=training_example(_STAGE % "r: 4, lora_alpha: 512"),
    right=training_example(_STAGE % "r: 16, lora_alpha: 32"),
)
DISABLED_DROPOUT = Code(
    "PT0645",
    "dropout without effect",
    "warning",
    "Methods that compare log-probabilities disable all dropout, including the dropout of the adapter,"
    " because dropout would change the log-probability of a text on every forward pass. `trl:"
    " {disable_dropout: false}` keeps dropout enabled.",
    wrong=training_example("{train: dpo, model: base, data: sums.train, adapter: {lora_dropout: 0.1}}"),
    right=training_example("{train: dpo, model: base, data: sums.train, adapter: {lora_dropout: 0.0}}"),
)
QUANTIZED_TRAINING = Code(
    "PT0644",
    "training of quantized weights",
    "error",
    "Weights in 8 or 4 bits are frozen and cannot be trained. Train an adapter on top of them, or load the"
    " model without `quantize`.",
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
            message = f"{trained_model.shape.architecture.model_type} has no linear module `{target}`"
            diagnostics.add(UNKNOWN_TARGET_MODULE, (*path, index), message, help=help, replace=meant)


def check_lora_scale(trained_model: TrainedModel, diagnostics: Diagnostics) -> None:
    adapter = trained_model.adapter
    if adapter is None or adapter.type not in FIELD_TYPES["lora_alpha"]:
        return
    scale = adapter.lora_alpha / (adapter.rank**0.5 if adapter.use_rslora else adapter.rank)
    if not _MIN_SCALE <= scale <= _MAX_SCALE:
        divisor = "sqrt(r)" if adapter.use_rslora else "r"
        message = f"the LoRA scale (lora_alpha / {divisor}) is {scale:g}, far from the usual 1 to 2"
        usual = 2 * round(adapter.rank**0.5) if adapter.use_rslora else 2 * adapter.rank
        help = f"`lora_alpha: {usual}` is a common value for `r: {adapter.rank}`"
        diagnostics.add(LORA_SCALE, (*trained_model.adapter_path, "lora_alpha"), message, help=help)


def check_lora_dropout(trained_model: TrainedModel, diagnostics: Diagnostics) -> None:
    adapter, kind = trained_model.adapter, trained_model.method.trl
    if adapter is None or kind is None or not trained_model.has_adapter or adapter.lora_dropout == 0:
        return
    off = config_arguments(kind).get("disable_dropout", {}).get("default", False)
    if trained_model.stage.trl.get("disable_dropout", off):
        message = f"`{trained_model.method.name}` disables dropout, so `lora_dropout` has no effect"
        diagnostics.add(
            DISABLED_DROPOUT, (*trained_model.adapter_path, "lora_dropout"), message, help="remove the key"
        )


def check_quantized_training(trained_model: TrainedModel, diagnostics: Diagnostics) -> None:
    if (
        trained_model.base_model is None
        or trained_model.base_model.quantize == "none"
        or trained_model.has_adapter
    ):
        return
    message = f"the weights are loaded as {trained_model.base_model.quantize} and cannot be trained directly"
    help = "add `adapter: {type: lora}`, or remove `quantize`"
    diagnostics.add(QUANTIZED_TRAINING, (*trained_model.path, "train"), message, help=help)
