//! Publications and takes of equal topic and source timestamp.
//!
//! Whichever comes first waits for the other. Takes of one publication are chained to it, the last
//! one first; what several publications share is told apart after the pass, in order.

use ahash::HashMap;

use crate::publications::Publication;
use crate::rows::{NEVER, NONE};
use crate::takes::Take;

/// Topic and source timestamp.
pub type Key = (u32, i64);

/// What was published with a key, and what was taken with it before.
struct Met {
    message: u32,
    taken: u32,
}

/// What waits for its partner, or has it.
#[derive(Default)]
pub struct Matches {
    by_key: HashMap<Key, Met>,
    /// Publications that share their key, by it: all of them.
    pub shared: HashMap<Key, Vec<u32>>,
}

impl Matches {
    /// A publication got its stamp.
    pub fn on_publish(&mut self, rows: &mut [Publication], number: u32, topic: u32) {
        let stamp = rows[number as usize].stamp;
        if topic == NONE || stamp == NEVER {
            return;
        }
        let key = (topic, stamp);
        let met = self.by_key.entry(key).or_insert(Met {
            message: NONE,
            taken: NONE,
        });
        if met.message != NONE {
            self.shared
                .entry(key)
                .or_insert_with(|| vec![met.message])
                .push(number);
            return;
        }
        met.message = number;
        rows[number as usize].taken = std::mem::replace(&mut met.taken, NONE);
    }

    /// A publication that was taken apart has another number.
    pub fn on_move(&mut self, key: Key, from: u32, to: u32) {
        if let Some(met) = self.by_key.get_mut(&key)
            && met.message == from
        {
            met.message = to;
        }
        for message in self.shared.get_mut(&key).into_iter().flatten() {
            if *message == from {
                *message = to;
            }
        }
    }

    /// Keys of takes without a publication, with the chain of these.
    pub fn waiting(&self) -> impl Iterator<Item = (Key, u32)> {
        let alone = self.by_key.iter().filter(|(_, met)| met.message == NONE);
        alone.map(|(key, met)| (*key, met.taken))
    }

    /// A message was taken.
    pub fn on_take(
        &mut self,
        takes: &mut [Take],
        rows: &mut [Publication],
        number: u32,
        topic: u32,
    ) {
        let take = &mut takes[number as usize];
        if topic == NONE || take.stamp == NEVER {
            return;
        }
        let met = self.by_key.entry((topic, take.stamp)).or_insert(Met {
            message: NONE,
            taken: NONE,
        });
        let chain = match rows.get_mut(met.message as usize) {
            Some(row) => &mut row.taken,
            None => &mut met.taken,
        };
        take.next = std::mem::replace(chain, number);
    }
}
