//! Rows as they grow, and the columns that they end as.

use std::sync::Arc;

use arrow_array::types::UInt32Type;
use arrow_array::{
    ArrayRef, BooleanArray, DictionaryArray, Int32Array, Int64Array, RecordBatch, StringArray,
    UInt32Array,
};
use arrow_buffer::{NullBuffer, ScalarBuffer};

/// No row, and no number.
pub const NONE: u32 = u32::MAX;
/// No time, and no number.
pub const NEVER: i64 = i64::MIN;

/// The number of the next row; rows beyond 2^32 - 2 are none.
#[must_use]
pub fn next_row<T>(rows: &[T]) -> u32 {
    u32::try_from(rows.len()).unwrap_or(NONE)
}

/// A time, or none.
#[must_use]
pub const fn known(time: i64) -> Option<i64> {
    if time == NEVER { None } else { Some(time) }
}

fn nulls(known: impl Iterator<Item = bool>) -> Option<NullBuffer> {
    Some(known.collect::<NullBuffer>()).filter(|nulls| nulls.null_count() > 0)
}

/// Columns of one table, one after the other.
#[derive(Default)]
pub struct Columns(Vec<(&'static str, ArrayRef)>);

impl Columns {
    /// Times or numbers, null where `NEVER`.
    pub fn long(&mut self, name: &'static str, values: impl Iterator<Item = i64>) {
        let values: Vec<i64> = values.collect();
        let nulls = nulls(values.iter().map(|value| *value != NEVER));
        self.0
            .push((name, Arc::new(Int64Array::new(values.into(), nulls))));
    }

    /// Numbers of objects and rows, null where `NONE`.
    pub fn number(&mut self, name: &'static str, values: impl Iterator<Item = u32>) {
        self.long(
            name,
            values.map(|x| if x == NONE { NEVER } else { i64::from(x) }),
        );
    }

    /// Numbers of processes, null where `NONE`.
    pub fn process(&mut self, name: &'static str, values: impl Iterator<Item = u32>) {
        let values: ScalarBuffer<i32> = values.map(u32::cast_signed).collect();
        let nulls = nulls(values.iter().map(|value| *value != -1));
        self.0
            .push((name, Arc::new(Int32Array::new(values, nulls))));
    }

    /// Names, null where `NONE`.
    pub fn name(
        &mut self,
        name: &'static str,
        values: impl Iterator<Item = u32>,
        texts: &[String],
    ) {
        let values: ScalarBuffer<u32> = values.collect();
        let nulls = nulls(values.iter().map(|value| *value != NONE));
        // What is null has a number of its own all the same.
        let values = values
            .iter()
            .map(|value| if *value == NONE { 0 } else { *value })
            .collect();
        let texts = if texts.is_empty() {
            &[String::new()]
        } else {
            texts
        };
        let texts = StringArray::from_iter_values(texts);
        let keys = UInt32Array::new(values, nulls);
        if let Ok(array) = DictionaryArray::<UInt32Type>::try_new(keys, Arc::new(texts)) {
            self.0.push((name, Arc::new(array)));
        }
    }

    /// One of a few words, null beyond their number.
    pub fn word(&mut self, name: &'static str, values: impl Iterator<Item = u8>, words: &[&str]) {
        let texts: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        let number = |value: u8| {
            if usize::from(value) < words.len() {
                u32::from(value)
            } else {
                NONE
            }
        };
        self.name(name, values.map(number), &texts);
    }

    /// Truths.
    pub fn truth(&mut self, name: &'static str, values: impl Iterator<Item = Option<bool>>) {
        self.0
            .push((name, Arc::new(values.collect::<BooleanArray>())));
    }

    /// All of them; every column has one value per row.
    #[must_use]
    pub fn batch(self) -> Option<RecordBatch> {
        let columns = self.0.into_iter().map(|(name, array)| (name, array, true));
        RecordBatch::try_from_iter_with_nullable(columns).ok()
    }
}
