//! One column of numbers or text, page by page.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowDictionaryKeyType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{AnyDictionaryArray, Array, ArrayRef, StringViewArray};
use arrow_buffer::{ArrowNativeType, NullBuffer};
use arrow_schema::DataType;
use bytes::Bytes;
use parquet::basic::Encoding;
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::{ParquetError, Result};
use parquet::schema::types::ColumnDescPtr;

use crate::dictionary::{Numbers, Texts, plain_text, same_views};
use crate::encoding::{delta, hybrid, run, width};
use crate::pages::{Pages, Range};

/// Most rows in a page.
const PAGE_ROWS: usize = 1 << 15;
/// Bytes of text after which a page ends.
const PAGE_BYTES: usize = 1 << 20;
/// Rows after which it is looked whether a dictionary still pays.
const STEP: usize = 1 << 12;

/// How values lie in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Physical {
    Int32,
    Int64,
    Float,
    Double,
    Text,
}

impl Physical {
    fn of(kind: &DataType) -> Option<Self> {
        Some(match kind {
            DataType::Int8
            | DataType::Int16
            | DataType::Int32
            | DataType::UInt8
            | DataType::UInt16
            | DataType::UInt32 => Self::Int32,
            DataType::Int64 | DataType::UInt64 => Self::Int64,
            DataType::Float32 => Self::Float,
            DataType::Float64 => Self::Double,
            DataType::Utf8View => Self::Text,
            DataType::Dictionary(_, values) if **values == DataType::Utf8View => Self::Text,
            _ => return None,
        })
    }

    /// Append numbers as Parquet has them where they are not encoded.
    fn plain(self, numbers: &[u64], out: &mut Vec<u8>) {
        if self.narrow() {
            let bytes = numbers.iter().map(|number| number.to_le_bytes());
            out.extend(bytes.flat_map(|[a, b, c, d, ..]| [a, b, c, d]));
        } else {
            out.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        }
    }

    fn narrow(self) -> bool {
        matches!(self, Self::Int32 | Self::Float)
    }
}

fn signed(number: i64) -> u64 {
    number.cast_unsigned()
}

/// The values of a dictionary.
enum Dictionary {
    Numbers(Numbers),
    Texts(Texts),
}

/// Rows that are no page yet.
#[derive(Default)]
struct Rows {
    count: usize,
    /// Whether each holds a value; empty as long as all do.
    valid: Vec<u16>,
    nulls: usize,
    /// Numbers of the dictionary,
    codes: Vec<u16>,
    /// or numbers (32 bits with their sign extended, floating point by its bits),
    numbers: Vec<u64>,
    /// or plain texts.
    texts: Vec<u8>,
    range: Option<Range>,
}

/// A column that is being encoded.
pub struct Column {
    descriptor: ColumnDescPtr,
    physical: Physical,
    statistics: bool,
    dictionary: Option<Dictionary>,
    /// Whether values still go into the dictionary: there are few.
    open: bool,
    /// Whether the row group before had too many for one from its beginning.
    many: bool,
    rows: Rows,
    /// Rows in this row group.
    total: usize,
    pages: Pages,
    body: Vec<u8>,
    scratch: Vec<u64>,
}

impl Column {
    /// A column of a type that can be encoded here; with `statistics` if its ranges are noted,
    /// which only integers of 64 bits have.
    pub fn new(descriptor: ColumnDescPtr, kind: &DataType, statistics: bool) -> Option<Self> {
        let physical = Physical::of(kind)?;
        let mut column = Self {
            descriptor,
            physical,
            statistics: statistics && *kind == DataType::Int64,
            dictionary: None,
            open: false,
            many: false,
            rows: Rows::default(),
            total: 0,
            pages: Pages::default(),
            body: Vec::new(),
            scratch: Vec::new(),
        };
        column.begin();
        Some(column)
    }

    fn begin(&mut self) {
        self.total = 0;
        self.open = !self.many;
        self.dictionary = self.open.then(|| match self.physical {
            Physical::Text => Dictionary::Texts(Texts::default()),
            _ => Dictionary::Numbers(Numbers::default()),
        });
    }

    /// Append rows.
    pub fn write(&mut self, array: &ArrayRef) -> Result<()> {
        let mut at = 0;
        while at < array.len() {
            let rows = STEP.min(PAGE_ROWS - self.rows.count).min(array.len() - at);
            let part = array.slice(at, rows);
            at += rows;
            self.append_levels(&part);
            match self.physical {
                Physical::Text => match part.as_any_dictionary_opt() {
                    Some(coded) => self.append_coded(coded)?,
                    None => self.append_texts(part.as_string_view()),
                },
                _ => self.append_numbers(&part),
            }
            if self.open && !self.pays() {
                self.give_up_dictionary()?;
            }
            if self.rows.count == PAGE_ROWS || self.rows.texts.len() > PAGE_BYTES {
                self.end_page()?;
            }
        }
        Ok(())
    }

    fn append_levels(&mut self, array: &ArrayRef) {
        let rows = &mut self.rows;
        let nulls = array.null_count();
        if nulls > 0 || !rows.valid.is_empty() {
            rows.valid.resize(rows.count, 1);
            match array.nulls() {
                Some(valid) if nulls < array.len() => {
                    rows.valid.extend(valid.iter().map(u16::from));
                }
                _ => {
                    let valid = u16::from(nulls == 0);
                    rows.valid.resize(rows.count + array.len(), valid);
                }
            }
        }
        rows.count += array.len();
        rows.nulls += nulls;
        self.total += array.len();
    }

    fn append_numbers(&mut self, array: &ArrayRef) {
        if array.null_count() == 0
            && let Some(array) = array.as_primitive_opt::<Int64Type>()
        {
            // As they are, bit by bit.
            return self.take_numbers(array.values().inner().typed_data());
        }
        let mut numbers = std::mem::take(&mut self.scratch);
        numbers.clear();
        macro_rules! fill {
            ($type:ty, $bits:expr) => {{
                let array = array.as_primitive::<$type>();
                let bits = $bits;
                match array.nulls().filter(|nulls| nulls.null_count() > 0) {
                    Some(nulls) => {
                        let values = nulls.valid_indices().map(|row| array.value(row));
                        numbers.extend(values.map(bits));
                    }
                    None => numbers.extend(array.values().iter().copied().map(bits)),
                }
            }};
        }
        match array.data_type() {
            DataType::Int8 => fill!(Int8Type, |value| signed(i64::from(value))),
            DataType::Int16 => fill!(Int16Type, |value| signed(i64::from(value))),
            DataType::Int32 => fill!(Int32Type, |value| signed(i64::from(value))),
            DataType::Int64 => fill!(Int64Type, signed),
            DataType::UInt8 => fill!(UInt8Type, u64::from),
            DataType::UInt16 => fill!(UInt16Type, u64::from),
            // Parquet holds them as signed numbers of as many bits.
            DataType::UInt32 => fill!(UInt32Type, |value: u32| {
                signed(i64::from(value.cast_signed()))
            }),
            DataType::UInt64 => fill!(UInt64Type, |value| value),
            DataType::Float32 => fill!(Float32Type, |value: f32| u64::from(value.to_bits())),
            DataType::Float64 => fill!(Float64Type, f64::to_bits),
            _ => {}
        }
        self.take_numbers(&numbers);
        self.scratch = numbers;
    }

    fn take_numbers(&mut self, numbers: &[u64]) {
        let Some(first) = numbers.first() else {
            return;
        };
        let rows = &mut self.rows;
        if self.statistics {
            let signed = || numbers.iter().map(|number| number.cast_signed());
            let least = signed().fold(i64::MAX, i64::min);
            let most = signed().fold(i64::MIN, i64::max);
            let (before, after) = rows.range.unwrap_or((least, most));
            rows.range = Some((before.min(least), after.max(most)));
        }
        match &mut self.dictionary {
            Some(Dictionary::Numbers(known)) if self.open => {
                if numbers.iter().all(|number| number == first) {
                    let code = known.code(*first);
                    rows.codes.resize(rows.codes.len() + numbers.len(), code);
                } else {
                    let codes = numbers.iter().map(|number| known.code(*number));
                    rows.codes.extend(codes);
                }
            }
            _ => rows.numbers.extend_from_slice(numbers),
        }
    }

    fn append_texts(&mut self, array: &StringViewArray) {
        let codes = &mut self.rows.codes;
        let valid = (0..array.len()).filter(|row| array.is_valid(*row));
        match &mut self.dictionary {
            Some(Dictionary::Texts(known)) if self.open => {
                if same_views(array) {
                    known.codes(array, 0..1, codes);
                    let code = codes[codes.len() - 1];
                    codes.resize(codes.len() + array.len() - 1, code);
                } else if array.null_count() == 0 {
                    known.codes(array, 0..array.len(), codes);
                } else {
                    known.codes(array, valid, codes);
                }
            }
            _ => valid.for_each(|row| plain_text(array.value(row), &mut self.rows.texts)),
        }
    }

    /// Append texts that come as numbers of a dictionary of their own.
    fn append_coded(&mut self, array: &dyn AnyDictionaryArray) -> Result<()> {
        let texts = array.values().as_string_view();
        if texts.null_count() > 0 {
            return Err(ParquetError::General("a dictionary with a null".to_owned()));
        }
        match array.keys().data_type() {
            DataType::UInt8 => self.append_keys::<UInt8Type>(array, texts),
            DataType::UInt16 => self.append_keys::<UInt16Type>(array, texts),
            DataType::UInt32 => self.append_keys::<UInt32Type>(array, texts),
            other => {
                return Err(ParquetError::General(format!(
                    "a dictionary with keys of {other}"
                )));
            }
        }
        Ok(())
    }

    fn append_keys<K>(&mut self, array: &dyn AnyDictionaryArray, texts: &StringViewArray)
    where
        K: ArrowDictionaryKeyType,
    {
        let keys = array.keys().as_primitive::<K>();
        let all = keys.values().iter().map(|key| key.as_usize());
        let nulls = keys.nulls().filter(|nulls| nulls.null_count() > 0);
        let valid = || {
            let valid = nulls.into_iter().flat_map(NullBuffer::valid_indices);
            valid.map(|row| keys.value(row).as_usize())
        };
        let codes = &mut self.rows.codes;
        match &mut self.dictionary {
            Some(Dictionary::Texts(known)) if self.open => match (nulls, keys.values().first()) {
                (Some(_), _) => known.recode(texts, valid(), codes),
                (None, Some(first)) if keys.values().iter().all(|key| key == first) => {
                    known.recode(texts, std::iter::once(first.as_usize()), codes);
                    codes.resize(codes.len() + keys.len() - 1, codes[codes.len() - 1]);
                }
                (None, _) => known.recode(texts, all, codes),
            },
            _ => {
                let mut put = |key| plain_text(texts.value(key), &mut self.rows.texts);
                match nulls {
                    Some(_) => valid().for_each(&mut put),
                    None => all.for_each(&mut put),
                }
            }
        }
    }

    /// Whether the dictionary still does.
    fn pays(&self) -> bool {
        match &self.dictionary {
            Some(Dictionary::Numbers(known)) => known.pays(self.total),
            Some(Dictionary::Texts(known)) => known.pays(self.total),
            None => false,
        }
    }

    /// Go on without the dictionary.
    fn give_up_dictionary(&mut self) -> Result<()> {
        if self.pages.need_dictionary() {
            self.end_page()?;
            self.open = false;
            return Ok(());
        }
        // No page holds on to it: it becomes superfluous, and in the next row group, too.
        self.many = true;
        self.open = false;
        let codes = std::mem::take(&mut self.rows.codes);
        let codes = codes.iter().map(|code| usize::from(*code));
        match self.dictionary.take() {
            Some(Dictionary::Numbers(known)) => {
                let numbers = codes.map(|code| known.values[code]);
                self.rows.numbers.extend(numbers);
            }
            Some(Dictionary::Texts(known)) => {
                let values = known.values();
                codes.for_each(|code| plain_text(values[code], &mut self.rows.texts));
            }
            None => {}
        }
        Ok(())
    }

    fn end_page(&mut self) -> Result<()> {
        if self.rows.count == 0 {
            return Ok(());
        }
        self.body.clear();
        if self.descriptor.max_def_level() > 0 {
            self.body.extend_from_slice(&[0; 4]);
            if self.rows.nulls == 0 {
                run(1, self.rows.count, 1, &mut self.body);
            } else {
                hybrid(&self.rows.valid, 1, &mut self.body);
            }
            #[expect(clippy::cast_possible_truncation, reason = "a few KiB")]
            let length = (self.body.len() - 4) as u32;
            self.body[..4].copy_from_slice(&length.to_le_bytes());
        }
        let encoding = self.end_values();
        let rows = &mut self.rows;
        let counts = (rows.count, rows.nulls);
        self.pages
            .push(&self.body, encoding, counts, rows.range.take())?;
        rows.count = 0;
        rows.nulls = 0;
        rows.valid.clear();
        rows.codes.clear();
        rows.numbers.clear();
        rows.texts.clear();
        Ok(())
    }

    /// Append the values of a page to its body.
    fn end_values(&mut self) -> Encoding {
        let Self {
            rows,
            body,
            physical,
            ..
        } = self;
        if let Some(dictionary) = self.dictionary.as_ref().filter(|_| self.open) {
            let values = match dictionary {
                Dictionary::Numbers(known) => known.values.len(),
                Dictionary::Texts(known) => known.len(),
            };
            // Not all readers take a width of 0.
            let width = width(values.saturating_sub(1) as u64).max(1);
            #[expect(clippy::cast_possible_truncation, reason = "at most 16")]
            body.push(width as u8);
            hybrid(&rows.codes, width, body);
            return Encoding::RLE_DICTIONARY;
        }
        match physical {
            Physical::Text => body.extend_from_slice(&rows.texts),
            Physical::Float | Physical::Double => physical.plain(&rows.numbers, body),
            Physical::Int32 | Physical::Int64 => {
                let begin = body.len();
                delta(&rows.numbers, physical.narrow(), body);
                let bytes = if physical.narrow() { 4 } else { 8 };
                if body.len() - begin < rows.numbers.len() * bytes * 3 / 4 {
                    return Encoding::DELTA_BINARY_PACKED;
                }
                body.truncate(begin);
                physical.plain(&rows.numbers, body);
            }
        }
        Encoding::PLAIN
    }

    /// End the row group: the bytes of the column in it, and what the file must know of them.
    pub fn finish(&mut self) -> Result<(Bytes, ColumnCloseResult)> {
        self.end_page()?;
        let pages = std::mem::take(&mut self.pages);
        let values = self.dictionary.take().filter(|_| pages.need_dictionary());
        let finished = match values {
            Some(Dictionary::Numbers(known)) => {
                let mut page = Vec::new();
                self.physical.plain(&known.values, &mut page);
                pages.finish(&self.descriptor, Some((&page, known.values.len())))
            }
            Some(Dictionary::Texts(known)) => {
                pages.finish(&self.descriptor, Some((&known.page, known.len())))
            }
            None => pages.finish(&self.descriptor, None),
        };
        self.begin();
        finished
    }
}
