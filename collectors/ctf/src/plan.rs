//! Compile event classes to flat plans.
//!
//! The contexts and the payload of an event are cut into *segments*: runs in which every field lies
//! at a fixed distance from the segment's first byte. A segment ends where something of varying
//! length begins (text, a sequence) or where alignment is not known beforehand. The part of fixed
//! size is copied at once, and a column is read with nothing but `segment + distance`.
//!
//! Layouts that do not fit (fields off byte borders, variants, arrays of structures) keep the
//! general decoder of [`crate::walk`].

use std::collections::HashMap;
use std::sync::Arc;

use crate::bits::{align_up, chunk, mask};
use crate::model::{
    Array, ByteOrder, EventClass, Int, Length, Mapping, Reference, Role, StreamClass, Type,
};

/// Step over all segments of an event; `None` if it reaches beyond `end`.
#[must_use]
pub fn over(segments: &[Segment], bytes: &[u8], end: usize, at: usize) -> Option<usize> {
    walk_segments(segments, bytes, end, at, |_, _, _| ())
}

/// Step over all segments of an event; return its end, or `None` if it reaches beyond `end`. `each`
/// gets every segment's number, bytes of fixed size, and bytes of varying size after them.
#[inline]
pub fn walk_segments<'a>(
    segments: &[Segment],
    bytes: &'a [u8],
    end: usize,
    mut at: usize,
    mut each: impl FnMut(usize, &'a [u8], &'a [u8]),
) -> Option<usize> {
    let bytes = bytes.get(..end)?;
    // The length of a sequence is in a segment before it, or in its own.
    let mut bases = [0; MAX_SEGMENTS];
    for (number, segment) in segments.iter().enumerate() {
        let align = segment.align as usize;
        let base = at.checked_add(align - 1)? & !(align - 1);
        let fixed_end = base + segment.fixed as usize;
        let fixed = bytes.get(base..fixed_end)?;
        bases[number] = base;
        at = match segment.end {
            End::Aligned => fixed_end,
            End::Text => fixed_end + memchr::memchr(0, &bytes[fixed_end..])? + 1,
            End::Sequence(spot, load, element) => {
                let length = load.at(bytes, bases[spot.segment] + spot.offset);
                let length = usize::try_from(length).ok()?;
                fixed_end.checked_add(length.checked_mul(element as usize)?)?
            }
        };
        each(number, fixed, bytes.get(fixed_end..at)?);
    }
    Some(at)
}

/// How to load a number from whole bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// 1, 2, 4 or 8.
    pub bytes: u32,
    /// Byte order.
    pub order: ByteOrder,
    /// Whether to extend the sign.
    pub signed: bool,
    /// Whether it is a floating point number.
    pub float: bool,
}

impl Load {
    fn new(int: &Int, float: bool) -> Self {
        Self {
            bytes: int.bits / 8,
            order: int.order,
            signed: int.signed,
            float,
        }
    }

    /// Load the number at `at`, as 64 bits with its sign extended.
    #[must_use]
    #[inline]
    #[expect(clippy::cast_sign_loss, reason = "sign extension")]
    pub fn at(self, bytes: &[u8], at: usize) -> u64 {
        macro_rules! load {
            ($unsigned:ty, $signed:ty) => {{
                let raw = chunk(bytes, at);
                let value = match self.order {
                    ByteOrder::Little => <$unsigned>::from_le_bytes(raw),
                    ByteOrder::Big => <$unsigned>::from_be_bytes(raw),
                };
                if self.signed {
                    i64::from(value.cast_signed()) as u64
                } else {
                    u64::from(value)
                }
            }};
        }
        match self.bytes {
            1 => load!(u8, i8),
            2 => load!(u16, i16),
            4 => load!(u32, i32),
            _ => load!(u64, i64),
        }
    }
}

/// The place of a field of fixed size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spot {
    /// Segment.
    pub segment: usize,
    /// Bytes from its beginning.
    pub offset: usize,
}

/// What a segment ends with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Nothing: the next segment begins at its own alignment.
    Aligned,
    /// Text up to and with a NUL.
    Text,
    /// Elements: where their number is, how it is loaded, and the bytes of an element.
    Sequence(Spot, Load, u32),
}

/// A run of bytes at fixed distances.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// Alignment of its first byte, in bytes.
    pub align: u32,
    /// Bytes of fixed size.
    pub fixed: u32,
    /// What follows the bytes of fixed size.
    pub end: End,
}

/// Where a column's values come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A number.
    Number(Spot, Load),
    /// An integer with labels.
    Enum(Spot, Load, Arc<[Mapping]>),
    /// Text up to the first NUL: in this many bytes, or in those of varying size.
    Chars(Spot, Option<usize>),
    /// Numbers: this many, or as many as there are in the bytes of varying size.
    Numbers(Spot, Option<usize>, Load),
    /// Members.
    Struct(Vec<Source>),
}

impl Source {
    /// Return where its fixed-size part ends, in bytes from the beginning of its segment.
    #[must_use]
    pub fn end(&self) -> usize {
        match self {
            Self::Number(spot, load) | Self::Enum(spot, load, _) => {
                spot.offset + load.bytes as usize
            }
            Self::Chars(spot, count) => spot.offset + count.unwrap_or(0),
            Self::Numbers(spot, count, load) => {
                spot.offset + count.unwrap_or(0) * load.bytes as usize
            }
            Self::Struct(members) => members.iter().map(Self::end).max().unwrap_or(0),
        }
    }
}

/// How an event class is decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Plan {
    /// With these segments, and the source of each column of the table from
    /// [`crate::catalog::GIVEN`] on.
    Flat(Vec<Segment>, Vec<Option<Source>>),
    /// With the general decoder.
    General,
}

/// Largest fixed part of an event that is planned flat.
const MAX_FIXED: usize = 1 << 12;
/// Most segments of an event that is planned flat.
const MAX_SEGMENTS: usize = 64;

/// Compile the flat plan of an event class, if it has one: its segments, and the source of each
/// top-level field of the stream's event context, the event's own context and the payload.
#[must_use]
pub fn compile(
    stream: &StreamClass,
    event: &EventClass,
) -> Option<(Vec<Segment>, [Vec<Source>; 3])> {
    // Segments begin at whole bytes.
    if !stream.event_header.as_ref().is_some_and(is_in_bytes) {
        return None;
    }
    let mut compiler = Compiler {
        segments: vec![OPEN],
        slots: HashMap::new(),
    };
    let mut sources = [const { Vec::new() }; 3];
    for (kind, sources) in event.scopes(stream).into_iter().zip(&mut sources) {
        if let Some(kind) = kind
            && let Source::Struct(members) = compiler.field(kind)?
        {
            *sources = members;
        }
    }
    let mut segments = compiler.segments;
    if segments.len() > 1 && segments.last() == Some(&OPEN) {
        segments.pop();
    }
    (segments.len() <= MAX_SEGMENTS).then_some((segments, sources))
}

const OPEN: Segment = Segment {
    align: 1,
    fixed: 0,
    end: End::Aligned,
};

struct Compiler {
    segments: Vec<Segment>,
    slots: HashMap<usize, (Spot, Load)>,
}

impl Compiler {
    fn last(&mut self) -> &mut Segment {
        let last = self.segments.len() - 1;
        &mut self.segments[last]
    }

    /// Align the next field to `bits`; `None` if that is not a number of whole bytes.
    fn align(&mut self, bits: u64) -> Option<()> {
        if !bits.is_multiple_of(8) {
            return None;
        }
        let align = u32::try_from(bits / 8).ok()?;
        let segment = self.last();
        if align <= segment.align {
            segment.fixed = segment.fixed.next_multiple_of(align);
        } else if segment.fixed == 0 {
            segment.align = align;
        } else {
            self.segments.push(Segment { align, ..OPEN });
        }
        Some(())
    }

    fn fixed(&mut self, align: u64, bytes: usize) -> Option<Spot> {
        self.align(align)?;
        if bytes == 0 {
            return None;
        }
        let spot = self.here();
        let segment = self.last();
        let fixed = (segment.fixed as usize).checked_add(bytes)?;
        if fixed > MAX_FIXED {
            return None;
        }
        segment.fixed = u32::try_from(fixed).ok()?;
        Some(spot)
    }

    fn here(&mut self) -> Spot {
        Spot {
            segment: self.segments.len() - 1,
            offset: self.last().fixed as usize,
        }
    }

    fn end(&mut self, end: End) {
        self.last().end = end;
        self.segments.push(OPEN);
    }

    fn field(&mut self, kind: &Type) -> Option<Source> {
        match kind {
            Type::Int(int) | Type::Float(int) => {
                let load = load_of(kind)?;
                let spot = self.fixed(int.align, load.bytes as usize)?;
                Some(if int.mappings.is_empty() {
                    Source::Number(spot, load)
                } else {
                    Source::Enum(spot, load, int.mappings.as_slice().into())
                })
            }
            Type::Text => {
                self.align(8)?;
                let spot = self.here();
                self.end(End::Text);
                Some(Source::Chars(spot, None))
            }
            Type::Array(array) => self.array(array),
            Type::Struct(s) => {
                if kind.align() > 1 {
                    self.align(kind.align())?;
                }
                let mut members = Vec::with_capacity(s.fields.len());
                for field in &s.fields {
                    let source = self.field(&field.kind)?;
                    if let Some(slot) = field.slot {
                        let (Source::Number(spot, load) | Source::Enum(spot, load, _)) = &source
                        else {
                            return None;
                        };
                        self.slots.insert(slot, (*spot, *load));
                    }
                    members.push(source);
                }
                Some(Source::Struct(members))
            }
            _ => None,
        }
    }

    fn array(&mut self, array: &Array) -> Option<Source> {
        let load = load_of(&array.element)?;
        if matches!(&array.element, Type::Int(int) if !int.mappings.is_empty()) {
            return None;
        }
        let align = array.element.align().max(array.min_align);
        // Elements must be contiguous.
        if array.element.align() > u64::from(load.bytes) * 8 {
            return None;
        }
        let (spot, count) = match &array.length {
            Length::Fixed(length) => {
                let length = usize::try_from(*length).ok()?;
                let spot = self.fixed(align, length.checked_mul(load.bytes as usize)?)?;
                (spot, Some(length))
            }
            Length::Field(Reference::Slot(slot)) => {
                let (at, how) = *self.slots.get(slot)?;
                self.align(align)?;
                let here = self.here();
                self.end(End::Sequence(at, how, load.bytes));
                (here, None)
            }
            Length::Field(Reference::Unresolved(_)) => return None,
        };
        Some(if array.is_text() {
            Source::Chars(spot, count)
        } else {
            Source::Numbers(spot, count, load)
        })
    }
}

/// Return how to load a number of a type from whole bytes; `None` if that cannot be done.
fn load_of(kind: &Type) -> Option<Load> {
    match kind {
        // A clock value in the payload moves the clock, which the scan of segments would miss.
        Type::Int(int) if int.is_plain() && int.clock.is_none() => Some(Load::new(int, false)),
        Type::Float(float) if float.is_plain() && float.bits > 16 => Some(Load::new(float, true)),
        _ => None,
    }
}

/// The usual form of an event header: the event's number and a time, each in a word at a fixed byte.
/// All others are left to the general decoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlatHeader {
    /// Alignment in bytes.
    pub align: usize,
    /// Bits of the first word that are the number.
    pub id_mask: u64,
    /// First number that has this form.
    pub low: u64,
    /// Last number.
    pub high: u64,
    /// Byte at which the word with the time begins, at most 8.
    pub time_at: usize,
    /// Bit of that word at which the time begins.
    pub shift: u32,
    /// Bits of the time.
    pub mask: u64,
    /// Clock of the time.
    pub clock: usize,
    /// Number of bytes.
    pub bytes: usize,
}

/// Return the first form of a stream's event header, if it is flat: `LTTng`'s headers (compact,
/// large) and simple structures are.
#[must_use]
pub fn flat_header(stream: &StreamClass) -> Option<FlatHeader> {
    let kind = stream.event_header.as_ref()?;
    let (mut id, mut time, mut form) = (None, None, None);
    let mut end = 0;
    let mut fields = kind.as_struct()?.fields.iter();
    while let Some(field) = fields.next() {
        match &field.kind {
            Type::Int(int) if int.order == ByteOrder::Little && !int.signed && !int.reversed => {
                let at = align_up(end, int.align);
                end = at + u64::from(int.bits);
                match int.clock {
                    Some(clock) if time.is_none() => time = Some((at, int.bits, clock)),
                    None if !int.roles.contains(&Role::EventClass) => {}
                    None if at == 0 => id = Some((int.bits, field.slot)),
                    // Each time moves the clock.
                    _ => return None,
                }
            }
            // The number chooses one of several forms.
            Type::Variant(variant) if form.is_none() && fields.len() == 0 => {
                let (low, high, option) = *variant.choices.first()?;
                let option = &variant.options[option].kind;
                let Some(Reference::Slot(tag)) = &variant.tag else {
                    return None;
                };
                if id?.1 != Some(*tag) || option.align() > kind.align() {
                    return None;
                }
                form = Some((u64::try_from(low).ok()?, u64::try_from(high).ok()?));
                end = align_up(end, option.align());
                fields = option.as_struct()?.fields.iter();
            }
            _ => return None,
        }
    }
    let ((id_bits, _), (time_at, time_bits, clock)) = (id?, time?);
    let (low, high) = form.unwrap_or((0, u64::MAX));
    let (byte, shift) = (time_at / 8, (time_at % 8) as u32);
    let fits = kind.align().is_multiple_of(8)
        && end.is_multiple_of(8)
        && byte <= 8
        && shift + time_bits <= 64;
    (fits && low <= high).then_some(FlatHeader {
        align: usize::try_from(kind.align() / 8).ok()?,
        id_mask: mask(id_bits),
        low,
        high,
        time_at: usize::try_from(byte).ok()?,
        shift,
        mask: mask(time_bits),
        clock,
        bytes: usize::try_from(end / 8).ok()?,
    })
}

/// Whether an event header begins and ends at whole bytes, in all its forms.
fn is_in_bytes(header: &Type) -> bool {
    header.align().is_multiple_of(8) && bit_after(header, 0) == Some(0)
}

/// Return the bit of a byte at which a field ends that begins at `bit`, if that does not vary.
fn bit_after(kind: &Type, bit: u64) -> Option<u64> {
    match kind {
        Type::Int(int) => Some((align_up(bit, int.align) + u64::from(int.bits)) % 8),
        Type::Struct(s) => {
            let mut fields = s.fields.iter();
            fields.try_fold(align_up(bit, kind.align()) % 8, |bit, field| {
                bit_after(&field.kind, bit)
            })
        }
        Type::Variant(variant) => {
            let mut ends = variant.options.iter().map(|o| bit_after(&o.kind, bit));
            let first = ends.next()?;
            first.filter(|_| ends.all(|end| end == first))
        }
        _ => None,
    }
}
