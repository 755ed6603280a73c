"""Draw random CTF 2 classes, values for them, and what our reader must make of these values."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.ctf.ctf2_writer import (
    HEADER_ID,
    HEADER_TIME,
    UUID_NUMBERS,
    Class,
    Fragments,
    lttng_header,
    plain_header,
    structure,
    uint,
)

LETTERS = "abcXYZ 09_äß€\U0001f422"
ENCODINGS = ["utf-8", "utf-16le", "utf-16be", "utf-32le", "utf-32be"]
ORDERS = ["little-endian", "big-endian"]


class Model:
    """A random trace class; ``old`` restricts it to what CTF 1.8 can express.

    ``for_babeltrace`` also restricts it to what babeltrace2 2.0.4 can read: that aborts on lengths
    and selectors in an event's own context, knows no integers of more than 64 bits, and converts
    clocks of other frequencies than 1 GHz with doubles.
    """

    def __init__(self, random: Random, *, old: bool = False, for_babeltrace: bool = False) -> None:
        self.random = random
        self.old = old
        self.for_babeltrace = for_babeltrace
        self.order = random.choice(ORDERS)
        self.offset = {"seconds": random.choice([0, 1_700_000_000]), "cycles": 0}
        self.frequency = random.choice([10**9, 10**9, 10**6, 24_000_000])
        if for_babeltrace:
            self.frequency = 10**9
        self.offset["cycles"] = random.randrange(self.frequency)
        self.extended = random.random() < 0.5
        """Whether numbers and times that do not fit have a second form of header, as LTTng's."""
        self.header = self.any_header()
        self.events = [
            {
                "type": "event-record-class",
                "id": i + random.choice([0, 0, 40, 70_000] if self.extended else [0]),
                "name": f"p:e{i}",
                "payload-field-class": self.structure(),
            }
            for i in range(random.randint(1, 3))
        ]
        context = self.structure(2, references=not for_babeltrace)
        self.events[-1]["specific-context-field-class"] = context

    def fragments(self) -> Fragments:
        """Return the metadata."""
        order = self.order

        def role(bits: int, name: str) -> Class:
            return uint(bits, order, roles=[name])

        members = {
            "timestamp_begin": role(64, "default-clock-timestamp"),
            "content_size": role(64, "packet-content-length"),
            "packet_size": role(32, "packet-total-length"),
            "packet_seq_num": role(32, "packet-sequence-number"),
            "cpu_id": uint(8, order),
        }
        header = {
            "magic": role(32, "packet-magic-number"),
            "uuid": {
                "type": "static-length-blob",
                "length": 16,
                "roles": ["metadata-stream-uuid"],
            },
            "stream_id": role(8, "data-stream-class-id"),
            "stream_instance_id": role(64, "data-stream-id"),
        }
        return [
            {"type": "preamble", "version": 2, "uuid": UUID_NUMBERS},
            {
                "type": "trace-class",
                "environment": {"hostname": "host", "number": 5},
                "packet-header-field-class": structure(header),
            },
            {
                "type": "clock-class",
                "id": "mono",
                "frequency": self.frequency,
                "offset-from-origin": self.offset,
                "origin": "unix-epoch",
            },
            {
                "type": "data-stream-class",
                "id": 0,
                "default-clock-class-id": "mono",
                "packet-context-field-class": structure(members),
                "event-record-header-field-class": self.header,
                "event-record-common-context-field-class": structure(
                    {"vpid": {**uint(32, order), "type": "fixed-length-signed-integer"}}
                    | {"size": uint(8, order)}
                    | {"procname": {"type": "static-length-string", "length": 17}}
                ),
            },
            *self.events,
        ]

    def any_header(self) -> Class:
        """Draw an event header: packed, plain or of variable length."""
        forms = ["packed", "plain", "plain"] + ["varying"] * (not self.old and not self.extended)
        form = self.random.choice(forms)
        if form == "varying":
            varying = {"type": "variable-length-unsigned-integer"}
            return structure({"id": varying | HEADER_ID, "timestamp": varying | HEADER_TIME})
        header = lttng_header if self.extended else plain_header
        return header(self.order, compact=form == "packed")

    def scalar(self) -> Class:  # noqa: C901
        """Draw a class that contains no other classes."""
        random = self.random
        kinds = ["unsigned", "signed", "unsigned", "float", "text", "enum", "chars"]
        if not self.for_babeltrace:
            kinds.append("large")
        if not self.old:
            kinds += ["boolean", "bit-map", "bit-array", "varying", "varying", "wide", "blob"]
        kind = random.choice(kinds)
        integer = self.integer()
        match kind:
            case "signed":
                return integer | {"type": "fixed-length-signed-integer"}
            case "large":
                sign = random.choice(["signed", "unsigned"])
                # Another byte order needs whole bytes.
                whole = integer["byte-order"] != self.order
                length = random.choice([72, 128, 1024]) if whole else random.randint(65, 300)
                return integer | {"type": f"fixed-length-{sign}-integer", "length": length}
            case "float":
                field = integer | {"type": "fixed-length-floating-point-number"}
                field["length"] = random.choice([32, 64] if self.old else [16, 32, 64])
                if self.old or field["byte-order"] != self.order:
                    field["alignment"] = 8
                return field
            case "text":
                return {"type": "null-terminated-string"}
            case "chars":
                return {"type": "static-length-string", "length": random.randint(1, 40)}
            case "enum":
                integer["length"] = max(4, integer["length"])
                return integer | {
                    "mappings": {"zero": [[0, 0]], "few": [[1, 3], [9, 9]], "again": [[2, 5]]}
                }
            case "boolean":
                return integer | {"type": "fixed-length-boolean"}
            case "bit-array":
                return integer | {"type": "fixed-length-bit-array"}
            case "bit-map":
                flags = {"a": [[0, 0]], "b": [[1, 3], [60, 63]], "c": [[2, 2]]}
                return integer | {"type": "fixed-length-bit-map", "flags": flags}
            case "varying":
                sign = random.choice(["unsigned", "signed"])
                more = {"mappings": {"few": [[0, 9]]}} if random.random() < 0.3 else {}
                return {"type": f"variable-length-{sign}-integer", **more}
            case "wide":
                encoding = random.choice(ENCODINGS)
                if random.random() < 0.5:
                    return {"type": "null-terminated-string", "encoding": encoding}
                return {"type": "static-length-string", "length": 48, "encoding": encoding}
            case "blob":
                return {"type": "static-length-blob", "length": random.randint(0, 9)}
        return integer

    def integer(self) -> Class:
        """Draw a fixed-length unsigned integer of any layout."""
        random = self.random
        if random.random() < 0.5:
            bits = random.choice([8, 16, 32, 64])
            # Another byte order needs whole bytes.
            field = uint(bits, random.choice(ORDERS), random.choice([8, 8, bits]))
        else:
            field = uint(random.randint(1, 64), self.order, random.choice([1, 1, 2, 4, 8, 32]))
        if not self.old and random.random() < 0.2:
            field["bit-order"] = random.choice(["first-to-last", "last-to-first"])
        return field

    def structure(self, depth: int = 0, *, references: bool = True) -> Class:  # noqa: C901
        """Draw a structure; lengths and selectors come before the members that need them."""
        random = self.random
        members: dict[str, Class] = {}
        for i in range(random.randint(0, 3 if depth else 6)):
            name = f"f{i}"
            kind = random.choice(["scalar"] * 4 + ["array", "sequence", "chars", "blob"])
            if depth < 2 and random.random() < 0.25:
                kind = random.choice(["structure", "variant", "optional", "structures"])
            if self.old and kind in {"optional", "blob"}:
                kind = "scalar"
            if not references and kind != "array":
                kind = "scalar"
            location = {"path": [f"{name}_n"]}
            count = self.counter()
            match kind:
                case "array":
                    field = {
                        "type": "static-length-array",
                        "length": random.randint(0, 4),
                        "element-field-class": self.scalar(),
                    }
                    if not self.old and random.random() < 0.3:
                        field["minimum-alignment"] = 32
                case "sequence" | "structures":
                    element = self.scalar() if kind == "sequence" else self.structure(2)
                    field = {
                        "type": "dynamic-length-array",
                        "length-field-location": location,
                        "element-field-class": element,
                    }
                case "chars" | "blob":
                    suffix = {"chars": "string", "blob": "blob"}[kind]
                    if not self.old and random.random() < 0.3:
                        origin = "event-record-common-context"
                        location = {"origin": origin, "path": ["size"]}
                    field = {"type": f"dynamic-length-{suffix}", "length-field-location": location}
                case "structure":
                    field = self.structure(depth + 1)
                    location = {}
                case "variant":
                    field = self.variant(location)
                    count = uint(8, self.order)
                    if self.old:
                        count["mappings"] = {
                            option["name"]: option["selector-field-ranges"]
                            for option in field["options"]
                        }
                case "optional":
                    field = {
                        "type": "optional",
                        "selector-field-location": location,
                        "field-class": self.structure(2)
                        if random.random() < 0.3
                        else self.scalar(),
                    }
                    if random.random() < 0.5:
                        count = uint(3, self.order, 8) | {"type": "fixed-length-boolean"}
                    else:
                        field["selector-field-ranges"] = [[1, 3], [7, 9]]
                case _:
                    field = self.scalar()
                    location = {}
            if location.get("path") == [f"{name}_n"]:
                members[f"{name}_n"] = count
            members[name] = field
        return structure(members, random.choice([1, 1, 8, 64]))

    def counter(self) -> Class:
        """Draw a class that can hold a length."""
        if not self.old and self.random.random() < 0.3:
            return {"type": "variable-length-unsigned-integer"}
        return uint(self.random.choice([8, 16, 32]), self.order)

    def variant(self, location: Class) -> Class:
        """Draw a variant of up to three options."""
        options = [
            {
                "name": f"o{k}",
                "selector-field-ranges": [[k * 2, k * 2 + 1], [100 + k, 100 + k]],
                "field-class": self.scalar(),
            }
            for k in range(self.random.randint(1, 3))
        ]
        return {"type": "variant", "selector-field-location": location, "options": options}

    # ------------------------------------------------------------ values

    def value(self, kind: Class, size: int) -> Any:  # noqa: C901
        """Draw a value of a class; `size` is that of the common context."""
        random = self.random
        match kind["type"]:
            case "structure":
                return self.members(kind, size)
            case "static-length-array":
                return [
                    self.value(kind["element-field-class"], size) for _ in range(kind["length"])
                ]
            case "fixed-length-signed-integer":
                half = 1 << (kind["length"] - 1)
                return random.choice([-half, half - 1, -1, 0, random.randrange(-half, half)])
            case "fixed-length-floating-point-number":
                return random.choice([0.0, -0.5, 1.0, 65504.0, float("inf"), 2.0**-14, 2.0**-24])
            case "fixed-length-boolean":
                return random.choice([0, 1 << (kind["length"] - 1), 1])
            case "variable-length-unsigned-integer":
                return random.choice([0, 127, 128, (1 << 64) - 1, random.getrandbits(40)])
            case "variable-length-signed-integer":
                return random.choice([0, -1, 63, 64, -64, -65, -(1 << 63), (1 << 63) - 1])
            case "null-terminated-string":
                return self.text(60)
            case "static-length-string":
                return self.text(kind["length"], kind.get("encoding", "utf-8"))
            case "static-length-blob":
                return list(random.randbytes(kind["length"]))
        top = (1 << kind["length"]) - 1
        small = min(top, random.randint(0, 9))
        return random.choice([0, top, small, random.randint(0, top)])

    def text(self, size: int, encoding: str = "utf-8") -> str:
        """Draw a text of at most `size` bytes."""
        text = ""
        for _ in range(self.random.randint(0, 20)):
            more = text + self.random.choice(LETTERS)
            if len(more.encode(encoding)) > size:
                break
            text = more
        return text

    def members(self, kind: Class, size: int) -> dict[str, Any]:
        """Draw the values of a structure, with matching lengths and selectors."""
        random = self.random
        values: dict[str, Any] = {}
        for member in kind["member-classes"]:
            name, inner = member["name"], member["field-class"]
            count: Any = None
            match inner["type"]:
                case "dynamic-length-array":
                    count = random.randint(0, 4)
                    element = inner["element-field-class"]
                    values[name] = [self.value(element, size) for _ in range(count)]
                case "dynamic-length-string":
                    own = "origin" not in inner["length-field-location"]
                    values[name] = self.text(40)
                    if own:
                        count = len(values[name].encode())
                    else:
                        values[name] = "x" * size
                case "dynamic-length-blob":
                    own = "origin" not in inner["length-field-location"]
                    length = random.randint(0, 12) if own else size
                    values[name] = list(random.randbytes(length))
                    count = length if own else None
                case "variant":
                    chosen = random.randrange(len(inner["options"]))
                    option = inner["options"][chosen]
                    count = random.choice(random.choice(option["selector-field-ranges"]))
                    values[name] = (chosen, self.value(option["field-class"], size))
                case "optional":
                    present = random.random() < 0.6
                    boolean = "selector-field-ranges" not in inner
                    count = random.choice([1, 5] if boolean else [2, 3, 7]) if present else 0
                    values[name] = self.value(inner["field-class"], size) if present else None
                case _:
                    values.setdefault(name, self.value(inner, size))
            if count is not None:
                values[f"{name}_n"] = count
        return values


def is_nothing(kind: Class) -> bool:
    """Return whether the class holds nothing, so that there is no column for it."""
    match kind["type"]:
        case "structure":
            return all(is_nothing(m["field-class"]) for m in kind["member-classes"])
        case "static-length-array" | "dynamic-length-array":
            return is_nothing(kind["element-field-class"])
        case "optional":
            return is_nothing(kind["field-class"])
        case "variant":
            return all(is_nothing(o["field-class"]) for o in kind["options"])
    return False


def shaped(kind: Class, value: Any) -> Any:
    """Return a written value as our reader gives it."""
    match kind["type"]:
        case "structure":
            return {
                m["name"]: shaped(m["field-class"], value[m["name"]])
                for m in kind["member-classes"]
                if not is_nothing(m["field-class"])
            }
        case "static-length-array" | "dynamic-length-array":
            return [shaped(kind["element-field-class"], item) for item in value]
        case "optional":
            return None if value is None else shaped(kind["field-class"], value)
        case "variant":
            chosen, inside = value
            return {
                option["name"]: shaped(option["field-class"], inside) if n == chosen else None
                for n, option in enumerate(kind["options"])
                if not is_nothing(option["field-class"])
            }
        case "fixed-length-boolean":
            return bool(value)
        case "fixed-length-bit-map":
            flags = [
                name
                for name, ranges in kind["flags"].items()
                if any(value >> bit & 1 for low, high in ranges for bit in range(low, high + 1))
            ]
            return {"value": value, "flags": flags}
    if "mappings" in kind:
        label = next(
            (
                name
                for name, ranges in kind["mappings"].items()
                if any(low <= value <= high for low, high in ranges)
            ),
            None,
        )
        return {"value": value, "label": label}
    if kind["type"].endswith("signed-integer") and kind.get("length", 0) > 64:
        return str(value)
    return value
