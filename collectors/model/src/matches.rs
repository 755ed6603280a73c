//! Publications and takes of equal topic and source timestamp.
//!
//! Whichever comes first waits for the other. Takes of one publication are chained to it, the last
//! one first; what several publications share is told apart after the pass, in order.
//!
//! Unmatched keys are evicted, the oldest first. Should one come again (a message replayed to a late
//! joiner), its timestamp is at most the largest one of its topic that left: then it is noted, and what
//! belongs to it is looked for among all rows in the end.

use ahash::{HashMap, HashSet};

use crate::publications::Publication;
use crate::registry::Registry;
use crate::rows::{NEVER, NONE, Rows};
use crate::takes::Take;

/// Topic and source timestamp.
pub type Key = (u32, i64);

/// What was published with a key, and what was taken with it before.
#[derive(Clone, Copy)]
struct Met {
    message: u32,
    taken: u32,
}

type Waiting = HashMap<Key, Met>;

/// What waits for its partner, or has it.
#[derive(Clone)]
pub struct Matches {
    /// The keys of late, those before, and of each topic the largest timestamp that left.
    young: Waiting,
    old: Waiting,
    left: HashMap<u32, i64>,
    /// So many keys make a generation.
    most: usize,
    /// Keys that came again, or may have.
    late: HashSet<Key>,
    /// Publications that share their key, by it: all of them.
    pub shared: HashMap<Key, Vec<u32>>,
}

impl Matches {
    /// None yet; so many keys stay at least.
    #[must_use]
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
                Met {
                    message: NONE,
                    taken: NONE,
                }
            })
        })
    }

    /// A publication got its stamp.
    pub fn on_publish(
        &mut self,
        rows: &mut Rows<Publication>,
        takes: &mut Rows<Take>,
        number: u32,
        topic: u32,
    ) {
        let Some(row) = rows.edit(number) else {
            return;
        };
        if topic == NONE || row.stamp == NEVER {
            return;
        }
        let key = (topic, row.stamp);
        let met = self.met(key);
        if met.message != NONE {
            let first = met.message;
            let shared = self.shared.entry(key).or_insert_with(|| vec![first]);
            shared.push(number);
            return;
        }
        met.message = number;
        row.taken = std::mem::replace(&mut met.taken, NONE);
        mark(takes, row.taken);
    }

    /// A publication that was taken apart has another number.
    pub fn on_move(&mut self, key: Key, from: u32, to: u32) {
        for met in [self.young.get_mut(&key), self.old.get_mut(&key)] {
            if let Some(met) = met.filter(|met| met.message == from) {
                met.message = to;
            }
        }
        for message in self.shared.get_mut(&key).into_iter().flatten() {
            if *message == from {
                *message = to;
            }
        }
    }

    /// A message was taken.
    pub fn on_take(
        &mut self,
        takes: &mut Rows<Take>,
        rows: &mut Rows<Publication>,
        number: u32,
        topic: u32,
    ) {
        let Some(stamp) = takes.get(number).map(|take| take.stamp) else {
            return;
        };
        if topic == NONE || stamp == NEVER {
            return;
        }
        let met = self.met((topic, stamp));
        let chain = match rows.edit(met.message) {
            Some(row) => &mut row.taken,
            None => &mut met.taken,
        };
        let before = std::mem::replace(chain, number);
        let matched = met.message != NONE && is_first(takes, before, number);
        if let Some(take) = takes.edit(number) {
            (take.next, take.matched) = (before, matched);
        }
    }

    /// Put together again what belongs to keys that came late.
    pub fn finish(
        &mut self,
        rows: &mut Rows<Publication>,
        takes: &mut Rows<Take>,
        known: &Registry,
    ) {
        let late = std::mem::take(&mut self.late);
        if late.is_empty() {
            return;
        }
        let mut chains: HashMap<Key, u32> = HashMap::default();
        for number in 0..takes.count() {
            let Some(take) = takes.get(number).filter(|take| !take.intra) else {
                continue;
            };
            let key = (known.topic_at(take.subscription), take.stamp);
            if late.contains(&key)
                && let Some(take) = takes.edit(number)
            {
                take.next = chains.insert(key, number).unwrap_or(NONE);
                take.matched = false;
            }
        }
        let mut published: HashMap<Key, Vec<u32>> = HashMap::default();
        for number in 0..rows.count() {
            let Some(row) = rows.get(number) else {
                continue;
            };
            let key = (known.topic(row.publisher), row.stamp);
            if late.contains(&key) {
                published.entry(key).or_default().push(number);
                if let Some(row) = rows.edit(number) {
                    row.taken = NONE;
                }
            }
        }
        for (key, messages) in published {
            let chain = chains.get(&key).copied().unwrap_or(NONE);
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

/// Takes of a chain, the first one first.
pub fn chained(takes: &Rows<Take>, first: u32, found: &mut Vec<(u32, Take)>) {
    found.clear();
    let mut number = first;
    while let Some(take) = takes.get(number) {
        found.push((number, take));
        number = take.next;
    }
    found.reverse();
}

/// Whether no take of its subscription is in the chain before a take.
fn is_first(takes: &Rows<Take>, before: u32, number: u32) -> bool {
    let of = takes.get(number).map(|take| take.subscription);
    let mut place = before;
    while let Some(take) = takes.get(place) {
        if Some(take.subscription) == of {
            return false;
        }
        place = take.next;
    }
    true
}

/// Say of the takes of a chain that their publication was found: of one subscription the first.
pub fn mark(takes: &mut Rows<Take>, first: u32) {
    let mut number = first;
    while let Some(take) = takes.get(number) {
        let matched = is_first(takes, take.next, number);
        if let Some(take) = takes.edit(number) {
            take.matched = matched;
        }
        number = take.next;
    }
}
