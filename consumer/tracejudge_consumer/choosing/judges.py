"""Which judges a command means: by name from the settings, by a TOML file, or `lexical`, which needs no settings."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path

import click
from pydantic import BaseModel, ConfigDict, ValidationError

from tracejudge.errors import SettingsError
from tracejudge.judging import JudgeSpec
from tracejudge_consumer.settings import faults_of, load_settings, prompts_beside, read_toml
from tracejudge_consumer.wiring import choose_judges

LEXICAL = JudgeSpec(name="lexical", kind="lexical")


class _JudgeFile(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    judges: tuple[JudgeSpec, ...]


def judge_label(spec: JudgeSpec) -> str:
    """The judge's name, with the word that a heuristic must carry wherever it appears."""
    return f"{spec.name} (heuristic)" if spec.heuristic else spec.name


def require_prices(specs: Collection[JudgeSpec], max_usd: float | None) -> None:
    """Raises SettingsError when a limit of money is asked for that cannot be kept."""
    unpriced = [spec.name for spec in specs if spec.asks_model and not spec.priced]
    if max_usd is not None and unpriced:
        raise SettingsError(
            [
                f"judge {name!r}: --max-usd cannot be kept without prices; set usd_per_million_input_tokens and "
                "usd_per_million_output_tokens, or use --max-calls"
                for name in unpriced
            ]
        )


def check_pairwise(specs: Iterable[JudgeSpec]) -> None:
    """Raises UsageError for a judge that compares no two answers."""
    if wrong := [spec.name for spec in specs if spec.kind != "pairwise"]:
        raise click.UsageError(
            f"judge {wrong[0]!r} judges one answer: --against is for judges of kind pairwise; for others compare the "
            "two versions with `tracejudge compare A B --cases`"
        )


def judges_of_file(path: Path) -> tuple[JudgeSpec, ...]:
    """The `[[judges]]` of a TOML file. Raises SettingsError with every fault."""
    try:
        values = read_toml(path)
        if not values.get("judges"):
            raise SettingsError([f"{path}: has no [[judges]]; write that line above each judge, as in tracejudge.toml"])
        specs = _JudgeFile(**{**values, "judges": prompts_beside(path, values.get("judges"))}).judges
    except ValidationError as error:
        raise SettingsError([f"{path}: {fault}" for fault in faults_of(error)]) from error
    return specs


def resolve_judges(config: str, wanted: tuple[str, ...]) -> tuple[JudgeSpec, ...]:
    """The judges meant by NAME or FILE.toml, in the order given; their caps are not checked here.

    Without a settings file there is still `lexical`. Raises SettingsError for what is not there.
    """
    specs: list[JudgeSpec] = []
    names: list[str] = []
    for text in wanted:
        if text.endswith(".toml"):
            specs.extend(judges_of_file(Path(text)))
        else:
            names.append(text)
    if names:
        configured: tuple[JudgeSpec, ...] = (LEXICAL,)
        if Path(config).exists() or names != [LEXICAL.name]:
            configured = load_settings(config, require_caps=False, connects=False).judges
        if LEXICAL.name not in {spec.name for spec in configured}:
            configured = (*configured, LEXICAL)
        specs.extend(choose_judges(configured, names))
    return tuple({spec.name: spec for spec in specs}.values())
