//! After the pass: what became of each publication at each subscription that existed then.

use ahash::{HashMap, HashMapExt, HashSet};

use crate::Model;
use crate::approximate;
use crate::known::Endpoint;
use crate::ring_buffers::Fate;
use crate::rows::{NEVER, NONE};

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

/// What a row is, beside what its take tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lot {
    /// Nothing else.
    Open,
    /// It came to a late joiner.
    Replayed,
    /// There was no one to take it.
    NoSubscriber,
    /// It was overwritten in a ring buffer, or cleared there.
    Overwritten,
    /// Nobody can say, yet.
    Pending,
}

/// What became of a message; by the place in `OUTCOMES`.
pub const OUTCOMES: &[&str] = &[
    "delivered",
    "taken",
    "overwritten",
    "lost",
    "unknown",
    "replayed",
    "no_subscriber",
];
const DELIVERED: u8 = 0;
const TAKEN: u8 = 1;
const OVERWRITTEN: u8 = 2;
const LOST: u8 = 3;
const UNKNOWN: u8 = 4;
const REPLAYED: u8 = 5;
const NO_SUBSCRIBER: u8 = 6;

/// What a publication is of, once all is known.
#[derive(Clone)]
pub struct Source {
    /// Its publisher, topic and node, or `NONE`.
    pub publisher: u32,
    /// As above.
    pub topic: u32,
    /// As above.
    pub node: u32,
    /// Its source timestamp, recorded or guessed.
    pub key: i64,
    /// Whether the timestamp, and whether the publisher, is a guess.
    pub estimated: bool,
    /// As above.
    pub guessed: bool,
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

/// Publications with subscriptions; and of each subscription a count.
type Pairs = (Vec<(u32, u32)>, Vec<(u32, u64)>);

/// One message.
#[expect(
    clippy::struct_field_names,
    reason = "its publication is what it is of"
)]
pub struct Message {
    /// Its publication, or `NONE`.
    pub message: u32,
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
    publish: i64,
    lot: Lot,
}

/// All messages, and what was counted.
pub struct Messages {
    /// In the order of their publications.
    pub rows: Vec<Message>,
    /// What each publication is of.
    pub sources: Vec<Source>,
    /// Publications that share their key with another one.
    pub ambiguous: u64,
    /// Takes between processes of which no publication was recorded.
    pub alone: Vec<u32>,
    /// Of each subscription the publications after its process had gone.
    pub gone: Vec<(u32, u64)>,
    /// Subscriptions whose callbacks ran and of which no take was recorded.
    pub untaken: Vec<u32>,
}

impl Model {
    /// The topic of a take: the middleware's own have no event of rcl.
    pub(crate) fn take_topic(&self, number: u32) -> u32 {
        let take = &self.takes.rows[number as usize];
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

    /// What each publication is of: by address, else by what else its process could publish.
    fn sources(&self) -> Vec<Source> {
        let discovery = self.known.discovery;
        let loggers: HashSet<u32> = self
            .known
            .publishers
            .iter()
            .filter(|of| of.topic == self.known.rosout)
            .map(|of| of.process)
            .collect();
        let rows = self.publications.rows.iter().map(|row| {
            let mut found = Source {
                publisher: row.publisher,
                topic: NONE,
                node: NONE,
                key: row.stamp,
                estimated: false,
                guessed: false,
            };
            let known = self.known.publishers.get(row.publisher as usize);
            if let Some(of) = known {
                (found.topic, found.node) = (of.topic, of.node);
            }
            let process = self.identity.process(row.thread);
            let above = row.rclcpp != NEVER || row.intra != NEVER;
            let rcl = row.rcl != NEVER;
            if self.about.rcl_publish && !above && !rcl {
                if known.is_none() {
                    found.topic = discovery;
                }
            } else if self.about.rcl_publish && found.topic == discovery {
                // It went through rcl, of whose publisher the event is missing.
                found.topic = NONE;
            } else if known.is_none() && rcl && !above && !row.by_rmw && loggers.contains(&process)
            {
                found.topic = self.known.rosout;
            }
            if found.topic == NONE && row.rclcpp != NEVER && !rcl {
                let steps = self
                    .about
                    .guesses
                    .get(&process)
                    .map_or(&[][..], Vec::as_slice);
                let after = steps.partition_point(|(since, ..)| *since <= row.publish);
                let last = steps[..after].last();
                (found.topic, found.publisher) =
                    last.map_or((NONE, NONE), |(_, topic, publisher)| (*topic, *publisher));
                let of = self.known.publishers.get(found.publisher as usize);
                found.node = of.map_or(NONE, |of| of.node);
                found.guessed = found.topic != NONE;
            }
            found
        });
        rows.collect()
    }

    /// Takes of each publication, by its number and that of the subscription.
    fn matched(&mut self, sources: &mut [Source]) -> (Vec<Matched>, u64) {
        approximate::estimate(self, sources);
        let mut found = Vec::new();
        let mut chain = Vec::new();
        let mut shared: HashSet<u32> = HashSet::default();
        let mut ambiguous = 0;
        let groups: Vec<Vec<u32>> = self.matches.shared.values().cloned().collect();
        for mut messages in groups {
            messages.sort_unstable();
            ambiguous += messages.len() as u64;
            let mut next: HashMap<u32, usize> = HashMap::new();
            for first in &messages {
                chained(
                    &self.takes.rows,
                    self.publications.rows[*first as usize].taken,
                    &mut chain,
                );
                for take in &chain {
                    let subscription = self.takes.rows[*take as usize].subscription;
                    let rank = next.entry(subscription).or_default();
                    if let Some(message) = messages.get(*rank) {
                        found.push(self.joined(*message, *take, Match::Ambiguous));
                    }
                    *rank += 1;
                }
            }
            shared.extend(messages);
        }
        for (message, source) in (0..).zip(sources.iter()) {
            let first = self.publications.rows[message as usize].taken;
            if first == NONE || shared.contains(&message) {
                continue;
            }
            chained(&self.takes.rows, first, &mut chain);
            let how = if source.estimated {
                Match::Approximate
            } else {
                Match::Exact
            };
            for (place, take) in chain.iter().enumerate() {
                let of = |take: &u32| self.takes.rows[*take as usize].subscription;
                // Of several takes of one subscription the first.
                if !chain[..place].iter().any(|before| of(before) == of(take)) {
                    found.push(self.joined(message, *take, how));
                }
            }
        }
        for one in &found {
            self.takes.rows[one.take as usize].matched = true;
        }
        approximate::without_topic(self, sources, &mut found);
        found.sort_by_key(|one| (one.message, one.subscription));
        (found, ambiguous)
    }

    pub(crate) fn joined(&self, message: u32, take: u32, how: Match) -> Matched {
        let of = &self.takes.rows[take as usize];
        Matched {
            message,
            subscription: of.subscription,
            take,
            execution: of.execution,
            how,
        }
    }

    /// Each publication with each subscription of its topic that existed then, but for those of
    /// processes that had gone; and how many these are.
    fn pairs(&self, sources: &[Source]) -> Pairs {
        let mut on_topic: HashMap<u32, Vec<(u32, &Endpoint)>> = HashMap::new();
        for (number, of) in (0..).zip(&self.known.subscriptions) {
            if of.topic != NONE && of.topic != self.known.discovery {
                on_topic.entry(of.topic).or_default().push((number, of));
            }
        }
        let mut pairs = Vec::new();
        let mut after: HashMap<u32, i64> = HashMap::new();
        let mut gone = vec![0; self.known.subscriptions.len()];
        for (message, (row, source)) in (0..).zip(self.publications.rows.iter().zip(sources)) {
            for (number, of) in on_topic.get(&source.topic).into_iter().flatten() {
                if row.publish < of.created || row.publish >= of.ended {
                    continue;
                }
                let end = self.identity.end(of.process);
                if row.publish > end {
                    // It has gone when more than a second, and more than one publication, follows
                    // its last event.
                    let first = *after.entry(*number).or_insert(row.publish);
                    if row.publish > first.max(end.saturating_add(SECOND)) {
                        gone[*number as usize] += 1;
                        continue;
                    }
                }
                pairs.push((message, *number));
            }
        }
        let gone = (0..).zip(gone).filter(|(_, count)| *count > 0);
        (pairs, gone.collect())
    }

    /// All messages.
    pub(crate) fn messages(&mut self) -> Messages {
        let mut sources = self.sources();
        let (mut matched, ambiguous) = self.matched(&mut sources);
        let alone = (0..)
            .zip(&self.takes.rows)
            .filter(|(_, take)| !take.intra && !take.matched);
        let alone = alone.map(|(number, _)| number);
        let alone: Vec<u32> = alone
            .filter(|take| self.take_topic(*take) != self.known.discovery)
            .collect();
        let (pairs, gone) = self.pairs(&sources);
        let untaken = approximate::without_takes(self);
        let ordered = approximate::by_order(self, &pairs, &untaken);
        if !ordered.is_empty() {
            matched.extend(ordered);
            matched.sort_by_key(|one| (one.message, one.subscription));
        }
        let mut rows = self.joined_rows(&sources, &pairs, &matched);
        rows.sort_by_key(|row| {
            let take = self
                .takes
                .rows
                .get(row.take as usize)
                .map_or(i64::MAX, |take| take.time);
            let number = |number| if number == NONE { u32::MAX } else { number };
            let publish = if row.publish == NEVER {
                i64::MAX
            } else {
                row.publish
            };
            (publish, take, number(row.message), number(row.subscription))
        });
        self.settle(&mut rows, &sources, &untaken);
        Messages {
            rows,
            sources,
            ambiguous,
            alone,
            gone,
            untaken,
        }
    }

    fn joined_rows(
        &self,
        sources: &[Source],
        pairs: &[(u32, u32)],
        matched: &[Matched],
    ) -> Vec<Message> {
        let mut rows = Vec::with_capacity(pairs.len());
        let mut told = vec![false; sources.len()];
        // The copy that also came through the middleware is dropped by rclcpp: one row, the intra one.
        let mut within: HashSet<(u32, u32)> = HashSet::default();
        let mut unresolved: HashSet<u32> = HashSet::default();
        for row in &self.ring_buffers.rows {
            let take = self.takes.rows.get(row.take as usize);
            let mut one = Message {
                message: row.message,
                subscription: row.subscription,
                process: row.process,
                take: row.take,
                execution: take.map_or(NONE, |take| take.execution),
                how: Match::None,
                intra: Some(true),
                outcome: UNKNOWN,
                publish: NEVER,
                lot: Lot::Replayed,
            };
            if row.message != NONE {
                // Of a message of the middleware's own there is no row.
                if sources[row.message as usize].topic == self.known.discovery {
                    continue;
                }
                told[row.message as usize] = true;
                if row.subscription == NONE {
                    unresolved.insert(row.message);
                } else {
                    within.insert((row.message, row.subscription));
                }
                one.process = self.process_of(row.subscription);
                one.publish = self.publications.rows[row.message as usize].publish;
                (one.lot, one.how) = match row.fate {
                    Fate::Pending => (Lot::Pending, Match::None),
                    Fate::Dequeued => (Lot::Open, Match::Exact),
                    Fate::Overwritten | Fate::Cleared => (Lot::Overwritten, Match::Exact),
                };
            }
            rows.push(one);
        }
        let mut row_of =
            |told: &mut [bool], message: u32, subscription: u32, of: Option<&Matched>, lot: Lot| {
                told[message as usize] = true;
                let take = of.map_or(NONE, |of| of.take);
                rows.push(Message {
                    message,
                    subscription,
                    process: self.process_of(subscription),
                    take,
                    execution: of.map_or(NONE, |of| of.execution),
                    how: of.map_or(Match::None, |of| of.how),
                    intra: (subscription != NONE || take != NONE).then_some(false),
                    outcome: UNKNOWN,
                    publish: self.publications.rows[message as usize].publish,
                    lot,
                });
            };
        let mut there = matched.iter().peekable();
        let late = |of: &Matched| {
            let known = of.subscription != NONE;
            (!known || !within.contains(&(of.message, of.subscription))).then_some(if known {
                Lot::Replayed
            } else {
                Lot::Open
            })
        };
        for (message, subscription) in pairs {
            while let Some(of) =
                there.next_if(|of| (of.message, of.subscription) < (*message, *subscription))
            {
                if let Some(lot) = late(of) {
                    row_of(&mut told, of.message, of.subscription, Some(of), lot);
                }
            }
            let of = there.next_if(|of| (of.message, of.subscription) == (*message, *subscription));
            while there
                .next_if(|of| (of.message, of.subscription) == (*message, *subscription))
                .is_some()
            {}
            if !within.contains(&(*message, *subscription)) {
                let pending = of.is_none() && unresolved.contains(message);
                let lot = if pending { Lot::Pending } else { Lot::Open };
                row_of(&mut told, *message, *subscription, of, lot);
            }
        }
        for of in there {
            if let Some(lot) = late(of) {
                row_of(&mut told, of.message, of.subscription, Some(of), lot);
            }
        }
        for (message, source) in (0..).zip(sources) {
            if !told[message as usize] && source.topic != self.known.discovery {
                let lot = if source.topic == NONE {
                    Lot::Pending
                } else {
                    Lot::NoSubscriber
                };
                row_of(&mut told, message, NONE, None, lot);
            }
        }
        rows
    }

    fn process_of(&self, subscription: u32) -> u32 {
        let of = self.known.subscriptions.get(subscription as usize);
        of.map_or(NONE, |of| of.process)
    }

    /// When a message was taken, or its callback ran.
    fn taken(&self, row: &Message) -> Option<i64> {
        let take = self.takes.rows.get(row.take as usize).map(|take| take.time);
        take.or_else(|| Some(self.callbacks.executions.get(row.execution as usize)?.start))
    }

    /// Say what became of each message.
    ///
    /// One between processes that was never taken is lost, unless the recording cannot know:
    ///
    /// * no later message of that publisher was taken by that subscription, and the receiver's last
    ///   event comes sooner after the publication than the longest wait seen there (1 s where none
    ///   was): it may have been on its way still;
    /// * the tracer dropped something at the receiver before the next message was taken;
    /// * the receiver's takes, or this publication's timestamp, were not recorded.
    fn settle(&self, rows: &mut [Message], sources: &[Source], untaken: &[u32]) {
        let untaken: HashSet<u32> = untaken.iter().copied().collect();
        let mut waited: HashMap<u32, i64> = HashMap::new();
        let mut shared: HashSet<(u32, i64)> = HashSet::default();
        for row in rows.iter_mut() {
            if row.lot == Lot::Replayed
                && let Some(of) = self.known.subscriptions.get(row.subscription as usize)
                && row.publish != NEVER
                && row.publish >= of.created
            {
                // Of a publisher that is not known nobody could say to whom it published.
                row.lot = Lot::Open;
            }
            if row.lot != Lot::Replayed
                && row.publish != NEVER
                && let Some(taken) = self.taken(row)
            {
                let longest = waited.entry(row.subscription).or_insert(i64::MIN);
                *longest = taken.wrapping_sub(row.publish).max(*longest);
            }
            if row.how == Match::Ambiguous
                && let Some(source) = sources.get(row.message as usize)
            {
                shared.insert((source.topic, source.key));
            }
        }
        let mut next: HashMap<(u32, u32), i64> = HashMap::new();
        for row in rows.iter_mut().rev() {
            let source = sources.get(row.message as usize);
            let way = (source.map_or(NONE, |of| of.publisher), row.subscription);
            let taken = self.taken(row);
            let arrived = row.take != NONE || row.execution != NONE;
            row.outcome = match row.lot {
                Lot::Replayed => REPLAYED,
                _ if row.execution != NONE => DELIVERED,
                _ if arrived => TAKEN,
                Lot::NoSubscriber => NO_SUBSCRIBER,
                Lot::Overwritten => OVERWRITTEN,
                Lot::Pending => UNKNOWN,
                Lot::Open => {
                    let known = (row.subscription != NONE).then(|| waited.get(&row.subscription));
                    let longest = known.flatten().copied().unwrap_or(SECOND);
                    let until = row.publish.saturating_add(longest);
                    let next = next.get(&way).copied();
                    let end = self.identity.end(row.process);
                    let host = self.identity.host(row.process);
                    let topic = match source.map_or(NONE, |of| of.topic) {
                        NONE => self.known.topic_at(row.subscription),
                        topic => topic,
                    };
                    let key = source.map_or(NEVER, |of| of.key);
                    let unknown = (next.is_none() && until > end)
                        || self
                            .about
                            .gaps
                            .between(host, row.publish, next.unwrap_or(until))
                        || key == NEVER
                        || shared.contains(&(topic, key))
                        || !self.about.rmw_take
                        || untaken.contains(&row.subscription);
                    if unknown { UNKNOWN } else { LOST }
                }
            };
            if let Some(taken) = taken {
                next.insert(way, taken);
            }
        }
    }
}

/// A chain of takes, the first one first.
fn chained(takes: &[crate::takes::Take], first: u32, found: &mut Vec<u32>) {
    found.clear();
    let mut number = first;
    while let Some(take) = takes.get(number as usize) {
        found.push(number);
        number = take.next;
    }
    found.sort_unstable();
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
