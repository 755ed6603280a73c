//! What writes, and how: the six configurations of the published comparison, and further ones.

use std::path::{Path, PathBuf};

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
    Plugin(Plugin),
}

/// One of rosbag2's plugins, as a user of `ros2 bag record` chooses and configures it.
#[derive(Clone, Debug)]
pub struct Plugin {
    pub storage: &'static str,
    pub preset: &'static str,
    /// Its configuration file; empty for none.
    pub configuration: PathBuf,
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

/// rosbag2's plugins and presets by the name of a configuration.
const PLUGINS: [(&str, &str, &str); 7] = [
    ("sqlite_default", "sqlite3", ""),
    ("sqlite_resilient", "sqlite3", "resilient"),
    ("mcap_default", "mcap", ""),
    ("mcap_fastwrite", "mcap", "fastwrite"),
    ("mcap_zstd_fast", "mcap", "zstd_fast"),
    ("mcap_zstd_small", "mcap", "zstd_small"),
    ("null", "null", ""),
];

impl Configuration {
    /// The configuration of that name by rosbag2's plugins: a preset, or a file `NAME.yaml`; with
    /// `+fsync` its files are synced when the plugin has closed them.
    pub fn of_rosbag2(asked: &str, folder: &Path) -> Result<Self> {
        let (name, fsync) = split(asked);
        let files = folder.join("configurations");
        let file = files.join(format!("{name}.yaml"));
        let plugin = if let Some((_, storage, preset)) = PLUGINS.iter().find(|p| p.0 == name) {
            Plugin {
                storage,
                preset,
                configuration: PathBuf::new(),
            }
        } else if file.is_file() {
            Plugin {
                storage: if name.starts_with("mcap") {
                    "mcap"
                } else {
                    "sqlite3"
                },
                preset: "",
                configuration: file,
            }
        } else {
            let names = PLUGINS.iter().map(|(known, ..)| *known).collect::<Vec<_>>();
            return Err(Failure::Usage(format!(
                "unknown configuration {name:?} of rosbag2's plugins; there are {} and the files \
                 of {}",
                names.join(", "),
                files.display()
            )));
        };
        Ok(Self {
            name: asked.to_owned(),
            storage: Storage::Plugin(plugin),
            fsync,
        })
    }

    /// The configuration of that name; `NAME+fsync` syncs at close.
    pub fn named(name: &str) -> Result<Self> {
        let (base, fsync) = split(name);
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

/// Without `+fsync`, and whether it was there.
fn split(name: &str) -> (&str, bool) {
    match name.strip_suffix("+fsync") {
        Some(base) => (base, true),
        None => (name, false),
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
