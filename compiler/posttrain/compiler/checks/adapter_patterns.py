"""Checks that names and patterns of an adapter select something: parameters, modules, layers or tokens."""

import re
from collections.abc import Sequence

from posttrain.compiler.checks.trained_model import TrainedModel
from posttrain.compiler.checks.training_examples import training_example
from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.facts.parameter_names import linear_modules, matches_pattern, named_parameters
from posttrain.compiler.facts.trained_parameters import selected_parameters, targeted_modules
from posttrain.spec.adapter_declaration import Adapter
from posttrain.spec.architectures.model_shapes import Shape
from posttrain.spec.diagnostic import Code
from posttrain.spec.suggestions import hint

_STAGE = "{train: sft, model: base, data: sums.train, adapter: {type: full, trainable: [%s]}}"
SELECTS_NOTHING = Code(
    "PT0694",
    "pattern without a match",
    "error",
    "Every name and pattern of an adapter must select something, or the stage would train other weights than"
    " the recipe says. `trainable` and `freeze` match whole names of parameters, with `*` for any text."
    " `rank_pattern` and `alpha_pattern` are regular expressions that match the end of a target module's"
    " name. If embeddings share their weights, only the input embeddings have a name.",
    wrong=training_example(_STAGE % "layers.0"),
    right=training_example(_STAGE % '"model.layers.0.*"'),
)
CODES = (SELECTS_NOTHING,)


def check_adapter_patterns(trained_model: TrainedModel, diagnostics: Diagnostics) -> None:
    adapter, shape = trained_model.adapter, trained_model.shape
    if adapter is None:
        return
    path = trained_model.adapter_path
    tokenizer = trained_model.base_model.tokenizer if trained_model.base_model is not None else None
    named = isinstance(adapter.trainable_token_indices, str)
    if named and (tokenizer is None or not tokenizer.new_tokens):
        message = "the model's `tokenizer` adds no tokens"
        help = "list ids, or add `tokenizer: {added_tokens: [...]}` to the model"
        diagnostics.add(SELECTS_NOTHING, (*path, "trainable_token_indices"), message, help=help)
    if shape is None:
        return
    if adapter.is_full:
        _check_parameters(trained_model, adapter, shape, diagnostics)
        return
    _check_layers(trained_model, adapter, shape, diagnostics)
    modules = [module.name for module in targeted_modules(adapter, shape)]
    for field in ("rank_pattern", "alpha_pattern"):
        for pattern in getattr(adapter, field):
            if not any(re.match(rf"(.*\.)?({pattern})$", name) for name in modules):
                message = f"`{pattern}` matches none of the target modules"
                help = f"they have names such as {_examples(modules)}"
                diagnostics.add(SELECTS_NOTHING, (*path, field, pattern), message, help=help)
    _check_modules_to_save(trained_model, adapter, shape, diagnostics)


def _check_parameters(
    trained_model: TrainedModel, adapter: Adapter, shape: Shape, diagnostics: Diagnostics
) -> None:
    known = named_parameters(shape)
    if known is None or not (adapter.trainable or adapter.freeze):
        return
    names = [parameter.name for parameter in known]
    if trained_model.method.product == "scorer":
        names = [*(name for name in names if not name.startswith("lm_head.")), "score.weight"]
    valid = True
    for field in ("trainable", "freeze"):
        for index, pattern in enumerate(getattr(adapter, field)):
            if not any(matches_pattern(name, pattern) for name in names):
                valid = False
                message = f"`{pattern}` matches no parameter of this model"
                modules = [name.rpartition(".")[0] for name in names]
                help, _ = hint(pattern, (), what="parameters")
                help = (
                    help or f"parameters have names such as {_examples(modules)}.weight; `*` matches any text"
                )
                path = (*trained_model.adapter_path, field, index)
                diagnostics.add(SELECTS_NOTHING, path, message, help=help)
    if valid and not selected_parameters(adapter, shape):
        message = "`trainable` and `freeze` leave no parameter to train"
        path = (*trained_model.adapter_path, "freeze")
        diagnostics.add(SELECTS_NOTHING, path, message, help="remove patterns from `freeze`")


def _check_layers(
    trained_model: TrainedModel, adapter: Adapter, shape: Shape, diagnostics: Diagnostics
) -> None:
    for index, layer in enumerate(adapter.layers_to_transform):
        if not 0 <= layer < shape.layers:
            message = f"the model has no layer {layer}: it has {shape.layers}"
            path = (*trained_model.adapter_path, "layers_to_transform", index)
            diagnostics.add(SELECTS_NOTHING, path, message, help=f"use indices from 0 to {shape.layers - 1}")
    if adapter.type == "oft":
        width = next(
            (
                m.matrix.inputs
                for m in targeted_modules(adapter, shape)
                if m.matrix.inputs % adapter.oft_block_size
            ),
            None,
        )
        if width is not None:
            message = (
                f"blocks of {adapter.oft_block_size} do not divide the {width} inputs of a target module"
            )
            path = (*trained_model.adapter_path, "oft_block_size")
            diagnostics.add(SELECTS_NOTHING, path, message, help=f"use a divisor of {width}")


def _check_modules_to_save(
    trained_model: TrainedModel, adapter: Adapter, shape: Shape, diagnostics: Diagnostics
) -> None:
    known = named_parameters(shape)
    if known is None:
        return
    modules = [parameter.module for parameter in known] + [module.name for module in linear_modules(shape)]
    if shape.tied:
        modules.append("lm_head")  # `check_adapter_combinations` reports it
    around = {".".join(m.split(".")[:end]) for m in modules for end in range(1, len(m.split(".")) + 1)}
    for index, name in enumerate(adapter.modules_to_save):
        if not any(module.endswith(name) for module in around):
            last = sorted({module.rpartition(".")[2] for module in modules})
            help, meant = hint(name, last, what="modules of this model")
            path = (*trained_model.adapter_path, "modules_to_save", index)
            message = f"the model has no module `{name}`"
            diagnostics.add(SELECTS_NOTHING, path, message, help=help, replace=meant)


def _examples(names: Sequence[str]) -> str:
    """Return a name from the start, the middle and the end of a list."""
    chosen = [names[0], names[len(names) // 2], names[-1]] if names else []
    return ", ".join(dict.fromkeys(chosen))
