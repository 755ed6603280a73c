//! Decode packets to sorted batches.
//!
//! One thread merges all packets, each read when its time has come, so that memory is bounded by
//! the packets that overlap in time. Several threads do the same with *slices* of the time: the
//! events of a packet on either side of a border are left to the two slices that meet there.

use std::collections::BTreeMap;
use std::panic::resume_unwind;

use super::crew::Crew;
use super::failure::{Failure, Result};
use super::feed::{Span, Windows, true_span};
use super::job::{Job, Seen, Sink, Summary, Want};
use super::recording::{LossRow, Recording};
use super::slices::{Decoder, slices};
use crate::losses::LossKind;
use crate::scan::Damage;

/// Bytes of packets after which progress is reported.
const STRIDE: u64 = 4 << 20;

impl Recording {
    /// Decode what is wanted; batches go, in order of time, to the sink of their table.
    ///
    /// `progress` is called with the number of bytes done and in all; an error from it or from a
    /// sink ends decoding. `sinks` makes a sink for each table of the catalog, and is called once
    /// more if events turn out not to be in the order of their packets; if it returns `None`,
    /// decoding fails.
    ///
    /// # Errors
    ///
    /// A file cannot be read, a sink or `progress` has failed, or [`Failure::Disorder`].
    ///
    /// # Panics
    ///
    /// If `sinks` does not make one sink for each table.
    pub fn decode<S: Sink>(
        &self,
        want: &Want,
        mut progress: impl FnMut(u64, u64) -> Result<()>,
        mut sinks: impl FnMut() -> Option<Vec<S>>,
    ) -> Result<(Summary, Vec<S>)> {
        let job = Job::new(self, want);
        let mut once = |sort: bool| {
            let mut made = sinks().ok_or(Failure::Disorder)?;
            assert_eq!(
                made.len(),
                self.catalog.tables.len(),
                "one sink for each table"
            );
            let summary = run(&job, sort, &mut made, &mut progress)?;
            Ok((summary, made))
        };
        match once(false) {
            // Some event is outside its packet's stated times: find the true times, and sort.
            Err(Failure::Disorder) => once(true),
            other => other,
        }
    }
}

/// Run a job; batches go to the table's sink.
/// After [`Failure::Disorder`] it must be run again with `sort` and new sinks.
fn run<S: Sink>(
    job: &Job<'_>,
    sort: bool,
    sinks: &mut [S],
    mut progress: impl FnMut(u64, u64) -> Result<()>,
) -> Result<Summary> {
    let packets = &job.recording.packets;
    let stated: Vec<Span> = packets.iter().map(|p| (p.begin_ns, p.end_ns)).collect();
    let sort = sort || stated.iter().any(|span| span.0.is_none());
    let (spans, mut numbers) = if sort {
        job.true_spans()?
    } else {
        (stated, (0..packets.len()).collect())
    };
    numbers.retain(|n| job.may_hold(spans[*n]));
    numbers.sort_by_key(|n| (spans[*n].0, *n));
    let total: u64 = numbers.iter().map(|n| packets[*n].bytes).sum();
    let mut damage = BTreeMap::new();
    let mut tables = vec![Seen::default(); job.recording.catalog.tables.len()];
    let mut done = 0;
    progress(0, total)?;
    let known = numbers.iter().all(|n| spans[*n].1.is_some());
    if job.threads > 1 && known {
        let slices = slices(job, &spans, &numbers);
        let decoder = || Decoder::new(job, &spans, sort);
        let places = sinks.iter_mut().zip(&mut tables);
        let crew = Crew::new(job, &slices, &decoder, places);
        let damaged = crew.run(|done| progress(done, total))?;
        progress(total, total)?;
        damage.extend(damaged.into_iter().map(|d| (d.packet, d)));
    } else {
        let mut decoder = Decoder::new(job, &spans, sort);
        let mut numbers = numbers.into_iter();
        let mut told = 0;
        loop {
            let bytes = decoder.step(&mut numbers)?;
            for (table, batch) in decoder.merge.ready.drain(..) {
                job.give(batch, &mut sinks[table], &mut tables[table])?;
            }
            let Some(bytes) = bytes else { break };
            done += bytes;
            if done >= told + STRIDE {
                told = done;
                progress(done, total)?;
            }
        }
        damage.extend(decoder.merge.damage.into_iter().map(|d| (d.packet, d)));
        sinks.iter_mut().try_for_each(Sink::end)?;
        progress(total, total)?;
    }
    let mut summary = Summary {
        tables,
        ..Summary::default()
    };
    for damage in damage.into_values() {
        job.report(&damage, &mut summary);
    }
    Ok(summary)
}

impl Job<'_> {
    /// Whether a packet may hold events of the wanted times.
    fn may_hold(&self, (begin, end): Span) -> bool {
        begin.is_none_or(|begin| begin <= self.filter.end_ns)
            && end.is_none_or(|end| self.filter.begin_ns <= end)
    }

    /// Find the first and last time of each packet by its events; return also all packets' numbers.
    fn true_spans(&self) -> Result<(Vec<Span>, Vec<usize>)> {
        let numbers: Vec<usize> = (0..self.recording.packets.len()).collect();
        let spans_of = |numbers: &[usize]| {
            let mut windows = Windows::default();
            let spans = numbers.iter();
            let spans = spans.map(|number| true_span(self.recording, &mut windows, *number));
            spans.collect::<Result<Vec<_>>>()
        };
        let share = numbers.len().div_ceil(self.threads).max(1);
        let results = std::thread::scope(|scope| {
            let shares = numbers.chunks(share);
            let threads: Vec<_> = shares
                .map(|share| scope.spawn(move || spans_of(share)))
                .collect();
            let results = threads
                .into_iter()
                .map(|thread| thread.join().unwrap_or_else(|p| resume_unwind(p)));
            results.collect::<Result<Vec<_>>>()
        })?;
        // Packets without events may still be damaged: they are read first.
        let spans = results
            .into_iter()
            .flatten()
            .map(|span| span.unwrap_or((Some(i64::MIN), Some(i64::MAX))))
            .collect();
        Ok((spans, numbers))
    }

    /// Add a warning and a loss for the part of a packet that could not be read.
    fn report(&self, damage: &Damage, summary: &mut Summary) {
        let recording = self.recording;
        let packet = &recording.packets[damage.packet as usize];
        let file = &recording.files[packet.file];
        let place = recording.place(file.member, &file.name);
        let byte = packet.offset + damage.at;
        let why = damage
            .why
            .as_deref()
            .unwrap_or("the file ends inside a packet");
        summary.warnings.push(format!(
            "{place}: byte {byte}: {why}; the rest of this packet is lost"
        ));
        summary.losses.push(LossRow {
            member: file.member,
            stream: file.name.clone(),
            cpu: packet.head.cpu,
            kind: LossKind::Truncated,
            count: None,
            begin_ns: damage.last_ns.or(packet.begin_ns),
            end_ns: packet.end_ns,
        });
    }
}
