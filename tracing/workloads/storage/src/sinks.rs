//! What writes messages: the library of each configuration behind one interface.

mod mcap;
mod null;
pub mod rosbag2;
mod sqlite;

use std::path::{Path, PathBuf};

use crate::arguments::Arguments;
use crate::configuration::Storage;
use crate::content::Content;
use crate::failure::{Failure, Result};
use crate::messages::Message;
use crate::sinks::rosbag2::Rosbag2;

/// Something that messages are written to.
pub trait Sink {
    /// Makes the next batch ready where a library has messages of its own; CPU time it took, ns.
    ///
    /// Not part of a write call: a recorder has its messages before it writes them.
    fn prepare(&mut self, _first: u64, _batch: &[Message], _content: &Content) -> Result<u64> {
        Ok(0)
    }

    /// Writes one batch: what a recorder hands over at once.
    ///
    /// `first` is the number of the batch's first message; it is its time in ns as well.
    fn write(&mut self, first: u64, batch: &[Message], content: &Content) -> Result<()>;

    /// Ends the file so that it can be read; called once, last.
    fn close(&mut self) -> Result<()>;
}

/// Opens the sink of the configuration that was asked for.
///
/// A batch is one call through a pointer, whatever writes: the cost of choosing is the same for
/// all and is in what the null sink shows.
///
/// `rosbag2` has been loaded where the configuration is one of its plugins.
pub fn open<'a>(
    arguments: &Arguments,
    topics: u16,
    rosbag2: Option<&'a Rosbag2>,
) -> Result<Box<dyn Sink + 'a>> {
    let Arguments {
        configuration,
        place: folder,
        compression,
        ..
    } = arguments;
    let fsync = configuration.fsync;
    Ok(match &configuration.storage {
        Storage::Null => Box::new(null::Null),
        Storage::Plugin(plugin) => match rosbag2 {
            Some(library) => {
                let compression = compression.as_deref().unwrap_or_default();
                library.create(plugin, folder, topics, fsync, compression)?
            }
            None => return Err(Failure::Usage("rosbag2 has not been loaded".to_owned())),
        },
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
