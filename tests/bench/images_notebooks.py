"""Notebooks whose states are kept on disk, for `images.py`."""

from __future__ import annotations

from dataclasses import dataclass

CELLS = 5

_ARRAY = "import numpy as np\na = np.random.default_rng(0).random({elements})"
_ARRAY_SUM = "print(float(a[::1009].sum()), len(a))"
_ARRAY_PROOF = "import hashlib\nprint(hashlib.blake2b(a).hexdigest())"


@dataclass(frozen=True, slots=True, kw_only=True)
class Notebook:
    """A set-up, then cells after each of which the state is kept."""

    name: str
    about: str
    setup: str
    cells: tuple[str, ...]
    read: str
    """What a user looks at first after going back: it touches the state, and prints."""
    proof: str
    """Prints a digest of the whole state."""


def notebooks(quick: bool = False) -> tuple[Notebook, ...]:
    """Return the notebooks; `quick` ones have a tenth of the data."""
    part = 10 if quick else 1
    elements, rows, records = 25_000_000 // part, 2_500_000 // part, 50_000 // part
    return (
        Notebook(
            name="in_place",
            about="an array of 200 MB of which each cell changes 1,000 elements in place",
            setup=_ARRAY.format(elements=elements),
            cells=tuple(
                f"at = np.random.default_rng({n + 1}).integers(0, len(a), 1000)\na[at] += 1.0"
                for n in range(CELLS)
            ),
            read=_ARRAY_SUM,
            proof=_ARRAY_PROOF,
        ),
        Notebook(
            name="idle",
            about="an array of 200 MB that stays as it is while each cell sets a number",
            setup=_ARRAY.format(elements=elements),
            cells=tuple(f"x = {n}" for n in range(CELLS)),
            read="print(x, float(a[::1009].sum()), len(a))",
            proof=_ARRAY_PROOF + "\nprint(x)",
        ),
        Notebook(
            name="frame",
            about="a data frame of 200 MB that gains a column in each cell",
            setup=(
                "import numpy as np\nimport pandas as pd\n"
                f"values = np.random.default_rng(0).random(({rows}, 10))\n"
                "df = pd.DataFrame(values, columns=list('abcdefghij'))\ndel values"
            ),
            cells=tuple(f"df['k{n}'] = df['a'] * {n + 2} + df['b']" for n in range(CELLS)),
            read="print(df.shape, float(df.iloc[::1009].to_numpy().sum()))",
            proof=(
                "import hashlib\n"
                "print(hashlib.blake2b(np.ascontiguousarray(df.to_numpy())).hexdigest(), "
                "list(df.columns), list(df.dtypes))"
            ),
        ),
        Notebook(
            name="dicts",
            about="a list of 50,000 dicts of which each cell changes one",
            setup=(
                f"rows = [{{'id': i, 'name': f'name {{i}}', 'value': i / 2}} "
                f"for i in range({records})]"
            ),
            cells=tuple(f"rows[{n} * 97 + 11]['value'] = -{n + 1}.0" for n in range(CELLS)),
            read="print(len(rows), sum(r['value'] for r in rows))",
            proof="import hashlib\nprint(hashlib.blake2b(repr(rows).encode()).hexdigest())",
        ),
    )
