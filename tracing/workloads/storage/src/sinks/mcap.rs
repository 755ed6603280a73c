//! MCAP by the crate of its authors.
//!
//! As they recommend: a buffered file, a channel known beforehand (no look-up per message). One
//! thread compresses, as in rosbag2; the checksum of the data section, which rosbag2 does not ask
//! for, is left out everywhere.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Seek, Write};
use std::path::Path;

use mcap::records::MessageHeader;
use mcap::write::NoSeek;
use mcap::{WriteOptions, Writer};

use crate::configuration::Mcap as Options;
use crate::content::Content;
use crate::failure::Result;
use crate::messages::Message;
use crate::sinks::{Sink, TYPE, topic_name};

/// Opens a new file.
pub fn create(path: &Path, options: &Options, topics: u16, fsync: bool) -> Result<Box<dyn Sink>> {
    let file = File::create_new(path)?;
    let to_sync = fsync.then(|| file.try_clone()).transpose()?;
    let buffered = BufWriter::new(file);
    Ok(if options.in_memory {
        Box::new(Mcap::create(
            NoSeek::new(buffered),
            options,
            topics,
            to_sync,
        )?)
    } else {
        Box::new(Mcap::create(buffered, options, topics, to_sync)?)
    })
}

struct Mcap<W: Write + Seek> {
    writer: Writer<W>,
    channels: Vec<u16>,
    to_sync: Option<File>,
}

impl<W: Write + Seek> Mcap<W> {
    fn create(file: W, options: &Options, topics: u16, to_sync: Option<File>) -> Result<Self> {
        let chunked = options.chunk_size.is_some();
        let mut writer = WriteOptions::new()
            .profile("ros2")
            .use_chunks(chunked)
            .chunk_size(options.chunk_size)
            .emit_message_indexes(chunked)
            .compression(options.compression)
            .compression_level(options.level)
            .compression_threads(0)
            .calculate_chunk_crcs(options.chunk_crc)
            .calculate_data_section_crc(false)
            .disable_seeking(options.in_memory)
            .create(file)?;
        let schema = writer.add_schema(TYPE, "ros2msg", b"uint8[] data")?;
        let channels = (0..topics)
            .map(|topic| writer.add_channel(schema, &topic_name(topic), "cdr", &BTreeMap::new()))
            .collect::<std::result::Result<_, _>>()?;
        Ok(Self {
            writer,
            channels,
            to_sync,
        })
    }
}

impl<W: Write + Seek> Sink for Mcap<W> {
    fn write(&mut self, first: u64, batch: &[Message], content: &Content) -> Result<()> {
        for (number, message) in (first..).zip(batch) {
            let header = MessageHeader {
                channel_id: self.channels[usize::from(message.topic)],
                sequence: u32::try_from(number & u64::from(u32::MAX)).unwrap_or(0),
                log_time: number,
                publish_time: number,
            };
            let data = content.slice(message.begin, message.length);
            self.writer.write_to_known_channel(&header, data)?;
        }
        Ok(())
    }

    fn close(&mut self) -> Result<()> {
        self.writer.finish()?;
        if let Some(file) = &self.to_sync {
            file.sync_all()?;
        }
        Ok(())
    }
}
