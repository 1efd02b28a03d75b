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
    "quantised weights that are to be trained",
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


def check_target_modules(subject: TrainedModel, findings: Diagnostics) -> None:
    adapter = subject.adapter
    if adapter is None or not subject.has_adapter:
        return
    path = (*subject.adapter_path, "target_modules")
    if isinstance(adapter.target_modules, str) or subject.shape is None:
        return
    names = linear_module_names(subject.shape)
    for index, target in enumerate(adapter.target_modules):
        if target.rpartition(".")[2] not in names:
            help, meant = hint(target, names, what="modules of this model")
            message = f"{subject.shape.architecture.model_type} has no linear modules named `{target}`"
            findings.add(UNKNOWN_TARGET_MODULE, (*path, index), message, help=help, replace=meant)


def check_lora_scale(subject: TrainedModel, findings: Diagnostics) -> None:
    adapter = subject.adapter
    if adapter is None or not subject.has_adapter:
        return
    scale = adapter.lora_alpha / (adapter.r**0.5 if adapter.use_rslora else adapter.r)
    if not _MIN_SCALE <= scale <= _MAX_SCALE:
        over = "the square root of rank" if adapter.use_rslora else "rank"
        message = f"alpha / {over} is {scale:g}: what the adapter adds is multiplied by it"
        usual = 2 * round(adapter.r**0.5) if adapter.use_rslora else 2 * adapter.r
        help = f"alpha: {usual} is a common choice for rank {adapter.r}"
        findings.add(LORA_SCALE, (*subject.adapter_path, "lora_alpha"), message, help=help)


def check_lora_dropout(subject: TrainedModel, findings: Diagnostics) -> None:
    adapter, kind = subject.adapter, subject.method.trl
    if adapter is None or kind is None or not subject.has_adapter or adapter.lora_dropout == 0:
        return
    off = config_arguments(kind).get("disable_dropout", {}).get("default", False)
    if subject.stage.trl.get("disable_dropout", off):
        message = f"{subject.method.name} turns dropout off, so the adapter's has no effect"
        findings.add(DISABLED_DROPOUT, (*subject.adapter_path, "lora_dropout"), message, help="remove it")


def check_quantized_training(subject: TrainedModel, findings: Diagnostics) -> None:
    if subject.base_model is None or subject.base_model.quantize == "none" or subject.has_adapter:
        return
    message = f"the weights are loaded as {subject.base_model.quantize}, and cannot be trained themselves"
    help = "add `adapter: {type: lora}`, or remove `quantize`"
    findings.add(QUANTIZED_TRAINING, (*subject.path, "train"), message, help=help)
