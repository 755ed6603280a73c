//! CTF 1.8 traces, as `LTTng` writes them, to Arrow columns.
//!
//! Metadata text is parsed into a class model, each event class is compiled once into a flat
//! plan, and packets are decoded in two passes: a scan that finds where each event lies, and a
//! gather that reads one column after the other. The crate does no input or output: it is given
//! bytes and gives back Arrow arrays.

pub mod bits;
pub mod catalog;
pub mod columns;
pub mod error;
pub mod gather;
pub mod losses;
pub mod metadata;
pub mod model;
pub mod packet;
pub mod plan;
pub mod scan;
pub mod tsdl;
pub mod walk;
