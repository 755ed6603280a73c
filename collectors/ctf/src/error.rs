//! Errors that say what is wrong and where it is.

use std::fmt;

/// Where in the input an error was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// Line and column of the metadata text, both from 1.
    Text {
        /// Line number.
        line: u32,
        /// Column, in bytes.
        column: u32,
    },
    /// Fragment of CTF 2 metadata, from 1, and JSON pointer in it.
    Pointer {
        /// Fragment.
        fragment: usize,
        /// JSON pointer (RFC 6901).
        pointer: String,
    },
    /// Byte offset from the start of the input.
    Byte(u64),
    /// The input as a whole.
    Whole,
}

impl From<(u32, u32)> for Place {
    fn from((line, column): (u32, u32)) -> Self {
        Self::Text { line, column }
    }
}

impl From<u64> for Place {
    fn from(offset: u64) -> Self {
        Self::Byte(offset)
    }
}

/// An error in metadata or a stream that makes it unreadable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// What was found and what was expected.
    pub what: String,
    /// Where.
    pub place: Place,
}

impl Error {
    /// Make an error at a place.
    pub fn new(place: impl Into<Place>, what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            place: place.into(),
        }
    }

    /// Make an error about the input as a whole.
    pub fn whole(what: impl Into<String>) -> Self {
        Self::new(Place::Whole, what)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::Pointer { fragment, pointer } if pointer.is_empty() => {
                write!(f, "fragment {fragment}: {}", self.what)
            }
            Place::Pointer { fragment, pointer } => {
                write!(f, "fragment {fragment}: {pointer}: {}", self.what)
            }
            Place::Text { line, column } => write!(f, "{line}:{column}: {}", self.what),
            Place::Byte(offset) => write!(f, "byte {offset}: {}", self.what),
            Place::Whole => f.write_str(&self.what),
        }
    }
}

impl std::error::Error for Error {}

/// A result with this error.
pub type Result<T> = std::result::Result<T, Error>;

/// Return an error at a place.
///
/// # Errors
///
/// Always.
pub fn fail<T>(place: impl Into<Place>, what: impl Into<String>) -> Result<T> {
    Err(Error::new(place, what))
}
