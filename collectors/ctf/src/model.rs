//! The classes that metadata declare, independent of the language they are written in.

use std::fmt;
use std::sync::Arc;

use crate::error::Place;

/// Deepest nesting of types.
pub(crate) const MAX_DEPTH: usize = 512;
/// Bits of the widest integer: the cost of its decimal text grows with their square.
pub(crate) const MAX_BITS: u32 = 4096;
/// Most type nodes that named types may expand to: more than any real trace needs, and few enough
/// to stop a metadata bomb.
pub(crate) const MAX_NODES: usize = 4_000_000;

/// Byte order of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ByteOrder {
    /// Least significant byte (and bit) first.
    Little,
    /// Most significant byte (and bit) first.
    Big,
}

/// The meaning of a field in a packet's head or an event's header; what CTF 2 calls the default
/// clock's timestamp is [`Role::Begin`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The magic number at the beginning of a packet.
    Magic,
    /// Stream class.
    StreamClass,
    /// Number of the stream among those of that class.
    StreamInstance,
    /// Bits up to the end of the last event.
    ContentSize,
    /// Bits up to the next packet.
    TotalSize,
    /// First time of the packet.
    Begin,
    /// Last time of the packet.
    End,
    /// Events discarded in the stream so far.
    Discarded,
    /// Number of the packet in its stream.
    Sequence,
    /// CPU that wrote the packet.
    Cpu,
    /// Event class.
    EventClass,
    /// UUID of the metadata: of an array, see [`Array::uuid`].
    Uuid,
}

/// An integer, with or without labels, or the storage of another kind of number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Int {
    /// Width.
    pub bits: u32,
    /// Alignment in bits, a power of two.
    pub align: u64,
    /// Whether it is signed, in two's complement.
    pub signed: bool,
    /// Byte order.
    pub order: ByteOrder,
    /// Whether it is a character, so that arrays of it are text.
    pub text: bool,
    /// The clock whose value it holds, as index into [`Trace::clocks`].
    pub clock: Option<usize>,
    /// Whether its bits come in the order that is unusual for the byte order (CTF 2).
    pub reversed: bool,
    /// Base in which to show it: 2, 8, 10 or 16.
    pub base: u8,
    /// What the value means to the decoder.
    pub roles: Vec<Role>,
    /// Labels in the order of declaration; the first one whose range contains the value counts.
    pub mappings: Vec<Mapping>,
}

impl Int {
    /// Make an unsigned integer without roles, labels, clock or base of its own.
    #[must_use]
    pub fn unsigned(bits: u32, align: u64, order: ByteOrder) -> Self {
        Self {
            bits,
            align,
            signed: false,
            order,
            text: false,
            clock: None,
            reversed: false,
            base: 10,
            roles: Vec::new(),
            mappings: Vec::new(),
        }
    }

    /// Whether it fills whole bytes of a size that machines can load at once.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        matches!(self.bits, 8 | 16 | 32 | 64) && self.align.is_multiple_of(8) && !self.reversed
    }
}

/// A label for a range of values, both ends included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    /// The label.
    pub label: String,
    /// First value.
    pub low: i128,
    /// Last value.
    pub high: i128,
}

/// Return the first label of `value`.
#[must_use]
pub fn label(mappings: &[Mapping], value: i128) -> Option<&str> {
    mappings
        .iter()
        .find(|m| m.low <= value && value <= m.high)
        .map(|m| m.label.as_str())
}

/// Bits with names (CTF 2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BitMap {
    /// How the bits are stored.
    pub int: Int,
    /// Names in the order of declaration, with the mask of the bits that each stands for.
    pub flags: Vec<(String, u64)>,
}

/// How characters of more than one byte are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// UTF-16.
    Utf16(ByteOrder),
    /// UTF-32.
    Utf32(ByteOrder),
}

impl Encoding {
    /// Return the number of bytes of a code unit.
    #[must_use]
    pub fn unit(self) -> usize {
        match self {
            Self::Utf16(_) => 2,
            Self::Utf32(_) => 4,
        }
    }
}

/// Text of characters of more than one byte (CTF 2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WideText {
    /// How the characters are stored.
    pub encoding: Encoding,
    /// Length in bytes; `None` for text that ends with a zero unit.
    pub length: Option<Length>,
}

/// A reference to an integer that is decoded before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reference {
    /// The reference as written, with its place; none is left once the trace is complete.
    Unresolved(Box<Unresolved>),
    /// The slot in which the decoder keeps the value.
    Slot(usize),
}

/// A reference as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unresolved {
    /// The names to follow.
    pub path: Path,
    /// Where it is written.
    pub place: Place,
    /// The structures around it in the text (CTF 1.8).
    pub lexical: Option<Lexical>,
}

/// A structure around a place in the metadata text, and those around that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lexical {
    /// The number of the structure, as in [`Struct::scope`].
    pub scope: usize,
    /// How many of its fields are declared before that place.
    pub fields: usize,
    /// The structure around it.
    pub outer: Option<Arc<Lexical>>,
}

/// Names to follow to a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Path {
    /// TSDL: an absolute path, or one relative to any enclosing scope.
    Names(Vec<String>),
    /// CTF 2: a path from a root (0 the packet's header to 5 the event's payload) or, if that is
    /// `None`, from the structure around; a name `None` steps out to the structure around.
    Location(Option<usize>, Vec<Option<String>>),
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = match self {
            Self::Names(names) => names.iter().map(String::as_str).collect(),
            Self::Location(_, names) => names
                .iter()
                .map(|n| n.as_deref().unwrap_or("null"))
                .collect(),
        };
        f.write_str(&names.join("."))
    }
}

/// The number of elements of an array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Length {
    /// A constant length.
    Fixed(u64),
    /// The value of a field that is decoded before.
    Field(Reference),
}

impl Length {
    /// Return the reference, if there is one.
    pub fn reference_mut(&mut self) -> Option<&mut Reference> {
        match self {
            Self::Fixed(_) => None,
            Self::Field(reference) => Some(reference),
        }
    }
}

/// An array or sequence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Array {
    /// Type of the elements.
    pub element: Type,
    /// The number of elements.
    pub length: Length,
    /// Requested alignment in bits, besides that of its elements; 0 or 1 for none.
    pub min_align: u64,
    /// Whether it is the UUID of the metadata, which packets repeat.
    pub uuid: bool,
}

impl Array {
    /// Whether it is text: characters of 8 bits.
    #[must_use]
    pub fn is_text(&self) -> bool {
        matches!(&self.element, Type::Int(i)
            if i.text && i.bits == 8 && i.is_plain() && i.mappings.is_empty())
    }
}

/// A member of a structure, or an option of a variant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Name.
    pub name: String,
    /// Type.
    pub kind: Type,
    /// The slot in which the decoder keeps its value, if something refers to it.
    pub slot: Option<usize>,
}

/// A structure.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Struct {
    /// Members in order.
    pub fields: Vec<Field>,
    /// Requested alignment in bits, besides that of its members; 0 or 1 for none.
    pub min_align: u64,
    /// Number of the text between braces that declares it, which copies share (CTF 1.8).
    pub scope: usize,
}

/// One of several types, chosen by an enumeration or integer decoded before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variant {
    /// The value that chooses the option.
    pub tag: Option<Reference>,
    /// The options.
    pub options: Vec<Field>,
    /// Ranges of values of the tag, and the option that each chooses.
    pub choices: Vec<(i128, i128, usize)>,
}

/// A field that is present or not, depending on a field that is decoded before (CTF 2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Optional {
    /// The field that decides.
    pub selector: Reference,
    /// Ranges of values with which it is present; empty if the selector is a boolean.
    pub ranges: Vec<(i128, i128)>,
    /// The type, as a field because others may refer to its value.
    pub field: Field,
}

/// A type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Type {
    /// Integer of 1 to 64 bits; an enumeration, if it has labels.
    Int(Int),
    /// Integer of more than 64 bits. Nothing can refer to it, and it has no roles.
    WideInt(Int),
    /// IEEE 754 number of 16, 32 or 64 bits.
    Float(Int),
    /// Text that ends with a NUL byte.
    Text,
    /// Array or sequence.
    Array(Box<Array>),
    /// Structure.
    Struct(Struct),
    /// Variant.
    Variant(Variant),
    /// Integer of 64 bits that is stored in as many bytes as its value needs (LEB128, CTF 2).
    VarInt(Int),
    /// True unless all bits are zero.
    Bool(Int),
    /// Bits with names.
    BitMap(BitMap),
    /// Text of UTF-16 or UTF-32.
    WideText(WideText),
    /// A field that may be absent.
    Optional(Box<Optional>),
}

impl Type {
    /// Return the alignment in bits.
    #[must_use]
    pub fn align(&self) -> u64 {
        match self {
            Self::Int(i) | Self::Bool(i) | Self::WideInt(i) | Self::Float(i) => i.align,
            Self::BitMap(b) => b.int.align,
            Self::Text | Self::VarInt(_) | Self::WideText(_) => 8,
            Self::Array(a) => a.element.align().max(a.min_align),
            Self::Struct(s) => self
                .below()
                .map(Self::align)
                .fold(s.min_align.max(1), u64::max),
            Self::Variant(_) | Self::Optional(_) => 1,
        }
    }

    /// Return the members of a structure, the options of a variant, or the field of an optional.
    #[must_use]
    pub fn fields(&self) -> &[Field] {
        match self {
            Self::Optional(o) => std::slice::from_ref(&o.field),
            Self::Struct(s) => &s.fields,
            Self::Variant(v) => &v.options,
            _ => &[],
        }
    }

    /// Return the length, tag or selector that is decoded before, to be changed.
    pub fn reference_mut(&mut self) -> Option<&mut Reference> {
        match self {
            Self::Array(a) => a.length.reference_mut(),
            Self::WideText(w) => w.length.as_mut()?.reference_mut(),
            Self::Variant(v) => v.tag.as_mut(),
            Self::Optional(o) => Some(&mut o.selector),
            _ => None,
        }
    }

    /// Return the fields to be changed: those that [`Type::fields`] returns.
    pub fn fields_mut(&mut self) -> &mut [Field] {
        match self {
            Self::Optional(o) => std::slice::from_mut(&mut o.field),
            Self::Struct(s) => &mut s.fields,
            Self::Variant(v) => &mut v.options,
            _ => &mut [],
        }
    }

    /// Iterate over the types of its fields or, for an array, the type of its elements.
    pub fn below(&self) -> impl Iterator<Item = &Self> {
        let element = match self {
            Self::Array(a) => Some(&a.element),
            _ => None,
        };
        let fields = self.fields().iter().map(|f| &f.kind);
        element.into_iter().chain(fields)
    }

    /// Iterate over these types to change them.
    pub fn below_mut(&mut self) -> impl Iterator<Item = &mut Self> {
        let (element, fields) = match self {
            Self::Array(a) => (Some(&mut a.element), &mut [][..]),
            kind => (None, kind.fields_mut()),
        };
        let fields = fields.iter_mut().map(|f| &mut f.kind);
        element.into_iter().chain(fields)
    }

    /// Return the number of nodes in its tree.
    #[must_use]
    pub fn size(&self) -> usize {
        let labels = match self {
            Self::Int(i) | Self::VarInt(i) => i.mappings.len(),
            Self::BitMap(b) => b.flags.len(),
            _ => 0,
        };
        1 + labels + self.below().map(Self::size).sum::<usize>()
    }

    /// Return the number of nested levels.
    #[must_use]
    pub fn depth(&self) -> usize {
        1 + self.below().map(Self::depth).max().unwrap_or(0)
    }

    /// Call `visit` with this type and all below it, outer before inner.
    pub fn visit(&mut self, visit: &mut impl FnMut(&mut Self)) {
        visit(self);
        self.below_mut().for_each(|kind| kind.visit(visit));
    }

    /// Return the structure, if the type is one.
    #[must_use]
    pub fn as_struct(&self) -> Option<&Struct> {
        match self {
            Self::Struct(s) => Some(s),
            _ => None,
        }
    }
}

/// A clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clock {
    /// Name.
    pub name: String,
    /// Cycles per second.
    pub frequency: u64,
    /// Seconds from the epoch to its zero.
    pub offset_seconds: i128,
    /// Cycles to add to `offset_seconds`.
    pub offset_cycles: i128,
    /// Identity of the clock; for `LTTng`'s clock it identifies the boot of the machine.
    pub uuid: Option<String>,
    /// Nanoseconds to add to its times: at these times, in order, and interpolated linearly between
    /// them. Times stay in order.
    pub added: Vec<(i64, i64)>,
}

impl Clock {
    /// Make a clock that counts nanoseconds since the epoch.
    #[must_use]
    pub fn new(name: String) -> Self {
        Self {
            name,
            frequency: 1_000_000_000,
            offset_seconds: 0,
            offset_cycles: 0,
            uuid: None,
            added: Vec::new(),
        }
    }

    /// Convert cycles to nanoseconds since the epoch, rounded down; `None` if beyond `i64`.
    #[must_use]
    pub fn to_ns(&self, cycles: u64) -> Option<i64> {
        let ns = self.as_recorded(cycles)?;
        if self.added.is_empty() {
            return Some(ns);
        }
        let next = self.added.partition_point(|(at, _)| *at <= ns);
        let after = self.added.get(next).or(self.added.last())?;
        let before = next.checked_sub(1).map_or(after, |at| &self.added[at]);
        let (span, rise) = (
            i128::from(after.0) - i128::from(before.0),
            i128::from(after.1) - i128::from(before.1),
        );
        let since = i128::from(ns) - i128::from(before.0);
        let part = if span == 0 {
            0
        } else {
            (rise * since).div_euclid(span)
        };
        i64::try_from(i128::from(ns) + i128::from(before.1) + part).ok()
    }

    fn as_recorded(&self, cycles: u64) -> Option<i64> {
        const SECOND: i128 = 1_000_000_000;
        let cycles = self.offset_cycles.checked_add(i128::from(cycles))?;
        let ns = if self.frequency == 1_000_000_000 {
            cycles
        } else {
            cycles
                .checked_mul(SECOND)?
                .div_euclid(i128::from(self.frequency))
        };
        let total = self.offset_seconds.checked_mul(SECOND)?.checked_add(ns)?;
        i64::try_from(total).ok()
    }

    /// Drop the offset if it lies outside of the range of times; return its years then.
    pub fn leave_out_offset(&mut self) -> Option<i128> {
        const YEAR: i128 = 31_556_952;
        if self.to_ns(0).is_some() {
            return None;
        }
        let seconds = self.offset_cycles / i128::from(self.frequency.max(1));
        let years = self.offset_seconds.saturating_add(seconds) / YEAR;
        (self.offset_seconds, self.offset_cycles) = (0, 0);
        Some(years)
    }

    /// Set the clock `ns` nanoseconds forward, as exactly as its cycles allow.
    pub fn shift(&mut self, ns: i64) {
        const SECOND: i64 = 1_000_000_000;
        let rest = i128::from(ns.rem_euclid(SECOND)) * i128::from(self.frequency);
        let seconds = i128::from(ns.div_euclid(SECOND));
        self.offset_seconds = self.offset_seconds.saturating_add(seconds);
        let cycles = rest / i128::from(SECOND);
        self.offset_cycles = self.offset_cycles.saturating_add(cycles);
    }
}

/// One kind of event.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EventClass {
    /// Number within its stream.
    pub id: u64,
    /// Name, such as `ros2:rmw_take`.
    pub name: String,
    /// Namespace, which distinguishes it from others of that name (CTF 2).
    pub namespace: Option<String>,
    /// Severity from 0 (an emergency) to 14 (debugging), as `LTTng` counts.
    pub log_level: Option<i64>,
    /// URI of the description of its model.
    pub emf_uri: Option<String>,
    /// Its own context.
    pub context: Option<Type>,
    /// Its payload.
    pub payload: Option<Type>,
}

impl EventClass {
    /// Return what follows an event's header: the stream's event context, its own, and the payload.
    #[must_use]
    pub fn scopes<'a>(&'a self, stream: &'a StreamClass) -> [Option<&'a Type>; 3] {
        [&stream.event_context, &self.context, &self.payload].map(Option::as_ref)
    }
}

/// Names of log levels in CTF 2 traces that Babeltrace writes, by number.
pub const LOG_LEVELS: [&str; 15] = [
    "emergency",
    "alert",
    "critical",
    "error",
    "warning",
    "notice",
    "info",
    "debug:system",
    "debug:program",
    "debug:process",
    "debug:module",
    "debug:unit",
    "debug:function",
    "debug:line",
    "debug",
];

/// One kind of stream.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StreamClass {
    /// Number.
    pub id: u64,
    /// The packet context, which follows the packet header.
    pub packet_context: Option<Type>,
    /// The header of each event.
    pub event_header: Option<Type>,
    /// The context that all its events have.
    pub event_context: Option<Type>,
    /// Its events, by number.
    pub events: Vec<EventClass>,
}

/// Iterate over every type of a trace, in the order in which they are decoded.
pub fn types_of(trace: &mut Trace) -> impl Iterator<Item = &mut Type> {
    trace
        .packet_header
        .iter_mut()
        .chain(trace.streams.iter_mut().flat_map(|s| {
            s.packet_context
                .iter_mut()
                .chain(s.event_header.iter_mut())
                .chain(s.event_context.iter_mut())
                .chain(
                    s.events
                        .iter_mut()
                        .flat_map(|e| e.context.iter_mut().chain(e.payload.iter_mut())),
                )
        }))
}

/// Everything the metadata of one trace declares.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Trace {
    /// The header of each packet.
    pub packet_header: Option<Type>,
    /// Byte order of numbers that have none of their own (CTF 1.8).
    pub order: Option<ByteOrder>,
    /// Identity, which is compared with that in the packets.
    pub uuid: Option<[u8; 16]>,
    /// Clocks.
    pub clocks: Vec<Clock>,
    /// Streams, by number.
    pub streams: Vec<StreamClass>,
    /// The environment, with values as text.
    pub env: Vec<(String, String)>,
    /// Number of slots that the decoder needs for values that are referred to.
    pub slots: usize,
}

impl Trace {
    /// Return a value of the environment.
    #[must_use]
    pub fn env(&self, name: &str) -> Option<&str> {
        self.env
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }
}
