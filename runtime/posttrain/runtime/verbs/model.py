"""The verb `model`: creates a declared model with random weights, or copies it from a hub or a folder."""

import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from posttrain.runtime import atomic_io
from posttrain.runtime.errors import StepError
from posttrain.runtime.models.added_tokens import (
    AddedTokens,
    add_tokens,
    tokenizer_size,
)
from posttrain.runtime.models.builtin_chat_template import (
    add_end_of_turn,
    find_template,
    set_builtin_template,
    set_padding,
)
from posttrain.runtime.models.embedding_resizing import resize_embeddings
from posttrain.runtime.models.template_arguments import set_default_arguments
from posttrain.runtime.step_context import StepContext
from posttrain.spec.architectures.unsupported_checkpoints import CheckpointProblem, checkpoint_problem
from posttrain.spec.extension import Verb
from posttrain.spec.model_declaration import RandomInit
from posttrain.spec.model_files import MAX_FILE_BYTES
from posttrain.spec.process_variables import HUB_CREDENTIAL
from posttrain.spec.step_params.artifact_params import ModelStepParams
from posttrain.spec.tokenizer_declaration import Tokenizer

EXTENSION = Verb(
    name="model",
    summary="A model folder with weights and tokenizer.",
    version=4,
    stack=("torch", "transformers", "tokenizers", "safetensors"),
    preload=("torch", "transformers.modeling_utils"),
)
# The role of a file of a local model or tokenizer is this prefix and the file's name.
_FILE_ROLE_PREFIX, _TOKENIZER_ROLE_PREFIX = "model/", "tokenizer/"
# Configuration, tokenizer and safetensors. No code and no pickled weights.
_FORMER_TOKEN_FILES = ("special_tokens_map.json", "added_tokens.json")
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
    tokenizer = _tokenizer(context, params.tokenizer)
    if params.tokenizer.init is None:
        add_tokens(tokenizer, params.tokenizer)
    _set_template(context, tokenizer, add_tokens=True)
    vocabulary = params.tokenizer.rounded(tokenizer_size(tokenizer))
    model = random_model(init, tokenizer, vocabulary, params.seed)
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
    is_local = _link_files(context, _FILE_ROLE_PREFIX, context.out)
    revision = None if is_local else _fetch(context.out, name, params.revision)
    check_published(context.out, name)
    added, embeddings = _change_tokenizer(context), None
    if added is not None or params.dtype != "auto":
        with _changed_model(context.out, None if params.dtype == "auto" else params.dtype) as model:
            if added is not None:
                assert params.tokenizer is not None, "only a declared tokenizer adds tokens"
                resize_embeddings(model, added, params.tokenizer, params.seed)
                embeddings = model.get_input_embeddings().weight.shape[0]
    _write_named_tokens(context)
    model_origin.write_origin(context.out, params, revision, embeddings)
    context.facts["revision"] = revision


def _change_tokenizer(context: StepContext[ModelStepParams]) -> AddedTokens | None:
    """Give the model the tokenizer, the added tokens and the chat template of the recipe.

    Returns the tokens that may need other embeddings; None if the embeddings stay as they are.
    """
    params = context.params
    declared_template = params.tags or params.builtin_template or params.chat_template_kwargs
    if params.tokenizer is None and not (declared_template or "chat_template" in context.files):
        return None
    declared = params.tokenizer or Tokenizer()
    replaced = declared.init is not None or declared.from_ is not None
    tokenizer = _tokenizer(context, declared) if replaced else _own_tokenizer(context.out)
    added = (
        add_tokens(tokenizer, declared)
        if declared.init is None
        else AddedTokens({}, tokenizer_size(tokenizer), tokenizer_size(tokenizer))
    )
    _set_template(context, tokenizer, add_tokens=False)
    for name in _FORMER_TOKEN_FILES:  # the tokens are in the other files
        (context.out / name).unlink(missing_ok=True)
    tokenizer.save_pretrained(context.out)
    return added if added.pieces or declared.resize_to_multiple_of is not None else None


def _write_named_tokens(context: StepContext[ModelStepParams]) -> None:
    """Write the end and the padding token that the recipe declares to the model's configurations."""
    declared = context.params.tokenizer or Tokenizer()
    ends, pads = declared.eos_token is not None, declared.pad_token is not None
    if not (ends or pads or context.params.builtin_template is not None):
        return
    tokenizer = _own_tokenizer(context.out)
    if ends or context.params.builtin_template is not None:
        add_end_of_turn(context.out, tokenizer)
    if pads:
        set_padding(context.out, tokenizer)


def _link_files(context: StepContext[ModelStepParams], prefix: str, folder: Path) -> bool:
    """Put the user files of a role into a folder. Returns whether there are any."""
    files = {
        role.removeprefix(prefix): path for role, path in context.files.items() if role.startswith(prefix)
    }
    for name, path in files.items():
        os.link(path, folder / name)  # both are in the step's work directory
    return bool(files)


def _tokenizer(context: StepContext[ModelStepParams], declared: Tokenizer) -> Any:
    """The tokenizer that the recipe declares instead of the model's own."""
    from posttrain.runtime.models.character_tokenizer import build_character_tokenizer

    if declared.init == "characters":
        chosen = context.params.builtin_template
        template = find_template(chosen) if chosen is not None else None
        return build_character_tokenizer(
            declared.alphabet, declared.added_tokens, template, declared.added_special_tokens
        )
    folder = context.work / "scratch" / "tokenizer"
    shutil.rmtree(folder, ignore_errors=True)  # of an attempt before
    folder.mkdir(parents=True)
    if _link_files(context, _TOKENIZER_ROLE_PREFIX, folder):
        return _own_tokenizer(folder)
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(declared.from_, revision=declared.revision)


def _own_tokenizer(folder: Path) -> Any:
    from posttrain.runtime.models.model_loader import load_tokenizer

    return load_tokenizer(folder)


def _set_template(context: StepContext[ModelStepParams], tokenizer: Any, *, add_tokens: bool) -> None:
    from posttrain.runtime.models.chat_template import check_chat_template, read_chat_template

    template, chosen = context.files.get("chat_template"), context.params.builtin_template
    if chosen is not None and not (chosen.fallback and tokenizer.chat_template is not None):
        set_builtin_template(tokenizer, find_template(chosen), add_tokens=add_tokens)
    elif template is not None:
        tokenizer.chat_template = read_chat_template(template)
        check_chat_template(tokenizer, template.name)
    elif context.params.tags is not None:
        from posttrain.runtime.models.tag_template import tag_chat_template

        tokenizer.chat_template = tag_chat_template(context.params.tags)
    if context.params.chat_template_kwargs:
        set_default_arguments(tokenizer, context.params.chat_template_kwargs)


@contextmanager
def _changed_model(folder: Path, dtype: str | None = None) -> Generator[Any]:
    """Load the model of a folder, in another dtype if one is given, and save it again."""
    from posttrain.runtime.models.model_loader import load_model

    model = load_model(folder, dtype=dtype)
    yield model
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
