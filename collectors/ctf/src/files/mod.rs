//! Turn trace folders into batches: the part of the crate that opens files and starts threads.
//!
//! [`open`] finds the traces of a folder and their packets, and returns a [`Recording`]. Its method
//! [`batches`](Recording::batches) returns an iterator; [`decode`](Recording::decode) hands batches
//! to a [`Sink`] per event, and [`write`](Recording::write) (feature `parquet`) to files.

#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "this module alone does input and output: `clippy.toml`"
)]

mod batches;
mod crew;
mod failure;
mod feed;
mod job;
#[cfg(feature = "parquet")]
mod parquet;
mod recording;
mod run;
mod slices;
#[cfg(feature = "parquet")]
mod table;

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use batches::Batches;
pub use failure::{Failure, Result};
pub use job::{Processes, Seen, Sink, Summary, Want};
pub use recording::{LossRow, Packet, Recording, StreamFile};
#[cfg(feature = "parquet")]
pub use table::{Order, table_writer};

/// Open all CTF traces at or below a folder as one time line.
///
/// Each is labelled by its path below the folder. [`Recording::open`] takes traces from anywhere.
///
/// # Errors
///
/// There is no trace, or an error of [`Recording::open`].
pub fn open(folder: impl AsRef<Path>) -> Result<Arc<Recording>> {
    let folder = folder.as_ref();
    let mut traces = Vec::new();
    find_traces(folder, Path::new(""), &mut HashSet::new(), &mut traces)
        .map_err(|error| Failure::input(folder, error))?;
    if traces.is_empty() {
        let what = "no CTF trace here (no file named 'metadata' at or below it)";
        return Err(Failure::input(folder, what));
    }
    Recording::open(&traces, &BTreeMap::new()).map(Arc::new)
}

/// Find the traces at or below `folder`, which is at `path` below the first one, in the order of
/// their paths; a folder that several links lead to is searched once.
fn find_traces(
    folder: &Path,
    path: &Path,
    seen: &mut HashSet<PathBuf>,
    traces: &mut Vec<(PathBuf, String)>,
) -> io::Result<()> {
    if !seen.insert(folder.canonicalize()?) {
        return Ok(());
    }
    if folder.join("metadata").is_file() {
        let label = if path == Path::new("") {
            ".".into()
        } else {
            path.to_string_lossy().into_owned()
        };
        traces.push((folder.to_owned(), label));
    }
    let mut entries = std::fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries.into_iter().filter(|entry| entry.path().is_dir()) {
        find_traces(&entry.path(), &path.join(entry.file_name()), seen, traces)?;
    }
    Ok(())
}
