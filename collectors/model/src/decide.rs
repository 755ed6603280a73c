//! Decide what became of a message, by a list of rules.
//!
//! `decide` is called once for each row, when all that it needs is known: which messages of the
//! connection (a publisher and a subscription) were taken before and after, and where events may be
//! missing. The first rule that applies names the reason. docs/model.md has the rules in words, and
//! `docs/model_pass.md` says what else a new rule needs. A message that a ring buffer or a missing
//! subscription alone decides is decided when its row is made (`pairing`): `Leg::Decided`.

use serde::{Deserialize, Serialize};

use crate::existing::USUAL_WAIT;
use crate::facts::Facts;
use crate::ids::{flagged, get};
use crate::kinds::Kind;
use crate::messages::{Leg, Message};
use crate::model::Model;
use crate::partners::Partners;
use crate::publications::Publication;
use crate::rows::{NEVER, known};

/// Define an enum with the words by which tables name its values, and the meaning of each.
macro_rules! words {
    ($(#[$about:meta])* $name:ident { $($value:ident $word:literal $meaning:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum $name { $(#[doc = $meaning] $value,)* }

        impl $name {
            /// The words that name the values, by number.
            pub const WORDS: &[&str] = &[$($word,)*];
            /// The meaning of each value, by number.
            pub const MEANINGS: &[&str] = &[$($meaning,)*];
        }
    };
}

words! {
    /// What became of a message.
    Outcome {
        Delivered "delivered" "Its callback ran.",
        Taken "taken" "It was taken; no callback was seen.",
        Overwritten "overwritten" "A later message took its place in a ring buffer, or the buffer was cleared.",
        Lost "lost" "It was never taken, and could no longer come.",
        Unknown "unknown" "The recording does not show what became of it.",
        Replayed "replayed" "It came to a subscription that was made after it was published.",
        NoSubscriber "no_subscriber" "Its topic had no subscription.",
        Replaced "replaced" "Later messages pushed it out of the subscription's history.",
        NotMatched "not_matched" "No earlier message of its connection was taken: it may not have been matched yet.",
    }
}

words! {
    /// How a publication and a take were joined.
    Match {
        Exact "exact" "By a key, or by a place in a ring buffer.",
        Approximate "approximate" "By time or order, or an event around it is missing.",
        Ambiguous "ambiguous" "By order, of several of one key.",
        Nothing "" "Not at all.",
    }
}

words! {
    /// The rule that decided what became of a message.
    Reason {
        SameTimestamp "same_timestamp" "Topic and source timestamp of publication and take are equal.",
        RingBuffer "ring_buffer" "It was taken from the place in a ring buffer into which it had been put.",
        SharedTimestamp "shared_timestamp" "Several publications share topic and source timestamp; joined in order, or not known to be taken.",
        NearestTimestamp "nearest_timestamp" "The publication holds no timestamp; the nearest one taken is its own.",
        TimestampAlone "timestamp_alone" "The topic of one side is not known; no other publication has that timestamp.",
        InOrder "in_order" "No take of the subscription was recorded; publications and callbacks fit one way only.",
        FirstEventMissing "first_event_missing" "The publication lacks the event with which others of its publisher begin, or a gap lies before its first one.",
        CallbackUnknown "callback_unknown" "What its callback serves, or of which subscription the take is, was not recorded; it is the one that the take's thread began next.",
        OrderBroken "order_broken" "An event is missing there in one of the two processes, though no tracer reports one.",
        PublishedBeforeSubscription "published_before_subscription" "It was taken by a subscription that is younger than it.",
        LateJoiner "late_joiner" "A publisher's history put it into the ring buffer of a new subscription.",
        PublicationNotRecorded "publication_not_recorded" "It left a ring buffer, and who published it may not have been recorded.",
        PlaceOverwritten "place_overwritten" "The ring buffer was full, and a later message took its place.",
        BufferCleared "buffer_cleared" "The ring buffer was cleared.",
        StillInBuffer "still_in_buffer" "No event shows what left its place in a ring buffer.",
        NoSubscription "no_subscription" "No subscription of its topic existed.",
        SubscriptionUnknown "subscription_unknown" "The init event of a subscription that could have taken it may be missing.",
        TakesNotRecorded "takes_not_recorded" "The subscription takes in a way that was not recorded.",
        PublisherUnknown "publisher_unknown" "The publisher's init event is missing: what it sent before and after is not known.",
        NoTimestamp "no_timestamp" "It has no source timestamp, and its order among others does not decide it.",
        Gap "gap" "The tracer may have dropped its take.",
        RecordingEnded "recording_ended" "The receiver's recording, or its subscription, ended before it had to be taken.",
        BeforeFirstTake "before_first_take" "The connection's first take came later: it may not have been matched yet.",
        NeverTaken "never_taken" "Nothing of this connection was ever taken: it may never have been matched.",
        PushedOut "pushed_out" "As many later messages as the history holds came before the next take.",
        DepthUnknown "depth_unknown" "How many messages the history holds, or in a part of a recording how long messages waited, is not known: later ones may have its place.",
        Overtaken "overtaken" "A later message of the connection was taken.",
        ReceiverSeen "receiver_seen" "The receiver was seen until it could no longer come.",
    }
}

/// The decision about a message.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub struct Decision {
    pub outcome: Outcome,
    pub how: Match,
    pub reason: Reason,
}

impl Decision {
    /// Make the decision about a message of unknown outcome, and why it is unknown.
    pub const fn unknown(reason: Reason) -> Self {
        Self {
            outcome: Outcome::Unknown,
            how: Match::Nothing,
            reason,
        }
    }

    /// Start the decision about a message with a take or a callback, joined by this reason.
    pub const fn joined(by: Reason) -> Self {
        Self {
            how: by.how(),
            ..Self::unknown(by)
        }
    }
}

/// What comes after a message; `NEVER` if nothing does.
#[derive(Clone, Copy)]
pub struct After {
    /// The take time of the next message of its connection that was taken.
    pub next_take: i64,
    /// The take time of the next message from a publisher of the host that its subscription took.
    pub next_from_host: i64,
    /// When as many later messages from the host had been published as the subscription's history
    /// holds, if nothing later had been taken by then and something was taken after.
    pub full_at: i64,
}

/// Everything by which messages are decided.
pub struct Judge<'a> {
    /// The state after all events.
    pub model: &'a Model,
    /// The publications and takes that belong together.
    pub partners: &'a Partners,
    /// Facts about the whole recording.
    pub facts: &'a Facts,
}

impl Judge<'_> {
    /// Decide what became of a message.
    pub fn decide(&self, row: &Message, after: After) -> Decision {
        let joined = row.decision;
        let (outcome, reason) = match row.leg {
            Leg::BeforeSubscription => (Outcome::Replayed, Reason::PublishedBeforeSubscription),
            Leg::LateJoiner if self.is_late_joiner(row) => (Outcome::Replayed, Reason::LateJoiner),
            Leg::Decided | Leg::LateJoiner => return joined,
            _ if row.execution.is_some() => return self.joined(Outcome::Delivered, row),
            _ if row.take.is_some() => return self.joined(Outcome::Taken, row),
            Leg::Buffer => (Outcome::Unknown, Reason::StillInBuffer),
            Leg::Middleware => self.rules(row, after),
        };
        Decision {
            outcome,
            reason,
            ..joined
        }
    }

    /// Decide what became of a message between processes without a known take, by the first rule
    /// that applies. The numbers are those of docs/model.md.
    fn rules(&self, row: &Message, after: After) -> (Outcome, Reason) {
        let (facts, model) = (self.facts, self.model);
        let (objects, gaps) = (&model.registry, &model.gaps);
        let sent = model.publications.rows.get(row.publication);
        let earlier_taken = row.last_take != NEVER;
        let later_taken = after.next_take != NEVER;
        let until = known(after.next_take).unwrap_or(i64::MAX);
        let apart = |publication: Publication| model.clocks_apart(&publication, row.process);
        let since = row.publish.saturating_sub(sent.map_or(0, apart));
        let untaken = |subscription| self.partners.untaken.binary_search(&subscription).is_ok();
        let stamped = sent.is_some_and(|publication| publication.stamp != NEVER);
        let longest = facts.longest_wait.get(&row.subscription).copied();
        let latest = row.publish.saturating_add(longest.unwrap_or(USUAL_WAIT));
        let end = objects.ended(row.subscription);
        let end = end.min(model.identity.free(row.process));
        let depth = objects.depth(row.subscription);
        if !model.about.happened.has(Kind::RmwTake) || row.subscription.is_some_and(untaken) {
            // 1.
            (Outcome::Unknown, Reason::TakesNotRecorded)
        } else if row.publisher.is_none() {
            (Outcome::Unknown, Reason::PublisherUnknown)
        } else if sent.is_some_and(|publication| self.shares_its_key(row, &publication)) {
            (Outcome::Unknown, Reason::SharedTimestamp)
        } else if !stamped && !self.is_proved_by_order(row, sent, after) {
            // 2.
            (Outcome::Unknown, Reason::NoTimestamp)
        } else if gaps.overlap(row.process, since, until) {
            // 3.
            (Outcome::Unknown, Reason::Gap)
        } else if gaps.broken(row.process, row.publish, until) {
            (Outcome::Unknown, Reason::OrderBroken)
        } else if !later_taken && latest > end {
            // 4.
            (Outcome::Unknown, Reason::RecordingEnded)
        } else if !earlier_taken && later_taken {
            // 5.
            (Outcome::NotMatched, Reason::BeforeFirstTake)
        } else if !earlier_taken {
            (Outcome::NotMatched, Reason::NeverTaken)
        } else if self.is_pushed_out(row, after, depth, longest) {
            // 6.
            (Outcome::Replaced, Reason::PushedOut)
        } else if after.next_from_host != NEVER && depth == 0 && self.is_on_one_host(row) {
            // 7.
            (Outcome::Unknown, Reason::DepthUnknown)
        } else if later_taken {
            // 8.
            (Outcome::Lost, Reason::Overtaken)
        } else {
            (Outcome::Lost, Reason::ReceiverSeen)
        }
    }

    /// Decide about a message with a take or a callback.
    fn joined(&self, outcome: Outcome, row: &Message) -> Decision {
        let joined = row.decision;
        let doubt = (joined.how == Match::Exact).then(|| self.doubt(row));
        let (how, reason) = match doubt.flatten() {
            Some(reason) => (Match::Approximate, reason),
            None => (joined.how, joined.reason),
        };
        Decision {
            outcome,
            how,
            reason,
        }
    }

    /// Return why it is not certain what a key has joined, if something shows that it is not.
    fn doubt(&self, row: &Message) -> Option<Reason> {
        let model = self.model;
        let sent = model.publications.rows.get(row.publication)?;
        let starts_below = row.intra != Some(true) && sent.begins_below();
        let is_broken = |process| model.gaps.broken(process, row.publish, row.taken);
        if self.may_lack_its_first(&sent)
            || (starts_below && flagged(&self.facts.above, row.publisher))
        {
            return Some(Reason::FirstEventMissing);
        }
        if (model.takes.rows.get(row.take)).is_some_and(|take| take.guessed) {
            return Some(Reason::CallbackUnknown);
        }
        let broken = is_broken(row.process) || is_broken(model.process(sent.thread));
        broken.then_some(Reason::OrderBroken)
    }

    /// Whether a gap lies before its first event, and events that come earlier were recorded.
    fn may_lack_its_first(&self, publication: &Publication) -> bool {
        let above = [
            (Kind::IntraPublish, publication.intra),
            (Kind::RclcppPublish, publication.rclcpp),
            (Kind::RclPublish, publication.rcl),
        ];
        let mut before = above.iter().take_while(|(_, time)| *time == NEVER);
        publication.cut && before.any(|(kind, _)| self.model.about.happened.has(*kind))
    }

    /// Whether a message without a publication can only come from a publisher's history.
    fn is_late_joiner(&self, row: &Message) -> bool {
        let until = known(row.taken).unwrap_or(i64::MAX).saturating_sub(1);
        let first = self.facts.first_from_buffer.get(&row.subscription);
        let gaps = &self.model.gaps;
        self.model.about.enabled.has(Kind::IntraPublish)
            && first.is_none_or(|first| row.taken <= *first)
            && !gaps.overlap(row.process, i64::MIN, until)
            && !gaps.broken(row.process, i64::MIN, until)
    }

    /// Whether several publications have the topic and timestamp of the message.
    fn shares_its_key(&self, row: &Message, sent: &Publication) -> bool {
        let shared = &self.partners.shared_keys;
        let topic = || self.model.source(sent).topic;
        let of_subscription = || self.model.registry.topic_at(row.subscription);
        !shared.is_empty()
            && (topic().or_else(of_subscription))
                .is_some_and(|topic| shared.contains(&(topic, sent.stamp)))
    }

    /// Whether the messages before and after one without a timestamp show that it is gone.
    fn is_proved_by_order(&self, row: &Message, sent: Option<Publication>, after: After) -> bool {
        let others = self.facts.without_publication.get(&row.subscription);
        let others = others.map_or(&[][..], Vec::as_slice);
        let next = others.partition_point(|time| *time < row.publish);
        let claimed = others.get(next).is_some_and(|at| *at <= after.next_take);
        sent.is_some_and(|publication| publication.rmw != NEVER)
            && row.last_take != NEVER
            && after.next_take != NEVER
            && !claimed
    }

    /// Whether publisher and subscription are known to be on one host.
    pub fn is_on_one_host(&self, row: &Message) -> bool {
        let sender = get(&self.model.registry.publishers, row.publisher);
        let host = |process| self.model.identity.host(process);
        let from = host(sender.and_then(|publisher| publisher.process));
        from.is_some() && from == host(row.process)
    }

    /// Whether later messages took its place in the subscription's history.
    fn is_pushed_out(
        &self,
        row: &Message,
        after: After,
        depth: usize,
        longest: Option<i64>,
    ) -> bool {
        let wait = after.full_at.saturating_sub(row.push.max(row.last_take));
        let soon = longest.is_some_and(|longest| wait <= longest);
        self.is_on_one_host(row) && after.full_at != NEVER && (soon || depth > 1)
    }
}

impl Reason {
    /// Return how the reason joins a publication and a take, if it does so.
    const fn how(self) -> Match {
        match self {
            Self::SameTimestamp | Self::RingBuffer => Match::Exact,
            Self::SharedTimestamp => Match::Ambiguous,
            Self::NearestTimestamp | Self::TimestampAlone | Self::InOrder => Match::Approximate,
            _ => Match::Nothing,
        }
    }
}
