"""What scikit-learn estimators hold: all their attributes, arrays as leaves of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chexpoint.hindsight.state.arrays import is_small, is_storable, takes
from chexpoint.hindsight.state.managed import Adapter, Parts, State
from chexpoint.hindsight.state.numpy_door import np


class EstimatorAdapter(Adapter):
    """``sklearn.base.BaseEstimator``, fitted or not, with ``partial_fit`` or ``warm_start``."""

    # The trees of a forest are the forest's.
    is_apart = False

    def parts(self, obj: Any) -> tuple[State, Parts]:
        state: State = {}
        parts: Parts = {}
        for name, value in vars(obj).items():
            if type(value) is np.ndarray and is_storable(value) and not is_small(value):
                parts[name] = value
            else:
                state[name] = value
        state["@arrays"] = sorted(parts)
        return state, parts

    def put(self, obj: Any, state: State, parts: Mapping[str, Any]) -> None:
        live = vars(obj)
        arrays = {name: live[name] for name in state.pop("@arrays") if name in live}
        for name, value in parts.items():
            here = arrays.get(name)
            if here is not None and takes(here, value):
                np.copyto(here, value)
            else:
                arrays[name] = value.copy(order="K")
        live.clear()
        live.update(state)
        live.update(arrays)
