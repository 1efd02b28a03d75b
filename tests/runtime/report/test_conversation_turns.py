import json
from dataclasses import replace

import pytest

from posttrain.runtime.report.conversation_turns import parse_messages, render_turns, split_episode, turn_text
from posttrain.runtime.report.events_reader import make_sample
from posttrain.runtime.report.run_record import Sample, StepEvents, ToolCall, Turn
from posttrain.runtime.report.sample_browser import samples_section

TRANSCRIPT = [
    {"role": "user", "content": "A number from 1 to 9."},
    {"role": "assistant", "content": "5"},
    {"role": "user", "content": "higher"},
    {"role": "assistant", "content": "7"},
]
WORLD = {"environment": {"kind": "guess"}}


def test_messages_are_turns():
    assert [turn.role for turn in parse_messages(TRANSCRIPT)] == ["user", "assistant", "user", "assistant"]
    call = {"function": {"name": "add", "arguments": '{"a": 1}'}}
    (shown,) = parse_messages([{"role": "assistant", "content": None, "tool_calls": [call]}])
    assert (shown.role, shown.text) == ("assistant", "")
    assert shown.calls == (ToolCall(name="add", arguments='{"a": 1}'),)
    assert turn_text(shown) == 'add({"a": 1})'
    odd = {
        "role": "assistant",
        "tool_calls": [3, {"function": None}, {"function": {"name": "f", "arguments": {"a": 1}}}],
    }
    assert parse_messages([odd])[0].calls == (ToolCall(name="f", arguments='{"a": 1}'),)
    parts = [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]
    assert parse_messages(parts) == (Turn(role="user", text="a\nb"),)
    assert parse_messages([{"role": None, "content": None}]) == (Turn(role="", text=""),)


@pytest.mark.parametrize("value", [None, "text", 3, {}, [], ["a"], [{"role": "user"}, 3]])
def test_what_is_no_list_of_messages_has_no_turns(value):
    assert parse_messages(value) == ()


@pytest.mark.parametrize(
    "text",
    [
        "first\nuser\nhigher\nassistant\nsecond",
        "first<|im_end|>\n<|im_start|>user\nhigher<|im_end|>\n<|im_start|>assistant\nsecond<|im_end|>",
        "first\n<|user|>\nhigher\n<|assistant|>\nsecond\n",
    ],
)
def test_an_episode_that_was_decoded_is_taken_apart(text):
    turns = [("assistant", "first"), ("user", "higher"), ("assistant", "second")]
    assert [(turn.role, turn.text) for turn in split_episode(text)] == turns


@pytest.mark.parametrize("text", ["", "one turn", "the user said\nso", "user: x\nassistant: y"])
def test_a_text_without_roles_has_no_turns(text):
    assert split_episode(text) == ()


def test_long_episodes_are_cut_and_it_is_said():
    many = [Turn(role="assistant", text="x" * 10)] * 100
    assert "40 more turns are not shown" in render_turns(many, 10_000, episode=True)
    assert "95 more turns are not shown" in render_turns(many, 50, episode=True)
    assert "x" * 500 not in render_turns([Turn(role="user", text="x" * 1000)], 400, episode=True)


def shown(make, *samples, params=None):
    run = make.run(make.step("check", "eval", params=params or {}))
    return samples_section(replace(run, steps=(replace(run.steps[0], events=StepEvents(samples=samples)),)))


def test_the_other_side_of_an_episode_is_its_environment(make):
    sample = Sample(step=0, prompt="Play.", completion="5\n7", values={}, turns=parse_messages(TRANSCRIPT))
    text = shown(make, sample, params=WORLD)
    assert "Episode, 4 turns" in text
    assert text.count("<h4>Environment</h4>") == text.count("<h4>Model</h4>") == 2
    assert text.count('class="turn own"') == 2
    assert "<h4>User</h4>" in shown(make, sample)


def test_an_episode_without_its_turns_says_what_its_text_is(make):
    sample = Sample(step=0, prompt="Play.", completion="5\n7", values={})
    assert "Model output" in shown(make, sample, params=WORLD)
    assert "Model output" not in shown(make, sample)


def test_a_sample_names_its_model_and_can_be_chosen_by_it(make):
    samples = [Sample(step=0, prompt="p", completion="c", values={}, model=m) for m in ("base", "sft", "")]
    text = shown(make, *samples)
    assert 'id="sample-model"' in text
    assert text.count("data-model=") == 2
    assert '<span class="soft">base</span>' in text
    assert 'id="sample-model"' not in shown(make, *samples[1:])


EVENTS = [
    ({"transcript": TRANSCRIPT, "completion": "5\n7"}, ["user", "assistant", "user", "assistant"]),
    ({"completion": TRANSCRIPT}, ["user", "assistant", "user", "assistant"]),
    ({"completion": "a\nuser\nb\nassistant\nc"}, ["assistant", "user", "assistant"]),
    ({"completion": "a", "transcript": 3, "model": None}, []),
]


@pytest.mark.parametrize(("event", "roles"), EVENTS)
def test_turns_are_read_from_events_of_every_form(run_builder, make, event, roles):
    run_builder.begin(make.step("check", "eval", params=WORLD))
    path = run_builder.work("check") / "record" / "events.jsonl"
    path.write_text(json.dumps({"kind": "sample", "step": 0, "prompt": TRANSCRIPT[:1], **event}) + "\n")
    (sample,) = run_builder.record().steps[0].events.samples
    assert [turn.role for turn in sample.turns] == roles
    assert sample.prompt == "A number from 1 to 9."
    assert sample.model == ""
    assert "check" in run_builder.page()


def test_a_stage_without_an_environment_has_plain_completions(run_builder, make):
    run_builder.begin(make.step("check", "eval"))
    said = {"step": 0, "prompt": "p", "completion": "a\nuser\nb", "values": {}}
    run_builder.work("check", [("sample", said)])
    (sample,) = run_builder.record().steps[0].events.samples
    assert sample.turns == ()
    assert sample.completion == "a\nuser\nb"


def test_calls_and_reasoning_are_folded_and_bounded():
    call = ToolCall(name="<add>", arguments="x" * 1000)
    turn = Turn(role="assistant", text="done", calls=(call,) * 30, reasoning="think <b>")
    found = render_turns([turn], 500, episode=False)
    assert found.count("<summary>Tool call: &lt;add&gt;</summary>") == 20
    assert "10 more calls are not shown" in found
    assert "Reasoning, 2 words" in found
    assert "think &lt;b&gt;" in found
    assert "x" * 501 not in found


def test_a_prompt_of_messages_shows_the_roles(make):
    prompt = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "1+1="}]
    sample = make_sample({"prompt": prompt, "completion": "2", "values": {}}, False)
    card = str(shown(make, sample))
    assert "Prompt, 2 messages" in card
    assert [card.index(f"<h4>{role}</h4>") for role in ("System", "User")] == sorted(
        card.index(f"<h4>{role}</h4>") for role in ("System", "User")
    )
    assert "<pre" in card
