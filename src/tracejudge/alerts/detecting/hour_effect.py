"""Hours that differ by themselves: what the hour's own rows so far tell of its rate, before the next row is bet on.

Where hours scatter by more than chance, with variance s of their rates and v of a row's verdict, the rows of an hour
tell its own rate. Of those before this row, with W, S and Q their sums of w, w x and w^2, and n = W^2 / Q:

    K    = (s / v) n / (1 + (s / v) n)             how far the hour is known by its own rows
    b'   = min(b, b + K (S / W - b))               the boundary of this row: the best linear guess of the hour's rate
    d_j' = d_j (1 - K / 2)                         what is left of a component's drop below it
    L_j  = 1 + min(d_j' w / (b' (1 - b') deff), 0.98 / (1 - b')) (b' - x)

So the first rows of an hour count in full, and more of them ever less, as they should: an hour that is bad by itself
is bad in all of its rows. Half of K, because a fall begins in the middle of an hour, on average. Tempering by phi takes
the same from every row, and is slower. Neither b' nor d_j' knows the row it is used for and b' is never above b, so
while the rate is at least b the promise is the same theorem as without this.

Only components that look for a drop of APART standard deviations of the hours or more are bet on so. A smaller fall
cannot be told from a bad hour within the hour; many hours together tell it, and there phi is the quicker one: b' stays
on the safe side in every bad hour, and learns nothing from the good ones.

Source: the best linear predictor of a random effect (Robinson, "That BLUP is a good thing"), used as a bet.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

CLIP: Final = 0.98
"""Of the bet that would make a factor zero: one surprising row must not erase all evidence."""

APART: Final = 3.5
"""Standard deviations among hours from which on a drop is told by its hour."""

LOWEST: Final = 0.02
"""The boundary is lowered no further: an hour in which all fails is no chance."""


class HourSoFar(NamedTuple):
    """Sums of w, w x and w^2 over the rows of an hour of event time that came before."""

    w: float = 0.0
    wx: float = 0.0
    w2: float = 0.0


def smallest_told(boundary: float, spread: float) -> float:
    """The smallest drop, as a share, that is still bet on after the hour's own effect is taken into account."""
    return APART * math.sqrt(spread * boundary * (1.0 - boundary))


def known_share(hour: HourSoFar, spread: float) -> float:
    """K: 0 where the hour is not known at all by its own rows, 1 where it is known by them alone; `spread` is s / v."""
    if hour.w <= 0.0:
        return 0.0
    told = spread * hour.w * hour.w / hour.w2
    return told / (1.0 + told)


def factors_within(
    hour: HourSoFar,
    *,
    boundary: float,
    drops: Sequence[float],
    spread: float,
    passed: bool,
    weight: float,
    deff: float,
) -> tuple[float, ...]:
    """L_j of a verdict, for every component."""
    share = known_share(hour, spread)
    here = boundary
    if share:
        here = min(boundary, max(LOWEST, boundary + share * (hour.wx / hour.w - boundary)))
    fail = 1.0 - here
    unit = (1.0 - 0.5 * share) / (here * fail * deff) * weight
    cap, miss = CLIP / fail, here - (1.0 if passed else 0.0)
    return tuple(1.0 + min(unit * drop, cap) * miss for drop in drops)
