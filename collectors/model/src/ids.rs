//! Numbers of rows and objects: a type for each kind, so that one is never taken for another.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::num::NonZeroU32;

/// The number of a row `T`, or of an object of the kind `T`.
pub struct Id<T>(NonZeroU32, PhantomData<fn() -> T>);

/// Such a number, where there is one and it is known; it takes no more memory.
pub type Maybe<T> = Option<Id<T>>;

impl<T> Id<T> {
    /// That of number 0.
    pub const FIRST: Self = Self(NonZeroU32::MIN, PhantomData);

    /// By its number; there are at most 2^32 - 1.
    #[must_use]
    pub fn new(number: u32) -> Option<Self> {
        let one_more = NonZeroU32::new(number.wrapping_add(1));
        one_more.map(|number| Self(number, PhantomData))
    }

    /// That of a place in a list.
    #[must_use]
    pub fn at(place: usize) -> Option<Self> {
        u32::try_from(place).ok().and_then(Self::new)
    }

    /// The number.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0.get() - 1
    }

    /// The number as a place in a list.
    #[must_use]
    pub const fn place(self) -> usize {
        self.number() as usize
    }

    /// The same number of another kind of thing.
    #[must_use]
    pub const fn cast<U>(self) -> Id<U> {
        Id(self.0, PhantomData)
    }
}

/// What a list holds of an object, if there is one.
pub fn get<T, U>(list: &[U], id: Maybe<T>) -> Option<&U> {
    list.get(id?.place())
}

/// The number by which it is sorted where those without one come last.
pub fn last<T>(id: Maybe<T>) -> u32 {
    id.map_or(u32::MAX, Id::number)
}

/// All rows or objects of a list with their numbers.
pub fn numbered<T, U>(list: &[U]) -> impl Iterator<Item = (Id<T>, &U)> {
    (0..)
        .zip(list)
        .filter_map(|(number, value)| Some((Id::new(number)?, value)))
}

/// What a list holds of an object, filled up with default values where it is too short.
pub fn entry<T, U: Default>(list: &mut Vec<U>, id: Id<T>) -> &mut U {
    if list.len() <= id.place() {
        list.resize_with(id.place() + 1, U::default);
    }
    &mut list[id.place()]
}

/// Whether an object has its flag.
pub fn flagged<T>(flags: &[bool], id: Maybe<T>) -> bool {
    get(flags, id) == Some(&true)
}

// Derived, these would be asked of `T`, too.
impl<T> Clone for Id<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Id<T> {}

impl<T> PartialEq for Id<T> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<T> Eq for Id<T> {}

impl<T> PartialOrd for Id<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Id<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.cmp(&other.0)
    }
}

impl<T> Hash for Id<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl<T> fmt::Debug for Id<T> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}", self.number())
    }
}
