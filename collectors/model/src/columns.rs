//! Make columns of tables from values of rows.

use std::sync::Arc;

use arrow_array::types::UInt32Type;
use arrow_array::{
    Array, ArrayRef, BooleanArray, DictionaryArray, Int32Array, Int64Array, RecordBatch,
    StringArray,
};
use arrow_schema::ArrowError;

use crate::identity::{Host, NOTHING};
use crate::ids::{Id, Maybe};
use crate::registry::Name;
use crate::rows::known;

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

    /// Add a column, which is only made if it is wanted.
    fn add<A: Array + 'static>(&mut self, name: &'static str, make: impl FnOnce() -> A) {
        let is_named = |wanted: &[String]| wanted.iter().any(|wanted| wanted == name);
        if self.wanted.is_none_or(is_named) {
            self.arrays.push((name, Arc::new(make())));
        }
    }

    /// Add a column of times or numbers, null where `NEVER`.
    pub fn int64(&mut self, name: &'static str, values: impl Iterator<Item = i64>) {
        self.add(name, || values.map(known).collect::<Int64Array>());
    }

    /// Add a column of numbers of objects or rows.
    pub fn id<T, I: Into<Maybe<T>>>(
        &mut self,
        name: &'static str,
        values: impl Iterator<Item = I>,
    ) {
        let number = |id: I| id.into().map(|id| i64::from(id.number()));
        self.add(name, || values.map(number).collect::<Int64Array>());
    }

    /// Add a column of numbers of processes or threads, null where -1.
    pub fn int32(&mut self, name: &'static str, values: impl Iterator<Item = i32>) {
        let known = |value| (value != NOTHING).then_some(value);
        self.add(name, || values.map(known).collect::<Int32Array>());
    }

    /// Add a column of booleans.
    pub fn boolean(&mut self, name: &'static str, values: impl Iterator<Item = Option<bool>>) {
        self.add(name, || values.collect::<BooleanArray>());
    }

    /// Add a column of names.
    pub fn name(&mut self, name: &'static str, values: impl Iterator<Item = Maybe<Name>>) {
        self.text(name, values.map(|id| id.map(Id::number)), &self.texts.names);
    }

    /// Add a column of labels of hosts.
    pub fn host(&mut self, name: &'static str, values: impl Iterator<Item = Maybe<Host>>) {
        self.text(name, values.map(|id| id.map(Id::number)), &self.texts.hosts);
    }

    /// Add a column of words by index, null for an index beyond the last word.
    pub fn category(
        &mut self,
        name: &'static str,
        values: impl Iterator<Item = u8>,
        words: &[&str],
    ) {
        let texts = Arc::new(StringArray::from_iter_values(words));
        self.text(name, values.map(|value| Some(value.into())), &texts);
    }

    fn text(
        &mut self,
        name: &'static str,
        values: impl Iterator<Item = Option<u32>>,
        texts: &Arc<StringArray>,
    ) {
        let known = |number: &u32| (*number as usize) < texts.len();
        let keys = values.map(|number| number.filter(known));
        self.add(name, || {
            DictionaryArray::<UInt32Type>::new(keys.collect(), Arc::clone(texts) as ArrayRef)
        });
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
