//! Where the recording is written: a RAM disk with room enough, or the reason why not.

use std::fs;
use std::path::{Path, PathBuf};

use crate::arguments::Arguments;
use crate::failure::{Failure, Result};

const TMPFS: i64 = 0x0102_1994;
const RAMFS: i64 = 0x8584_58f6;

/// Bytes of a recording per byte of messages, for small messages in `SQLite` with its log.
const ROOM: u64 = 4;

/// Checks the place, and says which file system it is, and on which device.
pub fn check(arguments: &Arguments) -> Result<String> {
    let place = &arguments.place;
    let name = place.display();
    let stat = rustix::fs::statfs(place).map_err(|e| {
        Failure::Usage(format!(
            "{name}: {e}; give an existing folder on a RAM disk with --place"
        ))
    })?;
    let kind = match stat.f_type {
        TMPFS => Some("tmpfs"),
        RAMFS => Some("ramfs"),
        _ => None,
    };
    if kind.is_none() && !arguments.any_disk {
        return Err(Failure::Usage(format!(
            "{name}: no RAM disk (tmpfs), so a disk would be measured and not the library; mount \
             one (mount -t tmpfs tmpfs FOLDER), give it with --place, or accept with --any-disk"
        )));
    }
    // A ramfs has no limit and says 0.
    let block = u64::try_from(stat.f_bsize).unwrap_or(0);
    let free = stat.f_bavail * block;
    let wanted = arguments.bytes.saturating_mul(ROOM);
    if kind != Some("ramfs") && free < wanted {
        return Err(Failure::Run(format!(
            "{name}: {} MiB free, {} MiB needed for {} MiB of messages; make room or write less \
             (--bytes)",
            free >> 20,
            wanted >> 20,
            arguments.bytes >> 20
        )));
    }
    let disk = || on_disk(place).unwrap_or_else(|| "other".to_owned());
    Ok(kind.map_or_else(disk, str::to_owned))
}

/// As `ext4 on sda1 (rotating)`, by proc(5), `mountinfo`, and sysfs.
fn on_disk(place: &Path) -> Option<String> {
    let place = place.canonicalize().ok()?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    // Of nested mounts the innermost, of those on one another the last.
    let (_, device, kind) = mounts
        .lines()
        .filter_map(|line| {
            let mut fields = line.split(' ').skip(2);
            let (device, point) = (fields.next()?, fields.nth(1)?);
            let kind = line.split(" - ").nth(1)?.split(' ').next()?;
            place.starts_with(point).then_some((point, device, kind))
        })
        .max_by_key(|(point, ..)| point.len())?;
    let Ok(block) = Path::new("/sys/dev/block").join(device).canonicalize() else {
        return Some(kind.to_owned());
    };
    let name = block.file_name()?.to_string_lossy();
    // A partition's queue is its disk's.
    let rotating = [&*block, block.parent()?]
        .into_iter()
        .find_map(|folder| fs::read_to_string(folder.join("queue/rotational")).ok());
    Some(match rotating.as_deref().map(str::trim) {
        Some("1") => format!("{kind} on {name} (rotating)"),
        Some("0") => format!("{kind} on {name} (not rotating)"),
        _ => format!("{kind} on {name}"),
    })
}

/// All files below a folder.
pub fn files_of(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(files_of(&path)?);
        } else {
            found.push(path);
        }
    }
    Ok(found)
}

/// Bytes of all files below a folder.
pub fn bytes_of(folder: &Path) -> Result<u64> {
    let mut total = 0;
    for path in files_of(folder)? {
        total += path.metadata()?.len();
    }
    Ok(total)
}
