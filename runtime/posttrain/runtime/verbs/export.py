"""Writes a model in the form that other programs load, with what it came from.

An adapter is merged into its base, and the merged model is held to the adapter's own logits; or it
is written alone, with a note of where its base is. A card says how the model was made.
"""

import shutil
from pathlib import Path
from typing import Any

from posttrain.runtime import atomic_io
from posttrain.runtime.models import model_origin, peft_adapters
from posttrain.runtime.step_context import StepContext
from posttrain.runtime.verbs import model_card, model_push
from posttrain.spec.extension import Verb

EXTENSION = Verb(
    name="export",
    summary="A model folder that transformers loads as it is.",
    stack=("torch", "transformers", "safetensors", "peft"),
    preload=("torch", "transformers.modeling_utils"),
    version=3,
)


def run(context: StepContext) -> None:
    source = context.inputs["model"]
    model_push.check_target(context)
    if not peft_adapters.is_adapter(source):
        _copy(source, context.out)
    elif context.params["merge"]:
        _merge(context, source)
    else:
        _copy(source, context.out)
        _note_base(source, context.out)
    model_card.write_card(source, context.out)
    model_push.push_model(context)
    context.facts["files"] = len(list(context.out.iterdir()))


def _copy(source: Path, out: Path) -> None:
    for path in sorted(source.iterdir()):
        if path.is_file():
            shutil.copyfile(path, out / path.name)


def _merge(context: StepContext, source: Path) -> None:
    """Write the base with the adapter in it, and read it back to see that it answers alike."""
    from posttrain.runtime.models.merge_check import check_merged_logits, probe_tokens
    from posttrain.runtime.models.model_loader import load_model, load_tokenizer

    context.events.emit("phase", name="merging")
    tokenizer = load_tokenizer(source)
    model = load_model(source)
    tokens = probe_tokens(len(tokenizer))
    wanted = _logits(model, tokens)
    merged = model.merge_and_unload(safe_merge=True)
    merged.save_pretrained(context.out, safe_serialization=True)
    tokenizer.save_pretrained(context.out)
    context.facts["merge_difference"] = check_merged_logits(
        wanted, _logits(load_model(context.out), tokens), str(merged.dtype)
    )


def _logits(model: Any, tokens: Any) -> Any:
    import torch

    model.eval()
    with torch.inference_mode():
        return model(input_ids=tokens).logits.float()


def _note_base(source: Path, out: Path) -> None:
    """Say where the base is: on the hub, if it is what was taken from there, else in the store."""
    base = peft_adapters.base_model_dir(source)
    published = model_origin.read_origin(base)
    note = {"key": peft_adapters.product_key(base), **{k: published.get(k) for k in ("from", "revision")}}
    atomic_io.write_json(out / peft_adapters.BASE_FILE, note)
    if published.get("from"):
        config = atomic_io.read_json(out / "adapter_config.json")
        config |= {"base_model_name_or_path": published["from"], "revision": published.get("revision")}
        atomic_io.write_json(out / "adapter_config.json", config)
