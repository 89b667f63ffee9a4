"""Who is told of what when many results go into the store at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tracejudge.judging import PanelResult
from tracejudge_consumer.stages.results import _tell, _Waiting

NOTHING = PanelResult(scores=(), ledger=(), calls=(), gone=())


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
    results = [replace(NOTHING) for _ in batch]
    waiting = [_Waiting(results[n], receivers[whose], n) for n, (whose, _) in enumerate(batch)]
    _tell(waiting, {n: Counter(store_bad=rows) for n, (_, rows) in enumerate(batch) if rows})
    for whose, receiver in enumerate(receivers):
        own = [n for n, (of, _) in enumerate(batch) if of == whose]
        assert [place for place, _ in receiver.told] == own
        assert all(result is results[place] for place, result in receiver.told)
        assert receiver.refused.total() == sum(batch[n][1] for n in own)


class Broken(Receiver):
    def __init__(self) -> None:
        super().__init__()
        self.errors: list[BaseException] = []

    def stored(self, places: Sequence[int], results: Sequence[PanelResult], refused: Mapping[str, int]) -> None:
        raise KeyError("a trace nobody waits for")

    def failed(self, error: BaseException) -> None:
        self.errors.append(error)


def test_one_that_fails_hears_why_and_the_others_of_their_results() -> None:
    before, broken, behind = Receiver(), Broken(), Receiver()
    _tell([_Waiting(NOTHING, one, 7) for one in (before, broken, behind)], {})
    assert [type(error) for error in broken.errors] == [KeyError]
    assert [place for place, _ in before.told + behind.told] == [7, 7]
