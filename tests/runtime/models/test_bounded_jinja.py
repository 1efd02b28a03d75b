"""Chat templates with a limit on their work: what renders is unchanged, and what grows without end fails."""

from datetime import date
from pathlib import Path
from typing import Any

import jinja2.ext
import pytest
import trl
from jinja2.sandbox import ImmutableSandboxedEnvironment

from posttrain.runtime.errors import StepError
from posttrain.runtime.models.bounded_jinja import MAX_TEMPLATE_CHARS, BoundedEnvironment

NAMESPACE = (
    "{% set ns = namespace(a=START) %}{% for i in range(60) %}{% set ns.a = NEXT %}{% endfor %}{{ ns.a }}"
)
BIG = "{% set big = 'x' * 9000000 %}{% for i in range(99999) %}{% set c = WORK %}{% endfor %}"


def growing(start: str, following: str) -> str:
    return NAMESPACE.replace("START", start).replace("NEXT", following)


ENDLESS = {
    "a range": "{% for i in range(10**12) %}{% endfor %}",
    "nested loops": "{% for i in range(99999) %}{% for j in range(99999) %}x{% endfor %}{% endfor %}",
    "a filtered loop": "{% for i in range(99999) %}{% for j in range(99999) if 0 %}{% endfor %}{% endfor %}",
    "continue": "{% for i in range(9999) %}{% for j in range(9999) %}{% continue %}{% endfor %}{% endfor %}",
    "plain text": "{% for i in range(99999) %}" + "x" * 100000 + "{% endfor %}",
    "a repetition": "{{ 'x' * 10**9 }}",
    "a repeated list": "{{ ([1] * 10**9)|length }}",
    "a power": "{{ 10 ** (10 ** 10) }}",
    "squares": growing("7", "ns.a * ns.a"),
    "doubling with ~": growing("'x'", "ns.a ~ ns.a"),
    "doubling with +": growing("'x'", "ns.a + ns.a"),
    "doubling lists": growing("[1]", "[ns.a, ns.a]"),
    "doubling dicts": growing("1", "{'a': ns.a, 'b': ns.a}"),
    "doubling dict()": growing("1", "dict(a=ns.a, b=ns.a)"),
    "doubling namespaces": growing("1", "namespace(a=ns.a, b=ns.a)"),
    "doubling replace": growing("'xx'", "ns.a|replace('x', 'xx')"),
    "macros": "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}",
    "a recursive loop": growing("[1]", "[ns.a, ns.a]").replace(
        "{{ ns.a }}",
        "{% for x in ns.a recursive %}{% if x is iterable %}{{ loop(x) }}{% endif %}{% endfor %}",
    ),
    "center": "{{ 'x'|center(10**9) }}",
    "ljust": "{{ 'x'.ljust(10**9) }}",
    "%": "{{ '%1000000000d' % 1 }}",
    "% with *": "{{ '%*d' % (10**9, 1) }}",
    "format": "{{ '{:>1000000000}'.format('x') }}",
    "format with a width": "{{ '{:>{w}}'.format('x', w=10**9) }}",
    "format with a text": "{{ '{:>{w}}'.format('x', w='1000000000') }}",
    "format_map": "{{ '{x:>1000000000}'.format_map({'x': 1}) }}",
    "the filter format": "{{ '%1000000000d'|format(1) }}",
    "replace": "{{ ('x' * 1000000)|replace('x', 'y' * 1000000) }}",
    "str.replace": "{{ ('x' * 1000000).replace('', 'y' * 1000000) }}",
    "join": "{{ ('x' * 1000000)|join('y' * 1000000) }}",
    "str.join": "{{ ('y' * 1000000).join('x' * 1000000) }}",
    "translate": "{{ ('x' * 1000000).translate({120: 'y' * 1000000}) }}",
    "indent": "{{ ('\n' * 1000000)|indent(99999) }}",
    "lipsum": "{{ lipsum(n=10**6) }}",
    "batch": "{{ [1]|batch(10**9, 0)|list|length }}",
    "to_bytes": "{{ (5).to_bytes(10**10, 'big') }}",
    "copies": BIG.replace("WORK", "big[1:]"),
    "searches": BIG.replace("WORK", "big.find('y')"),
    "tests": BIG.replace("WORK", "'y' in big"),
    "filters": BIG.replace("WORK", "big|upper"),
    "lazy filters": "{{ range(99999)|map('string')|map('center', 99999)|join|length }}",
    "its length": "x" * (MAX_TEMPLATE_CHARS + 1),
}


@pytest.mark.parametrize("name", ENDLESS)
def test_a_template_without_an_end_fails(name: str):
    environment = BoundedEnvironment(extensions=[jinja2.ext.loopcontrols])
    with pytest.raises(StepError, match="the chat template"):
        environment.from_string(ENDLESS[name]).render(messages=[{"role": "user", "content": "hi"}])


def test_each_rendering_has_the_whole_limit():
    template = BoundedEnvironment().from_string("{% for i in range(99999) %}{{ i }}{% endfor %}")
    assert len({template.render() for _ in range(15)}) == 1


def test_a_long_conversation_renders():
    source = (Path(trl.__file__).parent / "chat_templates" / "qwen3.jinja").read_text()
    messages = [
        {"role": ("user", "assistant")[turn % 2], "content": f"<think>\n{turn}\n</think>\n" + "word " * 2000}
        for turn in range(400)
    ]
    assert render(BoundedEnvironment, source, messages) == render(
        ImmutableSandboxedEnvironment, source, messages
    )


CONVERSATIONS: list[list[dict[str, Any]]] = [
    [{"role": "user", "content": "hi"}],
    [
        {"role": "system", "content": "Be brief. 1234567 {x:>1000000} %d"},
        {"role": "user", "content": "what is 17000000 + 1?"},
        {"role": "assistant", "content": "<think>\nadd\n</think>\n17000001"},
        {"role": "user", "content": "thanks"},
        {"role": "assistant", "content": "you are welcome"},
    ],
]
TEMPLATES = sorted((Path(trl.__file__).parent / "chat_templates").glob("*.jinja"))


def render(kind: type[ImmutableSandboxedEnvironment], source: str, messages: list[dict[str, Any]]) -> str:
    """Render as transformers does; the error of a template that rejects the messages."""

    def raise_exception(message: str) -> None:
        raise jinja2.TemplateError(message)

    environment = kind(trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols])
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = lambda form: date(2026, 1, 2).strftime(form)
    # Transformers adds the block `generation`, which has no output of its own.
    source = source.replace("{% generation %}", "").replace("{% endgeneration %}", "")
    source = source.replace("{%- generation %}", "").replace("{%- endgeneration %}", "")
    try:
        return environment.from_string(source).render(
            messages=messages, add_generation_prompt=True, eos_token="</s>", bos_token="<s>"
        )
    except (jinja2.TemplateError, TypeError) as error:
        return f"{type(error).__name__}: {error}"


@pytest.mark.parametrize("file", TEMPLATES, ids=lambda file: file.stem)
def test_templates_of_models_render_as_before(file: Path):
    for messages in CONVERSATIONS:
        source = file.read_text()
        assert render(BoundedEnvironment, source, messages) == render(
            ImmutableSandboxedEnvironment, source, messages
        )
