//! What can go wrong, in one line, and the exit status that says whose fault it is.

use std::fmt;

/// A failure, as the user reads it.
#[derive(Debug)]
pub enum Failure {
    /// Wrong use: an argument, a file that does not fit.
    Usage(String),
    /// It ran, but could not end.
    Run(String),
}

/// What may fail.
pub type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    /// 2 wrong use, 4 ran but failed.
    pub fn exit_status(&self) -> u8 {
        match self {
            Failure::Usage(_) => 2,
            Failure::Run(_) => 4,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Failure::Usage(text) | Failure::Run(text)) = self;
        formatter.write_str(text)
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Failure::Run(error.to_string())
    }
}
