"""The verb `export`: writes a model in a format that other programs load, with a model card.

An adapter is merged into its base model, and the logits of the merged model are checked against those of the
adapter. Without merging, the adapter is written with a reference to its base model.
"""

import shutil
from pathlib import Path
from typing import Any

from posttrain.runtime import atomic_io
from posttrain.runtime.models import model_origin, peft_adapters
from posttrain.runtime.step_context import StepContext
from posttrain.runtime.verbs import model_card, model_push
from posttrain.spec.extension import Verb
from posttrain.spec.step_params.artifact_params import ExportStepParams

EXTENSION = Verb(
    name="export",
    summary="A model folder that transformers loads directly, with a model card.",
    stack=("torch", "transformers", "safetensors", "peft"),
    preload=("torch", "transformers.modeling_utils"),
    version=3,
)


def run(context: StepContext[ExportStepParams]) -> None:
    source = context.inputs["model"]
    model_push.check_target(context)
    if not peft_adapters.is_adapter(source):
        _copy(source, context.out)
    elif context.params.merge:
        _merge(context, source)
    else:
        _copy(source, context.out)
        _note_base(context, source)
    if context.params.max_shard_size is not None:
        _split_weights(context, context.params.max_shard_size)
    model_card.write_card(source, context.out)
    model_push.push_model(context)
    context.facts["files"] = len(list(context.out.iterdir()))


def _split_weights(context: StepContext[ExportStepParams], size: str) -> None:
    from posttrain.runtime.models.weight_shards import split_weights

    context.events.emit("phase", name="splitting")
    larger = split_weights(context.out, size)
    if larger:
        message = f"{len(larger)} weights are larger than {size}, such as {larger[0]}; each has its own file"
        context.events.emit("warning", message=message, advice="raise max_shard_size")


def _copy(source: Path, out: Path) -> None:
    for path in sorted(source.iterdir()):
        if path.is_file():
            shutil.copyfile(path, out / path.name)


def _merge(context: StepContext[ExportStepParams], source: Path) -> None:
    """Merge the adapter into the base model, and check the logits of the saved model."""
    from posttrain.runtime.models.merge_check import check_merged_logits, probe_tokens
    from posttrain.runtime.models.model_loader import load_model, load_tokenizer

    context.events.emit("phase", name="merging")
    tokenizer = load_tokenizer(source)
    model = load_model(source)
    tokens = probe_tokens(len(tokenizer))
    expected = _logits(model, tokens)
    merged = model.merge_and_unload(safe_merge=True)
    merged.save_pretrained(context.out, safe_serialization=True)
    tokenizer.save_pretrained(context.out)
    context.facts["merge_difference"] = check_merged_logits(
        expected, _logits(load_model(context.out), tokens), str(merged.dtype)
    )


def _logits(model: Any, tokens: Any) -> Any:
    import torch

    model.eval()
    with torch.inference_mode():
        return model(input_ids=tokens).logits.float()


def _note_base(context: StepContext[ExportStepParams], source: Path) -> None:
    """Record the base model: its hub repository if it has one, and its key in the store."""
    out, base = context.out, peft_adapters.base_model_dir(source)
    published = model_origin.read_origin(base)
    key = peft_adapters.product_key(base).partition("/")[0]
    note = {"key": key, **{k: published.get(k) for k in ("from", "revision")}}
    rows = published.get("embeddings")
    if rows is not None:
        note["embeddings"] = rows
        context.events.emit(
            "warning",
            message="the adapter belongs to a base model with added tokens, not to the published model",
            advice=f"call `model.resize_token_embeddings({rows})` on the published model before you load the"
            " adapter, or export the merged model",
        )
    atomic_io.write_json(out / peft_adapters.BASE_FILE, note)
    if published.get("from"):
        config = atomic_io.read_json(out / "adapter_config.json")
        config |= {"base_model_name_or_path": published["from"], "revision": published.get("revision")}
        atomic_io.write_json(out / "adapter_config.json", config)
