//! Make the tables of messages, and of takes without a publication.

use std::ops::Range;

use ahash::{HashMap, HashMapExt};

use crate::about::Source;
use crate::callbacks::Execution;
use crate::columns::{Columns, columns};
use crate::decide::{Match, Outcome, Reason};
use crate::identity::{Host, Process};
use crate::ids::{Id, Maybe, get};
use crate::messages::Message;
use crate::publications::Publication;
use crate::rows::NEVER;
use crate::takes::Take;

use super::Tables;
use super::clocks::Nearest;

/// A message with its publication, take and execution.
struct MessageView {
    row: Message,
    sent: Option<Publication>,
    source: Source,
    take: Option<Take>,
    execution: Option<Execution>,
    publisher: Maybe<Process>,
    /// The latency, and by how much it may be wrong, in ns.
    latency: i64,
    bound: i64,
}

impl Tables {
    pub(super) fn messages(&self, columns: &mut Columns<'_>, range: Range<u32>) {
        let (model, identity) = (&self.model, &self.model.identity);
        let rows = self.messages.rows.part(range).into_iter();
        let rows = rows.map(|(_, row)| {
            let sent = model.publications.rows.get(row.publication);
            let execution = self.execution(row.execution);
            let (latency, bound) = match (&sent, &execution) {
                (Some(sent), Some(ran)) => self.latency(sent, ran),
                _ => (NEVER, NEVER),
            };
            MessageView {
                row,
                sent,
                source: sent.map_or_else(Source::default, |sent| model.source(&sent)),
                take: model.takes.rows.get(row.take),
                execution,
                publisher: sent.and_then(|publication| model.process(publication.thread)),
                latency,
                bound,
            }
        });
        let rows: Vec<MessageView> = rows.collect();
        let topic = |message: &MessageView| {
            let taken = || model.registry.topic_at(message.row.subscription);
            message.source.topic.or_else(taken)
        };
        let host = |message: &MessageView| {
            let host = identity.host(message.publisher);
            host.or_else(|| identity.host(message.row.process))
        };
        let sent = |message: &MessageView, time: fn(&Publication) -> i64| {
            message.sent.as_ref().map_or(NEVER, time)
        };
        let take = |message: &MessageView, time: fn(&Take) -> i64| {
            message.take.as_ref().map_or(NEVER, time)
        };
        let ran = |message: &MessageView, time: fn(&Execution) -> i64| {
            message.execution.as_ref().map_or(NEVER, time)
        };
        let age = |message: &MessageView| match (&message.take, &message.sent) {
            (Some(take), Some(sent)) if sent.header != NEVER => take.time.wrapping_sub(sent.header),
            _ => NEVER,
        };
        columns!(columns, rows, |message|
            id "message_id" message.row.publication;
            name "topic" topic(message);
            id "publisher_id" message.source.publisher;
            id "subscription_id" message.row.subscription;
            name "publisher_node" message.source.node;
            name "subscription_node" self.node_at(message.row.subscription);
            host "host" host(message);
            host "publisher_host" identity.host(message.publisher);
            int32 "publisher_vpid" identity.vpid(message.publisher);
            host "subscription_host" identity.host(message.row.process);
            int32 "subscription_vpid" identity.vpid(message.row.process);
            boolean "intra_process" message.row.intra;
            int64 "publish_ns" sent(message, |row| row.publish);
            int64 "rcl_publish_ns" sent(message, |row| row.rcl);
            int64 "rmw_publish_ns" sent(message, |row| row.rmw);
            int64 "source_timestamp_ns" sent(message, |row| row.stamp);
            int64 "received_ns" take(message, |row| row.received);
            int64 "take_ns" take(message, |row| row.time);
            int64 "rclcpp_take_ns" take(message, |row| row.rclcpp);
            int64 "callback_start_ns" ran(message, |row| row.start);
            int64 "callback_end_ns" ran(message, |row| row.end);
            int64 "latency_ns" message.latency;
            int64 "clock_bound_ns" message.bound;
            int64 "data_age_ns" age(message);
            id "callback_instance_id" message.row.execution;
        );
        let decisions = || rows.iter().map(|message| message.row.decision);
        let outcomes = decisions().map(|decision| decision.outcome as u8);
        let joined = decisions().map(|decision| decision.how as u8);
        let reasons = decisions().map(|decision| decision.reason as u8);
        columns.category("outcome", outcomes, Outcome::WORDS);
        columns.category("match", joined, &Match::WORDS[..Match::Nothing as usize]);
        columns.category("reason", reasons, Reason::WORDS);
    }

    /// Return how long after a publication an execution began, and by how much that may be wrong.
    fn latency(&self, sent: &Publication, ran: &Execution) -> (i64, i64) {
        // The threads' hosts, as the subscription's is not known if tracing began late.
        let [from, to] = [sent.thread, ran.thread].map(|thread| self.host(thread));
        let latency = ran.start.wrapping_sub(sent.publish);
        if from == to {
            return (latency, NEVER);
        }
        let bound = self.model.about.clock_bound(from, to, sent.publish);
        // A latency that is not longer than its possible error is not given.
        let is_told = bound != NEVER && latency > bound;
        (if is_told { latency } else { NEVER }, bound)
    }

    /// Return how far the system clock was ahead of the events' clock at takes without a
    /// publication, by the nearest timestamps that their hosts gave.
    pub(super) fn stamps(&self) -> HashMap<Maybe<Host>, Nearest> {
        let model = &self.model;
        let mut alone: HashMap<Maybe<Host>, Vec<i64>> = HashMap::new();
        let takes = self.partners.alone.iter();
        for take in takes.filter_map(|number| model.takes.rows.get(*number)) {
            let times = alone.entry(self.host(take.thread)).or_default();
            times.push(take.time);
        }
        let alone = alone.into_iter();
        let alone = alone.map(|(host, times)| (host, Nearest::new(times)));
        let mut by_host: HashMap<_, _> = alone.collect();
        if !by_host.is_empty() {
            for (_, row) in model.publications.rows.iter() {
                if row.rmw != NEVER
                    && row.stamp != NEVER
                    && !row.estimated
                    && let Some(nearest) = by_host.get_mut(&self.host(row.thread))
                {
                    nearest.on_stamp((row.rmw, row.stamp.wrapping_sub(row.rmw)));
                }
            }
        }
        by_host
    }

    /// Make the rows of takes without a publication, with a latency from their source timestamps.
    pub(super) fn one_sided(&self, columns: &mut Columns<'_>, range: Range<u32>) {
        let model = &self.model;
        let alone = self.partners.alone.iter().skip(range.start as usize);
        let alone = alone.take(range.len());
        let rows = alone.filter_map(|number| Some((*number, model.takes.rows.get(*number)?)));
        let rows = rows.map(|(number, take)| {
            let nearest = self.stamps.get(&self.host(take.thread));
            let offset = nearest.map_or(NEVER, |nearest| nearest.offset(take.time));
            let ahead = if offset == NEVER { 0 } else { offset };
            let sent = take.stamp.saturating_sub(ahead);
            let start = self.start(take.execution);
            let created = get(&model.registry.subscriptions, take.subscription);
            let stamped = take.stamp != NEVER;
            let (latency, outcome) = if stamped && created.is_some_and(|taker| sent < taker.created)
            {
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
