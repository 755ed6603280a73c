//! What can go wrong, and which Python error it becomes.

use std::fmt::Display;
use std::path::Path;

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use roslens_ctf::merge::Halt;

pyo3::create_exception!(
    roslens.collectors._native,
    TraceError,
    pyo3::exceptions::PyValueError,
    "A trace that cannot be read: what and where."
);

/// Why reading or writing stopped.
#[derive(Debug)]
pub enum Failure {
    /// Unreadable input.
    Input(String),
    /// Output that cannot be written.
    Output(String),
    /// Events lie outside the times that their packet states, or are not sorted within it.
    Disorder,
    /// Whoever wanted the batches has gone.
    Abandoned,
    /// A Python error, such as an interrupt.
    Python(PyErr),
}

pub type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    /// Unreadable input at a path.
    pub fn input(path: &Path, what: impl Display) -> Self {
        Self::Input(format!("{}: {what}", path.display()))
    }

    /// Output that cannot be written at a path.
    pub fn output(path: &Path, what: impl Display) -> Self {
        Self::Output(format!("{}: cannot write: {what}", path.display()))
    }
}

impl From<roslens_ctf::error::Error> for Failure {
    fn from(error: roslens_ctf::error::Error) -> Self {
        Self::Input(error.to_string())
    }
}

impl From<Halt> for Failure {
    fn from(halt: Halt) -> Self {
        match halt {
            Halt::Disorder => Self::Disorder,
            Halt::Failed(error) => error.into(),
        }
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Input(what) => TraceError::new_err(what),
            Failure::Output(what) => PyOSError::new_err(what),
            Failure::Disorder => TraceError::new_err(
                "events are not in the order of their packets, so they cannot be streamed; \
                     read them at once",
            ),
            Failure::Abandoned => TraceError::new_err("nobody reads these events any longer"),
            Failure::Python(error) => error,
        }
    }
}
