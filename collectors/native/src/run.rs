//! From packets to sorted batches, slice by slice.
//!
//! A slice is the packets that begin next in time, up to so many bytes. Its rows that are earlier
//! than the beginning of every packet still to come are complete, so they leave sorted; the few
//! others wait for the next slice. Memory is bounded by the slice, whatever the trace's size.

use std::collections::HashMap;
use std::fs::File;
use std::sync::Arc;

use arrow_array::{Array, Int32Array, RecordBatch, StringViewArray};
use rayon::prelude::*;
use roslens_ctf::catalog::{PROCNAME, VPID};
use roslens_ctf::gather::{View, batch};
use roslens_ctf::losses::LossKind;
use roslens_ctf::scan::{Filter, Outcome, Packet as ScanPacket, Rows, scan};

use crate::failure::{Failure, Result};
use crate::index::{Index, LossRow, read_at};

/// Rows in a batch.
pub const BATCH: usize = 1 << 16;
/// Bytes of packets read at once by one thread.
const UNIT: u64 = 1 << 20;

/// Takes the batches of one table, in order.
pub trait Sink: Send {
    /// Take one.
    fn take(&mut self, batch: RecordBatch) -> Result<()>;
}

/// What is to be read.
pub struct Job<'a> {
    /// Packets.
    pub index: &'a Index,
    /// Tables and times.
    pub filter: Filter,
    /// Number of columns, counted from the first; all if `None`.
    pub columns: Option<usize>,
    /// Bytes per slice.
    pub slice: u64,
    /// Threads. Only these decode; the caller's own thread keeps listening for Ctrl-C.
    pub pool: &'a rayon::ThreadPool,
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

/// The bytes of a unit, and where in them a packet begins.
type Place = (Arc<Vec<u8>>, usize);

/// The bytes of some packets next to each other in a file.
struct Unit {
    packets: std::ops::Range<usize>,
    bytes: Arc<Vec<u8>>,
    rows: Vec<Rows>,
    outcomes: Vec<Outcome>,
}

/// Decode what the job asks for; batches go to the table's sink.
pub fn run<S: Sink>(
    job: &Job<'_>,
    sinks: &mut [S],
    mut progress: impl FnMut(u64, u64) -> Result<()>,
) -> Result<Summary> {
    let index = job.index;
    let tables = index.catalog.tables.len();
    let mut waiting: Vec<usize> = (0..index.packets.len())
        .filter(|n| job.may_hold(*n))
        .collect();
    waiting.sort_by_key(|n| (index.packets[*n].begin_ns, *n));
    let total: u64 = waiting.iter().map(|n| index.packets[*n].bytes).sum();
    let mut done = 0;
    let mut summary = Summary {
        tables: vec![Seen::default(); tables],
        ..Summary::default()
    };
    let mut loaded: Vec<Option<Place>> = vec![None; index.packets.len()];
    let mut kept: Vec<Rows> = index
        .catalog
        .tables
        .iter()
        .map(|t| Rows::new(t.stride))
        .collect();
    let mut live = Vec::new();
    let mut emitted = i64::MIN;
    let mut rest = waiting.as_slice();
    progress(0, total)?;
    while !rest.is_empty() {
        let slice = job.next_slice(&mut rest);
        let horizon = rest
            .first()
            .map(|n| index.packets[*n].begin_ns.unwrap_or(i64::MIN));
        let units = job.pool.install(|| job.load(&slice))?;
        job.report(&units, &mut summary);
        let mut parts: Vec<Vec<Rows>> = kept.iter_mut().map(|k| vec![std::mem::take(k)]).collect();
        for unit in units {
            let start = index.packets[unit.packets.start].offset;
            for number in unit.packets.clone() {
                let offset = index.packets[number].offset - start;
                let offset = usize::try_from(offset).unwrap_or(usize::MAX);
                loaded[number] = Some((Arc::clone(&unit.bytes), offset));
            }
            for (parts, rows) in parts.iter_mut().zip(unit.rows) {
                if !rows.is_empty() {
                    parts.push(rows);
                }
            }
        }
        let view = |number: u32| {
            let packet = &index.packets[number as usize];
            let bytes = match &loaded[number as usize] {
                Some((bytes, offset)) => packet_bytes(bytes, *offset, packet.bytes),
                None => &[],
            };
            View {
                bytes,
                head: &packet.head,
                member: index.files[packet.file].member,
            }
        };
        let jobs = parts
            .into_par_iter()
            .zip(sinks.par_iter_mut())
            .zip(summary.tables.par_iter_mut())
            .enumerate();
        let left = job.pool.install(|| {
            jobs.map(|(table, ((parts, sink), seen))| {
                let stride = index.catalog.tables[table].stride;
                let mut rows = Rows::merge(parts, stride);
                let complete =
                    horizon.map_or(rows.len(), |h| rows.time.partition_point(|t| *t < h));
                let left = rows.split_off(complete);
                if rows.time.first().is_some_and(|t| *t < emitted) {
                    return Err(Failure::Disorder);
                }
                job.emit(table, &rows, sink, seen, &view)?;
                Ok(left)
            })
            .collect::<Result<Vec<Rows>>>()
        });
        kept = left?;
        emitted = horizon.unwrap_or(i64::MAX).max(emitted);
        drop_unused(&mut loaded, &kept, &slice, &mut live);
        done += slice.iter().map(|n| index.packets[*n].bytes).sum::<u64>();
        progress(done, total)?;
    }
    Ok(summary)
}

impl Job<'_> {
    /// Whether a packet may hold events of the wanted times.
    fn may_hold(&self, number: usize) -> bool {
        let packet = &self.index.packets[number];
        packet
            .begin_ns
            .is_none_or(|begin| begin <= self.filter.end_ns)
            && packet.end_ns.is_none_or(|end| self.filter.begin_ns <= end)
    }

    /// The packets that begin next, at least one, in the order of their numbers.
    fn next_slice(&self, rest: &mut &[usize]) -> Vec<usize> {
        let mut bytes = 0;
        let mut count = 0;
        for number in *rest {
            bytes += self.index.packets[*number].bytes;
            if count > 0 && bytes > self.slice {
                break;
            }
            count += 1;
        }
        let (slice, after) = rest.split_at(count);
        *rest = after;
        let mut slice = slice.to_vec();
        slice.sort_unstable();
        slice
    }

    /// Read and scan the packets of a slice, in units, in parallel.
    fn load(&self, slice: &[usize]) -> Result<Vec<Unit>> {
        let packets = &self.index.packets;
        let mut ranges: Vec<std::ops::Range<usize>> = Vec::new();
        let mut bytes = 0;
        for number in slice {
            let packet = &packets[*number];
            bytes += packet.bytes;
            match ranges.last_mut() {
                Some(range)
                    if range.end == *number
                        && packets[range.start].file == packet.file
                        && packets[*number - 1].offset + packets[*number - 1].bytes
                            == packet.offset
                        && bytes <= UNIT =>
                {
                    range.end += 1;
                }
                _ => {
                    bytes = packet.bytes;
                    ranges.push(*number..*number + 1);
                }
            }
        }
        ranges.into_par_iter().map(|r| self.load_unit(r)).collect()
    }

    fn load_unit(&self, range: std::ops::Range<usize>) -> Result<Unit> {
        let index = self.index;
        let first = &index.packets[range.start];
        let last = &index.packets[range.end - 1];
        let file = &index.files[first.file];
        let length = last.offset + last.bytes - first.offset;
        let bytes = File::open(&file.path)
            .and_then(|f| read_at(&f, first.offset, length))
            .map_err(|e| Failure::input(&file.path, e))?;
        let mut rows: Vec<Rows> = index
            .catalog
            .tables
            .iter()
            .map(|t| Rows::new(t.stride))
            .collect();
        let mut outcomes = Vec::with_capacity(range.len());
        for number in range.clone() {
            let packet = &index.packets[number];
            let offset = usize::try_from(packet.offset - first.offset).unwrap_or(usize::MAX);
            let view = ScanPacket {
                bytes: packet_bytes(&bytes, offset, packet.bytes),
                head: &packet.head,
                number: u32::try_from(number)
                    .map_err(|_| Failure::Input("more than 2^32 packets".into()))?,
                member: file.member,
            };
            outcomes.push(scan(&index.catalog, view, &self.filter, &mut rows));
        }
        Ok(Unit {
            packets: range,
            bytes: Arc::new(bytes),
            rows,
            outcomes,
        })
    }

    /// Note what could not be read.
    fn report(&self, units: &[Unit], summary: &mut Summary) {
        let index = self.index;
        for unit in units {
            for (number, outcome) in unit.packets.clone().zip(&unit.outcomes) {
                let Some((at, why)) = &outcome.stopped else {
                    continue;
                };
                let packet = &index.packets[number];
                let file = &index.files[packet.file];
                let place = index.place(file.member, &file.name);
                let byte = packet.offset + at;
                let why = why.as_deref().unwrap_or("the file ends inside a packet");
                summary.warnings.push(format!(
                    "{place}: byte {byte}: {why}; the rest of this packet is lost"
                ));
                summary.losses.push(LossRow {
                    member: file.member,
                    stream: file.name.clone(),
                    cpu: packet.head.cpu,
                    kind: LossKind::Truncated,
                    count: None,
                    begin_ns: outcome.last_ns.or(packet.begin_ns),
                    end_ns: packet.end_ns,
                });
            }
        }
    }

    fn emit<'v, S: Sink>(
        &self,
        table: usize,
        rows: &Rows,
        sink: &mut S,
        seen: &mut Seen,
        view: &(impl Fn(u32) -> View<'v> + Sync),
    ) -> Result<()>
    where
        Self: 'v,
    {
        for start in (0..rows.len()).step_by(BATCH) {
            let range = start..rows.len().min(start + BATCH);
            let catalog = &self.index.catalog;
            let batch = batch(catalog, table, rows, range, self.columns, view)?;
            seen.note(
                rows.time[start],
                rows.time[start + batch.num_rows() - 1],
                &batch,
            );
            sink.take(batch)?;
        }
        Ok(())
    }
}

impl Seen {
    fn note(&mut self, first: i64, last: i64, batch: &RecordBatch) {
        self.rows += batch.num_rows() as u64;
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
        let mut last = None;
        for row in 0..batch.num_rows() {
            if vpids.is_null(row) {
                continue;
            }
            let key = (vpids.value(row), hosts.views()[row]);
            if last == Some(key) {
                continue;
            }
            last = Some(key);
            let process = (hosts.value(row).to_owned(), key.0);
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

fn packet_bytes(bytes: &[u8], offset: usize, length: u64) -> &[u8] {
    let end = offset.saturating_add(usize::try_from(length).unwrap_or(usize::MAX));
    bytes.get(offset..end.min(bytes.len())).unwrap_or(&[])
}

/// Forget the bytes of packets that no waiting row refers to.
fn drop_unused(
    loaded: &mut [Option<Place>],
    kept: &[Rows],
    slice: &[usize],
    live: &mut Vec<usize>,
) {
    let mut used: Vec<u32> = kept
        .iter()
        .flat_map(|rows| rows.packet.iter().copied())
        .collect();
    used.sort_unstable();
    used.dedup();
    live.extend_from_slice(slice);
    live.retain(|number| {
        let keep = u32::try_from(*number).is_ok_and(|n| used.binary_search(&n).is_ok());
        if !keep {
            loaded[*number] = None;
        }
        keep
    });
}
