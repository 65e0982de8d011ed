"""What a newcomer does in their first hour, in JupyterLab, in a real browser.

Pictures are kept in ``test-artifacts/browser``, to be looked at.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from chexpoint.palette import CHECKPOINT, REUSED
from tests.support.browser import Lab, jupyter_lab, open_page

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

SLOW = (
    "import random\nrandom.seed(1)\n"
    "walk = [random.gauss(0, 1) for _ in range(1_000_000)]\nlen(walk)"
)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Return a notebook with the kernel CHEX, chosen in the launcher."""
    folder = tmp_path_factory.mktemp("lab")
    with open_page(folder / "profile") as page, jupyter_lab(folder) as address:
        lab = Lab(page)
        try:
            lab.new_notebook(address, "CHEX")
            yield lab
        finally:
            lab.picture("last")


def test_a_first_hour(lab: Lab) -> None:
    """One story: each part goes on where the one before has ended."""
    a_notebook_is_run_edited_and_run_again(lab)
    the_tree_is_shown_and_gone_back_in(lab)
    all_versions_are_replayed(lab)
    states_and_lineage_are_shown(lab)
    it_can_be_read_in_the_dark(lab)
    a_widget_works_after_a_restore(lab)
    a_cell_is_interrupted_and_the_kernel_restarted(lab)


def a_notebook_is_run_edited_and_run_again(lab: Lab) -> None:
    lab.run("%chex_record first")
    lab.run(SLOW)
    last = lab.run('shown = max(walk)\nf"shown: {shown:.3f}"')
    assert "shown: 4.989" in lab.output(last).inner_text()
    assert "reused" not in lab.output(1).inner_text()
    lab.write(0, "%chex_record second")
    lab.write(last, 'shown = min(walk)\nf"shown: {shown:.3f}"')
    lab.menu("Run", "Run All Cells")
    lab.output(last).get_by_text(re.compile(r"shown: -\d")).wait_for()
    lab.output(1).get_by_text(re.compile(r"CHEX: reused, saved")).wait_for()
    lab.wait_idle()
    lab.picture("1-reused-light")


def the_tree_is_shown_and_gone_back_in(lab: Lab) -> None:
    tree = lab.run("%chex_tree")
    picture = lab.output(tree).locator("svg, img").first
    picture.wait_for()
    assert "first" in lab.output(tree).inner_html()
    assert "second" in lab.output(tree).inner_html()
    lab.picture("2-tree-light", of=lab.output(tree))
    lab.run("%chex_checkout first")
    back = lab.run('f"shown: {shown:.3f}"')
    assert "shown: 4.989" in lab.output(back).inner_text()
    lab.picture("3-checkout-light")


def all_versions_are_replayed(lab: Lab) -> None:
    replay = lab.run("%chex_replay --all-versions", waits=False)
    # The bar, while it runs: it is replaced by the result.
    lab.output(replay).locator("progress, [role=progressbar], .chex-bar").first.wait_for()
    lab.output(replay).get_by_text(re.compile(r"\d+ of \d+ versions reproduced")).first.wait_for()
    lab.wait_run(replay)
    lab.picture("4-replay-light", of=lab.output(replay))


def states_and_lineage_are_shown(lab: Lab) -> None:
    status = lab.run("%chex_status")
    lab.output(status).get_by_text(CHECKPOINT.sign).first.wait_for()
    lab.picture("4-status-light", of=lab.output(status))
    lineage = lab.run("%chex_lineage")
    lab.output(lineage).locator("svg.chex-lineage").wait_for()
    lab.picture("4-lineage-light", of=lab.output(lineage))
    assert lab.cut_off() == []


def it_can_be_read_in_the_dark(lab: Lab) -> None:
    lab.use_theme("JupyterLab Dark")
    lab.page.wait_for_function("document.body.dataset.jpThemeLight === 'false'")
    shown = ((1, "reused"), (3, "tree"), (6, "replay"), (7, "status"), (8, "lineage"))
    for number, name in shown:
        lab.picture(f"5-{name}-dark", of=lab.cell(number))
    assert lab.cut_off() == []
    # Ink is that of the theme, and the sign has its own colour in both.
    sign = lab.output(1).get_by_text(REUSED.sign, exact=True)
    assert sign.evaluate("each => getComputedStyle(each).color") == in_css(REUSED.colour)
    tree = lab.output(3).locator("svg.chex-tree")
    light = tree.evaluate("each => getComputedStyle(each).color")
    assert min(int(part) for part in re.findall(r"\d+", light)[:3]) > 128


def in_css(colour: str) -> str:
    return f"rgb({', '.join(str(int(colour[i : i + 2], 16)) for i in (1, 3, 5))})"


def a_widget_works_after_a_restore(lab: Lab) -> None:
    lab.run("import ipywidgets\nslider = ipywidgets.IntSlider(value=3)\nslider")
    lab.run("%chex_checkpoint widget")
    lab.run("slider.value = 50")
    lab.run("%chex_restore widget")
    shown = lab.run("slider")
    lab.run("slider.value += 4")
    lab.output(shown).locator(".widget-readout", has_text="7").wait_for()
    handle = lab.output(shown).locator(".noUi-handle").first
    handle.focus()
    lab.page.keyboard.press("ArrowRight")
    lab.output(shown).locator(".widget-readout", has_text="8").wait_for()
    value = lab.run("slider.value")
    assert lab.output(value).inner_text().split()[-1] == "8"
    lab.picture("6-widget-dark", of=lab.output(shown))


def a_cell_is_interrupted_and_the_kernel_restarted(lab: Lab) -> None:
    endless = lab.run("print('begun', flush=True)\nwhile True: pass", waits=False)
    lab.output(endless).get_by_text("begun").wait_for()
    lab.press("interrupt")
    lab.output(endless).get_by_text("KeyboardInterrupt").first.wait_for()
    lab.wait_run(endless)
    lab.press("restart")
    lab.page.locator(".jp-Dialog-button.jp-mod-accept").click()
    lab.page.locator(".jp-Dialog").wait_for(state="detached")
    lab.wait_idle()
    lab.run("%chex_checkout second")
    after = lab.run('f"shown: {shown:.3f}"')
    assert re.search(r"shown: -\d", lab.output(after).inner_text())
    lab.picture("7-restarted-dark")
