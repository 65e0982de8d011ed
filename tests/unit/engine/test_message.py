"""Jupyter messages, as the supervisor reads and signs them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jupyter_client.session import Session

from chexpoint.engine import Codec
from chexpoint.errors import InvalidValue

KEY = b"a key"


def session() -> Session:
    return Session(key=KEY)


def test_what_jupyter_client_signs_is_read() -> None:
    sent = session()
    message = sent.msg("execute_request", {"code": "1"})
    frames = [b"ident", *sent.serialize(message)]
    parsed = Codec(KEY).parse(frames)
    assert parsed.idents == (b"ident",)
    assert parsed.type == "execute_request"
    assert parsed.reply_type == "execute_reply"
    assert parsed.content == {"code": "1"}


def test_what_we_sign_jupyter_client_reads() -> None:
    parent = session().msg_header("execute_request")
    frames = Codec(KEY).build("status", {"execution_state": "idle"}, idents=[b"topic"])
    _, rest = session().feed_identities(frames)
    message = session().deserialize(rest)
    assert message["msg_type"] == "status"
    assert message["content"] == {"execution_state": "idle"}
    assert parent


def test_a_wrong_signature_is_refused() -> None:
    frames = Codec(b"another key").build("shutdown_request", {"restart": False})
    with pytest.raises(InvalidValue, match="signature"):
        Codec(KEY).parse(frames)


def test_a_repeated_message_is_refused_where_that_matters() -> None:
    codec = Codec(KEY)
    frames = codec.build("shutdown_request", {"restart": False})
    codec.parse(frames, once=True)
    with pytest.raises(InvalidValue, match="repeated"):
        codec.parse(frames, once=True)


@given(st.lists(st.binary(max_size=50), max_size=8))
def test_any_frames_are_a_message_or_a_clear_error(frames: list[bytes]) -> None:
    with pytest.raises(InvalidValue):
        Codec(KEY).parse(frames)
    with pytest.raises(InvalidValue):
        Codec().parse([b"<IDS|MSG>", *frames])
