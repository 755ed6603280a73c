//! A row for each publication and each subscription that existed then.

use std::iter::successors;

use crate::decide::{Decision, Match, Outcome, Reason};
use crate::existing::Existing;
use crate::ids::{Id, Maybe, get, last};
use crate::matches::chain;
use crate::messages::{Leg, Matched, Message};
use crate::model::Model;
use crate::partners::Partners;
use crate::publications::{Enqueue, Fate, Publication};
use crate::registry::Subscription;
use crate::rows::NEVER;

/// Where the rows are made.
pub struct Pairing {
    pub existing: Existing,
    /// How many of the partners have had their turn.
    more: usize,
    /// Publications without a topic of which rclcpp alone told.
    pub unnamed: u64,
    /// Other publications without a topic, of which not even the publisher is known.
    pub unknown_publishers: u64,
    there: Vec<Id<Subscription>>,
    matched: Vec<Matched>,
    given: Vec<Enqueue>,
}

impl Pairing {
    /// From the first publication on.
    pub(crate) fn new(model: &Model) -> Self {
        Self {
            existing: Existing::new(model, |_| true),
            more: 0,
            unnamed: 0,
            unknown_publishers: 0,
            there: Vec::new(),
            matched: Vec::new(),
            given: Vec::new(),
        }
    }

    /// The rows of one publication.
    pub(crate) fn pair(
        &mut self,
        model: &Model,
        partners: &Partners,
        (message, sent): (Id<Publication>, &Publication),
        found: &mut Vec<Message>,
    ) {
        let source = model.source(sent);
        let topic = source.topic;
        if topic.is_none() {
            let alone = sent.rclcpp != NEVER && sent.rcl == NEVER;
            self.unnamed += u64::from(alone);
            self.unknown_publishers += u64::from(!alone && source.publisher.is_none());
        }
        self.partners_of(model, partners, message, sent);
        self.existing
            .at(model, topic, sent.publish, &mut self.there);
        // Of several takes of a subscription that existed then the first.
        let existed = |of: Id<Subscription>| self.there.binary_search(&of).is_ok();
        self.matched.dedup_by(|later, one| {
            later.subscription == one.subscription && one.subscription.is_some_and(existed)
        });
        // Of a message of the middleware's own there is no row.
        let own = topic == model.registry.discovery;
        let given = if own { &[][..] } else { &self.given[..] };
        let row = |subscription, take, execution, leg, decision| Message {
            publication: Some(message),
            publisher: source.publisher,
            subscription,
            process: model.process_of(subscription),
            take,
            execution,
            intra: Some(false),
            publish: sent.publish,
            push: sent.push(),
            taken: model.taken(take, execution),
            last_take: NEVER,
            leg,
            decision,
        };
        let begin = found.len();
        for one in given {
            let joined = Decision::joined(Reason::RingBuffer);
            let gone = |reason| Decision {
                outcome: Outcome::Overwritten,
                how: Match::Exact,
                reason,
            };
            let (leg, decision) = match one.fate {
                Fate::Pending => (Leg::Decided, Decision::unknown(Reason::StillInBuffer)),
                Fate::Dequeued => (Leg::Buffer, joined),
                Fate::Overwritten => (Leg::Decided, gone(Reason::PlaceOverwritten)),
                Fate::Cleared => (Leg::Decided, gone(Reason::BufferCleared)),
            };
            let take = model.takes.rows.get(one.take);
            let execution = take.and_then(|take| take.execution);
            found.push(Message {
                intra: Some(true),
                ..row(one.subscription, one.take, execution, leg, decision)
            });
        }
        // The copy that also came through the middleware is dropped by rclcpp: one row, the intra one.
        let within = |subscription: Maybe<Subscription>| {
            subscription.is_some() && given.iter().any(|one| one.subscription == subscription)
        };
        for of in self.matched.iter().filter(|of| !within(of.subscription)) {
            let known = get(&model.registry.subscriptions, of.subscription);
            let there = known.map_or(of.subscription.is_none(), |it| sent.publish >= it.created);
            let leg = if there {
                Leg::Middleware
            } else {
                Leg::BeforeSubscription
            };
            let joined = Decision::joined(of.by);
            found.push(row(of.subscription, of.take, of.execution, leg, joined));
        }
        let unresolved = given.iter().any(|one| one.subscription.is_none());
        for subscription in self.there.iter().copied().map(Some) {
            let place = |of: &Matched| last(of.subscription);
            let matched = (self.matched).binary_search_by_key(&last(subscription), place);
            if matched.is_err() && !within(subscription) {
                let (leg, reason) = if unresolved {
                    (Leg::Decided, Reason::StillInBuffer)
                } else {
                    (Leg::Middleware, Reason::NoTimestamp)
                };
                found.push(row(
                    subscription,
                    None,
                    None,
                    leg,
                    Decision::unknown(reason),
                ));
            }
        }
        if found.len() == begin && !own {
            let unseen = partners.unseen.is_some_and(|since| since <= sent.publish);
            let mut decision = Decision::unknown(Reason::SubscriptionUnknown);
            if topic.is_some() && !partners.nameless && !unseen {
                (decision.outcome, decision.reason) =
                    (Outcome::NoSubscriber, Reason::NoSubscription);
            }
            found.push(Message {
                intra: None,
                ..row(None, None, None, Leg::Decided, decision)
            });
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
            let by = if row.estimated {
                Reason::NearestTimestamp
            } else {
                Reason::SameTimestamp
            };
            let taken = chain(&model.takes.rows, row.taken).filter(|(_, take)| take.matched);
            let taken = taken.map(|(number, take)| Matched::new(message, (number, &take), by));
            self.matched.extend(taken);
            self.matched.reverse();
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
        let buffers = &model.ring_buffers.rows;
        let given = successors(buffers.get(row.given), |one| buffers.get(one.next));
        self.given.extend(given);
        self.given.reverse();
    }
}

/// What came out of ring buffers and nobody is known to have published.
pub fn unpublished(model: &Model, partners: &Partners, found: &mut Vec<Message>) {
    let rows = model.ring_buffers.rows.iter();
    for (_, row) in rows.filter(|(_, row)| row.message.is_none()) {
        let take = model.takes.rows.get(row.take);
        let late = !row.untold && partners.kept.contains(&row.process);
        found.push(Message {
            publication: None,
            publisher: None,
            subscription: row.subscription,
            process: row.process,
            take: row.take,
            execution: take.and_then(|take| take.execution),
            intra: Some(true),
            publish: NEVER,
            push: NEVER,
            taken: model.taken(row.take, None),
            last_take: NEVER,
            leg: if late { Leg::LateJoiner } else { Leg::Decided },
            decision: Decision::unknown(Reason::PublicationNotRecorded),
        });
    }
}
