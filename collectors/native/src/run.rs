//! From packets to sorted batches.
//!
//! One thread merges all packets, each read when its time has come, so that memory is bounded by
//! the packets that overlap in time. Several threads do the same with *slices* of the time: what a
//! packet has on either side of a border is left to the two slices that meet there.

use std::collections::{BTreeMap, HashMap};

use arrow_array::{Array, Int32Array, RecordBatch, StringViewArray};
use rayon::prelude::*;
use roslens_ctf::catalog::{PROCNAME, VPID};
use roslens_ctf::losses::LossKind;
use roslens_ctf::merge::Merge;
use roslens_ctf::scan::{Damage, Filter};
use roslens_ctf::stage::Projection;

use crate::crew::Crew;
use crate::failure::Result;
use crate::feed::{Feed, Span, Windows, true_span};
use crate::index::{Index, LossRow};

/// Bytes of packets after which progress is told.
const STRIDE: u64 = 4 << 20;
/// Fewest bytes in a slice.
const SLICE: u64 = 4 << 20;
/// Most bytes in a slice.
const LARGEST_SLICE: u64 = 64 << 20;

/// Takes the batches of one table, in order.
pub trait Sink: Send {
    /// Take one.
    fn take(&mut self, batch: RecordBatch) -> Result<()>;

    /// There are no more.
    fn end(&mut self) -> Result<()> {
        Ok(())
    }
}

/// What is to be read.
pub struct Job<'a> {
    /// Packets.
    pub index: &'a Index,
    /// Tables and times.
    pub filter: Filter,
    /// Columns.
    pub projection: Projection,
    /// Whether to note what [`Seen`] holds beyond rows.
    pub note: bool,
    /// Threads. Only these decode; the caller's own thread keeps listening for Ctrl-C.
    pub pool: Option<&'a rayon::ThreadPool>,
}

/// What was seen of one table.
#[derive(Debug, Default, Clone)]
pub struct Seen {
    /// Rows.
    pub rows: u64,
    /// First and last time.
    pub times: Option<(i64, i64)>,
    /// First time and thread name by (host label, process id).
    pub processes: HashMap<(String, i32), (i64, Option<String>)>,
}

/// What was seen of all.
#[derive(Debug, Default)]
pub struct Summary {
    /// By table.
    pub tables: Vec<Seen>,
    /// Losses found while decoding.
    pub losses: Vec<LossRow>,
    /// What was odd.
    pub warnings: Vec<String>,
}

/// Packets by number whose events of some time are wanted.
pub struct Slice {
    begin_ns: i64,
    end_ns: i64,
    numbers: Vec<usize>,
    /// Of the packets that begin in it.
    bytes: u64,
}

/// What a slice holds.
pub struct Decoded {
    /// Batches by table, in order.
    pub batches: Vec<(usize, RecordBatch)>,
    /// Packets that could not be read to their end.
    pub damage: Vec<Damage>,
    /// Bytes of the packets that begin in it.
    pub bytes: u64,
}

/// Decode what the job asks for; batches go to the table's sink.
///
/// # Errors
///
/// Among others [`crate::failure::Failure::Disorder`]: then it must be run again with `sort`, and fresh sinks.
pub fn run<S: Sink>(
    job: &Job<'_>,
    sort: bool,
    sinks: &mut [S],
    mut progress: impl FnMut(u64, u64) -> Result<()>,
) -> Result<Summary> {
    let packets = &job.index.packets;
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
    let mut tables = vec![Seen::default(); job.index.catalog.tables.len()];
    let mut done = 0;
    progress(0, total)?;
    let known = numbers.iter().all(|n| spans[*n].1.is_some());
    match job.pool {
        Some(pool) if known => {
            let threads = pool.current_num_threads();
            let slices = job.slices(&spans, &numbers);
            let decoder = || Decoder::new(job, &spans, sort);
            let places = sinks.iter_mut().zip(&mut tables);
            let crew = Crew::new(job, &slices, &decoder, threads, places);
            let found = crew.run(pool, |done| progress(done, total))?;
            progress(total, total)?;
            damage.extend(found.into_iter().map(|d| (d.packet, d)));
        }
        _ => {
            let mut merge = Merge::new(&job.index.catalog, &job.filter, &job.projection);
            let mut windows = Windows::default();
            let mut feed = Feed::new(job.index, &spans, sort, numbers, &mut windows);
            let mut told = 0;
            while let Some(bytes) = feed.step(&mut merge)? {
                done += bytes;
                for (table, batch) in merge.ready.drain(..) {
                    job.give(batch, &mut sinks[table], &mut tables[table])?;
                }
                if done >= told + STRIDE {
                    told = done;
                    progress(done, total)?;
                }
            }
            for (table, batch) in merge.ready.drain(..) {
                job.give(batch, &mut sinks[table], &mut tables[table])?;
            }
            damage.extend(merge.damage.into_iter().map(|d| (d.packet, d)));
            sinks.iter_mut().try_for_each(Sink::end)?;
            progress(total, total)?;
        }
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

/// Times that cut `begin_ns` to `end_ns` into parts of so many bytes of packets.
pub fn windows(
    index: &Index,
    begin_ns: Option<i64>,
    end_ns: Option<i64>,
    bytes: u64,
) -> Vec<(Option<i64>, Option<i64>)> {
    let after = |time: i64| begin_ns.is_none_or(|begin| begin < time);
    let mut begins: Vec<(i64, u64)> = index
        .packets
        .iter()
        .filter(|p| p.end_ns.is_none_or(after))
        .filter_map(|p| Some((p.begin_ns?, p.bytes)))
        .filter(|(time, _)| end_ns.is_none_or(|end| *time <= end))
        .collect();
    begins.sort_unstable();
    let mut found = Vec::new();
    let mut begin = begin_ns;
    let mut size = 0;
    for (time, more) in begins {
        if size >= bytes && after(time) && begin.is_none_or(|begin| begin < time) {
            found.push((begin, Some(time - 1)));
            begin = Some(time);
            size = 0;
        }
        size += more;
    }
    found.push((begin, end_ns));
    found
}

impl Job<'_> {
    /// Whether a packet may hold events of the wanted times.
    fn may_hold(&self, (begin, end): Span) -> bool {
        begin.is_none_or(|begin| begin <= self.filter.end_ns)
            && end.is_none_or(|end| self.filter.begin_ns <= end)
    }

    /// First and last time of each packet by its events, and the packets that have any.
    fn true_spans(&self) -> Result<(Vec<Span>, Vec<usize>)> {
        let find = || {
            (0..self.index.packets.len())
                .into_par_iter()
                .map_init(Windows::default, |windows, number| {
                    true_span(self.index, windows, number)
                })
                .collect::<Result<Vec<_>>>()
        };
        let found = match self.pool {
            Some(pool) => pool.install(find)?,
            None => (0..self.index.packets.len())
                .scan(Windows::default(), |windows, number| {
                    Some(true_span(self.index, windows, number))
                })
                .collect::<Result<Vec<_>>>()?,
        };
        // Those without events may still be damaged: they are looked at first.
        let spans = found
            .iter()
            .map(|span| span.unwrap_or((Some(i64::MIN), Some(i64::MAX))))
            .collect();
        Ok((spans, (0..found.len()).collect()))
    }

    /// The time in slices of so many bytes of packets.
    fn slices(&self, spans: &[Span], numbers: &[usize]) -> Vec<Slice> {
        let packets = &self.index.packets;
        let total: u64 = numbers.iter().map(|n| packets[*n].bytes).sum();
        // Packets on a border are stepped through twice, so a slice is several of each stream.
        let across = total / (numbers.len() as u64).max(1) * self.index.files.len() as u64;
        let wanted = SLICE.max(8 * across).min(LARGEST_SLICE);
        let mut slices: Vec<Slice> = Vec::new();
        for number in numbers {
            let begin = spans[*number].0.unwrap_or(i64::MIN);
            let bytes = packets[*number].bytes;
            match slices.last_mut() {
                Some(last) if last.bytes + bytes <= wanted || begin <= last.begin_ns => {
                    last.numbers.push(*number);
                    last.bytes += bytes;
                }
                last => {
                    let mut across: Vec<usize> = Vec::new();
                    if let Some(last) = last {
                        last.end_ns = begin - 1;
                        let reaches = |n: &usize| spans[*n].1.is_none_or(|end| end >= begin);
                        across.extend(last.numbers.iter().copied().filter(reaches));
                    }
                    across.push(*number);
                    slices.push(Slice {
                        begin_ns: begin,
                        end_ns: self.filter.end_ns,
                        numbers: across,
                        bytes,
                    });
                }
            }
        }
        if let Some(first) = slices.first_mut() {
            first.begin_ns = self.filter.begin_ns;
        }
        slices
    }

    /// Give a batch to its table.
    pub fn give(&self, batch: RecordBatch, sink: &mut impl Sink, seen: &mut Seen) -> Result<()> {
        if self.note {
            seen.note(&batch);
        }
        seen.rows += batch.num_rows() as u64;
        sink.take(batch)
    }

    /// Note what could not be read.
    fn report(&self, damage: &Damage, summary: &mut Summary) {
        let index = self.index;
        let packet = &index.packets[damage.packet as usize];
        let file = &index.files[packet.file];
        let place = index.place(file.member, &file.name);
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

/// Decodes slices, one after the other.
pub struct Decoder<'a> {
    job: &'a Job<'a>,
    spans: &'a [Span],
    sort: bool,
    merge: Merge<'a>,
    windows: Windows,
}

impl<'a> Decoder<'a> {
    fn new(job: &'a Job<'a>, spans: &'a [Span], sort: bool) -> Self {
        Self {
            job,
            spans,
            sort,
            merge: Merge::new(&job.index.catalog, &job.filter, &job.projection),
            windows: Windows::default(),
        }
    }

    /// What a slice holds.
    pub fn decode(&mut self, slice: &Slice) -> Result<Decoded> {
        let Self {
            job, merge, spans, ..
        } = self;
        merge.turn_to(
            slice.begin_ns.max(job.filter.begin_ns),
            slice.end_ns.min(job.filter.end_ns),
        );
        let numbers = slice.numbers.clone();
        let mut feed = Feed::new(job.index, spans, self.sort, numbers, &mut self.windows);
        while feed.step(merge)?.is_some() {}
        Ok(Decoded {
            batches: std::mem::take(&mut merge.ready),
            damage: std::mem::take(&mut merge.damage),
            bytes: slice.bytes,
        })
    }
}

impl Seen {
    /// Times and processes of a batch with all common columns.
    fn note(&mut self, batch: &RecordBatch) {
        let rows = batch.num_rows();
        let (first, last) = (time_of(batch, 0), time_of(batch, rows - 1));
        self.times = Some(match self.times {
            Some((begin, end)) => (begin.min(first), end.max(last)),
            None => (first, last),
        });
        let column = |at: usize| batch.columns().get(at).map(|c| c.as_ref().as_any());
        let text = |at: usize| column(at).and_then(|c| c.downcast_ref::<StringViewArray>());
        let (Some(hosts), Some(names)) = (text(1), text(PROCNAME)) else {
            return;
        };
        let vpids = column(VPID).and_then(|c| c.downcast_ref::<Int32Array>());
        let Some(vpids) = vpids.filter(|v| v.null_count() < v.len()) else {
            return;
        };
        // Few processes take turns; hosts have short labels, which are in the view itself.
        let mut known = [None; 8];
        for row in 0..rows {
            let key = Some((vpids.value(row), hosts.views()[row]));
            let at = vpids.value(row).unsigned_abs() as usize % known.len();
            if known[at] == key || vpids.is_null(row) {
                continue;
            }
            known[at] = key;
            let process = (hosts.value(row).to_owned(), vpids.value(row));
            self.processes.entry(process).or_insert_with(|| {
                let name = (!names.is_null(row)).then(|| names.value(row).to_owned());
                (time_of(batch, row), name)
            });
        }
    }
}

fn time_of(batch: &RecordBatch, row: usize) -> i64 {
    batch
        .column(0)
        .as_any()
        .downcast_ref::<arrow_array::Int64Array>()
        .map_or(i64::MAX, |times| times.value(row))
}
