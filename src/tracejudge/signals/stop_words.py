"""English words that say nothing about what a sentence is about, and the words for small numbers."""

from __future__ import annotations

from typing import Final

_STOP_WORDS: Final = """
a about above after again against ain all also am an and any are aren as at be because been before being below
between both but by can can't cannot could couldn d did didn do does doesn doing don don't down during each either
else even ever every few for from further get got had hadn has hasn have haven having he he's her here hers herself
him himself his how however i i'm i've if in into is isn it it's its itself just let like ll m may me might mightn
more most much must mustn my myself neither no nor not now o of off often on once one only onto or other others our
ours ourselves out over own per rather re s same shall she she's should shouldn since so some such t than that
that's the their theirs them themselves then there there's these they they're this those though through thus to too
under until up upon us ve very was wasn we we're well were weren what when where whether which while who whom whose
why will with within without won would wouldn yes yet you you're your yours yourself yourselves
"""

_NUMBERS: Final = """
zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
eighteen nineteen twenty
"""

STOP_WORDS: Final = frozenset(_STOP_WORDS.split())

NUMBER_WORDS: Final = {word: str(value) for value, word in enumerate(_NUMBERS.split())}
"""Word to digits, zero to twenty."""
