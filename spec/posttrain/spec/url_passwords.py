"""Masks the passwords and tokens in URLs, such as https://user:PASSWORD@host."""

import re

# A password extends to the last `@` before the path. The user of an HTTP URL without a password can be a
# token. A normalized path has one slash after the scheme.
_CREDENTIALS = re.compile(
    r"""(?P<head>\b[a-z][a-z0-9+.-]*://?[^\s/:@"'`]*:)(?P<secret>[^\s/"'`]+)@"""
    r"""|(?P<scheme>\bhttps?://?)(?P<token>[^\s/:@"'`]+)@""",
    re.IGNORECASE,
)
# Keys in the query of a URL, and credentials without a scheme, such as me:PASSWORD@host.com/image.
# Other text can have this form as well: it is masked where it is shown, and is no error.
_POSSIBLE = re.compile(
    r"""(?P<head>[?&](?:[\w-]{0,40}(?:key|token|secret|password|signature)|sig)=)(?P<secret>[^\s&#"'`]+)"""
    r"""|(?P<user>(?<![\w./:+@-])[\w.+-]{1,64}:)(?P<word>[^\s/:@"'`,{}\[\]]+)@(?=[\w-]+(?:\.[\w-]+)+[:/])""",
    re.IGNORECASE,
)


def mask_url_passwords(text: str, *, same_length: bool = False) -> str:
    """The text with stars in place of the passwords. With `same_length`, the columns do not change."""

    def stars(secret: str) -> str:
        return "*" * len(secret) if same_length else "***"

    def mask(found: re.Match[str]) -> str:
        return f"{found['head'] or found['scheme']}{stars(found['secret'] or found['token'])}@"

    def mask_possible(found: re.Match[str]) -> str:
        if found["head"]:
            return f"{found['head']}{stars(found['secret'])}"
        return f"{found['user']}{stars(found['word'])}@"

    if "@" in text and ":/" in text:
        text = _CREDENTIALS.sub(mask, text)
    return _POSSIBLE.sub(mask_possible, text) if "@" in text or "=" in text else text


def url_passwords(text: str) -> list[str]:
    """The passwords of the URLs in a text."""
    return [found["secret"] for found in _CREDENTIALS.finditer(text) if found["secret"]]
