"""What a target without GPUs cannot do, and what half precision cannot."""

from collections.abc import Iterator, Sequence

from posttrain.compiler.checks.examples import training
from posttrain.compiler.checks.subject import Subject
from posttrain.compiler.diagnosis.examples import minimal
from posttrain.compiler.diagnosis.findings import Findings
from posttrain.compiler.resolution.names import Named
from posttrain.compiler.text.tree import Path
from posttrain.spec.diagnostic import Code
from posttrain.spec.hardware import Placement
from posttrain.spec.making import Generate
from posttrain.spec.measuring import Evaluate

_GPU = ("recipe: 1\n", "recipe: 1\nhardware: {gpus: 1xH100-80GB}\n")
_VLLM = ("{eval: sft,", "{eval: sft, engine: vllm,")
_STAGE = "{train: sft, model: base, data: sums.train, params: {epochs: 1, batch: 4%s}}"
NEEDS_GPU = Code(
    "PT1011",
    "a stage that needs a GPU, for a target without one",
    "warning",
    "Weights in 8 and 4 bits are computed with by bitsandbytes, Liger computes, and vLLM writes its"
    " completions, on GPUs alone. `hardware: {gpus: ...}` names those of the target; without it the stage"
    " gets none, and stops when it begins.",
    wrong=minimal(_VLLM),
    right=minimal(_GPU, _VLLM),
)
HALF = Code(
    "PT1012",
    "half precision that cannot be",
    "warning",
    "float16 reaches no further than 65504, so small gradients are scaled up first and down again later."
    " Without a GPU that is not done: the stage computes in float32, whatever it says. On a GPU it cannot be"
    " done to weights that are kept in float16 themselves: torch refuses to scale their gradients. bfloat16"
    " has no such limits.",
    wrong=training(_STAGE % ", precision: float16"),
    right=training(_STAGE % ", precision: float32"),
)
CODES = (NEEDS_GPU, HALF)


def check_gpu(named: Named, trained: Sequence[Subject], findings: Findings) -> None:
    gpus = named.recipe.hardware.gpus is not None
    for subject in trained:
        _check_half(subject, gpus, findings)
    for path, what in _on_gpus(named, trained) if not gpus else ():
        help = "name the target's: `hardware: {gpus: 1xH100-80GB}`"
        findings.add(NEEDS_GPU, path, f"{what} needs a GPU, and the target has none", help=help)


def _on_gpus(named: Named, trained: Sequence[Subject]) -> Iterator[tuple[Path, str]]:
    """What works on GPUs alone, and where the recipe asks for it."""
    for subject in trained:
        adapter, placement = subject.adapter, subject.stage.placement
        if adapter is not None and adapter.kind == "qlora":
            yield (*subject.adapter_path, "kind"), "a QLoRA"
        elif subject.origin is not None and subject.origin.quantize != "none" and subject.adapted:
            yield (*subject.path, "model"), f"training over weights in {subject.origin.quantize}"
        if subject.value("liger"):
            yield subject.at("liger"), "Liger"
        if isinstance(placement, Placement) and placement.rollouts.engine == "vllm":
            yield (*subject.path, "placement", "rollouts", "engine"), "vLLM"
    for name, stage in named.recipe.stages.items():
        if isinstance(stage, Evaluate | Generate) and stage.engine == "vllm":
            yield ("stages", name, "engine"), "vLLM"


def _check_half(subject: Subject, gpus: bool, findings: Findings) -> None:
    if subject.value("precision") != "float16":
        return
    path = subject.at("precision")
    if not gpus:
        message = "without a GPU, float16 has no effect: the stage computes in float32"
        findings.add(HALF, path, message, help="write `precision: float32`, or leave it out")
    elif _kept_in_half(subject):
        message = "the weights are kept in float16, and their gradients cannot be scaled"
        help = "write `precision: bfloat16`, or `dtype: float32` for the model"
        findings.add(HALF, path, message, help=help, severity="error")


def _kept_in_half(subject: Subject) -> bool:
    """Whether float16 weights are trained themselves. DeepSpeed keeps a copy of its own in float32."""
    placement = subject.stage.placement
    divided = isinstance(placement, Placement) and placement.strategy.startswith("zero")
    return (
        subject.origin is not None
        and subject.origin.dtype == "float16"
        and not subject.adapted
        and not divided
    )
