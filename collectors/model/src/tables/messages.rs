//! Messages as rows, and takes without a publication.

use std::ops::Range;

use ahash::{HashMap, HashMapExt};

use crate::about::Source;
use crate::callbacks::Execution;
use crate::columns::{Columns, columns};
use crate::decide::{Match, Outcome, Reason};
use crate::identity::Host;
use crate::ids::{Id, Maybe, get};
use crate::messages::Message;
use crate::publications::Publication;
use crate::rows::NEVER;
use crate::takes::Take;

use super::clocks::{keep_nearest, nearest};
use super::state::{Tables, some};

/// So many stamps are held before those that are not needed leave.
const MANY: usize = 1 << 16;

/// A message with what it is of.
struct MessageView {
    row: Message,
    sent: Option<Publication>,
    source: Source,
    take: Option<Take>,
    execution: Option<Execution>,
}

impl Tables {
    pub(super) fn messages(&self, columns: &mut Columns<'_>, range: Range<u32>) {
        let (model, identity) = (&self.model, &self.model.identity);
        let rows = some(&self.messages.rows, range).into_iter();
        let rows = rows.map(|(_, row)| {
            let sent = model.publications.rows.get(row.publication);
            MessageView {
                row,
                sent,
                source: sent.map(|of| model.source(&of)).unwrap_or_default(),
                take: model.takes.rows.get(row.take),
                execution: self.execution(row.execution),
            }
        });
        let rows: Vec<MessageView> = rows.collect();
        let topic = |of: &MessageView| {
            let taken = || model.registry.topic_at(of.row.subscription);
            of.source.topic.or_else(taken)
        };
        let publisher = |of: &MessageView| identity.process(of.sent?.thread);
        let host = |of: &MessageView| {
            let host = identity.host(publisher(of));
            host.or_else(|| identity.host(of.row.process))
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
            let ran = of.execution.as_ref();
            let ran = ran.and_then(|it| identity.process(it.thread));
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
        let age = |of: &MessageView| match (&of.take, &of.sent) {
            (Some(take), Some(sent)) if sent.header != NEVER => take.time.wrapping_sub(sent.header),
            _ => NEVER,
        };
        columns!(columns, rows, |of|
            id "message_id" of.row.publication;
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
            int64 "received_ns" take(of, |row| row.received);
            int64 "take_ns" take(of, |row| row.time);
            int64 "rclcpp_take_ns" take(of, |row| row.rclcpp);
            int64 "callback_start_ns" ran(of, |row| row.start);
            int64 "callback_end_ns" ran(of, |row| row.end);
            int64 "latency_ns" latency(of);
            int64 "clock_bound_ns" bound(of);
            int64 "data_age_ns" age(of);
            id "callback_instance_id" of.row.execution;
        );
        let decided = || rows.iter().map(|of| of.row.decision);
        columns.category(
            "outcome",
            decided().map(|of| of.outcome as u8),
            Outcome::WORDS,
        );
        let joined = &Match::WORDS[..Match::Nothing as usize];
        columns.category("match", decided().map(|of| of.how as u8), joined);
        columns.category("reason", decided().map(|of| of.reason as u8), Reason::WORDS);
    }

    /// Stamps of the system clock, by host: time, and how far it was ahead of the events' clock. Those
    /// are there that are the nearest ones of a take without a publication.
    pub(super) fn stamps(&self) -> HashMap<Maybe<Host>, Vec<(i64, i64)>> {
        let model = &self.model;
        let mut alone: HashMap<Maybe<Host>, Vec<i64>> = HashMap::new();
        for take in self
            .partners
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
        let mut near: HashMap<Maybe<Host>, Vec<(i64, i64)>> = HashMap::new();
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
    pub(super) fn one_sided(&self, columns: &mut Columns<'_>, range: Range<u32>) {
        let model = &self.model;
        let alone = self.partners.alone.iter().skip(range.start as usize);
        let alone = alone.take(range.len());
        let rows = alone.filter_map(|number| Some((*number, model.takes.rows.get(*number)?)));
        let rows = rows.map(|(number, take)| {
            let host = model.identity.host(model.process(take.thread));
            let offset = nearest(self.stamps.get(&host).map_or(&[], Vec::as_slice), take.time);
            let ahead = if offset == NEVER { 0 } else { offset };
            let sent = take.stamp.saturating_sub(ahead);
            let start = self.start(take.execution);
            let created = get(&model.registry.subscriptions, take.subscription);
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
        let rows: Vec<(Id<Take>, Take, i64, i64, u8)> = rows.collect();
        let recorded = |take: &Take| {
            let topic = model.take_topic(take);
            topic.map(|_| self.topics.contains(&topic))
        };
        self.of_threads(columns, rows.iter().map(|(_, take, ..)| take.thread));
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
    }
}
