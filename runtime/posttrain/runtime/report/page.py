"""The page: its parts in order, with style, script and data inside it."""

import base64
import hashlib
from importlib import resources

from posttrain.runtime.report.failures import failures_section, failures_title, warnings_section
from posttrain.runtime.report.gate_results import gates_section
from posttrain.runtime.report.line_chart import curves_json
from posttrain.runtime.report.markup import Markup, script_json, tag
from posttrain.runtime.report.metrics_table import metrics_section
from posttrain.runtime.report.plan_graph import plan_section
from posttrain.runtime.report.provenance import provenance_section, steps_section
from posttrain.runtime.report.run_record import RunRecord
from posttrain.runtime.report.run_summary import page_header, summary_cards
from posttrain.runtime.report.sample_browser import samples_section
from posttrain.runtime.report.timeline import timeline_section
from posttrain.runtime.report.training_curves import CurveCollector, curves_section
from posttrain.spec.version import VERSION

_ICON = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Crect width='16'"
    " height='16' rx='4' fill='%233a5ccc'/%3E%3Cpath d='M3 11l4-5 3 3 3-5' fill='none' stroke='white'"
    " stroke-width='1.8'/%3E%3C/svg%3E"
)


def render_page(run: RunRecord) -> str:
    """The whole report as one HTML document."""
    drawn = CurveCollector()
    sections = _sections(run, drawn)
    script, style = _asset("page.js"), _asset("page.css")
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_content_security_policy(script)),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="generator", content=f"posttrain {VERSION}"),
        tag("title", f"{run.plan.name} \u00b7 {run.name}"),
        tag("link", rel="icon", href=_ICON),
        tag("style", style),
    )
    body = tag(
        "body",
        tag("a", "Skip to the content", href="#content", class_="skip"),
        tag("div", page_header(run), summary_cards(run), class_="wrap top"),
        _navigation(sections),
        tag("main", [_section(*one) for one in sections], id="content", class_="wrap"),
        tag("footer", f"Written by posttrain {VERSION}. This page needs no network.", class_="wrap soft"),
        tag("script", script_json(curves_json(drawn.curves)), type="application/json", id="curves-data"),
        tag("script", script),
    )
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


def _sections(run: RunRecord, drawn: CurveCollector) -> list[tuple[str, str, Markup]]:
    """Name, title and content of the sections that this run has."""
    found = [
        ("failures", failures_title(run), failures_section(run)),
        ("plan", "Plan", plan_section(run)),
        ("timeline", "Timeline", timeline_section(run)),
        ("gates", "Gates", gates_section(run)),
        ("metrics", "Metrics", metrics_section(run)),
        ("curves", "Curves", curves_section(run, drawn)),
        ("samples", "Samples", samples_section(run)),
        ("warnings", "Warnings", warnings_section(run)),
        ("provenance", "Provenance", provenance_section(run)),
        ("steps", "Steps", steps_section(run)),
    ]
    return [(name, title, content) for name, title, content in found if content is not None]


def _section(name: str, title: str, content: Markup) -> Markup:
    return tag(
        "section", tag("h2", title, id=f"{name}-title"), content, id=name, aria_labelledby=f"{name}-title"
    )


def _navigation(sections: list[tuple[str, str, Markup]]) -> Markup:
    links = [tag("a", title, href=f"#{name}") for name, title, _ in sections]
    return tag("nav", tag("div", links, class_="wrap"), aria_label="Sections")


def _asset(name: str) -> Markup:
    return Markup(resources.files(__package__ or "").joinpath(name).read_text(encoding="utf-8"))


def _content_security_policy(script: str) -> str:
    """Nothing is loaded from anywhere, and no script runs but the page's own."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{digest}'"
