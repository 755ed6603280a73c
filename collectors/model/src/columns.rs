//! Make columns of tables from values of rows.

use std::sync::Arc;

use arrow_array::types::{ArrowPrimitiveType, Int32Type, Int64Type, UInt32Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, DictionaryArray, PrimitiveArray, RecordBatch, StringArray,
    UInt32Array,
};
use arrow_buffer::NullBuffer;
use arrow_schema::ArrowError;

use crate::identity::{Host, NOTHING};
use crate::ids::{Maybe, last};
use crate::registry::Name;
use crate::rows::NEVER;

fn nulls<T: PartialEq + Copy>(values: &[T], nothing: T) -> Option<NullBuffer> {
    // Most columns have none.
    if !values.contains(&nothing) {
        return None;
    }
    Some(values.iter().map(|value| *value != nothing).collect())
}

/// The number that stands for no text.
const NO_TEXT: u32 = u32::MAX;

/// The texts to which columns refer by number.
#[derive(Clone)]
pub struct Texts {
    /// Names of topics, nodes, ...
    pub names: Arc<StringArray>,
    /// Labels of hosts.
    pub hosts: Arc<StringArray>,
}

/// The wanted columns of one table.
pub struct Columns<'a> {
    texts: &'a Texts,
    wanted: Option<&'a [String]>,
    arrays: Vec<(&'static str, ArrayRef)>,
}

/// Add columns, each given by its kind, its name and the expression of its value in a row.
macro_rules! columns {
    ($columns:ident, $rows:expr, |$row:pat_param| $($kind:ident $name:literal $value:expr;)*) => {
        $(#[allow(unused_variables, reason = "no column needs all of a row")]
        { $columns.$kind($name, $rows.iter().map(|$row| $value)); })*
    };
}
pub(crate) use columns;

impl<'a> Columns<'a> {
    /// Start without columns; those with the wanted names are kept, or all if no names are given.
    pub const fn new(texts: &'a Texts, wanted: Option<&'a [String]>) -> Self {
        Self {
            texts,
            wanted,
            arrays: Vec::new(),
        }
    }

    fn wants(&self, name: &str) -> bool {
        self.wanted
            .is_none_or(|wanted| wanted.iter().any(|wanted| wanted == name))
    }

    /// Add a column of times or numbers, null where `NEVER`.
    pub fn int64(&mut self, name: &'static str, values: impl Iterator<Item = i64>) {
        self.numbers::<Int64Type>(name, values, NEVER);
    }

    /// Add a column of numbers of objects or rows.
    pub fn id<T, I: Into<Maybe<T>>>(
        &mut self,
        name: &'static str,
        values: impl Iterator<Item = I>,
    ) {
        let number = |id: I| id.into().map_or(NEVER, |id| i64::from(id.number()));
        let numbers = values.map(number);
        self.int64(name, numbers);
    }

    /// Add a column of numbers of processes or threads, null where -1.
    pub fn int32(&mut self, name: &'static str, values: impl Iterator<Item = i32>) {
        self.numbers::<Int32Type>(name, values, NOTHING);
    }

    fn numbers<T: ArrowPrimitiveType>(
        &mut self,
        name: &'static str,
        values: impl Iterator<Item = T::Native>,
        nothing: T::Native,
    ) {
        if self.wants(name) {
            let values: Vec<T::Native> = values.collect();
            let nulls = nulls(&values, nothing);
            let values = PrimitiveArray::<T>::new(values.into(), nulls);
            self.arrays.push((name, Arc::new(values)));
        }
    }

    /// Add a column of names.
    pub fn name(&mut self, name: &'static str, values: impl Iterator<Item = Maybe<Name>>) {
        let texts = Arc::clone(&self.texts.names);
        self.text(name, values.map(last), texts);
    }

    /// Add a column of labels of hosts.
    pub fn host(&mut self, name: &'static str, values: impl Iterator<Item = Maybe<Host>>) {
        let texts = Arc::clone(&self.texts.hosts);
        self.text(name, values.map(last), texts);
    }

    /// Add a column of words by index, null for an index beyond the last word.
    pub fn category(
        &mut self,
        name: &'static str,
        values: impl Iterator<Item = u8>,
        words: &[&str],
    ) {
        let texts = Arc::new(StringArray::from_iter_values(words));
        self.text(name, values.map(u32::from), texts);
    }

    fn text(
        &mut self,
        name: &'static str,
        values: impl Iterator<Item = u32>,
        texts: Arc<StringArray>,
    ) {
        if !self.wants(name) {
            return;
        }
        let count = u32::try_from(texts.len()).unwrap_or(NO_TEXT);
        let number = |value| if value < count { value } else { NO_TEXT };
        let mut values: Vec<u32> = values.map(number).collect();
        let nulls = nulls(&values, NO_TEXT);
        if nulls.is_some() {
            // Keys under a null must be valid indices, too.
            for value in values.iter_mut().filter(|value| **value == NO_TEXT) {
                *value = 0;
            }
        }
        let texts = if count == 0 {
            Arc::new(StringArray::from_iter_values([""]))
        } else {
            texts
        };
        let keys = UInt32Array::new(values.into(), nulls);
        if let Ok(array) = DictionaryArray::<UInt32Type>::try_new(keys, texts) {
            self.arrays.push((name, Arc::new(array)));
        }
    }

    /// Add a column of booleans.
    pub fn boolean(&mut self, name: &'static str, values: impl Iterator<Item = Option<bool>>) {
        if self.wants(name) {
            let values: BooleanArray = values.collect();
            self.arrays.push((name, Arc::new(values)));
        }
    }

    /// Return the wanted columns in the wanted order; every column has one value per row.
    ///
    /// # Errors
    ///
    /// There is no column of a wanted name.
    pub fn batch(self) -> Result<RecordBatch, ArrowError> {
        let Some(wanted) = self.wanted else {
            let columns = self.arrays.into_iter();
            let columns = columns.map(|(name, array)| (name, array, true));
            return RecordBatch::try_from_iter_with_nullable(columns);
        };
        let columns = wanted.iter().map(|name| {
            let mut arrays = self.arrays.iter();
            let array = arrays.find(|(column, _)| column == name);
            let missing = || ArrowError::SchemaError(format!("no column {name}"));
            let (_, array) = array.ok_or_else(missing)?;
            Ok((name, Arc::clone(array), true))
        });
        let columns: Vec<_> = columns.collect::<Result<_, ArrowError>>()?;
        RecordBatch::try_from_iter_with_nullable(columns)
    }
}
