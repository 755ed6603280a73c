//! Rows as tables.

use std::collections::BTreeMap;

use ahash::{HashMap, HashMapExt};
use arrow_array::RecordBatch;

use crate::Model;
use crate::callbacks::{Callbacks, Candidate, Execution};
use crate::messages::{Message, Messages, OUTCOMES};
use crate::rows::{Columns, NEVER, NONE};
use crate::services::Call;
use crate::takes::Take;
use crate::timers::{Activation, activations};

/// The system clock against that of the events is looked at once in so many nanoseconds.
const BLOCK: i64 = 1_000_000_000;
const HOW: &[&str] = &["exact", "approximate", "ambiguous"];

/// The heap is told of once in so many nanoseconds.
const STEP: i64 = 100_000_000;

/// What lives of a process or callback.
#[derive(Clone, Copy, Default)]
struct HeapRow {
    process: u32,
    callback: u32,
    time: i64,
    peak: i64,
    bytes: i64,
    blocks: i64,
    allocated: i64,
    allocations: i64,
}

/// What was counted.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Numbers by name.
    pub numbers: Vec<(&'static str, u64)>,
    /// Of each subscription the publications after its process had gone.
    pub gone: Vec<(u32, u64)>,
    /// Subscriptions whose takes were not recorded.
    pub untaken: Vec<u32>,
    /// Topics of takes without a publication.
    pub alone_on: Vec<String>,
}

impl Model {
    fn execution(&self, number: u32) -> Option<&Execution> {
        self.callbacks.executions.get(number as usize)
    }

    fn start(&self, number: u32) -> i64 {
        self.execution(number).map_or(NEVER, |of| of.start)
    }

    fn end(&self, number: u32) -> i64 {
        self.execution(number).map_or(NEVER, |of| of.end)
    }

    fn process(&self, thread: u32) -> u32 {
        self.identity.process(thread)
    }

    pub(crate) fn tables(&self, messages: &Messages) -> (Vec<(&'static str, RecordBatch)>, Counts) {
        let tables = [
            ("callback_instances", self.execution_columns()),
            ("publications", self.publication_columns(messages)),
            ("takes", self.take_columns()),
            ("messages", self.message_columns(messages)),
            ("one_sided_messages", self.one_sided_columns(messages)),
            ("executor_intervals", self.interval_columns()),
            ("service_calls", self.call_columns()),
            ("timer_activations", self.activation_columns()),
            ("heap", self.heap_columns(false)),
            ("callback_heap", self.heap_columns(true)),
            ("callback_allocations", self.allocation_columns()),
            ("ways", ways(messages)),
            ("clock_offsets", self.clock_offsets(messages)),
        ];
        let tables = tables
            .into_iter()
            .filter_map(|(name, columns)| Some((name, columns.batch()?)));
        (tables.collect(), self.counts(messages))
    }

    fn execution_columns(&self) -> Columns {
        let (mut columns, rows) = (Columns::default(), &self.callbacks.executions);
        let texts = self.known.names.texts();
        columns.number(
            "callback_instance_id",
            0..u32::try_from(rows.len()).unwrap_or(NONE),
        );
        columns.process("proc", rows.iter().map(|row| self.process(row.thread)));
        columns.long(
            "thread",
            rows.iter().map(|row| self.identity.number(row.thread)),
        );
        columns.number("callback_id", rows.iter().map(|row| row.callback));
        let of = |row: &Execution| self.known.callbacks.get(row.callback as usize);
        columns.name(
            "kind",
            rows.iter().map(|row| of(row).map_or(NONE, |of| of.kind)),
            texts,
        );
        columns.number(
            "owner_id",
            rows.iter().map(|row| of(row).map_or(NONE, |of| of.owner)),
        );
        columns.name(
            "name",
            rows.iter().map(|row| of(row).map_or(NONE, |of| of.name)),
            texts,
        );
        columns.name(
            "node",
            rows.iter().map(|row| of(row).map_or(NONE, |of| of.node)),
            texts,
        );
        columns.name(
            "symbol",
            rows.iter().map(|row| of(row).map_or(NONE, |of| of.symbol)),
            texts,
        );
        columns.long("start_ns", rows.iter().map(|row| row.start));
        columns.long("end_ns", rows.iter().map(|row| row.end));
        let duration = |row| Callbacks::duration(row).unwrap_or(NEVER);
        columns.long("duration_ns", rows.iter().map(duration));
        columns.truth("intra_process", rows.iter().map(|row| row.intra));
        columns
    }

    fn publication_columns(&self, messages: &Messages) -> Columns {
        let (mut columns, rows) = (Columns::default(), &self.publications.rows);
        let (sources, texts) = (&messages.sources, self.known.names.texts());
        columns.number("message_id", 0..u32::try_from(rows.len()).unwrap_or(NONE));
        columns.process("proc", rows.iter().map(|row| self.process(row.thread)));
        columns.long(
            "thread",
            rows.iter().map(|row| self.identity.number(row.thread)),
        );
        columns.number("publisher_id", sources.iter().map(|of| of.publisher));
        columns.name("topic", sources.iter().map(|of| of.topic), texts);
        columns.name("node", sources.iter().map(|of| of.node), texts);
        columns.long("publish_ns", rows.iter().map(|row| row.publish));
        columns.long("rclcpp_publish_ns", rows.iter().map(|row| row.rclcpp));
        columns.long("intra_publish_ns", rows.iter().map(|row| row.intra));
        columns.long("rcl_publish_ns", rows.iter().map(|row| row.rcl));
        columns.long("rmw_publish_ns", rows.iter().map(|row| row.rmw));
        columns.long("source_timestamp_ns", rows.iter().map(|row| row.stamp));
        let within = rows
            .iter()
            .map(|row| self.callbacks.enclosing(row.within, row.publish));
        columns.number("callback_instance_id", within);
        columns
    }

    fn take_columns(&self) -> Columns {
        let (mut columns, rows) = (Columns::default(), &self.takes.rows);
        let texts = self.known.names.texts();
        let numbers = 0..u32::try_from(rows.len()).unwrap_or(NONE);
        columns.number("take_id", numbers.clone());
        columns.process("proc", rows.iter().map(|row| self.process(row.thread)));
        columns.long(
            "thread",
            rows.iter().map(|row| self.identity.number(row.thread)),
        );
        columns.number("subscription_id", rows.iter().map(|row| row.subscription));
        columns.name(
            "topic",
            numbers.map(|number| self.take_topic(number)),
            texts,
        );
        columns.name(
            "node",
            rows.iter().map(|row| self.node_at(row.subscription)),
            texts,
        );
        columns.long("take_ns", rows.iter().map(|row| row.time));
        columns.long("rcl_take_ns", rows.iter().map(|row| row.rcl));
        columns.long("rclcpp_take_ns", rows.iter().map(|row| row.rclcpp));
        columns.long("source_timestamp_ns", rows.iter().map(|row| row.stamp));
        columns.truth("intra_process", rows.iter().map(|row| Some(row.intra)));
        columns.number("callback_instance_id", rows.iter().map(|row| row.execution));
        columns
    }

    fn node_at(&self, subscription: u32) -> u32 {
        let of = self.known.subscriptions.get(subscription as usize);
        of.map_or(NONE, |of| of.node)
    }

    fn message_columns(&self, messages: &Messages) -> Columns {
        let (mut columns, rows) = (Columns::default(), &messages.rows);
        let texts = self.known.names.texts();
        let source = |row: &Message| messages.sources.get(row.message as usize);
        let sent = |row: &Message| self.publications.rows.get(row.message as usize);
        let take = |row: &Message| self.takes.rows.get(row.take as usize);
        columns.number("message_id", rows.iter().map(|row| row.message));
        let topic = |row: &Message| match source(row).map_or(NONE, |of| of.topic) {
            NONE => self.known.topic_at(row.subscription),
            topic => topic,
        };
        columns.name("topic", rows.iter().map(topic), texts);
        let publisher = |row: &Message| source(row).map_or(NONE, |of| of.publisher);
        columns.number("publisher_id", rows.iter().map(publisher));
        columns.number("subscription_id", rows.iter().map(|row| row.subscription));
        let node = |row: &Message| source(row).map_or(NONE, |of| of.node);
        columns.name("publisher_node", rows.iter().map(node), texts);
        let node = |row: &Message| self.node_at(row.subscription);
        columns.name("subscription_node", rows.iter().map(node), texts);
        let process = |row| sent(row).map_or(NONE, |of| self.process(of.thread));
        columns.process("publisher_proc", rows.iter().map(process));
        columns.process("subscription_proc", rows.iter().map(|row| row.process));
        columns.truth("intra_process", rows.iter().map(|row| row.intra));
        let publish = |row: &Message| sent(row).map_or(NEVER, |of| of.publish);
        columns.long("publish_ns", rows.iter().map(publish));
        columns.long(
            "rcl_publish_ns",
            rows.iter().map(|row| sent(row).map_or(NEVER, |of| of.rcl)),
        );
        columns.long(
            "rmw_publish_ns",
            rows.iter().map(|row| sent(row).map_or(NEVER, |of| of.rmw)),
        );
        let stamp = |row| source(row).map_or(NEVER, |of| of.key);
        columns.long("source_timestamp_ns", rows.iter().map(stamp));
        columns.long(
            "take_ns",
            rows.iter().map(|row| take(row).map_or(NEVER, |of| of.time)),
        );
        columns.long(
            "rclcpp_take_ns",
            rows.iter()
                .map(|row| take(row).map_or(NEVER, |of| of.rclcpp)),
        );
        columns.long(
            "callback_start_ns",
            rows.iter().map(|row| self.start(row.execution)),
        );
        columns.long(
            "callback_end_ns",
            rows.iter().map(|row| self.end(row.execution)),
        );
        let latency = |row: &Message| match (self.start(row.execution), publish(row)) {
            (NEVER, _) | (_, NEVER) => NEVER,
            (start, publish) => start.wrapping_sub(publish),
        };
        columns.long("latency_ns", rows.iter().map(latency));
        columns.word("outcome", rows.iter().map(|row| row.outcome), OUTCOMES);
        columns.word("match", rows.iter().map(|row| row.how as u8), HOW);
        columns.number("callback_instance_id", rows.iter().map(|row| row.execution));
        columns
    }

    /// Stamps of the system clock: host, time, how far it was ahead of the events' clock.
    fn stamps(&self) -> impl Iterator<Item = (u32, i64, i64)> {
        let rows = self.publications.rows.iter();
        let rows = rows.filter(|row| row.rmw != NEVER && row.stamp != NEVER);
        rows.map(|row| {
            let host = self.identity.host(self.process(row.thread));
            (host, row.rmw, row.stamp.wrapping_sub(row.rmw))
        })
    }

    /// Takes without a publication, with a latency from their source timestamps.
    fn one_sided_columns(&self, messages: &Messages) -> Columns {
        let mut columns = Columns::default();
        let texts = self.known.names.texts();
        let mut near: HashMap<u32, Vec<(i64, i64)>> = HashMap::new();
        if !messages.alone.is_empty() {
            for (host, time, offset) in self.stamps() {
                near.entry(host).or_default().push((time, offset));
            }
        }
        for stamps in near.values_mut() {
            stamps.sort_by_key(|(time, _)| *time);
        }
        let rows: Vec<(u32, &Take)> = messages
            .alone
            .iter()
            .map(|row| (*row, &self.takes.rows[*row as usize]))
            .collect();
        let offsets: Vec<i64> = rows
            .iter()
            .map(|(_, take)| {
                let host = self.identity.host(self.process(take.thread));
                nearest(near.get(&host).map_or(&[], Vec::as_slice), take.time)
            })
            .collect();
        let there: ahash::HashSet<u32> = self.known.publishers.iter().map(|of| of.topic).collect();
        let told: Vec<(i64, u8)> = rows
            .iter()
            .zip(&offsets)
            .map(|((_, take), offset)| {
                let start = self.start(take.execution);
                let ahead = if *offset == NEVER { 0 } else { *offset };
                let sent = take.stamp.saturating_sub(ahead);
                let created = self.known.subscriptions.get(take.subscription as usize);
                let stamped = take.stamp != NEVER;
                if stamped && created.is_some_and(|of| sent < of.created) {
                    (NEVER, 2)
                } else if start == NEVER {
                    (NEVER, 1)
                } else {
                    (
                        if stamped {
                            start.wrapping_sub(sent)
                        } else {
                            NEVER
                        },
                        0,
                    )
                }
            })
            .collect();
        columns.number("take_id", rows.iter().map(|(row, _)| *row));
        columns.process(
            "proc",
            rows.iter().map(|(_, take)| self.process(take.thread)),
        );
        columns.name(
            "topic",
            rows.iter().map(|(row, _)| self.take_topic(*row)),
            texts,
        );
        columns.number(
            "subscription_id",
            rows.iter().map(|(_, take)| take.subscription),
        );
        let node = rows.iter().map(|(_, take)| self.node_at(take.subscription));
        columns.name("subscription_node", node, texts);
        let recorded = rows.iter().map(|(row, _)| match self.take_topic(*row) {
            NONE => None,
            topic => Some(there.contains(&topic)),
        });
        columns.truth("publisher_recorded", recorded);
        columns.long(
            "source_timestamp_ns",
            rows.iter().map(|(_, take)| take.stamp),
        );
        columns.long("take_ns", rows.iter().map(|(_, take)| take.time));
        columns.number(
            "callback_instance_id",
            rows.iter().map(|(_, take)| take.execution),
        );
        let start = rows.iter().map(|(_, take)| self.start(take.execution));
        columns.long("callback_start_ns", start);
        columns.long(
            "callback_end_ns",
            rows.iter().map(|(_, take)| self.end(take.execution)),
        );
        columns.long("clock_offset_ns", offsets.into_iter());
        columns.long("latency_ns", told.iter().map(|(latency, _)| *latency));
        let outcomes = &["delivered", "taken", "replayed"];
        columns.word(
            "outcome",
            told.iter().map(|(_, outcome)| *outcome),
            outcomes,
        );
        columns
    }

    fn interval_columns(&self) -> Columns {
        let (mut columns, rows) = (Columns::default(), &self.callbacks.intervals);
        let found: Vec<_> = rows.iter().map(|row| self.callbacks.of(row)).collect();
        columns.process("proc", rows.iter().map(|row| self.process(row.thread)));
        columns.long(
            "thread",
            rows.iter().map(|row| self.identity.number(row.thread)),
        );
        columns.word(
            "state",
            rows.iter().map(|row| u8::from(!row.wait)),
            &["wait", "busy"],
        );
        columns.long("begin_ns", rows.iter().map(|row| row.begin));
        columns.long("end_ns", found.iter().map(|(end, ..)| end.unwrap_or(NEVER)));
        let lasted = rows.iter().zip(&found);
        let lasted =
            lasted.map(|(row, (end, ..))| end.map_or(NEVER, |end| end.wrapping_sub(row.begin)));
        columns.long("duration_ns", lasted);
        columns.long("timeout_ns", rows.iter().map(|row| row.timeout));
        columns.long("executed", found.iter().map(|(_, executed, _)| *executed));
        columns.long("callback_ns", found.iter().map(|(.., covered)| *covered));
        columns
    }

    /// Calls; before Kilted the servers' executions alone.
    fn call_columns(&self) -> Columns {
        let (mut columns, texts) = (Columns::default(), self.known.names.texts());
        let rows = if self.services.happened() {
            self.services.calls(&self.known)
        } else {
            let executions = (0..).zip(&self.callbacks.executions);
            let own = executions.filter_map(|(number, row)| {
                let of = self.known.callbacks.get(row.callback as usize)?;
                (of.kind == self.known.service).then(|| Call {
                    client: NONE,
                    service: of.owner,
                    process: self.process(row.thread),
                    sequence: NEVER,
                    times: [NEVER; 4],
                    within: (Candidate::NONE, NEVER),
                    execution: number,
                })
            });
            own.collect()
        };
        let client = |row: &Call| self.known.clients.get(row.client as usize);
        let service = |row: &Call| self.known.services.get(row.service as usize);
        let name = |row: &Call| {
            service(row)
                .or_else(|| client(row))
                .map_or(NONE, |of| of.topic)
        };
        columns.process("proc", rows.iter().map(|row| row.process));
        columns.name("service", rows.iter().map(name), texts);
        let node = rows
            .iter()
            .map(|row| client(row).map_or(NONE, |of| of.node));
        columns.name("client_node", node, texts);
        let node = rows
            .iter()
            .map(|row| service(row).map_or(NONE, |of| of.node));
        columns.name("server_node", node, texts);
        columns.number("client_id", rows.iter().map(|row| row.client));
        columns.number("service_id", rows.iter().map(|row| row.service));
        columns.long("sequence_number", rows.iter().map(|row| row.sequence));
        columns.long("request_sent_ns", rows.iter().map(|row| row.times[0]));
        columns.long("request_taken_ns", rows.iter().map(|row| row.times[1]));
        columns.long(
            "callback_start_ns",
            rows.iter().map(|row| self.start(row.execution)),
        );
        columns.long(
            "callback_end_ns",
            rows.iter().map(|row| self.end(row.execution)),
        );
        columns.long("response_sent_ns", rows.iter().map(|row| row.times[2]));
        columns.long("response_taken_ns", rows.iter().map(|row| row.times[3]));
        columns.number("callback_instance_id", rows.iter().map(|row| row.execution));
        let within = rows
            .iter()
            .map(|row| self.callbacks.enclosing(row.within.0, row.within.1));
        columns.number("client_callback_instance_id", within);
        columns
    }

    fn activation_columns(&self) -> Columns {
        let mut timers: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for (number, row) in (0..).zip(&self.callbacks.executions) {
            if let Some(of) = self.known.callbacks.get(row.callback as usize)
                && of.kind == self.known.timer
                && (of.owner as usize) < self.known.periods.len()
            {
                timers.entry(of.owner).or_default().push(number);
            }
        }
        let mut rows: Vec<(u32, u32, Activation)> = Vec::new();
        for (timer, executions) in timers {
            let starts: Vec<i64> = executions
                .iter()
                .map(|number| self.start(*number))
                .collect();
            let found = activations(&starts, self.known.periods[timer as usize]);
            let found = executions.into_iter().zip(found);
            rows.extend(found.map(|(number, activation)| (number, timer, activation)));
        }
        rows.sort_by_key(|(number, ..)| *number);
        let execution = |number: u32| &self.callbacks.executions[number as usize];
        let thread = |number: u32| execution(number).thread;
        let period = |timer: u32| self.known.periods[timer as usize];
        let (mut columns, texts) = (Columns::default(), self.known.names.texts());
        columns.number(
            "callback_instance_id",
            rows.iter().map(|(number, ..)| *number),
        );
        columns.process(
            "proc",
            rows.iter()
                .map(|(number, ..)| self.process(thread(*number))),
        );
        let numbers = rows
            .iter()
            .map(|(number, ..)| self.identity.number(thread(*number)));
        columns.long("thread", numbers);
        columns.number("timer_id", rows.iter().map(|(_, timer, _)| *timer));
        let node = |number: u32| self.known.callbacks[execution(number).callback as usize].node;
        columns.name("node", rows.iter().map(|(number, ..)| node(*number)), texts);
        columns.long("period_ns", rows.iter().map(|(_, timer, _)| period(*timer)));
        columns.long(
            "start_ns",
            rows.iter().map(|(number, ..)| self.start(*number)),
        );
        columns.long("interval_ns", rows.iter().map(|(.., row)| row.interval));
        let jitter = |timer: u32, interval: i64| match (interval, period(timer)) {
            (NEVER, _) | (_, NEVER) => NEVER,
            (interval, period) => interval.wrapping_sub(period),
        };
        columns.long(
            "jitter_ns",
            rows.iter()
                .map(|(_, timer, row)| jitter(*timer, row.interval)),
        );
        columns.long("release_ns", rows.iter().map(|(.., row)| row.release));
        columns.long("lateness_ns", rows.iter().map(|(.., row)| row.lateness));
        columns.long("drift_ns", rows.iter().map(|(.., row)| row.drift));
        columns.long("skipped", rows.iter().map(|(.., row)| row.skipped));
        columns
    }

    /// The live blocks of each process, or of each of its callbacks, in steps of time.
    fn heap_columns(&self, of_callbacks: bool) -> Columns {
        let mut changes: Vec<(i64, bool, u32, u32, i64)> = Vec::new();
        for block in &self.heap.blocks {
            let callback = if of_callbacks {
                let execution = self.callbacks.enclosing(block.within, block.begin);
                let callback = self.execution(execution).map_or(NONE, |of| of.callback);
                if callback == NONE {
                    continue;
                }
                callback
            } else {
                NONE
            };
            changes.push((block.begin, true, block.process, callback, block.size));
            if block.end != NEVER {
                changes.push((block.end, false, block.process, callback, block.size));
            }
        }
        // Of one time ends come first.
        changes.sort_by_key(|change| (change.0, change.1));
        let mut places: HashMap<(u32, u32), (HeapRow, usize)> = HashMap::new();
        let mut rows: Vec<HeapRow> = Vec::new();
        for (time, begins, process, callback, size) in changes {
            let nothing = (HeapRow::default(), usize::MAX);
            let (live, place) = places.entry((process, callback)).or_insert(nothing);
            (live.process, live.callback, live.time) = (process, callback, time);
            if begins {
                live.bytes = live.bytes.wrapping_add(size);
                live.blocks += 1;
                live.allocated = live.allocated.wrapping_add(size);
                live.allocations += 1;
            } else {
                live.bytes = live.bytes.wrapping_sub(size);
                live.blocks -= 1;
            }
            live.peak = live.bytes;
            match rows.get_mut(*place) {
                Some(row) if row.time.div_euclid(STEP) == time.div_euclid(STEP) => {
                    let peak = row.peak.max(live.peak);
                    *row = HeapRow { peak, ..*live };
                }
                _ => {
                    *place = rows.len();
                    rows.push(*live);
                }
            }
        }
        rows.sort_by_key(|row| (row.time, row.process, row.callback));
        let (mut columns, texts) = (Columns::default(), self.known.names.texts());
        columns.process("proc", rows.iter().map(|row| row.process));
        if of_callbacks {
            let of = |row: &HeapRow| &self.known.callbacks[row.callback as usize];
            columns.number("callback_id", rows.iter().map(|row| row.callback));
            columns.name("kind", rows.iter().map(|row| of(row).kind), texts);
            columns.name("name", rows.iter().map(|row| of(row).name), texts);
            columns.name("node", rows.iter().map(|row| of(row).node), texts);
        }
        columns.long("time_ns", rows.iter().map(|row| row.time));
        columns.long("peak_bytes", rows.iter().map(|row| row.peak));
        columns.long("live_bytes", rows.iter().map(|row| row.bytes));
        columns.long("live_blocks", rows.iter().map(|row| row.blocks));
        columns.long("allocated_bytes", rows.iter().map(|row| row.allocated));
        columns.long("allocations", rows.iter().map(|row| row.allocations));
        columns
    }

    /// What each execution allocated and freed, in processes whose heap was recorded.
    fn allocation_columns(&self) -> Columns {
        let mut sums: HashMap<u32, [i64; 5]> = HashMap::new();
        let mut recorded: ahash::HashSet<u32> = ahash::HashSet::default();
        for block in &self.heap.blocks {
            recorded.insert(block.process);
            let execution = self.callbacks.enclosing(block.within, block.begin);
            let of = sums.entry(execution).or_default();
            let kept = if block.end == NEVER { block.size } else { 0 };
            *of = [
                of[0] + 1,
                of[1].wrapping_add(block.size),
                of[2],
                of[3],
                of[4].wrapping_add(kept),
            ];
        }
        for free in &self.heap.frees {
            recorded.insert(free.process);
            let of = sums
                .entry(self.callbacks.enclosing(free.within, free.time))
                .or_default();
            *of = [
                of[0],
                of[1],
                of[2] + 1,
                of[3].wrapping_add(free.size),
                of[4],
            ];
        }
        let executions = (0..).zip(&self.callbacks.executions);
        let rows: Vec<(u32, &Execution)> = executions
            .filter(|(_, row)| recorded.contains(&self.process(row.thread)))
            .collect();
        let of = |row: &Execution| self.known.callbacks.get(row.callback as usize);
        let (mut columns, texts) = (Columns::default(), self.known.names.texts());
        columns.number(
            "callback_instance_id",
            rows.iter().map(|(number, _)| *number),
        );
        columns.process("proc", rows.iter().map(|(_, row)| self.process(row.thread)));
        columns.long(
            "thread",
            rows.iter().map(|(_, row)| self.identity.number(row.thread)),
        );
        columns.number("callback_id", rows.iter().map(|(_, row)| row.callback));
        columns.name(
            "kind",
            rows.iter()
                .map(|(_, row)| of(row).map_or(NONE, |of| of.kind)),
            texts,
        );
        columns.name(
            "name",
            rows.iter()
                .map(|(_, row)| of(row).map_or(NONE, |of| of.name)),
            texts,
        );
        columns.name(
            "node",
            rows.iter()
                .map(|(_, row)| of(row).map_or(NONE, |of| of.node)),
            texts,
        );
        columns.long("start_ns", rows.iter().map(|(_, row)| row.start));
        columns.long("end_ns", rows.iter().map(|(_, row)| row.end));
        let names = [
            "allocations",
            "allocated_bytes",
            "frees",
            "freed_bytes",
            "kept_bytes",
        ];
        for (place, name) in names.into_iter().enumerate() {
            let sum = |number: &u32| sums.get(number).map_or(0, |sums| sums[place]);
            columns.long(name, rows.iter().map(|(number, _)| sum(number)));
        }
        columns
    }

    /// The system clock against that of the events, in blocks of time.
    fn clock_offsets(&self, messages: &Messages) -> Columns {
        let mut blocks: HashMap<(u32, i64), Vec<i64>> = HashMap::new();
        for (row, source) in self.publications.rows.iter().zip(&messages.sources) {
            if row.rmw != NEVER && row.stamp != NEVER && source.topic != self.known.discovery {
                let host = self.identity.host(self.process(row.thread));
                let offset = row.stamp.wrapping_sub(row.rmw);
                blocks
                    .entry((host, row.rmw.div_euclid(BLOCK)))
                    .or_default()
                    .push(offset);
            }
        }
        for (process, time, offset) in self.services.stamps() {
            let host = self.identity.host(process);
            blocks
                .entry((host, time.div_euclid(BLOCK)))
                .or_default()
                .push(offset);
        }
        let mut found: Vec<((u32, i64), i64, i64)> = blocks
            .into_iter()
            .map(|(key, mut offsets)| {
                let middle = (offsets.len() - 1) / 2;
                // Not their mean where a step falls into the block: one side or the other.
                let (_, median, _) = offsets.select_nth_unstable(middle);
                (
                    key,
                    *median,
                    i64::try_from(offsets.len()).unwrap_or(i64::MAX),
                )
            })
            .collect();
        found.sort_unstable();
        let mut columns = Columns::default();
        columns.number("host", found.iter().map(|((host, _), ..)| *host));
        columns.long("block", found.iter().map(|((_, block), ..)| *block));
        columns.long("offset", found.iter().map(|(_, offset, _)| *offset));
        columns.long("len", found.iter().map(|(.., count)| *count));
        columns
    }

    fn counts(&self, messages: &Messages) -> Counts {
        let executions = &self.callbacks.executions;
        let count = |found: usize| found as u64;
        let owner = |row: &&Execution| {
            let of = self.known.callbacks.get(row.callback as usize);
            of.is_some_and(|of| of.owner == NONE)
        };
        let ran: ahash::HashSet<u32> = executions.iter().map(|row| row.thread).collect();
        let seen: ahash::HashSet<u32> = self
            .callbacks
            .intervals
            .iter()
            .map(|row| row.thread)
            .collect();
        let rows = || self.publications.rows.iter().zip(&messages.sources);
        let nameless = |told: bool| {
            rows().filter(move |(row, of)| {
                let alone = row.rclcpp != NEVER && row.rcl == NEVER;
                of.topic == NONE
                    && if told {
                        alone
                    } else {
                        !alone && of.publisher == NONE
                    }
            })
        };
        let takes = (0..).zip(&self.takes.rows);
        let unknown = takes
            .filter(|(number, row)| row.subscription == NONE && self.take_topic(*number) == NONE);
        let approximate = messages.rows.iter().filter(|row| row.how as u8 == 1);
        let texts = self.known.names.texts();
        let topics: ahash::HashSet<u32> = messages
            .alone
            .iter()
            .map(|row| self.take_topic(*row))
            .collect();
        Counts {
            numbers: vec![
                ("without_context", self.identity.without_context),
                (
                    "unfinished",
                    count(executions.iter().filter(|row| row.end == NEVER).count()),
                ),
                ("threads", count(ran.len())),
                ("silent_threads", count(ran.difference(&seen).count())),
                ("ends_alone", self.callbacks.ends_alone),
                (
                    "nameless",
                    count(executions.iter().filter(|row| row.callback == NONE).count()),
                ),
                ("ownerless", count(executions.iter().filter(owner).count())),
                ("unnamed", count(nameless(true).count())),
                ("unknown_publishers", count(nameless(false).count())),
                ("unknown_subscriptions", count(unknown.count())),
                ("ambiguous", messages.ambiguous),
                ("cleared", self.ring_buffers.cleared),
                ("alone", count(messages.alone.len())),
                ("approximate", count(approximate.count())),
                ("unknown_frees", self.heap.unknown),
                ("unseen_frees", self.heap.unseen),
                ("failed", self.heap.failed),
            ],
            gone: messages.gone.clone(),
            untaken: messages.untaken.clone(),
            alone_on: topics
                .iter()
                .filter_map(|of| texts.get(*of as usize).cloned())
                .collect(),
        }
    }
}

/// What was stamped nearest to a time, of two as near the later; `NEVER` where nothing was.
fn nearest(stamps: &[(i64, i64)], time: i64) -> i64 {
    let after = stamps.partition_point(|(near, _)| *near < time);
    match (
        after.checked_sub(1).and_then(|place| stamps.get(place)),
        stamps.get(after),
    ) {
        (None, None) => NEVER,
        (Some((_, offset)), None) | (None, Some((_, offset))) => *offset,
        (Some((before, one)), Some((behind, other))) => {
            if time.wrapping_sub(*before) < behind.wrapping_sub(time) {
                *one
            } else {
                *other
            }
        }
    }
}

/// Messages by subscription and publisher, as they come: whether all were lost, how many.
fn ways(messages: &Messages) -> Columns {
    let mut places: HashMap<(u32, u32), usize> = HashMap::new();
    let mut found: Vec<((u32, u32), bool, i64)> = Vec::new();
    for row in &messages.rows {
        let publisher = messages
            .sources
            .get(row.message as usize)
            .map_or(NONE, |of| of.publisher);
        let key = (row.subscription, publisher);
        let place = *places.entry(key).or_insert_with(|| {
            found.push((key, true, 0));
            found.len() - 1
        });
        found[place].1 &= OUTCOMES[usize::from(row.outcome)] == "lost";
        found[place].2 += 1;
    }
    let mut columns = Columns::default();
    columns.number("subscription_id", found.iter().map(|((of, _), ..)| *of));
    columns.number("publisher_id", found.iter().map(|((_, of), ..)| *of));
    columns.truth("all", found.iter().map(|(_, all, _)| Some(*all)));
    columns.long("len", found.iter().map(|(.., count)| *count));
    columns
}
