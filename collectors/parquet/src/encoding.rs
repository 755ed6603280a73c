//! Parquet's encodings of numbers, as the format's `Encodings.md` defines them.

/// Bits that hold all numbers up to this one.
pub fn width(largest: u64) -> u32 {
    u64::BITS - largest.leading_zeros()
}

/// Append numbers of `width` bits each, from the lowest bit on; the last byte is filled with
/// zeros. Bits above must be zero.
pub fn pack(numbers: impl Iterator<Item = u64>, width: u32, out: &mut Vec<u8>) {
    if width == 0 {
        return;
    }
    let mut word = 0;
    let mut filled = 0;
    for number in numbers {
        word |= number << filled;
        let free = u64::BITS - filled;
        if width >= free {
            out.extend_from_slice(&word.to_le_bytes());
            // In two steps, for `free` may be all bits.
            word = number >> 1 >> (free - 1);
            filled = width - free;
        } else {
            filled += width;
        }
    }
    out.extend_from_slice(&word.to_le_bytes()[..filled.div_ceil(8) as usize]);
}

/// Append a number in groups of seven bits (`ULEB128`).
pub fn varint(mut number: u64, out: &mut Vec<u8>) {
    #[expect(clippy::cast_possible_truncation, reason = "the lowest seven bits")]
    while number > 0x7f {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    #[expect(clippy::cast_possible_truncation, reason = "seven bits are left")]
    out.push(number as u8);
}

#[expect(clippy::cast_sign_loss, reason = "zigzag")]
fn zigzag(number: i64, out: &mut Vec<u8>) {
    varint((number << 1 ^ number >> 63) as u64, out);
}

/// Append numbers of `width` bits in the hybrid of runs and packed numbers (`RLE`): as one run
/// where all are the same, else packed.
pub fn hybrid(numbers: &[u16], width: u32, out: &mut Vec<u8>) {
    let Some(first) = numbers.first() else {
        return;
    };
    if numbers.iter().all(|number| number == first) {
        run(*first, numbers.len(), width, out);
        return;
    }
    let groups = numbers.len().div_ceil(8);
    varint((groups as u64) << 1 | 1, out);
    let padding = groups * 8 - numbers.len();
    let numbers = numbers.iter().map(|number| u64::from(*number));
    pack(numbers.chain(std::iter::repeat_n(0, padding)), width, out);
}

/// Append one number that occurs so many times, the same way.
pub fn run(number: u16, times: usize, width: u32, out: &mut Vec<u8>) {
    varint((times as u64) << 1, out);
    out.extend_from_slice(&number.to_le_bytes()[..width.div_ceil(8) as usize]);
}

const BLOCK: usize = 128;
const MINIBLOCK: usize = 32;

/// Append numbers of 64 bits, or of 32 (`narrow`) with their sign extended, as differences
/// (`DELTA_BINARY_PACKED`).
#[expect(
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    clippy::cast_possible_truncation,
    reason = "differences wrap around, as the format wants"
)]
pub fn delta(numbers: &[u64], narrow: bool, out: &mut Vec<u8>) {
    varint(BLOCK as u64, out);
    varint((BLOCK / MINIBLOCK) as u64, out);
    varint(numbers.len() as u64, out);
    let Some(first) = numbers.first() else {
        zigzag(0, out);
        return;
    };
    zigzag(*first as i64, out);
    // Within the width of the column.
    let wrap = |number: u64| {
        if narrow {
            i64::from(number as i32)
        } else {
            number as i64
        }
    };
    let mut differences = [0_i64; BLOCK];
    let mut before = *first;
    for block in numbers[1..].chunks(BLOCK) {
        for (difference, number) in differences.iter_mut().zip(block) {
            *difference = wrap(number.wrapping_sub(before));
            before = *number;
        }
        let differences = &mut differences[..block.len()];
        let least = differences.iter().copied().fold(i64::MAX, i64::min);
        zigzag(least, out);
        let mut rest = [0_u64; BLOCK];
        for (rest, difference) in rest.iter_mut().zip(&*differences) {
            let above = difference.wrapping_sub(least) as u64;
            *rest = if narrow { above & 0xffff_ffff } else { above };
        }
        let widths_at = out.len();
        out.extend_from_slice(&[0; BLOCK / MINIBLOCK]);
        let used = block.len().div_ceil(MINIBLOCK);
        for (number, miniblock) in rest.chunks(MINIBLOCK).take(used).enumerate() {
            let width = width(miniblock.iter().fold(0, |all, rest| all | rest));
            out[widths_at + number] = width as u8;
            pack(miniblock.iter().copied(), width, out);
        }
    }
}
