"""Makes a failing assert in the shared checks as telling as one in a test module."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("tests.support")
