"""Checks that a stage trains the embeddings of the tokens that are added to its pretrained model."""

from posttrain.compiler.checks.trained_model import TrainedModel
from posttrain.compiler.checks.training_examples import training_example
from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.diagnosis.minimal_recipe import MINIMAL_MODEL
from posttrain.compiler.facts.parameter_names import embedding_modules
from posttrain.compiler.facts.trained_parameters import is_selected
from posttrain.spec.adapter_declaration import FIELD_TYPES, Adapter
from posttrain.spec.diagnostic import Code

_STAGE = "{train: sft, model: base, data: sums.train, adapter: {type: lora%s}}"
_WITH_TOKENS = (
    "    from: someone/a-model\n    revision: 7ae557604adf67be50417f59c2c2f167def9a775\n"
    "    tokenizer: {added_tokens: [<think>, </think>]}\n"
)
UNTRAINED_TOKENS = Code(
    "PT0695",
    "added tokens that are not trained",
    "warning",
    "Tokens that are added to a pretrained model start with average embeddings. If no stage trains their rows"
    " of the embeddings and of the output layer, the model can neither tell them apart nor generate them. An"
    " adapter trains them with `trainable_token_indices: added`, which stores only these rows, or with"
    " `modules_to_save`, which trains and stores the whole matrices.",
    wrong=training_example(_STAGE % "").replace(MINIMAL_MODEL, _WITH_TOKENS),
    right=training_example(_STAGE % ", trainable_token_indices: added").replace(MINIMAL_MODEL, _WITH_TOKENS),
)
CODES = (UNTRAINED_TOKENS,)


def check_untrained_tokens(trained_model: TrainedModel, diagnostics: Diagnostics) -> None:
    """Warn if the first stage that trains the model leaves the added tokens as they are."""
    model, adapter = trained_model.base_model, trained_model.adapter
    if adapter is None or model is None or model.from_ is None or model.tokenizer is None:
        return
    if not model.tokenizer.new_tokens or trained_model.previous_stage is not None:
        return
    frozen = _frozen_modules(trained_model, adapter)
    if not frozen:
        return
    tokens = ", ".join(model.tokenizer.new_tokens[:3]) + (", ..." if model.tokenizer.new_tokens[3:] else "")
    message = f"`{trained_model.name}` does not train {' and '.join(frozen)} of the added tokens {tokens}"
    path = trained_model.adapter_path
    diagnostics.add(UNTRAINED_TOKENS, path, message, help=_help(trained_model, adapter))


def _frozen_modules(trained_model: TrainedModel, adapter: Adapter) -> list[str]:
    """The modules of which the rows of the tokens are not trained."""
    shape = trained_model.shape
    if adapter.trainable_token_indices:
        return []
    named = ("the embeddings", "the output layer")
    modules = ("embed_tokens", "lm_head") if shape is None else embedding_modules(shape)
    is_tied = shape is not None and shape.tied
    scores = trained_model.method.product == "scorer"
    checked = list(zip(named, modules, strict=True))[: 1 if is_tied or scores else 2]
    if adapter.is_full:
        patterns = (adapter.trainable, adapter.freeze)
        return [name for name, module in checked if not is_selected(f"{module}.weight", *patterns)]
    return [
        name
        for name, module in checked
        if not any(module.endswith(saved) or saved.endswith(module) for saved in adapter.modules_to_save)
    ]


def _help(trained_model: TrainedModel, adapter: Adapter) -> str:
    if adapter.is_full:
        return "remove the patterns that freeze them"
    if adapter.type in FIELD_TYPES["trainable_token_indices"]:
        return "add `trainable_token_indices: added` to the adapter"
    if trained_model.shape is not None and trained_model.shape.tied:
        return f"`type: {adapter.type}` cannot train them: use lora, or train all weights in an earlier stage"
    return "add the embeddings and the output layer to `modules_to_save`"
