//! Match publications and takes of equal topic and source timestamp.
//!
//! Whichever comes first waits for the other. Takes of one publication are chained to it, the last
//! one first; takes that several publications share are assigned after the pass, in order.
//!
//! Unmatched keys are evicted, the oldest first. If one comes again (a message replayed to a late
//! joiner), its timestamp is at most the largest one of its topic that was evicted: then it is
//! noted, and at the end all rows are searched for its publications and takes.

use std::iter::successors;

use ahash::{HashMap, HashSet};

use crate::ids::{Id, Maybe};
use crate::publications::Publication;
use crate::registry::{Name, Registry};
use crate::rows::{NEVER, Rows};
use crate::takes::Take;

/// Topic and source timestamp.
pub type Key = (Id<Name>, i64);

/// The publication with a key, and the last take with it before that publication came.
#[derive(Clone, Copy, Default)]
struct Met {
    message: Maybe<Publication>,
    taken: Maybe<Take>,
}

type Waiting = HashMap<Key, Met>;

/// The keys of publications and takes that wait for their partner, or have it.
#[derive(Clone)]
pub struct Matches {
    /// The newer keys, the older ones, and the largest evicted timestamp of each topic.
    young: Waiting,
    old: Waiting,
    left: HashMap<Id<Name>, i64>,
    /// The number of keys in a generation.
    most: usize,
    /// Keys that came again after they were evicted, or may have.
    late: HashSet<Key>,
    /// All publications that share a key, by that key.
    pub shared: HashMap<Key, Vec<Id<Publication>>>,
}

impl Matches {
    /// Start without keys; at least the last `most` keys stay in memory.
    pub fn new(most: usize) -> Self {
        Self {
            young: Waiting::default(),
            old: Waiting::default(),
            left: HashMap::default(),
            most,
            late: HashSet::default(),
            shared: HashMap::default(),
        }
    }

    fn met(&mut self, key: Key) -> &mut Met {
        if self.young.len() >= self.most && !self.young.contains_key(&key) {
            for (topic, stamp) in self.old.keys() {
                let left = self.left.entry(*topic).or_insert(*stamp);
                *left = (*left).max(*stamp);
            }
            self.old.clear();
            std::mem::swap(&mut self.young, &mut self.old);
        }
        let (left, old, late) = (&self.left, &mut self.old, &mut self.late);
        self.young.entry(key).or_insert_with(|| {
            old.remove(&key).unwrap_or_else(|| {
                if left.get(&key.0).is_some_and(|left| key.1 <= *left) {
                    late.insert(key);
                }
                Met::default()
            })
        })
    }

    /// Match a publication that got its timestamp.
    pub fn on_publish(
        &mut self,
        rows: &mut Rows<Publication>,
        takes: &mut Rows<Take>,
        number: Id<Publication>,
        topic: Maybe<Name>,
    ) {
        let Some(row) = rows.edit(number) else {
            return;
        };
        let Some(topic) = topic.filter(|_| row.stamp != NEVER) else {
            return;
        };
        let key = (topic, row.stamp);
        let met = self.met(key);
        if let Some(first) = met.message {
            let shared = self.shared.entry(key).or_insert_with(|| vec![first]);
            shared.push(number);
            return;
        }
        met.message = Some(number);
        row.taken = met.taken.take();
        mark(takes, row.taken);
    }

    /// Match a take.
    pub fn on_take(
        &mut self,
        takes: &mut Rows<Take>,
        rows: &mut Rows<Publication>,
        (number, mut take): (Id<Take>, Take),
        topic: Maybe<Name>,
    ) {
        let Some(topic) = topic.filter(|_| take.stamp != NEVER) else {
            return;
        };
        let met = self.met((topic, take.stamp));
        let chain = match rows.edit(met.message) {
            Some(row) => &mut row.taken,
            None => &mut met.taken,
        };
        take.next = chain.replace(number);
        take.matched = met.message.is_some() && is_first(takes, &take);
        if let Some(row) = takes.edit(number) {
            *row = take;
        }
    }

    /// Match the publications and takes of late keys again, by a search of all rows.
    pub fn finish(
        &mut self,
        rows: &mut Rows<Publication>,
        takes: &mut Rows<Take>,
        registry: &Registry,
    ) {
        let late = std::mem::take(&mut self.late);
        if late.is_empty() {
            return;
        }
        let chains = chains(takes, registry, |key| late.contains(key));
        let mut published: HashMap<Key, Vec<Id<Publication>>> = HashMap::default();
        for number in rows.ids() {
            let row = rows.get(number);
            let key = row.and_then(|row| Some((registry.topic(row.publisher)?, row.stamp)));
            if let Some(key) = key.filter(|key| late.contains(key))
                && let Some(row) = rows.edit(number)
            {
                row.taken = None;
                published.entry(key).or_default().push(number);
            }
        }
        for (key, messages) in published {
            let chain = chains.get(&key).copied();
            if let Some(row) = messages.first().and_then(|first| rows.edit(*first)) {
                row.taken = chain;
            }
            if messages.len() > 1 {
                self.shared.insert(key, messages);
            } else {
                mark(takes, chain);
            }
        }
    }
}

/// Chain the takes of each wanted key, none of which has a publication yet; return the last takes.
pub fn chains(
    takes: &mut Rows<Take>,
    registry: &Registry,
    wanted: impl Fn(&Key) -> bool,
) -> HashMap<Key, Id<Take>> {
    let mut last_takes = HashMap::default();
    for number in takes.ids() {
        let take = takes.get(number);
        let take = take.filter(|take| !take.intra && take.stamp != NEVER);
        let key = take.and_then(|take| Some((registry.topic_at(take.subscription)?, take.stamp)));
        if let Some(key) = key.filter(&wanted)
            && let Some(take) = takes.edit(number)
        {
            (take.next, take.matched) = (last_takes.insert(key, number), false);
        }
    }
    last_takes
}

/// Iterate over the takes of a chain, the last one first.
pub fn chain(takes: &Rows<Take>, last: Maybe<Take>) -> impl Iterator<Item = (Id<Take>, Take)> {
    let take = |number: Maybe<Take>| Some((number?, takes.get(number)?));
    successors(take(last), move |(_, later)| take(later.next))
}

/// Return whether the chain before a take has no other take of its subscription.
fn is_first(takes: &Rows<Take>, take: &Take) -> bool {
    chain(takes, take.next).all(|(_, other)| other.subscription != take.subscription)
}

/// Mark the takes of a chain as matched: the first take of each subscription.
pub fn mark(takes: &mut Rows<Take>, first: Maybe<Take>) {
    let mut next = first;
    while let Some(take) = takes.get(next) {
        let matched = is_first(takes, &take);
        if let Some(row) = takes.edit(next) {
            row.matched = matched;
        }
        next = take.next;
    }
}
