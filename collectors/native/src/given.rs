//! Read tables that Python hands over: anything that gives an Arrow stream, such as a polars frame.

use arrow_array::StringArray;
use arrow_array::cast::AsArray;
use arrow_array::ffi_stream::ArrowArrayStreamReader;
use arrow_schema::ArrowError;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

/// Return a reader of the batches of a table.
pub fn stream_of(table: &Bound<'_, PyAny>) -> PyResult<ArrowArrayStreamReader> {
    let capsule = table.call_method0("__arrow_c_stream__")?;
    let capsule = capsule.cast::<PyCapsule>()?;
    let pointer = capsule.pointer_checked(Some(c"arrow_array_stream"))?;
    // SAFETY: the name of the capsule says what it points to, by the Arrow PyCapsule interface; the
    // stream is moved out of it, which leaves a released one behind.
    #[expect(unsafe_code, reason = "the interface hands over a pointer")]
    let rows = unsafe { ArrowArrayStreamReader::from_raw(pointer.as_ptr().cast()) };
    rows.map_err(|error| PyOSError::new_err(error.to_string()))
}

/// Return the column `text` of a table that consists of one batch.
pub fn texts_of(table: &Bound<'_, PyAny>) -> PyResult<StringArray> {
    let batches: Result<Vec<_>, ArrowError> = stream_of(table)?.collect();
    let batches = batches.map_err(|error| PyValueError::new_err(error.to_string()))?;
    let found = match batches.as_slice() {
        [] => return Ok(StringArray::from_iter_values(std::iter::empty::<&str>())),
        [batch] => batch.column_by_name("text"),
        _ => None,
    };
    let found = found.and_then(|array| array.as_string_view_opt());
    let found =
        found.ok_or_else(|| PyValueError::new_err("no column text of text in one piece"))?;
    Ok(found.iter().collect())
}
