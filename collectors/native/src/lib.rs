//! The Python module `roslens.collectors._native`: CTF trace folders to Arrow and Parquet.
//!
//! It hands over what `roslens-ctf` decodes, runs the model and simulations, and writes tables.

mod bounds;
mod failure;
mod given;
mod memory;
mod model;
mod output;
mod stream;
mod what_if;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchIterator};
use arrow_schema::SchemaRef;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyList};
use roslens_ctf::catalog::COMMON;
use roslens_ctf::stage::Projection;
use roslens_ctf::{Failure, LossRow, Recording, Summary, Want};

use crate::failure::{TraceError, raised};
use crate::stream::Stream;

/// Record batches of one table, for anything that takes Arrow.
#[pyclass(frozen)]
struct Batches {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

#[pymethods]
impl Batches {
    /// Export through the Arrow `PyCapsule` interface; the columns are shared, not copied.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The protocol allows ignoring the requested schema; the consumer then casts.
        drop(requested_schema);
        let batches = self.batches.clone().into_iter().map(Ok);
        let reader = RecordBatchIterator::new(batches, Arc::clone(&self.schema));
        let stream = FFI_ArrowArrayStream::new(Box::new(reader));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }
}

/// Opened CTF traces, with metadata parsed and packets found.
#[pyclass(frozen)]
struct Reader {
    recording: Arc<Recording>,
}

#[pymethods]
impl Reader {
    /// Open traces, given as (folder, label) in the order that breaks ties in time. `clock_offsets`
    /// has, by name or label of a host, times and the nanoseconds to add at them.
    #[new]
    #[pyo3(signature = (traces, clock_offsets=None))]
    #[expect(clippy::needless_pass_by_value, reason = "what the binding extracts")]
    fn new(
        py: Python<'_>,
        traces: Vec<(PathBuf, String)>,
        clock_offsets: Option<BTreeMap<String, Vec<(i64, i64)>>>,
    ) -> PyResult<Self> {
        let clocks = clock_offsets.unwrap_or_default();
        let recording = py.detach(|| Recording::open(&traces, &clocks));
        memory::give_back_at_times();
        Ok(Self {
            recording: Arc::new(recording.map_err(raised)?),
        })
    }

    /// Return the label of each trace, and that of its host.
    #[getter]
    fn members(&self) -> Vec<(&str, &str)> {
        let members = self.recording.catalog.members.iter();
        members
            .map(|of| (of.label.as_str(), of.host.as_str()))
            .collect()
    }

    /// Return the names of all declared events, sorted.
    #[getter]
    fn event_names(&self) -> Vec<&str> {
        self.recording.event_names()
    }

    /// Return the log level of each event that has one: the most severe of classes of one name.
    #[getter]
    fn log_levels(&self) -> BTreeMap<&str, i64> {
        self.recording.log_levels()
    }

    /// Return base and bits of each event's columns that are not to be shown as decimal numbers.
    #[getter]
    fn shown(&self) -> BTreeMap<&str, HashMap<&str, (u8, u32)>> {
        let names = self.recording.event_names();
        names
            .into_iter()
            .zip(self.recording.catalog.shown())
            .collect()
    }

    /// Return the labels of the hosts, in the order of the traces.
    #[getter]
    fn hosts(&self) -> Vec<&str> {
        self.recording.hosts()
    }

    /// Return the first and last time that the heads of packets state.
    #[getter]
    fn span(&self) -> (Option<i64>, Option<i64>) {
        self.recording.span()
    }

    /// Decode into memory; return event name to table, for every declared name that is wanted.
    fn read<'py>(&self, py: Python<'py>, wanted: Wanted) -> PyResult<Bound<'py, PyDict>> {
        let want = want(wanted);
        let recording = &self.recording;
        let count = recording.catalog.tables.len();
        let read =
            py.detach(|| recording.decode(&want, telling(None), || Some(vec![Vec::new(); count])));
        let (_, tables) = read.map_err(raised)?;
        let found = PyDict::new(py);
        let schemas = recording.schemas(&want.columns);
        for ((name, batches), schema) in recording.event_names().iter().zip(tables).zip(schemas) {
            if want.has(name) {
                found.set_item(name, Bound::new(py, Batches { schema, batches })?)?;
            }
        }
        Ok(found)
    }

    /// Decode batch by batch on new threads; return an iterator of (event name, batch).
    fn stream(&self, wanted: Wanted) -> PyResult<Stream> {
        let want = want(wanted);
        let schemas = self.recording.schemas(&want.columns);
        let schemas = self.recording.event_names().into_iter().zip(schemas);
        let schemas = schemas.filter(|(name, _)| want.has(name));
        let schemas = schemas.map(|(_, schema)| schema).collect();
        let batches = self.recording.batches(want).map_err(raised)?;
        Ok(Stream::new(batches, schemas))
    }

    /// Cut the time from `begin_ns` to `end_ns` into parts of about as many bytes of packets;
    /// return first and last time of each.
    fn windows(
        &self,
        begin_ns: Option<i64>,
        end_ns: Option<i64>,
        size: u64,
    ) -> Vec<(Option<i64>, Option<i64>)> {
        self.recording.windows(begin_ns, end_ns, size)
    }

    /// Decode only what counts, times and processes need.
    #[pyo3(signature = (threads, progress=None))]
    #[expect(clippy::needless_pass_by_value, reason = "what the binding extracts")]
    fn summary<'py>(
        &self,
        py: Python<'py>,
        threads: usize,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let want = Want {
            columns: Projection::Named(COMMON.map(str::to_owned).to_vec()),
            note: true,
            threads,
            ..Want::default()
        };
        let count = self.recording.catalog.tables.len();
        let tell = telling(progress.as_ref());
        let seen = py.detach(|| self.recording.decode(&want, tell, || Some(vec![(); count])));
        let (summary, _) = seen.map_err(raised)?;
        self.describe(py, &summary)
    }

    /// Decode to `<folder>/<provider>/<event>.parquet`; return the summary of what was written.
    #[expect(clippy::needless_pass_by_value, reason = "what the binding extracts")]
    fn write<'py>(
        &self,
        py: Python<'py>,
        folder: PathBuf,
        wanted: Wanted,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let want = Want {
            note: true,
            ..want(wanted)
        };
        let tell = telling(progress.as_ref());
        let written = py.detach(|| {
            let written = self.recording.write(&want, &folder, tell);
            memory::give_back();
            written
        });
        let (summary, files) = written.map_err(raised)?;
        let found = self.describe(py, &summary)?;
        found.set_item("files", files)?;
        Ok(found)
    }
}

/// What Python wants: names of events, first and last time, names of columns, number of threads.
type Wanted = (
    Option<Vec<String>>,
    Option<i64>,
    Option<i64>,
    Option<Vec<String>>,
    usize,
);

/// Make a request from what Python wants.
fn want((events, begin_ns, end_ns, fields, threads): Wanted) -> Want {
    Want {
        events,
        begin_ns,
        end_ns,
        columns: fields.map_or(Projection::All, Projection::Named),
        note: false,
        threads,
    }
}

impl Reader {
    fn describe<'py>(&self, py: Python<'py>, summary: &Summary) -> PyResult<Bound<'py, PyDict>> {
        let found = PyDict::new(py);
        let counts = PyDict::new(py);
        for (name, seen) in self.recording.event_names().iter().zip(&summary.tables) {
            if seen.rows > 0 {
                counts.set_item(name, seen.rows)?;
            }
        }
        let times = summary.times();
        found.set_item("events_by_name", counts)?;
        found.set_item("begin_ns", times.map(|t| t.0))?;
        found.set_item("end_ns", times.map(|t| t.1))?;
        let list = PyList::empty(py);
        for ((host, vpid), name) in summary.processes() {
            list.append((host, vpid, name))?;
        }
        found.set_item("processes", list)?;
        let warnings = self.recording.warnings.iter().chain(&summary.warnings);
        found.set_item("warnings", warnings.collect::<Vec<_>>())?;
        let losses = PyList::empty(py);
        for loss in self.recording.losses.iter().chain(&summary.losses) {
            losses.append(self.loss(py, loss)?)?;
        }
        found.set_item("losses", losses)?;
        Ok(found)
    }

    fn loss<'py>(&self, py: Python<'py>, loss: &LossRow) -> PyResult<Bound<'py, PyDict>> {
        let member = &self.recording.catalog.members[loss.member];
        let row = PyDict::new(py);
        row.set_item("host", &member.host)?;
        row.set_item("trace", &member.label)?;
        row.set_item("stream", &loss.stream)?;
        // More than 2^31 comes only from damaged heads, as with the count.
        let cpu = loss.cpu.and_then(|cpu| i32::try_from(cpu).ok());
        row.set_item("cpu_id", cpu)?;
        row.set_item("kind", loss.kind.name())?;
        // More than 2^63 comes only from damaged counters.
        let count = loss.count.and_then(|count| i64::try_from(count).ok());
        row.set_item("count", count)?;
        row.set_item("begin_ns", loss.begin_ns)?;
        row.set_item("end_ns", loss.end_ns)?;
        Ok(row)
    }
}

/// Return a callback that reports progress to Python, and checks for Ctrl-C.
fn telling(progress: Option<&Py<PyAny>>) -> impl FnMut(u64, u64) -> roslens_ctf::Result<()> {
    move |done, total| {
        Python::attach(|py| {
            py.check_signals()?;
            if let Some(progress) = progress {
                progress.call1(py, (done, total))?;
            }
            Ok(())
        })
        .map_err(|error: PyErr| Failure::Stopped(Box::new(error)))
    }
}

#[pymodule]
mod _native {
    #[pymodule_export]
    use super::{Batches, Reader, Stream, TraceError};
    #[pymodule_export]
    use crate::bounds::response_time_bounds;
    #[pymodule_export]
    use crate::model::{Pass, model_events, model_reasons};
    #[pymodule_export]
    use crate::output::write_table;
    #[pymodule_export]
    use crate::what_if::simulate;
}
