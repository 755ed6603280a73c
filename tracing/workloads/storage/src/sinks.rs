//! What writes messages: the library of each configuration behind one interface.

mod mcap;
mod null;
mod sqlite;

use std::path::{Path, PathBuf};

use crate::configuration::{Configuration, Storage};
use crate::content::Content;
use crate::failure::Result;
use crate::messages::Message;

/// Something that messages are written to.
pub trait Sink {
    /// Writes one batch: what a recorder hands over at once.
    ///
    /// `first` is the number of the batch's first message; it is its time in ns as well.
    fn write(&mut self, first: u64, batch: &[Message], content: &Content) -> Result<()>;

    /// Ends the file so that it can be read; called once, last.
    fn close(&mut self) -> Result<()>;
}

/// Opens the sink of a configuration.
///
/// A batch is one call through a pointer, whatever writes: the cost of choosing is the same for
/// all and is in what the null sink shows.
pub fn open(configuration: &Configuration, folder: &Path, topics: u16) -> Result<Box<dyn Sink>> {
    let fsync = configuration.fsync;
    Ok(match &configuration.storage {
        Storage::Null => Box::new(null::Null),
        Storage::Sqlite(options) => Box::new(sqlite::Sqlite::create(
            &file(folder),
            options,
            topics,
            fsync,
        )?),
        Storage::Mcap(options) => mcap::create(&file(folder), options, topics, fsync)?,
    })
}

/// The recording's file in its folder.
pub fn file(folder: &Path) -> PathBuf {
    folder.join("recording")
}

/// A name for a topic.
fn topic_name(topic: u16) -> String {
    format!("/topic_{topic}")
}

const TYPE: &str = "std_msgs/msg/UInt8MultiArray";
