"""Comparison with golden files. POSTTRAIN_REGENERATE=1 regenerates them."""

import os
from pathlib import Path


def assert_matches_golden(file: Path, text: str) -> None:
    """Compare a text with a golden file, or regenerate the file if requested."""
    if os.environ.get("POSTTRAIN_REGENERATE"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    assert file.exists(), f"there is no {file}; POSTTRAIN_REGENERATE=1 creates it"
    assert text == file.read_text(encoding="utf-8"), f"{file} differs; POSTTRAIN_REGENERATE=1 regenerates it"
