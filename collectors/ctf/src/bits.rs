//! Read numbers of any width at any bit.

use std::fmt::Write;

use crate::model::{ByteOrder, Int};

/// Read `bits` (1 to 64) bits at bit `at`; `None` beyond the end of `bytes`.
///
/// In little-endian data, bits count from the least significant of each byte; in big-endian
/// data from the most significant (CTF 1.8, 4.1.2).
#[must_use]
pub fn read(bytes: &[u8], at: u64, bits: u32, order: ByteOrder) -> Option<u64> {
    debug_assert!((1..=64).contains(&bits));
    let first = usize::try_from(at / 8).ok()?;
    let shift = (at % 8) as u32;
    let count = (shift + bits).div_ceil(8);
    let span = bytes.get(first..first.checked_add(count as usize)?)?;
    let mut wide = 0_u128;
    let value = match order {
        ByteOrder::Little => {
            for byte in span.iter().rev() {
                wide = wide << 8 | u128::from(*byte);
            }
            wide >> shift
        }
        ByteOrder::Big => {
            for byte in span {
                wide = wide << 8 | u128::from(*byte);
            }
            wide >> (count * 8 - shift - bits)
        }
    };
    #[expect(clippy::cast_possible_truncation, reason = "masked")]
    Some(value as u64 & mask(bits))
}

/// Read an integer of any number of bits at bit `at`, as decimal text; `None` beyond the end of
/// `bytes`.
#[must_use]
pub fn decimal(bytes: &[u8], at: u64, int: &Int) -> Option<String> {
    const STEP: u64 = 1_000_000_000;
    // In big-endian data the lowest bits come last, and the other way round if they are reversed.
    let part = |lowest: u32, bits: u32| {
        let before = if (int.order == ByteOrder::Big) == int.reversed {
            lowest
        } else {
            int.bits - lowest - bits
        };
        let value = read(bytes, at + u64::from(before), bits, int.order)?;
        Some(if int.reversed {
            value.reverse_bits() >> (64 - bits)
        } else {
            value
        })
    };
    let negative = int.signed && part(int.bits - 1, 1)? == 1;
    // Nine decimal digits each, the lowest first.
    let mut digits: Vec<u64> = Vec::new();
    for lowest in (0..int.bits).step_by(32).rev() {
        let bits = (int.bits - lowest).min(32);
        let mut carry = part(lowest, bits)?;
        if negative {
            carry = (!carry & mask(bits)) + u64::from(lowest == 0);
        }
        for nine in &mut digits {
            carry += *nine << bits;
            *nine = carry % STEP;
            carry /= STEP;
        }
        while carry > 0 {
            digits.push(carry % STEP);
            carry /= STEP;
        }
    }
    let mut digits = digits.iter().rev();
    let sign = if negative { "-" } else { "" };
    let mut text = format!("{sign}{}", digits.next().unwrap_or(&0));
    for nine in digits {
        // Writing to a string cannot fail.
        let _ = write!(text, "{nine:09}");
    }
    Some(text)
}

/// Return a word in which the lowest `bits` bits are set.
#[must_use]
pub fn mask(bits: u32) -> u64 {
    if bits >= 64 {
        u64::MAX
    } else {
        (1 << bits) - 1
    }
}

/// Widen a number of `bits` bits, in two's complement if it is signed, to 64.
#[must_use]
pub fn extend(value: u64, bits: u32, signed: bool) -> u64 {
    if signed && bits < 64 && value >> (bits - 1) & 1 == 1 {
        value | !mask(bits)
    } else {
        value
    }
}

/// Return the value of a number that was widened with [`extend`].
#[must_use]
pub fn number(value: u64, signed: bool) -> i128 {
    if signed {
        i128::from(value.cast_signed())
    } else {
        i128::from(value)
    }
}

/// Round `at` up to a multiple of `align` (a power of two).
#[must_use]
pub fn align_up(at: u64, align: u64) -> u64 {
    at.saturating_add(align - 1) & !(align - 1)
}

/// Return the `N` bytes at `at`, which the scan has found to be there.
///
/// # Panics
///
/// If they are not there.
#[must_use]
#[expect(
    clippy::inline_always,
    reason = "per event: a call costs more than its work"
)]
#[inline(always)]
pub fn chunk<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    // Unlike `copy_from_slice` of a range, this is one load: the length is part of the type.
    match bytes[at..].first_chunk() {
        Some(chunk) => *chunk,
        None => panic!("{N} bytes at {at} are beyond the end of the packet"),
    }
}

/// Return the bytes of a text up to its first NUL.
#[must_use]
pub fn until_nul(bytes: &[u8]) -> &[u8] {
    memchr::memchr(0, bytes).map_or(bytes, |at| &bytes[..at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compact_header_bits() {
        // id 3 in 5 bits, then 27 bits of time, little-endian: (time << 5) | id
        let word: u32 = 0x00ab_cdef << 5 | 3;
        let bytes = word.to_le_bytes();
        assert_eq!(read(&bytes, 0, 5, ByteOrder::Little), Some(3));
        assert_eq!(read(&bytes, 5, 27, ByteOrder::Little), Some(0x00ab_cdef));
    }

    #[test]
    fn big_endian_bits_count_from_the_top() {
        // 0b101_10011 0b1000_0000: 3 bits, then 6 bits across the byte border
        let bytes = [0b1011_0011, 0b1000_0000];
        assert_eq!(read(&bytes, 0, 3, ByteOrder::Big), Some(0b101));
        assert_eq!(read(&bytes, 3, 6, ByteOrder::Big), Some(0b10_0111));
    }

    #[test]
    fn sixty_four_bits_off_a_byte_border_take_nine_bytes() {
        let bytes = [0xf0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f];
        assert_eq!(read(&bytes, 4, 64, ByteOrder::Little), Some(u64::MAX));
        assert_eq!(read(&bytes[..8], 4, 64, ByteOrder::Little), None);
    }

    /// Expected values by hand: powers of two and their neighbours.
    #[test]
    fn wide_numbers_are_decimal() {
        let wide = |bytes: &[u8], at, bits, order, signed| {
            let int = Int {
                signed,
                ..Int::unsigned(bits, 1, order)
            };
            decimal(bytes, at, &int).unwrap()
        };
        let mut bytes = [0_u8; 10];
        assert_eq!(wide(&bytes, 0, 72, ByteOrder::Little, true), "0");
        bytes[8] = 1;
        let power = "18446744073709551616";
        assert_eq!(wide(&bytes, 0, 72, ByteOrder::Little, false), power);
        assert_eq!(
            wide(&bytes, 0, 65, ByteOrder::Little, true),
            format!("-{power}")
        );
        assert_eq!(wide(&bytes, 0, 72, ByteOrder::Big, false), "1");
        assert_eq!(wide(&bytes, 7, 68, ByteOrder::Big, false), "8");
        let ones = [0xff; 16];
        assert_eq!(wide(&ones, 3, 100, ByteOrder::Little, true), "-1");
        assert_eq!(wide(&ones, 0, 128, ByteOrder::Big, true), "-1");
        let largest = u128::MAX.to_string();
        assert_eq!(wide(&ones, 0, 128, ByteOrder::Big, false), largest);
        let beyond = Int::unsigned(72, 1, ByteOrder::Little);
        assert_eq!(decimal(&bytes, 10, &beyond), None);
    }

    #[test]
    fn wide_numbers_reverse() {
        for bits in [65_u32, 100, 127, 128] {
            let mut int = Int::unsigned(bits, 1, ByteOrder::Little);
            int.reversed = true;
            let mut bytes = [0; 16];
            bytes[0] = 3;
            let expected: u128 = 3 << (bits - 2);
            assert_eq!(decimal(&bytes, 0, &int), Some(expected.to_string()));
            // The last two bits of big-endian data, which begin at the top of a byte.
            int.order = ByteOrder::Big;
            bytes = [0; 16];
            let last = bits - 1;
            bytes[last as usize / 8] = 0x80 >> (last % 8);
            let expected: u128 = 1 << last;
            assert_eq!(decimal(&bytes, 0, &int), Some(expected.to_string()));
        }
    }

    #[test]
    fn sign_is_extended_from_the_top_bit() {
        assert_eq!(number(extend(0b111, 3, true), true), -1);
        assert_eq!(number(extend(0b011, 3, true), true), 3);
        assert_eq!(number(extend(0b111, 3, false), false), 7);
    }
}
