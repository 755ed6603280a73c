//! What became of a message: one function, and the rules by which it decides.
//!
//! `decide` is asked once for each row, when all that it needs is known: what the connection (a
//! publisher and a subscription) took before and after, and where events may be missing. Rules apply in
//! their order, and the first one that fits names the reason. docs/model.md has them in words, and
//! `docs/model_pass.md` says what else belongs to a new one. What a ring buffer or a missing
//! subscription decides alone is known where the row is made (`pairing`): `Leg::Decided`.

use crate::existing::USUAL_WAIT;
use crate::facts::Facts;
use crate::gaps::Place;
use crate::identity::Process;
use crate::ids::{Maybe, flagged, get};
use crate::kinds::Kind;
use crate::messages::{First, Leg, Message};
use crate::model::Model;
use crate::partners::Partners;
use crate::rows::NEVER;

/// An enum with the words by which tables name its values, and what each of them means.
macro_rules! words {
    ($(#[$about:meta])* $name:ident { $($value:ident $word:literal $meaning:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $(#[doc = $meaning] $value,)* }

        impl $name {
            /// The words, by number.
            pub const WORDS: &[&str] = &[$($word,)*];
            /// What each of them means.
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
    /// The rule that decided.
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
        DepthUnknown "depth_unknown" "How many messages the history holds is not known: later ones may have its place.",
        Overtaken "overtaken" "A later message of the connection was taken.",
        ReceiverSeen "receiver_seen" "The receiver was seen until it could no longer come.",
    }
}

/// What is said of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    pub outcome: Outcome,
    pub how: Match,
    pub reason: Reason,
}

/// A message with all that the rules ask of it; times are `NEVER` where there is none.
pub struct Flight {
    /// Its row, and the number of that.
    pub row: Message,
    pub number: u64,
    /// When an earlier message of its connection was taken last.
    pub last_take: i64,
    /// When the next one of its connection was taken.
    pub next_take: i64,
    /// When as many later ones had been published as the subscription's history holds; known only if
    /// messages of its connection were taken before and after it (`Connection::look_ahead`).
    pub full_at: i64,
}

impl Flight {
    /// Until when its own take can have been.
    pub const fn until(&self) -> i64 {
        if self.next_take == NEVER {
            i64::MAX
        } else {
            self.next_take
        }
    }
}

/// Who decides.
pub struct Judge<'a> {
    /// What happened.
    pub model: &'a Model,
    /// What belongs together.
    pub partners: &'a Partners,
    /// What holds of the whole.
    pub facts: &'a Facts,
}

type Rule = (Reason, Outcome, fn(&Judge<'_>, &Flight) -> bool);

/// What became of a message between processes of which no take is known: the first rule that applies
/// decides, or `OTHERWISE` if none does. Their numbers are those of docs/model.md.
const RULES: &[Rule] = &[
    // 1.
    (
        Reason::TakesNotRecorded,
        Outcome::Unknown,
        |judge, flight| {
            !judge.model.about.happened.has(Kind::RmwTake)
                || judge.facts.untaken.contains(&flight.row.subscription)
        },
    ),
    (Reason::PublisherUnknown, Outcome::Unknown, |_, flight| {
        flight.row.publisher.is_none()
    }),
    (
        Reason::SharedTimestamp,
        Outcome::Unknown,
        |judge, flight| {
            let sent = &flight.row.sent;
            let key = sent.topic.map(|topic| (topic, sent.stamp));
            key.is_some_and(|key| judge.partners.shared_keys.contains(&key))
        },
    ),
    // 2.
    (Reason::NoTimestamp, Outcome::Unknown, |judge, flight| {
        judge.has_no_proof(flight)
    }),
    // 3.
    (Reason::Gap, Outcome::Unknown, |judge, flight| {
        let place = judge.place(flight.row.process);
        let gaps = &judge.model.gaps;
        gaps.overlap(place, flight.row.publish, flight.until())
    }),
    (Reason::OrderBroken, Outcome::Unknown, |judge, flight| {
        let (row, gaps) = (&flight.row, &judge.model.gaps);
        gaps.broken(row.process, row.publish, flight.until())
    }),
    // 4.
    (Reason::RecordingEnded, Outcome::Unknown, |judge, flight| {
        let longest = judge.longest(flight).unwrap_or(USUAL_WAIT);
        let process = judge.model.identity.end(flight.row.process);
        let end = process.min(judge.model.registry.ended(flight.row.subscription));
        flight.next_take == NEVER && flight.row.publish.saturating_add(longest) > end
    }),
    // 5.
    (Reason::BeforeFirstTake, Outcome::NotMatched, |_, flight| {
        flight.last_take == NEVER && flight.next_take != NEVER
    }),
    (Reason::NeverTaken, Outcome::NotMatched, |_, flight| {
        flight.last_take == NEVER
    }),
    // 6.
    (Reason::PushedOut, Outcome::Replaced, |judge, flight| {
        judge.is_pushed_out(flight)
    }),
    // 7.
    (Reason::DepthUnknown, Outcome::Unknown, |judge, flight| {
        flight.next_take != NEVER
            && judge.model.registry.depth(flight.row.subscription) == 0
            && judge.is_on_one_host(&flight.row)
    }),
    // 8.
    (Reason::Overtaken, Outcome::Lost, |_, flight| {
        flight.next_take != NEVER
    }),
];

/// 8., too: the receiver was there, as rule 4 did not apply.
const OTHERWISE: (Outcome, Reason) = (Outcome::Lost, Reason::ReceiverSeen);

impl Judge<'_> {
    /// What became of a message.
    pub fn decide(&self, flight: &Flight) -> Decision {
        let row = &flight.row;
        let (outcome, reason) = match row.leg {
            Leg::Decided(outcome, reason) => (outcome, reason),
            Leg::BeforeSubscription => (Outcome::Replayed, Reason::PublishedBeforeSubscription),
            Leg::LateJoiner if self.is_late_joiner(row) => (Outcome::Replayed, Reason::LateJoiner),
            Leg::LateJoiner => (Outcome::Unknown, Reason::PublicationNotRecorded),
            _ if row.execution.is_some() => return self.joined(Outcome::Delivered, flight),
            _ if row.take.is_some() => return self.joined(Outcome::Taken, flight),
            Leg::Buffer => (Outcome::Unknown, Reason::StillInBuffer),
            Leg::Middleware => {
                let rule = RULES.iter().find(|(.., applies)| applies(self, flight));
                rule.map_or(OTHERWISE, |(reason, outcome, _)| (*outcome, *reason))
            }
        };
        let how = row.joined.map_or(Match::Nothing, Reason::how);
        Decision {
            outcome,
            how,
            reason,
        }
    }

    /// A message with a take or a callback.
    fn joined(&self, outcome: Outcome, flight: &Flight) -> Decision {
        let row = &flight.row;
        let reason = row.joined.unwrap_or(Reason::SameTimestamp);
        let how = row.joined.map_or(Match::Nothing, Reason::how);
        let doubt = || {
            let processes = [self.model.publishing_process(row.message), row.process];
            let gaps = &self.model.gaps;
            let above = || flagged(&self.facts.above, row.publisher);
            let starts_below = row.intra != Some(true) && row.sent.first == First::Below;
            if row.sent.cut || (starts_below && above()) {
                Some(Reason::FirstEventMissing)
            } else if self
                .model
                .takes
                .rows
                .get(row.take)
                .is_some_and(|take| take.guessed)
            {
                Some(Reason::CallbackUnknown)
            } else if processes
                .iter()
                .any(|process| gaps.broken(*process, row.publish, row.taken))
            {
                Some(Reason::OrderBroken)
            } else {
                None
            }
        };
        let doubt = (how == Match::Exact).then(doubt).flatten();
        Decision {
            outcome,
            how: doubt.map_or(how, |_| Match::Approximate),
            reason: doubt.unwrap_or(reason),
        }
    }

    fn place(&self, process: Maybe<Process>) -> Place {
        self.model.identity.place_of(process)
    }

    fn longest(&self, flight: &Flight) -> Option<i64> {
        self.facts
            .longest_wait
            .get(&flight.row.subscription)
            .copied()
    }

    /// Whether a message without a publication can only come from a publisher's history.
    fn is_late_joiner(&self, row: &Message) -> bool {
        let until = if row.taken == NEVER {
            i64::MAX
        } else {
            row.taken
        };
        let first = self.facts.first_from_buffer.get(&row.subscription);
        let (gaps, place) = (&self.model.gaps, self.place(row.process));
        self.model.about.enabled.has(Kind::IntraPublish)
            && first.is_none_or(|first| row.taken <= *first)
            && !gaps.overlap(place, i64::MIN, until.saturating_sub(1))
            && !gaps.broken(row.process, i64::MIN, until.saturating_sub(1))
    }

    /// Whether it has no timestamp, and those before and after it do not tell that it is gone.
    fn has_no_proof(&self, flight: &Flight) -> bool {
        if flight.row.sent.stamp != NEVER {
            return false;
        }
        let others = &self.facts.without_publication;
        let others = others.get(&flight.row.subscription);
        let others = others.map_or(&[][..], Vec::as_slice);
        let next = others.partition_point(|time| *time < flight.row.publish);
        let claimed = others
            .get(next)
            .is_some_and(|time| *time <= flight.next_take);
        !flight.row.sent.by_middleware
            || flight.last_take == NEVER
            || flight.next_take == NEVER
            || claimed
    }

    /// Whether publisher and subscription are known to be on one host.
    fn is_on_one_host(&self, row: &Message) -> bool {
        let sender = get(&self.model.registry.publishers, row.publisher);
        let host = |process| self.model.identity.host(process);
        let from = host(sender.and_then(|of| of.process));
        from.is_some() && from == host(row.process)
    }

    /// Whether later messages have its place in the subscription's history.
    fn is_pushed_out(&self, flight: &Flight) -> bool {
        let row = &flight.row;
        let wait = flight
            .full_at
            .saturating_sub(row.sent.push.max(flight.last_take));
        let soon = self.longest(flight).is_some_and(|longest| wait <= longest);
        self.is_on_one_host(row)
            && flight.full_at != NEVER
            && flight.next_take != NEVER
            && flight.full_at < flight.next_take
            && (soon || self.model.registry.depth(row.subscription) > 1)
    }
}

impl Reason {
    /// How it joins a publication and a take, if that is what it does.
    const fn how(self) -> Match {
        match self {
            Self::SameTimestamp | Self::RingBuffer => Match::Exact,
            Self::SharedTimestamp => Match::Ambiguous,
            Self::NearestTimestamp | Self::TimestampAlone | Self::InOrder => Match::Approximate,
            _ => Match::Nothing,
        }
    }
}
