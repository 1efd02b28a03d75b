"""Adapters: whether their modules exist, and whether what is written about them has an effect."""

from posttrain.compiler.checks.examples import MINIMAL, training
from posttrain.compiler.checks.subject import Subject
from posttrain.compiler.checks.trl import arguments_of
from posttrain.compiler.diagnosis.findings import Findings
from posttrain.compiler.diagnosis.suggest import hint
from posttrain.compiler.facts.parameters import linear_names
from posttrain.spec.diagnostic import Code

_STAGE = "{train: sft, model: base, data: sums.train, adapter: {%s}}"
_QUANTISE = ("tokenizer: {init: characters}", "tokenizer: {init: characters}\n    quantize: nf4")
NO_TARGET = Code(
    "PT0641",
    "an adapter on modules that the model does not have",
    "error",
    "An adapter goes on linear modules by the last part of their name, and these differ by architecture:"
    " q_proj, k_proj, v_proj and o_proj in Llama, Mistral, Qwen and Gemma; c_attn in GPT-2;"
    " query_key_value in Pythia, BLOOM and Falcon. `targets: auto` knows them.",
    wrong=training(_STAGE % "targets: [c_attn]"),
    right=training(_STAGE % "targets: auto"),
)
SCALE = Code(
    "PT0636",
    "an adapter's scale far from practice",
    "warning",
    "What an adapter adds is multiplied by alpha / rank. One to two is common; far above it, training is"
    " as unstable as with too high a learning rate, and far below as slow as with too low a one.",
    wrong=training(_STAGE % "rank: 4, alpha: 512"),
    right=training(_STAGE % "rank: 16, alpha: 32"),
)
DROPOUT = Code(
    "PT0645",
    "a dropout that is turned off",
    "warning",
    "Methods that compare log-probabilities turn every dropout off, that of the adapter too: with it, the"
    " same text would have another probability each time. `trl: {disable_dropout: false}` keeps it.",
    wrong=training("{train: dpo, model: base, data: sums.train, adapter: {dropout: 0.1}}"),
    right=training("{train: dpo, model: base, data: sums.train, adapter: {dropout: 0.0}}"),
)
QUANTISED = Code(
    "PT0644",
    "quantised weights that are to be trained",
    "error",
    "Weights in 8 or 4 bits are frozen: an adapter over them can be trained, they cannot.",
    wrong=MINIMAL.replace(
        "tokenizer: {init: characters}", "tokenizer: {init: characters}\n    quantize: nf4"
    ),
    right=training(_STAGE % "kind: lora")
    .replace("tokenizer: {init: characters}", "tokenizer: {init: characters}\n    quantize: nf4")
    .replace("recipe: 1\n", "recipe: 1\nhardware: {gpus: 1xH100-80GB}\n"),
)
CODES = (SCALE, NO_TARGET, QUANTISED, DROPOUT)
_LEAST_SCALE, _GREATEST_SCALE = 0.25, 8.0


def check_targets(subject: Subject, findings: Findings) -> None:
    adapter = subject.adapter
    if adapter is None or not subject.adapted:
        return
    path = (*subject.adapter_path, "targets")
    if isinstance(adapter.targets, str) or subject.shape is None:
        return
    names = linear_names(subject.shape)
    for index, target in enumerate(adapter.targets):
        if target.rpartition(".")[2] not in names:
            help, meant = hint(target, names, what="modules of this model")
            message = f"{subject.shape.architecture.model_type} has no linear modules named `{target}`"
            findings.add(NO_TARGET, (*path, index), message, help=help, replace=meant)


def check_scale(subject: Subject, findings: Findings) -> None:
    adapter = subject.adapter
    if adapter is None or not subject.adapted:
        return
    scale = adapter.alpha / (adapter.rank**0.5 if adapter.rank_stable else adapter.rank)
    if not _LEAST_SCALE <= scale <= _GREATEST_SCALE:
        over = "the square root of rank" if adapter.rank_stable else "rank"
        message = f"alpha / {over} is {scale:g}: what the adapter adds is multiplied by it"
        usual = 2 * round(adapter.rank**0.5) if adapter.rank_stable else 2 * adapter.rank
        help = f"alpha: {usual} is a common choice for rank {adapter.rank}"
        findings.add(SCALE, (*subject.adapter_path, "alpha"), message, help=help)


def check_dropout(subject: Subject, findings: Findings) -> None:
    adapter, kind = subject.adapter, subject.method.trl
    if adapter is None or kind is None or not subject.adapted or adapter.dropout == 0:
        return
    off = arguments_of(kind).get("disable_dropout", {}).get("default", False)
    if subject.stage.trl.get("disable_dropout", off):
        message = f"{subject.method.name} turns dropout off, so the adapter's has no effect"
        findings.add(DROPOUT, (*subject.adapter_path, "dropout"), message, help="remove it")


def check_quantised(subject: Subject, findings: Findings) -> None:
    if subject.origin is None or subject.origin.quantize == "none" or subject.adapted:
        return
    message = f"the weights are loaded as {subject.origin.quantize}, and cannot be trained themselves"
    help = "add `adapter: {kind: lora}`, or remove `quantize`"
    findings.add(QUANTISED, (*subject.path, "train"), message, help=help)
