//! What the metadata declares, independent of the language it was written in.

use std::fmt;
use std::sync::Arc;

use crate::error::Place;

/// Deepest nesting of types.
pub(crate) const MAX_DEPTH: usize = 512;
/// Bits of the widest integer: as decimal text it costs their square.
pub(crate) const MAX_BITS: u32 = 4096;
/// Most type nodes that named types may expand to: beyond any real trace, short of a bomb.
pub(crate) const MAX_NODES: usize = 4_000_000;

/// Byte order of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ByteOrder {
    /// Least significant byte (and bit) first.
    Little,
    /// Most significant byte (and bit) first.
    Big,
}

/// What a field of a packet's head or of an event's header tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// That a packet begins here.
    Magic,
    /// Stream class.
    StreamClass,
    /// Which of the streams of that class.
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
}

/// A set of roles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Roles(u16);

impl Roles {
    /// Add one.
    pub fn insert(&mut self, role: Role) {
        self.0 |= 1 << role as u16;
    }

    /// Whether `role` is among them.
    #[must_use]
    pub fn contains(self, role: Role) -> bool {
        self.0 >> role as u16 & 1 == 1
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// An integer, or how another number is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Int {
    /// Width.
    pub bits: u32,
    /// Alignment in bits, a power of two.
    pub align: u64,
    /// Two's complement, or unsigned.
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
    /// What it tells the decoder.
    pub roles: Roles,
}

impl Int {
    /// An unsigned integer with nothing special about it.
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
            roles: Roles::default(),
        }
    }

    /// Whether it fills whole bytes of a size that machines can load at once.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        matches!(self.bits, 8 | 16 | 32 | 64) && self.align.is_multiple_of(8) && !self.reversed
    }
}

/// An integer of as many bytes as its value needs (LEB128, CTF 2).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VarInt {
    /// Two's complement, or unsigned.
    pub signed: bool,
    /// The clock whose value it holds, as index into [`Trace::clocks`].
    pub clock: Option<usize>,
    /// Base in which to show it: 2, 8, 10 or 16.
    pub base: u8,
    /// What it tells the decoder.
    pub roles: Roles,
    /// Labels in the order of declaration; the first that holds wins.
    pub mappings: Vec<Mapping>,
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

/// An integer with labels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Enum {
    /// How the value is stored.
    pub int: Int,
    /// Labels in the order of declaration; the first that holds wins.
    pub mappings: Vec<Mapping>,
}

impl Enum {
    /// The first label of `value`.
    #[must_use]
    pub fn label(&self, value: i128) -> Option<&str> {
        label(&self.mappings, value)
    }
}

/// The first label of `value`.
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
    /// Bytes of its unit.
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
    /// Bytes; none for text that ends with a zero unit.
    pub length: Option<Length>,
}

/// A reference to an integer decoded before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reference {
    /// As written, with its place; gone once the trace is complete.
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
    /// The structures around it, as written (CTF 1.8).
    pub lexical: Option<Arc<Lexical>>,
}

/// A structure around a place in the metadata text, and those around that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lexical {
    /// Its number, as in [`Struct::scope`].
    pub scope: usize,
    /// How many of its fields are declared before that place.
    pub fields: usize,
    /// What is around it.
    pub outer: Option<Arc<Lexical>>,
}

/// Names to follow to a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Path {
    /// TSDL: absolute, or relative to any enclosing scope.
    Names(Vec<String>),
    /// CTF 2: from a root (0 the packet's header to 5 the event's payload) or from the structure
    /// around; `None` steps to the structure around the present one.
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
    /// Always the same.
    Fixed(u64),
    /// Held by a field decoded before.
    Field(Reference),
}

impl Length {
    /// The reference, if there is one.
    pub fn reference(&mut self) -> Option<&mut Reference> {
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
    /// How many.
    pub length: Length,
    /// Alignment in bits asked for, beside that of its elements; 0 or 1 for none.
    pub min_align: u64,
    /// Whether it is the UUID of the metadata, repeated in packets.
    pub uuid: bool,
}

impl Array {
    /// Whether it is text: characters of 8 bits.
    #[must_use]
    pub fn is_text(&self) -> bool {
        matches!(&self.element, Type::Int(i) if i.text && i.bits == 8 && i.is_plain())
    }
}

/// A member of a structure, or an option of a variant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Name.
    pub name: String,
    /// Type.
    pub kind: Type,
    /// Where the decoder keeps its value, if something refers to it.
    pub slot: Option<usize>,
}

/// A structure.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Struct {
    /// Members in order.
    pub fields: Vec<Field>,
    /// Alignment in bits asked for, beside that of its members; 0 or 1 for none.
    pub min_align: u64,
    /// Number of the text between braces that declares it, which copies share (CTF 1.8).
    pub scope: usize,
}

/// One of several types, chosen by an enumeration or integer decoded before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variant {
    /// What chooses.
    pub tag: Option<Reference>,
    /// The types.
    pub options: Vec<Field>,
    /// Values of the tag and the option they choose.
    pub choices: Vec<(i128, i128, usize)>,
    /// Slots that its options fill, which are empty unless the chosen one does.
    pub clears: Vec<usize>,
}

/// A type that is there or not, as a field decoded before tells (CTF 2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Optional {
    /// What tells.
    pub selector: Reference,
    /// Values with which it is there; none if the selector is a boolean.
    pub ranges: Vec<(i128, i128)>,
    /// The type. A field, as others may refer to its value.
    pub field: Field,
    /// Slots that it fills, which are empty where it is not there.
    pub clears: Vec<usize>,
}

/// A type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Type {
    /// Integer of 1 to 64 bits.
    Int(Int),
    /// Integer of more than 64 bits. Nothing can refer to it, and it tells the decoder nothing.
    WideInt(Int),
    /// IEEE 754 number of 16, 32 or 64 bits.
    Float(Int),
    /// Enumeration.
    Enum(Enum),
    /// Text that ends with a NUL byte.
    Text,
    /// Array or sequence.
    Array(Box<Array>),
    /// Structure.
    Struct(Struct),
    /// Variant.
    Variant(Variant),
    /// Integer of varying length.
    VarInt(VarInt),
    /// True unless all bits are zero.
    Bool(Int),
    /// Bits with names.
    BitMap(BitMap),
    /// Text of UTF-16 or UTF-32.
    WideText(WideText),
    /// Something that may be absent.
    Optional(Box<Optional>),
}

impl Type {
    /// Alignment in bits.
    #[must_use]
    pub fn align(&self) -> u64 {
        match self {
            Self::Int(i) | Self::Bool(i) | Self::WideInt(i) | Self::Float(i) => i.align,
            Self::Enum(e) => e.int.align,
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

    /// Members of a structure, options of a variant, and what is optional.
    #[must_use]
    pub fn fields(&self) -> &[Field] {
        match self {
            Self::Optional(o) => std::slice::from_ref(&o.field),
            Self::Struct(s) => &s.fields,
            Self::Variant(v) => &v.options,
            _ => &[],
        }
    }

    /// The same, to be changed.
    pub fn fields_mut(&mut self) -> &mut [Field] {
        match self {
            Self::Optional(o) => std::slice::from_mut(&mut o.field),
            Self::Struct(s) => &mut s.fields,
            Self::Variant(v) => &mut v.options,
            _ => &mut [],
        }
    }

    /// The types that it is made of, in order: those of its fields or, of an array, of its elements.
    pub fn below(&self) -> impl Iterator<Item = &Self> {
        let element = match self {
            Self::Array(a) => Some(&a.element),
            _ => None,
        };
        let fields = self.fields().iter().map(|f| &f.kind);
        element.into_iter().chain(fields)
    }

    /// The same, to be changed.
    pub fn below_mut(&mut self) -> impl Iterator<Item = &mut Self> {
        let (element, fields) = match self {
            Self::Array(a) => (Some(&mut a.element), &mut [][..]),
            kind => (None, kind.fields_mut()),
        };
        let fields = fields.iter_mut().map(|f| &mut f.kind);
        element.into_iter().chain(fields)
    }

    /// Number of nodes in its tree.
    #[must_use]
    pub fn size(&self) -> usize {
        let labels = match self {
            Self::Enum(e) => e.mappings.len(),
            Self::VarInt(v) => v.mappings.len(),
            Self::BitMap(b) => b.flags.len(),
            _ => 0,
        };
        1 + labels + self.below().map(Self::size).sum::<usize>()
    }

    /// Number of nested levels.
    #[must_use]
    pub fn depth(&self) -> usize {
        1 + self.below().map(Self::depth).max().unwrap_or(0)
    }

    /// Call `visit` with this type and all below it, outer before inner.
    pub fn visit(&mut self, visit: &mut impl FnMut(&mut Self)) {
        visit(self);
        self.below_mut().for_each(|kind| kind.visit(visit));
    }

    /// The structure, if it is one.
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
    /// Cycles to add to that.
    pub offset_cycles: i128,
    /// Which clock of all it is; of `LTTng`'s the boot of the machine.
    pub uuid: Option<String>,
    /// What is added to its times, in nanoseconds: at these times, in their order, and straight
    /// between them. Times stay in their order.
    pub added: Vec<(i64, i64)>,
}

impl Clock {
    /// One that counts nanoseconds since the epoch.
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

    /// Nanoseconds since the epoch, rounded down; `None` beyond the range of `i64`.
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

    /// Count from zero where the offset lies outside of the range of times; its years then.
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

    /// Set it `ns` nanoseconds forward, as exactly as its cycles allow.
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
    /// What tells it apart from others of that name (CTF 2).
    pub namespace: Option<String>,
    /// How severe, from 0 (an emergency) to 14 (debugging), as `LTTng` counts.
    pub log_level: Option<i64>,
    /// Where its model is described.
    pub emf_uri: Option<String>,
    /// Its own context.
    pub context: Option<Type>,
    /// Its payload.
    pub payload: Option<Type>,
}

impl EventClass {
    /// What follows an event's header: the context of the stream, its own, and the payload.
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
    /// What begins each packet, after the packet header.
    pub packet_context: Option<Type>,
    /// What begins each event.
    pub event_header: Option<Type>,
    /// The context that all its events have.
    pub event_context: Option<Type>,
    /// Its events, by number.
    pub events: Vec<EventClass>,
}

/// Every type of a trace, in the order in which they are decoded.
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
    /// What begins each packet.
    pub packet_header: Option<Type>,
    /// Byte order of numbers that have none of their own (CTF 1.8).
    pub order: Option<ByteOrder>,
    /// Identity, compared with that in the packets.
    pub uuid: Option<[u8; 16]>,
    /// Clocks.
    pub clocks: Vec<Clock>,
    /// Streams, by number.
    pub streams: Vec<StreamClass>,
    /// The environment, values as text.
    pub env: Vec<(String, String)>,
    /// Number of slots that the decoder needs for referred values.
    pub slots: usize,
}

impl Trace {
    /// A value of the environment.
    #[must_use]
    pub fn env(&self, name: &str) -> Option<&str> {
        self.env
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }
}
