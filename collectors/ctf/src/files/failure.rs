//! Failures of reading files and writing batches.

use std::error::Error as StdError;
use std::fmt::{self, Display};
use std::path::Path;

use crate::error::Error;
use crate::merge::Halt;

/// Why reading or writing stopped.
#[derive(Debug)]
pub enum Failure {
    /// Input that cannot be read: what and where.
    Input(String),
    /// Output that cannot be written.
    Output(String),
    /// Events lie outside the times that their packet states, or are not sorted within it.
    Disorder,
    /// The consumer of batches or of progress stopped it, for a reason of its own.
    Stopped(Box<dyn StdError + Send + Sync>),
}

/// A result with this failure.
pub type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    /// Make a failure about input at a path that cannot be read.
    pub fn input(path: &Path, what: impl Display) -> Self {
        Self::Input(format!("{}: {what}", path.display()))
    }

    /// Make a failure about output at a path that cannot be written.
    pub fn output(path: &Path, what: impl Display) -> Self {
        Self::Output(format!("{}: cannot write: {what}", path.display()))
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Input(what) | Self::Output(what) => f.write_str(what),
            Self::Disorder => f.write_str(
                "events are not in the order of their packets, so they cannot be streamed; \
                 read them at once",
            ),
            Self::Stopped(why) => write!(f, "stopped: {why}"),
        }
    }
}

impl StdError for Failure {}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
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
