//! Processes and threads: which ones events are of.
//!
//! A process is a number on a host, in a pid namespace where that was recorded, and from a moment
//! on where a number was given again.

use ahash::HashMap;
use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_schema::DataType;

/// Number in place of a context that is missing.
const NOTHING: i32 = -1;
/// Threads that are found without looking for them, if their numbers do not fall together.
const REMEMBERED: usize = 256;
/// The process of an event of which none is known.
pub const NOBODY: u32 = u32::MAX;

/// A process.
#[derive(Clone, Debug)]
pub struct Process {
    /// Number of its host, as of `Identity::new`.
    pub host: u32,
    /// Its pid namespace; 0 where that was not recorded.
    pub namespace: i64,
    /// Its number; -1 where that was not recorded.
    pub vpid: i32,
    /// The first time that is its own, of several processes of one number.
    pub since: i64,
    /// Its last event.
    pub end: i64,
}

/// Host, pid namespace, process and thread.
pub type Asked = (u32, i64, Option<i32>, Option<i32>);

/// All processes, and the threads seen so far.
#[derive(Clone)]
pub struct Identity {
    /// Processes by their number.
    pub processes: Vec<Process>,
    /// Of each thread its process and its number there.
    pub threads: Vec<(u32, i32)>,
    /// Events without process or thread.
    pub without_context: u64,
    labels: Vec<String>,
    hosts: HashMap<String, u32>,
    by_number: HashMap<(u32, i64, i32), Vec<(i64, u32)>>,
    by_thread: HashMap<(u32, i32), u32>,
    /// What was asked last, by some bits of the thread.
    last: Vec<Option<(Asked, u32)>>,
}

/// The hosts of the rows of a batch.
pub struct Places {
    alone: u32,
    rows: Vec<u32>,
}

impl Places {
    /// The host of a row.
    #[must_use]
    pub fn host(&self, row: usize) -> u32 {
        self.rows.get(row).copied().unwrap_or(self.alone)
    }
}

impl Identity {
    /// Hosts by their numbers, and processes by theirs.
    #[must_use]
    pub fn new(hosts: &[String], processes: Vec<Process>) -> Self {
        let mut by_number: HashMap<_, Vec<_>> = HashMap::default();
        for (number, of) in (0..).zip(&processes) {
            let key = (of.host, of.namespace, of.vpid);
            by_number.entry(key).or_default().push((of.since, number));
        }
        for parts in by_number.values_mut() {
            parts.sort_unstable();
        }
        Self {
            processes,
            threads: Vec::new(),
            without_context: 0,
            labels: hosts.to_vec(),
            hosts: hosts.iter().cloned().zip(0..).collect(),
            by_number,
            by_thread: HashMap::default(),
            last: vec![None; REMEMBERED],
        }
    }

    /// The hosts of a batch's rows: one, or what the column of hosts says.
    #[must_use]
    pub fn places(&self, column: Option<&dyn Array>) -> Places {
        let number = |name: &str| self.hosts.get(name).copied().unwrap_or(NOBODY);
        let column = column.filter(|_| self.hosts.len() != 1);
        let rows = match column.map(|array| (array, array.data_type())) {
            Some((array, DataType::Utf8View)) => array
                .as_string_view()
                .iter()
                .map(|x| x.map_or(NOBODY, number))
                .collect(),
            Some((array, DataType::Utf8)) => array
                .as_string::<i32>()
                .iter()
                .map(|x| x.map_or(NOBODY, number))
                .collect(),
            _ => Vec::new(),
        };
        Places { alone: 0, rows }
    }

    /// The thread of an event, by its host, pid namespace, process, thread and time; and whether the
    /// same is always that thread, and nothing is to be counted.
    #[expect(clippy::similar_names, reason = "as the tracer calls them")]
    pub fn thread(&mut self, asked: Asked, time: i64) -> (u32, bool) {
        let (host, namespace, vpid, vtid) = asked;
        let whole = vpid.is_some() && vtid.is_some();
        self.without_context += u64::from(!whole);
        let slot = vtid.unwrap_or(NOTHING).cast_unsigned() as usize % REMEMBERED;
        if let Some((known, thread)) = self.last[slot]
            && known == asked
        {
            return (thread, whole);
        }
        let parts = self
            .by_number
            .get(&(host, namespace, vpid.unwrap_or(NOTHING)));
        let process = parts.and_then(|parts| {
            let after = parts.partition_point(|(since, _)| *since <= time);
            Some(parts.get(after.saturating_sub(1))?.1)
        });
        // What a number means may change where several processes had it.
        let alone = parts.is_some_and(|parts| parts.len() == 1);
        let thread = self.of_thread((process.unwrap_or(NOBODY), vtid.unwrap_or(NOTHING)));
        if alone {
            self.last[slot] = Some((asked, thread));
        }
        (thread, alone && whole)
    }

    fn of_thread(&mut self, key: (u32, i32)) -> u32 {
        *self.by_thread.entry(key).or_insert_with(|| {
            self.threads.push(key);
            u32::try_from(self.threads.len() - 1).unwrap_or(u32::MAX)
        })
    }

    /// The thread of a `Self::number`.
    #[expect(clippy::cast_possible_truncation, reason = "two numbers of 32 bits")]
    pub fn numbered(&mut self, number: i64) -> u32 {
        // One that is not known counts as -1.
        let process = ((number + 1) >> 32) as i32;
        self.of_thread((process.cast_unsigned(), number as i32))
    }

    /// The process of a thread.
    #[must_use]
    pub fn process(&self, thread: u32) -> u32 {
        self.threads[thread as usize].0
    }

    /// The last event of a process; the last time there is of one that is not known.
    #[must_use]
    pub fn end(&self, process: u32) -> i64 {
        self.processes
            .get(process as usize)
            .map_or(i64::MAX, |of| of.end)
    }

    /// The number of the host of a process.
    #[must_use]
    pub fn host(&self, process: u32) -> u32 {
        self.processes
            .get(process as usize)
            .map_or(NOBODY, |of| of.host)
    }

    /// The same, where it is known.
    #[must_use]
    pub fn place(&self, process: u32) -> Option<u32> {
        Some(self.host(process)).filter(|host| *host != NOBODY)
    }

    /// Where a process is.
    #[must_use]
    pub fn place_of(&self, process: u32) -> (u32, i32) {
        (self.host(process), self.vpid(process))
    }

    /// The number that a process had, or -1.
    #[must_use]
    pub fn vpid(&self, process: u32) -> i32 {
        let of = self.processes.get(process as usize);
        of.map_or(NOTHING, |of| of.vpid)
    }

    /// The number that a thread had, or -1.
    #[must_use]
    pub fn vtid(&self, thread: u32) -> i32 {
        self.threads[thread as usize].1
    }

    /// Labels of the hosts, by their numbers.
    #[must_use]
    pub fn hosts(&self) -> &[String] {
        &self.labels
    }

    /// One number for a thread, in the order of processes and threads.
    #[must_use]
    pub fn number(&self, thread: u32) -> i64 {
        let (process, thread) = self.threads[thread as usize];
        (i64::from(process.cast_signed()) << 32) + i64::from(thread)
    }
}
