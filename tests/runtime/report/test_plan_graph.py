import re
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from posttrain.runtime.report.graph_layout import compute_layout, node_levels
from posttrain.runtime.report.plan_graph import ellipsize, plan_section
from posttrain.runtime.report.step_graph import MAX_NODES, build_step_graph, step_edges


@st.composite
def graphs(draw):
    count = draw(st.integers(0, 14))
    nodes = [f"n{place}" for place in range(count)]
    pairs = [(a, b) for place, a in enumerate(nodes) for b in nodes[place + 1 :]]
    return nodes, draw(st.lists(st.sampled_from(pairs), max_size=40)) if pairs else []


@given(graphs())
def test_any_graph_is_laid_out_without_overlaps(graph):
    nodes, edges = graph
    layout = compute_layout(nodes, edges, 60.0, 16.0)
    assert set(layout.level) == set(layout.y) == set(nodes)
    for a, b in edges:
        assert layout.level[a] < layout.level[b]
        route = layout.edges[a, b]
        assert (route[0][1], route[-1][1]) == (layout.y[a], layout.y[b])
        assert [level for level, _ in route] == list(range(layout.level[a], layout.level[b] + 1))
    for level in range(layout.levels):
        heights = sorted(layout.y[node] for node in nodes if layout.level[node] == level)
        assert all(below - above >= 60.0 - 1e-6 for above, below in pairwise(heights))
        assert all(y - 30.0 >= -1e-6 and y + 30.0 <= layout.height + 1e-6 for y in heights)


def test_a_source_stands_just_before_its_first_use():
    edges = [("a", "b"), ("b", "c"), ("data", "c")]
    assert node_levels(["data", "a", "b", "c"], edges) == {"a": 0, "b": 1, "data": 1, "c": 2}


def test_edges_of_one_node_share_their_lanes():
    nodes = ["data", "a", "b", "c", "d"]
    edges = [("data", "a"), ("a", "b"), ("b", "c"), ("c", "d"), ("data", "c"), ("data", "d")]
    layout = compute_layout(nodes, edges, 60.0, 16.0)
    assert layout.edges["data", "c"][1:-1] == layout.edges["data", "d"][1:3]


def test_a_dependence_that_points_backwards_is_left_out(make):
    run = make.run(make.step("a", inputs=("b",)), make.step("b"), make.step("c", inputs=("gone",)))
    assert step_edges(run.steps) == ([], frozenset())


def test_a_gate_is_joined_only_to_what_its_own_steps_do_not_lead_to(make):
    run = make.run(
        make.step("sft"),
        make.step("ship", "gate", inputs=("sft",)),
        make.step("export", "export", inputs=("sft",), gates=("ship",)),
        make.step("check", "eval", inputs=("export",), gates=("ship",)),
    )
    edges, barriers = step_edges(run.steps)
    assert barriers == {("ship", "export")}
    assert ("ship", "check") not in edges


def legs(make, count):
    steps = [make.step("base", "model")]
    for leg in range(count):
        steps += [
            make.step(f"sft-{leg}", inputs=("base",)),
            make.step(f"eval-{leg}", "eval", inputs=(f"sft-{leg}",)),
        ]
    return make.run(*steps)


def drawings(run):
    """The graph from left to right, and from the top down."""
    return re.findall('<svg class="plan (?:along|down)".*?</svg>(?!</g>)', plan_section(run), re.DOTALL)


def places(drawn):
    """Where the boxes are, by title."""
    found = re.findall(r'<g class="box[^>]*translate\(([\d.]+) ([\d.]+)\)"><title>([^:]*):', drawn)
    return {title: (float(x), float(y)) for x, y, title in found}


def test_a_narrow_page_has_the_levels_below_each_other(make):
    along, down = map(places, drawings(legs(make, 2)))
    assert set(along) == set(down) == {"base", "sft-0", "sft-1", "eval-0", "eval-1"}
    assert along["base"][0] < along["sft-0"][0] == along["sft-1"][0] < along["eval-0"][0]
    assert down["base"][1] < down["sft-0"][1] == down["sft-1"][1] < down["eval-0"][1]
    assert abs(down["sft-0"][0] - down["sft-1"][0]) > 96
    edges = re.findall('class="edge" d="([^"]+)"|d="([^"]+)" class="edge"', drawings(legs(make, 2))[1])
    starts = {tuple(float(n) for n in (a or b)[1:].split("C")[0].split()) for a, b in edges}
    bottom = {(x, y + 46) for x, y in down.values()}
    assert {y for _, y in starts} <= {y for _, y in bottom}


def test_a_small_plan_is_drawn_step_by_step(make):
    run = legs(make, 4)
    assert [box.title for box in build_step_graph(run.steps).nodes] == [record.id for record in run.steps]
    along, down = drawings(run)
    for drawn in (along, down):
        assert drawn.count('class="shape"') == 9
        assert drawn.count('class="edge"') == 8
    assert 'class="map"' not in plan_section(run)


def test_many_like_steps_are_drawn_as_groups_with_a_map_of_all(make):
    run = legs(make, 500)
    flow = build_step_graph(run.steps)
    assert [box.title for box in flow.nodes] == ["base", "train \u00d7 500", "eval \u00d7 500"]
    assert [len(box.members) for box in flow.nodes] == [1, 500, 500]
    assert [drawn.count('class="edge"') for drawn in drawings(run)] == [2, 2]
    assert plan_section(run).count('class="cell') == 1001


def test_a_chain_too_long_to_draw_is_mapped(make):
    steps = [make.step("s0")] + [make.step(f"s{n}", inputs=(f"s{n - 1}",)) for n in range(1, 1000)]
    run = make.run(*steps)
    assert len(run.steps) > MAX_NODES
    assert build_step_graph(run.steps) is None
    drawn = plan_section(run)
    assert '<svg class="plan' not in drawn
    assert drawn.count('class="cell') == drawn.count('class="level"') == 1000


def test_one_step_and_none(make):
    assert [drawn.count('class="shape"') for drawn in drawings(make.run(make.step("only")))] == [1, 1]
    assert "The steps of this run are not known" in plan_section(make.run())


def test_a_gate_is_pointed_and_shows_its_verdict(make):
    from dataclasses import replace

    gate = make.run(make.step("ship", "gate")).steps[0]
    drawn = plan_section(make.run(replace(gate, facts={"verdict": "fail"})))
    assert "<polygon" in drawn
    assert "gate \u00b7 fail" in drawn
    assert 'class="box s-fail"' in drawn


@given(st.text(max_size=40), st.integers(1, 30))
def test_a_shortened_name_has_room_and_keeps_both_ends(words, room):
    found = ellipsize(words, room)
    assert len(found) <= max(3, room)
    if len(words) > room:
        assert found[0] == words[0]
        assert "\u2026" in found
