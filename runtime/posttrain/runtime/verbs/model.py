"""Makes a declared model: random weights, or a copy from a hub or a folder, with its tokenizer."""

from typing import Any

from posttrain.runtime.context import Context
from posttrain.spec.extension import Verb

EXTENSION = Verb(
    name="model",
    summary="A model's weights and tokenizer in one folder.",
    stack=("torch", "transformers", "tokenizers", "safetensors"),
    heavy=("torch", "transformers.modeling_utils"),
)


def run(context: Context) -> None:
    params = context.params
    if params["init"] is None:
        _fetch(context, params["from"], params["revision"])
        return
    from posttrain.runtime.models.scratch import scratch

    tokenizer = _tokenizer(params["tokenizer"])
    template = context.files.get("chat_template")
    if template is not None:
        tokenizer.chat_template = template.read_text(encoding="utf-8")
    model = scratch(params["init"], tokenizer, params["seed"])
    if params["dtype"] not in ("auto", "float32"):
        import torch

        model = model.to(getattr(torch, params["dtype"]))
    tokenizer.model_max_length = params["init"]["context"]
    model.save_pretrained(context.out)
    tokenizer.save_pretrained(context.out)
    context.facts["parameters"] = sum(weight.numel() for weight in model.parameters())


def _tokenizer(declared: dict[str, Any]) -> Any:
    from posttrain.runtime.models.tokenizer import characters

    if declared["init"] == "characters":
        return characters(declared["alphabet"], declared["words"])
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(declared["from"], revision=declared["revision"])


def _fetch(context: Context, name: str, revision: str | None) -> None:
    """Copy a hub's snapshot: configuration, tokenizer and safetensors, and nothing that runs."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError, RepositoryNotFoundError

    from posttrain.runtime.faults import StepFault

    wanted = ["*.json", "*.safetensors", "*.model", "*.txt", "*.jinja", "tokenizer*"]
    try:
        snapshot_download(name, revision=revision, local_dir=context.out, allow_patterns=wanted)
    except RepositoryNotFoundError:
        raise StepFault(
            f"the hub has no model `{name}`", "check its name, and whether a token is needed"
        ) from None
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        message = f"`{name}` could not be fetched: {error}"
        raise StepFault(message, "check the network and run again", retriable=True) from None
