//! One call into a sink: timed by our own clock, and between its two tracepoints.

use crate::arguments::Arguments;
use crate::content::Content;
use crate::failure::Result;
use crate::measure::no_room;
use crate::messages::Message;
use crate::process::now_ns;
use crate::report::Row;
use crate::sinks::Sink;
use crate::tracepoints;

/// Writes the `call`-th batch, whose first message is number `first`.
pub fn write(
    sink: &mut dyn Sink,
    call: u64,
    first: u64,
    batch: &[Message],
    content: &Content,
) -> Result<Row> {
    let bytes = batch.iter().map(|message| message.length as u64).sum();
    let messages = batch.len() as u64;
    tracepoints::write_begin(call, bytes, messages);
    let begin = now_ns();
    let written = sink.write(first, batch, content);
    let end = now_ns();
    tracepoints::write_end(call);
    written.map(|()| Row {
        bytes,
        messages,
        write_ns: end - begin,
    })
}

/// Closes a sink and lets it go; how long closing took.
pub fn close(mut sink: Box<dyn Sink>, arguments: &Arguments) -> Result<u64> {
    tracepoints::close_begin();
    let begin = now_ns();
    let closed = sink.close();
    let close_ns = now_ns() - begin;
    tracepoints::close_end();
    closed.map_err(|error| no_room(error, arguments))?;
    Ok(close_ns)
}
