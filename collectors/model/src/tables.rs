//! Rows as tables.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use ahash::{HashMap, HashMapExt, HashSet};
use arrow_array::{RecordBatch, StringViewArray};
use arrow_schema::ArrowError;

use crate::Model;
use crate::callbacks::{Callbacks, Execution};
use crate::columns::{Columns, Texts, columns};
use crate::decide::{Decision, Match, Outcome, Reason};
use crate::messages::{Message, Messages, Source};
use crate::publications::Publication;
use crate::rows::{NEVER, NONE, Plain, Rows, flag};
use crate::services::Call;
use crate::takes::Take;
use crate::timers::{Activation, activations};

/// The heap is told of once in so many nanoseconds.
const STEP: i64 = 100_000_000;

/// So many stamps are held before those that are not needed leave.
const MANY: usize = 1 << 16;

/// Rows of a batch: its columns stay in the cache of the processor.
const BATCH: u32 = 1 << 12;

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

/// A message with what it is of.
struct MessageView {
    row: Message,
    decision: Decision,
    sent: Option<Publication>,
    source: Source,
    take: Option<Take>,
    execution: Option<Execution>,
}

/// Some rows with their numbers.
fn some<T: Plain>(rows: &Rows<T>, range: Range<u32>) -> Vec<(u32, T)> {
    rows.from(range.start).take(range.len()).collect()
}

/// All tables, made batch by batch as they are asked for.
pub struct Tables {
    model: Model,
    messages: Messages,
    calls: Rows<Call>,
    texts: Texts,
    stamps: HashMap<u32, Vec<(i64, i64)>>,
    topics: HashSet<u32>,
}

impl Tables {
    /// Their names.
    pub const NAMES: &[&str] = &[
        "callback_instances",
        "publications",
        "takes",
        "messages",
        "one_sided_messages",
        "executor_intervals",
        "service_calls",
        "timer_activations",
        "heap",
        "callback_heap",
        "callback_allocations",
        "told",
        "connections",
        "clock_offsets",
        "broken_orders",
    ];

    pub(crate) fn new(mut model: Model) -> Self {
        let messages = model.messages();
        let calls = Self::served(&model);
        let hosts = model.identity.hosts();
        let texts = Texts {
            names: Arc::new(StringViewArray::from_iter_values(
                model.registry.names.texts(),
            )),
            hosts: Arc::new(StringViewArray::from_iter_values(hosts)),
        };
        let topics = model
            .registry
            .publishers
            .iter()
            .map(|of| of.topic)
            .collect();
        let mut found = Self {
            model,
            messages,
            calls,
            texts,
            stamps: HashMap::new(),
            topics,
        };
        if !found.messages.alone.is_empty() {
            found.stamps = found.stamps();
        }
        found
    }

    /// Columns (all, if none are named) of the batch of a table that begins with a row, and the row
    /// that the next one begins with; the first one may be without rows, after the last one there is none.
    ///
    /// # Errors
    ///
    /// Rows cannot be read from the disk, or there is no such column.
    pub fn batch(
        &self,
        table: &str,
        wanted: Option<&[String]>,
        from: u32,
    ) -> Result<Option<(RecordBatch, u32)>, ArrowError> {
        let range = from..from.saturating_add(BATCH);
        let columns = Columns::new(&self.texts, wanted);
        let found = match table {
            "callback_instances" => self.executions(columns, range),
            "publications" => self.publications(columns, range),
            "takes" => self.takes(columns, range),
            "messages" => self.messages(columns, range),
            "one_sided_messages" => self.one_sided(columns, range),
            "executor_intervals" => self.intervals(columns, range),
            "service_calls" => self.calls(columns, range),
            _ if from > 0 => return Ok(None),
            "timer_activations" => self.activations(columns),
            "heap" => self.heap(columns, false),
            "callback_heap" => self.heap(columns, true),
            "callback_allocations" => self.allocations(columns),
            "told" => self.told(columns),
            "connections" => self.connections(columns),
            "clock_offsets" => self.clock_offsets(columns),
            "broken_orders" => self.broken_orders(columns),
            _ => return Ok(None),
        };
        let found = found.batch()?;
        self.model.check()?;
        let there = from == 0 || found.num_rows() > 0;
        Ok(there.then(|| (found, from.saturating_add(BATCH))))
    }

    pub(crate) fn check(&self) -> Result<(), std::io::Error> {
        self.model.check()
    }

    /// The columns that say of which process rows are.
    fn of_processes(
        &self,
        columns: &mut Columns<'_>,
        processes: impl Iterator<Item = u32> + Clone,
    ) {
        let identity = &self.model.identity;
        columns.host("host", processes.clone().map(|of| identity.host(of)));
        columns.int32("vpid", processes.clone().map(|of| identity.vpid(of)));
        columns.id("proc", processes);
    }

    /// The same of threads.
    fn of_threads(&self, columns: &mut Columns<'_>, threads: impl Iterator<Item = u32> + Clone) {
        let identity = &self.model.identity;
        let processes = threads.clone().map(|of| identity.process(of));
        self.of_processes(columns, processes);
        columns.int32("vtid", threads.clone().map(|of| identity.vtid(of)));
        columns.int64("thread", threads.map(|of| identity.number(of)));
    }

    fn execution(&self, number: u32) -> Option<Execution> {
        self.model.callbacks.executions.get(number)
    }

    fn start(&self, number: u32) -> i64 {
        self.execution(number).map_or(NEVER, |of| of.start)
    }

    fn end(&self, number: u32) -> i64 {
        self.execution(number).map_or(NEVER, |of| of.end)
    }

    fn executions<'a>(&self, mut columns: Columns<'a>, range: Range<u32>) -> Columns<'a> {
        let rows = some(&self.model.callbacks.executions, range);
        self.of_threads(&mut columns, rows.iter().map(|(_, row)| row.thread));
        let of = |row: &Execution| self.model.registry.callback(row.callback);
        columns!(columns, rows, |(number, row)|
            id "callback_instance_id" *number;
            id "callback_id" row.callback;
            name "kind" of(row).kind;
            id "owner_id" of(row).owner;
            name "name" of(row).name;
            name "node" of(row).node;
            name "symbol" of(row).symbol;
            int64 "start_ns" row.start;
            int64 "end_ns" row.end;
            int64 "duration_ns" Callbacks::duration(row).unwrap_or(NEVER);
            boolean "intra_process" row.intra;
        );
        columns
    }

    fn publications<'a>(&self, mut columns: Columns<'a>, range: Range<u32>) -> Columns<'a> {
        let rows = some(&self.model.publications.rows, range);
        let sources: Vec<Source> = rows.iter().map(|(_, row)| self.model.source(row)).collect();
        self.of_threads(&mut columns, rows.iter().map(|(_, row)| row.thread));
        columns!(columns, sources, |of|
            id "publisher_id" of.publisher;
            name "topic" of.topic;
            name "node" of.node;
        );
        let within = |row: &Publication| self.model.callbacks.enclosing(row.within, row.publish);
        columns!(columns, rows, |(number, row)|
            id "message_id" *number;
            int64 "publish_ns" row.publish;
            int64 "rclcpp_publish_ns" row.rclcpp;
            int64 "intra_publish_ns" row.intra;
            int64 "rcl_publish_ns" row.rcl;
            int64 "rmw_publish_ns" row.rmw;
            int64 "source_timestamp_ns" if row.estimated { NEVER } else { row.stamp };
            id "callback_instance_id" within(row);
        );
        columns
    }

    fn takes<'a>(&self, mut columns: Columns<'a>, range: Range<u32>) -> Columns<'a> {
        let rows = some(&self.model.takes.rows, range);
        self.of_threads(&mut columns, rows.iter().map(|(_, row)| row.thread));
        columns!(columns, rows, |(number, row)|
            id "take_id" *number;
            id "subscription_id" row.subscription;
            name "topic" self.model.take_topic(row);
            name "node" self.node_at(row.subscription);
            int64 "take_ns" row.time;
            int64 "rcl_take_ns" row.rcl;
            int64 "rclcpp_take_ns" row.rclcpp;
            int64 "source_timestamp_ns" row.stamp;
            boolean "intra_process" Some(row.intra);
            id "callback_instance_id" row.execution;
        );
        columns
    }

    fn node_at(&self, subscription: u32) -> u32 {
        let of = self.model.registry.subscriptions.get(subscription as usize);
        of.map_or(NONE, |of| of.node)
    }

    fn messages<'a>(&self, mut columns: Columns<'a>, range: Range<u32>) -> Columns<'a> {
        let (model, identity) = (&self.model, &self.model.identity);
        let rows = some(&self.messages.rows, range).into_iter();
        let rows = rows.map(|(_, row)| {
            let sent = model.publications.rows.get(row.message);
            MessageView {
                decision: row.decided(),
                row,
                sent,
                source: sent.map_or(Source::NONE, |of| model.source(&of)),
                take: model.takes.rows.get(row.take),
                execution: self.execution(row.execution),
            }
        });
        let rows: Vec<MessageView> = rows.collect();
        let topic = |of: &MessageView| match of.source.topic {
            NONE => model.registry.topic_at(of.row.subscription),
            topic => topic,
        };
        let publisher =
            |of: &MessageView| of.sent.map_or(NONE, |sent| identity.process(sent.thread));
        let host = |of: &MessageView| match identity.host(publisher(of)) {
            NONE => identity.host(of.row.process),
            host => host,
        };
        let sent =
            |of: &MessageView, time: fn(&Publication) -> i64| of.sent.as_ref().map_or(NEVER, time);
        let take = |of: &MessageView, time: fn(&Take) -> i64| of.take.as_ref().map_or(NEVER, time);
        let ran = |of: &MessageView, time: fn(&Execution) -> i64| {
            of.execution.as_ref().map_or(NEVER, time)
        };
        let measured = |of: &MessageView| match (&of.execution, &of.sent) {
            (Some(execution), Some(sent)) => execution.start.wrapping_sub(sent.publish),
            _ => NEVER,
        };
        // Not the subscription's host: nothing tells of that where tracing began late.
        let hosts = |of: &MessageView| {
            let ran = of
                .execution
                .as_ref()
                .map_or(NONE, |it| identity.process(it.thread));
            (identity.host(publisher(of)), identity.host(ran))
        };
        let between = |of: &MessageView| {
            let (from, to) = hosts(of);
            from != to && measured(of) != NEVER
        };
        let bound = |of: &MessageView| {
            let (from, to) = hosts(of);
            let time = of.sent.as_ref().map_or(NEVER, |sent| sent.publish);
            if between(of) {
                self.bound(from, to, time)
            } else {
                NEVER
            }
        };
        // No latency that is no longer than it may be wrong.
        let latency = |of: &MessageView| match (measured(of), bound(of)) {
            (measured, NEVER) if !between(of) => measured,
            (measured, bound) if bound != NEVER && measured > bound => measured,
            _ => NEVER,
        };
        columns!(columns, rows, |of|
            id "message_id" of.row.message;
            name "topic" topic(of);
            id "publisher_id" of.source.publisher;
            id "subscription_id" of.row.subscription;
            name "publisher_node" of.source.node;
            name "subscription_node" self.node_at(of.row.subscription);
            host "host" host(of);
            host "publisher_host" identity.host(publisher(of));
            int32 "publisher_vpid" identity.vpid(publisher(of));
            host "subscription_host" identity.host(of.row.process);
            int32 "subscription_vpid" identity.vpid(of.row.process);
            boolean "intra_process" of.row.intra;
            int64 "publish_ns" sent(of, |row| row.publish);
            int64 "rcl_publish_ns" sent(of, |row| row.rcl);
            int64 "rmw_publish_ns" sent(of, |row| row.rmw);
            int64 "source_timestamp_ns" sent(of, |row| row.stamp);
            int64 "take_ns" take(of, |row| row.time);
            int64 "rclcpp_take_ns" take(of, |row| row.rclcpp);
            int64 "callback_start_ns" ran(of, |row| row.start);
            int64 "callback_end_ns" ran(of, |row| row.end);
            int64 "latency_ns" latency(of);
            int64 "clock_bound_ns" bound(of);
            id "callback_instance_id" of.row.execution;
        );
        let decided = || rows.iter().map(|of| of.decision);
        columns.category(
            "outcome",
            decided().map(|of| of.outcome as u8),
            Outcome::WORDS,
        );
        let joined = &Match::WORDS[..Match::Nothing as usize];
        columns.category("match", decided().map(|of| of.how as u8), joined);
        columns.category("reason", decided().map(|of| of.reason as u8), Reason::WORDS);
        columns
    }

    /// Stamps of the system clock, by host: time, and how far it was ahead of the events' clock. Those
    /// are there that are the nearest ones of a take without a publication.
    fn stamps(&self) -> HashMap<u32, Vec<(i64, i64)>> {
        let model = &self.model;
        let mut alone: HashMap<u32, Vec<i64>> = HashMap::new();
        for take in self
            .messages
            .alone
            .iter()
            .filter_map(|number| model.takes.rows.get(*number))
        {
            let host = model.identity.host(model.process(take.thread));
            alone.entry(host).or_default().push(take.time);
        }
        for times in alone.values_mut() {
            times.sort_unstable();
        }
        let mut near: HashMap<u32, Vec<(i64, i64)>> = HashMap::new();
        for (_, row) in model.publications.rows.iter() {
            let host = model.identity.host(model.process(row.thread));
            if row.rmw != NEVER
                && row.stamp != NEVER
                && !row.estimated
                && let Some(times) = alone.get(&host)
            {
                let stamps = near.entry(host).or_default();
                stamps.push((row.rmw, row.stamp.wrapping_sub(row.rmw)));
                if stamps.len() >= MANY + 4 * times.len() {
                    keep_nearest(stamps, times);
                }
            }
        }
        for (host, stamps) in &mut near {
            keep_nearest(stamps, alone.get(host).map_or(&[], Vec::as_slice));
        }
        near
    }

    /// Takes without a publication, with a latency from their source timestamps.
    fn one_sided<'a>(&self, mut columns: Columns<'a>, range: Range<u32>) -> Columns<'a> {
        let model = &self.model;
        let alone = self.messages.alone.iter().skip(range.start as usize);
        let alone = alone.take(range.len());
        let rows = alone.filter_map(|number| Some((*number, model.takes.rows.get(*number)?)));
        let rows = rows.map(|(number, take)| {
            let host = model.identity.host(model.process(take.thread));
            let offset = nearest(self.stamps.get(&host).map_or(&[], Vec::as_slice), take.time);
            let ahead = if offset == NEVER { 0 } else { offset };
            let sent = take.stamp.saturating_sub(ahead);
            let start = self.start(take.execution);
            let created = model.registry.subscriptions.get(take.subscription as usize);
            let stamped = take.stamp != NEVER;
            let (latency, outcome) = if stamped && created.is_some_and(|of| sent < of.created) {
                (NEVER, 2)
            } else if start == NEVER {
                (NEVER, 1)
            } else if stamped {
                (start.wrapping_sub(sent), 0)
            } else {
                (NEVER, 0)
            };
            (number, take, offset, latency, outcome)
        });
        let rows: Vec<(u32, Take, i64, i64, u8)> = rows.collect();
        let recorded = |take: &Take| match model.take_topic(take) {
            NONE => None,
            topic => Some(self.topics.contains(&topic)),
        };
        self.of_threads(&mut columns, rows.iter().map(|(_, take, ..)| take.thread));
        columns!(columns, rows, |(number, take, offset, latency, _)|
            id "take_id" *number;
            name "topic" model.take_topic(take);
            id "subscription_id" take.subscription;
            name "subscription_node" self.node_at(take.subscription);
            boolean "publisher_recorded" recorded(take);
            int64 "source_timestamp_ns" take.stamp;
            int64 "take_ns" take.time;
            id "callback_instance_id" take.execution;
            int64 "callback_start_ns" self.start(take.execution);
            int64 "callback_end_ns" self.end(take.execution);
            int64 "clock_offset_ns" *offset;
            int64 "latency_ns" *latency;
            name "synchronisation" model.about.synchronisation;
        );
        let outcomes = &["delivered", "taken", "replayed"];
        columns.category("outcome", rows.iter().map(|row| row.4), outcomes);
        columns
    }

    fn intervals<'a>(&self, mut columns: Columns<'a>, range: Range<u32>) -> Columns<'a> {
        let callbacks = &self.model.callbacks;
        let rows = some(&callbacks.intervals, range).into_iter();
        let rows: Vec<_> = rows.map(|(_, row)| (row, callbacks.of(&row))).collect();
        self.of_threads(&mut columns, rows.iter().map(|(row, _)| row.thread));
        let states = &["wait", "busy"];
        columns.category(
            "state",
            rows.iter().map(|(row, _)| u8::from(!row.wait)),
            states,
        );
        columns!(columns, rows, |(row, (end, executed, covered))|
            int64 "begin_ns" row.begin;
            int64 "end_ns" end.unwrap_or(NEVER);
            int64 "duration_ns" end.map_or(NEVER, |end| end.wrapping_sub(row.begin));
            int64 "timeout_ns" row.timeout;
            int64 "executed" *executed;
            int64 "callback_ns" *covered;
        );
        columns
    }

    /// Calls; before Kilted the servers' executions alone.
    fn served(model: &Model) -> Rows<Call> {
        let mut found = Rows::on(model.disk.as_ref());
        if model.services.happened() {
            for call in model.services.calls(&model.registry) {
                found.push(call);
            }
            return found;
        }
        let known = &model.registry;
        if known.callbacks.iter().all(|of| of.kind != known.service) {
            return found;
        }
        for (number, row) in model.callbacks.executions.iter() {
            let of = known.callback(row.callback);
            if of.kind == known.service {
                found.push(Call {
                    client: NONE,
                    service: of.owner,
                    process: model.process(row.thread),
                    sequence: NEVER,
                    times: [NEVER; 4],
                    called: [NEVER; 2],
                    received: NEVER,
                    within: NONE,
                    execution: number,
                });
            }
        }
        found
    }

    fn calls<'a>(&self, mut columns: Columns<'a>, range: Range<u32>) -> Columns<'a> {
        let (model, known) = (&self.model, &self.model.registry);
        let rows = some(&self.calls, range).into_iter();
        let rows: Vec<Call> = rows.map(|(_, row)| row).collect();
        let client = |row: &Call| known.clients.get(row.client as usize);
        let service = |row: &Call| known.services.get(row.service as usize);
        let name = |row: &Call| {
            let of = service(row).or_else(|| client(row));
            of.map_or(NONE, |of| of.topic)
        };
        self.of_processes(&mut columns, rows.iter().map(|row| row.process));
        columns!(columns, rows, |row|
            name "service" name(row);
            name "client_node" client(row).map_or(NONE, |of| of.node);
            name "server_node" service(row).map_or(NONE, |of| of.node);
            id "client_id" row.client;
            id "service_id" row.service;
            int64 "sequence_number" row.sequence;
            int64 "request_called_ns" row.called[0];
            int64 "request_sent_ns" row.times[0];
            int64 "request_taken_ns" row.times[1];
            int64 "callback_start_ns" self.start(row.execution);
            int64 "callback_end_ns" self.end(row.execution);
            int64 "response_called_ns" row.called[1];
            int64 "response_sent_ns" row.times[2];
            int64 "response_taken_ns" row.times[3];
            int64 "response_received_ns" row.received;
            id "callback_instance_id" row.execution;
            id "client_callback_instance_id"
                model.callbacks.enclosing(row.within, row.times[0]);
        );
        columns
    }

    fn activations<'a>(&self, mut columns: Columns<'a>) -> Columns<'a> {
        let known = &self.model.registry;
        let mut timers: BTreeMap<u32, Vec<(u32, Execution)>> = BTreeMap::new();
        // Where there is no timer, nothing is read.
        let executions =
            (!known.periods.is_empty()).then(|| self.model.callbacks.executions.iter());
        for (number, row) in executions.into_iter().flatten() {
            let of = known.callback(row.callback);
            if of.kind == known.timer && (of.owner as usize) < known.periods.len() {
                timers.entry(of.owner).or_default().push((number, row));
            }
        }
        let mut rows: Vec<(u32, Execution, u32, Activation)> = Vec::new();
        for (timer, executions) in timers {
            // What is missing between two activations may be others.
            let unbroken = |(_, one): &(u32, Execution), (_, next): &(u32, Execution)| {
                !self.is_missing_between(next.thread, one.start, next.start)
            };
            for executions in executions.chunk_by(unbroken) {
                let starts: Vec<i64> = executions.iter().map(|(_, row)| row.start).collect();
                let found = activations(&starts, known.periods[timer as usize]);
                let found = executions.iter().zip(found);
                rows.extend(found.map(|((number, row), of)| (*number, *row, timer, of)));
            }
        }
        rows.sort_by_key(|(number, ..)| *number);
        let period = |timer: u32| known.periods[timer as usize];
        let jitter = |timer: u32, interval: i64| match (interval, period(timer)) {
            (NEVER, _) | (_, NEVER) => NEVER,
            (interval, period) => interval.wrapping_sub(period),
        };
        self.of_threads(&mut columns, rows.iter().map(|(_, row, ..)| row.thread));
        columns!(columns, rows, |(number, row, timer, of)|
            id "callback_instance_id" *number;
            id "timer_id" *timer;
            name "node" known.callback(row.callback).node;
            int64 "period_ns" period(*timer);
            int64 "start_ns" row.start;
            int64 "interval_ns" of.interval;
            int64 "jitter_ns" jitter(*timer, of.interval);
            int64 "release_ns" of.release;
            int64 "lateness_ns" of.lateness;
            int64 "drift_ns" of.drift;
            int64 "skipped" of.skipped;
        );
        columns
    }

    /// Whether events of a thread's process may be missing between two that were recorded.
    fn is_missing_between(&self, thread: u32, from: i64, until: i64) -> bool {
        let (model, process) = (&self.model, self.model.process(thread));
        let place = model.identity.place_of(process);
        model.gaps.between(place, from, until)
            || model
                .gaps
                .broken(process, from.saturating_add(1), until.saturating_sub(1))
    }

    /// The live blocks of each process, or of each of its callbacks, in steps of time.
    fn heap<'a>(&self, mut columns: Columns<'a>, of_callbacks: bool) -> Columns<'a> {
        let mut changes: Vec<(i64, bool, u32, u32, i64)> = Vec::new();
        for (_, block) in self.model.heap.blocks.iter() {
            let callback = if of_callbacks {
                let execution = self.model.callbacks.enclosing(block.within, block.begin);
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
        self.of_processes(&mut columns, rows.iter().map(|row| row.process));
        let of = |row: &HeapRow| self.model.registry.callback(row.callback);
        if of_callbacks {
            columns!(columns, rows, |row|
                id "callback_id" row.callback;
                name "kind" of(row).kind;
                name "name" of(row).name;
                name "node" of(row).node;
            );
        }
        columns!(columns, rows, |row|
            int64 "time_ns" row.time;
            int64 "peak_bytes" row.peak;
            int64 "live_bytes" row.bytes;
            int64 "live_blocks" row.blocks;
            int64 "allocated_bytes" row.allocated;
            int64 "allocations" row.allocations;
        );
        columns
    }

    /// What each execution allocated and freed, in processes whose heap was recorded.
    fn allocations<'a>(&self, mut columns: Columns<'a>) -> Columns<'a> {
        let (model, heap) = (&self.model, &self.model.heap);
        let mut sums: HashMap<u32, [i64; 5]> = HashMap::new();
        let mut recorded: HashSet<u32> = HashSet::default();
        for (_, block) in heap.blocks.iter() {
            recorded.insert(block.process);
            let execution = model.callbacks.enclosing(block.within, block.begin);
            let [count, size, .., kept] = sums.entry(execution).or_default();
            (*count, *size) = (*count + 1, size.wrapping_add(block.size));
            if block.end == NEVER {
                *kept = kept.wrapping_add(block.size);
            }
        }
        for (_, free) in heap.frees.iter() {
            recorded.insert(free.process);
            let execution = model.callbacks.enclosing(free.within, free.time);
            let [_, _, count, size, _] = sums.entry(execution).or_default();
            (*count, *size) = (*count + 1, size.wrapping_add(free.size));
        }
        let rows = (!recorded.is_empty()).then(|| model.callbacks.executions.iter());
        let rows = rows.into_iter().flatten();
        let rows = rows.filter(|(_, row)| recorded.contains(&model.process(row.thread)));
        let rows: Vec<(u32, Execution, [i64; 5])> = rows
            .map(|(number, row)| (number, row, sums.get(&number).copied().unwrap_or_default()))
            .collect();
        let of = |row: &Execution| model.registry.callback(row.callback);
        self.of_threads(&mut columns, rows.iter().map(|(_, row, _)| row.thread));
        columns!(columns, rows, |(number, row, sums)|
            id "callback_instance_id" *number;
            id "callback_id" row.callback;
            name "kind" of(row).kind;
            name "name" of(row).name;
            name "node" of(row).node;
            int64 "start_ns" row.start;
            int64 "end_ns" row.end;
            int64 "allocations" sums[0];
            int64 "allocated_bytes" sums[1];
            int64 "frees" sums[2];
            int64 "freed_bytes" sums[3];
            int64 "kept_bytes" sums[4];
        );
        columns
    }

    /// What tells of actions: publications on their topics.
    fn told<'a>(&self, mut columns: Columns<'a>) -> Columns<'a> {
        let names = self.model.registry.names.texts().iter();
        let of_actions: Vec<bool> = names.map(|name| name.contains("/_action/")).collect();
        // Most recordings have none.
        let some = of_actions.contains(&true);
        let rows = some.then(|| self.model.publications.rows.iter());
        let rows = rows.into_iter().flatten();
        let rows = rows.map(|(_, row)| (row.publish, self.model.source(&row)));
        let rows = rows.filter(|(_, of)| of_actions.get(of.topic as usize) == Some(&true));
        let rows: Vec<(i64, Source)> = rows.collect();
        columns!(columns, rows, |(publish, of)|
            name "topic" of.topic;
            name "node" of.node;
            int64 "publish_ns" *publish;
        );
        columns
    }

    /// Messages by subscription and publisher, as they come: whether none was taken, how many.
    fn connections<'a>(&self, mut columns: Columns<'a>) -> Columns<'a> {
        let mut rows: Vec<_> = self.messages.connections.iter().collect();
        rows.sort_unstable_by_key(|(_, connection)| connection.first);
        columns!(columns, rows, |((publisher, subscription), connection)|
            id "publisher_id" *publisher;
            id "subscription_id" *subscription;
            boolean "never_taken" Some(connection.count == connection.never_taken);
            int64 "len" connection.count;
        );
        columns
    }

    /// By how much a latency between two hosts may be wrong; `NEVER` where nothing tells.
    fn bound(&self, from: u32, to: u32, time: i64) -> i64 {
        let Some(bounds) = self.model.about.clocks.get(&(from, to)) else {
            return NEVER;
        };
        if let [(_, always)] = bounds[..] {
            return always;
        }
        let next = bounds.partition_point(|(at, _)| *at < time);
        match (bounds.get(next.wrapping_sub(1)), bounds.get(next)) {
            (Some(before), Some(after)) => straight(*before, *after, time),
            (None, Some((at, bound))) if *at == time => *bound,
            _ => NEVER,
        }
    }

    /// The system clock against that of the events, in blocks of time.
    fn clock_offsets<'a>(&self, mut columns: Columns<'a>) -> Columns<'a> {
        let rows = self.model.offsets.all();
        columns!(columns, rows, |of|
            host "host" of.host;
            int64 "block" of.block;
            int64 "offset" of.median;
            int64 "len" of.count;
        );
        columns
    }

    /// Broken orders: where an event is missing though no tracer tells of it.
    fn broken_orders<'a>(&self, mut columns: Columns<'a>) -> Columns<'a> {
        let rows = self.model.gaps.all_broken();
        columns!(columns, rows, |(process, begin, end)|
            host "host" self.model.identity.host(*process);
            int64 "begin_ns" *begin;
            int64 "end_ns" *end;
        );
        columns
    }

    /// What was counted.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let model = &self.model;
        let mut ran = Vec::new();
        let [mut unfinished, mut nameless, mut ownerless] = [0; 3];
        let mut runs_in = vec![NONE; model.registry.callbacks.len()];
        let mut shared = false;
        for (_, row) in model.callbacks.executions.iter() {
            flag(&mut ran, row.thread);
            if let Some(thread) = runs_in.get_mut(row.callback as usize) {
                shared |= *thread != NONE && *thread != row.thread;
                *thread = row.thread;
            }
            unfinished += u64::from(row.end == NEVER);
            nameless += u64::from(row.callback == NONE);
            let of = model.registry.callbacks.get(row.callback as usize);
            ownerless += u64::from(of.is_some_and(|of| of.owner == NONE));
        }
        let mut seen = Vec::new();
        for (_, row) in model.callbacks.intervals.iter() {
            flag(&mut seen, row.thread);
        }
        let ran = ran.iter().enumerate().filter(|(_, ran)| **ran);
        let silent = ran.clone().filter(|(of, _)| seen.get(*of) != Some(&true));
        // Where no executor told of itself, nothing is known to be blocked.
        shared &= !seen.is_empty();
        let alone = self.messages.alone.iter();
        let topics: HashSet<u32> = alone
            .filter_map(|row| Some(model.take_topic(&model.takes.rows.get(*row)?)))
            .collect();
        let calls = self.calls.iter().filter(|(_, call)| call.nameless());
        let calls = calls.count();
        let texts = model.registry.names.texts();
        Counts {
            numbers: vec![
                ("without_context", model.identity.without_context),
                ("unfinished", unfinished),
                ("threads", ran.count() as u64),
                ("silent_threads", silent.count() as u64),
                ("shared", u64::from(shared)),
                ("ends_alone", model.callbacks.ends_alone),
                ("nameless", nameless),
                ("ownerless", ownerless),
                ("unnamed", self.messages.unnamed),
                ("unknown_publishers", self.messages.unknown_publishers),
                ("unknown_subscriptions", self.messages.unknown_subscriptions),
                ("ambiguous", self.messages.ambiguous),
                ("cleared", model.ring_buffers.cleared),
                ("alone", self.messages.alone.len() as u64),
                ("approximate", self.messages.approximate),
                ("untold", self.messages.untold),
                ("calls_unknown", calls as u64),
                ("unknown_frees", model.heap.unknown),
                ("unseen_frees", model.heap.unseen),
                ("failed", model.heap.failed),
            ],
            gone: self.messages.gone.clone(),
            untaken: self.messages.untaken.clone(),
            alone_on: topics
                .iter()
                .filter_map(|of| texts.get(*of as usize).cloned())
                .collect(),
        }
    }
}

/// Sort stamps by time, and leave out those that are next to none of these times, which are sorted.
fn keep_nearest(stamps: &mut Vec<(i64, i64)>, times: &[i64]) {
    stamps.sort_by_key(|(time, _)| *time);
    let until = |place: usize| match stamps.get(place) {
        Some((stamp, _)) => times.partition_point(|time| time <= stamp),
        None => times.len(),
    };
    let mut before = 0;
    let kept: Vec<bool> = (0..stamps.len())
        .map(|place| {
            let (here, next) = (until(place), until(place + 1));
            let nearest = before < here || here < next;
            before = here;
            nearest
        })
        .collect();
    let mut kept = kept.into_iter();
    stamps.retain(|_| kept.next() == Some(true));
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

/// The height at `time` of the line between two points, rounded up.
fn straight(before: (i64, i64), after: (i64, i64), time: i64) -> i64 {
    let (length, rise) = (
        i128::from(after.0) - i128::from(before.0),
        i128::from(after.1) - i128::from(before.1),
    );
    if length <= 0 {
        return before.1.max(after.1);
    }
    let part = -(-rise * (i128::from(time) - i128::from(before.0))).div_euclid(length);
    i64::try_from(i128::from(before.1) + part).unwrap_or(NEVER)
}

#[cfg(test)]
mod tests {
    use super::{keep_nearest, nearest, straight};

    /// Against all stamps, for times before, at, between and after them.
    #[test]
    fn what_is_kept_tells_the_same() {
        let all = [(3, 0), (3, 1), (5, 2), (8, 3), (8, 4), (9, 5), (20, 6)];
        for times in [&[][..], &[3], &[4, 8], &[0, 1, 9, 30], &[10, 11, 12], &[15]] {
            let mut kept = all.to_vec();
            keep_nearest(&mut kept, times);
            for time in times {
                assert_eq!(
                    nearest(&kept, *time),
                    nearest(&all, *time),
                    "{time} of {times:?}"
                );
            }
            assert!(kept.len() <= 2 * times.len());
        }
    }

    /// By hand.
    #[test]
    fn between_two_bounds_it_is_straight_and_rounded_up() {
        assert_eq!(straight((0, 10), (10, 20), 1), 11);
        assert_eq!(straight((0, 20), (10, 10), 1), 19);
        assert_eq!(straight((0, 0), (3, 1), 1), 1);
        assert_eq!(straight((5, 7), (5, 9), 5), 9);
    }
}
