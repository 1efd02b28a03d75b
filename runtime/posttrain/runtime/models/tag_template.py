"""Builds a chat template from the tags that completions should contain.

The prompt ends with the opening tag of the reasoning, so that the completion starts inside it. An assistant
message may contain that tag or omit it. Every message ends with the end token.
"""

import json

from posttrain.spec.model_declaration import Tags

_TEMPLATE = """\
{%- set system = SYSTEM -%}
{%- set open = OPEN -%}
{%- if system and messages[0].role != 'system' -%}{{ system }}{{ eos_token }}{%- endif -%}
{%- for message in messages -%}
{%- if message.role == 'assistant' -%}
{%- set text = message.content -%}
{%- if open and text.startswith(open) -%}{%- set text = text[open | length:] -%}{%- endif -%}
{{ open }}{%- generation -%}{{ text }}{{ eos_token }}{%- endgeneration -%}
{%- else -%}
{{ message.content }}{{ eos_token }}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ open }}{%- endif -%}
"""


def tag_chat_template(tags: Tags) -> str:
    """Return the template. Tags are escaped, so that they can contain any characters."""
    opening = tags.think[0] if tags.think else ""
    return _TEMPLATE.replace("SYSTEM", _jinja_literal(_system_literal(tags))).replace(
        "OPEN", _jinja_literal(opening)
    )


def _system_literal(tags: Tags) -> str:
    text = tags.system or ""
    for name in ("think", "answer"):
        for place, tag in zip(("open", "close"), getattr(tags, name) or (), strict=False):
            text = text.replace(f"{{{name}_{place}}}", tag)
    return text


def _jinja_literal(text: str) -> str:
    """Return a Jinja string literal. Jinja accepts the escapes of JSON."""
    return json.dumps(text, ensure_ascii=False)
