//! Hand batches to Python one after the other as they are decoded, at the consumer's pace.

use std::sync::{Mutex, PoisonError};

use arrow_array::RecordBatchIterator;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_schema::{ArrowError, SchemaRef};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::Batches;
use crate::failure::{TraceError, raised};

/// An iterator of (event name, batch); for a single event also an Arrow stream.
#[pyclass(frozen)]
pub struct Stream {
    /// The schemas of the wanted events.
    schemas: Vec<SchemaRef>,
    batches: Mutex<Option<roslens_ctf::Batches>>,
}

impl Stream {
    /// Make a stream of events with these columns.
    pub(crate) fn new(batches: roslens_ctf::Batches, schemas: Vec<SchemaRef>) -> Self {
        let batches = Mutex::new(Some(batches));
        Self { schemas, batches }
    }
}

#[pymethods]
impl Stream {
    fn __iter__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<(String, Batches)>> {
        let next = py.detach(|| {
            let mut batches = self.batches.lock().unwrap_or_else(PoisonError::into_inner);
            let next = batches.as_mut().and_then(Iterator::next);
            if next.is_none() {
                *batches = None;
            }
            next
        });
        let Some((name, batch)) = next.transpose().map_err(raised)? else {
            return Ok(None);
        };
        // Check for Ctrl-C.
        py.check_signals()?;
        let batches = Batches {
            schema: batch.schema(),
            batches: vec![batch],
        };
        Ok(Some((name, batches)))
    }

    /// Export a stream of one event through the Arrow `PyCapsule` interface; works only once.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema);
        let [schema] = self.schemas.as_slice() else {
            let what = "an Arrow stream holds one kind of event";
            return Err(TraceError::new_err(what));
        };
        let mut batches = self.batches.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(batches) = batches.take() else {
            return Err(TraceError::new_err("this stream has been read"));
        };
        let batches = batches.map(|item| {
            let batch = item.map(|(_, batch)| batch);
            batch.map_err(|failure| ArrowError::ExternalError(raised(failure).to_string().into()))
        });
        let reader = RecordBatchIterator::new(batches, schema.clone());
        let stream = FFI_ArrowArrayStream::new(Box::new(reader));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }
}
