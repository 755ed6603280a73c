//! Store rows by number; pages that were not used for long may be on the disk.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::fs::File;
use std::io::Error;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::ids::{Id, Maybe};

/// The value for "no time". It is less than any time, so `<` holds for it.
pub const NEVER: i64 = i64::MIN;

/// The number of rows in a page.
const PAGE: usize = 1 << SHIFT;
const SHIFT: u32 = 9;
/// The number of pages of one kind that stay in memory after they were read for a look-up.
const AGAIN: usize = 8;

/// Return a time, or `None` for `NEVER`.
pub const fn known(time: i64) -> Option<i64> {
    if time == NEVER { None } else { Some(time) }
}

/// A file for rows that do not fit into memory.
pub struct Disk {
    file: File,
    end: Mutex<u64>,
    failure: Mutex<Option<Error>>,
    /// The number of pages of each kind of rows that stay in memory.
    pages: usize,
}

impl Disk {
    /// Use this file from its beginning on; about `rows` rows of each kind stay in memory.
    #[must_use]
    pub fn new(file: File, rows: usize) -> Self {
        Self {
            file,
            end: Mutex::default(),
            failure: Mutex::new(None),
            pages: (rows >> SHIFT).max(2),
        }
    }

    /// Return the first error, if there was one: then rows are missing.
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

    /// Append rows; return their place and size.
    fn write(&self, rows: &[impl Serialize]) -> Option<(u64, usize)> {
        let bytes = self.done(postcard::to_stdvec(rows).map_err(Error::other))?;
        let mut end = self.end.lock().unwrap_or_else(PoisonError::into_inner);
        let place = *end;
        *end += bytes.len() as u64;
        let written = self.file.write_all_at(&bytes, place);
        self.done(written).map(|()| (place, bytes.len()))
    }

    fn read<T: DeserializeOwned>(&self, (place, size): (u64, usize)) -> Option<Vec<T>> {
        let mut bytes = vec![0; size];
        self.done(self.file.read_exact_at(&mut bytes, place))?;
        self.done(postcard::from_bytes(&bytes).map_err(Error::other))
    }
}

/// Consecutive rows: in memory or, if `rows` is empty, at the written place and size on the disk.
#[derive(Clone)]
struct Page<T> {
    rows: Vec<T>,
    written: (u64, usize),
}

/// Rows of one kind by number.
#[derive(Clone)]
pub struct Rows<T> {
    pages: VecDeque<Page<T>>,
    /// The number of earlier pages, which are forgotten.
    forgotten: usize,
    /// Rows of forgotten pages that are kept, by number.
    kept: Vec<(Id<T>, T)>,
    count: u32,
    disk: Option<Arc<Disk>>,
    /// The pages in memory in the order in which they came there, if there is a disk.
    resident: VecDeque<usize>,
    again: RefCell<VecDeque<(usize, Vec<T>)>>,
}

impl<T> Default for Rows<T> {
    fn default() -> Self {
        Self {
            pages: VecDeque::new(),
            forgotten: 0,
            kept: Vec::new(),
            count: 0,
            disk: None,
            resident: VecDeque::new(),
            again: RefCell::default(),
        }
    }
}

impl<T: Copy + Serialize + DeserializeOwned> Rows<T> {
    /// Start without rows; without a disk, all rows stay in memory.
    pub fn on(disk: Option<&Arc<Disk>>) -> Self {
        Self {
            disk: disk.cloned(),
            ..Self::default()
        }
    }

    /// Forget full pages of old rows at the front; numbers stay the same. Not for use with a disk.
    pub fn forget(&mut self, is_old: impl Fn(&T) -> bool) {
        self.forget_except(is_old, |_, _| false);
    }

    /// Forget full pages of old rows at the front, but keep the rows that still live.
    pub fn forget_except(
        &mut self,
        is_old: impl Fn(&T) -> bool,
        lives: impl Fn(Id<T>, &T) -> bool,
    ) {
        self.kept.retain(|(number, row)| lives(*number, row));
        let old =
            |page: &&Page<T>| page.rows.len() == PAGE && page.rows.last().is_some_and(&is_old);
        while let Some(page) = self.pages.front().filter(old) {
            let numbers = (self.first()..).filter_map(Id::new);
            let rows = numbers.zip(page.rows.iter().copied());
            self.kept
                .extend(rows.filter(|(number, row)| lives(*number, row)));
            self.pages.pop_front();
            self.forgotten += 1;
        }
    }

    /// Return the number of the first row of the pages that are not forgotten.
    pub fn first(&self) -> u32 {
        u32::try_from(self.forgotten << SHIFT).unwrap_or(u32::MAX)
    }

    /// Return the number of rows, including forgotten ones.
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// Iterate over the numbers of all rows of pages that are not forgotten.
    pub fn ids(&self) -> impl Iterator<Item = Id<T>> + use<T> {
        (self.first()..self.count).filter_map(Id::new)
    }

    /// Return a range of rows with their numbers, counted from the first one that is there.
    pub fn part(&self, range: Range<u32>) -> Vec<(Id<T>, T)> {
        let (begin, kept) = (range.start as usize, self.kept.len());
        let of_kept = self.kept.iter().skip(begin).copied();
        let page_rows = u32::try_from(begin.saturating_sub(kept)).unwrap_or(u32::MAX);
        let of_pages = self.from(self.first().saturating_add(page_rows));
        of_kept.chain(of_pages).take(range.len()).collect()
    }

    /// Return the number that the next row will get.
    pub fn next(&self) -> Maybe<T> {
        Id::new(self.count)
    }

    /// Append a row; return its number. Rows beyond 2^32 - 1 are dropped.
    pub fn push(&mut self, row: T) -> Maybe<T> {
        let number = self.next()?;
        let place = self.place(number)?;
        if place == self.pages.len() {
            self.pages.push_back(Page {
                rows: Vec::with_capacity(PAGE),
                written: (0, 0),
            });
            self.entered(place);
        } else if self.pages[place].rows.is_empty() {
            self.load(place);
        }
        self.pages[place].rows.push(row);
        self.count += 1;
        Some(number)
    }

    /// Return a row, if there is one of that number.
    pub fn get(&self, number: impl Into<Maybe<T>>) -> Option<T> {
        let number = number.into()?;
        let Some(place) = self.place(number) else {
            return Some(self.kept[self.kept_at(number)?].1);
        };
        let (page, row) = (self.pages.get(place)?, number.place() % PAGE);
        match page.rows.get(row) {
            Some(row) => Some(*row),
            None if page.rows.is_empty() => self.fetched(place, row),
            None => None,
        }
    }

    /// Return a row to be changed, if there is one of that number.
    pub fn edit(&mut self, number: impl Into<Maybe<T>>) -> Option<&mut T> {
        let number = number.into()?;
        let Some(place) = self.place(number) else {
            let kept = self.kept_at(number)?;
            return Some(&mut self.kept[kept].1);
        };
        if self.pages.get(place)?.rows.is_empty() {
            self.load(place);
        }
        self.pages[place].rows.get_mut(number.place() % PAGE)
    }

    /// Return the index of a row of a forgotten page among those that are kept.
    fn kept_at(&self, number: Id<T>) -> Option<usize> {
        let found = self.kept.binary_search_by_key(&number, |(kept, _)| *kept);
        found.ok()
    }

    /// Return the index of a row's page, if it is not forgotten.
    fn place(&self, number: Id<T>) -> Option<usize> {
        (number.place() >> SHIFT).checked_sub(self.forgotten)
    }

    /// Iterate over all rows with their numbers; rows on the disk are read a page at a time.
    pub fn iter(&self) -> impl Iterator<Item = (Id<T>, T)> {
        self.kept.iter().copied().chain(self.from(0))
    }

    /// Iterate over the rows of pages from a number on, with their numbers.
    fn from(&self, first: u32) -> impl Iterator<Item = (Id<T>, T)> {
        let mut page = Cow::Borrowed(&[][..]);
        let first = first.max(self.first());
        (first..self.count).map_while(move |number| {
            let row = number as usize % PAGE;
            if row == 0 || number == first {
                let next = self.pages.get(self.place(Id::new(number)?)?)?;
                page = match next.rows.as_slice() {
                    [] => Cow::Owned(self.read(next)?),
                    rows => Cow::Borrowed(rows),
                };
            }
            Some((Id::new(number)?, *page.get(row)?))
        })
    }

    fn read(&self, page: &Page<T>) -> Option<Vec<T>> {
        self.disk.as_ref()?.read(page.written)
    }

    /// Return a row of a page that stays on the disk.
    #[cold]
    fn fetched(&self, place: usize, row: usize) -> Option<T> {
        let mut again = self.again.borrow_mut();
        if let Some((_, rows)) = again.iter().find(|(page, _)| *page == place) {
            return rows.get(row).copied();
        }
        let rows = self.read(&self.pages[place])?;
        let value = rows.get(row).copied();
        if again.len() == AGAIN {
            again.pop_front();
        }
        again.push_back((place, rows));
        value
    }

    #[cold]
    fn load(&mut self, place: usize) {
        if let Some(rows) = self.read(&self.pages[place]) {
            self.pages[place].rows = rows;
            self.again.borrow_mut().retain(|(page, _)| *page != place);
            self.entered(place);
        }
    }

    /// Note that a page came into memory; write out the one that has been there longest.
    fn entered(&mut self, place: usize) {
        let Some(disk) = &self.disk else {
            return;
        };
        self.resident.push_back(place);
        if self.resident.len() <= disk.pages {
            return;
        }
        let Some(first) = self.resident.pop_front() else {
            return;
        };
        let page = &mut self.pages[first];
        match disk.write(&page.rows) {
            // Written at the end, never in place: a clone may still refer to the old bytes.
            Some(written) => (page.rows, page.written) = (Vec::new(), written),
            None => self.resident.push_back(first),
        }
    }
}
