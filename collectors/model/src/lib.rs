//! The ROS 2 model: a state machine over events in order of time, and the tables that it makes.
//!
//! Each event is handled by one method, with the terms of docs/model.md. There is a state for
//!
//! * each thread: open callbacks and the stretch of its executor (`callbacks`), the publish call in
//!   progress (`publications`), the take in progress (`takes`);
//! * each object: what an address means now (`registry`), which message is in each place of a ring
//!   buffer (`ring_buffers`), which blocks of memory are allocated (`heap`);
//! * each key: the publications and takes with a topic and a source timestamp (`matches`), and the
//!   requests and responses with a client and a sequence number (`services`).
//!
//! A second phase decides what only the end of the events can show: which takes belong to several
//! publications with one key (`partners`), and timestamps that were not recorded (`approximate`).
//! Then a row is made for each publication and each subscription (`pairing`). From the last row
//! back, each is decided (`decide`) by the messages before and after it on its connection
//! (`connections`), and by facts about the whole recording (`facts`). `gaps` knows where events may
//! be missing.
//!
//! Rows are numbered by their place, in the order of their first events, and links between rows are
//! such numbers. Rows that have not been used for long move to a file (`rows`), unmatched keys are
//! evicted (`matches`), and tables are made batch by batch on request (`tables`). Objects come from
//! init events, which are few, and whose joins are relational: they are given as tables
//! (`registry`), and each takes effect at its time.
//!
//! `collectors/ros2` makes the objects before the pass, and the relational tables from those of the
//! pass: goals, activations of timers, scheduling, health. Memory is not yet bounded for service
//! calls, activations of timers, the tables of the heap, takes without a publication, and keys that
//! come late.

#![forbid(unsafe_code)]

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod about;
mod approximate;
mod callbacks;
mod columns;
mod connections;
mod decide;
mod existing;
mod facts;
mod gaps;
mod heap;
mod identity;
mod ids;
mod intake;
mod kinds;
mod matches;
mod messages;
mod model;
mod offsets;
mod pairing;
mod partners;
mod publications;
mod registry;
mod ring_buffers;
mod rows;
mod services;
mod tables;
mod takes;

pub use crate::about::About;
pub use crate::decide::{Match, Outcome, Reason};
pub use crate::gaps::{Gap, Gaps};
pub use crate::identity::{Host, Identity, Process, Thread};
pub use crate::ids::Id;
pub use crate::intake::{Batch, Batches};
pub use crate::kinds::{KINDS, Kind, Kinds};
pub use crate::model::{Model, Running};
pub use crate::publications::Guesses;
pub use crate::registry::{Name, Publisher, Registry, Subscription};
pub use crate::rows::Disk;
pub use crate::tables::{Counts, Tables};
