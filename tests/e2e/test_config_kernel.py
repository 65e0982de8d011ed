"""A kernel has the settings of the file above its folder; variables and magics go before it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.kernels import CHEX, Kernel, Launch

pytestmark = pytest.mark.slow


def test_a_kernel_takes_up_the_file_the_variables_and_the_magics(tmp_path: Path) -> None:
    folder = tmp_path / "study"
    folder.mkdir()
    file = folder / "chexpoint.toml"
    file.write_text(
        'budget = "123M"\npersist = "on"\naudit = "hook"\nkeep_files = 0\noverhed = 0.1\n',
        encoding="utf-8",
    )
    with Kernel(Launch(argv=CHEX, env={"CHEX_PERSIST": "always"}), folder) as kernel:
        (kernel.cwd / "data.txt").write_text("numbers", encoding="utf-8")
        first = kernel.execute("%chex_record one\nopen('data.txt').read()").ok()
        status = json.loads(kernel.run("%chex_status --json"))
        assert status["budget_bytes"] == 123 * 2**20
        assert status["persist"] == "always"
        assert status["audit"] == "audit hook"
        assert status["audit_note"] == f"audit = hook in {file}"
        # Said once, where the user sees it.
        said = first.stdout + first.stderr + json.dumps([m.content for m in first.published])
        assert "chexpoint.toml: no setting 'overhed'. Did you mean overhead" in said
        kernel.run("%chex_budget 64M")
        assert json.loads(kernel.run("%chex_status --json"))["budget_bytes"] == 64 * 2**20
        shown = kernel.execute("%chex_lineage 1 --json").ok()
        assert "data.txt" in shown.stdout
        assert "chexpoint.toml" not in shown.stdout
    assert not [path for path in (kernel.cwd / ".chex").glob("files/**/*") if path.is_file()]
