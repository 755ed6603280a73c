//! Find which publications and takes belong together after all events: by key, time or order.

use ahash::{HashMap, HashMapExt, HashSet};

use crate::approximate;
use crate::decide::Reason;
use crate::identity::Process;
use crate::ids::{Id, Maybe, get, last};
use crate::matches::{Key, chain};
use crate::messages::Matched;
use crate::model::Model;
use crate::publications::Publication;
use crate::registry::Subscription;
use crate::takes::Take;

/// Matches besides the takes that are chained to their publications, and facts that rows need.
pub struct Partners {
    /// Matches by order or time, sorted by message and subscription.
    pub more: Vec<Matched>,
    /// Publications that share topic and timestamp with another one, and these keys.
    pub shared: HashSet<Id<Publication>>,
    pub shared_keys: HashSet<Key>,
    /// Subscriptions whose callbacks ran although no take of theirs was recorded.
    pub untaken: Vec<Id<Subscription>>,
    /// Takes between processes without a recorded publication.
    pub alone: Vec<Id<Take>>,
    /// How many takes have neither a known subscription nor a known topic.
    pub unknown_subscriptions: u64,
    /// Whether a subscription of unknown topic took a message.
    pub nameless: bool,
    /// The time since which the init event of a subscription may be missing.
    pub unseen: Option<i64>,
    /// Processes in which a publisher keeps a history: nothing else is replayed within a process.
    pub kept: HashSet<Maybe<Process>>,
}

impl Model {
    /// Match the takes of publications that share their key: the first with the first, and so on.
    fn ambiguous(&mut self) -> (Vec<Matched>, HashSet<Id<Publication>>) {
        let (mut matched, mut shared) = (Vec::new(), HashSet::default());
        for mut messages in std::mem::take(&mut self.matches.shared).into_values() {
            messages.sort_unstable();
            let mut next: HashMap<_, usize> = HashMap::new();
            for first in &messages {
                let taken = self.publications.rows.get(*first).and_then(|row| row.taken);
                let mut taken: Vec<_> = chain(&self.takes.rows, taken).collect();
                taken.reverse();
                for (number, take) in &taken {
                    let rank = next.entry(take.subscription).or_default();
                    let message = messages.get(*rank);
                    if let Some(take) = self.takes.rows.edit(*number) {
                        take.matched = message.is_some();
                    }
                    if let Some(message) = message {
                        matched.push(Matched::new(
                            *message,
                            (*number, take),
                            Reason::SharedTimestamp,
                        ));
                    }
                    *rank += 1;
                }
            }
            shared.extend(messages);
        }
        (matched, shared)
    }

    /// Find which publications and takes belong together, after all events.
    pub(crate) fn partners(&mut self) -> Partners {
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
        more.extend(approximate::by_order(self, &untaken));
        more.sort_by_key(|partner| (partner.message, last(partner.subscription)));
        let (mut alone, mut nameless, mut unknown) = (Vec::new(), false, 0);
        for (number, take) in self.takes.rows.iter() {
            let topic = self.take_topic(&take);
            nameless |= topic.is_none();
            unknown += u64::from(topic.is_none() && take.subscription.is_none());
            if !take.intra && !take.matched && topic != self.registry.discovery {
                alone.push(number);
            }
        }
        let keys = shared
            .iter()
            .filter_map(|number| self.publications.rows.get(*number));
        let keys = keys.filter_map(|row| Some((self.source(&row).topic?, row.stamp)));
        let registry = &self.registry;
        let subscriptions = registry.subscriptions.iter();
        let newest = subscriptions.map(|object| object.created).max();
        let kept = registry
            .ring_buffers
            .iter()
            .filter_map(|buffer| get(&registry.publishers, buffer.publisher));
        Partners {
            shared_keys: keys.collect(),
            unseen: newest.and_then(|newest| self.gaps.first().filter(|begin| *begin <= newest)),
            kept: kept.map(|publisher| publisher.process).collect(),
            more,
            shared,
            untaken,
            alone,
            unknown_subscriptions: unknown,
            nameless,
        }
    }
}
