"""Chat templates: whether a model that learns by one learns to stop, and learns its own turns alone."""

import re
from collections.abc import Iterator, Mapping, Sequence

from posttrain.compiler.checks.examples import MINIMAL
from posttrain.compiler.checks.subject import Subject
from posttrain.compiler.data.datasets import Rows, table_of
from posttrain.compiler.diagnosis.findings import Findings
from posttrain.compiler.resolution.names import Named
from posttrain.compiler.text.source import ReadFile
from posttrain.spec.diagnostic import Code
from posttrain.spec.models import Model
from posttrain.spec.types import Columns

_TOKENIZER = "tokenizer: {init: characters}"
_WITH = _TOKENIZER + "\n    chat_template: "
_ENDS = "{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}"
_NEVER = "{% for m in messages %}{{ m.content }}{% endfor %}"
_MARKED = (
    "{% for m in messages %}{% generation %}{{ m.content }}{{ eos_token }}{% endgeneration %}{% endfor %}"
)
_TEMPLATES = (("ends.jinja", _ENDS), ("never.jinja", _NEVER), ("marked.jinja", _MARKED))
NO_END = Code(
    "PT0813",
    "a chat template that never ends a turn",
    "warning",
    "A model learns to stop from the end token after the assistant's turns. A template that writes none"
    " teaches it to go on, until its completions are cut. `{{ eos_token }}` after the turn's text is it.",
    wrong=MINIMAL.replace(_TOKENIZER, _WITH + "never.jinja"),
    right=MINIMAL.replace(_TOKENIZER, _WITH + "ends.jinja"),
    beside=_TEMPLATES,
)
_STEPS = "    steps:\n"
_TALK = (
    _STEPS,
    _STEPS
    + "      - chat: {turns: [{user: prompt}, {assistant: completion}]}\n"
    + "      - select: [prompt, answer, messages]\n",
)
NO_MARKS = Code(
    "PT0814",
    "a chat template that does not say what the assistant writes",
    "warning",
    "From whole conversations a model learns the assistant's turns, and the template has to say which"
    " tokens those are: between {% generation %} and {% endgeneration %}. TRL knows where they belong in"
    " some published templates, and refuses all others without them.",
    wrong=MINIMAL.replace(_TOKENIZER, _WITH + "ends.jinja").replace(*_TALK),
    right=MINIMAL.replace(_TOKENIZER, _WITH + "marked.jinja").replace(*_TALK),
    beside=_TEMPLATES,
)
NO_TEMPLATE = Code(
    "PT0816",
    "conversations for a model without a chat template",
    "error",
    "Turns become text by the chat template. A model made from nothing has none but the one that the recipe"
    " gives it, by `chat_template` or `tags`. Text columns (prompt, completion) need none.",
    wrong=MINIMAL.replace(*_TALK),
    right=MINIMAL.replace(_TOKENIZER, _WITH + "marked.jinja").replace(*_TALK),
    beside=_TEMPLATES,
)
CODES = (NO_END, NO_MARKS, NO_TEMPLATE)
# How the templates of published models end a turn, and how a tokenizer of characters does.
_PUBLISHED = (
    *("<|im_end|>", "<|eot_id|>", "<|eot|>", "<end_of_turn>", "<turn|>", "</s>", "<|end|>"),
    "<|endoftext|>",
)
_OWN = "<|end|>"
_GENERATION = re.compile(r"\{%-?\s*generation\s*-?%\}")


def check_templates(
    named: Named,
    trained: Sequence[Subject],
    rows: Mapping[str, Rows],
    read: ReadFile,
    findings: Findings,
) -> None:
    """Each template once, by the first stage that learns by it."""
    for subject in trained:
        _check_there(subject, named, rows, findings)
    told: set[tuple[str, str]] = set()
    for subject, name, text in _learning(named, trained, read):
        origin = subject.origin
        assert origin is not None, "a template belongs to a model"
        path = ("models", name, "chat_template")
        if not _ends(text, origin) and ("end", name) not in told:
            told.add(("end", name))
            message = f"the template never writes an end token, so `{subject.name}` does not teach to stop"
            findings.add(NO_END, path, message, help="write {{ eos_token }} after the assistant's text")
        if (
            _whole_turns(subject, named, rows)
            and not _GENERATION.search(text)
            and ("marks", name) not in told
        ):
            told.add(("marks", name))
            message = f"`{subject.name}` learns the assistant's turns, and the template does not mark them"
            help = (
                "write {% generation %} before the assistant's text, {% endgeneration %} after its end token"
            )
            findings.add(NO_MARKS, path, message, help=help)


def _check_there(subject: Subject, named: Named, rows: Mapping[str, Rows], findings: Findings) -> None:
    """Whether a model made from nothing has the template that the rows need."""
    origin = subject.origin
    if origin is None or origin.init is None or origin.chat_template is not None or origin.tags is not None:
        return
    ref = named.refs.get((f"stage:{subject.name}", "data"))
    table = table_of(ref, rows, named) if ref is not None else None
    wanted = _read_of(subject, table.columns) if table is not None else {}
    talks = [name for name, type in wanted.items() if type == "messages"]
    if talks:
        message = f"`{talks[0]}` holds conversations, and the model has no chat template"
        help = "give the model a `chat_template` or `tags`, or train on columns of text"
        findings.add(NO_TEMPLATE, (*subject.path, "data"), message, help=help)


def _read_of(subject: Subject, columns: Columns) -> Columns:
    """The first of the method's column sets that the rows have."""
    for wanted in subject.method.accepts:
        if all(name in columns and columns[name] == type for name, type in wanted.items()):
            return wanted
    return {}


def _learning(named: Named, trained: Sequence[Subject], read: ReadFile) -> Iterator[tuple[Subject, str, str]]:
    """The stages that learn from written text through a template of the recipe's, with that text."""
    names = {id(m): name for name, m in named.recipe.models.items() if m.chat_template is not None}
    for subject in trained if names else ():
        origin = subject.origin
        if origin is None or origin.chat_template is None or subject.stage.prompts == "plain":
            continue
        data = None if subject.method.needs_reward else read(origin.chat_template)
        if data is not None:
            yield subject, names[id(origin)], data.decode("utf-8", "replace")


def _ends(text: str, model: Model) -> bool:
    own = model.tokenizer is not None and model.tokenizer.init is not None
    return "eos_token" in text or any(mark in text for mark in ((_OWN,) if own else _PUBLISHED))


def _whole_turns(subject: Subject, named: Named, rows: Mapping[str, Rows]) -> bool:
    """Whether the stage learns from whole conversations, and from the assistant's turns in them alone."""
    ref = named.refs.get((f"stage:{subject.name}", "data"))
    table = table_of(ref, rows, named) if ref is not None else None
    return (
        subject.value("loss_on") == "completion"
        and table is not None
        and "messages" in table.columns
        and "completion" not in table.columns
    )
