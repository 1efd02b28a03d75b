"""transformers renders chat templates in a sandbox without limits on time and memory."""

import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tests.runtime.trl_compat.necessity import obsolete
from transformers.utils import chat_template_utils

from posttrain.runtime.errors import StepError
from posttrain.runtime.trl_compat.bounded_templates import bound_chat_templates

TEMPLATE = "{% for i in range(9999) %}{% for j in range(999) %}{% set x = i %}{% endfor %}{% endfor %}done"
MESSAGES = [[{"role": "user", "content": "hi"}]]


def test_the_library_has_no_limit(monkeypatch: pytest.MonkeyPatch):
    used: list[Any] = []

    def recorded(*args: Any, **options: Any) -> Any:
        used.append(ImmutableSandboxedEnvironment(*args, **options))
        return used[-1]

    monkeypatch.setattr(chat_template_utils, "ImmutableSandboxedEnvironment", recorded)
    template = chat_template_utils._cached_compile_jinja_template("{{ ('x' * 3000000)|length }}")
    assert template.render() == "3000000", obsolete("bounded_templates")
    assert used, obsolete("bounded_templates")
    assert used[0].intercepted_binops == frozenset(), obsolete("bounded_templates")


def test_a_rendering_is_limited(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(
        chat_template_utils,
        "ImmutableSandboxedEnvironment",
        chat_template_utils.ImmutableSandboxedEnvironment,
    )
    bound_chat_templates()
    chat_template_utils._compile_jinja_template.cache_clear()
    endless = "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"
    with pytest.raises(StepError, match="more work for one conversation"):
        chat_template_utils.render_jinja_template(conversations=MESSAGES, chat_template=endless)
    spans, indices = chat_template_utils.render_jinja_template(
        conversations=MESSAGES,
        chat_template="{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}",
        return_assistant_tokens_mask=True,
    )
    assert (spans, indices) == (["hi"], [[(0, 2)]])
    chat_template_utils._compile_jinja_template.cache_clear()


def test_it_takes_effect_when_transformers_is_imported_later():
    code = (
        "import sys\n"
        "from posttrain.runtime.trl_compat.bounded_templates import bound_chat_templates\n"
        "bound_chat_templates()\n"
        "assert 'jinja2' not in sys.modules and 'transformers' not in sys.modules\n"
        "from transformers.utils import chat_template_utils\n"
        "print(chat_template_utils.ImmutableSandboxedEnvironment.__name__)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert SimpleNamespace(out=done.stdout.strip(), err=done.stderr).out == "BoundedEnvironment", done.stderr
