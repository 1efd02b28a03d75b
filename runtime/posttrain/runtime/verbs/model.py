"""The verb `model`: creates a declared model with random weights, or copies it from a hub or a folder."""

import os
from pathlib import Path
from typing import Any

from posttrain.runtime import atomic_io
from posttrain.runtime.errors import StepError
from posttrain.runtime.step_context import StepContext
from posttrain.spec.architectures.unsupported_checkpoints import CheckpointProblem, checkpoint_problem
from posttrain.spec.extension import Verb
from posttrain.spec.model_declaration import RandomInit, Tokenizer
from posttrain.spec.model_files import MAX_FILE_BYTES
from posttrain.spec.process_variables import HUB_CREDENTIAL
from posttrain.spec.step_params.artifact_params import ModelStepParams

EXTENSION = Verb(
    name="model",
    summary="A model folder with weights and tokenizer.",
    version=3,
    stack=("torch", "transformers", "tokenizers", "safetensors"),
    preload=("torch", "transformers.modeling_utils"),
)
# The role of a file of a local model is this prefix and the file's name.
_FILE_ROLE_PREFIX = "model/"
# Configuration, tokenizer and safetensors. No code and no pickled weights.
_ALLOWED_FILES = ("*.json", "*.safetensors", "*.model", "*.txt", "*.jinja", "tokenizer*")


def run(context: StepContext[ModelStepParams]) -> None:
    init, published = context.params.init, context.params.from_
    if init is not None:
        _initialize_random(context, init)
    else:
        assert published is not None, "the compiler checks that a model has an origin"
        _copy_published(context, published)


def _initialize_random(context: StepContext[ModelStepParams], init: RandomInit) -> None:
    """Create a model with random weights."""
    from posttrain.runtime.models.random_init import random_model

    params = context.params
    assert params.tokenizer is not None, "the compiler checks that a random model has a tokenizer"
    tokenizer = _tokenizer(params.tokenizer)
    _set_template(context, tokenizer)
    model = random_model(init, tokenizer, params.seed)
    if params.dtype not in ("auto", "float32"):
        import torch

        model = model.to(getattr(torch, params.dtype))
    tokenizer.model_max_length = init.max_position_embeddings
    model.save_pretrained(context.out)
    tokenizer.save_pretrained(context.out)
    context.facts["parameters"] = sum(weight.numel() for weight in model.parameters())


def _copy_published(context: StepContext[ModelStepParams], name: str) -> None:
    """Copy a published model, with the recipe's tokenizer, chat template and dtype."""
    from posttrain.runtime.models import model_origin

    params = context.params
    local_files = {
        role.removeprefix(_FILE_ROLE_PREFIX): path
        for role, path in context.files.items()
        if role.startswith(_FILE_ROLE_PREFIX)
    }
    revision = None if local_files else _fetch(context.out, name, params.revision)
    for file, path in local_files.items():
        os.link(path, context.out / file)  # both are in the step's work directory
    check_published(context.out, name)
    if params.tokenizer is not None or params.tags is not None or "chat_template" in context.files:
        tokenizer = _tokenizer(params.tokenizer) if params.tokenizer else _own_tokenizer(context.out)
        _set_template(context, tokenizer)
        tokenizer.save_pretrained(context.out)
    if params.dtype != "auto":
        _convert(context.out, params.dtype)
    model_origin.write_origin(context.out, params, revision)
    context.facts["revision"] = revision


def _tokenizer(declared: Tokenizer) -> Any:
    from posttrain.runtime.models.character_tokenizer import build_character_tokenizer

    if declared.init == "characters":
        return build_character_tokenizer(declared.alphabet, declared.added_tokens)
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(declared.from_, revision=declared.revision)


def _own_tokenizer(folder: Path) -> Any:
    from posttrain.runtime.models.model_loader import load_tokenizer

    return load_tokenizer(folder)


def _set_template(context: StepContext[ModelStepParams], tokenizer: Any) -> None:
    from posttrain.runtime.models.chat_template import check_chat_template, read_chat_template

    template = context.files.get("chat_template")
    if template is not None:
        tokenizer.chat_template = read_chat_template(template)
        check_chat_template(tokenizer, template.name)
    elif context.params.tags is not None:
        from posttrain.runtime.models.tag_template import tag_chat_template

        tokenizer.chat_template = tag_chat_template(context.params.tags)


def _convert(folder: Path, dtype: str) -> None:
    """Convert the weights to another dtype."""
    from posttrain.runtime.models.model_loader import load_model

    model = load_model(folder, dtype=dtype)
    for path in (*folder.glob("*.safetensors"), *folder.glob("*.safetensors.index.json")):
        path.unlink()
    model.save_pretrained(folder)


def check_published(folder: Path, name: str) -> None:
    """Refuse a model that needs custom code or pickled weights, or of which a part would be lost."""
    for file, most in MAX_FILE_BYTES.items():
        if (folder / file).exists() and (folder / file).stat().st_size > most:
            raise StepError(
                f"the {file} of `{name}` has more than {most // 2**20} MiB, so it is not a file of a model",
                "check its name and revision",
            )
    config = atomic_io.read_json(folder / "config.json")
    if not isinstance(config, dict):
        problem = "is corrupt" if (folder / "config.json").exists() else "is missing, so it is not a model"
        advice = "check its name and revision, or download it again"
        raise StepError(f"the config.json of `{name}` {problem}", advice)
    _raise_for_problem(name, checkpoint_problem(config))
    _raise_for_problem(name, checkpoint_problem(_complete_config(folder, name)))
    if (folder / "adapter_config.json").exists():
        raise StepError(f"`{name}` contains an adapter of PEFT", "merge it into its base model first")
    if not any(folder.glob("*.safetensors")):
        raise StepError(
            f"`{name}` has no safetensors weights",
            "other formats can run code when loaded: convert the weights to safetensors if you trust them",
        )


def _raise_for_problem(name: str, problem: CheckpointProblem | None) -> None:
    if problem is not None:
        raise StepError(f"`{name}` {problem.reason}", problem.advice)


def _complete_config(folder: Path, name: str) -> dict[str, Any]:
    """The configuration with the defaults of its class: `config.json` may leave them out."""
    from huggingface_hub.errors import StrictDataclassError
    from transformers import AutoConfig

    from posttrain.runtime.models.pretrained_weights import shorten_message

    try:
        return AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True).to_dict()
    except (ValueError, OSError, StrictDataclassError) as error:
        raise StepError(
            f"the config.json of `{name}` is not one of a known architecture: {shorten_message(error)}",
            "use a model that the installed transformers release supports without custom code",
        ) from None


def _fetch(folder: Path, name: str, revision: str | None) -> str | None:
    """Download a snapshot from the hub. Returns its commit."""
    from httpx import HTTPError
    from huggingface_hub import HfApi, snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError, RepositoryNotFoundError

    try:
        commit = HfApi().model_info(name, revision=revision).sha
        snapshot_download(name, revision=commit, local_dir=folder, allow_patterns=list(_ALLOWED_FILES))
    except RepositoryNotFoundError:
        raise StepError(
            f"model `{name}` not found on the hub, or the token does not permit access to it",
            f"check its name; for a private or gated model set {HUB_CREDENTIAL}, or run `hf auth login`",
        ) from None
    except (HfHubHTTPError, LocalEntryNotFoundError, HTTPError, OSError) as error:
        message = f"cannot download `{name}`: {error}"
        raise StepError(message, "check the network and run again", retriable=True) from None
    return commit
