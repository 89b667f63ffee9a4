"""From specs to working judges: built-in kinds, classes by import path, the model behind each; all faults at once."""

from __future__ import annotations

import asyncio
import importlib
import os
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.evaluation.base import BaseEvaluator
from llama_index.core.llms.llm import LLM
from llama_index.core.prompts.base import PromptTemplate
from pydantic import ValidationError

from tracejudge.clock import Clock, SystemClock
from tracejudge.errors import MissingExtra, SettingsError
from tracejudge.judging.cache import VerdictCache
from tracejudge.judging.calls.account import Account
from tracejudge.judging.calls.budget import Budget, RunBudget
from tracejudge.judging.calls.circuit import Circuit
from tracejudge.judging.calls.client import Completer, OpenAICompatible
from tracejudge.judging.calls.failures import describe, scrub
from tracejudge.judging.calls.guard import Guard
from tracejudge.judging.calls.limiter import Limiter, limiters
from tracejudge.judging.calls.meter import Meter
from tracejudge.judging.calls.model import JudgeModel
from tracejudge.judging.evaluators.base import FactsEvaluator
from tracejudge.judging.evaluators.external import ExternalEvaluator
from tracejudge.judging.evaluators.guarded import GuardedEvaluator
from tracejudge.judging.evaluators.repeated import RepeatedEvaluator
from tracejudge.judging.llama import LlamaIndexLLM, MeteredLLM
from tracejudge.judging.specs.caps import ALL_JUDGES, NO_CAPS, Caps
from tracejudge.judging.specs.options import EmbeddingOptions
from tracejudge.judging.specs.spec import JudgeSpec
from tracejudge.judging.tasks import BudgetLeases, NothingSpent, RunCaps, SpendSource
from tracejudge.scores import JudgeId

MakeCompleter = Callable[[JudgeSpec], Completer]


_NO_CAPS: Final = RunCaps()


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """A spec ready to judge."""

    spec: JudgeSpec
    judge_id: JudgeId
    evaluator: GuardedEvaluator
    budget: Budget
    circuit: Circuit
    limiter: Limiter
    model: JudgeModel | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What all judges of a panel are built from. `make_completer`, `sleep` and `jitter` are for tests."""

    clock: Clock
    spend: SpendSource
    environ: Mapping[str, str]
    caps: RunCaps = _NO_CAPS
    total: Caps = NO_CAPS
    leases: BudgetLeases | None = None
    holder: str = ""
    cache: VerdictCache | None = None
    patience_s: float = 0.0
    make_completer: MakeCompleter | None = None
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    jitter: Callable[[], float] = random.random


def build(specs: Sequence[JudgeSpec], around: Surroundings) -> dict[str, Judge]:
    """A judge for each spec, by name. Raises SettingsError with every fault: a name used twice, a key that is not in
    the environment, a class that cannot be imported or does not take the options, a limit of money for a class whose
    spending cannot be seen."""
    faults: list[str] = []
    judges: dict[str, Judge] = {}
    by_endpoint = limiters(specs, clock=around.clock, sleep=around.sleep)
    run = RunBudget(around.caps)
    shared = _accounts(around.total, ALL_JUDGES, around)
    for spec in specs:
        if spec.name in judges:
            faults.append(f"judge {spec.name!r}: the name is used twice; names key scores, so give each judge its own")
            continue
        if around.caps.max_usd is not None and spec.calls_model and not spec.asks_model:
            faults.append(
                f"judge {spec.name!r}: what {spec.kind} spends cannot be seen, so a limit of money cannot be kept; "
                "limit the calls of the run instead"
            )
            continue
        accounts = shared + _accounts(spec.caps, spec.name, around) if spec.calls_model or spec.caps.any else []
        budget = Budget(spec.name, accounts, clock=around.clock, run=run, sleep=around.sleep)
        limiter, circuit = by_endpoint[spec.endpoint], Circuit(clock=around.clock)
        meter = Meter(spec, budget=budget, limiter=limiter, clock=around.clock)
        guard = Guard(
            spec,
            limiter=limiter,
            circuit=circuit,
            clock=around.clock,
            patience_s=around.patience_s,
            sleep=around.sleep,
            jitter=around.jitter,
        )
        try:
            model = _model(spec, around, guard=guard, meter=meter)
            inner = _evaluator(spec, model, guard=guard, meter=meter, around=around, capped=spec.caps.any)
        except SettingsError as error:
            faults.extend(error.faults)
            continue
        judges[spec.name] = Judge(
            spec=spec,
            judge_id=spec.judge_id(),
            evaluator=GuardedEvaluator(
                inner, spec=spec, clock=around.clock, cache=around.cache, closes=model.close if model else None
            ),
            budget=budget,
            circuit=circuit,
            limiter=limiter,
            model=model,
        )
    if faults:
        raise SettingsError(faults)
    return judges


def _accounts(caps: Caps, scope: str, around: Surroundings) -> list[Account]:
    return [Account(cap, source=around.spend, leases=around.leases, holder=around.holder) for cap in caps.of(scope)]


def evaluator_for(
    spec: JudgeSpec, *, environ: Mapping[str, str] = os.environ, make_completer: MakeCompleter | None = None
) -> GuardedEvaluator:
    """One judge as a LlamaIndex evaluator, for a BatchEvalRunner of one's own: it never raises, and gives Judgements.
    Close it in the event loop in which it was asked.

    Its caps hold within this process only, since no store is asked what was spent. Raises SettingsError like `build`.
    """
    around = Surroundings(clock=SystemClock(), spend=NothingSpent(), environ=environ, make_completer=make_completer)
    return build([spec], around)[spec.name].evaluator


def _model(spec: JudgeSpec, around: Surroundings, *, guard: Guard, meter: Meter) -> JudgeModel | None:
    if not spec.asks_model:
        return None
    if around.make_completer is not None:
        completer = around.make_completer(spec)
    else:
        completer = make_completer(spec, environ=around.environ)
    return JudgeModel(spec, completer=completer, guard=guard, meter=meter)


def make_completer(spec: JudgeSpec, *, environ: Mapping[str, str]) -> Completer:
    """The client of the spec's model. Raises SettingsError."""
    api_key = _api_key(spec, environ)
    if spec.llm is None:
        return OpenAICompatible(spec, api_key=api_key)
    llm_class = load_class(spec.llm, LLM, judge=spec.name, key="llm")
    try:
        return LlamaIndexLLM(spec, llm_class, api_key=api_key)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the class is anybody's: its options are at fault
        raise SettingsError(
            [f"judge {spec.name!r}: llm: {spec.llm} does not take these llm_options: {_told(error, secret=api_key)}"]
        ) from None


def _api_key(spec: JudgeSpec, environ: Mapping[str, str]) -> str | None:
    if spec.api_key_env is None:
        return None
    api_key = environ.get(spec.api_key_env)
    if not api_key:
        raise SettingsError([f"judge {spec.name!r}: api_key_env names {spec.api_key_env}, which is not set; export it"])
    return api_key


def _evaluator(
    spec: JudgeSpec, model: JudgeModel | None, *, guard: Guard, meter: Meter, around: Surroundings, capped: bool
) -> BaseEvaluator:
    if spec.built_in is not None:
        inner = _built_in(spec, model, around)
        if spec.built_in.embeds:
            counts = spec.calls_model or capped
            inner = ExternalEvaluator(inner, spec=spec, guard=guard, meter=meter, counts_attempts=counts)
    else:
        inner = _external(spec, model, guard=guard, meter=meter, capped=capped)
    return inner if spec.repeats == 1 else RepeatedEvaluator(inner, repeats=spec.repeats)


def _built_in(spec: JudgeSpec, model: JudgeModel | None, around: Surroundings) -> BaseEvaluator:
    kind = spec.built_in
    if kind is None:
        raise TypeError(f"kind {spec.kind!r} is not built in")
    evaluator_class = load_class(kind.path, FactsEvaluator, judge=spec.name, key="kind")
    if kind.asks_model:
        if model is None:
            raise SettingsError([f"judge {spec.name!r}: kind {spec.kind!r} needs a model"])
        asking: BaseEvaluator = evaluator_class(model, spec)
        return asking
    options = spec.kind_options.model_dump() if spec.kind_options is not None else {}
    if kind.embeds:
        options = {"embed_model": _embed_model(spec, environ=around.environ)}
    if kind.default_threshold is not None:
        options["threshold"] = spec.passing_threshold
    try:
        plain: BaseEvaluator = evaluator_class(**options)
    except (ValueError, MissingExtra) as error:
        raise SettingsError([f"judge {spec.name!r}: {error}"]) from error
    return plain


def _embed_model(spec: JudgeSpec, *, environ: Mapping[str, str]) -> BaseEmbedding:
    options = spec.kind_options
    if not isinstance(options, EmbeddingOptions):
        raise TypeError(f"kind {spec.kind!r} embeds nothing")
    embed_class = load_class(options.embed_model, BaseEmbedding, judge=spec.name, key="embed_model")
    arguments = dict(options.embed_options)
    api_key = _api_key(spec, environ)
    if api_key is not None:
        arguments["api_key"] = api_key
    try:
        found: BaseEmbedding = embed_class(**arguments)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the class is anybody's: its options are at fault
        told = _told(error, secret=api_key)
        raise SettingsError(
            [f"judge {spec.name!r}: embed_model: {options.embed_model} does not take these embed_options: {told}"]
        ) from None
    return found


def _external(spec: JudgeSpec, model: JudgeModel | None, *, guard: Guard, meter: Meter, capped: bool) -> BaseEvaluator:
    evaluator_class = load_class(spec.kind, BaseEvaluator, judge=spec.name, key="kind")
    options: dict[str, Any] = dict(spec.options)
    if spec.stock:
        # FaithfulnessEvaluator silently drops a template given as text (seen in llama-index-core 0.14.25).
        options = {
            key: PromptTemplate(value) if key.endswith("_template") and isinstance(value, str) else value
            for key, value in options.items()
        }
    if model is not None:
        options["llm"] = MeteredLLM(spec, model.ask_once)
    try:
        inner = evaluator_class(**options)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the class is anybody's: its options are at fault
        told = _told(error)
        if model is not None:
            told += "; llm is among them, since the judge names a model: remove that, or let the class take it"
        elif "'llm'" in told:
            told += "; give base_url and model, or llm, and the class is handed that model"
        raise SettingsError([f"judge {spec.name!r}: {spec.kind} does not take these options: {told}"]) from None
    counts_attempts = model is None and (spec.calls_model or capped)
    return ExternalEvaluator(inner, spec=spec, guard=guard, meter=meter, counts_attempts=counts_attempts)


def _told(error: BaseException, *, secret: str | None = None) -> str:
    """What `error` says, without the values it was given: pydantic repeats them, the key among them."""
    if isinstance(error, ValidationError):
        faults = error.errors(include_url=False, include_context=False, include_input=False)
        return "; ".join(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in faults)
    return scrub(str(error), secret=secret or "")


def load_class(path: str, base: type[Any], *, judge: str, key: str) -> type[Any]:
    """The class at "package.module:Class". Raises SettingsError when it is not there or no subclass of `base`."""
    module_name, _, class_name = path.partition(":")
    try:
        found = getattr(importlib.import_module(module_name), class_name)
    except (Exception, SystemExit) as error:  # importing runs somebody else's code
        raise SettingsError(
            [
                f"judge {judge!r}: {key}: cannot import {path}: {describe(error)}; install its package, put its folder "
                "into PYTHONPATH, or fix the path"
            ]
        ) from error
    if not (isinstance(found, type) and issubclass(found, base)):
        raise SettingsError([f"judge {judge!r}: {key}: {path} is not a subclass of LlamaIndex's {base.__name__}"])
    if lacking := sorted(getattr(found, "__abstractmethods__", ())):
        raise SettingsError(
            [f"judge {judge!r}: {key}: {path} lacks {', '.join(lacking)}, which LlamaIndex's {base.__name__} asks for"]
        )
    return found
