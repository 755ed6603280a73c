//! Counts the events of a trace folder by name, and shows the first row of each.
//!
//! `cargo run --release --example counts -- FOLDER`

use std::collections::BTreeMap;
use std::error::Error;

use arrow_array::cast::AsArray;
use arrow_array::{Array, RecordBatch, downcast_primitive_array};
use arrow_schema::DataType;
use roslens_ctf::{Want, open};

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args_os().nth(1).ok_or("usage: counts FOLDER")?;
    let recording = open(folder)?;
    let mut found: BTreeMap<String, (usize, RecordBatch)> = BTreeMap::new();
    let mut batches = recording.batches(Want::default())?;
    for item in batches.by_ref() {
        let (name, batch) = item?;
        let rows = batch.num_rows();
        let (count, _) = found.entry(name).or_insert_with(|| (0, batch.slice(0, 1)));
        *count += rows;
    }
    for (name, (count, first)) in &found {
        println!("{count:>10}  {name}");
        for (field, column) in first.schema().fields().iter().zip(first.columns()) {
            println!("{:>12}{} = {}", "", field.name(), shown(column));
        }
    }
    let later = batches.summary().map_or(&[][..], |seen| &seen.losses);
    for loss in recording.losses.iter().chain(later) {
        println!("lost: {} in {}", loss.kind.name(), loss.stream);
    }
    Ok(())
}

/// Return the value of a column in one row as text.
fn shown(column: &dyn Array) -> String {
    if column.is_null(0) {
        return "-".into();
    }
    downcast_primitive_array! {
        column => format!("{:?}", column.value(0)),
        DataType::Utf8View => format!("{:?}", column.as_string_view().value(0)),
        _ => format!("{column:?}"),
    }
}
