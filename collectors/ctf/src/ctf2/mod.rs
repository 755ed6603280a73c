//! Parse CTF 2 metadata, a JSON text sequence of fragments, to the class model.
//!
//! Section numbers refer to CTF2-SPEC-2.0. Its drafts, which Trace Compass and converters of 2021
//! to 2023 wrote, name clocks instead of numbering them, among other small differences.

mod fields;
mod node;

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use self::fields::{Fields, Use, no_extensions};
use self::node::Node;
use crate::error::{Error, Place, Result, fail};
use crate::model::{Clock, EventClass, LOG_LEVELS, Role, StreamClass, Trace};
use crate::resolve::resolve;

/// The character that precedes each fragment (RFC 7464).
pub const SEPARATOR: char = '\u{1e}';

const PACKET_HEADER: [Role; 4] = [
    Role::Magic,
    Role::StreamClass,
    Role::StreamInstance,
    Role::Uuid,
];
const PACKET_CONTEXT: [Role; 6] = [
    Role::Begin,
    Role::End,
    Role::ContentSize,
    Role::TotalSize,
    Role::Discarded,
    Role::Sequence,
];
const EVENT_HEADER: [Role; 2] = [Role::Begin, Role::EventClass];

/// Parse metadata text.
///
/// # Errors
///
/// The first place that is not CTF 2 or contradicts itself, with fragment and JSON pointer.
pub fn parse(text: &str) -> Result<Trace> {
    let mut fragments = text.split(SEPARATOR);
    if fragments
        .next()
        .is_some_and(|before| !before.trim().is_empty())
    {
        return fail(0, "expected a record separator (0x1E)");
    }
    let mut values: Vec<Value> = Vec::new();
    for fragment in fragments {
        // RFC 7464 lets parsers ignore empty elements.
        if fragment.trim().is_empty() {
            continue;
        }
        let number = values.len() + 1;
        let value = serde_json::from_str(fragment).map_err(|e| {
            let place = Place::Pointer {
                fragment: number,
                pointer: String::new(),
            };
            Error::new(place, format!("expected JSON: {e}"))
        })?;
        values.push(value);
    }
    let mut reader = Reader::default();
    for (at, value) in values.iter().enumerate() {
        reader.fragment(&Node::root(value, at + 1))?;
    }
    reader.finish()
}

#[derive(Default)]
struct Reader<'a> {
    trace: Trace,
    fields: Fields<'a>,
    started: bool,
    saw_trace: bool,
    clocks: HashMap<String, usize>,
    streams: HashMap<u64, usize>,
    events: HashSet<(u64, u64)>,
}

impl<'a> Reader<'a> {
    fn fragment(&mut self, node: &Node<'a>) -> Result<()> {
        no_extensions(node)?;
        let kind = node.need("type")?;
        let name = kind.text()?;
        if (name == "preamble") == self.started {
            return Err(kind.error(if self.started {
                "a second preamble"
            } else {
                "expected the preamble first"
            }));
        }
        match name {
            "preamble" => self.preamble(node),
            "field-class-alias" => self.alias(node),
            "trace-class" => self.trace_class(node),
            "clock-class" => self.clock(node),
            "data-stream-class" => self.stream(node),
            "event-record-class" => self.event(node),
            other => Err(kind.error(format!("expected the type of a fragment, found '{other}'"))),
        }
    }

    /// Parse a preamble (5.4).
    fn preamble(&mut self, node: &Node<'a>) -> Result<()> {
        self.started = true;
        node.need("version")?.within(2, 2, "CTF version 2")?;
        if let Some(list) = node.get("uuid") {
            let elements = list.elements()?;
            let mut uuid = [0; 16];
            if elements.len() != 16 {
                return Err(list.error("expected 16 integers"));
            }
            for (byte, element) in uuid.iter_mut().zip(elements) {
                let value = element.within(0, 255, "an integer from 0 to 255")?;
                *byte = u8::try_from(value).unwrap_or(0);
            }
            self.trace.uuid = Some(uuid);
        }
        Ok(())
    }

    /// Parse a field class alias (5.5).
    fn alias(&mut self, node: &Node<'a>) -> Result<()> {
        let name = node.need("name")?;
        let text = name.text()?.to_owned();
        if self.fields.aliases.contains_key(&text) {
            return Err(name.error(format!("a second field class alias '{text}'")));
        }
        // The meaning of its roles depends on where it is used.
        self.fields.class(&node.need("field-class")?, Use::ANY)?;
        self.fields.aliases.insert(text, node.fragment());
        Ok(())
    }

    /// Parse a trace class (5.6).
    fn trace_class(&mut self, node: &Node<'a>) -> Result<()> {
        if self.saw_trace {
            return Err(node.error("a second trace class"));
        }
        if !self.trace.streams.is_empty() {
            return Err(node.error("expected the trace class before all data stream classes"));
        }
        self.saw_trace = true;
        if let Some(list) = node.get("environment") {
            for (name, value) in list.properties()? {
                let value = match value.as_text() {
                    Some(text) => text.to_owned(),
                    None => value.integer()?.to_string(),
                };
                self.trace.env.push((name.to_owned(), value));
            }
        }
        let scope = Use {
            allowed: Some(&PACKET_HEADER),
            clock: None,
        };
        let name = "packet-header-field-class";
        self.trace.packet_header = self.fields.root(node, name, scope)?;
        Ok(())
    }

    /// Parse a clock class (5.7).
    fn clock(&mut self, node: &Node<'a>) -> Result<()> {
        let id = match node.get("id").or_else(|| node.get("name")) {
            Some(id) => id,
            None => node.need("id")?,
        };
        let text = id.text()?.to_owned();
        if self.clocks.contains_key(&text) {
            return Err(id.error(format!("a second clock class '{text}'")));
        }
        let frequency = node.need("frequency")?;
        let frequency = frequency.within(1, u64::MAX, "a frequency above 0")?;
        let mut clock = Clock::new(text.clone());
        clock.frequency = frequency;
        if let Some(offset) = node.get("offset-from-origin") {
            offset.object()?;
            if let Some(seconds) = offset.get("seconds") {
                clock.offset_seconds = seconds.integer()?;
            }
            if let Some(cycles) = offset.get("cycles") {
                let most = frequency - 1;
                let what = format!("an integer from 0 to {most}, below the frequency");
                clock.offset_cycles = i128::from(cycles.within(0, most, &what)?);
            }
        }
        for name in ["precision", "accuracy"] {
            if let Some(value) = node.get(name) {
                value.unsigned()?;
            }
        }
        if let Some(origin) = node.get("origin")
            && origin.as_text() != Some("unix-epoch")
        {
            for name in ["name", "uid"] {
                origin.need(name)?.text()?;
            }
        }
        self.clocks.insert(text, self.trace.clocks.len());
        self.trace.clocks.push(clock);
        Ok(())
    }

    /// Parse a data stream class (5.8).
    fn stream(&mut self, node: &Node<'a>) -> Result<()> {
        let id = number(node, "id")?;
        if self.streams.insert(id, self.trace.streams.len()).is_some() {
            return Err(node.error(format!("a second data stream class {id}")));
        }
        let draft = || node.get("default-clock-class-name");
        let clock = match node.get("default-clock-class-id").or_else(draft) {
            None => None,
            Some(name) => {
                let text = name.text()?;
                let clock = self.clocks.get(text).copied();
                Some(clock.ok_or_else(|| name.error(format!("no clock class has id '{text}'")))?)
            }
        };
        let mut root = |name: &str, allowed: &[Role]| {
            self.fields.root(
                node,
                name,
                Use {
                    allowed: Some(allowed),
                    clock,
                },
            )
        };
        let packet_context = root("packet-context-field-class", &PACKET_CONTEXT)?;
        let event_header = root("event-record-header-field-class", &EVENT_HEADER)?;
        let event_context = root("event-record-common-context-field-class", &[])?;
        self.trace.streams.push(StreamClass {
            id,
            packet_context,
            event_header,
            event_context,
            events: Vec::new(),
        });
        Ok(())
    }

    /// Parse an event record class (5.9).
    fn event(&mut self, node: &Node<'a>) -> Result<()> {
        let id = number(node, "id")?;
        let parent = number(node, "data-stream-class-id")?;
        let Some(stream) = self.streams.get(&parent) else {
            return Err(node.error(format!("no data stream class has id {parent}")));
        };
        if !self.events.insert((parent, id)) {
            return Err(node.error(format!(
                "a second event record class {id} in data stream class {parent}"
            )));
        }
        let name = match node.get("name") {
            Some(name) => name.text()?.to_owned(),
            None => String::new(),
        };
        let name = match node.get("uid") {
            Some(uid) if name.is_empty() => uid.text()?.to_owned(),
            _ => name,
        };
        let namespace = match node.get("namespace") {
            Some(namespace) => Some(namespace.text()?.to_owned()),
            None => None,
        };
        let (log_level, emf_uri) = attributes(node);
        let mut root = |name: &str| self.fields.root(node, name, Use::USER);
        self.trace.streams[*stream].events.push(EventClass {
            id,
            namespace,
            log_level,
            emf_uri,
            name: if name.is_empty() {
                format!("unnamed_{parent}_{id}")
            } else {
                name
            },
            context: root("specific-context-field-class")?,
            payload: root("payload-field-class")?,
        });
        Ok(())
    }

    fn finish(mut self) -> Result<Trace> {
        if !self.started {
            return Err(Error::whole("the metadata has no fragments"));
        }
        if self.trace.streams.is_empty() {
            return Err(Error::whole("the metadata has no data stream class"));
        }
        self.trace.streams.sort_by_key(|s| s.id);
        for stream in &mut self.trace.streams {
            stream.events.sort_by_key(|e| e.id);
        }
        resolve(&mut self.trace)?;
        Ok(self.trace)
    }
}

/// Parse log level and EMF URI of an event record class, as `LTTng` and Babeltrace write them. They
/// are user attributes, so no value in them is an error.
fn attributes(node: &Node<'_>) -> (Option<i64>, Option<String>) {
    let mut found = (None, None);
    let draft = || node.get("user-attributes");
    let Some(all) = node.get("attributes").or_else(draft) else {
        return found;
    };
    for namespace in ["lttng.org,2009", "babeltrace.org,2020"] {
        let Some(own) = all.get(namespace) else {
            continue;
        };
        if let Some(level) = own.get("log-level") {
            let by_name = LOG_LEVELS.iter().position(|n| Some(*n) == level.as_text());
            let by_name = by_name.and_then(|at| i64::try_from(at).ok());
            let number = level.integer().ok().and_then(|n| i64::try_from(n).ok());
            found.0 = found.0.or(by_name).or(number);
        }
        if let Some(uri) = own.get("emf-uri")
            && let Some(text) = uri.as_text()
        {
            found.1.get_or_insert_with(|| text.to_owned());
        }
    }
    found
}

/// Parse an id, 0 if none is given.
fn number(node: &Node<'_>, name: &str) -> Result<u64> {
    node.get(name).map_or(Ok(0), |id| id.unsigned())
}

#[cfg(test)]
mod tests;
