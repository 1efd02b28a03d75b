"""Sends the requests for one repository: authentication, proxies, redirects, retries, mirrors.

Several threads can use a session.
"""

import threading
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager

import httpx

from posttrain.runtime.connection_errors import explain_connection_error, parse_retry_after
from posttrain.runtime.environment_proxies import proxy_for
from posttrain.runtime.registry.docker_credentials import (
    basic_header,
    parse_challenge,
    stored_credentials,
)
from posttrain.runtime.registry.registry_errors import RETRIED_STATUSES, RegistryError, refusal
from posttrain.runtime.registry.registry_hosts import Endpoint, tls_context
from posttrain.runtime.registry.response_body import read_start
from posttrain.runtime.registry.token_request import fetch_token
from posttrain.spec.version import VERSION

_TIMEOUT = httpx.Timeout(60, connect=20)
_ATTEMPTS = 5
_MAX_WAIT_SECONDS = 60
_MAX_REDIRECTS = 5
_MAX_ERROR_BYTES = 1 << 16
_TLS_ADVICE = "set `insecure = true` for it in registries.conf"
# A new iterator over the body for each attempt.
Body = Callable[[], Iterable[bytes]]


class RegistrySession:
    """The connections to one server, with the authorization for one repository."""

    def __init__(self, endpoint: Endpoint, name: str) -> None:
        self.endpoint = endpoint
        self.name = endpoint.repository(name)
        # Other repositories that an upload may mount blobs from: a token must name them.
        self.mounted_repositories: list[str] = []
        self._clients: dict[str | None, httpx.Client] = {}
        self._authorization = ""
        self._lock = threading.Lock()
        self._token_lock = threading.Lock()
        self._cancelled = threading.Event()

    def cancel(self) -> None:
        """Make the requests of all threads fail, at their next piece of a body or pause."""
        self._cancelled.set()

    def close(self) -> None:
        for client in self._clients.values():
            client.close()
        self._clients.clear()

    def url(self, path: str) -> str:
        return f"{self.endpoint.address}/v2/{self.name}/{path}"

    def resolve(self, location: str, base: str = "") -> httpx.URL:
        """The URL in a header of a response, which can be relative."""
        try:
            return self._parse(str(httpx.URL(base or self.endpoint.address).join(location)))
        except httpx.InvalidURL:
            return self._parse("")

    @contextmanager
    def open(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        params: Mapping[str, str] | None = None,
        body: Body | None = None,
        accepted: tuple[int, ...] = (200,),
        attempts: int = _ATTEMPTS,
    ) -> Generator[httpx.Response]:
        """Send a request and yield its response, whose body is not yet read.

        Transient failures are retried, and an authorization is obtained when the registry asks for one.
        Raises RegistryError for a status that is not in `accepted`.
        """
        target = self._parse(url)
        target = target.copy_merge_params(params) if params else target
        response = self._send_with_retries(method, target, dict(headers or {}), body, accepted, attempts)
        try:
            if response.status_code not in accepted:
                content = read_start(response, _MAX_ERROR_BYTES)
                raise refusal(self.endpoint.host, self.name, response.status_code, content)
            yield response
        except httpx.HTTPError as error:
            raise self._unreachable(error) from None
        finally:
            response.close()

    def _send_with_retries(
        self,
        method: str,
        url: httpx.URL,
        headers: dict[str, str],
        body: Body | None,
        accepted: tuple[int, ...],
        attempts: int,
    ) -> httpx.Response:
        for attempt in range(1, attempts + 1):
            try:
                response = self._send_authorized(method, url, headers, body)
            except httpx.HTTPError as error:
                if attempt == attempts or not _is_transient(error):
                    raise self._unreachable(error) from None
                pause = 0.0
            else:
                retried = response.status_code in RETRIED_STATUSES and response.status_code not in accepted
                if attempt == attempts or not retried:
                    return response
                pause = parse_retry_after(response.headers.get("retry-after")) or 0.0
                response.close()
            self._pause(min(_MAX_WAIT_SECONDS, max(pause, 0.25 * 2 ** (attempt - 1))))
        raise AssertionError("the last attempt returns or raises")

    def _send_authorized(
        self, method: str, url: httpx.URL, headers: dict[str, str], body: Body | None
    ) -> httpx.Response:
        response = self._follow(method, url, headers, body)
        if response.status_code != 401 or not self._is_own(response.request.url):
            return response
        header = response.headers.get("www-authenticate", "")
        content = read_start(response, _MAX_ERROR_BYTES)
        response.close()
        with self._token_lock:  # a later token names all repositories of an earlier one
            self._authorization = self._authorize(header, content)
        return self._follow(method, url, headers, body)

    def _pause(self, seconds: float) -> None:
        if self._cancelled.wait(seconds):
            raise self._cancellation()

    def _pieces(self, body: Body) -> Generator[bytes]:
        for piece in body():
            if self._cancelled.is_set():
                raise self._cancellation()
            yield piece

    def _cancellation(self) -> RegistryError:
        return RegistryError(f"the requests to {self.endpoint.host} are cancelled", "run the command again")

    def _follow(
        self, method: str, url: httpx.URL, headers: dict[str, str], body: Body | None
    ) -> httpx.Response:
        """Send a request, and follow redirects of reads: registries keep blobs at object stores."""
        for _ in range(_MAX_REDIRECTS):
            response = self._send(method, url, headers, body)
            location = response.headers.get("location")
            if method not in ("GET", "HEAD") or not response.is_redirect or not location:
                return response
            response.close()
            url = self.resolve(location, str(url))
        raise RegistryError(f"{self.endpoint.host} redirects {self.name} in circles", "try again later")

    def _send(
        self, method: str, url: httpx.URL, headers: dict[str, str], body: Body | None
    ) -> httpx.Response:
        client = self._client(url)
        given = {"User-Agent": f"posttrain/{VERSION}", "Accept-Encoding": "identity", **headers}
        if self._authorization and self._is_own(url):
            given["Authorization"] = self._authorization
        content = self._pieces(body) if body else None
        request = client.build_request(method, url, headers=given, content=content)
        try:
            return client.send(request, stream=True, auth=None)
        except (UnicodeError, ValueError) as error:  # a name that DNS cannot have, no such port
            raise httpx.UnsupportedProtocol(f"{url.host} is not the name of a server: {error}") from None

    def _is_own(self, url: httpx.URL) -> bool:
        """Whether a URL is at this registry: others do not get its authorization."""
        own = httpx.URL(self.endpoint.address)
        return (url.scheme, url.host, url.port) == (own.scheme, own.host, own.port)

    def _client(self, url: httpx.URL) -> httpx.Client:
        proxy = proxy_for(str(url))
        with self._lock:
            if proxy not in self._clients:
                self._clients[proxy] = self._new_client(proxy)
            return self._clients[proxy]

    def _new_client(self, proxy: str | None) -> httpx.Client:
        trusted = tls_context(self.endpoint.host)
        try:
            return httpx.Client(
                verify=trusted, proxy=proxy, trust_env=False, timeout=_TIMEOUT, follow_redirects=False
            )
        except (ValueError, httpx.InvalidURL):
            message = "the proxy in the environment cannot be used"  # its URL can contain a password
            advice = "set HTTP_PROXY, HTTPS_PROXY or ALL_PROXY to a URL such as http://HOST:PORT"
            raise RegistryError(message, advice) from None

    def _authorize(self, header: str, content: bytes) -> str:
        """The Authorization header that a challenge asks for. `content` is the body of the response."""
        user = stored_credentials(self.endpoint.host)
        challenge = parse_challenge(header)
        if challenge.scheme != "bearer":
            if user.basic is None:
                raise refusal(self.endpoint.host, self.name, 401, content, user.problem)
            return basic_header(user.basic)
        realm = self._parse(challenge.realm)
        scopes = [challenge.scope or f"repository:{self.name}:pull"]
        scopes += [f"repository:{name}:pull" for name in self.mounted_repositories]
        try:
            return fetch_token(self.endpoint, self._client(realm), realm, challenge.service, scopes, user)
        except httpx.HTTPError as error:
            raise self._unreachable(error) from None

    def _parse(self, url: str) -> httpx.URL:
        """The URL that a registry names; or that of a registry whose host passed no check of ours."""
        try:
            parsed = httpx.URL(url)
        except httpx.InvalidURL:
            parsed = httpx.URL("")
        if parsed.scheme not in ("http", "https") or not parsed.host:
            message = f"cannot reach the registry {self.endpoint.host}: it names an address that is no URL"
            raise RegistryError(message, "check the address of the registry")
        return parsed

    def _unreachable(self, error: Exception) -> RegistryError:
        cause = explain_connection_error(error, _TLS_ADVICE)
        message = f"cannot reach the registry {self.endpoint.host}: {cause}"
        return RegistryError(message, "check the network and try again", retriable=True)


def _is_transient(error: httpx.HTTPError) -> bool:
    """Whether another attempt can succeed. A certificate that is not trusted stays so."""
    import ssl

    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLError):
            return isinstance(cause, ssl.SSLEOFError | ssl.SSLZeroReturnError)
        cause = cause.__cause__ or cause.__context__
    return isinstance(error, httpx.TransportError) and not isinstance(error, httpx.UnsupportedProtocol)
