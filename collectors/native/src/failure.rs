//! Turn failures into Python errors.

use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use roslens_ctf::Failure;

pyo3::create_exception!(
    roslens.collectors._native,
    TraceError,
    PyValueError,
    "A trace that cannot be read: what and where."
);

/// Return the Python error of a failure; one that Python raised itself, such as an interrupt, is
/// raised again.
pub fn raised(failure: Failure) -> PyErr {
    match failure {
        Failure::Output(what) => PyOSError::new_err(what),
        Failure::Stopped(why) => match why.downcast::<PyErr>() {
            Ok(error) => *error,
            Err(why) => TraceError::new_err(why.to_string()),
        },
        other => TraceError::new_err(other.to_string()),
    }
}
