"""Generates the reference as Markdown files, with the texts of `recipe explain`."""

import re
from collections.abc import Mapping

from posttrain.compiler.reference.extension_topics import KIND_TITLES
from posttrain.compiler.reference.topic_lookup import Reference
from posttrain.compiler.reference.topic_markdown import topic_markdown
from posttrain.compiler.render.code_page import render_code_page
from posttrain.spec.diagnostic import Code

_PAGE_TITLES = {
    "recipe": (
        "The recipe",
        "The sections of a recipe file and their keys. `recipe schema` prints the same as a JSON Schema.",
    ),
    "stages": (
        "Stages",
        "The verbs of stages, and their keys. A stage is an entry of the section `stages` with one verb.",
    ),
    "methods": ("Training methods", "The methods for `train`, and their hyperparameters in `params`."),
    "sources": ("Sources", "The sources of rows: the `from` of a dataset names one of them."),
    "steps": ("Data steps", "The transformations of rows in the `steps` of a dataset."),
    "rewards": ("Reward ops", "The operations in the nodes of a reward graph."),
    "environments": ("Environments", "The environments for multi-turn episodes."),
    "trackers": ("Trackers", "The trackers that receive the metrics of a run."),
}
# The families of diagnostics by the prefix of their codes; each has a page.
_CODE_FAMILIES: Mapping[str, tuple[str, str]] = {
    "PT01": ("files", "Files, overlays, variables, the matrix and the lock"),
    "PT02": ("keys", "Keys and values"),
    "PT03": ("names", "Names and references"),
    "PT04": ("data", "Datasets, columns and data steps"),
    "PT05": ("rewards", "Reward graphs"),
    "PT06": ("stages", "Stages: training, evals, generation, environments"),
    "PT07": ("gates", "Gates"),
    "PT08": ("models", "Models, chat templates and tags"),
    "PT09": ("containers", "Containers and trackers"),
    "PT10": ("placement", "Hardware, placement and memory"),
}
_PAGE_BY_KIND = {
    "recipe": "recipe",
    "section": "recipe",
    "stage": "stages",
    "method": "methods",
    "source": "sources",
    "data": "steps",
    "reward": "rewards",
    "environment": "environments",
    "tracker": "trackers",
}
assert set(KIND_TITLES) <= set(_PAGE_BY_KIND), "every kind of extension has a page"


def reference_pages(reference: Reference) -> dict[str, str]:
    """The text of each file, by its name."""
    blocks: dict[str, list[str]] = {}
    for topic in reference.topics:
        blocks.setdefault(_PAGE_BY_KIND[topic.kind], []).append(topic_markdown(topic, 2))
    pages = {f"{name}.md": _render_page(name, texts) for name, texts in blocks.items()}
    pages |= {f"diagnostics/{name}.md": text for name, text in _diagnostic_pages(reference).items()}
    pages["diagnostics/README.md"] = _diagnostic_index(reference)
    return {"README.md": _index_page(list(blocks)), **pages}


def _diagnostic_pages(reference: Reference) -> dict[str, str]:
    """The page of each family of codes."""
    pages: dict[str, str] = {}
    for prefix, (name, title) in _CODE_FAMILIES.items():
        head = f"# Diagnostics: {title}\n\nEach example is the change that removes the diagnostic.\n"
        pages[name] = "\n".join([head, *(render_code_page(code, 2) for code in _codes_of(prefix, reference))])
    return pages


def _codes_of(prefix: str, reference: Reference) -> list[Code]:
    return [code for id, code in sorted(reference.codes.items()) if id.startswith(prefix)]


def _diagnostic_index(reference: Reference) -> str:
    lines = ["# Diagnostics", "", "`recipe explain CODE` prints the page of one code.", ""]
    for prefix, (name, title) in _CODE_FAMILIES.items():
        lines += [f"## [{title}]({name}.md)", "", "| code | severity | |", "|---|---|---|"]
        for code in _codes_of(prefix, reference):
            anchor = re.sub(r"[^a-z0-9 -]", "", f"{code.id}: {code.title}".lower()).replace(" ", "-")
            lines.append(f"| [{code.id}]({name}.md#{anchor}) | {code.severity} | {code.title} |")
        lines.append("")
    return "\n".join(lines)


def _render_page(name: str, texts: list[str]) -> str:
    title, about = _PAGE_TITLES[name]
    return "\n".join([f"# {title}\n\n{about}\n", *texts])


def _index_page(names: list[str]) -> str:
    lines = [f"- [{_PAGE_TITLES[name][0]}]({name}.md): {_PAGE_TITLES[name][1]}" for name in names]
    lines.append("- [Diagnostics](diagnostics/README.md): Every error, warning and note, by family.")
    head = (
        "# Reference\n\n"
        "Generated from the code by `recipe explain --pages docs/reference`. `recipe explain TOPIC` prints\n"
        "the same texts.\n\n"
    )
    return head + "\n".join(lines) + "\n"
