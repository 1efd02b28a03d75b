"""Texts that are kept as files and reviewed: POSTTRAIN_REGENERATE=1 writes them anew."""

import os
from pathlib import Path


def assert_matches_golden(file: Path, text: str) -> None:
    """Hold a text to a file; or write the file, where that was asked for."""
    if os.environ.get("POSTTRAIN_REGENERATE"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    assert file.exists(), f"there is no {file}; POSTTRAIN_REGENERATE=1 writes it"
    assert text == file.read_text(encoding="utf-8"), f"{file} differs; POSTTRAIN_REGENERATE=1 writes it anew"
