"""How often a classic threshold on a window fires by chance alone: the price of a rule that promises nothing.

    expected false alarms in 30 days = P(Binomial(n, p) < n x) * windows in 30 days

with p the rate while all is well, n the effective samples of a window, x the threshold. 60 traces an hour at 95 %
against 90 % over an hour: 21 in 30 days.
"""

from __future__ import annotations

from datetime import timedelta
from math import ceil, exp, lgamma, log, log1p
from typing import Final

_MONTH: Final = timedelta(days=30)
_NEGLIGIBLE: Final = 1e-17


def false_alarms_per_30d(*, rate: float, below: float, n: float, window: timedelta) -> float:
    """Windows in 30 days whose rate is below `below` by chance, where the true rate is `rate`.

    `n` are the effective samples of one window; below one there is no window to speak of, and 0.0 is given.

    >>> round(false_alarms_per_30d(rate=0.95, below=0.90, n=60, window=timedelta(hours=1)))
    21
    """
    whole = round(n)
    if whole < 1:
        return 0.0
    # A hair below, so that a rate of exactly the threshold is none: 0.9 * 60 may be 54.000000000000004.
    return binomial_tail(ceil(below * whole - 1e-9) - 1, n=whole, p=rate) * (_MONTH / window)


def binomial_tail(k: int, *, n: int, p: float) -> float:
    """P(X <= k) for X ~ Binomial(n, p), summed from the largest term on.

    >>> round(binomial_tail(1, n=3, p=0.5), 12)
    0.5
    """
    if k < 0:
        return 0.0
    if k >= n or p <= 0.0:
        return 1.0
    if p >= 1.0:
        return 0.0
    if k > n * p:
        return 1.0 - binomial_tail(n - k - 1, n=n, p=1.0 - p)
    term = total = exp(lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1) + k * log(p) + (n - k) * log1p(-p))
    for j in range(k, 0, -1):
        term *= j / (n - j + 1) * (1.0 - p) / p
        total += term
        if term < _NEGLIGIBLE * total:
            break
    return min(1.0, total)
