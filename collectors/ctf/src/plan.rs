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

use crate::bits::chunk;
use crate::model::{
    Array, ByteOrder, EventClass, Field, Int, Length, Mapping, Reference, Role, StreamClass, Type,
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

/// A number within the first 16 bytes of an event header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeaderField {
    /// Bytes from the header's beginning.
    pub byte: usize,
    /// Bits to drop.
    pub shift: u32,
    /// Bits to keep.
    pub bits: u32,
}

impl HeaderField {
    fn new(at: u64, int: &Int) -> Option<Self> {
        let shift = u32::try_from(at % 8).ok()?;
        if int.order != ByteOrder::Little || int.signed || int.reversed || shift + int.bits > 64 {
            return None;
        }
        Some(Self {
            byte: usize::try_from(at / 8).ok()?,
            shift,
            bits: int.bits,
        })
    }

    /// Return the number of bytes from the header's beginning to its end.
    #[must_use]
    pub fn span(&self) -> usize {
        self.byte + (self.shift + self.bits).div_ceil(8) as usize
    }

    /// Return its value.
    #[must_use]
    #[inline]
    pub fn at(&self, bytes: &[u8], header: usize) -> u64 {
        let start = header + self.byte;
        let rest = &bytes[start.min(bytes.len())..];
        let word = match rest.first_chunk() {
            Some(word) => u64::from_le_bytes(*word),
            None => rest
                .iter()
                .rev()
                .fold(0, |word, byte| word << 8 | u64::from(*byte)),
        };
        word >> self.shift & crate::bits::mask(self.bits)
    }
}

/// One form of an event header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Branch {
    /// First value of the tag that chooses this form.
    pub low: u64,
    /// Last value.
    pub high: u64,
    /// Event number; `None` if the tag is the number or there is only one event.
    pub id: Option<HeaderField>,
    /// Time, and its clock.
    pub time: Option<(HeaderField, usize)>,
    /// Number of bytes.
    pub bytes: usize,
}

impl Branch {
    /// Add the integers of a structure; `None` if one cannot be read flat.
    fn place(&mut self, fields: &[Field], place: &mut Placer) -> Option<()> {
        for field in fields {
            let Type::Int(int) = &field.kind else {
                return None;
            };
            let placed = place.int(int)?;
            match int.clock {
                Some(clock) if self.time.is_none() => self.time = Some((placed, clock)),
                // Each time moves the clock.
                Some(_) => return None,
                None if int.roles.contains(&Role::EventClass) => self.id = Some(placed),
                None => {}
            }
        }
        Some(())
    }

    /// Return it with its number of bytes; `None` if that is not a whole number.
    fn whole(mut self, place: &Placer) -> Option<Self> {
        self.bytes = usize::try_from(place.at / 8).ok()?;
        place.at.is_multiple_of(8).then_some(self)
    }
}

/// A form of an event header whose number and time are in its first eight bytes, and which needs
/// no alignment, as in nearly all events of `LTTng`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Short {
    /// Bits of the first word that are the number.
    pub id_mask: u64,
    /// First number that has this form.
    pub low: u64,
    /// Last number.
    pub high: u64,
    /// Bit at which the time begins.
    pub shift: u32,
    /// Bits of the time.
    pub mask: u64,
    /// Clock of the time.
    pub clock: usize,
    /// Number of bytes.
    pub bytes: usize,
}

/// An event header whose forms all have fixed layouts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlatHeader {
    /// Alignment in bytes.
    pub align: u64,
    /// Event number, or the tag that chooses the form.
    pub tag: Option<HeaderField>,
    /// Forms.
    pub branches: Vec<Branch>,
    /// The first form, if it is short.
    pub short: Option<Short>,
}

impl FlatHeader {
    fn short(&self) -> Option<Short> {
        let (tag, first) = (self.tag?, self.branches.first()?);
        let (time, clock) = first.time?;
        let shift = u32::try_from(time.byte).ok()? * 8 + time.shift;
        let fits = self.align == 1
            && (tag.byte, tag.shift) == (0, 0)
            && first.id.is_none()
            && first.low <= first.high
            && tag.bits < 64
            && time.bits < 64
            && shift + time.bits <= 64;
        fits.then(|| Short {
            id_mask: crate::bits::mask(tag.bits),
            low: first.low,
            high: first.high,
            shift,
            mask: crate::bits::mask(time.bits),
            clock,
            bytes: first.bytes,
        })
    }
}

/// Most bits of a header that is read flat.
const MAX_HEADER: u64 = 16 * 8;

/// Return the flat form of a stream's event header, if it has one: `LTTng`'s headers (compact,
/// large) and simple structures do.
#[must_use]
pub fn flat_header(stream: &StreamClass) -> Option<FlatHeader> {
    let Some(kind) = &stream.event_header else {
        return None;
    };
    let header = kind.as_struct()?;
    let align = kind.align();
    if !align.is_multiple_of(8) {
        return None;
    }
    let (fields, variant) = match header.fields.split_last() {
        Some((last, before)) if matches!(last.kind, Type::Variant(_)) => (before, Some(&last.kind)),
        _ => (header.fields.as_slice(), None),
    };
    let mut place = Placer { at: 0, align };
    let mut common = Branch {
        low: 0,
        high: u64::MAX,
        id: None,
        time: None,
        bytes: 0,
    };
    common.place(fields, &mut place)?;
    let tag = common.id.take();
    let branches = match variant {
        Some(Type::Variant(variant)) => {
            // The form is chosen by the event number before it.
            let id = fields.iter().find(|f| tells_event(&f.kind))?;
            let Some(Reference::Slot(slot)) = &variant.tag else {
                return None;
            };
            if id.slot != Some(*slot) {
                return None;
            }
            let forms = variant.choices.iter().map(|(low, high, option)| {
                let kind = &variant.options[*option].kind;
                let mut place = place.clone();
                let mut form = Branch {
                    low: u64::try_from(*low).ok()?,
                    high: u64::try_from(*high).ok()?,
                    ..common
                };
                place.align(kind.align())?;
                form.place(&kind.as_struct()?.fields, &mut place)?;
                form.whole(&place)
            });
            forms.collect::<Option<_>>()?
        }
        _ => vec![common.whole(&place)?],
    };
    let mut header = FlatHeader {
        align: align / 8,
        tag,
        branches,
        short: None,
    };
    header.short = header.short();
    Some(header)
}

fn tells_event(kind: &Type) -> bool {
    matches!(kind, Type::Int(int) if int.roles.contains(&Role::EventClass))
}

#[derive(Clone)]
struct Placer {
    at: u64,
    align: u64,
}

impl Placer {
    fn align(&mut self, align: u64) -> Option<()> {
        if align > self.align {
            return None;
        }
        self.at = crate::bits::align_up(self.at, align);
        Some(())
    }

    fn int(&mut self, int: &Int) -> Option<HeaderField> {
        self.align(int.align)?;
        let field = HeaderField::new(self.at, int)?;
        self.at += u64::from(int.bits);
        (self.at <= MAX_HEADER).then_some(field)
    }
}
