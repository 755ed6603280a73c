//! JSON values that know their place, which errors name.

use serde_json::Value;

use crate::error::{Error, Place, Result};

#[derive(Clone, Copy)]
enum Key<'a> {
    Root(usize),
    Name(&'a str, &'a Node<'a>),
    Index(usize, &'a Node<'a>),
}

/// A value in a fragment of metadata.
#[derive(Clone, Copy)]
pub(super) struct Node<'a> {
    value: &'a Value,
    key: Key<'a>,
}

impl<'a> Node<'a> {
    /// Make the node of the whole fragment `number`, counted from 1.
    pub(super) fn root(value: &'a Value, number: usize) -> Self {
        let key = Key::Root(number);
        Self { value, key }
    }

    /// Return the value, and the number of the fragment if the value is a whole fragment.
    pub(super) fn fragment(&self) -> (&'a Value, usize) {
        match self.key {
            Key::Root(number) => (self.value, number),
            _ => (self.value, 0),
        }
    }

    /// Return fragment and JSON pointer.
    pub(super) fn place(&self) -> Place {
        let mut parts = Vec::new();
        let mut node = self;
        let fragment = loop {
            let (part, up) = match node.key {
                Key::Root(number) => break number,
                Key::Name(name, up) => (name.replace('~', "~0").replace('/', "~1"), up),
                Key::Index(at, up) => (at.to_string(), up),
            };
            parts.push(part);
            node = up;
        };
        let pointer = parts
            .iter()
            .rev()
            .fold(String::new(), |all, part| all + "/" + part);
        Place::Pointer { fragment, pointer }
    }

    pub(super) fn error(&self, what: impl Into<String>) -> Error {
        Error::new(self.place(), what)
    }

    fn unexpected(&self, expected: &str) -> Error {
        let found = match self.value {
            Value::Null => "null".into(),
            Value::Bool(_) => "a boolean".into(),
            Value::Number(n) => n.to_string(),
            Value::String(s) => format!("'{}'", s.chars().take(80).collect::<String>()),
            Value::Array(_) => "an array".into(),
            Value::Object(_) => "an object".into(),
        };
        self.error(format!("expected {expected}, found {found}"))
    }

    pub(super) fn is_null(&self) -> bool {
        self.value.is_null()
    }

    /// Return the text, if the value is one.
    pub(super) fn as_text(&self) -> Option<&'a str> {
        self.value.as_str()
    }

    pub(super) fn text(&self) -> Result<&'a str> {
        self.as_text().ok_or_else(|| self.unexpected("a string"))
    }

    /// Parse one of several words.
    pub(super) fn one_of<T: Copy>(&self, words: &[(&str, T)]) -> Result<T> {
        let found = self.as_text();
        words
            .iter()
            .find(|(word, _)| found == Some(word))
            .map(|(_, meaning)| *meaning)
            .ok_or_else(|| {
                let words: Vec<String> = words.iter().map(|(w, _)| format!("'{w}'")).collect();
                self.unexpected(&words.join(" or "))
            })
    }

    pub(super) fn integer(&self) -> Result<i128> {
        let number = self.value.as_i64().map(i128::from);
        number
            .or_else(|| self.value.as_u64().map(i128::from))
            .ok_or_else(|| self.unexpected("an integer of at most 64 bits"))
    }

    /// Parse an integer in a range; `what` describes the range.
    pub(super) fn within(&self, low: u64, high: u64, what: &str) -> Result<u64> {
        match self.value.as_u64() {
            Some(n) if low <= n && n <= high => Ok(n),
            _ => Err(self.unexpected(what)),
        }
    }

    pub(super) fn unsigned(&self) -> Result<u64> {
        self.within(0, u64::MAX, "an integer that is not negative")
    }

    pub(super) fn object(&self) -> Result<()> {
        match self.value {
            Value::Object(_) => Ok(()),
            _ => Err(self.unexpected("an object")),
        }
    }

    /// Return a property, if it is there.
    pub(super) fn get<'b>(&'b self, name: &'b str) -> Option<Node<'b>> {
        let value = self.value.get(name)?;
        let key = Key::Name(name, self);
        Some(Node { value, key })
    }

    /// Return a property that must be there.
    pub(super) fn need<'b>(&'b self, name: &'b str) -> Result<Node<'b>> {
        self.object()?;
        self.get(name)
            .ok_or_else(|| self.error(format!("expected a property '{name}'")))
    }

    /// Return names and values of an object, in the order in which they are written.
    pub(super) fn properties(&self) -> Result<Vec<(&str, Node<'_>)>> {
        self.object()?;
        let object = self.value.as_object().into_iter().flatten();
        Ok(object
            .map(|(name, value)| {
                let key = Key::Name(name, self);
                (name.as_str(), Node { value, key })
            })
            .collect())
    }

    /// Return the elements of an array.
    pub(super) fn elements(&self) -> Result<Vec<Node<'_>>> {
        let Value::Array(elements) = self.value else {
            return Err(self.unexpected("an array"));
        };
        Ok(elements
            .iter()
            .enumerate()
            .map(|(at, value)| {
                let key = Key::Index(at, self);
                Node { value, key }
            })
            .collect())
    }
}
