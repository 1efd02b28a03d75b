"""Runs axe-core in an open page, in both color schemes and at two widths."""

import json
from pathlib import Path
from typing import Any

from tests.cli.npm_packages import install_npm_package

_VERSION = "4.10.3"
_VIOLATIONS = """axe.run(document, OPTIONS).then((found) => found.violations.map((one) =>
    [one.id, one.help, one.nodes.slice(0, 3).map((n) => n.html.slice(0, 200) + " " + n.failureSummary)]))"""
# The rule of contrast takes most of the time. Each scheme and each width has it once.
_SETTINGS = ((1400, "light", True), (1400, "dark", False), (400, "light", False), (400, "dark", True))


def install_axe(folder: Path) -> str:
    """The script of axe-core."""
    return (install_npm_package(folder, "axe-core", _VERSION) / "axe.min.js").read_text(encoding="utf-8")


def load_axe(browser: Any, script: str) -> None:
    browser.value(script + "; axe.version")


def violations(browser: Any, options: dict[str, Any]) -> list[Any]:
    return browser.value(_VIOLATIONS.replace("OPTIONS", json.dumps(options)))


def all_violations(browser: Any) -> dict[str, Any]:
    """The violations of the page by setting; empty if there are none."""
    found: dict[str, Any] = {}
    for width, scheme, contrast in _SETTINGS:
        browser.look(width=width, scheme=scheme)
        rules = {"color-contrast": {"enabled": contrast}}
        one = violations(browser, {"resultTypes": ["violations"], "rules": rules})
        found |= {f"{width} {scheme}": one} if one else {}
    return found
