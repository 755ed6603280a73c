//! Writes tables of events to Parquet files.
//!
//! In such tables most columns hold few different values (threads, CPUs, handles), and times grow.
//! The general writer of the crate `parquet` hashes each text and each number with care, and
//! makes a compressor for each column of each row group; here that would be most of the time of
//! reading a trace. So columns of numbers and text have an encoder of their own, which gives
//!
//! * the numbers of a dictionary, as long as there are few values;
//! * beyond that the differences (`DELTA_BINARY_PACKED`), or plain values where these are shorter.
//!
//! Texts may come as Arrow's dictionaries; the file has the same columns as without.
//!
//! Everything else (lists, structures, booleans) and all of the file's frame is left to the crate
//! `parquet`. Pages are compressed by Zstandard at its fastest regular level.

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod column;
mod dictionary;
mod encoding;
mod pages;

use std::io::Write;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::{
    ArrowColumnWriter, ArrowRowGroupWriterFactory, ArrowWriterOptions, compute_leaves,
};
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::Result;
pub use parquet::file::metadata::KeyValue;
use parquet::file::metadata::SortingColumn;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;

use crate::column::Column;

/// Rows in a row group.
pub const ROW_GROUP: usize = 1 << 17;

/// Rows from which on columns are encoded side by side.
const WORTH_A_THREAD: usize = 1 << 15;

/// How a column of the table is encoded.
enum Encoder {
    Own(Box<Column>),
    /// By the crate `parquet`; how many columns of the file it is.
    General(usize),
}

/// What is known of the rows of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// They are sorted by the first column, the time: the file says so, and notes its ranges.
    Time,
    /// Nothing: the ranges of all integers of 64 bits are noted.
    Unknown,
}

/// A Parquet file that is being written.
pub struct TableWriter<W: Write + Send> {
    file: SerializedFileWriter<W>,
    factory: ArrowRowGroupWriterFactory,
    schema: SchemaRef,
    encoders: Vec<Encoder>,
    /// Those of the crate `parquet`, for this row group, in the order of the columns.
    general: Vec<ArrowColumnWriter>,
    /// Rows in this row group.
    rows: usize,
    threads: usize,
}

impl<W: Write + Send> TableWriter<W> {
    /// Begin a file; `about` goes into its metadata.
    ///
    /// # Errors
    ///
    /// The file cannot be written, or Parquet has no such column.
    pub fn new(sink: W, schema: &SchemaRef, order: Order, about: Vec<KeyValue>) -> Result<Self> {
        let by_time = order == Order::Time;
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_statistics_enabled(EnabledStatistics::None)
            .set_sorting_columns(by_time.then(|| {
                vec![SortingColumn {
                    column_idx: 0,
                    descending: false,
                    nulls_first: false,
                }]
            }))
            .set_key_value_metadata(Some(about))
            .build();
        // Beside Arrow's own schema pyarrow and pandas do not see the file's metadata.
        let options = ArrowWriterOptions::new()
            .with_properties(properties)
            .with_skip_arrow_metadata(!by_time);
        let writer = ArrowWriter::try_new_with_options(sink, plain(schema), options)?;
        let (file, factory) = writer.into_serialized_writer()?;
        let descriptor = file.schema_descr();
        let leaves_of = |root: usize| {
            (0..descriptor.num_columns())
                .filter(move |leaf| descriptor.get_column_root_idx(*leaf) == root)
        };
        let encoders = (0..schema.fields().len())
            .map(|root| {
                let kind = schema.field(root).data_type();
                let leaf = leaves_of(root).next().map(|leaf| descriptor.column(leaf));
                // The time is what readers look for.
                let ranges = root == 0 || !by_time;
                match leaf.and_then(|leaf| Column::new(leaf, kind, ranges)) {
                    Some(own) => Encoder::Own(Box::new(own)),
                    None => Encoder::General(leaves_of(root).count()),
                }
            })
            .collect();
        Ok(Self {
            file,
            factory,
            schema: Arc::clone(schema),
            encoders,
            general: Vec::new(),
            rows: 0,
            threads: 1,
        })
    }

    /// Encode columns on so many threads.
    #[must_use]
    pub fn with_threads(mut self, threads: usize) -> Self {
        self.threads = threads.max(1);
        self
    }

    /// Append rows.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let mut at = 0;
        while at < batch.num_rows() {
            let rows = (ROW_GROUP - self.rows).min(batch.num_rows() - at);
            self.append(&batch.slice(at, rows))?;
            at += rows;
            if self.rows == ROW_GROUP {
                self.end_row_group()?;
            }
        }
        Ok(())
    }

    fn append(&mut self, batch: &RecordBatch) -> Result<()> {
        if self.rows == 0 {
            self.general = self.general_writers()?;
        }
        self.rows += batch.num_rows();
        let mut own = Vec::new();
        let mut general = self.general.iter_mut();
        let columns = self.schema.fields().iter().zip(batch.columns());
        for ((field, array), encoder) in columns.zip(&mut self.encoders) {
            match encoder {
                Encoder::Own(column) => own.push((column, array)),
                Encoder::General(_) => {
                    for (leaf, writer) in compute_leaves(field, array)?.iter().zip(&mut general) {
                        writer.write(leaf)?;
                    }
                }
            }
        }
        let threads = if batch.num_rows() < WORTH_A_THREAD {
            1
        } else {
            self.threads.min(own.len()).max(1)
        };
        let mut shares: Vec<Vec<_>> = (0..threads).map(|_| Vec::new()).collect();
        for (number, one) in own.into_iter().enumerate() {
            shares[number % threads].push(one);
        }
        let encode = |share: Vec<(&mut Box<Column>, &ArrayRef)>| {
            let mut share = share.into_iter();
            share.try_for_each(|(column, array)| column.write(array))
        };
        let mine = shares.pop().unwrap_or_default();
        std::thread::scope(|scope| {
            let others: Vec<_> = shares
                .into_iter()
                .map(|share| scope.spawn(move || encode(share)))
                .collect();
            encode(mine)?;
            others.into_iter().try_for_each(|other| {
                let ended = other.join();
                ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
        })
    }

    fn general_writers(&self) -> Result<Vec<ArrowColumnWriter>> {
        if self.encoders.iter().all(|e| matches!(e, Encoder::Own(_))) {
            return Ok(Vec::new());
        }
        let number = self.file.flushed_row_groups().len();
        let mut all = self.factory.create_column_writers(number)?.into_iter();
        let mut wanted = Vec::new();
        for encoder in &self.encoders {
            match encoder {
                Encoder::Own(_) => drop(all.next()),
                Encoder::General(leaves) => wanted.extend(all.by_ref().take(*leaves)),
            }
        }
        Ok(wanted)
    }

    fn end_row_group(&mut self) -> Result<()> {
        if self.rows == 0 {
            return Ok(());
        }
        self.rows = 0;
        let mut group = self.file.next_row_group()?;
        let mut general = std::mem::take(&mut self.general).into_iter();
        for encoder in &mut self.encoders {
            match encoder {
                Encoder::Own(column) => {
                    let (bytes, closed) = column.finish()?;
                    group.append_column(&bytes, closed)?;
                }
                Encoder::General(leaves) => {
                    for writer in general.by_ref().take(*leaves) {
                        writer.close()?.append_to_row_group(&mut group)?;
                    }
                }
            }
        }
        group.close()?;
        Ok(())
    }

    /// Complete the file.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn finish(mut self) -> Result<W> {
        self.end_row_group()?;
        self.file.into_inner()
    }
}

/// Texts that come with a dictionary are texts in the file, whoever reads it.
fn plain(schema: &SchemaRef) -> SchemaRef {
    let fields = schema
        .fields()
        .iter()
        .map(|field| match field.data_type() {
            DataType::Dictionary(_, values) if **values == DataType::Utf8View => Arc::new(
                Field::new(field.name(), DataType::Utf8View, field.is_nullable()),
            ),
            _ => Arc::clone(field),
        })
        .collect::<Fields>();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}
