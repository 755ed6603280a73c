//! Parquet files of one schema put one after the other, without decoding them.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::column::writer::ColumnCloseResult;
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaDataReader;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;

/// Write the row groups of all `parts` to `path`; what the first one says of itself holds for all.
///
/// # Errors
///
/// A file cannot be read or written, and which.
pub fn concat(parts: &[PathBuf], path: &Path) -> io::Result<()> {
    let output = File::create(path).map_err(|error| broken(path, error))?;
    let mut writer = None;
    for part in parts {
        let input = File::open(part).map_err(|error| broken(part, error))?;
        let failed = |error: ParquetError| broken(part, error);
        let metadata = ParquetMetaDataReader::new()
            .parse_and_finish(&input)
            .map_err(failed)?;
        let about = metadata.file_metadata();
        if writer.is_none() {
            let properties = WriterProperties::builder()
                .set_key_value_metadata(about.key_value_metadata().cloned())
                .build();
            let schema = about.schema_descr().root_schema_ptr();
            let output = output.try_clone().map_err(|error| broken(path, error))?;
            let made =
                SerializedFileWriter::new(BufWriter::new(output), schema, Arc::new(properties));
            writer = Some(made.map_err(failed)?);
        }
        let Some(writer) = writer.as_mut() else {
            continue;
        };
        for group in metadata.row_groups() {
            let mut rows = writer.next_row_group().map_err(failed)?;
            for column in group.columns() {
                let closed = ColumnCloseResult {
                    bytes_written: column.compressed_size().unsigned_abs(),
                    rows_written: group.num_rows().unsigned_abs(),
                    metadata: column.clone(),
                    bloom_filter: None,
                    column_index: None,
                    offset_index: None,
                };
                rows.append_column(&input, closed).map_err(failed)?;
            }
            rows.close().map_err(failed)?;
        }
    }
    if let Some(writer) = writer {
        writer.close().map_err(|error| broken(path, error))?;
    }
    Ok(())
}

fn broken(path: &Path, why: impl Display) -> io::Error {
    io::Error::other(format!("{}: cannot write: {why}", path.display()))
}
