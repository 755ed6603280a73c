//! Write batches to Parquet files.

use std::collections::HashSet;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use parquet::arrow::ArrowWriter;
use parquet::file::metadata::KeyValue;

use super::failure::{Failure, Result};
use super::job::{Sink, Summary, Want};
use super::recording::Recording;
use super::table::{Order, table_writer};
use crate::catalog::Catalog;

impl Recording {
    /// Decode to `<folder>/<provider>/<event>.parquet`, each sorted by time; return the summary and
    /// the files. Events that did not occur get no file.
    ///
    /// An event without a provider goes to the folder of its domain (`kernel`, `ust`, else
    /// `trace`); characters other than letters, digits and `_-.` become `_`. The name as recorded
    /// is in the file's metadata as `roslens.event`. A file has its name only when it is complete.
    ///
    /// # Errors
    ///
    /// Those of [`Recording::decode`], or a file cannot be written.
    pub fn write(
        &self,
        want: &Want,
        folder: &Path,
        progress: impl FnMut(u64, u64) -> Result<()>,
    ) -> Result<(Summary, Vec<PathBuf>)> {
        let schemas = self.schemas(&want.columns);
        let files = || Some(Parquet::for_tables(&self.catalog, &schemas, folder));
        let (summary, files) = self.decode(want, progress, files)?;
        let files = files.into_iter().filter_map(Parquet::into_path);
        Ok((summary, files.collect()))
    }
}

/// A Parquet file, created when the first batch comes, and put in place only when finished.
struct Parquet {
    path: PathBuf,
    name: String,
    schema: SchemaRef,
    writer: Option<ArrowWriter<BufWriter<File>>>,
    complete: bool,
}

impl Parquet {
    /// Make a file per table below `folder`, with the columns of its schema.
    fn for_tables(catalog: &Catalog, schemas: &[SchemaRef], folder: &Path) -> Vec<Self> {
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
                // File systems may not distinguish upper case from lower case.
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

    fn open(&self) -> Result<ArrowWriter<BufWriter<File>>> {
        if let Some(folder) = self.path.parent() {
            std::fs::create_dir_all(folder).map_err(|e| Failure::output(folder, e))?;
        }
        let path = self.temporary();
        let file = File::create(&path).map_err(|e| Failure::output(&path, e))?;
        table_writer(
            BufWriter::with_capacity(1 << 16, file),
            &self.schema,
            Order::Time,
            vec![KeyValue::new("roslens.event".to_owned(), self.name.clone())],
        )
        .map_err(|e| Failure::output(&path, e))
    }

    /// Return the path of the file, if there was any event.
    fn into_path(mut self) -> Option<PathBuf> {
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
            .into_inner()
            .map_err(|e| Failure::output(&temporary, e))
            .and_then(|mut file| {
                let flushed = file.flush();
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
            // An unfinished file is of no use.
            let _ = std::fs::remove_file(self.temporary());
        }
    }
}

/// Return the domain (`kernel` or `ust`) in the environment of the trace that declares a table.
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
