//! What writes, and how: rosbag2's plugins by their presets and configuration files.

use std::path::{Path, PathBuf};

use crate::failure::{Failure, Result};

/// A configuration as a user of `ros2 bag record` chooses it; see docs/storage.md.
#[derive(Debug)]
pub struct Configuration {
    pub name: String,
    pub storage: &'static str,
    pub preset: &'static str,
    /// Its configuration file; empty for none.
    pub file: PathBuf,
    /// Whether the files are synced to the device when they are closed.
    pub fsync: bool,
}

/// Plugins and presets by the name of a configuration.
const PRESETS: [(&str, &str, &str); 7] = [
    ("sqlite_default", "sqlite3", ""),
    ("sqlite_resilient", "sqlite3", "resilient"),
    ("mcap_default", "mcap", ""),
    ("mcap_fastwrite", "mcap", "fastwrite"),
    ("mcap_zstd_fast", "mcap", "zstd_fast"),
    ("mcap_zstd_small", "mcap", "zstd_small"),
    ("null", "null", ""),
];

impl Configuration {
    /// The configuration of that name: a preset, or a file `NAME.yaml` beside the library that
    /// calls the plugins; with `+fsync` the files are synced when the plugin has closed them.
    pub fn named(asked: &str, folder: &Path) -> Result<Self> {
        let (name, fsync) = match asked.strip_suffix("+fsync") {
            Some(base) => (base, true),
            None => (asked, false),
        };
        let files = folder.join("configurations");
        let preset = PRESETS.iter().find(|preset| preset.0 == name);
        let file = match preset {
            Some(_) => PathBuf::new(),
            None => files.join(format!("{name}.yaml")),
        };
        if preset.is_none() && !file.is_file() {
            let names: Vec<_> = PRESETS.iter().map(|(known, ..)| *known).collect();
            return Err(Failure::Usage(format!(
                "unknown configuration {name:?} of rosbag2's plugins; there are {} and the files \
                 of {} (and each with +fsync)",
                names.join(", "),
                files.display()
            )));
        }
        let by_name = if name.starts_with("mcap") {
            "mcap"
        } else {
            "sqlite3"
        };
        Ok(Self {
            name: asked.to_owned(),
            storage: preset.map_or(by_name, |preset| preset.1),
            preset: preset.map_or("", |preset| preset.2),
            file,
            fsync,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::Configuration;

    #[test]
    fn a_preset_is_known_with_and_without_a_sync() {
        for (asked, fsync) in [("mcap_zstd_fast", false), ("mcap_zstd_fast+fsync", true)] {
            let found = Configuration::named(asked, Path::new("")).unwrap();
            assert_eq!((found.name.as_str(), found.fsync), (asked, fsync));
            assert_eq!((found.storage, found.preset), ("mcap", "zstd_fast"));
        }
        let said = Configuration::named("mcap", Path::new("")).unwrap_err();
        assert!(said.to_string().contains("mcap_zstd_fast"), "{said}");
    }
}
