"""The frame of a live page: the style sheet and the script of the report, and those of this server."""

from collections.abc import Callable, Mapping, Sequence

from posttrain.runtime.report.markup import Markup, tag
from posttrain.runtime.report.page_assets import page_asset, page_script, page_style
from posttrain.runtime.report.page_frame import page_head
from posttrain.spec.version import VERSION

# The same for all pages: everything comes from this server, and no script is inline. The drawings of the
# report have style attributes.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src data:;"
    " connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_TYPES = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8"}
_REPORT_ASSETS: Mapping[str, Callable[[], str]] = {
    "page.css": page_style,
    "page.js": page_script,
    "comparison.css": lambda: page_asset("posttrain.runtime.comparison", "comparison.css"),
}
_OWN_ASSETS = ("live.css", "live.js")


def read_asset(name: str) -> tuple[str, str] | None:
    """The text and the media type of a script or a style sheet."""
    if name in _REPORT_ASSETS:
        text = _REPORT_ASSETS[name]()
    elif name in _OWN_ASSETS:
        text = page_asset(__package__ or "", name)
    else:
        return None
    return text, _TYPES[name[name.rindex(".") :]]


def live_document(
    title: str,
    root: str,
    blocks: Mapping[str, str],
    revision: str,
    *,
    above: Markup,
    outside: tuple[str, ...],
) -> str:
    """A page of blocks. `root` is the relative path of the token's folder, `above` does not change, and the
    blocks `outside` are not in the main part."""
    head = page_head(title, *_assets(root, ("page.css", "live.css"), ("page.js", "live.js")))
    inner = [Markup(html) for name, html in blocks.items() if name not in outside]
    body = tag(
        "body",
        tag("a", "Skip to the content", href="#content", class_="skip"),
        tag("div", above, class_="wrap banner"),
        [Markup(blocks[name]) for name in outside if name in blocks],
        tag("main", inner, id="content", class_="wrap"),
        _footer(),
        data_revision=revision,
    )
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


def still_document(title: str, root: str, top: Markup, inner: Sequence[Markup], links: Markup | None) -> str:
    """A page that does not change. `links` lead to its sections."""
    head = page_head(title, *_assets(root, ("page.css", "live.css", "comparison.css"), ("page.js",)))
    body = tag(
        "body",
        tag("a", "Skip to the content", href="#content", class_="skip"),
        tag("div", top, class_="wrap top"),
        links,
        tag("main", inner, id="content", class_="wrap"),
        _footer(),
    )
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


def _assets(root: str, styles: Sequence[str], scripts: Sequence[str]) -> list[Markup]:
    return [
        *[tag("link", rel="stylesheet", href=f"{root}assets/{name}") for name in styles],
        *[tag("script", src=f"{root}assets/{name}", defer=True) for name in scripts],
    ]


def _footer() -> Markup:
    return tag("footer", f"posttrain {VERSION}, on this machine only.", class_="wrap soft")


def connection_badge() -> Markup:
    """Whether the page receives updates; the script sets it."""
    return tag("output", id="connection", class_="soft", aria_live="polite")
