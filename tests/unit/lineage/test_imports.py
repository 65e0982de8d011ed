from __future__ import annotations

import pytest

from chexpoint.lineage import only_imports


@pytest.mark.parametrize(
    "source",
    [
        "import os",
        "import os.path as p, sys",
        "from os import path, sep as s",
        "from math import *",
        "import a.b.c",
        "from . import x",
        "import os; import sys",
    ],
)
def test_imports_are_told(source: str) -> None:
    assert only_imports(compile(source, "cell", "exec"))


@pytest.mark.parametrize(
    "source",
    ["", "x = 1", "import os\nos.getpid()", "import random; x = random.random()", "x = y", "f()"],
)
def test_other_statements_are_not(source: str) -> None:
    assert not only_imports(compile(source, "cell", "exec"))
