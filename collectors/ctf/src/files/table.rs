//! Configure the Parquet files of tables.

use std::io::Write;
use std::sync::Arc;

use arrow_schema::{DataType, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::Result;
use parquet::file::metadata::{KeyValue, SortingColumn};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;

/// Number of rows in a row group.
const ROW_GROUP: usize = 1 << 17;
/// Number of rows in a page. Until it is full, the writer holds 8 bytes for each of its values.
const PAGE_ROWS: usize = 1 << 15;
/// Size of a dictionary of numbers in bytes from which on the column is no longer treated as one of
/// few values.
const DICTIONARY_BYTES: usize = 1 << 15;

/// The known order of the rows of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Sorted by the first column, the time: the file says so, and has statistics of the time.
    Time,
    /// Unknown: the file has statistics of all signed integers of 64 bits.
    Unknown,
}

/// Begin a Parquet file; `about` goes into its metadata.
///
/// Signed integers of 64 bits are times or numbers of rows, and are encoded as differences. Other
/// columns get a dictionary; integers that come after it is full are encoded as differences, too.
///
/// # Errors
///
/// The file cannot be written, or Parquet has no such column.
pub fn table_writer<W: Write + Send>(
    sink: W,
    schema: &SchemaRef,
    order: Order,
    about: Vec<KeyValue>,
) -> Result<ArrowWriter<W>> {
    let by_time = order == Order::Time;
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_max_row_group_row_count(Some(ROW_GROUP))
        .set_data_page_row_count_limit(PAGE_ROWS)
        .set_statistics_enabled(EnabledStatistics::None)
        .set_sorting_columns(by_time.then(|| {
            vec![SortingColumn {
                column_idx: 0,
                descending: false,
                nulls_first: false,
            }]
        }))
        .set_key_value_metadata(Some(about));
    for (number, field) in schema.fields().iter().enumerate() {
        let path = ColumnPath::from(field.name().as_str());
        let kind = field.data_type();
        if kind.is_numeric() {
            properties =
                properties.set_column_dictionary_page_size_limit(path.clone(), DICTIONARY_BYTES);
        }
        if kind.is_integer() {
            properties =
                properties.set_column_encoding(path.clone(), Encoding::DELTA_BINARY_PACKED);
        }
        if *kind == DataType::Int64 {
            properties = properties.set_column_dictionary_enabled(path.clone(), false);
            // In a sorted file, readers search by time.
            if number == 0 || !by_time {
                properties =
                    properties.set_column_statistics_enabled(path, EnabledStatistics::Page);
            }
        }
    }
    // If Arrow's own schema is there, pyarrow and pandas do not see the file's metadata.
    let options = ArrowWriterOptions::new()
        .with_properties(properties.build())
        .with_skip_arrow_metadata(!by_time);
    ArrowWriter::try_new_with_options(sink, Arc::clone(schema), options)
}
