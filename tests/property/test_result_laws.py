"""Who is told of what when many results go into the store at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from hypothesis import given
from hypothesis import strategies as st

from tracejudge.judging import PanelResult
from tracejudge_consumer.stages.results import _tell, _Waiting


class Receiver:
    def __init__(self) -> None:
        self.told: list[tuple[int, PanelResult]] = []
        self.refused: Counter[str] = Counter()

    def stored(self, places: Sequence[int], results: Sequence[PanelResult], refused: Mapping[str, int]) -> None:
        self.told += zip(places, results, strict=True)
        self.refused.update(refused)

    def failed(self, error: BaseException) -> None:
        raise AssertionError(error)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=30))
def test_each_hears_of_its_own_results_and_of_the_rows_of_them_that_were_refused(
    batch: list[tuple[int, int]],
) -> None:
    receivers = [Receiver() for _ in range(3)]
    results = [PanelResult(scores=(), ledger=(), calls=(), gone=()) for _ in batch]
    waiting = [_Waiting(results[n], receivers[whose], n) for n, (whose, _) in enumerate(batch)]
    _tell(waiting, {n: Counter(store_bad=rows) for n, (_, rows) in enumerate(batch) if rows})
    for whose, receiver in enumerate(receivers):
        own = [n for n, (of, _) in enumerate(batch) if of == whose]
        assert [place for place, _ in receiver.told] == own
        assert all(result is results[place] for place, result in receiver.told)
        assert receiver.refused.total() == sum(batch[n][1] for n in own)
