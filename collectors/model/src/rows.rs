//! Rows by number, of which the older ones may lie on the disk, and the columns that they end as.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::fs::File;
use std::io::Error;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::types::UInt32Type;
use arrow_array::{
    Array, ArrayRef, BooleanArray, DictionaryArray, Int32Array, Int64Array, RecordBatch,
    StringViewArray, UInt32Array,
};
use arrow_buffer::NullBuffer;
use arrow_schema::ArrowError;

/// No row, and no number.
pub const NONE: u32 = u32::MAX;
/// No time, and no number.
pub const NEVER: i64 = i64::MIN;

/// Rows of a page.
const PAGE: usize = 1 << SHIFT;
const SHIFT: u32 = 9;
/// Pages of one kind that were read again and stay for the next one who asks.
const AGAIN: usize = 8;

/// A time, or none.
#[must_use]
pub const fn known(time: i64) -> Option<i64> {
    if time == NEVER { None } else { Some(time) }
}

/// Set a flag of an object.
pub fn flag(flags: &mut Vec<bool>, of: u32) {
    let place = of as usize;
    if flags.len() <= place {
        flags.resize(place + 1, false);
    }
    flags[place] = true;
}

/// What has the same number of bytes whatever its value.
pub trait Plain: Copy {
    /// Append the bytes.
    fn put(&self, to: &mut Vec<u8>);
    /// Read them, from the front; `None` where there are too few.
    fn got(from: &mut &[u8]) -> Option<Self>;
}

macro_rules! numbers {
    ($($kind:ty),*) => {$(
        impl Plain for $kind {
            fn put(&self, to: &mut Vec<u8>) {
                to.extend_from_slice(&self.to_le_bytes());
            }
            fn got(from: &mut &[u8]) -> Option<Self> {
                let (bytes, rest) = from.split_first_chunk()?;
                *from = rest;
                Some(Self::from_le_bytes(*bytes))
            }
        }
    )*};
}

numbers!(u8, u32, u64, i64);

impl Plain for bool {
    fn put(&self, to: &mut Vec<u8>) {
        to.push(u8::from(*self));
    }
    fn got(from: &mut &[u8]) -> Option<Self> {
        Some(u8::got(from)? != 0)
    }
}

impl<T: Plain + Default, const N: usize> Plain for [T; N] {
    fn put(&self, to: &mut Vec<u8>) {
        for one in self {
            one.put(to);
        }
    }
    fn got(from: &mut &[u8]) -> Option<Self> {
        let mut found = [T::default(); N];
        for one in &mut found {
            *one = T::got(from)?;
        }
        Some(found)
    }
}

impl<T: Plain + Default> Plain for Option<T> {
    fn put(&self, to: &mut Vec<u8>) {
        self.is_some().put(to);
        self.unwrap_or_default().put(to);
    }
    fn got(from: &mut &[u8]) -> Option<Self> {
        let (some, value) = (bool::got(from)?, T::got(from)?);
        Some(some.then_some(value))
    }
}

/// A structure of plain fields is plain, and so is one of a few words.
macro_rules! plain {
    (enum $name:ident [$($word:ident),*]) => {
        impl $crate::rows::Plain for $name {
            fn put(&self, to: &mut Vec<u8>) {
                to.push(*self as u8);
            }
            fn got(from: &mut &[u8]) -> Option<Self> {
                let all = [$(Self::$word),*];
                all.get(usize::from(<u8 as $crate::rows::Plain>::got(from)?)).copied()
            }
        }
    };
    ($name:ident { $($field:ident),* }) => {
        impl $crate::rows::Plain for $name {
            fn put(&self, to: &mut Vec<u8>) {
                $($crate::rows::Plain::put(&self.$field, to);)*
            }
            fn got(from: &mut &[u8]) -> Option<Self> {
                Some(Self { $($field: $crate::rows::Plain::got(from)?,)* })
            }
        }
    };
}
pub(crate) use plain;

/// A file for what does not fit into memory.
pub struct Disk {
    file: File,
    end: Mutex<u64>,
    failure: Mutex<Option<Error>>,
    /// Pages of each kind of rows that stay in memory.
    pages: usize,
}

impl Disk {
    /// In this file, from its begin on; of each kind about so many rows stay in memory.
    #[must_use]
    pub fn new(file: File, rows: usize) -> Self {
        Self {
            file,
            end: Mutex::default(),
            failure: Mutex::new(None),
            pages: (rows >> SHIFT).max(2),
        }
    }

    /// What went wrong first, if anything did: then rows are missing.
    pub fn failure(&self) -> Option<Error> {
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure
            .as_ref()
            .map(|error| Error::new(error.kind(), error.to_string()))
    }

    fn done<T>(&self, result: Result<T, Error>) -> Option<T> {
        result
            .map_err(|error| {
                let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
                failure.get_or_insert(error);
            })
            .ok()
    }

    fn write(&self, bytes: &[u8]) -> Option<u64> {
        let mut end = self.end.lock().unwrap_or_else(PoisonError::into_inner);
        let place = *end;
        *end += bytes.len() as u64;
        let written = self.file.write_all_at(bytes, place);
        self.done(written).map(|()| place)
    }

    fn read(&self, place: u64, size: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; size];
        let read = self.file.read_exact_at(&mut bytes, place);
        self.done(read).map(|()| bytes)
    }
}

/// Some rows in a row: in memory, or, if there are none, where they lie on the disk.
#[derive(Clone)]
struct Page<T> {
    rows: Vec<T>,
    written: (u64, usize),
}

/// Rows of one kind by number.
#[derive(Clone)]
pub struct Rows<T> {
    pages: Vec<Page<T>>,
    count: u32,
    disk: Option<Arc<Disk>>,
    /// Pages in memory, those that came first in front.
    there: VecDeque<usize>,
    again: RefCell<VecDeque<(usize, Vec<T>)>>,
}

impl<T> Default for Rows<T> {
    fn default() -> Self {
        Self {
            pages: Vec::new(),
            count: 0,
            disk: None,
            there: VecDeque::new(),
            again: RefCell::default(),
        }
    }
}

impl<T: Plain> Rows<T> {
    /// None yet; they stay in memory where there is no disk.
    #[must_use]
    pub fn on(disk: Option<&Arc<Disk>>) -> Self {
        Self {
            disk: disk.cloned(),
            ..Self::default()
        }
    }

    /// None, in the same place.
    #[must_use]
    pub fn nothing(&self) -> Self {
        Self::on(self.disk.as_ref())
    }

    /// How many there are.
    #[must_use]
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// Append one; returns its number. Rows beyond 2^32 - 2 are none.
    pub fn push(&mut self, row: T) -> u32 {
        let number = self.count;
        if number == NONE {
            return NONE;
        }
        let place = number as usize >> SHIFT;
        if place == self.pages.len() {
            self.pages.push(Page {
                rows: Vec::with_capacity(PAGE),
                written: (0, 0),
            });
            self.entered(place);
        } else if self.pages[place].rows.is_empty() {
            self.load(place);
        }
        self.pages[place].rows.push(row);
        self.count += 1;
        number
    }

    /// A row.
    #[must_use]
    pub fn get(&self, number: u32) -> Option<T> {
        let place = number as usize >> SHIFT;
        let page = self.pages.get(place)?;
        match page.rows.get(number as usize % PAGE) {
            Some(row) => Some(*row),
            None if page.rows.is_empty() => self.fetched(place, number as usize % PAGE),
            None => None,
        }
    }

    /// A row, to be changed.
    pub fn edit(&mut self, number: u32) -> Option<&mut T> {
        let place = number as usize >> SHIFT;
        if self.pages.get(place)?.rows.is_empty() {
            self.load(place);
        }
        self.pages[place].rows.get_mut(number as usize % PAGE)
    }

    /// All of them, with their numbers; of those on the disk a page at once.
    pub fn iter(&self) -> impl Iterator<Item = (u32, T)> {
        self.from(0)
    }

    /// The same from a row on.
    pub fn from(&self, first: u32) -> impl Iterator<Item = (u32, T)> {
        let mut page = Cow::Borrowed(&[][..]);
        (first..self.count).map_while(move |number| {
            let row = number as usize % PAGE;
            if row == 0 || number == first {
                let next = self.pages.get(number as usize >> SHIFT)?;
                page = match next.rows.as_slice() {
                    [] => Cow::Owned(self.read(next)?),
                    rows => Cow::Borrowed(rows),
                };
            }
            Some((number, *page.get(row)?))
        })
    }

    fn read(&self, page: &Page<T>) -> Option<Vec<T>> {
        let bytes = self.disk.as_ref()?.read(page.written.0, page.written.1)?;
        let mut from = bytes.as_slice();
        let mut rows = Vec::with_capacity(PAGE);
        while let Some(row) = T::got(&mut from) {
            rows.push(row);
        }
        Some(rows)
    }

    /// A row of a page that stays on the disk.
    #[cold]
    fn fetched(&self, place: usize, row: usize) -> Option<T> {
        let mut again = self.again.borrow_mut();
        if let Some((_, rows)) = again.iter().find(|(of, _)| *of == place) {
            return rows.get(row).copied();
        }
        let rows = self.read(&self.pages[place])?;
        let found = rows.get(row).copied();
        if again.len() == AGAIN {
            again.pop_front();
        }
        again.push_back((place, rows));
        found
    }

    #[cold]
    fn load(&mut self, place: usize) {
        if let Some(rows) = self.read(&self.pages[place]) {
            self.pages[place].rows = rows;
            self.again.borrow_mut().retain(|(of, _)| *of != place);
            self.entered(place);
        }
    }

    /// A page came into memory: let the one go that has been there for longest.
    fn entered(&mut self, place: usize) {
        self.there.push_back(place);
        let Some(disk) = &self.disk else {
            return;
        };
        if self.there.len() <= disk.pages {
            return;
        }
        let Some(first) = self.there.pop_front() else {
            return;
        };
        let page = &mut self.pages[first];
        let mut bytes = Vec::with_capacity(page.rows.len() * size_of::<T>());
        for row in &page.rows {
            row.put(&mut bytes);
        }
        match disk.write(&bytes) {
            // Appended, never changed: a copy of these rows may lie there still.
            Some(written) => (page.rows, page.written) = (Vec::new(), (written, bytes.len())),
            None => self.there.push_back(first),
        }
    }
}

fn nulls<T: PartialEq + Copy>(values: &[T], nothing: T) -> Option<NullBuffer> {
    // Most columns have none.
    if !values.contains(&nothing) {
        return None;
    }
    Some(values.iter().map(|value| *value != nothing).collect())
}

/// Texts that columns hold by number.
#[derive(Clone)]
pub struct Texts {
    /// Names of topics, nodes, ...
    pub names: Arc<StringViewArray>,
    /// Labels of hosts.
    pub hosts: Arc<StringViewArray>,
}

/// Columns of one table, as far as they are wanted.
pub struct Columns<'a> {
    texts: &'a Texts,
    wanted: Option<&'a [String]>,
    found: Vec<(&'static str, ArrayRef)>,
}

/// Columns of rows, each given by its kind, its name and its value of a row.
macro_rules! columns {
    ($columns:ident, $rows:expr, |$row:pat_param| $($kind:ident $name:literal $value:expr;)*) => {
        $(#[allow(unused_variables, reason = "no column needs all of a row")]
        { $columns.$kind($name, $rows.iter().map(|$row| $value)); })*
    };
}
pub(crate) use columns;

impl<'a> Columns<'a> {
    /// None yet, of those with these names; of all there are where none are given.
    #[must_use]
    pub const fn new(texts: &'a Texts, wanted: Option<&'a [String]>) -> Self {
        Self {
            texts,
            wanted,
            found: Vec::new(),
        }
    }

    fn wants(&self, name: &str) -> bool {
        self.wanted
            .is_none_or(|wanted| wanted.iter().any(|wanted| wanted == name))
    }

    fn add(&mut self, name: &'static str, array: ArrayRef) {
        self.found.push((name, array));
    }

    /// Times or numbers, null where `NEVER`.
    pub fn long(&mut self, name: &'static str, values: impl Iterator<Item = i64>) {
        if !self.wants(name) {
            return;
        }
        let values: Vec<i64> = values.collect();
        let nulls = nulls(&values, NEVER);
        self.add(name, Arc::new(Int64Array::new(values.into(), nulls)));
    }

    /// Numbers of objects and rows, null where `NONE`.
    pub fn number(&mut self, name: &'static str, values: impl Iterator<Item = u32>) {
        self.long(
            name,
            values.map(|x| if x == NONE { NEVER } else { i64::from(x) }),
        );
    }

    /// Numbers of processes and threads, null where -1.
    pub fn int(&mut self, name: &'static str, values: impl Iterator<Item = i32>) {
        if !self.wants(name) {
            return;
        }
        let values: Vec<i32> = values.collect();
        let nulls = nulls(&values, -1);
        self.add(name, Arc::new(Int32Array::new(values.into(), nulls)));
    }

    /// Names, null where there is none of that number.
    pub fn name(&mut self, name: &'static str, values: impl Iterator<Item = u32>) {
        let texts = Arc::clone(&self.texts.names);
        self.text(name, values, texts);
    }

    /// Labels of hosts, likewise.
    pub fn host(&mut self, name: &'static str, values: impl Iterator<Item = u32>) {
        let texts = Arc::clone(&self.texts.hosts);
        self.text(name, values, texts);
    }

    /// One of a few words, null beyond their number.
    pub fn word(&mut self, name: &'static str, values: impl Iterator<Item = u8>, words: &[&str]) {
        let texts = Arc::new(StringViewArray::from_iter_values(words));
        self.text(name, values.map(u32::from), texts);
    }

    fn text(
        &mut self,
        name: &'static str,
        values: impl Iterator<Item = u32>,
        texts: Arc<StringViewArray>,
    ) {
        if !self.wants(name) {
            return;
        }
        let there = u32::try_from(texts.len()).unwrap_or(NONE);
        let mut values: Vec<u32> = values
            .map(|value| if value < there { value } else { NONE })
            .collect();
        let nulls = nulls(&values, NONE);
        if nulls.is_some() {
            // What is null has a number of its own all the same.
            for value in values.iter_mut().filter(|value| **value == NONE) {
                *value = 0;
            }
        }
        let texts = if there == 0 {
            Arc::new(StringViewArray::from_iter_values([""]))
        } else {
            texts
        };
        let keys = UInt32Array::new(values.into(), nulls);
        if let Ok(array) = DictionaryArray::<UInt32Type>::try_new(keys, texts) {
            self.add(name, Arc::new(array));
        }
    }

    /// Truths.
    pub fn truth(&mut self, name: &'static str, values: impl Iterator<Item = Option<bool>>) {
        if self.wants(name) {
            self.add(name, Arc::new(values.collect::<BooleanArray>()));
        }
    }

    /// All that are wanted, in the order in which they are; every column has one value per row.
    ///
    /// # Errors
    ///
    /// There is none of a name.
    pub fn batch(self) -> Result<RecordBatch, ArrowError> {
        let Some(wanted) = self.wanted else {
            let columns = self.found.into_iter();
            let columns = columns.map(|(name, array)| (name, array, true));
            return RecordBatch::try_from_iter_with_nullable(columns);
        };
        let columns = wanted.iter().map(|name| {
            let mut found = self.found.iter();
            let found = found.find(|(of, _)| of == name);
            let missing = || ArrowError::SchemaError(format!("no column {name}"));
            let (_, array) = found.ok_or_else(missing)?;
            Ok((name, Arc::clone(array), true))
        });
        let columns: Vec<_> = columns.collect::<Result<_, ArrowError>>()?;
        RecordBatch::try_from_iter_with_nullable(columns)
    }
}
