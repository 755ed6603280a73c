//! Batches as they are decoded, one after the other, for a consumer that takes its time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::Builder;

use arrow_array::RecordBatch;

use super::failure::{Failure, Result};
use super::job::{Sink, Summary, Want};
use super::recording::Recording;

/// Batches that wait for the consumer.
const AHEAD: usize = 8;

/// What a thread that decodes hands over: a table and a batch of it, and at last how it ended.
enum Item {
    Batch(usize, RecordBatch),
    End(Result<Summary>),
}

/// An iterator of (event name, batch); those of one event are in the order of time.
pub struct Batches {
    recording: Arc<Recording>,
    items: Option<Receiver<Item>>,
    summary: Option<Summary>,
}

/// Hands batches to the consumer, and waits where that is slow.
struct Channel {
    table: usize,
    items: SyncSender<Item>,
    begun: Arc<AtomicBool>,
}

impl Sink for Channel {
    fn take(&mut self, batch: RecordBatch) -> Result<()> {
        self.begun.store(true, Ordering::Relaxed);
        let sent = self.items.send(Item::Batch(self.table, batch));
        sent.map_err(|_| Failure::Stopped("nobody takes these batches any longer".into()))
    }
}

impl Recording {
    /// Begin to decode on threads of its own. Memory is bounded by a few batches, each of at most
    /// [`BATCH`](crate::stage::BATCH) rows, and the packets that overlap in time.
    ///
    /// # Errors
    ///
    /// No thread can be started. All else is an item of the iterator, its last one: then also
    /// [`Failure::Disorder`], if that shows when batches have been handed over.
    pub fn batches(self: &Arc<Self>, want: Want) -> Result<Batches> {
        let (sender, receiver) = sync_channel(AHEAD);
        let recording = Arc::clone(self);
        let work = move || {
            let begun = Arc::new(AtomicBool::new(false));
            let channel = |table| Channel {
                table,
                items: sender.clone(),
                begun: Arc::clone(&begun),
            };
            let tables = recording.catalog.tables.len();
            let done = recording.decode(
                &want,
                |_, _| Ok(()),
                // What was handed over cannot be taken back.
                || (!begun.load(Ordering::Relaxed)).then(|| (0..tables).map(channel).collect()),
            );
            // Whoever went away does not want to know.
            let _ = sender.send(Item::End(done.map(|(summary, _)| summary)));
        };
        let thread = Builder::new().name("roslens-ctf".into()).spawn(work);
        thread.map_err(|e| Failure::Input(format!("cannot start a thread: {e}")))?;
        Ok(Batches {
            recording: Arc::clone(self),
            items: Some(receiver),
            summary: None,
        })
    }
}

impl Batches {
    /// What was seen, and lost beside what [`Recording::losses`] has; after the last batch.
    #[must_use]
    pub fn summary(&self) -> Option<&Summary> {
        self.summary.as_ref()
    }
}

impl Iterator for Batches {
    type Item = Result<(String, RecordBatch)>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.items.as_ref()?.recv() {
            Ok(Item::Batch(table, batch)) => {
                let name = self.recording.catalog.tables[table].name.clone();
                return Some(Ok((name, batch)));
            }
            Ok(Item::End(Ok(summary))) => self.summary = Some(summary),
            Ok(Item::End(Err(failure))) => {
                self.items = None;
                return Some(Err(failure));
            }
            Err(_) => {
                self.items = None;
                return Some(Err(Failure::Input("decoding ended early".into())));
            }
        }
        self.items = None;
        None
    }
}
