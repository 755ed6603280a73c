//! What messages carry: consecutive slices of real files, neither zeros nor noise.

use std::fs;
use std::path::{Path, PathBuf};

use crate::failure::{Failure, Result};

/// Bytes of real files, one after the other.
pub struct Content {
    bytes: Vec<u8>,
}

impl Content {
    /// Reads files, and of folders the streams of the traces below them.
    pub fn read(paths: &[PathBuf], longest_message: usize) -> Result<Self> {
        let mut bytes = Vec::new();
        for path in paths {
            for file in files(path)? {
                let read = fs::read(&file)
                    .map_err(|e| Failure::Usage(format!("{}: {e}", file.display())))?;
                if path.is_dir() {
                    append_without_padding(&mut bytes, &read);
                } else {
                    bytes.extend_from_slice(&read);
                }
            }
        }
        if bytes.len() < longest_message {
            let names: Vec<_> = paths.iter().map(|p| p.display().to_string()).collect();
            return Err(Failure::Usage(format!(
                "--content {}: {} bytes, but the longest message has {longest_message}; give a \
                 larger file of robotics data",
                if names.is_empty() {
                    "(none)".to_owned()
                } else {
                    names.join(" ")
                },
                bytes.len(),
            )));
        }
        Ok(Self { bytes })
    }

    /// How many bytes there are.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Where the slice of `length` bytes begins that follows one that ended at `position`.
    pub fn place(&self, position: usize, length: usize) -> usize {
        if position + length <= self.bytes.len() {
            position
        } else {
            0
        }
    }

    /// The slice itself.
    pub fn slice(&self, begin: usize, length: usize) -> &[u8] {
        &self.bytes[begin..begin + length]
    }
}

/// Packets of a trace are filled up with zeros, which no message would carry.
fn append_without_padding(bytes: &mut Vec<u8>, stream: &[u8]) {
    for block in stream.chunks(512) {
        if block.iter().any(|byte| *byte != 0) {
            bytes.extend_from_slice(block);
        }
    }
}

fn files(path: &Path) -> Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut found = Vec::new();
    let mut folders = vec![path.to_owned()];
    while let Some(folder) = folders.pop() {
        let wrong = |e| Failure::Usage(format!("{}: {e}", folder.display()));
        for entry in fs::read_dir(&folder).map_err(wrong)? {
            let entry = entry.map_err(wrong)?.path();
            if entry.is_dir() {
                folders.push(entry);
            } else if is_stream(&entry) {
                found.push(entry);
            }
        }
    }
    // The order of a folder's entries differs between file systems.
    found.sort();
    Ok(found)
}

/// Whether a file is a stream of a CTF trace: beside a `metadata`, and not it.
fn is_stream(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name != "metadata")
        && path
            .parent()
            .is_some_and(|folder| folder.join("metadata").is_file())
}
