//! Messages that come at a rate: how fast they may come before a recorder falls behind.
//!
//! As in rosbag2: one thread puts messages into a queue of so many bytes and drops those that
//! find it full; another takes all that is queued at once and hands it over in one write call.

use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::arguments::Arguments;
use crate::failure::Result;
use crate::measure::{Load, no_room};
use crate::messages::Message;
use crate::process::{cpu_ns, forget_peak, memory, now_ns};
use crate::report::{Arrivals, Report};
use crate::{report, timed};

/// Messages due within so long are put into the queue together.
const TICK: Duration = Duration::from_micros(500);

#[derive(Default)]
struct Waiting {
    messages: Vec<Message>,
    bytes: u64,
    ended: bool,
}

struct Queue {
    waiting: Mutex<Waiting>,
    filled: Condvar,
    capacity: u64,
}

/// Measures one cell and writes what came out.
pub fn run(arguments: &Arguments) -> Result<()> {
    let load = Load::prepare(arguments)?;
    let queue = Queue {
        waiting: Mutex::default(),
        filled: Condvar::new(),
        capacity: arguments.queue,
    };
    let rate = arguments.rate.unwrap_or(u64::MAX);
    forget_peak();
    let (rss_before, _) = memory();
    let opened = now_ns();
    let mut bag = load.rosbag2.open(arguments, load.topics)?;
    let open_ns = now_ns() - opened;
    let cpu_begin = cpu_ns();
    let mut rows = Vec::new();
    let mut kept = Vec::with_capacity(load.messages.len());
    let mut failed = Ok(());
    let arrivals = thread::scope(|scope| {
        let producer = scope.spawn(|| produce(&queue, &load.messages, rate));
        let mut batch = Vec::new();
        let mut first = 0;
        while queue.take(&mut batch) {
            let call = rows.len() as u64;
            match timed::write(&mut bag, call, first, &batch, &load.content) {
                Ok(row) => {
                    first += row.messages;
                    kept.extend_from_slice(&batch);
                    rows.push(row);
                }
                Err(error) => {
                    failed = Err(error);
                    break;
                }
            }
        }
        producer.join()
    });
    failed.map_err(|error| no_room(error, arguments))?;
    let arrivals = arrivals.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    let closed = timed::close(bag, arguments)?;
    let cpu = cpu_ns() - cpu_begin;
    let (_, peak) = memory();
    Report {
        arguments,
        load: &load,
        rows: &rows,
        open_ns,
        closed,
        cpu_ns: cpu,
        rss_before,
        rss_peak: peak,
        checksum: report::checksum(&kept, &load.content),
        arrivals: Some(arrivals),
    }
    .write()
}

/// Puts messages into the queue when they are due.
fn produce(queue: &Queue, messages: &[Message], rate: u64) -> Arrivals {
    let begin = now_ns();
    let (mut next, mut produced_bytes, mut late_ns) = (0, 0_u64, 0);
    let (mut dropped, mut dropped_bytes, mut longest_queue) = (0, 0, 0);
    while next < messages.len() {
        let due = due_ns(produced_bytes, rate);
        let now = now_ns() - begin;
        if due > now {
            thread::sleep(Duration::from_nanos(due - now).max(TICK));
            continue;
        }
        late_ns = late_ns.max(now - due);
        let mut waiting = queue.lock();
        while let Some(message) = messages.get(next) {
            if due_ns(produced_bytes, rate) > now {
                break;
            }
            let length = message.length as u64;
            if waiting.bytes + length > queue.capacity {
                dropped += 1;
                dropped_bytes += length;
            } else {
                waiting.messages.push(*message);
                waiting.bytes += length;
            }
            produced_bytes += length;
            next += 1;
        }
        longest_queue = longest_queue.max(waiting.bytes);
        drop(waiting);
        queue.filled.notify_one();
    }
    let producing_ns = now_ns() - begin;
    queue.lock().ended = true;
    queue.filled.notify_one();
    Arrivals {
        rate,
        queue: queue.capacity,
        produced: messages.len() as u64,
        produced_bytes,
        dropped,
        dropped_bytes,
        longest_queue,
        producing_ns,
        late_ns,
    }
}

/// When a message is due, so many bytes after the first.
fn due_ns(bytes: u64, rate: u64) -> u64 {
    u64::try_from(u128::from(bytes) * 1_000_000_000 / u128::from(rate)).unwrap_or(u64::MAX)
}

impl Queue {
    fn lock(&self) -> std::sync::MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes all that waits; whether there was anything before the end.
    fn take(&self, batch: &mut Vec<Message>) -> bool {
        batch.clear();
        let mut waiting = self.lock();
        while waiting.messages.is_empty() && !waiting.ended {
            waiting = self
                .filled
                .wait(waiting)
                .unwrap_or_else(PoisonError::into_inner);
        }
        std::mem::swap(&mut waiting.messages, batch);
        waiting.bytes = 0;
        !batch.is_empty()
    }
}
