//! Tables that Python hands over: anything that gives an Arrow stream, such as a polars frame.

use arrow_array::cast::AsArray;
use arrow_array::ffi_stream::ArrowArrayStreamReader;
use arrow_array::types::ArrowPrimitiveType;
use arrow_array::{Array, RecordBatch, StringViewArray};
use arrow_buffer::{NullBuffer, ScalarBuffer};
use arrow_schema::ArrowError;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

/// The batches of a table as they come.
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

/// A table in memory; a column of one batch is shared with Python, not copied.
pub struct Given {
    batches: Vec<RecordBatch>,
}

impl Given {
    /// All of it.
    pub fn new(table: &Bound<'_, PyAny>) -> PyResult<Self> {
        let batches: Result<_, ArrowError> = stream_of(table)?.collect();
        let batches = batches.map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(Self { batches })
    }

    /// A column of integers.
    pub fn column<T: ArrowPrimitiveType>(&self, name: &str) -> PyResult<ScalarBuffer<T::Native>> {
        match self.nullable_column::<T>(name)? {
            (values, None) => Ok(values),
            _ => Err(PyValueError::new_err(format!("a {name} for each row"))),
        }
    }

    /// A column of integers, and which of them are null, if any are.
    pub fn nullable_column<T: ArrowPrimitiveType>(
        &self,
        name: &str,
    ) -> PyResult<(ScalarBuffer<T::Native>, Option<NullBuffer>)> {
        let mut arrays = Vec::with_capacity(self.batches.len());
        for batch in &self.batches {
            let found = batch.column_by_name(name);
            let found = found.and_then(|array| array.as_primitive_opt::<T>());
            arrays.push(found.ok_or_else(|| {
                PyValueError::new_err(format!("no column {name} of {}", T::DATA_TYPE))
            })?);
        }
        if let [array] = arrays.as_slice() {
            let nulls = array.nulls().filter(|nulls| has_nulls(nulls));
            return Ok((array.values().clone(), nulls.cloned()));
        }
        let values = arrays
            .iter()
            .flat_map(|array| array.values().iter().copied());
        let known = arrays
            .iter()
            .flat_map(|array| (0..array.len()).map(|row| array.is_valid(row)));
        let nulls = Some(known.collect::<NullBuffer>()).filter(has_nulls);
        Ok((values.collect(), nulls))
    }

    /// A column of text, of one batch.
    pub fn texts(&self, name: &str) -> PyResult<StringViewArray> {
        let found = match self.batches.as_slice() {
            [] => return Ok(StringViewArray::from_iter_values(std::iter::empty::<&str>())),
            [batch] => batch.column_by_name(name),
            _ => None,
        };
        let found = found.and_then(|array| array.as_string_view_opt().cloned());
        found.ok_or_else(|| PyValueError::new_err(format!("no column {name} of text in one piece")))
    }
}

/// Whether any is null.
pub fn has_nulls(nulls: &NullBuffer) -> bool {
    nulls.null_count() > 0
}
