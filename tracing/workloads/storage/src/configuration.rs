//! What writes, and how: the six configurations of the published comparison, and further ones.

use crate::failure::{Failure, Result};

/// A configuration by its name; see docs/storage.md.
#[derive(Clone, Debug)]
pub struct Configuration {
    pub name: String,
    pub storage: Storage,
    /// Whether the files are synced to the device when they are closed.
    pub fsync: bool,
}

/// The library that writes.
#[derive(Clone, Debug)]
pub enum Storage {
    /// Nothing is written: what is left is the cost of measuring.
    Null,
    Sqlite(Sqlite),
    Mcap(Mcap),
}

/// How `SQLite` is used.
#[derive(Clone, Debug)]
pub struct Sqlite {
    pub journal_mode: &'static str,
    pub synchronous: &'static str,
    /// Bytes; `None` for `SQLite`'s own default.
    pub page_size: Option<u32>,
    /// Of the page cache, in KiB; `None` for `SQLite`'s own default.
    pub cache_kib: Option<u32>,
}

/// How MCAP is written.
#[derive(Clone, Debug)]
pub struct Mcap {
    /// Bytes; `None` writes messages without chunks and without an index.
    pub chunk_size: Option<u64>,
    pub compression: Option<mcap::Compression>,
    /// Of the compression; 0 for its default.
    pub level: u32,
    pub chunk_crc: bool,
    /// Whether a chunk is put together in memory before it is written, as the C++ library does,
    /// or is written as it grows.
    pub in_memory: bool,
}

/// rosbag2's "write optimised" pragmas.
const DEFAULT: Sqlite = Sqlite {
    journal_mode: "MEMORY",
    synchronous: "OFF",
    page_size: None,
    cache_kib: None,
};

/// rosbag2's "resilient" pragmas.
const RESILIENT: Sqlite = Sqlite {
    journal_mode: "WAL",
    synchronous: "NORMAL",
    ..DEFAULT
};

/// The default of the C++ library, which rosbag2 uses.
const CHUNK: u64 = 768 << 10;

const CHUNKED: Mcap = Mcap {
    chunk_size: Some(CHUNK),
    compression: None,
    level: 0,
    chunk_crc: false,
    in_memory: false,
};

const ZSTD: Mcap = Mcap {
    compression: Some(mcap::Compression::Zstd),
    ..CHUNKED
};

fn all() -> Vec<(&'static str, Storage)> {
    use Storage::{Null, Sqlite as S};
    let m = Storage::Mcap;
    vec![
        ("sqlite_default", S(DEFAULT)),
        ("sqlite_resilient", S(RESILIENT)),
        ("mcap_default", m(CHUNKED)),
        (
            "mcap_nochunking",
            m(Mcap {
                chunk_size: None,
                ..CHUNKED
            }),
        ),
        (
            "mcap_uncompressed_crc",
            m(Mcap {
                chunk_crc: true,
                ..CHUNKED
            }),
        ),
        ("mcap_compressed_nocrc", m(ZSTD)),
        (
            "mcap_lz4",
            m(Mcap {
                compression: Some(mcap::Compression::Lz4),
                ..CHUNKED
            }),
        ),
        ("mcap_zstd_1", m(Mcap { level: 1, ..ZSTD })),
        ("mcap_zstd_9", m(Mcap { level: 9, ..ZSTD })),
        (
            "mcap_in_memory",
            m(Mcap {
                in_memory: true,
                ..CHUNKED
            }),
        ),
        (
            "mcap_chunk_64k",
            m(Mcap {
                chunk_size: Some(64 << 10),
                ..CHUNKED
            }),
        ),
        (
            "mcap_chunk_4m",
            m(Mcap {
                chunk_size: Some(4 << 20),
                ..CHUNKED
            }),
        ),
        (
            "sqlite_page_16k",
            S(Sqlite {
                page_size: Some(16 << 10),
                ..DEFAULT
            }),
        ),
        (
            "sqlite_page_64k",
            S(Sqlite {
                page_size: Some(64 << 10),
                ..DEFAULT
            }),
        ),
        (
            "sqlite_cache_64m",
            S(Sqlite {
                cache_kib: Some(64 << 10),
                ..DEFAULT
            }),
        ),
        ("null", Null),
    ]
}

impl Configuration {
    /// The configuration of that name; `NAME+fsync` syncs at close.
    pub fn named(name: &str) -> Result<Self> {
        let (base, fsync) = match name.strip_suffix("+fsync") {
            Some(base) => (base, true),
            None => (name, false),
        };
        let known = all();
        match known.iter().find(|(known, _)| *known == base) {
            Some((_, storage)) => Ok(Self {
                name: name.to_owned(),
                storage: storage.clone(),
                fsync,
            }),
            None => Err(Failure::Usage(format!(
                "unknown configuration {name:?}; there are {} (and each with +fsync)",
                known.iter().map(|(n, _)| *n).collect::<Vec<_>>().join(", ")
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Configuration, all};

    #[test]
    fn every_name_is_known_with_and_without_a_sync() {
        for (name, storage) in all() {
            for (asked, fsync) in [(name.to_owned(), false), (format!("{name}+fsync"), true)] {
                let found = Configuration::named(&asked).unwrap();
                assert_eq!(found.fsync, fsync);
                assert_eq!(found.name, asked);
                assert_eq!(format!("{:?}", found.storage), format!("{storage:?}"));
            }
        }
        let said = Configuration::named("mcap").unwrap_err().to_string();
        assert!(said.contains("mcap_nochunking"), "{said}");
    }
}
