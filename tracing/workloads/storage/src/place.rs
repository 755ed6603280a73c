//! Where the recording is written: a RAM disk with room enough, or the reason why not.

use std::path::Path;

use crate::arguments::Arguments;
use crate::failure::{Failure, Result};

const TMPFS: i64 = 0x0102_1994;
const RAMFS: i64 = 0x8584_58f6;

/// Bytes of a recording per byte of messages, for small messages in `SQLite` with its log.
const ROOM: u64 = 4;

/// Checks the place, and says which kind of file system it is.
pub fn check(arguments: &Arguments) -> Result<&'static str> {
    let place = &arguments.place;
    let name = place.display();
    let stat = rustix::fs::statfs(place).map_err(|e| {
        Failure::Usage(format!(
            "{name}: {e}; give an existing folder on a RAM disk with --place"
        ))
    })?;
    let kind = match stat.f_type {
        TMPFS => "tmpfs",
        RAMFS => "ramfs",
        _ => "other",
    };
    if kind == "other" && !arguments.any_disk {
        return Err(Failure::Usage(format!(
            "{name}: no RAM disk (tmpfs), so a disk would be measured and not the library; mount \
             one (mount -t tmpfs tmpfs FOLDER), give it with --place, or accept with --any-disk"
        )));
    }
    // A ramfs has no limit and says 0.
    let block = u64::try_from(stat.f_bsize).unwrap_or(0);
    let free = stat.f_bavail * block;
    let wanted = arguments.bytes.saturating_mul(ROOM);
    if kind != "ramfs" && free < wanted {
        return Err(Failure::Run(format!(
            "{name}: {} MiB free, {} MiB needed for {} MiB of messages; make room or write less \
             (--bytes)",
            free >> 20,
            wanted >> 20,
            arguments.bytes >> 20
        )));
    }
    Ok(kind)
}

/// Bytes of all files of a folder.
pub fn bytes_of(folder: &Path) -> Result<u64> {
    let mut total = 0;
    for entry in std::fs::read_dir(folder)? {
        total += entry?.metadata()?.len();
    }
    Ok(total)
}
