//! Hand over batches one after the other as they are decoded, at the consumer's pace.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::Builder;

use arrow_array::RecordBatch;

use super::failure::{Failure, Result};
use super::job::{Sink, Summary, Want};
use super::recording::Recording;

/// Most batches that wait for the consumer.
const AHEAD: usize = 8;

/// An item from the decoding thread: a batch and its table or, at last, the result.
enum Item {
    Batch(usize, RecordBatch),
    End(Result<Summary>),
}

/// An iterator over (event name, batch); the batches of an event are in order of time.
pub struct Batches {
    recording: Arc<Recording>,
    items: Option<Receiver<Item>>,
    summary: Option<Summary>,
}

/// A sink that hands batches to the consumer, and waits if the consumer is slow.
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
    /// Begin to decode on new threads. Memory is bounded by a few batches, each of at most
    /// [`BATCH`](crate::stage::BATCH) rows, and the packets that overlap in time.
    ///
    /// # Errors
    ///
    /// No thread can be started. Any other error is the last item of the iterator; this includes
    /// [`Failure::Disorder`] if it shows after batches have been handed over.
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
                // Batches that were handed over cannot be taken back.
                || (!begun.load(Ordering::Relaxed)).then(|| (0..tables).map(channel).collect()),
            );
            // If the consumer is gone, it does not need the result.
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
    /// After the last batch, return its results, with the losses that [`Recording::losses`] lacks.
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
