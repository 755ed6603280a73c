//! Check that tables in Parquet files are read back as written.

use std::sync::Arc;

use arrow_array::builder::{ListBuilder, UInt8Builder};
use arrow_array::types::{
    ArrowDictionaryKeyType, Float32Type, Int8Type, Int32Type, Int64Type, UInt8Type, UInt32Type,
    UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, BooleanArray, DictionaryArray, Int64Array, PrimitiveArray,
    RecordBatch, StringArray, StringViewArray, StructArray,
};
use arrow_buffer::ArrowNativeType;
use arrow_schema::{DataType, Field, Fields, Schema};
use bytes::Bytes;
use parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use parquet::basic::Encoding;
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use roslens_ctf::files::{Order, table_writer};

/// Number of rows in a row group.
const ROW_GROUP: usize = 1 << 17;

/// Make a generator of random numbers (`SplitMix64`).
fn random(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed;
    move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }
}

/// Write a file of rows in batches of the given sizes.
fn file_of(whole: &RecordBatch, order: Order, sizes: &[usize]) -> Bytes {
    let mut writer = table_writer(Vec::new(), &whole.schema(), order, Vec::new()).unwrap();
    let mut at = 0;
    for size in sizes.iter().cycle() {
        if at == whole.num_rows() {
            break;
        }
        let rows = (*size).min(whole.num_rows() - at);
        writer.write(&whole.slice(at, rows)).unwrap();
        at += rows;
    }
    Bytes::from(writer.into_inner().unwrap())
}

/// Write a column `x` after the time, in batches of the given sizes; return what is read back, as
/// one batch, and the file's metadata.
fn written(column: &ArrayRef, nullable: bool, sizes: &[usize]) -> (RecordBatch, ParquetMetaData) {
    let kind = column.data_type().clone();
    let schema = Arc::new(Schema::new(vec![
        Field::new("time_ns", DataType::Int64, false),
        Field::new("x", kind, nullable),
    ]));
    let times: ArrayRef = Arc::new(Int64Array::from_iter_values(
        (0..i64::try_from(column.len()).unwrap()).map(|i| i * i % 977 + i * 1000),
    ));
    let whole = RecordBatch::try_new(Arc::clone(&schema), vec![times, Arc::clone(column)]).unwrap();
    let file = file_of(&whole, Order::Time, sizes);
    let options = ArrowReaderOptions::new()
        .with_page_index_policy(parquet::file::metadata::PageIndexPolicy::Required);
    let builder = ParquetRecordBatchReaderBuilder::try_new_with_options(file, options).unwrap();
    let metadata = builder.metadata().as_ref().clone();
    assert_eq!(builder.schema().fields(), schema.fields());
    let read: Vec<RecordBatch> = builder
        .with_batch_size(whole.num_rows().max(1))
        .build()
        .unwrap()
        .map(Result::unwrap)
        .collect();
    match read.as_slice() {
        [] => assert_eq!(whole.num_rows(), 0),
        [read] => assert_eq!(*read, whole),
        several => panic!("{} batches", several.len()),
    }
    check_times(&whole, &metadata);
    (whole, metadata)
}

/// Check that the statistics of the time in each row group and each page are those of its rows.
fn check_times(whole: &RecordBatch, metadata: &ParquetMetaData) {
    let times = whole
        .column(0)
        .as_any()
        .downcast_ref::<Int64Array>()
        .unwrap();
    let mut at = 0;
    for (number, group) in metadata.row_groups().iter().enumerate() {
        let rows = usize::try_from(group.num_rows()).unwrap();
        let statistics = group.column(0).statistics().unwrap();
        let of = |range: std::ops::Range<usize>| {
            let values = times.values()[range].iter();
            (*values.clone().min().unwrap(), *values.max().unwrap())
        };
        let (min, max) = of(at..at + rows);
        assert_eq!(statistics.min_bytes_opt(), Some(&min.to_le_bytes()[..]));
        assert_eq!(statistics.max_bytes_opt(), Some(&max.to_le_bytes()[..]));
        assert_eq!(statistics.null_count_opt(), Some(0));
        let pages = &metadata.offset_index().unwrap()[number][0].page_locations;
        let parquet::file::page_index::column_index::ColumnIndexMetaData::INT64(index) =
            &metadata.column_index().unwrap()[number][0]
        else {
            panic!("no column index");
        };
        for (page, location) in pages.iter().enumerate() {
            let first = usize::try_from(location.first_row_index).unwrap();
            let end = pages
                .get(page + 1)
                .map_or(rows, |next| usize::try_from(next.first_row_index).unwrap());
            let (min, max) = of(at + first..at + end);
            assert_eq!(index.min_value(page), Some(&min));
            assert_eq!(index.max_value(page), Some(&max));
        }
        at += rows;
    }
}

fn encodings(group: &RowGroupMetaData) -> Vec<Encoding> {
    group.column(1).encodings().collect()
}

const SIZES: [usize; 5] = [1, 16_384, 7, 11_003, 40_000];

fn numbers<T: ArrowPrimitiveType>(values: impl Iterator<Item = T::Native>) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::from_iter_values(values))
}

/// Return the bytes of a file of texts that come with a dictionary.
fn bytes_of(columns: &[ArrayRef], sizes: &[usize]) -> Bytes {
    let fields = columns.iter().enumerate().map(|(number, column)| {
        Field::new(format!("x{number}"), column.data_type().clone(), true)
            .with_metadata([("_PL_CATEGORICAL2".to_owned(), "0;0;u32;".to_owned())].into())
    });
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let whole = RecordBatch::try_new(Arc::clone(&schema), columns.to_vec()).unwrap();
    file_of(&whole, Order::Unknown, sizes)
}

/// Encode texts with keys of 8 or 32 bits, in a dictionary that has more than occur.
fn coded<K: ArrowDictionaryKeyType>(texts: &StringArray, known: &[&str]) -> ArrayRef {
    let keys = texts.iter().map(|text| {
        let place = |text| known.iter().position(|one| *one == text).unwrap();
        text.map(|text| K::Native::usize_as(place(text)))
    });
    let keys: PrimitiveArray<K> = keys.collect();
    let values = StringArray::from_iter_values(known);
    Arc::new(DictionaryArray::new(keys, Arc::new(values)))
}

#[test]
fn texts_with_a_dictionary_are_texts_in_the_file() {
    let known = [
        "never",
        "/chatter",
        "",
        "a name that is too long for a view of sixteen bytes",
        "/rosout",
    ];
    let mut next = random(7);
    let texts: StringArray = (0..ROW_GROUP + 5000)
        .map(|_| match next() % 6 {
            0 => None,
            other => known.get(usize::try_from(other).unwrap()).copied(),
        })
        .collect();
    let narrow = coded::<UInt8Type>(&texts, &known);
    let wide = coded::<UInt32Type>(&texts, &known);
    // Without Arrow's own schema in the file, texts are read as the plain type.
    let texts: ArrayRef = Arc::new(texts);
    for sizes in [&[1 << 20][..], &[1, 4095, 3], &[977]] {
        let file = bytes_of(&[narrow.clone(), wide.clone()], sizes);
        let builder = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
        let fields = ["x0", "x1"].map(|name| Field::new(name, DataType::Utf8, true));
        assert_eq!(builder.schema().fields(), &Fields::from(fields.to_vec()));
        let rows = texts.len();
        let mut read = builder.with_batch_size(rows).build().unwrap();
        let read = read.next().unwrap().unwrap();
        assert_eq!(read.column(0), &texts);
        assert_eq!(read.column(1), &texts);
    }
}

#[test]
fn few_numbers_are_a_dictionary() {
    let mut next = random(1);
    let column = numbers::<UInt64Type>((0..300_000).map(|_| 0x7f3a_0000_0000 + next() % 5 * 256));
    let (_, metadata) = written(&column, false, &SIZES);
    assert_eq!(metadata.num_row_groups(), 300_000_usize.div_ceil(ROW_GROUP));
    for group in metadata.row_groups() {
        assert!(encodings(group).contains(&Encoding::RLE_DICTIONARY));
        // Each value takes three bits.
        assert!(group.column(1).compressed_size() < group.num_rows() * 3 / 8 + 1000);
    }
}

#[test]
fn one_value_takes_no_space() {
    let column = numbers::<Int32Type>(std::iter::repeat_n(-7, 200_000));
    let (_, metadata) = written(&column, true, &SIZES);
    assert!(metadata.row_group(0).column(1).compressed_size() < 500);
}

#[test]
fn many_numbers_are_differences() {
    let mut next = random(2);
    let mut now = -5_i64;
    let mut grow = || {
        now += (next() % 3000).cast_signed();
        now
    };
    let column = numbers::<Int64Type>((0..150_000).map(|_| grow()));
    let (_, metadata) = written(&column, false, &SIZES);
    for group in metadata.row_groups() {
        assert!(encodings(group).contains(&Encoding::DELTA_BINARY_PACKED));
        assert!(!encodings(group).contains(&Encoding::RLE_DICTIONARY));
    }
}

#[test]
fn numbers_without_pattern_take_little_more_than_they_are() {
    let mut next = random(3);
    let column = numbers::<UInt64Type>((0..150_000).map(|_| next()));
    let (_, metadata) = written(&column, false, &SIZES);
    for group in metadata.row_groups() {
        assert!(group.column(1).compressed_size() < group.num_rows() * 9);
    }
    let mut next = random(4);
    #[expect(clippy::cast_possible_truncation, reason = "any 32 bits")]
    let column = numbers::<UInt32Type>((0..50_000).map(|_| next() as u32));
    written(&column, false, &SIZES);
}

#[test]
fn a_dictionary_that_grows_too_large_is_left() {
    // Values are few for more than a page, and then always new.
    let value = |i: u64| if i < 60_000 { i % 100 } else { i * 977 };
    let column = numbers::<UInt64Type>((0..ROW_GROUP as u64 + 5).map(value));
    let (_, metadata) = written(&column, false, &SIZES);
    let found = encodings(metadata.row_group(0));
    assert!(found.contains(&Encoding::RLE_DICTIONARY), "{found:?}");
    assert!(found.contains(&Encoding::DELTA_BINARY_PACKED), "{found:?}");
    // Repeat this with text.
    let text = (0..ROW_GROUP as u64 + 5).map(|i| format!("the text of number {}", value(i)));
    let column: ArrayRef = Arc::new(StringViewArray::from_iter_values(text));
    let (_, metadata) = written(&column, false, &SIZES);
    let found = encodings(metadata.row_group(0));
    assert!(found.contains(&Encoding::RLE_DICTIONARY), "{found:?}");
    assert!(found.contains(&Encoding::PLAIN), "{found:?}");
}

/// Extremes, nulls, texts of any length and nested values, as events have them.
#[test]
fn all_kinds_of_columns_are_kept() {
    let rows = ROW_GROUP + 10;
    let mut next = random(5);
    let wide = (0..rows as u64).map(|i| match i % 4 {
        0 => Some(i64::MIN + i.cast_signed()),
        1 => Some(i64::MAX - i.cast_signed()),
        2 => None,
        _ => Some(next().cast_signed()),
    });
    let narrow = (0..rows).map(|i| [Some(i8::MIN), None, Some(i8::MAX)][i % 3]);
    let floats = [-0.0, f32::NEG_INFINITY, f32::MAX].into_iter().cycle();
    let flags: ArrayRef = Arc::new(
        (0..rows)
            .map(|i| Some(i % 3 == 0))
            .collect::<BooleanArray>(),
    );
    let texts = (0..rows).map(|i| (i % 5 > 0).then(|| "gr\u{fc}\u{df}e ".repeat(i % 90)));
    let texts: ArrayRef = Arc::new(texts.collect::<StringViewArray>());
    let mut gids = ListBuilder::new(UInt8Builder::new());
    for i in 0..rows {
        gids.values().append_slice(&[1, 2, 3][..i % 4]);
        gids.append(i % 7 > 0);
    }
    let both = StructArray::new(
        Fields::from(vec![
            Field::new("value", DataType::Boolean, true),
            Field::new("label", DataType::Utf8View, true),
        ]),
        vec![Arc::clone(&flags), Arc::clone(&texts)],
        None,
    );
    for column in [
        Arc::new(wide.collect::<PrimitiveArray<Int64Type>>()) as ArrayRef,
        Arc::new(narrow.collect::<PrimitiveArray<Int8Type>>()),
        numbers::<Float32Type>(floats.take(rows)),
        flags,
        texts,
        Arc::new(gids.finish()),
        Arc::new(both),
    ] {
        written(&column, true, &SIZES);
    }
    let (_, metadata) = written(&numbers::<Int64Type>(std::iter::empty()), false, &SIZES);
    assert_eq!(metadata.num_row_groups(), 0);
}
