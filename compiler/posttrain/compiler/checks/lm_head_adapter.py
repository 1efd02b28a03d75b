"""Checks adapters on `lm_head`: most TRL trainers read its weights directly and bypass the adapter."""

from posttrain.compiler.checks.trained_model import TrainedModel
from posttrain.compiler.checks.training_examples import training_example
from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.diagnosis.minimal_recipe import MINIMAL_MODEL
from posttrain.spec.diagnostic import Code

_STAGE = "{train: sft, model: base, data: sums.train, adapter: {target_modules: [%s]}}"
_OTHER = "    from: someone/a-model\n    revision: 7ae557604adf67be50417f59c2c2f167def9a775\n"
LM_HEAD_ADAPTER = Code(
    "PT0647",
    "adapter on lm_head",
    "error",
    "These methods compute the log-probabilities from the weights of `lm_head` in chunks, to save memory."
    " They bypass an adapter on `lm_head`, so it would learn nothing. TRL rejects such an adapter.",
    wrong=training_example(_STAGE % "q_proj, lm_head").replace(MINIMAL_MODEL, _OTHER),
    right=training_example(_STAGE % "q_proj, v_proj").replace(MINIMAL_MODEL, _OTHER),
)
CODES = (LM_HEAD_ADAPTER,)
# The configuration classes of the trainers that reject such an adapter.
_REFUSING_CONFIGS = frozenset({"SFTConfig", "DPOConfig", "KTOConfig", "GRPOConfig", "RLOOConfig"})


def check_lm_head_adapter(trained_model: TrainedModel, diagnostics: Diagnostics) -> None:
    adapter = trained_model.adapter
    if (
        adapter is None
        or not trained_model.has_adapter
        or trained_model.shape is not None
        or isinstance(adapter.target_modules, str)
    ):
        return  # for a known shape, `check_target_modules` lists the valid modules
    if trained_model.method.trl not in _REFUSING_CONFIGS:
        return
    for index, target in enumerate(adapter.target_modules):
        if target.rpartition(".")[2] == "lm_head":
            message = f"`{trained_model.method.name}` cannot train an adapter on `{target}`"
            path = (*trained_model.adapter_path, "target_modules", index)
            diagnostics.add(LM_HEAD_ADAPTER, path, message, help="remove it from `target_modules`")
