"""The ready redaction hook: e-mail addresses, phone and card numbers, keys and tokens.

It goes by form, so it finds what looks like one and not what is one: `[email]`, `[phone]`, `[card]`, `[key]` stand for
what was there. It would rather take a number too many than leave one. Names of people, streets and dates of birth have
no form; they need a hook of the service's own.

* **e-mail**: NAME@HOST.TLD, `%40` for @ as in URLs
* **card**: 13-19 digits, in groups or not, that begin like a payment card and pass Luhn's check
* **phone**: with + or 00 and 8-15 digits; with a bracketed area code; 3-3-4 digits; groups that begin with 0 and have
  9-12 digits
* **keys and tokens**: private keys in PEM, JSON web tokens, user and password in a URL, what follows a name such as
  password, token or api_key and : or =, `Bearer ...`, the known prefixes (sk-, ghp_, xoxb-, AKIA, AIza, ...), and any
  unbroken 40 characters or more that mix capitals, small letters and digits

In ids only e-mail addresses and keys are looked for: an id of digits is not a card. Every pattern takes time linear in
the length of the text, whatever it holds.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import Final

from tracejudge_sdk.record_texts import ID_FIELDS

EMAIL: Final = "[email]"
PHONE: Final = "[phone]"
CARD: Final = "[card]"
KEY: Final = "[key]"

# A host after an @; the name before it is taken by walking back, since a pattern that begins with it tries every start.
_HOST: Final = re.compile(r"(?:@|%40)(?:[\w-]{1,63}\.){1,8}[\w-]{2,63}")
_LOCAL: Final = re.compile(r"[\w.!#$%'*+^`{|}~-]")

_GAP: Final = r"[ \u00a0\u2007\u2009\u202f\u2010-\u2015-]"
_DIGITS: Final = re.compile(rf"(?<!\w)\d(?:{_GAP}?\d){{12,}}(?!\w)")
_CARD_DIGITS: Final = (13, 19)
_CARD_STARTS: Final = frozenset("23456")
_GROUP: Final = re.compile(r"\d+")

_PHONE: Final = re.compile(
    rf"""
    (?<![\w.+/-])(?:
        (?:\+|00)[1-9](?:[ ()./\u00a0\u202f-]{{0,2}}\d){{7,14}}
      | (?:\+?\d{{1,3}}[ .-]?)?\((?:0\d{{1,4}}|\d{{3}})\)[ .-]?\d{{2,4}}(?:{_GAP}?\d{{2,4}}){{1,3}}
      | (?:1[ .-])?\d{{3}}([ .-])\d{{3}}\1\d{{4}}
      | 0\d{{8,11}}
      | 0\d{{1,4}}[ /-]\d{{5,9}}
      | 0\d{{1,4}}([ /.-])\d{{2,4}}(?:\2\d{{2,4}}){{1,4}}
    )(?![\w-])
    """,
    re.VERBOSE,
)
_FEWEST_DIGITS: Final = 9  # of a number that begins with 0; a date such as 01.02.2026 has eight

_PEM: Final = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----.*?"
    r"(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|\Z)",
    re.DOTALL,
)
_CREDENTIALS: Final = re.compile(r"(?<=://)[^\s/@:]{0,200}:[^\s/@]{1,200}(?=@)")
_NAMED: Final = re.compile(
    r"""
    (?<![A-Za-z])(
        (?:[A-Za-z0-9]{1,20}[_-]){0,3}
        (?:api[_ -]?key|access[_ -]?key(?:[_ -]?id)?|secret(?:[_ -]?key)?|auth[_ -]?token|token|passwd|password|pwd
          |passphrase|client[_ -]?secret|private[_ -]?key|credentials?)
        ["']?\s{0,3}[:=]\s{0,3}
    )
    (?:"[^"\n]{1,400}"|'[^'\n]{1,400}'|["']?[^\s"',;&<>]{4,400})
    """,
    re.VERBOSE | re.IGNORECASE,
)
_BEARER: Final = re.compile(r"(?<![A-Za-z])((?:Bearer|Basic)\s{1,3})[A-Za-z0-9._~+/=-]{8,}", re.IGNORECASE)
_TOKEN: Final = re.compile(
    r"""
    (?<![A-Za-z0-9])(?:
        eyJ[A-Za-z0-9_-]{10,}(?:\.[A-Za-z0-9_-]*){0,4}
      | (?:sk|pk|rk)[-_][A-Za-z0-9_-]{16,}
      | gh[pousr]_[A-Za-z0-9]{16,} | github_pat_[A-Za-z0-9_]{16,} | glpat-[A-Za-z0-9_-]{16,}
      | xox[a-z]-[A-Za-z0-9-]{8,} | xapp-[A-Za-z0-9-]{8,}
      | (?:AKIA|ASIA|AGPA|AIDA|AROA)[A-Z0-9]{12,}
      | AIza[A-Za-z0-9_-]{20,} | ya29\.[A-Za-z0-9_-]{10,}
      | (?:hf|npm|dop_v1|shpat|shpss|lsv2_pt|lsv2_sk|r8|gsk|tvly)[-_][A-Za-z0-9_]{16,}
      | pypi-[A-Za-z0-9_-]{16,} | SG\.[A-Za-z0-9_-]{10,}(?:\.[A-Za-z0-9_-]+)?
    )
    """,
    re.VERBOSE,
)
_LONG: Final = re.compile(r"[A-Za-z0-9_-]{40,}|(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{40}(?![A-Za-z0-9+/])")
_TOKEN_HINT: Final = re.compile(r"[A-Za-z0-9_+/-]{8}")


def mask_personal_data(text: str, field: str = "") -> str:
    """The text with everything of these forms masked. `field` is the name of the field it stands in."""
    text = _keys(text)
    text = _emails(text)
    if field in ID_FIELDS:
        return text
    if _has_digits(text):
        text = _DIGITS.sub(_cards, text)
        text = _PHONE.sub(_phone, text)
    return text


def _keys(text: str) -> str:
    if "-----BEGIN" in text:
        text = _PEM.sub(KEY, text)
    if "://" in text:
        text = _CREDENTIALS.sub(KEY, text)
    if ":" in text or "=" in text:
        text = _NAMED.sub(rf"\1{KEY}", text)
    if _TOKEN_HINT.search(text):
        text = _BEARER.sub(rf"\1{KEY}", text)
        text = _TOKEN.sub(KEY, text)
        text = _LONG.sub(_long, text)
    return text


def _long(match: re.Match[str]) -> str:
    found = match.group()
    mixed = any(map(str.isupper, found)) and any(map(str.islower, found)) and any(map(str.isdigit, found))
    return KEY if mixed else found


def _emails(text: str) -> str:
    if "@" not in text and "%40" not in text:
        return text
    kept: list[str] = []
    end = 0
    for match in _HOST.finditer(text):
        start = match.start()
        while start > end and _LOCAL.match(text[start - 1]):
            start -= 1
        if start < match.start():
            kept.append(text[end:start])
            kept.append(EMAIL)
            end = match.end()
    return "".join([*kept, text[end:]]) if kept else text


def _phone(match: re.Match[str]) -> str:
    found = match.group()
    digits = sum(map(str.isdigit, found))
    return found if found[0] == "0" and digits < _FEWEST_DIGITS else PHONE


def _cards(match: re.Match[str]) -> str:
    """The run of digits with each stretch of whole groups masked that makes a card number."""
    run = match.group()
    groups = [(group.start(), group.end()) for group in _GROUP.finditer(run)]
    digits = "".join(run[start:end] for start, end in groups)
    sums = _luhn_sums(digits)
    ends = list(itertools.accumulate(end - start for start, end in groups))  # in digits, where each group ends
    kept: list[str] = []
    end = first = 0
    while first < len(groups):
        begin = ends[first - 1] if first else 0
        last = _last_group(ends, sums, begin, first) if digits[begin] in _CARD_STARTS else None
        if last is None:
            first += 1
            continue
        kept += (run[end : groups[first][0]], CARD)
        end, first = groups[last][1], last + 1
    return "".join([*kept, run[end:]])


def _last_group(ends: list[int], sums: tuple[list[int], list[int]], begin: int, first: int) -> int | None:
    found: int | None = None
    for group in range(first, len(ends)):
        length = ends[group] - begin
        if length > _CARD_DIGITS[1]:
            break
        parity = (ends[group] - 1) % 2  # the last digit is not doubled
        if length >= _CARD_DIGITS[0] and (sums[parity][ends[group]] - sums[parity][begin]) % 10 == 0:
            found = group
    return found


def _luhn_sums(digits: str) -> tuple[list[int], list[int]]:
    """Luhn's check (ISO/IEC 7812-1, annex B) as running sums: every second digit from the right is doubled, all digits
    are added, and 10 divides what comes out. The first list doubles those at odd places, the second at even ones.
    """
    plain = [int(digit) for digit in digits]
    doubled = [digit * 2 - 9 if digit > 4 else digit * 2 for digit in plain]
    odd, even = [0], [0]
    for place, (one, two) in enumerate(zip(plain, doubled, strict=True)):
        odd.append(odd[-1] + (two if place % 2 else one))
        even.append(even[-1] + (one if place % 2 else two))
    return odd, even


_has_digits: Final[Callable[[str], object]] = re.compile(r"\d[^a-zA-Z]{0,20}\d").search
