"""Whether a response says that it has no answer: a list of phrases, not a judge.

A response counts as a refusal when one of the phrases begins within its first `REFUSAL_CHARS` characters, or when it is
nothing but a framework's words for "no answer". A refusal after a long partial answer is not found, and a sentence
about somebody else's lack of information is found wrongly; both are rare at the start of an answer.
"""

from __future__ import annotations

import re
from typing import Final

REFUSAL_CHARS: Final = 240
"""About the first two sentences: where an answer that declines says so."""

SEEN_CHARS: Final = REFUSAL_CHARS + 80  # so that a phrase which begins inside is seen whole

REFUSAL_PHRASES: Final[dict[str, tuple[str, ...]]] = {
    "en": (
        r"(?:do|does|did) ?(?:not|n't) (?:have|contain|provide|include|offer|give|specify|mention)"
        r" (?:(?:any|enough|sufficient|the|that|this|specific|detailed|relevant|additional|further|such) ){0,3}"
        r"(?:information|info|details?|data|knowledge|context|answer)",
        r"(?:have|has|contains?|is|are|found|find|there's) no (?:(?:specific|relevant|further|such) )?"
        r"(?:information|info|details|mention|data|answer)",
        r"(?:can ?not|can't|could not|couldn't|unable to|not able to|am not in a position to)"
        r" (?:be answered|answer|find|provide|determine|locate|help with|help you with|assist|give you)",
        r"i (?:do not|don't) know",
        r"i(?:'m| am) not sure",
        r"insufficient (?:information|context|data)",
        r"not enough (?:information|context|data)",
        r"(?:is|are|was) not (?:mentioned|specified|provided|stated|covered|available|found|answered) in the",
        r"as an ai(?: language)? model",
    ),
    "de": (
        r"(?:habe|hat|haben|enthält|enthalten|liegen|liefern|liefert|finde|gibt es)(?: \w+){0,5}? "
        r"keine(?:rlei|n)? (?:\w+ )?(?:informationen|information|angaben|hinweise|daten|antwort)",
        r"kann(?: \w+){0,6}? nicht (?:beantworten|beantwortet werden|finden|helfen|weiterhelfen)",
        r"(?:das )?weiß ich (?:leider )?nicht",
        r"ich weiß (?:es |das )?(?:leider )?nicht",
        r"nicht genügend informationen",
    ),
    "fr": (
        r"(?:je )?n'ai pas (?:trouvé |accès à )?(?:d'|de l'|cette |l')?(?:information|réponse|élément)",
        r"ne (?:contien\w+|fourni\w+|mentionn\w+|donn\w+|dispos\w+)(?: \w+)? (?:pas|aucune)",
        r"(?:je )?ne (?:peux|puis|suis pas en mesure)(?: pas)? (?:de )?(?:répondre|vous aider|trouver)",
        r"je ne sais pas",
        r"aucune information",
        r"pas (?:assez|suffisamment) d'informations?",
    ),
    "es": (
        r"no (?:tengo|tenemos|dispongo de|contiene[n]?|proporciona[n]?|incluye[n]?|hay|encuentro|encontré)"
        r" (?:(?:ninguna|suficiente|esa|la|más) ){0,2}(?:información|datos|respuesta)",
        r"no (?:puedo|es posible|se puede) (?:responder|contestar|ayudar|encontrar|determinar)",
        r"(?:yo )?no (?:lo )?sé\b",
        r"no se menciona",
    ),
    "it": (
        r"non (?:ho|abbiamo|dispongo di|contien\w+|contengono|fornisc\w+|ci sono|trovo) (?:\w+ ){0,2}?"
        r"(?:informazion[ei]|dati|rispost[ae])",
        r"non (?:posso|sono in grado di|è possibile) (?:rispondere|aiutar\w+|trovare|determinare)",
        r"non (?:lo )?so\b",
    ),
    "pt": (
        r"não (?:tenho|temos|disponho de|cont[éê]m|fornece[m]?|há|encontrei|possuo) (?:\w+ ){0,2}?"
        r"(?:informaç\w+|dados|resposta)",
        r"não (?:posso|consigo|é possível) (?:responder|ajudar|encontrar|determinar)",
        r"(?:eu )?não sei\b",
    ),
    "nl": (
        r"(?:heb|heeft|hebben|bevat|bevatten|geeft|geven|vind)(?: \w+){0,5}? geen (?:\w+ )?"
        r"(?:informatie|gegevens|antwoord)",
        r"kan(?: \w+){0,6}? niet (?:beantwoorden|vinden|helpen)",
        r"(?:dat )?weet ik niet",
        r"ik weet het niet",
    ),
    "ru": (r"нет (?:\w+ )?(?:информации|данных|сведений)", r"не могу (?:\w+ )?(?:ответить|помочь|найти)", r"я не знаю"),
    "zh": (
        r"没有(?:[^。]{0,12})信息",
        r"无法(?:回答|确定|提供|找到)",
        r"我不知道",
        r"沒有(?:[^。]{0,12})資訊",
        r"無法回答",
    ),
    "ja": (
        r"情報(?:は|が)(?:[^。]{0,10})(?:ありません|含まれていません)",
        r"お答えできません",
        r"(?:答え|回答)(?:ること)?(?:が|は)?できません",
        r"わかりません",
    ),
}
"""By language, patterns over lower-case text with plain apostrophes and single spaces."""

_NO_ANSWER: Final = frozenset({"empty response", "none", "n/a", "no answer", "unanswerable"})
"""What frameworks return in place of an answer, whole."""

_AROUND: Final = " .!*#\"'"

_NEEDLES: Final[dict[str, tuple[str, ...]]] = {
    "en": ("not ", "n't ", " no ", "unable to", "insufficient ", "as an ai"),
    "de": ("keine", "nicht"),
    "fr": (
        *("n'ai pas", "ne sais pas", "ne suis pas", "pas assez", "pas suffisamment", "aucune", "ne peu", "ne pui"),
        *("ne contien", "ne fourni", "ne mentionn", "ne donn", "ne dispos"),  # " pas" stands in many an English text
    ),
    "es": ("no ",),
    "it": ("non ",),
    "pt": ("não ",),
    "nl": ("geen", "niet"),
    "ru": ("нет ", "не могу", "я не знаю"),
    "zh": ("没有", "沒有", "无法", "無法", "我不知道"),
    "ja": ("情報", "できません", "わかりません"),
}
"""By language, texts of which one occurs wherever one of its phrases does. Finding a text costs a hundredth of finding
a pattern, and most answers hold none of them."""


def may_refuse(word: str) -> bool:
    """False for a run of ASCII letters, digits, full stops, commas and apostrophes, in lower case, that stands in no
    refusal: where all of them are so, `is_refusal` finds none in an ASCII text without grave accents."""
    return _MARK.search(word) is not None


def _mark(needle: str) -> str:
    """A pattern for the longest run of a needle, which ends or begins a word where the needle has a blank."""
    run = max(reversed(needle.split()), key=len)  # of "as an ai" the last: the others stand in every text
    at = needle.rindex(run)
    return (r"\A" if at else "") + re.escape(run) + (r"\Z" if at + len(run) < len(needle) else "")


_NO_ANSWER_BEGINS: Final = sorted({re.findall("[a-z]+", text)[0] for text in _NO_ANSWER})
_MARK: Final = re.compile(
    "|".join(
        [
            *sorted({_mark(needle) for needles in _NEEDLES.values() for needle in needles if needle.isascii()}),
            rf"\A[.,']*(?:{'|'.join(_NO_ANSWER_BEGINS)})[.,']*\Z",
        ]
    )
)

_BY_LANGUAGE: Final = tuple(
    (_NEEDLES[language], re.compile("|".join(phrases))) for language, phrases in REFUSAL_PHRASES.items()
)
_IN_ASCII: Final = tuple(one for one in _BY_LANGUAGE if any(needle.isascii() for needle in one[0]))
_APOSTROPHES: Final = str.maketrans("’‘ʼ`´", "'''''")


def is_refusal(response: str) -> bool:
    """True when the start of `response` declines to answer. Looks at a few hundred characters, whatever the length."""
    start = _start(response)
    if start.strip(_AROUND) in _NO_ANSWER:
        return True
    start = start[:SEEN_CHARS]
    for needles, pattern in _IN_ASCII if start.isascii() else _BY_LANGUAGE:
        for needle in needles:
            if needle in start:
                found = pattern.search(start)
                if found is not None and found.start() < REFUSAL_CHARS:
                    return True
                break
    return False


def _start(response: str) -> str:
    """In lower case, with plain apostrophes and single spaces: at least what is looked at, where there is so much."""
    some = response[: SEEN_CHARS + _BLANKS]
    start = some if _is_plain(some) else " ".join(some.split())
    whole = len(response) <= len(some)
    # A short word with hundreds of full stops behind it is no more than that word: only the whole text can tell.
    if not whole and (len(start) <= SEEN_CHARS or len(start.strip(_AROUND)) <= _LONGEST_NO_ANSWER):
        start = " ".join(response[: 4 * REFUSAL_CHARS].split())
    start = start.lower()
    # Looking each character up costs ten times as much as looking for the one that an ASCII text may hold.
    return start.replace("`", "'") if start.isascii() else start.translate(_APOSTROPHES)


_LONGEST_NO_ANSWER: Final = max(map(len, _NO_ANSWER))
_BLANKS: Final = 40  # more than one at a place, at the start of most texts


def _is_plain(text: str) -> bool:
    return text.isascii() and text.isprintable() and "  " not in text and text == text.strip()
