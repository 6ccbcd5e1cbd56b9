"""Copies a libnccl and makes the copy say that it is the next release: otherversion.py FROM TO."""
import ctypes
import struct
import sys

source, target = sys.argv[1:]
code = ctypes.c_int()
assert ctypes.CDLL(source).ncclGetVersion(ctypes.byref(code)) == 0
data = bytearray(open(source, "rb").read())
(shoff,), (shentsize, shnum) = struct.unpack_from("<Q", data, 40), struct.unpack_from("<HH", data, 58)
sections = [struct.unpack_from("<IIQQQQIIQQ", data, shoff + i * shentsize) for i in range(shnum)]
place = None
for _, kind, _, _, offset, size, link, _, _, entry in sections:
    if kind != 11:  # SHT_DYNSYM
        continue
    strings = sections[link][4]
    for at in range(offset, offset + size, entry):
        name, _, _, _, value, length = struct.unpack_from("<IBBHQQ", data, at)
        end = data.index(0, strings + name)
        if data[strings + name : end] == b"ncclGetVersion":
            place = value, length
assert place, "no ncclGetVersion"
value, length = place
for _, _, _, address, offset, size, *_ in sections:
    if address and address <= value < address + size:
        begin = value - address + offset
at = data.find(struct.pack("<I", code.value), begin, begin + max(length, 512))
assert at >= 0, "the version is no constant of ncclGetVersion"
struct.pack_into("<I", data, at, code.value + 1)
open(target, "wb").write(data)
