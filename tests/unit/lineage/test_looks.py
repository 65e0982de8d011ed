"""Questions about files that are not opened."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from chexpoint.lineage.looks import answer_now

SCRIPT = """
import json, os, pathlib, pickle, sys
from chexpoint.lineage.looks import Looks

namespace = {"__name__": "__main__", "os": os, "pathlib": pathlib}
looks = Looks()
looks.enter(namespace)
looks.start()
os.path.exists("not for a cell")
exec(open(sys.argv[1]).read(), namespace)
found = looks.take()
assert looks.take() == []
for name in ("exists", "isdir", "islink"):
    function = getattr(os.path, name)
    assert pickle.loads(pickle.dumps(function)) is function
print(json.dumps(found))
"""

CELL = """
assert not os.path.exists("absent")
assert os.path.isdir(".")
assert pathlib.Path("cell.py").is_file()
assert os.path.exists(0)  # a descriptor
try:
    os.path.exists(3.5)
except TypeError as error:
    assert error.__traceback__.tb_next is not None
os.path.exists("absent")
"""


def test_what_a_cell_asks_is_noted_once_with_the_answer(tmp_path: Path) -> None:
    (tmp_path / "cell.py").write_text(CELL)
    command = [sys.executable, "-c", SCRIPT, "cell.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    folder = str(tmp_path.resolve())
    assert json.loads(done.stdout) == [
        [f"{folder}/absent", "exists", False],
        [folder, "isdir", True],
        [f"{folder}/cell.py", "is_file", True],
    ]


@pytest.mark.parametrize(
    ("what", "answers"),
    [
        ("exists", (True, True, False)),
        ("isfile", (True, False, False)),
        ("is_dir", (False, True, False)),
        ("read", (None, None, None)),
    ],
)
def test_questions_can_be_asked_again(
    tmp_path: Path, what: str, answers: tuple[bool | None, ...]
) -> None:
    (tmp_path / "file").touch()
    paths = (str(tmp_path / "file"), str(tmp_path), str(tmp_path / "absent"))
    assert tuple(answer_now(path, what) for path in paths) == answers
