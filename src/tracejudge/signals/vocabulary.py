"""The words of many texts at once, as numbers: what is known of a word is looked up in arrays, not one by one.

A word costs a Python program a third of a microsecond, however little is done about it: an object is made, hashed,
looked up and compared, each in another place of memory. Here texts are one run of bytes; where words begin and end is
found by comparing bytes with their neighbours, and a word of up to sixteen bytes is two numbers, by which its row is
found in a table. Only a word that was never met is looked at by itself.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracejudge.signals.stems import CUT, stems_of
from tracejudge.signals.word_facts import word_facts

Integers = NDArray[np.int64]
Lanes = NDArray[np.uint64]

MOST_WORDS: Final = 65_536
"""A vocabulary that has met so many is replaced by a new one: rare words go, and common ones are back at once."""

_ROOM: Final = 4 * MOST_WORDS  # a piece of work begins below the first quarter, and has no more words than the others
_SLOT_BITS: Final = 18  # two slots a word at the worst: few have to be looked for in a second one
_PROBES: Final = 4
_LANE: Final = 8  # bytes of a number
_SHORT: Final = 2 * _LANE
_LONGEST: Final = 64  # a memory full of longer ones is heavy
_MASKS: Final = np.array([(1 << 8 * size) - 1 for size in range(_LANE + 1)], np.uint64)
_BLANK: Final = 0x20
_FULL_STOP, _COMMA = b".,"


class Words(NamedTuple):
    """The words of some texts, in order. `bounds[n]` and `bounds[n + 1]`: where those of text `n` begin and end."""

    numbers: Integers  # what the vocabulary's arrays know of each stands there
    lengths: Integers  # in bytes
    bounds: Integers


class Vocabulary:
    """Words and what is known of them, by number. For one thread at a time.

    `counts` and `english` are what `word_facts` says of each.
    """

    def __init__(self) -> None:
        self.counts: Integers = np.zeros(_ROOM, np.int64)
        self.english: Integers = np.zeros(_ROOM, np.int64)
        self._stems: Integers = np.zeros(_ROOM, np.int64)  # 0: none; below: one more than a place in `_several`
        self._several: list[tuple[int, ...]] = []
        self._stem_numbers: dict[str, int] = {}
        self._met = 1  # zero is no word's number: an empty slot of the table has it
        self._more = 0  # stems of words that have several
        self._table = np.zeros((1 << _SLOT_BITS, 3), np.uint64)  # two lanes, and the number of the word they are
        self._others: dict[bytes, int] = {}  # long words, and the few that found no slot
        # Drawn anew, so that nobody can send words that all want the same slot.
        self._factors = tuple(np.uint64(secrets.randbits(64) | 1) for _ in range(3))
        self._places = np.zeros(_ROOM, np.int64)

    @property
    def is_full(self) -> bool:
        """True when it should be replaced before it reads anything else."""
        return self._met + self._more >= MOST_WORDS

    @property
    def stem_names(self) -> dict[int, str]:
        """The stems by their numbers."""
        return {number: stem for stem, number in self._stem_numbers.items()}

    def read(self, texts: Sequence[str]) -> Words:
        """The words of these texts: what stands between blanks and signs, runs of letters, digits, full stops, commas
        and apostrophes, ASCII letters in lower case, without a full stop or comma behind them."""
        # Lone surrogates can stand in JSON texts.
        parts = [text.encode() if text.isascii() else text.encode("utf-8", "surrogatepass") for text in texts]
        run = b" %b%b" % (b" ".join(parts).translate(CUT), b" " * (_SHORT + 1))
        signs = np.frombuffer(run, np.uint8)
        is_blank = signs == _BLANK
        is_blank[:-1] |= ((signs == _FULL_STOP) | (signs == _COMMA))[:-1] & is_blank[1:]
        edges = np.flatnonzero(is_blank[1:] != is_blank[:-1]) + 1
        starts = edges[0::2]
        lengths = edges[1::2] - starts
        offsets = np.cumsum([1, *[len(part) + 1 for part in parts]])
        return Words(self._numbers(run, starts, lengths), lengths, np.searchsorted(starts, offsets))

    def stems(self, numbers: Integers, owners: Integers) -> tuple[Integers, Integers]:
        """The stems of these words by number, a stop word without one and others with several, and beside each the
        owner of its word."""
        stems = self._stems.take(numbers)
        has_any = np.flatnonzero(stems)
        stems, owners = stems.take(has_any), owners.take(has_any)
        several = np.flatnonzero(stems < 0)
        if not len(several):
            return stems, owners
        more = [self._several[-number - 1] for number in stems.take(several).tolist()]
        times = [len(numbers) for numbers in more]
        return (
            np.append(np.delete(stems, several), [number for numbers in more for number in numbers]),
            np.append(np.delete(owners, several), np.repeat(owners.take(several), times)),
        )

    def held(self, own: tuple[Integers, Integers], given: tuple[Integers, Integers]) -> NDArray[np.bool_]:
        """For each stem of `own`, whether `given` has it too for the same owner. Owners are counted from 0."""
        (stems, owners), (given_stems, given_owners) = own, given
        if not len(stems):
            return np.zeros(0, np.bool_)
        places = self._places
        places[stems] = np.arange(1, len(stems) + 1)  # of equal ones the last: one place a stem
        place, sought = places.take(stems), places.take(given_stems)
        places[stems] = 0
        found = np.zeros((owners.max() + 1) * (len(stems) + 1), np.bool_)
        wide = len(stems) + 1
        among = (sought > 0) & (given_owners <= owners.max())
        found[given_owners[among] * wide + sought[among]] = True
        return found.take(owners * wide + place)

    def _numbers(self, run: bytes, starts: Integers, lengths: Integers) -> Integers:
        # At every byte the number that the eight from there on are: read where words begin, and cut where they end.
        lanes = np.ascontiguousarray(np.ndarray((len(run) - _LANE + 1,), "<u8", run, strides=(1,)))
        first = lanes.take(starts) & _MASKS.take(np.minimum(lengths, _LANE))
        second = np.zeros_like(first)
        longer = np.flatnonzero(lengths > _LANE)
        rest = np.minimum(lengths.take(longer) - _LANE, _LANE)
        second[longer] = lanes.take(starts.take(longer) + _LANE) & _MASKS.take(rest)
        slots = self._slots(first, second)
        rows = self._table.take(slots, axis=0)
        numbers: Integers = rows[:, 2].astype(np.int64)
        fits = lengths <= _SHORT
        left = np.flatnonzero((rows[:, 0] != first) | (rows[:, 1] != second) | ~fits)
        for _ in range(_PROBES - 1):
            if not len(left):
                return numbers
            slots[left] = (slots[left] + 1) % len(self._table)
            rows = self._table.take(slots[left], axis=0)
            here = fits[left] & (rows[:, 0] == first[left]) & (rows[:, 1] == second[left])
            numbers[left[here]] = rows[here, 2]
            left = left[~here]
        if len(left):
            ends = starts + lengths
            numbers[left] = self._met_or_new(
                [run[start:end] for start, end in zip(starts[left].tolist(), ends[left].tolist(), strict=True)],
                first[left],
                second[left],
            )
        return numbers

    def _slots(self, first: Lanes, second: Lanes) -> Integers:
        one, other, last = self._factors
        mixed = first * one ^ second * other
        mixed ^= mixed >> np.uint64(32)
        slots: Integers = (mixed * last >> np.uint64(64 - _SLOT_BITS)).astype(np.int64)
        return slots

    def _met_or_new(self, words: Sequence[bytes], first: Lanes, second: Lanes) -> list[int]:
        """The numbers of words that are in none of their slots. Some stand among them more than once."""
        others, met = self._others, self._met
        new: dict[bytes, int] = {}
        numbers, places = [], []
        for place, word in enumerate(words):
            number = others.get(word) or new.get(word)
            if number is None:
                number = new[word] = met + len(new)
                places.append(place)
            numbers.append(number)
        if new:
            self._learn(list(new))
            self._keep(np.arange(met, self._met), list(new), first[places], second[places])
        return numbers

    def _keep(self, numbers: Integers, words: Sequence[bytes], first: Lanes, second: Lanes) -> None:
        """Puts each short word into the first free one of its slots, and whatever finds none among the others."""
        slots = self._slots(first, second)
        left = np.flatnonzero([len(word) <= _SHORT for word in words])
        for _ in range(_PROBES):
            free = left[self._table[slots[left], 2] == 0]
            _, winners = np.unique(slots[free], return_index=True)  # two may want the same one
            placed = free[winners]
            self._table[slots[placed]] = np.stack([first[placed], second[placed], numbers[placed].astype(np.uint64)], 1)
            left = np.setdiff1d(left, placed, assume_unique=True)
            slots[left] = (slots[left] + 1) % len(self._table)
        for place in [*left.tolist(), *np.flatnonzero([_SHORT < len(word) <= _LONGEST for word in words]).tolist()]:
            self._others[words[place]] = int(numbers[place])

    def _learn(self, words: Sequence[bytes]) -> None:
        """Adds what is known of new words to the arrays."""
        pieces = [word.decode("utf-8", "surrogatepass") for word in words]
        end = self._met + len(words)
        facts = [word_facts(piece) for piece in pieces]
        self.counts[self._met : end] = [counts for counts, _ in facts]
        self.english[self._met : end] = [bits for _, bits in facts]
        self._stems[self._met : end] = [self._stem(stems_of(piece)) for piece in pieces]
        self._met = end

    def _stem(self, stems: Sequence[str]) -> int:
        known = self._stem_numbers
        if len(stems) == 1:
            return known.setdefault(stems[0], len(known) + 1)
        if not stems:
            return 0
        self._several.append(tuple([known.setdefault(stem, len(known) + 1) for stem in stems]))
        self._more += len(stems)
        return -len(self._several)
