//! What a run leaves: `writes.csv` in the format of the published comparison, and `run.json`.

use std::fmt::Write as _;
use std::fs;

use crate::allocations::Allocations;
use crate::arguments::Arguments;
use crate::content::Content;
use crate::failure::{Failure, Result};
use crate::measure::Load;
use crate::messages::Message;
use crate::{place, tracepoints};

/// One write call.
pub struct Row {
    pub bytes: u64,
    pub messages: u64,
    pub write_ns: u64,
    /// CPU time of making it ready, which is no part of it.
    pub preparing_ns: u64,
    /// `None` where nobody counts.
    pub allocated: Option<Allocations>,
}

/// How closing went.
pub struct Closed {
    pub close_ns: u64,
    pub allocated: Option<Allocations>,
}

/// How messages that came at a rate fared.
pub struct Arrivals {
    pub rate: u64,
    pub queue: u64,
    pub produced: u64,
    pub produced_bytes: u64,
    pub dropped: u64,
    pub dropped_bytes: u64,
    pub longest_queue: u64,
    pub producing_ns: u64,
    pub late_ns: u64,
}

/// All that was measured.
pub struct Report<'a> {
    pub arguments: &'a Arguments,
    pub load: &'a Load,
    pub rows: &'a [Row],
    pub open_ns: u64,
    pub closed: Closed,
    pub cpu_ns: u64,
    pub rss_before: Option<u64>,
    pub rss_peak: Option<u64>,
    /// Of what was written, all messages one after the other.
    pub checksum: u32,
    pub arrivals: Option<Arrivals>,
}

/// CRC-32 over the content of messages in their order.
pub fn checksum<'a>(messages: impl IntoIterator<Item = &'a Message>, content: &Content) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    for message in messages {
        hasher.update(content.slice(message.begin, message.length));
    }
    hasher.finalize()
}

impl Report<'_> {
    /// Writes both files.
    pub fn write(&self) -> Result<()> {
        let folder = &self.arguments.results;
        let mut files = vec![("writes.csv", self.csv()), ("run.json", self.json()?)];
        files.extend(self.allocations().map(|text| ("allocations.csv", text)));
        for (name, text) in files {
            let path = folder.join(name);
            fs::write(&path, text).map_err(|e| Failure::Run(format!("{}: {e}", path.display())))?;
        }
        Ok(())
    }

    fn csv(&self) -> String {
        let mut text = String::from("sqc,num_bytes,num_msgs,write_ns,close_ns\n");
        for (number, row) in self.rows.iter().enumerate() {
            let _ = writeln!(
                text,
                "{number},{},{},{},",
                row.bytes, row.messages, row.write_ns
            );
        }
        let _ = writeln!(text, ",,,,{}", self.closed.close_ns);
        text
    }

    /// A row per write call and a last one, without a number, of the close.
    fn allocations(&self) -> Option<String> {
        let mut text = String::from("sqc,allocations,allocated_bytes\n");
        for (number, row) in self.rows.iter().enumerate() {
            let a = row.allocated?;
            let _ = writeln!(text, "{number},{},{}", a.number, a.bytes);
        }
        let a = self.closed.allocated?;
        let _ = writeln!(text, ",{},{}", a.number, a.bytes);
        Some(text)
    }

    fn json(&self) -> Result<String> {
        let arguments = self.arguments;
        let bytes: u64 = self.rows.iter().map(|row| row.bytes).sum();
        let messages: u64 = self.rows.iter().map(|row| row.messages).sum();
        let preparing: u64 = self.rows.iter().map(|row| row.preparing_ns).sum();
        let [rosbag2, sqlite, mcap] = self.load.rosbag2.versions.as_slice() else {
            return Err(Failure::Run("versions of rosbag2: not three".to_owned()));
        };
        let mut fields = vec![
            ("schema_version", "1".to_owned()),
            ("plugin_config", quoted(&arguments.configuration.name)),
            ("messages", quoted(arguments.messages.name())),
            ("batch_bytes", arguments.batch.to_string()),
            ("bytes", bytes.to_string()),
            ("message_count", messages.to_string()),
            ("write_calls", self.rows.len().to_string()),
            ("open_ns", self.open_ns.to_string()),
            ("close_ns", self.closed.close_ns.to_string()),
            ("cpu_ns", (self.cpu_ns - preparing).to_string()),
            ("rss_before_bytes", optional(self.rss_before)),
            ("rss_peak_bytes", optional(self.rss_peak)),
            (
                "bytes_on_disk",
                place::bytes_of(&arguments.place)?.to_string(),
            ),
            ("crc32", self.checksum.to_string()),
            ("content_bytes", self.load.content.len().to_string()),
            ("seed", arguments.seed.to_string()),
            ("file_system", quoted(&self.load.file_system)),
            ("tracepoints", tracepoints::COMPILED_IN.to_string()),
            ("sqlite_version", quoted(sqlite)),
            ("mcap_version", quoted(mcap)),
            ("rosbag2_version", quoted(rosbag2)),
        ];
        if let Some(mode) = &arguments.compression {
            fields.push(("compression", quoted(mode)));
        }
        if let Some(a) = &self.arrivals {
            fields.extend([
                ("rate_bytes_per_s", a.rate.to_string()),
                ("queue_bytes", a.queue.to_string()),
                ("produced", a.produced.to_string()),
                ("produced_bytes", a.produced_bytes.to_string()),
                ("dropped", a.dropped.to_string()),
                ("dropped_bytes", a.dropped_bytes.to_string()),
                ("longest_queue_bytes", a.longest_queue.to_string()),
                ("producing_ns", a.producing_ns.to_string()),
                ("producer_late_ns", a.late_ns.to_string()),
            ]);
        }
        let lines: Vec<_> = fields
            .into_iter()
            .map(|(name, value)| format!(" \"{name}\": {value}"))
            .collect();
        Ok(format!("{{\n{}\n}}\n", lines.join(",\n")))
    }
}

fn optional(value: Option<u64>) -> String {
    value.map_or_else(|| "null".to_owned(), |v| v.to_string())
}

/// The names written here have nothing in them that JSON would have to escape.
fn quoted(text: &str) -> String {
    format!("\"{text}\"")
}
