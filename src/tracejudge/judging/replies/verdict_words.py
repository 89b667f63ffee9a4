"""Yes, no, and "I will not", in the languages that judges reply in, since a judge follows the language of its texts."""

from __future__ import annotations

import re
from typing import Final

YES_WORDS: Final = (
    *("yes", "ja", "oui", "sí", "si", "sì", "sim", "tak", "evet", "да", "так"),
    *("是", "是的", "对", "對", "はい", "예", "네"),
)
"""English, German, Dutch, Swedish, Danish, French, Spanish, Italian, Portuguese, Polish, Turkish, Russian, Ukrainian,
Chinese, Japanese, Korean."""

NO_WORDS: Final = (
    *("no", "nein", "nee", "nej", "non", "não", "nao", "nie", "hayır", "hayir", "нет", "ні"),
    *("否", "不是", "不", "いいえ", "아니요", "아니오"),
)
"""The same languages. No word stands in both lists."""

_WORDS: Final = dict.fromkeys(YES_WORDS, True) | dict.fromkeys(NO_WORDS, False)

ANY_WORD: Final = "|".join(sorted(map(re.escape, _WORDS), key=len, reverse=True))
"""A regular expression for one of them, the longer ones first."""

LOUD: Final = re.compile(r"\b(YES|NO|JA|NEIN|NEE|NEJ|OUI|NON|SÍ|SIM|NÃO|TAK|NIE|EVET|HAYIR|ДА|НЕТ)\b")
"""A verdict in capitals inside running text. Words that capitals do not set apart are left out."""

LABELS: Final = (
    r"(?:final[ \t]+)?(?:verdict|answer|urteil|antwort|ergebnis|verdict final|réponse|veredicto|respuesta|verdetto"
    r"|risposta|resposta|oordeel|вердикт|ответ|判定|结论|結論|判断|回答)"
)
"""What may stand before a verdict, with a colon."""

REFUSAL: Final = re.compile(
    r"\A\W*(?:i['’]?m (?:really |very |so )?sorry|sorry,|i am sorry|i apologi[sz]e|i['’]m (?:unable|not able) to"
    r"|i (?:can ?not|can['’]t|won['’]t|will not|am unable to)"
    r"|as an ai\b|i must decline|unable to comply|my apologies"
    r"|(?:es )?tut mir (?:wirklich |sehr )?leid|ich kann (?:das |dies |dabei )?(?:leider )?nicht|als ki\b"
    r"|(?:je suis )?désolée?|je ne peux pas|en tant qu['’]ia\b"
    r"|lo siento|no puedo (?:ayudar|responder|cumplir)|mi dispiace|non posso (?:aiutar|risponder)"
    r"|desculpe|sinto muito|não posso (?:ajudar|responder)|het spijt me|извините|я не могу|к сожалению"
    r"|抱歉|对不起|對不起|很抱歉|我无法|我無法|申し訳|죄송)",
    re.IGNORECASE,
)
"""How a refusal begins."""


def polarity(word: str) -> bool | None:
    """True for a yes, False for a no, in any case; None for any other word."""
    # Matching without regard to case takes letters for equal that no lower case makes equal (the long s, say).
    return _WORDS.get(word.lower())
