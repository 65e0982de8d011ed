"""Replays versions in engines, and says how what they do compares with what was recorded."""

from chexpoint.replay.files import FileSource
from chexpoint.replay.replay_log import recording_digest
from chexpoint.replay.replayer import Replayer

__all__ = ["FileSource", "Replayer", "recording_digest"]
