//! Batches as they are decoded, one after the other, for a consumer that takes its time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchIterator};
use arrow_schema::{ArrowError, SchemaRef};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::failure::{Failure, Result};
use crate::index::Index;
use crate::run::Sink;
use crate::{Batches, Want, decode, schemas};

/// Batches that wait for the consumer.
const AHEAD: usize = 8;

/// A batch and its table, or why there are no more; nothing when all is done.
type Item = Option<Result<(usize, RecordBatch)>>;

/// An iterator of (event name, batch); of one event also an Arrow stream.
#[pyclass(frozen)]
pub struct Stream {
    index: Arc<Index>,
    schemas: Vec<SchemaRef>,
    wanted: Vec<usize>,
    items: Mutex<Option<Receiver<Item>>>,
}

/// Hands batches to the consumer, and waits where that is slow.
struct Channel<'a> {
    table: usize,
    items: SyncSender<Item>,
    begun: &'a AtomicBool,
}

impl Sink for Channel<'_> {
    fn take(&mut self, batch: RecordBatch) -> Result<()> {
        self.begun.store(true, Ordering::Relaxed);
        let item = Some(Ok((self.table, batch)));
        self.items.send(item).map_err(|_| Failure::Abandoned)
    }
}

impl Stream {
    /// Begin to decode.
    pub(crate) fn start(index: Arc<Index>, want: Want, threads: usize) -> Result<Self> {
        let (sender, receiver) = sync_channel(AHEAD);
        let wanted = (0..want.filter.tables.len()).filter(|t| want.filter.tables[*t]);
        let stream = Self {
            schemas: schemas(&index, &want.projection),
            wanted: wanted.collect(),
            items: Mutex::new(Some(receiver)),
            index: Arc::clone(&index),
        };
        let work = move || {
            let begun = AtomicBool::new(false);
            let mut patient = |_, _| Ok(());
            let done = decode(&index, want, threads, &mut patient, |tables| {
                // What was handed over cannot be taken back.
                let made = if begun.load(Ordering::Relaxed) {
                    0
                } else {
                    tables.len()
                };
                (0..made)
                    .map(|table| Channel {
                        table,
                        items: sender.clone(),
                        begun: &begun,
                    })
                    .collect()
            });
            let last = match done {
                Ok(_) => None,
                Err(failure) => Some(Err(failure)),
            };
            // Whoever went away does not want to know.
            let _ = sender.send(last);
        };
        std::thread::Builder::new()
            .name("roslens-ctf".into())
            .spawn(work)
            .map_err(|e| Failure::Input(format!("cannot start a thread: {e}")))?;
        Ok(stream)
    }

    fn next(&self) -> Item {
        let mut items = self.items.lock().unwrap_or_else(PoisonError::into_inner);
        let item = next_of(items.as_ref()?);
        if !matches!(item, Some(Ok(_))) {
            *items = None;
        }
        item
    }
}

fn next_of(items: &Receiver<Item>) -> Item {
    items
        .recv()
        .unwrap_or_else(|_| Some(Err(Failure::Input("decoding ended early".into()))))
}

#[pymethods]
impl Stream {
    fn __iter__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<(String, Batches)>> {
        match py.detach(|| self.next()) {
            None => Ok(None),
            Some(Err(failure)) => Err(failure.into()),
            Some(Ok((table, batch))) => {
                // Let Ctrl-C through.
                py.check_signals()?;
                let name = self.index.catalog.tables[table].name.clone();
                let batches = Batches {
                    schema: batch.schema(),
                    batches: vec![batch],
                };
                Ok(Some((name, batches)))
            }
        }
    }

    /// The Arrow `PyCapsule` interface, for a stream of one event; once only.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema);
        let &[table] = self.wanted.as_slice() else {
            return Err(Failure::Input("an Arrow stream holds one kind of event".into()).into());
        };
        let taken = self
            .items
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let Some(items) = taken else {
            return Err(Failure::Input("this stream has been read".into()).into());
        };
        let batches = std::iter::from_fn(move || {
            let item = next_of(&items)?;
            Some(item.map(|(_, batch)| batch).map_err(|failure| {
                ArrowError::ExternalError(PyErr::from(failure).to_string().into())
            }))
        });
        let reader = RecordBatchIterator::new(batches, Arc::clone(&self.schemas[table]));
        let stream = FFI_ArrowArrayStream::new(Box::new(reader));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }
}
