"""Call functions of libtracetools as standard input says, as one simulated process.

A line of input is JSON: ``{"thread": n, "calls": [[function, [[type, value], ...]], ...]}``. The
program answers each line with the thread's id once the functions have returned. It needs only the
standard library; libtracetools is preloaded, so LTTng knows its events before the first line is
read.
"""

import ctypes
import json
import queue
import sys
import threading

LIBRARY = ctypes.CDLL(None)
SIMPLE = {
    "int64_t": ctypes.c_int64,
    "uint64_t": ctypes.c_uint64,
    "size_t": ctypes.c_size_t,
    "bool": ctypes.c_bool,
    "int": ctypes.c_int,
}


def argument(kind, value):
    """Convert a value to its C type."""
    kind = kind.replace("const ", "").strip()
    if isinstance(value, list):
        size = ctypes.c_uint8 if "char" in kind or "uint8" in kind else ctypes.c_void_p
        return (size * max(len(value), 24))(*value)
    if "*" in kind:
        if isinstance(value, str):
            return ctypes.c_char_p(value.encode())
        return ctypes.c_void_p(value)
    return SIMPLE[kind](value)


def call(order):
    ready = [
        (getattr(LIBRARY, name), [argument(*pair) for pair in arguments])
        for name, arguments in order["calls"]
    ]
    for function, arguments in ready:
        function(*arguments)


def serve(orders, done):
    while (order := orders.get()) is not None:
        call(order)
        done.put(None)


def main():
    threads = {}
    done = queue.SimpleQueue()
    for line in sys.stdin:
        order = json.loads(line)
        number = order["thread"]
        if number is None:
            call(order)
        else:
            if number not in threads:
                orders = queue.SimpleQueue()
                thread = threading.Thread(target=serve, args=(orders, done), daemon=True)
                thread.start()
                threads[number] = orders, thread.native_id
            threads[number][0].put(order)
            done.get()
        vtid = threading.get_native_id() if number is None else threads[number][1]
        print(vtid, flush=True)


main()
