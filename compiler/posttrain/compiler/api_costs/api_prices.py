"""The price of an endpoint: from the recipe, or from the table of list prices with its date."""

import re
from typing import NamedTuple

from posttrain.compiler.facts.fact_tables import load_table
from posttrain.spec.declarations import Endpoint

# A dated release of a model: gpt-4o-2024-08-06, claude-sonnet-4-5-20250929, claude-3-5-haiku-latest.
_RELEASE = re.compile(r"-(\d{4}-\d{2}-\d{2}|\d{8}|latest)$")


class ApiPrice(NamedTuple):
    """Dollars per million tokens."""

    input: float
    output: float
    source: str

    def dollars(self, input_tokens: float, output_tokens: float) -> float:
        return (input_tokens * self.input + output_tokens * self.output) / 1e6


def find_price(endpoint: Endpoint) -> ApiPrice | None:
    """Return the price of an endpoint, or None if neither the recipe nor the table has it."""
    if endpoint.price is not None:
        return ApiPrice(endpoint.price.input, endpoint.price.output, "the recipe's price")
    provider = load_table("api_prices").get(endpoint.provider)
    if provider is None or endpoint.base_url is not None:  # another server has its own prices
        return None
    prices = provider["models"]
    found = prices.get(endpoint.model) or prices.get(_RELEASE.sub("", endpoint.model))
    return ApiPrice(*found, source=f"list price of {provider['as_of']}") if found else None


def unknown_price_reason(name: str, endpoint: Endpoint) -> str:
    """Return why the price is unknown, and how to declare it."""
    return (
        f"no price of `{endpoint.model}` is known: set `endpoints.{name}.price: {{input: X, output: Y}}`, in"
        " dollars per million tokens"
    )
