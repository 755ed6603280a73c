//! What the metadata declares, independent of the language it was written in.

/// Byte order of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ByteOrder {
    /// Least significant byte (and bit) first.
    Little,
    /// Most significant byte (and bit) first.
    Big,
}

/// An integer of 1 to 64 bits.
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
}

impl Int {
    /// Whether it fills whole bytes of a size that machines can load at once.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        matches!(self.bits, 8 | 16 | 32 | 64) && self.align.is_multiple_of(8)
    }
}

/// An IEEE 754 number of 32 or 64 bits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Float {
    /// 32 or 64.
    pub bits: u32,
    /// Alignment in bits.
    pub align: u64,
    /// Byte order.
    pub order: ByteOrder,
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
        self.mappings
            .iter()
            .find(|m| m.low <= value && value <= m.high)
            .map(|m| m.label.as_str())
    }
}

/// A reference to an integer decoded before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reference {
    /// As written, with its place in the text; gone once the trace is complete.
    Path(Vec<String>, (u32, u32)),
    /// The slot in which the decoder keeps the value.
    Slot(usize),
}

/// The number of elements of an array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Length {
    /// Always the same.
    Fixed(u64),
    /// Held by a field decoded before.
    Field(Reference),
}

/// An array or sequence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Array {
    /// Type of the elements.
    pub element: Type,
    /// How many.
    pub length: Length,
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
    /// Name as written.
    pub name: String,
    /// Type.
    pub kind: Type,
    /// Where the decoder keeps its value, if something refers to it.
    pub slot: Option<usize>,
}

impl Field {
    /// The name without the one underscore that `LTTng` puts before it.
    #[must_use]
    pub fn public_name(&self) -> &str {
        public_name(&self.name)
    }
}

/// A name without the one underscore that `LTTng` puts before it.
#[must_use]
pub fn public_name(name: &str) -> &str {
    match name.strip_prefix('_') {
        Some(rest) if !rest.is_empty() => rest,
        _ => name,
    }
}

/// A structure.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Struct {
    /// Members in order.
    pub fields: Vec<Field>,
    /// Alignment in bits asked for, beside that of its members; 0 or 1 for none.
    pub min_align: u64,
}

/// One of several types, chosen by an enumeration decoded before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variant {
    /// The enumeration.
    pub tag: Option<Reference>,
    /// The types.
    pub options: Vec<Field>,
    /// Values of the tag and the option they choose.
    pub choices: Vec<(i128, i128, usize)>,
}

/// A type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Type {
    /// Integer.
    Int(Int),
    /// Floating point number.
    Float(Float),
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
}

impl Type {
    /// Alignment in bits.
    #[must_use]
    pub fn align(&self) -> u64 {
        match self {
            Self::Int(i) => i.align,
            Self::Float(f) => f.align,
            Self::Enum(e) => e.int.align,
            Self::Text => 8,
            Self::Array(a) => a.element.align(),
            Self::Struct(s) => s
                .fields
                .iter()
                .map(|f| f.kind.align())
                .fold(s.min_align.max(1), u64::max),
            Self::Variant(_) => 1,
        }
    }

    /// Number of nodes in its tree.
    #[must_use]
    pub fn size(&self) -> usize {
        match self {
            Self::Int(_) | Self::Float(_) | Self::Text => 1,
            Self::Enum(e) => 1 + e.mappings.len(),
            Self::Array(a) => 1 + a.element.size(),
            Self::Struct(s) => 1 + s.fields.iter().map(|f| f.kind.size()).sum::<usize>(),
            Self::Variant(v) => 1 + v.options.iter().map(|f| f.kind.size()).sum::<usize>(),
        }
    }

    /// Number of nested levels.
    #[must_use]
    pub fn depth(&self) -> usize {
        match self {
            Self::Array(a) => 1 + a.element.depth(),
            Self::Struct(Struct { fields, .. })
            | Self::Variant(Variant {
                options: fields, ..
            }) => 1 + fields.iter().map(|f| f.kind.depth()).max().unwrap_or(0),
            _ => 1,
        }
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
}

impl Clock {
    /// Nanoseconds since the epoch, rounded down; `None` beyond the range of `i64`.
    #[must_use]
    pub fn to_ns(&self, cycles: u64) -> Option<i64> {
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
}

/// One kind of event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventClass {
    /// Number within its stream.
    pub id: u64,
    /// Name, such as `ros2:rmw_take`.
    pub name: String,
    /// Its own context.
    pub context: Option<Type>,
    /// Its payload.
    pub payload: Option<Type>,
}

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

/// Everything the metadata of one trace declares.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Trace {
    /// What begins each packet.
    pub packet_header: Option<Type>,
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
