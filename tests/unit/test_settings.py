"""Settings: all faults at once, the environment before the file, every key documented, no secret shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from tracejudge.errors import SettingsError
from tracejudge_consumer.cli import run
from tracejudge_consumer.settings import Settings, load_settings, read_toml, shown, without_password
from tracejudge_consumer.terminal.rendering import to_json
from tracejudge_consumer.wiring.anchors import drift_policy

EXAMPLE = Path(__file__).parents[2] / "deploy" / "settings.example.toml"
MINIMAL = 'queue = "sqlite:///queue.db"\nstore = "chdb:///store"\n'


def write(folder: Path, text: str) -> Path:
    path = folder / "tracejudge.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_minimal_file_has_the_free_judge(tmp_path: Path) -> None:
    settings = load_settings(write(tmp_path, MINIMAL))
    assert [spec.name for spec in settings.judges] == ["lexical"]


def test_the_environment_wins_and_reaches_nested_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACEJUDGE_QUEUE", "kafka://broker:9092/answers")
    monkeypatch.setenv("TRACEJUDGE_CONSUMER__GROUP", "blue")
    settings = load_settings(write(tmp_path, MINIMAL + "[consumer]\nbatch_records = 7\n"))
    assert settings.queue == "kafka://broker:9092/answers"
    assert (settings.consumer.group, settings.consumer.batch_records) == ("blue", 7)


@pytest.mark.parametrize(("name", "value"), [("ALERT_LOOP__TIK_S", "3"), ("ALERT_LOOP__TICK_S", "soon")])
def test_a_fault_of_a_variable_is_not_looked_for_in_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(f"TRACEJUDGE_{name}", value)
    with pytest.raises(SettingsError) as caught:
        load_settings(write(tmp_path, MINIMAL))
    assert caught.value.faults[0].startswith(f"environment: TRACEJUDGE_{name}: alert_loop.")


@pytest.mark.parametrize(
    "text",
    [
        '[[judges]]\nname = "f"\nkind = "lexical"\napi_key_env = "sk-SECRETKEY"\n',
        '[[notifiers]]\ntype = "slack"\nsecret_env = "https://hooks.example.com/SECRETKEY"\n',
        '[gateway]\nkey_env = "SECRET KEY"\n',
    ],
)
def test_a_secret_in_the_place_of_its_variables_name_is_refused_and_not_repeated(tmp_path: Path, text: str) -> None:
    with pytest.raises(SettingsError, match="never the secret itself") as caught:
        load_settings(write(tmp_path, MINIMAL + text))
    assert "KEY" not in str(caught.value)


@pytest.mark.parametrize("name", ["TRACEJUDGE_CONSUMR__GROUP", "TRACEJUDGE_STOER"])
def test_a_misspelt_variable_is_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "blue")
    with pytest.raises(SettingsError, match=name):
        load_settings(write(tmp_path, MINIMAL))


def test_variables_of_the_sdk_and_of_secrets_are_none_of_our_business(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("APP", "ENVIRONMENT", "VERSION", "QUEUE_PASSWORD", "STORE_PASSWORD", "MAX_QUEUE_BYTES", "JUDGE_KEY"):
        monkeypatch.setenv(f"TRACEJUDGE_{name}", "x")
    assert load_settings(write(tmp_path, MINIMAL)).queue.startswith("sqlite:")


def test_all_faults_are_said_at_once(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        'queue = "redis://x"\nstore = "mysql://x"\nqeue = 1\n[consumer]\nbatch_records = 0\n[[rules]]\nname = "r"\n'
        'judge = "lexical"\nminimum = 1.5\n',
    )
    with pytest.raises(SettingsError) as caught:
        load_settings(path)
    faults = "\n".join(caught.value.faults)
    for key in ("queue:", "store:", "qeue:", "consumer.batch_records:", "rules[0].minimum:"):
        assert key in faults
    assert len(caught.value.faults) == 5
    assert "queue: queue:" not in faults


def test_names_that_do_not_fit_together_are_faults(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        MINIMAL + '[[rules]]\nname = "r"\njudge = "faithfulness"\nminimum = 0.9\n[sampling.judges]\nnobody = 0.5\n',
    )
    with pytest.raises(SettingsError) as caught:
        load_settings(path)
    assert any("'faithfulness'" in fault for fault in caught.value.faults)
    assert any("'nobody'" in fault for fault in caught.value.faults)


def test_a_judge_that_costs_money_needs_a_cap(tmp_path: Path) -> None:
    judge = '[[judges]]\nname = "f"\nkind = "faithfulness"\nbase_url = "http://127.0.0.1:1/v1"\nmodel = "m"\n'
    path = write(tmp_path, MINIMAL + judge)
    with pytest.raises(SettingsError, match=r"max_calls_per_h.*max_usd_per_day.*estimate"):
        load_settings(path)
    assert load_settings(path, require_caps=False).judges[0].name == "f"
    assert load_settings(write(tmp_path, MINIMAL + judge + "max_calls_per_h = 10\n")).judges[0].max_calls_per_h == 10


def test_what_is_not_toml_says_where(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="line 1"):
        load_settings(write(tmp_path, "queue = \n"))


def test_passwords_are_not_shown() -> None:
    assert without_password("clickhouse://me:s3cr3t@host:8123/db") == "clickhouse://me:***@host:8123/db"
    assert without_password("chdb:///store") == "chdb:///store"


@pytest.mark.parametrize(
    "line",
    [
        'store = "clickhose://u:SECRETPW@h/db"',
        'queue = "kafkaa://u:SECRETPW@h/t"',
        '[[judges]]\nname = "f"\nkind = "faithfulness"\nmodel = "m"\nbase_url = "https://u:SECRETPW@h/v1"',
        '[[judges]]\nname = "f"\nkind = "faithfulness"\nllm = "a.b:C"\nllm_options = { api_key = "SECRETPW" }',
        '[queue_options]\nsasl_plain_password = "SECRETPW"',
        '[[notifiers]]\ntype = "webhook"\nurl = "ftp://u:SECRETPW@h/x"',
    ],
)
def test_a_refused_secret_is_not_repeated(tmp_path: Path, line: str) -> None:
    text = "\n".join(part for part in MINIMAL.splitlines() if part.split(" = ")[0] != line.split(" = ")[0])
    with pytest.raises(SettingsError) as caught:
        load_settings(write(tmp_path, f"{text}\n{line}\n"))
    assert "SECRETPW" not in str(caught.value)


def test_what_is_printed_holds_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACEJUDGE_STORE", "clickhouse://u:SECRETPW@h:8123/db")
    monkeypatch.setenv("TRACEJUDGE_QUEUE_OPTIONS", '{"sasl_plain_password": "SECRETPW", "client_id": "x"}')
    hook = '[[notifiers]]\ntype = "webhook"\nurl = "https://hooks.example.com/SECRETPW"\nsecret_env = "HOOK"\n'
    settings = load_settings(write(tmp_path, MINIMAL + hook))
    values = shown(settings)
    assert "SECRETPW" not in to_json(values)
    assert values["queue_options"] == {"sasl_plain_password": "***", "client_id": "x"}
    assert values["notifiers"][0]["secret_env"] == "HOOK"


def test_the_check_says_why_a_rule_that_asks_for_a_page_opens_a_ticket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    rule = 'queue = "sqlite:///q.db"\nstore = "chdb:///s"\n[[judges]]\nname = "lexical"\nkind = "lexical"\n'
    rule += '[[rules]]\nname = "m"\njudge = "lexical"\nminimum = 0.9\nseverity = "page"\n'
    said = []
    for more in ("", "heuristic_may_page = true\n"):
        (tmp_path / "tracejudge.toml").write_text(rule + more, encoding="utf-8")
        assert run(["config", "check"]) == 0
        said.append(" ".join(capsys.readouterr().out.split()))
    assert "opens a ticket; its severity = 'page' needs heuristic_may_page = true, since lexical is a" in said[0]
    assert "opens a page" in said[1]
    assert "heuristic_may_page" not in said[1]


def test_the_example_file_can_be_used_as_it_is() -> None:
    settings = load_settings(EXAMPLE)
    assert settings.queue.startswith("kafka://")


def _fields(model: type[BaseModel], above: frozenset[type[BaseModel]] = frozenset()) -> set[str]:
    names: set[str] = set()
    if model in above:  # conditions hold conditions
        return names
    for name, field in model.model_fields.items():
        names.add(field.alias or name)
        kinds: list[Any] = [field.annotation]
        for kind in kinds:  # grows: the members of unions, the items of tuples, what is annotated
            kinds += get_args(kind)
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                names |= _fields(kind, above | {model})
    return names


def test_every_setting_stands_in_the_example_file() -> None:
    text = EXAMPLE.read_text(encoding="utf-8")
    missing = [name for name in sorted(_fields(Settings)) if name not in text]
    assert not missing


def test_the_commented_keys_of_the_example_are_real_settings() -> None:
    values = read_toml(EXAMPLE)
    known = _fields(Settings) | {"field", "is", "any", "all"}
    for line in EXAMPLE.read_text(encoding="utf-8").splitlines():
        key, separator, _ = line.removeprefix("#").strip().partition(" = ")
        commented = line.startswith("# ") and separator and key.isidentifier() and key.islower()
        if commented and not key.startswith(("security_", "sasl_", "ssl_", "faithfulness")):
            assert key in known, line
    assert values["store"]


def test_relative_paths_mean_beside_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, MINIMAL)
    monkeypatch.chdir("/")
    settings = load_settings(path)
    assert settings.queue == f"sqlite:///{tmp_path}/queue.db"
    assert settings.store == f"chdb:///{tmp_path}/store"
    absolute = load_settings(write(tmp_path, 'queue = "sqlite:////var/q.db"\nstore = "chdb:////var/store"\n'))
    assert (absolute.queue, absolute.store) == ("sqlite:////var/q.db", "chdb:////var/store")


def test_anchors_name_judges_that_there_are_and_leave_their_rule_alone(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        f"""{MINIMAL}
[anchors]
judges = ["nobody"]
[[rules]]
name = "judge-drift"
judge = "lexical"
minimum = 0.8
""",
    )
    with pytest.raises(SettingsError) as caught:
        load_settings(path)
    told = str(caught.value)
    assert "anchors.judges: judge 'nobody' is not one of 'lexical'" in told
    assert "rules: 'judge-drift' is reserved for the monitoring of judges with anchors" in told
    for line in ('every = "30m"', 'false_alarms = "often"', "agreement = 0.2"):
        with pytest.raises(SettingsError, match=r"anchors\." + line.split()[0]):
            load_settings(write(tmp_path, f"{MINIMAL}\n[anchors]\n{line}\n"))
    found = load_settings(write(tmp_path, f'{MINIMAL}\n[anchors]\nset = "golden"\non_judge_drift = "hold"\n')).anchors
    assert (found.interval.days, found.policy.on_judge_drift, found.policy.agreement) == (1, "hold", None)


@pytest.mark.parametrize(
    ("lines", "asked"),
    [
        ("", []),
        ('set = "golden"', ["faithful"]),
        ('set = "golden"\njudges = ["lexical"]', ["lexical"]),
        ('set = "golden"\njudges = ["lexical", "faithful"]\nmax_calls_per_day = 0', ["lexical"]),
        ('set = "golden"\nmax_usd_per_day = 0', []),
    ],
)
def test_alerts_ask_for_rounds_of_the_judges_that_have_any(tmp_path: Path, lines: str, asked: list[str]) -> None:
    lexical = '[[judges]]\nname = "lexical"\nkind = "lexical"\n'
    model = '[[judges]]\nname = "faithful"\nkind = "faithfulness"\nmodel = "m"\nbase_url = "http://127.0.0.1:1/v1"\n'
    settings = load_settings(write(tmp_path, f"{MINIMAL}\n{lexical}{model}max_calls_per_h = 10\n[anchors]\n{lines}\n"))
    ids = {spec.name: spec.judge_id() for spec in settings.judges}
    assert drift_policy(settings).asked == {ids[name] for name in asked}


@pytest.mark.parametrize(
    ("store", "words"),
    [
        ("chdb://store", "names no directory"),
        ("clickhouse://h:99999/db", "port"),
        ("clickhouse://h/d-b", "plain name"),
        ("chdb:///store?databse=x", "unknown option"),
    ],
)
def test_a_store_that_cannot_be_is_told_before_it_is_opened(tmp_path: Path, store: str, words: str) -> None:
    with pytest.raises(SettingsError, match=rf"store: .*{words}"):
        load_settings(write(tmp_path, MINIMAL.replace("chdb:///store", store)))
