"""The proxies of the environment: HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY, in either case."""

import os
from collections.abc import Mapping

PROXIES = ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


def proxy_for(url: str) -> str | None:
    """The URL of the proxy, or None for a direct connection. A proxy without a scheme speaks HTTP."""
    if not any(name in os.environ for name in PROXIES):  # saves a loop over all variables
        return None
    from urllib.parse import urlsplit
    from urllib.request import getproxies_environment, proxy_bypass

    proxies = getproxies_environment()
    parts = urlsplit(url)
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    host = parts.hostname or ""
    with_port = f"{host}:{parts.port}" if parts.port and ":" not in host else host
    if not proxy or proxy_bypass(with_port):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def exempt_loopback(variables: Mapping[str, str], *others: str) -> dict[str, str]:
    """NO_PROXY with the loopback interface and other hosts, if the variables of a worker name a proxy.

    Libraries that connect the processes of a step, as TRL connects to its vLLM server, must not ask the
    proxy for it.
    """
    if not any(name in variables for name in PROXIES):
        return {}
    exempt = variables.get("no_proxy") or variables.get("NO_PROXY", "")
    hosts = [host.strip() for host in exempt.split(",") if host.strip()]
    no_proxy = ",".join(dict.fromkeys([*hosts, *_LOOPBACK, *others]))
    return {"NO_PROXY": no_proxy, "no_proxy": no_proxy}
