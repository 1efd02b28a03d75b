"""Writes a model in the form that other programs load, with what it came from.

An adapter is merged into its base, and the merged model is held to the adapter's own logits; or it
is written alone, with a note of where its base is. A card says how the model was made.
"""

import shutil
from pathlib import Path
from typing import Any

from posttrain.runtime import durable
from posttrain.runtime.context import Context
from posttrain.runtime.models import adapters, origin
from posttrain.runtime.verbs import card, push
from posttrain.spec.extension import Verb

EXTENSION = Verb(
    name="export",
    summary="A model folder that transformers loads as it is.",
    stack=("torch", "transformers", "safetensors", "peft"),
    heavy=("torch", "transformers.modeling_utils"),
    version=3,
)


def run(context: Context) -> None:
    source = context.inputs["model"]
    push.check(context)
    if not adapters.is_adapter(source):
        _copy(source, context.out)
    elif context.params["merge"]:
        _merge(context, source)
    else:
        _copy(source, context.out)
        _note_base(source, context.out)
    card.write(source, context.out)
    push.push(context)
    context.facts["files"] = len(list(context.out.iterdir()))


def _copy(source: Path, out: Path) -> None:
    for path in sorted(source.iterdir()):
        if path.is_file():
            shutil.copyfile(path, out / path.name)


def _merge(context: Context, source: Path) -> None:
    """Write the base with the adapter in it, and read it back to see that it answers alike."""
    from posttrain.runtime.models.agreement import check_agreement, probe
    from posttrain.runtime.models.load import load_model, load_tokenizer

    context.events.emit("phase", name="merging")
    tokenizer = load_tokenizer(source)
    model = load_model(source)
    tokens = probe(len(tokenizer))
    wanted = _logits(model, tokens)
    merged = model.merge_and_unload(safe_merge=True)
    merged.save_pretrained(context.out, safe_serialization=True)
    tokenizer.save_pretrained(context.out)
    context.facts["merge_difference"] = check_agreement(
        wanted, _logits(load_model(context.out), tokens), str(merged.dtype)
    )


def _logits(model: Any, tokens: Any) -> Any:
    import torch

    model.eval()
    with torch.inference_mode():
        return model(input_ids=tokens).logits.float()


def _note_base(source: Path, out: Path) -> None:
    """Say where the base is: on the hub, if it is what was taken from there, else in the store."""
    base = adapters.base_of(source)
    published = origin.read(base)
    note = {"key": adapters.key_of(base), **{k: published.get(k) for k in ("from", "revision")}}
    durable.write_json(out / adapters.BASE, note)
    if published.get("from"):
        config = durable.read_json(out / "adapter_config.json")
        config |= {"base_model_name_or_path": published["from"], "revision": published.get("revision")}
        durable.write_json(out / "adapter_config.json", config)
