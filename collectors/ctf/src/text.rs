//! Build columns of text.

use std::sync::Arc;

use arrow_array::builder::make_view;
use arrow_array::{Array, ArrayRef, StringViewArray};
use arrow_buffer::{Buffer, NullBuffer, ScalarBuffer};

use crate::bits::{chunk, until_nul};

/// A builder of a column of text.
#[derive(Debug, Default)]
pub struct TextBuilder {
    views: Vec<u128>,
    full: Vec<Buffer>,
    data: Vec<u8>,
    /// The text appended last by [`TextBuilder::push`], and its view.
    last: (Vec<u8>, u128),
    recent: Vec<Recent>,
}

/// A recent text as words, and its view.
#[derive(Debug, Clone, Copy, Default)]
struct Recent {
    words: [u64; 3],
    view: Option<u128>,
}

/// The number of recent texts that are remembered.
const RECENT: usize = 64;

/// Largest buffer of text: views count in 31 bits.
const TEXT_BUFFER: usize = 1 << 30;

impl TextBuilder {
    /// Append a value; bytes that are not UTF-8 are replaced by U+FFFD.
    pub fn push(&mut self, bytes: &[u8]) {
        // Names of threads, topics and so on repeat.
        if self.last.0 != bytes {
            self.last.0.clear();
            self.last.0.extend_from_slice(bytes);
            self.last.1 = match std::str::from_utf8(bytes) {
                Ok(_) => self.view(bytes),
                Err(_) => self.view(String::from_utf8_lossy(bytes).as_bytes()),
            };
        }
        self.views.push(self.last.1);
    }

    fn view(&mut self, bytes: &[u8]) -> u128 {
        if bytes.len() <= 12 {
            return make_view(bytes, 0, 0);
        }
        if self.data.len() + bytes.len() > TEXT_BUFFER && !self.data.is_empty() {
            self.full
                .push(Buffer::from_vec(std::mem::take(&mut self.data)));
        }
        let at = self.data.len();
        self.data.extend_from_slice(bytes);
        #[expect(clippy::cast_possible_truncation, reason = "buffers are at most 1 GiB")]
        make_view(bytes, self.full.len() as u32, at as u32)
    }

    /// Append values of 16 to 24 characters, each up to its first NUL. Few of them differ: they are
    /// names of threads.
    pub fn extend_chars<'a>(&mut self, values: impl ExactSizeIterator<Item = &'a [u8]>) {
        self.views.reserve(values.len());
        self.recent.resize(RECENT, Recent::default());
        for chars in values {
            // The last word overlaps the one before.
            let words = [0, 8, chars.len() - 8].map(|at| u64::from_le_bytes(chunk(chars, at)));
            let hash = (words[0] ^ words[1].rotate_left(29)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let at = (hash >> 58) as usize;
            let hit = |recent: &Recent| recent.view.filter(|_| recent.words == words);
            // There are two places, so that two names do not evict each other.
            match hit(&self.recent[at]).or_else(|| hit(&self.recent[at ^ 1])) {
                Some(view) => self.views.push(view),
                None => self.push_new_chars(chars, words, at),
            }
        }
    }

    #[cold]
    fn push_new_chars(&mut self, chars: &[u8], words: [u64; 3], at: usize) {
        self.push(until_nul(chars));
        let view = self.views.last().copied();
        self.recent.swap(at, at ^ 1);
        self.recent[at] = Recent { words, view };
    }

    /// Make room for more rows.
    pub fn reserve(&mut self, rows: usize) {
        self.views.reserve(rows);
    }

    /// Append rows without a value.
    pub fn push_nulls(&mut self, rows: usize) {
        self.views.resize(self.views.len() + rows, 0);
    }

    /// Return the Arrow array.
    #[must_use]
    pub fn finish(mut self, nulls: Option<NullBuffer>) -> ArrayRef {
        self.seal();
        Self::array(self.views, self.full, nulls)
    }

    fn seal(&mut self) {
        if !self.data.is_empty() {
            self.full
                .push(Buffer::from_vec(std::mem::take(&mut self.data)));
        }
    }

    /// Make a column of views made so far; the buffers must be sealed.
    #[expect(
        unsafe_code,
        reason = "checking each view again takes a quarter of the time of decoding, measured"
    )]
    fn array(views: Vec<u128>, full: Vec<Buffer>, nulls: Option<NullBuffer>) -> ArrayRef {
        let views = ScalarBuffer::from(views);
        // SAFETY: every view is zero (an empty text; so is that of `last` at first) or was made by
        // `view` from checked UTF-8, either inline or for bytes just appended to the buffer whose
        // number and offset it bears; buffers are never changed, removed or reordered after that.
        Arc::new(unsafe { StringViewArray::new_unchecked(views, full, nulls) })
    }
}

/// The origin of a row's event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    /// Trace, as index into [`crate::catalog::Catalog::members`].
    pub member: usize,
    /// CPU.
    pub cpu: Option<i32>,
}

/// The host and trace of rows as text.
#[derive(Debug)]
pub struct Labels {
    hosts: Given,
    traces: Given,
}

/// A text for each member.
#[derive(Debug)]
struct Given {
    texts: TextBuilder,
    /// If all members have the same text, a column of it, of which batches take slices.
    same: Option<ArrayRef>,
}

impl Labels {
    /// Take the host and trace of each member, for columns of mostly up to `longest` rows.
    pub fn new<'a>(members: impl Iterator<Item = (&'a str, &'a str)>, longest: usize) -> Self {
        let mut hosts = TextBuilder::default();
        let mut traces = TextBuilder::default();
        for (host, label) in members {
            hosts.push(host.as_bytes());
            traces.push(label.as_bytes());
        }
        Self {
            hosts: Given::new(hosts, longest),
            traces: Given::new(traces, longest),
        }
    }

    /// Return the column `host` of rows whose origins are at `places`.
    #[must_use]
    pub fn hosts(&self, places: &[u32], origins: &[Origin]) -> ArrayRef {
        self.hosts.column(places, origins)
    }

    /// Return the column `trace` of rows whose origins are at `places`.
    #[must_use]
    pub fn traces(&self, places: &[u32], origins: &[Origin]) -> ArrayRef {
        self.traces.column(places, origins)
    }
}

impl Given {
    fn new(mut texts: TextBuilder, longest: usize) -> Self {
        texts.seal();
        let first = texts.views.first().copied().unwrap_or(0);
        let same = texts
            .views
            .iter()
            .all(|view| *view == first)
            .then(|| TextBuilder::array(vec![first; longest], texts.full.clone(), None));
        Self { texts, same }
    }

    fn column(&self, places: &[u32], origins: &[Origin]) -> ArrayRef {
        if let Some(same) = &self.same
            && places.len() <= same.len()
        {
            return same.slice(0, places.len());
        }
        let of_origin: Vec<u128> = origins
            .iter()
            .map(|origin| self.texts.views[origin.member])
            .collect();
        let views = places.iter().map(|p| of_origin[*p as usize]).collect();
        TextBuilder::array(views, self.texts.full.clone(), None)
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::cast::AsArray;

    use super::*;

    /// Bytes that a producer left after the NUL are not part of a name; names alternate.
    #[test]
    fn characters_after_a_nul_do_not_count() {
        let names = ["swapper/1", "Xorg", "a name of 16 char", ""];
        let mut texts = TextBuilder::default();
        let mut expected = Vec::new();
        let mut state = 1_usize;
        for _ in 0..40 {
            let mut values = Vec::new();
            for _ in 0..50 {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                let name = names[(state >> 33) % names.len()];
                let mut chars = name.as_bytes().to_vec();
                chars.push(0);
                chars.resize(18, b'a' + u8::try_from((state >> 40) % 3).unwrap());
                values.push(chars);
                expected.push(Some(name));
            }
            texts.extend_chars(values.iter().map(Vec::as_slice));
            texts.push(b"Xorg");
            expected.push(Some("Xorg"));
        }
        let array = texts.finish(None);
        array.to_data().validate_full().unwrap();
        let found: Vec<_> = array.as_string_view().iter().collect();
        assert_eq!(found, expected);
    }
}
