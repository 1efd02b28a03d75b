"""What a client receives after the revision that it has."""

import json

from posttrain.runtime.ui.live_feed import LiveFeed


class Page:
    def __init__(self) -> None:
        self.blocks = {"one": "<p>1</p>", "two": "<p>2</p>"}
        self.renderings = 0

    def render(self):
        self.renderings += 1
        return dict(self.blocks)


def changed(feed: LiveFeed, after: str):
    feed.expire()
    feed.refresh()
    found = feed.changes(after)
    return None if found is None else (json.loads(found[0])["blocks"], found[1])


def test_only_what_changed_is_sent():
    page = Page()
    feed = LiveFeed(page.render, seconds=0)
    feed.refresh()
    blocks, first = feed.page()
    assert blocks == page.blocks
    assert changed(feed, first) is None
    page.blocks["two"] = "<p>3</p>"
    found, second = changed(feed, first) or ({}, "")
    assert found == {"two": "<p>3</p>"}
    assert changed(feed, second) is None
    page.blocks["new"] = "<p>4</p>"
    found, third = changed(feed, second) or ({}, "")
    assert found == {"new": "<p>4</p>"}
    # A client that was away for two changes.
    found, _ = changed(feed, first) or ({}, "")
    assert found == {"two": "<p>3</p>", "new": "<p>4</p>"}
    del page.blocks["one"]
    feed.expire()
    feed.refresh()
    order = json.loads((feed.changes(third) or ("", ""))[0])["order"]
    assert order == ["two", "new"]


def test_a_revision_of_another_server_gets_everything():
    page = Page()
    feed = LiveFeed(page.render, seconds=0)
    for unknown in ("", "beef-1", "beef-999", "\x00", "-"):
        found, _ = changed(feed, unknown) or ({}, "")
        assert found == page.blocks


def test_a_page_is_rendered_once_per_interval():
    page = Page()
    feed = LiveFeed(page.render, seconds=1000)
    for _ in range(5):
        feed.refresh()
    assert page.renderings == 1
    assert 990 < feed.seconds_left() <= 1000
    feed.expire()
    feed.refresh()
    assert page.renderings == 2
