//! The general decoder: one field after the other, any layout.

use crate::bits::{align_up, extend, mask, number, read};
use crate::columns::Column;
use crate::model::{Array, Field, Int, Length, Reference, Trace, Type, Variant};

/// Why decoding stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// The bytes end before the field does.
    End,
    /// The bytes contradict the metadata.
    Bad(String),
}

/// A place in a packet.
#[derive(Debug, Clone)]
pub struct Cursor<'a> {
    /// The packet, as far as it is there.
    pub bytes: &'a [u8],
    /// Bit to read next.
    pub at: u64,
    /// First bit that is no content.
    pub end: u64,
}

impl<'a> Cursor<'a> {
    fn bits(&mut self, int: &Int) -> Result<u64, Stop> {
        let at = align_up(self.at, int.align);
        let end = at + u64::from(int.bits);
        if end > self.end {
            return Err(Stop::End);
        }
        let value = read(self.bytes, at, int.bits, int.order).ok_or(Stop::End)?;
        self.at = end;
        Ok(value)
    }

    fn align(&mut self, align: u64) {
        self.at = align_up(self.at, align);
    }

    /// `length` whole bytes.
    fn take(&mut self, length: u64) -> Result<&'a [u8], Stop> {
        self.align(8);
        let first = usize::try_from(self.at / 8).map_err(|_| Stop::End)?;
        let length = usize::try_from(length).map_err(|_| Stop::End)?;
        let last = first.checked_add(length).ok_or(Stop::End)?;
        let span = self.bytes.get(first..last).ok_or(Stop::End)?;
        let end = last as u64 * 8;
        if end > self.end {
            return Err(Stop::End);
        }
        self.at = end;
        Ok(span)
    }

    /// The bytes up to the next NUL, and step over that.
    fn text(&mut self) -> Result<&'a [u8], Stop> {
        self.align(8);
        let first = usize::try_from(self.at / 8).map_err(|_| Stop::End)?;
        let last = usize::try_from(self.end / 8).map_err(|_| Stop::End)?;
        let rest = self
            .bytes
            .get(first..last.min(self.bytes.len()))
            .ok_or(Stop::End)?;
        let length = memchr::memchr(0, rest).ok_or(Stop::End)?;
        self.at = (first + length + 1) as u64 * 8;
        Ok(&rest[..length])
    }
}

/// What decoding remembers from one field to the next.
#[derive(Debug, Clone, Default)]
pub struct State {
    /// Values that lengths and tags refer to.
    pub slots: Vec<i128>,
    /// Last value of each clock, in cycles.
    pub clocks: Vec<u64>,
    /// The clock last read.
    pub clock: Option<usize>,
}

impl State {
    /// At the beginning of a packet.
    #[must_use]
    pub fn new(trace: &Trace) -> Self {
        Self {
            slots: vec![0; trace.slots],
            clocks: vec![0; trace.clocks.len()],
            clock: None,
        }
    }
}

/// The clock after reading its lowest `bits` bits: it never goes back, so a lower value means
/// that it has wrapped once.
#[must_use]
pub fn advance(clock: u64, value: u64, bits: u32) -> u64 {
    if bits >= 64 {
        return value;
    }
    let mask = mask(bits);
    let same = clock & !mask | value;
    if value < clock & mask {
        same.wrapping_add(mask + 1)
    } else {
        same
    }
}

/// Text up to its first NUL.
#[must_use]
pub fn until_nul(bytes: &[u8]) -> &[u8] {
    memchr::memchr(0, bytes).map_or(bytes, |at| &bytes[..at])
}

/// Decode one field into `out`, or step over it. Returns the value of an integer or enumeration.
///
/// # Errors
///
/// See [`Stop`]. `out` is then left with parts of different lengths.
pub fn walk(
    cursor: &mut Cursor<'_>,
    kind: &Type,
    state: &mut State,
    mut out: Option<&mut Column>,
) -> Result<i128, Stop> {
    match kind {
        Type::Int(int) => {
            let value = integer(cursor, int, state)?;
            if let Some(out) = out {
                out.push_int(value);
            }
            return Ok(number(value, int.signed));
        }
        Type::Enum(e) => {
            let value = integer(cursor, &e.int, state)?;
            let known = number(value, e.int.signed);
            if let Some(out) = out {
                out.push_enum(value, e.label(known));
            }
            return Ok(known);
        }
        Type::Float(float) => {
            let as_int = Int {
                bits: float.bits,
                align: float.align,
                signed: false,
                order: float.order,
                text: false,
                clock: None,
            };
            let value = cursor.bits(&as_int)?;
            if let Some(out) = out {
                out.push_float(float_of(value, float.bits));
            }
        }
        Type::Text => {
            let text = cursor.text()?;
            if let Some(out) = out {
                out.push_text(text);
            }
        }
        Type::Array(array) => self::array(cursor, array, state, out)?,
        Type::Struct(s) => {
            cursor.align(kind.align());
            for (i, field) in s.fields.iter().enumerate() {
                let member = out.as_deref_mut().and_then(|out| out.member(i));
                self::field(cursor, field, state, member)?;
            }
            if let Some(out) = out {
                out.valid(1);
            }
        }
        Type::Variant(variant) => {
            let chosen = choose(variant, state)?;
            for (i, option) in variant.options.iter().enumerate() {
                let member = out.as_deref_mut().and_then(|out| out.member(i));
                if i == chosen {
                    self::field(cursor, option, state, member)?;
                } else if let Some(member) = member {
                    member.push_nulls(1);
                }
            }
            if let Some(out) = out {
                out.valid(1);
            }
        }
    }
    Ok(0)
}

/// Decode a member and keep its value if something refers to it.
///
/// # Errors
///
/// As [`walk`].
pub fn field(
    cursor: &mut Cursor<'_>,
    field: &Field,
    state: &mut State,
    out: Option<&mut Column>,
) -> Result<i128, Stop> {
    let value = walk(cursor, &field.kind, state, out)?;
    if let Some(slot) = field.slot {
        state.slots[slot] = value;
    }
    Ok(value)
}

/// The option of a variant that its tag chooses.
///
/// # Errors
///
/// The tag chooses none.
pub fn choose(variant: &Variant, state: &State) -> Result<usize, Stop> {
    let tag = match &variant.tag {
        Some(Reference::Slot(slot)) => state.slots[*slot],
        _ => return Err(Stop::Bad("a variant without a tag".into())),
    };
    variant
        .choices
        .iter()
        .find(|(low, high, _)| *low <= tag && tag <= *high)
        .map(|(_, _, option)| *option)
        .ok_or_else(|| Stop::Bad(format!("tag {tag} chooses no option of the variant")))
}

fn integer(cursor: &mut Cursor<'_>, int: &Int, state: &mut State) -> Result<u64, Stop> {
    let raw = cursor.bits(int)?;
    if let Some(clock) = int.clock {
        state.clocks[clock] = advance(state.clocks[clock], raw, int.bits);
        state.clock = Some(clock);
    }
    Ok(extend(raw, int.bits, int.signed))
}

/// The number that `bits` bits stand for.
#[must_use]
pub fn float_of(value: u64, bits: u32) -> f64 {
    match u32::try_from(value) {
        Ok(value) if bits == 32 => f64::from(f32::from_bits(value)),
        _ => f64::from_bits(value),
    }
}

fn array(
    cursor: &mut Cursor<'_>,
    array: &Array,
    state: &mut State,
    mut out: Option<&mut Column>,
) -> Result<(), Stop> {
    let length = match &array.length {
        Length::Fixed(length) => *length,
        Length::Field(Reference::Slot(slot)) => {
            u64::try_from(state.slots[*slot]).map_err(|_| Stop::Bad("a negative length".into()))?
        }
        Length::Field(Reference::Path(..)) => {
            return Err(Stop::Bad("a sequence without a length".into()));
        }
    };
    cursor.align(array.element.align());
    if array.is_text() {
        let text = cursor.take(length)?;
        if let Some(out) = out {
            out.push_text(until_nul(text));
        }
        return Ok(());
    }
    // Elements may be of no size at all; a length that the packet cannot hold is still a lie.
    let left = cursor.end.saturating_sub(cursor.at);
    if length > left.max(1 << 16) {
        return Err(Stop::End);
    }
    for _ in 0..length {
        let element = out.as_deref_mut().and_then(Column::elements);
        walk(cursor, &array.element, state, element)?;
    }
    if let Some(out) = out {
        out.end_list().map_err(|e| Stop::Bad(e.to_string()))?;
    }
    Ok(())
}
