"""PTX to C++: runs what NVIDIA's compiler made of the kernels, not only what we wrote.

Covers the integer instructions that the compiler uses for these kernels; any other one is an error
here, and no instruction is passed over.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

_SPECIAL = {
    "%tid.x": "threadIdx.x",
    "%ntid.x": "blockDim.x",
    "%ctaid.x": "blockIdx.x",
    "%nctaid.x": "gridDim.x",
    "%laneid": "(threadIdx.x & 31)",
}
_COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
# By instruction without its type.  s: operands as they are, v: of the type, w: of the unsigned
# one, which wraps round in C++.
_EXPRESSIONS = {
    "add": "{w[0]} + {w[1]}",
    "sub": "{w[0]} - {w[1]}",
    "mul.lo": "{w[0]} * {w[1]}",
    "mul.wide": "({wide}){v[0]} * ({wide}){v[1]}",
    "mul.hi": "multiply_high<{kind}>({v[0]}, {v[1]})",
    "mad.lo": "{w[0]} * {w[1]} + {w[2]}",
    "div": "{v[0]} / {v[1]}",
    "rem": "{v[0]} % {v[1]}",
    "and": "{w[0]} & {w[1]}",
    "or": "{w[0]} | {w[1]}",
    "xor": "{w[0]} ^ {w[1]}",
    "not": "invert({w[0]})",
    "neg": "0 - {w[0]}",
    "shl": "shift_left<{kind}>({v[0]}, {w[1]})",
    "shr": "shift_right<{kind}>({v[0]}, {w[1]})",
    "shf.l.wrap": "funnel_left({w[0]}, {w[1]}, {w[2]})",
    "bfi": "insert_bits<{kind}>({w[0]}, {w[1]}, {w[2]}, {w[3]})",
    "prmt": "permute({w[0]}, {w[1]}, {w[2]})",
    "min": "smaller<{kind}>({v[0]}, {v[1]})",
    "max": "larger<{kind}>({v[0]}, {v[1]})",
    "popc": "__popc({w[0]})",
    "selp": "{s[2]} ? {v[0]} : {v[1]}",
    "cvta.to.global": "{s[0]}",
}
_ATOMICS = {"add": "atomicAdd", "min": "atomicMin", "cas": "atomicCAS"}


class UnknownInstruction(Exception):
    """An instruction that is not translated."""


def translate(ptx: str) -> str:
    """Return C++ with a function ``run_NAME`` for each kernel."""
    text = re.sub(r"//.*", "", ptx)
    lines = ['#include "ptx.h"']
    for name, values in re.findall(r"\.const [^;]*\.b8 (\w+)\[\d+\] = \{([^}]*)\};", text):
        lines.append(f"alignas(16) static const uint8_t {name}[] = {{{values}}};")
    # Shared memory has one array, at its start.
    shared = re.findall(r"\.extern \.shared [^;]*?(\w+)\[\];", text)
    lines += [f"static const uint64_t {name} = 0;" for name in shared]
    for name, body in re.findall(r"\.entry (\w+)\([^)]*\)[^{]*\{(.*?)\n\}", text, re.DOTALL):
        lines.append(f'extern "C" void run_{name}(const uint64_t *parameters) {{')
        lines += _function(name, body)
        lines.append("}")
    return "\n".join(lines) + "\n"


def _function(name: str, body: str) -> Iterator[str]:
    for kind, prefix, count in re.findall(r"\.reg \.(\w+)\s+%(\w+)<(\d+)>;", body):
        registers = ", ".join(f"{prefix}{i} = 0" for i in range(int(count)))
        yield f"{_type(kind, unsigned=True)} {registers};"
    for kind, register in sorted(set(re.findall(r"\.reg \.(\w+) (\w+);", body))):
        yield f"{_type(kind, unsigned=True)} {register} = 0;"
    body = re.sub(r"\.(reg|pragma)[^;]*;", "", body)
    # Braces that are no operands enclose such a register.
    body = re.sub(r"^\s*\{|\}\s*$", "", body, flags=re.MULTILINE)
    for statement in re.findall(r"\$?\w+:|[^;:]+;", body):
        words = " ".join(statement.split()).removesuffix(";")
        if words.endswith(":"):
            yield words.replace("$", "") + ";"
        else:
            yield _statement(words, name)


def _statement(words: str, name: str) -> str:
    guard = re.match(r"@(!?)%(\w+) ", words)
    condition = f"if ({guard[1]}{guard[2]}) " if guard else ""
    opcode, _, rest = words[guard.end() if guard else 0 :].partition(" ")
    operands = [one.strip() for one in re.findall(r"(?:\{[^}]*\}|\[[^\]]*\]|[^,])+", rest)]
    rest_of = opcode.split(".")
    translated = _HANDLERS.get(rest_of[0], _plain)(rest_of, operands, name)
    return f"{condition}{{ {translated} }}"


def _type(kind: str, *, unsigned: bool = False) -> str:
    if kind == "pred":
        return "bool"
    sign = "u" if kind[0] in "ub" or unsigned else ""
    return f"{sign}int{kind[1:]}_t"


def _value(operand: str) -> str:
    if operand in _SPECIAL:
        return _SPECIAL[operand]
    if re.fullmatch(r"-?\d+", operand):
        # The one number without a positive twin.
        return "INT64_MIN" if operand == "-9223372036854775808" else f"{operand}LL"
    if operand.startswith("%"):
        return operand[1:]
    return f"(uint64_t){operand}"


def _address(operand: str, space: str, size: int) -> str:
    base, _, offset = operand.strip("[]").partition("+")
    if space not in {"global", "shared", "const"}:
        raise UnknownInstruction(f"memory of {space}")
    function = "checked" if space == "const" else space
    return f"{function}({_value(base)} + {offset or 0}, {size})"


def _load(parts: list[str], operands: list[str], name: str) -> str:
    if parts[1] == "param":
        number = re.fullmatch(rf"\[{name}_param_(\d+)\]", operands[1])
        if number is None:
            raise UnknownInstruction(f"{parts} {operands}")
        return f"{_value(operands[0])} = parameters[{number[1]}];"
    return _move(parts, targets=operands[0], memory=operands[1], is_load=True)


def _store(parts: list[str], operands: list[str], _name: str) -> str:
    return _move(parts, targets=operands[1], memory=operands[0], is_load=False)


def _move(parts: list[str], *, targets: str, memory: str, is_load: bool) -> str:
    kind, registers = _type(parts[-1]), [one.strip() for one in targets.strip("{}").split(",")]
    if len(parts) - (len(registers) > 1) != 3 or (len(registers) > 1) != (parts[2][0] == "v"):
        raise UnknownInstruction(".".join(parts))
    size = int(parts[-1][1:]) // 8 * len(registers)
    lines = [f"auto *at = ({kind} *){_address(memory, parts[1], size)};"]
    for i, register in enumerate(registers):
        one = _value(register)
        lines.append(f"{one} = at[{i}];" if is_load else f"at[{i}] = ({kind}){one};")
    return " ".join(lines)


def _mov(parts: list[str], operands: list[str], _name: str) -> str:
    target, source = operands
    if target.startswith("{"):
        low, high = (one.strip().removeprefix("%") for one in target.strip("{}").split(","))
        return f"{low} = (uint32_t){_value(source)}; {high} = {_value(source)} >> 32;"
    if source.startswith("{"):
        low, high = (_value(one.strip()) for one in source.strip("{}").split(","))
        return f"{_value(target)} = (uint64_t){high} << 32 | {low};"
    return f"{_value(target)} = {_value(source)};"


def _atom(parts: list[str], operands: list[str], _name: str) -> str:
    if len(parts) != 4 or parts[1] != "global" or parts[2] not in _ATOMICS:
        raise UnknownInstruction(".".join(parts))
    kind = _type(parts[3])
    address = _address(operands[1], "global", int(parts[3][1:]) // 8)
    values = ", ".join(f"({kind}){_value(one)}" for one in operands[2:])
    return f"{_value(operands[0])} = {_ATOMICS[parts[2]]}(({kind} *){address}, {values});"


def _warp(parts: list[str], operands: list[str], _name: str) -> str:
    match parts:
        case ["shfl", "sync", "bfly" | "up", "b32"]:
            function = "shuffle_xor" if parts[2] == "bfly" else "shuffle_up"
            values = ", ".join(f"(uint32_t){_value(one)}" for one in operands[1:])
            return f"{_value(operands[0].partition('|')[0])} = {function}({values});"
        case ["vote", "sync", "ballot" | "any", _]:
            function = f"__{parts[2]}_sync"
            flag, mask = _value(operands[1]), _value(operands[2])
            return f"{_value(operands[0])} = {function}((uint32_t){mask}, {flag});"
    raise UnknownInstruction(".".join(parts))


def _control(parts: list[str], operands: list[str], _name: str) -> str:
    match parts:
        case ["bra"] | ["bra", "uni"]:
            return f"goto {operands[0].replace('$', '')};"
        case ["ret"]:
            return "return;"
        case ["bar", "sync"] if operands == ["0"]:
            return "__syncthreads();"
    raise UnknownInstruction(f"{'.'.join(parts)} {operands}")


def _plain(parts: list[str], operands: list[str], _name: str) -> str:
    target, *sources = map(_value, operands)
    return f"{target} = {_expression(parts, sources)};"


def _expression(parts: list[str], sources: list[str]) -> str:
    name = ".".join(parts[:-1])
    kind, unsigned = _type(parts[-1]), _type(parts[-1], unsigned=True)
    values = [f"({kind}){one}" for one in sources]
    words = [f"({unsigned}){one}" for one in sources]
    if parts[0] == "cvt" and len(parts) == 3:
        return f"({_type(parts[1])}){values[0]}"
    if parts[0] == "setp" and len(parts) == 3 and parts[1] in _COMPARISONS:
        return f"{values[0]} {_COMPARISONS[parts[1]]} {values[1]}"
    if name not in _EXPRESSIONS:
        raise UnknownInstruction(".".join(parts))
    wide = f"{kind[:-4]}64_t"
    return _EXPRESSIONS[name].format(s=sources, v=values, w=words, kind=kind, wide=wide)


_HANDLERS: dict[str, Callable[[list[str], list[str], str], str]] = {
    "ld": _load,
    "st": _store,
    "mov": _mov,
    "atom": _atom,
    "shfl": _warp,
    "vote": _warp,
    "bra": _control,
    "ret": _control,
    "bar": _control,
}
