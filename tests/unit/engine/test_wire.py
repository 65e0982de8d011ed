"""Packets arrive whole, in order, with their descriptors."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chexpoint.engine.wire import Channel, Link


@pytest.fixture
def links() -> Iterator[tuple[Link, Link]]:
    a, b = Link.pair()
    yield a, b
    a.close()
    b.close()


@settings(max_examples=60, deadline=None)
@given(
    channel=st.sampled_from(list(Channel)),
    frames=st.lists(st.binary(max_size=300), max_size=20),
    large=st.sampled_from([0, 1, 96 * 1024 - 50, 96 * 1024, 97 * 1024, 3_000_000]),
)
def test_round_trip(channel: Channel, frames: list[bytes], large: int) -> None:
    a, b = Link.pair()
    try:
        sent = [*frames, b"x" * large]
        a.send(channel, sent)
        packet = b.receive()
        assert packet is not None
        assert (packet.channel, packet.frames, packet.fds) == (channel, sent, [])
    finally:
        a.close()
        b.close()


@pytest.mark.parametrize("count", [0, 499, 500, 501, 20_000])
def test_many_frames(count: int, links: tuple[Link, Link]) -> None:
    a, b = links
    sent = [str(n).encode() for n in range(count)]
    a.send(Channel.SHELL, sent)
    packet = b.receive()
    assert packet is not None
    assert packet.frames == sent


@pytest.mark.parametrize("size", [10, 200_000])
def test_descriptors_travel_with_a_packet(size: int, links: tuple[Link, Link]) -> None:
    a, b = links
    reader, writer = os.pipe()
    a.send(Channel.ENGINE, [b"y" * size], [writer])
    os.close(writer)
    packet = b.receive()
    assert packet is not None
    assert packet.frames == [b"y" * size]
    os.write(packet.fds[0], b"hello")
    assert os.read(reader, 10) == b"hello"
    packet.close_fds()
    os.close(reader)


def test_buffers_of_any_type_are_bytes_on_the_other_side(links: tuple[Link, Link]) -> None:
    np = pytest.importorskip("numpy")
    a, b = links
    array = np.arange(12, dtype="int32").reshape(3, 4)
    a.send(Channel.IOPUB, [memoryview(array), memoryview(array.T), bytearray(b"z")])
    packet = b.receive()
    assert packet is not None
    assert packet.frames == [array.tobytes(), array.T.tobytes(), b"z"]


def test_an_end_that_closes_is_noticed_after_what_it_sent(links: tuple[Link, Link]) -> None:
    a, b = links
    a.command(do="last")
    a.close()
    packet = b.receive()
    assert packet is not None
    assert packet.command() == {"do": "last"}
    assert b.receive() is None


def fill(link: Link) -> None:
    for _ in range(100_000):
        link.send(Channel.IOPUB, [b"x" * 50_000], wait=False)


def test_a_full_link_does_not_block(links: tuple[Link, Link]) -> None:
    a, b = links
    with pytest.raises(BlockingIOError):
        fill(a)
    with pytest.raises(BlockingIOError):
        a.receive(wait=False)
    assert b.receive() is not None


def test_threads_share_a_link_without_mixing_packets(links: tuple[Link, Link]) -> None:
    a, b = links
    count = 200

    def send(word: bytes) -> None:
        for n in range(count):
            a.send(Channel.IOPUB, [word * 1000, str(n).encode()])

    threads = [threading.Thread(target=send, args=(w,)) for w in (b"a", b"b", b"c")]
    for thread in threads:
        thread.start()
    got = [b.receive() for _ in range(count * 3)]
    for thread in threads:
        thread.join()
    for word in (b"a", b"b", b"c"):
        mine = [p.frames[1] for p in got if p and p.frames[0] == word * 1000]
        assert mine == [str(n).encode() for n in range(count)]
