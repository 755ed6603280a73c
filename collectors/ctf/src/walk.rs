//! The general decoder, which decodes one field after the other in any layout.

use crate::bits::{align_up, decimal, extend, mask, number, read, until_nul};
use crate::columns::{Column, Data};
use crate::model::{
    Array, ByteOrder, Encoding, Field, Int, Length, Reference, Role, Trace, Type, Variant,
    WideText, label,
};

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
    /// First bit that is not content.
    pub end: u64,
}

impl<'a> Cursor<'a> {
    fn bits(&mut self, int: &Int, state: &mut State) -> Result<u64, Stop> {
        let at = self.reach(int.align, int.bits, int.order, state)?;
        let value = read(self.bytes, at, int.bits, int.order).ok_or(Stop::End)?;
        Ok(if int.reversed {
            value.reverse_bits() >> (64 - int.bits)
        } else {
            value
        })
    }

    /// Step over a number; return the bit at which it begins.
    fn reach(
        &mut self,
        align: u64,
        bits: u32,
        order: ByteOrder,
        state: &mut State,
    ) -> Result<u64, Stop> {
        let at = align_up(self.at, align);
        let end = at.saturating_add(u64::from(bits));
        if end > self.end {
            return Err(Stop::End);
        }
        // Bits of one byte count from one end only (CTF 1.8, 4.1.5; CTF 2, 6.4.3).
        if !at.is_multiple_of(8) && state.order.is_some_and(|before| before != order) {
            return Err(Stop::Bad("the byte order changes within a byte".into()));
        }
        state.order = Some(order);
        self.at = end;
        Ok(at)
    }

    /// Read a number of more than 64 bits, as decimal text.
    fn wide_int(&mut self, int: &Int, state: &mut State) -> Result<String, Stop> {
        let at = self.reach(int.align, int.bits, int.order, state)?;
        decimal(self.bytes, at, int).ok_or(Stop::End)
    }

    /// Read a LEB128 number, with its sign extended, and the number of bits it was written with.
    fn leb128(&mut self, signed: bool) -> Result<(u64, u32), Stop> {
        self.align(8);
        let mut value = 0_u128;
        let mut bits = 0;
        loop {
            let byte = self.take(1)?[0];
            // Further bytes are accepted if they do not change the value.
            if bits < 126 {
                value |= u128::from(byte & 0x7f) << bits;
            } else if byte & 0x7f
                != if signed && value >> 125 & 1 == 1 {
                    0x7f
                } else {
                    0
                }
            {
                return Err(too_long());
            }
            bits += 7;
            if byte & 0x80 == 0 {
                break;
            }
        }
        let used = bits.min(126);
        if signed {
            let shift = 128 - used;
            let wide = (value << shift).cast_signed() >> shift;
            let value = i64::try_from(wide).map_err(|_| too_long())?;
            Ok((value.cast_unsigned(), bits))
        } else {
            Ok((u64::try_from(value).map_err(|_| too_long())?, bits))
        }
    }

    /// Read text of UTF-16 or UTF-32, up to the next zero unit, as UTF-8.
    fn wide(&mut self, encoding: Encoding, length: Option<u64>) -> Result<String, Stop> {
        let unit = encoding.unit();
        let (units, step) = if let Some(length) = length {
            let bytes = self.take(length)?;
            let units = bytes.chunks_exact(unit);
            let end = units.clone().position(is_zero);
            if end.is_none() && !units.remainder().is_empty() {
                return Err(Stop::Bad("text that ends inside a character".into()));
            }
            (&bytes[..end.map_or(bytes.len(), |end| end * unit)], 0)
        } else {
            let rest = self.rest()?;
            let end = rest.chunks_exact(unit).position(is_zero).ok_or(Stop::End)?;
            (&rest[..end * unit], (end + 1) * unit)
        };
        self.at += step as u64 * 8;
        let units = units.chunks_exact(unit);
        Ok(match encoding {
            Encoding::Utf16(order) => {
                let units = units.map(|u| match order {
                    ByteOrder::Little => u16::from_le_bytes([u[0], u[1]]),
                    ByteOrder::Big => u16::from_be_bytes([u[0], u[1]]),
                });
                char::decode_utf16(units)
                    .map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER))
                    .collect()
            }
            Encoding::Utf32(order) => units
                .map(|u| match order {
                    ByteOrder::Little => u32::from_le_bytes([u[0], u[1], u[2], u[3]]),
                    ByteOrder::Big => u32::from_be_bytes([u[0], u[1], u[2], u[3]]),
                })
                .map(|c| char::from_u32(c).unwrap_or(char::REPLACEMENT_CHARACTER))
                .collect(),
        })
    }

    fn align(&mut self, align: u64) {
        self.at = align_up(self.at, align);
    }

    /// Align a field that may have no size, within the content.
    fn align_within(&mut self, align: u64) -> Result<(), Stop> {
        self.align(align);
        if self.at > self.end {
            return Err(Stop::End);
        }
        Ok(())
    }

    /// Read `length` whole bytes.
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

    /// Return the bytes up to the next NUL, and step over that.
    fn text(&mut self) -> Result<&'a [u8], Stop> {
        let rest = self.rest()?;
        let length = memchr::memchr(0, rest).ok_or(Stop::End)?;
        self.at += (length as u64 + 1) * 8;
        Ok(&rest[..length])
    }

    /// Return the whole bytes up to the end.
    fn rest(&mut self) -> Result<&'a [u8], Stop> {
        self.align(8);
        let first = usize::try_from(self.at / 8).map_err(|_| Stop::End)?;
        let last = usize::try_from(self.end / 8).map_err(|_| Stop::End)?;
        let last = last.min(self.bytes.len());
        self.bytes.get(first..last).ok_or(Stop::End)
    }
}

fn is_zero(unit: &[u8]) -> bool {
    unit.iter().all(|b| *b == 0)
}

fn too_long() -> Stop {
    Stop::Bad("an integer of more than 64 bits".into())
}

/// The value of a slot as long as the field that fills it has not been decoded.
pub const EMPTY: i128 = i128::MIN;

/// The value of a field with a role, its clock, and its number of bits.
type Noted = (i128, Option<usize>, u32);

/// The values of fields with roles.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Told {
    values: [Option<Noted>; Role::Uuid as usize + 1],
    /// Bit at which a UUID begins.
    pub uuid_at: Option<u64>,
}

impl Told {
    /// Return the last value that has the role.
    #[must_use]
    pub fn value(&self, role: Role) -> Option<u64> {
        u64::try_from(self.values[role as usize]?.0).ok()
    }

    /// Return the bits of the field that last had the role, at most 64.
    #[must_use]
    pub fn bits(&self, role: Role) -> u32 {
        self.values[role as usize].map_or(0, |(_, _, bits)| bits)
    }

    /// Return the last value that has the role, or 0.
    ///
    /// # Errors
    ///
    /// The value is negative.
    pub fn number(&self, role: Role) -> Result<u64, Stop> {
        let value = self.values[role as usize].map_or(0, |(value, ..)| value);
        u64::try_from(value).map_err(|_| Stop::Bad(format!("a class of number {value}")))
    }

    /// Return clock and cycles of [`Role::Begin`] or [`Role::End`].
    #[must_use]
    pub fn time(&self, role: Role) -> Option<(usize, u64)> {
        let (_, clock, _) = self.values[role as usize]?;
        Some((clock?, self.value(role)?))
    }

    /// Forget the event class.
    pub fn next_event(&mut self) {
        self.values[Role::EventClass as usize] = None;
    }

    #[cold]
    fn note(&mut self, roles: &[Role], noted: Noted) {
        for role in roles {
            self.values[*role as usize] = Some(noted);
        }
    }
}

/// The state of decoding from one field to the next.
#[derive(Debug, Clone, Default)]
pub struct State {
    /// Values that lengths and tags refer to; [`EMPTY`] if there is none.
    pub slots: Vec<i128>,
    /// Last value of each clock, in cycles.
    pub clocks: Vec<u64>,
    /// The clock last read.
    pub clock: Option<usize>,
    /// Values of fields with roles.
    pub told: Told,
    /// Byte order of the integer last read.
    pub order: Option<ByteOrder>,
}

impl State {
    /// Make the state at the beginning of a packet.
    #[must_use]
    pub fn new(trace: &Trace) -> Self {
        Self {
            slots: vec![EMPTY; trace.slots],
            clocks: vec![0; trace.clocks.len()],
            clock: None,
            told: Told::default(),
            order: None,
        }
    }

    /// Return the value that a reference leads to.
    fn referred(&self, reference: &Reference) -> Result<i128, Stop> {
        match reference {
            Reference::Slot(slot) if self.slots[*slot] != EMPTY => Ok(self.slots[*slot]),
            _ => Err(Stop::Bad(
                "a length or tag whose field is not there in this event".into(),
            )),
        }
    }

    /// Empty the slots of all fields below a type.
    fn clear(&mut self, kind: &Type) {
        for slot in kind.fields().iter().filter_map(|field| field.slot) {
            self.slots[slot] = EMPTY;
        }
        kind.below().for_each(|kind| self.clear(kind));
    }

    fn tick(&mut self, clock: usize, value: u64, bits: u32) {
        self.clocks[clock] = advance(self.clocks[clock], value, mask(bits));
        self.clock = Some(clock);
    }
}

/// Return the clock after its lowest bits, those of `mask`, were read: it never decreases, so a lower
/// value means that it has wrapped once.
#[must_use]
#[inline]
pub fn advance(clock: u64, value: u64, mask: u64) -> u64 {
    let same = clock & !mask | value;
    if value < clock & mask {
        // A clock of which all bits were read has not wrapped.
        same.wrapping_add(mask.wrapping_add(1))
    } else {
        same
    }
}

/// Step over a field. Returns the value of an integer or enumeration.
///
/// # Errors
///
/// Those of [`walk`].
pub fn skip(cursor: &mut Cursor<'_>, kind: &Type, state: &mut State) -> Result<i128, Stop> {
    walk(cursor, kind, state, &mut Column::nothing())
}

/// Decode one field into `out`. Returns the value of an integer or enumeration.
///
/// # Errors
///
/// See [`Stop`]. `out` is then left with parts of different lengths.
pub fn walk(
    cursor: &mut Cursor<'_>,
    kind: &Type,
    state: &mut State,
    out: &mut Column,
) -> Result<i128, Stop> {
    match kind {
        Type::Int(int) => {
            let raw = cursor.bits(int, state)?;
            return Ok(integer(int, (raw, int.bits), state, out));
        }
        Type::VarInt(int) => {
            let stored = cursor.leb128(int.signed)?;
            return Ok(integer(int, stored, state, out));
        }
        Type::WideInt(int) => match out.data {
            Data::Nothing => _ = cursor.reach(int.align, int.bits, int.order, state)?,
            _ => out.push_text(cursor.wide_int(int, state)?.as_bytes()),
        },
        Type::Bool(int) => {
            let value = cursor.bits(int, state)? != 0;
            out.push_bool(value);
            return Ok(i128::from(value));
        }
        Type::BitMap(map) => {
            let value = cursor.bits(&map.int, state)?;
            out.member(0).push_int(value);
            let list = out.member(1);
            for (name, _) in map.flags.iter().filter(|(_, mask)| value & mask != 0) {
                list.elements().push_text(name.as_bytes());
            }
            end_list(list)?;
            out.valid(1);
        }
        Type::WideText(wide) => {
            let text = wide_text(cursor, wide, state)?;
            out.push_text(text.as_bytes());
        }
        Type::Optional(optional) => {
            let selector = state.referred(&optional.selector)?;
            state.clear(kind);
            let there = match optional.ranges.as_slice() {
                [] => selector != 0,
                ranges => ranges.iter().any(|(l, h)| *l <= selector && selector <= *h),
            };
            if there {
                return field(cursor, &optional.field, state, out);
            }
            out.push_nulls(1);
            return Ok(EMPTY);
        }
        Type::Float(float) => {
            let value = cursor.bits(float, state)?;
            out.push_float(float_of(value, float.bits));
        }
        Type::Text => out.push_text(cursor.text()?),
        Type::Array(array) => self::array(cursor, array, state, out)?,
        Type::Struct(s) => {
            cursor.align_within(kind.align())?;
            for (i, member) in s.fields.iter().enumerate() {
                field(cursor, member, state, out.member(i))?;
            }
            out.valid(1);
        }
        Type::Variant(variant) => {
            let chosen = choose(variant, state)?;
            state.clear(kind);
            for (i, option) in variant.options.iter().enumerate() {
                if i == chosen {
                    field(cursor, option, state, out.member(i))?;
                } else {
                    out.member(i).push_nulls(1);
                }
            }
            out.valid(1);
        }
    }
    Ok(0)
}

fn end_list(out: &mut Column) -> Result<(), Stop> {
    out.end_list().map_err(|e| Stop::Bad(e.to_string()))
}

/// Decode a member and keep its value if something refers to it.
///
/// # Errors
///
/// Those of [`walk`].
pub fn field(
    cursor: &mut Cursor<'_>,
    field: &Field,
    state: &mut State,
    out: &mut Column,
) -> Result<i128, Stop> {
    let value = walk(cursor, &field.kind, state, out)?;
    if let Some(slot) = field.slot {
        state.slots[slot] = value;
    }
    Ok(value)
}

/// Return the option of a variant that its tag chooses.
///
/// # Errors
///
/// The tag chooses no option.
pub fn choose(variant: &Variant, state: &State) -> Result<usize, Stop> {
    let Some(tag) = &variant.tag else {
        return Err(Stop::Bad("a variant without a tag".into()));
    };
    let tag = state.referred(tag)?;
    variant
        .choices
        .iter()
        .find(|(low, high, _)| *low <= tag && tag <= *high)
        .map(|(_, _, option)| *option)
        .ok_or_else(|| Stop::Bad(format!("tag {tag} chooses no option of the variant")))
}

/// Keep and append an integer that was read as `raw`, in `bits` bits; return its value.
fn integer(int: &Int, (raw, bits): (u64, u32), state: &mut State, out: &mut Column) -> i128 {
    if let Some(clock) = int.clock {
        state.tick(clock, raw, bits);
    }
    let extended = extend(raw, bits, int.signed);
    let value = number(extended, int.signed);
    if !int.roles.is_empty() {
        state.told.note(&int.roles, (value, int.clock, int.bits));
    }
    if int.mappings.is_empty() {
        out.push_int(extended);
    } else {
        out.push_enum(extended, || label(&int.mappings, value));
    }
    value
}

fn wide_text(cursor: &mut Cursor<'_>, wide: &WideText, state: &State) -> Result<String, Stop> {
    let length = match &wide.length {
        Some(length) => Some(number_of(length, state)?),
        None => None,
    };
    cursor.wide(wide.encoding, length)
}

/// Return the floating point number of `bits` bits.
#[must_use]
#[expect(clippy::cast_possible_truncation, reason = "no more bits are set")]
pub fn float_of(value: u64, bits: u32) -> f64 {
    match bits {
        16 => half::f16::from_bits(value as u16).to_f64(),
        32 => f64::from(f32::from_bits(value as u32)),
        _ => f64::from_bits(value),
    }
}

/// Return the length of an array, or of text in bytes.
fn number_of(length: &Length, state: &State) -> Result<u64, Stop> {
    match length {
        Length::Fixed(length) => Ok(*length),
        Length::Field(reference) => u64::try_from(state.referred(reference)?)
            .map_err(|_| Stop::Bad("a negative length".into())),
    }
}

fn array(
    cursor: &mut Cursor<'_>,
    array: &Array,
    state: &mut State,
    out: &mut Column,
) -> Result<(), Stop> {
    let length = number_of(&array.length, state)?;
    cursor.align_within(array.element.align().max(array.min_align))?;
    if array.uuid {
        state.told.uuid_at = Some(cursor.at);
    }
    if array.is_text() {
        let text = cursor.take(length)?;
        out.push_text(until_nul(text));
        return Ok(());
    }
    // Elements may have no size, but a length that the packet cannot hold is still refused.
    let left = cursor.end.saturating_sub(cursor.at);
    if length > left.max(1 << 16) {
        return Err(Stop::End);
    }
    for _ in 0..length {
        walk(cursor, &array.element, state, out.elements())?;
    }
    end_list(out)
}
