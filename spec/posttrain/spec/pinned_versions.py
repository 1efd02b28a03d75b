"""The library versions that this release is pinned to. A test compares them with the requirement locks."""

PINNED_VERSIONS = {
    "accelerate": "1.15.0",
    "datasets": "5.2.0",
    "duckdb": "2.0.0",
    "jsonpath-rfc9535": "1.0.1",
    "jsonschema": "4.26.0",
    "lm-eval": "0.4.13",
    "numpy": "2.3.5",
    "peft": "0.21.2",
    "py3langid": "0.4.0",
    "pyarrow": "26.0.1",
    "regex": "2026.11.15",
    "safetensors": "0.8.0",
    "sympy": "1.14.0",
    "tokenizers": "0.23.3",
    "torch": "2.13.0",
    "transformers": "5.17.0",
    "trl": "1.16.0",
}
