"""JupyterLab in a real browser: a server, Chromium, and what a user does with a notebook.

Nothing here waits for a time: it waits until the page shows something.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from chexpoint.cli.install import KERNEL_NAME, write_spec

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

ARTIFACTS = Path(__file__).parent.parent.parent / "test-artifacts" / "browser"
_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-quic",
)
_TIMEOUT_MS = 90_000
_LOOK_S = 0.05
_SETTINGS = {
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
    # All cells are in the page, whether they can be seen or not.
    "notebook-extension/tracker": {"windowingMode": "none"},
}
# Before that, JupyterLab lets a cell that is run pass without a word.
_IS_IDLE = """() => {
    const context = window.jupyterapp?.shell.currentWidget?.sessionContext;
    const kernel = context?.session?.kernel;
    return context?.isReady && kernel?.connectionStatus === "connected" && kernel.status === "idle";
}"""


_CUT_OFF = """() => {
    const found = [];
    for (const picture of document.querySelectorAll(".jp-OutputArea svg[viewBox]")) {
        const frame = picture.getBoundingClientRect();
        for (const text of picture.querySelectorAll("text")) {
            const box = text.getBoundingClientRect();
            if (box.left < frame.left - 1 || box.right > frame.right + 1
                || box.top < frame.top - 1 || box.bottom > frame.bottom + 1)
                found.push(text.textContent);
        }
    }
    for (const output of document.querySelectorAll(".jp-OutputArea-output"))
        if (output.scrollWidth > output.clientWidth + 1)
            found.push(output.textContent.slice(0, 80));
    return found;
}"""


def chromium() -> str:
    """Return the browser; install it where that can be done, skip the test where it cannot."""
    if (found := shutil.which("chromium")) is not None:
        return found
    if os.geteuid() == 0 and shutil.which("apt-get") is not None:
        for words in (["update"], ["install", "-y", "--no-install-recommends", "chromium"]):
            subprocess.run(["apt-get", "-q", *words], check=False, capture_output=True, timeout=600)
    if (found := shutil.which("chromium")) is not None:
        return found
    why = "there is no Chromium: 'apt-get install chromium' as root, then run this again"
    if os.environ.get("CI"):
        pytest.fail(why)
    pytest.skip(why)


@contextlib.contextmanager
def jupyter_lab(folder: Path) -> Iterator[str]:
    """Serve JupyterLab for a folder, with nothing of the user's; give its address."""
    own = {name: str(folder / name) for name in ("config", "data", "runtime", "settings", "home")}
    for name, value in _SETTINGS.items():
        file = folder / "settings" / "@jupyterlab" / f"{name}.jupyterlab-settings"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(value), encoding="utf-8")
    write_spec(folder / "data" / "kernels" / KERNEL_NAME)
    work = folder / "work"
    for each in (*own.values(), str(work)):
        Path(each).mkdir(exist_ok=True)
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("JUPYTER", "JPY_", "IPYTHON", "CHEX_"))
    }
    server = subprocess.Popen(
        [
            *(sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"),
            *("--ip=127.0.0.1", "--port=0", f"--ServerApp.root_dir={work}"),
            *("--LabApp.news_url=", "--LabApp.expose_app_in_browser=True"),
        ],
        cwd=work,
        env={
            **kept,
            "HOME": own["home"],
            "IPYTHONDIR": str(folder / "ipython"),
            "JUPYTER_CONFIG_DIR": own["config"],
            "JUPYTER_DATA_DIR": own["data"],
            "JUPYTER_RUNTIME_DIR": own["runtime"],
            "JUPYTERLAB_SETTINGS_DIR": own["settings"],
        },
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert server.stderr is not None
    log = (folder / "server.log").open("w", encoding="utf-8")
    try:
        address = ""
        for line in server.stderr:
            log.write(line)
            if found := re.search(r"http://127\.0\.0\.1:\d+/lab\?token=\w+", line):
                address = found[0]
                break
        assert address, "JupyterLab did not start"
        _wait_listening(address, server)
        # What it goes on to say must not fill the pipe.
        drain = subprocess.Popen(["cat"], stdin=server.stderr, stdout=log)
        try:
            yield address
        finally:
            server.terminate()
            server.wait(timeout=60)
            drain.wait(timeout=60)
            server.stderr.close()
    finally:
        log.close()
        if server.poll() is None:
            server.kill()
            server.wait()


def _wait_listening(address: str, server: subprocess.Popen[str]) -> None:
    """Wait until a server answers: it says where it is before it listens there."""
    where = urlsplit(address)
    assert where.hostname is not None
    assert where.port is not None
    while server.poll() is None:
        with contextlib.suppress(ConnectionRefusedError):
            socket.create_connection((where.hostname, where.port)).close()
            return
        time.sleep(_LOOK_S)
    pytest.fail("JupyterLab has ended")


@contextlib.contextmanager
def open_page(profile: Path) -> Iterator[Page]:
    """Start a browser with a profile of its own, and give its page."""
    from playwright.sync_api import sync_playwright

    executable = chromium()
    with sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            str(profile),
            executable_path=executable,
            headless=True,
            args=list(_FLAGS),
            viewport={"width": 1280, "height": 1100},
        )
        context.set_default_timeout(_TIMEOUT_MS)
        try:
            yield context.pages[0]
        finally:
            context.close()


class Lab:
    """A notebook in JupyterLab, as a user has it before them."""

    def __init__(self, page: Page) -> None:
        self.page = page

    def new_notebook(self, address: str, kernel: str) -> None:
        """Open the launcher and choose a kernel."""
        self.page.goto(address)
        self.page.locator(".jp-LauncherCard[data-category='Notebook']", has_text=kernel).click()
        self.page.locator(".jp-Notebook .jp-CodeCell .cm-content").wait_for()
        self.wait_idle()

    def cell(self, number: int) -> Locator:
        """Return a cell, counted from 0, or from the end."""
        return self.page.locator(".jp-Notebook .jp-CodeCell").nth(number)

    def output(self, number: int) -> Locator:
        """Return what a cell shows."""
        return self.cell(number).locator(".jp-OutputArea")

    def write(self, number: int, code: str) -> None:
        """Replace the code of a cell."""
        self.cell(number).locator(".cm-content").click()
        self.page.keyboard.press("Control+A")
        self.page.keyboard.insert_text(code)

    def run(self, code: str, *, waits: bool = True) -> int:
        """Write into the last cell and run it; return its number."""
        number = self.page.locator(".jp-Notebook .jp-CodeCell").count() - 1
        self.write(number, code)
        self.page.keyboard.press("Shift+Enter")
        if waits:
            self.wait_run(number)
        return number

    def wait_run(self, number: int) -> None:
        """Wait until a cell has run: it has a number in front of it."""
        prompt = self.cell(number).locator(".jp-InputPrompt", has_text=re.compile(r"\[\d+\]"))
        prompt.wait_for()
        self.wait_idle()

    def wait_idle(self) -> None:
        """Wait until the kernel is idle."""
        self.page.wait_for_function(_IS_IDLE)

    def menu(self, name: str, entry: str) -> None:
        """Choose from the menu bar."""
        self.page.locator(".lm-MenuBar-item", has_text=name).first.click()
        item = self.page.locator(".lm-Menu .lm-Menu-item", has_text=entry)
        item.first.click()

    def use_theme(self, name: str) -> None:
        """Change the theme."""
        change = (
            "name => window.jupyterapp.commands.execute('apputils:change-theme', {theme: name})"
        )
        self.page.evaluate(change, name)

    def press(self, command: str) -> None:
        """Press a button of the toolbar of the notebook."""
        self.page.locator(
            f".jp-NotebookPanel-toolbar [data-command='notebook:{command}'], "
            f".jp-NotebookPanel-toolbar [data-jp-item-name='{command}'] button, "
            f".jp-NotebookPanel-toolbar [data-jp-item-name='{command}'] jp-button"
        ).first.click()

    def cut_off(self) -> list[str]:
        """Return texts of pictures that reach out of them, and outputs wider than their place."""
        found: list[str] = self.page.evaluate(_CUT_OFF)
        return found

    def picture(self, name: str, *, of: Locator | None = None) -> None:
        """Keep a picture of the page, or of a part of it."""
        ARTIFACTS.mkdir(parents=True, exist_ok=True)
        (of or self.page).screenshot(path=ARTIFACTS / f"{name}.png")
