//! Keep a part of a file in memory, to read small pieces of it one after the other.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use crate::stream_file::Source;

/// Least number of bytes that are read at once.
const LENGTH: u64 = 2 << 10;
/// Room after the bytes of the file, as the decoder may copy more than an event needs.
pub const SLACK: usize = 64;

/// A part of a file in memory.
pub struct Window<'a> {
    file: &'a File,
    size: u64,
    start: u64,
    bytes: Vec<u8>,
}

impl<'a> Window<'a> {
    /// Start with nothing of a file of `size` bytes.
    pub fn new(file: &'a File, size: u64) -> Self {
        Self {
            file,
            size,
            start: 0,
            bytes: Vec::new(),
        }
    }
}

impl Source for Window<'_> {
    fn size(&self) -> u64 {
        self.size
    }

    fn at(&mut self, offset: u64, length: u64) -> io::Result<&[u8]> {
        let end = offset.saturating_add(length).min(self.size);
        if offset < self.start || end > self.start + self.bytes.len() as u64 {
            // If packets are small, one read gets several heads.
            let length = end.saturating_sub(offset).max(LENGTH);
            let length = length.min(self.size.saturating_sub(offset));
            read_at(self.file, offset, length, &mut self.bytes)?;
            self.start = offset;
        }
        let from = usize::try_from(offset - self.start).unwrap_or(usize::MAX);
        let to = usize::try_from(end.saturating_sub(self.start)).unwrap_or(usize::MAX);
        Ok(self
            .bytes
            .get(from..to.min(self.bytes.len()))
            .unwrap_or(&[]))
    }
}

/// Replace the contents of `bytes` by `length` bytes at `offset`, with room for the slack; by fewer
/// if the file has become shorter.
pub fn read_at(file: &File, offset: u64, length: u64, bytes: &mut Vec<u8>) -> io::Result<()> {
    let mut file = file;
    bytes.clear();
    bytes.reserve_exact(usize::try_from(length).unwrap_or(0) + SLACK);
    file.seek(SeekFrom::Start(offset))?;
    file.take(length).read_to_end(bytes)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pieces in any order, within and beyond the part in memory, equal those of the file.
    #[test]
    fn a_window_shows_the_file() {
        let whole: Vec<u8> = (0..10_000_u32).map(|i| (i * i % 251) as u8).collect();
        let path = std::env::temp_dir().join(format!("roslens_window_{}", std::process::id()));
        std::fs::write(&path, &whole).unwrap();
        let file = File::open(&path).unwrap();
        let mut window = Window::new(&file, whole.len() as u64);
        for (at, length) in [
            (0, 100),
            (50, 2000),
            (9_990, 100),
            (40, 10),
            (3_000, 5_000),
            (10_000, 1),
        ] {
            let end = (at + length).min(whole.len());
            let found = window.at(at as u64, length as u64).unwrap();
            assert_eq!(found, &whole[at..end]);
        }
        std::fs::remove_file(path).unwrap();
    }
}
