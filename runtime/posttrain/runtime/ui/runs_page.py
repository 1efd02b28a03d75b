"""Renders the list of runs."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from urllib.parse import quote, urlencode

from posttrain.runtime.report.markup import Markup, scroll_frame, tag
from posttrain.runtime.report.number_format import format_duration, format_timestamp, plural
from posttrain.runtime.report.step_states import state_badge
from posttrain.runtime.store.home import Home
from posttrain.runtime.ui.live_document import connection_badge, live_document
from posttrain.runtime.ui.run_index import PROBLEM, STATES, ListedRun, RunPlace, RunQuery, RunSelection

TITLE = "Runs"
# The badge of a state of the list.
_BADGES = {"finished": "done", PROBLEM: "warning"}
_MAX_QUERY = 200
# The form of a comparison, and the field with the path of each of its runs.
_FORM, RUN_FIELD = "compare", "run"


def parse_query(fields: Mapping[str, str]) -> RunQuery:
    """The query of a URL; what does not fit is ignored."""
    state, home, page = fields.get("state", ""), fields.get("home", ""), fields.get("page", "")
    return RunQuery(
        text=fields.get("text", "")[:_MAX_QUERY],
        state=state if state in STATES else "",
        home=int(home) if home.isdecimal() and len(home) < 6 else None,
        page=int(page) if page.isdecimal() and len(page) < 9 else 1,
    )


def query_string(query: RunQuery) -> str:
    fields = {
        "text": query.text,
        "state": query.state,
        "home": "" if query.home is None else query.home,
        "page": query.page if query.page > 1 else "",
    }
    return urlencode({name: value for name, value in fields.items() if value != ""})


def runs_document(blocks: Mapping[str, str], revision: str, query: RunQuery, homes: Sequence[Home]) -> str:
    above = Markup(
        tag("header", tag("h1", TITLE), connection_badge(), class_="head")
        + _filters(query, homes)
        + _comparison_form()
    )
    return live_document(TITLE, "", blocks, revision, above=above, outside=())


def runs_blocks(found: RunSelection, query: RunQuery, homes: Sequence[Home]) -> dict[str, str]:
    """The part of the page that changes."""
    count = (
        plural(found.total, "run")
        if found.fitting == found.total
        else f"{found.fitting:,} of {plural(found.total, 'run')}"
    )
    parts = [
        *(tag("p", problem, class_="read-error s-warning") for problem in found.problems),
        tag("p", count, class_="soft"),
        _table(found.runs, homes) if found.runs else _nothing(found, homes),
        _pages(found, query),
    ]
    return {"runs": tag("section", parts, id="runs", aria_label=TITLE)}


def _filters(query: RunQuery, homes: Sequence[Home]) -> Markup:
    """A form without a script: the server filters."""
    states = [tag("option", "all states", value="")]
    states += [tag("option", one, value=one, selected=one == query.state) for one in STATES]
    places = [tag("option", "all homes", value="")]
    places += [
        tag("option", str(home.root), value=str(n), selected=n == query.home) for n, home in enumerate(homes)
    ]
    return tag(
        "form",
        tag("label", "Name ", tag("input", type="search", name="text", value=query.text, placeholder="find")),
        tag("label", "State ", tag("select", states, name="state")),
        tag("label", "Home ", tag("select", places, name="home")) if len(homes) > 1 else None,
        tag("button", "Filter", type="submit"),
        class_="controls",
        method="get",
        action="./",
        id="filter",
        role="search",
    )


def _comparison_form() -> Markup:
    """Compares the runs whose boxes in the list are checked. The list changes, so they are not inside."""
    button = tag("button", "Compare the checked runs", type="submit")
    return tag("form", button, id=_FORM, class_="controls", method="get", action="compare/")


def _nothing(found: RunSelection, homes: Sequence[Home]) -> Markup:
    if found.total:
        return tag("p", "No run fits the filter.", class_="card soft")
    folders = ", ".join(str(home.root) for home in homes)
    return tag("p", f"There are no runs in {folders}. `recipe run PATH` starts one.", class_="card soft")


def _table(runs: Sequence[ListedRun], homes: Sequence[Home]) -> Markup:
    names = [tag("th", tag("span", "Compare", class_="unseen"), scope="col")]
    names += [tag("th", name, scope="col") for name in ("Run", "State", "Steps", "Gates")]
    names += [tag("th", name, scope="col", class_="number") for name in ("Began", "Took")]
    head = tag("thead", tag("tr", names))
    rows = [_row(run, homes) for run in runs]
    table = tag("table", head, tag("tbody", rows), class_="runs")
    return tag("div", scroll_frame("Runs", table), class_="card")


def _row(run: ListedRun, homes: Sequence[Home]) -> Markup:
    path = run_path(run.place)
    took = run.ended - run.began if run.ended is not None and run.began is not None else None
    badge = state_badge(_BADGES.get(run.state, run.state), run.state)
    home = tag("p", str(homes[run.place.home].root), class_="soft") if len(homes) > 1 else None
    name = run.labels.name
    folder = tag("p", run.place.name, class_="soft") if name else None
    box = tag(
        "input",
        type="checkbox",
        name=RUN_FIELD,
        value=path,
        form=_FORM,
        aria_label=f"Compare {name or run.place.name}",
    )
    cells = [
        tag("td", box),
        tag(
            "th",
            tag("a", name or run.place.name, href=f"run/{path}/"),
            folder,
            _labels(run),
            home,
            scope="row",
        ),
        tag("td", badge, tag("p", run.problem, class_="soft") if run.problem else None),
        tag("td", _step_counts(run), [_running(id, text) for id, text in run.running]),
        tag("td", [state_badge(verdict, id) for id, verdict in run.gates.items()]),
        tag("td", format_timestamp(run.began), class_="number"),
        tag("td", format_duration(took), class_="number"),
    ]
    return tag("tr", cells)


def run_path(place: RunPlace) -> str:
    """The run in URLs."""
    return f"{place.home}/{quote(os.fsencode(place.name), safe='')}"


def _labels(run: ListedRun) -> list[Markup]:
    """The tags and the note."""
    words = [", ".join(run.labels.tags), run.labels.note]
    return [tag("p", text, class_="soft label") for text in words if text]


def _step_counts(run: ListedRun) -> str:
    return ", ".join(f"{count} {state}" for state, count in run.steps.items())


def _running(id: str, text: str) -> Markup:
    return tag("p", tag("b", id), f" {text}" if text else "", class_="progress")


def _pages(found: RunSelection, query: RunQuery) -> Markup | None:
    if found.pages < 2:
        return None
    links = [
        tag("a", words, href=f"./?{query_string(replace(query, page=number))}", rel=rel)
        for words, number, rel in (("Newer", found.page - 1, "prev"), ("Older", found.page + 1, "next"))
        if 1 <= number <= found.pages
    ]
    return tag("p", f"Page {found.page} of {found.pages} ", links, class_="pages soft")
