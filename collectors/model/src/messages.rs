//! After the pass: a row for each publication and each subscription that existed then.

use ahash::{HashMap, HashMapExt, HashSet};

use crate::Model;
use crate::approximate;
use crate::connections::Connection;
use crate::decide::{Decision, Judge, Match, Outcome, Reason};
use crate::ends::{Existing, Source};
use crate::matches::chained;
use crate::publications::Publication;
use crate::ring_buffers::{Enqueue, Fate};
use crate::rows::{NEVER, NONE, Plain, Rows, plain};
use crate::takes::Take;

/// By what a publication and a take belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Join {
    /// Nothing: there is no take.
    Nothing,
    /// Topic and source timestamp.
    SameTimestamp,
    /// A place in a ring buffer.
    RingBuffer,
    /// The order of several publications with one topic and timestamp.
    SharedTimestamp,
    /// The nearest timestamp, where the publication holds none.
    NearestTimestamp,
    /// A timestamp that no other publication has, where a topic is not known.
    TimestampAlone,
    /// The order of publications and callbacks.
    InOrder,
}

plain!(enum Join [
    Nothing, SameTimestamp, RingBuffer, SharedTimestamp, NearestTimestamp, TimestampAlone, InOrder
]);

/// Which way a message took, or had to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leg {
    /// Through the middleware.
    Middleware,
    /// Through the middleware, to a subscription that is younger than it.
    BeforeSubscription,
    /// Into a ring buffer.
    Buffer,
    /// Into a ring buffer in which a later one took its place.
    Overwritten,
    /// Into a ring buffer that was cleared.
    Cleared,
    /// Out of a ring buffer into which a publisher's history may have put it.
    LateJoiner,
    /// Out of a ring buffer, and who published it was not recorded.
    Unpublished,
    /// None: its topic had no subscription.
    NoSubscription,
    /// Not known: a subscription may be missing.
    UnknownSubscription,
}

plain!(enum Leg [
    Middleware, BeforeSubscription, Buffer, Overwritten, Cleared, LateJoiner, Unpublished,
    NoSubscription, UnknownSubscription
]);

plain!(Decision {
    outcome,
    how,
    reason
});

/// A publication and a take.
#[derive(Clone, Copy)]
pub struct Matched {
    message: u32,
    subscription: u32,
    take: u32,
    execution: u32,
    join: Join,
}

/// One message; numbers are `NONE` and times `NEVER` where there is none.
#[derive(Clone, Copy)]
#[expect(
    clippy::struct_field_names,
    reason = "its publication is what it is of"
)]
pub struct Message {
    /// Its publication.
    pub message: u32,
    /// Its publisher.
    pub publisher: u32,
    /// Its subscription.
    pub subscription: u32,
    /// The process of the subscription.
    pub process: u32,
    /// Its take.
    pub take: u32,
    /// The execution for it.
    pub execution: u32,
    /// How it was joined to these.
    pub join: Join,
    /// Whether it came within the process, where that can be said.
    pub intra: Option<bool>,
    /// When it was published.
    pub publish: i64,
    /// When it was taken or, where no take was recorded, its callback began.
    pub taken: i64,
    /// Which way it took.
    pub leg: Leg,
    /// What is said of it, once all is known.
    pub decision: Option<Decision>,
}

impl Plain for Option<Decision> {
    fn put(&self, to: &mut Vec<u8>) {
        self.is_some().put(to);
        if let Some(decision) = self {
            decision.put(to);
        }
    }
    fn got(from: &mut &[u8]) -> Option<Self> {
        Some(if bool::got(from)? {
            Some(Decision::got(from)?)
        } else {
            None
        })
    }
}

plain!(Message {
    message,
    publisher,
    subscription,
    process,
    take,
    execution,
    join,
    intra,
    publish,
    taken,
    leg,
    decision
});

impl Message {
    /// When it was taken, if a take tells.
    pub const fn take_time(&self) -> i64 {
        if self.take == NONE { NEVER } else { self.taken }
    }

    /// Whether it went, or should have gone, through the middleware from one known end to another.
    pub fn is_between(&self) -> bool {
        self.publisher != NONE
            && self.subscription != NONE
            && self.publish != NEVER
            && self.intra != Some(true)
            && self.leg != Leg::BeforeSubscription
    }

    /// What is said of it.
    pub fn decided(&self) -> Decision {
        self.decision.unwrap_or(Decision {
            outcome: Outcome::Unknown,
            how: Match::Nothing,
            reason: Reason::RecordingEnded,
        })
    }
}

/// All messages, and what was counted.
#[derive(Default)]
pub struct Messages {
    /// In the order of their publications.
    pub rows: Rows<Message>,
    /// Publications that share their key with another one.
    pub ambiguous: u64,
    /// Publications without a topic of which rclcpp alone told.
    pub unnamed: u64,
    /// Other publications without a topic, of which not even the publisher is known.
    pub unknown_publishers: u64,
    /// Takes without a subscription and a topic.
    pub unknown_subscriptions: u64,
    /// Takes between processes of which no publication was recorded.
    pub alone: Vec<u32>,
    /// Of each subscription the publications after its process had gone.
    pub gone: Vec<(u32, u64)>,
    /// Subscriptions whose callbacks ran and of which no take was recorded.
    pub untaken: Vec<u32>,
    /// By publisher and subscription.
    pub connections: HashMap<(u32, u32), Connection>,
    /// Rows joined by time or order.
    pub approximate: u64,
    /// Rows of which nobody knows whether they were lost, as events were not recorded.
    pub untold: u64,
}

/// Messages as they are made.
pub struct Making<'a> {
    /// Those that are.
    pub made: Messages,
    /// Of publications of one time, and those without one.
    group: Vec<Message>,
    rest: Vec<Message>,
    /// Who will decide.
    pub judge: Judge<'a>,
    /// Whether something was taken by a subscription of which nobody knows the topic; and since
    /// when it may be that the init event of one is missing.
    nameless: bool,
    unseen: Option<i64>,
}

impl Model {
    /// Takes of publications that share their key: the first belongs to the first.
    fn ambiguous(&mut self) -> (Vec<Matched>, HashSet<u32>) {
        let (mut found, mut shared) = (Vec::new(), HashSet::default());
        let mut chain = Vec::new();
        for mut messages in std::mem::take(&mut self.matches.shared).into_values() {
            messages.sort_unstable();
            let mut next: HashMap<u32, usize> = HashMap::new();
            for first in &messages {
                let taken = self.publications.rows.get(*first).map(|row| row.taken);
                chained(&self.takes.rows, taken.unwrap_or(NONE), &mut chain);
                for (number, take) in &chain {
                    let rank = next.entry(take.subscription).or_default();
                    let message = messages.get(*rank);
                    if let Some(take) = self.takes.rows.edit(*number) {
                        take.matched = message.is_some();
                    }
                    if let Some(message) = message {
                        found.push(joined(*message, (*number, take), Join::SharedTimestamp));
                    }
                    *rank += 1;
                }
            }
            shared.extend(messages);
        }
        (found, shared)
    }

    /// All messages.
    pub(crate) fn messages(&mut self) -> Messages {
        self.gaps.finish();
        self.matches.finish(
            &mut self.publications.rows,
            &mut self.takes.rows,
            &self.registry,
        );
        approximate::estimate(self);
        let (mut more, shared) = self.ambiguous();
        approximate::without_topic(self, &mut more);
        let untaken = approximate::without_takes(self);
        more.sort_by_key(|one| (one.message, one.subscription));
        let ordered = approximate::by_order(self, &untaken);
        if !ordered.is_empty() {
            more.extend(ordered);
            more.sort_by_key(|one| (one.message, one.subscription));
        }
        let (mut alone, mut nameless, mut unknown) = (Vec::new(), false, 0);
        for (number, take) in self.takes.rows.iter() {
            let topic = self.take_topic(&take);
            nameless |= topic == NONE;
            unknown += u64::from(topic == NONE && take.subscription == NONE);
            if !take.intra && !take.matched && topic != self.registry.discovery {
                alone.push(number);
            }
        }
        let mut making = Making {
            judge: Judge {
                model: self,
                longest_wait: HashMap::new(),
                untaken: untaken.iter().copied().collect(),
                shared: self.keys_of(&shared),
                above: Vec::new(),
                ordinary: HashMap::new(),
                alone: self.taken_alone(&alone),
            },
            made: Messages {
                rows: Rows::on(self.disk.as_ref()),
                ambiguous: shared.len() as u64,
                unknown_subscriptions: unknown,
                alone,
                untaken,
                ..Messages::default()
            },
            group: Vec::new(),
            rest: Vec::new(),
            nameless,
            unseen: self.unseen(),
        };
        self.all_rows(&mut making, &more, &shared);
        self.settle(making)
    }

    /// Topic and timestamp of publications.
    fn keys_of(&self, messages: &HashSet<u32>) -> HashSet<(u32, i64)> {
        let rows = messages
            .iter()
            .filter_map(|number| self.publications.rows.get(*number));
        rows.map(|row| (self.source(&row).topic, row.stamp))
            .collect()
    }

    /// Since when a subscription may have been made that nothing tells of: while others were.
    fn unseen(&self) -> Option<i64> {
        let made = self
            .registry
            .subscriptions
            .iter()
            .map(|of| of.created)
            .max()?;
        self.gaps.first().filter(|begin| *begin <= made)
    }

    /// A row of each publication and subscription, publication by publication.
    fn all_rows(&self, making: &mut Making<'_>, more: &[Matched], shared: &HashSet<u32>) {
        let mut existing = Existing::new(self, |_| true);
        let (mut chain, mut pairs) = (Vec::new(), Vec::new());
        let (mut matched, mut given): (Vec<Matched>, Vec<Enqueue>) = (Vec::new(), Vec::new());
        let mut more = more.iter().peekable();
        let mut publish = NEVER;
        for (message, row) in self.publications.rows.iter() {
            if row.publish != publish {
                self.sorted(making);
                publish = row.publish;
            }
            let source = self.source(&row);
            let topic = source.topic;
            if topic == NONE {
                let alone = row.rclcpp != NEVER && row.rcl == NEVER;
                making.made.unnamed += u64::from(alone);
                making.made.unknown_publishers += u64::from(!alone && source.publisher == NONE);
            }
            matched.clear();
            if row.taken != NONE && !shared.contains(&message) {
                chained(&self.takes.rows, row.taken, &mut chain);
                let how = if row.estimated {
                    Join::NearestTimestamp
                } else {
                    Join::SameTimestamp
                };
                // Of several takes of one subscription the first.
                let first = chain.iter().filter(|(_, take)| take.matched);
                matched.extend(first.map(|(number, take)| joined(message, (*number, take), how)));
            }
            while let Some(one) = more.next_if(|one| one.message <= message) {
                matched.push(*one);
            }
            if matched.len() > 1 {
                matched.sort_by_key(|one| one.subscription);
            }
            existing.at(self, topic, row.publish, &mut pairs);
            given.clear();
            let mut number = row.given;
            while let Some(one) = self.ring_buffers.rows.get(number) {
                given.push(one);
                number = one.next;
            }
            given.reverse();
            self.rows_of(making, (message, &row, source), &matched, &pairs, &given);
        }
        self.sorted(making);
        // Only a publisher's history is replayed within a process.
        let buffers = self.registry.ring_buffers.iter();
        let kept = buffers.filter(|of| of.publisher != NONE);
        let kept = kept.filter_map(|of| self.registry.publishers.get(of.publisher as usize));
        let kept: HashSet<u32> = kept.map(|of| of.process).collect();
        for (_, row) in self.ring_buffers.rows.iter() {
            if row.message == NONE {
                let take = self.takes.rows.get(row.take);
                making.rest.push(Message {
                    message: NONE,
                    publisher: NONE,
                    subscription: row.subscription,
                    process: row.process,
                    take: row.take,
                    execution: take.map_or(NONE, |take| take.execution),
                    join: Join::Nothing,
                    intra: Some(true),
                    publish: NEVER,
                    taken: take.map_or(NEVER, |take| take.time),
                    leg: if row.untold || !kept.contains(&row.process) {
                        Leg::Unpublished
                    } else {
                        Leg::LateJoiner
                    },
                    decision: None,
                });
            }
        }
        making.group = std::mem::take(&mut making.rest);
        self.sorted(making);
        let gone = (0..).zip(existing.gone).filter(|(_, count)| *count > 0);
        making.made.gone = gone.collect();
    }

    /// The rows of one publication.
    fn rows_of(
        &self,
        making: &mut Making<'_>,
        (message, row, source): (u32, &Publication, Source),
        matched: &[Matched],
        pairs: &[u32],
        given: &[Enqueue],
    ) {
        let discovery = self.registry.discovery;
        let begin = making.group.len();
        let time = |take: u32| self.takes.rows.get(take).map_or(NEVER, |take| take.time);
        // Of a message of the middleware's own there is no row.
        for one in given.iter().filter(|_| source.topic != discovery) {
            let (leg, join) = match one.fate {
                Fate::Pending => (Leg::Buffer, Join::Nothing),
                Fate::Dequeued => (Leg::Buffer, Join::RingBuffer),
                Fate::Overwritten => (Leg::Overwritten, Join::RingBuffer),
                Fate::Cleared => (Leg::Cleared, Join::RingBuffer),
            };
            let take = self.takes.rows.get(one.take);
            making.group.push(Message {
                message,
                publisher: source.publisher,
                subscription: one.subscription,
                process: self.process_of(one.subscription),
                take: one.take,
                execution: take.map_or(NONE, |take| take.execution),
                join,
                intra: Some(true),
                publish: row.publish,
                taken: take.map_or(NEVER, |take| take.time),
                leg,
                decision: None,
            });
        }
        // The copy that also came through the middleware is dropped by rclcpp: one row, the intra one.
        let intra = making.group.len();
        let unresolved = given.iter().any(|one| one.subscription == NONE) && intra > begin;
        let within = |group: &[Message], subscription: u32| {
            subscription != NONE
                && group[begin..intra]
                    .iter()
                    .any(|one| one.subscription == subscription)
        };
        let one = |subscription: u32, of: Option<&Matched>, leg: Leg| {
            let take = of.map_or(NONE, |of| of.take);
            Message {
                message,
                publisher: source.publisher,
                subscription,
                process: self.process_of(subscription),
                take,
                execution: of.map_or(NONE, |of| of.execution),
                join: of.map_or(Join::Nothing, |of| of.join),
                intra: (subscription != NONE || take != NONE).then_some(false),
                publish: row.publish,
                taken: time(take),
                leg,
                decision: None,
            }
        };
        let mut there = matched.iter().peekable();
        let late = |group: &mut Vec<Message>, of: &Matched| {
            if of.subscription == NONE {
                group.push(one(NONE, Some(of), Leg::Middleware));
            } else if !within(group, of.subscription) {
                group.push(one(of.subscription, Some(of), Leg::BeforeSubscription));
            }
        };
        for subscription in pairs {
            while let Some(of) = there.next_if(|of| of.subscription < *subscription) {
                late(&mut making.group, of);
            }
            let of = there.next_if(|of| of.subscription == *subscription);
            while there
                .next_if(|of| of.subscription == *subscription)
                .is_some()
            {}
            if !within(&making.group, *subscription) {
                let pending = of.is_none() && unresolved;
                let leg = if pending {
                    Leg::Buffer
                } else {
                    Leg::Middleware
                };
                making.group.push(one(*subscription, of, leg));
            }
        }
        for of in there {
            late(&mut making.group, of);
        }
        if making.group.len() == begin && source.topic != discovery {
            let unseen = making.unseen.is_some_and(|since| since <= row.publish);
            let leg = if source.topic == NONE || making.nameless || unseen {
                Leg::UnknownSubscription
            } else {
                Leg::NoSubscription
            };
            making.group.push(one(NONE, None, leg));
        }
    }

    /// Append the rows of publications of one time.
    fn sorted(&self, making: &mut Making<'_>) {
        if making.group.len() > 1 {
            making.group.sort_by_key(|row| {
                let taken = if row.take == NONE {
                    i64::MAX
                } else {
                    row.taken
                };
                (taken, row.message, row.subscription)
            });
        }
        for mut row in making.group.drain(..) {
            if row.take == NONE {
                let of = self.callbacks.executions.get(row.execution);
                row.taken = of.map_or(NEVER, |of| of.start);
            }
            if row.leg == Leg::BeforeSubscription
                && let Some(of) = self.registry.subscriptions.get(row.subscription as usize)
                && row.publish != NEVER
                && row.publish >= of.created
            {
                // Of a publisher that is not known nobody could say to whom it published.
                row.leg = Leg::Middleware;
            }
            if row.leg != Leg::BeforeSubscription && row.publish != NEVER && row.taken != NEVER {
                let longest = &mut making.judge.longest_wait;
                let longest = longest.entry(row.subscription).or_insert(i64::MIN);
                *longest = row.taken.wrapping_sub(row.publish).max(*longest);
            }
            making.made.rows.push(row);
        }
    }
}

/// A publication and a take of it.
pub(crate) const fn joined(message: u32, (number, take): (u32, &Take), join: Join) -> Matched {
    Matched {
        message,
        subscription: take.subscription,
        take: number,
        execution: take.execution,
        join,
    }
}

impl Matched {
    /// A callback joined to a publication without a take.
    pub(crate) const fn by_order(message: u32, subscription: u32, execution: u32) -> Self {
        Self {
            message,
            subscription,
            take: NONE,
            execution,
            join: Join::InOrder,
        }
    }
}
