//! Number rows and objects, with a type for each kind so that they are never mixed up.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

/// The number of a row `T`, or of an object of the kind `T`.
#[derive(Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Id<T>(NonZeroU32, PhantomData<fn() -> T>);

/// A number that may be missing or unknown; it takes no more memory than a number.
pub type Maybe<T> = Option<Id<T>>;

impl<T> Id<T> {
    /// The number 0.
    pub const FIRST: Self = Self(NonZeroU32::MIN, PhantomData);

    /// Make it from a number; there are at most 2^32 - 1 of them.
    #[must_use]
    pub fn new(number: u32) -> Option<Self> {
        let one_more = NonZeroU32::new(number.wrapping_add(1));
        one_more.map(|number| Self(number, PhantomData))
    }

    /// Make it from an index in a list.
    #[must_use]
    pub fn at(place: usize) -> Option<Self> {
        u32::try_from(place).ok().and_then(Self::new)
    }

    /// Return the number.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0.get() - 1
    }

    /// Return the number as an index in a list.
    #[must_use]
    pub const fn place(self) -> usize {
        self.number() as usize
    }

    /// Return the same number for another kind of row or object.
    #[must_use]
    pub const fn cast<U>(self) -> Id<U> {
        Id(self.0, PhantomData)
    }
}

/// Return the value of an object in a list, if there is one.
pub fn get<T, U>(list: &[U], id: Maybe<T>) -> Option<&U> {
    list.get(id?.place())
}

/// Return a sort key that puts missing numbers last.
pub fn last<T>(id: Maybe<T>) -> u32 {
    id.map_or(u32::MAX, Id::number)
}

/// Iterate over the values of a list with their numbers.
pub fn numbered<T, U>(list: &[U]) -> impl Iterator<Item = (Id<T>, &U)> {
    (0..)
        .zip(list)
        .filter_map(|(number, value)| Some((Id::new(number)?, value)))
}

/// Return the value of an object in a list, which is filled up with default values if too short.
pub fn entry<T, U: Default>(list: &mut Vec<U>, id: Id<T>) -> &mut U {
    if list.len() <= id.place() {
        list.resize_with(id.place() + 1, U::default);
    }
    &mut list[id.place()]
}

/// Whether the flag of an object is set.
pub fn flagged<T>(flags: &[bool], id: Maybe<T>) -> bool {
    get(flags, id) == Some(&true)
}

// If derived, these would require the same of `T`.
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
