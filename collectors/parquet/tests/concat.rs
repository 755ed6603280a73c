//! Files put one after the other are read back by the crate `parquet` as their rows in turn.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringViewArray};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::file::metadata::RowGroupMetaData;
use roslens_parquet::{KeyValue, Order, ROW_GROUP, TableWriter, concat};

/// A file of rows by number.
fn write(path: &Path, rows: std::ops::Range<i64>) {
    let names = rows.clone().map(|row| format!("name{}", row % 5));
    let names: ArrayRef = Arc::new(StringViewArray::from_iter_values(names));
    let times: ArrayRef = Arc::new(Int64Array::from_iter_values(rows));
    let batch = RecordBatch::try_from_iter([("time_ns", times), ("name", names)]).unwrap();
    let about = vec![KeyValue::new("event".to_owned(), "p:a".to_owned())];
    let file = File::create(path).unwrap();
    let mut writer = TableWriter::new(file, &batch.schema(), Order::Time, about).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
}

#[test]
fn rows_follow_each_other() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("concat");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let group = i64::try_from(ROW_GROUP).unwrap();
    let ends = [0, 10, group + 500, group + 501];
    let parts: Vec<PathBuf> = (0..3).map(|n| folder.join(format!("{n}"))).collect();
    for (path, ends) in parts.iter().zip(ends.windows(2)) {
        write(path, ends[0]..ends[1]);
    }
    let whole = folder.join("whole");
    concat(&parts, &whole).unwrap();
    let builder = ParquetRecordBatchReaderBuilder::try_new(File::open(&whole).unwrap()).unwrap();
    let metadata = Arc::clone(builder.metadata());
    let sizes = metadata.row_groups().iter().map(RowGroupMetaData::num_rows);
    assert_eq!(sizes.collect::<Vec<_>>(), [10, group, 490, 1]);
    let about = metadata.file_metadata().key_value_metadata().unwrap();
    assert!(
        about
            .iter()
            .any(|entry| entry.key == "event" && entry.value.as_deref() == Some("p:a"))
    );
    let mut row = 0;
    for batch in builder.build().unwrap() {
        let batch = batch.unwrap();
        let times = batch.column(0).as_primitive::<Int64Type>().values();
        for (time, name) in times.iter().zip(batch.column(1).as_string_view()) {
            assert_eq!(
                (*time, name),
                (row, Some(format!("name{}", row % 5).as_str()))
            );
            row += 1;
        }
    }
    assert_eq!(row, ends[3]);
    fs::write(&parts[1], "no such file").unwrap();
    let error = concat(&parts, &whole).unwrap_err().to_string();
    assert!(
        error.starts_with(&format!("{}: cannot write: ", parts[1].display())),
        "{error}"
    );
    fs::remove_dir_all(&folder).unwrap();
}
