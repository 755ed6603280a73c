//! After the pass: what became of each publication at each subscription that existed then.

use ahash::{HashMap, HashMapExt, HashSet};

use crate::Model;
use crate::approximate;
use crate::evidence::{Back, Way};
use crate::known::Endpoint;
use crate::matches::chained;
use crate::publications::Publication;
use crate::ring_buffers::{Enqueue, Fate};
use crate::rows::{NEVER, NONE, Rows, plain};
use crate::takes::Take;

/// How long after its last event a process is still taken to live, and how long a message may be on
/// its way where no other of the subscription shows it.
const SECOND: i64 = 1_000_000_000;

/// How publication and take were joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Match {
    /// By a key, or within the process.
    Exact,
    /// By time or order.
    Approximate,
    /// By order, of several of one key.
    Ambiguous,
    /// Not at all.
    None,
}

plain!(enum Match [Exact, Approximate, Ambiguous, None]);

/// What a row is, beside what its take tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lot {
    /// Nothing else.
    Open,
    /// It came to a late joiner.
    Replayed,
    /// It came out of a ring buffer, and who put it there may be missing.
    Untold,
    /// There was no one to take it.
    NoSubscriber,
    /// It was overwritten in a ring buffer, or cleared there.
    Overwritten,
    /// Nobody can say, yet.
    Pending,
}

plain!(enum Lot [Open, Replayed, Untold, NoSubscriber, Overwritten, Pending]);

/// What became of a message; by the place in `OUTCOMES`.
pub const OUTCOMES: &[&str] = &[
    "delivered",
    "taken",
    "overwritten",
    "lost",
    "unknown",
    "replayed",
    "no_subscriber",
    "replaced",
];
const DELIVERED: u8 = 0;
const TAKEN: u8 = 1;
const OVERWRITTEN: u8 = 2;
/// By their places in `OUTCOMES`.
pub const LOST: u8 = 3;
/// As above.
pub const UNKNOWN: u8 = 4;
/// As above.
pub const REPLAYED: u8 = 5;
const NO_SUBSCRIBER: u8 = 6;
/// As above.
pub const REPLACED: u8 = 7;

/// What a publication is of, once all is known.
#[derive(Clone, Copy)]
pub struct Source {
    /// Its publisher, topic and node, or `NONE`.
    pub publisher: u32,
    /// As above.
    pub topic: u32,
    /// As above.
    pub node: u32,
}

impl Source {
    /// Of no publication.
    pub const NONE: Self = Self {
        publisher: NONE,
        topic: NONE,
        node: NONE,
    };
}

/// A publication and a take.
#[derive(Clone, Copy)]
pub struct Matched {
    message: u32,
    subscription: u32,
    take: u32,
    execution: u32,
    how: Match,
}

/// One message.
#[derive(Clone, Copy)]
#[expect(
    clippy::struct_field_names,
    reason = "its publication is what it is of"
)]
pub struct Message {
    /// Its publication and the publisher of that, or `NONE`.
    pub message: u32,
    /// As above.
    pub publisher: u32,
    /// Its subscription, or `NONE`, and the process of that.
    pub subscription: u32,
    /// As above.
    pub process: u32,
    /// Its take and the execution for it, or `NONE`.
    pub take: u32,
    /// As above.
    pub execution: u32,
    /// How it was joined.
    pub how: Match,
    /// Whether it came within the process, where that can be said.
    pub intra: Option<bool>,
    /// What became of it.
    pub outcome: u8,
    /// When it was published, and taken or, where no take was recorded, its callback began.
    pub publish: i64,
    /// As above.
    pub taken: i64,
    /// Whether its publication begins with an event of rcl or rmw, and has no timestamp.
    pub below: bool,
    /// As above.
    pub stampless: bool,
    lot: Lot,
}

plain!(Message {
    message,
    publisher,
    subscription,
    process,
    take,
    execution,
    how,
    intra,
    outcome,
    publish,
    taken,
    below,
    stampless,
    lot
});

impl Message {
    /// When it was taken, if a take tells.
    pub const fn take_time(&self) -> i64 {
        if self.take == NONE { NEVER } else { self.taken }
    }

    /// Whether it went, or should have gone, through the middleware from one known end to another.
    pub fn between(&self) -> bool {
        self.publisher != NONE
            && self.subscription != NONE
            && self.publish != NEVER
            && self.intra != Some(true)
            && self.lot != Lot::Replayed
    }
}

/// All messages, and what was counted.
#[derive(Default)]
pub struct Messages {
    /// In the order of their publications.
    pub rows: Rows<Message>,
    /// Publications that share their key with another one.
    pub ambiguous: u64,
    /// Publications without a topic: those of which rclcpp alone told, and others of which not even
    /// the publisher is known.
    pub unnamed: u64,
    /// As above.
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
    pub ways: HashMap<(u32, u32), Way>,
    /// Rows joined by time or order.
    pub approximate: u64,
    /// Rows of which nobody knows whether they were lost, as events were not recorded.
    pub untold: u64,
}

/// Which subscriptions exist as something is published.
pub struct Existing<'a> {
    on_topic: HashMap<u32, Vec<(u32, &'a Endpoint)>>,
    /// Of each the first publication after the last event of its process.
    after: HashMap<u32, i64>,
    /// Of each the publications after its process had gone.
    gone: Vec<u64>,
}

impl<'a> Existing<'a> {
    /// Of these subscriptions.
    pub(crate) fn new(model: &'a Model, wanted: impl Fn(u32) -> bool) -> Self {
        let mut on_topic: HashMap<u32, Vec<(u32, &Endpoint)>> = HashMap::new();
        for (number, of) in (0..).zip(&model.known.subscriptions) {
            if of.topic != NONE && of.topic != model.known.discovery && wanted(number) {
                on_topic.entry(of.topic).or_default().push((number, of));
            }
        }
        Self {
            on_topic,
            after: HashMap::new(),
            gone: vec![0; model.known.subscriptions.len()],
        }
    }

    /// Those of a topic at a time, but for those of processes that had gone; times never fall.
    pub(crate) fn at(&mut self, model: &Model, topic: u32, publish: i64, found: &mut Vec<u32>) {
        found.clear();
        for (number, of) in self.on_topic.get(&topic).into_iter().flatten() {
            if publish < of.created || publish >= of.ended {
                continue;
            }
            let end = model.identity.end(of.process);
            if publish > end {
                // It has gone when more than a second, and more than one publication, follows its
                // last event.
                let first = *self.after.entry(*number).or_insert(publish);
                if publish > first.max(end.saturating_add(SECOND)) {
                    self.gone[*number as usize] += 1;
                    continue;
                }
            }
            found.push(*number);
        }
    }
}

/// Messages as they are made.
struct Making {
    made: Messages,
    /// Of publications of one time, and those without one.
    group: Vec<Message>,
    rest: Vec<Message>,
    /// Of each subscription the longest that a message waited.
    waited: HashMap<u32, i64>,
    /// Topic and timestamp of several publications.
    shared: HashSet<(u32, i64)>,
    /// Whether something was taken by a subscription of which nobody knows the topic; and since
    /// when it may be that the init event of one is missing.
    nameless: bool,
    unseen: Option<i64>,
}

impl Model {
    /// The topic of a take: the middleware's own have no event of rcl.
    pub(crate) fn take_topic(&self, take: &Take) -> u32 {
        let of = self.known.subscriptions.get(take.subscription as usize);
        let own = of.is_none() && take.rcl == NEVER && !take.intra;
        let topic = of.map_or(NONE, |of| of.topic);
        if own && self.about.rcl_take {
            self.known.discovery
        } else if take.rcl != NEVER && topic == self.known.discovery {
            // What rcl took is of a subscription of which rcl's event is missing.
            NONE
        } else {
            topic
        }
    }

    /// What a publication is of: by address, else by what else its process could publish.
    pub(crate) fn source(&self, row: &Publication) -> Source {
        self.source_in(self.process(row.thread), row)
    }

    /// The same of a publication of this process.
    pub(crate) fn source_in(&self, process: u32, row: &Publication) -> Source {
        let discovery = self.known.discovery;
        let mut found = Source {
            publisher: row.publisher,
            ..Source::NONE
        };
        let known = self.known.publishers.get(row.publisher as usize);
        if let Some(of) = known {
            (found.topic, found.node) = (of.topic, of.node);
        }
        let above = row.rclcpp != NEVER || row.intra != NEVER;
        let rcl = row.rcl != NEVER;
        if self.about.rcl_publish && !above && !rcl {
            if known.is_none() {
                found.topic = discovery;
            }
        } else if self.about.rcl_publish && found.topic == discovery {
            // It went through rcl, of whose publisher the event is missing.
            found.topic = NONE;
        } else if known.is_none()
            && rcl
            && !above
            && !row.by_rmw
            && self.known.loggers.contains(&process)
        {
            found.topic = self.known.rosout;
        }
        // Where rcl has its events one is missing, and perhaps that of the publisher, too.
        if found.topic == NONE && row.rclcpp != NEVER && !rcl && !self.about.rcl_publish {
            let steps = self.about.guesses.get(&process);
            let steps = steps.map_or(&[][..], Vec::as_slice);
            let after = steps.partition_point(|(since, ..)| *since <= row.publish);
            let last = steps[..after].last();
            (found.topic, found.publisher) =
                last.map_or((NONE, NONE), |(_, topic, publisher)| (*topic, *publisher));
            let of = self.known.publishers.get(found.publisher as usize);
            found.node = of.map_or(NONE, |of| of.node);
        }
        found
    }

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
                        found.push(joined(*message, (*number, take), Match::Ambiguous));
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
        let missing = self.missing.iter();
        self.cuts
            .gaps
            .add(missing.map(|(host, begin, end, _)| (*host, *begin, *end)));
        if self.is_broken() {
            let suspects = self.sequence.suspects();
            let identity = &self.identity;
            let of_host = |(process, begin, end)| (identity.host(process), begin, end);
            self.cuts.gaps.add(suspects.map(of_host));
        }
        self.matches.finish(
            &mut self.publications.rows,
            &mut self.takes.rows,
            &self.known,
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
            if !take.intra && !take.matched && topic != self.known.discovery {
                alone.push(number);
            }
        }
        self.doubt_unseen(&alone);
        let mut making = Making {
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
            waited: HashMap::new(),
            shared: HashSet::default(),
            nameless,
            unseen: self.unseen(),
        };
        self.all_rows(&mut making, &more, &shared);
        self.settle(making)
    }

    /// Since when a subscription may have been made that nothing tells of: while others were.
    fn unseen(&self) -> Option<i64> {
        let made = self.known.subscriptions.iter().map(|of| of.created).max()?;
        self.cuts.gaps.first().filter(|begin| *begin <= made)
    }

    /// A row of each publication and subscription, publication by publication.
    fn all_rows(&self, making: &mut Making, more: &[Matched], shared: &HashSet<u32>) {
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
            let Source {
                publisher, topic, ..
            } = self.source(&row);
            if topic == NONE {
                let alone = row.rclcpp != NEVER && row.rcl == NEVER;
                making.made.unnamed += u64::from(alone);
                making.made.unknown_publishers += u64::from(!alone && publisher == NONE);
            }
            matched.clear();
            if row.taken != NONE && !shared.contains(&message) {
                chained(&self.takes.rows, row.taken, &mut chain);
                let how = if row.estimated {
                    Match::Approximate
                } else {
                    Match::Exact
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
            self.rows_of(making, (message, &row, topic), &matched, &pairs, &given);
        }
        self.sorted(making);
        // Only a publisher's history is replayed within a process.
        let buffers = self.known.ring_buffers.iter();
        let kept = buffers.filter(|of| of.publisher != NONE);
        let kept = kept.filter_map(|of| self.known.publishers.get(of.publisher as usize));
        let kept: HashSet<u32> = kept.map(|of| of.process).collect();
        let broken = self.is_broken();
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
                    how: Match::None,
                    intra: Some(true),
                    outcome: UNKNOWN,
                    publish: NEVER,
                    taken: take.map_or(NEVER, |take| take.time),
                    below: false,
                    stampless: true,
                    lot: if row.untold || (broken && !kept.contains(&row.process)) {
                        Lot::Untold
                    } else {
                        Lot::Replayed
                    },
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
        making: &mut Making,
        (message, row, topic): (u32, &Publication, u32),
        matched: &[Matched],
        pairs: &[u32],
        given: &[Enqueue],
    ) {
        let discovery = self.known.discovery;
        let begin = making.group.len();
        let time = |take: u32| self.takes.rows.get(take).map_or(NEVER, |take| take.time);
        // Of a message of the middleware's own there is no row.
        for one in given.iter().filter(|_| topic != discovery) {
            let (lot, how) = match one.fate {
                Fate::Pending => (Lot::Pending, Match::None),
                Fate::Dequeued => (Lot::Open, Match::Exact),
                Fate::Overwritten | Fate::Cleared => (Lot::Overwritten, Match::Exact),
            };
            let take = self.takes.rows.get(one.take);
            making.group.push(Message {
                message,
                publisher: NONE,
                subscription: one.subscription,
                process: self.process_of(one.subscription),
                take: one.take,
                execution: take.map_or(NONE, |take| take.execution),
                how,
                intra: Some(true),
                outcome: UNKNOWN,
                publish: row.publish,
                taken: take.map_or(NEVER, |take| take.time),
                below: false,
                stampless: true,
                lot,
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
        let one = |subscription: u32, of: Option<&Matched>, lot: Lot| {
            let take = of.map_or(NONE, |of| of.take);
            Message {
                message,
                publisher: NONE,
                subscription,
                process: self.process_of(subscription),
                take,
                execution: of.map_or(NONE, |of| of.execution),
                how: of.map_or(Match::None, |of| of.how),
                intra: (subscription != NONE || take != NONE).then_some(false),
                outcome: UNKNOWN,
                publish: row.publish,
                taken: time(take),
                below: false,
                stampless: true,
                lot,
            }
        };
        let mut there = matched.iter().peekable();
        let late = |group: &mut Vec<Message>, of: &Matched| {
            if of.subscription == NONE {
                group.push(one(NONE, Some(of), Lot::Open));
            } else if !within(group, of.subscription) {
                group.push(one(of.subscription, Some(of), Lot::Replayed));
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
                let lot = if pending { Lot::Pending } else { Lot::Open };
                making.group.push(one(*subscription, of, lot));
            }
        }
        for of in there {
            late(&mut making.group, of);
        }
        if making.group.len() == begin && topic != discovery {
            let unseen = making.unseen.is_some_and(|since| since <= row.publish);
            let lot = if topic == NONE || making.nameless || unseen {
                Lot::Pending
            } else {
                Lot::NoSubscriber
            };
            making.group.push(one(NONE, None, lot));
        }
    }

    /// Append the rows of publications of one time.
    fn sorted(&self, making: &mut Making) {
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
            if row.lot == Lot::Replayed
                && let Some(of) = self.known.subscriptions.get(row.subscription as usize)
                && row.publish != NEVER
                && row.publish >= of.created
            {
                // Of a publisher that is not known nobody could say to whom it published.
                row.lot = Lot::Open;
            }
            if row.lot != Lot::Replayed && row.publish != NEVER && row.taken != NEVER {
                let longest = making.waited.entry(row.subscription).or_insert(i64::MIN);
                *longest = row.taken.wrapping_sub(row.publish).max(*longest);
            }
            if row.how == Match::Ambiguous
                && let Some(of) = self.publications.rows.get(row.message)
            {
                making.shared.insert((self.source(&of).topic, of.stamp));
            }
            making.made.rows.push(row);
        }
    }

    /// The process of a subscription, or `NONE`.
    pub(crate) fn process_of(&self, subscription: u32) -> u32 {
        let of = self.known.subscriptions.get(subscription as usize);
        of.map_or(NONE, |of| of.process)
    }

    /// Say what became of each message.
    ///
    /// One between processes that was never taken is lost, unless the recording cannot know:
    ///
    /// * no later message of that publisher was taken by that subscription, and the receiver's last
    ///   event comes sooner after the publication than the longest wait seen there (1 s where none
    ///   was): it may have been on its way still;
    /// * the tracer dropped something at the receiver before the next message was taken, if any was;
    /// * the receiver's takes, or this publication's timestamp, were not recorded.
    fn settle(&self, making: Making) -> Messages {
        let Making {
            mut made,
            waited,
            shared,
            ..
        } = making;
        let untaken: HashSet<u32> = made.untaken.iter().copied().collect();
        let mut back = Back::new(self);
        for number in (0..made.rows.count()).rev() {
            let Some(row) = made.rows.edit(number) else {
                continue;
            };
            let of = self.publications.rows.get(row.message);
            let source = of.map_or(Source::NONE, |of| self.source(&of));
            row.publisher = source.publisher;
            let way = made.ways.entry((source.publisher, row.subscription));
            let way = way.or_insert_with(Way::new);
            row.outcome = match row.lot {
                Lot::Replayed => REPLAYED,
                Lot::Untold => UNKNOWN,
                _ if row.execution != NONE => DELIVERED,
                _ if row.take != NONE => TAKEN,
                Lot::NoSubscriber => NO_SUBSCRIBER,
                Lot::Overwritten => OVERWRITTEN,
                Lot::Pending => UNKNOWN,
                Lot::Open => {
                    let known = (row.subscription != NONE).then(|| waited.get(&row.subscription));
                    let longest = known.flatten().copied().unwrap_or(SECOND);
                    let until = row.publish.saturating_add(longest);
                    let next = (way.next != NEVER).then_some(way.next);
                    let end = self.identity.end(row.process);
                    let host = self.identity.host(row.process);
                    let topic = match source.topic {
                        NONE => self.known.topic_at(row.subscription),
                        topic => topic,
                    };
                    let key = of.map_or(NEVER, |of| of.stamp);
                    let gap = || {
                        let gaps = &self.cuts.gaps;
                        gaps.between(host, row.publish, next.unwrap_or(i64::MAX))
                    };
                    let unknown = (next.is_none() && until > end)
                        // Else `weigh` knows better what a gap may hide.
                        || (!row.between() && gap())
                        || key == NEVER
                        || shared.contains(&(topic, key))
                        || !self.about.rmw_take
                        || untaken.contains(&row.subscription);
                    if unknown { UNKNOWN } else { LOST }
                }
            };
            if row.taken != NEVER {
                way.next = row.taken;
            }
            let of = (source.publisher, of.as_ref());
            back.on_message(self, way, (number, row), of);
        }
        self.weigh(&mut made, &back, &waited);
        made
    }
}

/// A publication and a take of it.
pub(crate) const fn joined(message: u32, (number, take): (u32, &Take), how: Match) -> Matched {
    Matched {
        message,
        subscription: take.subscription,
        take: number,
        execution: take.execution,
        how,
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
            how: Match::Approximate,
        }
    }
}
