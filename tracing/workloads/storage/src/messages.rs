//! The message suites: how large messages are, in which order, and how they form batches.

use crate::content::Content;
use crate::failure::{Failure, Result};

/// Which messages are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suite {
    OneMebibyte,
    TenKibibytes,
    HundredBytes,
    /// 70, 20 and 10 % of the bytes in messages of 1,000,000, 10,000 and 100 bytes.
    Mixed,
}

/// One message: a slice of the content, on a topic.
#[derive(Clone, Copy, Debug)]
pub struct Message {
    pub begin: usize,
    pub length: usize,
    pub topic: u16,
}

impl Suite {
    const NAMES: [(&'static str, Suite); 4] = [
        ("1MiB", Suite::OneMebibyte),
        ("10KiB", Suite::TenKibibytes),
        ("100B", Suite::HundredBytes),
        ("mixed", Suite::Mixed),
    ];

    /// The suite of that name.
    pub fn named(name: &str) -> Result<Self> {
        let found = Self::NAMES.iter().find(|(known, _)| *known == name);
        found.map(|(_, suite)| *suite).ok_or_else(|| {
            Failure::Usage(format!(
                "unknown messages {name:?}; there are 1MiB, 10KiB, 100B, mixed"
            ))
        })
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        let found = Self::NAMES.iter().find(|(_, suite)| *suite == self);
        found.map_or("", |(name, _)| name)
    }

    /// Sizes of messages with how many there are, for so many bytes in all; one topic each.
    pub fn sizes(self, bytes: u64) -> Vec<(usize, u64)> {
        match self {
            Suite::OneMebibyte => vec![(1 << 20, bytes >> 20)],
            Suite::TenKibibytes => vec![(10 << 10, bytes / (10 << 10))],
            Suite::HundredBytes => vec![(100, bytes / 100)],
            Suite::Mixed => [(1_000_000_u32, 7), (10_000, 2), (100, 1)]
                .into_iter()
                .map(|(size, tenths)| (size as usize, bytes * tenths / 10 / u64::from(size)))
                .collect(),
        }
    }

    /// All messages in the order in which they are written.
    pub fn messages(self, bytes: u64, content: &Content, seed: u64) -> Result<Vec<Message>> {
        let sizes = self.sizes(bytes);
        if sizes.iter().any(|(_, count)| *count == 0) {
            return Err(Failure::Usage(format!(
                "--bytes {bytes}: too few for one message of each size of {}",
                self.name()
            )));
        }
        let mut order: Vec<(usize, u16)> = Vec::new();
        for (topic, (size, count)) in (0..).zip(&sizes) {
            order.extend((0..*count).map(|_| (*size, topic)));
        }
        if sizes.len() > 1 {
            shuffle(&mut order, seed);
        }
        let mut position = 0;
        Ok(order
            .into_iter()
            .map(|(length, topic)| {
                let begin = content.place(position, length);
                position = begin + length;
                Message {
                    begin,
                    length,
                    topic,
                }
            })
            .collect())
    }
}

/// Cuts messages into batches: each ends with the first message that fills `batch` bytes.
pub fn batches(messages: &[Message], batch: u64) -> Vec<&[Message]> {
    let mut found = Vec::new();
    let (mut begin, mut filled) = (0, 0);
    for (index, message) in messages.iter().enumerate() {
        filled += message.length as u64;
        if filled >= batch {
            found.push(&messages[begin..=index]);
            (begin, filled) = (index + 1, 0);
        }
    }
    if begin < messages.len() {
        found.push(&messages[begin..]);
    }
    found
}

/// Fisher and Yates' shuffle by Steele's splitmix64; the same seed gives the same order.
fn shuffle<T>(items: &mut [T], seed: u64) {
    let mut state = seed;
    for last in (1..items.len()).rev() {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        let drawn = (u128::from(z) * (last as u128 + 1)) >> 64;
        items.swap(last, usize::try_from(drawn).unwrap_or(0));
    }
}

#[cfg(test)]
mod tests {
    use super::{Message, Suite, batches, shuffle};

    const PUBLISHED: u64 = 250 << 20;

    fn of(length: usize, count: usize) -> Vec<Message> {
        vec![
            Message {
                begin: 0,
                length,
                topic: 0
            };
            count
        ]
    }

    /// Counts of the published comparison.
    #[test]
    fn counts_are_the_published_ones() {
        let mixed = Suite::Mixed.sizes(PUBLISHED);
        assert_eq!(mixed, [(1_000_000, 183), (10_000, 5_242), (100, 262_144)]);
        assert_eq!(Suite::OneMebibyte.sizes(PUBLISHED), [(1 << 20, 250)]);
        assert_eq!(Suite::TenKibibytes.sizes(PUBLISHED), [(10_240, 25_600)]);
        assert_eq!(Suite::HundredBytes.sizes(PUBLISHED), [(100, 2_621_440)]);
    }

    /// Messages per batch of the published comparison.
    #[test]
    fn batches_are_the_published_ones() {
        for (length, batch, expected) in [
            (1 << 20, 1 << 10, 1),
            (10 << 10, 1 << 10, 1),
            (100, 1 << 10, 11),
            (1 << 20, 10 << 20, 10),
            (10 << 10, 10 << 20, 1_024),
            (100, 10 << 20, 104_858),
        ] {
            let messages = of(length, expected * 2 + 1);
            let found: Vec<usize> = batches(&messages, batch).iter().map(|b| b.len()).collect();
            assert_eq!(found, [expected, expected, 1], "{length} {batch}");
        }
    }

    #[test]
    fn a_shuffle_keeps_all_and_depends_on_the_seed_alone() {
        let mut first: Vec<u32> = (0..1000).collect();
        let mut again = first.clone();
        let mut other = first.clone();
        shuffle(&mut first, 1);
        shuffle(&mut again, 1);
        shuffle(&mut other, 2);
        assert_eq!(first, again);
        assert_ne!(first, other);
        other.sort_unstable();
        assert!(other.into_iter().eq(0..1000));
    }
}
