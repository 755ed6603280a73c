//! Says what became of the messages of a trace, by topic and by the rule that decided.
//!
//! `cargo run --release --example outcomes -- FOLDER`

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;

use ahash::HashMap;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type, UInt32Type, UInt64Type};
use arrow_array::{Array, ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray, UInt64Array};
use roslens_ctf::{Want, open};
use roslens_model::{
    About, Batch, Gaps, Guesses, Id, Identity, KINDS, Kinds, Model, Process, Registry,
};

type Tables = HashMap<String, RecordBatch>;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args_os().nth(1).ok_or("usage: outcomes FOLDER")?;
    let mut events: HashMap<String, Vec<RecordBatch>> = HashMap::default();
    for item in open(folder)?.batches(Want::default())? {
        let (name, batch) = item?;
        let name = name.trim_start_matches("ros2:").to_owned();
        events.entry(name).or_default().push(batch);
    }

    // A process is a number on a host, and ends with its last event; here all are of one host.
    let mut ends: BTreeMap<i32, i64> = BTreeMap::new();
    for batch in events.values().flatten() {
        let (vpids, times) = (ints(batch, "vpid"), times(batch));
        for (vpid, time) in vpids.iter().zip(times) {
            let end = ends.entry(*vpid).or_insert(*time);
            *end = (*end).max(*time);
        }
    }
    let processes = ends.iter().map(|(vpid, end)| Process {
        host: Some(Id::FIRST),
        namespace: 0,
        vpid: *vpid,
        since: i64::MIN,
        end: *end,
    });
    let identity = Identity::new(&["here".into()], processes.collect());
    let numbers: Vec<i32> = ends.into_keys().collect();

    // What addresses mean; of callbacks nothing is said here, so executions have no names.
    let mut objects = Tables::default();
    let nothing = Vec::new();
    for side in ["publisher", "subscription"] {
        let inits = events.get(&format!("rcl_{side}_init")).unwrap_or(&nothing);
        endpoints(side, inits, &numbers, &mut objects)?;
    }
    let kinds: Vec<String> = events.keys().cloned().collect();
    let about = About {
        enabled: Kinds::named(&kinds),
        happened: Kinds::named(&kinds),
        synchronisation: None,
        guesses: Guesses::default(),
        clocks: HashMap::default(),
    };

    let registry = Registry::new(&objects);
    let mut model = Model::new(identity, registry, about, Gaps::new(&[]), None, 1 << 18);
    let sources = KINDS.iter().filter_map(|(_, name, fields)| {
        let batches = events.remove(*name)?.into_iter();
        let batches = batches.map(|batch| Ok(Batch::new(&batch, fields)));
        Some((
            (*name).to_owned(),
            Box::new(batches) as roslens_model::Batches,
        ))
    });
    model.run(sources.collect())?;

    let mut tables = model.finish()?;
    let mut found: BTreeMap<[String; 3], usize> = BTreeMap::new();
    let mut from = 0;
    while let Some((batch, next)) = tables.batch("messages", None, from)? {
        for row in 0..batch.num_rows() {
            let key = ["topic", "outcome", "reason"].map(|name| text(&batch, name, row));
            *found.entry(key).or_default() += 1;
        }
        from = next;
    }
    for ([topic, outcome, reason], count) in found {
        println!("{count:>8}  {topic}: {outcome} ({reason})");
    }
    Ok(())
}

/// The tables of publishers or subscriptions, and what addresses of the middleware mean.
fn endpoints(
    side: &str,
    inits: &[RecordBatch],
    processes: &[i32],
    objects: &mut Tables,
) -> Result<(), Box<dyn Error>> {
    let vpids = inits.iter().flat_map(|batch| ints(batch, "vpid"));
    let place = |vpid: &i32| i32::try_from(processes.iter().position(|of| of == vpid)?).ok();
    let proc: ArrayRef = Arc::new(vpids.map(place).collect::<Int32Array>());
    let created = inits.iter().flat_map(times).copied();
    let created: ArrayRef = Arc::new(Int64Array::from_iter_values(created));
    let topics = inits
        .iter()
        .flat_map(|batch| batch["topic_name"].as_string_view());
    let topics: ArrayRef = Arc::new(topics.collect::<StringArray>());
    let number = |name: &str| -> ArrayRef {
        let columns = inits.iter().map(|batch| &batch[name]);
        let values = columns.flat_map(|column| column.as_primitive::<UInt64Type>().values());
        Arc::new(UInt64Array::from_iter_values(values.copied()))
    };
    let rows = i64::try_from(proc.len())?;
    let (handle, rmw) = (format!("{side}_handle"), format!("rmw_{side}_handle"));
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows));
    let table = [
        ("proc", Arc::clone(&proc)),
        (&handle, number(&handle)),
        ("created_ns", Arc::clone(&created)),
        ("topic", topics),
        ("queue_depth", number("queue_depth")),
    ];
    objects.insert(format!("{side}s"), RecordBatch::try_from_iter(table)?);
    let table = [
        ("proc", proc),
        (&rmw, number(&rmw)),
        ("since_ns", created),
        (&format!("{side}_id"), numbers),
    ];
    let meanings = RecordBatch::try_from_iter(table)?;
    objects.insert(format!("{side}_by_rmw"), meanings);
    Ok(())
}

fn times(batch: &RecordBatch) -> &[i64] {
    batch["time_ns"].as_primitive::<Int64Type>().values()
}

fn ints<'a>(batch: &'a RecordBatch, name: &str) -> &'a [i32] {
    batch[name].as_primitive::<Int32Type>().values()
}

fn text(batch: &RecordBatch, name: &str, row: usize) -> String {
    let column = batch[name].as_dictionary::<UInt32Type>();
    let words = column.values().as_string_view();
    let word = column.key(row).map(|key| words.value(key));
    word.unwrap_or("-").to_owned()
}
