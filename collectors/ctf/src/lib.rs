//! Reads CTF 1.8 and CTF 2 traces as Arrow columns.
//!
//! ```
//! # fn main() -> roslens_ctf::Result<()> {
//! # let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/samples/lifecycle");
//! let recording = roslens_ctf::open(folder)?;
//! let mut events = 0;
//! for item in recording.batches(roslens_ctf::Want::default())? {
//!     let (name, batch) = item?;
//!     assert_eq!(batch.schema().field(0).name(), "time_ns");
//!     assert!(name.starts_with("ros2:"));
//!     events += batch.num_rows();
//! }
//! assert_eq!(events, 4111);
//! # Ok(())
//! # }
//! ```
//!
//! # Features
//!
//! * `files` (default): the module [`files`], which opens folders and starts threads. All other
//!   modules do no input or output: they are given bytes and give back Arrow arrays.
//! * `parquet`: [`Recording::write`], a Parquet file per event, and [`files::table_writer`].
//!
//! # How it works
//!
//! 1. [`metadata`] turns the bytes of a `metadata` file (plain text, or cut into packets) to text.
//! 2. [`tsdl`] (CTF 1.8) or [`ctf2`] (JSON) turns the text into the one class [`model`]. Lengths,
//!    tags and selectors are resolved to *slots*, in which the decoder keeps the values they refer
//!    to; a field that the decoder itself uses (packet sizes, times, event numbers) has a *role*.
//! 3. [`catalog`] makes *tables* of the event classes of all traces, one per event name, whose
//!    columns are the union of their fields. [`plan`] compiles each class once: a *flat plan* is a
//!    list of *segments*, runs of bytes in which every field lies at a fixed distance from the
//!    first; the *general* decoder ([`walk`]) remains for bit fields, variants and arrays of
//!    structures.
//! 4. [`packet`] reads the head of a packet: how long it is, when it begins, what was lost
//!    ([`losses`]). [`stream_file`] finds all packets of a file by their heads, and by `LTTng`'s
//!    index of the file ([`lttng_index`]) if heads are damaged.
//! 5. [`scan`] finds which event comes next in a packet, and its time.
//! 6. [`merge`] takes, among the packets that overlap in time, the one whose next event is first.
//! 7. [`stage`] copies the bytes of an event to a row at once; every few hundred rows become
//!    [`columns`], each in a loop of loads and stores at equal distances. Columns leave as batches.
//! 8. [`files`] reads packets as late as their time allows, on several threads.
//!
//! # Limits
//!
//! `docs/ctf_reader.md` has these and those of the program around this crate, and a glossary.
//!
//! * Integers, bit maps and booleans of at most 64 bits; floating point numbers of 16 (CTF 2), 32
//!   or 64 bits; packets of at most 512 MiB; types nested in at most 512 levels.
//! * A TSDL type that is named inside a structure takes the lengths and tags that it refers to from
//!   the place where it is used, not from where it is named.
//! * CTF 2: extensions are refused; attributes other than log level and EMF URI, namespaces of
//!   fields and clock identities are not kept; BLOBs are lists of bytes.
//! * Fields of the packet context other than the tracer's own (times, sizes, counts, CPU) are not
//!   made into columns.
//! * If several ranges of an enumeration contain a value, its label is that of the first one.
//! * Compressed or encrypted packets and checksums are not supported; callsites are ignored.

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub mod bits;
pub mod catalog;
pub mod columns;
pub mod ctf2;
pub mod error;
#[cfg(feature = "files")]
pub mod files;
pub mod losses;
pub mod lttng_index;
pub mod merge;
pub mod metadata;
pub mod model;
pub mod packet;
pub mod plan;
mod resolve;
pub mod scan;
pub mod stage;
pub mod stream_file;
pub mod text;
pub mod tsdl;
pub mod walk;

#[cfg(feature = "files")]
pub use files::{Batches, Failure, LossRow, Recording, Result, Sink, Summary, Want, open};
