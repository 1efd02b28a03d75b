"""Betas, batches and groups of completions far from practice."""

from collections.abc import Mapping

from posttrain.compiler.checks.examples import training
from posttrain.compiler.checks.subject import Subject
from posttrain.compiler.diagnosis.findings import Findings
from posttrain.spec.diagnostic import Code

_DPO = "{train: dpo, model: base, data: sums.train, params: {%s}}"
_GRPO = "{train: grpo, model: base, data: sums.train, reward: right, params: {steps: 9, %s}}"
FAR_BETA = Code(
    "PT0632",
    "a beta far from practice",
    "warning",
    "Beta says how tightly the model is held to its reference (in simpo and cpo, how steep the preference"
    " is). dpo, ipo and kto use 0.1 to 0.3, simpo 2 to 2.5, reinforcement learning 0 to 0.1. Far below, the"
    " model drifts off; far above, it hardly moves.",
    wrong=training(_DPO % "beta: 10"),
    right=training(_DPO % "beta: 0.1"),
)
SMALL_BATCH = Code(
    "PT0633",
    "a small batch for learning from preferences",
    "warning",
    "Each pair carries little, and noise: effective batches of 16 to 32 and more are used. `batch` counts"
    " the rows of an optimizer step; `micro_batch` says how many of them are in memory at once, so a"
    " large batch need not take more memory. Models that start from random weights are not judged.",
    wrong=training("{train: dpo, model: base, data: sums.train, params: {batch: 2}}", hub=True),
    right=training(
        "{train: dpo, model: base, data: sums.train, params: {batch: 32, micro_batch: 2}}", hub=True
    ),
)
FEW_GENERATIONS = Code(
    "PT0634",
    "few completions to compare",
    "warning",
    "grpo judges a completion beside the others of its prompt. With two or three of them the comparison is"
    " mostly chance, and most groups hold no difference at all; 8 to 16 are common.",
    wrong=training(_GRPO % "generations: 2"),
    right=training(_GRPO % "generations: 8"),
)
COLD_SAMPLING = Code(
    "PT0635",
    "completions that hardly differ",
    "warning",
    "Reinforcement learning compares completions of the same prompt. At a low temperature they come out"
    " alike, their rewards too, and nothing is learnt; 0.7 to 1.0 is common, and the losses are derived"
    " for 1.0.",
    wrong=training(_GRPO % "temperature: 0.1"),
    right=training(_GRPO % "temperature: 1.0"),
)
CODES = (FAR_BETA, SMALL_BATCH, FEW_GENERATIONS, COLD_SAMPLING)
_BETAS: Mapping[str, tuple[float, float, float]] = {
    "dpo": (0.01, 1.0, 0.1),
    "ipo": (0.01, 1.0, 0.1),
    "kto": (0.01, 1.0, 0.1),
    "orpo": (0.01, 1.0, 0.1),
    "cpo": (0.01, 1.0, 0.1),
    "simpo": (0.5, 20.0, 2.0),
    "grpo": (0.0, 0.5, 0.04),
    "rloo": (0.0, 0.5, 0.05),
    "ppo": (0.0, 0.5, 0.05),
}
_FROM_PAIRS = ("dpo", "ipo", "kto", "orpo", "cpo", "simpo", "reward_model")
_LEAST_BATCH, _LEAST_GENERATIONS, _LEAST_TEMPERATURE = 8, 4, 0.4


def check_beta(subject: Subject, findings: Findings) -> None:
    # Where a loss takes the mean over tokens, as SimPO's does, beta is of another size.
    kind = "simpo" if subject.value("loss") == "sigmoid_norm" else subject.method.name
    beta, usual = subject.value("beta"), _BETAS.get(kind)
    if beta is None or usual is None or usual[0] <= beta <= usual[1]:
        return
    low, high, common = usual
    message = f"a beta of {beta:g} is far from what {subject.method.name} is used with: {low:g} to {high:g}"
    findings.add(FAR_BETA, subject.at("beta"), message, help=f"{common:g} is a common choice")


def check_batch(subject: Subject, findings: Findings) -> None:
    batch = subject.value("batch")
    if batch is None or subject.method.name not in _FROM_PAIRS or subject.scratch:
        return
    if batch < _LEAST_BATCH:
        message = f"a batch of {batch} is small for {subject.method.name}: 16 to 32 rows are common"
        help = f"write batch: 32 and micro_batch: {batch}, which takes no more memory"
        findings.add(SMALL_BATCH, subject.at("batch"), message, help=help)


def check_group(subject: Subject, findings: Findings) -> None:
    generations = subject.value("generations")
    if subject.method.name == "grpo" and generations is not None and generations < _LEAST_GENERATIONS:
        message = f"{generations} completions of a prompt leave little to compare"
        findings.add(FEW_GENERATIONS, subject.at("generations"), message, help="8 is a common choice")


def check_temperature(subject: Subject, findings: Findings) -> None:
    temperature = subject.value("temperature")
    if temperature is not None and temperature < _LEAST_TEMPERATURE:
        message = f"at a temperature of {temperature:g} the completions of a prompt hardly differ"
        findings.add(COLD_SAMPLING, subject.at("temperature"), message, help="1.0 is a common choice")
