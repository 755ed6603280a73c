//! One call into a plugin: timed by our own clock, and between its two tracepoints.

use crate::allocations::{self, Allocations};
use crate::arguments::Arguments;
use crate::content::Content;
use crate::failure::Result;
use crate::measure::no_room;
use crate::messages::Message;
use crate::process::now_ns;
use crate::report::{Closed, Row};
use crate::rosbag2::Bag;
use crate::tracepoints;

/// Writes the `call`-th batch, made ready beforehand, whose first message is number `first`.
pub fn write(
    bag: &mut Bag,
    call: u64,
    first: u64,
    batch: &[Message],
    content: &Content,
) -> Result<Row> {
    let bytes = batch.iter().map(|message| message.length as u64).sum();
    let messages = batch.len() as u64;
    let preparing_ns = bag.prepare(first, batch, content)?;
    tracepoints::write_begin(call, bytes, messages);
    let before = allocations::so_far();
    let begin = now_ns();
    let written = bag.write();
    let end = now_ns();
    let allocated = allocated(before);
    tracepoints::write_end(call);
    written.map(|()| Row {
        bytes,
        messages,
        write_ns: end - begin,
        preparing_ns,
        allocated,
    })
}

/// Closes a bag and lets it go; how long closing took.
pub fn close(mut bag: Bag, arguments: &Arguments) -> Result<Closed> {
    tracepoints::close_begin();
    let before = allocations::so_far();
    let begin = now_ns();
    let closed = bag.close();
    let close_ns = now_ns() - begin;
    let allocated = allocated(before);
    tracepoints::close_end();
    closed.map_err(|error| no_room(error, arguments))?;
    Ok(Closed {
        close_ns,
        allocated,
    })
}

fn allocated(before: Option<Allocations>) -> Option<Allocations> {
    Some(allocations::so_far()?.since(before?))
}
