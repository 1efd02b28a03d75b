"""The script and the style sheet of the page, concatenated from small files.

The files of the script share one scope. Only the last one touches the page; the others define functions.
"""

import base64
import hashlib
from importlib import resources

from posttrain.runtime.report.markup import Markup

_SCRIPTS = (
    "axis.js",
    "curve.js",
    "drawing.js",
    "group.js",
    "cursor.js",
    "zoom.js",
    "export.js",
    "value_table.js",
    "pins.js",
    "toolbar.js",
    "samples.js",
    "links.js",
    "enhance.js",
)
_STYLES = ("page.css", "charts.css")


def page_script() -> Markup:
    """The script. Its function `posttrain.enhance(root)` adds interaction to a part of a page."""
    parts = "".join(_own(f"scripts/{name}") for name in _SCRIPTS)
    return Markup(f'"use strict";\n(() => {{\n{parts}}})();\n')


def page_style() -> Markup:
    return Markup("".join(_own(name) for name in _STYLES))


def source_digest(source: str) -> str:
    """The source of a Content-Security-Policy that allows exactly this inline script."""
    return f"sha256-{base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()}"


def page_asset(package: str, name: str) -> str:
    """The text of a file next to the modules of a package."""
    return resources.files(package).joinpath(name).read_text(encoding="utf-8")


def _own(name: str) -> str:
    return page_asset(__package__ or "", name)
