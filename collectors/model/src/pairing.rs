//! A row for each publication and each subscription that existed then.
//!
//! Publication by publication, made where they are asked for and held by nobody: those of one time in
//! the order in which they were taken.

use std::iter::Peekable;
use std::vec::IntoIter;

use crate::decide::{Outcome, Reason};
use crate::existing::Existing;
use crate::ids::{Id, Maybe, get, last, numbered};
use crate::kinds::Kind;
use crate::matches::chained;
use crate::messages::{Leg, Matched, Message, Sent};
use crate::model::Model;
use crate::partners::Partners;
use crate::publications::{Enqueue, Fate, Publication};
use crate::registry::Subscription;
use crate::rows::NEVER;
use crate::takes::Take;

const STILL_IN_BUFFER: Leg = Leg::Decided(Outcome::Unknown, Reason::StillInBuffer);
const PLACE_OVERWRITTEN: Leg = Leg::Decided(Outcome::Overwritten, Reason::PlaceOverwritten);
const BUFFER_CLEARED: Leg = Leg::Decided(Outcome::Overwritten, Reason::BufferCleared);
const NOT_RECORDED: Leg = Leg::Decided(Outcome::Unknown, Reason::PublicationNotRecorded);

/// Publications that are read at once.
const CHUNK: usize = 512;

impl Model {
    /// Whether there is a gap before its first event, and one that comes before that happens at all.
    fn may_lack_its_first(&self, of: &Publication) -> bool {
        let above = [
            (Kind::IntraPublish, of.intra),
            (Kind::RclcppPublish, of.rclcpp),
            (Kind::RclPublish, of.rcl),
        ];
        let mut before = above.iter().take_while(|(_, time)| *time == NEVER);
        of.cut && before.any(|(kind, _)| self.about.happened.has(*kind))
    }
}

/// Where the rows are made.
pub struct Pairing {
    existing: Existing,
    /// Publications that were read, and the next one that was not.
    read: Peekable<IntoIter<(Id<Publication>, Publication)>>,
    next: u32,
    /// How many of the partners have had their turn.
    more: usize,
    /// Whether what nobody published had its turn.
    ended: bool,
    /// Publications without a topic of which rclcpp alone told.
    pub unnamed: u64,
    /// Other publications without a topic, of which not even the publisher is known.
    pub unknown_publishers: u64,
    chain: Vec<(Id<Take>, Take)>,
    pairs: Vec<Id<Subscription>>,
    matched: Vec<Matched>,
    given: Vec<Enqueue>,
}

impl Pairing {
    /// From the first publication on.
    pub(crate) fn new(model: &Model) -> Self {
        Self {
            existing: Existing::new(model, |_| true),
            read: Vec::new().into_iter().peekable(),
            next: 0,
            more: 0,
            ended: false,
            unnamed: 0,
            unknown_publishers: 0,
            chain: Vec::new(),
            pairs: Vec::new(),
            matched: Vec::new(),
            given: Vec::new(),
        }
    }

    /// Of each subscription the publications after its process had gone.
    pub fn gone(&self) -> Vec<(Id<Subscription>, u64)> {
        let gone = numbered(&self.existing.gone).map(|(of, count)| (of, *count));
        gone.filter(|(_, count)| *count > 0).collect()
    }

    /// The rows of the publications of one time, last those of what nobody published; none at the end.
    pub(crate) fn next(&mut self, model: &Model, partners: &Partners, found: &mut Vec<Message>) {
        found.clear();
        let mut publish = NEVER;
        loop {
            if self.read.peek().is_none() {
                let rows = model.publications.rows.from(self.next).take(CHUNK);
                let rows: Vec<_> = rows.collect();
                self.next = (rows.last()).map_or(self.next, |(of, _)| of.number() + 1);
                self.read = rows.into_iter().peekable();
            }
            let same = |(_, row): &(Id<Publication>, Publication)| {
                found.is_empty() || row.publish == publish
            };
            let Some((message, row)) = self.read.next_if(same) else {
                break;
            };
            publish = row.publish;
            self.pair(model, partners, message, &row, found);
        }
        if found.is_empty() && !self.ended {
            self.ended = true;
            unpublished(model, partners, found);
        }
        complete(model, found);
    }

    /// The rows of one publication.
    fn pair(
        &mut self,
        model: &Model,
        partners: &Partners,
        message: Id<Publication>,
        row: &Publication,
        found: &mut Vec<Message>,
    ) {
        let source = model.source(row);
        let (topic, discovery) = (source.topic, model.registry.discovery);
        if topic.is_none() {
            let alone = row.rclcpp != NEVER && row.rcl == NEVER;
            self.unnamed += u64::from(alone);
            self.unknown_publishers += u64::from(!alone && source.publisher.is_none());
        }
        self.partners_of(model, partners, message, row);
        self.existing.at(model, topic, row.publish, &mut self.pairs);
        let begin = found.len();
        let draft = Message {
            message: Some(message),
            publisher: source.publisher,
            subscription: None,
            process: None,
            take: None,
            execution: None,
            joined: None,
            intra: None,
            publish: row.publish,
            taken: NEVER,
            leg: Leg::Middleware,
            sent: Sent::new(row, topic, model.may_lack_its_first(row)),
        };
        // Of a message of the middleware's own there is no row.
        for one in self.given.iter().filter(|_| topic != discovery) {
            let (leg, joined) = match one.fate {
                Fate::Pending => (STILL_IN_BUFFER, None),
                Fate::Dequeued => (Leg::Buffer, Some(Reason::RingBuffer)),
                Fate::Overwritten => (PLACE_OVERWRITTEN, Some(Reason::RingBuffer)),
                Fate::Cleared => (BUFFER_CLEARED, Some(Reason::RingBuffer)),
            };
            let take = model.takes.rows.get(one.take);
            found.push(Message {
                subscription: one.subscription,
                take: one.take,
                execution: take.and_then(|take| take.execution),
                joined,
                intra: Some(true),
                leg,
                ..draft
            });
        }
        // The copy that also came through the middleware is dropped by rclcpp: one row, the intra one.
        let intra = found.len();
        let unresolved = self.given.iter().any(|one| one.subscription.is_none()) && intra > begin;
        let within = |found: &[Message], subscription: Maybe<Subscription>| {
            let mut given = found[begin..intra].iter();
            subscription.is_some() && given.any(|one| one.subscription == subscription)
        };
        let one = |subscription: Maybe<Subscription>, of: Option<&Matched>, leg: Leg| {
            let take = of.and_then(|of| of.take);
            Message {
                subscription,
                take,
                execution: of.and_then(|of| of.execution),
                joined: of.map(|of| of.by),
                intra: (subscription.is_some() || take.is_some()).then_some(false),
                leg,
                ..draft
            }
        };
        let late = |found: &mut Vec<Message>, of: &Matched| {
            if of.subscription.is_none() {
                found.push(one(None, Some(of), Leg::Middleware));
            } else if !within(found, of.subscription) {
                found.push(one(of.subscription, Some(of), Leg::BeforeSubscription));
            }
        };
        let mut there = self.matched.iter().peekable();
        for subscription in self.pairs.iter().copied().map(Some) {
            let before = |of: &&Matched| last(of.subscription) < last(subscription);
            while let Some(of) = there.next_if(before) {
                late(found, of);
            }
            let same = |of: &&Matched| of.subscription == subscription;
            let of = there.next_if(same);
            while there.next_if(same).is_some() {}
            if !within(found, subscription) {
                let pending = of.is_none() && unresolved;
                let leg = if pending {
                    STILL_IN_BUFFER
                } else {
                    Leg::Middleware
                };
                found.push(one(subscription, of, leg));
            }
        }
        for of in there {
            late(found, of);
        }
        if found.len() == begin && topic != discovery {
            let unseen = partners.unseen.is_some_and(|since| since <= row.publish);
            let unknown = topic.is_none() || partners.nameless || unseen;
            let (outcome, reason) = if unknown {
                (Outcome::Unknown, Reason::SubscriptionUnknown)
            } else {
                (Outcome::NoSubscriber, Reason::NoSubscription)
            };
            found.push(one(None, None, Leg::Decided(outcome, reason)));
        }
    }

    /// The takes of a publication, and the ring buffers that it was put into.
    fn partners_of(
        &mut self,
        model: &Model,
        partners: &Partners,
        message: Id<Publication>,
        row: &Publication,
    ) {
        self.matched.clear();
        if row.taken.is_some() && !partners.shared.contains(&message) {
            chained(&model.takes.rows, row.taken, &mut self.chain);
            let by = if row.estimated {
                Reason::NearestTimestamp
            } else {
                Reason::SameTimestamp
            };
            // Of several takes of one subscription the first.
            let first = self.chain.iter().filter(|(_, take)| take.matched);
            let first = first.map(|(number, take)| Matched::new(message, (*number, take), by));
            self.matched.extend(first);
        }
        while let Some(one) = partners.more.get(self.more)
            && one.message <= message
        {
            self.matched.push(*one);
            self.more += 1;
        }
        if self.matched.len() > 1 {
            self.matched.sort_by_key(|one| last(one.subscription));
        }
        self.given.clear();
        let mut number = row.given;
        while let Some(one) = model.ring_buffers.rows.get(number) {
            self.given.push(one);
            number = one.next;
        }
        self.given.reverse();
    }
}

/// What came out of ring buffers and nobody is known to have published.
fn unpublished(model: &Model, partners: &Partners, found: &mut Vec<Message>) {
    let rows = model.ring_buffers.rows.iter();
    for (_, row) in rows.filter(|(_, row)| row.message.is_none()) {
        let take = model.takes.rows.get(row.take);
        let late = !row.untold && partners.kept.contains(&row.process);
        found.push(Message {
            message: None,
            publisher: None,
            subscription: row.subscription,
            process: row.process,
            take: row.take,
            execution: take.and_then(|take| take.execution),
            joined: None,
            intra: Some(true),
            publish: NEVER,
            taken: NEVER,
            leg: if late { Leg::LateJoiner } else { NOT_RECORDED },
            sent: Sent::NONE,
        });
    }
}

/// Times, processes and order of the rows of one time.
fn complete(model: &Model, found: &mut [Message]) {
    let known = &model.registry;
    for row in found.iter_mut() {
        if let Some(take) = model.takes.rows.get(row.take) {
            row.taken = take.time;
        }
        if row.message.is_some() {
            row.process = model.process_of(row.subscription);
        }
    }
    if found.len() > 1 {
        found.sort_by_key(|row| {
            let never = row.take.is_none();
            let taken = if never { i64::MAX } else { row.taken };
            (taken, last(row.message), last(row.subscription))
        });
    }
    for row in found {
        if row.take.is_none() {
            let of = model.callbacks.executions.get(row.execution);
            row.taken = of.map_or(NEVER, |of| of.start);
        }
        if row.sent.topic.is_none() {
            row.sent.topic = known.topic_at(row.subscription);
        }
        // Of a publisher that is not known nobody could say to whom it published.
        if row.leg == Leg::BeforeSubscription
            && let Some(of) = get(&known.subscriptions, row.subscription)
            && row.publish != NEVER
            && row.publish >= of.created
        {
            row.leg = Leg::Middleware;
        }
    }
}
