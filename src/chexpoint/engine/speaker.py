"""What the driver hears: the worker's messages in their order, and what the supervisor adds.

Front ends show under a cell only what comes between its start and its end, so
what is to be told waits for that.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from chexpoint.engine import instructions as do
from chexpoint.engine import marks, replies
from chexpoint.engine.asks import Request
from chexpoint.engine.front import Front
from chexpoint.engine.message import message_id, published
from chexpoint.engine.wire import Channel
from chexpoint.model import Seconds

# Bringing back a state that takes less is not worth a word.
_WORTH_A_LINE_S: Seconds = 0.5


@dataclass(frozen=True, slots=True)
class _Opening:
    """What is to be said at the start of a cell, or was said before the worker could."""

    request: Request
    remark: str = ""
    is_told: bool = False


class Speaker:
    """Passes messages on to the front; used by the supervisor's loop alone."""

    front: Front

    def __init__(self) -> None:
        self.current: Request | None = None
        """What the worker was given last."""
        self.is_replied = True
        """Whether it has been answered."""
        self._asking: Request | None = None
        """The last request of the driver's that was begun: where to tell it something."""
        self._has_begun = True
        """Whether anything was published for the current request."""
        self._held: list[tuple[Channel, Sequence[bytes]]] | None = None
        self._opening: _Opening | None = None
        self._progress: str | None = None
        self._mentions: list[str] = []

    # ------------------------------------------------------------ the worker's messages

    def given(self, request: Request) -> None:
        """The worker is given a request."""
        if request.kind == "comm" and not self.is_replied:
            return  # while an async cell runs
        self.current, self.is_replied, self._has_begun = request, False, False
        if request.kind != "again":
            self._asking = request
            if request.cell is not None and self._mentions and self._opening is None:
                self._opening = _Opening(request)

    def deliver(self, channel: Channel, frames: Sequence[bytes]) -> None:
        """Pass on a message of the worker."""
        self._has_begun = self._has_begun or channel == Channel.IOPUB
        if channel == Channel.IOPUB and self._opening is not None:
            self._open(frames, self._opening)
        else:
            self._pass_on(channel, frames)

    def _pass_on(self, channel: Channel, frames: Sequence[bytes]) -> None:
        if self._held is not None:
            self._held.append((channel, frames))
        else:
            self.front.deliver(channel, frames)

    def _open(self, frames: Sequence[bytes], opening: _Opening) -> None:
        """Deliver what the worker says first of a cell, with what we have to say."""
        kind, parent, _ = published(frames)
        is_first = parent == message_id(opening.request.frames)
        if not (is_first and opening.is_told):
            self._pass_on(Channel.IOPUB, frames)
        if is_first and kind == "execute_input":
            self._opening = None
            self._tell_mentions(opening.request)
            if opening.remark:
                self._display(marks.run_again(opening.remark), opening.request)

    def show(self, name: str, text: str) -> None:
        """Show text that came past the worker's messages."""
        replies.show(self.front, name, text, self._asking)

    # ------------------------------------------------------------ our own

    def obey(self, instruction: do.Instruction) -> bool:
        """Show or answer something; return whether the instruction was that."""
        match instruction:
            case do.Abort(request):
                replies.abort(self.front, request)
            case do.Fail():
                self._fail(instruction)
            case do.Recall():
                self._recall(instruction)
            case do.Remark(request, why):
                is_told = self._opening is not None and self._opening.request is request
                self._opening = _Opening(request, why, is_told=is_told)
            case do.Progress():
                self._show_progress(instruction)
            case do.Hold():
                self._held = []
            case do.Release():
                self.release()
            case do.Note(text, error):
                self._note(text, error)
            case _:
                return False
        return True

    def mention(self, text: str) -> None:
        """Tell the user something as soon as there is a cell to show it under."""
        is_running = self.current is not None and self.current.kind == "execute"
        if self._held is not None or (is_running and not self.is_replied):
            self._note(text, error=True)
        else:
            self._mentions.append(text)

    def release(self) -> None:
        """Deliver what was held."""
        held, self._held = self._held, None
        for channel, frames in held or ():
            self.front.deliver(channel, frames)

    def _fail(self, fail: do.Fail) -> None:
        self.is_replied = True
        opening, self._opening = self._opening, None
        is_begun = opening is not None and opening.is_told and opening.request is fail.request
        if fail.request is self.current:
            is_begun = is_begun or self._has_begun
        if not is_begun:
            replies.begin(self.front, fail.request, fail.execution_count)
        replies.fail(self.front, fail.request, fail.ename, fail.evalue)

    def _recall(self, recall: do.Recall) -> None:
        request, count = recall.request, recall.execution_count
        self._asking = request
        replies.begin(self.front, request, count)
        self._tell_mentions(request)
        mark = marks.reused(recall.found.cell.seconds)
        replies.recall(self.front, request, recall.found.outputs, count, mark)

    def _note(self, text: str, error: bool) -> None:
        self._deliver_outputs()
        self.show("stderr" if error else "stdout", f"CHEX: {text}\n")

    def _tell_mentions(self, request: Request) -> None:
        mentions, self._mentions = self._mentions, []
        for text in mentions:
            replies.show(self.front, "stderr", f"CHEX: {text}\n", request)

    def _deliver_outputs(self) -> None:
        """Deliver what the cell printed that is being answered; its reply stays held."""
        while self._held and self._held[0][0] == Channel.IOPUB:
            self.front.deliver(*self._held.pop(0))

    def _display(
        self,
        mark: marks.Mark,
        request: Request,
        kind: str = "display_data",
        display_id: str | None = None,
    ) -> None:
        self._deliver_outputs()
        self.front.publish(kind, replies.display(mark, display_id), request)

    def _show_progress(self, progress: do.Progress) -> None:
        """Show how far the worker is on its way, if that takes long enough to be worth a line."""
        asking = progress.request or self._asking
        if asking is None or asking.cell is None:
            return
        if progress.done < progress.total:
            if progress.spent + progress.left < _WORTH_A_LINE_S:
                return
            mark = marks.following(progress.done, progress.total, progress.left)
        elif self._progress is None and progress.spent < _WORTH_A_LINE_S:
            return
        else:
            mark = marks.followed(progress.total, progress.spent)
        if self._progress is None and progress.request is not None:
            replies.begin(self.front, progress.request, progress.execution_count)
            self._opening = _Opening(progress.request, is_told=True)
        kind = "display_data" if self._progress is None else "update_display_data"
        self._progress = self._progress or uuid.uuid4().hex
        self._display(mark, asking, kind, self._progress)
        if progress.done == progress.total:
            self._progress = None
