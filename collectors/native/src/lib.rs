//! The Python module `roslens.collectors._native`: CTF trace folders to Arrow and Parquet.
//!
//! It finds and reads files; what their bytes mean is the matter of `roslens-ctf`.

mod concat;
mod crew;
mod failure;
mod feed;
mod given;
mod index;
mod memory;
mod model;
mod output;
mod passes;
mod run;
mod stream;
mod window;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchIterator};
use arrow_schema::SchemaRef;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyList};
use roslens_ctf::catalog::COMMON;
use roslens_ctf::scan::Filter;
use roslens_ctf::stage::Projection;

use crate::failure::{Failure, Result, TraceError};
use crate::index::{Index, LossRow};
use crate::output::{Memory, Nowhere, Parquet};
use crate::run::{Job, Sink, Summary, run};
use crate::stream::Stream;

/// Record batches of one table, for anything that takes Arrow.
#[pyclass(frozen)]
struct Batches {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

#[pymethods]
impl Batches {
    /// The Arrow `PyCapsule` interface; the columns are shared, not copied.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The protocol allows to leave the request unheeded; the consumer then casts.
        drop(requested_schema);
        let batches = self.batches.clone().into_iter().map(Ok);
        let reader = RecordBatchIterator::new(batches, Arc::clone(&self.schema));
        let stream = FFI_ArrowArrayStream::new(Box::new(reader));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }
}

/// CTF traces, opened: metadata parsed, packets found.
#[pyclass(frozen)]
struct Reader {
    index: Arc<Index>,
}

#[pymethods]
impl Reader {
    /// Open traces, given as (folder, label) in the order that breaks ties in time; the clocks of
    /// hosts (by name or label) are set forward by nanoseconds.
    #[new]
    #[pyo3(signature = (traces, clock_offsets=None))]
    #[expect(clippy::needless_pass_by_value, reason = "what the binding extracts")]
    fn new(
        py: Python<'_>,
        traces: Vec<(PathBuf, String)>,
        clock_offsets: Option<BTreeMap<String, i64>>,
    ) -> PyResult<Self> {
        let clocks = clock_offsets.unwrap_or_default();
        let index = py.detach(|| Index::open(&traces, &clocks))?;
        memory::give_back();
        Ok(Self {
            index: Arc::new(index),
        })
    }

    /// Names of all declared events, sorted.
    #[getter]
    fn event_names(&self) -> Vec<&str> {
        let tables = &self.index.catalog.tables;
        tables.iter().map(|t| t.name.as_str()).collect()
    }

    /// Log level of each event that has one; of several classes of one name, the most severe.
    #[getter]
    fn log_levels(&self) -> BTreeMap<&str, i64> {
        let catalog = &self.index.catalog;
        let mut found = BTreeMap::new();
        for layout in &catalog.layouts {
            let stream = &catalog.members[layout.member].trace.streams[layout.stream];
            if let Some(level) = stream.events[layout.event].log_level {
                let name = catalog.tables[layout.table].name.as_str();
                let known = found.entry(name).or_insert(level);
                *known = level.min(*known);
            }
        }
        found
    }

    /// Base and bits of the columns of each event that are not to be shown as decimal numbers.
    #[getter]
    fn shown(&self) -> BTreeMap<&str, HashMap<&str, (u8, u32)>> {
        let catalog = &self.index.catalog;
        let names = catalog.tables.iter().map(|table| table.name.as_str());
        names.zip(catalog.shown()).collect()
    }

    /// Labels of the hosts, in the order of the traces.
    #[getter]
    fn hosts(&self) -> Vec<&str> {
        let mut hosts: Vec<&str> = Vec::new();
        for member in &self.index.catalog.members {
            if !hosts.contains(&member.host.as_str()) {
                hosts.push(&member.host);
            }
        }
        hosts
    }

    /// First and last time that the heads of packets state.
    #[getter]
    fn span(&self) -> (Option<i64>, Option<i64>) {
        let packets = &self.index.packets;
        (
            packets.iter().filter_map(|p| p.begin_ns).min(),
            packets.iter().filter_map(|p| p.end_ns).max(),
        )
    }

    /// Decode into memory: event name to table, for every declared name that is wanted.
    #[pyo3(signature = (names, begin_ns, end_ns, threads, fields=None))]
    #[expect(clippy::needless_pass_by_value, reason = "what the binding extracts")]
    fn read<'py>(
        &self,
        py: Python<'py>,
        names: Option<Vec<String>>,
        begin_ns: Option<i64>,
        end_ns: Option<i64>,
        threads: usize,
        fields: Option<Vec<String>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let filter = self.filter(names.as_deref(), begin_ns, end_ns);
        let wanted = filter.tables.clone();
        let want = Want {
            filter,
            projection: projection(fields),
            note: false,
        };
        let schemas = schemas(&self.index, &want.projection);
        let (_, sinks) = py.detach(|| {
            decode(
                &self.index,
                want,
                threads,
                &mut |done, total| report(None, done, total),
                |t| t.iter().map(|_| Memory::default()).collect(),
            )
        })?;
        let found = PyDict::new(py);
        let tables = &self.index.catalog.tables;
        for (((table, sink), wanted), schema) in tables.iter().zip(sinks).zip(wanted).zip(schemas) {
            if wanted {
                let batches = Batches {
                    schema,
                    batches: sink.0,
                };
                found.set_item(&table.name, Bound::new(py, batches)?)?;
            }
        }
        Ok(found)
    }

    /// Decode bit by bit, on threads of its own: an iterator of (event name, batch).
    #[pyo3(signature = (names, begin_ns, end_ns, threads, fields=None))]
    #[expect(clippy::needless_pass_by_value, reason = "what the binding extracts")]
    fn stream(
        &self,
        names: Option<Vec<String>>,
        begin_ns: Option<i64>,
        end_ns: Option<i64>,
        threads: usize,
        fields: Option<Vec<String>>,
    ) -> PyResult<Stream> {
        let want = Want {
            filter: self.filter(names.as_deref(), begin_ns, end_ns),
            projection: projection(fields),
            note: false,
        };
        Ok(Stream::start(Arc::clone(&self.index), want, threads)?)
    }

    /// Times that cut `begin_ns` to `end_ns` into parts of so many bytes of packets: first and
    /// last time of each.
    fn windows(
        &self,
        begin_ns: Option<i64>,
        end_ns: Option<i64>,
        size: u64,
    ) -> Vec<(Option<i64>, Option<i64>)> {
        run::windows(&self.index, begin_ns, end_ns, size)
    }

    /// Decode only as much as counts, times and processes need.
    #[pyo3(signature = (threads, progress=None))]
    #[expect(clippy::needless_pass_by_value, reason = "what the binding extracts")]
    fn summary<'py>(
        &self,
        py: Python<'py>,
        threads: usize,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let want = Want {
            filter: self.filter(None, None, None),
            projection: Projection::First(COMMON.len()),
            note: true,
        };
        let (summary, _) = py.detach(|| {
            decode(
                &self.index,
                want,
                threads,
                &mut |done, total| report(progress.as_ref(), done, total),
                |t| t.iter().map(|_| Nowhere).collect(),
            )
        })?;
        self.describe(py, &summary)
    }

    /// Decode to `<folder>/<provider>/<event>.parquet`; returns the summary of what was written.
    #[pyo3(signature = (folder, threads, progress, names=None, begin_ns=None, end_ns=None, fields=None))]
    #[expect(
        clippy::needless_pass_by_value,
        clippy::too_many_arguments,
        reason = "what the binding extracts"
    )]
    fn write<'py>(
        &self,
        py: Python<'py>,
        folder: PathBuf,
        threads: usize,
        progress: Option<Py<PyAny>>,
        names: Option<Vec<String>>,
        begin_ns: Option<i64>,
        end_ns: Option<i64>,
        fields: Option<Vec<String>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let projection = projection(fields);
        let schemas = schemas(&self.index, &projection);
        let want = Want {
            filter: self.filter(names.as_deref(), begin_ns, end_ns),
            note: matches!(projection, Projection::All),
            projection,
        };
        let mut tell = |done, total| report(progress.as_ref(), done, total);
        let (summary, files) = py.detach(|| -> Result<_> {
            let (summary, sinks) = decode(&self.index, want, threads, &mut tell, |_| {
                Parquet::for_tables(&self.index.catalog, &schemas, &folder)
            })?;
            let files: Vec<PathBuf> = sinks.into_iter().filter_map(Parquet::into_path).collect();
            memory::give_back();
            Ok((summary, files))
        })?;
        let found = self.describe(py, &summary)?;
        found.set_item("files", files)?;
        Ok(found)
    }
}

/// What is to be decoded.
struct Want {
    filter: Filter,
    projection: Projection,
    note: bool,
}

fn projection(fields: Option<Vec<String>>) -> Projection {
    fields.map_or(Projection::All, Projection::Named)
}

fn schemas(index: &Index, projection: &Projection) -> Vec<SchemaRef> {
    let tables = index.catalog.tables.iter();
    tables.map(|t| projection.schema(&t.schema)).collect()
}

/// Decode with threads of its own (0: one per core).
fn decode<S: Sink>(
    index: &Index,
    want: Want,
    threads: usize,
    report: &mut dyn FnMut(u64, u64) -> Result<()>,
    sinks: impl Fn(&[roslens_ctf::catalog::Table]) -> Vec<S>,
) -> Result<(Summary, Vec<S>)> {
    let threads = match threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        wanted => wanted,
    };
    let pool = match threads {
        1 => None,
        _ => Some(
            rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .build()
                .map_err(|e| Failure::Input(format!("cannot start threads: {e}")))?,
        ),
    };
    let job = Job {
        index,
        filter: want.filter,
        projection: want.projection,
        note: want.note,
        pool: pool.as_ref(),
    };
    let mut once = |sort: bool| {
        let mut made = sinks(&index.catalog.tables);
        if made.len() != index.catalog.tables.len() {
            return Err(Failure::Disorder);
        }
        let summary = run(&job, sort, &mut made, &mut *report)?;
        Ok((summary, made))
    };
    match once(false) {
        // Some event is not where its packet says: find where each is, and sort.
        Err(Failure::Disorder) => once(true),
        other => other,
    }
}

impl Reader {
    fn filter(
        &self,
        names: Option<&[String]>,
        begin_ns: Option<i64>,
        end_ns: Option<i64>,
    ) -> Filter {
        let tables = self.index.catalog.tables.iter();
        Filter {
            tables: tables
                .map(|t| names.is_none_or(|names| names.contains(&t.name)))
                .collect(),
            begin_ns: begin_ns.unwrap_or(i64::MIN),
            end_ns: end_ns.unwrap_or(i64::MAX),
        }
    }

    fn describe<'py>(&self, py: Python<'py>, summary: &Summary) -> PyResult<Bound<'py, PyDict>> {
        let found = PyDict::new(py);
        let counts = PyDict::new(py);
        let mut times: Option<(i64, i64)> = None;
        let mut processes: BTreeMap<(&str, i32), (i64, Option<&str>)> = BTreeMap::new();
        for (table, seen) in self.index.catalog.tables.iter().zip(&summary.tables) {
            if seen.rows > 0 {
                counts.set_item(&table.name, seen.rows)?;
            }
            if let Some((begin, end)) = seen.times {
                times = Some(times.map_or((begin, end), |(b, e)| (b.min(begin), e.max(end))));
            }
            for ((host, vpid), (time, name)) in &seen.processes {
                let known = processes
                    .entry((host, *vpid))
                    .or_insert((*time, name.as_deref()));
                if *time < known.0 {
                    *known = (*time, name.as_deref());
                }
            }
        }
        found.set_item("events_by_name", counts)?;
        found.set_item("begin_ns", times.map(|t| t.0))?;
        found.set_item("end_ns", times.map(|t| t.1))?;
        let list = PyList::empty(py);
        for ((host, vpid), (_, name)) in processes {
            list.append((host, vpid, name))?;
        }
        found.set_item("processes", list)?;
        let warnings: Vec<&String> = self
            .index
            .warnings
            .iter()
            .chain(&summary.warnings)
            .collect();
        found.set_item("warnings", warnings)?;
        let losses = PyList::empty(py);
        for loss in self.index.losses.iter().chain(&summary.losses) {
            losses.append(self.loss(py, loss)?)?;
        }
        found.set_item("losses", losses)?;
        Ok(found)
    }

    fn loss<'py>(&self, py: Python<'py>, loss: &LossRow) -> PyResult<Bound<'py, PyDict>> {
        let member = &self.index.catalog.members[loss.member];
        let row = PyDict::new(py);
        row.set_item("host", &member.host)?;
        row.set_item("trace", &member.label)?;
        row.set_item("stream", &loss.stream)?;
        // More than 2^31 comes from damaged heads only, as with the count.
        let cpu = loss.cpu.and_then(|cpu| i32::try_from(cpu).ok());
        row.set_item("cpu_id", cpu)?;
        row.set_item("kind", loss.kind.name())?;
        // More than 2^63 comes from damaged counters only.
        let count = loss.count.and_then(|count| i64::try_from(count).ok());
        row.set_item("count", count)?;
        row.set_item("begin_ns", loss.begin_ns)?;
        row.set_item("end_ns", loss.end_ns)?;
        Ok(row)
    }
}

/// Tell Python how far it is, and let Ctrl-C through.
fn report(progress: Option<&Py<PyAny>>, done: u64, total: u64) -> Result<()> {
    Python::attach(|py| {
        py.check_signals()?;
        if let Some(progress) = progress {
            progress.call1(py, (done, total))?;
        }
        Ok(())
    })
    .map_err(Failure::Python)
}

/// Put Parquet files of one schema one after the other into a new one, without decoding them.
#[pyfunction]
#[pyo3(name = "concat")]
#[expect(clippy::needless_pass_by_value, reason = "what the binding extracts")]
fn concat_files(py: Python<'_>, parts: Vec<PathBuf>, path: PathBuf) -> PyResult<()> {
    Ok(py.detach(|| concat::concat(&parts, &path))?)
}

#[pymodule]
mod _native {
    #[pymodule_export]
    use super::{Batches, Reader, Stream, TraceError, concat_files};
    #[pymodule_export]
    use crate::model::{model, model_events};
    #[pymodule_export]
    use crate::output::write_table;
    #[pymodule_export]
    use crate::passes::{
        extents, first_after, firsts, innermost, pairs, places_of, previous, timeline,
    };
}
