"""A block that a program marks itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

TRAINING = """\
import random

import chexpoint

random.seed(1)
weight = 0.0
block = chexpoint.SkipBlock("training")
for epoch in chexpoint.loop(range(10)):
    if block.enter():
        step = 0
        while step < 5:
            weight += random.random()
            step += 1
    block.end()
    print(epoch, weight)
"""


def test_an_explicit_block_is_skipped_on_replay(tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text(TRAINING, encoding="utf-8")
    env = {**os.environ, "CHEX_OVERHEAD": "always"}
    text = subprocess.check_output([sys.executable, file.name], cwd=tmp_path, env=env, text=True)
    weights = [float(line.split()[1]) for line in text.splitlines()]
    probed = TRAINING + '    print("twice", 2 * weight)\n'
    file.write_text(probed, encoding="utf-8")
    chex = [sys.executable, "-m", "chexpoint", "hindsight", file.name, "--json"]
    found = json.loads(subprocess.check_output(chex, cwd=tmp_path, text=True))
    (version,) = found["versions"]
    values = [row["value"] for row in version["rows"] if row["added"]]
    assert values == [f"twice {2 * weight}" for weight in weights]
    assert {row["standing"] for row in version["rows"]} == {"exact"}
    assert version["skipped_blocks"] > 0
