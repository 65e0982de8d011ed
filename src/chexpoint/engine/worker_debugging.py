"""The worker's part of the debugger, whose other part is in the supervisor's process."""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ipykernel.jsonutil import json_clean

if TYPE_CHECKING:
    from chexpoint.engine.worker_images import WorkerImages


class WorkerDebugging:
    """Does in a worker what the debugger asks for.

    Parameters
    ----------
    kernel
        IPython's, whose cells are debugged.
    images
        Are told that the state may have changed.
    """

    def __init__(self, kernel: Any, images: WorkerImages, loop: AbstractEventLoop) -> None:
        self.is_attached = False
        self._kernel, self._images, self._loop = kernel, images, loop

    def obey(self, args: Mapping[str, Any]) -> Any:
        """Do one thing and return what comes of it, made of JSON types."""
        match args["what"]:
            case "debug_listen":
                import debugpy

                try:
                    debugpy.listen((args["host"], args["port"]))
                except Exception as error:
                    return {"ok": False, "error": str(error)}
                self.is_attached = True
                self._keep_leading_lines(True)
                return {"ok": True, "modules": self._kernel._kernel_modules}
            case "debug_transforms":
                self._keep_leading_lines(args["on"])
                return {}
            case "debug_request":
                self._images.ran(0, None)
                request = self._kernel.debugger_here().process_request(args["message"])
                return json_clean(self._loop.run_until_complete(request))
        return None

    def _keep_leading_lines(self, on: bool) -> None:
        """Breakpoints are set by line number: empty first lines must then stay."""
        from IPython.core.inputtransformer2 import leading_empty_lines

        transforms = self._kernel.shell.input_transformer_manager.cleanup_transforms
        if on and leading_empty_lines in transforms:
            transforms.remove(leading_empty_lines)
        elif not on and leading_empty_lines not in transforms:
            transforms.insert(0, leading_empty_lines)
