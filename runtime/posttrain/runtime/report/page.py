"""Assembles the report: its sections in order."""

from posttrain.runtime.report.failures import failures_section, failures_title, warnings_section
from posttrain.runtime.report.gate_results import gates_section
from posttrain.runtime.report.markup import join_markup, script_json
from posttrain.runtime.report.metrics_table import metrics_section
from posttrain.runtime.report.page_assets import page_asset
from posttrain.runtime.report.page_frame import DataScript, PageSection, render_document
from posttrain.runtime.report.plan_graph import plan_section
from posttrain.runtime.report.provenance import provenance_section, steps_section
from posttrain.runtime.report.run_record import RunRecord
from posttrain.runtime.report.run_summary import page_header, summary_cards
from posttrain.runtime.report.sample_browser import samples_section, searched_evals
from posttrain.runtime.report.search_results import search_json
from posttrain.runtime.report.timeline import timeline_section
from posttrain.runtime.report.training_curves import curves_section


def render_page(run: RunRecord) -> str:
    """Render the report as one HTML document."""
    found = search_json(searched_evals(run))
    return render_document(
        title=page_title(run),
        top=join_markup([page_header(run), summary_cards(run)]),
        sections=page_sections(run),
        data=[DataScript("search-data", script_json(found))] if found else [],
        script=page_asset(__package__ or "", "search.js"),
        style=page_asset(__package__ or "", "search.css"),
    )


def page_title(run: RunRecord) -> str:
    return f"{run.plan.name} \u00b7 {run.name}"


def page_sections(run: RunRecord) -> list[PageSection]:
    """Return the sections that this run has."""
    found = [
        ("failures", failures_title(run), failures_section(run)),
        ("plan", "Plan", plan_section(run)),
        ("timeline", "Timeline", timeline_section(run)),
        ("gates", "Gates", gates_section(run)),
        ("metrics", "Metrics", metrics_section(run)),
        ("curves", "Curves", curves_section(run)),
        ("samples", "Samples", samples_section(run)),
        ("warnings", "Warnings", warnings_section(run)),
        ("provenance", "Provenance", provenance_section(run)),
        ("steps", "Steps", steps_section(run)),
    ]
    return [PageSection(name, title, content) for name, title, content in found if content is not None]
