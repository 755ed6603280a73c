//! Find the process and thread of each event.
//!
//! A process is a number on a host, in a pid namespace if that was recorded, and from a certain
//! time on if its number was used again.

use ahash::HashMap;
use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_schema::DataType;

use crate::ids::{Id, Maybe, entry, get, numbered};
use crate::intake::Event;
use crate::kinds::Kind;

/// The number that stands for a missing context.
pub const NOTHING: i32 = -1;
/// The number of slots in the cache of threads, by thread number modulo this.
const REMEMBERED: usize = 256;

/// Marker type of a host's number.
pub enum Host {}
/// Marker type of a thread's number.
pub enum Thread {}

/// A process.
#[derive(Clone, Debug)]
pub struct Process {
    /// Number of its host, in the list given to `Identity::new`.
    pub host: Maybe<Host>,
    /// Its pid namespace; 0 if that was not recorded.
    pub namespace: i64,
    /// Its number; -1 if that was not recorded.
    pub vpid: i32,
    /// The time from which the number means this process, if several processes had that number.
    pub since: i64,
    /// The time of its last event.
    pub end: i64,
}

/// A lookup of a thread: host, pid namespace, process number and thread number.
pub type Asked = (Maybe<Host>, i64, Option<i32>, Option<i32>);

/// Host, pid namespace and process number.
type Number = (Maybe<Host>, i64, i32);

/// All processes, and the threads seen so far.
#[derive(Clone)]
pub struct Identity {
    /// Processes by their number.
    pub processes: Vec<Process>,
    /// The process of each thread, and its number there.
    pub threads: Vec<(Maybe<Process>, i32)>,
    /// How many events have no process or thread.
    pub without_context: u64,
    /// When a thread of each process last took something, began a callback, or waited.
    free: Vec<Option<i64>>,
    /// Labels of the hosts, by number.
    pub hosts: Vec<String>,
    by_number: HashMap<Number, Vec<(i64, Id<Process>)>>,
    by_thread: HashMap<(Maybe<Process>, i32), Id<Thread>>,
    /// The last lookup and its result, by thread number modulo `REMEMBERED`.
    last: Vec<Option<(Asked, Id<Thread>)>>,
}

/// Return the text in a row of a column, if the column holds text and the row is not null.
pub(crate) fn text_at(array: &dyn Array, row: usize) -> Option<&str> {
    match array.data_type() {
        _ if array.is_null(row) => None,
        DataType::Utf8View => Some(array.as_string_view().value(row)),
        DataType::Utf8 => Some(array.as_string::<i32>().value(row)),
        _ => None,
    }
}

impl Identity {
    /// Take hosts and processes, each in the order of their numbers.
    #[must_use]
    pub fn new(hosts: &[String], processes: Vec<Process>) -> Self {
        let mut by_number: HashMap<_, Vec<_>> = HashMap::default();
        for (number, process) in numbered(&processes) {
            let key = (process.host, process.namespace, process.vpid);
            by_number
                .entry(key)
                .or_default()
                .push((process.since, number));
        }
        for parts in by_number.values_mut() {
            parts.sort_unstable();
        }
        Self {
            processes,
            threads: Vec::new(),
            without_context: 0,
            free: Vec::new(),
            hosts: hosts.to_vec(),
            by_number,
            by_thread: HashMap::default(),
            last: vec![None; REMEMBERED],
        }
    }

    /// Return the host of a row of a batch: the only one, or the one in the column of hosts.
    pub(crate) fn host_at(&self, column: Option<&dyn Array>, row: usize) -> Maybe<Host> {
        match column {
            Some(names) if self.hosts.len() != 1 => self.host_named(text_at(names, row)?),
            _ => Some(Id::FIRST),
        }
    }

    /// Return the host with a label.
    pub(crate) fn host_named(&self, label: &str) -> Maybe<Host> {
        Id::at(self.hosts.iter().position(|host| host == label)?)
    }

    /// Return the thread of an event, by its host, pid namespace, process, thread and time.
    #[expect(clippy::similar_names, reason = "as the tracer calls them")]
    pub(crate) fn thread(&mut self, asked: Asked, time: i64) -> Id<Thread> {
        let (host, namespace, vpid, vtid) = asked;
        self.without_context += u64::from(vpid.is_none() || vtid.is_none());
        let slot = vtid.unwrap_or(NOTHING).cast_unsigned() as usize % REMEMBERED;
        if let Some((last_asked, thread)) = self.last[slot]
            && last_asked == asked
        {
            return thread;
        }
        let parts = self
            .by_number
            .get(&(host, namespace, vpid.unwrap_or(NOTHING)));
        let process = parts.and_then(|parts| {
            let after = parts.partition_point(|(since, _)| *since <= time);
            Some(parts.get(after.saturating_sub(1))?.1)
        });
        // The meaning of a number may change if several processes had it.
        let alone = parts.is_some_and(|parts| parts.len() == 1);
        let thread = self.of_thread((process, vtid.unwrap_or(NOTHING)));
        if alone {
            self.last[slot] = Some((asked, thread));
        }
        thread
    }

    fn of_thread(&mut self, key: (Maybe<Process>, i32)) -> Id<Thread> {
        *self.by_thread.entry(key).or_insert_with(|| {
            self.threads.push(key);
            // No machine has memory for more threads than there are numbers.
            Id::at(self.threads.len() - 1).unwrap_or(Id::FIRST)
        })
    }

    /// Return the thread of a `Self::number`.
    #[expect(clippy::cast_possible_truncation, reason = "two numbers of 32 bits")]
    pub(crate) fn numbered(&mut self, number: i64) -> Id<Thread> {
        // An unknown process counts as -1.
        let process = ((number + 1) >> 32) as i32;
        self.of_thread((Id::new(process.cast_unsigned()), number as i32))
    }

    /// Note an event of a process, whose last event is at least as late.
    pub(crate) fn on_event(&mut self, kind: Kind, event: &Event) {
        let process = event.process.map(Id::place);
        if let Some(process) = process.and_then(|process| self.processes.get_mut(process)) {
            process.end = event.time.max(process.end);
        }
        if kind.of_free_thread()
            && let Some(process) = event.process
        {
            *entry(&mut self.free, process) = Some(event.time);
        }
    }

    /// Return the process of a thread.
    pub(crate) fn process(&self, thread: Id<Thread>) -> Maybe<Process> {
        self.threads[thread.place()].0
    }

    /// Return the time of a process's last event, `i64::MAX` if the process is not known.
    pub(crate) fn end(&self, process: Maybe<Process>) -> i64 {
        get(&self.processes, process).map_or(i64::MAX, |process| process.end)
    }

    /// Return the time of the last event of the processes on each host.
    pub(crate) fn host_ends(&self) -> HashMap<Maybe<Host>, i64> {
        let mut ends = HashMap::default();
        for process in &self.processes {
            let end = ends.entry(process.host).or_insert(process.end);
            *end = process.end.max(*end);
        }
        ends
    }

    /// Return when a process could last take a message: by its last event if no event shows that,
    /// `i64::MAX` if the process is not known.
    pub(crate) fn free(&self, process: Maybe<Process>) -> i64 {
        let free = process.and_then(|process| *self.free.get(process.place())?);
        free.unwrap_or_else(|| self.end(process))
    }

    /// Return the host of a process.
    pub(crate) fn host(&self, process: Maybe<Process>) -> Maybe<Host> {
        get(&self.processes, process)?.host
    }

    /// Return the number that a process had, or -1.
    pub(crate) fn vpid(&self, process: Maybe<Process>) -> i32 {
        get(&self.processes, process).map_or(NOTHING, |process| process.vpid)
    }

    /// Return the number that a thread had, or -1.
    pub(crate) fn vtid(&self, thread: Id<Thread>) -> i32 {
        self.threads[thread.place()].1
    }

    /// Return one number for a thread, which sorts by process, then by thread.
    pub(crate) fn number(&self, thread: Id<Thread>) -> i64 {
        let (process, thread) = self.threads[thread.place()];
        let process = process.map_or(-1, |process| i64::from(process.number()));
        (process << 32) + i64::from(thread)
    }
}
