//! Bind the ROS 2 model: take events and objects from Python, and return tables.

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ahash::HashMap;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow_schema::{ArrowError, Schema};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};
use roslens_ctf::Failure;
use roslens_model::{
    About, Batch, Disk, Gap, Gaps, Guesses, Id, Identity, KINDS, Kinds, Model, Process, Reason,
    Registry, Running, Tables,
};

use crate::failure::raised;
use crate::given::stream_of;
use crate::output::written;

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
    turns: Option<Turns>,
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
    Ok(ahead(with_fields(reader, fields), turns))
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

/// Of all threads that make batches ahead of their use, so many work at a time as the channel holds.
type Turns = Arc<(SyncSender<()>, Mutex<Receiver<()>>)>;

/// Return the turns of `threads` threads in all, including the consuming one; `None` for that alone.
fn turns(threads: usize) -> Option<Turns> {
    let (take, give_back) = sync_channel(threads.checked_sub(1).filter(|beside| *beside > 0)?);
    Some(Arc::new((take, Mutex::new(give_back))))
}

/// Make the next batch on another thread while one is used, if there may be other threads.
fn ahead<T: Send + 'static>(
    mut batches: impl Iterator<Item = Result<T, ArrowError>> + Send + 'static,
    turns: Option<Turns>,
) -> Box<dyn Iterator<Item = Result<T, ArrowError>> + Send> {
    let Some(turns) = turns else {
        return Box::new(batches);
    };
    let (here, there) = sync_channel(0);
    std::thread::spawn(move || {
        let (take, give_back) = &*turns;
        while take.send(()).is_ok() {
            // The turn is given back whatever happens.
            let made = catch_unwind(AssertUnwindSafe(|| batches.next()));
            _ = give_back
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .recv();
            let Ok(made) = made else { break };
            // The consumer may have stopped.
            let is_last = made.is_none();
            if here.send(made).is_err() || is_last {
                break;
            }
        }
    });
    // A thread that died is an error, not the end of the batches.
    let died = || ArrowError::ComputeError("a thread ended too early".into());
    Box::new(std::iter::from_fn(move || there.recv().unwrap_or_else(|_| Some(Err(died())))).fuse())
}

/// Check for Ctrl-C before each batch.
fn interruptible<B>(
    mut batches: impl Iterator<Item = Result<B, ArrowError>>,
) -> impl Iterator<Item = Result<B, ArrowError>> {
    let stop = |error| ArrowError::ExternalError(Box::new(error));
    std::iter::from_fn(
        move || match Python::attach(|py| py.check_signals().map_err(stop)) {
            Ok(()) => batches.next(),
            Err(error) => Some(Err(error)),
        },
    )
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
    /// Return a reader of the batches of the table.
    fn rows(&self) -> Result<impl RecordBatchReader + Send + use<>, ArrowError> {
        let (of, name, columns) = (Arc::clone(&self.of), self.name, self.columns.clone());
        let mut from = 0;
        let mut batches = std::iter::from_fn(move || {
            let of = of.lock().unwrap_or_else(PoisonError::into_inner);
            let made = of.batch(name, Some(&columns), from).transpose()?;
            Some(made.map(|(batch, next)| {
                from = next;
                batch
            }))
        });
        // There is a first batch, which may be empty.
        let first = batches.next().transpose()?;
        let schema = first
            .as_ref()
            .map_or_else(|| Schema::empty().into(), RecordBatch::schema);
        let rest = first.into_iter().map(Ok).chain(batches);
        Ok(RecordBatchIterator::new(rest, schema))
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
            let batches = interruptible(ahead(rows, turns(threads.min(2))));
            written(
                batches.map(|batch| batch.map_err(failed)),
                &schema,
                &path,
                about,
            )
        })
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
        let turns = turns(threads);
        let mut sources: HashMap<String, roslens_model::Batches> = HashMap::default();
        let context = self.state().as_ref().map_or_else(Vec::new, Model::context);
        for (_, name, fields) in KINDS {
            let Some(source) = events.get(*name) else {
                continue;
            };
            let batches: roslens_model::Batches = match source.extract::<String>() {
                Ok(path) => batches_of(Path::new(&path), fields, &context, turns.clone())?,
                Err(_) => Box::new(with_fields(stream_of(source)?, fields)),
            };
            sources.insert((*name).to_owned(), Box::new(interruptible(batches)));
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

    /// Return the executions of callbacks that have not ended.
    fn running(&self) -> PyResult<Vec<Running>> {
        Ok(self.state().as_ref().ok_or_else(ended)?.running())
    }

    /// Go on with executions that an earlier pass saw begin, with all events up to a time.
    fn resume(&self, running: Vec<Running>, until: i64) -> PyResult<()> {
        self.state()
            .as_mut()
            .ok_or_else(ended)?
            .resume(running, until);
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
