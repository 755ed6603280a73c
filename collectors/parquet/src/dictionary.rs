//! Values and their numbers in a dictionary.

use std::collections::HashMap;

use arrow_array::{Array, StringViewArray};

/// Values that a dictionary may have, whatever the number of rows.
const FEW: usize = 1 << 12;
/// Values that it may have at most; with those of one page more they count in 16 bits.
const MOST: usize = 1 << 14;
/// Bytes of text that it may have.
const MOST_BYTES: usize = 1 << 20;

/// The number is in the lowest bits, above them what tells it from an empty place.
const USED: u32 = 1 << 16;

/// Numbers that occur, by order of appearance.
#[derive(Debug, Default)]
pub struct Numbers {
    /// Open addressing; a power of two of places, at most half of them used.
    places: Vec<(u64, u32)>,
    /// By their number.
    pub values: Vec<u64>,
}

impl Numbers {
    /// The number of a value in the dictionary.
    #[inline]
    pub fn code(&mut self, value: u64) -> u16 {
        let mut at = place(value, self.places.len());
        while let Some((known, code)) = self.places.get(at) {
            if *code == 0 {
                break;
            }
            if *known == value {
                #[expect(clippy::cast_possible_truncation, reason = "without the mark")]
                return *code as u16;
            }
            at = (at + 1) & (self.places.len() - 1);
        }
        self.add(value)
    }

    #[cold]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "fewer than 2^16, see `MOST`"
    )]
    fn add(&mut self, value: u64) -> u16 {
        self.values.push(value);
        if self.values.len() * 2 > self.places.len() {
            self.places = vec![(0, 0); (self.places.len() * 2).max(16)];
            for (code, value) in self.values.iter().enumerate() {
                put(&mut self.places, *value, code as u32);
            }
        } else {
            put(&mut self.places, value, self.values.len() as u32 - 1);
        }
        (self.values.len() - 1) as u16
    }

    /// Whether it still pays, after so many rows.
    pub fn pays(&self, rows: usize) -> bool {
        few(self.values.len(), rows)
    }
}

fn few(values: usize, rows: usize) -> bool {
    values <= (rows / 4).clamp(FEW, MOST)
}

fn put(places: &mut [(u64, u32)], value: u64, code: u32) {
    let mut at = place(value, places.len());
    while places[at].1 != 0 {
        at = (at + 1) & (places.len() - 1);
    }
    places[at] = (value, code | USED);
}

/// Where a value is looked for first, of a power of two of places.
#[inline]
fn place(value: u64, places: usize) -> usize {
    let hash = (value ^ value >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (hash >> 32) as usize & places.wrapping_sub(1)
}

/// Views remembered within one array.
const RECENT: usize = 64;

/// Texts that occur, by order of appearance.
#[derive(Debug, Default)]
pub struct Texts {
    codes: HashMap<Box<str>, u16>,
    /// The values as the dictionary's page has them.
    pub page: Vec<u8>,
    /// Views of the array at hand, by their hash.
    recent: Vec<(u128, u32)>,
    /// Numbers of the keys of the array at hand.
    recoded: Vec<u32>,
}

impl Texts {
    /// Number of values.
    pub fn len(&self) -> usize {
        self.codes.len()
    }

    /// Whether it still pays, after so many rows.
    pub fn pays(&self, rows: usize) -> bool {
        few(self.codes.len(), rows) && self.page.len() <= MOST_BYTES
    }

    /// The numbers of the values at the rows of an array.
    pub fn codes(
        &mut self,
        array: &StringViewArray,
        rows: impl Iterator<Item = usize>,
        out: &mut Vec<u16>,
    ) {
        // Views count from the buffers of their own array.
        self.recent.clear();
        self.recent.resize(RECENT, (0, 0));
        let views = array.views();
        out.extend(rows.map(|row| {
            let view = views[row];
            let hash = view ^ view >> 64;
            #[expect(clippy::cast_possible_truncation, reason = "the lower half")]
            let at = place(hash as u64, RECENT);
            match self.recent[at] {
                #[expect(clippy::cast_possible_truncation, reason = "without the mark")]
                (known, code) if known == view && code != 0 => code as u16,
                _ => {
                    let code = self.code(array.value(row));
                    self.recent[at] = (view, u32::from(code) | USED);
                    code
                }
            }
        }));
    }

    /// The numbers of texts that another dictionary gives numbers to.
    pub fn recode(
        &mut self,
        texts: &StringViewArray,
        keys: impl Iterator<Item = usize>,
        out: &mut Vec<u16>,
    ) {
        // 0 where a key has not come yet.
        self.recoded.clear();
        self.recoded.resize(texts.len(), 0);
        out.extend(keys.map(|key| {
            if self.recoded[key] == 0 {
                self.recoded[key] = u32::from(self.code(texts.value(key))) | USED;
            }
            #[expect(clippy::cast_possible_truncation, reason = "without the mark")]
            let code = self.recoded[key] as u16;
            code
        }));
    }

    fn code(&mut self, text: &str) -> u16 {
        if let Some(code) = self.codes.get(text) {
            return *code;
        }
        #[expect(
            clippy::cast_possible_truncation,
            reason = "fewer than 2^16, see `MOST`"
        )]
        let code = self.codes.len() as u16;
        self.codes.insert(text.into(), code);
        plain_text(text, &mut self.page);
        code
    }

    /// All values, by their number.
    pub fn values(&self) -> Vec<&str> {
        let mut values = vec![""; self.codes.len()];
        for (text, code) in &self.codes {
            values[usize::from(*code)] = text;
        }
        values
    }
}

/// Append a text as Parquet has it where it is not encoded.
#[expect(
    clippy::cast_possible_truncation,
    reason = "Arrow's views count in 31 bits"
)]
pub fn plain_text(text: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(&(text.len() as u32).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

/// Whether a text array's values are all the same, as far as its views tell.
pub fn same_views(array: &StringViewArray) -> bool {
    let views = array.views();
    array.null_count() == 0 && views.iter().all(|view| *view == views[0])
}
