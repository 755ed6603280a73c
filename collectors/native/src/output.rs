//! Write tables of Python to Parquet files.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt32Type;
use arrow_array::{ArrayRef, DictionaryArray, RecordBatch, RecordBatchReader, StringArray};
use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef};
use parquet::file::metadata::KeyValue;
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use roslens_ctf::files::{Order, table_writer};

use crate::given::{stream_of, texts_of};

/// Write a table to a Parquet file: anything that gives an Arrow stream, such as a polars frame.
///
/// Columns in `names` hold row numbers (u32) of `texts`, and are written as the text in its column
/// `text`. The keys and texts of `about` go into the file's metadata.
#[pyfunction]
#[pyo3(signature = (table, path, names = Vec::new(), texts = None, about = Vec::new()))]
#[expect(clippy::needless_pass_by_value, reason = "what the binding extracts")]
pub fn write_table(
    py: Python<'_>,
    table: Bound<'_, PyAny>,
    path: PathBuf,
    names: Vec<String>,
    texts: Option<Bound<'_, PyAny>>,
    about: Vec<(String, String)>,
) -> PyResult<()> {
    let rows = stream_of(&table)?;
    let texts = match texts {
        Some(texts) => texts_of(&texts)?,
        None => StringArray::from_iter_values(std::iter::empty::<&str>()),
    };
    py.detach(|| {
        let texts: ArrayRef = Arc::new(texts);
        let schema = with_texts(&rows.schema(), &names);
        let batches = rows.map(|batch| {
            let batch = batch.map_err(broken)?;
            let columns = batch.columns().iter().zip(schema.fields());
            let columns = columns.map(|(column, field)| {
                if names.contains(field.name()) {
                    text_of(column, &texts)
                } else {
                    Ok(Arc::clone(column))
                }
            });
            let columns = columns.collect::<PyResult<Vec<_>>>()?;
            RecordBatch::try_new(Arc::clone(&schema), columns).map_err(broken)
        });
        written(batches, &schema, &path, about).map(drop)
    })
}

/// Write batches to a Parquet file with these keys and texts in its metadata; return the number of
/// rows.
pub fn written(
    batches: impl Iterator<Item = PyResult<RecordBatch>>,
    schema: &SchemaRef,
    path: &Path,
    about: Vec<(String, String)>,
) -> PyResult<usize> {
    let sink = BufWriter::with_capacity(1 << 16, File::create(path)?);
    let about = about.into_iter();
    let about = about.map(|(key, text)| KeyValue::new(key, text)).collect();
    let mut writer = table_writer(sink, schema, Order::Unknown, about).map_err(broken)?;
    let mut count = 0;
    for batch in batches {
        let batch = batch?;
        count += batch.num_rows();
        writer.write(&batch).map_err(broken)?;
    }
    writer.into_inner().map_err(broken)?.flush()?;
    Ok(count)
}

/// Return a schema whose columns of these names are text with a dictionary.
fn with_texts(given: &SchemaRef, names: &[String]) -> SchemaRef {
    let kind = DataType::Dictionary(DataType::UInt32.into(), DataType::Utf8.into());
    let fields = given.fields().iter().map(|field| {
        if names.contains(field.name()) {
            Arc::new(Field::new(field.name(), kind.clone(), true))
        } else {
            Arc::clone(field)
        }
    });
    Arc::new(Schema::new(fields.collect::<Fields>()))
}

/// Return a column of text from one of numbers of texts.
fn text_of(numbers: &ArrayRef, texts: &ArrayRef) -> PyResult<ArrayRef> {
    let keys = numbers.as_primitive_opt::<UInt32Type>();
    let keys = keys.ok_or_else(|| broken("a name that is no u32"))?;
    let text = DictionaryArray::try_new(keys.clone(), Arc::clone(texts));
    Ok(Arc::new(text.map_err(broken)?))
}

fn broken(why: impl std::fmt::Display) -> PyErr {
    PyOSError::new_err(why.to_string())
}
