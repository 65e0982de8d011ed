"""The filter picks out exactly the calls that are audited: it is run here, call by call."""

from __future__ import annotations

import fcntl
import os
import struct
from pathlib import Path

import pytest

from chexpoint.lineage.syscalls import UNSEEN, architecture, filter_program, names_by_number

ALLOW, NOTIFY = 0x7FFF0000, 0x7FC00000
X86_64, I386, AARCH64, ARM = 0xC000003E, 0x40000003, 0xC00000B7, 0x40000028
X32 = 0x40000000
NUMBERS = range(600)
LOAD, EQUAL, ANY_BIT, RETURN = 0x20, 0x15, 0x45, 0x06
MOST_INSTRUCTIONS = 4096


def run_filter(program: bytes, arch: int, number: int, *args: int) -> int:
    """Return what a filter says about a call: what Linux does with it, in Python."""
    data = struct.pack("<IIQ6Q", number, arch, 0, *args, *[0] * (6 - len(args)))
    code = list(struct.iter_unpack("<HBBI", program))
    at, accumulator = 0, 0
    while True:
        op, if_true, if_false, value = code[at]
        at += 1
        if op == LOAD:
            (accumulator,) = struct.unpack_from("<I", data, value)
        elif op == EQUAL:
            at += if_true if accumulator == value else if_false
        elif op == ANY_BIT:
            at += if_true if accumulator & value else if_false
        else:
            assert op == RETURN
            return int(value)


def program_of(machine: str) -> bytes:
    arch = architecture(machine)
    assert arch is not None
    return filter_program(arch)


@pytest.mark.parametrize(("machine", "arch"), [("x86_64", X86_64), ("aarch64", AARCH64)])
def test_every_number_that_has_a_name_notifies_and_no_other_does(machine: str, arch: int) -> None:
    known = architecture(machine)
    assert known is not None
    program = filter_program(known)
    special = {known.calls[name] for name in ("seccomp", "sendto", "getrandom")}
    for number in NUMBERS:
        expected = number in known.calls.values() and number not in special
        # The arguments that let the special calls pass.
        verdict = run_filter(program, arch, number, 0, 16, 0, 0, 0)
        assert verdict == (NOTIFY if expected else ALLOW), number


def test_the_calls_by_which_files_are_read_and_changed_are_among_them() -> None:
    reading = {"openat", "openat2", "execve", "execveat", "connect", "sendto", "getrandom"}
    changing = {"unlinkat", "renameat2", "linkat", "symlinkat", "mkdirat", "truncate"}
    for machine in ("x86_64", "aarch64"):
        known = architecture(machine)
        assert known is not None
        assert reading | changing <= known.calls.keys()


@pytest.mark.parametrize(
    ("machine", "arch", "number"), [("x86_64", X86_64, 44), ("aarch64", AARCH64, 206)]
)
@pytest.mark.parametrize(
    ("address", "verdict"), [(0, ALLOW), (1, NOTIFY), (0x7FFF12345678, NOTIFY), (1 << 32, NOTIFY)]
)
def test_sendto_notifies_only_with_an_address(
    machine: str, arch: int, number: int, address: int, verdict: int
) -> None:
    assert run_filter(program_of(machine), arch, number, 3, 1000, 5, 0, address, 16) == verdict


@pytest.mark.parametrize(
    ("machine", "arch", "number"), [("x86_64", X86_64, 318), ("aarch64", AARCH64, 278)]
)
def test_getrandom_notifies_except_for_the_sizes_that_libraries_ask_for(
    machine: str, arch: int, number: int
) -> None:
    program = program_of(machine)
    passed = {n for n in range(5000) if run_filter(program, arch, number, 9, n) == ALLOW}
    assert passed == {8, 16, 24, 32, 2496}


def test_on_x86_old_32_bit_calls_are_seen_by_their_own_numbers() -> None:
    program = program_of("x86_64")
    known = architecture("x86_64")
    assert known is not None
    assert known.foreign_calls is not None
    notified = {n for n in NUMBERS if run_filter(program, I386, n) == NOTIFY}
    assert notified == set(known.foreign_calls.values()) == {5, 8, 11, 295, 358, 437}


def test_on_x86_every_x32_call_notifies() -> None:
    program = program_of("x86_64")
    assert {run_filter(program, X86_64, X32 | n) for n in NUMBERS} == {NOTIFY}


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_programs_of_an_unknown_kind_are_let_be(machine: str) -> None:
    program = program_of(machine)
    assert {run_filter(program, ARM, n) for n in NUMBERS} == {ALLOW}


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_no_program_is_longer_than_linux_takes_nor_jumps_past_its_end(machine: str) -> None:
    code = list(struct.iter_unpack("<HBBI", program_of(machine)))
    assert len(code) <= MOST_INSTRUCTIONS
    for at, (op, if_true, if_false, _) in enumerate(code):
        if op in {EQUAL, ANY_BIT}:
            assert at + 1 + max(if_true, if_false) < len(code)
    assert code[-1][0] == RETURN


def test_names_tell_the_same_number_apart_by_the_kind_of_program() -> None:
    known = architecture("x86_64")
    assert known is not None
    names = names_by_number(known)
    assert names[X86_64, 2] == "open"
    assert names[I386, 5] == "open"
    assert names[X86_64, 85] == "creat"
    assert (I386, 85) not in names
    assert len(names) == len(known.calls) + 6


def test_an_unknown_machine_has_no_architecture() -> None:
    assert architecture("vax") is None


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_only_what_is_opened_for_chex_itself_passes_unseen(machine: str) -> None:
    arch = architecture(machine)
    assert arch is not None
    for flags in (0, 0o2000000, 0o200000, UNSEEN >> 1, 0xFFFFFFFF & ~UNSEEN):
        call = filter_program(arch), arch.audit_arch, arch.calls["openat"], 3, 9
        assert run_filter(*call, flags) == NOTIFY
        assert run_filter(*call, flags | UNSEEN) == ALLOW


def test_linux_ignores_the_flag(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"contents")
    fd = os.open(path, os.O_RDONLY | UNSEEN)
    try:
        assert os.read(fd, 100) == b"contents"
        assert not fcntl.fcntl(fd, fcntl.F_GETFL) & UNSEEN
    finally:
        os.close(fd)
