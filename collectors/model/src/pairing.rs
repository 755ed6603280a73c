//! Make a row for each publication and each subscription that existed then.

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

/// The state of the pass over publications that makes the rows of messages.
pub struct Pairing {
    pub existing: Existing,
    /// How many of `Partners::more` were used.
    more: usize,
    /// How many publications without a topic have an event of rclcpp and none of rcl.
    pub unnamed: u64,
    /// How many other publications without a topic have no known publisher either.
    pub unknown_publishers: u64,
    subscriptions: Vec<Id<Subscription>>,
    matched: Vec<Matched>,
    given: Vec<Enqueue>,
}

impl Pairing {
    /// Start before the first publication.
    pub(crate) fn new(model: &Model) -> Self {
        Self {
            existing: Existing::new(model, |_| true),
            more: 0,
            unnamed: 0,
            unknown_publishers: 0,
            subscriptions: Vec::new(),
            matched: Vec::new(),
            given: Vec::new(),
        }
    }

    /// Append the rows of one publication.
    pub(crate) fn pair(
        &mut self,
        model: &Model,
        partners: &Partners,
        (message, sent): (Id<Publication>, &Publication),
        messages: &mut Vec<Message>,
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
            .at(model, topic, sent, &mut self.subscriptions);
        // Only the first of several takes of a subscription that existed then counts.
        let subscriptions = &self.subscriptions;
        let existed = |of: Id<Subscription>| subscriptions.binary_search(&of).is_ok();
        self.matched.dedup_by(|later, earlier| {
            later.subscription == earlier.subscription && earlier.subscription.is_some_and(existed)
        });
        // The middleware's own messages get no row.
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
        let begin = messages.len();
        for place in given {
            let (leg, decision) = left(place.fate);
            let take = model.takes.rows.get(place.take);
            let execution = take.and_then(|take| take.execution);
            messages.push(Message {
                intra: Some(true),
                ..row(place.subscription, place.take, execution, leg, decision)
            });
        }
        // rclcpp drops the copy from the middleware, so only the intra-process row is made.
        let within = |subscription: Maybe<Subscription>| {
            subscription.is_some() && given.iter().any(|place| place.subscription == subscription)
        };
        for partner in self
            .matched
            .iter()
            .filter(|partner| !within(partner.subscription))
        {
            let known = get(&model.registry.subscriptions, partner.subscription);
            let existed_then = known.map_or(partner.subscription.is_none(), |subscription| {
                let apart = model.clocks_apart(sent, subscription.process);
                sent.publish.saturating_add(apart) >= subscription.created
            });
            let leg = if existed_then {
                Leg::Middleware
            } else {
                Leg::BeforeSubscription
            };
            let joined = Decision::joined(partner.by);
            let (take, execution) = (partner.take, partner.execution);
            messages.push(row(partner.subscription, take, execution, leg, joined));
        }
        let unresolved = given.iter().any(|place| place.subscription.is_none());
        for subscription in self.subscriptions.iter().copied().map(Some) {
            let key = |partner: &Matched| last(partner.subscription);
            let matched = (self.matched).binary_search_by_key(&last(subscription), key);
            if matched.is_err() && !within(subscription) {
                let (leg, reason) = if unresolved {
                    (Leg::Decided, Reason::StillInBuffer)
                } else {
                    // The rules decide it later.
                    (Leg::Middleware, Reason::NoTimestamp)
                };
                messages.push(row(
                    subscription,
                    None,
                    None,
                    leg,
                    Decision::unknown(reason),
                ));
            }
        }
        if messages.len() == begin && !own {
            let unseen = partners.unseen.is_some_and(|since| since <= sent.publish);
            let mut decision = Decision::unknown(Reason::SubscriptionUnknown);
            if topic.is_some() && !partners.nameless && !unseen {
                (decision.outcome, decision.reason) =
                    (Outcome::NoSubscriber, Reason::NoSubscription);
            }
            messages.push(Message {
                intra: None,
                ..row(None, None, None, Leg::Decided, decision)
            });
        }
    }

    /// Collect the takes of a publication, and the ring buffers that it was put into.
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
        while let Some(partner) = partners.more.get(self.more)
            && partner.message <= message
        {
            self.matched.push(*partner);
            self.more += 1;
        }
        if self.matched.len() > 1 {
            self.matched
                .sort_by_key(|partner| last(partner.subscription));
        }
        self.given.clear();
        let buffers = &model.ring_buffers.rows;
        let given = successors(buffers.get(row.given), |place| buffers.get(place.next));
        self.given.extend(given);
        self.given.reverse();
    }
}

/// Return the way and decision of a message by how it left a ring buffer.
fn left(fate: Fate) -> (Leg, Decision) {
    let gone = |reason| Decision {
        outcome: Outcome::Overwritten,
        how: Match::Exact,
        reason,
    };
    match fate {
        Fate::Pending => (Leg::Decided, Decision::unknown(Reason::StillInBuffer)),
        Fate::Dequeued => (Leg::Buffer, Decision::joined(Reason::RingBuffer)),
        Fate::Overwritten => (Leg::Decided, gone(Reason::PlaceOverwritten)),
        Fate::Cleared => (Leg::Decided, gone(Reason::BufferCleared)),
    }
}

/// Append the messages in ring buffers whose publication is not known.
pub fn unpublished(model: &Model, partners: &Partners, messages: &mut Vec<Message>) {
    let rows = model.ring_buffers.rows.iter();
    for (_, row) in rows.filter(|(_, row)| row.message.is_none()) {
        let take = model.takes.rows.get(row.take);
        let late = !row.untold && partners.kept.contains(&row.process);
        messages.push(Message {
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
