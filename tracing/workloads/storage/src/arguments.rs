//! The command line.

use std::path::PathBuf;

use lexopt::prelude::*;

use crate::configuration::Configuration;
use crate::failure::{Failure, Result};
use crate::messages::Suite;

/// Shown by `--help`.
pub const HELP: &str = "\
roslens-storage: writes messages by rosbag2's storage plugins, and times each write

  --configuration NAME   what writes, and how (see docs/storage.md); NAME+fsync syncs at close
  --rosbag2 FOLDER       where the library lies that calls the plugins
  --compression MODE     rosbag2's own writer writes by the plugin, and compresses each message
                         (message), the file when it is closed (file), or neither (none)
  --messages NAME        1MiB, 10KiB, 100B or mixed
  --batch BYTES          a write call gets messages of at least so many bytes
  --bytes BYTES          how much is written in all
  --content PATH         file, or folder of a recording, whose bytes the messages carry
  --place FOLDER         where the recording is written: a RAM disk
  --any-disk             accept a place that is no RAM disk
  --results FOLDER       where writes.csv and run.json go
  --seed N               of the order of messages in the suite 'mixed'
  --acknowledge FILE     keep the number of messages written so far in FILE
  --rate BYTES_PER_S     messages arrive at this rate, in a queue of --queue bytes
  --queue BYTES
";

/// What was asked for.
pub struct Arguments {
    pub configuration: Configuration,
    pub rosbag2: PathBuf,
    pub compression: Option<String>,
    pub messages: Suite,
    pub batch: u64,
    pub bytes: u64,
    pub content: Vec<PathBuf>,
    pub place: PathBuf,
    pub any_disk: bool,
    pub results: PathBuf,
    pub seed: u64,
    pub acknowledge: Option<PathBuf>,
    pub rate: Option<u64>,
    pub queue: u64,
}

impl Arguments {
    /// Parses the command line; `None` where help was asked for.
    pub fn from_command_line() -> Result<Option<Self>> {
        let mut parser = lexopt::Parser::from_env();
        let mut configuration: Option<String> = None;
        let mut rosbag2: Option<PathBuf> = None;
        let mut compression = None;
        let mut messages = None;
        let mut batch = None;
        let mut bytes = 250 << 20;
        let mut content = Vec::new();
        let mut place = None;
        let mut any_disk = false;
        let mut results = None;
        let mut seed = 0;
        let mut acknowledge = None;
        let mut rate = None;
        let mut queue = 100 << 20;
        while let Some(argument) = parser.next()? {
            match argument {
                Long("configuration") => configuration = Some(parser.value()?.string()?),
                Long("rosbag2") => rosbag2 = Some(parser.value()?.into()),
                Long("compression") => compression = Some(mode(&parser.value()?.string()?)?),
                Long("messages") => messages = Some(Suite::named(&parser.value()?.string()?)?),
                Long("batch") => batch = Some(size(&parser.value()?.string()?)?),
                Long("bytes") => bytes = size(&parser.value()?.string()?)?,
                Long("content") => content.push(parser.value()?.into()),
                Long("place") => place = Some(parser.value()?.into()),
                Long("any-disk") => any_disk = true,
                Long("results") => results = Some(parser.value()?.into()),
                Long("seed") => seed = parser.value()?.parse()?,
                Long("acknowledge") => acknowledge = Some(parser.value()?.into()),
                Long("rate") => rate = Some(size(&parser.value()?.string()?)?),
                Long("queue") => queue = size(&parser.value()?.string()?)?,
                Long("help") | Short('h') => return Ok(None),
                other => return Err(other.unexpected().into()),
            }
        }
        let configuration = needed(configuration, "configuration")?;
        let rosbag2 = needed(rosbag2, "rosbag2")?;
        Ok(Some(Self {
            configuration: Configuration::named(&configuration, &rosbag2)?,
            rosbag2,
            compression,
            messages: needed(messages, "messages")?,
            batch: needed(batch, "batch")?,
            bytes,
            content,
            place: needed(place, "place")?,
            any_disk,
            results: needed(results, "results")?,
            seed,
            acknowledge,
            rate,
            queue,
        }))
    }
}

fn needed<T>(value: Option<T>, name: &str) -> Result<T> {
    value.ok_or_else(|| Failure::Usage(format!("--{name} is missing; see --help")))
}

fn mode(text: &str) -> Result<String> {
    if ["none", "message", "file"].contains(&text) {
        return Ok(text.to_owned());
    }
    Err(Failure::Usage(format!(
        "--compression {text:?}: there are none, message, file"
    )))
}

/// Bytes from `1024`, `64KiB`, `10MiB`: powers of 1024.
fn size(text: &str) -> Result<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match &text[digits.len()..] {
        "" => 0,
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        _ => 64,
    };
    match digits.parse::<u64>() {
        Ok(number) if shift < 64 && number > 0 && number <= u64::MAX >> shift => {
            Ok(number << shift)
        }
        _ => Err(Failure::Usage(format!(
            "{text:?} is not a size such as 1024, 64KiB or 10MiB"
        ))),
    }
}

impl From<lexopt::Error> for Failure {
    fn from(error: lexopt::Error) -> Self {
        Failure::Usage(format!("{error}; see --help"))
    }
}

#[cfg(test)]
mod tests {
    use super::size;

    #[test]
    fn sizes_are_powers_of_1024() {
        assert_eq!(size("1000").unwrap(), 1000);
        assert_eq!(size("1KiB").unwrap(), 1024);
        assert_eq!(size("10MiB").unwrap(), 10 << 20);
        for wrong in ["", "KiB", "1KB", "-1", "0", "1.5MiB", "99999999999GiB"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }
}
