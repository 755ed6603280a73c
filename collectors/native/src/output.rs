//! Where batches go: into memory, or to Parquet files.

use std::collections::HashSet;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt32Type;
use arrow_array::{ArrayRef, DictionaryArray, RecordBatch, RecordBatchReader, StringViewArray};
use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef};
use parquet::file::metadata::KeyValue;
use pyo3::prelude::*;
use roslens_ctf::catalog::Catalog;
use roslens_parquet::{Order, TableWriter};

use crate::failure::{Failure, Result};
use crate::given::{Given, stream_of};
use crate::run::Sink;

/// Counts only.
pub struct Nowhere;

impl Sink for Nowhere {
    fn take(&mut self, _: RecordBatch) -> Result<()> {
        Ok(())
    }
}

/// Batches in memory.
#[derive(Default)]
pub struct Memory(pub Vec<RecordBatch>);

impl Sink for Memory {
    fn take(&mut self, batch: RecordBatch) -> Result<()> {
        self.0.push(batch);
        Ok(())
    }
}

/// One Parquet file, made when the first batch comes, in place only when finished.
pub struct Parquet {
    path: PathBuf,
    name: String,
    schema: SchemaRef,
    writer: Option<TableWriter<BufWriter<File>>>,
    complete: bool,
}

impl Parquet {
    /// A file per table below `folder`, with the columns of its schema.
    pub fn for_tables(catalog: &Catalog, schemas: &[SchemaRef], folder: &Path) -> Vec<Self> {
        let mut taken = HashSet::new();
        catalog
            .tables
            .iter()
            .enumerate()
            .map(|(number, table)| {
                let (provider, event) = match table.name.split_once(':') {
                    Some((provider, event)) => (provider, event),
                    None => (domain(catalog, number), table.name.as_str()),
                };
                let (provider, event) = (sanitise(provider), sanitise(event));
                let mut free = format!("{provider}/{event}.parquet");
                let mut count = 1;
                // File systems may not tell upper case from lower.
                while !taken.insert(free.to_lowercase()) {
                    count += 1;
                    free = format!("{provider}/{event}_{count}.parquet");
                }
                Self {
                    path: folder.join(free),
                    name: table.name.clone(),
                    schema: Arc::clone(&schemas[number]),
                    writer: None,
                    complete: false,
                }
            })
            .collect()
    }

    fn temporary(&self) -> PathBuf {
        self.path.with_extension("parquet.partial")
    }

    fn open(&self) -> Result<TableWriter<BufWriter<File>>> {
        if let Some(folder) = self.path.parent() {
            std::fs::create_dir_all(folder).map_err(|e| Failure::output(folder, e))?;
        }
        let path = self.temporary();
        let file = File::create(&path).map_err(|e| Failure::output(&path, e))?;
        TableWriter::new(
            BufWriter::with_capacity(1 << 16, file),
            &self.schema,
            Order::Time,
            vec![KeyValue::new("roslens.event".to_owned(), self.name.clone())],
        )
        .map_err(|e| Failure::output(&path, e))
    }

    /// The file, if there was any event.
    pub fn into_path(mut self) -> Option<PathBuf> {
        self.complete.then(|| std::mem::take(&mut self.path))
    }
}

impl Sink for Parquet {
    fn take(&mut self, batch: RecordBatch) -> Result<()> {
        if self.writer.is_none() {
            self.writer = Some(self.open()?);
        }
        if let Some(writer) = &mut self.writer {
            writer
                .write(&batch)
                .map_err(|e| Failure::output(&self.path, e))?;
        }
        Ok(())
    }

    /// Complete the file and put it in place.
    fn end(&mut self) -> Result<()> {
        let Some(writer) = self.writer.take() else {
            return Ok(());
        };
        let temporary = self.temporary();
        let ended = writer
            .finish()
            .map_err(|e| Failure::output(&temporary, e))
            .and_then(|mut file| {
                let flushed = std::io::Write::flush(&mut file);
                flushed.map_err(|e| Failure::output(&temporary, e))
            })
            .and_then(|()| {
                std::fs::rename(&temporary, &self.path).map_err(|e| Failure::output(&self.path, e))
            });
        if ended.is_err() {
            let _ = std::fs::remove_file(&temporary);
        }
        self.complete = ended.is_ok();
        ended
    }
}

impl Drop for Parquet {
    fn drop(&mut self) {
        if self.writer.take().is_some() {
            // What is not finished is of no use to anybody.
            let _ = std::fs::remove_file(self.temporary());
        }
    }
}

/// Write a table to a Parquet file: anything that gives an Arrow stream, such as a polars frame.
///
/// Columns are encoded on so many threads. Those called `names` hold, as u32, the row of `texts`
/// whose text they are: its column `text`.
#[pyfunction]
#[pyo3(signature = (table, path, names = Vec::new(), texts = None, threads = 1))]
#[expect(clippy::needless_pass_by_value, reason = "what the binding extracts")]
pub fn write_table(
    py: Python<'_>,
    table: Bound<'_, PyAny>,
    path: PathBuf,
    names: Vec<String>,
    texts: Option<Bound<'_, PyAny>>,
    threads: usize,
) -> PyResult<()> {
    let rows = stream_of(&table)?;
    let texts = match texts {
        Some(texts) => Given::new(&texts)?.texts("text")?,
        None => StringViewArray::from_iter_values(std::iter::empty::<&str>()),
    };
    py.detach(|| -> Result<()> {
        let sink = BufWriter::with_capacity(1 << 16, File::create(&path).map_err(broken)?);
        let texts: ArrayRef = Arc::new(texts);
        let schema = with_texts(&rows.schema(), &names);
        let writer = TableWriter::new(sink, &schema, Order::Unknown, Vec::new()).map_err(broken)?;
        let mut writer = writer.with_threads(threads);
        for batch in rows {
            let batch = batch.map_err(broken)?;
            let columns = batch.columns().iter().zip(schema.fields());
            let columns = columns.map(|(column, field)| {
                if names.contains(field.name()) {
                    text_of(column, &texts)
                } else {
                    Ok(Arc::clone(column))
                }
            });
            let columns = columns.collect::<Result<Vec<_>>>()?;
            let batch = RecordBatch::try_new(Arc::clone(&schema), columns).map_err(broken)?;
            writer.write(&batch).map_err(broken)?;
        }
        let mut file = writer.finish().map_err(broken)?;
        std::io::Write::flush(&mut file).map_err(broken)
    })?;
    Ok(())
}

/// A schema whose columns of these names are text with a dictionary.
fn with_texts(given: &SchemaRef, names: &[String]) -> SchemaRef {
    let kind = DataType::Dictionary(DataType::UInt32.into(), DataType::Utf8View.into());
    let fields = given.fields().iter().map(|field| {
        if names.contains(field.name()) {
            Arc::new(Field::new(field.name(), kind.clone(), true))
        } else {
            Arc::clone(field)
        }
    });
    Arc::new(Schema::new(fields.collect::<Fields>()))
}

/// Numbers of texts as text.
fn text_of(numbers: &ArrayRef, texts: &ArrayRef) -> Result<ArrayRef> {
    let keys = numbers.as_primitive_opt::<UInt32Type>();
    let keys = keys.ok_or_else(|| broken("a name that is no u32"))?;
    let text = DictionaryArray::try_new(keys.clone(), Arc::clone(texts));
    Ok(Arc::new(text.map_err(broken)?))
}

fn broken(why: impl std::fmt::Display) -> Failure {
    Failure::Output(why.to_string())
}

/// `kernel` or `ust`, from the environment of the trace that declares a table.
fn domain(catalog: &Catalog, table: usize) -> &str {
    catalog
        .layouts_of(table)
        .next()
        .and_then(|(_, l)| catalog.members[l.member].trace.env("domain"))
        .unwrap_or("trace")
}

fn sanitise(name: &str) -> String {
    let clean: String = name
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || "_-.".contains(c) {
                c
            } else {
                '_'
            }
        })
        .take(120)
        .collect();
    match clean.strip_prefix('.') {
        Some(rest) => format!("_{rest}"),
        None if clean.is_empty() => "_".to_owned(),
        None => clean,
    }
}
