"""A file of SQLite, small on the disk, whose rows share one page of overflow that follows itself without end."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

_PAGE = 4096
_LEAF, _INTERIOR = 0x0D, 0x05  # sqlite.org/fileformat2.html, "b-tree pages"


def overflow(path: Path, table: str, *, leaves: int) -> int:
    """Let the only row of that table, one of more than a page, stand on so many pages, many times on each, every one
    with all of its content. Returns how many rows there are."""
    with closing(sqlite3.connect(path)) as connection:
        root = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (table,)).fetchone()[0]
    data = bytearray(path.read_bytes())
    page = (root - 1) * _PAGE
    assert data[page] == _LEAF and _number(data[page + 3:page + 5]) == 1, "a table of one row"
    size, at = _decoded(data, page + _number(data[page + 8:page + 10]))
    at = _decoded(data, at)[1]
    least = (_PAGE - 12) * 32 // 255 - 23
    here = least + (size - least) % (_PAGE - 4)
    here = here if here <= _PAGE - 35 else least
    body, first = data[at:at + here], _number(data[at + here:at + here + 4])
    data[(first - 1) * _PAGE:first * _PAGE] = first.to_bytes(4, "big") + b"a" * (_PAGE - 4)
    row, pages = 1, list[tuple[bytes, int]]()
    for _ in range(leaves):
        cells = list[bytes]()
        while sum(map(len, cells)) + here + 30 + 2 * len(cells) < _PAGE - 12:
            cells.append(_encoded(size) + _encoded(row) + body + first.to_bytes(4, "big"))
            row += 1
        pages.append((_filled(_LEAF, cells), row - 1))
    count = len(data) // _PAGE
    ends = [(count + 1 + index).to_bytes(4, "big") + _encoded(last) for index, (_, last) in enumerate(pages[:-1])]
    data[page:page + _PAGE] = _filled(_INTERIOR, ends, right=count + len(pages))
    data[28:32] = (count + len(pages)).to_bytes(4, "big")
    keep = max(root, first) * _PAGE
    path.unlink()
    with open(path, "wb") as file:
        file.write(data[:keep])
        file.seek(count * _PAGE)
        file.writelines(leaf for leaf, _ in pages)
    return row - 1


def _filled(kind: int, cells: list[bytes], *, right: int | None = None) -> bytes:
    page, end, header = bytearray(_PAGE), _PAGE, 8 if right is None else 12
    page[0] = kind
    page[3:5] = len(cells).to_bytes(2, "big")
    for index, cell in enumerate(cells):
        end -= len(cell)
        page[end:end + len(cell)] = cell
        page[header + 2 * index:header + 2 * index + 2] = end.to_bytes(2, "big")
    page[5:7] = end.to_bytes(2, "big")
    if right is not None:
        page[8:12] = right.to_bytes(4, "big")
    return bytes(page)


def _number(data: bytes | bytearray) -> int:
    return int.from_bytes(data, "big")


def _encoded(number: int) -> bytes:
    digits = [number & 0x7F]
    while number := number >> 7:
        digits.append(number & 0x7F | 0x80)
    return bytes(reversed(digits))


def _decoded(data: bytearray, at: int) -> tuple[int, int]:
    number = 0
    while True:
        number = number << 7 | data[at] & 0x7F
        at += 1
        if not data[at - 1] & 0x80:
            return number, at
