//! Bind the ROS 2 model: take events and objects from Python, and return tables.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use ahash::HashMap;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, Schema, SchemaRef};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};
use roslens_ctf::Failure;
use roslens_ctf::files::{Order, table_writer};
use roslens_model::{
    About, Batch, Disk, Gap, Gaps, Guesses, Id, Identity, KINDS, Kinds, Model, Process, Reason,
    Registry, Tables,
};

use crate::failure::raised;
use crate::given::stream_of;
use crate::output::pairs;

/// A loss: host; process and CPU, if only these are affected; begin and end.
type Loss = (u32, Option<i32>, Option<i32>, i64, i64);
/// Two hosts; times, and how far apart their clocks may be then, in ns.
type Apart = (u32, u32, Vec<(i64, i64)>);

/// Facts about a recording, besides its events, that Python hands over.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Given {
    /// Labels of the hosts, by number.
    hosts: Vec<String>,
    /// Processes by number: host, pid namespace, vpid, since when it has that vpid, last event.
    processes: Vec<(u32, i64, i32, i64, i64)>,
    /// Process, time from which it could publish on one topic only, that topic, and the publisher.
    guesses: Vec<(u32, i64, Option<String>, Option<u32>)>,
    /// What the tracer dropped.
    losses: Vec<Loss>,
    /// Bounds on the clocks of each two hosts.
    clocks: Vec<Apart>,
    /// Names of events that were enabled.
    declared: Vec<String>,
    /// Names of events that happened.
    happened: Vec<String>,
    /// How the clocks of hosts were synchronised.
    synchronisation: Option<String>,
}

/// Return the column of a field.
fn column(field: &'static str) -> &'static str {
    field.split_once('+').map_or(field, |(name, _)| name)
}

/// Return the columns that the pass reads, by the event's name without ROS's provider.
#[pyfunction]
pub fn model_events() -> HashMap<&'static str, Vec<&'static str>> {
    KINDS
        .iter()
        .map(|(_, name, fields)| (*name, fields.iter().map(|field| column(field)).collect()))
        .collect()
}

/// Return the names of rules in the column `reason`, and the meaning of each.
#[pyfunction]
pub fn model_reasons() -> Vec<(&'static str, &'static str)> {
    let words = Reason::WORDS.iter().copied();
    words.zip(Reason::MEANINGS.iter().copied()).collect()
}

#[expect(clippy::needless_pass_by_value, reason = "as map_err hands it over")]
fn wrong(error: impl ToString) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// Open the batches of a Parquet file, with the columns that the model reads.
fn batches_of(
    path: &Path,
    fields: &'static [&'static str],
    context: &[&'static str],
    workers: &Arc<Workers>,
) -> PyResult<roslens_model::Batches> {
    let file = File::open(path)
        .map_err(|error| raised(Failure::Output(format!("{}: {error}", path.display()))))?;
    let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(wrong)?;
    let payload = fields.iter().map(|field| column(field));
    let wanted = context.iter().copied().chain(payload);
    let mask = ProjectionMask::columns(builder.parquet_schema(), wanted);
    let reader = builder
        .with_projection(mask)
        // The events of a batch of this size stay in the processor's cache.
        .with_batch_size(2048)
        .build()
        .map_err(wrong)?;
    Ok(Box::new(Ahead::of(with_fields(reader, fields), workers)))
}

/// Read events with these fields from batches.
fn with_fields(
    batches: impl Iterator<Item = Result<RecordBatch, ArrowError>>,
    fields: &'static [&'static str],
) -> impl Iterator<Item = Result<Batch, ArrowError>> {
    batches.map(|batch| Ok(Batch::new(&batch?, fields)))
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

type Job = Box<dyn FnOnce() + Send>;

/// Threads besides the consuming one, which make the batches that it will ask for next.
struct Workers {
    jobs: Option<Sender<Job>>,
    threads: Vec<JoinHandle<()>>,
}

impl Workers {
    /// Use `threads` threads in all, including the consuming one.
    fn new(threads: usize) -> Arc<Self> {
        let (jobs, waiting) = channel::<Job>();
        let waiting = Arc::new(Mutex::new(waiting));
        let work = |waiting: Arc<Mutex<Receiver<Job>>>| {
            move || {
                loop {
                    let job = waiting
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .recv();
                    // If a job panicked, its channel tells the thread that waits for it.
                    match job {
                        Ok(job) => drop(catch_unwind(AssertUnwindSafe(job))),
                        Err(_) => break,
                    }
                }
            }
        };
        let beside = 1..threads;
        Arc::new(Self {
            jobs: (!beside.is_empty()).then_some(jobs),
            threads: beside
                .map(|_| std::thread::spawn(work(Arc::clone(&waiting))))
                .collect(),
        })
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.jobs = None;
        for thread in self.threads.drain(..) {
            drop(thread.join());
        }
    }
}

/// An iterator that makes the next batch while one is used, if there is a thread for it.
struct Ahead<I: Iterator> {
    rest: Option<I>,
    next: Option<Receiver<(I, Option<I::Item>)>>,
    workers: Arc<Workers>,
}

impl<T, I> Ahead<I>
where
    T: Send + 'static,
    I: Iterator<Item = Result<T, ArrowError>> + Send + 'static,
{
    fn of(batches: I, workers: &Arc<Workers>) -> Self {
        let mut found = Self {
            rest: Some(batches),
            next: None,
            workers: Arc::clone(workers),
        };
        found.begin();
        found
    }

    /// Hand the next batch to a worker.
    fn begin(&mut self) {
        let Some(jobs) = &self.workers.jobs else {
            return;
        };
        let Some(mut rest) = self.rest.take() else {
            return;
        };
        let (here, there) = sync_channel(1);
        let job = move || {
            let made = rest.next();
            // The consumer may have stopped.
            drop(here.send((rest, made)));
        };
        if jobs.send(Box::new(job)).is_ok() {
            self.next = Some(there);
        }
    }
}

impl<T, I> Iterator for Ahead<I>
where
    T: Send + 'static,
    I: Iterator<Item = Result<T, ArrowError>> + Send + 'static,
{
    type Item = I::Item;

    fn next(&mut self) -> Option<I::Item> {
        let Some(next) = self.next.take() else {
            return self.rest.as_mut()?.next();
        };
        // A worker that died is an error, not the end of the batches.
        let Ok((rest, made)) = next.recv() else {
            let why = "a thread ended too early".into();
            return Some(Err(ArrowError::ComputeError(why)));
        };
        self.rest = Some(rest);
        if made.is_some() {
            self.begin();
        }
        made
    }
}

/// An iterator that checks for Ctrl-C before each batch.
struct Interruptible<T>(T);

impl<B, T: Iterator<Item = Result<B, ArrowError>>> Iterator for Interruptible<T> {
    type Item = T::Item;

    fn next(&mut self) -> Option<Self::Item> {
        let stop = |error| ArrowError::ExternalError(Box::new(error));
        match Python::attach(|py| py.check_signals().map_err(stop)) {
            Ok(()) => self.0.next(),
            Err(error) => Some(Err(error)),
        }
    }
}

/// Return the Python error for an error of Arrow; one that Python raised itself is raised again.
fn failed(error: ArrowError) -> PyErr {
    match error {
        ArrowError::ExternalError(why) => match why.downcast::<PyErr>() {
            Ok(error) => *error,
            Err(why) => raised(Failure::Output(why.to_string())),
        },
        ArrowError::IoError(what, _) => raised(Failure::Output(what)),
        other => raised(Failure::Output(other.to_string())),
    }
}

/// A table of the model, whose batches are made on request; no columns are selected at first.
#[pyclass(frozen)]
pub struct Table {
    of: Arc<Mutex<Tables>>,
    name: &'static str,
    columns: Vec<String>,
}

impl Table {
    /// Return the batches of the table.
    pub fn rows(&self) -> Result<Made, ArrowError> {
        let mut rows = Made {
            schema: SchemaRef::new(Schema::empty()),
            of: Arc::clone(&self.of),
            name: self.name,
            columns: self.columns.clone(),
            from: 0,
            first: None,
        };
        rows.first = rows.made().transpose()?;
        if let Some(first) = &rows.first {
            rows.schema = first.schema();
        }
        Ok(rows)
    }
}

#[pymethods]
impl Table {
    /// Return the same table with these columns.
    fn select(&self, columns: Vec<String>) -> Self {
        Self {
            of: Arc::clone(&self.of),
            name: self.name,
            columns,
        }
    }

    /// Export the table through the Arrow `PyCapsule` interface.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema);
        let rows = py.detach(|| self.rows()).map_err(failed)?;
        let stream = FFI_ArrowArrayStream::new(Box::new(rows));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }

    /// Write the table to a Parquet file on `threads` threads, with the keys and texts of `about`
    /// in its metadata; return the number of rows.
    #[expect(clippy::needless_pass_by_value, reason = "what the binding extracts")]
    fn write(
        &self,
        py: Python<'_>,
        path: PathBuf,
        threads: usize,
        about: Vec<(String, String)>,
    ) -> PyResult<usize> {
        py.detach(|| {
            let rows = self.rows().map_err(failed)?;
            let schema = rows.schema();
            let sink = BufWriter::with_capacity(1 << 16, File::create(&path)?);
            let writer = table_writer(sink, &schema, Order::Unknown, pairs(about));
            let mut writer = writer.map_err(unwritten)?;
            let mut count = 0;
            for batch in Interruptible(Ahead::of(rows, &Workers::new(threads.min(2)))) {
                let batch = batch.map_err(failed)?;
                count += batch.num_rows();
                writer.write(&batch).map_err(unwritten)?;
            }
            writer.into_inner().map_err(unwritten)?.flush()?;
            Ok(count)
        })
    }
}

fn unwritten(error: impl std::fmt::Display) -> PyErr {
    raised(Failure::Output(error.to_string()))
}

/// A reader of the batches of a table.
pub struct Made {
    schema: SchemaRef,
    of: Arc<Mutex<Tables>>,
    name: &'static str,
    columns: Vec<String>,
    from: u32,
    first: Option<RecordBatch>,
}

impl Made {
    fn made(&mut self) -> Option<Result<RecordBatch, ArrowError>> {
        let of = self.of.lock().unwrap_or_else(PoisonError::into_inner);
        let made = of.batch(self.name, Some(&self.columns), self.from);
        let made = made.transpose()?;
        Some(made.map(|(batch, next)| {
            self.from = next;
            batch
        }))
    }
}

impl Iterator for Made {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let first = self.first.take().filter(|batch| batch.num_rows() > 0);
        first.map(Ok).or_else(|| self.made())
    }
}

impl RecordBatchReader for Made {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

/// The pass over events: it is fed stretch by stretch, and returns the tables so far.
#[pyclass(frozen)]
pub struct Pass(Mutex<Option<Model>>);

impl Pass {
    fn state(&self) -> MutexGuard<'_, Option<Model>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn ended() -> PyErr {
    PyValueError::new_err("this pass has come to its end")
}

#[pymethods]
impl Pass {
    /// Take objects by the name of their table, and processes. If there is a path, about `rows`
    /// rows of each kind stay in memory, and the others are in that file; at least `keys` keys of
    /// messages are remembered until they are matched.
    #[new]
    #[pyo3(signature = (objects, given, path=None, rows=1 << 18, keys=1 << 18))]
    #[expect(clippy::needless_pass_by_value, reason = "what the binding extracts")]
    fn new(
        objects: HashMap<String, Bound<'_, PyAny>>,
        given: Bound<'_, PyAny>,
        path: Option<PathBuf>,
        rows: usize,
        keys: usize,
    ) -> PyResult<Self> {
        let given: Given = given.extract()?;
        let objects = objects
            .iter()
            .map(|(name, table)| Ok((name.clone(), whole(table)?)));
        let mut registry = Registry::new(&objects.collect::<PyResult<_>>()?);
        let processes = given.processes.into_iter();
        let processes = processes.map(|(host, namespace, vpid, since, end)| Process {
            host: Id::new(host),
            namespace,
            vpid,
            since,
            end,
        });
        let identity = Identity::new(&given.hosts, processes.collect());
        let synchronisation = registry.names.number(given.synchronisation.as_deref());
        let mut guesses = Guesses::default();
        for (process, since, topic, publisher) in given.guesses {
            let topic = registry.names.number(topic.as_deref());
            let steps = guesses.entry(Id::new(process)).or_default();
            steps.push((since, topic, publisher.and_then(Id::new)));
        }
        for steps in guesses.values_mut() {
            steps.sort_unstable();
        }
        let gaps = given.losses.iter();
        let gaps = gaps.map(|&(host, vpid, cpu, begin, end)| Gap {
            host: Id::new(host),
            vpid,
            cpu,
            begin,
            end,
        });
        let gaps: Vec<Gap> = gaps.collect();
        let about = About {
            synchronisation,
            guesses,
            clocks: (given.clocks.into_iter())
                .map(|(one, other, bounds)| ((Id::new(one), Id::new(other)), bounds))
                .collect(),
            enabled: Kinds::named(&given.declared),
            happened: Kinds::named(&given.happened),
        };
        let file = path.map(|path| {
            let mut options = File::options();
            options.read(true).write(true).create(true).truncate(true);
            let file = options.open(&path)?;
            // The file is deleted when it is closed, whatever happens.
            std::fs::remove_file(&path)?;
            std::io::Result::Ok(file)
        });
        let file = file.transpose()?;
        let disk = file.map(|file| Disk::new(file, rows));
        let model = Model::new(identity, registry, about, Gaps::new(&gaps), disk, keys);
        Ok(Self(Mutex::new(Some(model))))
    }

    /// Process events, none earlier than those fed before: by name without the provider, as tables
    /// or paths of Parquet files, which are read on `threads` threads.
    #[expect(clippy::needless_pass_by_value, reason = "what the binding extracts")]
    fn feed(
        &self,
        py: Python<'_>,
        events: HashMap<String, Bound<'_, PyAny>>,
        threads: usize,
    ) -> PyResult<()> {
        let workers = Workers::new(threads);
        let mut sources: HashMap<String, roslens_model::Batches> = HashMap::default();
        let context = self.state().as_ref().map_or_else(Vec::new, Model::context);
        for (_, name, fields) in KINDS {
            let Some(source) = events.get(*name) else {
                continue;
            };
            let batches: roslens_model::Batches = match source.extract::<String>() {
                Ok(path) => batches_of(Path::new(&path), fields, &context, &workers)?,
                Err(_) => Box::new(with_fields(stream_of(source)?, fields)),
            };
            sources.insert((*name).to_owned(), Box::new(Interruptible(batches)));
        }
        py.detach(|| {
            let mut state = self.state();
            let model = state.as_mut().ok_or_else(ended)?;
            model.run(sources).map_err(failed)
        })
    }

    /// Forget what began before a time.
    fn forget(&self, since: i64) -> PyResult<()> {
        self.state().as_mut().ok_or_else(ended)?.forget(since);
        Ok(())
    }

    /// Return the tables of all events so far, and their counts; nothing can be fed after `last`.
    fn tables<'py>(
        &self,
        py: Python<'py>,
        last: bool,
    ) -> PyResult<(Bound<'py, PyDict>, Bound<'py, Counts>)> {
        let tables = py.detach(|| {
            let mut state = self.state();
            let model = if last { state.take() } else { state.clone() };
            drop(state);
            Ok::<_, PyErr>(model.ok_or_else(ended)?.finish()?)
        })?;
        let found = PyDict::new(py);
        let tables = Arc::new(Mutex::new(tables));
        for name in Tables::names() {
            let table = Table {
                of: Arc::clone(&tables),
                name,
                columns: Vec::new(),
            };
            found.set_item(name, Bound::new(py, table)?)?;
        }
        Ok((found, Bound::new(py, Counts(tables))?))
    }
}

/// The counts of tables, which are made when it is called.
#[pyclass(frozen)]
pub struct Counts(Arc<Mutex<Tables>>);

#[pymethods]
impl Counts {
    /// Return the counts by name.
    fn __call__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let counts = py.detach(|| {
            let tables = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            tables.counts()
        });
        let told = PyDict::new(py);
        for (name, number) in counts.numbers {
            told.set_item(name, number)?;
        }
        let gone = counts.gone.iter().map(|(of, count)| (of.number(), *count));
        let untaken = counts.untaken.iter().map(|of| of.number());
        told.set_item("gone", gone.collect::<Vec<_>>())?;
        told.set_item("untaken", untaken.collect::<Vec<_>>())?;
        told.set_item("alone_on", counts.alone_on)?;
        Ok(told)
    }
}
