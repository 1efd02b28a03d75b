"""The reference as Markdown files: what `recipe explain` tells of everything, by kind."""

from posttrain.compiler.reference.extension_topics import KIND_TITLES
from posttrain.compiler.reference.topic_lookup import Reference
from posttrain.compiler.reference.topic_markdown import topic_markdown
from posttrain.compiler.render.code_page import render_code_page

_PAGE_TITLES = {
    "recipe": (
        "The recipe",
        "The sections of a recipe file, and what may stand in each. `recipe schema` tells editors the same.",
    ),
    "stages": (
        "Stages",
        "What can be done. A stage is one key of the section `stages`, and is known by its verb.",
    ),
    "methods": ("Training methods", "What `train:` names, with what stands under `params`."),
    "sources": ("Sources", "Where the rows of a dataset come from: one of these under `from`."),
    "steps": ("Data steps", "What is done to rows, in the order of a dataset's `steps`."),
    "rewards": ("Reward ops", "What the nodes of a reward graph are made of."),
    "environments": ("Environments", "The places that a model can act in."),
    "trackers": ("Trackers", "What receives the metrics of a run."),
    "codes": (
        "Diagnostics",
        "Everything that can be wrong with a recipe, each with an example that is and one that is not.",
    ),
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


def reference_pages(known: Reference) -> dict[str, str]:
    """The text of each file, by its name."""
    blocks: dict[str, list[str]] = {}
    for topic in known.topics:
        blocks.setdefault(_PAGE_BY_KIND[topic.kind], []).append(topic_markdown(topic, 2))
    blocks["codes"] = [render_code_page(code, 2) for code in known.codes.values()]
    made = {f"{name}.md": _render_page(name, texts) for name, texts in blocks.items()}
    return {"README.md": _index_page(list(blocks)), **made}


def _render_page(name: str, texts: list[str]) -> str:
    title, about = _PAGE_TITLES[name]
    return "\n".join([f"# {title}\n\n{about}\n", *texts])


def _index_page(names: list[str]) -> str:
    lines = [f"- [{_PAGE_TITLES[name][0]}]({name}.md): {_PAGE_TITLES[name][1]}" for name in names]
    head = (
        "# Reference\n\n"
        "Written by `recipe explain --pages docs/reference` from what the code declares. The same texts are\n"
        "printed by `recipe explain TOPIC`.\n\n"
    )
    return head + "\n".join(lines) + "\n"
