//! The measurement: one write call after the other, each timed.

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::arguments::Arguments;
use crate::content::Content;
use crate::failure::{Failure, Result};
use crate::messages::{Message, Suite, batches};
use crate::process::{cpu_ns, forget_peak, memory, now_ns};
use crate::report::Report;
use crate::rosbag2::Rosbag2;
use crate::{place, report, timed};

/// What is written, made ready beforehand.
pub struct Load {
    pub content: Content,
    pub messages: Vec<Message>,
    pub topics: u16,
    pub file_system: String,
    pub rosbag2: Rosbag2,
}

impl Load {
    /// Checks the place, reads the content, and lays out the messages.
    pub fn prepare(arguments: &Arguments) -> Result<Self> {
        let file_system = place::check(arguments)?;
        let sizes = arguments.messages.sizes(arguments.bytes);
        let longest = sizes.iter().map(|(size, _)| *size).max().unwrap_or(0);
        let content = Content::read(&arguments.content, longest)?;
        let messages = Suite::messages(
            arguments.messages,
            arguments.bytes,
            &content,
            arguments.seed,
        )?;
        let largest = batches(&messages, arguments.batch)
            .iter()
            .map(|b| b.len())
            .max();
        // rosbag2's writer still has messages of a batch when it gets the next one.
        let at_once = match &arguments.compression {
            Some(_) => messages.len(),
            None => largest.unwrap_or(0),
        };
        Ok(Self {
            content,
            rosbag2: Rosbag2::load(&arguments.rosbag2, at_once)?,
            messages,
            topics: u16::try_from(sizes.len()).unwrap_or(u16::MAX),
            file_system,
        })
    }
}

/// Measures one cell and writes what came out.
pub fn run(arguments: &Arguments) -> Result<()> {
    let load = Load::prepare(arguments)?;
    let batches = batches(&load.messages, arguments.batch);
    let checksum = report::checksum(&load.messages, &load.content);
    let acknowledge = arguments.acknowledge.as_ref().map(File::create);
    let acknowledge = acknowledge.transpose()?;
    let mut rows = Vec::with_capacity(batches.len());

    forget_peak();
    let (rss_before, _) = memory();
    let opened = now_ns();
    let mut bag = load.rosbag2.open(arguments, load.topics)?;
    let open_ns = now_ns() - opened;
    let cpu_begin = cpu_ns();
    let mut first = 0;
    for (call, batch) in (0..).zip(&batches) {
        let row = timed::write(&mut bag, call, first, batch, &load.content)
            .map_err(|error| no_room(error, arguments))?;
        first += row.messages;
        rows.push(row);
        if let Some(file) = &acknowledge {
            file.write_all_at(&first.to_le_bytes(), 0)?;
        }
    }
    let closed = timed::close(bag, arguments)?;
    let cpu = cpu_ns() - cpu_begin;
    let (_, peak) = memory();

    Report {
        arguments,
        load: &load,
        rows: &rows,
        open_ns,
        closed,
        cpu_ns: cpu,
        rss_before,
        rss_peak: peak,
        checksum,
        arrivals: None,
    }
    .write()
}

/// Says what to do when the place is full, whichever plugin noticed.
pub fn no_room(failure: Failure, arguments: &Arguments) -> Failure {
    let text = failure.to_string();
    if text.contains("No space left") || text.contains("full") {
        return Failure::Run(format!(
            "{}: no space left while writing ({text}); make room or write less (--bytes)",
            arguments.place.display()
        ));
    }
    failure
}
