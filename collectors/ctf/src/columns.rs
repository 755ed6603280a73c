//! Column types and their builders.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, ListArray, StructArray, make_array};
use arrow_buffer::{BooleanBufferBuilder, NullBufferBuilder, OffsetBuffer, ScalarBuffer};
use arrow_data::ArrayData;
use arrow_schema::{DataType, Field as ArrowField, Fields};

use crate::error::{Error, Result};
use crate::model::{ByteOrder, Type};
use crate::plan::Load;
use crate::text::TextBuilder;

/// The type of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// Integer of 8, 16, 32 or 64 bits; signed or not.
    Int(u32, bool),
    /// Floating point number of 32 or 64 bits.
    Float(u32),
    /// UTF-8 text.
    Text,
    /// True or false.
    Bool,
    /// List.
    List(Box<Kind>),
    /// Structure, variant (a structure with one member set), or enumeration (`value`, `label`).
    Struct(Vec<(String, Kind)>),
}

impl Kind {
    /// Return the column type that holds values of `kind`.
    #[must_use]
    pub fn of(kind: &Type) -> Self {
        match kind {
            Type::Int(i) | Type::VarInt(i) if i.mappings.is_empty() => {
                Self::Int(width(i.bits), i.signed)
            }
            Type::Int(i) | Type::VarInt(i) => Self::Struct(vec![
                ("value".into(), Self::Int(width(i.bits), i.signed)),
                ("label".into(), Self::Text),
            ]),
            Type::Float(f) => Self::Float(f.bits.max(32)),
            Type::Text | Type::WideText(_) | Type::WideInt(_) => Self::Text,
            Type::Array(a) if a.is_text() => Self::Text,
            Type::Array(a) => Self::List(Box::new(Self::of(&a.element))),
            Type::Struct(s) => Self::members(&s.fields),
            Type::Variant(v) => Self::members(&v.options),
            Type::Bool(_) => Self::Bool,
            Type::BitMap(b) => Self::Struct(vec![
                ("value".into(), Self::Int(width(b.int.bits), false)),
                ("flags".into(), Self::List(Box::new(Self::Text))),
            ]),
            Type::Optional(o) => Self::of(&o.field.kind),
        }
    }

    fn members(fields: &[crate::model::Field]) -> Self {
        let members = fields.iter().map(|f| (f.name.clone(), Self::of(&f.kind)));
        Self::Struct(members.collect())
    }

    /// Whether it holds nothing: only structures without members at all levels.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        match self {
            Self::Struct(members) => members.iter().all(|(_, kind)| kind.is_nothing()),
            Self::List(element) => element.is_nothing(),
            _ => false,
        }
    }

    /// Return the narrowest kind that holds the values of both, if there is one.
    #[must_use]
    pub fn unify(&self, other: &Self) -> Option<Self> {
        match (self, other) {
            (Self::Int(a, s), Self::Int(b, t)) => {
                Some(Self::Int(unify_ints(*a, *s, *b, *t)?, *s || *t))
            }
            (Self::Float(a), Self::Float(b)) => Some(Self::Float(*a.max(b))),
            (Self::Text, Self::Text) => Some(Self::Text),
            (Self::Bool, Self::Bool) => Some(Self::Bool),
            (Self::List(a), Self::List(b)) => Some(Self::List(Box::new(a.unify(b)?))),
            (Self::Struct(a), Self::Struct(b)) => {
                if a.len() != b.len() {
                    return None;
                }
                let members = a
                    .iter()
                    .zip(b)
                    .map(|((n, k), (m, l))| {
                        let kind = if n == m { k.unify(l) } else { None };
                        kind.map(|kind| (n.clone(), kind))
                    })
                    .collect::<Option<_>>()?;
                Some(Self::Struct(members))
            }
            _ => None,
        }
    }

    /// Return the Arrow type.
    #[must_use]
    pub fn arrow(&self) -> DataType {
        match self {
            Self::Int(8, true) => DataType::Int8,
            Self::Int(16, true) => DataType::Int16,
            Self::Int(32, true) => DataType::Int32,
            Self::Int(_, true) => DataType::Int64,
            Self::Int(8, false) => DataType::UInt8,
            Self::Int(16, false) => DataType::UInt16,
            Self::Int(32, false) => DataType::UInt32,
            Self::Int(_, false) => DataType::UInt64,
            Self::Float(32) => DataType::Float32,
            Self::Float(_) => DataType::Float64,
            Self::Text => DataType::Utf8View,
            Self::Bool => DataType::Boolean,
            Self::List(element) => DataType::List(item(element)),
            Self::Struct(members) => DataType::Struct(struct_fields(members)),
        }
    }
}

fn item(element: &Kind) -> Arc<ArrowField> {
    Arc::new(ArrowField::new("item", element.arrow(), true))
}

fn struct_fields(members: &[(String, Kind)]) -> Fields {
    members
        .iter()
        .filter(|(_, kind)| !kind.is_nothing())
        .map(|(name, kind)| ArrowField::new(name, kind.arrow(), true))
        .collect()
}

/// Round a number of bits up to 8, 16, 32 or 64.
#[must_use]
pub fn width(bits: u32) -> u32 {
    bits.next_power_of_two().clamp(8, 64)
}

fn unify_ints(a: u32, a_signed: bool, b: u32, b_signed: bool) -> Option<u32> {
    if a_signed == b_signed {
        return Some(a.max(b));
    }
    let (signed, unsigned) = if a_signed { (a, b) } else { (b, a) };
    let needed = signed.max(2 * unsigned);
    (needed <= 64).then_some(needed)
}

/// Numbers of one type, as they lie in memory.
#[derive(Debug)]
pub struct Numbers {
    kind: DataType,
    /// Bytes of a number.
    width: usize,
    /// The numbers one after the other.
    pub bytes: Vec<u8>,
}

impl Numbers {
    /// Whether what is loaded can be copied as it is, byte by byte.
    #[must_use]
    pub fn holds(&self, load: Load) -> bool {
        let native = if cfg!(target_endian = "little") {
            ByteOrder::Little
        } else {
            ByteOrder::Big
        };
        load.bytes as usize == self.width && (self.width == 1 || load.order == native)
    }
}

/// The values of a column.
#[derive(Debug)]
pub enum Data {
    /// Integers or floating point numbers.
    Numbers(Numbers),
    /// Text.
    Text(TextBuilder),
    /// True or false.
    Bool(BooleanBufferBuilder),
    /// End of each list among the elements.
    List(Vec<i32>, Box<Column>, Arc<ArrowField>),
    /// Members.
    Struct(Vec<Column>, Fields),
    /// No column: everything that is appended is dropped. Also for structures without members.
    Nothing,
}

/// A column under construction.
#[derive(Debug)]
pub struct Column {
    /// Values.
    pub data: Data,
    /// Which rows hold a value.
    validity: NullBufferBuilder,
}

impl Column {
    /// Make a column that drops everything.
    #[must_use]
    pub fn nothing() -> Self {
        Self {
            data: Data::Nothing,
            validity: NullBufferBuilder::new(0),
        }
    }

    /// Make an empty column.
    #[must_use]
    pub fn new(kind: &Kind) -> Self {
        if kind.is_nothing() {
            return Self::nothing();
        }
        let data = match kind {
            Kind::Int(bits, _) | Kind::Float(bits) => Data::Numbers(Numbers {
                kind: kind.arrow(),
                width: *bits as usize / 8,
                bytes: Vec::new(),
            }),
            Kind::Text => Data::Text(TextBuilder::default()),
            Kind::Bool => Data::Bool(BooleanBufferBuilder::new(0)),
            Kind::List(element) => Data::List(vec![0], Box::new(Self::new(element)), item(element)),
            Kind::Struct(members) => Data::Struct(
                members.iter().map(|(_, kind)| Self::new(kind)).collect(),
                struct_fields(members),
            ),
        };
        Self {
            data,
            validity: NullBufferBuilder::new(0),
        }
    }

    /// Make room for more rows.
    pub fn reserve(&mut self, rows: usize) {
        match &mut self.data {
            Data::Numbers(n) => n.bytes.reserve(rows * n.width),
            Data::Text(t) => t.reserve(rows),
            Data::Bool(bits) => bits.reserve(rows),
            Data::List(ends, ..) => ends.reserve(rows),
            Data::Struct(members, _) => members.iter_mut().for_each(|m| m.reserve(rows)),
            Data::Nothing => {}
        }
    }

    /// Note that `rows` values were put into `data`.
    pub fn valid(&mut self, rows: usize) {
        self.validity.append_n_non_nulls(rows);
    }

    /// Append rows without a value.
    pub fn push_nulls(&mut self, rows: usize) {
        match &mut self.data {
            Data::Numbers(n) => n.bytes.resize(n.bytes.len() + rows * n.width, 0),
            Data::Text(t) => t.push_nulls(rows),
            Data::Bool(bits) => bits.append_n(rows, false),
            Data::List(ends, ..) => {
                let end = ends[ends.len() - 1];
                ends.resize(ends.len() + rows, end);
            }
            Data::Struct(members, _) => members.iter_mut().for_each(|m| m.push_nulls(rows)),
            Data::Nothing => return,
        }
        self.validity.append_n_nulls(rows);
    }

    /// Append one integer, given as 64 bits with its sign extended.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the column is at least as wide as the number"
    )]
    pub fn push_int(&mut self, value: u64) {
        if let Data::Numbers(Numbers { width, bytes, .. }) = &mut self.data {
            match width {
                1 => bytes.push(value as u8),
                2 => bytes.extend((value as u16).to_ne_bytes()),
                4 => bytes.extend((value as u32).to_ne_bytes()),
                _ => bytes.extend(value.to_ne_bytes()),
            }
            self.validity.append_non_null();
        }
    }

    /// Append one floating point number.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "only 32-bit numbers get here"
    )]
    pub fn push_float(&mut self, value: f64) {
        if let Data::Numbers(Numbers { width, bytes, .. }) = &mut self.data {
            match width {
                4 => bytes.extend((value as f32).to_ne_bytes()),
                _ => bytes.extend(value.to_ne_bytes()),
            }
            self.validity.append_non_null();
        }
    }

    /// Append true or false.
    pub fn push_bool(&mut self, value: bool) {
        if let Data::Bool(bits) = &mut self.data {
            bits.append(value);
            self.validity.append_non_null();
        }
    }

    /// Append one text.
    pub fn push_text(&mut self, bytes: &[u8]) {
        if let Data::Text(text) = &mut self.data {
            text.push(bytes);
            self.validity.append_non_null();
        }
    }

    /// Append value and label of an enumeration.
    pub fn push_enum<'l>(&mut self, value: u64, label: impl FnOnce() -> Option<&'l str>) {
        if let Data::Struct(members, _) = &mut self.data
            && let [values, labels] = members.as_mut_slice()
        {
            values.push_int(value);
            match label() {
                Some(label) => labels.push_text(label.as_bytes()),
                None => labels.push_nulls(1),
            }
            self.validity.append_non_null();
        }
    }

    /// End one list whose elements have been appended.
    ///
    /// # Errors
    ///
    /// More than 2^31 elements in one batch.
    pub fn end_list(&mut self) -> Result<()> {
        if let Data::List(ends, elements, _) = &mut self.data {
            let end = i32::try_from(elements.validity.len())
                .map_err(|_| Error::whole("more than 2^31 list elements in one batch"))?;
            ends.push(end);
            self.validity.append_non_null();
        }
        Ok(())
    }

    /// Return the elements of a list column.
    pub fn elements(&mut self) -> &mut Self {
        match self {
            Self {
                data: Data::List(_, elements, _),
                ..
            } => elements,
            nothing => nothing,
        }
    }

    /// Return a member of a structure column.
    pub fn member(&mut self, at: usize) -> &mut Self {
        match self {
            Self {
                data: Data::Struct(members, _),
                ..
            } => &mut members[at],
            nothing => nothing,
        }
    }

    /// Return the Arrow array.
    ///
    /// # Errors
    ///
    /// The parts have different lengths, which is a defect.
    pub fn finish(self) -> Result<ArrayRef> {
        let length = self.validity.len();
        let nulls = self.validity.build();
        Ok(match self.data {
            Data::Numbers(numbers) => {
                let data = ArrayData::builder(numbers.kind)
                    .len(length)
                    .nulls(nulls)
                    .add_buffer(numbers.bytes.into())
                    // Allocators align bytes as the widest numbers need, so nothing is copied.
                    .align_buffers(true);
                make_array(data.build().map_err(arrow)?)
            }
            Data::Text(text) => text.finish(nulls),
            Data::Bool(mut bits) => Arc::new(BooleanArray::new(bits.finish(), nulls)),
            Data::List(ends, elements, field) => {
                let offsets = OffsetBuffer::new(ScalarBuffer::from(ends));
                let elements = elements.finish()?;
                Arc::new(ListArray::try_new(field, offsets, elements, nulls).map_err(arrow)?)
            }
            Data::Struct(members, fields) => {
                let members = members
                    .into_iter()
                    .filter(|m| !matches!(m.data, Data::Nothing))
                    .map(Self::finish)
                    .collect::<Result<Vec<_>>>()?;
                Arc::new(
                    StructArray::try_new_with_length(fields, members, nulls, length)
                        .map_err(arrow)?,
                )
            }
            Data::Nothing => {
                return Err(Error::whole(
                    "a column that holds nothing cannot be finished",
                ));
            }
        })
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn arrow(error: arrow_schema::ArrowError) -> Error {
    Error::whole(format!("cannot build a column: {error}"))
}

#[cfg(test)]
mod tests {
    use arrow_array::cast::AsArray;

    use super::*;

    /// Check the views, which are not checked when a column is finished.
    #[test]
    fn views_of_texts_are_valid() {
        let texts: Vec<Vec<u8>> = (0..300_usize)
            .map(|i| match i % 7 {
                0 => Vec::new(),
                1 => vec![b'x'; i % 14],
                2 => "gr\u{fc}\u{df}e".repeat(i % 5).into_bytes(),
                3 => vec![0xf0, 0x9f, 0x90],
                4 => [b"cut ", &vec![0xc3; i % 20][..]].concat(),
                _ => b"the same long text again and again".to_vec(),
            })
            .collect();
        let mut column = Column::new(&Kind::Text);
        let mut expected = Vec::new();
        for (i, text) in texts.iter().enumerate() {
            if i % 11 == 0 {
                column.push_nulls(2);
                expected.extend([None, None]);
            }
            (0..i % 3).for_each(|_| column.push_text(text));
            let value = String::from_utf8_lossy(text).into_owned();
            expected.extend(std::iter::repeat_n(Some(value), i % 3));
        }
        let array = column.finish().unwrap();
        array.to_data().validate_full().unwrap();
        let array = array.as_string_view();
        let found: Vec<_> = array.iter().map(|t| t.map(str::to_owned)).collect();
        assert_eq!(found, expected);
    }
}
