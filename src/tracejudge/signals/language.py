"""A guess at the language of a text, from its script and its commonest words.

Scripts used by one large language decide at once (kana: Japanese, Hangul: Korean, ...); Latin and Cyrillic text is
decided by small lists of stop words made for this purpose. It says "" when unsure: short texts, mixed ones, languages
not on the lists. It is there to slice and to choose by; a judge that needs certainty asks for `Trace.language`.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple

from tracejudge.signals.beyond_ascii import beyond_ascii

LANGUAGE_CHARS: Final = 2_000
"""Enough for some 300 words; more text would not change the guess."""

_MIN_WORDS: Final = 2  # different ones: "die" alone belongs to several languages
MIN_SHARE: Final = 0.12  # of the words: running text of a listed language has 25 to 50 %
MIN_LEAD: Final = 1.25  # over the second language: neighbours share words

# Letters that name a script, and the language that a text mostly in it is taken for; checked in this order.
_SCRIPTS: Final[tuple[tuple[str, re.Pattern[str]], ...]] = tuple(
    (language, re.compile(letters))
    for language, letters in (
        ("ko", "[\uac00-\ud7af\u1100-\u11ff]"),
        ("zh", "[\u4e00-\u9fff\u3400-\u4dbf]"),
        ("th", "[\u0e01-\u0e4f]"),
        ("he", "[\u05d0-\u05ea]"),
        ("el", "[\u0370-\u03ff\u1f00-\u1fff]"),
        ("hi", "[\u0904-\u0963]"),
        ("bn", "[\u0985-\u09e3]"),
        ("ta", "[\u0b85-\u0bd7]"),
        ("te", "[\u0c05-\u0c63]"),
        ("ka", "[\u10d0-\u10ff]"),
        ("hy", "[\u0531-\u0587]"),
        ("arabic", "[\u0620-\u064a\u066e-\u06d3]"),
        ("cyrillic", "[\u0400-\u052f]"),
        ("latin", "[A-Za-z\u00c0-\u024f\u1e00-\u1eff]"),
    )
)
_KANA: Final = re.compile("[\u3041-\u30fa\u30fc-\u30ff]")
_PERSIAN: Final = re.compile("[\u067e\u0686\u0698\u06af\u06cc]")
_URDU: Final = re.compile("[\u0679\u0688\u0691\u06ba\u06d2\u06be]")
_UKRAINIAN: Final = re.compile("[іїєґ]")

STOP_WORDS: Final[dict[str, str]] = {
    "en": "the of and to in is that it for was with as are be this on not by at from or have you which they can will"
    " has an if your when there how what does",
    "de": "der die und das den von zu mit ist im nicht auf für ein eine des dem sich auch es werden wird sie sind oder"
    " bei aus einer einen kann als wie ich wenn nach über",
    "fr": "le la les des et du en un une que est pour dans qui sur au par pas plus avec ce sont il vous ne aux cette"
    " ou comme être votre peut nous je",
    "es": "el la los las de que y en un una es por con para se del al su como más lo pero sus este está son o"
    " cuando muy puede usted",
    "it": "il lo la gli le di che e è un una per con non del della dei sono si nel alla da come più anche ma questo"
    " questa può essere degli",
    "pt": "o os as de que e da em um uma para com não por mais dos das se na é ao como são ou à também você"
    " pelo pela seu sua",
    "nl": "de het een en van in is dat op te zijn met voor niet die er aan om ook als bij door wordt maar kan naar"
    " worden uw je",
    "sv": "och att det som en är på av för med till den har de inte om ett kan från eller du vi men var",
    "da": "og at det er en på af for med til den som har de ikke et kan fra eller du vi men var blev også",
    "no": "og at det er en på av for med til den som har de ikke et kan fra eller du vi men var ble også",
    "fi": "ja on ei se että oli joka myös tai kun mutta ovat hän sen voi kuin ole tämä mukaan",
    "pl": "w na z się nie że jest jak o od po przez dla są oraz ale lub być może który która",
    "cs": "v na se je že z pro jako by ale od které který nebo jsou být také není",
    "ro": "și în de la cu este pe un o nu să din pentru care că sunt mai sau dacă acest",
    "hu": "az és hogy nem egy ez van volt meg csak vagy de mint lehet kell ki azt",
    "tr": "ve bir bu için ile da de olarak çok daha gibi en ne kadar olan var ya değil olduğu sonra",
    "id": "yang dan di ini itu dengan untuk dari pada adalah tidak dalam akan ke atau juga anda oleh dapat",
    "vi": "và của là có cho không được trong một những với các người này để khi đã từ như bạn",
    "ru": "и в не на что с по как это для от или из к его вы при но то за о быть может если",
    "bg": "и в на не да се от за е че по с са като или при това може",
    "sr": "и у на је да се за не од су са као или по али то",
}
"""By language, its commonest short words, in lower case; outside English none that an English text is full of."""

_LATIN: Final = frozenset(STOP_WORDS) - {"ru", "bg", "sr"}
_LANGUAGES_OF: Final[dict[str, tuple[str, ...]]] = {
    word: tuple(language for language, words in STOP_WORDS.items() if word in words.split())
    for words in STOP_WORDS.values()
    for word in words.split()
}
ENGLISH: Final = frozenset(STOP_WORDS["en"].split())
_ALONE, _SHARED, _FOREIGN = 1, 2, 3
_KINDS: Final = {
    word: _ALONE if languages == ("en",) else _SHARED if "en" in languages else _FOREIGN
    for word, languages in _LANGUAGES_OF.items()
}
"""Whether a known word is English alone, English and another language's too, or only of others."""
_WORD: Final = re.compile(r"[^\W\d_]+")
_ASCII_LETTERS: Final = string.ascii_letters.encode()
_ASCII_OTHERS: Final = bytes(code for code in range(256) if code not in _ASCII_LETTERS)
_ASCII_WORDS: Final = bytes(code if code in _ASCII_LETTERS else 0x20 for code in range(256)).lower()
"""Of an ASCII byte its lower case, or a blank where it is no letter: cuts out words in a tenth of a pattern's time."""


def guess_language(text: str) -> str:
    """The language code (ISO 639-1) of the start of `text`, or "" when unsure."""
    start = text[:LANGUAGE_CHARS]
    if start.isascii():
        return _by_words(start, "latin")
    ascii_letters = len(start.encode("ascii", "ignore").translate(None, _ASCII_OTHERS))
    # ASCII holds no letter of the other scripts, and most texts are ASCII but for some quotation marks.
    others = beyond_ascii(start)
    if len(others) < ascii_letters:
        return _by_words(start, "latin")  # whatever the others are, they are fewer
    kana = len(_KANA.findall(others))
    counts = {language: len(letters.findall(others)) for language, letters in _SCRIPTS}
    counts["latin"] += ascii_letters
    letters = sum(counts.values()) + kana
    if letters == 0:
        return ""
    # Japanese mixes kana with Han; a fifth of kana tells it from Chinese with a borrowed name.
    if kana > 0.2 * (kana + counts["zh"]) and kana + counts["zh"] > 0.5 * letters:
        return "ja"
    script, count = max(counts.items(), key=lambda item: item[1])
    if count < 0.5 * letters:
        return ""
    if script == "arabic":
        return "ur" if _URDU.search(start) else "fa" if _PERSIAN.search(start) else "ar"
    if script == "cyrillic" and len(_UKRAINIAN.findall(start.lower())) > 0.01 * count:
        return "uk"
    return _by_words(start, script) if script in ("latin", "cyrillic") else script


def _by_words(text: str, script: str) -> str:
    words = ascii_words(text) if text.isascii() else _WORD.findall(text.lower())
    if script == "latin" and is_english(count_words(words), words):
        return "en"  # whatever the others have: no need to count them one by one
    hits: dict[str, int] = {}
    different: dict[str, int] = {}
    for word, count in Counter(filter(_LANGUAGES_OF.__contains__, words)).items():
        for language in _LANGUAGES_OF[word]:
            if (language in _LATIN) == (script == "latin"):
                hits[language] = hits.get(language, 0) + count
                different[language] = different.get(language, 0) + 1
    ranked = sorted(hits.items(), key=lambda item: -item[1])
    if not ranked:
        return ""
    language, most = ranked[0]
    if different[language] < _MIN_WORDS or most < MIN_SHARE * len(words):
        return ""
    if len(ranked) > 1 and most < MIN_LEAD * ranked[1][1]:
        return ""
    return language


class WordCounts(NamedTuple):
    """How many words a text has, and how many of them are known: as English alone, as shared with other languages, as
    foreign."""

    words: int
    alone: int
    shared: int
    foreign: int


def ascii_words(text: str) -> list[str]:
    """The runs of letters of an ASCII text, in lower case."""
    return text.encode().translate(_ASCII_WORDS).decode().split()


def count_words(words: Sequence[str]) -> WordCounts:
    """The counts of these words, which are in lower case."""
    kinds = list(filter(None, map(_KINDS.get, words)))
    return WordCounts(len(words), kinds.count(_ALONE), kinds.count(_SHARED), kinds.count(_FOREIGN))


def is_english(counts: WordCounts, words: Iterable[str]) -> bool:
    """True when a text in Latin letters with these counts is English, whatever the other languages have of it. `words`
    are its words, or some of them."""
    english = counts.alone + counts.shared
    least = max(MIN_LEAD * (counts.shared + counts.foreign), MIN_SHARE * counts.words, 1)
    return english >= least and _holds_different(words, ENGLISH)


def _holds_different(words: Iterable[str], known: Collection[str]) -> bool:
    """`_MIN_WORDS` different ones of `known`: they stand near the beginning where there are any."""
    found: set[str] = set()
    for word in words:
        if word in known:
            found.add(word)
            if len(found) >= _MIN_WORDS:
                return True
    return False
