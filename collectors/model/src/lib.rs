//! The ROS 2 model: a state machine over events in the order of time, and the tables it makes.
//!
//! One method per event, in the words of docs/model.md, and a state for
//!
//! * each thread: open callbacks and the stretch of its executor (`callbacks`), the publish call in
//!   progress (`publications`), the take in progress (`takes`);
//! * each object: what an address means now (`registry`), what lies in each place of a ring buffer
//!   (`ring_buffers`), which blocks of memory live (`heap`);
//! * each key: what was published and taken with a topic and a source timestamp (`matches`), and
//!   asked and answered with a client and a sequence number (`services`).
//!
//! What only the end can say is a second phase: what several publications with one key belong to
//! (`partners`), timestamps that were not recorded (`approximate`), and the grid of a timer (`timers`).
//! Then a row is made for each publication and each subscription (`pairing`), and, from the last one
//! back, each is decided (`decide`) by what comes before and behind it on its connection
//! (`connections`), and by what holds of the whole recording (`facts`). Where events may be missing is
//! known to `gaps`.
//!
//! Rows have the number of their place, in the order of their first events; links between rows are
//! such numbers. Rows that were not used for long lie in a file (`rows`), keys that nobody asked for
//! leave (`matches`), and tables are made batch by batch as they are asked for (`tables`). Objects come
//! from init events, which are few, and whose joins are relational: they are given as tables (`registry`),
//! and each takes effect at its time.
//!
//! `collectors/ros2` makes the objects before the pass, and of its tables what is relational: goals,
//! scheduling, health. What is not bounded in memory yet: service calls, activations of timers and the
//! tables of the heap, takes without a publication, and keys that come late.

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
mod timers;

pub use crate::about::About;
pub use crate::decide::{Match, Outcome, Reason};
pub use crate::gaps::{Gap, Gaps};
pub use crate::identity::{Host, Identity, Process, Thread};
pub use crate::ids::Id;
pub use crate::intake::{Batch, Batches};
pub use crate::kinds::{KINDS, Kind, Kinds};
pub use crate::model::Model;
pub use crate::publications::Guesses;
pub use crate::registry::{Name, Publisher, Registry, Subscription};
pub use crate::rows::Disk;
pub use crate::tables::{Counts, Tables};
