//! The ROS 2 model: events and objects that Python hands over, and the tables.

use std::fs::File;
use std::path::Path;

use ahash::HashMap;
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::ArrowError;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use roslens_ctf::Failure;
use roslens_model::{About, Gaps, Identity, KINDS, Known, Model, NONE, Process, guesses};

use crate::Batches;
use crate::failure::raised;
use crate::given::stream_of;

/// What Python knows of a recording beside its events.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Given {
    /// Labels of the hosts, by number.
    hosts: Vec<String>,
    /// By number: host, pid namespace, vpid, since when that is its own, last event.
    processes: Vec<(u32, i64, i32, i64, i64)>,
    /// Process, since when it could publish on one topic only, that, and by whom.
    guesses: Vec<(u32, i64, Option<String>, Option<u32>)>,
    /// Host, begin and end of what the tracer dropped.
    losses: Vec<(u32, i64, i64)>,
    /// Events that were enabled.
    declared: Vec<String>,
    /// Events that happened.
    happened: Vec<String>,
}

/// The column of a field.
fn column(field: &'static str) -> &'static str {
    field.split_once('+').map_or(field, |(name, _)| name)
}

/// The events of the pass, by name without ROS's provider, and the columns that it reads of them.
#[pyfunction]
pub fn model_events() -> HashMap<&'static str, Vec<&'static str>> {
    KINDS
        .iter()
        .map(|(_, name, fields)| (*name, fields.iter().map(|field| column(field)).collect()))
        .collect()
}

#[expect(clippy::needless_pass_by_value, reason = "as map_err hands it over")]
fn wrong(error: impl ToString) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// Batches of a Parquet file, with the columns that the model reads.
fn batches_of(path: &Path, fields: &[&'static str]) -> PyResult<roslens_model::Batches> {
    let file = File::open(path)
        .map_err(|error| raised(Failure::Output(format!("{}: {error}", path.display()))))?;
    let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(wrong)?;
    let context = ["time_ns", "host", "vpid", "vtid", "ctx_pid_ns"];
    let wanted = context
        .into_iter()
        .chain(fields.iter().map(|field| column(field)));
    let mask = ProjectionMask::columns(builder.parquet_schema(), wanted);
    let reader = builder
        .with_projection(mask)
        .with_batch_size(16_384)
        .build()
        .map_err(wrong)?;
    Ok(Box::new(reader))
}

fn whole(table: &Bound<'_, PyAny>) -> PyResult<RecordBatch> {
    let reader = stream_of(table)?;
    let schema = reader.schema();
    let batches: Result<Vec<_>, ArrowError> = reader.collect();
    let mut batches = batches.map_err(wrong)?;
    match batches.len() {
        0 => Ok(RecordBatch::new_empty(schema)),
        1 => Ok(batches.remove(0)),
        _ => Err(wrong("objects in one piece")),
    }
}

/// The tables of events, given by name without the provider as tables or paths of Parquet files,
/// and of objects; and what was counted.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "what the binding extracts")]
pub fn model<'py>(
    py: Python<'py>,
    events: HashMap<String, Bound<'py, PyAny>>,
    objects: HashMap<String, Bound<'py, PyAny>>,
    given: Bound<'py, PyAny>,
) -> PyResult<(Bound<'py, PyDict>, Bound<'py, PyDict>)> {
    let given: Given = given.extract()?;
    let mut sources: HashMap<String, roslens_model::Batches> = HashMap::default();
    for (_, name, fields) in KINDS {
        let Some(source) = events.get(*name) else {
            continue;
        };
        let batches = match source.extract::<String>() {
            Ok(path) => batches_of(Path::new(&path), fields)?,
            Err(_) => Box::new(stream_of(source)?),
        };
        sources.insert((*name).to_owned(), batches);
    }
    let objects = objects
        .iter()
        .map(|(name, table)| Ok((name.clone(), whole(table)?)));
    let mut known = Known::new(&objects.collect::<PyResult<_>>()?);
    let processes = given.processes.into_iter();
    let processes = processes.map(|(host, namespace, vpid, since, end)| Process {
        host,
        namespace,
        vpid,
        since,
        end,
    });
    let identity = Identity::new(&given.hosts, processes.collect());
    let steps = given
        .guesses
        .into_iter()
        .map(|(process, since, topic, publisher)| {
            let topic = topic.map_or(NONE, |topic| known.names.number(&topic));
            (process, since, topic, publisher.unwrap_or(NONE))
        });
    let about = About {
        guesses: guesses(steps),
        gaps: Gaps::new(&given.losses),
        rcl_publish: given.declared.iter().any(|name| name == "rcl_publish"),
        rcl_take: given.declared.iter().any(|name| name == "rcl_take"),
        rmw_take: given.happened.iter().any(|name| name == "rmw_take"),
    };
    let (tables, counts) = py
        .detach(move || {
            let mut model = Model::new(identity, known, about);
            model.run(sources)?;
            Ok(model.finish())
        })
        .map_err(|error: ArrowError| raised(Failure::Output(error.to_string())))?;
    let found = PyDict::new(py);
    for (name, batch) in tables {
        let batches = Batches {
            schema: batch.schema(),
            batches: vec![batch],
        };
        found.set_item(name, Bound::new(py, batches)?)?;
    }
    let told = PyDict::new(py);
    for (name, number) in counts.numbers {
        told.set_item(name, number)?;
    }
    told.set_item("gone", counts.gone)?;
    told.set_item("untaken", counts.untaken)?;
    told.set_item("alone_on", counts.alone_on)?;
    Ok((found, told))
}
