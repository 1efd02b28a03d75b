"""Names of models and tokenizers: on the hub, or of a local folder."""

import re

_HUB_URL = "https://huggingface.co/"
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,95}(/[\w.-]{1,96})?", re.ASCII)


def is_folder(origin: str) -> bool:
    """Whether the origin of a model or a tokenizer is a local folder and not a hub name."""
    return origin.startswith((".", "/"))


def check_model_origin(name: str | None) -> None:
    """Raise ValueError unless the name is a hub name or a folder."""
    if name is None or is_folder(name) or _HUB_NAME.fullmatch(name):
        return
    if name.startswith(_HUB_URL):
        raise ValueError(f"is a URL; the name on the hub is {name.removeprefix(_HUB_URL)}")
    raise ValueError("is neither ORG/NAME on the hub nor a local folder, written ./NAME")
