//! Read events from batches of each kind, and merge them by time.
//!
//! Each kind of event has a fixed list of fields. They are found by name once per batch, as 64 bits
//! each, whatever width they were recorded in; from then on, fields are found by index.

use ahash::HashMap;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt8Type, UInt64Type};
use arrow_array::{Array, ArrayRef, RecordBatch, downcast_integer_array};
use arrow_buffer::{ArrowNativeType, NullBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType};

use crate::identity::{Identity, NOTHING, Process, Thread};
use crate::ids::{Id, Maybe};
use crate::kinds::{KINDS, Kind};

/// Batches of one kind of event, in order of time.
pub type Batches = Box<dyn Iterator<Item = Result<Batch, ArrowError>> + Send>;

/// The largest number of fields of a kind.
const MOST: usize = 5;

/// One event, with everything that is read from it in one place.
#[derive(Clone, Copy)]
pub struct Event {
    pub time: i64,
    fields: [u64; MOST],
    pub thread: Id<Thread>,
    pub process: Maybe<Process>,
    /// The CPU that recorded the event, if that was requested and is known; else -1.
    pub cpu: i32,
    /// A bit for each field that is present.
    validity: u8,
}

impl Event {
    /// Make an event without fields, of the first thread and process.
    pub const fn new(time: i64, cpu: i32) -> Self {
        Self {
            time,
            fields: [0; MOST],
            thread: Id::FIRST,
            process: Some(Id::FIRST),
            cpu,
            validity: 0,
        }
    }

    /// Return the event of a thread with these fields.
    pub(crate) fn of(self, thread: Id<Thread>, process: Maybe<Process>, fields: [u64; 2]) -> Self {
        let mut event = Self {
            thread,
            process,
            validity: 0b11,
            ..self
        };
        event.fields[..2].copy_from_slice(&fields);
        event
    }

    /// Return a field, by its index in the list of its kind.
    pub(crate) fn get(&self, field: usize) -> Option<u64> {
        (self.validity >> field & 1 == 1).then(|| self.fields[field])
    }

    /// Return a signed field, by its index in the list of its kind.
    pub(crate) fn signed(&self, field: usize) -> Option<i64> {
        self.get(field).map(u64::cast_signed)
    }
}

/// A column of integers as 64 bits each; a column that was not recorded has no values.
#[derive(Default)]
struct Ints {
    values: ScalarBuffer<u64>,
    nulls: Option<NullBuffer>,
}

impl Ints {
    fn get(&self, row: usize) -> Option<u64> {
        if self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            return None;
        }
        self.values.get(row).copied()
    }

    /// Read eight bytes of each list as a number; null if the list is too short.
    fn eight(array: &dyn Array, first: usize) -> Self {
        let eight = |bytes: &dyn Array| {
            let bytes = bytes.as_primitive_opt::<UInt8Type>()?.values();
            Some(u64::from_le_bytes(
                bytes.get(first..first + 8)?.try_into().ok()?,
            ))
        };
        let value = |row: usize| match array.data_type() {
            _ if array.is_null(row) => None,
            DataType::List(_) => eight(&array.as_list::<i32>().value(row)),
            DataType::LargeList(_) => eight(&array.as_list::<i64>().value(row)),
            DataType::FixedSizeList(..) => eight(&array.as_fixed_size_list().value(row)),
            _ => None,
        };
        let values: Vec<Option<u64>> = (0..array.len()).map(value).collect();
        Self {
            values: values
                .iter()
                .map(|value| value.unwrap_or_default())
                .collect(),
            nulls: Some(values.iter().map(Option::is_some).collect()),
        }
    }

    fn named(batch: &RecordBatch, name: &str) -> Self {
        let (name, first) = match name.split_once('+') {
            Some((name, first)) => (name, first.parse().ok()),
            None => (name, None),
        };
        match (batch.column_by_name(name), first) {
            (None, _) => Self::default(),
            (Some(array), Some(first)) => Self::eight(array, first),
            (Some(array), None) => Self {
                values: bits(array.as_ref()),
                nulls: array.nulls().filter(|n| n.null_count() > 0).cloned(),
            },
        }
    }
}

/// Return the values of an array of integers (shared if of 64 bits), none of any other array.
fn bits(array: &dyn Array) -> ScalarBuffer<u64> {
    match array.data_type() {
        DataType::UInt64 => array.as_primitive::<UInt64Type>().values().clone(),
        DataType::Int64 => {
            let values = array.as_primitive::<Int64Type>().values();
            ScalarBuffer::new(values.inner().clone(), 0, values.len())
        }
        DataType::Boolean => array.as_boolean().values().iter().map(u64::from).collect(),
        // Readers restore the sign where it matters.
        _ => downcast_integer_array!(
            array => array.values().iter().map(|value| value.as_usize() as u64).collect(),
            _ => ScalarBuffer::from(Vec::new())
        ),
    }
}

/// The events of a batch; their threads are looked up when it is the batch's turn.
pub struct Batch {
    events: Vec<Event>,
    vpid: Ints,
    vtid: Ints,
    namespace: Ints,
    thread: Ints,
    hosts: Option<ArrayRef>,
}

impl Batch {
    /// Read the columns of a batch: `time_ns`, those that locate the events, and the kind's fields.
    #[must_use]
    pub fn new(batch: &RecordBatch, fields: &[&str]) -> Self {
        let column = |name: &str| Ints::named(batch, name);
        let (time, cpu) = (column("time_ns"), column("cpu_id"));
        let fields: Vec<Ints> = fields.iter().copied().map(column).collect();
        let event = |row: usize| {
            let cpu = cpu.get(row).map_or(NOTHING, narrow);
            let mut event = Event::new(time.values[row].cast_signed(), cpu);
            for (place, field) in fields.iter().enumerate() {
                if let Some(value) = field.get(row) {
                    event.fields[place] = value;
                    event.validity |= 1 << place;
                }
            }
            event
        };
        Self {
            events: (0..time.values.len()).map(event).collect(),
            vpid: column("vpid"),
            vtid: column("vtid"),
            namespace: column("ctx_pid_ns"),
            thread: column("thread"),
            hosts: batch.column_by_name("host").cloned(),
        }
    }

    /// Return the events in order of time, and of threads within the same time.
    fn events(self, identity: &mut Identity) -> Vec<Event> {
        let mut events = self.events;
        for (row, event) in events.iter_mut().enumerate() {
            let small = |ints: &Ints| ints.get(row).map(narrow);
            event.thread = if let Some(number) = self.thread.get(row) {
                identity.numbered(number.cast_signed())
            } else {
                let host = identity.host_at(self.hosts.as_deref(), row);
                let namespace = self.namespace.get(row).map_or(0, u64::cast_signed);
                let asked = (host, namespace, small(&self.vpid), small(&self.vtid));
                identity.thread(asked, event.time)
            };
            event.process = identity.process(event.thread);
        }
        let key = |event: &Event| (event.time, identity.number(event.thread));
        let sorted = |two: &[Event]| two[0].time < two[1].time || key(&two[0]) <= key(&two[1]);
        if !events.windows(2).all(sorted) {
            events.sort_by_key(key);
        }
        events
    }
}

struct Source {
    kind: Kind,
    batches: Batches,
    events: Vec<Event>,
    place: usize,
}

impl Source {
    /// Return the time of the next event, from the next batch if this one is exhausted.
    fn head(&mut self, identity: &mut Identity) -> Result<Option<i64>, ArrowError> {
        loop {
            if let Some(event) = self.events.get(self.place) {
                return Ok(Some(event.time));
            }
            self.place = 0;
            self.events.clear();
            match self.batches.next().transpose()? {
                Some(batch) => self.events = batch.events(identity),
                None => return Ok(None),
            }
        }
    }

    fn thread(&self) -> Maybe<Thread> {
        Some(self.events.get(self.place)?.thread)
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "columns of 32 bits, widened"
)]
fn narrow(bits: u64) -> i32 {
    bits.cast_signed() as i32
}

/// All kinds of events, merged by time.
pub struct Intake {
    sources: Vec<Source>,
    /// The time of the next event of each source; an exhausted source is never first.
    heads: Vec<i64>,
    /// The source of the event that was returned last.
    last: Option<usize>,
}

impl Intake {
    /// Take the batches by the name of their event without the provider; other names are ignored.
    ///
    /// # Errors
    ///
    /// A batch cannot be read.
    pub(crate) fn new(
        mut given: HashMap<String, Batches>,
        identity: &mut Identity,
    ) -> Result<Self, ArrowError> {
        let (mut sources, mut heads) = (Vec::new(), Vec::new());
        for (kind, name, _) in KINDS {
            let Some(batches) = given.remove(*name) else {
                continue;
            };
            let mut source = Source {
                kind: *kind,
                batches,
                events: Vec::new(),
                place: 0,
            };
            heads.push(before_the_end(source.head(identity)?, i64::MIN));
            sources.push(source);
        }
        Ok(Self {
            sources,
            heads,
            last: None,
        })
    }

    /// Return the next event in order of time; within the same time by thread, then by kind.
    ///
    /// # Errors
    ///
    /// A batch cannot be read.
    pub(crate) fn next(
        &mut self,
        identity: &mut Identity,
    ) -> Result<Option<(Kind, &Event)>, ArrowError> {
        if let Some(last) = self.last {
            let source = &mut self.sources[last];
            source.place += 1;
            self.heads[last] = before_the_end(source.head(identity)?, self.heads[last]);
        }
        let (mut first, mut number, mut same) = (i64::MAX, usize::MAX, false);
        for (place, time) in self.heads.iter().enumerate() {
            same = (same && *time >= first) || *time == first;
            number = if *time < first { place } else { number };
            first = first.min(*time);
        }
        if number == usize::MAX {
            return Ok(None);
        }
        if same {
            let alike = (number..self.heads.len()).filter(|place| self.heads[*place] == first);
            let thread = |place: &usize| {
                let thread = self.sources[*place].thread();
                thread.map(|thread| identity.number(thread))
            };
            number = alike.min_by_key(thread).unwrap_or(number);
        }
        self.last = Some(number);
        let source = &self.sources[number];
        let event = source.events.get(source.place);
        Ok(event.map(|event| (source.kind, event)))
    }
}

/// Clamp a time to at least `least` and below `i64::MAX`, which stands for an exhausted source.
fn before_the_end(time: Option<i64>, least: i64) -> i64 {
    time.map_or(i64::MAX, |time| time.clamp(least, i64::MAX - 1))
}
