//! What the own Parquet encoder gains: CPU seconds and bytes of encoding a trace's events into
//! memory, on one thread, against the crate `parquet` with several settings; medians of the rounds.
//!
//! `cargo run --release --features parquet --example encoders -- FOLDER [ROUNDS]` (Linux)

use std::error::Error;

use arrow_array::RecordBatch;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder};
use roslens_ctf::{Want, open};
use roslens_parquet::{Order, ROW_GROUP, TableWriter};

type Result<T> = std::result::Result<T, Box<dyn Error>>;
/// Encodes a table; returns its bytes.
type Encoder = Box<dyn Fn(&[RecordBatch]) -> Result<usize>>;

/// Columns whose values grow or never repeat.
const GROWING: [&str; 4] = ["time_ns", "timestamp", "source_timestamp", "message"];

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or("usage: encoders FOLDER [ROUNDS]")?;
    let rounds = arguments.next().map_or(Ok(5), |rounds| rounds.parse())?;
    let recording = open(folder)?;
    let tables = recording.catalog.tables.len();
    let empty = || Some(vec![Vec::new(); tables]);
    let (_, tables) = recording.decode(&Want::default(), |_, _| Ok(()), empty)?;
    let tables: Vec<Vec<RecordBatch>> = tables.into_iter().filter(|t| !t.is_empty()).collect();
    let events: usize = tables.iter().flatten().map(RecordBatch::num_rows).sum();
    println!("{events} events");
    let bare = || by_crate().set_statistics_enabled(EnabledStatistics::None);
    let set = GROWING.iter().fold(bare(), |set, name| {
        set.set_column_dictionary_enabled((*name).into(), false)
            .set_column_encoding((*name).into(), Encoding::DELTA_BINARY_PACKED)
    });
    let encoders: [(&str, Encoder); 4] = [
        ("roslens-parquet", Box::new(own)),
        (
            "parquet, delta for growing columns, no statistics",
            stock(set),
        ),
        ("parquet, no statistics", stock(bare())),
        ("parquet, default", stock(by_crate())),
    ];
    let mut seconds = vec![Vec::new(); encoders.len()];
    let mut bytes = vec![0; encoders.len()];
    for _ in 0..rounds {
        for (number, (_, encode)) in encoders.iter().enumerate() {
            let begin = cpu()?;
            bytes[number] = tables
                .iter()
                .map(|table| encode(table))
                .sum::<Result<usize>>()?;
            seconds[number].push(cpu()? - begin);
        }
    }
    for ((name, _), (mut seconds, bytes)) in encoders.iter().zip(seconds.into_iter().zip(bytes)) {
        seconds.sort_by(f64::total_cmp);
        println!(
            "{:.3} s  {bytes:>10} bytes  {name}",
            seconds[seconds.len() / 2]
        );
    }
    Ok(())
}

/// Zstandard 1 and the row groups of `roslens-parquet`, so that encoding is what differs.
fn by_crate() -> WriterPropertiesBuilder {
    WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_max_row_group_row_count(Some(ROW_GROUP))
}

fn stock(properties: WriterPropertiesBuilder) -> Encoder {
    let properties = properties.build();
    Box::new(move |batches| {
        let schema = batches[0].schema();
        let mut writer = ArrowWriter::try_new(Vec::new(), schema, Some(properties.clone()))?;
        batches.iter().try_for_each(|batch| writer.write(batch))?;
        Ok(writer.into_inner()?.len())
    })
}

fn own(batches: &[RecordBatch]) -> Result<usize> {
    let schema = batches[0].schema();
    let mut writer = TableWriter::new(Vec::new(), &schema, Order::Time, Vec::new())?;
    batches.iter().try_for_each(|batch| writer.write(batch))?;
    Ok(writer.finish()?.len())
}

/// CPU seconds of this thread.
fn cpu() -> Result<f64> {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    let nanoseconds: f64 = told.split(' ').next().ok_or("no time")?.parse()?;
    Ok(nanoseconds / 1e9)
}
