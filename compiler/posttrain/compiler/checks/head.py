"""Adapters on the layer that gives the words: most of TRL's trainers read its weights past the adapter."""

from posttrain.compiler.checks.examples import training
from posttrain.compiler.checks.subject import Subject
from posttrain.compiler.diagnosis.findings import Findings
from posttrain.spec.diagnostic import Code

_STAGE = "{train: sft, model: base, data: sums.train, adapter: {targets: [%s]}}"
_OWN = "    init: {family: qwen2, layers: 2, hidden: 64, heads: 4}\n    tokenizer: {init: characters}\n"
_OTHER = "    from: someone/a-model\n    revision: 7ae557604adf67be50417f59c2c2f167def9a775\n"
ON_THE_HEAD = Code(
    "PT0647",
    "an adapter on the output layer",
    "error",
    "These methods compute the log-probabilities from the weights of `lm_head` itself, a piece at a time, to"
    " save memory. An adapter there would have no part in it and learn nothing, and TRL refuses it.",
    wrong=training(_STAGE % "q_proj, lm_head").replace(_OWN, _OTHER),
    right=training(_STAGE % "q_proj, v_proj").replace(_OWN, _OTHER),
)
CODES = (ON_THE_HEAD,)
# The configuration classes of the trainers that refuse it.
_REFUSING = frozenset({"SFTConfig", "DPOConfig", "KTOConfig", "GRPOConfig", "RLOOConfig"})


def check_head(subject: Subject, findings: Findings) -> None:
    adapter = subject.adapter
    if (
        adapter is None
        or not subject.adapted
        or subject.shape is not None
        or isinstance(adapter.targets, str)
    ):
        return  # of a known shape, the modules that an adapter can go on are listed
    if subject.method.trl not in _REFUSING:
        return
    for index, target in enumerate(adapter.targets):
        if target.rpartition(".")[2] == "lm_head":
            message = f"`{subject.method.name}` cannot train an adapter on `{target}`"
            path = (*subject.adapter_path, "targets", index)
            findings.add(ON_THE_HEAD, path, message, help="leave it out")
