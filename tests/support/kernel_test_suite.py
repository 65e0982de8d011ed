"""jupyter_kernel_test's suite for Python kernels, run for one kernel command."""

from __future__ import annotations

import unittest
from dataclasses import dataclass
from typing import Any, ClassVar

from jupyter_kernel_test import (  # type: ignore[import-untyped]
    IopubWelcomeTests,
    KernelTests,
)


class PythonKernelTests(KernelTests):  # type: ignore[misc]
    """The samples that make every test of the suite apply."""

    language_name = "python"
    file_extension = ".py"
    code_hello_world = "print('hello, world')"
    code_stderr = "import sys; print('test', file=sys.stderr)"
    completion_samples: ClassVar[list[dict[str, Any]]] = [
        {"text": "zi", "matches": {"zip"}},
        {"text": "import zipap", "matches": {"zipapp"}},
    ]
    complete_code_samples: ClassVar[list[str]] = ["1", "print('a')", "def f():\n  return 1\n\n"]
    incomplete_code_samples: ClassVar[list[str]] = ["print('''a", "def f():\n  x = 1"]
    invalid_code_samples: ClassVar[list[str]] = ["import = 7q", "a = = 1"]
    code_page_something = "zip?"
    code_generate_error = "raise ValueError('no')"
    code_execute_result: ClassVar[list[dict[str, str]]] = [
        {"code": "1+2+3", "result": "6"},
        {"code": "[n * n for n in range(1, 4)]", "result": "[1, 4, 9]"},
    ]
    code_display_data: ClassVar[list[dict[str, str]]] = [
        {"code": f"from IPython.display import {name}, display; display({name}('1'))", "mime": mime}
        for name, mime in (
            ("HTML", "text/html"),
            ("Math", "text/latex"),
            ("Markdown", "text/markdown"),
        )
    ]
    code_history_pattern = "1?2*"
    supported_history_operations = ("tail", "range", "search")
    code_inspect_sample = "zip"
    code_clear_output = "from IPython.display import clear_output; clear_output()"


class PythonWelcomeTests(IopubWelcomeTests):  # type: ignore[misc]
    support_iopub_welcome = True


@dataclass(frozen=True, slots=True)
class SuiteOutcome:
    """Names of the tests and subtests that passed, and the reports of those that did not."""

    passed: frozenset[str]
    failed: dict[str, str]


class _Recorder(unittest.TestResult):
    """Keeps what unittest reports, under the method names that unittest calls."""

    def __init__(self) -> None:
        super().__init__()
        self.passed: set[str] = set()
        self.failed: dict[str, str] = {}

    def addSuccess(self, test: unittest.TestCase) -> None:  # noqa: N802
        self.passed.add(_name(test))

    def addError(self, test: unittest.TestCase, err: Any) -> None:  # noqa: N802
        self.failed[_name(test)] = self._exc_info_to_string(err, test)  # type: ignore[attr-defined]

    addFailure = addError  # noqa: N815

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:  # noqa: N802
        self.failed[_name(test)] = f"skipped: {reason}"

    def addSubTest(  # noqa: N802
        self, test: unittest.TestCase, subtest: unittest.TestCase, err: Any
    ) -> None:
        if err is None:
            self.passed.add(_name(subtest))
        else:
            self.addError(subtest, err)


def _name(test: unittest.TestCase) -> str:
    """The name without module and class; an error of a class set-up has neither."""
    return test.id().split("Tests.", 1)[-1]


def run_suite(kernel_name: str) -> SuiteOutcome:
    """Run the whole suite against an installed kernel spec."""
    recorder = _Recorder()
    suite = unittest.TestSuite()
    for case in (PythonKernelTests, PythonWelcomeTests):
        bound = type(case.__name__, (case,), {"kernel_name": kernel_name})
        suite.addTest(unittest.defaultTestLoader.loadTestsFromTestCase(bound))
    suite.run(recorder)
    return SuiteOutcome(passed=frozenset(recorder.passed), failed=recorder.failed)
