"""Keeps system calls going for processes that outlive their kernel: ``caretaker.py FD...``.

A process under a filter whose listener is gone cannot open files any more.  A
server that a cell has started in a session of its own may live on after the
kernel, and so somebody has to.  Stands alone: it is run without the package.
"""

import fcntl
import select
import struct
import sys

_RECEIVE, _SEND, _CONTINUE = 0xC0502100, 0xC0182101, 1


def main(fds: list[int]) -> None:
    """Let every system call go on until no process is left under any of the filters."""
    poll = select.poll()
    for fd in fds:
        poll.register(fd, select.POLLIN)
    left = set(fds)
    while left:
        for fd, event in poll.poll():
            if event & select.POLLIN:
                buffer = bytearray(80)
                try:
                    fcntl.ioctl(fd, _RECEIVE, buffer, True)
                    (ident,) = struct.unpack_from("<Q", buffer)
                    fcntl.ioctl(fd, _SEND, struct.pack("<QqiI", ident, 0, 0, _CONTINUE))
                except OSError:
                    pass  # its caller was killed
            elif event:
                poll.unregister(fd)
                left.discard(fd)


if __name__ == "__main__":
    main([int(word) for word in sys.argv[1:]])
