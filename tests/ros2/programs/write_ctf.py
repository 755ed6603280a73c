"""Writes a CTF trace with babeltrace2's own writer (``sink.ctf.fs``).

Standard input is JSON: ``output``, ``environment``, ``context`` and ``events`` (their fields with
types ``i32``, ``i64``, ``u32``, ``u64``, ``text``), and ``rows`` in order of time: time in ns since
the epoch, CPU, event, context, payload. For the system's interpreter, which has bt2.
"""

import gc
import json
import sys

import bt2

ORDER = json.load(sys.stdin)


def structure(tc, fields):
    made = tc.create_structure_field_class()
    for name, kind in fields.items():
        if kind == "text":
            field = tc.create_string_field_class()
        else:
            create = {
                "i": tc.create_signed_integer_field_class,
                "u": tc.create_unsigned_integer_field_class,
            }[kind[0]]
            field = create(int(kind[1:]))
        made.append_member(name, field)
    return made


class Messages(bt2._UserMessageIterator):
    def __init__(self, config, output):
        self.messages = iter(list(self.all(output.user_data)))

    def all(self, made):
        trace, stream_class, classes = made
        rows = {}
        for row in ORDER["rows"]:
            rows.setdefault(row[1], []).append(row)
        self.streams = {cpu: trace.create_stream(stream_class) for cpu in rows}
        packets = {}
        for cpu, stream in self.streams.items():
            packets[cpu] = stream.create_packet()
            packets[cpu].context_field["cpu_id"] = cpu
            yield self._create_stream_beginning_message(stream)
            yield self._create_packet_beginning_message(
                packets[cpu], default_clock_snapshot=rows[cpu][0][0]
            )
        for time, cpu, name, context, payload in ORDER["rows"]:
            event = self._create_event_message(
                classes[name], packets[cpu], default_clock_snapshot=time
            )
            for key, value in context.items():
                event.event.common_context_field[key] = value
            for key, value in payload.items():
                event.event.payload_field[key] = value
            yield event
        for cpu, stream in self.streams.items():
            yield self._create_packet_end_message(
                packets[cpu], default_clock_snapshot=rows[cpu][-1][0]
            )
            yield self._create_stream_end_message(stream)

    def __next__(self):
        return next(self.messages)


class Source(bt2._UserSourceComponent, message_iterator_class=Messages):
    def __init__(self, config, params, obj):
        tc = self._create_trace_class(assigns_automatic_stream_class_id=True)
        clock = self._create_clock_class(frequency=1_000_000_000, name="monotonic")
        packet = structure(tc, {"cpu_id": "u32"})
        context = structure(tc, ORDER["context"]) if ORDER["context"] else None
        stream_class = tc.create_stream_class(
            default_clock_class=clock,
            supports_packets=True,
            packets_have_beginning_default_clock_snapshot=True,
            packets_have_end_default_clock_snapshot=True,
            packet_context_field_class=packet,
            event_common_context_field_class=context,
        )
        classes = {
            name: stream_class.create_event_class(
                name=name, payload_field_class=structure(tc, fields)
            )
            for name, fields in ORDER["events"].items()
        }
        trace = tc(environment=ORDER["environment"])
        self._add_output_port("out", (trace, stream_class, classes))


def main():
    graph = bt2.Graph()
    source = graph.add_component(Source, "source")
    sink = graph.add_component(
        bt2.find_plugin("ctf").sink_component_classes["fs"],
        "sink",
        {"path": ORDER["output"], "assume-single-trace": True, "quiet": True},
    )
    graph.connect_ports(source.output_ports["out"], sink.input_ports["in"])
    graph.run()


main()
# The sink writes the metadata when it dies.
gc.collect()
