//! Parse field classes (CTF2-SPEC-2.0, 5.3).

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::node::Node;
use crate::error::Result;
use crate::model::{
    Array, BitMap, ByteOrder, Encoding, Field, Int, Length, MAX_BITS, MAX_DEPTH, MAX_NODES,
    Mapping, Optional, Path, Reference, Role, Struct, Type, Unresolved, Variant, WideText,
};

/// Where a location may begin, in the order of decoding.
const ORIGINS: [(&str, usize); 6] = [
    ("packet-header", 0),
    ("packet-context", 1),
    ("event-record-header", 2),
    ("event-record-common-context", 3),
    ("event-record-specific-context", 4),
    ("event-record-payload", 5),
];

const ROLES: [(&str, Role); 11] = [
    ("packet-magic-number", Role::Magic),
    ("data-stream-class-id", Role::StreamClass),
    ("data-stream-id", Role::StreamInstance),
    ("packet-content-length", Role::ContentSize),
    ("packet-total-length", Role::TotalSize),
    ("packet-end-default-clock-timestamp", Role::End),
    ("discarded-event-record-counter-snapshot", Role::Discarded),
    ("packet-sequence-number", Role::Sequence),
    ("event-record-class-id", Role::EventClass),
    ("default-clock-timestamp", Role::Begin),
    ("metadata-stream-uuid", Role::Uuid),
];

/// The meaning of roles where a type is used.
#[derive(Clone, Copy)]
pub(super) struct Use<'a> {
    /// Roles that fields may have; `None` for all.
    pub(super) allowed: Option<&'a [Role]>,
    /// The default clock.
    pub(super) clock: Option<usize>,
}

impl Use<'_> {
    /// A place where no field may have a role.
    pub(super) const USER: Use<'static> = Use {
        allowed: Some(&[]),
        clock: None,
    };
    /// A place where all roles are possible.
    pub(super) const ANY: Use<'static> = Use {
        allowed: None,
        clock: Some(0),
    };

    fn allows(self, role: Role) -> bool {
        self.allowed.is_none_or(|all| all.contains(&role))
    }
}

/// Named types, and the number of nodes that were made of them.
///
/// A type is read again wherever its alias is used, because roles mean different things in
/// different places.
#[derive(Default)]
pub(super) struct Fields<'a> {
    pub(super) aliases: HashMap<String, (&'a Value, usize)>,
    nodes: usize,
    depth: usize,
}

impl Fields<'_> {
    /// Parse the structure that a property of a fragment holds.
    pub(super) fn root(
        &mut self,
        fragment: &Node<'_>,
        name: &str,
        scope: Use<'_>,
    ) -> Result<Option<Type>> {
        let Some(node) = fragment.get(name) else {
            return Ok(None);
        };
        match self.class(&node, scope)? {
            kind @ Type::Struct(_) => Ok(Some(kind)),
            _ => Err(node.error("expected a structure field class")),
        }
    }

    /// Parse a field class, or the name of one.
    pub(super) fn class(&mut self, node: &Node<'_>, scope: Use<'_>) -> Result<Type> {
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            return Err(node.error(format!("the field classes expand to more than {MAX_NODES}")));
        }
        if self.depth >= MAX_DEPTH {
            return Err(node.error(format!("nested deeper than {MAX_DEPTH} levels")));
        }
        self.depth += 1;
        let class = match node.as_text() {
            Some(name) => match self.aliases.get(name).copied() {
                Some((value, number)) => {
                    let alias = Node::root(value, number);
                    self.class(&alias.need("field-class")?, scope)
                }
                None => Err(node.error(format!("no field class alias is named '{name}'"))),
            },
            None => self.described(node, scope),
        };
        self.depth -= 1;
        class
    }

    fn described(&mut self, node: &Node<'_>, scope: Use<'_>) -> Result<Type> {
        no_extensions(node)?;
        let name = node.need("type")?;
        Ok(match name.text()? {
            "fixed-length-bit-array" => match wide(node, false)? {
                Some(wide) => wide,
                None => Type::Int(bits(node)?),
            },
            "fixed-length-bit-map" => bit_map(node)?,
            "fixed-length-boolean" => Type::Bool(bits(node)?),
            // Drafts have types of their own for integers with mappings.
            "fixed-length-unsigned-integer" | "fixed-length-unsigned-enumeration" => {
                fixed(node, false, scope)?
            }
            "fixed-length-signed-integer" | "fixed-length-signed-enumeration" => {
                fixed(node, true, scope)?
            }
            "fixed-length-floating-point-number" => float(node)?,
            "variable-length-unsigned-integer" | "variable-length-unsigned-enumeration" => {
                variable(node, false, scope)?
            }
            "variable-length-signed-integer" | "variable-length-signed-enumeration" => {
                variable(node, true, scope)?
            }
            "null-terminated-string" => match encoding(node)? {
                None => Type::Text,
                Some(encoding) => Type::WideText(WideText {
                    encoding,
                    length: None,
                }),
            },
            "static-length-string" => text(node, Length::Fixed(node.need("length")?.unsigned()?))?,
            "dynamic-length-string" => text(node, length_field(node)?)?,
            "static-length-blob" => blob(node, scope)?,
            "dynamic-length-blob" => bytes(length_field(node)?, false),
            "structure" => self.structure(node, scope)?,
            "static-length-array" => {
                let length = Length::Fixed(node.need("length")?.unsigned()?);
                self.array(node, length, scope)?
            }
            "dynamic-length-array" => self.array(node, length_field(node)?, scope)?,
            "optional" => self.optional(node, scope)?,
            "variant" => self.variant(node, scope)?,
            other => {
                return Err(name.error(format!(
                    "expected the type of a field class, found '{other}'"
                )));
            }
        })
    }

    fn structure(&mut self, node: &Node<'_>, scope: Use<'_>) -> Result<Type> {
        let mut fields = Vec::new();
        let mut names = HashSet::new();
        if let Some(members) = node.get("member-classes") {
            for member in members.elements()? {
                no_extensions(&member)?;
                let name = member.need("name")?;
                let text = name.text()?;
                if !names.insert(text.to_owned()) {
                    return Err(name.error(format!("a second member '{text}'")));
                }
                let mut kind = self.class(&member.need("field-class")?, scope)?;
                if text == "cpu_id" && scope.allows(Role::TotalSize) {
                    // Not reserved by the specification, but what `LTTng` and barectf write.
                    if let Type::Int(int) | Type::VarInt(int) = &mut kind {
                        int.roles.push(Role::Cpu);
                    }
                }
                fields.push(Field {
                    name: text.to_owned(),
                    kind,
                    slot: None,
                });
            }
        }
        let min_align = alignment(node, "minimum-alignment")?;
        Ok(Type::Struct(Struct {
            fields,
            min_align,
            scope: 0,
        }))
    }

    fn array(&mut self, node: &Node<'_>, length: Length, scope: Use<'_>) -> Result<Type> {
        let element = self.class(&node.need("element-field-class")?, scope)?;
        Ok(Type::Array(Box::new(Array {
            element,
            length,
            min_align: alignment(node, "minimum-alignment")?,
            uuid: false,
        })))
    }

    fn optional(&mut self, node: &Node<'_>, scope: Use<'_>) -> Result<Type> {
        let kind = self.class(&node.need("field-class")?, scope)?;
        let ranges = match node.get("selector-field-ranges") {
            Some(set) => ranges(&set)?,
            None => Vec::new(),
        };
        Ok(Type::Optional(Box::new(Optional {
            selector: location(node, "selector-field-location")?,
            ranges,
            field: Field {
                name: String::new(),
                kind,
                slot: None,
            },
        })))
    }

    fn variant(&mut self, node: &Node<'_>, scope: Use<'_>) -> Result<Type> {
        let list = node.need("options")?;
        let mut options: Vec<Field> = Vec::new();
        let mut choices = Vec::new();
        let mut names = HashSet::new();
        for (at, option) in list.elements()?.iter().enumerate() {
            no_extensions(option)?;
            let name = match option.get("name") {
                Some(name) => name.text()?.to_owned(),
                None => at.to_string(),
            };
            if !names.insert(name.clone()) {
                return Err(option.error(format!("a second option '{name}'")));
            }
            let set = option.need("selector-field-ranges")?;
            for (low, high) in ranges(&set)? {
                choices.push((low, high, at));
            }
            options.push(Field {
                name,
                kind: self.class(&option.need("field-class")?, scope)?,
                slot: None,
            });
        }
        if options.is_empty() {
            return Err(list.error("expected at least one option"));
        }
        let mut sorted = choices.clone();
        sorted.sort_unstable();
        if let Some(pair) = sorted
            .windows(2)
            .find(|p| p[1].0 <= p[0].1 && p[0].2 != p[1].2)
        {
            return Err(list.error(format!("two options for the value {}", pair[1].0)));
        }
        Ok(Type::Variant(Variant {
            tag: Some(location(node, "selector-field-location")?),
            options,
            choices,
        }))
    }
}

/// Refuse extensions: an unknown one may change how data are decoded, so it cannot be ignored.
pub(super) fn no_extensions(node: &Node<'_>) -> Result<()> {
    node.object()?;
    let Some(extensions) = node.get("extensions") else {
        return Ok(());
    };
    for (space, names) in extensions.properties()? {
        if let Some((name, at)) = names.properties()?.first() {
            return Err(at.error(format!(
                "the extension '{name}' of '{space}' is not supported"
            )));
        }
    }
    Ok(())
}

fn alignment(node: &Node<'_>, name: &str) -> Result<u64> {
    let Some(alignment) = node.get(name) else {
        return Ok(1);
    };
    let align = alignment.unsigned()?;
    if align.is_power_of_two() && align <= 1 << 20 {
        return Ok(align);
    }
    Err(alignment.error(format!(
        "expected a power of two of at most 2^20, found {align}"
    )))
}

/// Parse what all field classes of fixed length share.
fn bits(node: &Node<'_>) -> Result<Int> {
    let length = node.need("length")?;
    stored(node, length.within(1, 64, "a length of 1 to 64 bits")?)
}

/// Parse a number of more than 64 bits; `None` if it has fewer, or has roles or mappings.
fn wide(node: &Node<'_>, signed: bool) -> Result<Option<Type>> {
    let length = node.need("length")?;
    if length.unsigned()? <= 64 || ["roles", "mappings"].iter().any(|n| node.get(n).is_some()) {
        return Ok(None);
    }
    let what = format!("a length of 1 to {MAX_BITS} bits");
    let mut int = stored(node, length.within(1, u64::from(MAX_BITS), &what)?)?;
    int.signed = signed;
    Ok(Some(Type::WideInt(int)))
}

/// Parse how a number of `bits` bits is stored.
fn stored(node: &Node<'_>, bits: u64) -> Result<Int> {
    let order = node.need("byte-order")?.one_of(&[
        ("little-endian", ByteOrder::Little),
        ("big-endian", ByteOrder::Big),
    ])?;
    let usual = order == ByteOrder::Little;
    let first_to_last = match node.get("bit-order") {
        None => usual,
        Some(order) => order.one_of(&[("first-to-last", true), ("last-to-first", false)])?,
    };
    let bits = u32::try_from(bits).unwrap_or(MAX_BITS);
    let mut int = Int::unsigned(bits, alignment(node, "alignment")?, order);
    int.reversed = first_to_last != usual;
    Ok(int)
}

/// Parse the base in which to show an integer.
fn base(node: &Node<'_>) -> Result<u8> {
    match node.get("preferred-display-base") {
        None => Ok(10),
        Some(base) => match base.unsigned()? {
            found @ (2 | 8 | 10 | 16) => Ok(u8::try_from(found).unwrap_or(10)),
            _ => Err(base.error("expected 2, 8, 10 or 16")),
        },
    }
}

fn fixed(node: &Node<'_>, signed: bool, scope: Use<'_>) -> Result<Type> {
    if let Some(wide) = wide(node, signed)? {
        return Ok(wide);
    }
    let mut int = bits(node)?;
    describe(&mut int, node, signed, scope)?;
    if int.roles.contains(&Role::Magic) && int.bits != 32 {
        return Err(node.error("a packet magic number must have 32 bits"));
    }
    Ok(Type::Int(int))
}

fn variable(node: &Node<'_>, signed: bool, scope: Use<'_>) -> Result<Type> {
    let mut int = Int::unsigned(64, 8, ByteOrder::Little);
    describe(&mut int, node, signed, scope)?;
    if int.roles.contains(&Role::Magic) {
        return Err(node.error("a packet magic number must be of fixed length"));
    }
    Ok(Type::VarInt(int))
}

/// Parse what integers of fixed and of variable length share.
fn describe(int: &mut Int, node: &Node<'_>, signed: bool, scope: Use<'_>) -> Result<()> {
    int.signed = signed;
    int.base = base(node)?;
    let roles = roles(node, scope)?;
    if signed && !roles.is_empty() {
        return Err(node.error("a signed integer cannot have roles"));
    }
    for role in roles {
        if role == Role::Uuid {
            return Err(node.error("a UUID must be a static-length BLOB"));
        }
        if matches!(role, Role::Begin | Role::End) {
            int.clock = scope.clock;
            if int.clock.is_none() {
                return Err(node.error("a timestamp in a data stream class without a clock class"));
            }
        }
        // The default clock's time in an event's header is not that of the packet.
        if role != Role::Begin || scope.allows(Role::TotalSize) {
            int.roles.push(role);
        }
    }
    int.mappings = mappings(node)?;
    Ok(())
}

fn float(node: &Node<'_>) -> Result<Type> {
    let int = bits(node)?;
    if !matches!(int.bits, 16 | 32 | 64) {
        let what = format!(
            "a floating point number of {} bits: expected 16, 32 or 64",
            int.bits
        );
        return Err(node.error(what));
    }
    Ok(Type::Float(int))
}

fn bit_map(node: &Node<'_>) -> Result<Type> {
    let int = bits(node)?;
    let list = node.need("flags")?;
    let mut flags = Vec::new();
    for (name, set) in list.properties()? {
        let mut mask = 0;
        for (low, high) in ranges(&set)? {
            // Bits beyond the map are never set.
            for bit in 0..i128::from(int.bits) {
                if low <= bit && bit <= high {
                    mask |= 1 << bit;
                }
            }
        }
        flags.push((name.to_owned(), mask));
    }
    if flags.is_empty() {
        return Err(list.error("expected at least one flag"));
    }
    Ok(Type::BitMap(BitMap { int, flags }))
}

fn roles(node: &Node<'_>, scope: Use<'_>) -> Result<Vec<Role>> {
    let Some(list) = node.get("roles") else {
        return Ok(Vec::new());
    };
    let mut roles = Vec::new();
    for place in list.elements()? {
        let role = place.one_of(&ROLES)?;
        if !scope.allows(role) {
            return Err(place.error("this role is not for fields at this place"));
        }
        roles.push(role);
    }
    Ok(roles)
}

fn mappings(node: &Node<'_>) -> Result<Vec<Mapping>> {
    let mut mappings = Vec::new();
    if let Some(list) = node.get("mappings") {
        for (label, set) in list.properties()? {
            for (low, high) in ranges(&set)? {
                mappings.push(Mapping {
                    label: label.to_owned(),
                    low,
                    high,
                });
            }
        }
    }
    Ok(mappings)
}

/// Parse an integer range set (5.3.2).
fn ranges(set: &Node<'_>) -> Result<Vec<(i128, i128)>> {
    let mut ranges = Vec::new();
    for range in set.elements()? {
        let ends = range.elements()?;
        let [low, high] = ends.as_slice() else {
            return Err(range.error("expected two integers"));
        };
        let (low, high) = (low.integer()?, high.integer()?);
        if high < low {
            return Err(range.error(format!("an empty range {low} to {high}")));
        }
        ranges.push((low, high));
    }
    if ranges.is_empty() {
        return Err(set.error("expected at least one range"));
    }
    Ok(ranges)
}

/// Parse an encoding; `None` for UTF-8.
fn encoding(node: &Node<'_>) -> Result<Option<Encoding>> {
    let Some(name) = node.get("encoding") else {
        return Ok(None);
    };
    name.one_of(&[
        ("utf-8", None),
        ("utf-16be", Some(Encoding::Utf16(ByteOrder::Big))),
        ("utf-16le", Some(Encoding::Utf16(ByteOrder::Little))),
        ("utf-32be", Some(Encoding::Utf32(ByteOrder::Big))),
        ("utf-32le", Some(Encoding::Utf32(ByteOrder::Little))),
    ])
}

/// Parse text of a given length in bytes.
fn text(node: &Node<'_>, length: Length) -> Result<Type> {
    Ok(match encoding(node)? {
        None => bytes(length, true),
        Some(encoding) => Type::WideText(WideText {
            encoding,
            length: Some(length),
        }),
    })
}

/// Make an array of bytes, of text or of any data.
fn bytes(length: Length, text: bool) -> Type {
    let mut int = Int::unsigned(8, 8, ByteOrder::Little);
    int.text = text;
    Type::Array(Box::new(Array {
        element: Type::Int(int),
        length,
        min_align: 1,
        uuid: false,
    }))
}

fn blob(node: &Node<'_>, scope: Use<'_>) -> Result<Type> {
    let length = node.need("length")?.unsigned()?;
    let roles = roles(node, scope)?;
    let mut kind = bytes(Length::Fixed(length), false);
    if let (Type::Array(array), false) = (&mut kind, roles.is_empty()) {
        if roles.iter().any(|role| *role != Role::Uuid) || length != 16 {
            return Err(node.error("a BLOB may be the UUID of the metadata, in 16 bytes"));
        }
        array.uuid = true;
    }
    Ok(kind)
}

fn length_field(node: &Node<'_>) -> Result<Length> {
    Ok(Length::Field(location(node, "length-field-location")?))
}

/// Parse a field location (5.3.1).
fn location(node: &Node<'_>, name: &str) -> Result<Reference> {
    let node = node.need(name)?;
    // Drafts give a plain list, whose first step names the origin.
    if let Ok(steps) = node.elements()
        && let Some((origin, steps)) = steps.split_first()
    {
        return reference(Some(origin.one_of(&ORIGINS)?), &node, steps);
    }
    let origin = match node.get("origin") {
        Some(origin) => Some(origin.one_of(&ORIGINS)?),
        None => None,
    };
    let list = node.need("path")?;
    reference(origin, &list, &list.elements()?)
}

fn reference(origin: Option<usize>, list: &Node<'_>, steps: &[Node<'_>]) -> Result<Reference> {
    let mut path = Vec::new();
    for step in steps {
        path.push(if step.is_null() {
            None
        } else {
            Some(step.text()?.to_owned())
        });
    }
    if !matches!(path.last(), Some(Some(_))) {
        return Err(list.error("expected a path that ends with a name"));
    }
    Ok(Reference::Unresolved(Box::new(Unresolved {
        path: Path::Location(origin, path),
        place: list.place(),
        lexical: None,
    })))
}
