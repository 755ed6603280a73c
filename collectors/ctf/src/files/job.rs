//! Describe what is decoded of a recording, where it goes, and what was decoded.

use std::collections::{BTreeMap, HashMap};

use arrow_array::{Array, Int32Array, RecordBatch, StringViewArray};

use super::failure::Result;
use super::recording::{LossRow, Recording};
use crate::scan::Filter;
use crate::stage::Projection;

/// What to decode; by default everything.
#[derive(Debug, Clone, Default)]
pub struct Want {
    /// Names of events; names that no trace declares are ignored.
    pub events: Option<Vec<String>>,
    /// Earliest time, in nanoseconds since 1970.
    pub begin_ns: Option<i64>,
    /// Latest time, in nanoseconds since 1970.
    pub end_ns: Option<i64>,
    /// Columns.
    pub columns: Projection,
    /// Whether to note the times and processes of [`Seen`], the latter if their columns are wanted.
    pub note: bool,
    /// Number of threads that decode; 0 for one per core.
    pub threads: usize,
}

impl Want {
    /// Whether events of this name are wanted.
    #[must_use]
    pub fn has(&self, event: &str) -> bool {
        let names = self.events.as_ref();
        names.is_none_or(|names| names.iter().any(|name| name == event))
    }
}

/// A consumer of the batches of one table, in order.
pub trait Sink: Send {
    /// Take a batch.
    ///
    /// # Errors
    ///
    /// The batch cannot be taken, which ends decoding.
    fn take(&mut self, batch: RecordBatch) -> Result<()>;

    /// End the table, after its last batch.
    ///
    /// # Errors
    ///
    /// The table cannot be completed.
    fn end(&mut self) -> Result<()> {
        Ok(())
    }
}

impl Sink for () {
    fn take(&mut self, _: RecordBatch) -> Result<()> {
        Ok(())
    }
}

impl Sink for Vec<RecordBatch> {
    fn take(&mut self, batch: RecordBatch) -> Result<()> {
        self.push(batch);
        Ok(())
    }
}

/// A decoding job.
pub struct Job<'a> {
    /// The recording, with its packets.
    pub recording: &'a Recording,
    /// The wanted tables and times.
    pub filter: Filter,
    /// The wanted columns.
    pub projection: &'a Projection,
    /// Number of threads; with one, the caller's own thread does everything.
    pub threads: usize,
    note: bool,
}

impl<'a> Job<'a> {
    /// Make a job from what is wanted.
    pub fn new(recording: &'a Recording, want: &'a Want) -> Self {
        let tables = recording.catalog.tables.iter();
        Self {
            recording,
            filter: Filter {
                tables: tables.map(|table| want.has(&table.name)).collect(),
                begin_ns: want.begin_ns.unwrap_or(i64::MIN),
                end_ns: want.end_ns.unwrap_or(i64::MAX),
            },
            projection: &want.columns,
            threads: match want.threads {
                0 => std::thread::available_parallelism().map_or(1, usize::from),
                wanted => wanted,
            },
            note: want.note,
        }
    }

    /// Give a batch to its table.
    pub fn give(&self, batch: RecordBatch, sink: &mut impl Sink, seen: &mut Seen) -> Result<()> {
        if self.note {
            seen.note(&batch);
        }
        seen.rows += batch.num_rows() as u64;
        sink.take(batch)
    }
}

/// What was decoded of one table.
#[derive(Debug, Default, Clone)]
pub struct Seen {
    /// Number of rows.
    pub rows: u64,
    /// First and last time.
    pub times: Option<(i64, i64)>,
    /// First time and thread name by (host label, process id).
    pub processes: HashMap<(String, i32), (i64, Option<String>)>,
}

/// What was decoded of all tables.
#[derive(Debug, Default)]
pub struct Summary {
    /// By table.
    pub tables: Vec<Seen>,
    /// Losses found while decoding.
    pub losses: Vec<LossRow>,
    /// Warnings.
    pub warnings: Vec<String>,
}

/// The name of each process, if known, by (host label, process id).
pub type Processes<'a> = BTreeMap<(&'a str, i32), Option<&'a str>>;

impl Summary {
    /// Return the first and last time, if they were noted.
    #[must_use]
    pub fn times(&self) -> Option<(i64, i64)> {
        let times = self.tables.iter().filter_map(|seen| seen.times);
        times.reduce(|(begin, end), (b, e)| (begin.min(b), end.max(e)))
    }

    /// Return the processes, if they were noted, named after the first thread that recorded.
    #[must_use]
    pub fn processes(&self) -> Processes<'_> {
        let mut first: BTreeMap<_, (i64, _)> = BTreeMap::new();
        for seen in &self.tables {
            for ((host, vpid), (time, name)) in &seen.processes {
                let here = (*time, name.as_deref());
                let known = first.entry((host.as_str(), *vpid)).or_insert(here);
                if *time < known.0 {
                    *known = here;
                }
            }
        }
        first
            .into_iter()
            .map(|(key, (_, name))| (key, name))
            .collect()
    }
}

impl Seen {
    /// Note the times of a batch, and the processes if it has their columns.
    fn note(&mut self, batch: &RecordBatch) {
        let rows = batch.num_rows();
        let (first, last) = (time_of(batch, 0), time_of(batch, rows - 1));
        self.times = Some(match self.times {
            Some((begin, end)) => (begin.min(first), end.max(last)),
            None => (first, last),
        });
        let column = |name| batch.column_by_name(name).map(|c| c.as_ref().as_any());
        let text = |name| column(name).and_then(|c| c.downcast_ref::<StringViewArray>());
        let (Some(hosts), Some(names)) = (text("host"), text("procname")) else {
            return;
        };
        let vpids = column("vpid").and_then(|c| c.downcast_ref::<Int32Array>());
        let Some(vpids) = vpids.filter(|v| v.null_count() < v.len()) else {
            return;
        };
        // Few processes alternate; hosts have short labels, which are in the view itself.
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
