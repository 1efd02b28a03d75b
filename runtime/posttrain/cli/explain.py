"""`recipe explain`: print the page of a diagnostic code, a key or an extension."""

from pathlib import Path

import click

from posttrain.cli.invalid_usage import InvalidUsage


@click.command("explain")
@click.argument("topic", metavar="[TOPIC]", required=False)
@click.option("--pages", metavar="DIR", help="Write all topics as Markdown files to DIR.")
def command(topic: str | None, pages: str | None) -> None:
    """Explain TOPIC: a diagnostic such as PT0201, a key such as models.init.hidden_size, an extension such
    as grpo or between, or a key of one such as grpo.temperature. Without TOPIC, list all topics.
    """
    from posttrain.compiler.diagnostic_codes import all_codes

    code = next((code for code in all_codes() if topic and code.id == topic.upper()), None)
    if code is not None:  # does not load extensions
        from posttrain.compiler.render.code_page import render_code_page

        click.echo(render_code_page(code), nl=False)
        return
    from posttrain.compiler.reference.topic_lookup import build_reference, explain, list_topics, suggest_topic
    from posttrain.runtime.catalog import CATALOG

    known = build_reference(CATALOG)
    if pages is not None:
        from posttrain.compiler.reference.reference_pages import reference_pages as all_pages

        _write_pages(Path(pages), all_pages(known))
    elif topic is None:
        click.echo(list_topics(known), nl=False)
    else:
        text = explain(topic, known)
        if text is None:
            from posttrain.compiler.diagnosis.key_suggestions import key_location_hint

            near = suggest_topic(topic, known)
            other = f"did you mean `{near}`?" if near else "`recipe explain` lists all topics"
            help = key_location_hint(topic) or other
            raise InvalidUsage(f"unknown topic `{topic}`; {help}")
        click.echo(text, nl=False)


def _write_pages(folder: Path, texts: dict[str, str]) -> None:
    from posttrain.runtime.atomic_io import write_text

    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        write_text(folder / name, text)
        click.echo(folder / name)
