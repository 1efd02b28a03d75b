"""The pages of a server: each has a feed that all of its clients share. Feeds nobody uses are dropped."""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from posttrain.runtime.store.home import Home
from posttrain.runtime.ui.live_feed import LiveFeed
from posttrain.runtime.ui.log_excerpt import read_log_excerpt
from posttrain.runtime.ui.resource_usage import GpuMonitor
from posttrain.runtime.ui.run_index import RunIndex, RunPlace, RunQuery
from posttrain.runtime.ui.run_owner import StopRefused, request_stop
from posttrain.runtime.ui.runs_page import runs_blocks, runs_document

if TYPE_CHECKING:
    from posttrain.runtime.comparison.recipe_differences import CompareRecipes
    from posttrain.runtime.ui.live_run import LiveRun

_LIST_SECONDS, _RUN_SECONDS = 3.0, 2.0
# Pages that are kept, with the curves that they have read.
_MAX_PAGES = 24


@dataclass(frozen=True)
class _RunPage:
    live: "LiveRun"
    feed: LiveFeed


class LivePages:
    def __init__(self, homes: Sequence[Home], compare_recipes: "CompareRecipes") -> None:
        self.index = RunIndex(homes)
        self._compare_recipes = compare_recipes
        threading.Thread(target=self.index.read_all, daemon=True).start()
        self._gpus = GpuMonitor()
        self._lock = threading.Lock()
        self._lists: OrderedDict[RunQuery, LiveFeed] = OrderedDict()
        self._runs: OrderedDict[RunPlace, _RunPage] = OrderedDict()
        # Also of pages that were dropped: a second request would not wait for checkpoints.
        self._stops: set[RunPlace] = set()

    def list_feed(self, query: RunQuery) -> LiveFeed:
        with self._lock:
            feed = self._lists.get(query)
            if feed is None:
                homes = self.index.homes
                feed = LiveFeed(
                    lambda: runs_blocks(self.index.select(query), query, homes), seconds=_LIST_SECONDS
                )
            _remember(self._lists, query, feed)
            return feed

    def list_document(self, query: RunQuery) -> str:
        feed = self.list_feed(query)
        feed.refresh()
        return runs_document(*feed.page(), query, self.index.homes)

    def run_feed(self, place: RunPlace) -> LiveFeed:
        return self._run_page(place).feed

    def run_document(self, place: RunPlace) -> str:
        page = self._run_page(place)
        page.feed.refresh()
        return page.live.document(*page.feed.page())

    def comparison_document(self, places: Sequence[RunPlace]) -> str:
        from posttrain.runtime.ui.compared_runs import comparison_document

        homes = self.index.homes
        runs = [(homes[place.home], self.index.folder(place)) for place in places]
        return comparison_document(places, runs, self._compare_recipes)

    def log_excerpt(self, place: RunPlace, step: str, start: int) -> dict[str, Any]:
        page = self._run_page(place)
        live = page.live
        if live.secrets is None:
            page.feed.refresh()
        if live.secrets is None:
            return {"text": "", "next": 0, "size": 0, "problem": "the run cannot be shown"}
        return read_log_excerpt(live.home, live.folder, step, start, live.secrets)

    def stop(self, place: RunPlace) -> None:
        """Stop a run at the next checkpoints of its steps. Raises `StopRefused`."""
        page = self._run_page(place)
        if not page.live.begin_stop():
            raise StopRefused("the run is stopping already; a second request would not wait for checkpoints")
        try:
            request_stop(page.live.home, page.live.folder)
        except StopRefused:
            page.live.end_stop()
            raise
        self._stops.add(place)
        page.feed.expire()

    def _run_page(self, place: RunPlace) -> _RunPage:
        from posttrain.runtime.ui.live_run import LiveRun  # the whole report, which the list does not need

        with self._lock:
            page = self._runs.get(place)
            if page is None:
                live = LiveRun(self.index.homes[place.home], self.index.folder(place), self._gpus)
                if place in self._stops:
                    live.begin_stop()
                page = _RunPage(live, LiveFeed(live.blocks, seconds=_RUN_SECONDS))
            _remember(self._runs, place, page)
            return page


def _remember(pages: "OrderedDict[Any, Any]", name: object, page: object) -> None:
    """Keep a page as the last one used, and drop those that were not used for long."""
    pages[name] = page
    pages.move_to_end(name)
    while len(pages) > _MAX_PAGES:
        pages.popitem(last=False)
