"""Decides whether a request comes from the user of this server.

The token is in the path of each URL, not in a cookie: a browser sends cookies of 127.0.0.1 to every port, and
adds them to requests of other sites. A site that does not know the token can therefore send nothing useful.
"""

import hmac
import re
import secrets
from collections.abc import Mapping

# A name that a site can resolve to this machine (DNS rebinding) is not among them. The port can be that of an
# SSH tunnel.
_HOST = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:\d{1,5})?", re.ASCII)


def new_token() -> str:
    return secrets.token_urlsafe(24)


def refusal(method: str, path: str, headers: Mapping[str, str], token: str) -> str | None:
    """Why a request is refused; None if it is allowed."""
    host = headers.get("Host") or ""
    if not _HOST.fullmatch(host):
        return "the name of the host is not that of this machine"
    given = path.split("/", 2)[1] if path.startswith("/") else ""
    if not hmac.compare_digest(given.encode("utf-8", "replace"), token.encode()):
        return "the token is missing or from another start: open the address that `recipe ui` printed"
    if method == "POST" and headers.get("Origin") != f"http://{host}":
        return "another site sent this request"
    return None
