//! Processes and threads: which ones events are of.
//!
//! A process is a number on a host, in a pid namespace where that was recorded, and from a moment
//! on where a number was given again.

use ahash::HashMap;
use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_schema::DataType;

use crate::ids::{Id, Maybe, get, numbered};
use crate::intake::Event;

/// Number in place of a context that is missing.
pub const NOTHING: i32 = -1;
/// Threads that are found without looking for them, if their numbers do not fall together.
const REMEMBERED: usize = 256;

/// A host, as what is numbered.
pub enum Host {}
/// A thread, as what is numbered.
pub enum Thread {}

/// A process.
#[derive(Clone, Debug)]
pub struct Process {
    /// Number of its host, as of `Identity::new`.
    pub host: Maybe<Host>,
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
pub type Asked = (Maybe<Host>, i64, Option<i32>, Option<i32>);

/// Host, pid namespace and process.
type Number = (Maybe<Host>, i64, i32);

/// All processes, and the threads seen so far.
#[derive(Clone)]
pub struct Identity {
    /// Processes by their number.
    pub processes: Vec<Process>,
    /// Of each thread its process and its number there.
    pub threads: Vec<(Maybe<Process>, i32)>,
    /// Events without process or thread.
    pub without_context: u64,
    labels: Vec<String>,
    hosts: HashMap<String, Id<Host>>,
    by_number: HashMap<Number, Vec<(i64, Id<Process>)>>,
    by_thread: HashMap<(Maybe<Process>, i32), Id<Thread>>,
    /// What was asked last, by some bits of the thread.
    last: Vec<Option<(Asked, Id<Thread>)>>,
}

/// The text of a row of a column, if it is one of text and has one there.
pub(crate) fn text_at(array: &dyn Array, row: usize) -> Option<&str> {
    match array.data_type() {
        _ if array.is_null(row) => None,
        DataType::Utf8View => Some(array.as_string_view().value(row)),
        DataType::Utf8 => Some(array.as_string::<i32>().value(row)),
        _ => None,
    }
}

impl Identity {
    /// Hosts by their numbers, and processes by theirs.
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
            labels: hosts.to_vec(),
            hosts: numbered(hosts)
                .map(|(number, name)| (name.clone(), number))
                .collect(),
            by_number,
            by_thread: HashMap::default(),
            last: vec![None; REMEMBERED],
        }
    }

    /// The host of a row of a batch: the only one, or what the column of hosts says.
    pub(crate) fn host_at(&self, column: Option<&dyn Array>, row: usize) -> Maybe<Host> {
        match column {
            Some(names) if self.hosts.len() != 1 => self.hosts.get(text_at(names, row)?).copied(),
            _ => Some(Id::FIRST),
        }
    }

    /// The thread of an event, by its host, pid namespace, process, thread and time.
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
        // What a number means may change where several processes had it.
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
            // No machine has memory for more than there are numbers.
            Id::at(self.threads.len() - 1).unwrap_or(Id::FIRST)
        })
    }

    /// The thread of a `Self::number`.
    #[expect(clippy::cast_possible_truncation, reason = "two numbers of 32 bits")]
    pub(crate) fn numbered(&mut self, number: i64) -> Id<Thread> {
        // A process that is not known counts as -1.
        let process = ((number + 1) >> 32) as i32;
        self.of_thread((Id::new(process.cast_unsigned()), number as i32))
    }

    /// Something happened in a process, whose last event is at least as late.
    pub(crate) fn on_event(&mut self, event: &Event) {
        let process = event.process.map(Id::place);
        if let Some(process) = process.and_then(|process| self.processes.get_mut(process)) {
            process.end = event.time.max(process.end);
        }
    }

    /// The process of a thread.
    pub(crate) fn process(&self, thread: Id<Thread>) -> Maybe<Process> {
        self.threads[thread.place()].0
    }

    /// The last event of a process; the last time there is of one that is not known.
    pub(crate) fn end(&self, process: Maybe<Process>) -> i64 {
        get(&self.processes, process).map_or(i64::MAX, |process| process.end)
    }

    /// The host of a process.
    pub(crate) fn host(&self, process: Maybe<Process>) -> Maybe<Host> {
        get(&self.processes, process)?.host
    }

    /// The number that a process had, or -1.
    pub(crate) fn vpid(&self, process: Maybe<Process>) -> i32 {
        get(&self.processes, process).map_or(NOTHING, |process| process.vpid)
    }

    /// The number that a thread had, or -1.
    pub(crate) fn vtid(&self, thread: Id<Thread>) -> i32 {
        self.threads[thread.place()].1
    }

    /// Labels of the hosts, by their numbers.
    pub(crate) fn hosts(&self) -> &[String] {
        &self.labels
    }

    /// One number for a thread, in the order of processes and threads.
    pub(crate) fn number(&self, thread: Id<Thread>) -> i64 {
        let (process, thread) = self.threads[thread.place()];
        let process = process.map_or(-1, |process| i64::from(process.number()));
        (process << 32) + i64::from(thread)
    }
}
