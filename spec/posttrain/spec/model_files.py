"""The largest sizes of the files of a model that are parsed as a whole."""

from collections.abc import Mapping
from types import MappingProxyType

_MIB = 2**20
# Larger files are refused before they are parsed. The largest tokenizers of published models have 35 MiB.
MAX_FILE_BYTES: Mapping[str, int] = MappingProxyType(
    {
        "config.json": 16 * _MIB,
        "generation_config.json": 16 * _MIB,
        "model.safetensors.index.json": 64 * _MIB,
        "tokenizer_config.json": 64 * _MIB,
        "special_tokens_map.json": 16 * _MIB,
        "added_tokens.json": 64 * _MIB,
        "tokenizer.json": 512 * _MIB,
        "tokenizer.model": 512 * _MIB,
        "vocab.json": 512 * _MIB,
        "merges.txt": 512 * _MIB,
        "chat_template.jinja": _MIB,
    }
)
