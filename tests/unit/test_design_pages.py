"""The pages beside the code name files and classes that are there: a rename reaches them too."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = [ROOT / name for name in ("producer_sdk", "src", "consumer", "deploy", "tests")]
FILES = [path for folder in FOLDERS for path in folder.rglob("*") if path.is_file()]
PAGES = [path for path in FILES if path.name == "DESIGN.md"]
CODE = "\n".join(path.read_text(encoding="utf-8") for path in FILES if path.suffix in (".py", ".sql"))


def quoted(page: Path) -> list[str]:
    return re.findall(r"`([^`\n]+)`", page.read_text(encoding="utf-8"))


def test_every_file_that_a_page_names_is_there() -> None:
    ends = [path.as_posix() for path in FILES]
    named = [
        (page, word) for page in PAGES for word in quoted(page) if re.fullmatch(r"[\w./]+\.(py|md|sql|toml)", word)
    ]
    assert len(named) > 50
    missing = [
        (page.relative_to(ROOT).as_posix(), word)
        for page, word in named
        if not any(path.endswith("/" + re.sub(r"^(\.\./)+", "", word)) for path in ends)
    ]
    assert not missing


# As code uses a name; a word of a sentence is none.
NAME = re.compile(r"\bclass (\w+)|\b([A-Z]\w*)[(.\[:]|[.,\[']([A-Z]\w*)|[^\"]\"([A-Z]\w*)")


def test_every_class_that_a_page_names_is_in_the_code() -> None:
    used = {name for found in NAME.findall(CODE) for name in found}
    pattern = re.compile(r"\b[A-Z]\w*[a-z]\w*")
    named = {(page, word) for page in PAGES for text in quoted(page) for word in pattern.findall(text)}
    assert len(named) > 20
    assert not [(page.relative_to(ROOT).as_posix(), word) for page, word in sorted(named) if word not in used]
